//! Keys and exchanges: nodes that change the current key or move rows between shards.

use super::arguments::dictionary;
use super::document::Doc;
use super::literal::python_string;
use super::reader::{Reader, Required, Scope};
use super::rows::added_columns;
use super::steps::StepKind;
use super::variable_names::name_of;
use crate::names::{column, column_name};
use crate::nodes::{Colocated, Colocation, Exchange, Movement, ReKey, Scope as ExchangeScope};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan};

impl Reader {
    /// The step of a `ReKey` node.
    pub fn rekey(&mut self, rekey: &ReKey) -> Result<Scope> {
        if let Some(scope) = self.computed_key(rekey)? {
            return Ok(scope);
        }
        let input = self.read(&rekey.input, &Default::default())?;
        let key =
            rekey.key.iter().map(|e| self.key_column(e, &rekey.input, &input)).collect::<Result<Vec<_>>>()?;
        self.keyed(input, &key)
    }

    /// A key whose columns are computed right below: `.rekey(lambda e: {"bucket": e.user % 10})`.
    fn computed_key(&mut self, rekey: &ReKey) -> Result<Option<Scope>> {
        let Some((below, added)) = added_columns(&rekey.input) else { return Ok(None) };
        let names: Vec<&str> = rekey.key.iter().filter_map(column_name).collect();
        let is_added = |name: &&&str| added.iter().any(|(a, _)| a == **name);
        let in_order = names.iter().filter(is_added).eq(added.iter().map(|(name, _)| name));
        if names.len() != rekey.key.len() || !in_order {
            return Ok(None);
        }
        let input = self.read(below, &Default::default())?;
        let mut key = Vec::new();
        for name in names {
            key.push(match added.iter().find(|(n, _)| n == name) {
                Some((_, expr)) => (name.to_string(), self.rewrite_expr(expr, below.schema(), &input)?),
                None => (name.to_string(), column(name)),
            });
        }
        let mut scope = self.keyed_by(input, &key)?;
        scope.columns.extend(added.into_iter().map(|(name, _)| name));
        Ok(Some(scope))
    }

    /// The column of a scope that a column of the plan is.
    pub fn key_column(&self, expr: &Expr, plan: &LogicalPlan, scope: &Scope) -> Result<String> {
        match self.rewrite_expr(expr, plan.schema(), scope)? {
            Expr::Column(c) => Ok(c.name),
            other => plan_err!("a key has to be columns, not {other}; project it first"),
        }
    }

    /// Adds a `.rekey(…)` by columns, unless they are the key already.
    pub fn keyed(&mut self, scope: Scope, key: &[String]) -> Result<Scope> {
        let pairs: Vec<(String, Expr)> = key.iter().map(|k| (k.clone(), column(k))).collect();
        self.keyed_by(scope, &pairs)
    }

    /// Adds a `.rekey(…)` by named expressions, unless they are the key already.
    pub fn keyed_by(&mut self, scope: Scope, key: &[(String, Expr)]) -> Result<Scope> {
        let stream = self.steps.stream(scope.step).clone();
        let is_column = |(name, expr): &(String, Expr)| column_name(expr) == Some(name);
        let names: Vec<&String> = key.iter().map(|(name, _)| name).collect();
        if key.iter().all(is_column) && stream.properties().key.iter().collect::<Vec<_>>() == names {
            return Ok(scope);
        }
        if stream.schema().fields().is_empty() {
            let made = self.select(scope, key.to_vec(), false)?;
            let names: Vec<String> = key.iter().map(|(name, _)| name.clone()).collect();
            return self.keyed(made, &names);
        }
        let exprs = super::reader::aliased(key);
        let mut arguments = Vec::new();
        for pair in key {
            arguments.push(match is_column(pair) {
                true => Doc::Text(python_string(&pair.0)),
                false => dictionary(self, scope.step, std::slice::from_ref(pair))?,
            });
        }
        Ok(self.add_step(scope, StepKind::StreamMethod, Doc::call(".rekey", arguments), stream.rekey(exprs)?))
    }

    /// The step of a `Colocated` node: `.colocated(…)`, or `.join(…, colocated=True)`.
    pub fn colocated(&mut self, colocated: &Colocated, required: &Required) -> Result<Scope> {
        let key = match (&*colocated.colocation, &*colocated.input) {
            (Colocation::Matches, LogicalPlan::Join(join)) => return self.join(join, true, required),
            (Colocation::Matches, other) => return plan_err!("no join is co-located: {}", other.display()),
            (Colocation::Equal(key), _) => key,
        };
        let scope = self.read(&colocated.input, &Default::default())?;
        let key = self.rewrite_exprs(key, colocated.input.schema(), &scope)?;
        let mut arguments = Vec::new();
        for expr in &key {
            arguments.push(match column_name(expr) {
                Some(name) => Doc::Text(python_string(name)),
                None => self.lambda(scope.step, expr)?,
            });
        }
        let stream = self.steps.stream(scope.step).colocated(key)?;
        Ok(self.add_step(scope, StepKind::QueryMethod, Doc::call(".colocated", arguments), stream))
    }

