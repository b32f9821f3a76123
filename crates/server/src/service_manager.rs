//! What a service manager is told: that the server is ready, reloads, stops, and is alive.
//!
//! systemd, or whoever speaks its protocol, names a socket of datagrams in `NOTIFY_SOCKET` and how often it wants to hear in `WATCHDOG_USEC`
//! (`sd_notify(3)`, `Type=notify` and `WatchdogSec=` of a unit). Without the socket nothing is told. The server is ready once its listeners answer: a
//! sealed server is, since it is unsealed through them. It is alive while its core answers `sys/health`, which a thread of its own asks; so a
//! process that hangs is found, and a job that takes long is none that hangs.
//!
//! The socket is opened once. What cannot be sent is logged and otherwise as if nobody had asked.

#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use kallisto_command::config::Environment;
use kallisto_core::{Core, Operation, Path, Request};
use kallisto_listener::{SystemClock, WallClock};

/// How often a sign of life is sent within the time that is allowed between two.
const SIGNS_PER_ALLOWANCE: u32 = 3;

/// Who started this process and wants to hear of it; perhaps nobody.
pub(super) struct ServiceManager {
    socket: Option<(Arc<UnixDatagram>, SocketAddr)>,
    /// The longest time without a sign of life.
    allowance: Option<Duration>,
}

impl ServiceManager {
    /// Whom the environment names.
    pub(super) fn of(environment: &Environment<'_>) -> Self {
        let named = environment.plain("NOTIFY_SOCKET");
        let socket = named.and_then(|name| match open(&name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, "the service manager's socket cannot be used");
                None
            }
        });
        Self { socket, allowance: allowance(environment, std::process::id()) }
    }

    /// The server answers.
    pub(super) fn ready(&self) {
        self.tell("READY=1");
    }

    /// The server ends.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, what: &str) {
        let Some((socket, address)) = &self.socket else { return };
        if let Err(error) = socket.send_to_addr(what.as_bytes(), address) {
            tracing::warn!(%error, what, "the service manager was not told");
        }
    }

    /// Begins to give signs of life, where they are wanted.
    pub(super) fn watch(&self, core: &Arc<Core>) -> Option<Watchdog> {
        let (socket, address) = self.socket.clone()?;
        let pause = self.allowance? / SIGNS_PER_ALLOWANCE;
        let core = Arc::clone(core);
        let (stop, stopped) = sync_channel(1);
        let run = move || {
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                ask(&core);
                // The next one may get through.
                let _ = socket.send_to_addr(b"WATCHDOG=1", &address);
            }
        };
        let thread = std::thread::Builder::new().name("watchdog".into()).spawn(run);
        if let Err(error) = &thread {
            tracing::error!(%error, "no thread for signs of life: the service manager will end this server");
        }
        Some(Watchdog { stop, thread: thread.ok() })
    }
}

/// The thread that gives signs of life.
pub(super) struct Watchdog {
    stop: SyncSender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Ends the thread.
    pub(super) fn stop(mut self) {
        // The thread may have ended by itself; then there is nobody to tell.
        let _ = self.stop.try_send(());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the watchdog panicked");
        }
    }
}

/// Asks the core something that takes the way of every request. What it answers does not matter: a core that hangs answers nothing.
fn ask(core: &Core) {
    let Ok(path) = Path::literal("sys/health") else { return };
    let request = Request::new(Operation::Read, path, SystemClock.now());
    drop(pollster::block_on(core.handle(&request)));
}

fn open(name: &str) -> std::io::Result<(Arc<UnixDatagram>, SocketAddr)> {
    let address = match name.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => SocketAddr::from_abstract_name(name.as_bytes())?,
        #[cfg(not(target_os = "linux"))]
        Some(_) => return Err(std::io::ErrorKind::Unsupported.into()),
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name.as_bytes()))?,
    };
    let socket = UnixDatagram::unbound()?;
    // Whoever does not read is not waited for.
    socket.set_nonblocking(true)?;
    Ok((Arc::new(socket), address))
}

/// How long this process may be without a sign of life.
fn allowance(environment: &Environment<'_>, own_pid: u32) -> Option<Duration> {
    let number = |name: &str| environment.plain(name)?.parse::<u64>().ok();
    // The variables of another process that were inherited are not ours.
    if number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(own_pid)) {
        return None;
    }
    number("WATCHDOG_USEC").filter(|micros| *micros > 0).map(Duration::from_micros)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_manager_that_the_environment_names_is_told() {
        let name = format!("kallisto-test-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let heard = UnixDatagram::bind_addr(&address).unwrap();
        let environment = Environment::of(move |variable| {
            (variable == "NOTIFY_SOCKET").then(|| format!("@{name}"))
        });
        let manager = ServiceManager::of(&environment);
        manager.ready();
        manager.stopping();
        let mut buffer = [0; 64];
        for expected in ["READY=1", "STOPPING=1"] {
            let count = heard.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..count], expected.as_bytes());
        }
        // Nobody named is nobody told, and one that is gone does no harm.
        ServiceManager::of(&Environment::of(|_| None)).ready();
        drop(heard);
        manager.ready();
    }

    #[test]
    fn signs_of_life_are_wanted_of_this_process_only() {
        let of = |pid: Option<&'static str>, micros: &'static str| {
            let environment = Environment::of(move |name| match name {
                "WATCHDOG_PID" => pid.map(str::to_owned),
                "WATCHDOG_USEC" => Some(micros.to_owned()),
                _ => None,
            });
            allowance(&environment, 7)
        };
        let half_a_minute = Some(Duration::from_secs(30));
        assert_eq!(of(None, "30000000"), half_a_minute);
        assert_eq!(of(Some("7"), "30000000"), half_a_minute);
        assert_eq!(of(Some("8"), "30000000"), None);
        assert_eq!(of(None, "0"), None);
        assert_eq!(of(None, "soon"), None);
    }
}
