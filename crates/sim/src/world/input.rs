//! The files that a job reads, if it reads files: put there before it begins, or one after the other while it runs.

use super::World;
use crate::happening::Happening;
use crate::jobs::Input;
use crate::jobs::input::{content, path};
use crate::setup::BEGIN;
use std::sync::atomic::Ordering;

impl World {
    /// The files that the job reads: all at once, or one after the other.
    pub(super) fn plan_input(&mut self) {
        let job = self.setup.job.clone();
        let Input::Files { watched, .. } = job.input else { return };
        let mut moment = BEGIN;
        for origin in job.sources().flat_map(|source| job.origins(source)) {
            // A watched directory has to be there, and is by its first file.
            if watched.is_none() || origin % 1_000 == 0 {
                self.put_file(origin);
                continue;
            }
            moment = moment.after(watched.unwrap_or_default());
            self.agenda.at(moment, Happening::FileComes(origin));
        }
        self.is_all_there();
    }

    /// The file of a split comes, whole.
    pub(super) fn put_file(&mut self, origin: u32) {
        self.files.put(path(&self.setup.job, origin), content(&self.setup.job, origin));
        self.is_all_there();
    }

    fn is_all_there(&self) {
        let coming = self.agenda.has(|happening| matches!(happening, Happening::FileComes(_)));
        self.setup.job.all_there.store(!coming, Ordering::Relaxed);
    }
}
