//! Restores of snapshots that were saved before a rekey: which shares count afterwards.

use std::path::Path;
use std::process::{Command, Output};

use data_encoding::HEXLOWER;
use rustix::process::Signal;

use crate::support::{Directory, Keys, Server, share_of, until};

/// A public OpenPGP key whose private key nobody has.
const HOLDER: &str = "mDMEXgvhABYJKwYBBAHaRw8BAQdAudMITAiuXKSJ6nerVQZSoaODPlze2zxSZa9tCSxJGJu0AWGIkAQTFggAOBYhBH\
    aTOBAIdT+oYIqqCjskjWoXiiLYBQJeC+EAAhsjBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJEDskjWoXiiLYIBQB\
    AOcfE5ikvx6PztZsu3Sm86faNArkY5J2Zo+TydBRSnkCAQC7oPfWSLq+6vwkW/DZG2eUL1Ugwsbg2aYhNfbvZx+oAb\
    g4BF4L4QASCisGAQQBl1UBBQEBB0D3dOTMEI0ld9fF+x1HPO/95QfUDpmHC/O7lHoZYPXtZAMBCAeIeAQYFggAIBYh\
    BHaTOBAIdT+oYIqqCjskjWoXiiLYBQJeC+EAAhsMAAoJEDskjWoXiiLYkwMA/1Dm+vsqRlwIczD2w2G3mBz3H2cPhO\
    oKHhOrF8DlT/lkAP4pv1632o0EEAHT3DuNOKM9zGBH9wOmevQvckCtIVCfAQ==";

/// Runs a command of `kallisto operator raft snapshot` on that file.
fn run(server: &Server, token: &str, words: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kallisto"))
        .args(["operator", "raft", "snapshot"])
        .args(words)
        .arg(file)
        .env("VAULT_ADDR", format!("http://{}", server.address))
        .env("VAULT_TOKEN", token)
        .output()
        .unwrap()
}

