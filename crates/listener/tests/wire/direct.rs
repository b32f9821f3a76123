//! Plain requests are read off the wire by us and all others by hyper: nobody can tell which it was.

use crate::support::{Recorder, Reply, Running, TOKEN, of_request, request};

/// Makes a request hyper's: it says how messages may be framed, and changes no answer.
const NOT_PLAIN: (&str, &str) = ("TE", "trailers");

/// What must not depend on who read the request: everything but its id and the time.
fn comparable(reply: &Reply) -> (u16, Vec<(String, String)>, String) {
    let mut headers: Vec<_> =
        reply.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
    headers.sort();
    let mut body = reply.text();
    if let Some((_, rest)) = body.split_once("\"request_id\":\"")
        && let Some((id, _)) = rest.split_once('"')
    {
        body = body.replace(id, "id");
    }
    (reply.status, headers, body)
}

/// Method, path, headers and body.
type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn an_answer_is_the_same_whoever_read_the_request() {
    let server = Running::start();
    let long = "x".repeat(3_000);
    server.ask("POST", "secret/data/one", r#"{"data":{"a":"b"}}"#);
    server.ask("POST", "secret/metadata/one", r#"{"custom_metadata":{"c":"d"}}"#);
    server.ask("POST", "secret/data/long", &format!(r#"{{"data":{{"a":"{long}"}}}}"#));
    server.ask("POST", "secret/data/gone", r#"{"data":{"a":"b"}}"#);
    server.ask("DELETE", "secret/data/gone", "");
    let root = ("X-Vault-Token", TOKEN);
    let requests: [Asked<'_>; 19] = [
        ("GET", "secret/data/one", &[root], ""),
        ("GET", "secret/data/long", &[root], ""),
        ("GET", "secret/data/gone", &[root], ""),
        ("GET", "secret/data/none", &[root], ""),
        ("GET", "secret/data/one?version=1", &[root], ""),
        ("GET", "secret/data/one", &[root, ("If-None-Match", "*")], ""),
        ("GET", "secret/data/one", &[("Authorization", "Bearer wrong")], ""),
        ("GET", "secret/data/one", &[("X-Vault-Token", "wrong")], ""),
        ("GET", "secret/data/one", &[], ""),
        ("GET", "secret/data/one", &[root, ("X-Vault-Namespace", "other")], ""),
        ("GET", "nowhere/a", &[root], ""),
        ("GET", "secret/data/../one", &[root], ""),
        ("GET", "secret/data//one", &[root], ""),
        ("GET", "/v2/a", &[root], ""),
        ("GET", "sys/health", &[], ""),
        ("LIST", "secret/metadata", &[root], ""),
        ("DELETE", "secret/data/none", &[root], ""),
        ("POST", "secret/data/one", &[root], r#"{"data":"#),
        ("FOO", "secret/data/one", &[root], ""),
    ];
    let mut ours = server.connect();
    for (method, path, headers, body) in requests {
        let plain = ours.ask_with(method, path, headers, body);
        let other = [headers, &[NOT_PLAIN]].concat();
        let other = server.connect().ask_with(method, path, &other, body);
        // The server's clock is the test's; it stands still.
        assert_eq!(plain.header("date"), Some("Sat, 21 Nov 2026 19:47:43 GMT"));
        assert_eq!(other.header("date").map(str::len), Some(29));
        assert_eq!(comparable(&plain), comparable(&other), "{method} {path} {headers:?}");
    }
}

/// Clients choose the status of some answers; a body would be read as the beginning of the next answer (RFC 9110, 15.3.5, 15.3.6, 15.4.5).
#[test]
fn an_answer_whose_status_has_no_body_brings_none() {
    let server = Running::start();
    for headers in [&[][..], &[NOT_PLAIN]] {
        let mut connection = server.connect();
        for code in [204, 205, 304] {
            let path = format!("sys/health?activecode={code}");
            let reply = connection.ask_with("GET", &path, headers, "");
            assert_eq!((reply.status, reply.text()), (code, String::new()));
            assert_eq!(connection.ask_with("GET", "sys/health", headers, "").status, 200);
        }
    }
}

/// As OpenBao has it; by both readers.
#[test]
fn a_header_without_a_value_wraps_nothing() {
    let server = Running::start();
    server.ask("POST", "secret/data/one", r#"{"data":{"a":"b"}}"#);
    let root = ("X-Vault-Token", TOKEN);
    for value in ["", "  "] {
        for headers in [&[root][..], &[root, NOT_PLAIN]] {
            let headers = [headers, &[("X-Vault-Wrap-TTL", value)]].concat();
            let reply = server.connect().ask_with("GET", "secret/data/one", &headers, "");
            assert_eq!((reply.status, reply.text_at("data/data")), (200, r#"{"a":"b"}"#.into()));
        }
    }
}

/// A proxy may have added an authorisation of its own.
#[test]
fn of_several_authorisations_the_first_bearer_counts() {
    let server = Running::start();
    let bearer = format!("Bearer {TOKEN}");
    let (basic, own) = (("Authorization", "Basic YTpi"), ("Authorization", bearer.as_str()));
    let other = ("Authorization", "Bearer wrong");
    for (headers, status) in [
        (&[own][..], 200),
        (&[basic, own], 200),
        (&[own, basic, other], 200),
        (&[other, own], 403),
        (&[basic], 403),
    ] {
        let reply = server.connect().ask_with("GET", "auth/token/lookup-self", headers, "");
        assert_eq!(reply.status, status, "{headers:?}");
    }
}

#[test]
fn what_can_be_read_in_two_ways_is_refused_by_both() {
    let server = Running::start();
    let token = format!("X-Vault-Token: {TOKEN}\r\n");
    let get = |lines: &str| format!("GET /v1/secret/data/honest HTTP/1.1\r\n{token}{lines}\r\n");
    let post = |lines: &str, body: &str| {
        let body = body.to_owned();
        format!("POST /v1/secret/data/two HTTP/1.1\r\nHost: h\r\n{token}{lines}\r\n{body}")
    };
    let many = |count: usize| format!("Host: h\r\n{}", "A: b\r\n".repeat(count));
    let object = "{\"data\":{}}";
    let chunk = "b\r\n{\"data\":{}}\r\n0\r\n\r\n";
    for (bytes, status) in [
        (get("Host: h\r\n"), 200),
        (get(""), 400),
        (get("Host: h\r\nHost: h\r\n"), 400),
        (get("Host: h\r\n").replace("\r\n", "\n"), 400),
        (get("Host: h\nAccept: a\r\n"), 400),
        (get("Host: h\r\nA: b\r\n c\r\n"), 400),
        (get("Host: h\r\nA : b\r\n"), 400),
        (get("Host: h\r\n: b\r\n"), 400),
        (get("Host: h\r\nA\r\n"), 400),
        // With the token, the header that makes it hyper's, and the host: the limit of 64, and one over it.
        (get(&many(61)), 200),
        (get(&many(64)), 431),
        (get("Host: h\r\n").replace("GET /", "GET http://h/"), 200),
        (get("Host: h\r\n").replace("GET /", "GET  /"), 400),
        (post("Content-Length: 11\r\n", object), 200),
        (post("Transfer-Encoding: chunked\r\n", chunk), 200),
        (post("Content-Length: 11\r\nContent-Length: 11\r\n", object), 400),
        (post("Content-Length: 11\r\nContent-Length: 3\r\n", object), 400),
        (post("Content-Length: 11, 11\r\n", object), 400),
        (post("Content-Length: +11\r\n", object), 400),
        (post("Content-Length: 11\r\nTransfer-Encoding: chunked\r\n", chunk), 200),
        (post("Transfer-Encoding: chunked\r\nContent-Length: 11\r\n", chunk), 200),
        (post("Transfer-Encoding: chunked, chunked\r\n", chunk), 400),
        (post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunk), 400),
        (post("Transfer-Encoding: identity\r\n", object), 400),
        (post("Content-Length: 30\r\n", "{\"data\":{\"a\":\"one\",\"a\":\"two\"}}"), 400),
    ] {
        let other = bytes.replacen("HTTP/1.1\r\n", "HTTP/1.1\r\nTE: trailers\r\n", 1);
        let other = other.replacen("HTTP/1.1\n", "HTTP/1.1\nTE: trailers\n", 1);
        assert_ne!(bytes, other);
        for bytes in [bytes, other] {
            let reply = server.tell(bytes.as_bytes());
            assert_eq!(reply.map(|reply| reply.status), Some(status), "{bytes:?}");
            // Also after an honest one.
            let mut connection = server.connect();
            connection.send(&[&get("Host: h\r\n"), &*bytes].concat().into_bytes());
            assert_eq!(connection.receive().unwrap().status, 200);
            let reply = connection.receive();
            assert_eq!(reply.map(|reply| reply.status), Some(status), "{bytes:?}");
        }
    }
    let body = "{\"data\":{\"a\":\"one\",\"a\":\"two\"}}";
    let text = server.ask("POST", "secret/data/two", body).text();
    assert!(text.contains("duplicate key") && !text.contains("two"), "{text}");
}

#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    let server = Running::start();
    let mut sent = Vec::new();
    for number in 0..300 {
        let path = format!("secret/data/k{number}");
        let body = format!(r#"{{"data":{{"number":"{number}"}}}}"#);
        let root = [("X-Vault-Token", TOKEN)];
        sent.extend_from_slice(&request("POST", &path, &root, &body));
        sent.extend_from_slice(&request("GET", &path, &root, ""));
    }
    let mut connection = server.connect();
    let mut writer = connection.writer();
    // Cut where it falls: requests need not come whole.
    let sending = std::thread::spawn(move || {
        for piece in sent.chunks(7_777) {
            std::io::Write::write_all(&mut writer, piece).unwrap();
        }
    });
    for number in 0..300 {
        assert_eq!(connection.receive().unwrap().status, 200);
        let got = connection.receive().unwrap();
        let expected = format!(r#""data":{{"number":"{number}"}}"#);
        assert!(got.text().contains(&expected), "{number}: {}", got.text());
    }
    sending.join().unwrap();
}

#[test]
fn what_is_not_plain_takes_over_with_all_that_came() {
    let server = Running::start();
    let root = [("X-Vault-Token", TOKEN)];
    let body = r#"{"data":{"a":"chunk"}}"#;
    let get = request("GET", "secret/data/honest", &root, "");
    let chunked = format!(
        "POST /v1/secret/data/c HTTP/1.1\r\nHost: test\r\nX-Vault-Token: {TOKEN}\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let mut connection = server.connect();
    let after = request("GET", "secret/data/c", &root, "");
    connection.send(&[&get, &get, chunked.as_bytes(), &after].concat());
    for _ in 0..2 {
        assert!(connection.receive().unwrap().text().contains(r#"{"still":"here"}"#));
    }
    assert_eq!(connection.receive().unwrap().status, 200);
    assert!(connection.receive().unwrap().text().contains(r#"{"a":"chunk"}"#));
}

#[test]
fn a_request_that_comes_byte_by_byte_is_served() {
    let server = Running::start();
    let get = request("GET", "secret/data/honest", &[("X-Vault-Token", TOKEN)], "");
    let mut connection = server.connect();
    for _ in 0..2 {
        for byte in &get {
            connection.send(&[*byte]);
        }
        assert_eq!(connection.receive().unwrap().status, 200);
    }
}

#[test]
fn reads_that_come_together_are_written_down_before_they_are_answered() {
    let (server, recorder) = (Running::start(), Recorder::start());
    let many = 40;
    for number in 0..many {
        let body = format!(r#"{{"data":{{"number":"{number}"}}}}"#);
        server.ask("POST", &format!("secret/data/k{number}"), &body);
    }
    assert_eq!(server.ask("POST", "sys/audit/socket", &recorder.device()).status, 204);
    let root = [("X-Vault-Token", TOKEN)];
    let get = |number| request("GET", &format!("secret/data/k{number}"), &root, "");
    // Between them some that go the long way.
    let put = request("POST", "secret/data/put", &root, r#"{"data":{"a":"b"}}"#);
    let sent = (0..many).flat_map(|number| if number % 7 == 6 { put.clone() } else { get(number) });
    let mut connection = server.connect();
    connection.send(&sent.collect::<Vec<u8>>());
    let mut ids = Vec::new();
    for number in 0..many {
        let reply = connection.receive().unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        ids.push(reply.at("request_id").as_str().unwrap().to_owned());
        let expected = format!(r#""data":{{"number":"{number}"}}"#);
        assert_eq!(reply.text().contains(&expected), number % 7 != 6, "{number}: {}", reply.text());
    }
    recorder.wait(|records| {
        let count =
            |id: &String| records.iter().filter(|record| of_request(record, "id") == id).count();
        ids.iter().all(|id| count(id) == 2)
    });
    recorder.stop();
}

#[test]
fn no_answer_leaves_that_no_device_takes() {
    let (server, recorder) = (Running::start(), Recorder::start());
    assert_eq!(server.ask("POST", "sys/audit/socket", &recorder.device()).status, 204);
    let root = [("X-Vault-Token", TOKEN)];
    let get = request("GET", "secret/data/honest", &root, "");
    let none = request("GET", "secret/data/none", &root, "");
    let open = request("GET", "sys/health", &[], "");
    let mut connection = server.connect();
    connection.send(&get);
    assert_eq!(connection.receive().unwrap().status, 200);
    recorder.stop();
    connection.send(&[&get[..], &none, &open, &get, &get].concat());
    for expected in [500, 500, 200, 500, 500] {
        let reply = connection.receive().unwrap();
        assert_eq!(reply.status, expected, "{}", reply.text());
        assert!(!reply.text().contains("here"), "{}", reply.text());
    }
}

/// hyper reads what comes after the first request that is not plain, and what comes in parts.
#[test]
fn a_line_that_ends_without_its_carriage_return_is_refused_wherever_a_head_is_read() {
    let server = Running::start();
    let token = format!("X-Vault-Token: {TOKEN}\r\n");
    let get = |lines: &str| format!("GET /v1/secret/data/honest HTTP/1.1\r\n{token}{lines}\r\n");
    let post = |lines: &str, body: &str| {
        format!(
            "POST /v1/secret/data/a HTTP/1.1\r\n{token}Host: h\r\nTE: trailers\r\n{lines}\r\n{body}"
        )
    };
    let spaced = "{\n\"data\":\n{}\n}";
    let length = format!("Content-Length: {}\r\n", spaced.len());
    let chunked = format!("{:x}\r\n{spaced}\r\n0\r\n\r\n", spaced.len());
    let before = [
        get("Host: h\r\nTE: trailers\r\n"),
        // Bodies may have such lines.
        post(&length, spaced),
        post("Transfer-Encoding: chunked\r\n", &chunked),
        post("Content-Length: 0\r\n", ""),
    ];
    let sound = get("Host: h\r\nTE: trailers\r\n");
    for first in &before {
        for (after, status) in [
            (sound.clone(), 200),
            (get("Host: h\r\n"), 200),
            (get("Host: h\r\nTE: trailers\r\n").replace("\r\n", "\n"), 400),
            (get("Host: h\nTE: trailers\r\n"), 400),
            (get("Host: h\r\nTE: trailers\n"), 400),
            (get("Host: h\nAccept: a\r\n"), 400),
            (sound.replace("\r\n\r\n", "\r\n\n"), 400),
        ] {
            // Together, one after the other, and byte by byte.
            for pieces in [1, 2, 3] {
                let mut connection = server.connect();
                match pieces {
                    1 => connection.send(format!("{first}{after}").as_bytes()),
                    _ => connection.send(first.as_bytes()),
                }
                let reply = connection.receive().unwrap();
                assert!(matches!(reply.status, 200 | 400), "{first:?}: {}", reply.text());
                match pieces {
                    1 => {}
                    2 => connection.send(after.as_bytes()),
                    _ => after.bytes().for_each(|byte| connection.send(&[byte])),
                }
                let reply = connection.receive().map(|reply| reply.status);
                assert_eq!(reply, Some(status), "{first:?} then {after:?} in {pieces}");
            }
        }
    }
    server.assert_serves();
}
