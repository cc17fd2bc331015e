//! A bad checkpoint storage for tests with real processes, only with the feature `testing`.
//!
//! `FLOTT_STORAGE_TROUBLE` says what is wrong, in words that are separated by blanks: `latency=200ms`, `errors=5` (one request
//! in five fails), `seed=7`, and `full-while=FILE` or `denied-while=FILE` for as long as that file is there.

use flott_runtime::error::{Error, Result};
use flott_runtime::io::storage::Trouble;

/// The variable.
pub(crate) const VARIABLE: &str = "FLOTT_STORAGE_TROUBLE";

/// What the environment asks for, if anything.
///
/// # Errors
/// `Refused` for a word that there is none of.
pub(super) fn from_environment() -> Result<Option<Trouble>> {
    std::env::var(VARIABLE).ok().map(|text| parse(&text)).transpose()
}

fn parse(text: &str) -> Result<Trouble> {
    let mut trouble = Trouble::default();
    for word in text.split_whitespace() {
        let wrong = || Error::refused(format!("{VARIABLE} holds `{word}`, which is no trouble that there is"));
        let (name, value) = word.split_once('=').ok_or_else(wrong)?;
        match name {
            "latency" => trouble.latency = humantime::parse_duration(value).map_err(|_| wrong())?,
            "errors" => trouble.errors = value.parse().map_err(|_| wrong())?,
            "seed" => trouble.seed = value.parse().map_err(|_| wrong())?,
            "full-while" => trouble.full_while = Some(value.into()),
            "denied-while" => trouble.denied_while = Some(value.into()),
            _ => return Err(wrong()),
        }
    }
    Ok(trouble)
}
