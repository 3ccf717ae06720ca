//! `create sequence`, `drop sequence`.
//!
//! ```sql
//! create sequence ids increment 10 start 100;
//! create table t (id bigint default nextval('ids'), x int);
//! ```

use crate::functions::Sequence;
use crate::session::planned::Planned;
use crate::session::state::Session;
use crate::syntax::names;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, SequenceOptions};

/// `create sequence`.
///
/// # Errors
/// `Plan` if there is such a sequence, unless `if not exists` is given, or an option makes no sense.
pub(super) fn create(
    session: &Session,
    name: &ObjectName,
    options: &[SequenceOptions],
    if_not_exists: bool,
) -> Result<Planned> {
    let name = names::table(name)?;
    let created = session.sequences.create(&name, sequence(&name, options)?, false);
    match created || if_not_exists {
        true => Ok(Planned::Done(format!("sequence {name} created"))),
        false => plan_err!("there is a sequence {name:?} already"),
    }
}

/// A sequence with these options.
fn sequence(name: &str, options: &[SequenceOptions]) -> Result<Sequence> {
    let number = |value: &Expr| {
        let text = value.to_string().replace(' ', "");
        text.parse::<i64>()
            .map_err(|_| plan_datafusion_err!("sequence {name}: {value} is not a whole number"))
    };
    let (mut start, mut step, mut least, mut greatest, mut cycle) = (None, 1, None, None, false);
    for option in options {
        match option {
            SequenceOptions::IncrementBy(value, _) => step = number(value)?,
            SequenceOptions::MinValue(value) => least = value.as_ref().map(number).transpose()?,
            SequenceOptions::MaxValue(value) => greatest = value.as_ref().map(number).transpose()?,
            SequenceOptions::StartWith(value, _) => start = Some(number(value)?),
            // The parser says whether there was a `no`.
            SequenceOptions::Cycle(no) => cycle = !no,
            SequenceOptions::Cache(_) => {}
        }
    }
    let up = step > 0;
    let least = least.unwrap_or(if up { 1 } else { i64::MIN });
    let greatest = greatest.unwrap_or(if up { i64::MAX } else { -1 });
    let start = start.unwrap_or(if up { least } else { greatest });
    if step == 0 || least > greatest || !(least..=greatest).contains(&start) {
        return plan_err!("sequence {name}: start, increment, minvalue and maxvalue do not fit together");
    }
    Ok(Sequence { next: Some(start), step, least, greatest, cycle, taken: None })
}

/// `drop sequence`.
///
/// # Errors
/// `Plan` if there is no such sequence, unless `if exists` is given.
pub(super) fn drop(session: &Session, listed: &[ObjectName], if_exists: bool) -> Result<Planned> {
    for name in listed {
        let name = names::table(name)?;
        if !session.sequences.take_away(&name) && !if_exists {
            return plan_err!("there is no sequence {name:?}");
        }
    }
    Ok(Planned::Done("sequence dropped".to_string()))
}
