//! A server that another one leads: what it answers itself, what it relays, and what it refuses.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use kallisto_core::limits::MAX_STALENESS_DEFAULT;
use kallisto_core::{AddressRange, SeenIndex};
use kallisto_listener::WallClock;
use kallisto_listener::http::{ForwardedFor, HttpService, Leader, Relay, Unrelayed};
use kallisto_store::{Replicated, Store};
use kallisto_traces::SpanStatus;
use tokio::sync::watch;

use crate::aged::AgedStore;
use crate::support::{Recorder, Running, TOKEN, of_request, request};
use crate::traced::recorded;
use crate::tracer::tracer;

type RelayedAnswer = Pin<Box<dyn Future<Output = Result<Bytes, Unrelayed>> + Send>>;

/// Relays to a server of this process, while the store of the one that relays has a leader.
struct To<S> {
    store: Arc<AgedStore>,
    /// What becomes of a request.
    send: S,
}

impl<S: Fn(&Arc<AgedStore>, Bytes) -> RelayedAnswer + Send + Sync> Relay for To<S> {
    fn leader(&self) -> Leader {
        if self.leaderless().is_some() { Leader::Nobody } else { Leader::There(2) }
    }

    fn leaderless(&self) -> Option<Duration> {
        (self.store.leadership().leader_id == 0).then_some(Duration::from_secs(3600))
    }

    fn api_address(&self, _id: u64) -> String {
        "http://leader.example".to_owned()
    }

    fn news(&self) -> watch::Receiver<()> {
        watch::channel(()).1
    }

    fn send(&self, _to: u64, request: Bytes) -> RelayedAnswer {
        (self.send)(&self.store, request)
    }
}

/// A leader and one that follows it, as far as clients can tell: each has secrets of its own.
struct Pair {
    leader: Running,
    follower: Running,
    store: Arc<AgedStore>,
    /// Requests that were relayed.
    relayed: Arc<AtomicUsize>,
    /// Whether the next request that is relayed finds the leader gone.
    is_last: Arc<AtomicBool>,
}

impl Pair {
    fn start(rules: ForwardedFor) -> Self {
        let leader = Running::start();
        let service = HttpService::new(
            Arc::clone(&leader.core),
            Arc::clone(&leader.clock) as Arc<dyn WallClock>,
        );
        let (store, relayed) = (Arc::new(AgedStore::default()), Arc::<AtomicUsize>::default());
        let is_last = Arc::<AtomicBool>::default();
        let (counted, last) = (Arc::clone(&relayed), Arc::clone(&is_last));
        let send = move |store: &Arc<AgedStore>, request| -> RelayedAnswer {
            if last.swap(false, Ordering::SeqCst) {
                store.lose_leader();
                return Box::pin(std::future::ready(Err(Unrelayed::NotSent)));
            }
            counted.fetch_add(1, Ordering::SeqCst);
            let service = service.clone();
            Box::pin(async move { Ok(service.serve_relayed(request).await) })
        };
        let to = To { store: Arc::clone(&store), send };
        let follower = Running::start_over(Arc::clone(&store) as Arc<dyn Store>, |own| {
            own.with_relay(Arc::new(to)).with_forwarded_for(rules)
        });
        Self { leader, follower, store, relayed, is_last }
    }

    /// Has the follower follow.
    fn follow(&self) {
        self.store.follow();
    }
}

/// The headers that ask for what this server does not know yet, and who is asked otherwise.
fn ahead(index: &str) -> [(&str, &str); 3] {
    [
        ("X-Vault-Token", TOKEN),
        ("X-Vault-Index", index),
        ("X-Vault-Inconsistent", "forward-active-node"),
    ]
}

/// A place behind that one.
fn later(seen: &str) -> String {
    let seen = SeenIndex::decode(seen).unwrap();
    SeenIndex { index: seen.index + 1, ..seen }.encode()
}

#[test]
fn a_client_that_wants_no_forwarding_says_so_with_a_value() {
    let pair = Pair::start(ForwardedFor::default());
    pair.follow();
    let ask = |value| {
        let headers = [("X-Vault-Token", TOKEN), ("X-Vault-No-Request-Forwarding", value)];
        let put = r#"{"data":{"a":"b"}}"#;
        pair.follower.connect().ask_with("POST", "secret/data/a", &headers, put).status
    };
    assert_eq!([ask("true"), ask("")], [307, 200]);
}

