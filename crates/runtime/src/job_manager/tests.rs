//! The job manager against scripted workers and an in-memory storage that loses answers, fails and waits. Each test states a
//! promise; what is random is seeded, and a failing seed is named.

mod checkpoints;
mod collecting;
mod ending;
mod failures;
mod locating;
mod lost_mail;
mod restore;
mod rig;
mod savepoints;
mod shapes;
mod store;
mod two_processes;
