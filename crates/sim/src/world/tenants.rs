//! What tenants ask: secrets, tokens and their children, renewals, revocations, wrapped answers, logins; each of any server.
//!
//! A tenant shows how far it has seen. It does one thing at a time, except where it tries to have something twice: then it asks two
//! servers at once. What it hears goes into the estate, where other tenants find it.

use kallisto_core::Operation;
use serde_json::json;

use super::SimWorld;
use super::serving::SimCall;
use crate::clients::{end_of_answer, micros};
use crate::estate::{LimitedUse, ROOT};
use crate::history::{Action, ClientOperation as Done, Expect, OperationEnd};
use crate::invariants::InvariantViolation;
use crate::sabotage::Sabotage;
use crate::site::LEASE_SECS;
use crate::site::asks::{Ask, CoreAnswer, Recency};

/// Secrets that tenants write.
const SECRETS: u64 = 4;
/// Where they are.
pub(super) const DATA: &str = "secret/data";
/// The policy of every token that is not root's.
pub(super) const POLICY: &str = "app";
/// Of so many draws of it a tenant does replace the data key once: each has all records written anew.
const ROTATED_ONE_IN: u8 = 8;
/// Of so many values of a tenant one may join a run of writes.
const JOINED_ONE_IN: u64 = 4;
/// Where a token keeps something of its own.
const CUBBYHOLE: &str = "cubbyhole/own";
/// How long a wrapped answer waits to be opened, in seconds.
const WRAP_SECS: u64 = 30;
/// Logins that the id of a secret is good for.
pub(super) const SECRET_ID_USES: u64 = 2;
/// Things among which a tenant picks: the newest.
const NEWEST: usize = 12;
/// Tokens that are shown to every server at the end.
const LAST_TOKENS: usize = 200;

/// A tenant.
#[derive(Debug, Default)]
pub(super) struct Tenant {
    /// How far it has seen.
    pub(super) index: u64,
    made: u64,
    /// A secret of whose last write it does not know whether it happened: it reads it next.
    doubts: Option<String>,
}

/// Why a request is sent. Tokens are named by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestReason {
    /// To write a secret.
    Write { key: String, action: Action },
    /// To read its latest.
    Read { key: String },
    /// To look at it on any server: at its current version, or at one.
    Look { key: String, version: Option<u64> },
    /// To see whether a token lets in.
    Use { token: usize },
    /// To make a child of a token.
    Make { parent: usize, secs: u64, secs_max: u64, uses: u64 },
    /// To renew a token by itself.
    Renew { token: usize, secs: u64 },
    /// To end a token.
    Revoke { token: usize },
    /// To have something wrapped.
    Wrap,
    /// To keep something in the own cubbyhole.
    Keep { token: usize },
    /// To look into it.
    Fetch { token: usize },
    /// To seal a core.
    Seal,
    /// To have a new key encrypt everything.
    Rotate,
    /// To open what was wrapped.
    Unwrap { wrap: usize },
    /// To have an id of a secret.
    MakeSecretId,
    /// To log in by one.
    LogIn { secret_id: usize },
    /// To have a credential with a lease.
    Lease { owner: usize, secs: u64 },
    /// To renew one.
    RenewLease { user: String, secs: u64 },
    /// To end one.
    EndLease { user: String },
    /// To have leases that could not be ended tried again.
    Tidy,
}

impl RequestReason {
    /// The token that the request bears.
    pub(super) fn bearer(&self) -> Option<usize> {
        match self {
            Self::Use { token }
            | Self::Keep { token }
            | Self::Fetch { token }
            | Self::Renew { token, .. } => Some(*token),
            Self::Make { parent, .. } => Some(*parent),
            Self::Lease { owner, .. } => Some(*owner),
            Self::Write { .. }
            | Self::Read { .. }
            | Self::Look { .. }
            | Self::Revoke { .. }
            | Self::Wrap
            | Self::Seal
            | Self::Rotate
            | Self::RenewLease { .. }
            | Self::EndLease { .. }
            | Self::Tidy
            | Self::MakeSecretId => Some(ROOT),
            Self::Unwrap { .. } | Self::LogIn { .. } => None,
        }
    }
}

