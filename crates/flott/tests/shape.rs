//! What users write must compile without annotations. Nothing runs here: the test is that the types are found.

use flott::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Hit {
    word: String,
    n: u64,
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// A piece of a pipeline is an ordinary function, because a stream has a name.
fn tokens(lines: Stream<String>) -> Stream<String> {
    lines.flat_map(|line| words(&line)).filter(|word| !word.is_empty())
}

type Shapes = (Stream<(String, u64)>, Stream<u64>, Stream<(bool, u64)>);

/// Each on its own line: the closure's argument types come from the stream, its state from the declaration.
fn shapes(lines: Stream<String>, more: Stream<String>) -> Shapes {
    let words = tokens(lines.union(more));
    let counts = words.clone().key_by(|word| word.clone()).fold("count", 0u64, |count, _word| *count += 1);
    let hits = words
        .key_by(|word| word.clone())
        .process("gap", (Value::<u64>::named("n"), Value::<bool>::named("seen")), |(mut n, mut seen), word, out| {
            let count = n.get().copied().unwrap_or(0) + 1;
            n.set(count);
            if seen.get().is_none() {
                seen.set(true);
            } else {
                seen.clear();
            }
            let parsed: u64 = word.len().to_string().parse()?;
            if count % 2 == 0 {
                out.emit(Hit { word: out.key.clone(), n: count + parsed });
            }
            Ok(())
        })
        .try_map(OnError::Skip, |hit| if hit.n > 2 { Err("big") } else { Ok(hit.n) })
        .throttle(1_000)
        .inspect(|n| assert!(*n < 3));
    let parity =
        hits.clone().rebalance().map(|n| n + 1).key_by(|n| n % 2 == 0).reduce("max", |max, n| *max = n.max(*max));
    (counts, hits, parity)
}

#[test]
fn the_types_of_a_pipeline_are_inferred() {
    let pipeline: fn(Stream<String>, Stream<String>) -> _ = shapes;
    assert_eq!(std::mem::size_of_val(&pipeline), size_of::<usize>());
}
