//! Jobs whose tally is user code: the production operators of the users' library, with maps, lists, expiry, timers, side
//! outputs, two inputs, and parts folded before the shuffle. What comes out is what a plain tally gives.

use super::operators::{Count, KeyedRow, by_key_and_origin};
use super::{Job, Row, Tally};
use flott_runtime::error::Result;
use flott_runtime::key::Key;
use flott_runtime::operator::pre_aggregate::PreAggregate;
use flott_runtime::operator::process::{
    Aggregating, AggregatingRef, BoxError, BroadcastProcess, Core, ExpiringRef, ExpiringValue, Firing, List,
    ListProcess, ListRef, Map, MapRef, Out, Process, SplitList, State, TimedProcess, TimerOut, TwoProcess, Value,
    ValueRef,
};
use flott_runtime::operator::side::{SideOutput, Sides};
use flott_runtime::operator::two_inputs::TwoHeads;
use flott_runtime::operator::{Chain, Context, Head, Next, Operator, Signal};
use flott_runtime::record::Keyed;
use flott_runtime::subtask::SubtaskBuilder;
use flott_runtime::time::{Time, Timestamp};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

type StreamKey = (u64, u32);

/// Says what a closure's references live for.
fn user<K: Key, S: State, F>(f: F) -> Arc<F>
where
    F: for<'a> Fn(S::At<'a, K>, Row, &mut Out<'_, K, Row>) -> Result<(), BoxError>,
{
    Arc::new(f)
}

fn core<K: Key, S: State>(state: &S, builder: &mut SubtaskBuilder, next: Next<Row>) -> Result<Core<K, Row, S>> {
    let opened = state.open::<K>("tally", builder)?;
    Ok(Core::new("tally", opened, Sides::default(), builder.mark("tally"), next))
}

/// The tallies of a key in one map, by origin.
pub fn maps(job: &Arc<Job>, builder: &mut SubtaskBuilder, next: Next<Row>) -> Result<Box<dyn Chain>> {
    let core = core(&Map::<u32, Tally>::named("tally"), builder, next)?;
    let job = Arc::clone(job);
    let f = user::<u64, Map<u32, Tally>, _>(move |mut tallies: MapRef<'_, u64, u32, Tally>, row, out| {
        let (after, row) = job.tally(tallies.get(&row.origin), &row);
        match after {
            Some(tally) => tallies.insert(row.origin, tally),
            None => drop(tallies.remove(&row.origin)),
        }
        out.emit(row);
        Ok(())
    });
    let process: Next<KeyedRow<u64>> = Box::new(Process::new(core, f));
    Ok(Box::new(Head::new(process)))
}

/// The serial numbers of the rows of a key, from which the tally follows. Every other row leaves by a side output.
pub fn lists(job: &Arc<Job>, builder: &mut SubtaskBuilder, next: Next<Row>) -> Result<Box<dyn Chain>> {
    let next = Rc::new(RefCell::new(next));
    let mut sides = Sides::default();
    sides.add(ODD, Box::new(Door { to: Rc::clone(&next), is_side: true }));
    let opened = List::<u64>::named("tally").open::<StreamKey>("tally", builder)?;
    let main = Box::new(Door { to: next, is_side: false });
    let core = Core::<StreamKey, Row, List<u64>>::new("tally", opened, sides, builder.mark("tally"), main);
    let job = Arc::clone(job);
    let f = user::<StreamKey, List<u64>, _>(move |mut serials: ListRef<'_, StreamKey, u64>, row, out| {
        let before = serials.read(|serials| tally_of(&job, &row, serials.iter().copied()));
        let (after, row) = job.tally(before, &row);
        match after {
            Some(_) => serials.push(row.serial),
            None => serials.clear(),
        }
        if row.serial % 2 == 1 {
            out.emit_to(ODD, row)
        } else {
            out.emit(row)
        }
        Ok(())
    });
    let process: Next<KeyedRow<StreamKey>> = Box::new(Process::new(core, f));
    Ok(Box::new(Head::new(process)))
}

const ODD: SideOutput<Row> = SideOutput::named("odd");

/// One of two ways into the same rest of a chain; signals go one of them.
struct Door {
    to: Rc<RefCell<Next<Row>>>,
    is_side: bool,
}

/// Two ways into the same rest of a chain; signals go the first.
pub fn doors(next: Next<Row>) -> (Next<Row>, Next<Row>) {
    let to = Rc::new(RefCell::new(next));
    let door = |is_side| Box::new(Door { to: Rc::clone(&to), is_side }) as Next<Row>;
    (door(false), door(true))
}

