//! What every replayable source must do. Call [`check_source`] with a small input.

use crate::source::{BoxedReader, Next, Source, SourceContext};
use crate::time::{Time, Timestamp};
use std::fmt::Debug;

/// A record as a reader gave it out.
#[derive(Debug, PartialEq)]
struct Seen<T> {
    record: T,
    timestamp: Option<Timestamp>,
    /// What the reader said of the place.
    place: String,
    /// The position behind it, as the checkpoint stores it.
    behind: serde_json::Value,
}

/// Reads all splits of a bounded source, and checks
/// - that the names of the splits are the same each time, and differ;
/// - that a reader opened at any position gives out exactly what the one that stored it gives out next: records,
///   timestamps, places, positions;
/// - that a position survives JSON, and does not change by itself;
/// - that the place of a record names something, another one for each record;
/// - that the end stays the end, and can be resumed at.
///
/// Returns the records of each split.
///
/// # Panics
/// If the source breaks its promise.
pub fn check_source<S: Source>(source: &S, cx: &SourceContext) -> Vec<(String, Vec<S::Item>)>
where
    S::Item: PartialEq + Debug,
{
    assert!(source.is_replayable(), "this suite is for replayable sources");
    let splits = source.splits(cx).expect("the splits can be listed");
    assert_eq!(source.splits(cx).expect("and again"), splits, "the same splits each time");
    for (index, split) in splits.iter().enumerate() {
        assert!(!splits.iter().take(index).any(|other| other == split), "two splits are named `{split}`");
    }
    splits.into_iter().map(|split| (split.clone(), check_split(source, &split, cx))).collect()
}

fn open<S: Source>(
    source: &S,
    split: &str,
    from: Option<&serde_json::Value>,
    cx: &SourceContext,
) -> BoxedReader<S::Item, S::Position> {
    let from = from.map(|json| serde_json::from_value(json.clone()).expect("a position survives JSON"));
    source.open(split, from, cx).expect("the split can be opened")
}

fn check_split<S: Source>(source: &S, split: &str, cx: &SourceContext) -> Vec<S::Item>
where
    S::Item: PartialEq + Debug,
{
    let mut reader = open(source, split, None, cx);
    let first = json(&reader.position());
    let all = read_all(&mut reader);
    let ends = json(&reader.position());
    let resumed = read_all(&mut open(source, split, Some(&first), cx));
    assert_eq!(resumed, all, "{split}: opened at its first position, the split reads as from the beginning");
    for (index, seen) in all.iter().enumerate() {
        let mut reader = open(source, split, Some(&seen.behind), cx);
        assert_eq!(json(&reader.position()), seen.behind, "{split}: a reader stands where it was opened");
        let rest = read_all(&mut reader);
        assert_eq!(
            rest.as_slice(),
            all.get(index + 1..).unwrap_or_default(),
            "{split}: opened behind record {index}, the split reads as without the break"
        );
    }
    assert!(read_all(&mut open(source, split, Some(&ends), cx)).is_empty(), "{split}: nothing comes after the end");
    for pair in all.windows(2) {
        let [earlier, later] = pair else { continue };
        assert_ne!(earlier.place, later.place, "{split}: the place tells two records apart");
    }
    all.into_iter().map(|seen| seen.record).collect()
}

fn json<P: serde::Serialize>(position: &P) -> serde_json::Value {
    serde_json::to_value(position).expect("a position can be JSON")
}

fn read_all<T: PartialEq + Debug, P: serde::Serialize>(reader: &mut BoxedReader<T, P>) -> Vec<Seen<T>> {
    let (mut now, mut seen) = (Time(1), Vec::new());
    loop {
        let before = json(&reader.position());
        match reader.next(now).expect("the split can be read") {
            Next::Record(record, timestamp) => {
                let place = reader.describe();
                assert!(!place.is_empty(), "a record has a place");
                seen.push(Seen { record, timestamp, place, behind: json(&reader.position()) });
            }
            Next::At(moment) => {
                assert!(moment > now, "a reader that says when has nothing before");
                assert_eq!(json(&reader.position()), before, "nothing was read");
                now = moment;
            }
            Next::Pending => panic!("a source that waits for somebody else cannot be checked by this suite"),
            Next::Skipped => assert_ne!(json(&reader.position()), before, "what is left out is behind the reader"),
            Next::Unreadable(unreadable) => panic!("a record cannot be read: {unreadable:?}"),
            Next::End => {
                assert!(matches!(reader.next(now), Ok(Next::End)), "the end stays the end");
                return seen;
            }
        }
    }
}
