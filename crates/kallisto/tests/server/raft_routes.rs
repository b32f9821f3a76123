//! The rows of `sys/storage/raft` in the description for programs, asked of a server that has the storage: each
//! is answered for what it takes, and for nothing else. The tests of the table have no such storage.

use kallisto_command::client::sudo::needs_sudo;
use kallisto_core::{Operation, json};

use crate::support::{Client, Directory, Server};

const BASE: &str = "/sys/storage/raft/";

/// The paths of the OpenAPI document below [`BASE`], each with its methods.
fn described(client: &mut Client) -> Vec<(String, Vec<&'static str>)> {
    let reply = client.get("sys/internal/specs/openapi").good();
    let document = json::parse_object(reply.body.as_bytes()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let ours = paths.iter().filter_map(|(path, item)| {
        let item = item.as_object().filter(|_| path.starts_with(BASE))?;
        let named = [("get", "GET"), ("post", "POST"), ("delete", "DELETE"), ("patch", "PATCH")];
        let named = named.into_iter().filter(|(name, _)| item.contains_key(*name));
        let path = path.trim_start_matches('/').to_owned();
        Some((path, named.map(|(_, method)| method).collect()))
    });
    ours.collect()
}

/// Routes of which the document cannot say that only some operations need `sudo`.
const PARTLY_PROTECTED: [&str; 2] = ["/sys/leases/lookup", "/sys/storage/raft/snapshot"];

/// `kallisto -output-policy` does not ask the server, so it has a list of its own.
#[test]
fn the_commands_know_which_paths_need_sudo() {
    let directory = Directory::new("sudo-routes");
    let server = Server::start(&directory, &directory.config(""));
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    let reply = server.client(&keys.root).get("sys/internal/specs/openapi").good();
    let document = json::parse_object(reply.body.as_bytes()).unwrap();
    let mut protected = 0;
    for (template, item) in document["paths"].as_object().unwrap() {
        let item = item.as_object().unwrap();
        let path = template.trim_matches('/').replace(['{', '}'], "");
        let is_list = template.ends_with('/');
        if PARTLY_PROTECTED.contains(&template.trim_end_matches('/')) {
            continue;
        }
        let methods =
            [("get", Operation::Read), ("post", Operation::Update), ("delete", Operation::Delete)];
        for (_, operation) in methods.into_iter().filter(|(name, _)| item.contains_key(*name)) {
            let operation = if is_list { Operation::List } else { operation };
            let is_protected = item.contains_key("x-vault-sudo");
            protected += usize::from(is_protected);
            let is_open = item.contains_key("x-vault-unauthenticated");
            assert_eq!(
                needs_sudo(operation, &path),
                is_protected && !is_open,
                "{operation:?} {path}"
            );
        }
    }
    assert!(protected > 40, "only {protected} are protected");
    server.stop();
}

#[test]
fn every_row_is_answered_and_no_other_method_is() {
    let directory = Directory::new("raft-routes");
    let server = Server::start(&directory, &directory.config(""));
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    // A connection each: what refuses an upload ends the one it came by.
    let root = || server.client(&keys.root);
    let rows = described(&mut root());
    assert_eq!(rows.len(), 21, "{rows:?}");
    // Of schedules and loaded snapshots there are none here, and what is not there is 404 as well.
    let absent = ["/snapshot-auto/", "/snapshot-load"];
    let rows = rows.iter().filter(|(path, _)| !absent.iter().any(|name| path.contains(name)));
    for (path, taken) in rows {
        for method in ["GET", "POST", "DELETE", "LIST"] {
            let status = root().send(method, path, "{}").status;
            let is_refused = matches!(status, 404 | 405);
            let is_taken = taken.contains(&method);
            assert_eq!(is_refused, !is_taken, "{method} {path}: {status}");
        }
        if taken.contains(&"GET") {
            let help = root().get(&format!("{path}?help=1")).good().at("help");
            assert!(help.contains(path.trim_start_matches("sys/")), "{help}");
        }
    }
    server.stop();
}
