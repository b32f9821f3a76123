//! Which server to move from, and how to be known to it.
//!
//! A token is taken from the environment or a file and never from the command line, which others on the machine can see.

use std::path::PathBuf;

use clap::Args;
use zeroize::Zeroize;

use super::snapshot::SnapshotSource;
use kallisto_command::config::{Audience, Config, Environment, checked_token};
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::flags::{CommonFlags, ConnectionFlags};
use kallisto_vault_snapshot::limits::MEMORY_BYTES_DEFAULT;

/// Most memory that can be asked for: a tebibyte.
const MEMORY_MIB_MAX: u64 = 1 << 20;

/// The server to move from.
#[derive(Args, Debug)]
#[command(next_help_heading = "Source")]
pub(super) struct SourceFlags {
    /// Raft snapshot of Vault or OpenBao to move from, in the place of a server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source_address", "source_token_file"])]
    from_snapshot: Option<PathBuf>,
    /// File that holds the unseal shares of the snapshot, a line each; they are asked for without one
    #[arg(long, value_name = "FILE", requires = "from_snapshot")]
    source_shares_file: Option<PathBuf>,
    /// Most memory for the records of the snapshot, in MiB; they take about as much as the file is long uncompressed
    #[arg(long, value_name = "MIB", requires = "from_snapshot", default_value_t = MEMORY_BYTES_DEFAULT >> 20,
        value_parser = clap::value_parser!(u64).range(1..=MEMORY_MIB_MAX))]
    snapshot_memory_mib: u64,
    /// Address of the server to move from [env: VAULT_SOURCE_ADDR]
    #[arg(long, value_name = "URL")]
    source_address: Option<String>,
    /// File that holds the token to use there [env: VAULT_SOURCE_TOKEN holds the token itself]
    #[arg(long, value_name = "FILE")]
    source_token_file: Option<PathBuf>,
    /// Namespace to move from [env: VAULT_SOURCE_NAMESPACE]
    #[arg(long, value_name = "NAME")]
    source_namespace: Option<String>,
    /// PEM file of the certificate authority to trust there [env: VAULT_SOURCE_CACERT]
    #[arg(long, value_name = "PATH")]
    source_ca_cert: Option<String>,
    /// PEM file of the client's certificate for it [env: VAULT_SOURCE_CLIENT_CERT]
    #[arg(long, value_name = "PATH")]
    source_client_cert: Option<String>,
    /// PEM file of the client's private key for it [env: VAULT_SOURCE_CLIENT_KEY]
    #[arg(long, value_name = "PATH")]
    source_client_key: Option<String>,
    /// Trust any certificate there; only for trying things out [env: VAULT_SOURCE_SKIP_VERIFY]
    #[arg(long)]
    source_tls_skip_verify: bool,
}

impl SourceFlags {
    /// The opened snapshot, if one is named.
    pub(super) fn snapshot(
        &self,
        environment: &Environment<'_>,
        config: &Config,
    ) -> Result<Option<SnapshotSource>, Error> {
        let Some(file) = &self.from_snapshot else { return Ok(None) };
        let base = match &self.source_namespace {
            Some(namespace) => Some(namespace.clone()),
            None => environment.of_source().value("NAMESPACE").map(|value| value.to_string()),
        };
        let base = base.unwrap_or_default();
        let shares = self.source_shares_file.as_deref();
        SnapshotSource::open(file, shares, &base, self.snapshot_memory_mib, config).map(Some)
    }

    /// The settings of a client of that server.
    pub(super) fn config(
        self,
        environment: &Environment<'_>,
        audience: Audience,
    ) -> Result<Config, Error> {
        let connection = ConnectionFlags {
            address: self.source_address,
            namespace: self.source_namespace,
            ca_cert: self.source_ca_cert,
            client_cert: self.source_client_cert,
            client_key: self.source_client_key,
            tls_skip_verify: self.source_tls_skip_verify.then_some(true),
            ..ConnectionFlags::default()
        };
        let environment = environment.of_source();
        if connection.address.is_none() && environment.value("ADDR").is_none() {
            return Err(Error::usage(
                "nothing to move from: set VAULT_SOURCE_ADDR, -source-address or -from-snapshot",
            ));
        }
        let flags = CommonFlags { connection, ..CommonFlags::default() };
        let mut config = Config::resolve(&flags, &environment, audience)?;
        if let Some(path) = self.source_token_file {
            let unreadable = |error| Error::usage(format!("{}: {error}", path.display()));
            files::warn_if_exposed(&path, "the token of the source");
            let mut text =
                String::from_utf8_lossy(&files::read(&path).map_err(unreadable)?).into_owned();
            config.token = Some(checked_token(text.trim().to_owned())?);
            text.zeroize();
        }
        if config.token.is_none() {
            return Err(Error::usage(
                "no token for the source: set VAULT_SOURCE_TOKEN or -source-token-file",
            ));
        }
        Ok(config)
    }
}
