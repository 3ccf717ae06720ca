//! What is done to rows one by one, and to relations as a whole. On a stream each has snapshot meaning: the
//! result at an instant is the operation on the rows alive then.

use super::Stream;
use crate::maintained;
use crate::names::{column, column_name, index_of, names, show, type_name, unknown_column};
use crate::nodes::{Changes, extension};
use crate::resolve::{common_type, resolve};
use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, UnnestOptions, plan_err};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Projection,
    Sort, Union, Unnest, WindowFrame, WindowFrameBound, WindowFrameUnits, lit,
};
use std::collections::HashSet;
use std::sync::Arc;

impl Stream {
    /// What comes into this relation and leaves it: a row for each, with a first column
    /// [`change`](crate::nodes::CHANGE), 1 or -1.
    ///
    /// # Errors
    /// `Plan` if a step of a live relation cannot be maintained; the message says which, why, and what to do.
    pub fn changes(&self) -> Result<Stream> {
        maintained::check(&self.plan)?;
        let changes = extension(Changes::try_new(self.input())?);
        self.then(changes)
    }

    /// The rows for which the predicate is true.
    ///
    /// ```
    /// # use datafusion::arrow::datatypes::DataType;
    /// # use datafusion::common::ScalarValue;
    /// # use datafusion::logical_expr::lit;
    /// # use whimbrel_plan::{Stream, column};
    /// # fn main() -> datafusion::common::Result<()> {
    /// # let integers = |name: &str| (name.to_string(), DataType::Int64);
    /// # let row = |values: &[i64]| values.iter().map(|v| ScalarValue::from(*v)).collect::<Vec<_>>();
    /// # let names = |s: &Stream| s.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
    /// let orders = Stream::values(&[integers("id"), integers("price")], vec![row(&[1, 20]), row(&[2,
    /// 30])])?; let dear = orders.where_(column("price").gt(lit(25_i64)))?;
    /// assert!(dear.explain()?.contains("where price > 25"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Plan` if a column is not there, or the predicate is not boolean.
    pub fn where_(&self, predicate: Expr) -> Result<Stream> {
        let predicate = resolve(predicate, self.df_schema(), "where")?;
        match predicate.get_type(self.df_schema())? {
            DataType::Boolean | DataType::Null => {}
            other => {
                return plan_err!(
                    "where: {} is {}, not boolean; compare it with something",
                    show(&predicate.unalias()),
                    type_name(&other)
                );
            }
        }
        let filter = Filter::try_new(predicate.unalias(), Arc::clone(&self.plan))?;
        self.then(LogicalPlan::Filter(filter))
    }

    /// These columns, computed anew. The columns of the current key stay: where they are not among them, they
    /// come first.
    ///
    /// ```
    /// # use datafusion::arrow::datatypes::DataType;
    /// # use datafusion::common::ScalarValue;
    /// # use datafusion::logical_expr::lit;
    /// # use whimbrel_plan::{Stream, column};
    /// # fn main() -> datafusion::common::Result<()> {
    /// # let integers = |name: &str| (name.to_string(), DataType::Int64);
    /// # let row = |values: &[i64]| values.iter().map(|v| ScalarValue::from(*v)).collect::<Vec<_>>();
    /// # let names = |s: &Stream| s.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
    /// let orders = Stream::values(&[integers("id"), integers("price")], vec![row(&[1, 20]), row(&[2,
    /// 30])])?; let doubled = orders.select(vec![column("id"), (column("price") *
    /// lit(2_i64)).alias("double")])?; assert_eq!(names(&doubled), ["id", "double"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Plan` if a column is not there, two have one name, or one of the current key is computed anew.
    pub fn select(&self, exprs: Vec<Expr>) -> Result<Stream> {
        let exprs = self.named(exprs, "select")?;
        let missing = self.key().iter().filter(|k| !exprs.iter().any(|(name, _)| name == *k));
        let kept: Vec<(String, Expr)> = missing.map(|k| (k.clone(), column(k))).collect();
        self.project(kept.into_iter().chain(exprs).collect())
    }

