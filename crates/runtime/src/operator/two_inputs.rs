//! The head of a chain that begins with an operator of two inputs, which carry different types.
//!
//! Input 0 is the first, input 1 the second. Nothing is said about the order between them.

use super::{Chain, Context, Signal};
use crate::error::Result;
use crate::record::{AnyBatch, Batch, Record};
use crate::time::Timestamp;

/// An operator of two inputs and, behind it, the rest of the chain.
pub trait TwoInputs<A, B> {
    /// Takes one record of the first input.
    ///
    /// # Errors
    /// As [`super::Operator::on_record`].
    fn on_first(&mut self, record: A, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()>;

    /// Takes one record of the second input.
    ///
    /// # Errors
    /// As [`super::Operator::on_record`].
    fn on_second(&mut self, record: B, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()>;

    /// Takes a signal and hands it on.
    ///
    /// # Errors
    /// As [`super::Operator::on_signal`].
    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()>;
}

/// See the head of this file.
pub struct TwoHeads<A, B> {
    operator: Box<dyn TwoInputs<A, B>>,
    taken: [u64; 2],
}

impl<A: Record, B: Record> TwoHeads<A, B> {
    /// A head before the operator.
    #[must_use]
    pub fn new(operator: Box<dyn TwoInputs<A, B>>) -> TwoHeads<A, B> {
        TwoHeads { operator, taken: [0; 2] }
    }
}

/// Takes records until there are none or none may be taken.
fn drain<T: Record>(
    batch: &mut dyn AnyBatch,
    (input, taken): (u8, &mut u64),
    cx: &mut Context<'_>,
    mut on_record: impl FnMut(T, Option<Timestamp>, &mut Context<'_>) -> Result<()>,
) -> Result<()> {
    let batch =
        batch.as_any().downcast_mut::<Batch<T>>().expect("an edge carries one type, by construction of the plan");
    while !batch.is_empty() && cx.may_take() {
        let Some((record, at)) = batch.take() else { break };
        *taken += 1;
        on_record(record, at, cx).map_err(|error| error.at_position(format!("record {taken} of input {input}")))?;
    }
    Ok(())
}

impl<A: Record, B: Record> Chain for TwoHeads<A, B> {
    fn on_batch(&mut self, input: u8, batch: &mut dyn AnyBatch, cx: &mut Context<'_>) -> Result<()> {
        let TwoHeads { operator, taken: [first, second] } = self;
        if input == 0 {
            drain::<A>(batch, (input, first), cx, |record, at, cx| operator.on_first(record, at, cx))
        } else {
            drain::<B>(batch, (input, second), cx, |record, at, cx| operator.on_second(record, at, cx))
        }
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.operator.on_signal(signal, cx)
    }
}
