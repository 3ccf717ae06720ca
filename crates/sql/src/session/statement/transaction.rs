//! `begin`, `commit`, `rollback`: no other session has the tables, so a transaction is a snapshot of them.
//! Files that it has written stay.
//!
//! ```sql
//! begin;
//! delete from t;
//! rollback;  -- t has its rows again
//! ```

use crate::session::planned::Planned;
use crate::session::state::Session;
use datafusion::common::{Result, plan_err};

/// `begin`.
///
/// # Errors
/// `Plan` if a transaction has begun already.
pub(super) fn begin(session: &mut Session) -> Result<Planned> {
    if session.snapshot.is_some() {
        return plan_err!("a transaction has begun already; commit or rollback first");
    }
    session.snapshot = Some(session.tables.clone());
    Ok(Planned::Done("transaction begun".to_string()))
}

/// `commit`.
///
/// # Errors
/// `Plan` if no transaction has begun.
pub(super) fn commit(session: &mut Session) -> Result<Planned> {
    match session.snapshot.take() {
        Some(_) => Ok(Planned::Done("transaction committed".to_string())),
        None => plan_err!("there is no transaction to commit; begin starts one"),
    }
}

/// `rollback`.
///
/// # Errors
/// `Plan` if no transaction has begun.
pub(super) fn rollback(session: &mut Session) -> Result<Planned> {
    match session.snapshot.take() {
        Some(tables) => {
            session.tables = tables;
            Ok(Planned::Done("transaction rolled back".to_string()))
        }
        None => plan_err!("there is no transaction to roll back; begin starts one"),
    }
}
