//! Which columns of two streams have to be equal, for joins and their relatives.
//!
//! What comes out is columns only, of equal types: where a side is computed, or has to be cast to meet the
//! other, a column is added to it, and taken off again above.

use super::Stream;
use super::relational::output_name;
use crate::names::{column, names, show, type_name};
use crate::resolve::{common_type, resolve};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, ExprSchemable};

/// Two streams and the columns in which they meet.
pub(super) struct Pairs {
    pub left: Stream,
    pub right: Stream,
    /// Names of equal columns, left and right.
    pub on: Vec<(String, String)>,
}

impl Pairs {
    /// The columns as expressions.
    pub fn columns(&self) -> Vec<(Expr, Expr)> {
        self.on.iter().map(|(l, r)| (column(l), column(r))).collect()
    }
}

impl Stream {
    /// Pairs the columns of `on`; without any, those of the current keys. Streams of the same groups meet
    /// group by group in any case.
    pub(super) fn pairs(&self, other: &Stream, on: Vec<(Expr, Expr)>, verb: &str) -> Result<Pairs> {
        let given = if on.is_empty() { self.key_pairs(other, verb)? } else { on };
        self.paired(other, given, verb)
    }

    /// Pairs nothing: all rows of streams, or of each of the groups that they have in common.
    pub(super) fn all_pairs(&self, other: &Stream, verb: &str) -> Result<Pairs> {
        self.paired(other, vec![], verb)
    }

    fn paired(&self, other: &Stream, on: Vec<(Expr, Expr)>, verb: &str) -> Result<Pairs> {
        let mut exprs: Vec<(Expr, Expr)> = Vec::new();
        if self.groups == other.groups {
            exprs.extend(self.groups.iter().map(|g| (column(g), column(g))));
        }
        for pair in on {
            if !exprs.contains(&pair) {
                exprs.push(pair);
            }
        }
        let mut pairs = Pairs { left: self.clone(), right: other.clone(), on: vec![] };
        for (left, right) in exprs {
            pairs.add(left, right, verb)?;
        }
        Ok(pairs)
    }

    fn key_pairs(&self, other: &Stream, verb: &str) -> Result<Vec<(Expr, Expr)>> {
        let (left, right) = (self.key(), other.key());
        if left.len() != right.len() && !left.is_empty() && !right.is_empty() {
            return plan_err!(
                "{verb}: the left side is keyed by {} and the right side by {}; say which columns are \
                equal, on=…",
                left.join(", "),
                right.join(", ")
            );
        }
        Ok(left.iter().map(column).zip(right.iter().map(column)).collect())
    }

    /// Without the columns that pairing added: those of `original`.
    pub(super) fn only_columns_of(self, original: &Stream) -> Result<Stream> {
        if self.df_schema().fields().len() == original.df_schema().fields().len() {
            return Ok(self);
        }
        let kept = names(original.df_schema()).into_iter().map(|n| (n.to_string(), column(n)));
        self.project(kept.collect())
    }
}

impl Pairs {
    fn add(&mut self, left: Expr, right: Expr, verb: &str) -> Result<()> {
        let names = (output_name(&left), output_name(&right));
        let left = resolve(left, self.left.df_schema(), &format!("{verb}: on, left"))?.unalias();
        let right = resolve(right, self.right.df_schema(), &format!("{verb}: on, right"))?.unalias();
        let (l, r) = (left.get_type(self.left.df_schema())?, right.get_type(self.right.df_schema())?);
        let Some(common) = common_type(&l, &r) else {
            return plan_err!(
                "{verb}: on: {} is {} and {} is {}, which cannot be compared; cast one of them",
                show(&left),
                type_name(&l),
                show(&right),
                type_name(&r)
            );
        };
        let left = left.cast_to(&common, self.left.df_schema())?;
        let right = right.cast_to(&common, self.right.df_schema())?;
        let left = as_column(&mut self.left, left, &names.0)?;
        let right = as_column(&mut self.right, right, &names.1)?;
        self.on.push((left, right));
        Ok(())
    }
}

/// The name of the column that this expression is; one is added if it is none.
fn as_column(stream: &mut Stream, expr: Expr, name: &str) -> Result<String> {
    if let Some(own) = crate::names::column_name(&expr) {
        return Ok(own.to_string());
    }
    let mut name = name.to_string();
    while stream.df_schema().has_column_with_unqualified_name(&name) {
        name.push('\'');
    }
    *stream = stream.with_named(vec![(name.clone(), expr)])?;
    Ok(name)
}