impl SimWorld {
    /// A tenant asks for something.
    pub(super) fn tenant_asks(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let after = self.between(10, 150);
        self.schedule_client(tenant, after);
        if self.calm || self.calls.values().filter(|call| call.tenant == tenant).count() > 1 {
            return Ok(());
        }
        if let Some(key) = self.tenants[tenant].doubts.take() {
            return self.read_secret(tenant, key);
        }
        match self.dice.u8(..28) {
            0..=2 => self.write_secret(tenant),
            3 => {
                let key = format!("s{}", self.dice.u64(..SECRETS));
                self.read_secret(tenant, key)
            }
            4..=5 => self.look_at_secret(tenant),
            6..=8 => self.use_token(tenant),
            9..=11 => self.make_token(tenant),
            12..=13 => self.renew_token(tenant),
            14 => self.revoke_token(tenant),
            15 => {
                let body = json!({ "v": self.name_value(tenant) });
                let ask = self.root_ask(tenant, Operation::Update, "sys/wrapping/wrap").with(&body);
                self.ask_any(tenant, Ask { wrap_ttl_secs: WRAP_SECS, ..ask }, RequestReason::Wrap)
            }
            16..=17 => self.unwrap(tenant),
            18 => {
                let path = format!("auth/approle/role/{POLICY}/secret-id");
                let ask = self.root_ask(tenant, Operation::Update, &path).with(&json!({}));
                self.ask_any(tenant, ask, RequestReason::MakeSecretId)
            }
            19 => self.log_in(tenant),
            20 if self.dice.u8(..ROTATED_ONE_IN) == 0 => {
                let ask = self.root_ask(tenant, Operation::Update, "sys/rotate");
                self.ask_any(tenant, ask, RequestReason::Rotate)
            }
            20..=22 => self.use_cubbyhole(tenant),
            23..=24 => self.make_lease(tenant),
            25..=26 => self.renew_lease(tenant),
            _ => self.end_lease(tenant),
        }
    }

    /// A credential of a token of many uses, or of root's.
    fn make_lease(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let owner = match self.dice.bool() {
            true => self.pick_token().filter(|token| self.estate.tokens[*token].uses == 0),
            false => None,
        };
        let owner = owner.unwrap_or(ROOT);
        let secs = self.dice.u64(2..LEASE_SECS);
        let ask = self.borne(tenant, owner, Operation::Update, &format!("far/creds/{secs}"));
        self.ask_any(tenant, ask, RequestReason::Lease { owner, secs })
    }

    /// One of the newest users.
    fn pick_user(&mut self) -> Option<String> {
        let users = self.invariants.credentials.known();
        self.pick(users.len()).map(|user| users[user].clone())
    }

    fn renew_lease(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let Some(user) = self.pick_user() else { return Ok(()) };
        let Some((lease, _)) = self.invariants.credentials.lease_of(&user) else { return Ok(()) };
        let secs = self.dice.u64(2..LEASE_SECS);
        let ask = self.root_ask(tenant, Operation::Update, "sys/leases/renew");
        let ask = ask.with(&json!({ "lease_id": lease, "increment": format!("{secs}s") }));
        let Some(server) = self.draw_server() else { return Ok(()) };
        self.invariants.credentials.renewing(&user);
        self.begin(tenant, server, ask, RequestReason::RenewLease { user, secs })
    }

    fn end_lease(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let Some(user) = self.pick_user() else { return Ok(()) };
        let Some((lease, _)) = self.invariants.credentials.lease_of(&user) else { return Ok(()) };
        let body = json!({ "lease_id": lease, "sync": self.dice.bool() });
        let ask = self.root_ask(tenant, Operation::Update, "sys/leases/revoke").with(&body);
        self.invariants.credentials.doomed(&user);
        self.ask_any(tenant, ask, RequestReason::EndLease { user })
    }

