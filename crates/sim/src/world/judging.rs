//! What the invariants are shown of requests to cores: when an intake takes one up, and when it answers.

use jiff::Timestamp;
use serde_json::Value;

use super::SimWorld;
use super::serving::IntakePoint;
use super::tenants::{RequestReason, SECRET_ID_USES};
use crate::estate::{LimitedUse, SimToken};
use crate::invariants::single_use::Thing;
use crate::invariants::versions::SecretLook;
use crate::invariants::{InvariantViolation, kept, own, revoked, violated};
use crate::site::LEASE_SECS;
use crate::site::asks::{AnswerParts, CoreAnswer, Recency};

impl SimWorld {
    /// An intake takes a request up: from now on it may have happened.
    pub(super) fn taken_up(&mut self, number: u64, intake: &IntakePoint, leads: bool) {
        let Some(call) = self.calls.get(&number) else { return };
        if let Some(token) = call.why.bearer() {
            self.estate.tokens[token].tried += 1;
        }
        match call.why {
            RequestReason::Renew { token, secs } if leads => {
                self.invariants.lifetimes.renewed(token, intake.at, secs);
                self.estate.may_end_at(token, intake.at, secs);
            }
            RequestReason::Revoke { token } => self.estate.tokens[token].doomed = true,
            RequestReason::RenewLease { ref user, secs } => {
                self.invariants.credentials.may_end_at(user, intake.at, secs);
            }
            _ => {}
        }
    }

    /// An intake has answered, and holds so much now.
    pub(super) fn judge(
        &mut self,
        number: u64,
        intake: &IntakePoint,
        answer: &CoreAnswer,
        held: u64,
    ) -> Result<(), InvariantViolation> {
        let Some(call) = self.calls.get(&number) else { return Ok(()) };
        let why = call.why.clone();
        // One that asks for everything waits for it first: there is an order for those.
        let is_default = matches!(call.ask.recency, Recency::Seen(_));
        let says =
            matches!(answer, CoreAnswer::Done(_) | CoreAnswer::Denied | CoreAnswer::Refused(_));
        if let (true, Some(shown)) = (is_default && says, intake.shown) {
            self.invariants.fresh.answered(intake.server, intake.taken, shown)?;
        }
        self.invariants.fresh.applied(self.now, held);
        if let Some(token) = why.bearer() {
            self.judge_bearer(token, intake, answer)?;
        }
        if let RequestReason::Look { key, version } = &why {
            return self.judge_look(intake, key, *version, answer);
        }
        let Some(told) = answer.answer_parts() else { return Ok(()) };
        match why {
            RequestReason::Make { parent, secs, secs_max, uses } => {
                self.token_made(intake, told, held, (Some(parent), secs, secs_max, uses));
                Ok(())
            }
            RequestReason::Revoke { token } => {
                let gone_at = &mut self.estate.tokens[token].gone_at;
                *gone_at = Some(gone_at.map_or(held, |known| known.min(held)));
                Ok(())
            }
            RequestReason::Wrap => {
                let text = text_of(&told.wrap_info["token"])?;
                let wrap = self.estate.wraps.len();
                self.invariants.single_use.made(Thing::Wrap(wrap), 1);
                self.estate.wraps.push(LimitedUse { text, index: held });
                Ok(())
            }
            RequestReason::MakeSecretId => {
                let text = text_of(&told.data["secret_id"])?;
                let id = self.estate.secret_ids.len();
                self.invariants.single_use.made(Thing::SecretId(id), SECRET_ID_USES);
                self.estate.secret_ids.push(LimitedUse { text, index: held });
                Ok(())
            }
            RequestReason::Fetch { token } => {
                own::fetched(token, intake.server, told.data["of"].as_u64())
            }
            RequestReason::Lease { owner, secs } => self.lease_made(intake, told, owner, secs),
            RequestReason::RenewLease { user, secs } => {
                self.invariants.credentials.renewed(&user, Some((intake.at, secs)));
                self.expect_user(&user)
            }
            RequestReason::Unwrap { wrap } => self.granted(Thing::Wrap(wrap), intake),
            RequestReason::LogIn { secret_id } => {
                self.granted(Thing::SecretId(secret_id), intake)?;
                self.token_made(intake, told, held, (None, LEASE_SECS, LEASE_SECS, 0));
                Ok(())
            }
            RequestReason::Write { .. }
            | RequestReason::Read { .. }
            | RequestReason::Look { .. }
            | RequestReason::Use { .. }
            | RequestReason::Keep { .. }
            | RequestReason::Seal
            | RequestReason::Rotate
            | RequestReason::EndLease { .. }
            | RequestReason::Tidy
            | RequestReason::Renew { .. } => Ok(()),
        }
    }

