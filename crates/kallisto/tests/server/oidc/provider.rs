//! A provider of the test's own, on a socket, that lies when it is told to.
//!
//! It knows one user, who is logged in: [`Provider::log_in`] is what their browser does at its page. It holds clients to the code verifier, to
//! the redirect URI and to one use of a code, so that what is refused by it was not refused by us.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use kallisto_core::json::{self, Json, Map};

/// Who the server under test is to it.
pub(crate) const CLIENT: &str = "client";
/// And what shows that.
pub(crate) const SECRET: &str = "canary secret/+";
/// The name of its key.
pub(crate) const KEY: &str = "key-1";

/// Makes an ID token of a header and claims.
pub(crate) type Sign = fn(&Keys, &mut Map, &mut Map) -> String;

/// What it does instead of the truth.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lie {
    /// Members of the claims that are replaced; `null` takes one away.
    pub(crate) claims: &'static str,
    /// Members of the header that are replaced.
    pub(crate) header: &'static str,
    /// How the token is signed.
    pub(crate) sign: Option<Sign>,
    /// The whole head and body of its answer to a code.
    pub(crate) answer: Option<fn(&Keys) -> String>,
    /// Members of its answer to a code that are replaced.
    pub(crate) tokens: &'static str,
    /// Its UserInfo, with the status line's code.
    pub(crate) user_info: Option<(u16, &'static str)>,
    /// Its set of keys.
    pub(crate) keys: Option<&'static str>,
    /// Whether its discovery document names no page to log in at.
    pub(crate) has_no_page: bool,
    /// Whether it calls the address for users of devices a URL, as before RFC 8628.
    pub(crate) says_url: bool,
}

/// What it signs with.
pub(crate) struct Keys {
    pub(crate) own: EcdsaKeyPair,
    pub(crate) other: EcdsaKeyPair,
    /// Where nobody may ask.
    pub(crate) trap: SocketAddr,
}

struct Asked {
    nonce: String,
    challenge: String,
    redirect_uri: String,
}

pub(crate) struct Provider {
    shared: Arc<Shared>,
}

struct Shared {
    issuer: String,
    keys: Keys,
    lie: Mutex<Lie>,
    codes: Mutex<HashMap<String, Asked>>,
    next: AtomicUsize,
    exchanges: AtomicUsize,
    was_trapped: AtomicBool,
    /// Whether a device was let in.
    is_let_in: AtomicBool,
}

pub(crate) fn sign_by(pair: &EcdsaKeyPair, header: &Map, claims: &Map) -> String {
    let part = |map: &Map| BASE64URL_NOPAD.encode(&Json::Object(map.clone()).to_text());
    let signed = format!("{}.{}", part(header), part(claims));
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
}

/// The same, signed by a text as if it were a secret.
pub(crate) fn sign_by_text(text: &str, header: &Map, claims: &Map) -> String {
    let part = |map: &Map| BASE64URL_NOPAD.encode(&Json::Object(map.clone()).to_text());
    let signed = format!("{}.{}", part(header), part(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()), signed.as_bytes());
    format!("{signed}.{}", BASE64URL_NOPAD.encode(tag.as_ref()))
}

