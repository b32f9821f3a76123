//! The single checks: each tries what a start would do, and leaves no trace.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::iter;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;

use jiff::Timestamp;
use kallisto_audit::DeviceSpec;
use kallisto_core::DeclaredDevice;
use kallisto_listener::{ListenAddress, ListenerTls};
use kallisto_lsm::disk::{Disk, RealDisk};
use kallisto_store_postgres::{DatabaseFinding, FindingKind};
use rustix::fs::FileType;
use rustix::process::{Resource, geteuid, getrlimit};

use super::certificate;
use super::report::DiagnoseCheck;
use crate::exposed::{self, Exposed};
use crate::settings::{DatabaseSettings, ListenerSettings, ServerSettings, StorageChoice};
use crate::traces::collector_tls;

/// Free bytes below which storage is about to stop, and below which it is worth a word.
const FREE_BYTES_MIN: u64 = 64 << 20;
const FREE_BYTES_LOW: u64 = 1 << 30;
/// The file that a store holds while it is open.
const LOCK: &str = "LOCK";
/// How the name of a file by which a directory is tried begins, and how many letters and digits are drawn for the rest.
const PROBE: &str = ".diagnose-";
const PROBE_LETTERS: usize = 16;

/// What a seal is tried with: as long as a key, and no secret.
const SAMPLE: &[u8; 32] = b"kallisto operator diagnose sends";

/// Whether a check was not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkippedCheck {
    Yes,
    No,
}

/// What the system allows the process.
pub(super) fn operating_system(settings: &ServerSettings) -> DiagnoseCheck {
    let name = "Check Open File Limits";
    // The server raises its limit as far as it may.
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let room = usize::try_from(files).unwrap_or(usize::MAX);
    let wanted = settings.limits.connections_max;
    let granted = settings.limits.clone().within_files(room).connections_max;
    let limits = if granted < wanted {
        let why = format!("{files} open files are room for {granted} of {wanted} connections");
        DiagnoseCheck::warn(name, why)
    } else {
        DiagnoseCheck::ok(name, format!("{files} open files are room for {wanted} connections"))
    };
    DiagnoseCheck::of("Check Operating System", vec![limits])
}

/// What others may read or write.
pub(super) fn exposed_files(settings: &ServerSettings) -> DiagnoseCheck {
    let heading = "Check File Permissions";
    let said = exposed::of(settings).into_iter().map(|exposed| {
        let Exposed { what, path, mode, why } = exposed;
        DiagnoseCheck::warn(
            "Check Path",
            format!("{}, {what}: {why}: its mode is {mode:04o}", path.display()),
        )
    });
    let said: Vec<_> = said.collect();
    if said.is_empty() { DiagnoseCheck::ok(heading, "") } else { DiagnoseCheck::of(heading, said) }
}

/// Where the records are kept.
pub(super) fn storage(settings: &ServerSettings, skipped: SkippedCheck) -> DiagnoseCheck {
    let heading = "Check Storage";
    if skipped == SkippedCheck::Yes {
        return DiagnoseCheck::skipped(heading, "as asked");
    }
    let mut found = match &settings.storage {
        StorageChoice::Memory => {
            let why = "records are kept in memory, until the server stops";
            return DiagnoseCheck::warn(heading, why);
        }
        StorageChoice::Database(database) => database_checks(database),
        StorageChoice::Durable { directory, .. } => directory_checks(directory),
    };
    if let Some(cluster) = settings.storage.cluster() {
        found.push(bind("Check Cluster Address", cluster.address));
    }
    DiagnoseCheck::of(heading, found)
}

/// A database is connected to, looked at, and left as it is.
fn database_checks(database: &DatabaseSettings) -> Vec<DiagnoseCheck> {
    let config = &database.config;
    let found = kallisto_store_postgres::probe(
        &config.url,
        &database.tls,
        (&config.table, &config.ha_table),
        config.sharing(),
        config.missing_tables(),
    );
    let check = |found: DatabaseFinding| match found.kind {
        FindingKind::Well => DiagnoseCheck::ok(found.name, found.said),
        FindingKind::Doubtful => DiagnoseCheck::warn(found.name, found.said),
        FindingKind::Failing => DiagnoseCheck::fail(found.name, found.said),
    };
    found.into_iter().map(check).collect()
}

