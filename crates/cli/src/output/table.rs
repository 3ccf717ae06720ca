//! A table in a frame, cut to the width of the terminal.
//!
//! Invariant: memory does not grow with the result. Of a long one only the first and the last rows are kept.

use super::cell::{cell_texts, escape_control, is_right_aligned, truncate, type_name, width};
use super::fit::fit;
use super::format::OutputOptions;
use super::terminal;
use super::writer::{ByteSink, RowWriter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::collections::VecDeque;
use std::io::Write;

/// Draws a table when the result is complete.
pub struct Table {
    schema: SchemaRef,
    sink: ByteSink,
    max_width: Option<usize>,
    /// The most rows that are shown.
    max_rows: usize,
    /// The number of rows of the result so far.
    count: usize,
    /// The first rows, at most `max_rows`.
    head: Vec<RecordBatch>,
    head_rows: usize,
    /// The last rows after the head, at least half of `max_rows` if there are so many.
    tail: VecDeque<RecordBatch>,
    tail_rows: usize,
}

impl Table {
    /// A table with these columns.
    pub fn new(schema: SchemaRef, sink: ByteSink, options: &OutputOptions) -> Table {
        let max_rows = if options.max_rows == 0 { usize::MAX } else { options.max_rows };
        let max_width = options.max_width.or_else(terminal::width);
        let (head, tail) = (Vec::new(), VecDeque::new());
        Table { schema, sink, max_width, max_rows, count: 0, head, head_rows: 0, tail, tail_rows: 0 }
    }

    /// The texts of the rows that are shown, a list a column, and how many of them come before the gap, if
    /// there is one.
    fn shown_texts(&self) -> Result<(Option<usize>, Vec<Vec<String>>)> {
        let mut texts = vec![Vec::new(); self.schema.fields().len()];
        let before_gap = if self.count > self.max_rows { self.max_rows.div_ceil(2) } else { self.head_rows };
        let mut left = before_gap;
        for rows in &self.head {
            append(&mut texts, &rows.slice(0, rows.num_rows().min(left)))?;
            left = left.saturating_sub(rows.num_rows());
        }
        if self.count <= self.max_rows {
            return Ok((None, texts));
        }
        // If the tail is short, some of the last rows are in the head.
        let after_gap = self.max_rows - before_gap;
        let from_head = after_gap.saturating_sub(self.tail_rows);
        append_from(&mut texts, self.head.iter(), self.head_rows - from_head)?;
        append_from(&mut texts, self.tail.iter(), self.tail_rows - (after_gap - from_head))?;
        Ok((Some(before_gap), texts))
    }

    /// Writes the table.
    fn draw(&mut self) -> Result<()> {
        let (gap, texts) = self.shown_texts()?;
        let fields = self.schema.fields();
        let names: Vec<String> = fields.iter().map(|f| escape_control(f.name().clone())).collect();
        let types: Vec<String> = fields.iter().map(|f| type_name(f.data_type())).collect();
        let natural: Vec<usize> = (0..fields.len())
            .map(|i| {
                let cells = texts[i].iter().map(|text| width(text)).max().unwrap_or(0);
                cells.max(width(&names[i])).max(width(&types[i])).max(1)
            })
            .collect();
        let shown = fit(&natural, self.max_width);
        let right: Vec<bool> = fields.iter().map(|f| is_right_aligned(f.data_type())).collect();
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
        self.sink.write_all(text.as_bytes())?;
        let columns = shown.iter().flatten().count();
        writeln!(self.sink, "{}", self.footer(columns))?;
        Ok(())
    }

    /// The last line: how many rows and columns there are, and how many are shown.
    fn footer(&self, columns: usize) -> String {
        let mut text = count_with_noun(self.count, "row");
        if self.count > self.max_rows {
            text.push_str(&format!(" ({} shown)", self.max_rows));
        }
        let all = self.schema.fields().len();
        if columns < all {
            text.push_str(&format!(", {} ({columns} shown)", count_with_noun(all, "column")));
        }
        text
    }
}

/// `1 row`, `2 rows`.
fn count_with_noun(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Appends the texts of a batch.
fn append(texts: &mut [Vec<String>], rows: &RecordBatch) -> Result<()> {
    if rows.num_rows() > 0 {
        texts.iter_mut().zip(cell_texts(rows)?).for_each(|(all, more)| all.extend(more));
    }
    Ok(())
}

/// Appends the rows of these batches after the first `skip` ones.
fn append_from<'a>(
    texts: &mut [Vec<String>],
    batches: impl Iterator<Item = &'a RecordBatch>,
    mut skip: usize,
) -> Result<()> {
    for rows in batches {
        let skipped = skip.min(rows.num_rows());
        append(texts, &rows.slice(skipped, rows.num_rows() - skipped))?;
        skip -= skipped;
    }
    Ok(())
}

impl RowWriter for Table {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.count += rows.num_rows();
        let taken = rows.num_rows().min(self.max_rows - self.head_rows);
        if taken > 0 {
            self.head_rows += taken;
            self.head.push(rows.slice(0, taken));
        }
        if taken < rows.num_rows() {
            let wanted = self.max_rows / 2;
            let skipped = taken.max(rows.num_rows().saturating_sub(wanted));
            self.tail_rows += rows.num_rows() - skipped;
            self.tail.push_back(rows.slice(skipped, rows.num_rows() - skipped));
            while let Some(oldest) = self.tail.front()
                && self.tail_rows - oldest.num_rows() >= wanted
            {
                self.tail_rows -= oldest.num_rows();
                self.tail.pop_front();
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.draw()?;
        Ok(self.sink.flush()?)
    }
}

/// The frame of a table: which columns it shows, and how they are aligned.
struct Frame<'a> {
    shown: &'a [Option<(usize, usize)>],
    right: &'a [bool],
}

impl Frame<'_> {
    /// A horizontal line of the frame.
    fn rule(&self, out: &mut String, [left, between, right]: [&str; 3]) {
        let parts = self.shown.iter().map(|column| "─".repeat(column.map_or(1, |(_, width)| width) + 2));
        out.push_str(&format!("{left}{}{right}\n", parts.collect::<Vec<_>>().join(between)));
    }

    /// A row: the text of each column, and the text in place of the hidden ones.
    fn row<'t>(&self, out: &mut String, text: impl Fn(usize) -> &'t str, hidden: &str) {
        for column in self.shown {
            let (text, column_width, right) = match column {
                Some((i, column_width)) => (truncate(text(*i), *column_width), *column_width, self.right[*i]),
                None => (hidden.to_string(), 1, false),
            };
            let space = " ".repeat(column_width.saturating_sub(width(&text)));
            match right {
                true => out.push_str(&format!("│ {space}{text} ")),
                false => out.push_str(&format!("│ {text}{space} ")),
            }
        }
        out.push_str("│\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
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
        let buffer = SharedBuffer::default();
        let options = OutputOptions { format: None, max_rows, max_width };
        let mut table = Box::new(Table::new(batches[0].schema(), Box::new(buffer.clone()), &options));
        for batch in batches {
            table.write(batch).expect("there is room");
        }
        table.finish().expect("there is room");
        let bytes = buffer.0.lock().expect("no test panics while it writes").clone();
        String::from_utf8(bytes).expect("tables are text")
    }

    #[test]
    fn wide_characters_are_aligned() {
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
            let batches: Vec<RecordBatch> =
                (0..100).step_by(size).map(|n| numbers(n as i64, (n + size).min(100) as i64)).collect();
            assert_eq!(drawn(&batches, 6, None), expected, "batches of {size} rows");
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