    /// All columns and these: one with the name of an old column takes its place, the others follow at the
    /// end.
    ///
    /// ```
    /// # use datafusion::arrow::datatypes::DataType;
    /// # use datafusion::common::ScalarValue;
    /// # use datafusion::logical_expr::lit;
    /// # use whimbrel_plan::{Stream, column};
    /// # fn main() -> datafusion::common::Result<()> {
    /// # let integers = |name: &str| (name.to_string(), DataType::Int64);
    /// # let row = |values: &[i64]| values.iter().map(|v| ScalarValue::from(*v)).collect::<Vec<_>>();
    /// # let names = |s: &Stream| s.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
    /// let orders = Stream::values(&[integers("id"), integers("price")], vec![row(&[1, 20]), row(&[2,
    /// 30])])?; let doubled = orders.with_columns(vec![(column("price") * lit(2_i64)).alias("double")])?;
    /// assert_eq!(names(&doubled), ["id", "price", "double"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Plan` if a column is not there, two have one name, or one of the current key is computed anew.
    pub fn with_columns(&self, exprs: Vec<Expr>) -> Result<Stream> {
        let exprs = self.named(exprs, "with_columns")?;
        self.with_named(exprs)
    }

    /// All columns but these.
    ///
    /// ```
    /// # use datafusion::arrow::datatypes::DataType;
    /// # use datafusion::common::ScalarValue;
    /// # use datafusion::logical_expr::lit;
    /// # use whimbrel_plan::{Stream, column};
    /// # fn main() -> datafusion::common::Result<()> {
    /// # let integers = |name: &str| (name.to_string(), DataType::Int64);
    /// # let row = |values: &[i64]| values.iter().map(|v| ScalarValue::from(*v)).collect::<Vec<_>>();
    /// # let names = |s: &Stream| s.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
    /// let orders = Stream::values(&[integers("id"), integers("price")], vec![row(&[1, 20]), row(&[2,
    /// 30])])?; assert_eq!(names(&orders.drop(&["price"])?), ["id"]);
    /// assert!(orders.drop(&["prise"]).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Plan` if a column is not there, or is in the current key.
    pub fn drop(&self, unwanted: &[&str]) -> Result<Stream> {
        for name in unwanted {
            index_of(self.df_schema(), name)?;
            if self.key().iter().any(|k| k == name) {
                return plan_err!("drop: {name:?} is in the current key; rekey by something else first");
            }
        }
        let kept = names(self.df_schema()).into_iter().filter(|n| !unwanted.contains(n));
        self.project(kept.map(|n| (n.to_string(), column(n))).collect())
    }

    /// One row for every element of a list, with the element in the column `name`. Null and empty lists give
    /// no row.
    ///
    /// # Errors
    /// `Plan` if it is no list, or there is a column of this name already.
    pub fn select_many(&self, list: Expr, name: &str) -> Result<Stream> {
        self.unnested(list, name, false)
    }

    /// The same, with one row for a null list, whose element is null. Relations only.
    ///
    /// # Errors
    /// Those of [`select_many`](Stream::select_many); `Plan` too if this is a stream.
    pub fn select_many_or_null(&self, list: Expr, name: &str) -> Result<Stream> {
        self.untimed("select_many", "a null list gives no row; replace it by a list with a null")?;
        self.unnested(list, name, true)
    }