    fn lease_made(
        &mut self,
        intake: &IntakePoint,
        told: &AnswerParts,
        owner: usize,
        secs: u64,
    ) -> Result<(), InvariantViolation> {
        let user = text_of(&told.data["username"])?;
        self.figures.credentials += 1;
        self.invariants.credentials.made(&user, &told.lease, owner, intake.at, secs);
        self.expect_user(&user)
    }

    /// A user that somebody was just told of is there.
    fn expect_user(&self, user: &str) -> Result<(), InvariantViolation> {
        match self.far_end.has(user) {
            true => Ok(()),
            false => self.invariants.credentials.gone(user, &self.estate, self.estate.latest),
        }
    }

    fn judge_look(
        &mut self,
        intake: &IntakePoint,
        key: &str,
        asked: Option<u64>,
        answer: &CoreAnswer,
    ) -> Result<(), InvariantViolation> {
        let (version, value) = match answer {
            CoreAnswer::Done(told) => {
                let version = told.data["metadata"]["version"].as_u64().unwrap_or_default();
                (version, told.data["data"]["v"].as_str())
            }
            // There is nothing.
            CoreAnswer::Refused(_) => (0, None),
            _ => return Ok(()),
        };
        self.figures.local_reads += 1;
        let IntakePoint { server, held, .. } = *intake;
        self.invariants.versions.looked(&SecretLook { server, held, key, asked, version, value })
    }

    fn granted(&mut self, thing: Thing, intake: &IntakePoint) -> Result<(), InvariantViolation> {
        self.figures.single_uses += 1;
        self.invariants.single_use.granted(thing, intake.server)
    }

    fn judge_bearer(
        &mut self,
        token: usize,
        intake: &IntakePoint,
        answer: &CoreAnswer,
    ) -> Result<(), InvariantViolation> {
        match answer {
            CoreAnswer::Done(_) => {
                self.figures.borne += 1;
                self.invariants.lifetimes.used(token, intake.server, intake.at)?;
                revoked::used(&self.estate, token, intake.server, intake.held)?;
                self.invariants.single_use.granted(Thing::Token(token), intake.server)
            }
            CoreAnswer::Denied => {
                self.figures.turned_away += 1;
                kept::refused(&self.estate, token, intake.server, intake.held, intake.at)
            }
            CoreAnswer::Refused(_)
            | CoreAnswer::NotLeader
            | CoreAnswer::Sealed
            | CoreAnswer::Unclear(_)
            | CoreAnswer::Internal => Ok(()),
        }
    }

    fn token_made(
        &mut self,
        intake: &IntakePoint,
        told: &AnswerParts,
        held: u64,
        (parent, secs, secs_max, uses): (Option<usize>, u64, u64, u64),
    ) {
        let number = self.estate.tokens.len();
        let secs_max = secs_max.min(LEASE_SECS);
        self.invariants.lifetimes.made(number, intake.at, secs, secs_max);
        if uses > 0 {
            self.invariants.single_use.made(Thing::Token(number), uses);
        }
        let text = told.auth["client_token"].as_str().unwrap_or_default().to_owned();
        self.figures.tokens += 1;
        self.estate.tokens.push(SimToken {
            text,
            parent,
            index: held,
            uses,
            tried: 0,
            sure_until: Some(Timestamp::MAX),
            doomed: false,
            gone_at: None,
        });
        self.estate.may_end_at(number, intake.at, secs.min(secs_max));
    }
}

fn text_of(value: &Value) -> Result<String, InvariantViolation> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| violated("an answer says what it hands out")(value.to_string()))
}
