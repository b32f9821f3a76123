//! A thousand secrets in every field and encoding that the API takes, and none of them anywhere else.
//!
//! Every secret begins with one marker, so that one search finds all of them and any part of them.
//! They are sent as they are, in base64, in hexadecimal, percent-encoded and as JSON escapes; in
//! bodies that are right, of the wrong type, broken, too long; in queries and in headers; over HTTP
//! and RESP. Then the marker is looked for in all these forms in what a server leaves behind: its log
//! at the level of traces, the records of its audit device, the files of its storage, the spans that it sends to a collector, what it says of
//! itself, and the answers to requests that brought no secret.
//!
//! A second audit device that masks nothing is the proof that the search could have found them.

use std::collections::BTreeSet;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER, HEXUPPER};
use memchr::memmem::Finder;

use crate::collector::Collector;
use crate::ports::free_address;
use crate::support::{Client, Directory, Keys, PATIENCE, Reply, Server, read_reply};

/// What every secret begins with.
const MARKER: &str = "cAnRy7Qz3Lw";
/// The least that has to be sent for the test to mean what it says.
const SECRETS_MIN: usize = 1_000;
/// Rounds over all places, each with secrets of its own.
const ROUNDS: usize = 2;
/// Longer than an entry may be.
const LONG_BYTES: usize = 1 << 21;

/// How a secret is written where it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Base64,
    Hex,
    Percent,
    Escaped,
}

const FORMS: [Form; 5] = [Form::Plain, Form::Base64, Form::Hex, Form::Percent, Form::Escaped];

impl Form {
    fn of(self, secret: &str) -> String {
        let each = |write: fn(u8) -> String| secret.bytes().map(write).collect();
        match self {
            Self::Plain => secret.to_owned(),
            Self::Base64 => BASE64.encode(secret.as_bytes()),
            Self::Hex => HEXLOWER.encode(secret.as_bytes()),
            Self::Percent => each(|byte| format!("%{byte:02x}")),
            Self::Escaped => each(|byte| format!("\\u{byte:04x}")),
        }
    }
}

/// What is wrong with a body, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Nothing,
    /// It ends too soon.
    Torn,
    /// Something follows it.
    Trailing,
    /// The secret stands in a list where a text belongs.
    Listed,
    /// The secret stands in an object where a text belongs.
    Nested,
    /// It is no object at all.
    Bare,
}

const DAMAGES: [Damage; 6] =
    [Damage::Nothing, Damage::Torn, Damage::Trailing, Damage::Listed, Damage::Nested, Damage::Bare];

impl Damage {
    fn done_to(self, body: &str, secret: &str) -> String {
        let body = |value: &str| body.replace("\"S\"", value);
        match self {
            Self::Nothing => body(&format!("\"{secret}\"")),
            Self::Torn => {
                let mut text = body(&format!("\"{secret}\""));
                text.truncate(text.rfind('"').unwrap());
                text
            }
            Self::Trailing => format!("{} {secret}", body(&format!("\"{secret}\""))),
            Self::Listed => body(&format!("[\"{secret}\",1]")),
            // Names of fields are not masked, as in Vault: a secret is a value.
            Self::Nested => body(&format!("{{\"inner\":\"{secret}\"}}")),
            Self::Bare => format!("\"{secret}\""),
        }
    }
}

