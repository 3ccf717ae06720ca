//! Standard input as a table that grows.

use crate::command::whimbrel;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A query that is kept up to date, what goes in and what comes out.
fn live(query: &str) -> (Child, ChildStdin, Lines<BufReader<ChildStdout>>) {
    started(&["sql", "--live", query])
}

fn started(arguments: &[&str]) -> (Child, ChildStdin, Lines<BufReader<ChildStdout>>) {
    let mut child = whimbrel(arguments);
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
    let message = String::from_utf8(ended.stderr).unwrap();
    assert!(message.starts_with("error: standard input: "), "{message}");
}

#[test]
fn it_is_an_external_table_with_a_time() {
    let clicks = "create external table clicks (time timestamp, item varchar) stored as json location '-' \
                  options (time 'time', disorder '5 minutes')";
    let query = "select window_end, item, count(*) as n \
                 from tumble(table clicks, descriptor(time), interval '10 minutes') group by window_end, item";
    let (mut child, mut input, mut output) = started(&["sql", &format!("{clicks}; {query}")]);
    let came = [("09:01", "tea"), ("09:07", "tea"), ("09:04", "rum"), ("09:16", "tea"), ("09:30", "gin")];
    for (time, item) in came {
        writeln!(input, r#"{{"time": "2013-07-01T{time}:00", "item": "{item}"}}"#).unwrap();
    }
    // The window has passed, and what came late is in it.
    let mut first = [output.next().unwrap().unwrap(), output.next().unwrap().unwrap()];
    first.sort();
    assert!(first[0].contains(r#""item":"rum","n":1"#), "{first:?}");
    assert!(first[1].contains(r#""item":"tea","n":2"#), "{first:?}");
    drop(input);
    assert!(output.next().unwrap().unwrap().contains(r#""item":"tea","n":1"#));
    assert!(output.next().unwrap().unwrap().contains(r#""item":"gin","n":1"#));
    assert!(output.next().is_none());
    assert!(child.wait().unwrap().success());
}

#[test]
fn its_columns_are_those_of_its_first_rows_in_any_number_of_shards() {
    let sql = "create external table prices stored as csv location '-'; \
               select item, max(price) as most from prices group by item emit changes";
    let (mut child, mut input, mut output) = started(&["sql", "--shards", "3", sql]);
    input.write_all(b"item,price\ntea,2\n").unwrap();
    assert_eq!(output.next().unwrap().unwrap(), "change,item,most");
    assert_eq!(output.next().unwrap().unwrap(), "1,tea,2");
    input.write_all(b"tea,5\n").unwrap();
    assert_eq!(output.next().unwrap().unwrap(), "-1,tea,2");
    assert_eq!(output.next().unwrap().unwrap(), "1,tea,5");
    drop(input);
    assert!(output.next().is_none());
    assert!(child.wait().unwrap().success());
}

#[test]
fn it_is_read_once() {
    let message = |arguments: &[&str], text: &str| {
        let (child, mut input, _) = started(arguments);
        // Whoever does not want it may have gone.
        let _ = input.write_all(text.as_bytes());
        drop(input);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(1));
        String::from_utf8(ended.stderr).unwrap()
    };
    let table = "create external table t (n int) stored as json location '-';";
    let twice = format!("{table} create external table u (n int) stored as json location '-'");
    assert!(message(&["sql", &twice], "").contains("a table already"));
    assert!(message(&["sql"], table).contains("has the statements"));
    let parquet = "create external table t (n int) stored as parquet location '-'";
    assert!(message(&["sql", parquet], "").contains("its rows are lines"));
    let wrong = format!("{table} select n from t");
    assert!(message(&["sql", &wrong], "{\"n\": \"one\"}").contains("standard input: "));
}

#[test]
fn there_has_to_be_a_query_beside_it() {
    let output = whimbrel(&["sql", "--live"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn rows_before_a_line_that_is_wrong_are_handed_on() {
    for (first, wrong, message) in [
        ("{\"n\":1}", "{\"n\":2.5}", "line 3: column \"n\": '2.5' cannot be read as bigint"),
        ("{\"n\":1}", "{\"n\":oops}", "line 3: "),
    ] {
        let (mut child, mut input, mut output) = live("select n from stdin");
        writeln!(input, "{first}").unwrap();
        assert_eq!(output.next().unwrap().unwrap(), r#"{"n":1}"#);
        write!(input, "{{\"n\":2}}\n{wrong}\n").unwrap();
        drop(input);
        assert_eq!(output.next().unwrap().unwrap(), r#"{"n":2}"#);
        assert!(output.next().is_none());
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
        assert!(stderr.contains(message), "{stderr}");
        assert!(!child.wait().unwrap().success());
    }
}
