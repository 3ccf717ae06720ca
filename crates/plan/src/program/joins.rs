//! Two streams at once.
//!
//! A join that the builder made is read back as the very call that made it. Any other is said in the
//! builder's words: right joins as left joins of the sides exchanged, conditions of an inner join as a filter
//! of its pairs.

use super::document::Doc;
use super::expression::ExprWriter;
use super::literal::python_string;
use super::python_expressions::rewrite_for_python;
use super::reader::{Reader, Required, Scope, aliased, position, unique_name};
use super::rows::{arguments, dictionary, positions, reads_as_added};
use super::steps::{Step, StepKind, Steps};
use super::variable_names::name_of;
use crate::names::{column, column_name, names};
use crate::nodes::{Node, node};
use crate::resolve::common_type;
use crate::stream::{JoinHow, JoinKind};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result, plan_err};
use datafusion::logical_expr::{Expr, ExprSchemable, Join, LogicalPlan, Projection, lit};
use std::collections::BTreeSet;

const LEFT: &str = "left";
const RIGHT: &str = "right";

impl Reader {
    /// The join that the builder made of this projection over a join, if it did.
    pub fn built_join(
        &mut self,
        projection: &Projection,
        join: &Join,
        colocated: bool,
    ) -> Result<Option<Scope>> {
        let (Some(left), Some(right)) = (sided(&join.left, LEFT), sided(&join.right, RIGHT)) else {
            return Ok(None);
        };
        let Some(kind) = kind_of(join) else { return Ok(None) };
        let output = names(&projection.schema);
        let Some((left, left_added)) = without_added(left, |name| !output.contains(&name)) else {
            return Ok(None);
        };
        let paired = |name: &str| join.on.iter().any(|(_, r)| r.try_as_col().is_some_and(|c| c.name == name));
        let Some((right, right_added)) = without_added(right, paired) else { return Ok(None) };
        let (l, r) = (self.read(left, &Required::default())?, self.read(right, &Required::default())?);
        let mut on = Vec::new();
        for (a, b) in &join.on {
            let (Some(a), Some(b)) = (a.try_as_col(), b.try_as_col()) else { return Ok(None) };
            on.push((
                self.key_part(&a.name, &left_added, left, &l)?,
                self.key_part(&b.name, &right_added, right, &r)?,
            ));
        }
        let suffix = suffix_of(projection).unwrap_or_else(|| "_right".to_string());
        let both = JoinHow::both(self.steps.stream(l.step), self.steps.stream(r.step))?;
        let how = JoinHow {
            kind,
            suffix,
            filter: join.filter.as_ref().map(|f| rewrite_for_python(f, &both)).transpose()?,
            nulls_equal: join.null_equality == NullEquality::NullEqualsNull,
            null_aware: join.null_aware,
            colocated,
        };
        let Ok(stream) = self.steps.stream(l.step).join_as(self.steps.stream(r.step), on.clone(), &how)
        else {
            return Ok(None);
        };
        match joined_columns(stream.plan()) == Some(&projection.expr) {
            true => self.joined(l, r, on, &how).map(Some),
            false => Ok(None),
        }
    }

    /// What a column is paired by: the column, or what was computed for it.
    fn key_part(
        &self,
        name: &str,
        added: &[(String, Expr)],
        plan: &LogicalPlan,
        scope: &Scope,
    ) -> Result<Expr> {
        let Some((_, expr)) = added.iter().find(|(n, _)| n == name) else { return Ok(column(name)) };
        let bare = name.trim_end_matches('\'');
        match expr {
            // A cast that pairing columns of different types has added.
            Expr::Cast(cast) if column_name(&cast.expr) == Some(bare) => Ok(column(bare)),
            other => Ok(self.rewrite_expr(other, plan.schema(), scope)?.alias(name)),
        }
    }

