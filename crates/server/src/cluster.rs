//! The cluster port of this server, and what it stands between: the store's peers, the core's joining, the listeners'
//! requests that another server answers.
//!
//! In `peers/` of the store's directory: `node.key` (this server's private key, PKCS #8), `node.crt` (its certificate, DER,
//! behind its number and store), `authority.crt`, and `node-next.key` once the certificate was renewed. They are on the disk in the clear, as a listener's key is: a sealed
//! server replicates too. What they open is a place among the peers, not a record.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kallisto_core::{
    AuthorityKeys, ClusterPort, Core, JoinTarget, Json, MemberReport, Membership, Reports,
};
use kallisto_listener::http::{HttpService, Leader, Relay, Unrelayed};
use kallisto_listener::{SystemClock, WallClock};
use kallisto_peers::{ClusterAuthority, NodeKey, PeerIdentity, Port, Unanswered, Upper};
use kallisto_store::{Announcement, Chunks, Peer, Replicated, Store};
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::directory::ownership;
use super::retry_join;
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::{Audience, Config, Environment, TlsSettings};
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::flags::CommonFlags;

const DIRECTORY: &str = "peers";
const KEY_FILE: &str = "node.key";
/// The key of a renewal that is under way.
const NEXT_KEY_FILE: &str = "node-next.key";
const CERTIFICATE_FILE: &str = "node.crt";
const AUTHORITY_FILE: &str = "authority.crt";
/// Longest that a server may take to answer one that a request told to join it.
const REQUESTED_JOIN_TIMEOUT: Duration = Duration::from_secs(10);
/// What one member asks another to be told how it is, in the place of a request that is relayed: a format of its own, and nothing behind it.
const REPORT_QUESTION: [u8; 1] = [2];
/// Longest that a member may take to say how it is.
const REPORT_WAIT: Duration = Duration::from_secs(1);
/// Bytes before the certificate in its file: the server's number and its store.
const CERTIFICATE_HEAD_BYTES: usize = 8 + 16;

/// What a server's cluster port is told.
pub(super) struct ClusterSettings {
    /// Where to listen.
    pub(super) address: SocketAddr,
    /// This server as it wants to be known.
    pub(super) own: Peer,
    /// Clusters to join at the first start.
    pub(super) retry_join: Vec<JoinTarget>,
    /// How many times longer than usual an election may take.
    pub(super) patience: u32,
}

/// The cluster port with its files.
pub(super) struct ClusterPortFiles {
    pub(super) port: Arc<Port>,
    /// Where they are; a server without a disk keeps them in memory, and gets others at its next start.
    directory: Option<PathBuf>,
    /// One change of the files at a time; what is kept in memory instead.
    files: Mutex<()>,
    kept: Mutex<BTreeMap<String, Zeroizing<Vec<u8>>>>,
}

impl ClusterPortFiles {
    /// Binds the port, with the identity that is kept in `storage`, if there is one.
    pub(super) fn open(
        settings: &ClusterSettings,
        storage: Option<&Path>,
    ) -> Result<Arc<Self>, Error> {
        let directory = storage.map(|storage| storage.join(DIRECTORY));
        let failed = |what: &dyn std::fmt::Display| {
            Error::usage(format!("cluster port {}: {what}", settings.address))
        };
        let unusable = |what: &dyn std::fmt::Display| match &directory {
            None => Error::usage(format!("the cluster's keys: {what}")),
            Some(directory) => {
                let (shown, whose) = (directory.display(), ownership(directory));
                Error::usage(format!("the cluster's files at {shown}: {what}{whose}"))
            }
        };
        if let Some(directory) = &directory {
            files::create_private_directories(directory).map_err(|error| unusable(&error))?;
        }
        let port =
            Port::bind(settings.address, settings.own.clone()).map_err(|error| failed(&error))?;
        let this = Self {
            port: Arc::new(port),
            directory: directory.clone(),
            files: Mutex::default(),
            kept: Mutex::default(),
        };
        let stored = this.stored(KEY_FILE).map_err(|why| unusable(&why))?;
        if let Some(identity) = stored
            && let Err(error) = this.port.install(&identity)
        {
            // A renewal broke off between the certificate and its key.
            let next = this.stored(NEXT_KEY_FILE).map_err(|why| unusable(&why))?;
            let next = next.ok_or_else(|| unusable(&error))?;
            this.port.install(&next).map_err(|_| unusable(&error))?;
        }
        Ok(Arc::new(this))
    }

