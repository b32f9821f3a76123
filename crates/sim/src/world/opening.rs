//! The first core: it is initialised and unsealed while its server is alone, and gets what tenants need: a policy, and a role to
//! log in by.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use kallisto_core::{InitSpec, Initialized, KvVersion, Operation};
use secrecy::ExposeSecret;
use serde_json::json;

use super::SimWorld;
use super::tenants::{POLICY, SECRET_ID_USES};
use crate::estate::{ROOT, SimToken};
use crate::invariants::{InvariantViolation, violated};
use crate::site::asks::{Ask, CoreAnswer, Flight};
use crate::site::background::RunningTask;
use crate::site::far_end::ENGINE_NAME;

/// Most turns of a server for something that it does alone.
const TURNS_MAX: usize = 1000;
/// Most steps of the world for the same, where a database is asked.
const STEPS_MAX: usize = 100_000;
/// What tenants may do.
const RULES: &str = r#"
path "secret/*" { capabilities = ["create", "read", "update", "delete", "list"] }
path "auth/token/create" { capabilities = ["create", "update"] }
path "far/creds/*" { capabilities = ["create", "update"] }
"#;

impl SimWorld {
    /// Opens the core of the first server.
    pub(super) fn open_first(&mut self) -> Result<(), InvariantViolation> {
        let Some(id) = self.servers.keys().next().copied() else { return Ok(()) };
        for _ in 0..STEPS_MAX {
            if self.servers.get(&id).is_some_and(|server| server.store.is_some()) {
                break;
            }
            self.step()?;
        }
        let core =
            self.servers.get(&id).and_then(|s| s.site.as_ref()).map(|site| site.core.clone());
        let Some(core) = core else { return Ok(()) };
        let failed = |what: String| violated("a core begins")(what);
        let spec =
            InitSpec { shares: 1, threshold: 1, root_token: None, mount_kv: Some(KvVersion::V2) };
        let now = self.servers[&id].wall.now(self.now);
        let made = self.settle(id, async move { core.initialize(&spec, now).await })?;
        let made = made.map_err(|error| failed(format!("{error:?}")))?;
        self.estate.keys = Initialized::hex(&made.keys);
        let key = json!({ "key": self.estate.keys.first() });
        self.ask_first(id, "sys/unseal", "", &key)?;
        self.estate.tokens.push(SimToken {
            text: made.root_token.expose_secret().to_owned(),
            parent: None,
            index: 0,
            uses: 0,
            tried: 0,
            sure_until: None,
            doomed: false,
            gone_at: None,
        });
        let root = self.estate.tokens[ROOT].text.clone();
        self.ask_first(
            id,
            &format!("sys/policies/acl/{POLICY}"),
            &root,
            &json!({ "policy": RULES }),
        )?;
        self.ask_first(id, "sys/auth/approle", &root, &json!({ "type": "approle" }))?;
        let far = json!({ "type": ENGINE_NAME, "options": self.far_end.options() });
        self.ask_first(id, "sys/mounts/far", &root, &far)?;
        let role = json!({ "token_policies": [POLICY], "secret_id_num_uses": SECRET_ID_USES });
        let path = format!("auth/approle/role/{POLICY}");
        self.ask_first(id, &path, &root, &role)?;
        let ask = Ask::new(Operation::Read, path + "/role-id", &root);
        let answer = self.answer_first(id, ask)?;
        let role_id = answer.answer_parts().and_then(|told| told.data["role_id"].as_str());
        self.estate.role_id = role_id.unwrap_or_default().to_owned();
        self.look(id)
    }

    fn ask_first(
        &mut self,
        id: u64,
        path: &str,
        token: &str,
        body: &serde_json::Value,
    ) -> Result<(), InvariantViolation> {
        let ask = Ask::new(Operation::Update, path, token).with(body);
        match self.answer_first(id, ask)? {
            CoreAnswer::Done(_) => Ok(()),
            other => Err(violated("a core begins")(format!("{path}: {other:?}"))),
        }
    }

    fn answer_first(&mut self, id: u64, ask: Ask) -> Result<CoreAnswer, InvariantViolation> {
        let Some(server) = self.servers.get(&id) else { return Ok(CoreAnswer::Sealed) };
        let Some(site) = &server.site else { return Ok(CoreAnswer::Sealed) };
        let mut flight = Flight::ask(site.core.clone(), ask, server.wall.now(self.now));
        self.settle(
            id,
            std::future::poll_fn(move |_| flight.poll().map_or(Poll::Pending, Poll::Ready)),
        )
    }

    /// Has a server that is alone do something to its end, tasks included.
    fn settle<T>(
        &mut self,
        id: u64,
        future: impl Future<Output = T>,
    ) -> Result<T, InvariantViolation> {
        let mut future = pin!(future);
        if self.has_database() {
            for _ in 0..STEPS_MAX {
                let waker = &mut Context::from_waker(Waker::noop());
                if let Poll::Ready(done) = future.as_mut().poll(waker) {
                    return Ok(done);
                }
                self.look(id)?;
                self.step()?;
            }
            return Err(violated("a core begins")("it is not done".into()));
        }
        for _ in 0..TURNS_MAX {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return Ok(done);
            }
            let Some(server) = self.servers.get_mut(&id) else { break };
            server.drive(&self.setup);
            let Some(site) = &server.site else { break };
            for task in site.tasks.take() {
                let seed = self.dice.u64(..);
                let failed = |error: std::io::Error| {
                    violated("the simulation has threads")(error.to_string())
                };
                RunningTask::begin(task, seed).map_err(failed)?.run_through();
            }
        }
        Err(violated("a core begins")("it is not done".into()))
    }
}