#[test]
fn what_takes_time_is_not_forwarded_and_waits_where_it_was_asked() {
    let pair = Pair::start(ForwardedFor::default());
    let put = r#"{"data":{"a":"b"}}"#;
    let mut connection = pair.follower.connect();
    let reply = connection.ask("POST", "secret/data/a", put);
    let seen = reply.header("x-vault-index").unwrap().to_owned();
    pair.follow();
    // What it has shown already it answers, whatever it takes.
    let known = ahead(&seen);
    let ask = |path: &str, headers: &[(&str, &str)]| {
        pair.follower.connect().ask_with("GET", path, headers, "")
    };
    let waited = ask("secret/data/a?wait=1ms", &known);
    assert_eq!((waited.status, waited.text_at("data/data")), (200, r#"{"a":"b"}"#.to_owned()));
    // What it has not, the leader answers, unless it takes time.
    let unseen = later(&seen);
    let unknown = ahead(&unseen);
    // It is of another cluster, so it has not shown this either.
    let relayed = || pair.relayed.load(Ordering::SeqCst);
    assert_eq!((ask("secret/data/a", &unknown).status, relayed()), (412, 1));
    for path in ["secret/data/a?wait=1s", "sys/kallisto/kv/watch?path=secret/"] {
        let refused = ask(path, &unknown);
        assert_eq!(refused.status, 412, "{path}: {}", refused.text());
    }
    // The same over the reader of everything else.
    let not_plain = [&unknown[..], &[("TE", "trailers")]].concat();
    assert_eq!(ask("secret/data/a?wait=1s", &not_plain).status, 412);
    assert_eq!(relayed(), 1);
    let mut stream = pair.follower.connect();
    stream.send(&request("GET", "sys/kallisto/kv/watch?path=secret/", &known, ""));
    let mut begun = Vec::new();
    while !String::from_utf8_lossy(&begun).contains("event: ready") {
        let mut bytes = [0; 1024];
        let count = std::io::Read::read(&mut stream.writer(), &mut bytes).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&begun));
        begun.extend_from_slice(&bytes[..count]);
    }
}

