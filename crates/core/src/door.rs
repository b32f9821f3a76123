//! The door: what a server holds, and the one way in.
//!
//! Order of a request: the unauthenticated family, then whether there is a cluster to ask, then who
//! asks, then whether they may, then the route. A refusal of who asks and one of whether they may
//! say the same to those without a right.

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::{Authorized, authorize};
use kallisto_store::{Batch, Seqno, Store};
use secrecy::{ExposeSecret, SecretString};

use crate::cluster::{Cluster, TokenKey};
use crate::error::{Denial, Error};
use crate::keys::{self, MountId};
use crate::latches::Latches;
use crate::mount::{EngineKind, MountConfig, MountEntry};
use crate::request::Request;
use crate::response::Response;
use crate::view::View;
use crate::{kv, random, sys, token, token_routes};

/// What this server says of itself.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The Vault-like version that clients gate their features on.
    pub version: String,
    /// When the running code was committed, as RFC 3339 text.
    pub build_date: String,
    /// The name of the storage type, such as `inmem`.
    pub storage_type: String,
    /// Where clients reach this server, such as `http://127.0.0.1:8200`.
    pub api_addr: String,
}

/// The root token of a dev server.
pub enum DevRoot {
    /// Draw one.
    Random,
    /// Use this text, as `-dev-root-token-id` asks.
    Given(SecretString),
}

/// A server's state and its one door.
pub struct Core {
    pub(crate) view: Arc<View>,
    pub(crate) store: Box<dyn Store>,
    pub(crate) info: ServerInfo,
    pub(crate) latches: Latches,
}

/// A request that may run.
pub(crate) type Call<'c, 'r> = Authorized<&'c Request<'r>>;

impl Core {
    /// A core over `store`, whose fold must feed `view`.
    pub fn new(view: Arc<View>, store: Box<dyn Store>, info: ServerInfo) -> Self {
        Self { view, store, info, latches: Latches::new() }
    }

    /// The view, for measurements.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Initialises an empty store the way a dev server starts: a cluster, a root token, and KV v2
    /// at `secret/`. Returns the root token.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a token text no client could send; [`Error::Unavailable`] without
    /// randomness or when the store refuses.
    pub async fn initialize_dev(
        &self,
        root: DevRoot,
        now: Timestamp,
    ) -> Result<SecretString, Error> {
        let text = match root {
            DevRoot::Random => token::make_text()?,
            DevRoot::Given(text) => text,
        };
        check_token_text(text.expose_secret())?;
        let mut key = zeroize::Zeroizing::new([0; 32]);
        random::fill(&mut *key)?;
        let id = random::make_uuid()?;
        let name = format!("vault-cluster-{}", &id[..8]);
        let cluster = Cluster { id, name, token_key: TokenKey::new(key) };
        let hash = cluster.token_key.hash(text.expose_secret());

        let mut batch = Batch::new();
        batch.expect(keys::cluster(), Seqno::ABSENT);
        batch.put(keys::cluster(), cluster.encode());
        batch.put(keys::token(hash.as_ref()), token::encode(&token::make_root(now)?));
        let system = self.builtin_mount(MountId(0), "sys/", EngineKind::System)?;
        let secret = self.builtin_mount(MountId(1), "secret/", EngineKind::KvV2)?;
        for entry in [system, secret] {
            batch.put(keys::mount(entry.id), entry.encode());
        }
        batch.put(keys::mount_counter(), 1_u32.to_be_bytes().to_vec());
        self.store.commit(batch).await?;
        Ok(text)
    }

    /// Answers one request.
    ///
    /// # Errors
    /// What the client may hear: see [`Error`].
    pub async fn handle(&self, request: &Request<'_>) -> Result<Response, Error> {
        if !matches!(request.namespace.trim_matches('/'), "" | "root") {
            return Err(Error::NoNamespace);
        }
        let path = request.path.as_str();
        let sys_path = path.strip_prefix("sys/");
        if let Some(answer) = sys_path.and_then(|path| sys::unauthenticated(self, path, request)) {
            return answer;
        }
        if self.view.cluster().is_none() {
            return Err(Error::Sealed);
        }
        let call = self.admit(request)?;
        if request.wrap_ttl_secs > 0 {
            return Err(Error::invalid("response wrapping is not available on this server"));
        }
        if let Some(path) = sys_path {
            return Box::pin(sys::handle(self, &call, path)).await;
        }
        if let Some(path) = path.strip_prefix("auth/token/") {
            return token_routes::handle(self, &call, path);
        }
        match self.view.mounts.route(path) {
            // A write waits for its commit; boxing it keeps the future of a read small.
            Some((mount, inside)) if call.operation.writes() => {
                Box::pin(kv::write(self, &call, &mount, inside)).await
            }
            Some((mount, inside)) => kv::read(self, &call, &mount, inside),
            None => Err(Error::NoRoute(path.to_owned())),
        }
    }

    /// Authenticates and authorises.
    fn admit<'c, 'r>(&self, request: &'c Request<'r>) -> Result<Call<'c, 'r>, Error> {
        let guard = self.view.tokens.pin();
        let token = token::find(&self.view, request.token, &guard)?;
        if token.is_expired(request.now) {
            return Err(Error::Denied(Denial::BadToken));
        }
        authorize(token, request, request.now).map_err(|_| Error::Denied(Denial::Policy))
    }

    fn builtin_mount(
        &self,
        id: MountId,
        path: &str,
        kind: EngineKind,
    ) -> Result<MountEntry, Error> {
        let uuid = random::make_uuid()?;
        let (description, options) = match kind {
            EngineKind::System => ("system endpoints for control, policy and debugging", None),
            EngineKind::KvV1 | EngineKind::KvV2 => {
                let version = [("version".to_owned(), "2".into())];
                ("key/value secret storage", Some(version.into_iter().collect()))
            }
        };
        Ok(MountEntry {
            id,
            path: path.to_owned(),
            kind,
            accessor: format!("{}_{}", kind.name(), &uuid[..8]),
            uuid,
            description: description.to_owned(),
            local: false,
            seal_wrap: kind == EngineKind::System,
            external_entropy_access: false,
            options,
            config: MountConfig::default(),
        })
    }
}

fn check_token_text(text: &str) -> Result<(), Error> {
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || text.len() > token::TOKEN_BYTES_MAX || !printable {
        return Err(Error::invalid(format!(
            "a root token id must be 1 to {} printable ASCII characters",
            token::TOKEN_BYTES_MAX
        )));
    }
    Ok(())
}