    pub fn join(&mut self, join: &Join, colocated: bool, required: &Required) -> Result<Scope> {
        use JoinType::{
            Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
        };
        let (kind, turned) = match join.join_type {
            Inner => (JoinKind::Inner, false),
            Left => (JoinKind::Left, false),
            Right => (JoinKind::Left, true),
            Full => (JoinKind::Full, false),
            LeftSemi => (JoinKind::Semi, false),
            RightSemi => (JoinKind::Semi, true),
            LeftAnti => (JoinKind::Anti, false),
            RightAnti => (JoinKind::Anti, true),
            LeftMark => (JoinKind::Mark, false),
            RightMark => (JoinKind::Mark, true),
        };
        let used = used_of(join, required)?;
        let (left, right) = ((&*join.left, used.0), (&*join.right, used.1));
        let ((near, near_used), (far, far_used)) = if turned { (right, left) } else { (left, right) };
        let near_scope =
            self.read(near, &Required { used: Some(near_used.clone()), ..Required::default() })?;
        let far_scope = self.read(far, &Required { used: Some(far_used.clone()), ..Required::default() })?;
        let sides = Sides { near: (near, near_scope, near_used), far: (far, far_scope, far_used), turned };
        self.join_how(join, colocated, kind, sides)
    }

    fn join_how(
        &mut self,
        join: &Join,
        colocated: bool,
        kind: JoinKind,
        mut sides: Sides<'_>,
    ) -> Result<Scope> {
        let mut on = Vec::new();
        for (l, r) in &join.on {
            let (near, far) = if sides.turned { (r, l) } else { (l, r) };
            let near = self.rewrite_expr(near, sides.near.0.schema(), &sides.near.1)?;
            let far = self.rewrite_expr(far, sides.far.0.schema(), &sides.far.1)?;
            on.push(self.without_casts(near, far, &sides));
        }
        self.set_apart(kind, &mut on, &mut sides)?;
        self.name_computed(&mut on, &sides);
        let filter = match &join.filter {
            Some(filter) => Some(self.two_sided(filter, join, &sides)?),
            None => None,
        };
        let inner = kind == JoinKind::Inner;
        let how = JoinHow {
            suffix: self.suffix(kind, &on, &sides),
            filter: match &filter {
                // Without a condition, all rows are partners.
                None if on.is_empty() && matches!(kind, JoinKind::Left | JoinKind::Full) => Some(lit(true)),
                filter => filter.clone().filter(|_| !inner),
            },
            nulls_equal: join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty(),
            null_aware: join.null_aware,
            colocated,
            ..JoinHow::of(if inner && on.is_empty() { JoinKind::Cross } else { kind })
        };
        let (near, far) = (sides.near.1.clone(), sides.far.1.clone());
        let columns = self.joined_names(&on, &how, &sides);
        let mut scope = self.joined(near, far, on, &how)?;
        if let Some(filter) = filter.filter(|_| inner) {
            let (near, far) = &columns;
            let predicate = one_sided(&filter, &sides, near, far)?;
            let schema = self.steps.stream(scope.step).plan().schema().clone();
            scope = self.where_(scope, rewrite_for_python(&predicate, &schema)?)?;
        }
        let (near, far) = columns;
        let columns = if sides.turned { [far, near].concat() } else { [near, far].concat() };
        Ok(Scope { step: scope.step, columns })
    }

    /// Casts that pairing would add by itself are left out.
    fn without_casts(&self, near: Expr, far: Expr, sides: &Sides<'_>) -> (Expr, Expr) {
        let bare = |e: &Expr| match e {
            Expr::Cast(cast) if column_name(&cast.expr).is_some() => cast.expr.as_ref().clone(),
            other => other.clone(),
        };
        let kind = |e: &Expr, scope: &Scope| e.get_type(self.steps.stream(scope.step).plan().schema()).ok();
        let wanted = kind(&near, &sides.near.1);
        let (a, b) = (bare(&near), bare(&far));
        let common = match (kind(&a, &sides.near.1), kind(&b, &sides.far.1)) {
            (Some(a), Some(b)) => common_type(&a, &b),
            _ => None,
        };
        if common.is_some() && common == wanted { (a, b) } else { (near, far) }
    }

