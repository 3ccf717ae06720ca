//! Keys and shards (quill.txt §3.2, §3.3): what the current key is, and which rows are in which shard.

use super::Stream;
use super::relational::output_name;
use crate::names::{column, column_name, show, type_name};
use crate::nodes::{Colocated, Exchange, Movement, Node, ReKey, Scope, extension, node};
use crate::resolve::{resolve, resolve_as};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, ExprSchemable};
use std::sync::Arc;

impl Stream {
    /// Sets the current key; no row moves. A computed key becomes a column. No expressions: no key.
    ///
    /// Inside `group_apply` the columns of the groups stay in front.
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
    /// 30])])?; let keyed = orders.rekey(vec![column("id")])?; assert_eq!(keyed.properties().key, ["id"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Plan` if a column is not there, or a computed key has the name of another column.
    pub fn rekey(&self, key: Vec<Expr>) -> Result<Stream> {
        let mut columns: Vec<String> = self.groups.to_vec();
        let mut computed = Vec::new();
        for expr in key {
            let name = output_name(&expr);
            let expr = resolve(expr, self.df_schema(), "rekey")?;
            if column_name(&expr) != Some(&name) {
                if self.df_schema().has_column_with_unqualified_name(&name) {
                    return plan_err!("rekey: there is a column {name:?} already; alias the computed key");
                }
                computed.push((name.clone(), expr));
            }
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
        let keyed = if computed.is_empty() { self.clone() } else { self.with_named(computed)? };
        keyed.keyed_by(&columns)
    }

    /// Moves rows so that those with equal keys are in the same shard.
    ///
    /// # Errors
    /// `Plan` if there is no key; as for [`reshard`](Stream::reshard).
    pub fn redistribute(&self, shards: Option<usize>, scope: Scope) -> Result<Stream> {
        if self.key().is_empty() {
            return plan_err!(
                "redistribute brings rows with equal keys together, but there is no key: rekey first"
            );
        }
        self.exchange(Movement::ReDistribute { key: self.key_exprs() }, shards, scope, "redistribute")
    }

    /// Moves rows round robin, for shards of equal size.
    ///
    /// # Errors
    /// `Plan` inside `group_apply`, if there are no shards to move to, or if they cannot be spread evenly
    /// over the groups of a local scope.
    pub fn reshard(&self, shards: Option<usize>, scope: Scope) -> Result<Stream> {
        self.exchange(Movement::ReShard, shards, scope, "reshard")
    }

    /// Deals out runs of rows with equal keys in turns, from one shard whose rows come
    /// [sorted](Stream::require_sorted) by the key: rows with equal keys are in the same shard, and none is
    /// copied (trill.txt §6.2, packing).
    ///
    /// # Errors
    /// `Plan` if the key is not columns, or rows with equal keys may not follow each other; as for
    /// [`reshard`](Stream::reshard).
    pub fn reshard_runs(&self, key: Vec<Expr>, shards: Option<usize>) -> Result<Stream> {
        let key = key.into_iter().map(|k| Ok(resolve(k, self.df_schema(), "reshard")?.unalias()));
        let movement = Movement::Runs { key: key.collect::<Result<_>>()? };
        self.exchange(movement, shards, Scope::Global, "reshard")
    }

    /// Copies every row to every shard.
    ///
    /// # Errors
    /// `Plan` inside `group_apply`, if there are no shards to move to, or if they cannot be spread evenly
    /// over the groups of a local scope.
    pub fn broadcast(&self, shards: Option<usize>, scope: Scope) -> Result<Stream> {
        self.exchange(Movement::Broadcast, shards, scope, "broadcast")
    }

    /// Sends every row to the shards that it says: an integer, or a list of integers.
    ///
    /// # Errors
    /// `Plan` if `to` is neither an integer nor a list of integers; as for [`reshard`](Stream::reshard).
    pub fn multicast(&self, to: Expr, shards: Option<usize>, scope: Scope) -> Result<Stream> {
        let to = resolve(to, self.df_schema(), "multicast")?.unalias();
        let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
        let to = match to.get_type(self.df_schema())? {
            t if t.is_integer() => resolve_as(to, &DataType::Int64, self.df_schema(), "multicast")?,
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => {
                resolve_as(to, &list, self.df_schema(), "multicast")?
            }
            other => {
                return plan_err!(
                    "multicast: {} is {}; the target shards are an integer or a list of integers",
                    show(&to),
                    type_name(&other)
                );
            }
        };
        self.exchange(Movement::Multicast { to }, shards, scope, "multicast")
    }

    /// The same rows, which are required to lie so that those that are equal in these columns, or all if none
    /// is given, are in one shard (or that every shard holds a copy of all): what is computed from here on,
    /// shard by shard, is one answer. Refused where that is not known to hold.
    ///
    /// Inside `group_apply` it is about the rows of each group.
    ///
    /// # Errors
    /// `Plan` if a column is not there, or rows that belong together may lie in different shards.
    pub fn colocated(&self, key: Vec<Expr>) -> Result<Stream> {
        let groups = self.groups.iter().map(column);
        let given = key.into_iter().map(|k| Ok(resolve(k, self.df_schema(), "colocated")?.unalias()));
        let key = groups.map(Ok).chain(given).collect::<Result<_>>()?;
        self.then(extension(Colocated::rows(self.input(), key)?))
    }

    /// Moves the rows to a virtual cluster: what comes after the exchange that this stream is runs there.
    ///
    /// # Errors
    /// `Plan` if the stream is no exchange.
    pub fn at(&self, location: &str) -> Result<Stream> {
        match node(&self.plan) {
            Some(Node::Exchange(exchange)) => {
                self.then(extension(exchange.clone().at(Some(location.to_string()))))
            }
            _ => plan_err!("only an exchange moves rows to a virtual cluster"),
        }
    }

    fn exchange(
        &self,
        movement: Movement,
        shards: Option<usize>,
        scope: Scope,
        verb: &str,
    ) -> Result<Stream> {
        if !self.groups.is_empty() {
            return plan_err!(
                "{verb}: rows do not move between shards inside group_apply; do it before or after"
            );
        }
        self.then(extension(Exchange::try_new(self.input(), movement, shards, scope)?))
    }

    /// The same stream with these columns, which exist, as its key.
    pub(super) fn keyed_by(&self, columns: &[String]) -> Result<Stream> {
        if self.key() == columns {
            return Ok(self.clone());
        }
        let key = columns.iter().map(column).collect();
        self.then(extension(ReKey::try_new(self.input(), key)?))
    }

    /// The current key as expressions.
    pub(super) fn key_exprs(&self) -> Vec<Expr> {
        self.key().iter().map(column).collect()
    }
}