    /// Has leases that could not be ended tried again.
    pub(super) fn tidy_leases(&mut self) -> Result<(), InvariantViolation> {
        let ask = self.root_ask(0, Operation::Update, "sys/leases/tidy").with(&json!({}));
        self.ask_any(0, ask, RequestReason::Tidy)
    }

    fn name_value(&mut self, tenant: usize) -> String {
        self.tenants[tenant].made += 1;
        format!("{tenant}-{}", self.tenants[tenant].made)
    }

    fn root_ask(&self, tenant: usize, operation: Operation, path: &str) -> Ask {
        let index = self.tenants[tenant].index;
        Ask::new(operation, path, &self.estate.tokens[ROOT].text).seen(index)
    }

    fn ask_any(
        &mut self,
        tenant: usize,
        ask: Ask,
        why: RequestReason,
    ) -> Result<(), InvariantViolation> {
        match self.draw_server() {
            Some(server) => self.begin(tenant, server, ask, why),
            None => Ok(()),
        }
    }

    /// One of the newest of so many things.
    fn pick(&mut self, count: usize) -> Option<usize> {
        (count > 0).then(|| count - 1 - self.dice.usize(..count.min(NEWEST)))
    }

    /// A token that is not root's.
    fn pick_token(&mut self) -> Option<usize> {
        self.pick(self.estate.tokens.len() - 1).map(|token| token + 1)
    }

    fn write_secret(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let key = format!("s{}", self.dice.u64(..SECRETS));
        let ask = self.root_ask(tenant, Operation::Update, &format!("{DATA}/{key}"));
        let (ask, action) = match self.dice.u8(..8) {
            0 => (Ask { operation: Operation::Delete, ..ask }, Action::Delete),
            1..=4 => {
                let value = self.name_value(tenant);
                let known = self.invariants.versions.newest_of(&key);
                let expected = known.saturating_sub(u64::from(self.dice.u8(..4) == 0));
                let body = json!({ "data": { "v": value }, "options": { "cas": expected } });
                (ask.with(&body), Action::Swap(Expect::Version(expected), value))
            }
            drawn => {
                let value = self.name_value(tenant);
                // Few: such a write is not told its version, and each of those doubles what the judge of a history has to look through.
                let joins = drawn == 7 && self.tenants[tenant].made.is_multiple_of(JOINED_ONE_IN);
                let ask = Ask { joins, ..ask };
                (ask.with(&json!({ "data": { "v": value } })), Action::Write(value))
            }
        };
        self.ask_any(tenant, ask, RequestReason::Write { key, action })
    }

    fn read_secret(&mut self, tenant: usize, key: String) -> Result<(), InvariantViolation> {
        let ask = self.root_ask(tenant, Operation::Read, &format!("{DATA}/{key}"));
        let ask = Ask { recency: Recency::Everything, ..ask };
        self.ask_any(tenant, ask, RequestReason::Read { key })
    }

    fn look_at_secret(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let key = format!("s{}", self.dice.u64(..SECRETS));
        let ask = self.root_ask(tenant, Operation::Read, &format!("{DATA}/{key}"));
        let ask = self.by_default(ask);
        self.ask_any(tenant, ask, RequestReason::Look { key, version: None })
    }

    /// The same request, which sometimes does not say what its client has seen: as most requests are.
    fn by_default(&mut self, ask: Ask) -> Ask {
        if self.dice.bool() { ask.seen(0) } else { ask }
    }

    /// A request that bears a token, from a tenant that has seen its making and, sometimes, its end.
    fn borne(&mut self, tenant: usize, token: usize, operation: Operation, path: &str) -> Ask {
        let known = &self.estate.tokens[token];
        let mut index = self.tenants[tenant].index.max(known.index);
        let text = known.text.clone();
        if self.dice.bool() {
            index = index.max(self.estate.gone_at(token).unwrap_or_default());
        }
        Ask::new(operation, path, &text).seen(index)
    }

