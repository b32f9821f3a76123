//! Asks databases, directories and brokers for the engines: [`kallisto_engine::far_end`] is the contract.
//!
//! One thread with a runtime of its own does all of it, so that no far end is spoken with on a worker, on the scheduler or where the log is
//! applied. It is started with the first call.
//!
//! ```text
//! lib        the thread, the table of far ends, the way of a call
//! slot       a far end: its queue, its idle sessions, its counts
//! breaker    when a far end that failed is asked again
//! connect    names to addresses, the rule of addresses, connections
//! bounded    how much of an answer is read, where the driver of a protocol sets no limit
//! tls        what is believed, and what is shown
//! driver     a protocol: opening a session, and what is done over it
//! postgres, mysql, redis, ldap, http
//! ```
//!
//! Invariants:
//! - No more than `CALLS_MAX` calls are under way, and no more than `WAITING_MAX` of one far end.
//! - A far end has at most `FarEndPool::open_max` sessions, those that are just closed aside.
//! - A session over which a call failed in a way that leaves its state unknown is closed.
//! - A call that waited is not begun once nobody waits for its answer.
#![forbid(unsafe_code)]

mod bounded;
mod breaker;
mod connect;
mod driver;
mod http;
mod ldap;
mod mysql;
mod postgres;
mod redis;
mod slot;
pub mod tls;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kallisto_engine::far_end::{
    CALL_SECS_MAX, FarEndProgress, FarEndStatus, SessionUse, without_secrets,
};
use kallisto_engine::{BoxFuture, FarEndCall, FarEndFailure, FarEndOutcome, FarEndWork, FarEnds};
use secrecy::SecretString;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use slot::{FarEndSlot, Leased};

/// Most calls at once, of all far ends.
const CALLS_MAX: usize = 4096;
/// Most calls of one far end that wait or are under way.
const WAITING_MAX: usize = 512;
/// Most far ends that are remembered; past it those with no session and no call are forgotten.
const FAR_ENDS_MAX: usize = 4096;
/// Most calls that were begun and whose outcomes were not taken.
const BEGUN_MAX: usize = 1024;
/// Threads that resolve names.
const RESOLVERS_MAX: usize = 16;
/// Longest that a look whether a far end is there takes, in seconds.
const CHECK_SECS: u64 = 10;
/// Longest that somebody is let wait without being asked for again.
const PAUSE_MAX: Duration = Duration::from_secs(CALL_SECS_MAX);
/// Most that wait so at once.
const PAUSES_MAX: usize = 256;
/// How often idle sessions are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(15);

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz {
    //! The body of the fuzz target: what a directory sends, as any bytes.
    pub use crate::ldap::read_hostile as ldap;
}

type SlotTable = Arc<Mutex<BTreeMap<(String, String), Arc<FarEndSlot>>>>;

/// A call on its way to the thread.
struct Errand {
    call: FarEndCall,
    slot: Arc<FarEndSlot>,
    answer: oneshot::Sender<FarEndOutcome>,
}

/// What the thread is sent.
enum Wanted {
    Call(Box<Errand>),
    /// Somebody is woken after a while.
    Pause(Duration, oneshot::Sender<()>),
}

/// Asks far ends.
#[derive(Default)]
pub struct FarEndRunner {
    slots: SlotTable,
    /// To the thread; `None` if there is none to be had.
    thread: OnceLock<Option<mpsc::Sender<Wanted>>>,
    /// The calls that were begun, by their ids.
    begun: Mutex<BTreeMap<String, oneshot::Receiver<FarEndOutcome>>>,
    pauses: Pauses,
}

/// Places of those who wait for a while.
struct Pauses(Semaphore);

impl Default for Pauses {
    fn default() -> Self {
        Self(Semaphore::new(PAUSES_MAX))
    }
}

impl FarEndRunner {
    /// The thread, which is started if it is not there.
    fn thread(&self) -> Option<&mpsc::Sender<Wanted>> {
        let start = || {
            let (sender, errands) = mpsc::channel(CALLS_MAX);
            let slots = Arc::clone(&self.slots);
            let run = move || {
                let runtime = Builder::new_current_thread()
                    .enable_io()
                    .enable_time()
                    .max_blocking_threads(RESOLVERS_MAX)
                    .build();
                match runtime {
                    Ok(runtime) => runtime.block_on(work(errands, slots)),
                    Err(error) => tracing::error!(%error, "no runtime for far ends: none is asked"),
                }
            };
            match std::thread::Builder::new().name("outbound".into()).spawn(run) {
                Ok(_) => Some(sender),
                Err(error) => {
                    tracing::error!(%error, "no thread for far ends: none is asked");
                    None
                }
            }
        };
        self.thread.get_or_init(start).as_ref()
    }

