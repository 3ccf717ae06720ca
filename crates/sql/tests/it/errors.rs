//! What is message of a statement that is wrong, and where.

use crate::support::*;

#[test]
fn the_place_is_shown_and_the_nearest_name() {
    let mut session = with("create table clicks(item varchar, price int)");
    let message = wrong(&mut session, "select itme\nfrom clicks");
    assert!(message.starts_with("column \"itme\" not found; did you mean \"item\"?"), "{message}");
    assert!(message.ends_with("\nline 1: select itme\n               ^^^^"), "{message}");
    let message = wrong(&mut session, "select item\n  from clikcs");
    assert!(message.starts_with("there is no table \"clikcs\"; did you mean \"clicks\"?"), "{message}");
    assert!(message.ends_with("\nline 2:   from clikcs\n               ^^^^^^"), "{message}");
}

#[test]
fn passwords_in_urls_are_not_shown() {
    let mut session = session();
    let shown =
        wrong(&mut session, "select nothing from 'https://ann:s3cret@host/x.parquet?sig=s3cret', t where");
    assert!(shown.contains("ann:***@host/x.parquet?sig=***") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn syntax_errors_have_a_place() {
    let mut session = session();
    let message = wrong(&mut session, "select 1 +\n) x");
    assert!(message.starts_with("syntax error: "), "{message}");
    assert!(message.contains("\nline "), "{message}");
    assert!(wrong(&mut session, "select 'a").contains("syntax error"));
    assert!(wrong(&mut session, "").contains("there is no statement"));
    assert!(wrong(&mut session, "select 1; select 2").contains("one by one"));
}

#[test]
fn other_errors_say_what_to_do() {
    let mut session = with("create table t(a int, b varchar)");
    assert!(
        wrong(&mut session, "select * from 'nowhere.parquet'").contains("`nowhere.parquet` does not exist")
    );
    assert!(wrong(&mut session, "insert into x values (1)").contains("there is no table \"x\""));
    assert!(wrong(&mut session, "update t set c = 1").contains("column \"c\" not found"));
    assert!(wrong(&mut session, "copy t to 'x.bin'").contains("stored as"));
    assert!(wrong(&mut session, "grant all on t to x").contains("grant"));
    let message = wrong(&mut session, "select unknown_function(a) from t");
    assert!(message.contains("unknown_function"), "{message}");
    let message = wrong(&mut session, "select sum(b) over x from t");
    assert!(!message.contains("DataFusion"), "{message}");
}

#[test]
fn errors_speak_sql_and_show_their_place() {
    let mut session = with("create table t(a int, b varchar)");
    let message = wrong(&mut session, "select cout(a) from t");
    assert!(message.contains("did you mean \"count\"") && message.contains("^^^^"), "{message}");
    let message = wrong(&mut session, "select a from t where a = 'x'");
    assert!(message.contains("'x' cannot be read as int") && message.ends_with("^^^"), "{message}");
    let message = wrong(&mut session, "select *, count(*) from t");
    assert!(message.contains("add it to group by") && !message.contains("wildcard"), "{message}");
    let message = wrong(&mut session, "select a from t tablesample 10 percent");
    assert!(message.contains("samples of rows are not there") && message.contains("^"), "{message}");
}
