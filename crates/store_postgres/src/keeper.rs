//! The task that keeps this server's place: it says that the server is there, renews the lease, takes it when it is free, and lets it go.
//!
//! It has a connection of its own, so that no commit and no load keeps it waiting. Times of two machines are never compared: the
//! database says how long a lease still lasts, and this server counts from before it asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kallisto_store::{Candidacy, Error, Member, MemberRole, Peer, Promise};
use tokio::time::timeout;
use tokio_postgres::types::Type;

use crate::connection::{PgConnector, PgFailure, PgSession};
use crate::driver::lease_ms;
use crate::limits::{ALIVE, BEAT, HAND_OVER, SERVERS_MAX, SILENT_MAX, STATEMENT};
use crate::load::{no_row, number};
use crate::shared::{PgRole, PgShared, lock};

/// The lease as the database has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseLook {
    pub(crate) epoch: u64,
    pub(crate) holder: u64,
    pub(crate) wanted: u64,
    pub(crate) position: u64,
    pub(crate) left_ms: i64,
}

/// What a server is to do about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseAct {
    Nothing,
    Renew,
    Take,
    Release,
}

/// What this server knows besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PgStanding {
    pub(crate) own: u64,
    /// The epoch that it holds.
    pub(crate) holds: Option<u64>,
    pub(crate) candidacy: Candidacy,
    /// Another server is there that would lead.
    pub(crate) has_willing_other: bool,
}

/// How long a lease that was left to one server waits for it, in milliseconds.
const WANTED_MS: i64 = 1_000;

/// What is to be done.
pub(crate) fn decide(look: LeaseLook, standing: PgStanding) -> LeaseAct {
    let may_lead = standing.candidacy == Candidacy::Willing || !standing.has_willing_other;
    if standing.holds == Some(look.epoch) && look.holder == standing.own {
        return if may_lead { LeaseAct::Renew } else { LeaseAct::Release };
    }
    let is_free = look.holder == 0 || look.left_ms < 0 || look.holder == standing.own;
    let is_for_another = look.holder == 0
        && look.wanted != 0
        && look.wanted != standing.own
        && look.left_ms > -WANTED_MS;
    if is_free && may_lead && !is_for_another { LeaseAct::Take } else { LeaseAct::Nothing }
}

pub(crate) struct LeaseKeeper {
    pub(crate) shared: Arc<PgShared>,
    pub(crate) connector: PgConnector,
    pub(crate) session: Option<PgSession>,
    handing: Option<(Promise, Duration, u64)>,
    told: Vec<Peer>,
}

