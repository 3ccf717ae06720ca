//! What is said of a statement that is wrong, and where.

use crate::support::*;

#[test]
fn the_place_is_shown_and_the_nearest_name() {
    let mut session = with("create table clicks(item varchar, price int)");
    let said = wrong(&mut session, "select itme\nfrom clicks");
    assert!(said.starts_with("column \"itme\" not found; did you mean \"item\"?"), "{said}");
    assert!(said.ends_with("\nline 1: select itme\n               ^^^^"), "{said}");
    let said = wrong(&mut session, "select item\n  from clikcs");
    assert!(said.starts_with("there is no table \"clikcs\"; did you mean \"clicks\"?"), "{said}");
    assert!(said.ends_with("\nline 2:   from clikcs\n               ^^^^^^"), "{said}");
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
    let said = wrong(&mut session, "select 1 +\n) x");
    assert!(said.starts_with("syntax error: "), "{said}");
    assert!(said.contains("\nline "), "{said}");
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
    let said = wrong(&mut session, "select unknown_function(a) from t");
    assert!(said.contains("unknown_function"), "{said}");
    let said = wrong(&mut session, "select sum(b) over x from t");
    assert!(!said.contains("DataFusion"), "{said}");
}

#[test]
fn errors_speak_sql_and_show_their_place() {
    let mut session = with("create table t(a int, b varchar)");
    let said = wrong(&mut session, "select cout(a) from t");
    assert!(said.contains("did you mean \"count\"") && said.contains("^^^^"), "{said}");
    let said = wrong(&mut session, "select a from t where a = 'x'");
    assert!(said.contains("'x' cannot be read as int") && said.ends_with("^^^"), "{said}");
    let said = wrong(&mut session, "select *, count(*) from t");
    assert!(said.contains("add it to group by") && !said.contains("wildcard"), "{said}");
    let said = wrong(&mut session, "select a from t tablesample 10 percent");
    assert!(said.contains("samples of rows are not there") && said.contains("^"), "{said}");
}
