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
        ("access-control-allow-methods", "DELETE,GET,OPTIONS,POST,PUT,LIST,SCAN,PATCH"),
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
