//! Results in files.

use crate::command::{Folder, flights};

const QUERY: &str = "select * from (values (1, 'a'), (2, null)) as t(n, word)";

#[test]
fn what_is_written_can_be_read() {
    let folder = Folder::new();
    for name in ["x.parquet", "x.csv", "x.arrow", "x.arrows", "x.json"] {
        assert_eq!(folder.prints(&["sql", "-o", name, QUERY]), "");
        let query = format!("select n, word from '{name}' order by n");
        let text = folder.prints(&["sql", "--format", "csv", &query]);
        assert_eq!(text, "n,word\n1,a\n2,\n", "{name}");
    }
    assert_eq!(folder.names(), ["x.arrow", "x.arrows", "x.csv", "x.json", "x.parquet"]);
}

#[test]
fn copy_writes_a_file_with_options() {
    let folder = Folder::new();
    let copy = format!("copy ({QUERY}) to 'x.csv' (header false, delimiter ';', null '-')");
    assert_eq!(folder.prints(&["sql", &copy]), "");
    assert_eq!(folder.read("x.csv"), "1;a\n2;-\n");
    let (code, text) = folder.fails(&["sql", &format!("copy ({QUERY}) to 'x.csv' (delimter ';')")]);
    assert_eq!(code, 1);
    assert!(text.contains("did you mean \"delimiter\"?"), "{text}");
    assert_eq!(folder.read("x.csv"), "1;a\n2;-\n");
    folder.prints(&["sql", &format!("copy ({QUERY}) to 'x.parquet' (compression zstd)")]);
    let text = folder.prints(&["sql", "--format", "csv", "select count(*) as n from 'x.parquet'"]);
    assert_eq!(text, "n\n2\n");
}

#[test]
fn copy_reads_a_file_into_a_table() {
    let folder = Folder::new();
    folder.file("x.csv", "a;b\n1;007\n2;\n");
    folder.file("y.csv", "008,3\n");
    let script = "create table t (a int, b text); \
                  copy t from 'x.csv' (header, delimiter ';'); \
                  copy t (b, a) from 'y.csv' (header false); \
                  copy t to 'z.csv' (header, delimiter '|'); \
                  select * from t order by a";
    assert_eq!(folder.prints(&["sql", "--format", "csv", script]), "a,b\n1,007\n2,\n3,008\n");
    assert_eq!(folder.read("z.csv"), "a|b\n1|007\n2|\n3|008\n");
    let read = "select b, a from read_csv('x.csv', header = true, delim = ';') order by a";
    assert_eq!(folder.prints(&["sql", "--format", "csv", read]), "b,a\n7,1\n,2\n");
}

#[test]
fn a_query_that_fails_leaves_no_file() {
    let folder = Folder::new();
    let query = format!("select cast(tailnum as int) as n from '{}'", flights());
    let (code, text) = folder.fails(&["sql", "-o", "x.csv", &query]);
    assert_eq!((code, folder.names().len()), (1, 0), "{text}");
    folder.file("x.csv", "as it was");
    assert_eq!(folder.fails(&["sql", "-o", "x.csv", &query]).0, 1);
    assert_eq!(folder.read("x.csv"), "as it was");
    assert_eq!(folder.fails(&["sql", "-o", "missing/x.csv", "select 1"]).0, 1);
}

#[test]
fn shards_and_threads_do_not_change_an_answer() {
    let folder = Folder::new();
    let query = format!(
        "select carrier, count(*) as n, min(dep_delay) as least from '{}' group by carrier order by carrier",
        flights()
    );
    let expected = folder.prints(&["sql", "--format", "csv", &query, "--threads", "1"]);
    assert!(expected.lines().count() > 10, "{expected}");
    for more in [&["--shards", "3"][..], &["--threads", "2"], &["--shards", "2", "--threads", "1"]] {
        let arguments = [&["sql", "--format", "csv", &query], more].concat();
        assert_eq!(folder.prints(&arguments), expected, "{more:?}");
    }
}

#[test]
fn little_memory_is_said_or_enough() {
    let folder = Folder::new();
    let query = format!("select * from '{}' order by tailnum, flight, dep_delay, distance", flights());
    let count = format!("select count(*) as n from ({query} limit 100000)");
    let enough = folder.prints(&["sql", "--format", "csv", &count]);
    assert_eq!(folder.prints(&["sql", "--format", "csv", "--memory-limit", "64MB", &count]), enough);
    let (code, text) = folder.fails(&["sql", "--memory-limit", "10kB", "-o", "x.csv", &query]);
    assert_eq!(code, 1);
    assert!(text.contains("Sort"), "it names the operator: {text}");
}

