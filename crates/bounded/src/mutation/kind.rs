//! The kinds of statements that write, and their outcomes.

/// What a statement does with its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// Inserts them; a row with the same key is an error.
    Insert,
    /// Inserts them, or overwrites the rows with the same keys.
    Upsert,
    /// Changes them: a batch has old values, then new values.
    Update,
    /// Deletes them.
    Delete,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// All rows were written.
    Written,
    /// Another writer changed a row: read again.
    Again,
    /// Another writer changed the schema.
    OtherSchema,
}
