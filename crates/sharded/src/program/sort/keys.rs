//! The keys of rows as numbers.
//!
//! Arrow's row format encodes the columns of a sort so that bytes compare as the rows do. Of these, bytes
//! that are the same in all rows decide nothing, and the others make numbers. Most keys are short and have
//! few such bytes: of dates and the keys of a table with millions of rows, one number has all.

use datafusion::arrow::row::Rows;

/// How many bytes of a key are looked at.
const CONSIDERED: usize = 256;

/// How many bytes a number has.
const WIDTH: usize = 16;

/// The keys of rows, by batch, and which of their bytes differ.
#[derive(Debug, Default)]
pub(super) struct Keys {
    rows: Vec<Rows>,
    /// The bits that differ between the first key and another, byte by byte.
    differ: Vec<u8>,
    /// The places of the bytes that differ, in order.
    places: Vec<usize>,
    /// Whether a key has bytes beyond those that are looked at.
    has_more: bool,
}

impl Keys {
    /// Adds the keys of a batch.
    pub fn push(&mut self, rows: Rows) {
        self.rows.push(rows);
        let (Some(first), Some(last)) = (self.rows[0].iter().next(), self.rows.last()) else { return };
        let first: &[u8] = first.data();
        for key in last.iter() {
            let key: &[u8] = key.data();
            let considered = first.len().max(key.len()).min(CONSIDERED);
            self.has_more |= key.len() > CONSIDERED || first.len() > CONSIDERED;
            if self.differ.len() < considered {
                self.differ.resize(considered, 0);
            }
            let pairs = self.differ.iter_mut().zip(first.iter().zip(key));
            pairs.for_each(|(differ, (a, b))| *differ |= a ^ b);
            // A key that ends has zeros behind its end.
            let shorter = first.len().min(key.len()).min(considered);
            let longer = if first.len() > key.len() { first } else { key };
            let pairs = self.differ[shorter..considered].iter_mut().zip(&longer[shorter..considered]);
            pairs.for_each(|(differ, byte)| *differ |= byte);
        }
    }

    /// Finds which bytes differ, once all keys are there.
    pub fn finish(&mut self) {
        self.places = (0..self.differ.len()).filter(|place| self.differ[*place] != 0).collect();
    }

    /// All keys, with their batches and rows.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, &[u8])> {
        let batches = self.rows.iter().enumerate();
        batches
            .flat_map(|(batch, rows)| rows.iter().enumerate().map(move |(row, key)| (batch, row, key.data())))
    }

    /// The key of a row of a batch.
    #[inline]
    pub fn of(&self, (batch, row): (usize, usize)) -> &[u8] {
        self.rows[batch].row(row).data()
    }

    /// How many numbers a key has.
    pub fn numbers(&self) -> usize {
        self.places.len().div_ceil(WIDTH)
    }

    /// Whether so many bytes of the first number are all of each key.
    pub fn fit(&self, bytes: usize) -> bool {
        !self.has_more && self.places.len() <= bytes
    }

    /// Whether keys may differ whose numbers are the same.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// A number of a key: so many of its bytes that differ.
    #[inline]
    pub fn number(&self, key: &[u8], number: usize) -> u128 {
        let places = self.places.iter().skip(number * WIDTH).take(WIDTH);
        let (mut value, mut free) = (0, u128::BITS);
        for place in places {
            free -= u8::BITS;
            value |= u128::from(key.get(*place).copied().unwrap_or(0)) << free;
        }
        value
    }

    /// The first byte that differs of a key.
    #[inline]
    pub fn first(&self, key: &[u8]) -> u8 {
        self.places.first().and_then(|place| key.get(*place)).copied().unwrap_or(0)
    }
}