fn directory_checks(directory: &Path) -> Vec<DiagnoseCheck> {
    let name = "Check Storage Folder";
    let shown = directory.display();
    if directory.is_dir() {
        return vec![
            permissions(directory),
            writable("Check Storage Folder Is Writable", directory),
            free_space(directory),
            lock(directory),
            records(directory),
        ];
    }
    if directory.exists() {
        return vec![DiagnoseCheck::fail(name, format!("{shown} is not a directory"))];
    }
    // The server makes it, and what is missing above it.
    let above = directory.ancestors().map(|above| match above.as_os_str().is_empty() {
        // Where a relative path begins.
        true => Path::new("."),
        false => above,
    });
    match above.into_iter().find(|above| above.is_dir()) {
        None => vec![DiagnoseCheck::fail(
            name,
            format!("{shown} does not exist, nor anything above it"),
        )],
        Some(above) => vec![
            DiagnoseCheck::ok(name, format!("{shown} does not exist and will be made")),
            writable("Check Storage Folder Can Be Made", above),
            free_space(above),
        ],
    }
}

/// Whether nobody but the server may look in.
fn permissions(directory: &Path) -> DiagnoseCheck {
    let name = "Check Storage Folder Permissions";
    let shown = directory.display();
    match rustix::fs::stat(directory) {
        Err(error) => DiagnoseCheck::fail(name, format!("{shown}: {error}")),
        Ok(stat) if stat.st_uid != geteuid().as_raw() => {
            DiagnoseCheck::warn(name, format!("{shown} is of another user than the one who asks"))
        }
        Ok(stat) if stat.st_mode & 0o077 != 0 => {
            let mode = stat.st_mode & 0o777;
            DiagnoseCheck::warn(name, format!("{shown} is open to others: its mode is {mode:03o}"))
        }
        Ok(_) => DiagnoseCheck::ok(name, ""),
    }
}

fn writable(name: &'static str, directory: &Path) -> DiagnoseCheck {
    let drawn: String = iter::repeat_with(fastrand::alphanumeric).take(PROBE_LETTERS).collect();
    match make_and_remove(&directory.join(format!("{PROBE}{drawn}"))) {
        Ok(()) => DiagnoseCheck::ok(name, directory.display()),
        Err(error) => DiagnoseCheck::fail(name, format!("{}: {error}", directory.display())),
    }
}

/// Makes a file and removes it. What is there already, a link too, is an error and stays as it is.
fn make_and_remove(path: &Path) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    let synced = file.write_all(b"diagnose").and_then(|()| file.sync_data());
    fs::remove_file(path).and(synced)
}

fn free_space(directory: &Path) -> DiagnoseCheck {
    let name = "Check Disk Usage";
    let shown = directory.display();
    match rustix::fs::statvfs(directory) {
        Err(error) => DiagnoseCheck::fail(name, format!("{shown}: {error}")),
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let said = format!("{shown}: {} MiB are free", free >> 20);
            match free {
                ..FREE_BYTES_MIN => DiagnoseCheck::fail(name, said),
                FREE_BYTES_MIN..FREE_BYTES_LOW => DiagnoseCheck::warn(name, said),
                FREE_BYTES_LOW.. => DiagnoseCheck::ok(name, said),
            }
        }
    }
}

/// Whether a server runs on the directory.
fn lock(directory: &Path) -> DiagnoseCheck {
    let name = "Check Storage Lock";
    let path = directory.join(LOCK);
    if !path.exists() {
        return DiagnoseCheck::ok(name, "no server was ever started on it");
    }
    match RealDisk.lock(&path) {
        Ok(_) => DiagnoseCheck::ok(name, ""),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            let why = "a server runs on it; -skip=storage leaves this out";
            DiagnoseCheck::fail(name, format!("{}: {why}", directory.display()))
        }
        Err(error) => DiagnoseCheck::fail(name, format!("{}: {error}", path.display())),
    }
}

/// Nothing of the records is read here: that takes as long as an unsealing.
fn records(directory: &Path) -> DiagnoseCheck {
    let engine = directory.join("engine");
    let why = format!("kallisto engine check {} reads them, without a server", engine.display());
    DiagnoseCheck::skipped("Check Records", why)
}

