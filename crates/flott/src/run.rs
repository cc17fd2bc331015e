//! Running a frozen job: one tokio runtime, `flott-io`, that serves storage, blocking calls and the job manager, beside the
//! host's worker threads.
//!
//! `start` refuses what can be refused and returns; everything after that is the driver's. It works inside a caller's
//! tokio: nothing here blocks on a runtime.

#[cfg(feature = "testing")]
mod crash;
mod driver;
mod dry_run;
mod metrics;
mod outlook;
mod ports;
mod printer;
mod savepoint;
#[cfg(unix)]
mod server;
mod status;
mod store;
mod stores;
mod task;
mod teller;
#[cfg(feature = "testing")]
mod trouble;
mod watch;

pub(crate) use driver::{Listen, Listener, Quiet};
pub(crate) use dry_run::dry_run;
pub(crate) use outlook::Outlook;
pub(crate) use savepoint::Target;
#[cfg(unix)]
pub(crate) use server::serve;
pub(crate) use status::Shared;
pub use status::{CheckpointStatus, Ended, HotKey, Phase, Report, Status};
pub(crate) use store::Store;

use crate::graph::Frozen;
use crate::handle::{Commands, JobHandle};
use crate::settings::Settings;
use driver::Driver;
use dry_run::Foresight;
use flott_checkpoint::{Options, RestartOptions};
use flott_runtime::attempt::{WorkerOptions, World};
use flott_runtime::error::{Error, Result};
use flott_runtime::heartbeat::Heartbeats;
use flott_runtime::io::Files;
use flott_runtime::io::clock::SystemClock;
use flott_runtime::io::entropy::random_u64;
use flott_runtime::io::place_files::PlaceFiles;
use flott_runtime::io::threads::OsThreads;
use flott_runtime::job_manager::{Entropy, JobManager, JobSettings};
use flott_runtime::plan::Plan;
use metrics::{Exporter, Numbers};
use ports::Ports;
use printer::Printing;
use std::sync::Arc;
use std::time::Duration;
pub(crate) use task::{Task, blocking, task};
use teller::Teller;
use tokio::sync::mpsc;
use watch::Watch;

/// How long a stop may take if nobody says otherwise.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Threads of the I/O runtime, besides those for blocking calls.
const IO_THREADS: usize = 2;
/// Those are kept for as long as there is work for one of them now and then, so their number is that of the greatest rush.
/// Besides one for each worker, so that sinks that hang leave some for the storage.
const BLOCKING_THREADS: usize = 32;

/// Starts a job. Its outcome comes by the handle.
pub(crate) fn start(frozen: Frozen, settings: &Settings, listener: Listener) -> Result<JobHandle> {
    let plan = Arc::clone(&frozen.plan);
    let job = plan.job.clone();
    let manager_settings = manager_settings(settings, &plan)?;
    #[cfg_attr(not(feature = "testing"), expect(unused_mut, reason = "crash points watch it"))]
    let mut store = Store::open(settings.checkpoint_dir.as_deref(), &plan.job)?;
    #[cfg_attr(not(feature = "testing"), expect(unused_mut, reason = "crash points watch them"))]
    let mut files: Arc<dyn Files> = Arc::new(PlaceFiles::default());
    #[cfg(feature = "testing")]
    disturb(&mut files, &mut store)?;
    // Before anything runs: a port in use is a refusal.
    let exporter = settings.metrics.as_deref().map(Exporter::open).transpose()?;
    let stores = stores::of(settings, &plan.job)?;
    let clock = SystemClock::new();
    let heartbeats = Heartbeats::default();
    let (printer, printing) = Printing::start(settings.json.unwrap_or(false))?;
    let teller = Teller::start(listener)?;
    let closes_stores = stores.is_some();
    let foresight = Some(Foresight::new(&frozen, &files, &manager_settings));
    let world = World { files, threads: Arc::new(OsThreads), stdout: printer, heartbeats: heartbeats.clone(), stores };
    let entropy = entropy()?;
    let workers = manager_settings.workers.unwrap_or(manager_settings.default_workers);
    let counted = Arc::clone(&plan);
    let outlook = Outlook::new(Arc::clone(&plan), &manager_settings);
    let manager = JobManager::new(manager_settings, plan, world, entropy);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(IO_THREADS)
        .max_blocking_threads(BLOCKING_THREADS + usize::from(workers))
        .thread_name("flott-io")
        .enable_all()
        .build()
        .map_err(|error| Error::failed(format!("cannot start the I/O threads: {error}")))?;
    let (events, inbox) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared::new(frozen.skipped, frozen.dead_letters, outlook));
    shared.watch(heartbeats.clone());
    let numbers = Numbers { plan: counted, heartbeats: heartbeats.clone(), shared: Arc::clone(&shared), clock };
    let metrics = exporter.map(|exporter| exporter.serve(runtime.handle(), numbers)).transpose()?;
    let patience = settings.stop_timeout.unwrap_or(STOP_TIMEOUT);
    let restore_from = settings.restore_from.clone().map(|path| (path, settings.claim.unwrap_or(false)));
    let (beside, io) = (store.clone(), runtime.handle().clone());
    let driver = Driver {
        restore_from,
        foresight,
        job,
        manager,
        inbox,
        host: flott_timely::TimelyHost::new(Arc::new(clock)),
        ports: Ports::new(events.clone(), store.clone(), runtime.handle().clone()),
        store,
        clock,
        running: None,
        attempt: tracing::Span::none(),
        wake_at: None,
        watch: Watch::new(patience),
        heartbeats,
        shared: Arc::clone(&shared),
        printing,
        teller,
        patience,
        closes_stores,
    };
    runtime.spawn(task(driver.drive()));
    let commands = Commands::new(events, shared, beside, io);
    Ok(JobHandle::new(runtime, commands, metrics))
}

