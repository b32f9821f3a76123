//! `raft/join` of a server that is not initialised asks for no token, so it leads nowhere but to servers, tells nothing of
//! what it found, and does not let itself be hurried.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Directory, Reply, Server};

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
