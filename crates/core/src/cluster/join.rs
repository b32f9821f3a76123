//! The joiner's side: a new server becomes part of a cluster that exists.
//!
//! Joining has two halves. First the server learns how the cluster is sealed ([`Core::join`]), and from then on its
//! `seal-status` shows that seal. Once it holds the root key, by shares or by itself, it proves so, is given a number and
//! a certificate, is sent everything, and unseals ([`PendingJoin::finish`]). Its key is on its disk before it asks for them, so the
//! cluster knows it again where it did not hear the answer.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use jiff::Timestamp;
use kallisto_barrier::RootKey;
use kallisto_store::{Invitation, MemberRole, Peer, Replicated, Store};
use secrecy::ExposeSecret;
use tokio::sync::oneshot;

use super::admit::answer_bytes;
use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::cluster::protocol::ANSWER;
use crate::cluster::protocol::WELCOME;
use crate::cluster::protocol::covered;
use crate::cluster::protocol::peers_from_json;
use crate::platform::cluster_port::ClusterPort;
use crate::platform::cluster_port::JoinTarget;
use crate::platform::cluster_port::Membership;
use crate::state::Core;
use crate::state::joining::PendingJoin;
use crate::state::seal::SealConfig;
use crate::storage::keys;

/// How long a server that joined waits for the cluster's keyring before whoever unseals it hears why it may not have come: less than
/// clients wait for an answer, with the time of the requests to join.
const KEYRING_WAIT: Duration = Duration::from_secs(20);
/// How often it looks.
const KEYRING_PAUSE: Duration = Duration::from_millis(20);
/// Most characters of an address or an error, which others chose, in a line of the log.
const LOGGED_CHARS_MAX: usize = 300;

impl Core {
    /// Whether this server has neither been initialised nor told to join a cluster.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn is_blank(&self) -> Result<bool, Error> {
        Ok(self.seal_config()?.is_none())
    }

    /// Whether this server joined a cluster that has sent it nothing yet.
    pub fn is_unsent(&self) -> bool {
        self.store.replicated().is_some_and(is_unsent)
    }

    /// Learns how `target`'s cluster is sealed; this server joins once it holds the unseal key. `now` paces requests.
    ///
    /// # Errors
    /// [`Error::Invalid`] when this server holds something already, or the target does not answer; [`Error::Unavailable`]
    /// when requests try too often.
    pub async fn join(&self, target: JoinTarget, now: Timestamp) -> Result<(), Error> {
        let port = self.blank_port()?;
        let attempt = target.is_requested.then(|| self.joining.attempts.begin(now)).transpose()?;
        let (tell, told) = oneshot::channel();
        let run = move || {
            let outcome = learn(&*port, &target);
            let outcome = outcome.map_err(|why| Error::Invalid(target.told_of(&why)));
            // Here, not with the request, which may be given up earlier: one attempt at a time.
            drop(attempt);
            // Nobody may be left to hear it.
            let _ = tell.send(outcome.map(|config| PendingJoin { target, config }));
        };
        let spawned = std::thread::Builder::new().name("join".into()).spawn(run);
        spawned.map_err(|error| Error::Unavailable(format!("no thread to join on: {error}")))?;
        let pending = told.await.map_err(|_| Error::internal(&"joining ended early"))??;
        let turn = self.seal.turn().await;
        // It may have been initialised meanwhile.
        self.blank_port()?;
        *self.joining.lock() = Some(pending);
        drop(turn);
        tracing::info!("told to join a cluster: waiting for its unseal key");
        Ok(())
    }

    /// The cluster port, of a server that holds nothing yet.
    fn blank_port(&self) -> Result<Arc<dyn ClusterPort>, Error> {
        let (Some(port), Some(cluster)) = (&self.port, self.store.replicated()) else {
            return Err(Error::UnsupportedPath);
        };
        if cluster.shares_records() {
            let why = "the storage is a database: a server that reads it is part of its cluster";
            return Err(Error::invalid(why));
        }
        if self.store.get(&keys::seal_config())?.is_some() {
            return Err(Error::invalid("this server is initialized: it cannot join another"));
        }
        Ok(Arc::clone(port))
    }
}

/// Whether this server joined a cluster that has sent it nothing yet: it does not even know the members.
fn is_unsent(cluster: &dyn Replicated) -> bool {
    !cluster.shares_records() && cluster.members().is_empty()
}

/// What whoever unseals a server hears that has no seal.
pub(crate) fn without_seal(core: &Core) -> Error {
    match core.is_unsent() {
        true => unsent(core.port.as_deref()),
        false => Error::invalid("Vault is not initialized"),
    }
}

/// What whoever unseals a server hears that joined a cluster, which has sent it nothing yet.
pub(crate) fn unsent(port: Option<&dyn ClusterPort>) -> Error {
    let address = port.map(|port| port.own().cluster_address).unwrap_or_default();
    Error::Unavailable(format!(
        "this server has joined a cluster, which has sent it nothing yet: unseal it again in a moment. If this lasts, the members do \
         not reach it at its cluster_addr {address}: their logs say why"
    ))
}