    /// The identity that is kept, with the key in this file.
    fn stored(&self, key_file: &str) -> Result<Option<PeerIdentity>, String> {
        let Some(private) = self.read(key_file)? else { return Ok(None) };
        let Some(certificate) = self.read(CERTIFICATE_FILE)? else { return Ok(None) };
        let Some(authority) = self.read(AUTHORITY_FILE)? else { return Ok(None) };
        let head = certificate.split_at_checked(CERTIFICATE_HEAD_BYTES);
        let (head, certificate) = head.ok_or_else(|| format!("{CERTIFICATE_FILE} is cut"))?;
        let (node_id, store_id) = head.split_at(8);
        let damaged = |_| format!("{CERTIFICATE_FILE} is damaged");
        Ok(Some(PeerIdentity {
            node_id: u64::from_le_bytes(node_id.try_into().map_err(damaged)?),
            store_id: store_id.try_into().map_err(damaged)?,
            key: NodeKey::from_private(private).map_err(|error| error.to_string())?,
            certificate: certificate.to_vec(),
            authority,
        }))
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Zeroizing<Vec<u8>>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(directory) = &self.directory else {
            return Ok(self.kept().get(name).map(|bytes| bytes.to_vec()));
        };
        match files::read(&directory.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let Some(directory) = &self.directory else {
            self.kept().insert(name.to_owned(), Zeroizing::new(bytes.to_vec()));
            return Ok(());
        };
        let path = directory.join(name);
        files::write_private(&path, bytes).map_err(|error| format!("{name}: {error}"))
    }

    fn write_membership(&self, membership: &Membership) -> Result<(), String> {
        let mut certificate = membership.node_id.to_le_bytes().to_vec();
        certificate.extend_from_slice(&membership.store_id);
        certificate.extend_from_slice(&membership.certificate);
        self.write(AUTHORITY_FILE, &membership.authority)?;
        self.write(CERTIFICATE_FILE, &certificate)
    }

    fn take_into_use(&self, membership: &Membership, key: NodeKey) -> Result<(), String> {
        let identity = PeerIdentity {
            node_id: membership.node_id,
            store_id: membership.store_id,
            key,
            certificate: membership.certificate.clone(),
            authority: membership.authority.clone(),
        };
        self.port.install(&identity).map_err(|error| error.to_string())
    }

    /// Puts what stands above the port in its place.
    pub(super) fn serve(&self, core: &Arc<Core>, service: HttpService) {
        let store = Arc::clone(core.store());
        self.port.serve(Arc::new(Above { store, core: Arc::clone(core), service }));
    }

    /// What the listeners relay requests with.
    pub(super) fn relay(&self, store: &Arc<dyn Store>) -> Arc<dyn Relay> {
        let (tell, news) = watch::channel(());
        let leaderless = Arc::new(Mutex::new(None));
        if let Some(cluster) = store.replicated() {
            note_leader(cluster, &leaderless);
            // The store holds what it calls, and so must not be held by that.
            let (store, leaderless) = (Arc::downgrade(store), Arc::clone(&leaderless));
            cluster.on_leadership(Arc::new(move || {
                if let Some(store) = store.upgrade()
                    && let Some(cluster) = store.replicated()
                {
                    note_leader(cluster, &leaderless);
                }
                tell.send_replace(());
            }));
        }
        let (store, port) = (Arc::clone(store), Arc::clone(&self.port));
        Arc::new(ToLeader { store, port, news, leaderless })
    }

    /// A client of another server's API.
    fn client_of(&self, target: &JoinTarget) -> Result<Config, String> {
        let address = target.api_address.clone();
        let nothing = Environment::of(move |name| (name == "VAULT_ADDR").then(|| address.clone()));
        let client = Config::resolve(&CommonFlags::default(), &nothing, Audience::Program);
        let client = client.map_err(|error| error.to_string())?;
        let kept = |name: &str, text: &str| -> Result<Option<PathBuf>, String> {
            if text.is_empty() {
                return Ok(None);
            }
            let Some(directory) = &self.directory else {
                return Err("a server without a directory joins nobody".to_owned());
            };
            self.write(name, text.as_bytes())?;
            Ok(Some(directory.join(name)))
        };
        let client_identity = match &target.client_identity {
            Some((certificate, key)) => kept("join.crt", certificate)?.zip(kept("join.key", key)?),
            None => None,
        };
        let tls = TlsSettings {
            ca_cert: kept("join-ca.crt", &target.ca_cert)?,
            ca_cert_text: None,
            ca_path: None,
            client_identity,
            server_name: target.server_name.clone(),
            ..client.tls
        };
        let client = Config { tls, retries_max: 0, ..client };
        if !target.is_requested {
            return Ok(client);
        }
        Ok(Config {
            reach: retry_join::reach(target, self.port.own())?,
            follows_redirects: false,
            timeout: REQUESTED_JOIN_TIMEOUT,
            ..client
        })
    }
}

impl ClusterPort for ClusterPortFiles {
    fn has_identity(&self) -> bool {
        self.port.has_identity()
    }

