//! What would give a query a bound: limits of the schema, a limit or pages, words in place of patterns, fewer rows in
//! a part that is limited already. Each suggestion is compiled; the cheapest three that work are kept.

use super::draw::draw;
use super::{Fix, Refusal};
use crate::bound::Bound;
use crate::compile::{Compiler, DeadEnd, Planner, Stuck};
use crate::error::Result;
use crate::schema::{Change, Schema};
use crate::store::Capabilities;
use crate::text;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The number that is suggested for a limit.
const ROWS: u64 = 100;
/// The number that is suggested for a page.
const PAGE: u64 = 10;
/// How many fixes are offered.
const MOST: usize = 3;

/// Looks for fixes of one query.
pub(crate) struct Suggestions<'a> {
    pub sql: &'a str,
    pub schema: &'a Schema,
    pub capabilities: Capabilities,
    /// More requests than these are none that are allowed.
    pub most_requests: u64,
}

/// A suggestion that has not been tried yet.
#[derive(Debug, Clone, Default)]
struct Suggestion {
    titles: Vec<String>,
    /// Statements that change the schema.
    statements: Vec<String>,
    /// The query, if it is another.
    query: Option<String>,
}

impl Suggestions<'_> {
    /// The refusal of a query that has no bound.
    pub fn unbounded(&self, plan: &LogicalPlan, dead_end: &DeadEnd) -> Refusal {
        let mut found = self.tried(self.for_dead_end(dead_end));
        if found.is_empty() {
            // One change was not enough: where the plan got stuck next, another is put to it.
            found = self.tried(self.in_pairs(dead_end));
        }
        Refusal {
            sql: self.sql.to_string(),
            drawing: draw(plan, &dead_end.alias, &dead_end.table.name),
            reason: dead_end.reason(),
            fixes: found,
        }
    }

    /// The refusal of a query whose bound is beyond what one call may cost.
    pub fn too_many(&self, plan: &LogicalPlan, bound: &Bound) -> Refusal {
        let fixes = self.tried(self.smaller_limits(bound));
        Refusal {
            sql: self.sql.to_string(),
            drawing: draw(plan, "", ""),
            reason: format!(
                "it can take {} requests, and one call may take {}; keep what it counts in a table of its own as rows are written",
                bound.requests, self.most_requests
            ),
            fixes,
        }
    }

    fn tried(&self, suggestions: Vec<Suggestion>) -> Vec<Fix> {
        let mut fixes: Vec<Fix> =
            suggestions.iter().filter_map(|suggestion| self.try_one(suggestion)).collect();
        fixes.sort_by_key(|fix| fix.bound.cost());
        fixes.dedup_by(|a, b| a.paste == b.paste);
        fixes.truncate(MOST);
        fixes
    }

    fn try_one(&self, suggestion: &Suggestion) -> Option<Fix> {
        let bound = self.compiled(suggestion).ok()?.ok()?;
        (bound.requests <= self.most_requests).then(|| Fix {
            title: suggestion.titles.join(", and "),
            paste: suggestion
                .statements
                .iter()
                .map(|s| format!("{s};"))
                .chain(suggestion.query.clone())
                .collect::<Vec<_>>()
                .join("\n"),
            changes_schema: !suggestion.statements.is_empty(),
            bound,
        })
    }

    /// The bound with a suggestion, or where it still has none.
    fn compiled(&self, suggestion: &Suggestion) -> Result<std::result::Result<Bound, Option<Box<DeadEnd>>>> {
        let mut schema = self.schema.clone();
        for statement in &suggestion.statements {
            if let Some(change) = Change::of(&text::parse(statement)?)? {
                schema = change.apply(&schema)?.0.ready();
            }
        }
        let parsed = text::parse(suggestion.query.as_deref().unwrap_or(self.sql))?;
        let plan = Planner::new(&schema).plan(parsed.statement)?;
        let compiler = Compiler::new(&schema, self.capabilities, false, &parsed.parameters);
        Ok(match compiler.compile(&plan, parsed.paginate) {
            Ok(plan) => Ok(plan.bound),
            Err(Stuck::Unbounded(dead_end)) => Err(Some(dead_end)),
            Err(Stuck::Error(_)) => Err(None),
        })
    }

    fn for_dead_end(&self, dead_end: &DeadEnd) -> Vec<Suggestion> {
        let mut all = self.limits_of_schema(dead_end);
        all.extend(self.words(dead_end));
        all.extend(self.stops());
        all
    }

    /// A limit on the columns that are known, on each of them, and on the whole table.
    fn limits_of_schema(&self, dead_end: &DeadEnd) -> Vec<Suggestion> {
        let table = &dead_end.table;
        let limit = |columns: &[usize]| {
            let names = table.column_names(columns);
            let title = match columns {
                [] => format!("say that {} has at most {ROWS} rows (put your own number)", table.name),
                _ => format!(
                    "say that at most {ROWS} rows of {} have the same {names} (put your own number)",
                    table.name
                ),
            };
            let statement = format!("alter table {} add cardinality limit {ROWS} ({names})", table.name);
            Suggestion { titles: vec![title], statements: vec![statement], query: None }
        };
        let mut all = Vec::new();
        if dead_end.equal.is_empty() {
            all.push(limit(&[]));
        }
        for column in &dead_end.equal {
            all.push(limit(&[*column]));
        }
        all
    }

    /// Words in place of a pattern.
    fn words(&self, dead_end: &DeadEnd) -> Option<Suggestion> {
        let like = dead_end.residual.iter().any(|expr| matches!(expr, Expr::Like(like) if !like.negated));
        let at = self.sql.to_lowercase().find(" like ").filter(|_| like)?;
        let query = format!("{} like [token] {}", &self.sql[..at], self.sql[at + 6..].trim_start());
        Some(Suggestion { titles: vec!["search for a word".into()], statements: vec![], query: Some(query) })
    }

    /// A limit or pages, where there are none.
    fn stops(&self) -> Vec<Suggestion> {
        let sql = self.sql.trim().trim_end_matches(';');
        let more = |title: &str, clause: String| Suggestion {
            titles: vec![title.to_string()],
            statements: vec![],
            query: Some(format!("{sql} {clause}")),
        };
        vec![
            more("read it page by page", format!("paginate {PAGE}")),
            more("take the first rows", format!("limit {PAGE}")),
        ]
    }

    /// Two changes: one, and then one for where the plan still gets stuck.
    fn in_pairs(&self, dead_end: &DeadEnd) -> Vec<Suggestion> {
        let mut pairs = Vec::new();
        for first in self.for_dead_end(dead_end) {
            let Ok(Err(Some(next))) = self.compiled(&first) else { continue };
            let with_query = Suggestions { sql: first.query.as_deref().unwrap_or(self.sql), ..*self };
            for second in with_query.for_dead_end(&next) {
                pairs.push(Suggestion {
                    titles: [first.titles.clone(), second.titles].concat(),
                    statements: [first.statements.clone(), second.statements].concat(),
                    query: second.query.or(first.query.clone()),
                });
            }
        }
        pairs
    }

    /// The largest limit of the query made as small as it has to be.
    fn smaller_limits(&self, bound: &Bound) -> Vec<Suggestion> {
        let words: Vec<&str> = self.sql.split_inclusive(char::is_whitespace).collect();
        let limits = (1..words.len()).filter(|at| words[at - 1].trim().eq_ignore_ascii_case("limit"));
        let limits = limits.filter_map(|at| {
            let digits: String = words[at].chars().take_while(char::is_ascii_digit).collect();
            Some((digits.parse::<u64>().ok()?, digits.len(), at))
        });
        let Some((rows, digits, at)) = limits.max() else { return vec![] };
        let fewer = (rows.saturating_mul(self.most_requests) / bound.requests.max(1)).max(1);
        let mut query: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        query[at] = format!("{fewer}{}", &words[at][digits..]);
        vec![Suggestion {
            titles: vec![format!("look at the first {fewer} instead of {rows}")],
            statements: vec![],
            query: Some(query.concat()),
        }]
    }
}
