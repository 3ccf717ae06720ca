//! `whimbrel bounded`: a store is measured, and says what it promises.

use crate::command::Folder;
use whimbrel_bounded::{Database, EmbeddedStore};

const QUERY: &str = "select text from thoughts where owner = ? order by at desc limit 10";

#[test]
fn a_store_is_measured_and_a_picture_drawn() {
    let folder = Folder::new();
    let table =
        "create table thoughts (owner varchar(20), at bigint, text varchar(140), primary key (owner, at))";
    let db = Database::open(EmbeddedStore::open(folder.path.join("app.redb")).unwrap()).unwrap();
    db.execute(table, &[]).unwrap();
    drop(db);
    let code = |arguments: &[&str]| {
        folder.command(&[&["bounded"], arguments].concat()).output().unwrap().status.code().unwrap()
    };
    let rows = ["--vary", "rows=1..20"];
    let predict =
        |more: &[&str]| code(&[&["predict", "app.redb", QUERY, "--slo", "50% under 10s"], more].concat());
    assert_eq!(predict(&[]), 1, "it was not measured yet");
    let measure = ["measure", "app.redb", "--intervals", "1", "--samples", "5"];
    assert_eq!(code(&measure), 0);
    assert_eq!(code(&[&measure[..], &["--add"]].concat()), 0);
    assert_eq!(predict(&[]), 0);
    assert_eq!(predict(&[&rows[..], &["--svg", "chart.svg"]].concat()), 0);
    assert!(std::fs::read_to_string(folder.path.join("chart.svg")).unwrap().contains("50% under 10s"));
    assert_eq!(predict(&[&rows[..], &["--vary", "thoughts(owner)=5..50"]].concat()), 0);
    assert_eq!(predict(&["--vary", "rows"]), 2);
    assert_eq!(code(&["predict", "app.redb", QUERY, "--slo", "often"]), 2);
}
