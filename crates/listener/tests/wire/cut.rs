//! Replies that fail half-way: no client takes a part for the whole.

use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::aged::AgedStore;
use crate::support::{Connection, Running, TOKEN, request};

const BACKUP: &str = "sys/storage/raft/snapshot";
/// Makes a request hyper's.
const NOT_PLAIN: (&str, &str) = ("TE", "trailers");

/// A server whose state cannot be read to its end.
fn server() -> Running {
    Running::start_over(Arc::new(AgedStore::default()), |service| service)
}

#[test]
fn a_backup_that_cannot_be_read_to_its_end_has_no_last_chunk() {
    let server = server();
    for reader in [&[][..], &[NOT_PLAIN]] {
        let headers = [&[("X-Vault-Token", TOKEN)], reader].concat();
        let mut connection = server.connect();
        connection.send(&request("GET", BACKUP, &headers, ""));
        let mut all = Vec::new();
        // Whether it is reset or closed is the system's to say.
        let _ = connection.writer().read_to_end(&mut all);
        let head = all.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&all[..head]).to_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        assert!(all.len() > 100_000, "{}", all.len());
        assert!(!all.ends_with(b"\r\n0\r\n\r\n"), "it looks whole");
    }
    server.assert_serves();
}

/// A small one comes with its head, and is here before it is asked for.
#[test]
fn a_small_file_is_taken_from_either_reader_in_any_spelling() {
    let server = server();
    for path in [BACKUP, "sys/storage/raft/%73napshot"] {
        for reader in [&[][..], &[NOT_PLAIN]] {
            let headers = [&[("X-Vault-Token", TOKEN)], reader].concat();
            let reply = server.connect().ask_with("POST", path, &headers, "no snapshot");
            // The store of this test is no cluster, as only who begins to take the file finds.
            let text = reply.text();
            assert_eq!(reply.status, 503, "{path} {reader:?}: {text}");
            assert!(text.contains("this cluster is none"), "{path} {reader:?}: {text}");
        }
    }
}

#[test]
fn over_http_2_its_stream_is_reset_and_the_connection_goes_on() {
    let server = server();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let handshake =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut client, connection) = handshake.await.unwrap();
        let driver = tokio::spawn(connection);
        let ask = |path: &str| {
            let uri = format!("http://{}/v1/{path}", server.address());
            let request = hyper::Request::builder().uri(uri).header("X-Vault-Token", TOKEN);
            request.body(Full::new(Bytes::new())).unwrap()
        };
        for _ in 0..2 {
            let reply = client.send_request(ask(BACKUP)).await.unwrap();
            assert_eq!(reply.status(), 200);
            let mut body = reply.into_body();
            let mut taken = 0;
            let end = loop {
                match body.frame().await {
                    Some(Ok(frame)) => taken += frame.into_data().map_or(0, |data| data.len()),
                    other => break other,
                }
            };
            let error = end.expect("a stream that ends is whole").unwrap_err();
            let said = std::error::Error::source(&error).map(ToString::to_string);
            assert!(said.as_ref().is_some_and(|said| said.contains("stream error")), "{said:?}");
            assert!(taken > 0);
        }
        let health = client.send_request(ask("sys/health")).await.unwrap();
        assert_eq!(health.status(), 200);
        driver.abort();
    });
}

#[test]
fn a_stream_that_nobody_reads_is_cut_when_the_server_stops() {
    let server = server();
    let mut connection = server.connect();
    let watch = "sys/kallisto/kv/watch?path=secret/";
    connection.send(&request("GET", watch, &[("X-Vault-Token", TOKEN)], ""));
    let mut writer = server.connect();
    // More than a client's and a server's ends have room for.
    let name = "n".repeat(900);
    for at in 0..800 {
        let path = format!("secret/data/{name}{at}");
        assert_eq!(writer.ask("POST", &path, r#"{"data":{"a":"b"}}"#).status, 200);
    }
    drop(writer);
    let stopping = std::thread::spawn(move || server.stop());
    stopping.join().unwrap();
    let mut all = Vec::new();
    let _ = connection.writer().read_to_end(&mut all);
    let text = String::from_utf8_lossy(&all);
    assert!(text.contains("event: put"), "{}", text.len());
    // Either everything was said, with a farewell and the last chunk, or neither is there.
    let is_whole = text.ends_with("0\r\n\r\n");
    assert_eq!(is_whole, text.contains("the server stops"), "{}", text.len());
}

/// As browsers and proxies connect ahead of time.
#[test]
fn a_client_that_has_not_begun_a_handshake_does_not_hold_up_the_end() {
    let server = Running::start().within_tls();
    let address = server.address();
    let _silent = TcpStream::connect(address).unwrap();
    // It was accepted when one behind it is answered.
    let mut behind = Connection::to(address);
    behind.send(&request("GET", "sys/health", &[], ""));
    assert_eq!(behind.receive().unwrap().status, 400);
    drop(behind);
    #[expect(clippy::disallowed_methods, reason = "how long it takes is what is tested")]
    let begin = Instant::now();
    server.stop();
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}
