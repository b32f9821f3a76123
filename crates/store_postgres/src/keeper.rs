//! The task that keeps this server's place: it says that the server is there, renews the lease, takes it when it is free, and lets it go.
//!
//! It has a connection of its own, so that no commit and no load keeps it waiting. It looks once a second; sooner when the driver, which
//! hears of what others do, sees that the lease was taken or left. What is to be done is decided in `lease`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kallisto_store::{Candidacy, Error, Member, MemberRole, Peer, Promise};

use crate::database::{DatabaseFailure, DatabaseSession, LeaseLook, ListedServer, StoreDatabase};
use crate::lease::{LeaseAct, LeaseWatch, PgStanding, decide};
use crate::limits::{ALIVE, BEAT, HAND_OVER, LEASE};
use crate::shared::{PgRole, PgShared, lock};

/// How much longer than a lease is waited, so that it is over at the next look.
const REST_MIN: Duration = Duration::from_millis(5);

pub(crate) struct LeaseKeeper<D: StoreDatabase> {
    pub(crate) shared: Arc<PgShared>,
    pub(crate) database: D,
    pub(crate) session: Option<D::Session>,
    watch: LeaseWatch,
    /// This server's rows of before are gone.
    has_superseded: bool,
    handing: Option<(Promise, Duration, u64)>,
    told: Vec<Peer>,
}

