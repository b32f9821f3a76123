//! A server that runs: what is started for it, in order, and ended with it, in another.
//!
//! [`ServerParts::open`] makes what can refuse a start (directory, store, core), [`ServerParts::start`] what runs until
//! [`RunningServer::stop`]: listeners, the threads of periodic work, and who is told of the server from outside.
//!
//! Invariants:
//! - Nothing serves before the core is whole, and a service manager hears that the server is ready only after its listeners
//!   answer.
//! - The end: others are told first, then listeners finish open requests, then periodic work ends, then leadership goes to
//!   another server, and only then the store is closed. Spans are sent last: a collector that hangs delays no data.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kallisto_core::Core;
use kallisto_listener::{
    Frontend, ListenSettings, ListenerTls, Server, SystemClock, WallClock, http, resp,
};
use kallisto_store::{Error as StoreError, Losses, Store};
use rustix::fs::{Mode, OFlags};

use super::cluster::ClusterPortFiles;
use super::host::LinuxHost;
use super::request_log::RequestLog;
use super::scheduler::{AutoUnseal, Scheduler, try_seal};
use super::seals::RunningUpkeep;
use super::service_account::ServiceAccountFiles;
use super::service_manager::{ServiceManager, Watchdog};
use super::service_registration::ServiceRegistration;
use super::settings::{ServerSettings, Spoken};
use super::signals::Signals;
use super::standing::Telling;
use super::storage::{StoreParts, open_cluster, open_store};
use super::traces::Traces;
use super::{announce_configured, directory, note_certificates, open_core, self_init, start_dev};
use kallisto_command::config::Environment;
use kallisto_command::error::Error;
use kallisto_command::files;

/// A server that does not serve yet.
pub(super) struct ServerParts {
    core: Arc<Core>,
    store: Arc<dyn Store>,
    cluster: Option<Arc<ClusterPortFiles>>,
    traces: Option<Traces>,
}

impl ServerParts {
    /// Opens the storage, and the core above it.
    pub(super) fn open(
        settings: &mut ServerSettings,
        host: LinuxHost,
        losses: Losses,
        signals: &Signals,
    ) -> Result<Self, Error> {
        if let Some(directory) = settings.storage.directory() {
            directory::prepare(directory)?;
        }
        let cluster = open_cluster(&settings.storage)?;
        let max_staleness = settings.max_staleness;
        let parts = StoreParts { cluster: cluster.as_ref(), losses, signals, max_staleness };
        let store = open_store(settings, parts)?;
        let traces = Traces::start(settings)?;
        let core = open_core(settings, host, Arc::clone(&store), cluster.clone(), traces.as_ref());
        if settings.dev.is_none() {
            self_init::run(&core, &settings.initialize, &Environment::process())?;
        }
        Ok(Self { core, store, cluster, traces })
    }

