//! Fixes for a refused query: changes of the schema, and other queries that are close to it.
//!
//! Candidates are cardinality limits, `not null`, `limit` and `paginate`, words or a prefix in place of a
//! pattern, a smaller `limit` within the query, and a view. Each is compiled. The cheapest three that have a
//! bound are offered.

use super::semijoin::semijoin;
use crate::bound::Bound;
use crate::compile::{CompileError, Compiler, Planner, UnboundedRelation};
use crate::datum::Type;
use crate::error::Result;
use crate::plan::draw;
use crate::refusal::{Fix, Refusal};
use crate::schema::{Change, Schema, Table};
use crate::store::Capabilities;
use crate::syntax;
use crate::syntax::Dialect;
use crate::views;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The number that is suggested for a limit.
const ROWS: u64 = 100;
/// The number that is suggested where that is too much for one call.
const FEWER_ROWS: u64 = 10;
/// The number that is suggested for a page.
const PAGE: u64 = 10;
/// How many columns are said to be never null together.
const MOST_COLUMNS: usize = 8;
/// How many fixes are offered.
const MOST: usize = 3;

/// Looks for fixes of one query.
pub(crate) struct Suggestions<'a> {
    pub sql: &'a str,
    pub schema: &'a Schema,
    pub capabilities: Capabilities,
    /// More requests than these are none that are allowed.
    pub most_requests: u64,
    /// Whose SQL it is, and the fixes have to be.
    pub dialect: &'a Dialect,
}

/// A change of the schema: names as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Alteration {
    /// A limit of a table, on columns.
    Limit { table: String, columns: String, rows: u64 },
    /// A column that is never null.
    NotNull { table: String, column: String },
}

impl Alteration {
    /// The statement that makes the change.
    fn statement(&self) -> String {
        match self {
            Alteration::Limit { table, columns, rows } => {
                format!("alter table {table} add cardinality limit {rows} ({columns})")
            }
            Alteration::NotNull { table, column } => {
                format!("alter table {table} alter column {column} set not null")
            }
        }
    }
}

/// The cheapest fixes, each once.
fn keep_cheapest(fixes: &mut Vec<Fix>) {
    fixes.sort_by_key(|fix| fix.bound.cost());
    fixes.dedup_by(|a, b| a.paste == b.paste);
    fixes.truncate(MOST);
}

/// A suggestion that has not been tried yet.
#[derive(Debug, Clone, Default)]
struct Suggestion {
    titles: Vec<String>,
    /// What is changed in the schema.
    alterations: Vec<Alteration>,
    /// The query, if it is another.
    query: Option<String>,
}

impl Suggestion {
    /// The same, with smaller limits.
    fn with_fewer_rows(mut self) -> Suggestion {
        for alteration in &mut self.alterations {
            if let Alteration::Limit { rows, .. } = alteration {
                *rows = FEWER_ROWS;
            }
        }
        let rows = |rows: u64| format!("at most {rows} rows");
        self.titles.iter_mut().for_each(|title| *title = title.replace(&rows(ROWS), &rows(FEWER_ROWS)));
        self
    }
}