    /// Columns of the far side that the builder would leave out, because their equals of the same name stay,
    /// get another name where they are not equal in every row that comes out.
    fn set_apart(&mut self, kind: JoinKind, on: &mut [(Expr, Expr)], sides: &mut Sides<'_>) -> Result<()> {
        if !matches!(kind, JoinKind::Inner | JoinKind::Left | JoinKind::Full) {
            return Ok(());
        }
        let (near, far) =
            (self.steps.stream(sides.near.1.step).clone(), self.steps.stream(sides.far.1.step).clone());
        let mut renamed: Vec<(String, String)> = Vec::new();
        for (l, r) in on.iter_mut() {
            let (Some(name), Some(other)) = (column_name(l), column_name(r)) else { continue };
            let place = sides.far.1.columns.iter().position(|c| c == name);
            // A full join's near column is either side's.
            let used = kind == JoinKind::Full || place.is_some_and(|place| sides.far.2.contains(&place));
            if name != other || !used {
                continue;
            }
            let kind_of = |e: &Expr, schema: &DFSchema| e.get_type(schema).ok();
            let kinds = (kind_of(l, near.plan().schema()), kind_of(r, far.plan().schema()));
            if kind == JoinKind::Inner
                && kinds.0 == kinds.1
                && !kinds.0.is_some_and(|t: DataType| t.is_floating())
            {
                continue;
            }
            let taken =
                |n: &str| names(near.plan().schema()).contains(&n) || names(far.plan().schema()).contains(&n);
            let new = unique_name(&format!("{name}_right"), taken);
            renamed.push((name.to_string(), new.clone()));
            *r = column(new);
        }
        if renamed.is_empty() {
            return Ok(());
        }
        let mut scope = self.keyed(sides.far.1.clone(), &[])?;
        let stream = self.steps.stream(scope.step).clone();
        let new =
            |name: &str| renamed.iter().find(|(old, _)| old == name).map_or(name, |(_, new)| new).to_string();
        let pairs: Vec<(String, Expr)> =
            names(stream.plan().schema()).into_iter().map(|n| (new(n), column(n))).collect();
        let doc = Doc::call(".select", arguments(self, scope.step, &pairs)?);
        scope.columns = scope.columns.iter().map(|n| new(n)).collect();
        sides.far.1 = self.add_step(scope, StepKind::QueryMethod, doc, stream.select(aliased(&pairs))?);
        Ok(())
    }

    /// What is computed to be paired gets a name.
    fn name_computed(&self, on: &mut [(Expr, Expr)], sides: &Sides<'_>) {
        let (near, far) = (self.steps.stream(sides.near.1.step), self.steps.stream(sides.far.1.step));
        let taken = |n: &str| [near, far].iter().any(|s| names(s.plan().schema()).contains(&n));
        for (number, (l, r)) in on.iter_mut().enumerate() {
            let base = if number == 0 { "key".to_string() } else { format!("key_{}", number + 1) };
            let name = unique_name(&base, taken);
            for side in [l, r] {
                if column_name(side).is_none() {
                    *side = side.clone().alias(&name);
                }
            }
        }
    }

    /// The suffix that tells the far side's columns, or the mark, from others of their names.
    fn suffix(&self, kind: JoinKind, on: &[(Expr, Expr)], sides: &Sides<'_>) -> String {
        let near = names(self.steps.stream(sides.near.1.step).plan().schema());
        match kind {
            JoinKind::Semi | JoinKind::Anti => "_right".to_string(),
            JoinKind::Mark => {
                unique_name("_right", |suffix| near.contains(&format!("mark{suffix}").as_str()))
            }
            _ => self.free_suffix(on, sides),
        }
    }

    /// A suffix with which no two columns get one name.
    fn free_suffix(&self, on: &[(Expr, Expr)], sides: &Sides<'_>) -> String {
        let near = names(self.steps.stream(sides.near.1.step).plan().schema());
        let far = names(self.steps.stream(sides.far.1.step).plan().schema());
        let shared = |n: &str| on.iter().any(|(l, r)| column_name(l) == Some(n) && column_name(r) == Some(n));
        let clashing: Vec<&&str> = far.iter().filter(|n| !shared(n) && near.contains(n)).collect();
        let is_unique = |suffix: &str| {
            clashing.iter().all(|n| {
                let name = format!("{n}{suffix}");
                !near.contains(&name.as_str()) && !far.contains(&name.as_str())
            })
        };
        let mut suffix = "_right".to_string();
        let mut number = 2;
        while !is_unique(&suffix) {
            suffix = format!("_{number}");
            number += 1;
        }
        suffix
    }

