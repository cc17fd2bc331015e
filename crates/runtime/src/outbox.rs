//! What a worker wants done, collected during a step and served by the host after it.

use crate::control::Report;
use crate::io::{BlockingCall, StorageRequest, Ticket};
use crate::packet::Packet;

/// The effects of one step, by value. The host drains it: packets in the order of each channel, asks in any order but
/// `Append` and `Finish` of one blob in theirs.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Packets for other subtasks of this and other workers.
    pub packets: Vec<Packet>,
    /// Reports to the job manager.
    pub reports: Vec<Report>,
    /// Requests to the checkpoint storage.
    pub storage: Vec<(Ticket, StorageRequest)>,
    /// Calls that may block.
    pub calls: Vec<(Ticket, BlockingCall)>,
}