impl LeaseKeeper {
    pub(crate) const fn new(
        shared: Arc<PgShared>,
        connector: PgConnector,
        session: PgSession,
    ) -> Self {
        Self { shared, connector, session: Some(session), handing: None, told: Vec::new() }
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
            let _ = timeout(BEAT, self.shared.keeper_wake.notified()).await;
        }
        if let Err(failure) = self.leave().await {
            let error = failure.into_error();
            tracing::warn!(%error, "the lease ends by itself");
        }
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
        let session = self.session().await?;
        let candidacy = *lock(&shared.candidacy);
        let own = shared.own.id.cast_signed();
        let mut others = Vec::new();
        if shared.is_ha {
            let peer = &shared.own;
            let willing = candidacy == Candidacy::Willing;
            session
                .run(
                    &shared.statements.beat,
                    &[
                        (&own, Type::INT8),
                        (&peer.name, Type::TEXT),
                        (&peer.cluster_address, Type::TEXT),
                        (&peer.api_address, Type::TEXT),
                        (&willing, Type::BOOL),
                    ],
                    STATEMENT,
                )
                .await?;
            others = servers(session, &shared).await?;
        }
        let asked = shared.clock.now();
        let rows = session.run(&shared.statements.look, &[], STATEMENT).await?;
        let row = rows.first().ok_or_else(no_row)?;
        let look = LeaseLook {
            epoch: number(row.get(0)),
            holder: number(row.get(1)),
            wanted: number(row.get(2)),
            position: number(row.get(3)),
            left_ms: row.get(4),
        };
        let alive = u64::try_from(ALIVE.as_millis()).unwrap_or(u64::MAX);
        let has_willing_other = others.iter().any(|(member, willing)| {
            *willing
                && member.peer.id != shared.own.id
                && member.silent_ms.is_some_and(|ms| ms < alive)
        });
        self.know(others);
        let holds = self.note(look, asked);
        let transfer = lock(&shared.transfer).take();
        let standing = PgStanding { own: shared.own.id, holds, candidacy, has_willing_other };
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
    fn note(&self, look: LeaseLook, asked: Duration) -> Option<u64> {
        let left = Duration::from_millis(u64::try_from(look.left_ms).unwrap_or(0));
        let mut lead = lock(&self.shared.lead);
        lead.is_blank = look.position == 0;
        lead.holder = look.holder;
        lead.holder_until = if look.holder == 0 { Duration::ZERO } else { asked + left };
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
                    let parameters: [crate::connection::PgParameter<'_>; 1] =
                        [(&silent, Type::FLOAT8)];
                    session.run(&shared.statements.forget_servers, &parameters, STATEMENT).await?;
                }
            }
            LeaseAct::Take => {
                let rows = session
                    .run(
                        &shared.statements.take,
                        &[(&lease_ms(), Type::FLOAT8), (&own, Type::INT8), (&epoch, Type::INT8)],
                        STATEMENT,
                    )
                    .await?;
                if let Some(row) = rows.first() {
                    shared.elect(number(row.get(0)), number(row.get(1)), sent);
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
    let member = |row: &tokio_postgres::Row| {
        let id = number(row.get(0));
        let peer = Peer {
            id,
            name: row.get(1),
            cluster_address: row.get(2),
            api_address: row.get(3),
            wants: MemberRole::Voter,
        };
        let silent: i64 = row.get(5);
        let silent_ms = (id != shared.own.id).then_some(number(silent));
        (Member { peer, role: MemberRole::Voter, matched: 0, silent_ms }, row.get(4))
    };
    let mut all: Vec<_> = rows.iter().map(member).collect();
    all.sort_by_key(|(member, _)| member.peer.id);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_taken_when_it_is_free_by_those_that_serve_first() {
        let look =
            |holder, wanted, left_ms| LeaseLook { epoch: 7, holder, wanted, position: 9, left_ms };
        let standing = |holds, candidacy, has_willing_other| PgStanding {
            own: 1,
            holds,
            candidacy,
            has_willing_other,
        };
        use Candidacy::{Reluctant, Willing};
        for (look, standing, act) in [
            (look(1, 0, 900), standing(Some(7), Willing, true), LeaseAct::Renew),
            (look(1, 0, -900), standing(Some(7), Willing, true), LeaseAct::Renew),
            (look(1, 0, 900), standing(Some(7), Reluctant, true), LeaseAct::Release),
            (look(1, 0, 900), standing(Some(7), Reluctant, false), LeaseAct::Renew),
            (look(1, 0, 900), standing(Some(6), Willing, false), LeaseAct::Take),
            (look(2, 0, 900), standing(None, Willing, false), LeaseAct::Nothing),
            (look(2, 0, -1), standing(None, Willing, true), LeaseAct::Take),
            (look(2, 0, -1), standing(None, Reluctant, true), LeaseAct::Nothing),
            (look(2, 0, -1), standing(None, Reluctant, false), LeaseAct::Take),
            (look(0, 0, -1), standing(None, Willing, true), LeaseAct::Take),
            (look(0, 2, -1), standing(None, Willing, true), LeaseAct::Nothing),
            (look(0, 2, -2000), standing(None, Willing, true), LeaseAct::Take),
            (look(0, 1, -1), standing(None, Willing, true), LeaseAct::Take),
        ] {
            assert_eq!(decide(look, standing), act, "{look:?} {standing:?}");
        }
    }
}
