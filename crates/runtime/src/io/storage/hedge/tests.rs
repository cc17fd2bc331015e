//! Tests of when a second try begins and of what two answers mean.

use super::Said::{self, Created, Exists, Open, Refused};
use super::{ENOUGH, Pace, SHORTEST, Verdict, judge};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);
const PART: usize = 8 << 20;

fn paced(times: &[u64]) -> Pace {
    let mut pace = Pace::new(TIMEOUT);
    times.iter().for_each(|millis| pace.took(PART, Duration::from_millis(*millis)));
    pace
}

#[test]
fn before_anything_is_known_a_put_is_waited_for_long() {
    assert_eq!(Pace::new(TIMEOUT).delay(PART), Some(TIMEOUT / 4));
    assert_eq!(paced(&[5; ENOUGH as usize - 1]).delay(PART), Some(TIMEOUT / 4));
}

#[test]
fn the_delay_follows_what_puts_of_that_size_took() {
    let (steady, uneven) = (paced(&[1_000; 100]), paced(&[500, 1_500].repeat(50)));
    let delay = |pace: &Pace| pace.delay(PART).expect("allowed");
    assert!(delay(&steady) >= Duration::from_secs(2) && delay(&steady) < Duration::from_millis(2_100), "{steady:?}");
    assert!(delay(&uneven) > 2 * delay(&steady), "unsteady puts are given more time: {uneven:?}");
    assert_eq!(steady.delay(100), Some(TIMEOUT / 4), "nothing is known of small ones");
    assert_eq!(paced(&[1; 100]).delay(PART), Some(SHORTEST));
    assert_eq!(paced(&[29_000; 100]).delay(PART), Some(TIMEOUT / 2), "the second try has to have time");
}

#[test]
fn a_store_that_is_slow_as_a_whole_gets_at_most_a_tenth_more_puts() {
    let mut pace = paced(&[]);
    let mut second = 0;
    for _ in 0..1_000 {
        if pace.delay(PART).is_some() {
            pace.hedged();
            second += 1;
        }
        pace.took(PART, Duration::from_secs(10));
    }
    assert!((90..=110).contains(&second), "{second}");
}

/// Every order of events at the store, and every way of losing answers: what is said must be true.
#[test]
fn the_verdict_on_two_creates_is_true_whatever_happened_at_the_store() {
    // Whose object is there before; whether each try arrives and its answer too; which arrives first; whether somebody takes
    // the object away in between.
    for bits in 0..64u32 {
        let [foreign, one_lost, other_lost, one_arrives, other_arrives, taken_away] =
            [0, 1, 2, 3, 4, 5].map(|bit| bits >> bit & 1 == 1);
        let mut there = foreign;
        let mut creations = 0;
        let mut send = |arrives: bool, lost: bool, there: &mut bool| -> Said {
            let answer = match (arrives, *there) {
                (false, _) => return Open,
                (true, true) => Exists,
                (true, false) => Created,
            };
            creations += u32::from(answer == Created);
            *there = true;
            if lost { Open } else { answer }
        };
        let one = send(one_arrives, one_lost, &mut there);
        there &= !taken_away;
        let other = send(other_arrives, other_lost, &mut there);
        for (a, b) in [(Some(one), Some(other)), (Some(one), None), (None, Some(other))] {
            for verdict in [judge(a, b), judge(b, a)] {
                match verdict {
                    Verdict::Created => assert_eq!(creations, 1, "{bits:06b}: {a:?} {b:?}"),
                    Verdict::Exists => assert_eq!(creations, 0, "{bits:06b}: {a:?} {b:?}"),
                    Verdict::Refused => panic!("{bits:06b}: nothing was refused"),
                    Verdict::Unknown | Verdict::Wait => {}
                }
            }
        }
    }
}

#[test]
fn what_both_say_is_decided_and_what_is_refused_had_no_effect() {
    for (one, other, verdict) in [
        (Created, Exists, Verdict::Created),
        (Created, Refused, Verdict::Created),
        (Exists, Exists, Verdict::Exists),
        (Exists, Refused, Verdict::Exists),
        (Refused, Refused, Verdict::Refused),
        (Created, Created, Verdict::Unknown),
        (Exists, Open, Verdict::Unknown),
        (Refused, Open, Verdict::Unknown),
        (Open, Open, Verdict::Unknown),
    ] {
        assert_eq!((judge(Some(one), Some(other)), judge(Some(other), Some(one))), (verdict, verdict));
    }
    assert_eq!(judge(Some(Exists), None), Verdict::Wait, "the other may have created it");
    assert_eq!(judge(Some(Created), None), Verdict::Unknown, "there is an object: nobody has to wait");
}