    /// Has the server serve. The second part is what went wrong when it was announced, or a dev server was made: all runs by
    /// then, and has to be stopped.
    pub(super) fn start(
        self,
        settings: &ServerSettings,
        requests: &RequestLog,
        on_down: Option<impl FnOnce(&'static str) + Send + 'static>,
    ) -> Result<(RunningServer, Result<(), Error>), Error> {
        let Self { core, store, cluster, traces } = self;
        // Before anything serves: a server without them would let nothing expire.
        let joins = settings.storage.join_targets();
        let scheduler = Scheduler::start(&core, joins, on_down)?;
        let telling = Telling::start(&store)?;
        let upkeep = settings.seal_upkeep.clone();
        let upkeep = upkeep.map(|upkeep| upkeep.start(&core)).transpose()?;
        let hearing = (requests, traces.as_ref());
        let listening = RunningListeners::start(&core, settings, cluster.as_ref(), hearing)?;
        note_certificates(&core, settings);
        if let Some(path) = &settings.pid_file {
            write_pid(path)?;
        }
        let announced = match &settings.dev {
            Some(dev) => start_dev(&core, dev, settings, &listening),
            None => {
                announce_configured(&core, settings, &listening);
                Ok(())
            }
        };
        let manager = ServiceManager::of(&Environment::process());
        if announced.is_ok() {
            // The listeners answer. A seal may take longer than the manager waits for a start.
            manager.ready();
        }
        let watchdog = manager.watch(&core);
        if announced.is_ok() && settings.dev.is_none() && try_seal(&core) == AutoUnseal::Pending {
            // A seal that does not answer now may answer later: the server stays, sealed, and says so. The scheduler goes on.
            core.try_seal_again();
        }
        let registration = announced.is_ok().then(|| register(&core, settings)).flatten();
        let running = RunningServer {
            manager,
            registration,
            listening,
            scheduler,
            watchdog,
            core,
            telling,
            _upkeep: upkeep,
            cluster,
            store,
            traces,
            pid_file: settings.pid_file.clone(),
        };
        Ok((running, announced))
    }
}

/// What runs, in the order in which it ends.
pub(super) struct RunningServer {
    manager: ServiceManager,
    registration: Option<ServiceRegistration>,
    pub(super) listening: RunningListeners,
    scheduler: Scheduler,
    watchdog: Option<Watchdog>,
    pub(super) core: Arc<Core>,
    telling: Telling,
    _upkeep: Option<RunningUpkeep>,
    cluster: Option<Arc<ClusterPortFiles>>,
    store: Arc<dyn Store>,
    traces: Option<Traces>,
    pid_file: Option<PathBuf>,
}

impl RunningServer {
    /// Ends it all.
    ///
    /// # Errors
    /// What closing the store said; everything else has ended too.
    pub(super) fn stop(self) -> Result<(), StoreError> {
        self.manager.stopping();
        if let Some(registration) = &self.registration {
            registration.stopping();
        }
        self.listening.shut_down();
        self.scheduler.stop();
        if let Some(watchdog) = self.watchdog {
            watchdog.stop();
        }
        self.core.end_audit();
        self.telling.stop();
        if let Some(registration) = self.registration {
            registration.stop();
        }
        if let Some(cluster) = &self.cluster {
            hand_over(&*self.store);
            cluster.port.stop();
        }
        let closed = self.store.close();
        // Behind the data: a collector that hangs delays none of it.
        if let Some(traces) = self.traces {
            traces.stop();
        }
        if let Some(path) = &self.pid_file {
            // One that this server may not remove names nobody any more. Nothing depends on it.
            let _ = std::fs::remove_file(path).or_else(|_| rewrite(path, b""));
        }
        closed
    }
}

/// A leader that ends lets another one lead first, so that nobody waits for an election. Nothing depends on it.
fn hand_over(store: &dyn Store) {
    if let Some(cluster) = store.replicated()
        && store.leads()
        && cluster.members().len() > 1
        && let Err(error) = cluster.transfer(None).wait()
    {
        tracing::warn!(%error, "no other server took the lead");
    }
}

/// Labels the pod that the server runs in, where the configuration says so.
fn register(core: &Arc<Core>, settings: &ServerSettings) -> Option<ServiceRegistration> {
    let account = ServiceAccountFiles::of(&settings.service_account_dir);
    let pod = settings.pod.as_ref()?;
    Some(ServiceRegistration::start(core, pod, account))
}

/// Writes the process id into a file that somebody made for it, perhaps where this server can make none, or else into a new one.
fn write_pid(path: &Path) -> Result<(), Error> {
    let text = format!("{}\n", std::process::id());
    rewrite(path, text.as_bytes())
        .or_else(|_| files::write_private(path, text.as_bytes()))
        .map_err(|error| Error::usage(format!("pid file {}: {error}", path.display())))
}

/// Replaces what is in a file that is there. A link or a pipe, which somebody may have put in its place, is none.
fn rewrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    file.set_len(0)?;
    file.write_all(bytes)
}

