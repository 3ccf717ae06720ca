//! `whimbrel lint`: what it finds in files, in every form, and how it ends.

use crate::command::{Folder, whimbrel};
use serde_json::Value;
use std::process::Command;

fn folder(files: &[&str]) -> Folder {
    let folder = Folder::new();
    for file in files {
        let from = std::path::Path::new("tests/lint").join(file);
        std::fs::copy(from, folder.path.join(file)).unwrap();
    }
    folder
}

/// Exit code and what was printed; nothing went to standard error.
fn run(mut command: Command) -> (i32, String) {
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn json(folder: &Folder, arguments: &[&str]) -> (i32, Value) {
    let (code, text) = run(folder.command(&[&["lint", "--format", "json"], arguments].concat()));
    (code, serde_json::from_str(&text).unwrap())
}

/// Rule and query of each finding that has to be mended.
fn errors(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["error"] == true);
    findings
        .map(|f| format!("{} {}", f["rule"].as_str().unwrap(), f["query"].as_str().unwrap_or("-")))
        .collect()
}

#[test]
fn scadr_has_bounds() {
    let folder = folder(&["scadr.sql", "scadr_queries.sql"]);
    let (code, report) = json(&folder, &["scadr.sql", "scadr_queries.sql"]);
    assert_eq!((code, errors(&report)), (0, vec![]));
    let bounds = report["queries"].as_array().unwrap().iter();
    let bounds: Vec<String> = bounds
        .map(|q| format!("{} {}/{}", q["name"], q["bound"]["requests"], q["bound"]["rounds"]))
        .collect();
    let expected = [
        "\"find_user\" 1/1",
        "\"my_thoughts\" 1/1",
        "\"followed\" 11/2",
        "\"thought_stream\" 101/2",
        "\"following\" 11/2",
        "\"subscription\" 1/1",
        "\"intersection\" 50/1",
    ];
    assert_eq!(bounds[..7], expected);
    let (code, text) = run(folder.command(&["lint", "scadr.sql", "scadr_queries.sql"]));
    assert_eq!(code, 0);
    assert!(text.contains("thought_stream  at most 101 requests in 2 rounds"), "{text}");
    assert!(text.ends_with("11 queries have a bound\n"), "{text}");
}

#[test]
fn what_has_no_bound_fails_and_what_is_allowed_is_listed() {
    let folder = folder(&["tpcw.sql", "tpcw_queries.sql"]);
    let (code, report) = json(&folder, &["tpcw.sql", "tpcw_queries.sql"]);
    assert_eq!((code, errors(&report)), (1, vec!["unbounded best_sellers".to_string()]));
    let allowed =
        report["findings"].as_array().unwrap().iter().find(|f| f["rule"] == "allowed-unbounded").unwrap();
    assert_eq!(allowed["message"], "may run without a bound: once a night, on a replica");
    let (code, text) = run(folder.command(&["lint", "tpcw.sql", "tpcw_queries.sql"]));
    assert_eq!(code, 1);
    assert!(
        text.contains("tpcw_queries.sql:31:1: error: best_sellers: ") && text.contains("fix 1: "),
        "{text}"
    );
    assert!(text.contains("8 queries have a bound, 1 may run without; 1 finding has to be mended"), "{text}");
}

#[test]
fn an_ordinary_postgresql_application_needs_no_store_of_ours() {
    let folder = folder(&["blog.sql", "blog_queries.sql"]);
    let all = ["--plain-sql", "blog.sql", "blog_queries.sql"];
    let (code, report) = json(&folder, &all);
    let expected = [
        "missing-index ByToken",
        "unbounded ByTitle",
        "missing-index Recent",
        "unbounded Happy",
        "unbounded Some",
        "invalid-query Page",
    ];
    assert_eq!((code, errors(&report)), (1, expected.map(str::to_string).to_vec()));
    // What the refusals ask for, in a file beside the dump.
    folder.file(
        "limits.sql",
        "-- cardinality limit 1000000 on public.users (mood)\n\
         -- cardinality limit 100 on posts ()\n\
         create index on posts (token); create index on posts (at);",
    );
    let allowed =
        report["findings"].as_array().unwrap().iter().find(|f| f["rule"] == "allowed-unbounded").unwrap();
    assert_eq!(allowed["message"], "may run without a bound: once a night");
    // What is offered is PostgreSQL's: no pages, no words, no views.
    let fixes: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|finding| finding["fixes"].as_array().unwrap())
        .map(|fix| fix["paste"].as_str().unwrap())
        .collect();
    assert_eq!(fixes[0], "-- cardinality limit 100 on posts ()");
    let ours = ["paginate", "[token]", "materialized", "alter table"];
    assert!(!fixes.iter().any(|fix| ours.iter().any(|word| fix.contains(word))), "{fixes:?}");
    let (_, report) = json(&folder, &["--most-values", "50", all[0], all[1], all[2]]);
    assert!(!errors(&report).contains(&"unbounded Some".to_string()));
    let some = report["queries"].as_array().unwrap().iter().find(|query| query["name"] == "Some").unwrap();
    assert_eq!(some["bound"]["requests"], 50);
    let queries = folder.read("blog_queries.sql").replace(" LIMIT $1 OFFSET $2", " LIMIT 10");
    folder.file("queries.sql", &queries);
    let (_, report) = json(&folder, &["--plain-sql", "--limits", "limits.sql", "blog.sql", "queries.sql"]);
    // A million rows are a bound, and too many.
    assert_eq!(errors(&report), ["unbounded Happy"]);
}