impl Operator<Row> for Door {
    fn on_record(&mut self, row: Row, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        self.to.borrow_mut().on_record(row, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        if self.is_side { Ok(()) } else { self.to.borrow_mut().on_signal(signal, cx) }
    }
}

/// The tally of the rows of one key and origin with these serial numbers.
pub fn tally_of(job: &Job, like: &Row, serials: impl Iterator<Item = u64>) -> Option<Tally> {
    let row = |serial| Row { serial, count: 0, chain: 0, ..like.clone() };
    serials.fold(None, |before, serial| job.tally(before, &row(serial)).0)
}

/// A tally that expires. Rows pass as they are: when it expires depends on time.
pub fn expiring(job: &Arc<Job>, builder: &mut SubtaskBuilder, next: Next<Row>) -> Result<Box<dyn Chain>> {
    let core = core(&Value::<Tally>::named("tally").ttl(job.timer), builder, next)?;
    let job = Arc::clone(job);
    let f =
        user::<StreamKey, ExpiringValue<Tally>, _>(move |mut tally: ExpiringRef<'_, StreamKey, Tally>, row, out| {
            match job.tally(tally.get().cloned(), &row).0 {
                Some(after) => tally.set(after),
                None => tally.clear(),
            }
            out.emit(row);
            Ok(())
        });
    let process: Next<KeyedRow<StreamKey>> = Box::new(Process::new(core, f));
    Ok(Box::new(Head::new(process)))
}

/// A tally that is an aggregate.
pub fn folds(job: &Arc<Job>, builder: &mut SubtaskBuilder, next: Next<Row>) -> Result<Box<dyn Chain>> {
    let of = Arc::clone(job);
    let add = move |tally: &mut Tally, row: Row| {
        *tally = of.tally(Some(std::mem::take(tally)), &row).0.unwrap_or_default();
    };
    let state = Aggregating::<Row, Tally, Tally>::named("tally", Tally::default, add, Tally::clone);
    let core = core(&state, builder, next)?;
    let job = Arc::clone(job);
    let f = user::<StreamKey, Aggregating<Row, Tally, Tally>, _>(
        move |mut tally: AggregatingRef<'_, StreamKey, Row, Tally, Tally>, row, out| {
            if job.deletes(&row) {
                tally.clear()
            } else {
                tally.add(row.clone())
            }
            let Tally { count, chain } = tally.get().unwrap_or_default();
            out.emit(Row { count, chain, ..row });
            Ok(())
        },
    );
    let process: Next<KeyedRow<StreamKey>> = Box::new(Process::new(core, f));
    Ok(Box::new(Head::new(process)))
}

/// So many rows wait in a worker's list at most.
const WAITING: usize = 7;

/// Rows wait in the list of the worker that read them.
pub fn wait(builder: &mut SubtaskBuilder, next: Next<Row>) -> Result<Next<Row>> {
    let list = SplitList::<Row>::named("waiting").open("wait", builder)?;
    let on_record = Arc::new(waiting(|mut waiting: ListRef<'_, u64, Row>, row: Row, out: &mut Out<'_, (), Row>| {
        waiting.push(row);
        if waiting.len() == WAITING {
            waiting.take().into_iter().for_each(|row| out.emit(row));
        }
        Ok(())
    }));
    let on_end = Arc::new(ending(|waiting: ListRef<'_, u64, Row>, out: &mut Out<'_, (), Row>| {
        waiting.to_vec().into_iter().for_each(|row| out.emit(row));
        Ok(())
    }));
    let mark = builder.mark("wait");
    Ok(Box::new(ListProcess::new("wait", list, (on_record, on_end), mark, (Sides::default(), next))))
}

/// Says what a closure's references live for.
fn waiting<F: for<'a> Fn(ListRef<'a, u64, Row>, Row, &mut Out<'_, (), Row>) -> Result<(), BoxError>>(f: F) -> F {
    f
}

/// The same, for the end.
fn ending<F: for<'a> Fn(ListRef<'a, u64, Row>, &mut Out<'_, (), Row>) -> Result<(), BoxError>>(f: F) -> F {
    f
}

/// Two inputs, one tally.
pub fn two_inputs(job: &Arc<Job>, builder: &mut SubtaskBuilder, next: Next<Row>) -> Result<Box<dyn Chain>> {
    let core = core(&Value::<Tally>::named("tally"), builder, next)?;
    let either = |job: Arc<Job>| {
        user::<StreamKey, Value<Tally>, _>(move |mut tally: ValueRef<'_, StreamKey, Tally>, row, out| {
            let (after, row) = job.tally(tally.get().cloned(), &row);
            match after {
                Some(after) => tally.set(after),
                None => tally.clear(),
            }
            out.emit(row);
            Ok(())
        })
    };
    let process = TwoProcess::new(core, either(Arc::clone(job)), either(Arc::clone(job)));
    Ok(Box::new(TwoHeads::<KeyedRow<StreamKey>, KeyedRow<StreamKey>>::new(Box::new(process))))
}