    fn use_token(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let Some(token) = self.pick_token() else { return Ok(()) };
        let ask = self.borne(tenant, token, Operation::Read, "auth/token/lookup-self");
        let ask = self.by_default(ask);
        if self.dice.u8(..3) == 0 {
            self.ask_any(tenant, ask.clone(), RequestReason::Use { token })?;
        }
        self.ask_any(tenant, ask, RequestReason::Use { token })
    }

    /// Puts something into the cubbyhole of a token, or looks what is there: what was put by the same token.
    fn use_cubbyhole(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let Some(token) = self.pick_token() else { return Ok(()) };
        if self.dice.bool() {
            let ask = self.borne(tenant, token, Operation::Read, CUBBYHOLE);
            return self.ask_any(tenant, ask, RequestReason::Fetch { token });
        }
        let ask = self.borne(tenant, token, Operation::Update, CUBBYHOLE);
        self.ask_any(tenant, ask.with(&json!({ "of": token })), RequestReason::Keep { token })
    }

    /// An operator seals a server's core.
    pub(super) fn seal(&mut self, server: u64) -> Result<(), InvariantViolation> {
        let ask = self.root_ask(0, Operation::Update, "sys/seal");
        let ask = Ask { recency: Recency::Seen(0), ..ask };
        self.begin(0, server, ask, RequestReason::Seal)
    }

    fn make_token(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let parent = match self.dice.u8(..3) {
            0 => self.pick_token().filter(|token| self.estate.tokens[*token].uses == 0),
            _ => None,
        };
        let parent = parent.unwrap_or(ROOT);
        let (secs, secs_max) = (self.dice.u64(3..40), self.dice.u64(5..40));
        let uses = if self.dice.u8(..3) == 0 { self.dice.u64(1..4) } else { 0 };
        let body = json!({
            "policies": [POLICY],
            "ttl": format!("{secs}s"),
            "explicit_max_ttl": format!("{secs_max}s"),
            "num_uses": uses,
        });
        let ask = self.borne(tenant, parent, Operation::Update, "auth/token/create").with(&body);
        self.ask_any(tenant, ask, RequestReason::Make { parent, secs, secs_max, uses })
    }

    fn renew_token(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let Some(token) = self.pick_token() else { return Ok(()) };
        let secs = self.dice.u64(1..60);
        let ask = self.borne(tenant, token, Operation::Update, "auth/token/renew-self");
        let ask = ask.with(&json!({ "increment": format!("{secs}s") }));
        self.ask_any(tenant, ask, RequestReason::Renew { token, secs })
    }

    fn revoke_token(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let Some(token) = self.pick_token() else { return Ok(()) };
        let (text, index) =
            (self.estate.tokens[token].text.clone(), self.estate.tokens[token].index);
        let index = index.max(self.tenants[tenant].index);
        let ask = self.root_ask(tenant, Operation::Update, "auth/token/revoke");
        let ask = ask.seen(index).with(&json!({ "token": text }));
        self.ask_any(tenant, ask, RequestReason::Revoke { token })
    }

    /// Opens something twice, at two servers at once.
    fn unwrap(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let Some(wrap) = self.pick(self.estate.wraps.len()) else { return Ok(()) };
        let LimitedUse { text, index } = self.estate.wraps[wrap].clone();
        let ask = Ask::new(Operation::Update, "sys/wrapping/unwrap", &text);
        let ask = ask.seen(index.max(self.tenants[tenant].index));
        self.ask_any(tenant, ask.clone(), RequestReason::Unwrap { wrap })?;
        self.ask_any(tenant, ask, RequestReason::Unwrap { wrap })
    }

    fn log_in(&mut self, tenant: usize) -> Result<(), InvariantViolation> {
        let Some(secret_id) = self.pick(self.estate.secret_ids.len()) else { return Ok(()) };
        let LimitedUse { text, index } = self.estate.secret_ids[secret_id].clone();
        let body = json!({ "role_id": self.estate.role_id, "secret_id": text });
        let ask = Ask::new(Operation::Update, "auth/approle/login", "").with(&body);
        let ask = ask.seen(index.max(self.tenants[tenant].index));
        self.ask_any(tenant, ask.clone(), RequestReason::LogIn { secret_id })?;
        self.ask_any(tenant, ask, RequestReason::LogIn { secret_id })
    }

