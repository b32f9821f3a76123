//! Clients that write down what they ask and hear.
//!
//! Each asks any server, with the consistency `strong` where it reads. The keys change with the time, so that the
//! history of one is short enough to be judged.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kallisto_core::Json;
use kallisto_sim::history::{Action, ClientOperation, Expect, OperationEnd};

use super::cluster::{Cluster, SERVERS};
use super::http::{Client, Reply, Unanswered};

/// Clients at once.
const CLIENTS: u64 = 8;
/// Keys at once.
const KEYS: u64 = 6;
/// For how long a key is used, in milliseconds.
const KEY_MS: u64 = 2000;
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pause after a request that was not answered.
const PAUSE: Duration = Duration::from_millis(10);
pub(crate) const STRONG: &str = "X-Kallisto-Consistency: strong\r\n";
/// What a check-and-set that does not hold is answered.
const REFUSED: &str = "check-and-set parameter did not match the current version";
/// Refusals that say that nothing happened.
const NOTHING_HAPPENED: [&str; 5] = [
    "no server leads",
    "the disk is full",
    "Vault is sealed",
    "the entry kept changing",
    "too many writes are waiting",
];

/// What the clients share.
struct Shared {
    addresses: Vec<SocketAddr>,
    token: String,
    start: Instant,
    /// Tells the keys of one round from those of another on the same directories.
    round: u64,
    stop: AtomicBool,
    /// Set while nobody may ask anything.
    paused: AtomicBool,
    /// How many are asking.
    asking: AtomicU64,
    history: Mutex<Vec<ClientOperation>>,
    slowest: AtomicU64,
    refusals: Mutex<HashMap<String, u64>>,
}

/// The clients.
pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts them, with a token.
    pub(crate) fn start(cluster: &Cluster, token: &str, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            addresses: (0..SERVERS).map(|server| cluster.address(server)).collect(),
            token: token.to_owned(),
            start: Instant::now(),
            round: seed,
            stop: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            asking: AtomicU64::new(0),
            history: Mutex::default(),
            slowest: AtomicU64::new(0),
            refusals: Mutex::default(),
        });
        let spawn = |client| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.run(client, seed ^ client))
        };
        let threads = (0..CLIENTS).map(spawn).collect();
        Self { shared, threads }
    }

    /// Lets what was asked be answered, and nothing more be asked.
    pub(crate) fn pause(&self) {
        self.shared.paused.store(true, Ordering::SeqCst);
        super::until("the clients to be answered", || {
            self.shared.asking.load(Ordering::SeqCst) == 0
        });
    }

    /// Lets them go on.
    pub(crate) fn go_on(&self) {
        self.shared.paused.store(false, Ordering::SeqCst);
    }

    /// What is known to be acknowledged and not overwritten by anything that may have happened: of each key the last
    /// value, while the clients are paused.
    pub(crate) fn settled_values(&self) -> HashMap<String, (Option<String>, u64)> {
        let history = self.shared.history.lock().unwrap();
        let mut values: HashMap<String, (Option<String>, u64)> = HashMap::new();
        let mut unsettled = Vec::new();
        for operation in history.iter() {
            let OperationEnd::Done { version: Some(version), .. } = operation.end else {
                let looked = operation.action == Action::Read;
                if !looked && operation.end == OperationEnd::Unknown
                    || operation.action == Action::Delete
                {
                    unsettled.push(operation.key.clone());
                }
                continue;
            };
            let (Action::Write(value) | Action::Swap(_, value)) = &operation.action else {
                continue;
            };
            let known = values.entry(operation.key.clone()).or_default();
            if version > known.1 {
                *known = (Some(value.clone()), version);
            }
        }
        unsettled.iter().for_each(|key| drop(values.remove(key)));
        values
    }

    /// Ends them, and adds what all servers say at the end to what they heard.
    pub(crate) fn finish(self) -> (Vec<ClientOperation>, String) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
        let mut keys: Vec<String> =
            self.shared.history.lock().unwrap().iter().map(|one| one.key.clone()).collect();
        keys.sort();
        keys.dedup();
        let mut clients = self.shared.clients();
        for key in keys {
            for client in &mut clients {
                self.shared.perform(client, CLIENTS, &key, Action::Read);
            }
        }
        let slowest = self.shared.slowest.load(Ordering::SeqCst);
        let refusals = std::mem::take(&mut *self.shared.refusals.lock().unwrap());
        let said = format!("slowest acknowledged write {slowest} ms, refusals {refusals:?}");
        (std::mem::take(&mut *self.shared.history.lock().unwrap()), said)
    }
}

