//! A frame with names, types and rows, cut to the terminal's width.
//!
//! Of more rows than are to be shown only the first and the last are kept: memory does not grow with the
//! result.

use super::cell::{columns, cut, is_right, type_name, visible, width};
use super::fit::fit;
use super::{Bytes, Look, Rows, terminal};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::collections::VecDeque;
use std::io::Write;

/// Draws a table.
pub struct Table {
    schema: SchemaRef,
    to: Bytes,
    max_width: Option<usize>,
    /// How many rows are shown.
    most: usize,
    count: usize,
    /// The first rows, as many as are shown at most.
    first: Vec<RecordBatch>,
    in_first: usize,
    /// Rows after those, at least half as many as are shown.
    last: VecDeque<RecordBatch>,
    in_last: usize,
}

impl Table {
    /// A table with these columns.
    pub fn new(schema: SchemaRef, to: Bytes, look: &Look) -> Table {
        let most = if look.max_rows == 0 { usize::MAX } else { look.max_rows };
        let max_width = look.max_width.or_else(terminal::width);
        let (first, last) = (Vec::new(), VecDeque::new());
        Table { schema, to, max_width, most, count: 0, first, in_first: 0, last, in_last: 0 }
    }

    /// The rows that are shown: how many come before the gap, and all of them, a list a column.
    fn shown(&self) -> Result<(Option<usize>, Vec<Vec<String>>)> {
        let mut texts = vec![Vec::new(); self.schema.fields().len()];
        let head = if self.count > self.most { self.most.div_ceil(2) } else { self.in_first };
        let mut left = head;
        for rows in &self.first {
            append(&mut texts, &rows.slice(0, rows.num_rows().min(left)))?;
            left = left.saturating_sub(rows.num_rows());
        }
        if self.count <= self.most {
            return Ok((None, texts));
        }
        // Where few rows are beyond the first ones, the last ones are partly among those.
        let tail = self.most - head;
        let from_first = tail.saturating_sub(self.in_last);
        let mut skip = self.in_first - from_first;
        for rows in &self.first {
            let skipped = skip.min(rows.num_rows());
            append(&mut texts, &rows.slice(skipped, rows.num_rows() - skipped))?;
            skip -= skipped;
        }
        let mut skip = self.in_last - (tail - from_first);
        for rows in &self.last {
            let skipped = skip.min(rows.num_rows());
            append(&mut texts, &rows.slice(skipped, rows.num_rows() - skipped))?;
            skip -= skipped;
        }
        Ok((Some(head), texts))
    }

    fn draw(&mut self) -> Result<()> {
        let (gap, texts) = self.shown()?;
        let fields = self.schema.fields();
        let names: Vec<String> = fields.iter().map(|f| visible(f.name().clone())).collect();
        let types: Vec<String> = fields.iter().map(|f| type_name(f.data_type())).collect();
        let natural: Vec<usize> = (0..fields.len())
            .map(|i| {
                let cells = texts[i].iter().map(|text| width(text)).max().unwrap_or(0);
                cells.max(width(&names[i])).max(width(&types[i])).max(1)
            })
            .collect();
        let shown = fit(&natural, self.max_width);
        let right: Vec<bool> = fields.iter().map(|f| is_right(f.data_type())).collect();
        let frame = Frame { shown: &shown, right: &right };
        let mut text = String::new();
        if !fields.is_empty() {
            frame.rule(&mut text, ["┌", "┬", "┐"]);
            frame.row(&mut text, |i| &names[i], "…");
            frame.row(&mut text, |i| &types[i], "");
            frame.rule(&mut text, ["├", "┼", "┤"]);
            let rows = texts.first().map_or(0, Vec::len);
            (0..rows).for_each(|row| {
                if gap == Some(row) {
                    frame.row(&mut text, |_| "·", "·");
                }
                frame.row(&mut text, |i| &texts[i][row], "…");
            });
            frame.rule(&mut text, ["└", "┴", "┘"]);
        }
        self.to.write_all(text.as_bytes())?;
        let columns = shown.iter().flatten().count();
        writeln!(self.to, "{}", self.footer(columns))?;
        Ok(())
    }

    fn footer(&self, columns: usize) -> String {
        let mut text = counted(self.count, "row");
        if self.count > self.most {
            text.push_str(&format!(" ({} shown)", self.most));
        }
        let all = self.schema.fields().len();
        if columns < all {
            text.push_str(&format!(", {} ({columns} shown)", counted(all, "column")));
        }
        text
    }
}

/// `1 row`, `2 rows`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn append(texts: &mut [Vec<String>], rows: &RecordBatch) -> Result<()> {
    if rows.num_rows() > 0 {
        texts.iter_mut().zip(columns(rows)?).for_each(|(all, more)| all.extend(more));
    }
    Ok(())
}