    /// The slot of a call's far end, anew where its settings have changed.
    fn slot(&self, call: &FarEndCall) -> Arc<FarEndSlot> {
        let mut slots = lock(&self.slots);
        let key = (call.far_end.mount.clone(), call.far_end.name.clone());
        if let Some(slot) = slots.get(&key)
            && slot.revision == call.far_end.revision
        {
            return Arc::clone(slot);
        }
        if slots.len() >= FAR_ENDS_MAX {
            slots.retain(|_, slot| !slot.is_unused());
        }
        let slot = match slots.get(&key) {
            Some(before) => FarEndSlot::after(before, &call.far_end),
            None => FarEndSlot::new(&call.far_end),
        };
        let slot = Arc::new(slot);
        if let Some(before) = slots.insert(key, Arc::clone(&slot)) {
            before.close();
        }
        slot
    }
}

impl FarEnds for FarEndRunner {
    fn ask(&self, call: FarEndCall) -> BoxFuture<'_, FarEndOutcome> {
        Box::pin(async move {
            let no_thread = || FarEndFailure::Unreachable("no thread asks far ends".into());
            let thread = self.thread().ok_or_else(no_thread)?;
            let slot = self.slot(&call);
            let _place = slot.enter(WAITING_MAX).ok_or(FarEndFailure::Busy)?;
            let (answer, answered) = oneshot::channel();
            let errand = Errand { call, slot: Arc::clone(&slot), answer };
            thread.try_send(Wanted::Call(Box::new(errand))).map_err(|_| FarEndFailure::Busy)?;
            answered.await.map_err(|_| no_thread())?
        })
    }

    fn begin(&self, id: &str, call: FarEndCall) -> bool {
        let Some(thread) = self.thread() else { return false };
        let mut begun = lock(&self.begun);
        if begun.contains_key(id) {
            return true;
        }
        if begun.len() >= BEGUN_MAX {
            // Nobody came back for them.
            begun.retain(|_, outcome| outcome.is_empty());
        }
        let (answer, answered) = oneshot::channel();
        let errand = Errand { slot: self.slot(&call), call, answer };
        let is_sent =
            begun.len() < BEGUN_MAX && thread.try_send(Wanted::Call(Box::new(errand))).is_ok();
        if is_sent {
            begun.insert(id.to_owned(), answered);
        }
        is_sent
    }

    fn take(&self, id: &str) -> FarEndProgress {
        let mut begun = lock(&self.begun);
        let Some(answered) = begun.get_mut(id) else { return FarEndProgress::Unknown };
        match answered.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => FarEndProgress::UnderWay,
            outcome => {
                begun.remove(id);
                outcome.map_or(FarEndProgress::Unknown, FarEndProgress::Ended)
            }
        }
    }

    fn close(&self, mount: &str, name: Option<&str>) {
        let mut slots = lock(&self.slots);
        slots.retain(|key, slot| {
            let is_meant = key.0 == mount && name.is_none_or(|name| key.1 == name);
            if is_meant {
                slot.close();
            }
            !is_meant
        });
    }

    fn check(&self, mount: &str, name: &str) -> BoxFuture<'_, Result<(), FarEndFailure>> {
        let key = (mount.to_owned(), name.to_owned());
        let far_end = lock(&self.slots).get(&key).map(|slot| slot.far_end.clone());
        Box::pin(async move {
            let never = || FarEndFailure::Unreachable("it was never asked".into());
            let call = FarEndCall {
                far_end: far_end.ok_or_else(never)?,
                work: FarEndWork::Check,
                session: SessionUse::Fresh,
                deadline_secs: CHECK_SECS,
                secrets: Vec::new(),
            };
            self.ask(call).await.map(|_| ())
        })
    }

    fn statuses(&self) -> Vec<FarEndStatus> {
        let slots = lock(&self.slots);
        slots.iter().map(|((mount, name), slot)| slot.status(mount, name)).collect()
    }

    fn pause(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let (Some(thread), Ok(_place)) = (self.thread(), self.pauses.0.try_acquire()) else {
                return;
            };
            let (over, is_over) = oneshot::channel();
            if thread.try_send(Wanted::Pause(time, over)).is_ok() {
                // An error is a thread that has ended, for which nobody waits.
                let _ = is_over.await;
            }
        })
    }
}

impl std::fmt::Debug for FarEndRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FarEndRunner")
    }
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread does: each call is a task, and idle sessions are looked at from time to time.
async fn work(mut errands: mpsc::Receiver<Wanted>, slots: SlotTable) {
    let mut sweep = tokio::time::interval(SWEEP_EVERY);
    loop {
        tokio::select! {
            errand = errands.recv() => match errand {
                Some(Wanted::Call(errand)) => drop(tokio::spawn(run(*errand))),
                Some(Wanted::Pause(time, over)) => drop(tokio::spawn(wake_after(time, over))),
                None => return,
            },
            _ = sweep.tick() => {
                let all: Vec<Arc<FarEndSlot>> = lock(&slots).values().cloned().collect();
                for slot in all {
                    slot.sweep();
                }
            }
        }
    }
}

