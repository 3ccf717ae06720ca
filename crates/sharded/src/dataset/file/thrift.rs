//! Thrift's compact protocol, in which a Parquet file describes itself, as far as it has to be known before the library
//! reads it: whether all lists have room, and what the header of a page says of its bytes.

/// How deep structures may lie in each other.
const DEPTH: usize = 64;

/// The kinds of values.
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

/// Whether these bytes begin with a structure, no list of which is longer than what follows.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    Cursor(bytes).skip(kind::STRUCT, DEPTH).is_some()
}

/// What stands before the bytes of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// How long the header is.
    pub length: usize,
    /// How many bytes the page is to become.
    pub unpacked: i64,
    /// How many bytes follow.
    pub packed: i64,
    /// The checksum of these bytes, if there is one.
    pub crc: Option<u32>,
}

impl PageHeader {
    /// The header that these bytes begin with.
    pub fn of(bytes: &[u8]) -> Option<PageHeader> {
        let mut cursor = Cursor(bytes);
        let mut header = PageHeader { length: 0, unpacked: 0, packed: 0, crc: None };
        let mut last = 0;
        while let Some((field, kind)) = cursor.field(&mut last)? {
            match (field, kind) {
                (2, kind::I32) => header.unpacked = cursor.number()?,
                (3, kind::I32) => header.packed = cursor.number()?,
                // Written as a number with a sign.
                (4, kind::I32) => header.crc = Some(cursor.number()? as u32),
                _ => cursor.skip(kind, DEPTH)?,
            }
        }
        header.length = bytes.len() - cursor.0.len();
        Some(header)
    }
}

/// What is left to be read.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn pass(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    /// Seven bits a byte, the lowest first.
    fn bits(&mut self) -> Option<u64> {
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

    /// The sign is the lowest bit.
    fn number(&mut self) -> Option<i64> {
        let bits = self.bits()?;
        Some((bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    /// The number and the kind of the next field of a structure; none at its end.
    fn field(&mut self, last: &mut i64) -> Option<Option<(i64, u8)>> {
        let head = self.byte()?;
        if head == kind::STOP {
            return Some(None);
        }
        *last = match head >> 4 {
            0 => self.number()?,
            more => *last + i64::from(more),
        };
        Some(Some((*last, head & 0xf)))
    }

    /// The kind of a list's elements, and how many there are.
    fn list(&mut self) -> Option<(u8, usize)> {
        let head = self.byte()?;
        let length = match head >> 4 {
            15 => usize::try_from(self.bits()?).ok()?,
            short => usize::from(short),
        };
        // Every element takes a byte.
        (length <= self.0.len()).then_some((head & 0xf, length))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let below = depth.checked_sub(1)?;
        match kind {
            kind::TRUE | kind::FALSE => Some(()),
            kind::BYTE => self.pass(1),
            kind::I16 | kind::I32 | kind::I64 => self.bits().map(|_| ()),
            kind::DOUBLE => self.pass(8),
            kind::UUID => self.pass(16),
            kind::BINARY => {
                let length = self.bits()?;
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

    fn skip_map(&mut self, depth: usize) -> Option<()> {
        let length = self.bits()?;
        if length == 0 {
            return Some(());
        }
        let kinds = self.byte()?;
        (0..length).try_for_each(|_| {
            self.skip_element(kinds >> 4, depth)?;
            self.skip_element(kinds & 0xf, depth)
        })
    }

    /// A truth is a byte of its own where it has no field that could say it.
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
        // type 0, unpacked 300, packed 200, crc -2, a structure that is passed over.
        let bytes = [0x15, 0, 0x15, 0xd8, 4, 0x15, 0x90, 3, 0x15, 3, 0x1c, 0x15, 2, 0, 0, 9, 9];
        let header = PageHeader::of(&bytes).unwrap();
        assert_eq!(header, PageHeader { length: 15, unpacked: 300, packed: 200, crc: Some(u32::MAX - 1) });
        assert!((0..15).all(|end| PageHeader::of(&bytes[..end]).is_none()));
    }

    #[test]
    fn a_list_is_not_longer_than_what_follows() {
        assert!(is_whole(&[0x19, 0x25, 2, 4, 0]));
        assert!(!is_whole(&[0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 7, 2, 4, 0]));
        assert!(!is_whole(&[0x1b, 0xff, 0xff, 0xff, 0xff, 7, 0x55, 2, 4, 0]));
        assert!(!is_whole(&[0x1c; 200]), "structures that lie too deep");
    }
}
