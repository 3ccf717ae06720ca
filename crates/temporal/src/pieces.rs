//! Long results piece by piece, so that one is used before the next is made, and so that no column of texts
//! becomes longer than its offsets can count.

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use std::ops::Range;

/// Rows in a full piece.
pub(crate) const PIECE_ROWS: usize = 16_384;

/// Calls `make` for the first of these rows, a full piece of them; where it ends. If the texts or lists of so
/// many do not fit into one column, it is called for fewer instead. There is a row.
///
/// # Errors
/// The first error of `make`, unless fewer rows mend it.
pub(crate) fn first_piece(
    rows: Range<usize>,
    mut make: impl FnMut(Range<usize>) -> Result<()>,
) -> Result<usize> {
    let mut len = rows.len().min(PIECE_ROWS);
    loop {
        match make(rows.start..rows.start + len) {
            Err(error) if len > 1 && is_overflow(&error) => len /= 2,
            result => return result.map(|()| rows.start + len),
        }
    }
}

/// Calls `make` for pieces of `0..rows`, one after the other.
///
/// # Errors
/// As [`first_piece`].
pub(crate) fn in_pieces(rows: usize, mut make: impl FnMut(Range<usize>) -> Result<()>) -> Result<()> {
    let mut first = 0;
    while first < rows {
        first = first_piece(first..rows, &mut make)?;
    }
    Ok(())
}

fn is_overflow(error: &DataFusionError) -> bool {
    let DataFusionError::ArrowError(error, _) = error else { return false };
    matches!(**error, ArrowError::OffsetOverflowError(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces_that_fit(rows: usize, fit: usize) -> Result<Vec<Range<usize>>> {
        let mut pieces = Vec::new();
        in_pieces(rows, |piece| match piece.len() > fit {
            true => Err(ArrowError::OffsetOverflowError(piece.len()).into()),
            false => {
                pieces.push(piece);
                Ok(())
            }
        })?;
        Ok(pieces)
    }

    #[test]
    fn pieces_follow_each_other() {
        for rows in [0, 1, 7, PIECE_ROWS, PIECE_ROWS + 1, 5 * PIECE_ROWS - 1] {
            for fit in [1_000, PIECE_ROWS] {
                let pieces = pieces_that_fit(rows, fit).unwrap();
                let mut end = 0;
                for piece in pieces {
                    assert!(piece.start == end && !piece.is_empty() && piece.len() <= fit);
                    end = piece.end;
                }
                assert_eq!(end, rows);
            }
        }
    }

    #[test]
    fn a_row_that_does_not_fit_is_an_error() {
        assert!(is_overflow(&pieces_that_fit(3, 0).unwrap_err()));
    }

    #[test]
    fn other_errors_are_not_tried_again() {
        let mut calls = 0;
        let result = in_pieces(10, |_| {
            calls += 1;
            Err(ArrowError::DivideByZero.into())
        });
        assert!(result.is_err());
        assert_eq!(calls, 1);
    }
}
