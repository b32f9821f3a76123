//! A database that servers share, simulated: what it keeps, the connections to it, and what is on its way between.
//!
//! `rows` are its transactions, `session` is a server's end. What travels is carried by the world (`world::database`), which decides when
//! it comes, whether it comes, and what goes wrong meanwhile.

mod rows;
mod session;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kallisto_store_postgres::database::Notify;

pub(crate) use self::rows::DatabaseRows;
pub(crate) use self::session::{
    DatabaseEnd, QueryMoment, QueryWork, Said, SentAnswer, SimWire, Slot,
};
use crate::sabotage::Sabotage;

/// The number of the database among the ends of wires.
pub(crate) const DATABASE: u64 = 0;
/// So often a standby that lags is brought up to date.
const LAGS: Duration = Duration::from_secs(5);

/// A connection that came up.
pub(crate) struct SimConnection {
    pub(crate) server: u64,
    pub(crate) wire: Arc<SimWire>,
    pub(crate) wake: Arc<Notify>,
}

/// What is on its way.
pub(crate) enum Travel {
    Open(Arc<Notify>, Arc<Slot<()>>),
    Query(QueryWork),
    Answer(SentAnswer),
    Notice(Arc<Notify>),
}

/// Something on its way over a wire of a server.
pub(crate) struct Travelling {
    pub(crate) server: u64,
    pub(crate) wire: Arc<SimWire>,
    pub(crate) what: Travel,
}

/// See the module.
#[derive(Default)]
pub(crate) struct SimDatabase {
    pub(crate) rows: DatabaseRows,
    /// What a standby that lags shows, and since when, where a run is sabotaged.
    lagging: Option<(DatabaseRows, Duration)>,
    pub(crate) sessions: Vec<SimConnection>,
    /// No connection is taken.
    pub(crate) is_away: bool,
    /// Nothing is done until then.
    pub(crate) hangs_until: Duration,
    /// What each operation takes at most besides.
    pub(crate) slow: Duration,
    /// Nobody is told of what others commit.
    pub(crate) is_deaf: bool,
    /// How far its clock is off.
    pub(crate) off: i64,
    /// When which position was committed.
    commits: Vec<(Duration, u64)>,
    travelling: BTreeMap<u64, Travelling>,
    next: u64,
}

/// What an operation did.
pub(crate) struct QueryDone {
    pub(crate) answer: SentAnswer,
    /// Who listens is told.
    pub(crate) is_news: bool,
}

impl SimDatabase {
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Self {
        let mut database = Self::default();
        database.rows.is_unfenced = sabotage == Some(Sabotage::UnfencedCommits);
        if sabotage == Some(Sabotage::LaggingStandby) {
            database.lagging = Some((DatabaseRows::default(), Duration::ZERO));
        }
        database
    }

    /// Puts something on its way; its number.
    pub(crate) fn send(&mut self, travelling: Travelling) -> u64 {
        self.next += 1;
        self.travelling.insert(self.next, travelling);
        self.next
    }

    /// Takes what comes.
    pub(crate) fn arrive(&mut self, number: u64) -> Option<Travelling> {
        self.travelling.remove(&number)
    }

    /// Puts back what does not come yet.
    pub(crate) fn hold(&mut self, number: u64, travelling: Travelling) {
        self.travelling.insert(number, travelling);
    }

    /// Does an operation.
    pub(crate) fn run(&mut self, work: QueryWork, now: Duration) -> QueryDone {
        let before = (self.rows.position, self.rows.look().holder);
        if let Some((rows, since)) = &mut self.lagging
            && now.saturating_sub(*since) > LAGS
        {
            (*rows, *since) = (self.rows.clone(), now);
        }
        let lagging = self.lagging.as_ref().map(|(rows, _)| rows);
        let mut moment = QueryMoment { rows: &mut self.rows, lagging, now, off: self.off };
        let answer = work(&mut moment);
        let position = self.rows.position;
        let is_committed = position != before.0;
        if is_committed {
            self.commits.push((now, position));
        }
        let is_taken_or_free = before.1 != self.rows.look().holder;
        QueryDone { answer, is_news: is_committed || is_taken_or_free }
    }

    /// Up to where everything was committed before `at`.
    pub(crate) fn committed_before(&self, at: Duration) -> u64 {
        let before = self.commits.partition_point(|(when, _)| *when < at);
        before.checked_sub(1).map_or(0, |last| self.commits[last].1)
    }

    /// Ends the connections of a server, or all; of what is on its way to here only what `lands` says comes.
    pub(crate) fn cut(&mut self, server: Option<u64>, mut lands: impl FnMut() -> bool) {
        let is_of = |own: u64| server.is_none_or(|server| server == own);
        self.sessions.retain(|session| {
            if is_of(session.server) {
                session.wire.is_broken.store(true, Ordering::Relaxed);
            }
            session.wire.is_open()
        });
        self.travelling.retain(|_, travelling| {
            if !is_of(travelling.server) {
                return true;
            }
            travelling.wire.is_broken.store(true, Ordering::Relaxed);
            matches!(travelling.what, Travel::Query(_)) && lands()
        });
    }

    /// Who is to be told that there is something new.
    pub(crate) fn listeners(&mut self) -> Vec<(u64, Arc<SimWire>, Arc<Notify>)> {
        self.sessions.retain(|session| session.wire.is_open());
        let listens = |session: &&SimConnection| session.wire.listens.load(Ordering::Relaxed);
        let told = |session: &SimConnection| {
            (session.server, Arc::clone(&session.wire), Arc::clone(&session.wake))
        };
        self.sessions.iter().filter(listens).map(told).collect()
    }
}
