//! `emit changes` and `emit final`, after a query: when its rows are handed out.
//!
//! `emit final`, the default: a row is handed out when nothing can change it any more. Over a stream with time that is
//! when its window has passed; over a live source without, a row of an aggregate is final when the source has ended.
//!
//! `emit changes`: rows are handed out at once, and taken back when they change. The query is understood as over
//! tables that hold what has arrived so far, windows of time included, and its result is the stream of changes of
//! that relation: a first column `change` is 1 for a row that comes and -1 for one that goes.

use crate::catalog::whole;
use crate::optimize::plain;
use crate::planned::Planned;
use crate::planner::is_whole;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use whimbrel_plan::nodes::{Node, node};
use whimbrel_plan::{Stream, properties};

/// When the rows of a query are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Emit {
    /// When nothing can change them any more.
    #[default]
    Final,
    /// At once, and again when they change.
    Changes,
}

/// Takes `emit …` off the end of a statement.
pub(crate) fn taken(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Emit) {
    let open = |t: &TokenWithSpan| !matches!(t.token, Token::EOF | Token::SemiColon);
    let end = tokens.iter().rposition(open).map_or(0, |last| last + 1);
    let word = |t: &TokenWithSpan, word: &str| matches!(&t.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    let emit = match &tokens[..end] {
        // A statement does not begin with it, and `select emit from final` ends with another word before it.
        [_, .., emit, when] if word(emit, "emit") && word(when, "changes") => Emit::Changes,
        [_, .., emit, when] if word(emit, "emit") && word(when, "final") => Emit::Final,
        _ => return (tokens, Emit::Final),
    };
    tokens.drain(end - 2..end);
    (tokens, emit)
}

impl Emit {
    /// The table of this name as the query sees it: with `emit changes` as a table of what has arrived.
    pub fn table(self, name: &str, plan: LogicalPlan) -> Result<LogicalPlan> {
        match self {
            Emit::Final => Ok(plan),
            Emit::Changes => arrived(name, plan),
        }
    }

    /// What is to be done, with the rows handed out as asked for.
    pub fn of(self, planned: Planned) -> Result<Planned> {
        if self == Emit::Final {
            return Ok(planned);
        }
        Ok(match planned {
            Planned::Query(stream) => Planned::Query(stream.changes()?),
            Planned::Explain { stream, analyze } => Planned::Explain { stream: stream.changes()?, analyze },
            Planned::Copy { stream, to, format, options } => {
                Planned::Copy { stream: stream.changes()?, to, format, options }
            }
            _ => return plan_err!("emit changes stands after a query whose rows are handed out"),
        })
    }
}

/// The rows of a stream as a table.
fn arrived(name: &str, plan: LogicalPlan) -> Result<LogicalPlan> {
    if properties(&plan)?.time.is_none() {
        return Ok(plan);
    }
    match (node(&plan), &plan) {
        (Some(Node::Ingress(ingress)), _) if ingress.time.kind.is_none() => plain(ingress.input.clone()),
        (Some(Node::Exchange(exchange)), _) if is_whole(exchange) => {
            Ok(whole(&Stream::from_plan(arrived(name, exchange.input.clone())?)?)?.plan().clone())
        }
        (Some(Node::ReKey(rekey)), _) => arrived(name, rekey.input.clone()),
        // What looks at one row at a time is the same of tables.
        (_, LogicalPlan::Filter(_) | LogicalPlan::Projection(_)) => {
            let rows = arrived(name, plan.inputs()[0].clone())?;
            plan.with_new_exprs(plan.expressions(), vec![rows])
        }
        _ => plan_err!(
            "emit changes: {name} is a query over time already; leave out emit changes, or name its source here \
             and write the query in SQL"
        ),
    }
}
