//! Which columns of a table fit the terminal, and how wide each is.
//!
//! First the widest columns are made narrower, evenly, down to [`MIN_WIDTH`]. Then columns in the middle are
//! hidden: the first and the last stay.

/// No column is made narrower than this.
const MIN_WIDTH: usize = 12;

/// The width of a column beside its text: a space on each side, and a line.
const PADDING: usize = 3;

/// The columns that are shown, each its index and width; `None` is the place of the hidden ones.
pub fn fit(widths: &[usize], available: Option<usize>) -> Vec<Option<(usize, usize)>> {
    let Some(available) = available else { return all(widths) };
    if total(widths) <= available {
        return all(widths);
    }
    let widest = widths.iter().copied().max().unwrap_or(0);
    let capped = |cap: usize| widths.iter().map(|w| (*w).min(cap)).collect::<Vec<_>>();
    let cap = (MIN_WIDTH..widest).rev().find(|cap| total(&capped(*cap)) <= available);
    match cap {
        Some(cap) => all(&capped(cap)),
        None => both_ends(&capped(MIN_WIDTH), available),
    }
}

/// The width of a table with columns of these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + PADDING).sum::<usize>() + 1
}

/// All columns, with these widths.
fn all(widths: &[usize]) -> Vec<Option<(usize, usize)>> {
    widths.iter().copied().enumerate().map(Some).collect()
}

/// Columns from both ends in turn, as many as fit, but at least one.
fn both_ends(widths: &[usize], available: usize) -> Vec<Option<(usize, usize)>> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    // The last line of the frame, and a column with an ellipsis.
    let mut used = 1 + PADDING + 1;
    for step in 0..widths.len() {
        let index = if step % 2 == 0 { step / 2 } else { widths.len() - 1 - step / 2 };
        used += widths[index] + PADDING;
        if used > available && step > 0 {
            break;
        }
        let side = if step % 2 == 0 { &mut left } else { &mut right };
        side.push(Some((index, widths[index])));
    }
    right.reverse();
    let hidden = (left.len() + right.len() < widths.len()).then_some(None);
    left.into_iter().chain(hidden).chain(right).collect()
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn everything_is_shown_where_there_is_room() {
        assert_eq!(fit(&[3, 50], None), [Some((0, 3)), Some((1, 50))]);
        assert_eq!(fit(&[3, 5], Some(15)), [Some((0, 3)), Some((1, 5))]);
    }

    #[test]
    fn the_widest_column_is_narrowed_first() {
        assert_eq!(fit(&[3, 50, 20], Some(60)), [Some((0, 3)), Some((1, 27)), Some((2, 20))]);
    }

    #[test]
    fn columns_in_the_middle_are_hidden() {
        assert_eq!(fit(&[12; 6], Some(49)), [Some((0, 12)), None, Some((5, 12))]);
        assert_eq!(fit(&[12; 6], Some(5)), [Some((0, 12)), None]);
        assert_eq!(fit(&[12], Some(5)), [Some((0, 12))]);
    }
}
