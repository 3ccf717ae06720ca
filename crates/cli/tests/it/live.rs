//! Standard input as a table that grows.

use crate::command::whimbrel;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A query that is kept up to date, what goes in and what comes out.
fn live(query: &str) -> (Child, ChildStdin, Lines<BufReader<ChildStdout>>) {
    let mut child = whimbrel(&["sql", "--live", query]);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, input, BufReader::new(output).lines())
}

#[test]
fn changes_come_while_lines_do() {
    let (mut child, mut input, mut output) =
        live("select item, count(*) as n from stdin group by item emit changes");
    let mut next = || output.next().unwrap().unwrap();
    writeln!(input, r#"{{"item": "tea", "price": 2.5}}"#).unwrap();
    assert_eq!(next(), r#"{"change":1,"item":"tea","n":1}"#);
    writeln!(input, r#"{{"item": "tea", "new": true}}"#).unwrap();
    assert_eq!(next(), r#"{"change":-1,"item":"tea","n":1}"#);
    assert_eq!(next(), r#"{"change":1,"item":"tea","n":2}"#);
    drop(input);
    assert!(output.next().is_none());
    assert!(child.wait().unwrap().success());
}

#[test]
fn lines_of_values_have_their_names_above() {
    let (mut child, mut input, mut output) =
        live("select item, price * 2 as twice from stdin where price > 1");
    input.write_all(b"item,price\ntea,2\n").unwrap();
    assert_eq!(output.next().unwrap().unwrap(), "item,twice");
    assert_eq!(output.next().unwrap().unwrap(), "tea,4");
    // A line in two pieces, and a last one without an end.
    input.write_all(b"rum,").unwrap();
    input.write_all(b"1\nmilk,3").unwrap();
    drop(input);
    assert_eq!(output.next().unwrap().unwrap(), "milk,6");
    assert!(output.next().is_none());
    assert!(child.wait().unwrap().success());
}

#[test]
fn final_rows_come_at_the_end() {
    let (mut child, mut input, output) = live("select count(*) as n from stdin");
    for n in 0..1000 {
        writeln!(input, r#"{{"n": {n}}}"#).unwrap();
    }
    drop(input);
    let lines: Vec<String> = output.map(Result::unwrap).collect();
    assert_eq!(lines, [r#"{"n":1000}"#]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_line_that_cannot_be_read_ends_it() {
    let (child, mut input, mut output) = live("select n from stdin");
    writeln!(input, r#"{{"n": 1}}"#).unwrap();
    assert_eq!(output.next().unwrap().unwrap(), r#"{"n":1}"#);
    writeln!(input, r#"{{"n": "one"}}"#).unwrap();
    assert!(output.next().is_none());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.starts_with("error: standard input: "), "{said}");
}

#[test]
fn there_has_to_be_a_query_beside_it() {
    let output = whimbrel(&["sql", "--live"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
