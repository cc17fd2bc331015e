//! Reading little-endian numbers and strings from a slice that may end at any byte.

use super::SegmentError;

/// A cursor; every method fails instead of reading past the end.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    part: &'static str,
}

macro_rules! numbers {
    ($($name:ident),*) => {
        $(
            pub(super) fn $name(&mut self) -> Result<$name, SegmentError> {
                Ok($name::from_le_bytes(self.array()?))
            }
        )*
    };
}

impl<'a> Cursor<'a> {
    /// `part` names in errors what is being read.
    pub(super) fn new(rest: &'a [u8], part: &'static str) -> Self {
        Self { rest, part }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn malformed(&self, reason: &'static str) -> SegmentError {
        SegmentError::malformed(self.part, reason)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], SegmentError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(self.malformed("it ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SegmentError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(self.malformed("it ends early"))?;
        self.rest = rest;
        Ok(*taken)
    }

    numbers!(u8, u16, u32, u64);

    /// A number of records to follow, believed only if that many can fit.
    pub(super) fn count(&mut self, smallest_record: usize) -> Result<usize, SegmentError> {
        let count = self.u32()? as usize;
        if count.saturating_mul(smallest_record) > self.rest.len() {
            return Err(self.malformed("it announces more records than it has bytes"));
        }
        Ok(count)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, SegmentError> {
        let length = self.u32()? as usize;
        std::str::from_utf8(self.take(length)?).map_err(|_| self.malformed("a name is not UTF-8"))
    }
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}