/// What a test wants to go wrong.
#[cfg(feature = "testing")]
fn disturb(files: &mut Arc<dyn Files>, store: &mut Store) -> Result<()> {
    if let Some(crash) = crash::Crash::from_environment()? {
        *files = crash.watch(Arc::clone(files));
        store.watch(crash);
    }
    if let Some(trouble) = trouble::from_environment()? {
        store.trouble(trouble);
    }
    Ok(())
}

/// What the job manager has to know, after everything was checked that can be.
pub(crate) fn manager_settings(settings: &Settings, plan: &Plan) -> Result<JobSettings> {
    let errors = settings.errors();
    if !errors.is_empty() {
        return Err(Error::refused(errors.join("; ")));
    }
    let (defaults, worker) = (Options::default(), WorkerOptions::default());
    let manager = JobSettings {
        checkpoints: settings.checkpoint_dir.is_some(),
        workers: settings.workers,
        default_workers: cores(),
        restore: settings.restore.clone().unwrap_or(flott_checkpoint::Restore::Latest),
        require: settings.require,
        no_fallback: settings.no_fallback.unwrap_or(false),
        allow_duplicates: settings.allow_duplicates.unwrap_or(false),
        allow_unclaimed_state: settings.allow_unclaimed_state.unwrap_or(false),
        overwrite: settings.overwrite.unwrap_or(false),
        coordinator: Options {
            mode: settings.checkpoint_mode.unwrap_or(defaults.mode),
            interval: settings.checkpoint_interval.or(defaults.interval),
            ..defaults
        },
        worker: WorkerOptions {
            credit_window: settings.credit_window.unwrap_or(worker.credit_window),
            hot_keys: settings.hot_keys.unwrap_or(worker.hot_keys),
            alignment_timeout: settings.alignment_timeout.unwrap_or(worker.alignment_timeout),
            ..worker
        },
        restart: restart_options(settings),
        ..JobSettings::default()
    };
    manager.validate(plan)?;
    Ok(manager)
}

fn restart_options(settings: &Settings) -> RestartOptions {
    let defaults = RestartOptions::default();
    let longest = settings.longest_restart_delay.unwrap_or(defaults.longest);
    RestartOptions { first: defaults.first.min(longest), longest, ..defaults }
}

fn cores() -> u16 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(cores).unwrap_or(u16::MAX).min(crate::settings::MOST_WORKERS)
}

/// Random numbers of the operating system; asked once now, because later nobody could be told that there are none.
fn entropy() -> Result<Entropy> {
    random_u64()?;
    Ok(Box::new(|| random_u64().expect("the operating system gave random numbers when the job started")))
}