    /// The step of an `Exchange` node: `.redistribute()`, `.reshard()`, `.broadcast()` or `.multicast(…)`.
    pub fn exchange(&mut self, exchange: &Exchange, required: &Required) -> Result<Scope> {
        if let Some(sort) = exchange.as_one_sort()? {
            return self.read(&sort, required);
        }
        let mut scope = self.read(&exchange.input, &Default::default())?;
        let (mut arguments, mut runs) = (Vec::new(), Vec::new());
        let method = match &*exchange.movement {
            Movement::ReDistribute { key } => {
                let key = key
                    .iter()
                    .map(|e| self.key_column(e, &exchange.input, &scope))
                    .collect::<Result<Vec<_>>>()?;
                scope = self.keyed(scope, &key)?;
                "redistribute"
            }
            Movement::ReShard => "reshard",
            Movement::Runs { key } => {
                let key = key.iter().map(|e| self.key_column(e, &exchange.input, &scope));
                runs = key.collect::<Result<_>>()?;
                "reshard"
            }
            Movement::Broadcast => "broadcast",
            Movement::Multicast { to } => {
                let to = self.rewrite_expr(to, exchange.input.schema(), &scope)?;
                arguments.push(match column_name(&to) {
                    Some(name) => Doc::Text(python_string(name)),
                    None => self.lambda(scope.step, &to)?,
                });
                "multicast"
            }
            Movement::Windows { .. } | Movement::Ranges { .. } | Movement::InOrder => {
                return no_word(exchange);
            }
        };
        let stream = self.steps.stream(scope.step).clone();
        let before = stream.properties().shards;
        let shards = exchange.shards.unwrap_or(before);
        // In Python the default from one shard is the number of cores.
        if shards != before || before == 1 {
            arguments.push(match method {
                "multicast" => Doc::Text(format!("shards={shards}")),
                _ => Doc::Text(shards.to_string()),
            });
        }
        if !runs.is_empty() {
            let names: Vec<String> = runs.iter().map(|name| python_string(name)).collect();
            let comma = if names.len() == 1 { "," } else { "" };
            arguments.push(Doc::Text(format!("together=({}{comma})", names.join(", "))));
        }
        if exchange.scope == ExchangeScope::Local {
            arguments.push(Doc::text("scope=\"local\""));
        }
        if let Some(location) = &exchange.location {
            arguments.push(Doc::Text(format!("location={}", python_string(location))));
        }
        let moved = match &*exchange.movement {
            Movement::ReDistribute { .. } => stream.redistribute(Some(shards), exchange.scope)?,
            Movement::ReShard => stream.reshard(Some(shards), exchange.scope)?,
            Movement::Runs { .. } => stream.reshard_runs(runs.iter().map(column).collect(), Some(shards))?,
            Movement::Broadcast => stream.broadcast(Some(shards), exchange.scope)?,
            Movement::Multicast { to } => {
                let to = self.rewrite_expr(to, exchange.input.schema(), &scope)?;
                stream.multicast(to, Some(shards), exchange.scope)?
            }
            Movement::Windows { .. } | Movement::Ranges { .. } | Movement::InOrder => {
                return no_word(exchange);
            }
        };
        let moved = match &exchange.location {
            Some(location) => moved.at(location)?,
            None => moved,
        };
        let name = moved_name(self.steps.name(scope.step), exchange, moved.properties().key.first());
        Ok(self.add_named_step(
            scope,
            StepKind::StreamMethod,
            Doc::call(format!(".{method}"), arguments),
            moved,
            name,
        ))
    }
}

/// The error of a movement that planners make and programs have no word for.
fn no_word<T>(exchange: &Exchange) -> Result<T> {
    plan_err!("a program has no word for this movement of rows: {}", exchange.movement)
}

/// The name of an exchanged stream: `orders_by_o_custkey`, `copied_nation`.
fn moved_name(name: &str, exchange: &Exchange, key: Option<&String>) -> String {
    match (&*exchange.movement, key) {
        (Movement::ReDistribute { .. }, Some(key)) if !name.starts_with("per_") && !name.contains("_by_") => {
            name_of(&format!("{name}_by_{key}"))
        }
        (Movement::Broadcast, _) if !name.starts_with("copied_") => name_of(&format!("copied_{name}")),
        _ => name.to_string(),
    }
}