/// A request that comes through a proxy to a follower is, at the leader, that of the proxy's client.
#[test]
fn what_is_relayed_comes_from_where_the_proxy_says() {
    let pair = Pair::start(ForwardedFor {
        authorized: vec![AddressRange::parse("127.0.0.1").unwrap()],
        hop_skips: 0,
        reject_not_present: false,
        reject_not_authorized: false,
    });
    let (leader, recorder) = (&pair.leader, Recorder::start());
    let policy = r#"{"policy":"path \"*\" { capabilities = [\"read\",\"update\"] }"}"#;
    assert_eq!(leader.ask("PUT", "sys/policies/acl/all", policy).status, 204);
    let role = r#"{"token_bound_cidrs":"203.0.113.0/24","allowed_policies":"all"}"#;
    assert_eq!(leader.ask("PUT", "auth/token/roles/r", role).status, 204);
    let made = leader.ask("PUT", "auth/token/create/r", r#"{"policies":["all"]}"#);
    let token = made.at("auth/client_token").as_str().unwrap().to_owned();
    assert_eq!(leader.ask("POST", "sys/audit/socket", &recorder.device()).status, 204);
    let limit = r#"{"path":"auth/token/renew-self","rate":1,"interval":"1h"}"#;
    assert_eq!(leader.ask("POST", "sys/quotas/rate-limit/r", limit).status, 204);
    pair.follow();
    let renew = |address: &str| {
        let headers = [("X-Vault-Token", token.as_str()), ("X-Forwarded-For", address)];
        let mut client = pair.follower.connect();
        client.ask_with("POST", "auth/token/renew-self", &headers, "{}").status
    };
    // A token that is good there, and a limit for each address.
    assert_eq!([renew("203.0.113.7"), renew("203.0.113.7"), renew("203.0.113.8")], [200, 429, 200]);
    assert_eq!(renew("192.0.2.1"), 403);
    recorder.wait(|records| {
        ["203.0.113.7", "203.0.113.8", "192.0.2.1"].iter().all(|address| {
            records.iter().any(|record| {
                of_request(record, "path") == "auth/token/renew-self"
                    && of_request(record, "remote_address") == *address
            })
        })
    });
    recorder.stop();
}

/// Posts that change nothing: the path, the body, and whether the leader answers them while there is one.
const READING_POSTS: [(&str, &str, bool); 9] = [
    ("transit/hash", r#"{"input":"YQ=="}"#, false),
    ("transit/random/8", "{}", false),
    ("pki/ocsp", "no request", false),
    ("team/transit/hash", r#"{"input":"YQ=="}"#, false),
    ("transit/encrypt/k", r#"{"plaintext":"YQ=="}"#, true),
    ("transit/hmac/k", r#"{"input":"YQ=="}"#, true),
    ("team/transit/hmac/k", r#"{"input":"YQ=="}"#, true),
    ("identity/lookup/entity", r#"{"name":"nobody"}"#, true),
    ("ssh/lookup", r#"{"ip":"192.0.2.1"}"#, true),
];

/// A server that is cut off answers what only reads, also by POST, for as long as its view is recent enough for reads; what writes it
/// refuses.
#[test]
fn a_post_that_only_reads_is_answered_without_a_leader() {
    let pair = Pair::start(ForwardedFor::default());
    let follower = &pair.follower;
    for (path, body) in [
        ("sys/namespaces/team", ""),
        ("sys/mounts/transit", r#"{"type":"transit"}"#),
        ("team/sys/mounts/transit", r#"{"type":"transit"}"#),
        ("sys/mounts/pki", r#"{"type":"pki"}"#),
        ("sys/mounts/ssh", r#"{"type":"ssh"}"#),
        ("transit/keys/k", ""),
        ("team/transit/keys/k", ""),
    ] {
        let made = follower.ask("POST", path, body);
        assert!(made.status < 300, "{path}: {}", made.text());
    }
    // What its own store answers; at the leader nothing of it is mounted.
    let asked = |path: &str, body: &str| {
        let before = pair.relayed.load(Ordering::SeqCst);
        let reply = follower.ask("POST", path, body);
        (reply.status, pair.relayed.load(Ordering::SeqCst) - before)
    };
    let own: Vec<(u16, usize)> =
        READING_POSTS.iter().map(|(path, body, _)| asked(path, body)).collect();
    assert!(own.iter().all(|(status, _)| [200, 204, 400].contains(status)), "{own:?}");
    pair.follow();
    for ((path, body, is_leaders), own) in READING_POSTS.iter().zip(&own) {
        let (status, relayed) = asked(path, body);
        assert_eq!(relayed, usize::from(*is_leaders), "{path}");
        assert!(*is_leaders || status == own.0, "{path}: {status}");
    }
    // A leader that goes while it is asked.
    pair.is_last.store(true, Ordering::SeqCst);
    assert_eq!(asked("transit/encrypt/k", r#"{"plaintext":"YQ=="}"#), (200, 0));
    for ((path, body, _), own) in READING_POSTS.iter().zip(&own) {
        assert_eq!(asked(path, body), *own, "{path}");
    }
    // It would make the key, which nobody takes.
    for (path, body) in [
        ("transit/encrypt/new", r#"{"plaintext":"YQ=="}"#),
        ("transit/keys/other", "{}"),
        ("secret/data/a", r#"{"data":{"a":"b"}}"#),
    ] {
        assert_eq!(asked(path, body), (503, 0), "{path}");
    }
    pair.store.age(MAX_STALENESS_DEFAULT + Duration::from_nanos(1));
    for (path, body, _) in READING_POSTS {
        assert_eq!(asked(path, body), (503, 0), "{path}");
    }
}

#[test]
fn what_anyone_may_read_is_read_where_it_is_asked() {
    let pair = Pair::start(ForwardedFor::default());
    for (path, body) in [
        ("sys/mounts/pki", r#"{"type":"pki"}"#),
        ("pki/root/generate/internal", r#"{"common_name":"Root","key_type":"ec"}"#),
    ] {
        let reply = pair.follower.ask("POST", path, body);
        assert!(reply.status < 300, "{}", reply.text());
    }
    let read =
        |headers: &[(&str, &str)]| pair.follower.connect().ask_with("GET", "pki/crl", headers, "");
    let made = read(&[]);
    assert_eq!(made.status, 200);
    pair.follow();
    for headers in [&[][..], &[("TE", "trailers")]] {
        let reply = read(headers);
        assert_eq!((reply.status, reply.body), (200, made.body.clone()));
    }
    assert_eq!(pair.relayed.load(Ordering::SeqCst), 0);
    // The leader, which has no such mount, is asked for what it alone answers.
    assert_eq!(pair.follower.ask("GET", "pki/crl/rotate", "").status, 404);
    assert_eq!(pair.relayed.load(Ordering::SeqCst), 1);
}

#[test]
fn what_is_relayed_to_nobody_has_no_span_of_that() {
    let (tracer, receiver) = tracer();
    let (store, service) =
        (Arc::new(AgedStore::default()), Arc::<OnceLock<HttpService>>::default());
    // The one that is asked follows too, and afterwards no leader is left.
    let asked = Arc::clone(&service);
    let send = move |store: &Arc<AgedStore>, request| -> RelayedAnswer {
        let (service, store) = (asked.get().unwrap().clone(), Arc::clone(store));
        Box::pin(async move {
            let answer = service.serve_relayed(request).await;
            store.lose_leader();
            Ok(answer)
        })
    };
    let relay = To { store: Arc::clone(&store), send };
    let of_follower = Arc::clone(&tracer);
    let follower = Running::start_over(Arc::clone(&store) as Arc<dyn Store>, |own| {
        own.with_relay(Arc::new(relay)).with_tracer(of_follower)
    });
    let clock = Arc::clone(&follower.clock) as Arc<dyn WallClock>;
    let other = HttpService::new(Arc::clone(&follower.core), clock).with_tracer(tracer);
    assert!(service.set(other).is_ok());
    assert_eq!(follower.ask("POST", "sys/mounts/transit", r#"{"type":"transit"}"#).status, 204);
    assert_eq!(follower.ask("POST", "transit/keys/k", "").status, 200);
    store.follow();
    let encrypt = || follower.ask("POST", "transit/encrypt/k", r#"{"plaintext":"YQ=="}"#).status;
    // Sent elsewhere, then turned away by a server that does not lead, then answered by one that stands in.
    let stays = [("X-Vault-Token", TOKEN), ("X-Vault-No-Request-Forwarding", "true")];
    let sent = follower.connect().ask_with("POST", "transit/encrypt/k", &stays, "{}");
    assert_eq!((sent.status, encrypt(), encrypt()), (307, 200, 200));
    // Nobody leads, and nobody may stand in.
    assert_eq!(follower.ask("POST", "transit/keys/other", "{}").status, 503);
    follower.stop();
    let spans = recorded(receiver);
    let statuses = |name: &str| -> Vec<&SpanStatus> {
        let named = spans.iter().filter(|span| span.name.starts_with(name));
        named.map(|span| &span.status).collect()
    };
    let encryptions = statuses("POST /v1/transit/encrypt/");
    assert_eq!(encryptions, [&SpanStatus::Unset; 3], "{spans:#?}");
    // Of the one that was asked, and of a wait in vain.
    let in_vain = SpanStatus::Failed("no leader");
    assert_eq!(statuses("forward"), [&SpanStatus::Unset, &in_vain], "{spans:#?}");
}

#[test]
fn a_write_whose_answer_cannot_be_read_is_not_sent_again() {
    let (store, relayed) = (Arc::new(AgedStore::default()), Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&relayed);
    let send = move |_: &Arc<AgedStore>, _| -> RelayedAnswer {
        counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(Bytes::from_static(b"\x02of a later version"))))
    };
    let to = To { store: Arc::clone(&store), send };
    let follower = Running::start_over(Arc::clone(&store) as Arc<dyn Store>, |own| {
        own.with_relay(Arc::new(to))
    });
    store.follow();
    let reply = follower.ask("POST", "secret/data/a", r#"{"data":{"a":"b"}}"#);
    assert_eq!(relayed.load(Ordering::SeqCst), 1);
    assert_eq!(reply.status, 503);
    assert!(reply.text().contains("the write may have happened"), "{}", reply.text());
}
