//! Forms of results.

use crate::command::{Folder, flights, prints, whimbrel};

const ROWS: &str = "select * from (values (1, 'a,b', null, 1.5), (-20, 'x|y', 'line
break', 2.25)) as t(n, word, maybe, price) order by n desc";

fn shown(format: &str) -> String {
    prints(whimbrel(&["sql", "--format", format, ROWS]))
}

#[test]
fn a_table_has_types_and_escapes() {
    let expected = "\
┌───────┬─────────┬─────────────┬──────────────┐
│     n │ word    │ maybe       │        price │
│ int64 │ varchar │ varchar     │ decimal(3,2) │
├───────┼─────────┼─────────────┼──────────────┤
│     1 │ a,b     │ NULL        │         1.50 │
│   -20 │ x|y     │ line\\nbreak │         2.25 │
└───────┴─────────┴─────────────┴──────────────┘
2 rows
";
    assert_eq!(shown("table"), expected);
}

#[test]
fn other_forms_have_the_same_values() {
    assert_eq!(shown("csv"), "n,word,maybe,price\n1,\"a,b\",,1.50\n-20,x|y,\"line\nbreak\",2.25\n");
    let json = shown("json");
    assert_eq!(json.lines().count(), 2, "{json}");
    assert!(json.starts_with(r#"{"n":1,"word":"a,b","maybe":null,"price":1.50}"#), "{json}");
    assert_eq!(
        shown("markdown"),
        "| n | word | maybe | price |\n| ---: | --- | --- | ---: |\n| 1 | a,b | NULL | 1.50 |\n\
         | -20 | x\\|y | line\\nbreak | 2.25 |\n"
    );
    assert_eq!(
        shown("line"),
        "    n = 1\n word = a,b\nmaybe = NULL\nprice = 1.50\n\n    n = -20\n word = x|y\nmaybe = line\\nbreak\nprice = 2.25\n"
    );
}

#[test]
fn times_are_as_sql_writes_them() {
    let query = "select timestamp '2013-01-02 03:04:05' as t, timestamp '2013-01-02 03:04:05.25' as u, \
                 date '2013-01-02' as d, [1, 2] as l";
    let expected = "t,u,d,l\n2013-01-02 03:04:05,2013-01-02 03:04:05.250,2013-01-02,\"[1, 2]\"\n";
    assert_eq!(prints(whimbrel(&["sql", "--format", "csv", query])), expected);
}

#[test]
fn a_long_table_has_its_first_and_last_rows() {
    let query = format!("select flight from '{}' order by flight", flights());
    let text = prints(whimbrel(&["sql", "--max-rows", "4", &query]));
    let expected = "\
┌────────┐
│ flight │
";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(text.lines().count(), 4 + 4 + 3, "{text}");
    assert!(text.ends_with(" rows (4 shown)\n"), "{text}");
    let all = prints(whimbrel(&["sql", "--max-rows", "0", &format!("select * from ({query}) limit 100")]));
    assert_eq!(all.lines().count(), 4 + 100 + 2);
}

#[test]
fn a_wide_table_fits() {
    let query = format!("select * from '{}' limit 3", flights());
    let text = prints(whimbrel(&["sql", "--max-width", "60", &query]));
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    assert!(text.contains("columns (") && text.contains(" … "), "{text}");
}

#[test]
fn an_empty_result_has_its_columns() {
    let query = "select 1 as a where false";
    assert_eq!(prints(whimbrel(&["sql", "--format", "csv", query])), "a\n");
    assert_eq!(prints(whimbrel(&["sql", "--format", "json", query])), "");
    assert!(prints(whimbrel(&["sql", query])).ends_with("0 rows\n"));
}

#[test]
fn two_results_are_two_tables() {
    let folder = Folder::new();
    let text = "select 1 as a; select 2 as b";
    assert_eq!(folder.prints(&["sql", "--format", "csv", text]), "a\n1\nb\n2\n");
    assert_eq!(folder.prints(&["sql", "-o", "both.csv", text]), "");
    assert_eq!(folder.read("both.csv"), "a\n1\nb\n2\n");
    let (code, message) = folder.fails(&["sql", "-o", "both.parquet", text]);
    assert_eq!(code, 1);
    assert!(message.contains("both.parquet has the rows of an earlier query already"), "{message}");
}
