//! `raft/join` of a server that is not initialised asks for no token, so it leads nowhere but to servers, tells nothing of
//! what it found, and does not let itself be hurried.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Directory, Reply, Server, until};

/// What the caller must not learn.
const BODY: &str = "word-of-an-inner-service";

/// Something that is no server of ours, which counts who connects.
fn stranger() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut head = [0; 4096];
            // Whoever hung up hears nothing.
            let _ = stream.read(&mut head);
            let length = BODY.len() + 15;
            let _ = write!(
                stream,
                "HTTP/1.1 403 No\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n\
                 {{\"errors\":[\"{BODY}\"]}}"
            );
        }
    });
    (address, count)
}

/// A server that is not initialised, and says that it and its peers are found there.
fn blank(directory: &Directory, host: &str) -> Server {
    let more = format!("api_addr = \"http://{host}:8200\"\ncluster_addr = \"https://{host}:8201\"");
    Server::start(directory, &directory.config(&more))
}

fn join(server: &Server, url: &str) -> Reply {
    let body = format!(r#"{{"leader_api_addr":"{url}"}}"#);
    server.anyone().send("POST", "sys/storage/raft/join", &body)
}

#[test]
fn a_server_that_waits_for_one_to_join_says_so_once_and_not_at_each_try() {
    let directory = Directory::new("join-waiting");
    let (address, count) = stranger();
    let join = format!("retry_join {{ leader_api_addr = \"http://{address}\" }}");
    let config = directory.config("").replacen(
        "storage \"raft\" {",
        &format!("storage \"raft\" {{\n{join}"),
        1,
    );
    let server = Server::start(&directory, &config);
    // The second try has failed when the third one begins.
    until("a third try", || count.load(Ordering::SeqCst) >= 3);
    assert_eq!(server.log().matches("not joined yet").count(), 1, "{}", server.log());
    server.stop();
}

#[test]
fn a_request_leads_to_no_address_of_this_machine_and_to_no_metadata() {
    let (address, count) = stranger();
    let directory = Directory::new("join-away");
    let server = blank(&directory, "kallisto-two.invalid");
    let refused = join(&server, &format!("http://{address}"));
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("the log of this server says more"), "{}", refused.body);
    assert!(server.log().contains("no address of a server"), "{}", server.log());
    // The next comes too soon, wherever it leads.
    let refused = join(&server, "http://169.254.169.254");
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert_eq!(count.load(Ordering::SeqCst), 0);
    // Nobody has to wait to make a cluster of it.
    server.initialize(1, 1);
    server.stop();
}

#[test]
fn what_was_found_is_for_the_log_alone() {
    let (address, count) = stranger();
    let directory = Directory::new("join-here");
    let server = blank(&directory, "127.0.0.1");
    let refused = join(&server, &format!("http://{address}"));
    assert_eq!((refused.status, count.load(Ordering::SeqCst)), (400, 1), "{}", refused.body);
    let port = address.port().to_string();
    for told in [BODY, "403", &port] {
        assert!(!refused.body.contains(told), "{told}: {}", refused.body);
    }
    assert!(server.log().contains(&port), "{}", server.log());
    server.stop();
}

/// A log may be on the disk that is full.
#[test]
fn a_certificate_that_cannot_be_stored_is_told_once_and_with_the_reason() {
    let directory = Directory::new("no-identity");
    let server = Server::start(&directory, &directory.config(""));
    // No file can take the place of a folder.
    std::fs::create_dir_all(directory.join("data/peers/node.key")).unwrap();
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    let failures = || {
        let reply = server.client(&keys.root).get("sys/internal/jobs").good();
        let document = kallisto_core::json::parse_object(reply.body.as_bytes()).unwrap();
        let jobs = document["data"].as_object().unwrap()["key_info"].as_object().unwrap();
        // It is there once the job has run.
        let job = jobs.get("cluster_certificate").and_then(|job| job.as_object());
        let failures = job.map_or_else(|| b"0".to_vec(), |job| job["failures"].to_text());
        String::from_utf8(failures).unwrap().parse::<u64>().unwrap()
    };
    until("some failures", || failures() >= 3);
    let log = server.log();
    assert_eq!(log.matches("a job failed").count(), 1, "{log}");
    assert!(log.contains("node.key: Is a directory"), "{log}");
    assert!(!log.contains("internal error"), "{log}");
    server.stop();
}