    fn own(&self) -> Peer {
        self.port.own().clone()
    }

    fn public_key(&self) -> Result<Vec<u8>, String> {
        let _files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let key = match self.read(KEY_FILE)? {
            Some(private) => NodeKey::from_private(private),
            None => {
                let made = NodeKey::generate().map_err(|error| error.to_string())?;
                self.write(KEY_FILE, &made.private)?;
                Ok(made)
            }
        };
        key.map(|key| key.public).map_err(|error| error.to_string())
    }

    fn install(&self, membership: &Membership) -> Result<(), String> {
        let _files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let private = self.read(KEY_FILE)?.ok_or_else(|| format!("{KEY_FILE} is gone"))?;
        self.write_membership(membership)?;
        let key = NodeKey::from_private(private).map_err(|error| error.to_string())?;
        self.take_into_use(membership, key)
    }

    fn authority(&self) -> Option<Vec<u8>> {
        let _files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // What cannot be read is known to nobody.
        self.read(AUTHORITY_FILE).ok().flatten()
    }

    fn renew(&self, issue: &dyn Fn(&[u8]) -> Result<Membership, String>) -> Result<(), String> {
        let key = NodeKey::generate().map_err(|error| error.to_string())?;
        let membership = issue(&key.public)?;
        let _files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // In this order: a start in between finds a certificate, and the key that goes with it under one name or the other.
        self.write(NEXT_KEY_FILE, &key.private)?;
        self.write_membership(&membership)?;
        self.write(KEY_FILE, &key.private)?;
        self.take_into_use(&membership, key)
    }

    fn make_authority(&self) -> Result<AuthorityKeys, String> {
        let ClusterAuthority { certificate, key } =
            ClusterAuthority::generate().map_err(|error| error.to_string())?;
        Ok(AuthorityKeys { certificate, key: Zeroizing::new(key) })
    }

    fn issue(
        &self,
        authority: &AuthorityKeys,
        node_id: u64,
        store_id: &[u8; 16],
        public_key: &[u8],
    ) -> Result<Vec<u8>, String> {
        let (certificate, key) = (authority.certificate.clone(), authority.key.to_vec());
        let authority = ClusterAuthority { certificate, key };
        authority.issue(node_id, store_id, public_key).map_err(|error| error.to_string())
    }

    fn ask(&self, target: &JoinTarget, path: &str, body: &Json) -> Result<Json, String> {
        let config = {
            let _files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            self.client_of(target)?
        };
        let Json::Object(body) = body.clone() else { return Err("a body is an object".into()) };
        let client = Client::new(&config).map_err(|error| error.to_string())?.without_token();
        let answer = client.send(&ClientRequest::put(path, body));
        let answer = answer.map_err(|error| format!("{}: {error}", target.api_address))?;
        let data = answer.and_then(|secret| secret.data);
        let nothing = || format!("{} has no such endpoint", target.api_address);
        data.map(Json::Object).ok_or_else(nothing)
    }

