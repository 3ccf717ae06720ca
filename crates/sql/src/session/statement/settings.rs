//! `set`, `reset` and `show`: the settings of a session. `shards` and `shard_rows` are ours,
//! `default_null_order` is DuckDB's, `datafusion.…` are DataFusion's.
//!
//! ```sql
//! set shards = 8;
//! set timezone = 'Asia/Tokyo';
//! show timezone;
//! reset shards;
//! ```

use super::options::{text, value_text};
use super::show::texts;
use crate::functions::zones;
use crate::planner::ROWS_OF_A_SHARD;
use crate::session::planned::Planned;
use crate::session::state::Session;
use crate::session::{defaults, time_zone};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::sql::sqlparser::ast::{Expr, Set};

/// In how many shards files are read.
const SHARDS: &str = "shards";
/// From how many rows on a table is cut into shards.
const SHARD_ROWS: &str = "shard_rows";
/// DuckDB's name of `datafusion.sql_parser.default_null_ordering`.
const TIME_ZONE: &str = "timezone";
const NULL_ORDER: &str = "default_null_order";
/// Values of the null order: those of other engines, and DataFusion's.
const NULL_ORDERS: &[(&str, &str)] = &[
    ("nulls_last", "nulls_last"),
    ("nulls last", "nulls_last"),
    ("nulls_first", "nulls_first"),
    ("nulls first", "nulls_first"),
    ("sqlite", "nulls_min"),
    ("nulls_first_on_asc_last_on_desc", "nulls_min"),
    ("postgres", "nulls_max"),
    ("nulls_last_on_asc_first_on_desc", "nulls_max"),
];

/// `set`.
///
/// # Errors
/// `Plan` if there is no such setting, or the value makes no sense.
pub(super) fn set(session: &mut Session, set: &Set) -> Result<Planned> {
    if let Set::SetTimeZone { value, .. } = set {
        return assign(session, TIME_ZONE, value.to_string().trim_matches('\''));
    }
    let Set::SingleAssignment { variable, values, .. } = set else {
        return plan_err!("set takes a name and a value, set {SHARDS} = 4");
    };
    let [value] = values.as_slice() else {
        return plan_err!("set takes one value, set {SHARDS} = 4");
    };
    let name = text(variable).to_ascii_lowercase();
    let value = match value {
        Expr::Value(value) => value_text(&value.value),
        other => other.to_string(),
    };
    assign(session, &name, &value)
}

/// Assigns a value to a setting, and reports that.
///
/// # Errors
/// As [`set`].
pub(super) fn assign(session: &mut Session, name: &str, value: &str) -> Result<Planned> {
    assigned(session, name, value)?;
    Ok(Planned::Done(format!("{name} = {value}")))
}

/// Assigns a value to a setting.
fn assigned(session: &mut Session, name: &str, value: &str) -> Result<()> {
    match name {
        SHARDS => {
            let shards: usize = value.parse().unwrap_or(0);
            if shards == 0 {
                return plan_err!("{SHARDS} = {value}: give a number from 1 on");
            }
            session.shards = Some(shards);
            Ok(())
        }
        SHARD_ROWS => match value.parse() {
            Ok(rows) => {
                session.shard_rows = rows;
                Ok(())
            }
            Err(_) => plan_err!("{SHARD_ROWS} = {value}: give a number of rows"),
        },
        NULL_ORDER => {
            let Some((_, order)) = NULL_ORDERS.iter().find(|(known, _)| *known == value.to_ascii_lowercase())
            else {
                return plan_err!(
                    "{NULL_ORDER} = {value}: nulls_last, nulls_first, sqlite and postgres are there"
                );
            };
            session.state.config_mut().options_mut().sql_parser.default_null_ordering = order.to_string();
            Ok(())
        }
        TIME_ZONE | "time_zone" | "datafusion.execution.time_zone" => {
            time_zone::set(&mut session.state, value)
        }
        // The caller of the session applies it.
        "threads" | "worker_threads" | "memory_limit" | "max_memory" | "temp_directory" => Ok(()),
        name if name.starts_with("datafusion.") => session.state.config_mut().options_mut().set(name, value),
        name => Err(unknown(session, name)),
    }
}

/// `reset`.
///
/// # Errors
/// `Plan` if there is no such setting.
pub(super) fn reset(session: &mut Session, name: &str) -> Result<Planned> {
    let name = name.to_ascii_lowercase();
    if name == SHARDS {
        session.shards = None;
        return Ok(Planned::Done(format!("{name} reset")));
    }
    if name == SHARD_ROWS {
        session.shard_rows = ROWS_OF_A_SHARD;
        return Ok(Planned::Done(format!("{name} reset")));
    }
    if name == TIME_ZONE {
        time_zone::set(&mut session.state, zones::DEFAULT)?;
        return Ok(Planned::Done(format!("{name} reset")));
    }
    let config = defaults::config();
    let name =
        if name == NULL_ORDER { "datafusion.sql_parser.default_null_ordering".to_string() } else { name };
    let default = config.options().entries().into_iter().find(|entry| entry.key == name);
    match default {
        Some(entry) => {
            session.state.config_mut().options_mut().set(&name, &entry.value.unwrap_or_default())?;
            Ok(Planned::Done(format!("{name} reset")))
        }
        None => Err(unknown(session, &name)),
    }
}

/// One setting, or all of them.
///
/// # Errors
/// `Plan` if there is no such setting.
pub(super) fn show(session: &Session, name: &str) -> Result<Planned> {
    let all = settings(session);
    let wanted = name.to_ascii_lowercase();
    let found: Vec<_> = all.iter().filter(|(name, _)| wanted == "all" || *name == wanted).cloned().collect();
    if found.is_empty() {
        return Err(unknown(session, &wanted));
    }
    let (names, values): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    texts(&[("name", names), ("value", values)])
}

/// All settings with their values, in order.
fn settings(session: &Session) -> Vec<(String, String)> {
    let shards = session.shards.map_or_else(|| "1".to_string(), |n| n.to_string());
    let rows = session.shard_rows.to_string();
    let zone = time_zone::of(&session.state).to_string();
    let mut all = vec![(SHARDS, shards), (SHARD_ROWS, rows), (TIME_ZONE, zone)]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect::<Vec<_>>();
    let entries = session.state.config_options().entries();
    all.extend(entries.into_iter().map(|entry| (entry.key, entry.value.unwrap_or_default())));
    all.sort();
    all
}

/// The error for an unknown setting.
fn unknown(session: &Session, name: &str) -> datafusion::error::DataFusionError {
    let all = settings(session);
    let known: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let hint = match whimbrel_plan::names::nearest(name, &known).first() {
        Some(near) => format!("did you mean {near:?}? "),
        None => String::new(),
    };
    plan_datafusion_err!("there is no setting {name:?}; {hint}show all lists them")
}
