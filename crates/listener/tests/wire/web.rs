//! What browsers are told: preflights, origins, the headers of pages.

use crate::support::{Reply, Running, TOKEN};

const AS_ROOT: (&str, &str) = ("X-Vault-Token", TOKEN);

/// Asks as a page of `origin` would.
fn cross(server: &Running, method: &str, path: &str, origin: &str, asks: &str) -> Reply {
    let headers = [AS_ROOT, ("Origin", origin), ("Access-Control-Request-Method", asks)];
    server.connect().ask_with(method, path, &headers, "")
}

#[test]
fn nobody_crosses_origins_until_somebody_says_so() {
    let server = Running::start();
    assert_eq!(server.ask("GET", "sys/config/cors", "").text_at("data"), r#"{"enabled":false}"#);
    let reply = cross(&server, "GET", "sys/mounts", "https://a.example", "GET");
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, None));
    assert_eq!(cross(&server, "OPTIONS", "sys/mounts", "https://a.example", "GET").status, 400);
    for body in [
        r"{}",
        r#"{"allowed_headers":"X-Own"}"#,
        r#"{"allowed_origins":["*","https://a.example"]}"#,
        r#"{"allowed_origins":["https://a.example\r\nX-Evil: 1"]}"#,
        r#"{"allowed_origins":"*","allowed_headers":["X Own"]}"#,
    ] {
        assert_eq!(server.ask("POST", "sys/config/cors", body).status, 400, "{body}");
    }
    assert_eq!(server.ask("GET", "sys/config/cors", "").text_at("enabled"), "false");
}

