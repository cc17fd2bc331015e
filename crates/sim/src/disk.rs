//! The faults of the file system under the file sink, and the death of a process in the middle of a call.

use flott_runtime::testing::Random;
use flott_runtime::testing::memory_files::{Fault, FileCall, MemoryFiles, Operation};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Decides what becomes of each call to the files. Clones share their mind.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<Mind>>);

struct Mind {
    active: bool,
    random: Random,
    per_thousand: u64,
    /// The process dies after so many more calls.
    dies_after: Option<u64>,
    /// The process dies before it unlinks what it has linked.
    dies_between: bool,
    linked: bool,
    dead: bool,
}

/// What happened during one blocking call.
#[derive(Clone, Copy, Debug, Default)]
pub struct During {
    /// Something was linked: it was a commit.
    pub linked: bool,
    /// The process died in it.
    pub died: bool,
}

impl Disk {
    /// Takes over the faults of a file system; a bad one fails all the time.
    #[must_use]
    pub fn of(files: &MemoryFiles, is_bad: bool, random: &mut Random) -> Disk {
        let per_thousand = if is_bad { 120 } else { random.below(15) };
        let mind = Mind {
            active: true,
            random: random.fork(),
            per_thousand,
            dies_after: None,
            dies_between: false,
            linked: false,
            dead: false,
        };
        let disk = Disk(Arc::new(Mutex::new(mind)));
        let hook = disk.clone();
        files.set_hook(Some(Box::new(move |call: &FileCall<'_>| hook.lock().fault(call))));
        disk
    }

    fn lock(&self) -> MutexGuard<'_, Mind> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.lock().active = false;
    }

    /// A blocking call begins; the process may die in it.
    pub fn begin(&self, dies_after: Option<u64>, dies_between: bool) {
        let mut mind = self.lock();
        mind.dies_after = dies_after;
        mind.dies_between = dies_between;
        mind.linked = false;
        mind.dead = false;
    }

    /// The call is over.
    pub fn end(&self) -> During {
        let mut mind = self.lock();
        let during = During { linked: mind.linked, died: mind.dead };
        (mind.dies_after, mind.dies_between, mind.dead) = (None, false, false);
        during
    }
}

impl Mind {
    fn fault(&mut self, call: &FileCall<'_>) -> Fault {
        if let Some(left) = &mut self.dies_after {
            self.dead |= *left == 0;
            *left = left.saturating_sub(1);
        }
        if self.dies_between && self.linked && call.operation == Operation::Remove {
            self.dead = true;
        }
        if self.dead {
            return Fault::Fail(ErrorKind::BrokenPipe);
        }
        let fault = self.draw(call.operation);
        self.linked |= call.operation == Operation::Link && fault == Fault::None;
        fault
    }

    fn draw(&mut self, operation: Operation) -> Fault {
        if !self.active || self.random.below(1_000) >= self.per_thousand {
            return Fault::None;
        }
        match self.random.below(3) {
            0 => Fault::Fail(ErrorKind::Other),
            1 => Fault::FailAfter(ErrorKind::Other),
            _ if operation == Operation::WriteAll => {
                Fault::Short(usize::try_from(self.random.below(64)).expect("a small number"))
            }
            _ if operation == Operation::ReadAt => {
                Fault::Short(usize::try_from(1 + self.random.below(64)).expect("a small number"))
            }
            _ => Fault::None,
        }
    }
}
