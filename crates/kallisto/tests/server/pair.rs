//! Two servers that are a cluster: what one says when the other is gone, and what the other does that was removed.

use crate::ports::free_address;
use crate::support::{Directory, Keys, Server, until};

/// The second server ends with this code when it is asked to end by itself.
const EXIT_DOWN: i32 = 1;

/// A configuration of one of them.
fn config(directory: &Directory, name: &str) -> String {
    let (api, port) = (free_address(), free_address());
    let data = directory.join(name);
    std::fs::create_dir_all(&data).unwrap();
    format!(
        "storage \"raft\" {{\n  path = \"{}\"\n  node_id = \"{name}\"\n}}\n\
         listener \"tcp\" {{\n  address = \"{api}\"\n  cluster_address = \"{port}\"\n  tls_disable = true\n}}\n\
         api_addr = \"http://{api}\"\ncluster_addr = \"https://{port}\"\n",
        data.display()
    )
}

/// Starts both; the second with these flags besides. Both are unsealed voters in the end.
fn start(directory: &Directory, flags: &[&str]) -> (Server, Server, Keys) {
    let one = Server::start(directory, &config(directory, "one"));
    let keys = one.initialize(1, 1);
    one.unseal(&keys);
    let path = directory.write("two.hcl", config(directory, "two"));
    let named = format!("-config={}", path.display());
    let arguments: Vec<&str> = flags.iter().copied().chain([named.as_str()]).collect();
    let two = Server::spawn(directory, &[], &arguments);
    let body = format!(r#"{{"leader_api_addr":"http://{}"}}"#, one.address);
    two.anyone().send("POST", "sys/storage/raft/join", &body).good();
    let share = crate::support::share_of(&keys.shares[0]);
    until("the second to be unsealed", || {
        two.anyone().send("PUT", "sys/unseal", &share);
        !two.is_sealed()
    });
    until("two voters", || {
        let peers = one.client(&keys.root).get("sys/storage/raft/configuration");
        peers.good().body.matches(r#""voter":true"#).count() == 2
    });
    (one, two, keys)
}

#[test]
fn a_removed_server_ends_when_its_flag_asks_for_it() {
    let directory = Directory::new("pair-removed");
    let (one, two, keys) = start(&directory, &["-exit-on-core-shutdown"]);
    one.client(&keys.root).put("sys/storage/raft/remove-peer", r#"{"server_id":"two"}"#);
    let status = two.ended();
    assert_eq!(status.code(), Some(EXIT_DOWN), "{status}");
    // Once more, as a supervisor would start it.
    let path = directory.join("two.hcl");
    let named = format!("-config={}", path.display());
    let two = Server::spawn(&directory, &[], &["-exit-on-core-shutdown", &named]);
    assert_eq!(two.ended().code(), Some(EXIT_DOWN));
    one.stop();
}
