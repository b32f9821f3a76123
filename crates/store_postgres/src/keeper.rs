//! The task that keeps this server's place: it says that the server is there, renews the lease, takes it when it is free, and lets it go.
//!
//! It has a connection of its own, so that no commit and no load keeps it waiting. What is to be done is decided in `lease`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kallisto_store::{Candidacy, Error, Member, MemberRole, Peer, Promise};
use tokio::time::timeout;
use tokio_postgres::types::Type;

use crate::cells::{cell, no_row, number, only};
use crate::connection::{PgConnector, PgFailure, PgParameter, PgSession};
use crate::driver::lease_ms;
use crate::lease::{LeaseAct, LeaseLook, LeaseWatch, PgStanding, decide};
use crate::limits::{ALIVE, BEAT, HAND_OVER, LEASE, SERVERS_MAX, SILENT_MAX, STATEMENT};
use crate::shared::{PgRole, PgShared, lock};

/// How much longer than a lease is waited, so that it is over at the next look.
const REST_MIN: Duration = Duration::from_millis(5);

pub(crate) struct LeaseKeeper {
    pub(crate) shared: Arc<PgShared>,
    pub(crate) connector: PgConnector,
    pub(crate) session: Option<PgSession>,
    watch: LeaseWatch,
    /// This server's rows of before are gone.
    has_superseded: bool,
    handing: Option<(Promise, Duration, u64)>,
    told: Vec<Peer>,
}