#[test]
fn packed_files_texts_and_folders_are_read() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path.join("parts")).unwrap();
    let csv = "a,b\n1,x\n2,y\n";
    folder.file("parts/one.csv", csv);
    folder.file("parts/two.csv", "a,b\n3,z\n");
    folder.file("x.txt", csv);
    let packed = |name: &str, tool: &str, text: &str| {
        let packed = folder.file(name, text);
        let status = std::process::Command::new(tool).args(["-q", "-f"]).arg(&packed).status();
        // Whoever has no such tool cannot pack a file for this test.
        status.is_ok_and(|status| status.success())
    };
    let reads = |name: &str, rows: &str| {
        let query = format!("select count(*) as n, sum(a) as s from '{name}'");
        assert_eq!(folder.prints(&["sql", "--format", "csv", &query]), format!("n,s\n{rows}\n"), "{name}");
    };
    reads("x.txt", "2,3");
    reads("parts", "3,6");
    reads("parts/", "3,6");
    if packed("x.csv", "gzip", csv) {
        reads("x.csv.gz", "2,3");
    }
    if packed("x.jsonl", "gzip", "{\"a\": 1}\n{\"a\": 5}\n") {
        reads("x.jsonl.gz", "2,6");
    }
    if packed("y.csv", "zstd", csv) {
        reads("y.csv.zst", "2,3");
    }
    let (code, text) = folder.fails(&["sql", "-o", "z.csv.gz", "select 1"]);
    assert!(code == 1 && text.contains("write z.csv and pack it"), "{text}");
}

#[test]
fn what_is_no_whole_file_is_refused() {
    let folder = Folder::new();
    folder.file("open.csv", "a,b\n1,x\n2,\"y\n3,z\n");
    let (_, text) = folder.fails(&["sql", "select * from 'open.csv'"]);
    assert!(text.contains("open.csv") && text.contains("line 3 is never closed"), "{text}");
    let pipe = folder.path.join("pipe.csv");
    if std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        let (_, text) = folder.fails(&["sql", "select * from 'pipe.csv'"]);
        assert!(text.contains("pipe.csv` is a pipe"), "{text}");
    }
}

/// A query that writes a file for long, and the file in the making.
#[cfg(unix)]
fn writing(folder: &Folder) -> std::process::Child {
    let endless = "copy (select a.value from generate_series(1, 1000000) a(value), generate_series(1, 1000000) b(value)) \
                   to 'x.csv'";
    let child = folder.command(&["sql", endless]).stderr(std::process::Stdio::null()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while !folder.names().iter().any(|name| name.ends_with(".partial")) {
        assert!(begun.elapsed().as_secs() < 120, "{:?}", folder.names());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child
}

#[test]
#[cfg(unix)]
fn nothing_stays_of_a_file_whose_writer_is_ended() {
    let folder = Folder::new();
    let mut child = writing(&folder);
    let ended = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(ended.unwrap().success());
    assert!(!child.wait().unwrap().success());
    assert_eq!(folder.names(), Vec::<String>::new());
    // Killed, it can remove nothing: the next one does.
    let mut child = writing(&folder);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(folder.names().len(), 1);
    folder.prints(&["sql", "copy (select 1 as a) to 'x.csv'"]);
    assert_eq!(folder.names(), ["x.csv"]);
}

#[test]
fn a_url_is_no_place_for_results() {
    let folder = Folder::new();
    let copy = "copy (select 1 as a) to 's3:/bucket/x.csv'";
    let calls: [&[&str]; 4] = [
        &["sql", "-o", "s3://bucket/x.csv", "select 1 as a"],
        &["sql", "-o", "http:/ann:s3cret@h/x.csv", "select 1 as a"],
        &["sql", copy],
        &["sql", "copy (select 1 as a) to 'http://h/x.parquet?sig=s3cret' (format parquet)"],
    ];
    for call in calls {
        let (code, text) = folder.fails(call);
        assert_eq!((code, folder.names().len()), (1, 0), "{text}");
        assert!(text.contains("is a URL") && !text.contains("s3cret"), "{text}");
    }
}
