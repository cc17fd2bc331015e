//! Variables of the environment that were surely meant for flott and have a name that nobody reads: a mistyped
//! `FLOTT_CHECKPOINT_DIR` would silently run a job without checkpoints.
//!
//! They are told, not refused: other programs and a job's own code may have variables that begin like ours.

#[cfg(test)]
mod tests;

const PREFIX: &str = "FLOTT_";

/// Those that are no flag.
#[cfg(not(feature = "testing"))]
const OTHERS: &[&str] = &["FLOTT_LOG"];
#[cfg(feature = "testing")]
const OTHERS: &[&str] = &["FLOTT_LOG", "FLOTT_CRASH_AT", "FLOTT_STOP_AT", "FLOTT_STORAGE_TROUBLE"];

/// So many letters may be wrong, missing or too many.
const MOST_WRONG: usize = 2;

/// A warning for each name of `set` that nobody reads and that is near a known one.
pub(super) fn mistyped(known: &[String], set: impl Iterator<Item = String>) -> Vec<String> {
    let known: Vec<&str> = known.iter().map(String::as_str).chain(OTHERS.iter().copied()).collect();
    let mut unread: Vec<String> = set.filter(|name| is_ours(name) && !known.contains(&name.as_str())).collect();
    unread.sort_unstable();
    unread
        .iter()
        .filter_map(|name| {
            let nearest = nearest(&known, name)?;
            Some(format!("the variable {name} is set, and nothing reads it: is {nearest} meant?"))
        })
        .collect()
}

/// Also one whose letters are small.
fn is_ours(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// The known name with the fewest wrong letters, or one that goes on where this one ends, or the other way round.
fn nearest<'a>(known: &[&'a str], name: &str) -> Option<&'a str> {
    let name = name.to_ascii_uppercase().replace('-', "_");
    let own = name.get(PREFIX.len()..).unwrap_or_default();
    let near = |known: &&str| {
        let known = known.get(PREFIX.len()..).unwrap_or_default();
        let wrong = wrong_letters(own, known);
        let is_part = own.len() >= 4 && (known.starts_with(own) || own.starts_with(known));
        // Of a short name two wrong letters leave nothing.
        is_part || wrong <= MOST_WRONG.min(known.len() / 3)
    };
    let candidates = known.iter().filter(|known| near(known));
    candidates.min_by_key(|known| wrong_letters(&name, known)).copied()
}

/// How many letters must be changed, put in or left out to make one of the other (Levenshtein 1966).
fn wrong_letters(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (before, letter) in one.chars().enumerate() {
        let mut next = vec![before + 1];
        for (its, above) in other.chars().zip(row.windows(2)) {
            let (left, diagonal, over) = (next.last().copied(), above.first().copied(), above.last().copied());
            let costs = [left.map(|n| n + 1), over.map(|n| n + 1), diagonal.map(|n| n + usize::from(its != letter))];
            next.extend(costs.into_iter().flatten().min());
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
