//! What goes between servers and the database that they share: connections, operations, answers and notices, each over a wire that may
//! be slow or cut, to a database that may be away, hang or be full.
//!
//! An operation happens when it comes, at one moment, and its answer is another thing on the wire: so a connection that is cut takes
//! either with it, and what a server has given up on may still land.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kallisto_store::AsOf;
use kallisto_store_postgres::database::DatabaseFailure;

use super::faults::{FaultEvent, WorldFault};
use super::{SimWorld, WorldEvent};
use crate::database::{DATABASE, Said, SimConnection, SimWire, Travel, Travelling};
use crate::invariants::{InvariantViolation, violated};
use crate::server::{SimServer, SimStorage, StartStep};

/// How long what cannot pass waits before it is sent again.
const RESENT_AFTER: Duration = Duration::from_millis(200);

impl SimWorld {
    /// Whether servers share a database.
    pub(super) fn has_database(&self) -> bool {
        self.plan.storage == SimStorage::Database
    }

    /// Lets a server's own tasks go on, and carries what they say.
    pub(super) fn drive(&mut self, id: u64) -> Result<(), InvariantViolation> {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&id).filter(|s| s.paused_until <= now) else {
            return Ok(());
        };
        server.clock.follow(now);
        match server.drive(&self.setup) {
            StartStep::None => {}
            StartStep::Opened => {
                let life = server.life;
                let position = server.store.as_ref().map_or(0, |store| store.position().0);
                self.note(100, position, || format!("server {id} has opened at {position}"));
                self.opened(id, life);
            }
            StartStep::Failed(error) => {
                self.note(101, id, || format!("server {id} does not start: {error}"));
                if matches!(error, kallisto_store::Error::Damaged(_)) {
                    let what = format!("server {id}: {error}");
                    return Err(violated("a server starts again")(what));
                }
                let after = self.between(200, 1000);
                let again = WorldEvent::Mend(WorldFault::new(FaultEvent::Crash, id));
                self.schedule(after, again);
            }
        }
        self.carry_said(id);
        Ok(())
    }

    fn carry_said(&mut self, id: u64) {
        let Some(end) = self.servers.get(&id).and_then(|server| server.database.clone()) else {
            return;
        };
        for said in end.take() {
            let (wire, what) = match said {
                Said::Open { wire, wake, answer } => (wire, Travel::Open(wake, answer)),
                Said::Query { wire, work } => (wire, Travel::Query(work)),
            };
            self.put_on_wire(id, wire, what);
        }
    }

    fn put_on_wire(&mut self, server: u64, wire: Arc<SimWire>, what: Travel) {
        let mut after = self.network.delay(&mut self.dice);
        if let (Travel::Query(_), false) = (&what, self.database.slow.is_zero()) {
            after += self.database.slow.mul_f64(self.dice.f64());
        }
        let number = self.database.send(Travelling { server, wire, what });
        self.schedule(after, WorldEvent::Travel { number });
    }

    /// Something comes to an end of a wire.
    pub(super) fn travel(&mut self, number: u64) -> Result<(), InvariantViolation> {
        let Some(travelling) = self.database.arrive(number) else { return Ok(()) };
        let server = travelling.server;
        let is_to_database = matches!(travelling.what, Travel::Open(..) | Travel::Query(_));
        let is_open = travelling.wire.is_open();
        let (from, to) = if is_to_database { (server, DATABASE) } else { (DATABASE, server) };
        let hangs = is_to_database && self.database.hangs_until > self.now;
        if !self.network.reaches(from, to) || hangs {
            // What nobody waits for any more is dropped by a wire, and done by a database that hung.
            if is_open || hangs {
                let rest = self.database.hangs_until.saturating_sub(self.now);
                let after = if hangs { rest } else { RESENT_AFTER };
                self.database.hold(number, travelling);
                self.schedule(after, WorldEvent::Travel { number });
            }
            return Ok(());
        }
        match travelling.what {
            Travel::Open(wake, answer) => {
                let wire = travelling.wire;
                if self.database.is_away {
                    answer.put(Err(DatabaseFailure::Lost("nobody takes connections".to_owned())));
                    return self.turn(server);
                }
                if is_open {
                    let own = Arc::clone(&wire);
                    self.database.sessions.push(SimConnection { server, wire: own, wake });
                    let back = Box::new(move || answer.put(Ok(())));
                    self.put_on_wire(server, wire, Travel::Answer(back));
                }
                Ok(())
            }
            Travel::Query(work) => {
                if self.database.is_away {
                    travelling.wire.is_broken.store(true, Ordering::Relaxed);
                    return self.turn(server);
                }
                let done = self.database.run(work, self.now);
                let position = self.database.rows.position;
                self.note(102, position << 8 | server, || {
                    format!("the database does what {server} asks: {position}")
                });
                if is_open {
                    self.put_on_wire(server, travelling.wire, Travel::Answer(done.answer));
                } else {
                    self.figures.fault("landed late");
                }
                if done.is_news && !self.database.is_deaf {
                    for (listener, wire, wake) in self.database.listeners() {
                        self.put_on_wire(listener, wire, Travel::Notice(wake));
                    }
                }
                Ok(())
            }
            Travel::Answer(answer) => {
                if is_open {
                    answer();
                }
                self.turn(server)
            }
            Travel::Notice(wake) => {
                wake.notify_one();
                self.turn(server)
            }
        }
    }

    /// The connections of a server, or all of them, end; of what is on the way some lands.
    pub(super) fn cut_sessions(&mut self, server: Option<u64>, is_machine_gone: bool) {
        let dice = &mut self.dice;
        self.database.cut(server, || !is_machine_gone && dice.bool());
    }

    /// Everything that a server says it holds as of some moment, it holds.
    pub(super) fn judge_as_of(&mut self, id: u64) -> Result<(), InvariantViolation> {
        let Some(server) = self.servers.get(&id) else { return Ok(()) };
        let Some(store) = &server.store else { return Ok(()) };
        let claimed = store.as_of();
        if claimed == AsOf::NEVER {
            return Ok(());
        }
        let own = Duration::from_nanos(claimed.to_bits());
        let Some(at) = server.clock.world_at(own) else { return Ok(()) };
        let (held, committed) = (store.position().0, self.database.committed_before(at));
        if held < committed {
            let what = format!(
                "server {id} says it holds everything as of {at:?}: {committed} was committed, it is at {held}"
            );
            return Err(violated("what is confirmed is here")(what));
        }
        Ok(())
    }

    /// New servers come, and others go.
    pub(super) fn administer_database(&mut self) -> Result<(), InvariantViolation> {
        let members = self.database_members();
        let count = members.len() as u64;
        let wanted = self.wanted_members();
        if self.calm || count == wanted {
            return Ok(());
        }
        self.figures.fault("members");
        if count < wanted {
            return self.add_database_server().map(|_| ());
        }
        let gone = members[self.dice.usize(..members.len())];
        self.note(63, gone, || format!("server {gone} goes"));
        self.stop(gone)?;
        if let Some(server) = self.servers.get_mut(&gone) {
            server.removed = true;
        }
        Ok(())
    }

    /// A server on the database that is there.
    pub(super) fn add_database_server(&mut self) -> Result<u64, InvariantViolation> {
        let id = self.make_server();
        if let Some(server) = self.servers.get_mut(&id) {
            server.joined = true;
        }
        self.start(id)?;
        Ok(id)
    }

    /// The servers that share the database.
    pub(super) fn database_members(&self) -> Vec<u64> {
        let is_member = |server: &&SimServer| server.joined && !server.removed;
        self.servers.values().filter(is_member).map(|server| server.id).collect()
    }

    /// Whether every server holds what the database does, and nothing waits.
    pub(super) fn is_database_together(&self) -> bool {
        let tip = self.database.rows.position;
        let is_level = |id: &u64| {
            let store = self.servers.get(id).and_then(|server| server.store.as_ref());
            store.is_some_and(|store| {
                let waiting = store.stats().database.map_or(0, |stats| stats.waiting);
                store.position().0 == tip && waiting == 0
            })
        };
        self.leader().is_some() && self.database_members().iter().all(is_level)
    }
}
