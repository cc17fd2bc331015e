//! The suite that all hosts pass, on timely: with packets that move, and with packets that travel as bytes.

mod support;

use flott_runtime::testing::host_suite::{self, Threaded};

#[test]
fn moving_packets_it_is_a_host() {
    host_suite::every_host(&mut Threaded(support::host()));
}

#[test]
fn encoding_packets_it_is_a_host() {
    host_suite::every_host(&mut Threaded(support::host().with_encoded_packets()));
}

#[test]
fn panics_and_errors_of_user_code_end_the_attempt_alone() {
    host_suite::threads(&mut Threaded(support::host()));
}
