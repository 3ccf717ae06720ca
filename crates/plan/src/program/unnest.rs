//! Unnested lists: `.select_many(…)`.

use super::document::Doc;
use super::literal::python_string;
use super::reader::{Reader, Required, Scope, has_qualifiers, position};
use super::rows::left_out;
use super::steps::StepKind;
use crate::names::{column, column_name, names};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Unnest};

impl Reader {
    /// The step of an unnest node with one list, one level deep.
    pub fn unnest(&mut self, unnest: &Unnest) -> Result<Scope> {
        let ([list], [(_, depth)], []) = (
            unnest.exec_columns.as_slice(),
            unnest.list_type_columns.as_slice(),
            unnest.struct_type_columns.as_slice(),
        ) else {
            return plan_err!("the program has no word for unnesting several columns at once, or a struct");
        };
        if depth.depth != 1 {
            return plan_err!("the program has no word for unnesting a list of lists at once");
        }
        let preserve_nulls = unnest.options.preserve_nulls();
        let place = position(unnest.input.schema(), list)?;
        let computed = match unnest.input.as_ref() {
            LogicalPlan::Projection(projection) if !has_qualifiers(projection.input.schema()) => {
                unnested_list(projection, place).map(|expr| (projection, expr))
            }
            _ => None,
        };
        let Some((projection, expr)) = computed else {
            let scope = self.read(&unnest.input, &Required::default())?;
            let name = scope.columns[place].clone();
            return self.select_many(scope, column(&name), &name, false, preserve_nulls);
        };
        let mut scope = self.read(&projection.input, &Required::default())?;
        let expr = self.rewrite_expr(expr, projection.input.schema(), &scope)?;
        if place == scope.columns.len() {
            scope.columns.push(list.name.clone());
        }
        self.select_many(scope, expr, &list.name, false, preserve_nulls)
    }

    /// A list's elements under another name, and without the list.
    pub fn renamed_list(&mut self, projection: &Projection) -> Result<Option<Scope>> {
        let LogicalPlan::Unnest(unnest) = projection.input.as_ref() else { return Ok(None) };
        let all = names(projection.input.schema());
        let pairs: Vec<(String, Expr)> = projection
            .schema
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .zip(projection.expr.clone())
            .collect();
        let owned: Vec<String> = all.iter().map(|n| n.to_string()).collect();
        let Some(dropped) = left_out(&owned, &pairs) else { return Ok(None) };
        let (LogicalPlan::Projection(listed), [dropped], [list]) =
            (unnest.input.as_ref(), dropped.as_slice(), unnest.exec_columns.as_slice())
        else {
            return Ok(None);
        };
        let place = position(unnest.input.schema(), list)?;
        if unnested_list(listed, place).and_then(column_name) != Some(dropped)
            || has_qualifiers(listed.input.schema())
        {
            return Ok(None);
        }
        let mut scope = self.read(&listed.input, &Required::default())?;
        scope.columns.push(list.name.clone());
        let preserve_nulls = unnest.options.preserve_nulls();
        let scope = self.select_many(scope, column(*dropped), &list.name, true, preserve_nulls)?;
        Ok(Some(scope))
    }

    /// `drop_list`: the list itself is left out. `preserve_nulls`: a null list gives a row.
    fn select_many(
        &mut self,
        mut scope: Scope,
        list: Expr,
        name: &str,
        drop_list: bool,
        preserve_nulls: bool,
    ) -> Result<Scope> {
        let stream = self.steps.stream(scope.step);
        let mut stream = match preserve_nulls {
            true => stream.select_many_or_null(list.clone(), name)?,
            false => stream.select_many(list.clone(), name)?,
        };
        let mut arguments = match column_name(&list) {
            Some(list_name) if list_name == name => vec![Doc::Text(python_string(name))],
            Some(list_name) if drop_list => {
                stream = stream.drop(&[list_name])?;
                scope.columns.retain(|c| c != list_name);
                vec![Doc::Text(python_string(list_name)), Doc::Text(python_string(name))]
            }
            // Python would leave a list out that has a name of its list_name.
            Some(_) => {
                let lambda = self.lambda(scope.step, &list)?;
                vec![
                    Doc::Group(vec![lambda, Doc::Text(format!(".alias({})", python_string(name)))]),
                    Doc::Text(python_string(name)),
                ]
            }
            None => vec![self.lambda(scope.step, &list)?, Doc::Text(python_string(name))],
        };
        if preserve_nulls {
            arguments.push(Doc::text("nulls=True"));
        }
        Ok(self.add_step(scope, StepKind::QueryMethod, Doc::call(".select_many", arguments), stream))
    }
}

/// What the projection under an unnest says of the list, if it changes no other column.
fn unnested_list(projection: &Projection, place: usize) -> Option<&Expr> {
    let all = names(projection.input.schema());
    let mut others = projection.expr.iter().enumerate().filter(|(i, _)| *i != place);
    let kept = others.all(|(i, e)| all.get(i).is_some_and(|n| column_name(e) == Some(n)));
    // The list comes after all columns, or takes the place of the one whose name it has.
    let list = projection.schema.field(place).name();
    let in_place = place == all.len() || all.get(place).is_some_and(|name| name == list);
    let complete = projection.expr.len() == all.len().max(place + 1);
    let expr = projection.expr.get(place)?;
    let expr = if let Expr::Alias(alias) = expr { alias.expr.as_ref() } else { expr };
    (kept && in_place && complete).then_some(expr)
}
