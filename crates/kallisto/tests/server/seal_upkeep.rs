//! What a server does for `seal "transit"` while it runs: its token is renewed. At a start: a rotated key wraps anew.

use rustix::process::Signal;

use crate::support::{Client, Directory, Reply, Server, until};

/// A server for development with a transit engine, and a periodic token that may use the key.
struct Keeper {
    server: Server,
    token: String,
}

impl Keeper {
    fn start(directory: &Directory, period_secs: u64) -> Self {
        let dev = ["-dev", "-dev-root-token-id=root", "-dev-listen-address=127.0.0.1:0"];
        let server = Server::spawn(directory, &[], &dev);
        let mut client = server.client("root");
        client.put("sys/mounts/transit", r#"{"type":"transit"}"#);
        client.put("transit/keys/k", "{}");
        let policy = r#"{"policy":"path \"transit/+/k\" { capabilities = [\"update\"] }"}"#;
        client.put("sys/policies/acl/seal", policy);
        let body = format!(r#"{{"policies":["seal"],"period":"{period_secs}s","no_parent":true}}"#);
        let token = client.put("auth/token/create", &body).at("auth.client_token");
        Self { server, token }
    }

    fn client(&self) -> Client {
        self.server.client("root")
    }

    /// What is known of the token.
    fn look_up(&self) -> Reply {
        let body = format!(r#"{{"token":"{}"}}"#, self.token);
        self.client().send("POST", "auth/token/lookup", &body)
    }

    fn config(&self, directory: &Directory, more: &str) -> String {
        let (address, token) = (self.server.address, &self.token);
        directory.config(&format!(
            "seal \"transit\" {{\n  address = \"http://{address}\"\n  token = \"{token}\"\n  key_name = \"k\"\n{more}\n}}"
        ))
    }
}

#[test]
fn the_token_of_a_transit_seal_is_renewed_unless_that_is_switched_off() {
    let (directory, beside) = (Directory::new("renewed"), Directory::new("renewed-keeper"));
    let keeper = Keeper::start(&beside, 4);
    let config = keeper.config(&directory, "");
    let server = Server::start(&directory, &config);
    server.initialize(1, 1);
    // So it outlived its first period, which ends without a renewal.
    until("a renewal after the first period", || {
        let found = keeper.look_up();
        assert_eq!(found.status, 200, "it ended: {} {}", found.body, server.log());
        let secs = |name: &str| found.at(name).parse::<u64>().unwrap_or(0);
        secs("data.last_renewal_time") > secs("data.creation_time") + 4
    });
    assert!(!server.log().contains(&keeper.token), "a token in the log");
    server.end(Signal::KILL);
    let server = Server::start(&directory, &config);
    until("an unsealed server", || !server.is_sealed());
    server.stop();
    let config = keeper.config(&directory, "  disable_renewal = \"true\"");
    let server = Server::start(&directory, &config);
    until("the end of the token", || keeper.look_up().status != 200);
    server.stop();
}

#[test]
fn what_an_older_version_of_the_key_wrapped_is_wrapped_anew_at_a_start() {
    let (directory, beside) = (Directory::new("rotated"), Directory::new("rotated-keeper"));
    let keeper = Keeper::start(&beside, 3600);
    let config = keeper.config(&directory, "");
    let server = Server::start(&directory, &config);
    server.initialize(1, 1);
    server.stop();
    keeper.client().put("transit/keys/k/rotate", "{}");
    let server = Server::start(&directory, &config);
    until("an unsealed server", || !server.is_sealed());
    assert!(server.log().contains("wrapped by the seal's new key"), "{}", server.log());
    server.stop();
    keeper.client().put("transit/keys/k/config", r#"{"min_decryption_version":2}"#);
    let server = Server::start(&directory, &config);
    until("an unsealed server", || !server.is_sealed());
    assert!(!server.log().contains("wrapped by the seal's new key"), "{}", server.log());
    server.stop();
}
