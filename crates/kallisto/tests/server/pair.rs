//! Two servers that are a cluster: what one says when the other is gone, and what the other does that was removed.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::ports::free_address;
use crate::support::{Directory, Keys, Server, run, share_of, until};

/// The second server ends with this code when it is asked to end by itself.
const EXIT_DOWN: i32 = 1;

/// A configuration of one of them.
pub(crate) fn config(directory: &Directory, name: &str) -> String {
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
pub(crate) fn start(directory: &Directory, flags: &[&str]) -> (Server, Server, Keys) {
    start_with(directory, flags, &[])
}

/// The same with an environment.
pub(crate) fn start_with(
    directory: &Directory,
    flags: &[&str],
    environment: &[(&str, &str)],
) -> (Server, Server, Keys) {
    let one = Server::start_with(directory, &config(directory, "one"), environment);
    let keys = one.initialize(1, 1);
    one.unseal(&keys);
    let path = directory.write("two.hcl", config(directory, "two"));
    let named = format!("-config={}", path.display());
    let arguments: Vec<&str> = flags.iter().copied().chain([named.as_str()]).collect();
    let two = Server::spawn(directory, environment, &arguments);
    let body = format!(r#"{{"leader_api_addr":"http://{}"}}"#, one.address);
    two.anyone().send("POST", "sys/storage/raft/join", &body).good();
    let share = share_of(&keys.shares[0]);
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

#[test]
fn a_member_that_is_told_to_join_again_has_joined() {
    let directory = Directory::new("pair-again");
    let (one, two, _) = start(&directory, &[]);
    let body = format!(r#"{{"leader_api_addr":"http://{}"}}"#, one.address);
    let again = || two.anyone().send("POST", "sys/storage/raft/join", &body);
    assert_eq!(again().good().at("joined"), "true");
    two.stop();
    // As a hook asks that runs whenever a pod starts: the server is sealed then.
    let path = directory.join("two.hcl");
    let two = Server::spawn(&directory, &[], &[&format!("-config={}", path.display())]);
    let again = two.anyone().send("POST", "sys/storage/raft/join", &body);
    assert_eq!(again.good().at("joined"), "true");
    two.stop();
    one.stop();
    // One that was initialised by itself is another cluster.
    let alone = Directory::new("pair-alone");
    let alone = Server::start(&alone, &config(&alone, "alone"));
    alone.initialize(1, 1);
    let refused = alone.anyone().send("POST", "sys/storage/raft/join", &body);
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("this server is initialized"), "{}", refused.body);
}

/// Nobody is elected before one of them is unsealed, so what each has written down says which share that takes.
#[test]
fn the_new_share_counts_though_all_servers_are_killed_right_after_the_rekey() {
    let directory = Directory::new("pair-rekeyed");
    let (one, two, keys) = start(&directory, &[]);
    let old = &keys.shares[0];
    let new = crate::restore::rekey(&one, &keys.root, "rekey", old, false);
    one.end(Signal::KILL);
    two.end(Signal::KILL);
    let again = ["server.hcl", "two.hcl"].map(|config| {
        let path = directory.join(config);
        Server::spawn(&directory, &[], &[&format!("-config={}", path.display())])
    });
    for server in &again {
        let refused = server.anyone().send("PUT", "sys/unseal", &share_of(old));
        assert_eq!(refused.status, 400, "{}", refused.body);
    }
    for server in &again {
        until("the new share to unseal it", || {
            server.anyone().send("PUT", "sys/unseal", &share_of(&new)).at("sealed") == "false"
        });
    }
    let [one, two] = again;
    until("one of them to lead", || {
        one.client(&keys.root).send("PUT", "sys/mounts/kv", r#"{"type":"kv"}"#).status == 204
    });
    two.stop();
    one.stop();
}

/// What was asked, the status and text of the answer, and how long it took.
fn asked(server: &Server, token: &str, method: &str, path: &str) -> (u16, String, Duration) {
    let began = Instant::now();
    let reply = server.client(token).send(method, path, r#"{"data":{"a":"b"}}"#);
    (reply.status, reply.body, began.elapsed())
}

#[test]
fn without_a_quorum_operators_hear_who_is_missing_and_nobody_waits_for_ever_in_vain() {
    let directory = Directory::new("pair-quorum");
    let (one, two, keys) = start(&directory, &[]);
    let mut root = one.client(&keys.root);
    root.put("sys/mounts/kv", r#"{"type":"kv","options":{"version":"2"}}"#);
    let low = root.put("auth/token/create", r#"{"policies":["default"]}"#);
    let low = low.at("auth.client_token");
    two.end(Signal::KILL);
    until("the leader to step down", || {
        root.get("sys/leader").body.contains(r#""leader_address":"""#)
    });
    let (names, count) =
        ("1 of 2 voters are reached, not reached: two", "1 of 2 voters are reached");
    // An election may be on its way, so the first wait.
    thread::scope(|scope| {
        for (token, told) in
            [(keys.root.as_str(), names), (&low, count), ("", "send the request again")]
        {
            let one = &one;
            scope.spawn(move || {
                let (status, body, took) = asked(one, token, "PUT", "kv/data/x");
                assert_eq!(status, 503, "{body}");
                assert!(body.contains("no server leads") && body.contains(told), "{body}");
                assert_eq!(body.contains("two"), told == names, "{body}");
                assert_eq!(body.contains(count), told != "send the request again", "{body}");
                assert!(!body.contains("127.0.0.1"), "no addresses: {body}");
                assert!(took > Duration::from_secs(5), "{took:?}: an election takes time");
            });
        }
    });
    // By now it is known that there is none.
    for (method, path) in
        [("PUT", "kv/data/x"), ("GET", "sys/storage/raft/snapshot"), ("GET", "kv/data/x")]
    {
        let (status, body, took) = asked(&one, &keys.root, method, path);
        assert_eq!(status, 503, "{body}");
        assert!(body.contains(names), "{path}: {body}");
        // Who waits does so for ten seconds.
        assert!(took < Duration::from_secs(8), "{path}: {took:?}");
        let (_, body, _) = asked(&one, &low, method, path);
        assert!(!body.contains("two"), "{path}: {body}");
    }
    list_peers(&directory, &one, &keys);
    // Unsealed without a leader, a server says what it does then.
    one.stop();
    let path = directory.join("server.hcl");
    let one = Server::spawn(&directory, &[], &[&format!("-config={}", path.display())]);
    one.unseal(&keys);
    assert!(one.log().contains("refusing what needs to be recent until one does"), "{}", one.log());
    // It comes back, and everything goes on.
    let path = directory.join("two.hcl");
    let two = Server::spawn(&directory, &[], &[&format!("-config={}", path.display())]);
    two.unseal(&keys);
    until("a write to be taken", || asked(&one, &keys.root, "PUT", "kv/data/x").0 == 200);
    two.stop();
}

/// The members are told from what one server knows, and the command prints them and says so.
fn list_peers(directory: &Directory, one: &Server, keys: &Keys) {
    let address = format!("http://{}", one.address);
    let environment = [("VAULT_ADDR", address.as_str()), ("VAULT_TOKEN", &keys.root)];
    let said = run(&directory.join(""), &environment, &["operator", "raft", "list-peers"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for name in ["one", "two", "follower"] {
        assert!(said.stdout.contains(name), "{said:?}");
    }
    // Lines are folded where a terminal would.
    let told = said.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("no server leads") && told.contains("all but two"), "{said:?}");
    assert!(!said.stdout.contains("leader"), "{said:?}");
}
