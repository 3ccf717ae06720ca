//! In which order the rows of batches leave, by their keys.
//!
//! Rows lie in buckets by the first byte of their keys that differs, and a bucket is sorted at a time: it
//! fits into caches, and the channel can be stopped in between. Rows whose numbers are the same are sorted by
//! their next numbers, so that each key is looked up once for each of its numbers.

use super::keys::Keys;
use std::ops::Range;
use tokio::task::yield_now;

/// The buckets: one for each value of a byte.
const BUCKETS: usize = 256;

/// After how many rows a pause is made.
const PAUSE_ROWS: usize = 65_536;

/// How many bytes of a number fit into an entry together with a place.
const NARROW: usize = 8;

/// In which order rows leave. Those that are equal leave as they came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// The batch of each row that leaves.
    pub batches: Vec<u32>,
    /// The rows of each batch, as they leave.
    pub rows: Vec<Vec<u32>>,
}

impl Order {
    /// The order of these keys of so many batches.
    pub async fn of(keys: Keys, batches: usize) -> Order {
        let buckets = buckets(&keys);
        let mut ends: Vec<usize> = buckets.iter().map(|bucket| bucket.start).collect();
        let mut slot = |key: &[u8]| {
            let end = &mut ends[usize::from(keys.first(key))];
            *end += 1;
            *end - 1
        };
        let count = buckets.last().map_or(0, |bucket| bucket.end);
        if keys.fit(NARROW) {
            let mut entries = vec![0; count];
            for (batch, row, key) in keys.iter() {
                entries[slot(key)] = keys.number(key, 0) | u128::from(place(batch, row));
            }
            drop(keys);
            let mut pauses = Pauses::default();
            for bucket in buckets {
                pauses.pause(bucket.len()).await;
                entries[bucket].sort_unstable();
            }
            return Order::of_places(entries.into_iter().map(|entry| entry as u64), batches, count);
        }
        let mut entries = vec![(0, 0); count];
        for (batch, row, key) in keys.iter() {
            entries[slot(key)] = (keys.number(key, 0), place(batch, row));
        }
        let mut pauses = Pauses::default();
        for bucket in buckets {
            pauses.pause(bucket.len()).await;
            sort(&mut entries[bucket], &keys, 0);
        }
        drop(keys);
        Order::of_places(entries.into_iter().map(|(_, place)| place), batches, count)
    }

    fn of_places(places: impl Iterator<Item = u64>, batches: usize, count: usize) -> Order {
        let mut order = Order { batches: Vec::with_capacity(count), rows: vec![vec![]; batches] };
        for (batch, row) in places.map(split) {
            order.batches.push(batch as u32);
            order.rows[batch].push(row as u32);
        }
        order
    }
}

/// Pauses in work on many rows: a query can be stopped there.
#[derive(Default)]
pub(super) struct Pauses {
    rows: usize,
}

impl Pauses {
    /// Pauses if there were enough rows since the last time, these included.
    pub async fn pause(&mut self, rows: usize) {
        self.rows += rows;
        if self.rows > PAUSE_ROWS {
            self.rows = 0;
            yield_now().await;
        }
    }
}

/// Sorts entries that have a number of their keys, and are the same before it.
fn sort(entries: &mut [(u128, u64)], keys: &Keys, number: usize) {
    entries.sort_unstable();
    if number + 1 < keys.numbers() || keys.has_more() {
        let ties = entries.chunk_by_mut(|(a, _), (b, _)| a == b);
        ties.filter(|ties| ties.len() > 1).for_each(|ties| sort_ties(ties, keys, number + 1));
    }
}

/// Sorts entries whose keys are the same before a number.
fn sort_ties(entries: &mut [(u128, u64)], keys: &Keys, number: usize) {
    let key = |place: u64| keys.of(split(place));
    if number < keys.numbers() {
        entries.iter_mut().for_each(|(value, place)| *value = keys.number(key(*place), number));
        sort(entries, keys, number);
    } else {
        entries.sort_unstable_by(|(_, a), (_, b)| key(*a).cmp(key(*b)).then(a.cmp(b)));
    }
}

/// Where the rows of each bucket lie.
fn buckets(keys: &Keys) -> Vec<Range<usize>> {
    let mut counts = [0; BUCKETS];
    keys.iter().for_each(|(_, _, key)| counts[usize::from(keys.first(key))] += 1);
    let mut end = 0;
    let bucket = |count: &usize| {
        end += count;
        end - count..end
    };
    counts.iter().map(bucket).collect()
}

/// A place as a number: places of rows that came later are greater.
fn place(batch: usize, row: usize) -> u64 {
    (batch as u64) << 32 | row as u64
}