impl Rows for Table {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.count += rows.num_rows();
        let taken = rows.num_rows().min(self.most - self.in_first);
        if taken > 0 {
            self.in_first += taken;
            self.first.push(rows.slice(0, taken));
        }
        if taken < rows.num_rows() {
            let wanted = self.most / 2;
            let skipped = taken.max(rows.num_rows().saturating_sub(wanted));
            self.in_last += rows.num_rows() - skipped;
            self.last.push_back(rows.slice(skipped, rows.num_rows() - skipped));
            while let Some(oldest) = self.last.front()
                && self.in_last - oldest.num_rows() >= wanted
            {
                self.in_last -= oldest.num_rows();
                self.last.pop_front();
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.draw()?;
        Ok(self.to.flush()?)
    }
}

/// The lines of a table.
struct Frame<'a> {
    shown: &'a [Option<(usize, usize)>],
    right: &'a [bool],
}

impl Frame<'_> {
    fn rule(&self, to: &mut String, [left, between, right]: [&str; 3]) {
        let parts = self.shown.iter().map(|column| "─".repeat(column.map_or(1, |(_, width)| width) + 2));
        to.push_str(&format!("{left}{}{right}\n", parts.collect::<Vec<_>>().join(between)));
    }

    /// A row: the text of each column, and what stands for those left out.
    fn row<'t>(&self, to: &mut String, text: impl Fn(usize) -> &'t str, hidden: &str) {
        for column in self.shown {
            let (text, wide, right) = match column {
                Some((i, wide)) => (cut(text(*i), *wide), *wide, self.right[*i]),
                None => (hidden.to_string(), 1, false),
            };
            let space = " ".repeat(wide.saturating_sub(width(&text)));
            match right {
                true => to.push_str(&format!("│ {space}{text} ")),
                false => to.push_str(&format!("│ {text}{space} ")),
            }
        }
        to.push_str("│\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no test panics while it writes").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn numbers(from: i64, to: i64) -> RecordBatch {
        let words: Vec<String> = (from..to).map(|n| format!("鳥{n}")).collect();
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int64Array::from_iter_values(from..to))),
            ("word", Arc::new(StringArray::from(words))),
        ];
        RecordBatch::try_from_iter(columns).expect("both columns have the same length")
    }

    fn drawn(batches: &[RecordBatch], max_rows: usize, max_width: Option<usize>) -> String {
        let page = Page::default();
        let look = Look { format: None, max_rows, max_width };
        let mut table = Box::new(Table::new(batches[0].schema(), Box::new(page.clone()), &look));
        for batch in batches {
            table.write(batch).expect("there is room");
        }
        table.finish().expect("there is room");
        let bytes = page.0.lock().expect("no test panics while it writes").clone();
        String::from_utf8(bytes).expect("tables are text")
    }

    #[test]
    fn wide_characters_stand_in_line() {
        let expected = "\
┌───────┬─────────┐
│     n │ word    │
│ int64 │ varchar │
├───────┼─────────┤
│     9 │ 鳥9     │
│    10 │ 鳥10    │
└───────┴─────────┘
2 rows
";
        assert_eq!(drawn(&[numbers(9, 11)], 40, None), expected);
    }

    /// However the rows come, the same first and last ones are shown.
    #[test]
    fn the_first_and_last_rows_do_not_depend_on_batches() {
        let expected = drawn(&[numbers(0, 100)], 6, None);
        assert!(expected.ends_with("100 rows (6 shown)\n"), "{expected}");
        let shown: Vec<&str> = expected.lines().filter(|l| l.contains('鳥')).collect();
        assert_eq!(shown.len(), 6, "{expected}");
        assert!(shown[2].contains(" 2 ") && shown[3].contains(" 97 "), "{expected}");
        for size in [1, 2, 5, 7, 99] {
            let cut: Vec<RecordBatch> =
                (0..100).step_by(size).map(|n| numbers(n as i64, (n + size).min(100) as i64)).collect();
            assert_eq!(drawn(&cut, 6, None), expected, "batches of {size} rows");
        }
        for (rows, shown) in [(6, "6 rows"), (7, "7 rows (6 shown)"), (8, "8 rows (6 shown)")] {
            let text = drawn(&[numbers(0, rows)], 6, None);
            assert_eq!(text.lines().last(), Some(shown));
            let last = format!(" {} ", rows - 1);
            assert!(text.contains(&last), "{text}");
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let long = "a long value that does not fit, not by any means";
        let columns: Vec<(String, ArrayRef)> = (0..9)
            .map(|i| (format!("column_{i}"), Arc::new(StringArray::from(vec![long])) as ArrayRef))
            .collect();
        let rows = RecordBatch::try_from_iter(columns).expect("all columns have one row");
        for room in [30, 47, 80, 200] {
            let text = drawn(std::slice::from_ref(&rows), 40, Some(room));
            assert!(text.lines().all(|line| width(line) <= room), "{room}\n{text}");
            assert!(text.contains("column_0"), "{text}");
        }
    }
}