    fn unnested(&self, list: Expr, name: &str, nulls: bool) -> Result<Stream> {
        let list = resolve(list, self.df_schema(), "select_many")?;
        let list_type = list.get_type(self.df_schema())?;
        if !matches!(list_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _)) {
            return plan_err!(
                "select_many: {} is {}, not a list",
                show(&list.unalias()),
                type_name(&list_type)
            );
        }
        self.check_not_key(name, "select_many")?;
        let listed = self.with_named(vec![(name.to_string(), list)])?;
        let options = UnnestOptions::new().with_preserve_nulls(nulls);
        let unnest = Unnest::try_new(listed.plan, vec![Column::from_name(name)], options)?;
        self.then(LogicalPlan::Unnest(unnest))
    }

    /// Every row once: of equal rows that are alive together, one.
    ///
    /// # Errors
    /// `Plan` if the properties of the result cannot be derived.
    pub fn distinct(&self) -> Result<Stream> {
        self.then(LogicalPlan::Distinct(Distinct::All(Arc::clone(&self.plan))))
    }

    /// The rows of both. Columns are matched by name; the current key stays if it is the same on both sides.
    ///
    /// ```
    /// # use datafusion::arrow::datatypes::DataType;
    /// # use datafusion::common::ScalarValue;
    /// # use datafusion::logical_expr::lit;
    /// # use whimbrel_plan::{Stream, column};
    /// # fn main() -> datafusion::common::Result<()> {
    /// # let integers = |name: &str| (name.to_string(), DataType::Int64);
    /// # let row = |values: &[i64]| values.iter().map(|v| ScalarValue::from(*v)).collect::<Vec<_>>();
    /// # let names = |s: &Stream| s.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
    /// let orders = Stream::values(&[integers("id"), integers("price")], vec![row(&[1, 20]), row(&[2,
    /// 30])])?; assert_eq!(names(&orders.union(&orders)?), ["id", "price"]);
    /// assert!(orders.union(&orders.drop(&["price"])?).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Plan` if the columns have other names, or types without a common one, or both sides differ in their
    /// number of shards or in how they count time.
    pub fn union(&self, other: &Stream) -> Result<Stream> {
        let (left, right) = (self.df_schema(), other.df_schema());
        same_columns(left, right)?;
        let mut types = Vec::new();
        for field in left.fields() {
            let right_type = right.field(index_of(right, field.name())?).data_type();
            match common_type(field.data_type(), right_type) {
                Some(common) => types.push((field.name().clone(), common)),
                None => {
                    return plan_err!(
                        "union: {:?} is {} on the left and {} on the right; cast one of them",
                        field.name(),
                        type_name(field.data_type()),
                        type_name(right_type)
                    );
                }
            }
        }
        let inputs = vec![cast_columns(self, &types)?, cast_columns(other, &types)?];
        self.then(LogicalPlan::Union(Union::try_new(inputs)?))
    }

    /// The rows in order, shard by shard. Relations only.
    ///
    /// # Errors
    /// `Plan` if this is a stream, there is nothing to sort by, or a column is not there.
    pub fn sort(&self, by: Vec<SortExpr>) -> Result<Stream> {
        self.untimed("sort", "its rows are in the order of time, and there is no last one to sort up to")?;
        if by.is_empty() {
            return plan_err!("sort: say by which columns");
        }
        let by = by.into_iter().map(|s| {
            let expr = resolve(s.expr.clone(), self.df_schema(), "sort")?;
            Ok(s.with_expr(expr.unalias()))
        });
        let sort = Sort { expr: by.collect::<Result<_>>()?, input: Arc::clone(&self.plan), fetch: None };
        self.then(LogicalPlan::Sort(sort))
    }

    /// The first `fetch` rows after the first `skip`, shard by shard; inside `group_apply`, of each group.
    /// Relations only.
    ///
    /// # Errors
    /// `Plan` if this is a stream.
    pub fn limit(&self, skip: usize, fetch: Option<usize>) -> Result<Stream> {
        self.untimed("limit", "which rows are the first ones changes as time moves")?;
        if !self.groups.is_empty() {
            return self.first_of_groups(skip, fetch);
        }
        self.then(LogicalPlanBuilder::new_from_arc(Arc::clone(&self.plan)).limit(skip, fetch)?.build()?)
    }

    /// Rows of groups are numbered, in the order that they have been sorted by just before.
    fn first_of_groups(&self, skip: usize, fetch: Option<usize>) -> Result<Stream> {
        let mut number = "row_number".to_string();
        while self.df_schema().has_column_with_unqualified_name(&number) {
            number.insert(0, '_');
        }
        let order = match self.plan() {
            LogicalPlan::Sort(sort) => sort.expr.clone(),
            _ => vec![],
        };
        let so_far = WindowFrame::new_bounds(
            WindowFrameUnits::Rows,
            WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
            WindowFrameBound::CurrentRow,
        );
        let place = row_number().order_by(order).window_frame(so_far).build()?;
        let numbered = self.with_windows(vec![(number.clone(), place)])?;
        let after = |rows: usize| lit(ScalarValue::UInt64(Some(rows as u64)));
        let mut chosen = column(&number).gt(after(skip));
        if let Some(fetch) = fetch {
            chosen = chosen.and(column(&number).lt_eq(after(skip.saturating_add(fetch))));
        }
        numbered.where_(chosen)?.select(names(self.df_schema()).into_iter().map(column).collect())
    }

    pub(super) fn untimed(&self, verb: &str, why: &str) -> Result<()> {
        match self.properties.time {
            None => Ok(()),
            Some(_) => {
                plan_err!("{verb} is for relations, this is a stream: {why}; {verb} what it gives instead")
            }
        }
    }

    /// Resolved expressions with the names that their columns get, which have to differ and may not be a
    /// key's.
    fn named(&self, exprs: Vec<Expr>, verb: &str) -> Result<Vec<(String, Expr)>> {
        let mut seen = HashSet::new();
        let mut out = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let name = output_name(&expr);
            if !seen.insert(name.clone()) {
                return plan_err!("{verb}: there would be two columns named {name:?}; alias one of them");
            }
            if column_name(&expr) != Some(&name) {
                self.check_not_key(&name, verb)?;
            }
            out.push((name, resolve(expr, self.df_schema(), verb)?));
        }
        Ok(out)
    }

    fn check_not_key(&self, name: &str, verb: &str) -> Result<()> {
        match self.key().iter().any(|k| k == name) {
            true => plan_err!(
                "{verb}: {name:?} is in the current key, which cannot change under it; choose another name, \
                or rekey"
            ),
            false => Ok(()),
        }
    }

    /// All columns and these, resolved.
    pub(super) fn with_named(&self, mut exprs: Vec<(String, Expr)>) -> Result<Stream> {
        let mut all: Vec<(String, Expr)> = Vec::new();
        for old in names(self.df_schema()) {
            match exprs.iter().position(|(name, _)| name == old) {
                Some(i) => all.push(exprs.remove(i)),
                None => all.push((old.to_string(), column(old))),
            }
        }
        all.extend(exprs);
        self.project(all)
    }

    /// These columns and no others, resolved.
    pub(super) fn project(&self, exprs: Vec<(String, Expr)>) -> Result<Stream> {
        if exprs.is_empty() {
            return plan_err!("at least one column has to stay");
        }
        self.then(LogicalPlan::Projection(Projection::try_new(aliased(exprs), Arc::clone(&self.plan))?))
    }
}

