//! Logins through a browser, with the real program and a provider on a socket.
//!
//! - [`provider`] is the provider, which lies when it is told to;
//! - [`lies`] are its lies, and those of browsers: each is refused;
//! - [`flows`] are honest logins in every mode, through each server of a cluster;
//! - [`command`] logs in by the command line.

mod command;
mod flows;
mod lies;
mod provider;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::{Directory, Keys, PATIENCE, Reply, Server};
use provider::Provider;

/// A redirect URI of a client on the user's machine.
const HERE: &str = "http://127.0.0.1:8250/oidc/callback";

/// A role by which the provider's user logs in.
const ROLE: &str = r#"{"user_claim":"sub","groups_claim":"groups","bound_claims":{"team":"red"},
    "claim_mappings":{"team":"team"},"allowed_redirect_uris":["http://127.0.0.1:8250/oidc/callback"],
    "token_policies":"dev","token_ttl":"1h"}"#;

/// A server with a mount that believes the provider.
fn server(directory: &Directory, provider: &Provider) -> (Server, Keys) {
    let server = Server::start(directory, &directory.config(""));
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    mount(&server, &keys, provider);
    (server, keys)
}

fn mount(server: &Server, keys: &Keys, provider: &Provider) {
    let mut root = server.client(&keys.root);
    root.put("sys/auth/oidc", r#"{"type":"oidc"}"#);
    root.put("auth/oidc/config", &provider.config(""));
    root.put("auth/oidc/role/r", ROLE);
}

/// Asks for an address to log in at.
#[track_caller]
fn auth_url(server: &Server, role: &str, redirect_uri: &str, nonce: &str) -> Reply {
    let body =
        format!(r#"{{"role":"{role}","redirect_uri":"{redirect_uri}","client_nonce":"{nonce}"}}"#);
    server.anyone().put("auth/oidc/oidc/auth_url", &body)
}

/// What a client hands on of a callback.
fn hand_on(server: &Server, code: &str, state: &str, nonce: &str) -> Reply {
    let path = format!("auth/oidc/oidc/callback?code={code}&state={state}&client_nonce={nonce}");
    server.anyone().get(&path)
}

/// A whole login by the role `r`.
#[track_caller]
fn log_in(server: &Server, provider: &Provider) -> Reply {
    let url = auth_url(server, "r", HERE, "n").at("data.auth_url");
    let (code, state) = provider.log_in(&url);
    hand_on(server, &code, &state, "n")
}

/// What a browser gets: status, headers in lower case, and the body.
fn browse(address: SocketAddr, method: &str, target: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: {address}\r\nAccept: text/html\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}
