//! What a server says of itself when it has started.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use kallisto_core::{Initialized, KvVersion};
use kallisto_listener::Server;
use secrecy::ExposeSecret;

use super::settings::{ListenerSettings, ServerSettings, Spoken, StorageChoice};

/// Says where a configured server is and what it stands on.
///
/// A server that `is_new` has no keys yet: what is to be done next is said too.
pub(super) fn configured(
    servers: &[Server],
    settings: &ServerSettings,
    is_new: bool,
) -> io::Result<()> {
    let mut out = Vec::new();
    title(&mut out)?;
    listeners(&mut out, servers.iter().zip(&settings.listeners))?;
    storage(&mut out, &settings.storage)?;
    let seal = settings.seal.as_ref().map_or("shamir", |seal| seal.name());
    writeln!(out, "         Seal: {seal}")?;
    addresses(&mut out, settings)?;
    writeln!(out)?;
    if is_new {
        next_step(&mut out, servers, settings)?;
    }
    warn_of_plain_text(&mut out, servers, settings)?;
    tell(&out)
}

/// Where clients and other servers reach it, where it was told.
fn addresses(out: &mut impl Write, settings: &ServerSettings) -> io::Result<()> {
    if let Some(address) = &settings.api_addr {
        writeln!(out, "  Api Address: {address}")?;
    }
    if let Some(address) = &settings.cluster_addr {
        writeln!(out, "Cluster Addr.: {address}")?;
    }
    Ok(())
}

/// What whoever started a server that is not initialised does next.
fn next_step(
    out: &mut impl Write,
    servers: &[Server],
    settings: &ServerSettings,
) -> io::Result<()> {
    let http = |listener: &&ListenerSettings| matches!(listener.spoken, Spoken::Http { .. });
    let own =
        settings.listeners.iter().find(http).zip(servers.first()).map(|(listener, server)| {
            let scheme = if listener.tls.is_some() { "https" } else { "http" };
            format!("{scheme}://{}", server.address())
        });
    let Some(address) = settings.api_addr.clone().or(own) else { return Ok(()) };
    writeln!(out, "Not initialised yet. Next, for a cluster of its own:")?;
    writeln!(out, "  kallisto operator init -address={address}")?;
    if matches!(&settings.storage, StorageChoice::Durable { cluster: Some(_), .. }) {
        writeln!(out, "or, to make it part of one:")?;
        writeln!(out, "  kallisto operator raft join -address={address} URL-OF-A-MEMBER")?;
    }
    writeln!(out)
}

/// A line for each listener.
fn listeners<'a>(
    out: &mut impl Write,
    listeners: impl Iterator<Item = (&'a Server, &'a ListenerSettings)>,
) -> io::Result<()> {
    for (server, listener) in listeners {
        let tls = if listener.tls.is_some() { "enabled" } else { "disabled" };
        let spoken = match listener.spoken {
            Spoken::Http { .. } => "",
            Spoken::Resp { .. } => ", Redis protocol",
        };
        writeln!(out, "     Listener: {} (tls: {tls}{spoken})", server.address())?;
    }
    Ok(())
}

fn storage(out: &mut impl Write, storage: &StorageChoice) -> io::Result<()> {
    let kind = storage.kind();
    match storage.place() {
        Some(place) => writeln!(out, "      Storage: {kind}, {place}"),
        None => writeln!(out, "      Storage: {kind}"),
    }
}

/// Greets the operator of a dev server: where it is, how to get in, three lines to try.
///
/// The first of `servers` is where a dev server listens by itself; the others are of its configuration.
pub(super) fn dev(
    servers: &[Server],
    made: &Initialized,
    settings: &ServerSettings,
) -> io::Result<()> {
    let (Some(dev), Some(server)) = (&settings.dev, servers.first()) else { return Ok(()) };
    let scheme = if settings.listeners.first().is_some_and(|own| own.tls.is_some()) {
        "https"
    } else {
        "http"
    };
    let address = format!("{scheme}://{}", server.address());
    // The operator asked for a dev server; its root token is meant to be read here.
    let token = made.root_token.expose_secret();
    let mut out = Vec::new();
    title(&mut out)?;
    writeln!(out, "  Api Address: {address}")?;
    if settings.serves_ui {
        writeln!(out, "     Web Page: {address}/ui/")?;
    }
    listeners(&mut out, servers.iter().zip(&settings.listeners).skip(1))?;
    storage(&mut out, &settings.storage)?;
    writeln!(
        out,
        "         Mode: development: unsealed, its root token is shown. Not for production."
    )?;
    writeln!(out)?;
    let (what, keys) = match &settings.seal {
        None => ("Unseal Key", &made.keys),
        Some(_) => ("Recovery Key", &made.recovery_keys),
    };
    writeln!(out, "{what}: {}", Initialized::base64(keys).join(" "))?;
    writeln!(out, "Root Token: {token}")?;
    if let Some(path) = &dev.token_file {
        writeln!(
            out,
            "The root token was also written to {}, where commands find it.",
            path.display()
        )?;
    }
    writeln!(out)?;
    writeln!(out, "Try:")?;
    writeln!(out, "  export VAULT_ADDR={address}")?;
    let mut curl = "curl".to_owned();
    if let Some(ca) = &dev.ca {
        writeln!(out, "  export VAULT_CACERT={}", ca.display())?;
        curl = format!("curl --cacert {}", ca.display());
    }
    let (path, body) = match dev.kv {
        KvVersion::V1 => ("secret/app", r#"{"password":"s3cr3t"}"#),
        KvVersion::V2 => ("secret/data/app", r#"{"data":{"password":"s3cr3t"}}"#),
    };
    writeln!(out, "  {curl} -H 'X-Vault-Token: {token}' -d '{body}' {address}/v1/{path}")?;
    writeln!(out, "  {curl} -H 'X-Vault-Token: {token}' {address}/v1/{path}")?;
    writeln!(out, "  kallisto kv get -mount=secret app")?;
    writeln!(out)?;
    warn_of_plain_text(&mut out, servers, settings)?;
    tell(&out)
}

/// Writes to the descriptor itself: what standard output could not take, its buffer would offer again when the process ends, which fails then.
fn tell(text: &[u8]) -> io::Result<()> {
    File::from(io::stdout().as_fd().try_clone_to_owned()?).write_all(text)
}

fn title(out: &mut impl Write) -> io::Result<()> {
    let (own, api) = (env!("CARGO_PKG_VERSION"), kallisto_command::VAULT_API_VERSION);
    writeln!(out, "Kallisto {own} (API version {api})\n")
}

fn warn_of_plain_text(
    out: &mut impl Write,
    servers: &[Server],
    settings: &ServerSettings,
) -> io::Result<()> {
    for (server, listener) in servers.iter().zip(&settings.listeners) {
        if listener.tls.is_none() && !server.address().is_local() {
            let address = server.address();
            writeln!(out, "WARNING: listening on {address} beyond this machine without TLS.")?;
        }
    }
    Ok(())
}
