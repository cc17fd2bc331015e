//! What leaves an output, and in which portions.

use super::{Output, OutputPort, OutputSite};
use crate::attempt::WorkerOptions;
use crate::error::Result;
use crate::operator::{Context, Flow, Quantum};
use crate::outbox::Outbox;
use crate::packet::Payload;
use crate::record::Record;
use crate::subtask::Partitioner;
use crate::testing::VirtualClock;
use flott_checkpoint::AttemptId;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

fn output<T: Record>(credit_window: usize) -> (Output<T>, Rc<Flow>) {
    let flow = Rc::new(Flow::default());
    let options = WorkerOptions { credit_window, ..WorkerOptions::default() };
    let site =
        OutputSite { edge: 0, from: 0, receivers: 0..1, attempt: AttemptId(1), workers: 1, key_groups: 8, options };
    (Output::new(site, Partitioner::Forward, Rc::clone(&flow)), flow)
}

/// Emits all records as if one had caused them, then ends the step; the batches that leave.
fn emitted<T: Record>(credit_window: usize, records: Vec<T>) -> Result<Vec<usize>> {
    let (mut output, flow) = output(credit_window);
    let (clock, mut outbox) = (VirtualClock::default(), Outbox::default());
    let quantum = Quantum { time: Duration::from_secs(1), records: u32::MAX };
    for record in records {
        output.emit(record, None, &mut Context::new(&flow, &clock, quantum, &mut outbox))?;
    }
    output.send_due(crate::time::Time(0), &mut outbox)?;
    let size = |payload: &Payload| match payload {
        Payload::Data { batch: Some(batch), .. } => batch.len(),
        _ => 0,
    };
    Ok(outbox.packets.iter().map(|packet| size(&packet.payload)).collect())
}

#[test]
fn what_one_record_causes_without_credit_leaves_in_whole_batches_at_the_end_of_the_step() {
    let sizes = emitted(1, (0..10_000u64).collect()).unwrap();
    assert_eq!(sizes.iter().sum::<usize>(), 10_000);
    assert!(sizes.len() <= 10, "{} packets: {sizes:?}", sizes.len());
}

#[test]
fn a_batch_that_waits_for_more_does_not_leave_while_there_is_credit() {
    assert!(emitted(1 << 20, vec![1u64, 2, 3]).unwrap().is_empty());
}

#[test]
fn a_map_has_no_order_and_survives_encoding_all_the_same() {
    let record: HashMap<String, u32> = (0..50).map(|number| (format!("key {number}"), number)).collect();
    assert!(emitted(1, vec![record]).is_ok());
}

#[derive(Clone, Serialize, Deserialize)]
struct Forgetful {
    kept: u32,
    #[serde(skip_deserializing)]
    lost: Option<u32>,
}

#[test]
fn a_record_that_does_not_survive_encoding_is_an_error_that_names_the_type() {
    let error = emitted(1, vec![Forgetful { kept: 1, lost: Some(70_000) }]).unwrap_err().to_string();
    assert!(error.contains("Forgetful") && error.contains("serde"), "{error}");
}

#[test]
fn what_was_in_flight_takes_its_part_of_the_window_until_the_receiver_returns_it() {
    let (mut output, flow) = output::<u64>(256);
    let is_open = || {
        flow.begin_step(crate::time::Time(0));
        flow.is_open()
    };
    output.take_credit(0, 300);
    assert!(!is_open(), "more was in flight than the window holds");
    output.on_credit(0, 44);
    assert!(!is_open());
    output.on_credit(0, 100);
    assert!(is_open());
    output.on_credit(0, 156);
    // All of it came back: the window is whole, and more would be more than was ever sent.
    output.take_credit(0, 255);
    assert!(is_open());
    output.take_credit(0, 1);
    assert!(!is_open());
}
