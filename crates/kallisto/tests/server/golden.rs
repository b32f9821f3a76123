//! Data directories of past releases open: what is in them is read, and the server goes on with them.
//!
//! `golden/release-VERSION.tar.gz` is the directory of a server of that release that was killed (-9) behind its last answer: sorted files,
//! a log that has to be replayed, audit anchors, keys of peers. `tests/ops/golden_release.py` makes it, once for each release, and this
//! test keeps opening the older ones.

use std::path::Path;
use std::process::Command;

use crate::support::{Client, Directory, Keys, Server};

/// What the server of an archive was initialised with. Nothing else was ever kept with these keys.
struct Release {
    archive: &'static str,
    share: &'static str,
    root: &'static str,
    ciphertext: &'static str,
    /// Asks for what the release had beside that of all.
    ask_for_more: fn(&mut Client),
}

const RELEASES: [Release; 2] = [
    Release {
        archive: "release-0.1.0.tar.gz",
        share: "2caf24e18b65ce44916e4646349813872c7ca93038e2a7235c450b95da3aeac8",
        root: "hvs.p69tJtB083Vv1rRX1BCWys72",
        ciphertext: "vault:v1:tSkaZAEk6ixwAdUQP7FF/1lfMiVyvcDY9a7ES94rsGOl",
        ask_for_more: |_| (),
    },
    Release {
        archive: "release-0.2.0.tar.gz",
        share: "5151f6e4139f1cce22c2f3b83de455fa0c8dd904110ec2c090de4b2253a805bf",
        root: "hvs.xnVkJvleF3sJdBgK6IzbtEqB",
        ciphertext: "vault:v1:QNiTadXXvTl38vfCNSSRGwEAdadXahch4fk5uESQsipw",
        ask_for_more: ask_for_what_came_with_0_2_0,
    },
];

fn unpack(archive: &str, directory: &Directory) -> String {
    let config = directory.config("");
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/golden").join(archive);
    let status = Command::new("tar")
        .arg("xzf")
        .arg(archive)
        .arg("-C")
        .arg(directory.join("data"))
        .status()
        .unwrap();
    assert!(status.success());
    config
}

#[test]
fn data_directories_of_past_releases_open_and_hold_what_they_held() {
    for release in &RELEASES {
        let directory = Directory::new("golden");
        let config = unpack(release.archive, &directory);
        let keys = Keys {
            shares: vec![release.share.to_owned()],
            recovery: Vec::new(),
            root: release.root.to_owned(),
        };
        for _ in 0..2 {
            let server = Server::start(&directory, &config);
            server.unseal(&keys);
            holds(&server, release);
            (release.ask_for_more)(&mut server.client(release.root));
            server.stop();
        }
        // It goes on: what is written by this release is there beside what was.
        let server = Server::start(&directory, &config);
        server.unseal(&keys);
        server.client(release.root).put("kv/data/app/db", r#"{"data":{"password":"version 4"}}"#);
        server.client(release.root).put("sys/rotate", "");
        server.stop();
        let server = Server::start(&directory, &config);
        server.unseal(&keys);
        let mut client = server.client(release.root);
        assert_eq!(client.get("kv/data/app/db").at("data.data.password"), "version 4");
        assert_eq!(client.get("kv/data/app/db?version=1").at("data.data.password"), "version 1");
        server.stop();
    }
}

fn holds(server: &Server, release: &Release) {
    let mut client = server.client(release.root);
    // Secrets with their versions, and those of the log that was not in files yet.
    assert_eq!(client.get("kv/data/app/db").at("data.data.password"), "version 3");
    assert_eq!(client.get("kv/data/app/db?version=2").status, 404, "deleted");
    assert_eq!(client.get("kv/metadata/app/db").at("data.custom_metadata.owner"), "golden");
    for number in 1..60 {
        let read = client.get(&format!("kv/data/many/{number}"));
        assert_eq!(read.at("data.data.n"), number.to_string());
    }
    assert_eq!(client.get("kv/data/many/60").status, 404, "removed");
    for number in 1..=3 {
        let read = client.get(&format!("kv/data/late/{number}"));
        assert_eq!(read.at("data.data.n"), format!("late {number}"));
    }
    assert_eq!(client.get("one/plain").at("data.a"), "b");
    // Policies, tokens, logins, identity, namespaces, quotas, devices.
    assert!(client.get("sys/policies/acl/app").good().at("data.policy").contains("kv/data/app/*"));
    let mut lasting = server.client("a-token-that-lasts");
    assert_eq!(lasting.get("kv/data/app/db").at("data.data.password"), "version 3");
    assert_eq!(lasting.get("one/plain").status, 403);
    let login = r#"{"password":"correct horse battery"}"#;
    assert_eq!(client.put("auth/userpass/login/ann", login).at("auth.token_policies.0"), "app");
    let login = r#"{"role_id":"the-role-of-web","secret_id":"a-secret-id-of-web"}"#;
    assert_eq!(client.put("auth/approle/login", login).at("auth.token_policies.0"), "app");
    assert_eq!(client.get("identity/entity/name/ann").at("data.name"), "ann");
    assert_eq!(client.get("identity/group/name/g").at("data.name"), "g");
    assert_eq!(client.get("team/kv/x").at("data.in"), "team");
    assert_eq!(client.get("sys/quotas/rate-limit/q").at("data.path"), "kv/");
    client.get("sys/audit").good();
    // Engines with records and keys of their own.
    let body = format!(r#"{{"ciphertext":"{}"}}"#, release.ciphertext);
    assert_eq!(client.put("transit/decrypt/k", &body).at("data.plaintext"), "aGVsbG8=");
    assert_eq!(client.get("totp/keys/t").at("data.account_name"), "ann");
    client.get("totp/code/t").good();
    let issue = r#"{"common_name":"www.example.org","ttl":"1h"}"#;
    client.put("pki/issue/r", issue);
    assert!(client.get("ssh/config/ca").good().at("data.public_key").starts_with("ssh-ed25519 "));
}

fn ask_for_what_came_with_0_2_0(client: &mut Client) {
    let mut says = |path: &str, member: &str, value: &str| {
        assert_eq!(client.get(path).good().at(member), value, "{path}");
    };
    says("auth/ldap/config", "data.url", "ldaps://ldap.example.org");
    says("identity/oidc/key/signer", "data.algorithm", "ES256");
    says("sys/quotas/lease-count/leases", "data.max_leases", "1000");
    says("pki/config/acme", "data.default_directory_policy", "role:r");
    says("database/roles/app", "data.db_name", "shop");
    let methods = client.send("LIST", "identity/mfa/method/totp", "").good();
    assert_eq!(methods.strings("data.keys").len(), 1);
    let revoked = client.send("LIST", "pki/certs/revoked", "").good();
    assert_eq!(revoked.strings("data.keys").len(), 1);
}