/// Rows of the first input are tallied by key; those of the second by every subtask, in its copy.
pub fn rules(job: &Arc<Job>, builder: &mut SubtaskBuilder, next: Next<Row>) -> Result<Box<dyn Chain>> {
    let core = core(&Value::<Tally>::named("tally"), builder, next)?;
    let copy = Map::<StreamKey, Tally>::named("rules").open_copy("tally", builder)?;
    let by_key = Arc::clone(job);
    let on_record = look(move |mut tally, rules, row, out| {
        // What the copy knows at this moment is no matter of the input alone: it is only looked at.
        let _ = rules.get(&by_key_and_origin(&row));
        let (after, row) = by_key.tally(tally.get().cloned(), &row);
        match after {
            Some(after) => tally.set(after),
            None => tally.clear(),
        }
        out.emit(row);
        Ok(())
    });
    let everywhere = Arc::clone(job);
    let on_rule = move |rules: &mut MapRef<'_, u64, StreamKey, Tally>, row: Row| {
        let key = by_key_and_origin(&row);
        match everywhere.tally(rules.get(&key), &row).0 {
            Some(after) => rules.insert(key, after),
            None => drop(rules.remove(&key)),
        }
        Ok(())
    };
    let mark = builder.mark("tally");
    let process = BroadcastProcess::new(core, copy, mark, on_record, Arc::new(on_rule));
    Ok(Box::new(TwoHeads::<KeyedRow<StreamKey>, Row>::new(Box::new(process))))
}

/// As `user`, for code that sees a copy beside its state.
fn look<F>(f: F) -> Arc<F>
where
    F: for<'a> Fn(
        ValueRef<'a, StreamKey, Tally>,
        &MapRef<'_, u64, StreamKey, Tally>,
        Row,
        &mut Out<'_, StreamKey, Row>,
    ) -> Result<(), BoxError>,
{
    Arc::new(f)
}

/// Holds every row back until its timer fires, or until the input ends.
pub fn delay(job: &Arc<Job>, builder: &mut SubtaskBuilder, next: Next<Row>) -> Result<Box<dyn Chain>> {
    let waiting = Value::<Row>::named("waiting").open::<StreamKey>("delay", builder)?;
    let core = Core::<StreamKey, Row, Value<Row>>::new("delay", waiting, Sides::default(), builder.mark("delay"), next);
    let millis = job.timer;
    let on_row = user_with_timers(move |mut waiting: ValueRef<'_, StreamKey, Row>, row: Row, out| {
        waiting.set(row);
        out.timer_after(millis);
        Ok(())
    });
    let on_timer = user_with_timers(|mut waiting: ValueRef<'_, StreamKey, Row>, _: Time, out| {
        if let Some(row) = waiting.get().cloned() {
            out.emit(row);
        }
        waiting.clear();
        Ok(())
    });
    let firing = Firing::new(builder.timers("delay", "timers")?, on_timer);
    let process: Next<KeyedRow<StreamKey>> = Box::new(TimedProcess::new(core, firing, on_row));
    Ok(Box::new(Head::new(process)))
}

/// As `user`, for code that sets timers.
fn user_with_timers<T, F>(f: F) -> Arc<F>
where
    F: for<'a> Fn(ValueRef<'a, StreamKey, Row>, T, &mut TimerOut<'_, StreamKey, Row>) -> Result<(), BoxError>,
{
    Arc::new(f)
}

/// Rows of a key that travel together.
pub type Rows = Keyed<StreamKey, Vec<Row>>;

/// Gathers the rows of each key before the shuffle.
pub fn gather(builder: &mut SubtaskBuilder, outlet: Next<Rows>) -> Next<KeyedRow<StreamKey>> {
    let (begin, add) = (Arc::new(|row| vec![row]), Arc::new(|rows: &mut Vec<Row>, row| rows.push(row)));
    let alarm = builder.alarm();
    Box::new(PreAggregate::new(begin, add, alarm, builder.mark("gather"), outlet))
}

/// Tallies rows that came together.
pub struct Unpack(pub Count<StreamKey>);

impl Operator<Rows> for Unpack {
    fn on_record(&mut self, record: Rows, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        let Keyed { hash, key, value } = record;
        value.into_iter().try_for_each(|value| self.0.on_record(Keyed { hash, key, value }, at, cx))
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.0.on_signal(signal, cx)
    }
}