/// The listeners of a server and the TLS they serve.
pub(super) struct RunningListeners {
    pub(super) servers: Vec<Server>,
    tls: Vec<ListenerTls>,
}

impl RunningListeners {
    fn start(
        core: &Arc<Core>,
        settings: &ServerSettings,
        cluster: Option<&Arc<ClusterPortFiles>>,
        (requests, traces): (&RequestLog, Option<&Traces>),
    ) -> Result<Self, Error> {
        let clock: Arc<dyn WallClock> = Arc::new(SystemClock);
        let http = http::HttpService::new(Arc::clone(core), Arc::clone(&clock));
        let mut http = http.with_observer(Arc::new(requests.clone()));
        if let Some(traces) = traces {
            http = http.with_tracer(Arc::clone(traces.tracer()));
        }
        if let Some(cluster) = cluster {
            cluster.serve(core, http.clone());
            http = http.with_relay(cluster.relay(core.store()));
        }
        let tickets = core.tickets();
        let mut listening = Self { servers: Vec::new(), tls: Vec::new() };
        for listener in &settings.listeners {
            let load = |files| ListenerTls::load(files, tickets.clone());
            let tls = listener.tls.clone().map(load).transpose();
            let tls = tls.map_err(|error| Error::usage(format!("TLS: {error}")))?;
            listening.tls.extend(tls.clone());
            let (address, workers) = (listener.address.clone(), settings.workers);
            let proxies = listener.proxies.clone();
            let config = ListenSettings { address, workers, tls, proxies };
            let frontend = match &listener.spoken {
                Spoken::Http { metrics, forwarded_for } => {
                    let service = http.clone().with_timeouts(listener.timeouts);
                    let service = service.with_forwarded_for(forwarded_for.clone());
                    Frontend::Http(service.with_metrics(*metrics))
                }
                Spoken::Resp { mounts, userpass } => {
                    let (core, clock) = (Arc::clone(core), Arc::clone(&clock));
                    let service = resp::RespService::new(core, clock, mounts, userpass);
                    Frontend::Resp(match traces {
                        None => service,
                        Some(traces) => service.with_tracer(Arc::clone(traces.tracer())),
                    })
                }
            };
            let server = Server::start(config, &frontend).map_err(|error| {
                Error::usage(format!("cannot listen on {}: {error}", listener.address))
            })?;
            listening.servers.push(server);
        }
        Ok(listening)
    }

    /// Reads certificates again; a bad one leaves the old one in use.
    pub(super) fn reload(&self) {
        for tls in &self.tls {
            match tls.reload() {
                Ok(()) => tracing::info!("certificate reloaded"),
                Err(error) => tracing::error!(%error, "certificate not reloaded"),
            }
        }
    }

    fn shut_down(self) {
        for server in self.servers {
            server.shut_down();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_the_place_of_a_pid_file_is_replaced_and_not_written_through() {
        let folder = std::env::temp_dir().join(format!("kallisto-pid-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let place = |name: &str| folder.join(name);
        let (pid, other, made) = (place("pid"), place("other"), place("made"));
        let told = |path: &Path| std::fs::read_to_string(path).unwrap();
        files::write_private(&other, b"mine").unwrap();
        std::os::unix::fs::symlink(&other, &pid).unwrap();
        write_pid(&pid).unwrap();
        assert_eq!(
            (told(&other).as_str(), told(&pid)),
            ("mine", format!("{}\n", std::process::id()))
        );
        assert!(std::fs::symlink_metadata(&pid).unwrap().is_file());
        let pipe = place("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        write_pid(&pipe).unwrap();
        assert!(std::fs::symlink_metadata(&pipe).unwrap().is_file(), "nobody reads it");
        // A longer text that somebody made for it.
        files::write_private(&made, &[b'9'; 99]).unwrap();
        write_pid(&made).unwrap();
        assert_eq!(told(&made), told(&pid));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