    /// What is asked of every server at the end: secrets with their versions, and the newest tokens, gone ones too.
    pub(super) fn last_asks(&self, held: u64) -> Vec<(Ask, RequestReason)> {
        let root = &self.estate.tokens[ROOT].text;
        let mut asks = Vec::new();
        for (key, versions) in self.invariants.versions.newest() {
            for version in versions.into_iter().map(Some).chain([None]) {
                let ask = Ask::new(Operation::Read, format!("{DATA}/{key}"), root).seen(held);
                let query = version.map(|version| ("version".to_owned(), version.to_string()));
                let ask = Ask { query: query.into_iter().collect(), ..ask };
                asks.push((ask, RequestReason::Look { key: key.clone(), version }));
            }
        }
        let count = self.estate.tokens.len();
        for token in count.saturating_sub(LAST_TOKENS).max(1)..count {
            let text = &self.estate.tokens[token].text;
            let ask = Ask::new(Operation::Read, "auth/token/lookup-self", text).seen(held);
            asks.push((ask, RequestReason::Use { token }));
        }
        asks
    }

    /// A tenant hears what came of its request.
    pub(super) fn heard(
        &mut self,
        call: SimCall,
        answer: &CoreAnswer,
        held: u64,
    ) -> Result<(), InvariantViolation> {
        let SimCall { tenant, why, began, .. } = call;
        self.note(83, held, || format!("{tenant} hears {answer:?} of {why:?}"));
        let told = answer.answer_parts();
        match answer {
            CoreAnswer::Done(_) => {
                self.tenants[tenant].index = self.tenants[tenant].index.max(held);
                self.figures.acknowledged += 1;
            }
            CoreAnswer::Unclear(_) => self.figures.unknown += 1,
            _ => self.figures.refused += 1,
        }
        match (why, told) {
            (RequestReason::Write { key, action }, _) => {
                let at = micros(self.now);
                if matches!(answer, CoreAnswer::Unclear(_)) {
                    self.tenants[tenant].doubts = Some(key.clone());
                }
                let end = match (answer, self.plan.sabotage) {
                    (CoreAnswer::Unclear(_), Some(Sabotage::EarlyAck)) => {
                        OperationEnd::Done { at, found: None, version: None }
                    }
                    _ => end_of_answer(answer, at),
                };
                if let (
                    Action::Write(value) | Action::Swap(_, value),
                    OperationEnd::Done { version: Some(version), .. },
                ) = (&action, &end)
                {
                    self.invariants.versions.learn(&key, *version, value, held)?;
                }
                self.done(tenant, key, action, began, end);
            }
            (RequestReason::Read { key }, told) => {
                let end = match told {
                    Some(told) => {
                        self.figures.linear_reads += 1;
                        let found = told.data["data"]["v"].as_str().map(str::to_owned);
                        OperationEnd::Done { at: micros(self.now), found, version: None }
                    }
                    None if matches!(answer, CoreAnswer::Refused(_)) => {
                        OperationEnd::Done { at: micros(self.now), found: None, version: None }
                    }
                    None => OperationEnd::Failed,
                };
                self.done(tenant, key, Action::Read, began, end);
            }
            // One that is of unknown outcome may have happened: what it was sure of is settled at the doors.
            (RequestReason::RenewLease { user, .. }, _) => {
                self.invariants.credentials.renewed(&user, None)
            }
            _ => {}
        }
        Ok(())
    }

    fn done(
        &mut self,
        tenant: usize,
        key: String,
        action: Action,
        began: std::time::Duration,
        end: OperationEnd,
    ) {
        let call = micros(began);
        self.invariants.order.ended(Done { client: tenant as u64, key, action, call, end });
    }
}
