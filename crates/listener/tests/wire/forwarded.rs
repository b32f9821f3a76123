//! Clients behind a proxy: the address that it gives is theirs, whoever reads the request and whatever looks at it.

use std::net::Ipv4Addr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kallisto_core::AddressRange;
use kallisto_listener::http::ForwardedFor;

use crate::support::{Recorder, Running, TOKEN, of_request};

/// Makes a request hyper's.
const NOT_PLAIN: (&str, &str) = ("TE", "trailers");
const HEADER: &str = "X-Forwarded-For";
/// The test's own address is the proxy's; this one is not.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

fn rules(rejects: bool) -> ForwardedFor {
    ForwardedFor {
        authorized: vec![AddressRange::parse("127.0.0.1").unwrap()],
        hop_skips: 0,
        reject_not_present: rejects,
        reject_not_authorized: rejects,
    }
}

/// A token that is good at 203.0.113.0/24 alone.
fn bound_token(server: &Running) -> String {
    let root = [("X-Vault-Token", TOKEN), (HEADER, "192.0.2.1")];
    let mut connection = server.connect();
    let policy = r#"{"policy":"path \"*\" { capabilities = [\"read\"] }"}"#;
    assert_eq!(connection.ask_with("PUT", "sys/policy/all", &root, policy).status, 204);
    let role = r#"{"token_bound_cidrs":"203.0.113.0/24","allowed_policies":"all"}"#;
    assert_eq!(connection.ask_with("PUT", "auth/token/roles/r", &root, role).status, 204);
    let made = connection.ask_with("PUT", "auth/token/create/r", &root, r#"{"policies":["all"]}"#);
    let put = r#"{"data":{"a":"b"}}"#;
    assert_eq!(connection.ask_with("PUT", "secret/data/a", &root, put).status, 200);
    made.at("auth/client_token").as_str().unwrap().to_owned()
}

#[test]
fn the_address_that_a_proxy_gives_is_the_clients() {
    let server = Running::start_behind(rules(true));
    let token = bound_token(&server);
    for (given, status) in [
        (&["203.0.113.7"][..], 200),
        (&["192.0.2.1, 203.0.113.7"], 200),
        (&["192.0.2.1", "203.0.113.7"], 200),
        // What a client says of itself stands first and counts for nothing.
        (&["203.0.113.7, 192.0.2.1"], 403),
        (&["127.0.0.1"], 403),
        (&["unknown"], 400),
        (&[], 400),
    ] {
        let mut headers = vec![("X-Vault-Token", token.as_str())];
        headers.extend(given.iter().map(|value| (HEADER, *value)));
        let mut plain = server.connect();
        for reader in [&[][..], &[NOT_PLAIN]] {
            let headers = [&headers, reader].concat();
            // Twice: whoever is let in once is asked again.
            for _ in 0..2 {
                let reply = plain.ask_with("GET", "secret/data/a", &headers, "");
                assert_eq!(reply.status, status, "{headers:?}: {}", reply.text());
            }
        }
        assert_eq!(over_http_2(&server, &headers), status, "{headers:?}");
    }
    // Somebody else says the same.
    let headers = [("X-Vault-Token", token.as_str()), (HEADER, "203.0.113.7")];
    let reply = server.connect_from(STRANGER).ask_with("GET", "secret/data/a", &headers, "");
    assert_eq!(reply.status, 400);
    let expected =
        "client address not authorized for x-forwarded-for and configured to reject connection";
    assert!(reply.text().contains(expected), "{}", reply.text());
}

#[test]
fn without_rejecting_a_peer_that_is_no_proxy_speaks_for_itself() {
    let server = Running::start_behind(rules(false));
    let token = bound_token(&server);
    let headers = [("X-Vault-Token", token.as_str()), (HEADER, "203.0.113.7")];
    assert_eq!(server.connect().ask_with("GET", "secret/data/a", &headers, "").status, 200);
    let reply = server.connect_from(STRANGER).ask_with("GET", "secret/data/a", &headers, "");
    assert_eq!(reply.status, 403, "not believed");
    let none = [("X-Vault-Token", token.as_str())];
    assert_eq!(server.connect().ask_with("GET", "secret/data/a", &none, "").status, 403);
    let root = [("X-Vault-Token", TOKEN)];
    assert_eq!(server.connect().ask_with("GET", "secret/data/a", &root, "").status, 200);
}

#[test]
fn what_is_written_down_and_counted_is_the_clients_address() {
    let (server, recorder) = (Running::start_behind(rules(false)), Recorder::start());
    assert_eq!(server.ask("POST", "sys/audit/socket", &recorder.device()).status, 204);
    let ask = |address: &str| {
        let headers = [("X-Vault-Token", TOKEN), (HEADER, address)];
        server.connect().ask_with("GET", "secret/data/audited", &headers, "").status
    };
    assert_eq!(ask("203.0.113.7"), 404);
    recorder.wait(|records| {
        let is_it = |record: &&_| of_request(record, "path") == "secret/data/audited";
        let mut found = records.iter().filter(is_it);
        found.clone().count() == 2
            && found.all(|record| of_request(record, "remote_address") == "203.0.113.7")
    });
    // A rate limit counts by address.
    let limit = r#"{"path":"secret/","rate":1,"interval":"1h"}"#;
    assert_eq!(server.ask("POST", "sys/quotas/rate-limit/r", limit).status, 204);
    assert_eq!([ask("203.0.113.7"), ask("203.0.113.7"), ask("203.0.113.8")], [404, 429, 404]);
    recorder.stop();
}

/// As OpenBao has it: wrong passwords are counted by name, so another address does not buy more tries.
#[test]
fn a_name_is_locked_wherever_the_proxys_clients_are() {
    let server = Running::start_behind(rules(false));
    assert_eq!(server.ask("POST", "sys/auth/userpass", r#"{"type":"userpass"}"#).status, 204);
    let user = r#"{"password":"right","token_bound_cidrs":"203.0.113.0/24"}"#;
    for name in ["u", "other"] {
        assert_eq!(server.ask("POST", &format!("auth/userpass/users/{name}"), user).status, 204);
    }
    let log_in = |name: &str, address: &str, password: &str| {
        let (headers, body) = ([(HEADER, address)], format!(r#"{{"password":"{password}"}}"#));
        let path = format!("auth/userpass/login/{name}");
        server.connect().ask_with("POST", &path, &headers, &body).status
    };
    assert_eq!(log_in("u", "203.0.113.1", "right"), 200);
    assert_ne!(log_in("u", "192.0.2.1", "right"), 200, "bound to where the client is");
    let tries = (1..=7).map(|at| log_in("u", &format!("203.0.113.{at}"), "wrong"));
    assert_eq!(tries.collect::<Vec<_>>(), [400, 400, 400, 400, 400, 403, 403]);
    assert_eq!(log_in("u", "203.0.113.99", "right"), 403);
    assert_eq!(log_in("other", "203.0.113.7", "right"), 200);
}

/// The status of a read over HTTP/2.
fn over_http_2(server: &Running, headers: &[(&str, &str)]) -> u16 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let handshake =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut client, connection) = handshake.await.unwrap();
        let driver = tokio::spawn(connection);
        let uri = format!("http://{}/v1/secret/data/a", server.address());
        let mut request = hyper::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let reply = client.send_request(request).await.unwrap();
        let status = reply.status().as_u16();
        reply.into_body().collect().await.unwrap();
        driver.abort();
        status
    })
}