/// The same, and it must succeed.
#[track_caller]
fn snapshot(server: &Server, token: &str, words: &[&str], file: &Path) {
    let done = run(server, token, words, file);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Rekeys with one share to one share, which is encrypted to a holder and kept where `kept` says so.
#[track_caller]
pub(crate) fn rekey(server: &Server, root: &str, route: &str, share: &str, kept: bool) -> String {
    let mut client = server.client(root);
    let holders = match kept {
        true => format!(r#","pgp_keys":["{HOLDER}"],"backup":true"#),
        false => String::new(),
    };
    let spec = format!(r#"{{"secret_shares":1,"secret_threshold":1{holders}}}"#);
    let nonce = client.put(&format!("sys/{route}/init"), &spec).at("nonce");
    let body = format!(r#"{{"key":"{share}","nonce":"{nonce}"}}"#);
    client.put(&format!("sys/{route}/update"), &body).strings("keys").remove(0)
}

#[track_caller]
fn put(server: &Server, root: &str, value: &str) {
    server.client(root).put("kv/app", &format!(r#"{{"a":"{value}"}}"#));
}

/// The state of the snapshot is there and this share, alone, opens it.
#[track_caller]
fn expect_opened_by(server: &Server, root: &str, good: &str, bad: &str) {
    let refused = server.anyone().send("PUT", "sys/unseal", &share_of(bad));
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(server.is_sealed());
    assert_eq!(server.anyone().put("sys/unseal", &share_of(good)).at("sealed"), "false");
    assert_eq!(server.client(root).get("kv/app").good().at("data.a"), "old");
}

#[test]
fn a_restore_leaves_the_shares_that_count_and_one_by_force_brings_those_of_the_file_back() {
    let directory = Directory::new("rekeyed");
    let config = directory.config("");
    let server = Server::start(&directory, &config);
    let Keys { shares, root, .. } = server.initialize(1, 1);
    let old = &shares[0];
    server.anyone().put("sys/unseal", &share_of(old));
    server.client(&root).put("sys/mounts/kv", r#"{"type":"kv"}"#);
    put(&server, &root, "old");
    let file = directory.write("before.snap", "");
    snapshot(&server, &root, &["save"], &file);
    // A rotation gives the records that come later another key.
    server.client(&root).put("sys/rotate", "");
    let new = rekey(&server, &root, "rekey", old, false);
    put(&server, &root, "new");

    snapshot(&server, &root, &["restore"], &file);
    until("the old state", || server.client(&root).get("kv/app").at("data.a") == "old");
    assert!(!server.is_sealed());
    let log = server.log();
    server.end(Signal::KILL);
    let server = Server::start(&directory, &config);
    expect_opened_by(&server, &root, &new, old);
    assert!(log.contains("saved before a rekey"), "{log}");

    snapshot(&server, &root, &["restore", "-force"], &file);
    until("the old state", || server.client(&root).get("kv/app").at("data.a") == "old");
    let log = server.log();
    server.end(Signal::KILL);
    let server = Server::start(&directory, &config);
    expect_opened_by(&server, &root, old, &new);
    assert!(log.contains("its shares count again"), "{log}");
    server.stop();
}

#[test]
fn shares_that_a_rekey_kept_are_kept_across_the_restore_of_an_older_snapshot() {
    let directory = Directory::new("kept");
    let config = directory.config("");
    let server = Server::start(&directory, &config);
    let Keys { shares, root, .. } = server.initialize(1, 1);
    server.anyone().put("sys/unseal", &share_of(&shares[0]));
    let file = directory.write("before.snap", "");
    snapshot(&server, &root, &["save"], &file);
    server.client(&root).put("sys/rotate", "");
    rekey(&server, &root, "rekey", &shares[0], true);
    let nonce = || server.client(&root).get("sys/rekey/backup").at("data.nonce");
    let kept = nonce();
    assert!(!kept.is_empty());
    snapshot(&server, &root, &["restore"], &file);
    until("a view of what was restored", || {
        server.log().matches("unsealed").count() > 1
            && server.client(&root).get("sys/rekey/backup").status == 200
    });
    assert_eq!(nonce(), kept);
    server.stop();
}

#[test]
fn recovery_shares_that_count_stay_so_with_a_seal_that_opens_by_itself() {
    let directory = Directory::new("recovery-kept");
    let seal = HEXLOWER.encode(&(7..39).collect::<Vec<u8>>());
    let config = directory.config(&format!(
        "seal \"static\" {{\n  current_key_id = \"a\"\n  current_key = \"{seal}\"\n}}"
    ));
    let server = Server::start(&directory, &config);
    let Keys { recovery, root, .. } = server.initialize(1, 1);
    server.client(&root).put("sys/mounts/kv", r#"{"type":"kv"}"#);
    put(&server, &root, "old");
    let file = directory.write("before.snap", "");
    snapshot(&server, &root, &["save"], &file);
    let new = rekey(&server, &root, "rekey-recovery-key", &recovery[0], false);
    put(&server, &root, "new");
    snapshot(&server, &root, &["restore"], &file);
    until("the old state", || server.client(&root).get("kv/app").at("data.a") == "old");
    server.end(Signal::KILL);
    let server = Server::start(&directory, &config);
    until("an unsealed server", || !server.is_sealed());
    let mut client = server.client(&root);
    for (share, wanted) in [(&recovery[0], 400), (&new, 200)] {
        let nonce = client.put("sys/generate-root/attempt", "{}").at("nonce");
        let body = format!(r#"{{"key":"{share}","nonce":"{nonce}"}}"#);
        let reply = client.send("PUT", "sys/generate-root/update", &body);
        assert_eq!(reply.status, wanted, "{}", reply.body);
        if wanted == 400 {
            client.send("DELETE", "sys/generate-root/attempt", "").good();
        }
    }
    server.stop();
}

/// It is the disk of whoever saves, and not the server's.
#[test]
fn a_snapshot_for_which_there_is_no_room_is_told_with_the_name_of_its_file() {
    let directory = Directory::new("no-room");
    let server = Server::start(&directory, &directory.config(""));
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    let full = Path::new("/dev/full");
    if !full.exists() {
        println!("*** SKIPPED: there is no /dev/full");
        return;
    }
    let refused = run(&server, &keys.root, &["save"], full);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("/dev/full: No space left") && !said.contains("http://"), "{said}");
    server.stop();
}
