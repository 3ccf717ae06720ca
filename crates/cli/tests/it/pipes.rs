//! Others that read what is printed, stop reading, or interrupt.

use crate::command::{Folder, flights, whimbrel};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn nobody_minds_a_closed_pipe() {
    let query = format!("select * from '{}'", flights());
    for format in ["csv", "json", "markdown", "line", "arrow"] {
        let mut child = whimbrel(&["sql", "--format", format, &query])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 100]).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{format}");
        assert_eq!(output.status.code(), Some(0), "{format}");
    }
}

#[test]
fn rows_come_as_soon_as_a_statement_has_ended() {
    let mut child =
        whimbrel(&["--format", "csv"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for n in 1..=3 {
        writeln!(input, "select {n} as n;").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "n");
        assert_eq!(lines.next().unwrap().unwrap(), n.to_string());
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_interrupt_ends_a_query_with_130() {
    let folder = Folder::new();
    let query = format!(
        "select count(*) from '{0}' a, '{0}' b where a.dep_delay + b.dep_delay < a.distance",
        flights()
    );
    for threads in ["1", "2"] {
        let child = folder
            .command(&["sql", "-o", "x.csv", "--threads", threads, &query])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "interrupted\n");
        assert_eq!(folder.names(), Vec::<String>::new());
    }
}

#[test]
#[cfg(unix)]
fn an_interrupt_ends_the_wait_for_a_reader() {
    let folder = Folder::new();
    let pipe = folder.path.join("pipe.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let copy = ["sql", "copy (select 1 as a) to 'pipe.csv'"];
    for call in [&["sql", "-o", "pipe.csv", "select 1 as a"][..], &copy] {
        let child = folder.command(call).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
    }
    // A reader that comes later gets all of it.
    let child = folder.command(&copy).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(std::fs::read_to_string(&pipe).unwrap(), "a\n1\n");
    assert!(child.wait_with_output().unwrap().status.success());
}
