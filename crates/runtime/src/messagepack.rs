//! MessagePack: writing a value, reading one that must fill its bytes, and passing over values without knowing their type.
//!
//! `rmp_serde` stops behind the value and says nothing of what follows; bytes left over mean that writer and reader do not
//! agree, or that something is damaged.

use serde::de::{DeserializeOwned, Error as _};

#[cfg(test)]
mod tests;

/// The one value that the bytes are.
///
/// # Errors
/// If they are not a value of this type, or more than one.
pub(crate) fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut source = rmp_serde::Deserializer::new(bytes);
    let value = T::deserialize(&mut source)?;
    match source.get_ref().len() {
        0 => Ok(value),
        left => Err(rmp_serde::decode::Error::custom(format!("{left} bytes are left over"))),
    }
}

/// Writes one value, structs with field names.
pub(crate) fn write<T: serde::Serialize>(out: &mut Vec<u8>, value: &T) -> Result<(), rmp_serde::encode::Error> {
    rmp_serde::encode::write_named(out, value)
}

/// The bytes of the first value, and those that follow it. `None` if they end before it does.
#[cfg(any(test, feature = "tools"))]
pub(crate) fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut rest, mut values) = (bytes, 1u64);
    // Each value has a byte at least, so a count that lies comes to the end of the bytes.
    while values > 0 {
        let (&marker, after) = rest.split_first()?;
        let (inside, more) = extent(marker, after)?;
        (_, rest) = after.split_at_checked(inside)?;
        values = (values - 1).saturating_add(more);
    }
    bytes.split_at_checked(bytes.len() - rest.len())
}

/// How many bytes belong to a value behind its marker, and how many values follow inside it.
#[cfg(any(test, feature = "tools"))]
fn extent(marker: u8, after: &[u8]) -> Option<(usize, u64)> {
    let number = |width: usize| {
        let digits = after.get(..width)?;
        digits.iter().try_fold(0u64, |number, digit| number.checked_mul(256)?.checked_add(u64::from(*digit)))
    };
    let bytes = |width: usize, more: usize| Some((usize::try_from(number(width)?).ok()?.checked_add(width + more)?, 0));
    let values = |width: usize, each: u64| Some((width, number(width)?.saturating_mul(each)));
    match marker {
        0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => Some((0, 0)),
        0x80..=0x8f => Some((0, u64::from(marker & 0x0f) * 2)),
        0x90..=0x9f => Some((0, u64::from(marker & 0x0f))),
        0xa0..=0xbf => Some((usize::from(marker & 0x1f), 0)),
        0xcc | 0xd0 => Some((1, 0)),
        0xcd | 0xd1 | 0xd4 => Some((2, 0)),
        0xd5 => Some((3, 0)),
        0xca | 0xce | 0xd2 => Some((4, 0)),
        0xd6 => Some((5, 0)),
        0xcb | 0xcf | 0xd3 => Some((8, 0)),
        0xd7 => Some((9, 0)),
        0xd8 => Some((17, 0)),
        0xc4 | 0xd9 => bytes(1, 0),
        0xc5 | 0xda => bytes(2, 0),
        0xc6 | 0xdb => bytes(4, 0),
        0xc7 => bytes(1, 1),
        0xc8 => bytes(2, 1),
        0xc9 => bytes(4, 1),
        0xdc => values(2, 1),
        0xdd => values(4, 1),
        0xde => values(2, 2),
        0xdf => values(4, 2),
        // The one marker that means nothing.
        0xc1 => None,
    }
}
