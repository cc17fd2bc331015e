//! Reading a MessagePack value that must fill its bytes.
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