impl JoinTarget {
    /// What is told of a failure: all of it, unless anybody may be the one who hears it.
    fn told_of(&self, why: &str) -> String {
        if !self.is_requested {
            return format!("failed to join: {why}");
        }
        // What others chose is shown as quoted text, and no more of it than a line has.
        let shown = |text: &str| text.chars().take(LOGGED_CHARS_MAX).collect::<String>();
        let (address, why) = (shown(&self.api_address), shown(why));
        tracing::warn!(?address, ?why, "failed to join");
        "failed to join: the address did not answer as a member of a cluster; the log of this \
         server says more"
            .to_owned()
    }
}

fn learn(port: &dyn ClusterPort, target: &JoinTarget) -> Result<SealConfig, String> {
    let answer = ask(port, target, "challenge", &Json::Object(Map::new()))?;
    let config = SealConfig::decode(&bytes(&answer, "seal")?);
    config.ok_or_else(|| "the other server's seal cannot be read".to_owned())
}

fn ask(
    port: &dyn ClusterPort,
    target: &JoinTarget,
    verb: &str,
    body: &Json,
) -> Result<Map, String> {
    let path = format!("sys/storage/raft/bootstrap/{verb}");
    match port.ask(target, &path, body)? {
        Json::Object(map) => Ok(map),
        _ => Err("the other server's answer is no object".to_owned()),
    }
}

fn text<'a>(answer: &'a Map, name: &str) -> Result<&'a str, String> {
    let found = answer.get(name).and_then(Json::as_str);
    found.ok_or_else(|| format!("the other server's answer has no {name}"))
}

fn bytes(answer: &Map, name: &str) -> Result<Vec<u8>, String> {
    let decoded = BASE64.decode(text(answer, name)?.as_bytes());
    decoded.map_err(|_| format!("the other server's {name} is not base64"))
}

impl PendingJoin {
    /// Joins, with the root key in hand, and waits until what the cluster holds has come. Blocks.
    ///
    /// # Errors
    /// What the other server said, or did not.
    pub(crate) fn finish(
        &self,
        root: &RootKey,
        port: &dyn ClusterPort,
        store: &dyn Store,
    ) -> Result<(), Error> {
        let cluster = store.replicated().ok_or(Error::UnsupportedPath)?;
        // Its place is taken by itself, where an earlier attempt or an earlier start got so far.
        if !is_unsent(cluster) {
            let failed = |why: String| Error::Unavailable(self.target.told_of(&why));
            let (membership, peers) = self.prove(root, port).map_err(failed)?;
            let Membership { node_id, store_id, .. } = membership;
            port.install(&membership).map_err(failed)?;
            cluster.join(Invitation { store_id, node_id, peers }).wait()?;
            tracing::info!(node = format_args!("{node_id:016x}"), "joined a cluster");
        }
        for _ in 0..KEYRING_WAIT.as_millis() / KEYRING_PAUSE.as_millis() {
            if store.get(&keys::keyring())?.is_some() {
                return Ok(());
            }
            std::thread::sleep(KEYRING_PAUSE);
        }
        let address = port.own().cluster_address;
        tracing::warn!(
            address,
            "joined a cluster, and nothing was sent yet: its members may not reach this server at its address"
        );
        Err(unsent(Some(port)))
    }

    fn prove(
        &self,
        root: &RootKey,
        port: &dyn ClusterPort,
    ) -> Result<(Membership, Vec<Peer>), String> {
        let key = |label| root.tag_key(label).map_err(|error| error.to_string());
        let asked = ask(port, &self.target, "challenge", &Json::Object(Map::new()))?;
        let challenge = bytes(&asked, "challenge")?;
        let peer = Peer { wants: self.target.wants, ..port.own() };
        let public_key = port.public_key()?;
        let tag = key(ANSWER)?.sign(&answer_bytes(&challenge, &peer, &public_key));
        let body = Json::object([
            ("challenge", BASE64.encode(&challenge).into()),
            ("name", peer.name.as_str().into()),
            ("cluster_address", peer.cluster_address.as_str().into()),
            ("api_address", peer.api_address.as_str().into()),
            ("non_voter", (peer.wants == MemberRole::Learner).into()),
            ("public_key", BASE64.encode(&public_key).into()),
            ("token", self.target.token.expose_secret().into()),
            ("tag", BASE64.encode(&tag).into()),
        ]);
        let welcome = ask(port, &self.target, "answer", &body)?;
        let node_id = u64::from_str_radix(text(&welcome, "node_id")?, 16);
        let node_id = node_id.map_err(|_| "the other server's node_id is none".to_owned())?;
        let store_id = <[u8; 16]>::try_from(bytes(&welcome, "store_id")?);
        let store_id = store_id.map_err(|_| "the other server's store_id is none".to_owned())?;
        let certificate = bytes(&welcome, "certificate")?;
        let authority = bytes(&welcome, "authority")?;
        let peers = text(&welcome, "peers")?;
        let parts: [&[u8]; 6] = [
            &challenge,
            &node_id.to_le_bytes(),
            &store_id,
            &certificate,
            &authority,
            peers.as_bytes(),
        ];
        if !key(WELCOME)?.verify(&covered(&parts), &bytes(&welcome, "tag")?) {
            return Err("the other server does not prove the unseal key".to_owned());
        }
        let wrapped = format!("{{\"peers\":{peers}}}");
        let parsed = json::parse_object(wrapped.as_bytes()).ok();
        let peers = parsed.as_ref().and_then(|map| peers_from_json(map.get("peers")?));
        let peers = peers.ok_or_else(|| "the other server's peers cannot be read".to_owned())?;
        Ok((Membership { node_id, store_id, certificate, authority }, peers))
    }
}