impl LeaseKeeper {
    pub(crate) const fn new(
        shared: Arc<PgShared>,
        connector: PgConnector,
        session: PgSession,
        watch: LeaseWatch,
    ) -> Self {
        Self {
            shared,
            connector,
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
                if let PgFailure::Refused(error) = &failure {
                    tracing::error!(%error, "the database refuses a statement of the lease");
                } else {
                    self.session = None;
                }
            }
            self.shared.tell_leadership();
            self.end_handing();
            let _ = timeout(self.rest(), self.shared.keeper_wake.notified()).await;
        }
        if let Err(failure) = self.leave().await {
            let error = failure.into_error();
            tracing::warn!(%error, "the lease ends by itself");
        }
    }

    /// How long to wait for the next beat: no longer than until a lease of another server that says nothing is over.
    fn rest(&self) -> Duration {
        let lead = lock(&self.shared.lead);
        let is_of_another = lead.holder != 0 && lead.holder != self.shared.own.id;
        let left = lead.holder_until.saturating_sub(self.shared.clock.now());
        if is_of_another && !left.is_zero() { BEAT.min(left + REST_MIN) } else { BEAT }
    }

    async fn session(&mut self) -> Result<&PgSession, PgFailure> {
        if self.session.as_ref().is_none_or(|session| session.client.is_closed()) {
            self.session = None;
            self.session = Some(self.connector.open(&self.shared.keeper_wake).await?);
        }
        self.session.as_ref().ok_or_else(no_row)
    }

    async fn beat(&mut self) -> Result<(), PgFailure> {
        let shared = Arc::clone(&self.shared);
        let has_superseded = self.has_superseded;
        let session = self.session().await?;
        let candidacy = *lock(&shared.candidacy);
        let mut others = Vec::new();
        if shared.is_ha {
            if !has_superseded {
                supersede(session, &shared).await?;
            }
            be_there(session, &shared, candidacy).await?;
            others = servers(session, &shared).await?;
        }
        let rows = session.run(&shared.statements.look, &[], STATEMENT).await?;
        let look = LeaseLook::read(only(&rows)?)?;
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
            candidacy,
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

    async fn act(&mut self, act: LeaseAct, look: LeaseLook, wanted: u64) -> Result<(), PgFailure> {
        let shared = Arc::clone(&self.shared);
        let session = self.session().await?;
        let own = shared.own.id.cast_signed();
        let epoch = look.epoch.cast_signed();
        let sent = shared.clock.now();
        match act {
            LeaseAct::Nothing => {}
            LeaseAct::Renew => {
                let rows = session
                    .run(
                        &shared.statements.renew,
                        &[(&lease_ms(), Type::FLOAT8), (&epoch, Type::INT8), (&own, Type::INT8)],
                        STATEMENT,
                    )
                    .await?;
                match rows.is_empty() {
                    true => shared.depose(look.epoch),
                    false => shared.extend(look.epoch, sent),
                }
                if shared.is_ha {
                    let silent = SILENT_MAX.as_secs_f64() * 1000.0;
                    let parameters: [PgParameter<'_>; 1] = [(&silent, Type::FLOAT8)];
                    session.run(&shared.statements.forget_servers, &parameters, STATEMENT).await?;
                }
            }
            LeaseAct::Take => {
                let rows = session
                    .run(
                        &shared.statements.take,
                        &[
                            (&lease_ms(), Type::FLOAT8),
                            (&own, Type::INT8),
                            (&epoch, Type::INT8),
                            (&look.holder.cast_signed(), Type::INT8),
                            (&look.mark, Type::INT8),
                        ],
                        STATEMENT,
                    )
                    .await?;
                if let Some(row) = rows.first() {
                    shared.elect(number(row, 0)?, number(row, 1)?, sent);
                }
            }
            LeaseAct::Release => {
                shared.depose(look.epoch);
                release(session, &shared, look.epoch, wanted).await?;
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
        if leadership.leader_id != 0 && leadership.term > epoch {
            promise.keep(Ok(position));
        } else if self.shared.clock.now().saturating_sub(since) > HAND_OVER {
            promise.keep(Err(Error::Unavailable("no other server took the lead".to_owned())));
        } else {
            self.handing = Some((promise, since, epoch));
        }
    }

    /// Lets the lease go, and says that this server is not there any more.
    async fn leave(&mut self) -> Result<(), PgFailure> {
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
            release(session, &shared, epoch, 0).await?;
        }
        if shared.is_ha {
            let own = shared.own.id.cast_signed();
            session.run(&shared.statements.leave, &[(&own, Type::INT8)], STATEMENT).await?;
        }
        Ok(())
    }
}

async fn release(
    session: &PgSession,
    shared: &PgShared,
    epoch: u64,
    wanted: u64,
) -> Result<(), PgFailure> {
    let own = shared.own.id.cast_signed();
    session
        .run(
            &shared.statements.release,
            &[
                (&epoch.cast_signed(), Type::INT8),
                (&own, Type::INT8),
                (&wanted.cast_signed(), Type::INT8),
                (&shared.statements.channel, Type::TEXT),
            ],
            STATEMENT,
        )
        .await?;
    Ok(())
}

/// Says that this server is there.
async fn be_there(
    session: &PgSession,
    shared: &PgShared,
    candidacy: Candidacy,
) -> Result<(), PgFailure> {
    let (own, peer) = (shared.own.id.cast_signed(), &shared.own);
    let willing = candidacy == Candidacy::Willing;
    let parameters: [PgParameter<'_>; 5] = [
        (&own, Type::INT8),
        (&peer.name, Type::TEXT),
        (&peer.cluster_address, Type::TEXT),
        (&peer.api_address, Type::TEXT),
        (&willing, Type::BOOL),
    ];
    session.run(&shared.statements.beat, &parameters, STATEMENT).await.map(|_| ())
}

/// Takes the place of the process that was this server before and could not say that it went.
async fn supersede(session: &PgSession, shared: &PgShared) -> Result<(), PgFailure> {
    let (own, peer) = (shared.own.id.cast_signed(), &shared.own);
    let alive = ALIVE.as_secs_f64() * 1000.0;
    let parameters: [PgParameter<'_>; 4] = [
        (&own, Type::INT8),
        (&peer.name, Type::TEXT),
        (&peer.cluster_address, Type::TEXT),
        (&alive, Type::FLOAT8),
    ];
    session.run(&shared.statements.supersede, &parameters, STATEMENT).await.map(|_| ())
}

/// Who is there, and whether each would lead.
async fn servers(session: &PgSession, shared: &PgShared) -> Result<Vec<(Member, bool)>, PgFailure> {
    let silent = SILENT_MAX.as_secs_f64() * 1000.0;
    let rows = session
        .run(
            &shared.statements.servers,
            &[(&silent, Type::FLOAT8), (&SERVERS_MAX, Type::INT8)],
            STATEMENT,
        )
        .await?;
    let member = |row: &tokio_postgres::Row| -> Result<(Member, bool), PgFailure> {
        let id = number(row, 0)?;
        let peer = Peer {
            id,
            name: cell(row, 1)?,
            cluster_address: cell(row, 2)?,
            api_address: cell(row, 3)?,
            wants: MemberRole::Voter,
        };
        let silent_ms = number(row, 5).map(|silent| (id != shared.own.id).then_some(silent))?;
        Ok((Member { peer, role: MemberRole::Voter, matched: 0, silent_ms }, cell(row, 4)?))
    };
    let mut all = rows.iter().map(member).collect::<Result<Vec<_>, _>>()?;
    all.sort_by_key(|(member, _)| member.peer.id);
    Ok(all)
}