impl Suggestions<'_> {
    /// The refusal of a query that has no bound.
    pub fn unbounded(&self, plan: &LogicalPlan, relation: &UnboundedRelation) -> Refusal {
        let mut found = self.compiled_fixes(self.suggestions_for(relation));
        found.extend(self.compiled_fixes(self.not_null_together(relation)));
        found.extend(self.views());
        keep_cheapest(&mut found);
        if found.is_empty() {
            // One change was not enough: where the plan got stuck next, another is put to it.
            let pairs = self.pairs_of_suggestions(relation);
            found = self.compiled_fixes(pairs.clone());
            if found.is_empty() {
                found = self.compiled_fixes(pairs.into_iter().map(Suggestion::with_fewer_rows).collect());
            }
        }
        Refusal {
            sql: self.sql.to_string(),
            drawing: draw(plan, &relation.alias, &relation.table.name),
            reason: relation.reason(),
            bounded: false,
            fixes: found,
        }
    }

    /// The refusal of a query whose bound is beyond what one call may cost.
    pub fn too_many_requests(&self, plan: &LogicalPlan, requests: u64) -> Refusal {
        let mut fixes = self.compiled_fixes(self.smaller_limits(requests));
        fixes.extend(self.views());
        keep_cheapest(&mut fixes);
        Refusal {
            sql: self.sql.to_string(),
            drawing: draw(plan, "", ""),
            reason: format!(
                "it can take {} requests, and one call may take {}; keep what it counts in a table of its own as rows are written",
                requests, self.most_requests
            ),
            bounded: true,
            fixes,
        }
    }

    /// The refusal of a write that is too much for one call, with the views that it has to keep.
    pub fn too_many_write_requests(&self, plan: &LogicalPlan, requests: u64) -> Refusal {
        Refusal {
            sql: self.sql.to_string(),
            drawing: draw(plan, "", ""),
            reason: format!(
                "the rows that it changes, and the views that are kept of them, can take {requests} requests, \
                 and one call may take {}; change fewer rows at a time",
                self.most_requests
            ),
            bounded: true,
            fixes: vec![],
        }
    }

    /// The suggestions that give the query a bound, cheapest first.
    fn compiled_fixes(&self, suggestions: Vec<Suggestion>) -> Vec<Fix> {
        let mut fixes: Vec<Fix> =
            suggestions.iter().filter_map(|suggestion| self.try_one(suggestion)).collect();
        keep_cheapest(&mut fixes);
        fixes
    }

    /// A change of the schema as it is pasted.
    fn statement_text(&self, alteration: &Alteration) -> String {
        match alteration {
            Alteration::Limit { table, columns, rows } if !self.dialect.is_whimbrel() => {
                format!("-- cardinality limit {rows} on {table} ({columns})")
            }
            other => format!("{};", other.statement()),
        }
    }

    /// A view that has the answer ready.
    fn views(&self) -> Option<Fix> {
        if !self.dialect.is_whimbrel() {
            return None;
        }
        let parsed = self.dialect.parse(self.sql).ok()?;
        let (parsed, repeats) = match semijoin(parsed.clone(), self.schema) {
            Some(semijoin) => (semijoin.parsed, semijoin.repeats),
            None => (parsed, false),
        };
        let title = match repeats {
            false => "keep the answer in a view, and read that",
            true => {
                "keep a join in a view, and read that, which is another question: \
                 what the subquery finds twice counts twice"
            }
        };
        let rewrite = super::view::rewrite_as_view(parsed)?;
        let names = |name: &String| self.schema.tables().any(|table| table.name == *name);
        let mut fresh =
            (1..).map(|n| if n == 1 { rewrite.name.clone() } else { format!("{}_{n}", rewrite.name) });
        let name = fresh.find(|name| !names(name))?;
        let schema = self.with_view(&name, &rewrite.sql).ok()?;
        for end in ["", " limit 10", " paginate 10"] {
            let query = format!("{}{end}", rewrite.query(&name));
            if let Some(bound) = self.bound_over(&schema, &query)
                && bound.requests <= self.most_requests
            {
                return Some(Fix {
                    title: title.to_string(),
                    paste: format!("create materialized view {name} as {};\n{query}", rewrite.sql),
                    changes_schema: true,
                    bound,
                });
            }
        }
        None
    }

    /// The schema with a view, as it will be when it is filled.
    fn with_view(&self, name: &str, sql: &str) -> Result<Schema> {
        let mut schema = self.schema.clone();
        loop {
            let proposed = views::propose(&schema, self.capabilities, name, sql)?;
            if proposed.new_indexes.is_empty() {
                return Ok(schema.with_table(proposed.table).ready());
            }
            for (table, index) in proposed.new_indexes {
                schema = Change::AddIndex { table, index }.apply(&schema)?.0.ready();
            }
        }
    }

    /// The bound of a query over a schema, if it has one.
    fn bound_over(&self, schema: &Schema, query: &str) -> Option<Bound> {
        let parsed = self.dialect.parse(query).ok()?;
        let plan = Planner::new(schema).plan(parsed.statement).ok()?;
        let compiler = Compiler::new(schema, self.capabilities, false, &parsed.parameters);
        compiler.compile(&plan, parsed.paginate).ok().map(|plan| plan.bound)
    }

    /// The fix that a suggestion is, if the query has a small enough bound with it.
    fn try_one(&self, suggestion: &Suggestion) -> Option<Fix> {
        let bound = self.compiled(suggestion).ok()?.ok()?;
        (bound.requests <= self.most_requests).then(|| Fix {
            title: suggestion.titles.join(", and "),
            paste: suggestion
                .alterations
                .iter()
                .map(|alteration| self.statement_text(alteration))
                .chain(suggestion.query.clone())
                .collect::<Vec<_>>()
                .join("\n"),
            changes_schema: !suggestion.alterations.is_empty(),
            bound,
        })
    }

    /// The bound with a suggestion, or where it still has none.
    fn compiled(
        &self,
        suggestion: &Suggestion,
    ) -> Result<std::result::Result<Bound, Option<Box<UnboundedRelation>>>> {
        let mut schema = self.schema.clone();
        for alteration in &suggestion.alterations {
            if let Some(change) = Change::of(&syntax::parse(&alteration.statement())?)? {
                schema = change.apply(&schema)?.0.ready();
            }
        }
        let parsed = self.dialect.parse(suggestion.query.as_deref().unwrap_or(self.sql))?;
        let plan = Planner::new(&schema).plan(parsed.statement)?;
        let compiler = Compiler::new(&schema, self.capabilities, false, &parsed.parameters);
        Ok(match compiler.compile(&plan, parsed.paginate) {
            Ok(plan) => Ok(plan.bound),
            Err(CompileError::Unbounded(relation)) => Err(Some(relation)),
            Err(CompileError::Other(_)) => Err(None),
        })
    }

    /// All suggestions for a relation that has no bound.
    fn suggestions_for(&self, relation: &UnboundedRelation) -> Vec<Suggestion> {
        let mut all = self.not_null(relation);
        all.extend(self.limits_of_schema(relation));
        all.extend(self.words(relation));
        all.extend(self.prefix(relation));
        all.extend(self.bounded_count());
        all.extend(self.limits_of_query());
        all
    }

    /// A limit on each of the columns that are known, and on all of them; where nothing is known, on the
    /// whole table.
    fn limits_of_schema(&self, relation: &UnboundedRelation) -> Vec<Suggestion> {
        let limit = |table: &Table, columns: &[usize]| {
            let names = table.column_names(columns);
            let title = match columns {
                [] => format!("say that {} has at most {ROWS} rows (put your own number)", table.name),
                _ => format!(
                    "say that at most {ROWS} rows of {} have the same {names} (put your own number)",
                    table.name
                ),
            };
            Suggestion {
                titles: vec![title],
                alterations: vec![Alteration::Limit {
                    table: syntax::quote_name(&table.name).into_owned(),
                    columns: names,
                    rows: ROWS,
                }],
                query: None,
            }
        };
        let here = std::iter::once((&relation.table, &relation.equal));
        let there = relation.also.iter().map(|(table, equal)| (table, equal));
        let mut all = Vec::new();
        for (table, equal) in here.chain(there).filter(|(_, equal)| !equal.is_empty()) {
            // Half of a table has the same truth value.
            let telling = equal.iter().filter(|at| table.columns[**at].of != Type::Bool);
            all.extend(telling.map(|at| limit(table, &[*at])));
            if equal.len() > 1 {
                all.push(limit(table, equal));
            }
        }
        if all.is_empty() {
            all.push(limit(&relation.table, &[]));
        }
        all
    }

    /// Rows whose reference is null are kept out: by the schema, or by the query.
    fn not_null(&self, relation: &UnboundedRelation) -> Vec<Suggestion> {
        let Some(reference) = &relation.nullable else { return vec![] };
        let column = &reference.table.columns[reference.column].name;
        let schema = Suggestion {
            titles: vec![format!("say that {}.{column} is never null", reference.table.name)],
            alterations: vec![Alteration::NotNull {
                table: syntax::quote_name(&reference.table.name).into_owned(),
                column: syntax::quote_name(column).into_owned(),
            }],
            query: None,
        };
        let query = self.with_predicate(&format!("{} is not null", reference.sql()));
        let query = query.map(|query| Suggestion {
            titles: vec![format!("leave out rows whose {column} is null, as the join does")],
            alterations: vec![],
            query: Some(query),
        });
        std::iter::once(schema).chain(query).collect()
    }

    /// The same for several references, and for one of several columns, where one alone is not enough.
    fn not_null_together(&self, relation: &UnboundedRelation) -> Vec<Suggestion> {
        let mut all = Vec::new();
        for (way, mut together) in self.not_null(relation).into_iter().enumerate() {
            let alone = together.titles.len();
            while together.titles.len() < MOST_COLUMNS {
                let Ok(Err(Some(next))) = self.compiled(&together) else { break };
                let with_query = Suggestions { sql: together.query.as_deref().unwrap_or(self.sql), ..*self };
                let Some(more) = with_query.not_null(&next).into_iter().nth(way) else { break };
                together.titles.extend(more.titles);
                together.alterations.extend(more.alterations);
                together.query = more.query.or(together.query);
            }
            if together.titles.len() > alone {
                all.push(together);
            }
        }
        all
    }

    /// The query with another predicate, where it is plain how to put it there.
    fn with_predicate(&self, predicate: &str) -> Option<String> {
        let (sql, lower) = (self.sql.trim().trim_end_matches(';'), self.sql.to_lowercase());
        let words: Vec<&str> = lower.split_whitespace().collect();
        let count = |wanted: &str| words.iter().filter(|word| **word == wanted).count();
        if count("select") != 1 || count("or") > 0 {
            return None;
        }
        if count("where") == 1 {
            let at = sql.to_lowercase().find("where")? + "where".len();
            return Some(format!("{} {predicate} and{}", &sql[..at], &sql[at..]));
        }
        let ends = [" group by ", " order by ", " limit ", " paginate ", " allow unbounded "];
        let at = ends.iter().filter_map(|end| sql.to_lowercase().find(end)).min().unwrap_or(sql.len());
        (count("where") == 0).then(|| format!("{} where {predicate}{}", &sql[..at], &sql[at..]))
    }

    /// Words in place of a pattern.
    fn words(&self, relation: &UnboundedRelation) -> Option<Suggestion> {
        if !self.dialect.is_whimbrel() {
            return None;
        }
        let like = relation.residual.iter().any(|expr| matches!(expr, Expr::Like(like) if !like.negated));
        let at = self.sql.to_lowercase().find(" like ").filter(|_| like)?;
        let query = format!("{} like [token] {}", &self.sql[..at], self.sql[at + 6..].trim_start());
        Some(Suggestion {
            titles: vec!["search for a whole word, which is another question".into()],
            alterations: vec![],
            query: Some(query),
        })
    }

    /// The beginning in place of a pattern.
    fn prefix(&self, relation: &UnboundedRelation) -> Option<Suggestion> {
        let like = relation.residual.iter().any(|expr| matches!(expr, Expr::Like(like) if !like.negated));
        let at = self.sql.to_lowercase().find(" like ").filter(|_| like)?;
        let column = self.sql[..at].rfind([' ', '(']).map_or(0, |space| space + 1);
        let pattern = self.sql[at + 6..].trim_start();
        let (pattern, rest) = pattern.split_at(pattern.find([' ', ')', ';']).unwrap_or(pattern.len()));
        let (before, column) = (&self.sql[..column], &self.sql[column..at]);
        let query = format!("{before}starts_with({column}, {pattern}){rest}");
        // A pattern that stands there is no beginning.
        if pattern.contains(['%', '_']) {
            return None;
        }
        let title = "search for how it begins, which is another question: ? without %".to_string();
        Some(Suggestion { titles: vec![title], alterations: vec![], query: Some(query) })
    }

    /// Nobody needs to know how many followers a star has: `100 or more` will do.
    fn bounded_count(&self) -> Option<Suggestion> {
        let sql = self.sql.trim().trim_end_matches(';');
        let at = sql.to_lowercase().find(" from ")?;
        let (counted, rest) = sql.split_at(at);
        let count =
            counted.to_lowercase().split_whitespace().collect::<String>().starts_with("selectcount(*)");
        let query = format!("{counted} from (select 1{rest} limit {ROWS}) as first_rows");
        let title = format!("count up to {ROWS} (put your own number)");
        count.then(|| Suggestion { titles: vec![title], alterations: vec![], query: Some(query) })
    }

    /// A limit or pages, where there are none.
    fn limits_of_query(&self) -> Vec<Suggestion> {
        let sql = self.sql.trim().trim_end_matches(';');
        let more = |title: &str, clause: String| Suggestion {
            titles: vec![title.to_string()],
            alterations: vec![],
            query: Some(format!("{sql} {clause}")),
        };
        let first = more("take the first rows", format!("limit {PAGE}"));
        match self.dialect.is_whimbrel() {
            true => vec![more("read it page by page", format!("paginate {PAGE}")), first],
            false => vec![first],
        }
    }

    /// Two changes: one, and then one for where the plan still gets stuck.
    fn pairs_of_suggestions(&self, relation: &UnboundedRelation) -> Vec<Suggestion> {
        let mut pairs = Vec::new();
        for first in self.suggestions_for(relation) {
            let Ok(Err(Some(next))) = self.compiled(&first) else { continue };
            let with_query = Suggestions { sql: first.query.as_deref().unwrap_or(self.sql), ..*self };
            for second in with_query.suggestions_for(&next) {
                pairs.push(Suggestion {
                    titles: [first.titles.clone(), second.titles].concat(),
                    alterations: [first.alterations.clone(), second.alterations].concat(),
                    query: second.query.or(first.query.clone()),
                });
            }
        }
        pairs
    }

    /// The largest limit of the query made as small as it has to be.
    fn smaller_limits(&self, requests: u64) -> Vec<Suggestion> {
        let words: Vec<&str> = self.sql.split_inclusive(char::is_whitespace).collect();
        let limits = (1..words.len()).filter(|at| words[at - 1].trim().eq_ignore_ascii_case("limit"));
        let limits = limits.filter_map(|at| {
            let digits: String = words[at].chars().take_while(char::is_ascii_digit).collect();
            Some((digits.parse::<u64>().ok()?, digits.len(), at))
        });
        let Some((rows, digits, at)) = limits.max() else { return vec![] };
        let fewer = (rows.saturating_mul(self.most_requests) / requests.max(1)).max(1);
        let mut query: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        query[at] = format!("{fewer}{}", &words[at][digits..]);
        vec![Suggestion {
            titles: vec![format!("look at the first {fewer} instead of {rows}")],
            alterations: vec![],
            query: Some(query.concat()),
        }]
    }
}
