//! As much of Thrift's compact protocol as is needed before the library reads a Parquet file: whether all
//! lists fit into their bytes, and what the header of a page says.

/// How deep structures may be nested.
const DEPTH: usize = 64;

/// The types of values.
mod kind {
    pub const STOP: u8 = 0;
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const MAP: u8 = 11;
    pub const STRUCT: u8 = 12;
    pub const UUID: u8 = 13;
}

/// Whether these bytes begin with a complete structure, no list of which is longer than the bytes that
/// follow.
pub(super) fn is_complete(bytes: &[u8]) -> bool {
    Cursor(bytes).skip(kind::STRUCT, DEPTH).is_some()
}

/// The header of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// The length of the header itself.
    pub length: usize,
    /// The length of the page once it is decompressed.
    pub decompressed: i64,
    /// The length of the page that follows.
    pub compressed: i64,
    /// The checksum of the page, if it has one.
    pub crc: Option<u32>,
}

impl PageHeader {
    /// The header at the start of these bytes; none if there is no complete one.
    pub fn of(bytes: &[u8]) -> Option<PageHeader> {
        let mut cursor = Cursor(bytes);
        let mut header = PageHeader { length: 0, decompressed: 0, compressed: 0, crc: None };
        let mut last = 0;
        while let Some((field, kind)) = cursor.field(&mut last)? {
            match (field, kind) {
                (2, kind::I32) => header.decompressed = cursor.integer()?,
                (3, kind::I32) => header.compressed = cursor.integer()?,
                // It is written as a signed integer.
                (4, kind::I32) => header.crc = Some(cursor.integer()? as u32),
                _ => cursor.skip(kind, DEPTH)?,
            }
        }
        header.length = bytes.len() - cursor.0.len();
        Some(header)
    }
}

/// The bytes that are left to be read.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    /// The next byte.
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Skips bytes.
    fn pass(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    /// A variable-length integer: seven bits a byte, the lowest first.
    fn varint(&mut self) -> Option<u64> {
        let mut bits = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            bits |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(bits);
            }
        }
        None
    }

    /// A zigzag integer: the lowest bit is the sign.
    fn integer(&mut self) -> Option<i64> {
        let bits = self.varint()?;
        Some((bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    /// The number and the type of the next field; none at the end of the structure.
    fn field(&mut self, last: &mut i64) -> Option<Option<(i64, u8)>> {
        let head = self.byte()?;
        if head == kind::STOP {
            return Some(None);
        }
        *last = match head >> 4 {
            0 => self.integer()?,
            more => *last + i64::from(more),
        };
        Some(Some((*last, head & 0xf)))
    }

    /// The type and the number of a list's elements.
    fn list(&mut self) -> Option<(u8, usize)> {
        let head = self.byte()?;
        let length = match head >> 4 {
            15 => usize::try_from(self.varint()?).ok()?,
            short => usize::from(short),
        };
        // Every element takes at least a byte.
        (length <= self.0.len()).then_some((head & 0xf, length))
    }

    /// Skips a value.
    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let below = depth.checked_sub(1)?;
        match kind {
            kind::TRUE | kind::FALSE => Some(()),
            kind::BYTE => self.pass(1),
            kind::I16 | kind::I32 | kind::I64 => self.varint().map(|_| ()),
            kind::DOUBLE => self.pass(8),
            kind::UUID => self.pass(16),
            kind::BINARY => {
                let length = self.varint()?;
                self.pass(usize::try_from(length).ok()?)
            }
            kind::LIST | kind::SET => {
                let (kind, length) = self.list()?;
                (0..length).try_for_each(|_| self.skip_element(kind, below))
            }
            kind::MAP => self.skip_map(below),
            kind::STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, below)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    /// Skips a map.
    fn skip_map(&mut self, depth: usize) -> Option<()> {
        let length = self.varint()?;
        if length == 0 {
            return Some(());
        }
        let kinds = self.byte()?;
        (0..length).try_for_each(|_| {
            self.skip_element(kinds >> 4, depth)?;
            self.skip_element(kinds & 0xf, depth)
        })
    }

    /// Skips an element. A boolean is a byte here, while a field has it in its type.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            kind::TRUE | kind::FALSE => self.pass(1),
            kind => self.skip(kind, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_page_is_read() {
        // type 0, decompressed 300, compressed 200, crc -2, a structure that is passed over.
        let bytes = [0x15, 0, 0x15, 0xd8, 4, 0x15, 0x90, 3, 0x15, 3, 0x1c, 0x15, 2, 0, 0, 9, 9];
        let header = PageHeader::of(&bytes).unwrap();
        assert_eq!(
            header,
            PageHeader { length: 15, decompressed: 300, compressed: 200, crc: Some(u32::MAX - 1) }
        );
        assert!((0..15).all(|end| PageHeader::of(&bytes[..end]).is_none()));
    }

    #[test]
    fn a_list_is_not_longer_than_what_follows() {
        assert!(is_complete(&[0x19, 0x25, 2, 4, 0]));
        assert!(!is_complete(&[0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 7, 2, 4, 0]));
        assert!(!is_complete(&[0x1b, 0xff, 0xff, 0xff, 0xff, 7, 0x55, 2, 4, 0]));
        assert!(!is_complete(&[0x1c; 200]), "structures that lie too deep");
    }
}
