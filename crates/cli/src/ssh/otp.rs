//! `-mode=otp`: a one-time password is made for the address of the host. `sshpass` types it where it is installed, else the user does.

use std::net::{IpAddr, ToSocketAddrs};

use secrecy::SecretString;

use super::session::SshSession;
use super::{Ssh, SshDestination};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// The address of a host: itself, or the first that its name has.
fn address(host: &str) -> Result<IpAddr, Error> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse() {
        return Ok(address);
    }
    let found = (bare, 22)
        .to_socket_addrs()
        .map_err(|why| Error::usage(format!("the address of {host:?} is not known: {why}")))?;
    let found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first()).copied();
    first.ok_or_else(|| Error::usage(format!("{host:?} has no address")))
}

/// The role that is good for an address, if there is but one.
fn role_for(client: &Client<'_>, mount: &str, address: IpAddr) -> Result<String, Error> {
    let path = format!("{mount}/lookup");
    let body = Map::from([("ip".to_owned(), Json::from(address.to_string()))]);
    let doing = Error::doing(format!("failed to look up the roles for {address}"));
    let answer = client.send(&ClientRequest::put(&path, body).unwrapped()).map_err(doing)?;
    let names: Vec<&str> = match answer.as_ref().and_then(|answer| answer.datum("roles")) {
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    match names.as_slice() {
        [] => Err(Error::usage(format!("no role is good for {address}: say -role"))),
        [only] => Ok((*only).to_owned()),
        names => Err(Error::usage(format!(
            "{} roles are good for {address}: say -role with one of {}",
            names.len(),
            names.join(", ")
        ))),
    }
}

pub(super) fn run(
    ssh: &Ssh,
    config: &Config,
    destination: &SshDestination,
) -> Result<Outcome, Error> {
    let address = address(&destination.host)?;
    let client = Client::new(config)?;
    let role = match ssh.role.as_deref().filter(|role| !role.is_empty()) {
        Some(role) => role.to_owned(),
        None => role_for(&client, ssh.mount(), address)?,
    };
    let path = format!("{}/creds/{role}", ssh.mount());
    let body = Map::from([
        ("ip".to_owned(), Json::from(address.to_string())),
        ("username".to_owned(), Json::from(destination.user.as_str())),
    ]);
    let doing = Error::doing(format!("failed to make a one-time password for {address}"));
    let request = ClientRequest::put(&path, body);
    let request = if ssh.no_exec { request.wrappable() } else { request };
    let answer = client.send(&request).map_err(doing)?;
    let answer = answer.ok_or_else(|| Error::no_value(&path))?;
    if ssh.no_exec {
        return output::secret(&answer, config, ssh.field.field.as_deref());
    }
    let otp = answer.datum("key").and_then(Json::as_str);
    let otp = otp.ok_or_else(|| Error::no_value(&format!("{path}: key")))?;
    let mut session = SshSession::new(ssh, destination);
    // A key that is tried first would use up the tries that the host allows.
    session.option("PubkeyAuthentication", "no");
    session.option("PreferredAuthentications", "keyboard-interactive,password");
    session.run_with_password(&SecretString::from(otp.to_owned()))
}
