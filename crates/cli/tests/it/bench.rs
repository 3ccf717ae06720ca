//! `whimbrel bench`.

use crate::command::{fails, prints, whimbrel};

#[test]
fn queries_are_measured_and_others_prepare_them() {
    let text = "create view v as select 1 as a union all select 2; select * from v; select 3 as b";
    let printed = prints(whimbrel(&["bench", "-n", "3", "--format", "csv", text]));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "query,rows,min_ms,median_ms,max_ms");
    assert!(lines[1].starts_with("select * from v,2,"), "{printed}");
    assert!(lines[2].starts_with("select 3 as b,1,"), "{printed}");
    assert_eq!(lines.len(), 3);
    for line in &lines[1..] {
        let times: Vec<f64> = line.split(',').skip(2).map(|n| n.parse().unwrap()).collect();
        assert!(times[0] > 0.0 && times.is_sorted(), "{line}");
    }
}

#[test]
fn without_a_query_there_is_nothing_to_measure() {
    assert_eq!(fails(whimbrel(&["bench", "create view v as select 1 as a"])).0, 2);
    assert_eq!(fails(whimbrel(&["bench", "-n", "0", "select 1"])).0, 2);
}
