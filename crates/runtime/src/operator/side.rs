//! Side outputs: records of other types that an operator gives out beside its stream.
//!
//! A [`SideOutput`] is only a name with a type. Which of them an operator has is said by whoever takes their streams, so a
//! record for one that nobody took is an error and never silently dropped.

use super::{Context, Next, Signal};
use crate::error::{Error, Result};
use crate::time::Timestamp;
use std::any::Any;
use std::marker::PhantomData;

/// Names an output beside an operator's stream. It is a plain name: make it a constant, or copy it into closures.
pub struct SideOutput<T> {
    name: &'static str,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for SideOutput<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SideOutput<T> {}

impl<T> SideOutput<T> {
    /// A side output with a name, unique in its operator. Two operators may use the same.
    #[must_use]
    pub const fn named(name: &'static str) -> SideOutput<T> {
        SideOutput { name, of: PhantomData }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// The side outputs of one operator in one subtask.
#[derive(Default)]
pub struct Sides {
    ports: Vec<Box<dyn SidePort>>,
    /// The first record that had nowhere to go.
    failed: Option<Error>,
}

impl Sides {
    /// Adds the consumer of a side output.
    pub fn add<T: 'static>(&mut self, side: SideOutput<T>, next: Next<T>) {
        self.ports.push(Box::new(Port { name: side.name, emitted: Vec::new(), next }));
    }

    pub(super) fn emit<T: 'static>(&mut self, side: SideOutput<T>, record: T) {
        let port = self.ports.iter_mut().find(|port| port.name() == side.name);
        match port.and_then(|port| port.as_any().downcast_mut::<Port<T>>()) {
            Some(port) => port.emitted.push(record),
            None => {
                let text = format!("a record was emitted to the side output `{}`, which leads nowhere", side.name);
                let hint =
                    format!("take its stream right behind the operator: `.side(SideOutput::named({:?}))`", side.name);
                self.failed.get_or_insert(Error::failed(text).hint(hint));
            }
        }
    }

    /// Gives out what was emitted; the error of a record that had nowhere to go.
    #[inline]
    pub(super) fn hand_on(&mut self, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.ports.iter_mut().try_for_each(|port| port.hand_on(at, cx))
    }

    pub(super) fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.ports.iter_mut().try_for_each(|port| port.on_signal(signal, cx))
    }
}

trait SidePort {
    fn name(&self) -> &'static str;
    fn as_any(&mut self) -> &mut dyn Any;
    fn hand_on(&mut self, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()>;
    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()>;
}

struct Port<T> {
    name: &'static str,
    emitted: Vec<T>,
    next: Next<T>,
}

impl<T: 'static> SidePort for Port<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn hand_on(&mut self, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        self.emitted.drain(..).try_for_each(|record| self.next.on_record(record, at, cx))
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}
