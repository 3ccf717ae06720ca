//! Instants, and what a row's two times say about its kind.
//!
//! A stream is a changing relation (trill.txt §5.2). A row carries `sync`, the instant at which it becomes known, and
//! `other`, and the two together tell its kind:
//!
//! | `other`        | kind       | meaning                                             |
//! |----------------|------------|-----------------------------------------------------|
//! | `> sync`       | interval   | alive over `[sync, other)`                          |
//! | `== INFINITY`  | start edge | alive from `sync`; the end is not known yet         |
//! | `< sync`       | end edge   | the row that began at `other` ends at `sync`        |

/// An instant: ticks in the unit of the stream's time column.
pub type Time = i64;

/// The end of time. A row whose end is unknown ends here; a punctuation at it says that the stream has ended.
pub const INFINITY: Time = i64::MAX;

/// The beginning of time: where the rows of a relation that was always there start.
pub const BEGINNING: Time = i64::MIN;

/// What a row says about the relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Alive over `[sync, other)`.
    Interval,
    /// Alive from `sync` until an end edge says otherwise.
    Start,
    /// Ends the equal row that began at `other`.
    End,
}

impl Kind {
    /// The kind of a row with these two times.
    #[inline]
    pub fn of(sync: Time, other: Time) -> Kind {
        if other == INFINITY {
            Kind::Start
        } else if other > sync {
            Kind::Interval
        } else {
            Kind::End
        }
    }
}

/// `start + duration`, which never passes [`INFINITY`].
#[inline]
pub fn end_after(start: Time, duration: i64) -> Time {
    start.saturating_add(duration)
}

/// The first instant of the grid `offset + k·hop` that is after `time` (or not before it, if `inclusive`).
#[inline]
pub fn next_on_grid(time: Time, hop: i64, offset: i64, inclusive: bool) -> Time {
    if time == INFINITY || time == BEGINNING {
        return time;
    }
    let past = (time as i128 - offset as i128).rem_euclid(hop as i128) as i64;
    match past {
        0 if inclusive => time,
        _ => time.saturating_add(hop - past),
    }
}
