//! Tests of the guarantees: the table of all combinations, the minima, and what `--require` refuses.

use super::*;

fn path(replayable: bool, transactional: bool) -> Path {
    Path { source: "in".to_owned(), replayable, sink: "out".to_owned(), transactional }
}

fn promised(replayable: bool, mode: Option<Mode>, transactional: bool) -> (Guarantee, Guarantee) {
    let promise = of_path(path(replayable, transactional), mode, Guarantee::ExactlyOnce);
    (promise.end_to_end, promise.state)
}

#[test]
fn every_row_of_the_table_holds() {
    use Guarantee::{AtLeastOnce, AtMostOnce, ExactlyOnce, None};
    for both in [(false, false), (false, true), (true, false), (true, true)] {
        assert_eq!(promised(both.0, Option::None, both.1), (None, None));
    }
    for mode in Mode::ALL {
        for transactional in [false, true] {
            assert_eq!(promised(false, Some(mode), transactional).0, AtMostOnce, "{mode}");
        }
        let exact = mode != Mode::AtLeastOnce;
        let state = if exact { ExactlyOnce } else { AtLeastOnce };
        assert_eq!(promised(true, Some(mode), true), (state, state), "{mode}");
        assert_eq!(promised(true, Some(mode), false), (AtLeastOnce, state), "{mode}");
    }
}

#[test]
fn an_aligned_checkpoint_after_a_restore_from_one_without_alignment_is_no_better() {
    let inherited = of_checkpoint(Mode::AtLeastOnce, Guarantee::ExactlyOnce);
    assert_eq!(of_checkpoint(Mode::Aligned, inherited), Guarantee::AtLeastOnce);
    let promise = of_path(path(true, true), Some(Mode::Aligned), inherited);
    assert_eq!((promise.end_to_end, promise.limit), (Guarantee::AtLeastOnce, Some(Limit::Inherited)));
}

#[test]
fn a_job_promises_what_its_weakest_path_does_and_require_names_that_path() {
    let good = of_path(path(true, true), Some(Mode::Aligned), Guarantee::ExactlyOnce);
    let weak = of_path(path(false, true), Some(Mode::Aligned), Guarantee::ExactlyOnce);
    let paths = [good.clone(), weak.clone()];
    assert_eq!(of_job(&paths), Guarantee::AtMostOnce);
    assert_eq!(below(&paths, Guarantee::AtLeastOnce), [&weak]);
    assert_eq!(below(&[good], Guarantee::ExactlyOnce), [&weak; 0]);
}

#[test]
fn a_promise_says_what_limits_it() {
    let text = |replayable, mode, transactional| {
        of_path(path(replayable, transactional), mode, Guarantee::ExactlyOnce).to_string()
    };
    assert_eq!(text(true, Some(Mode::Aligned), true), "in -> out: exactly-once");
    assert!(text(false, Some(Mode::Aligned), true).contains("source in cannot be read again"));
    assert!(text(true, Some(Mode::AtLeastOnce), true).contains("mode is at-least-once"));
    assert!(text(true, Some(Mode::Aligned), false).contains("state: exactly-once"));
    assert!(text(true, None, true).contains("checkpoints are off"));
}

#[test]
fn a_reason_that_many_paths_have_is_said_once_with_the_first_of_them() {
    let named = |source: &str, sink: &str, replayable| {
        let path = Path { source: source.to_owned(), replayable, sink: sink.to_owned(), transactional: true };
        of_path(path, Some(Mode::Aligned), Guarantee::ExactlyOnce)
    };
    let paths = ["a", "b", "c", "d", "e"].map(|sink| named("socket", sink, false));
    let other = named("pipe", "a", false);
    assert_eq!(
        by_reason([&paths[0], &other, &paths[1], &paths[2], &paths[3], &paths[4]]),
        [
            "socket -> a, socket -> b, socket -> c and 2 more: at-most-once, because source socket cannot be read again",
            "pipe -> a: at-most-once, because source pipe cannot be read again",
        ]
    );
    assert_eq!(by_reason([&other]), [other.to_string()]);
}