    /// The names of a join's columns: the near side's, the far side's.
    fn joined_names(
        &self,
        on: &[(Expr, Expr)],
        how: &JoinHow,
        sides: &Sides<'_>,
    ) -> (Vec<String>, Vec<String>) {
        let near = names(self.steps.stream(sides.near.1.step).plan().schema());
        let shared = |n: &str| on.iter().any(|(l, r)| column_name(l) == Some(n) && column_name(r) == Some(n));
        let name = |n: &String| match near.contains(&n.as_str()) && !shared(n) {
            true => format!("{n}{}", how.suffix),
            false => n.clone(),
        };
        let far = match how.kind {
            JoinKind::Semi | JoinKind::Anti => vec![],
            JoinKind::Mark => vec![how.mark(&near)],
            _ => sides.far.1.columns.iter().map(name).collect(),
        };
        (sides.near.1.columns.clone(), far)
    }

    /// A condition over the columns of both streams, `left.…` and `right.…`.
    fn two_sided(&self, filter: &Expr, join: &Join, sides: &Sides<'_>) -> Result<Expr> {
        let (near, far) = (sides.near.0.schema(), sides.far.0.schema());
        let both = filter.clone().transform_up(|e| {
            let Expr::Column(c) = &e else { return Ok(Transformed::no(e)) };
            let side = |side: &str, name: &str| Expr::Column(Column::new(Some(side), name));
            Ok(Transformed::yes(match near.maybe_index_of_column(c) {
                Some(i) => side(LEFT, &sides.near.1.columns[i]),
                None => side(RIGHT, &sides.far.1.columns[position(far, c)?]),
            }))
        });
        let schema =
            JoinHow::both(self.steps.stream(sides.near.1.step), self.steps.stream(sides.far.1.step))?;
        rewrite_for_python(&both.data()?, &schema).map_err(|e| e.context(join.join_type.to_string()))
    }

    /// The step of a join.
    fn joined(&mut self, left: Scope, right: Scope, on: Vec<(Expr, Expr)>, how: &JoinHow) -> Result<Scope> {
        let (l, r) = (self.steps.stream(left.step).clone(), self.steps.stream(right.step).clone());
        let mut arguments = vec![Doc::Input(1)];
        if how.kind != JoinKind::Cross {
            // A key that is changed above does not change what a co-located join is about.
            let on_keys = !how.colocated;
            arguments.extend(on_arguments(self, (left.step, right.step), &on, on_keys)?);
        }
        let stream = l.join_as(&r, on, how)?;
        let plain = how.filter.is_none() && !how.nulls_equal && !how.null_aware && !how.colocated;
        let verb = match how.kind {
            JoinKind::Semi if plain => ".where_exists",
            JoinKind::Anti if plain => ".where_not_exists",
            _ => ".join",
        };
        if verb == ".join" {
            if how.kind != JoinKind::Inner {
                arguments.push(Doc::Text(format!("how={}", python_string(how.kind.name()))));
            }
            let pairs = !matches!(how.kind, JoinKind::Semi | JoinKind::Anti);
            let clash = names(l.plan().schema()).iter().any(|n| names(r.plan().schema()).contains(n));
            if how.suffix != "_right" && pairs && (clash || how.kind == JoinKind::Mark) {
                arguments.push(Doc::Text(format!("suffix={}", python_string(&how.suffix))));
            }
            if let Some(filter) = &how.filter {
                arguments.push(Doc::keyword("where", self.pair_lambda(&l, &r, filter)?));
            }
            if how.nulls_equal {
                arguments.push(Doc::text("nulls_equal=True"));
            }
            if how.null_aware {
                arguments.push(Doc::text("null_aware=True"));
            }
            if how.colocated {
                arguments.push(Doc::text("colocated=True"));
            }
        }
        let word = if how.kind == JoinKind::Anti { "without" } else { "with" };
        let name = paired(self.steps.name(left.step), word, self.steps.name(right.step));
        let step = Step {
            inputs: vec![left.step, right.step],
            kind: StepKind::QueryMethod,
            doc: Doc::call(verb, arguments),
            stream,
            name,
            body: None,
        };
        let step = self.steps.add(step);
        let columns = names(self.steps.stream(step).plan().schema()).into_iter().map(String::from).collect();
        Ok(Scope { step, columns })
    }

