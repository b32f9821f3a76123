//! The driver against servers that hang, lie, and answer half.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kallisto_engine::AllowedAddresses;
use kallisto_engine::far_end::{FarEndPool, FarEndProtocol, FarEndTls, SessionUse, TlsUse};
use kallisto_engine::{FarEnd, FarEndCall, FarEnds};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::FarEndRunner;

const TOKEN: &str = "canary-of-a-token";

/// A server that answers each request with these bytes, and closes the connection where it is told to.
async fn serve(answer: Vec<u8>, is_closing: bool) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (answer, hears) = (answer.clone(), Arc::clone(&hears));
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 << 10];
                while let Ok(count) = stream.read(&mut buffer).await {
                    if count == 0 {
                        return;
                    }
                    let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                    hears.lock().unwrap().push(text);
                    stream.write_all(&answer).await.ok();
                    if is_closing {
                        return;
                    }
                }
            });
        }
    });
    (port, heard)
}

fn call(port: u16, verb: HttpWorkVerb, body: &str) -> FarEndCall {
    FarEndCall {
        far_end: FarEnd {
            mount: "m".into(),
            name: "n".into(),
            revision: 1,
            hosts: vec![("127.0.0.1".into(), port)],
            addresses: AllowedAddresses::default(),
            connect_secs: 5,
            protocol: FarEndProtocol::Http { login: HttpLogin::Bearer(TOKEN.into()) },
            tls: FarEndTls { usage: TlsUse::Never, ..FarEndTls::default() },
            pool: FarEndPool { open_max: 1, idle_max: 1, lifetime_secs: 0 },
        },
        work: FarEndWork::Http(HttpWork { verb, path: "/a%20b?x=y".into(), body: body.into() }),
        session: SessionUse::Pooled,
        deadline_secs: 1,
        secrets: Vec::new(),
    }
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test)
}

#[test]
fn a_request_is_sent_once_over_a_connection_that_is_kept() {
    run(async {
        let (port, heard) = serve(answer("201 Created", "{\"a\":1}"), false).await;
        let runner = FarEndRunner::default();
        for _ in 0..2 {
            let told = runner.ask(call(port, HttpWorkVerb::Post, "{}")).await.unwrap();
            let expected = HttpWorkAnswer { status: 201, body: b"{\"a\":1}".to_vec() };
            assert_eq!(told, FarEndAnswer::Http(expected));
        }
        let heard = heard.lock().unwrap().clone();
        assert_eq!(heard.len(), 2);
        let head = heard[0].to_ascii_lowercase();
        assert!(head.starts_with("post /a%20b?x=y http/1.1\r\n"), "{head}");
        for line in [
            &format!("host: 127.0.0.1:{port}\r\n"),
            "authorization: bearer canary-of-a-token\r\n",
            "content-type: application/json\r\n",
            "accept: application/json\r\n",
        ] {
            assert!(head.contains(line), "{line} in {head}");
        }
        let statuses = runner.statuses();
        assert_eq!((statuses[0].open, statuses[0].calls, statuses[0].failures), (1, 2, 0));
        assert_eq!(statuses[0].protocol, "http");
        assert_eq!(runner.check("m", "n").await, Ok(()));
        assert!(runner.check("m", "another").await.is_err(), "it was never asked");
        runner.close("m", None);
        assert_eq!(runner.statuses(), []);
    });
}

#[test]
fn a_name_and_a_password_are_sent_as_rfc_7617_says() {
    run(async {
        let (port, heard) = serve(answer("204 No Content", ""), false).await;
        let mut put = call(port, HttpWorkVerb::Put, "{}");
        let login = FarEndLogin { user: "Aladdin".into(), password: "open sesame".into() };
        put.far_end.protocol = FarEndProtocol::Http { login: HttpLogin::Basic(login) };
        let told = FarEndRunner::default().ask(put).await.unwrap();
        assert_eq!(told, FarEndAnswer::Http(HttpWorkAnswer { status: 204, body: Vec::new() }));
        let heard = heard.lock().unwrap()[0].to_ascii_lowercase();
        assert!(heard.starts_with("put /a%20b?x=y http/1.1\r\n"), "{heard}");
        let header = "authorization: basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n";
        assert!(heard.contains(&header.to_ascii_lowercase()), "{heard}");
    });
}

#[test]
fn a_redirect_is_an_answer_and_is_not_followed() {
    run(async {
        let redirect =
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
        let (port, heard) = serve(redirect.to_vec(), false).await;
        let told = FarEndRunner::default().ask(call(port, HttpWorkVerb::Get, "")).await.unwrap();
        assert_eq!(told, FarEndAnswer::Http(HttpWorkAnswer { status: 302, body: Vec::new() }));
        assert_eq!(heard.lock().unwrap().len(), 1);
    });
}

#[test]
fn what_is_not_a_whole_answer_leaves_the_fate_of_a_request_unknown() {
    let endless = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 2 << 20);
    let endless = [endless.into_bytes(), vec![b' '; 2 << 20]].concat();
    let long_head = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"X: y\r\n".repeat(20_000)].concat();
    for (what, bytes, is_closing) in [
        ("nothing, and the end", Vec::new(), true),
        ("nothing, and silence", Vec::new(), false),
        ("no HTTP", b"SSH-2.0-OpenSSH\r\n\r\n".to_vec(), false),
        ("half a head", b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(), true),
        ("half a body", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"a\"".to_vec(), true),
        (
            "a body that stops",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"a\"".to_vec(),
            false,
        ),
        ("a body over the limit", endless, false),
        ("a head over the limit", long_head, false),
        (
            "a bad chunk",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec(),
            false,
        ),
    ] {
        run(async {
            let (port, heard) = serve(bytes, is_closing).await;
            let failure = FarEndRunner::default().ask(call(port, HttpWorkVerb::Post, "{}")).await;
            let failure = failure.unwrap_err();
            assert!(matches!(failure, FarEndFailure::Unknown(_)), "{what}: {failure:?}");
            assert!(!failure.words().contains(TOKEN), "{failure}");
            assert_eq!(heard.lock().unwrap().len(), 1, "{what}: it is asked once");
        });
    }
}

#[test]
fn a_server_that_is_not_there_was_not_asked() {
    run(async {
        // Nobody is given port 1, as one that was free a moment ago may be.
        let failure = FarEndRunner::default().ask(call(1, HttpWorkVerb::Post, "{}")).await;
        assert!(matches!(failure, Err(FarEndFailure::Unreachable(_))), "{failure:?}");
        // One that speaks no TLS, and one that says nothing.
        let (port, _) = serve(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), true).await;
        for _ in 0..2 {
            let mut wants_tls = call(port, HttpWorkVerb::Post, "{}");
            wants_tls.far_end.tls.usage = TlsUse::Unverified;
            let failure = FarEndRunner::default().ask(wants_tls).await;
            assert!(matches!(failure, Err(FarEndFailure::Unreachable(_))), "{failure:?}");
        }
    });
}

#[test]
fn a_token_with_characters_of_a_header_is_not_sent() {
    run(async {
        let (port, heard) = serve(answer("200 OK", "{}"), false).await;
        let mut bad = call(port, HttpWorkVerb::Get, "");
        bad.far_end.protocol =
            FarEndProtocol::Http { login: HttpLogin::Bearer("a\r\nX: y".into()) };
        let failure = FarEndRunner::default().ask(bad).await;
        assert!(matches!(failure, Err(FarEndFailure::LoginRefused(_))), "{failure:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(heard.lock().unwrap().len(), 0);
    });
}
