//! `whimbrel sql`: where statements come from, and how they fail.

use crate::command::{Folder, fails, prints, prints_for, reads, whimbrel};

#[test]
fn a_query_is_an_argument() {
    let expected = "\
┌───────┐
│     a │
│ int64 │
├───────┤
│     1 │
└───────┘
1 row
";
    assert_eq!(prints(whimbrel(&["sql", "select 1 as a"])), expected);
    assert_eq!(prints(whimbrel(&["sql", "-c", "select 1 as a"])), expected);
    assert_eq!(prints(whimbrel(&["-c", "select 1 as a"])), expected);
    assert_eq!(prints(whimbrel(&["sql", "select 1 as a;", "--threads", "1"])), expected);
}

#[test]
fn statements_come_from_a_file_or_standard_input() {
    let folder = Folder::new();
    let script =
        "create view v as\n  select 1 as a;\n-- a comment; with a semicolon\nselect a, ';' as b from v;";
    folder.file("q.sql", script);
    let expected = "a,b\n1,;\n";
    assert_eq!(folder.prints(&["sql", "-f", "q.sql", "--format", "csv"]), expected);
    assert_eq!(folder.prints(&["run", "q.sql", "--format", "csv"]), expected);
    assert_eq!(prints_for(whimbrel(&["sql", "--format", "csv"]), script), expected);
    assert_eq!(prints_for(whimbrel(&["--format", "csv"]), script), expected);
    assert_eq!(prints_for(whimbrel(&["sql", "-f", "-", "--format", "csv"]), script), expected);
}

#[test]
fn scripts_may_hold_commands() {
    let script = ".mode csv\nselect 1 as a;\n\\x\nselect 2 as b;\n.quit\nselect 3 as c;\n";
    assert_eq!(prints_for(whimbrel(&[]), script), "a\n1\nb = 2\n");
}

#[test]
fn an_error_points_into_the_query() {
    let (code, text) = fails(whimbrel(&["sql", "select itme from (values (1)) as t(item)"]));
    assert_eq!(code, 1);
    assert!(text.starts_with("error: ") && text.contains("did you mean \"item\"?"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("line 1: select itme")).unwrap();
    assert_eq!(lines[at + 1].find('^'), lines[at].find("itme"), "{text}");
}

#[test]
fn an_error_in_a_file_has_its_name_and_line() {
    let folder = Folder::new();
    folder.file("q.sql", "select 1 as a;\n\nselect\n  nothing;\n");
    let output = folder.command(&["sql", "-f", "q.sql", "--format", "csv"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    // What came before it was done.
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a\n1\n");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("error: q.sql:3: "), "{text}");
}

#[test]
fn a_script_ends_at_the_first_error() {
    let output = reads(whimbrel(&["--format", "csv"]), "select 1 as a; select wrong; select 2 as b;");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a\n1\n");
}

#[test]
fn exit_codes_say_who_is_to_blame() {
    let folder = Folder::new();
    assert_eq!(folder.fails(&["sql", "select"]).0, 1);
    assert_eq!(folder.fails(&["sql", "select * from 'missing.parquet'"]).0, 1);
    assert_eq!(folder.fails(&["sql", "-f", "missing.sql"]).0, 1);
    assert_eq!(folder.fails(&["sql", "--shards", "0", "select 1"]).0, 2);
    assert_eq!(folder.fails(&["sql", "--memory-limit", "much", "select 1"]).0, 2);
    assert_eq!(folder.fails(&["sqk"]).0, 2);
    assert_eq!(folder.fails(&["-c", "select 1", "sql", "select 2"]).0, 2);
    assert_eq!(folder.fails(&["run", "plan.txt"]).0, 2);
    let (code, text) = folder.fails(&["sql", "select * from 'missing.parquet'"]);
    assert_eq!(code, 1);
    assert!(text.contains("missing.parquet"), "{text}");
}

#[test]
fn a_command_that_is_not_there_has_a_neighbour() {
    let output = reads(whimbrel(&[]), ".tabels\n");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "error: there is no command .tabels; did you mean .tables?\n");
}

#[test]
fn help_has_the_exit_codes() {
    for arguments in [&["--help"][..], &["sql", "--help"], &["bench", "--help"]] {
        let text = prints(whimbrel(arguments));
        assert!(text.contains("130  interrupted"), "{text}");
    }
    assert!(prints(whimbrel(&["--version"])).starts_with("whimbrel 0."));
    assert!(prints(whimbrel(&["completions", "bash"])).contains("--max-rows"));
}

#[test]
fn the_time_is_said_on_standard_error() {
    let output = whimbrel(&["sql", "--time", "--format", "csv", "select 1 as a"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a\n1\n");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.ends_with("s\n") && text.lines().count() == 1, "{text}");
}

#[test]
fn a_python_file_is_run_by_the_environments_python() {
    let folder = Folder::new();
    folder.file("plan.py", "import sys\nprint(sys.argv[1:])\nsys.exit(7)\n");
    let output = folder.command(&["run", "plan.py", "--a", "b"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "['--a', 'b']\n");
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn explain_shows_the_plan() {
    let query = "select a from (values (1), (2)) as t(a) where a > 1";
    let text = prints(whimbrel(&["explain", query]));
    assert_eq!(prints(whimbrel(&["sql", &format!("explain {query}")])), text);
    assert!(!text.is_empty());
    let analyzed = prints(whimbrel(&["explain", "--analyze", query]));
    assert!(analyzed.contains("1 rows out"), "{analyzed}");
}