/// Wakes who waits, unless they are gone.
async fn wake_after(time: Duration, mut over: oneshot::Sender<()>) {
    tokio::select! {
        () = tokio::time::sleep(time.min(PAUSE_MAX)) => drop(over.send(())),
        () = over.closed() => {}
    }
}

async fn run(errand: Errand) {
    let Errand { call, slot, mut answer } = errand;
    let begun = Instant::now();
    let deadline = begun + Duration::from_secs(call.deadline_secs.clamp(1, CALL_SECS_MAX));
    let leased = tokio::select! {
        leased = lease(&call, &slot, deadline) => leased,
        () = answer.closed() => return,
    };
    let outcome = match leased {
        Ok(leased) => ask(&call, &slot, leased, deadline).await,
        Err(failure) => Err(failure),
    };
    let outcome = outcome.map_err(|failure| {
        let mut secrets: Vec<&SecretString> = call.secrets.iter().collect();
        secrets.push(call.far_end.protocol.secret());
        failure.map(|words| without_secrets(words, &secrets))
    });
    slot.count(begun.elapsed(), &outcome);
    // Whoever asked may have gone.
    let _ = answer.send(outcome);
}

/// A session: one that is idle, or a new one.
async fn lease(
    call: &FarEndCall,
    slot: &Arc<FarEndSlot>,
    deadline: Instant,
) -> Result<Leased, FarEndFailure> {
    let is_pooled = call.session == SessionUse::Pooled;
    if is_pooled {
        slot.breaker().admit(Instant::now())?;
    }
    let permit = timeout_at(deadline, Arc::clone(&slot.permits).acquire_owned()).await;
    let Ok(Ok(permit)) = permit else { return Err(FarEndFailure::Busy) };
    // Those that waited for one that hangs need not find out by themselves.
    if is_pooled {
        slot.breaker().admit(Instant::now())?;
        while let Some(mut session) = slot.take_idle() {
            let is_there = timeout_at(deadline, session.check()).await;
            if is_there == Ok(true) {
                return Ok(Leased { session, permit, is_reused: true });
            }
        }
    }
    // Logins cost this thread work (SCRAM hashes thousands of times): those of others do not count as the far end's silence.
    let gate = timeout_at(deadline, Arc::clone(&slot.logins).acquire_owned()).await;
    let Ok(Ok(_login)) = gate else { return Err(FarEndFailure::Busy) };
    if is_pooled {
        slot.breaker().admit(Instant::now())?;
    }
    // A host that takes a connection and says nothing is given up as one that takes none is.
    let hosts = u32::try_from(call.far_end.hosts.len().max(1)).unwrap_or(1);
    let patience = connect::patience(&call.far_end) * hosts;
    let until = deadline.min(Instant::now() + patience);
    let opening = timeout_at(until, driver::open(&call.far_end, until)).await;
    let late = |_| Err(FarEndFailure::Unreachable("it did not answer in time".into()));
    let opened = opening.unwrap_or_else(late);
    if is_pooled {
        match &opened {
            Ok(_) => slot.breaker().succeed(),
            Err(failure) => slot.breaker().fail(Instant::now(), failure),
        }
    }
    opened.map(|session| Leased {
        session: slot::OpenSession::new(session, slot),
        permit,
        is_reused: false,
    })
}

/// Asks over a session, which is kept for the next call if its state is known.
async fn ask(
    call: &FarEndCall,
    slot: &Arc<FarEndSlot>,
    leased: Leased,
    deadline: Instant,
) -> FarEndOutcome {
    let Leased { mut session, permit, is_reused } = leased;
    let asked = timeout_at(deadline, session.run(&call.work)).await;
    let outcome = asked.unwrap_or_else(|_| {
        let failure = FarEndFailure::Unknown("it did not answer in time".into());
        if call.session == SessionUse::Pooled {
            slot.breaker().fail(Instant::now(), &failure);
        }
        Err(failure)
    });
    match &outcome {
        Ok(_) | Err(FarEndFailure::Refused(_) | FarEndFailure::NothingDone(_))
            if call.session == SessionUse::Pooled =>
        {
            slot.keep(session, call.far_end.revision);
        }
        // The session had ended before anything was asked over it: another one is asked, once.
        Err(FarEndFailure::Unreachable(_)) if is_reused => {
            drop(session);
            let opened = timeout_at(deadline, driver::open(&call.far_end, deadline)).await;
            let late = |_| Err(FarEndFailure::Unreachable("it did not answer in time".into()));
            let opened = opened.unwrap_or_else(late)?;
            let session = slot::OpenSession::new(opened, slot);
            return Box::pin(ask(
                call,
                slot,
                Leased { session, permit, is_reused: false },
                deadline,
            ))
            .await;
        }
        _ => {}
    }
    drop(permit);
    outcome
}