#[test]
fn allowed_origins_are_told_so_and_others_refused() {
    let server = Running::start();
    let body = r#"{"allowed_origins":"https://a.example,http://b.example:8080","allowed_headers":"X-Own"}"#;
    assert_eq!(server.ask("POST", "sys/config/cors", body).status, 204);
    let read = server.ask("GET", "sys/config/cors", "");
    let origins = r#"["https://a.example","http://b.example:8080"]"#;
    assert_eq!(read.text_at("allowed_origins"), origins);
    assert!(
        read.text_at("data/allowed_headers").ends_with(r#""X-Vault-Policy-Override","X-Own"]"#)
    );

    let preflight = cross(&server, "OPTIONS", "secret/data/a", "https://a.example", "POST");
    assert_eq!((preflight.status, preflight.body.len()), (200, 0));
    for (name, value) in [
        ("access-control-allow-origin", "https://a.example"),
        ("access-control-allow-methods", "DELETE,GET,OPTIONS,POST,PUT,LIST,SCAN,PATCH,RECOVER"),
        ("access-control-max-age", "300"),
        ("vary", "Origin"),
    ] {
        assert_eq!(preflight.header(name), Some(value), "{name}");
    }
    let names = preflight.header("access-control-allow-headers").unwrap();
    assert!(names.starts_with("Content-Type,") && names.ends_with(",X-Own"), "{names}");
    for asks in ["FOO", ""] {
        let refused = cross(&server, "OPTIONS", "secret/data/a", "https://a.example", asks);
        assert_eq!((refused.status, refused.header("access-control-allow-origin")), (405, None));
    }
    // Answers of every kind may be read, refusals too.
    for (method, path, status) in [("GET", "sys/mounts", 200), ("GET", "no/where", 404)] {
        let reply = cross(&server, method, path, "http://b.example:8080", "");
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some("http://b.example:8080"));
        assert_eq!(reply.header("vary"), Some("Origin"));
    }
    for origin in ["https://evil.example", "https://a.example.evil", "null", "HTTPS://a.example"] {
        let reply = cross(&server, "GET", "secret/data/a", origin, "");
        assert_eq!(
            (reply.status, reply.text().as_str()),
            (403, "{\"errors\":[\"origin not allowed\"]}\n")
        );
        assert_eq!(reply.header("access-control-allow-origin"), None);
        assert_eq!(cross(&server, "OPTIONS", "secret/data/a", origin, "GET").status, 403);
    }
    // A page of the server itself asks with its own origin, which is the host that is asked, and crosses nothing.
    for origin in ["http://test", "https://TEST"] {
        let reply = cross(&server, "GET", "sys/mounts", origin, "");
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, None));
    }
    for origin in ["http://test.evil", "ftp://test", "test", "http://test:80"] {
        assert_eq!(cross(&server, "GET", "sys/mounts", origin, "").status, 403, "{origin}");
    }
    // Who names no origin is no page.
    assert_eq!(server.ask("GET", "sys/mounts", "").header("vary"), None);
    assert_eq!(server.ask("POST", "sys/config/cors", r#"{"allowed_origins":"*"}"#).status, 204);
    let reply = cross(&server, "GET", "sys/mounts", "https://evil.example", "");
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://evil.example"));
    assert_eq!(server.ask("DELETE", "sys/config/cors", "").status, 204);
    assert_eq!(cross(&server, "OPTIONS", "sys/mounts", "https://a.example", "GET").status, 400);
}

#[test]
fn pages_carry_the_headers_that_operators_set() {
    let server = Running::start();
    let at = |name: &str| format!("sys/config/ui/headers/{name}");
    assert_eq!(server.ask("LIST", "sys/config/ui/headers", "").status, 404);
    for (name, body, status) in [
        ("x-one", r#"{"values":["a","b"]}"#, 200),
        ("X-Two", r#"{"values":"c,d"}"#, 200),
        ("X-Three", r#"{}"#, 400),
        ("X-Vault-Own", r#"{"values":"a"}"#, 400),
        ("Content-Length", r#"{"values":"0"}"#, 400),
        ("X-Four", r#"{"values":"a\r\nb"}"#, 400),
    ] {
        assert_eq!(server.ask("POST", &at(name), body).status, status, "{name}");
    }
    let csp =
        server.ask("POST", &at("Content-Security-Policy"), r#"{"values":"default-src 'none'"}"#);
    assert!(csp.text_at("warnings").contains("overriding default"), "{}", csp.text());
    let listed = server.ask("LIST", "sys/config/ui/headers", "").text_at("data/keys");
    assert_eq!(listed, r#"["Content-Security-Policy","X-One","X-Two"]"#);
    assert_eq!(server.ask("GET", &at("X-ONE"), "").text_at("data"), r#"{"value":"a"}"#);
    let all = server.ask("GET", &at("X-One?multivalue=true"), "").text_at("data");
    assert_eq!(all, r#"{"values":["a","b"]}"#);
    let page = server.connect().ask_with("GET", "/ui/", &[], "");
    assert_eq!((page.header("x-one"), page.header("x-two")), (Some("a"), Some("c,d")));
    let values = page.headers.iter().filter(|(name, _)| name == "x-one").count();
    assert_eq!(values, 2);
    assert_eq!(server.ask("GET", "sys/mounts", "").header("x-one"), None);
    assert_eq!(server.ask("DELETE", &at("x-one"), "").status, 204);
    assert_eq!(server.ask("GET", &at("X-One"), "").status, 404);
    assert_eq!(server.connect().ask_with("GET", "/ui/", &[], "").header("x-one"), None);
}

/// The headers that every answer below `/ui` has.
const PAGE_HEADERS: [&str; 7] = [
    "content-security-policy",
    "permissions-policy",
    "x-content-type-options",
    "x-frame-options",
    "referrer-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
];

fn page(server: &Running, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    server.connect().ask_with(method, path, headers, "")
}

/// The path of a script, as the shell names it.
fn script(server: &Running) -> String {
    let shell = page(server, "GET", "/ui/", &[]).text();
    let from = shell.find("src=\"").unwrap() + 5;
    shell[from..].split('"').next().unwrap().to_owned()
}

#[test]
fn the_page_is_served_whether_sealed_or_not_and_needs_no_token() {
    for server in [Running::start(), Running::start_uninitialized()] {
        for path in ["/ui/", "/ui/s/secret/a%2Fb?ns=team", "/ui/login", "/ui/assets/gone.js"] {
            let shell = page(&server, "GET", path, &[]);
            assert_eq!((shell.status, shell.header("cache-control")), (200, Some("no-store")));
            assert_eq!(shell.header("content-type"), Some("text/html; charset=utf-8"));
            assert!(shell.text().starts_with("<!doctype html>"), "{path}");
            for name in PAGE_HEADERS {
                assert!(shell.header(name).is_some(), "{path} {name}");
            }
        }
        let asset = page(&server, "GET", &script(&server), &[]);
        assert_eq!(asset.status, 200);
        assert_eq!(asset.header("content-type"), Some("text/javascript; charset=utf-8"));
        let kept = "public, max-age=31536000, immutable";
        assert_eq!(asset.header("cache-control"), Some(kept));
        for name in PAGE_HEADERS {
            assert!(asset.header(name).is_some(), "{name}");
        }
        assert_eq!(page(&server, "GET", "/", &[]).header("location"), Some("/ui/"));
        let refused = page(&server, "POST", "/ui/", &[]);
        assert_eq!((refused.status, refused.header("x-frame-options")), (405, Some("DENY")));
        assert_eq!(page(&server, "GET", "/ui/../v1/sys/mounts", &[]).status, 200);
    }
}

#[test]
fn files_of_the_page_come_packed_and_are_not_sent_again() {
    let server = Running::start();
    let path = script(&server);
    let plain = page(&server, "GET", &path, &[]);
    let mut tags = vec![plain.header("etag").unwrap().to_owned()];
    for encoding in ["br", "gzip"] {
        let packed = page(&server, "GET", &path, &[("Accept-Encoding", encoding)]);
        assert_eq!(packed.header("content-encoding"), Some(encoding));
        assert_eq!(packed.header("vary"), Some("Accept-Encoding"));
        assert!(packed.body.len() * 2 < plain.body.len(), "{encoding}");
        let tag = packed.header("etag").unwrap().to_owned();
        let asks = [("Accept-Encoding", encoding), ("If-None-Match", tag.as_str())];
        let known = page(&server, "GET", &path, &asks);
        assert_eq!((known.status, known.body.len()), (304, 0));
        assert_eq!(known.header("etag"), Some(tag.as_str()));
        tags.push(tag);
    }
    tags.dedup();
    assert_eq!(tags.len(), 3, "each form has its own tag");
    let both = page(&server, "GET", &path, &[("Accept-Encoding", "gzip, br")]);
    assert_eq!(both.header("content-encoding"), Some("br"));
    let none = page(&server, "GET", &path, &[("Accept-Encoding", "br;q=0, gzip;q=0")]);
    assert_eq!((none.header("content-encoding"), &none.body), (None, &plain.body));
    // Answers of the API hold secrets beside text that others choose: they are never packed.
    let asks = [AS_ROOT, ("Accept-Encoding", "gzip, br")];
    let api = server.connect().ask_with("GET", "/v1/sys/mounts", &asks, "");
    assert_eq!((api.status, api.header("content-encoding")), (200, None));
}

#[test]
fn a_head_of_the_page_is_its_answer_without_the_body() {
    let server = Running::start();
    for path in ["/ui/".to_owned(), script(&server)] {
        let whole = page(&server, "GET", &path, &[]);
        let head = server.connect().ask_with("HEAD", &path, &[], "");
        assert_eq!(head.status, 200);
        for name in ["content-type", "etag", "content-security-policy", "cache-control"] {
            assert_eq!(head.header(name), whole.header(name), "{path} {name}");
        }
    }
}