/// The reverse of [`place`].
fn split(place: u64) -> (usize, usize) {
    ((place >> 32) as usize, place as u32 as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
    use datafusion::arrow::compute::SortOptions;
    use datafusion::arrow::row::{RowConverter, SortField};
    use std::sync::Arc;

    /// Sorts batches of columns by all of them, and compares the order with that of a stable sort.
    fn check(batches: &[Vec<ArrayRef>], options: &[SortOptions]) {
        let field = |(column, options): (&ArrayRef, &SortOptions)| {
            SortField::new_with_options(column.data_type().clone(), *options)
        };
        let converter = RowConverter::new(batches[0].iter().zip(options).map(field).collect()).unwrap();
        let mut keys = Keys::default();
        batches.iter().for_each(|columns| keys.push(converter.convert_columns(columns).unwrap()));
        keys.finish();
        let mut places: Vec<u64> = keys.iter().map(|(batch, row, _)| place(batch, row)).collect();
        places.sort_by(|a, b| keys.of(split(*a)).cmp(keys.of(split(*b))));
        let count = places.len();
        let expected = Order::of_places(places.into_iter(), batches.len(), count);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(Order::of(keys, batches.len())), expected);
    }

    fn numbers(count: usize, of: impl Fn(u64) -> Option<i64>) -> ArrayRef {
        let mut random = 5_u64;
        let next = |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            of(random >> 33)
        };
        Arc::new((0..count).map(next).collect::<Int64Array>())
    }

    fn texts(count: usize, of: impl Fn(u64) -> String) -> ArrayRef {
        let numbers = numbers(count, |number| Some(number as i64));
        let numbers = numbers.as_any().downcast_ref::<Int64Array>().unwrap();
        Arc::new(numbers.iter().flatten().map(|number| Some(of(number as u64))).collect::<StringArray>())
    }

    const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };
    const DESCENDING: SortOptions = SortOptions { descending: true, nulls_first: true };

    #[test]
    fn numbers_with_few_bytes_that_differ() {
        let batches: Vec<Vec<ArrayRef>> = [100, 1, 250]
            .iter()
            .map(|count| vec![numbers(*count, |n| (n % 5 > 0).then_some(n as i64 % 1000 - 500))])
            .collect();
        check(&batches, &[ASCENDING]);
        check(&batches, &[DESCENDING]);
    }

    #[test]
    fn ends_of_types_and_equal_rows() {
        let ends =
            |n: u64| [None, Some(i64::MIN), Some(-1), Some(0), Some(1), Some(i64::MAX)][n as usize % 6];
        check(&[vec![numbers(100, ends)], vec![numbers(50, ends)]], &[DESCENDING]);
        check(&[vec![numbers(40, |_| Some(7))], vec![numbers(40, |_| Some(7))]], &[ASCENDING]);
        check(&[vec![numbers(40, |_| None)]], &[ASCENDING]);
        let floats = [f64::NAN, -f64::NAN, f64::INFINITY, -0.0, 0.0, f64::MIN, 1e-300];
        check(&[vec![Arc::new(Float64Array::from_iter_values(floats))]], &[ASCENDING]);
    }

    #[test]
    fn keys_with_more_bytes_than_a_number_has() {
        let columns = || {
            vec![
                numbers(300, |n| Some(n as i64 % 3)),
                numbers(300, |n| Some((n as i64).wrapping_mul(0x1234_5678_9abc_def1))),
                numbers(300, |n| (n % 7 > 0).then_some(!(n as i64) << 20)),
            ]
        };
        check(&[columns(), columns()], &[ASCENDING, DESCENDING, ASCENDING]);
    }

    #[test]
    fn texts_that_differ_late_or_end() {
        let ends = texts(200, |n| "a".repeat(n as usize % 90));
        check(&[vec![ends]], &[ASCENDING]);
        let late = texts(200, |n| format!("{}{}", "x".repeat(100), n % 50));
        check(&[vec![Arc::clone(&late)], vec![late]], &[DESCENDING]);
        let zeros = texts(200, |n| "\0".repeat(n as usize % 5));
        check(&[vec![zeros]], &[ASCENDING]);
    }

    #[test]
    fn keys_that_differ_beyond_what_is_looked_at() {
        let long = texts(200, |n| format!("{}{}{}", n % 2, "x".repeat(400), n % 50));
        check(&[vec![Arc::clone(&long)], vec![long]], &[ASCENDING]);
        let same_start = texts(200, |n| format!("{}{}", "x".repeat(400), n % 50));
        check(&[vec![same_start]], &[DESCENDING]);
    }
}
