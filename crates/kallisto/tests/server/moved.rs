//! A member that comes back with another address or name: what its cluster takes, and what it keeps.

use std::time::{Duration, Instant};

use crate::support::{Directory, Keys, Server, refuse, share_of, until};

/// Where nobody listens.
const NOWHERE: &str = "127.0.0.1:9";

/// A configuration in which a line has another value.
fn with(config: &str, setting: &str, value: &str) -> String {
    let line = |line: &str| match line.trim().strip_prefix(setting) {
        Some(rest) if rest.starts_with(" = ") => format!("{setting} = \"{value}\"\n"),
        _ => format!("{line}\n"),
    };
    config.lines().map(line).collect()
}

fn spawn(directory: &Directory, config: &str) -> Server {
    let path = directory.write("two.hcl", config);
    Server::spawn(directory, &[], &[&format!("-config={}", path.display())])
}

/// Where the members are reached, as one of them says.
fn addresses(server: &Server, keys: &Keys) -> Vec<String> {
    let reply = server.client(&keys.root).get("sys/storage/raft/configuration").good();
    let address = |place: usize| reply.at(&format!("data.config.servers.{place}.address"));
    (0..).map(address).take_while(|address| !address.is_empty()).collect()
}

#[test]
fn a_member_keeps_its_address_until_it_is_reached_at_another_and_takes_no_name_of_others() {
    let directory = Directory::new("moved");
    let (one, two, keys) = crate::pair::start(&directory, &[]);
    let config = std::fs::read_to_string(directory.join("two.hcl")).unwrap();
    let before = addresses(&one, &keys);
    two.stop();
    let two = spawn(&directory, &with(&config, "cluster_addr", &format!("https://{NOWHERE}")));
    until("the leader to say so", || one.log().contains("its old one is kept"));
    until("the member to say so", || two.log().contains("know this server otherwise"));
    assert_eq!(addresses(&one, &keys), before, "{}", one.log());
    two.unseal(&keys);
    two.stop();
    // One that is somebody else's is not even tried.
    let taken = before.iter().find(|address| !config.contains(*address)).unwrap();
    let two = spawn(&directory, &with(&config, "cluster_addr", &format!("https://{taken}")));
    until("the leader to say so", || {
        one.log().contains("new cluster address is not taken: another member has it")
    });
    assert_eq!(addresses(&one, &keys), before);
    two.stop();
    let refused = refuse(&directory, &with(&config, "node_id", "one"), &[]);
    assert!(refused.contains("a server named one is a member"), "{refused}");
    // One that works is taken, and so is a name that is free.
    let own = before.iter().find(|address| *address != taken).unwrap();
    let moved = own.replace("127.0.0.1", "localhost");
    let config = with(&config, "cluster_addr", &format!("https://{moved}"));
    let two = spawn(&directory, &with(&config, "node_id", "three"));
    until("the new address", || addresses(&one, &keys).contains(&moved));
    until("the leader to say so", || one.log().contains("a member has another name"));
    two.stop();
    one.stop();
}

#[test]
fn a_server_that_joins_where_nobody_reaches_it_is_told_so_in_time_and_again_after_a_restart() {
    let directory = Directory::new("moved-join");
    let one = Server::start(&directory, &crate::pair::config(&directory, "one"));
    let keys = one.initialize(1, 1);
    one.unseal(&keys);
    let config = crate::pair::config(&directory, "two");
    let unreached = with(&config, "cluster_addr", &format!("https://{NOWHERE}"));
    let two = spawn(&directory, &unreached);
    let body = format!(r#"{{"leader_api_addr":"http://{}"}}"#, one.address);
    two.anyone().send("POST", "sys/storage/raft/join", &body).good();
    let share = share_of(&keys.shares[0]);
    let began = Instant::now();
    let answer = two.anyone().send("PUT", "sys/unseal", &share);
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
    let is_told = |answer: crate::support::Reply| {
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert!(answer.body.contains(&format!("at its cluster_addr {NOWHERE}")), "{}", answer.body);
    };
    is_told(answer);
    assert!(two.log().contains("nothing was sent yet"), "{}", two.log());
    two.stop();
    let two = spawn(&directory, &unreached);
    is_told(two.anyone().send("PUT", "sys/unseal", &share));
    assert!(two.anyone().get("sys/seal-status").body.contains(r#""initialized":true"#));
    two.stop();
    let two = spawn(&directory, &config);
    until("the second to be unsealed", || {
        two.anyone().send("PUT", "sys/unseal", &share);
        !two.is_sealed()
    });
    two.stop();
    one.stop();
}
