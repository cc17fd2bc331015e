//! The side outputs of an operator, as the job's closure draws them: each is there from the moment its stream is taken.

use crate::graph::Output;
use flott_runtime::error::Result;
use flott_runtime::operator::side::{SideOutput, Sides};
use flott_runtime::subtask::SubtaskBuilder;
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

type MakeSide = Arc<dyn Fn(&mut SubtaskBuilder, &mut Sides) -> Result<()> + Send + Sync>;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct SideOutputs(Mutex<Vec<SideDraft>>);

struct SideDraft {
    name: &'static str,
    /// The `Arc<Output<T>>` of its type.
    output: Box<dyn Any + Send>,
    make: MakeSide,
}

impl SideOutputs {
    /// The stream's consumers, the same ones each time; `None` if the name is taken by records of another type. The second
    /// value says whether it is new.
    pub(crate) fn take<T: Clone + Send + 'static>(&self, side: SideOutput<T>) -> Option<(Arc<Output<T>>, bool)> {
        let mut drafts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = drafts.iter().find(|draft| draft.name == side.name()) {
            return known.output.downcast_ref::<Arc<Output<T>>>().map(|output| (Arc::clone(output), false));
        }
        let output = Output::<T>::new();
        let consumers = Arc::clone(&output);
        let make: MakeSide = Arc::new(move |builder, sides| {
            let next = consumers.make(builder)?;
            sides.add(side, next);
            Ok(())
        });
        drafts.push(SideDraft { name: side.name(), output: Box::new(Arc::clone(&output)), make });
        Some((output, true))
    }

    /// Instantiates all of them in a subtask.
    pub(crate) fn make(&self, builder: &mut SubtaskBuilder) -> Result<Sides> {
        let makes: Vec<MakeSide> =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|draft| Arc::clone(&draft.make)).collect();
        let mut sides = Sides::default();
        makes.iter().try_for_each(|make| make(builder, &mut sides))?;
        Ok(sides)
    }
}