#[test]
fn sarif_has_what_the_standard_requires_and_places_are_right() {
    let folder = folder(&["scadr.sql"]);
    let queries = "-- name: fine\nselect * from users where username = ?;\n\n  -- ü\n  select 'ü', usernam from users where username = ?;\n-- name: no\nselect *\nfrom\n  thoughts;";
    folder.file("my queries.sql", queries);
    let (code, text) = run(folder.command(&["lint", "--format", "sarif", "scadr.sql", "./my queries.sql"]));
    assert_eq!(code, 1);
    let log: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().ends_with("sarif-2.1.0.json"));
    let run = &log["runs"].as_array().unwrap()[0];
    let driver = &run["tool"]["driver"];
    assert!(driver["name"].is_string());
    let rules = driver["rules"].as_array().unwrap();
    assert!(rules.iter().all(|rule| rule["id"].is_string() && rule["shortDescription"]["text"].is_string()));
    let levels = ["none", "note", "warning", "error"];
    let results = run["results"].as_array().unwrap();
    for result in results {
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        assert!(levels.contains(&result["level"].as_str().unwrap()));
        assert_eq!(rules[result["ruleIndex"].as_u64().unwrap() as usize]["id"], result["ruleId"]);
        let physical = &result["locations"][0]["physicalLocation"];
        assert_eq!(physical["artifactLocation"]["uri"], "my%20queries.sql");
        let region = &physical["region"];
        assert!(
            ["startLine", "startColumn", "endLine", "endColumn"]
                .iter()
                .all(|at| region[at].as_u64() >= Some(1))
        );
    }
    let places: Vec<String> = results
        .iter()
        .map(|result| {
            let region = &result["locations"][0]["physicalLocation"]["region"];
            let at = |name: &str| region[name].as_u64().unwrap();
            format!(
                "{} {}:{}-{}:{}",
                result["ruleId"].as_str().unwrap(),
                at("startLine"),
                at("startColumn"),
                at("endLine"),
                at("endColumn")
            )
        })
        .collect();
    // Columns are characters, not bytes.
    assert_eq!(places, ["invalid-query 5:15-5:22", "unbounded 7:1-9:11"]);
}

