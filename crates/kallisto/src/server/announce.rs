//! What a server says of itself when it has started.

use std::io::{self, Write};
use std::path::Path;

use kallisto_core::Initialized;
use kallisto_listener::Server;
use secrecy::ExposeSecret;

/// Greets the operator of a dev server: where it is, how to get in, three lines to try.
pub(super) fn dev(server: &Server, made: &Initialized, stored: Option<&Path>) -> io::Result<()> {
    let address = format!("http://{}", server.address());
    // The operator asked for a dev server; its root token is meant to be read here.
    let token = made.root_token.expose_secret();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "Kallisto {} (API version {})",
        env!("CARGO_PKG_VERSION"),
        crate::VAULT_API_VERSION
    )?;
    writeln!(out)?;
    writeln!(out, "  Api Address: {address}")?;
    writeln!(out, "      Storage: inmem")?;
    writeln!(
        out,
        "         Mode: development: in memory, unsealed, plain HTTP. Not for production."
    )?;
    writeln!(out)?;
    writeln!(out, "Unseal Key: {}", Initialized::base64(&made.keys).join(" "))?;
    writeln!(out, "Root Token: {token}")?;
    if let Some(path) = stored {
        writeln!(
            out,
            "The root token was also written to {}, where commands find it.",
            path.display()
        )?;
    }
    writeln!(out)?;
    writeln!(out, "Try:")?;
    writeln!(out, "  export VAULT_ADDR={address}")?;
    writeln!(
        out,
        "  curl -H 'X-Vault-Token: {token}' -d '{{\"data\":{{\"password\":\"s3cr3t\"}}}}' {address}/v1/secret/data/app"
    )?;
    writeln!(out, "  curl -H 'X-Vault-Token: {token}' {address}/v1/secret/data/app")?;
    writeln!(out, "  kallisto kv get -mount=secret app")?;
    writeln!(out)?;
    if !server.address().ip().is_loopback() {
        writeln!(out, "WARNING: listening beyond this machine without TLS.")?;
    }
    out.flush()
}