    fn reports(&self, of: &[u64]) -> Reports {
        // Requests may be answered by threads that have no reactor.
        let ask = |id: &u64| self.port.handle().spawn(report_of(Arc::clone(&self.port), *id));
        let asked: Vec<_> = of.iter().map(ask).collect();
        Box::pin(async move {
            let mut reports = Vec::with_capacity(asked.len());
            for one in asked {
                reports.push(one.await.ok().flatten());
            }
            reports
        })
    }
}

/// Asks one member how it is, with a bound on how long that takes.
async fn report_of(port: Arc<Port>, id: u64) -> Option<MemberReport> {
    let start = SystemClock.instant();
    let answering = port.ask(id, Bytes::from_static(&REPORT_QUESTION));
    let body = tokio::time::timeout(REPORT_WAIT, answering).await.ok()?.ok()?.to_vec();
    Some(MemberReport { body, round_trip: SystemClock.instant().saturating_duration_since(start) })
}

/// The store and the core, as peers reach them.
struct Above {
    store: Arc<dyn Store>,
    core: Arc<Core>,
    service: HttpService,
}

impl Upper for Above {
    fn receive(&self, from: u64, message: Bytes) {
        if let Some(cluster) = self.store.replicated() {
            cluster.receive(from, message);
        }
    }

    fn announced(&self, said: &Peer) -> Announcement {
        let cluster = self.store.replicated();
        cluster.map_or(Announcement::Known, |cluster| cluster.announced(said))
    }

    fn meet(&self, peer: Peer) {
        if let Some(cluster) = self.store.replicated() {
            cluster.meet(peer);
        }
    }

    fn snapshot(&self) -> Result<Box<dyn Chunks>, kallisto_store::Error> {
        let alone = || kallisto_store::Error::Unavailable("this store has no peers".into());
        self.store.replicated().ok_or_else(alone)?.snapshot()
    }

    fn snapshot_behind(
        &self,
        place: &[u8],
    ) -> Result<Option<Box<dyn Chunks>>, kallisto_store::Error> {
        self.store.replicated().map_or(Ok(None), |cluster| cluster.snapshot_behind(place))
    }

    fn has_left(&self, peer: u64) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let store = Arc::clone(&self.store);
        Box::pin(async move {
            let Some(cluster) = store.replicated() else { return false };
            // Who is behind does not know of new members: so first everything that was committed.
            let is_current = cluster.read_index().await.is_ok();
            is_current && cluster.members().iter().all(|member| member.peer.id != peer)
        })
    }

    fn removed(&self) {
        if let Some(cluster) = self.store.replicated() {
            cluster.told_removed();
        }
    }

    fn answer(&self, _from: u64, request: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send>> {
        if request[..] == REPORT_QUESTION {
            let report = self.core.member_report(SystemClock.now());
            return Box::pin(std::future::ready(report.into()));
        }
        let service = self.service.clone();
        Box::pin(async move { service.serve_relayed(request).await })
    }
}

/// Reaches the server that leads.
struct ToLeader {
    store: Arc<dyn Store>,
    port: Arc<Port>,
    news: watch::Receiver<()>,
    leaderless: Leaderless,
}

/// Since when nobody leads, by the store's clock; `None` while somebody does.
type Leaderless = Arc<Mutex<Option<Duration>>>;

/// Takes note of whether somebody leads now.
fn note_leader(cluster: &dyn Replicated, leaderless: &Mutex<Option<Duration>>) {
    let mut since = leaderless.lock().unwrap_or_else(PoisonError::into_inner);
    match cluster.leadership().leader_id {
        0 => _ = since.get_or_insert_with(|| cluster.now()),
        _ => *since = None,
    }
}

impl Relay for ToLeader {
    fn leaderless(&self) -> Option<Duration> {
        let cluster = self.store.replicated()?;
        let since = *self.leaderless.lock().unwrap_or_else(PoisonError::into_inner);
        since.map(|since| cluster.now().saturating_sub(since))
    }

    fn news(&self) -> watch::Receiver<()> {
        self.news.clone()
    }

    fn leader(&self) -> Leader {
        let Some(cluster) = self.store.replicated() else { return Leader::Here };
        let leadership = cluster.leadership();
        match leadership.leader_id {
            _ if leadership.is_mine() => Leader::Here,
            0 => Leader::Nobody,
            id => Leader::There(id),
        }
    }

    fn api_address(&self, id: u64) -> String {
        let members = self.store.replicated().map(|cluster| cluster.members());
        let found = members.into_iter().flatten().find(|member| member.peer.id == id);
        found.map(|member| member.peer.api_address).unwrap_or_default()
    }

    fn send(
        &self,
        to: u64,
        request: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, Unrelayed>> + Send>> {
        let answering = self.port.ask(to, request);
        Box::pin(async move {
            answering.await.map_err(|why| match why {
                Unanswered::NotSent => Unrelayed::NotSent,
                Unanswered::Lost => Unrelayed::Lost,
            })
        })
    }
}
