//! `fill_gaps`: rows where a key has none, as a table function.
//!
//! ```sql
//! select * from fill_gaps(counts, window_end, interval '5' minute, item,
//!                         values => {'n': 0}, max_gap => interval '1' hour)
//! ```
//!
//! Time is cut into cells of a period, and a row is in the cell of its time. Rows come out as they are. Each
//! cell between those of two rows of a key that follow each other gets a row of the key, whose time is where
//! the cell begins; before its first row a key has no gap. With `max_gap`, a key is forgotten where a cell
//! begins that is at least so much later than the end of the cell of its last row: the cells up to there are
//! filled, whether or not a row comes later.
//!
//! What other columns have in a gap is said by `values` (a struct of constants), `previous` and `linear`
//! (columns in brackets); a column that is not named is null. Of the two columns of windows, the one that is
//! not the time moves along with it.
//!
//! Over a table they are expressions of each row and the one after it (`table`), over a stream a node of the
//! fluent builder (`stream`).

mod stream;
mod table;

use super::table_function::{Arguments, Call, Signature, column, constant, factor, length};
use super::window_nodes::{END, START};
use crate::columns::with_unique_names;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::{RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{LogicalPlan, lit};
use datafusion::sql::sqlparser::ast::{self, FunctionArg, TableFactor};
use whimbrel_plan::nodes::Fill;
use whimbrel_plan::{Duration, properties};

/// The function.
const NAME: &str = "fill_gaps";

/// How it is called.
const SIGNATURE: Signature = Signature {
    function: NAME,
    usage: "fill_gaps(table, time, period, key…)",
    names: &["data", "timecol", "period"],
    choices: &["values", "previous", "linear", "max_gap", "offset"],
};

/// What is asked of `fill_gaps`.
#[derive(Debug)]
struct Request {
    /// The column of the rows' time.
    time: String,
    /// The columns each value of which has gaps of its own.
    key: Vec<String>,
    /// How long a cell is.
    period: Duration,
    /// How much later than usual cells begin.
    offset: Duration,
    /// After how long without a row a key is forgotten.
    max_gap: Option<Duration>,
    /// What the columns have in a gap.
    fills: Vec<(String, Fill)>,
    /// The column of a window whose other column is the time.
    window: Option<String>,
}

/// Plans `fill_gaps`, and leaves all other relations to others.
#[derive(Debug)]
pub(crate) struct Gaps;

impl RelationPlanner for Gaps {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let Some(call) = Call::of(&relation, &[NAME]) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = plan_gaps(call.args.clone(), context)?;
        Ok(call.relation(plan))
    }
}

/// The rows of a table or a stream, and those of its gaps.
fn plan_gaps(args: Vec<FunctionArg>, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let Arguments { places, named } = Arguments::of(args, &SIGNATURE)?;
    let [relation, time, period, key @ ..] = places.as_slice() else {
        return plan_err!("{NAME}: an argument is missing; write {}", SIGNATURE.usage);
    };
    let input = with_unique_names(context.plan(factor(relation, SIGNATURE.usage)?)?)?;
    let mut column = |arg: &ast::Expr| column(arg, &input, context, NAME);
    let (time, key) = (column(time)?, key.iter().map(&mut column).collect::<Result<Vec<_>>>()?);
    let mut request = Request {
        window: window_column(&input, &time),
        time,
        key,
        period: long(period, context)?,
        offset: Duration::Ticks(0),
        max_gap: None,
        fills: Vec::new(),
    };
    for (name, arg) in named {
        request.choose(name, &arg, &input, context)?;
    }
    request.check()?;
    match properties(&input)?.time {
        Some(_) => stream::filled(input, &request),
        None => table::filled(input, &request),
    }
}

/// The length of time that an argument is.
fn long(arg: &ast::Expr, context: &mut dyn RelationPlannerContext) -> Result<Duration> {
    length(arg, lit(constant(arg, context, NAME)?), NAME)
}

/// The column of a window whose other column is `time`, if both are of one type.
fn window_column(input: &LogicalPlan, time: &str) -> Option<String> {
    let other = match time {
        START => END,
        END => START,
        _ => return None,
    };
    let kind = |name| Some(input.schema().field_with_unqualified_name(name).ok()?.data_type().clone());
    (kind(time)? == kind(other)?).then(|| other.to_string())
}

impl Request {
    /// Takes an argument that has a name.
    fn choose(
        &mut self,
        name: &str,
        arg: &ast::Expr,
        input: &LogicalPlan,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<()> {
        match name {
            "offset" => self.offset = long(arg, context)?,
            "max_gap" => self.max_gap = Some(long(arg, context)?),
            "values" => self.fills.extend(constants(arg, context)?),
            _ => {
                let fill = if name == "previous" { Fill::Previous } else { Fill::Linear };
                for of in listed(arg) {
                    self.fills.push((column(of, input, context, NAME)?, fill.clone()));
                }
            }
        }
        Ok(())
    }

    /// Refuses columns that are named twice, and the time, which no gap has to be told.
    fn check(&mut self) -> Result<()> {
        let names: Vec<&String> = self.fills.iter().map(|(name, _)| name).collect();
        for (place, name) in names.iter().enumerate() {
            if names[..place].contains(name) {
                return plan_err!(
                    "{NAME}: column {name:?} is named twice; name it in values, previous or linear"
                );
            }
        }
        if self.key.contains(&self.time) || names.contains(&&self.time) {
            return plan_err!(
                "{NAME}: column {:?} is the time, which is where a cell begins in a gap; leave it out of the key, and of what \
                 gaps have",
                self.time
            );
        }
        let has_own_rule = |column: &String| self.key.contains(column) || names.contains(&column);
        if self.window.as_ref().is_some_and(has_own_rule) {
            self.window = None;
        }
        Ok(())
    }

    /// The fills, those of the columns that follow the time included.
    fn all_fills(&self) -> Vec<(String, Fill)> {
        let moved = self.window.iter().chain([&self.time]).map(|name| (name.clone(), Fill::Previous));
        self.fills.iter().cloned().chain(moved).collect()
    }
}

/// The columns of an argument: one, or several in brackets.
fn listed(arg: &ast::Expr) -> Vec<&ast::Expr> {
    match arg {
        ast::Expr::Array(list) => list.elem.iter().collect(),
        ast::Expr::Tuple(list) => list.iter().collect(),
        ast::Expr::Nested(one) => vec![one],
        one => vec![one],
    }
}

/// The values of columns: `{'n': 0, 'unit': 'ms'}`.
fn constants(arg: &ast::Expr, context: &mut dyn RelationPlannerContext) -> Result<Vec<(String, Fill)>> {
    let ScalarValue::Struct(values) = constant(arg, context, NAME)? else {
        return plan_err!("{NAME}: {arg} does not say what columns have; write values => {{'n': 0}}");
    };
    let columns = values.fields().iter().zip(values.columns());
    let constant = |(field, value): (&FieldRef, &ArrayRef)| {
        Ok((field.name().clone(), Fill::Constant(ScalarValue::try_from_array(value, 0)?)))
    };
    columns.map(constant).collect()
}
