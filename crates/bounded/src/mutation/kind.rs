//! The kinds of statements that write, and their outcomes.

/// What a statement does with its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// Puts them in; a row of the same key is an error.
    Insert,
    /// Puts them in, in place of a row of the same key.
    Upsert,
    /// The rows are as they were, and then as they will be.
    Update,
    /// Takes them out.
    Delete,
}

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// So many rows were written.
    Rows(u64),
    /// A row was changed by somebody else meanwhile: read again.
    Again,
    /// The schema was changed by somebody else meanwhile.
    OtherSchema,
}