#[test]
fn github_gets_annotations() {
    let folder = folder(&["scadr.sql"]);
    folder.file("q.sql", "-- name: all\nselect * from thoughts;");
    let (code, text) = run(folder.command(&["lint", "--format", "github", "scadr.sql", "q.sql"]));
    assert_eq!(code, 1);
    let first =
        "::error file=q.sql,line=2,endLine=2,col=1,endColumn=23,title=whimbrel lint%3A unbounded::all: ";
    assert!(
        text.starts_with(first) && text.contains("%0A    select * from thoughts paginate 10%0A"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn a_bound_that_rises_is_seen_in_review() {
    let folder = folder(&["scadr.sql", "scadr_queries.sql"]);
    let lint = |more: &[&str]| {
        let base = ["lint", "--lock", "bounds.lock", "scadr.sql", "scadr_queries.sql"];
        run(folder.command(&[&base, more].concat()))
    };
    let missing = folder.fails(&["lint", "--lock", "bounds.lock", "scadr.sql", "scadr_queries.sql"]);
    assert!(missing.0 == 2 && missing.1.contains("--update writes it"), "{missing:?}");
    assert_eq!(lint(&["--update"]).0, 0);
    let lock = folder.read("bounds.lock");
    assert!(lock.contains("\nthought_stream\n  requests 101\n  rounds 2\n  tuples 1100\n"), "{lock}");
    assert!(lock.contains("\nfollow\n  requests 2\n  rounds 1\n"), "{lock}");
    assert_eq!(lint(&[]).0, 0);

    let schema = folder.read("scadr.sql");
    folder
        .file("scadr.sql", &schema.replace("cardinality limit 100 (owner)", "cardinality limit 200 (owner)"));
    let (code, text) = lint(&[]);
    assert_eq!(code, 1);
    assert!(
        text.contains("thought_stream: its bound rose: requests 101 → 201, tuples 1100 → 2200"),
        "{text}"
    );
    folder
        .file("scadr.sql", &schema.replace("cardinality limit 100 (owner)", "cardinality limit 50 (owner)"));
    let (code, text) = lint(&[]);
    assert_eq!(code, 0);
    assert!(text.contains("note: thought_stream: its bound fell: requests 101 → 51"), "{text}");
    // The file says nothing that did not change.
    assert_eq!(lint(&["--update"]).0, 0);
    let changed = |a: &str, b: &str| a.lines().filter(|line| !b.lines().any(|other| other == *line)).count();
    assert!(changed(&folder.read("bounds.lock"), &lock) <= 5);

    let queries = folder.read("scadr_queries.sql");
    folder.file("scadr_queries.sql", &queries.replace("find_user", "find_one"));
    let (code, text) = lint(&[]);
    assert_eq!(code, 1);
    assert!(
        text.contains("find_one: is not in the lock file yet")
            && text.contains("find_user: is in the lock file and nowhere else")
    );
}

#[test]
fn it_ends_with_two_where_it_could_not_look() {
    let folder = folder(&["scadr.sql", "scadr_queries.sql"]);
    assert_eq!(folder.fails(&["lint", "scadr.sql"]).0, 2);
    assert_eq!(folder.fails(&["lint", "scadr.sql", "nothing.sql"]).0, 2);
    assert_eq!(folder.fails(&["lint", "scadr.sql", "scadr_queries.sql", "--format", "csv"]).0, 2);
    assert_eq!(folder.fails(&["lint", "--update", "scadr.sql", "scadr_queries.sql"]).0, 2);
    folder.file("bounds.lock", "find_user\n  reqests 7\n");
    let (code, text) = folder.fails(&["lint", "--lock", "bounds.lock", "scadr.sql", "scadr_queries.sql"]);
    assert!(code == 2 && text.contains("bounds.lock: line 2"), "{text}");
    folder.file(
        "wrong.sql",
        "create table a (b int primary key);\ncreate table c (d int primary key references e);",
    );
    let (code, report) = json(&folder, &["wrong.sql", "scadr_queries.sql"]);
    assert_eq!((code, errors(&report)), (1, vec!["invalid-schema -".to_string()]));
    assert_eq!(report["findings"][0]["place"]["line"], 2);
    folder.file("twice.sql", "-- name: a\nselect 1;\n-- name: a\nselect 2;");
    assert_eq!(errors(&json(&folder, &["scadr.sql", "twice.sql"]).1), ["duplicate-name a"]);
    assert_eq!(whimbrel(&["sql", "--format", "sarif", "select 1"]).output().unwrap().status.code(), Some(2));
    // The form of rows is the others' own.
    assert!(whimbrel(&["lint", "--help"]).output().unwrap().status.success());
}

#[test]
fn what_is_found_can_go_into_a_file() {
    let folder = folder(&["scadr.sql", "scadr_queries.sql"]);
    let (code, text) = run(folder.command(&[
        "lint",
        "--format",
        "sarif",
        "-o",
        "found.sarif",
        "--key-by-key",
        "scadr.sql",
        "scadr_queries.sql",
    ]));
    assert_eq!((code, text.as_str()), (0, ""));
    assert!(folder.read("found.sarif").contains("\"2.1.0\""));
}

#[test]
fn views_are_part_of_the_schema_and_of_what_writes_cost() {
    let folder = folder(&["tpcw.sql"]);
    let view = "create materialized view sold as select i.i_subject as subject, i.i_id as item, sum(l.ol_qty) as sold
        from order_line l join item i on i.i_id = l.ol_i_id group by i.i_subject, i.i_id;";
    folder.file("tpcw.sql", &format!("{}{view}", folder.read("tpcw.sql")));
    folder.file(
        "queries.sql",
        "-- name: best_sellers
select s.item, i.i_title, s.sold from sold s join item i on i.i_id = s.item
where s.subject = ? order by s.sold desc limit 50;
-- name: sell
insert into order_line values (?, ?, ?, ?);
-- name: rename
update item set i_subject = ? where i_id = ?;",
    );
    let (code, report) = json(&folder, &["tpcw.sql", "queries.sql"]);
    assert_eq!((code, errors(&report)), (1, vec!["invalid-query rename".to_string()]));
    assert_eq!(report["queries"][0]["bound"]["requests"], 51);
    // The line, its row of the view, and that row's place in the order that the query asks for, new and old.
    assert_eq!(report["queries"][1]["bound"]["writes"], 1 + 1 + 2);
    let pairs = "create materialized view pairs as select a.ol_i_id as one, b.ol_i_id as other, count(*) as n
        from order_line a join order_line b on a.ol_i_id = b.ol_i_id group by a.ol_i_id, b.ol_i_id;";
    folder.file("tpcw.sql", &format!("{}\n{pairs}", folder.read("tpcw.sql")));
    let (code, report) = json(&folder, &["tpcw.sql", "queries.sql"]);
    assert_eq!((code, errors(&report)), (1, vec!["unbounded -".to_string()]));
    assert_eq!(report["findings"][0]["place"]["file"], "tpcw.sql");
}
