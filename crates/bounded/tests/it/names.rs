//! Names with capital letters, dots and words of SQL.

use crate::support::{ask, bound, counted, refusal, script};

const SCHEMA: &str = r#"
    create table "Post" (id int primary key, "By" int not null, ok boolean, cardinality limit 10 ());
    create table "a.b" (id int primary key, post int references "Post", "order" int, cardinality limit 5 (post));
    create table list1 (id int primary key);
    insert into "Post" values (1, 1, true), (2, 2, true), (3, 3, false);
    insert into "a.b" values (10, 1, 7), (11, 2, 8);
    insert into list1 values (1), (2)"#;

#[test]
fn predicates_are_kept_whatever_tables_are_called() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    let cases: [(&str, &[&str]); 11] = [
        (r#"select count(*) from "Post" where "By" = 77"#, &["0"]),
        (r#"select id from "Post" where ok order by id desc"#, &["2", "1"]),
        (r#"select "X".id from "Post" "X" where "X".id = 99 limit 1"#, &[]),
        (r#"select "x.y".id from "Post" "x.y" where "x.y".id = 2"#, &["2"]),
        (r#"select p."By", b.id from "a.b" b join "Post" p on p.id = b.post where b.id = 11"#, &["2|11"]),
        (
            r#"select "Post".id, "a.b".id from "Post" left join "a.b" on "a.b".post = "Post".id where "Post".id = 1"#,
            &["1|10"],
        ),
        (
            r#"select id from "Post" where exists (select 1 from "a.b" where post = "Post".id) order by id"#,
            &["1", "2"],
        ),
        (r#"select id from "Post" order by id paginate 2"#, &["1", "2"]),
        (r#"update "Post" set ok = false where "By" = 1 returning id, ok"#, &["1|false"]),
        (r#"delete from "a.b" where id = 11 and "order" = 8 returning id"#, &["11"]),
        ("select id from list1 where id in (2, 3)", &["2"]),
    ];
    for (sql, answer) in cases {
        assert_eq!(ask(&db, sql, &[]), answer, "{sql}");
    }
    assert_eq!(bound(&db, r#"select "X".id from "Post" "X" where "X".id = 1"#), (1, 1));
}

#[test]
fn views_are_kept_of_such_tables() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    script(
        &db,
        r#"create materialized view "Sums" as
            select "Post"."By" as "By", sum("a.b"."order") as n from "a.b" join "Post" on "Post".id = "a.b".post group by "Post"."By";
           insert into "a.b" values (12, 1, 3)"#,
    );
    assert_eq!(ask(&db, r#"select n from "Sums" where "By" = 1"#, &[]), ["10"]);
}

#[test]
fn fixes_can_be_pasted() {
    let (db, _) = counted();
    script(&db, r#"create table "Log" (id int primary key, "order" int, "User" int)"#);
    for sql in [r#"select id from "Log" where "order" = ?"#, r#"select id from "Log" where "User" = 1"#] {
        let fixes = refusal(&db, sql).fixes;
        let limit = fixes.iter().find(|fix| fix.paste.starts_with("alter table \"Log\" add")).unwrap();
        script(&db, &limit.paste);
        bound(&db, sql);
    }
}