/// Whether what a seal closes it opens again.
pub(super) fn seal(settings: &ServerSettings, skipped: SkippedCheck) -> DiagnoseCheck {
    let name = "Check Autounseal Encryption";
    if skipped == SkippedCheck::Yes {
        return DiagnoseCheck::skipped(name, "as asked");
    }
    let Some(seal) = &settings.seal else {
        return DiagnoseCheck::skipped(name, "the server is unsealed by shares");
    };
    match seal.wrap(SAMPLE).and_then(|wrapped| seal.unwrap(&wrapped)) {
        Err(why) => DiagnoseCheck::fail(name, format!("seal {:?}: {why}", seal.name())),
        Ok(opened) if *opened != SAMPLE => {
            let why = "what it opened is not what it closed";
            DiagnoseCheck::fail(name, format!("seal {:?}: {why}", seal.name()))
        }
        Ok(_) => DiagnoseCheck::ok(
            name,
            format!("seal {:?} closes and opens a value; the stored key is not tried", seal.name()),
        ),
    }
}

/// The addresses, and the certificates served there.
pub(super) fn listeners(
    settings: &ServerSettings,
    now: Timestamp,
    skipped: SkippedCheck,
) -> DiagnoseCheck {
    let heading = "Start Listeners";
    if skipped == SkippedCheck::Yes {
        return DiagnoseCheck::skipped(heading, "as asked");
    }
    let all = settings.listeners.iter().flat_map(|listener| listener_checks(listener, now));
    DiagnoseCheck::of(heading, all.collect())
}

fn listener_checks(listener: &ListenerSettings, now: Timestamp) -> Vec<DiagnoseCheck> {
    let (tls, create) = ("Check Listener TLS", "Create Listeners");
    let mut found = Vec::new();
    match (&listener.tls, &listener.address) {
        (Some(files), _) => {
            found.push(match ListenerTls::load(files.clone(), None) {
                Err(error) => DiagnoseCheck::fail(tls, error),
                Ok(_) => certificate::check(tls, &files.certificate, now),
            });
        }
        (None, ListenAddress::Tcp(address)) if !address.ip().is_loopback() => {
            found.push(DiagnoseCheck::warn(tls, format!("{address}: TLS is disabled")));
        }
        (None, ListenAddress::Tcp(_) | ListenAddress::Unix { .. }) => {}
    }
    found.push(match &listener.address {
        ListenAddress::Tcp(address) => bind(create, *address),
        ListenAddress::Unix { path, .. } => socket(create, path),
    });
    found
}

fn bind(name: &'static str, address: SocketAddr) -> DiagnoseCheck {
    match TcpListener::bind(address) {
        Ok(_) => DiagnoseCheck::ok(name, address),
        Err(error) => DiagnoseCheck::fail(name, format!("{address}: {error}")),
    }
}

fn socket(name: &'static str, path: &Path) -> DiagnoseCheck {
    let shown = path.display();
    if UnixStream::connect(path).is_ok() {
        return DiagnoseCheck::fail(name, format!("{shown}: somebody listens there"));
    }
    // What a server left behind is removed, and nothing else.
    match rustix::fs::lstat(path) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Socket => {
            DiagnoseCheck::fail(name, format!("{shown}: something other than a socket is there"))
        }
        Ok(_) | Err(_) => writable_folder(name, path),
    }
}

/// Whether a file can be made where `path` says.
fn writable_folder(name: &'static str, path: &Path) -> DiagnoseCheck {
    // A relative name is in the directory worked in.
    let folder = path.parent().map(|folder| match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    });
    match folder {
        Some(folder) if folder.is_dir() => writable(name, folder),
        _ => DiagnoseCheck::fail(name, format!("{}: its directory does not exist", path.display())),
    }
}

/// The files that a start opens or makes besides those of the records.
pub(super) fn files(settings: &ServerSettings) -> DiagnoseCheck {
    let log = settings.log.file.as_ref().map(|log| ("Check Log File", log.path.as_path()));
    let pid = settings.pid_file.as_deref().map(|pid| ("Check PID File", pid));
    let heading = "Check Files";
    let tried: Vec<_> =
        log.into_iter().chain(pid).map(|(name, path)| writable_file(name, path)).collect();
    match tried.is_empty() {
        true => DiagnoseCheck::skipped(heading, "no log file and no pid file is configured"),
        false => DiagnoseCheck::of(heading, tried),
    }
}