/// A public key as a JWK with a name.
pub(crate) fn jwk(pair: &EcdsaKeyPair, name: &str) -> String {
    let point = pair.public_key().as_ref();
    let [x, y] = [&point[1..33], &point[33..]].map(|part| BASE64URL_NOPAD.encode(part));
    format!(r#"{{"kty":"EC","crv":"P-256","kid":"{name}","alg":"ES256","x":"{x}","y":"{y}"}}"#)
}

/// The parameters of a query, decoded.
pub(crate) fn query_of(text: &str) -> HashMap<String, String> {
    let pairs = kallisto_core::parse_query(text.split_once('?').map_or(text, |(_, query)| query));
    pairs.unwrap().into_iter().collect()
}

fn replace(map: &mut Map, with: &str) {
    if with.is_empty() {
        return;
    }
    for (name, value) in json::parse_object(with.as_bytes()).unwrap() {
        match value {
            Json::Null => drop(map.remove(&name)),
            value => drop(map.insert(name, value)),
        }
    }
}

impl Provider {
    /// Starts one.
    pub(crate) fn start() -> Self {
        let pair = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let (listener, trap) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            issuer: format!("http://{address}"),
            keys: Keys { own: pair(), other: pair(), trap: trap.local_addr().unwrap() },
            lie: Mutex::default(),
            codes: Mutex::default(),
            next: AtomicUsize::new(0),
            exchanges: AtomicUsize::new(0),
            was_trapped: AtomicBool::new(false),
            is_let_in: AtomicBool::new(false),
        });
        let caught = Arc::clone(&shared);
        std::thread::spawn(move || {
            for _ in trap.incoming() {
                caught.was_trapped.store(true, Ordering::SeqCst);
            }
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serving = Arc::clone(&serving);
                // A client that leaves is no matter of the provider's.
                std::thread::spawn(move || drop(serve(&serving, stream)));
            }
        });
        Self { shared }
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.shared.issuer
    }

    /// The configuration of a mount that believes it.
    pub(crate) fn config(&self, more: &str) -> String {
        format!(
            r#"{{"oidc_discovery_url":"{}","oidc_client_id":"{CLIENT}","oidc_client_secret":"{SECRET}",
                "jwt_supported_algs":["ES256"]{more}}}"#,
            self.issuer()
        )
    }

    /// Lies from now on; the default is the truth.
    pub(crate) fn lie(&self, lie: Lie) {
        *self.shared.lie.lock().unwrap() = lie;
    }

    /// What the browser of its user does at an address: a code, and the state, as the query it comes back with.
    pub(crate) fn log_in(&self, auth_url: &str) -> (String, String) {
        let asked = query_of(auth_url);
        let at = |name: &str| asked.get(name).cloned().unwrap_or_default();
        assert!(auth_url.starts_with(&format!("{}/authorize?", self.issuer())), "{auth_url}");
        assert_eq!((at("client_id").as_str(), at("response_type").as_str()), (CLIENT, "code"));
        assert_eq!(at("code_challenge_method"), "S256");
        let code = format!("code-{}", self.shared.next.fetch_add(1, Ordering::SeqCst));
        let entry = Asked {
            nonce: at("nonce"),
            challenge: at("code_challenge"),
            redirect_uri: at("redirect_uri"),
        };
        self.shared.codes.lock().unwrap().insert(code.clone(), entry);
        (code, at("state"))
    }

    /// How often a code was to be exchanged.
    pub(crate) fn exchanges(&self) -> usize {
        self.shared.exchanges.load(Ordering::SeqCst)
    }

    /// Whether anybody asked where a token said that keys are.
    pub(crate) fn was_trapped(&self) -> bool {
        self.shared.was_trapped.load(Ordering::SeqCst)
    }

    /// Lets the device in that asked.
    pub(crate) fn let_in(&self) {
        self.shared.is_let_in.store(true, Ordering::SeqCst);
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

fn serve(shared: &Shared, stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut stream = BufReader::new(stream);
    let (mut line, mut head, mut length) = (String::new(), Vec::new(), 0);
    while stream.read_line(&mut line)? > 2 {
        if let Some((_, value)) = line.to_ascii_lowercase().split_once("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push(std::mem::take(&mut line));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let target = head[0].split(' ').nth(1).unwrap().to_owned();
    let header = |name: &str| {
        let found = head.iter().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        found.unwrap_or_default()
    };
    let said = answer(shared, &target, &header("authorization"), &body);
    stream.get_mut().write_all(said.as_bytes())
}

/// A whole answer.
pub(crate) fn http(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn answer(shared: &Shared, target: &str, authorization: &str, body: &[u8]) -> String {
    let (lie, issuer) = (*shared.lie.lock().unwrap(), &shared.issuer);
    match target {
        "/.well-known/openid-configuration" if lie.has_no_page => {
            http(200, &format!(r#"{{"issuer":"{issuer}","jwks_uri":"{issuer}/keys"}}"#))
        }
        "/.well-known/openid-configuration" => http(
            200,
            &format!(
                r#"{{"issuer":"{issuer}","authorization_endpoint":"{issuer}/authorize",
                    "token_endpoint":"{issuer}/token","userinfo_endpoint":"{issuer}/userinfo",
                    "device_authorization_endpoint":"{issuer}/device","jwks_uri":"{issuer}/keys"}}"#
            ),
        ),
        "/keys" => {
            let own = format!(r#"{{"keys":[{}]}}"#, jwk(&shared.keys.own, KEY));
            http(200, lie.keys.unwrap_or(&own))
        }
        "/device" => {
            let page = if lie.says_url { "verification_url" } else { "verification_uri" };
            http(
                200,
                &format!(
                    r#"{{"device_code":"device","user_code":"ABCD-EFGH","expires_in":600,"interval":1,
                        "{page}":"{issuer}/activate"}}"#
                ),
            )
        }
        "/userinfo" => match lie.user_info {
            Some((status, body)) => http(status, body),
            None if authorization == "Bearer access" => {
                http(200, r#"{"sub":"ann","team":"red","groups":["admins","dev"]}"#)
            }
            None => http(401, "{}"),
        },
        "/token" => token(shared, lie, authorization, body),
        _ => http(404, "{}"),
    }
}

fn token(shared: &Shared, lie: Lie, authorization: &str, body: &[u8]) -> String {
    shared.exchanges.fetch_add(1, Ordering::SeqCst);
    let given = query_of(std::str::from_utf8(body).unwrap());
    let at = |name: &str| given.get(name).cloned().unwrap_or_default();
    let basic = authorization.strip_prefix("Basic ").unwrap_or_default();
    let pair = String::from_utf8(BASE64.decode(basic.as_bytes()).unwrap()).unwrap();
    if pair != format!("{CLIENT}:canary%20secret%2F%2B") {
        return http(401, r#"{"error":"invalid_client"}"#);
    }
    if let Some(whole) = lie.answer {
        return whole(&shared.keys);
    }
    let nonce = if at("grant_type") == "authorization_code" {
        let Some(asked) = shared.codes.lock().unwrap().remove(&at("code")) else {
            return http(400, r#"{"error":"invalid_grant"}"#);
        };
        let hash = digest(&SHA256, at("code_verifier").as_bytes());
        let is_same = BASE64URL_NOPAD.encode(hash.as_ref()) == asked.challenge;
        if !is_same || at("redirect_uri") != asked.redirect_uri {
            return http(400, r#"{"error":"invalid_grant"}"#);
        }
        Some(asked.nonce)
    } else {
        assert_eq!(at("device_code"), "device");
        if !shared.is_let_in.load(Ordering::SeqCst) {
            return http(400, r#"{"error":"authorization_pending"}"#);
        }
        None
    };
    let mut claims = Map::from([
        ("iss".to_owned(), shared.issuer.as_str().into()),
        ("sub".to_owned(), "ann".into()),
        ("aud".to_owned(), CLIENT.into()),
        ("iat".to_owned(), now().into()),
        ("exp".to_owned(), (now() + 300).into()),
    ]);
    if let Some(nonce) = nonce {
        claims.insert("nonce".to_owned(), nonce.into());
    }
    replace(&mut claims, lie.claims);
    let mut header =
        Map::from([("alg".to_owned(), "ES256".into()), ("kid".to_owned(), KEY.into())]);
    replace(&mut header, lie.header);
    let text = match lie.sign {
        Some(sign) => sign(&shared.keys, &mut header, &mut claims),
        None => sign_by(&shared.keys.own, &header, &claims),
    };
    let mut tokens = Map::from([
        ("access_token".to_owned(), "access".into()),
        ("token_type".to_owned(), "Bearer".into()),
        ("expires_in".to_owned(), 300_i64.into()),
        ("id_token".to_owned(), text.into()),
    ]);
    replace(&mut tokens, lie.tokens);
    http(200, &String::from_utf8(Json::Object(tokens).to_text()).unwrap())
}
