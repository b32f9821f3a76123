//! A server that joins by itself, with a seal that opens by itself, and is interrupted in the middle.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;

use crate::support::{Directory, Keys, Server, until};

/// Where nobody listens.
const NOWHERE: &str = "127.0.0.1:9";

/// A configuration of one of them, with a seal that opens by itself.
fn config(directory: &Directory, name: &str) -> String {
    let key = "0123456789abcdef".repeat(4);
    let seal =
        format!("seal \"static\" {{\n  current_key_id = \"a\"\n  current_key = \"{key}\"\n}}\n");
    crate::pair::config(directory, name) + &seal
}

/// The same, joining where `address` leads, with the token in a file.
fn joining(config: &str, address: SocketAddr, token_file: &Path) -> String {
    let join = format!(
        "  retry_join {{\n    leader_api_addr = \"http://{address}\"\n    join_token_file = \"{}\"\n  }}\n",
        token_file.display()
    );
    config.replacen("storage \"raft\" {\n", &format!("storage \"raft\" {{\n{join}"), 1)
}

fn first(directory: &Directory) -> (Server, Keys) {
    let one = Server::start(directory, &config(directory, "one"));
    let keys = one.initialize(1, 1);
    until("the first to lead", || one.anyone().get("sys/leader").at("is_self") == "true");
    (one, keys)
}

fn second(directory: &Directory, config: &str) -> Server {
    let path = directory.write("two.hcl", config);
    Server::spawn(directory, &[], &[&format!("-config={}", path.display())])
}

/// The members, as the first says.
fn members(one: &Server, keys: &Keys) -> usize {
    let peers = one.client(&keys.root).get("sys/storage/raft/configuration").good();
    peers.body.matches(r#""node_id""#).count()
}

/// Hands on what is asked of `leader`, one connection after the other, and loses the first answer to an answer: its number counts those.
fn lossy(leader: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let lost = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // What is lost is asked for again.
            let _ = hand_on(stream, leader, &lost);
        }
    });
    (address, count)
}

fn hand_on(stream: TcpStream, leader: SocketAddr, lost: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        if !lower.starts_with("connection:") {
            head += &line;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut to = TcpStream::connect(leader)?;
    write!(to, "{head}Connection: close\r\n\r\n")?;
    to.write_all(&body)?;
    let mut answer = Vec::new();
    to.read_to_end(&mut answer)?;
    if head.contains("bootstrap/answer") && lost.fetch_add(1, Ordering::SeqCst) == 0 {
        return Ok(());
    }
    reader.get_mut().write_all(&answer)
}

#[test]
fn a_server_that_is_restarted_before_anything_was_sent_opens_once_it_was() {
    let directory = Directory::new("joining-unsent");
    let (one, keys) = first(&directory);
    let reached = config(&directory, "two");
    let line = reached.lines().find(|line| line.starts_with("cluster_addr = ")).unwrap();
    let unreached = reached.replace(line, &format!("cluster_addr = \"https://{NOWHERE}\""));
    let two = second(&directory, &joining(&unreached, one.address, &directory.join("none")));
    until("the second to be a member", || members(&one, &keys) == 2);
    until("it to know that", || two.log().contains("joined a cluster"));
    two.end(Signal::KILL);
    // It is a member, and joins no more: as one does that was told to by a request.
    let two = second(&directory, &reached);
    until("the second to be unsealed", || !two.is_sealed());
    two.stop();
    one.stop();
}

#[test]
fn a_server_that_did_not_hear_that_it_was_taken_in_is_taken_in_again_and_no_other_is() {
    let directory = Directory::new("joining-lost");
    let (one, keys) = first(&directory);
    let mut root = one.client(&keys.root);
    root.put("sys/storage/raft/bootstrap/configuration", r#"{"require_token":true}"#);
    let mut token = |name: &str| {
        let token = root.put("sys/storage/raft/bootstrap/token", "{}").at("data.token");
        directory.write(name, token)
    };
    let (lossy, lost) = lossy(one.address);
    let (config, shown) = (config(&directory, "two"), token("shown"));
    let two = second(&directory, &joining(&config, lossy, &shown));
    until("an answer to be lost", || lost.load(Ordering::SeqCst) > 0);
    two.end(Signal::KILL);
    assert_eq!(members(&one, &keys), 2);
    // Another that has its name and its address is not it, whatever it shows.
    let data = directory.join("two");
    let put_by = directory.join("two.put-by");
    std::fs::rename(&data, &put_by).unwrap();
    refused(&directory, &joining(&config, one.address, &token("other")), &data);
    std::fs::rename(&put_by, &data).unwrap();
    let two = second(&directory, &joining(&config, one.address, &shown));
    until("the second to be unsealed", || !two.is_sealed());
    until("two voters", || {
        let peers = one.client(&keys.root).get("sys/storage/raft/configuration").good();
        peers.body.matches(r#""voter":true"#).count() == 2
    });
    assert_eq!(members(&one, &keys), 2);
    two.stop();
    one.stop();
}

/// Starts a second server on empty storage, which must be refused for its name.
#[track_caller]
fn refused(directory: &Directory, config: &str, data: &Path) {
    std::fs::create_dir_all(data).unwrap();
    let two = second(directory, config);
    until("a refusal", || two.log().contains("a server named two is a member: remove it first"));
    two.stop();
    std::fs::remove_dir_all(data).unwrap();
}