fn writable_file(name: &'static str, path: &Path) -> DiagnoseCheck {
    let shown = path.display();
    if path.is_dir() {
        return DiagnoseCheck::fail(name, format!("{shown} is a directory"));
    }
    if !path.exists() {
        return writable_folder(name, path);
    }
    match rustix::fs::access(path, rustix::fs::Access::WRITE_OK) {
        Ok(()) => DiagnoseCheck::ok(name, shown),
        Err(error) => DiagnoseCheck::fail(name, format!("{shown}: {error}")),
    }
}

/// The files of the TLS that spans are sent by. No collector is asked: a server starts without one.
pub(super) fn tracing(settings: &ServerSettings, now: Timestamp) -> DiagnoseCheck {
    let (heading, tls) = ("Check Tracing", "Check Tracing TLS");
    let Some(config) = &settings.tracing else {
        return DiagnoseCheck::skipped(heading, "no spans are sent");
    };
    let found = match collector_tls(config) {
        Err(why) => vec![DiagnoseCheck::fail(tls, why)],
        Ok(None) => vec![DiagnoseCheck::ok(tls, "the endpoint is not https")],
        Ok(Some(_)) => {
            let shown = config.client_identity.iter();
            let shown =
                shown.map(|(cert, _)| certificate::check("Check Tracing Certificate", cert, now));
            iter::once(DiagnoseCheck::ok(tls, "")).chain(shown).collect()
        }
    };
    DiagnoseCheck::of(heading, found)
}

/// Where audit devices may write.
pub(super) fn audit(settings: &ServerSettings) -> DiagnoseCheck {
    let heading = "Check Audit Directories";
    if settings.audit_devices.is_empty() {
        return DiagnoseCheck::skipped(heading, "no audit device is configured");
    }
    let there = settings.audit_directories.iter().filter(|directory| directory.is_dir());
    let of_api = there.map(|directory| writable("Check Directory", directory));
    let declared = settings.audit_devices.iter().filter_map(audit_device);
    let tried: Vec<DiagnoseCheck> = declared.chain(of_api).collect();
    if tried.is_empty() {
        return DiagnoseCheck::fail(heading, "none of the directories of audit files exists");
    }
    DiagnoseCheck::of(heading, tried)
}

/// Whether the file of a declared device can be gone on with, or made.
fn audit_device(device: &DeclaredDevice) -> Option<DiagnoseCheck> {
    let name = "Check Audit File";
    let spec = DeviceSpec::parse(&device.kind, &device.options).ok()?;
    let path = spec.destination.file()?;
    let (path_shown, at) = (path.display(), &device.path);
    let fails = |why: &dyn Display| {
        Some(DiagnoseCheck::fail(name, format!("audit device {at}: {path_shown}: {why}")))
    };
    // A link that leads nowhere is there as well, and refused.
    if path.symlink_metadata().is_err() {
        return Some(writable_folder(name, path));
    }
    match kallisto_audit::check_file(&spec) {
        Ok(()) => Some(DiagnoseCheck::ok(name, path_shown)),
        Err(error) => fails(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::CheckStatus;
    use super::*;

    #[test]
    fn what_is_in_a_directory_that_is_tried_stays_as_it_is() {
        let name = format!("kallisto-diagnose-{}", fastrand::u64(..));
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        let at = |name: &str| directory.join(name);
        let keep = |name: &str| File::create_new(at(name)).unwrap().write_all(b"keep").unwrap();
        keep("own");
        std::os::unix::fs::symlink(at("own"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        for name in ["own", "link", "dangling"] {
            let error = make_and_remove(&at(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{name}");
            assert!(fs::symlink_metadata(at(name)).is_ok(), "{name}");
        }
        // The name that was tried by 0.2.0.
        std::os::unix::fs::symlink(at("own"), at(".diagnose")).unwrap();
        let check = writable("Check", &directory);
        assert_eq!(check.status(), CheckStatus::Ok);
        assert_eq!(fs::read_to_string(at(".diagnose")).unwrap(), "keep");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 4);
        fs::remove_dir_all(&directory).unwrap();
    }
}