    /// `lambda l, r: l.price > r.price`.
    fn pair_lambda(&mut self, left: &crate::Stream, right: &crate::Stream, filter: &Expr) -> Result<Doc> {
        let schema = JoinHow::both(left, right)?;
        let Steps { functions, .. } = &mut self.steps;
        let row = |c: &Column| match c.relation.as_ref().is_some_and(|side| side.table() == RIGHT) {
            true => "r".to_string(),
            false => "l".to_string(),
        };
        let condition = ExprWriter { schema: &schema, row: &row, functions }.write(filter, 0)?;
        Ok(Doc::Group(vec![Doc::text("lambda l, r: "), condition]))
    }
}

/// `orders_with_customer`: the name of a join is that of the first two that met, wherever they lay.
fn paired(left: &str, word: &str, right: &str) -> String {
    let plain = |name: &str| {
        let name = name.strip_prefix("copied_").unwrap_or(name);
        name.split("_by_").next().and_then(|name| name.split("_with").next()).unwrap_or(name).to_string()
    };
    match left.contains("_with_") || left.contains("_without_") {
        true => left.to_string(),
        false => name_of(&format!("{}_{word}_{}", plain(left), plain(right))),
    }
}

/// The two sides of a join, as the program has them.
struct Sides<'a> {
    near: (&'a LogicalPlan, Scope, BTreeSet<usize>),
    far: (&'a LogicalPlan, Scope, BTreeSet<usize>),
    /// Whether the near side is the right one of the plan.
    turned: bool,
}

/// The columns above a join that the builder has made.
fn joined_columns(plan: &LogicalPlan) -> Option<&Vec<Expr>> {
    match (plan, node(plan)) {
        (_, Some(Node::ReKey(rekey))) => joined_columns(&rekey.input),
        (LogicalPlan::Projection(projection), _) => Some(&projection.expr),
        _ => None,
    }
}

/// What the builder's name for a side stands for.
fn sided<'a>(plan: &'a LogicalPlan, side: &str) -> Option<&'a LogicalPlan> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) if alias.alias.table() == side => Some(&alias.input),
        _ => None,
    }
}

fn kind_of(join: &Join) -> Option<JoinKind> {
    Some(match join.join_type {
        JoinType::Inner if join.on.is_empty() => JoinKind::Cross,
        JoinType::Inner => JoinKind::Inner,
        JoinType::Left => JoinKind::Left,
        JoinType::Full => JoinKind::Full,
        JoinType::LeftSemi => JoinKind::Semi,
        JoinType::LeftAnti => JoinKind::Anti,
        JoinType::LeftMark => JoinKind::Mark,
        _ => return None,
    })
}

/// A side without the columns that pairing has added to it, which are these.
fn without_added(
    plan: &LogicalPlan,
    is: impl Fn(&str) -> bool,
) -> Option<(&LogicalPlan, Vec<(String, Expr)>)> {
    let mut plan = plan;
    let mut added = Vec::new();
    while let Some((below, more)) = reads_as_added(plan)
        && more.len() == 1
        && is(&more[0].0)
    {
        added.extend(more);
        plan = below;
    }
    Some((plan, added))
}

/// The suffix that a projection over a join gives to right columns.
fn suffix_of(projection: &Projection) -> Option<String> {
    projection.expr.iter().find_map(|e| match e {
        Expr::Alias(alias) => match alias.expr.as_ref() {
            Expr::Column(c)
                if c.relation.as_ref().is_some_and(|r| r.table() == RIGHT) && c.name != alias.name =>
            {
                alias.name.strip_prefix(&c.name).map(String::from)
            }
            _ => None,
        },
        _ => None,
    })
}

