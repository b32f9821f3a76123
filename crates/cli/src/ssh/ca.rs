//! `-mode=ca`: the user's public key is signed, and `ssh` gets the certificate beside the key.

use std::path::{Path, PathBuf};

use clap::Args;

use super::session::{Scratch, SshSession};
use super::{Ssh, SshDestination};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::{Config, Environment};
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// The keys that are looked for when none is named, the best first.
const DEFAULT_KEYS: [&str; 5] =
    ["id_ed25519", "id_ecdsa", "id_ed25519_sk", "id_ecdsa_sk", "id_rsa"];

/// What `-mode=ca` takes.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "With -mode=ca")]
pub(super) struct Flags {
    /// The public key to sign [default: the first of ~/.ssh/id_ed25519.pub, id_ecdsa.pub, id_rsa.pub]
    #[arg(long, value_name = "PATH")]
    pub(super) public_key_path: Option<PathBuf>,
    /// Its private key [default: the same without .pub]
    #[arg(long, value_name = "PATH")]
    pub(super) private_key_path: Option<PathBuf>,
    /// Users that the certificate is good for, with commas [default: who logs in]
    #[arg(long, value_name = "NAMES")]
    valid_principals: Option<String>,
    /// Extensions to ask for, with commas [default: those of the role]
    #[arg(long, value_name = "NAMES")]
    extensions: Option<String>,
    /// Where the engine is mounted that signs keys of hosts: hosts with such keys are trusted, and no others [env: VAULT_SSH_HOST_KEY_MOUNT_POINT]
    #[arg(long, value_name = "PATH")]
    pub(super) host_key_mount_point: Option<String>,
    /// Names of hosts that it signs for, with commas [env: VAULT_SSH_HOST_KEY_HOSTNAMES] [default: *]
    #[arg(long, value_name = "NAMES")]
    pub(super) host_key_hostnames: Option<String>,
}

/// The public key and the private one.
fn key_paths(flags: &Flags, environment: &Environment<'_>) -> Result<(PathBuf, PathBuf), Error> {
    let public = match (&flags.public_key_path, &flags.private_key_path) {
        (Some(path), _) => path.clone(),
        (None, Some(private)) => with_pub(private),
        (None, None) => {
            let home = environment
                .plain("HOME")
                .ok_or_else(|| Error::usage("HOME is not set: say -public-key-path"))?;
            let folder = Path::new(&home).join(".ssh");
            let keys = DEFAULT_KEYS.iter().map(|name| folder.join(format!("{name}.pub")));
            keys.into_iter().find(|path| path.is_file()).ok_or_else(|| {
                Error::usage(format!(
                    "There is no public key in {}: say -public-key-path, or make one with ssh-keygen",
                    folder.display()
                ))
            })?
        }
    };
    let private = match &flags.private_key_path {
        Some(path) => path.clone(),
        None if public.extension().is_some_and(|extension| extension == "pub") => {
            public.with_extension("")
        }
        None => {
            return Err(Error::usage(
                "-private-key-path is missing: the public key does not end in .pub",
            ));
        }
    };
    Ok((public, private))
}

fn with_pub(private: &Path) -> PathBuf {
    let mut name = private.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

fn body(ssh: &Ssh, destination: &SshDestination, public_key: &str) -> Map {
    let principals = ssh.ca.valid_principals.as_deref().unwrap_or(&destination.user);
    let mut body = Map::from([
        ("cert_type".to_owned(), Json::from("user")),
        ("public_key".to_owned(), Json::from(public_key)),
        ("valid_principals".to_owned(), Json::from(principals)),
    ]);
    if let Some(names) = &ssh.ca.extensions {
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        let extensions: Map = names.map(|name| (name.to_owned(), Json::from(""))).collect();
        body.insert("extensions".to_owned(), Json::Object(extensions));
    }
    body
}

pub(super) fn run(
    ssh: &Ssh,
    config: &Config,
    destination: &SshDestination,
    environment: &Environment<'_>,
) -> Result<Outcome, Error> {
    let role = ssh.role.as_deref().filter(|role| !role.is_empty());
    let role = role.ok_or_else(|| Error::usage("-role is missing"))?;
    let (public, private) = key_paths(&ssh.ca, environment)?;
    let unreadable = |path: &Path, why: std::io::Error| {
        Error::usage(format!("{} cannot be read: {why}", path.display()))
    };
    let public_key = files::read(&public).map_err(|why| unreadable(&public, why))?;
    let public_key = String::from_utf8(public_key)
        .map_err(|_| Error::usage(format!("{} is no public key", public.display())))?;
    if public_key.contains("PRIVATE KEY") {
        return Err(Error::usage(format!(
            "{} is a private key: nobody has to see it; -public-key-path is its public half",
            public.display()
        )));
    }
    let client = Client::new(config)?;
    let path = format!("{}/sign/{role}", ssh.mount());
    let doing = Error::doing(format!("failed to sign public key {}", public.display()));
    let request = ClientRequest::put(&path, body(ssh, destination, public_key.trim()));
    let request = if ssh.no_exec { request.wrappable() } else { request };
    let answer = client.send(&request).map_err(doing)?.ok_or_else(|| Error::no_value(&path))?;
    if ssh.no_exec {
        return output::secret(&answer, config, ssh.field.field.as_deref());
    }
    let signed = answer.datum("signed_key").and_then(Json::as_str);
    let signed = signed.ok_or_else(|| Error::no_value(&format!("{path}: signed_key")))?;
    let scratch = Scratch::make(environment)?;
    let certificate = scratch.write("key-cert.pub", signed.as_bytes())?;
    let mut session = SshSession::new(ssh, destination);
    session.option("CertificateFile", &certificate.display().to_string());
    session.option("IdentitiesOnly", "yes");
    session.identity(&private);
    if let Some(mount) = &ssh.ca.host_key_mount_point {
        let path = format!("{}/public_key", mount.trim_matches('/'));
        let doing = Error::doing(format!("failed to read the key that signs hosts at {path}"));
        let key = client.send_raw(&ClientRequest::get(&path)).map_err(doing)?;
        let key = String::from_utf8_lossy(&key).trim().to_owned();
        let hosts = ssh.ca.host_key_hostnames.as_deref().unwrap_or("*");
        let line = format!("@cert-authority {hosts} {key}\n");
        let file = scratch.write("known_hosts", line.as_bytes())?;
        session.trust(&file);
    }
    session.run()
}