/// The name that an expression's column gets: its alias, its own, or how it reads.
pub(super) fn output_name(expr: &Expr) -> String {
    match expr {
        Expr::Alias(alias) => alias.name.clone(),
        Expr::Column(column) => column.flat_name(),
        other => show(other),
    }
}

fn aliased(exprs: Vec<(String, Expr)>) -> Vec<Expr> {
    exprs
        .into_iter()
        .map(|(name, expr)| match column_name(&expr) {
            Some(own) if own == name => expr,
            _ => expr.unalias().alias(name),
        })
        .collect()
}

fn same_columns(left: &DFSchema, right: &DFSchema) -> Result<()> {
    let (left, right) = (names(left), names(right));
    if let Some(missing) = left.iter().find(|n| !right.contains(n)) {
        return plan_err!("union: the right side: {}", unknown_column(missing, &right).message());
    }
    match right.iter().find(|n| !left.contains(n)) {
        Some(extra) => plan_err!("union: the left side: {}", unknown_column(extra, &left).message()),
        None => Ok(()),
    }
}

/// The stream's columns in this order with these types.
fn cast_columns(stream: &Stream, types: &[(String, DataType)]) -> Result<Arc<LogicalPlan>> {
    let schema = stream.df_schema();
    let as_is =
        schema.fields().iter().zip(types).all(|(f, (name, t))| f.name() == name && f.data_type() == t);
    if as_is {
        return Ok(Arc::clone(&stream.plan));
    }
    let cast = types.iter().map(|(name, t)| Ok((name.clone(), column(name).cast_to(t, schema)?)));
    Ok(stream.project(cast.collect::<Result<_>>()?)?.plan)
}
