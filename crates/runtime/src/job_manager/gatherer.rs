//! Collection beside the running job (G1-G3).
use super::desk::Cx;
use super::running::{Note, Running};
use crate::io::{StorageReply, Ticket};
use flott_checkpoint::Claim;

#[derive(Default)]
pub(super) struct Gatherer {}
impl Gatherer {
    pub(super) fn note(&mut self, _n: &Note, _r: &Running) {}
    pub(super) fn owned(&mut self, _c: &Claim) {}
    pub(super) fn begin(&mut self, _r: &Running, _cx: &mut Cx<'_>) {}
    pub(super) fn on_storage(&mut self, _t: Ticket, _r: StorageReply, _cx: &mut Cx<'_>) {}
}
