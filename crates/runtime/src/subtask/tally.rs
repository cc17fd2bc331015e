//! Counts what the subtask does between two additions to its meter. Plain numbers: nothing here is per record but what others
//! count anyway.

use super::Subtask;
use crate::meter::{Meter, Portion};
use crate::packet::{Packet, Payload};
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// See the head of this file.
pub(super) struct Tally {
    meter: Arc<Meter>,
    /// What is not added yet.
    portion: Portion,
    /// Counters of others, as they stood when they were last added.
    taken: u64,
    sunk: u64,
    /// When the last step ended, and whether it left the subtask without credit.
    rests: Option<(Time, bool)>,
    /// When the credits were last looked at.
    looked: Option<Time>,
}

/// Between two looks at the credits of all channels.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

impl Tally {
    pub(super) fn new(meter: Arc<Meter>) -> Tally {
        Tally { meter, portion: Portion::default(), taken: 0, sunk: 0, rests: None, looked: None }
    }

    /// A packet came in.
    pub(super) fn received(&mut self, packet: &Packet) {
        if let Payload::Data { batch: Some(_), bytes, .. } = &packet.payload {
            self.portion.bytes_in += *bytes as u64;
        }
    }
}

impl Subtask {
    /// Adds a step to the meter: it began and ended at these moments and sent these packets.
    pub(super) fn count_step(&mut self, began: Time, ended: Time, sent: &[Packet]) {
        let micros = |from: Time, to: Time| u64::try_from(to.since(from).as_micros()).unwrap_or(u64::MAX);
        let (taken, sunk, without_credit) = (self.flow.taken.get(), self.records_out.get(), self.flow.without_credit());
        let tally = &mut self.tally;
        let mut portion = std::mem::take(&mut tally.portion);
        for packet in sent {
            if let Payload::Data { batch: Some(batch), bytes, .. } = &packet.payload {
                portion.records_out += batch.len() as u64;
                portion.bytes_out += *bytes as u64;
            }
        }
        portion.records_in = taken.saturating_sub(std::mem::replace(&mut tally.taken, taken));
        portion.records_out += sunk.saturating_sub(std::mem::replace(&mut tally.sunk, sunk));
        portion.busy = micros(began, ended);
        match tally.rests.replace((ended, without_credit > 0)) {
            Some((since, true)) => portion.backpressured = micros(since, began),
            Some((since, false)) => portion.idle = micros(since, began),
            None => {}
        }
        tally.meter.add(portion);
        if tally.looked.is_none_or(|looked| ended.since(looked) >= BETWEEN_LOOKS) {
            tally.looked = Some(ended);
            let least = self.outputs.iter().map(|(_, output)| output.borrow().least_credit()).min();
            tally.meter.credit(least.map(|least| i64::try_from(least).unwrap_or(i64::MAX)));
        }
        tally.meter.stand(without_credit, self.watermark.at.map(|at| at.0));
    }
}
