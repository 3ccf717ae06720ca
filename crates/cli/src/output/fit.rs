//! Which columns of a table fit the terminal, and how wide each may be.
//!
//! First the widest columns give way, evenly, down to [`NARROW`]; then columns are left out of the middle, so
//! that the first and the last are seen.

/// No column is made narrower than this for the sake of others.
const NARROW: usize = 12;

/// What a column takes beside its text: a space on each side, and a line.
const FRAME: usize = 3;

/// The columns that are shown, with their widths; `None` stands for those left out.
pub fn fit(widths: &[usize], room: Option<usize>) -> Vec<Option<(usize, usize)>> {
    let Some(room) = room else { return all(widths) };
    if total(widths) <= room {
        return all(widths);
    }
    let most = widths.iter().copied().max().unwrap_or(0);
    let capped = |cap: usize| widths.iter().map(|w| (*w).min(cap)).collect::<Vec<_>>();
    let cap = (NARROW..most).rev().find(|cap| total(&capped(*cap)) <= room);
    match cap {
        Some(cap) => all(&capped(cap)),
        None => some(&capped(NARROW), room),
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + FRAME).sum::<usize>() + 1
}

fn all(widths: &[usize]) -> Vec<Option<(usize, usize)>> {
    widths.iter().copied().enumerate().map(Some).collect()
}

/// Columns from both ends in turn, as many as fit, but at least one.
fn some(widths: &[usize], room: usize) -> Vec<Option<(usize, usize)>> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    // The frame's last line, and a column with an ellipsis.
    let mut used = 1 + FRAME + 1;
    for step in 0..widths.len() {
        let index = if step % 2 == 0 { step / 2 } else { widths.len() - 1 - step / 2 };
        used += widths[index] + FRAME;
        if used > room && step > 0 {
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
    fn the_widest_column_gives_way_first() {
        assert_eq!(fit(&[3, 50, 20], Some(60)), [Some((0, 3)), Some((1, 27)), Some((2, 20))]);
    }

    #[test]
    fn columns_in_the_middle_are_left_out() {
        assert_eq!(fit(&[12; 6], Some(49)), [Some((0, 12)), None, Some((5, 12))]);
        assert_eq!(fit(&[12; 6], Some(5)), [Some((0, 12)), None]);
        assert_eq!(fit(&[12], Some(5)), [Some((0, 12))]);
    }
}