impl Shared {
    fn clients(&self) -> Vec<Client> {
        let client = |address: &SocketAddr| Client::new(*address, &self.token, PATIENCE);
        self.addresses.iter().map(client).collect()
    }

    /// Nanoseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap()
    }

    fn run(&self, own: u64, seed: u64) {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut clients = self.clients();
        let mut seen: HashMap<String, u64> = HashMap::new();
        let mut number = 0_u64;
        while !self.stop.load(Ordering::SeqCst) {
            self.asking.fetch_add(1, Ordering::SeqCst);
            if self.paused.load(Ordering::SeqCst) {
                self.asking.fetch_sub(1, Ordering::SeqCst);
                std::thread::sleep(PAUSE);
                continue;
            }
            number += 1;
            let age = self.now() / 1_000_000 / KEY_MS;
            let (round, number_of_key) = (self.round, dice.u64(..KEYS));
            let key = format!("round-{round}/age-{age}/key & = %25 {number_of_key}");
            let value = format!("{own}:{number} & = % / +");
            let version = seen.get(&key).copied().unwrap_or_default();
            let action = match dice.u32(..100) {
                0..40 => Action::Read,
                40..85 => Action::Swap(Expect::Version(version), value),
                85..96 => Action::Write(value),
                _ => Action::Delete,
            };
            let client = dice.usize(..SERVERS);
            let told = self.perform(&mut clients[client], own, &key, action);
            self.asking.fetch_sub(1, Ordering::SeqCst);
            match told {
                Some(version) => drop(seen.insert(key, version)),
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Asks, and writes down what came of it. Returns the version that was told.
    fn perform(&self, client: &mut Client, own: u64, key: &str, action: Action) -> Option<u64> {
        let path = format!("secret/data/{}", encoded(key));
        let call = self.now();
        let outcome = match &action {
            Action::Read => client.send("GET", &path, STRONG, b""),
            Action::Write(value) => client.send("POST", &path, "", body(value, None).as_bytes()),
            Action::Swap(Expect::Version(version), value) => {
                client.send("PUT", &path, "", body(value, Some(*version)).as_bytes())
            }
            Action::Swap(Expect::Value(_), _) => unreachable!("KV compares versions"),
            Action::Delete => client.send("DELETE", &path, "", b""),
        };
        let at = self.now();
        let (end, told) = self.judge(&action, outcome, at);
        if !matches!(action, Action::Read) && matches!(end, OperationEnd::Done { .. }) {
            self.slowest.fetch_max((at - call) / 1_000_000, Ordering::SeqCst);
        }
        let operation = ClientOperation { client: own, key: key.to_owned(), action, call, end };
        self.history.lock().unwrap().push(operation);
        told
    }

    fn judge(
        &self,
        action: &Action,
        outcome: Result<Reply, Unanswered>,
        at: u64,
    ) -> (OperationEnd, Option<u64>) {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(Unanswered::NotSent) => return (OperationEnd::Failed, None),
            Err(Unanswered::Lost) => return (OperationEnd::Unknown, None),
        };
        let number = |path: &str| reply.at(path).parse::<u64>().ok();
        match (action, reply.status) {
            (Action::Read, 200 | 404) if reply.error().is_empty() => {
                let version = number("data.metadata.version").unwrap_or_default();
                let found = match reply.find("data.data.v") {
                    Some(Json::String(found)) => Some(found),
                    _ => None,
                };
                (OperationEnd::Done { at, found, version: Some(version) }, Some(version))
            }
            (Action::Delete, 204) => {
                (OperationEnd::Done { at, found: None, version: None }, Some(0))
            }
            (Action::Write(_) | Action::Swap(..), 200) => {
                let version = number("data.version");
                (OperationEnd::Done { at, found: None, version }, version)
            }
            (Action::Swap(..), 400) if reply.error().contains(REFUSED) => {
                (OperationEnd::Refused { at }, Some(0))
            }
            (_, status) => {
                let error = reply.error();
                *self.refusals.lock().unwrap().entry(format!("{status} {error}")).or_default() += 1;
                let nothing = NOTHING_HAPPENED.iter().any(|known| error.contains(known));
                (if nothing { OperationEnd::Failed } else { OperationEnd::Unknown }, None)
            }
        }
    }
}

fn body(value: &str, cas: Option<u64>) -> String {
    let options = cas.map(|cas| format!(r#","options":{{"cas":{cas}}}"#)).unwrap_or_default();
    format!(r#"{{"data":{{"v":"{value}"}}{options}}}"#)
}

/// A key as it stands in a URL.
pub(crate) fn encoded(key: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' | b'-' | b'/' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    key.bytes().map(byte).collect()
}