/// Which columns of both sides a join needs.
fn used_of(join: &Join, required: &Required) -> Result<(BTreeSet<usize>, BTreeSet<usize>)> {
    let (left, right) = (join.left.schema(), join.right.schema());
    let width = left.fields().len();
    let all = 0..join.schema.fields().len();
    let used: Vec<usize> =
        all.filter(|i| required.used.as_ref().is_none_or(|used| used.contains(i))).collect();
    let mut sides = (BTreeSet::new(), BTreeSet::new());
    match join.join_type {
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            sides.1.extend(used.iter().filter(|i| **i < right.fields().len()));
        }
        _ => {
            sides.0.extend(used.iter().filter(|i| **i < width));
            sides.1.extend(used.iter().filter(|i| **i >= width).map(|i| i - width));
        }
    }
    for column in join.filter.iter().flat_map(|f| f.column_refs()) {
        match left.maybe_index_of_column(column) {
            Some(i) => drop(sides.0.insert(i)),
            None => drop(sides.1.insert(position(right, column)?)),
        }
    }
    for (l, r) in &join.on {
        if l.try_as_col().is_none() {
            sides.0.extend(positions(l, left)?);
        }
        if r.try_as_col().is_none() {
            sides.1.extend(positions(r, right)?);
        }
    }
    Ok(sides)
}

/// A condition over both sides as one over the pairs.
fn one_sided(filter: &Expr, sides: &Sides<'_>, near: &[String], far: &[String]) -> Result<Expr> {
    let renamed = |e: Expr| {
        let Expr::Column(c) = &e else { return Ok(Transformed::no(e)) };
        let (from, to) = match c.relation.as_ref().is_some_and(|side| side.table() == RIGHT) {
            true => (&sides.far.1.columns, far),
            false => (&sides.near.1.columns, near),
        };
        match from.iter().position(|n| *n == c.name) {
            Some(i) => Ok(Transformed::yes(column(&to[i]))),
            None => plan_err!("a join's condition speaks of {c}, which is no column of its sides"),
        }
    };
    filter.clone().transform_up(renamed).data()
}

/// `on="item"`, or both sides by themselves; nothing, if the current keys say it and may (`on_keys`).
pub(super) fn on_arguments(
    reader: &mut Reader,
    (left, right): (usize, usize),
    on: &[(Expr, Expr)],
    on_keys: bool,
) -> Result<Vec<Doc>> {
    let keys = (&reader.steps.stream(left).properties().key, &reader.steps.stream(right).properties().key);
    let columns: Option<Vec<(&str, &str)>> =
        on.iter().map(|(l, r)| Some((column_name(l)?, column_name(r)?))).collect();
    if let Some(columns) = &columns {
        let (l, r): (Vec<&str>, Vec<&str>) = columns.iter().copied().unzip();
        if on_keys && keys.0.iter().eq(l.iter()) && keys.1.iter().eq(r.iter()) {
            return Ok(vec![]);
        }
        if l == r {
            return Ok(vec![Doc::keyword(
                "on",
                listed(l.iter().map(|n| Doc::Text(python_string(n))).collect()),
            )]);
        }
    }
    let mut sides = (Vec::new(), Vec::new());
    for (l, r) in on {
        sides.0.push(key_doc(reader, left, l)?);
        sides.1.push(key_doc(reader, right, r)?);
    }
    Ok(vec![Doc::keyword("left_on", listed(sides.0)), Doc::keyword("right_on", listed(sides.1))])
}

fn key_doc(reader: &mut Reader, step: usize, expr: &Expr) -> Result<Doc> {
    match expr {
        Expr::Alias(alias) => dictionary(reader, step, &[(alias.name.clone(), alias.expr.as_ref().clone())]),
        other => match column_name(other) {
            Some(name) => Ok(Doc::Text(python_string(name))),
            None => reader.lambda(step, other),
        },
    }
}

/// One by itself, several in brackets.
fn listed(mut docs: Vec<Doc>) -> Doc {
    if docs.len() == 1 { docs.swap_remove(0) } else { Doc::list(docs) }
}