/// Where secrets are sent in bodies; `"S"` is the secret, `N` a number of the request's own.
const PLACES: &[(&str, &str, &str)] = &[
    ("POST", "secret/data/cN", r#"{"data":{"k":"S"}}"#),
    ("POST", "secret/data/cN", r#"{"data":{"a":{"b":["S"]}},"options":{"cas":0}}"#),
    ("PATCH", "secret/data/seed", r#"{"data":{"k":"S"}}"#),
    ("POST", "one/cN", r#"{"k":"S"}"#),
    ("POST", "cubbyhole/cN", r#"{"k":"S"}"#),
    ("POST", "sys/wrapping/wrap", r#"{"k":"S"}"#),
    ("POST", "sys/kallisto/kv/write", r#"{"writes":[{"path":"secret/data/wN","data":{"k":"S"}}]}"#),
    ("POST", "auth/userpass/login/seed", r#"{"password":"S"}"#),
    ("POST", "auth/approle/login", r#"{"role_id":"seed","secret_id":"S"}"#),
    ("POST", "auth/approle/role/seed/custom-secret-id", r#"{"secret_id":"S"}"#),
    ("POST", "auth/approle/role/seed/secret-id/lookup", r#"{"secret_id":"S"}"#),
    ("POST", "auth/approle/role/seed/secret-id/destroy", r#"{"secret_id":"S"}"#),
    ("POST", "auth/jwt/login", r#"{"role":"seed","jwt":"S"}"#),
    ("POST", "auth/jwt/config", r#"{"jwt_validation_pubkeys":"S"}"#),
    ("POST", "auth/kubernetes/login", r#"{"role":"seed","jwt":"S"}"#),
    (
        "POST",
        "auth/kubernetes/config",
        r#"{"kubernetes_host":"https://127.0.0.1:1","token_reviewer_jwt":"S"}"#,
    ),
    ("POST", "auth/cert/certs/seed", r#"{"certificate":"S"}"#),
    ("POST", "auth/token/create", r#"{"id":"S","policies":["default"]}"#),
    ("POST", "auth/token/lookup", r#"{"token":"S"}"#),
    ("POST", "auth/token/renew", r#"{"token":"S"}"#),
    ("POST", "auth/token/revoke", r#"{"token":"S"}"#),
    ("POST", "auth/token/revoke-orphan", r#"{"token":"S"}"#),
    ("POST", "sys/capabilities", r#"{"token":"S","paths":["a"]}"#),
    ("POST", "sys/wrapping/unwrap", r#"{"token":"S"}"#),
    ("POST", "sys/wrapping/lookup", r#"{"token":"S"}"#),
    ("POST", "sys/wrapping/rewrap", r#"{"token":"S"}"#),
    ("POST", "transit/encrypt/seed", r#"{"plaintext":"S"}"#),
    ("POST", "transit/encrypt/seed", r#"{"batch_input":[{"plaintext":"S"}]}"#),
    ("POST", "transit/encrypt/seed", r#"{"plaintext":"aGk=","context":"S","associated_data":"S"}"#),
    ("POST", "transit/decrypt/seed", r#"{"ciphertext":"S"}"#),
    ("POST", "transit/rewrap/seed", r#"{"ciphertext":"S"}"#),
    ("POST", "transit/hmac/seed", r#"{"input":"S"}"#),
    ("POST", "transit/sign/signer", r#"{"input":"S"}"#),
    ("POST", "transit/verify/signer", r#"{"input":"S","signature":"S"}"#),
    ("POST", "transit/restore/rN", r#"{"backup":"S"}"#),
    ("POST", "transit/keys/iN/import", r#"{"ciphertext":"S","type":"aes256-gcm96"}"#),
    ("POST", "transit/hash", r#"{"input":"S"}"#),
    ("POST", "sys/tools/hash", r#"{"input":"S"}"#),
    ("POST", "sys/audit-hash/masked", r#"{"input":"S"}"#),
    ("POST", "sys/unseal", r#"{"key":"S"}"#),
    ("POST", "sys/rotate/root/update", r#"{"key":"S","nonce":"S"}"#),
    ("POST", "sys/generate-root/update", r#"{"key":"S","nonce":"S"}"#),
    ("POST", "sys/decode-token", r#"{"encoded_token":"S","otp":"S"}"#),
    (
        "POST",
        "sys/storage/raft/join",
        r#"{"leader_api_addr":"https://127.0.0.1:1","leader_client_key":"S"}"#,
    ),
];

/// The rest: what may stand in a query, and the headers that carry secrets or were meant to.
const QUERIES: &[&str] = &[
    "secret/data/seed?token=S",
    "secret/data/seed?version=S",
    "secret/metadata?list=S",
    "secret/data/seed?help=S",
    "sys/health?standbycode=S",
    "sys/metrics?format=S",
    "sys/in-flight-req?x=S",
    "transit/keys/seed?context=S",
];
const HEADERS: &[&str] = &[
    "X-Vault-Token",
    "Authorization",
    "Cookie",
    "X-Vault-Wrap-TTL",
    "X-Vault-MFA",
    "X-Vault-Index",
    "X-Custom",
    "If-None-Match",
];

/// What the server says of itself to a request without a secret.
const SAID: &[&str] = &[
    "sys/metrics",
    "sys/metrics?format=prometheus",
    "sys/in-flight-req",
    "sys/host-info",
    "sys/loggers",
    "sys/health",
    "sys/seal-status",
    "sys/leader",
    "sys/config/state/sanitized",
    "sys/version-history",
    "sys/internal/counters/tokens",
    "sys/internal/counters/entities",
    "sys/internal/specs/openapi",
    "sys/internal/ui/mounts",
    "sys/mounts",
    "sys/auth",
    "sys/audit",
    "sys/locked-users",
    "sys/storage/raft/configuration",
    "auth/token/lookup-self",
    "auth/userpass/users/seed",
    "auth/approle/role/seed",
    "auth/kubernetes/config",
    "transit/keys/seed",
    "secret/metadata/seed",
    "nosuch/path",
    "sys/nosuch",
];

/// The marker in every form it could come back in.
struct Search(Vec<Finder<'static>>);

impl Search {
    fn new() -> Self {
        let marker = MARKER.as_bytes();
        let mut forms = vec![
            MARKER.to_owned(),
            HEXLOWER.encode(marker),
            HEXUPPER.encode(marker),
            Form::Percent.of(MARKER),
            Form::Percent.of(MARKER).to_uppercase().replace("%5C", "%5c"),
            Form::Escaped.of(MARKER),
            // A log that escapes what it quotes.
            Form::Escaped.of(MARKER).replace('\\', "\\\\"),
            // Bytes as a Debug print of a list shows them.
            marker.iter().map(u8::to_string).collect::<Vec<_>>().join(", "),
        ];
        for before in 0..3 {
            // Characters that the marker alone decides, at each place in a group.
            let text = BASE64_NOPAD.encode(&[&vec![0; before][..], marker].concat());
            let (first, last) = ((before * 8).div_ceil(6), (before + marker.len()) * 8 / 6);
            forms.push(text[first..last].to_owned());
        }
        Self(forms.iter().map(|form| Finder::new(form).into_owned()).collect())
    }

    /// What is around the first finds.
    fn find(&self, bytes: &[u8]) -> Vec<String> {
        let around = |place: usize| {
            let part = &bytes[place.saturating_sub(200)..(place + 60).min(bytes.len())];
            part.escape_ascii().to_string()
        };
        self.0.iter().filter_map(|finder| finder.find(bytes)).map(around).collect()
    }

    #[track_caller]
    fn expect_none(&self, what: &str, bytes: &[u8]) {
        let found = self.find(bytes);
        assert!(found.is_empty(), "a secret in {what}: {found:#?}");
    }

    /// Looks at every file below `folder` and at its name; returns how many bytes it read.
    fn expect_none_below(&self, folder: &Path) -> usize {
        let mut read = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.display().to_string();
            self.expect_none("a file's name", name.as_bytes());
            if path.is_dir() {
                read += self.expect_none_below(&path);
            } else {
                // A server that runs may have removed it meanwhile.
                let bytes = match std::fs::read(&path) {
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    bytes => bytes.unwrap(),
                };
                self.expect_none(&name, &bytes);
                read += bytes.len();
            }
        }
        read
    }
}

/// Makes secrets, all different.
#[derive(Default)]
struct Mint(usize);

impl Mint {
    fn next(&mut self) -> String {
        self.0 += 1;
        // Long enough for a share or a key, and of characters that every encoding keeps.
        format!("{MARKER}{:05}Tq8VzB2mXk7RpY", self.0)
    }
}

/// A connection over which anything may be sent.
struct Wire {
    address: SocketAddr,
    token: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Wire {
    fn new(address: SocketAddr, token: &str) -> Self {
        Self { address, token: token.to_owned(), stream: None }
    }

    /// Sends a request; `None` when the server closed the connection instead of answering.
    fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Reply> {
        let mut head = format!("{method} /v1/{target} HTTP/1.1\r\nHost: test\r\n");
        if !headers.iter().any(|(name, _)| matches!(*name, "X-Vault-Token" | "Authorization")) {
            head.push_str(&format!("X-Vault-Token: {}\r\n", self.token));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let stream = self.stream.get_or_insert_with(|| open(self.address));
        let sent = stream.get_mut().write_all(head.as_bytes());
        let sent = sent.and_then(|()| stream.get_mut().write_all(body.as_bytes()));
        let reply = sent.and_then(|()| read_reply(stream)).ok();
        if reply.is_none() {
            self.stream = None;
        }
        reply
    }
}

fn open(address: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(stream)
}

/// A server with two audit devices, every engine, and something in each.
fn start(directory: &Directory, resp_port: u16, collector: &str) -> (Server, Keys) {
    let folder = directory.join("");
    let config = directory.config(&format!(
        "log_level = \"trace\"\nlog_requests_level = \"info\"\naudit_directories = [\"{}\"]\n\
         listener \"resp\" {{\n  address = \"127.0.0.1:{resp_port}\"\n  tls_disable = true\n}}\n\
         tracing \"otlp\" {{\n  endpoint = \"{collector}\"\n  headers {{ x-key = \"{MARKER}\" }}\n}}\n",
        folder.display()
    ));
    let server = Server::start(directory, &config);
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    let mut root = server.client(&keys.root);
    for (device, options) in [("masked", ""), ("raw", r#","log_raw":"true""#)] {
        let file = folder.join(format!("{device}.audit"));
        let body =
            format!(r#"{{"type":"file","options":{{"file_path":"{}"{options}}}}}"#, file.display());
        root.put(&format!("sys/audit/{device}"), &body);
    }
    for (path, kind) in [("secret", "kv-v2"), ("one", "kv"), ("transit", "transit")] {
        root.put(&format!("sys/mounts/{path}"), &format!(r#"{{"type":"{kind}"}}"#));
    }
    for kind in ["userpass", "approle", "jwt", "kubernetes", "cert"] {
        root.put(&format!("sys/auth/{kind}"), &format!(r#"{{"type":"{kind}"}}"#));
    }
    root.put("secret/data/seed", r#"{"data":{"k":"v"}}"#);
    root.put("transit/keys/seed", "");
    root.put("transit/keys/signer", r#"{"type":"ed25519"}"#);
    root.put("auth/approle/role/seed", r#"{"role_id":"seed"}"#);
    // The password of no login here: a name that is not there is refused in the same way.
    root.put("auth/userpass/users/seed", r#"{"password":"not a canary"}"#);
    let lockout = r#"{"user_lockout_config":{"lockout_disable":true}}"#;
    root.put("sys/auth/userpass/tune", lockout);
    (server, keys)
}

/// Sends secrets in bodies: each place, in each form, whole and damaged. Logins with passwords cost
/// what they are meant to cost, so they come once a form.
fn send_bodies(wire: &mut Wire, mint: &mut Mint, round: usize) {
    for (at, (method, path, body)) in PLACES.iter().enumerate() {
        for (form_at, form) in FORMS.into_iter().enumerate() {
            // Over the rounds every place meets every damage in every form.
            let damages = DAMAGES.iter().skip((at + form_at + round) % 2).step_by(2);
            for damage in damages {
                if path.contains("userpass") && round > 0 {
                    continue;
                }
                let secret = form.of(&mint.next());
                let body = damage.done_to(body, &secret);
                let path = path.replace('N', &mint.0.to_string());
                let merge = [("Content-Type", "application/merge-patch+json")];
                let wrap = [("X-Vault-Wrap-TTL", "60")];
                let headers: &[(&str, &str)] = match (*method, path.as_str()) {
                    ("PATCH", _) => &merge,
                    (_, "sys/wrapping/wrap") => &wrap,
                    _ => &[],
                };
                wire.send(method, &path, headers, &body);
            }
        }
    }
}

fn send_elsewhere(wire: &mut Wire, mint: &mut Mint) {
    for form in FORMS {
        for query in QUERIES {
            let secret = form.of(&mint.next()).replace('\\', "%5c");
            wire.send("GET", &query.replace('S', &secret), &[], "");
        }
        for header in HEADERS {
            let secret = form.of(&mint.next());
            let value =
                if *header == "Authorization" { format!("Bearer {secret}") } else { secret };
            wire.send("GET", "secret/data/seed", &[(header, &value)], "");
            wire.send("POST", "one/header", &[(header, &value)], r#"{"k":"v"}"#);
        }
    }
}

/// A body over the limit of an entry, made of secrets from end to end.
fn send_long(wire: &mut Wire, mint: &mut Mint) {
    let secret = mint.next();
    let long = secret.repeat(LONG_BYTES / secret.len());
    for path in ["secret/data/long", "one/long"] {
        let reply = wire.send("POST", path, &[], &format!(r#"{{"data":{{"k":"{long}"}}}}"#));
        assert_eq!(reply.map(|reply| reply.status), Some(413), "{path}");
    }
}

/// Secrets in commands of a Redis client: as a token, as values, as what is no command.
fn send_resp(port: u16, root: &str, mint: &mut Mint) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut ask = |words: &[&str]| {
        let mut frame = format!("*{}\r\n", words.len());
        for word in words {
            frame.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        let mut reply = [0; 1024];
        stream.write_all(frame.as_bytes()).unwrap();
        let length = stream.read(&mut reply).unwrap();
        String::from_utf8_lossy(&reply[..length]).into_owned()
    };
    ask(&["AUTH", &mint.next()]);
    ask(&["AUTH", "seed", &mint.next()]);
    assert_eq!(ask(&["AUTH", root]), "+OK\r\n");
    for number in 0..20 {
        let name = format!("resp{number}");
        assert_eq!(ask(&["SET", &name, &mint.next()]), "+OK\r\n");
        ask(&["SET", &name, &mint.next(), "NX", "bogus"]);
        ask(&["HSET", &format!("hash{number}"), "k", &mint.next()]);
    }
    let secret = mint.next();
    assert!(ask(&[&secret, &secret]).starts_with('-'));
}

/// The distinct secrets that a text holds as they are.
fn secrets_in(text: &str) -> usize {
    let starts = text.match_indices(MARKER).map(|(at, _)| &text[at..]);
    starts.filter_map(|from| from.get(..MARKER.len() + 5)).collect::<BTreeSet<_>>().len()
}

fn expect_nothing_said(search: &Search, client: &mut Client) {
    for path in SAID {
        let reply = client.get(path);
        search.expect_none(&format!("the answer to {path}"), reply.body.as_bytes());
    }
    for (method, path, body) in [
        ("POST", "auth/token/create", r#"{"policies":["default"],"bogus":1}"#),
        ("POST", "secret/data/plain", "{"),
        ("POST", "transit/decrypt/seed", r#"{"ciphertext":"vault:v1:AAAA"}"#),
        ("POST", "auth/userpass/login/nobody", "{}"),
        ("LIST", "secret/metadata", ""),
        ("LIST", "auth/token/accessors", ""),
        ("LIST", "auth/approle/role/seed/secret-id", ""),
    ] {
        let reply = client.send(method, path, body);
        search.expect_none(&format!("the answer to {method} {path}"), reply.body.as_bytes());
    }
}

#[test]
fn the_search_finds_every_form_a_secret_is_sent_in() {
    let search = Search::new();
    let secret = Mint::default().next();
    for form in FORMS {
        for before in ["", "x", "xy"] {
            let text = match form {
                Form::Base64 | Form::Hex => form.of(&format!("{before}{secret}")),
                _ => format!("{before}{}", form.of(&secret)),
            };
            assert!(!search.find(text.as_bytes()).is_empty(), "{form:?} {text}");
        }
    }
    assert!(!search.find(format!("{:?}", secret.as_bytes()).as_bytes()).is_empty());
    assert!(search.find(b"nothing of the kind").is_empty());
}

#[test]
fn a_thousand_secrets_leave_no_trace() {
    let directory = Directory::new("canary");
    let resp_port = free_address().port();
    let collector = Collector::start();
    let (server, keys) = start(&directory, resp_port, &collector.url());
    let search = Search::new();
    let mut mint = Mint::default();
    let mut wire = Wire::new(server.address, &keys.root);
    let mut client = server.client(&keys.root);
    for round in 0..ROUNDS {
        send_bodies(&mut wire, &mut mint, round);
        expect_nothing_said(&search, &mut client);
    }
    send_elsewhere(&mut wire, &mut mint);
    send_long(&mut wire, &mut mint);
    send_resp(resp_port, &keys.root, &mut mint);
    expect_nothing_said(&search, &mut client);
    assert!(mint.0 >= SECRETS_MIN, "{} secrets", mint.0);

    let audited = |device: &str| std::fs::read(directory.join(&format!("{device}.audit"))).unwrap();
    let raw = audited("raw");
    let seen = secrets_in(&String::from_utf8_lossy(&raw));
    search.expect_none("the audit records", &audited("masked"));
    search.expect_none("the log", server.log().as_bytes());
    let running = search.expect_none_below(&directory.join("data"));
    server.stop();
    let stopped = search.expect_none_below(&directory.join("data"));
    search.expect_none("the log", &std::fs::read(directory.join("log")).unwrap());
    println!(
        "{} secrets; {seen} of them in records that mask nothing; {running} bytes of storage \
         without one while it ran, {stopped} after",
        mint.0
    );
    // Where memory answers a read, where a log is written, by HTTP and by RESP: all of them were recorded.
    let received = collector.received();
    search.expect_none("the spans", &received.bodies);
    assert!(received.spans.len() > mint.0, "{} spans", received.spans.len());
    assert_eq!(received.headers[0]["x-key"], MARKER, "the collector was shown its key");
    assert!(seen > 100, "{seen} secrets reached the audit devices");
    assert!(running > 0 && stopped > 0);
}
