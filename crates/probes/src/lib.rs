//! Looks at what stands at names and addresses, for ACME: [`kallisto_engine::probe`] is the contract.
//!
//! One thread with a runtime of its own does all of it, so that no probe runs on a worker, on the scheduler or where the log is applied.
//! It is started with the first probe. Engines begin a probe under an id and take its outcome later; both are a look into a table.
//!
//! ```text
//! lib      the table of probes, and the thread
//! connect  names to addresses, the rule of destinations, connections
//! http     http-01: requests, redirects, bodies
//! tls      TLS that checks no certificate, and tls-alpn-01
//! ```
//!
//! Invariants:
//! - A connection goes to an address that the destinations of its probe cover, at each redirect anew.
//! - No more than `UNDER_WAY_MAX` probes run at once, and no more than `KEPT_MAX` outcomes wait to be taken; the oldest is dropped.
//! - A failure names its kind, and has no byte that was read.
#![forbid(unsafe_code)]

mod connect;
mod http;
mod tls;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kallisto_engine::probe::PROBE_SECS_MAX;
use kallisto_engine::{
    Probe, ProbeAnswer, ProbeFailure, ProbeHost, ProbeKind, ProbeRunner, ProbeState,
};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Sender, channel};

/// Most probes at once.
const UNDER_WAY_MAX: usize = 64;
/// Most probes of one mount at once, which leaves room for others.
const OF_MOUNT_MAX: usize = 48;
/// Most probes of one account of a mount at once.
const OF_ACCOUNT_MAX: usize = 8;
/// Most outcomes that wait to be taken.
const KEPT_MAX: usize = 1024;

/// The ports that are asked: those of HTTP and HTTPS, but in tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Of HTTP.
    pub http: u16,
    /// Of HTTPS, and of tls-alpn-01.
    pub https: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self { http: 80, https: 443 }
    }
}

/// Looks at names and addresses.
#[derive(Debug)]
pub struct Prober {
    ports: Ports,
    table: Arc<Mutex<ProbeTable>>,
    /// To the thread; `None` if there is none to be had.
    thread: OnceLock<Option<Sender<(String, Probe)>>>,
}

/// The probes that there are.
#[derive(Debug, Default)]
struct ProbeTable {
    /// Each with its outcome once it has ended, and when that was in the order of all ends.
    probes: HashMap<String, Option<(u64, ProbeOutcome)>>,
    ends: u64,
}

type ProbeOutcome = Result<ProbeAnswer, ProbeFailure>;

impl ProbeTable {
    /// Whether one more may be under way: of all, of its mount, of its account.
    fn has_room(&self, id: &str) -> bool {
        let under_way = |prefix: &str| {
            let ids = self.probes.iter().filter(|(_, outcome)| outcome.is_none());
            ids.filter(|(id, _)| id.starts_with(prefix)).count()
        };
        let mut ends = id.match_indices('/').map(|(at, _)| &id[..=at]);
        under_way("") < UNDER_WAY_MAX
            && ends.next().is_none_or(|mount| under_way(mount) < OF_MOUNT_MAX)
            && ends.next().is_none_or(|account| under_way(account) < OF_ACCOUNT_MAX)
    }

    fn end(&mut self, id: String, outcome: ProbeOutcome) {
        self.ends += 1;
        self.probes.insert(id, Some((self.ends, outcome)));
        let ended = self.probes.iter().filter_map(|(id, outcome)| Some((outcome.as_ref()?.0, id)));
        if self.probes.len() > KEPT_MAX + UNDER_WAY_MAX
            && let Some((_, oldest)) = ended.min()
        {
            let oldest = oldest.clone();
            self.probes.remove(&oldest);
        }
    }
}

impl Default for Prober {
    fn default() -> Self {
        Self::at(Ports::default())
    }
}

impl Prober {
    /// One that asks at these ports.
    pub fn at(ports: Ports) -> Self {
        Self { ports, table: Arc::default(), thread: OnceLock::new() }
    }

    fn table(&self) -> MutexGuard<'_, ProbeTable> {
        lock(&self.table)
    }

    /// The thread, which is started if it is not there.
    fn thread(&self) -> Option<&Sender<(String, Probe)>> {
        let start = || {
            let (sender, mut probes) = channel::<(String, Probe)>(UNDER_WAY_MAX);
            let (table, ports) = (Arc::clone(&self.table), self.ports);
            let run = move || {
                let runtime = Builder::new_current_thread().enable_io().enable_time().build();
                let Ok(runtime) = runtime else {
                    tracing::error!("no runtime for probes: no challenge of ACME is looked at");
                    return;
                };
                runtime.block_on(async move {
                    while let Some((id, probe)) = probes.recv().await {
                        let table = Arc::clone(&table);
                        tokio::spawn(async move {
                            let outcome = look(&probe, ports).await;
                            lock(&table).end(id, outcome);
                        });
                    }
                });
            };
            match std::thread::Builder::new().name("probes".into()).spawn(run) {
                Ok(_) => Some(sender),
                Err(error) => {
                    tracing::error!(%error, "no thread for probes: no challenge of ACME is looked at");
                    None
                }
            }
        };
        self.thread.get_or_init(start).as_ref()
    }
}

fn lock(table: &Mutex<ProbeTable>) -> MutexGuard<'_, ProbeTable> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProbeRunner for Prober {
    fn begin(&self, id: &str, probe: Probe) -> bool {
        let Some(thread) = self.thread() else { return false };
        let mut table = self.table();
        if table.probes.contains_key(id) {
            return true;
        }
        if !table.has_room(id) || thread.try_send((id.to_owned(), probe)).is_err() {
            return false;
        }
        table.probes.insert(id.to_owned(), None);
        true
    }

    fn take(&self, id: &str) -> ProbeState {
        let mut table = self.table();
        match table.probes.get(id) {
            None => ProbeState::Unknown,
            Some(None) => ProbeState::UnderWay,
            Some(Some(_)) => match table.probes.remove(id).flatten() {
                Some((_, outcome)) => ProbeState::Done(outcome),
                None => ProbeState::Unknown,
            },
        }
    }
}

/// Looks, within the deadline.
async fn look(probe: &Probe, ports: Ports) -> ProbeOutcome {
    let looking = async {
        match &probe.what {
            ProbeKind::Http { path } => http::get(probe, ports, path).await.map(ProbeAnswer::Body),
            ProbeKind::Texts => match &probe.host {
                ProbeHost::Name(name) => {
                    connect::texts(probe.resolver, name).await.map(ProbeAnswer::Texts)
                }
                ProbeHost::Address(_) => Err(ProbeFailure::NoName),
            },
            ProbeKind::TlsAlpn { server_name } => {
                let stream = connect::open(probe, &probe.host, ports.https).await?;
                tls::alpn_certificate(stream, server_name).await.map(ProbeAnswer::Certificate)
            }
        }
    };
    let deadline = Duration::from_secs(PROBE_SECS_MAX);
    tokio::time::timeout(deadline, looking).await.unwrap_or(Err(ProbeFailure::TooLate))
}