impl<D: StoreDatabase> LeaseKeeper<D> {
    pub(crate) const fn new(
        shared: Arc<PgShared>,
        database: D,
        session: D::Session,
        watch: LeaseWatch,
    ) -> Self {
        Self {
            shared,
            database,
            session: Some(session),
            watch,
            has_superseded: false,
            handing: None,
            told: Vec::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        while !self.shared.drained.load(Ordering::Acquire) {
            if let Err(failure) = self.beat().await {
                if let DatabaseFailure::Refused(error) = &failure {
                    tracing::error!(%error, "the database refuses a statement of the lease");
                } else {
                    self.session = None;
                }
                // Not when it is reached again: by then nobody may want that any more.
                self.refuse_transfer("the database is not reached");
            }
            self.shared.tell_leadership();
            self.end_handing();
            self.database.rest(self.rest(), &self.shared.keeper_wake).await;
        }
        if let Err(failure) = self.leave().await {
            let error = failure.into_error();
            tracing::warn!(%error, "the lease ends by itself");
        }
        self.refuse_transfer("the store is closed");
    }

    /// Refuses a hand-over that was asked for and has not begun.
    fn refuse_transfer(&self, why: &str) {
        let transfer = lock(&self.shared.transfer).take();
        if let Some((_, promise)) = transfer {
            promise.keep(Err(Error::Unavailable(why.to_owned())));
        }
    }

    /// How long to wait for the next beat: no longer than until a lease of another server that says nothing is over.
    fn rest(&self) -> Duration {
        let lead = lock(&self.shared.lead);
        let is_of_another = lead.holder != 0 && lead.holder != self.shared.own.id;
        let left = lead.holder_until.saturating_sub(self.shared.clock.now());
        if is_of_another && !left.is_zero() { BEAT.min(left + REST_MIN) } else { BEAT }
    }

    async fn session(&mut self) -> Result<&D::Session, DatabaseFailure> {
        let kept = match self.session.take().filter(|session| !session.is_closed()) {
            Some(session) => session,
            None => self.database.open(&self.shared.keeper_wake).await?,
        };
        Ok(self.session.insert(kept))
    }

    async fn beat(&mut self) -> Result<(), DatabaseFailure> {
        let shared = Arc::clone(&self.shared);
        let (has_superseded, is_handing) = (self.has_superseded, self.handing.is_some());
        let session = self.session().await?;
        let candidacy = *lock(&shared.candidacy);
        let mut others = Vec::new();
        if shared.is_ha {
            if !has_superseded {
                session.supersede(&shared.own).await?;
            }
            session.be_there(&shared.own, candidacy == Candidacy::Willing).await?;
            others = members(session.servers().await?, shared.own.id);
        }
        let look = session.look().await?;
        self.has_superseded = true;
        let heard = shared.clock.now();
        let since = self.watch.note(&look, heard);
        let alive = u64::try_from(ALIVE.as_millis()).unwrap_or(u64::MAX);
        let has_willing_other = others.iter().any(|(member, willing)| {
            *willing
                && member.peer.id != shared.own.id
                && member.silent_ms.is_some_and(|ms| ms < alive)
        });
        self.know(others);
        let holds = self.note(look, since);
        let transfer = lock(&shared.transfer).take();
        let standing = PgStanding {
            own: shared.own.id,
            holds,
            // Who gives the lead away looks again at once, before the others do: it does not take it back from them.
            candidacy: if is_handing { Candidacy::Reluctant } else { candidacy },
            has_willing_other,
            unchanged: heard.saturating_sub(since),
        };
        let act = match (&transfer, holds) {
            (Some(_), Some(_)) => LeaseAct::Release,
            _ => decide(look, standing),
        };
        let wanted = transfer.as_ref().map_or(0, |(to, _)| *to);
        let outcome = self.act(act, look, wanted).await;
        if let Some((_, promise)) = transfer {
            match (holds, &outcome) {
                (Some(_), Ok(())) => {
                    self.handing = Some((promise, shared.clock.now(), look.epoch));
                }
                _ => promise.keep(Err(Error::NotLeader)),
            }
        }
        outcome
    }

    /// Keeps what the database said; the epoch that this server holds.
    fn note(&self, look: LeaseLook, since: Duration) -> Option<u64> {
        let mut lead = lock(&self.shared.lead);
        let is_taken = look.holder != 0 && look.holder != self.shared.own.id;
        if is_taken && !self.shared.is_ha && lead.holder != look.holder {
            tracing::error!("another server writes to this database, though ha_enabled is false");
        }
        lead.is_blank = look.position == 0;
        lead.holder = look.holder;
        lead.holder_until = if look.holder == 0 { Duration::ZERO } else { since + LEASE };
        let holds = match lead.role {
            PgRole::Leading { epoch } | PgRole::Elected { epoch, .. } => Some(epoch),
            PgRole::Following => {
                lead.epoch = look.epoch;
                None
            }
        };
        drop(lead);
        // A lease that somebody else has taken.
        match holds {
            Some(epoch) if look.epoch > epoch => {
                let own = lock(&self.shared.lead).epoch;
                // The driver may have taken a new epoch since it was looked.
                if own < look.epoch {
                    self.shared.depose(epoch);
                }
                None
            }
            holds => holds,
        }
    }

    async fn act(
        &mut self,
        act: LeaseAct,
        look: LeaseLook,
        wanted: u64,
    ) -> Result<(), DatabaseFailure> {
        let shared = Arc::clone(&self.shared);
        let session = self.session().await?;
        let own = shared.own.id;
        let sent = shared.clock.now();
        match act {
            LeaseAct::Nothing => {}
            LeaseAct::Renew => {
                match session.renew(own, look.epoch).await? {
                    true => shared.extend(look.epoch, sent),
                    false => shared.depose(look.epoch),
                }
                if shared.is_ha {
                    session.forget_servers().await?;
                }
            }
            LeaseAct::Take => {
                if let Some(taken) = session.take(own, &look).await? {
                    shared.elect(taken, sent);
                }
            }
            LeaseAct::Release => {
                shared.depose(look.epoch);
                session.release(own, look.epoch, wanted).await?;
            }
        }
        Ok(())
    }

    /// Makes the list of servers known.
    fn know(&mut self, listed: Vec<(Member, bool)>) {
        let members: Vec<Member> = listed.into_iter().map(|(member, _)| member).collect();
        let peers: Vec<Peer> = members.iter().map(|member| member.peer.clone()).collect();
        if peers != self.told {
            self.shared.transport.know(&peers);
            self.told = peers;
        }
        *lock(&self.shared.members) = members;
    }

    /// Tells whoever hands the lead over how that ended.
    fn end_handing(&mut self) {
        let Some((promise, since, epoch)) = self.handing.take() else { return };
        let leadership = self.shared.leadership();
        let position = self.shared.position();
        let is_led = leadership.leader_id != 0 && leadership.term > epoch;
        let is_late = self.shared.clock.now().saturating_sub(since) > HAND_OVER;
        if is_led && !leadership.is_mine() {
            promise.keep(Ok(position));
        } else if is_led || is_late {
            promise.keep(Err(Error::Unavailable("no other server took the lead".to_owned())));
        } else {
            self.handing = Some((promise, since, epoch));
        }
    }

    /// Lets the lease go, and says that this server is not there any more.
    async fn leave(&mut self) -> Result<(), DatabaseFailure> {
        if let Some((promise, ..)) = self.handing.take() {
            promise.keep(Err(Error::Unavailable("the store is closed".to_owned())));
        }
        let shared = Arc::clone(&self.shared);
        let session = self.session().await?;
        let holds = match lock(&shared.lead).role {
            PgRole::Leading { epoch } | PgRole::Elected { epoch, .. } => Some(epoch),
            PgRole::Following => None,
        };
        if let Some(epoch) = holds {
            shared.depose(epoch);
            session.release(shared.own.id, epoch, 0).await?;
        }
        if shared.is_ha {
            session.leave(shared.own.id).await?;
        }
        Ok(())
    }
}

/// Who is there, and whether each would lead.
fn members(listed: Vec<ListedServer>, own: u64) -> Vec<(Member, bool)> {
    let member = |listed: ListedServer| {
        let ListedServer { peer, is_willing, silent_ms } = listed;
        let silent_ms = (peer.id != own).then_some(silent_ms);
        (Member { peer, role: MemberRole::Voter, matched: 0, silent_ms }, is_willing)
    };
    let mut all: Vec<_> = listed.into_iter().map(member).collect();
    all.sort_by_key(|(member, _)| member.peer.id);
    all
}
