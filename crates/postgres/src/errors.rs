//! What an answer of the server means for the job: whether it can heal, and what to do.

use flott_runtime::error::Error;
use postgres::error::SqlState;

/// An error while something was tried. The server's own words are kept.
pub(crate) fn explain(place: &str, doing: &str, error: &postgres::Error) -> Error {
    let Some(answer) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
        return Error::failed(format!("cannot {doing} in {place}: {error}{cause}"))
            .hint("is the server running, and does it listen there? It is tried again with growing pauses");
    };
    let detail = answer.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
    let said = format!("cannot {doing} in {place}: {}{detail} (SQLSTATE {})", answer.message(), answer.code().code());
    // Data that do not fit come again as they are; what has to be set right before a start is refused.
    let is_data = matches!(answer.code().code().get(..2), Some("22" | "23"));
    match hint(answer.code()) {
        Some(hint) if is_data => Error::invalid(said).hint(hint),
        Some(hint) => Error::refused(said).hint(hint),
        None => Error::failed(said),
    }
}

/// What to do about an answer that would come again; `None` for one that may not.
fn hint(code: &SqlState) -> Option<&'static str> {
    let known = match *code {
        SqlState::UNDEFINED_TABLE => {
            "create the table, or name the right one; `flott_epochs` is made when a job begins"
        }
        SqlState::UNDEFINED_COLUMN => {
            "give the record's fields the names of the columns, or choose some with `columns`"
        }
        SqlState::INVALID_CATALOG_NAME => "create the database, or name the right one",
        SqlState::INSUFFICIENT_PRIVILEGE => "grant the user what is missing",
        SqlState::UNIQUE_VIOLATION => {
            "a row with this key is there: each record is inserted as a row of its own, so the key has to tell them apart"
        }
        _ => "",
    };
    if !known.is_empty() {
        return Some(known);
    }
    // By class: refused connections; data, constraints and statements that do not fit; what the server lacks.
    match code.code().get(..2) {
        Some("28") => Some("correct user and password, or the server's pg_hba.conf"),
        Some("22" | "23" | "0A" | "42") => Some(
            "make records and table fit each other; the output waits in the checkpoint until the job is started again",
        ),
        _ => None,
    }
}
