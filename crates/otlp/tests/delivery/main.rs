//! Spans on their way to a collector that records, hangs, refuses, is not there, or comes back.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "a test may ask for the time")]

#[expect(dead_code, reason = "what spans of requests say is looked at where there are requests")]
mod collector;
mod tracer;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use collector::{Behaviour, Collector};
use kallisto_otlp::{CollectorEndpoint, Exporter, ExporterSettings, OtlpProtocol, SHUTDOWN_MAX};
use kallisto_traces::{QUEUE_SPANS_MAX, SpanDrop, SpanKind, SpanStatus, Tracer};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tracer::tracer;

const PROTOCOLS: [OtlpProtocol; 2] = [OtlpProtocol::Http, OtlpProtocol::Grpc];
/// More than anything takes that is held up by nothing, on a machine as busy as one that tests.
const SOON: Duration = Duration::from_secs(20);

struct Pair {
    tracer: Arc<Tracer>,
    exporter: Exporter,
}

fn start_with(url: &str, protocol: OtlpProtocol, tls: Option<Arc<rustls::ClientConfig>>) -> Pair {
    let (tracer, receiver) = tracer();
    let settings = ExporterSettings {
        endpoint: CollectorEndpoint::parse(Some(url), protocol).unwrap(),
        headers: vec![("x-key".into(), "a key".into())],
        tls,
        resource: vec![("service.name".into(), "tested".into())],
    };
    let exporter = Exporter::start(settings, receiver, Arc::clone(tracer.counts())).unwrap();
    Pair { tracer, exporter }
}

fn start(collector: &Collector, protocol: OtlpProtocol) -> Pair {
    start_with(&collector.url(), protocol, None)
}

impl Pair {
    fn send(&self, count: usize) {
        for _ in 0..count {
            let span = self.tracer.begin(None);
            drop(span.trace().child("inner", SpanKind::Internal));
            span.trace().note("n", 7_i64);
            span.end(SpanStatus::Unset);
        }
    }

    fn dropped(&self, why: SpanDrop) -> u64 {
        self.tracer.counts().dropped(why)
    }
}

#[test]
fn spans_arrive_whole_over_both_protocols() {
    for protocol in PROTOCOLS {
        let collector = Collector::start();
        let pair = start(&collector, protocol);
        pair.send(3);
        collector.until("the spans", |received| received.spans.len() == 6);
        // What came after the last batch leaves with the end.
        pair.send(700);
        let counts = Arc::clone(pair.tracer.counts());
        let begin = Instant::now();
        pair.exporter.stop();
        assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
        // A batch that was on its way at the end is sent again: a collector knows a span by its id.
        let (mut spans, mut known) = (collector.spans(), HashSet::new());
        spans.retain(|span| known.insert(span.span_id.clone()));
        assert_eq!(spans.len(), 1406, "{protocol:?}");
        assert_eq!((counts.exported(), counts.waiting()), (1406, 0));
        for (inner, outer) in spans.chunks(2).map(|pair| (&pair[0], &pair[1])) {
            assert_eq!((inner.name.as_str(), inner.kind), ("inner", 1));
            assert_eq!((outer.name.as_str(), outer.kind), ("request", 2));
            assert_eq!((inner.parent.as_str(), outer.parent.as_str()), (&*outer.span_id, ""));
            assert_eq!(inner.trace_id, outer.trace_id);
            assert_eq!((outer.at("n"), outer.flags), ("7", 0x101));
            assert_eq!(outer.resource["service.name"], "tested");
        }
        for headers in &collector.received().headers {
            assert_eq!(headers["x-key"], "a key");
            assert!(headers["user-agent"].to_str().unwrap().starts_with("kallisto/"));
        }
    }
}

#[test]
fn a_collector_that_is_not_there_costs_nothing_but_the_spans() {
    for protocol in PROTOCOLS {
        // Nobody is given that port, as one that was free a moment ago may be.
        let pair = start_with("http://127.0.0.1:1", protocol, None);
        let begin = Instant::now();
        pair.send(QUEUE_SPANS_MAX);
        let took = begin.elapsed();
        assert!(took < SOON, "{took:?}: nobody waits");
        assert!(pair.dropped(SpanDrop::QueueFull) > 0);
        let counts = Arc::clone(pair.tracer.counts());
        let begin = Instant::now();
        pair.exporter.stop();
        assert!(begin.elapsed() < SHUTDOWN_MAX + SOON, "{:?}", begin.elapsed());
        let lost = counts.dropped(SpanDrop::QueueFull) + counts.dropped(SpanDrop::Unreachable);
        assert_eq!(lost, 2 * QUEUE_SPANS_MAX as u64, "every span is counted");
        assert_eq!((counts.exported(), counts.waiting()), (0, 0));
    }
}

#[test]
fn a_collector_that_hangs_holds_up_no_request_and_the_end_for_a_moment() {
    for protocol in PROTOCOLS {
        let collector = Collector::start();
        collector.set(Behaviour::Hangs);
        let pair = start(&collector, protocol);
        pair.send(1);
        collector.until("a request", |received| received.requests > 0);
        let begin = Instant::now();
        pair.send(QUEUE_SPANS_MAX);
        assert!(begin.elapsed() < SOON, "{:?}: nobody waits", begin.elapsed());
        let counts = Arc::clone(pair.tracer.counts());
        assert_eq!(counts.dropped(SpanDrop::QueueFull), QUEUE_SPANS_MAX as u64);
        let begin = Instant::now();
        pair.exporter.stop();
        let took = begin.elapsed();
        assert!((SHUTDOWN_MAX..SHUTDOWN_MAX + SOON).contains(&took), "{took:?}");
        assert_eq!(counts.dropped(SpanDrop::Unreachable), QUEUE_SPANS_MAX as u64 + 2);
        assert_eq!((counts.exported(), counts.waiting()), (0, 0));
    }
}

#[test]
fn what_a_collector_refuses_is_dropped_and_what_it_cannot_take_now_is_sent_again() {
    for (protocol, refuses, cannot) in [
        (OtlpProtocol::Http, Behaviour::Answers(401), Behaviour::Answers(503)),
        (OtlpProtocol::Grpc, Behaviour::Ends(16), Behaviour::Ends(14)),
        (OtlpProtocol::Grpc, Behaviour::Answers(404), Behaviour::Answers(502)),
    ] {
        let collector = Collector::start();
        collector.set(refuses);
        let pair = start(&collector, protocol);
        pair.send(2);
        collector.until("a request", |received| received.requests == 1);
        let begin = Instant::now();
        while pair.dropped(SpanDrop::Refused) < 4 {
            assert!(begin.elapsed() < SOON, "{protocol:?}: they are not counted");
        }
        collector.set(cannot);
        pair.send(2);
        collector.until("two attempts", |received| received.requests >= 3);
        assert_eq!(pair.tracer.counts().waiting(), 4);
        collector.set(Behaviour::Takes);
        collector.until("the spans", |received| received.spans.len() == 4);
        let counts = Arc::clone(pair.tracer.counts());
        pair.exporter.stop();
        assert_eq!((counts.exported(), counts.waiting()), (4, 0));
        assert_eq!(counts.dropped(SpanDrop::Refused), 4);
        assert_eq!(counts.dropped(SpanDrop::Unreachable), 0);
    }
}

/// More spans than two requests hold.
const OF_THREE_REQUESTS: usize = 512 + 256;
/// The shortest pauses after a first and a second failure.
const PAUSES_MIN: Duration = Duration::from_millis(250 + 500);

#[test]
fn a_collector_that_refuses_is_left_alone_and_keeps_its_connection() {
    for (protocol, refuses) in [
        (OtlpProtocol::Http, Behaviour::Answers(400)),
        (OtlpProtocol::Http, Behaviour::Answers(503)),
        (OtlpProtocol::Grpc, Behaviour::Ends(16)),
        (OtlpProtocol::Grpc, Behaviour::EndsAtOnce(14)),
        (OtlpProtocol::Grpc, Behaviour::Answers(404)),
    ] {
        let collector = Collector::start();
        collector.set(refuses);
        let pair = start(&collector, protocol);
        let begin = Instant::now();
        pair.send(OF_THREE_REQUESTS);
        collector.until("the third request", |received| received.requests >= 3);
        let took = begin.elapsed();
        assert!(
            took >= PAUSES_MIN - Duration::from_millis(50),
            "{protocol:?} {refuses:?}: {took:?}"
        );
        // Before the end, which breaks off a request that is on its way and sends it again over another connection.
        assert_eq!(collector.received().connections, 1, "{protocol:?} {refuses:?}");
        collector.set(Behaviour::Takes);
        pair.exporter.stop();
    }
}

/// Spans that are recorded after an answer.
const SPANS_AFTER: u64 = 50;

#[test]
fn a_collector_that_asks_for_an_age_is_asked_again_and_the_end_does_not_wait_for_it() {
    for after in ["18446744073709551615", "99999999999999999999999", "-1", "soon"] {
        let collector = Collector::start();
        collector.set(Behaviour::AnswersBusy(after));
        let pair = start(&collector, OtlpProtocol::Http);
        pair.send(2);
        collector.until("a request", |received| received.requests >= 1);
        // By the end of these the answer was read, and somebody still takes spans.
        for _ in 0..SPANS_AFTER {
            pair.send(1);
            std::thread::sleep(Duration::from_millis(5));
        }
        let counts = Arc::clone(pair.tracer.counts());
        assert_eq!(counts.dropped(SpanDrop::QueueFull), 0, "{after}: nobody takes spans");
        collector.set(Behaviour::Takes);
        let begin = Instant::now();
        pair.exporter.stop();
        assert!(begin.elapsed() < SOON, "{after}: {:?}", begin.elapsed());
        let sent = 2 * (2 + SPANS_AFTER);
        assert_eq!((counts.exported(), counts.waiting()), (sent, 0), "{after}");
    }
}

#[test]
fn an_answer_without_an_end_takes_a_bounded_time_and_is_judged_by_its_head() {
    for (protocol, status, why) in [
        (OtlpProtocol::Http, 400, SpanDrop::Refused),
        (OtlpProtocol::Grpc, 400, SpanDrop::Refused),
        (OtlpProtocol::Grpc, 200, SpanDrop::Unreachable),
    ] {
        let collector = Collector::start();
        collector.set(Behaviour::NeverEnds(status));
        let pair = start(&collector, protocol);
        pair.send(1);
        let counts = Arc::clone(pair.tracer.counts());
        let begin = Instant::now();
        pair.exporter.stop();
        // One that was waited for to its end would take all of the time that there is.
        assert!(begin.elapsed() < SHUTDOWN_MAX, "{protocol:?} {status}: {:?}", begin.elapsed());
        assert_eq!((counts.dropped(why), counts.waiting()), (2, 0), "{protocol:?} {status}");
    }
}

/// Answers of which none is the last, of HTTP/1.1; settings and pings of HTTP/2, which are answered and are no answer.
const FLOODS: [(OtlpProtocol, &[u8]); 3] = [
    (OtlpProtocol::Http, b"HTTP/1.1 100 Continue\r\n\r\n"),
    (OtlpProtocol::Grpc, b"\0\0\0\x04\0\0\0\0\0"),
    (OtlpProtocol::Grpc, b"\0\0\x08\x06\0\0\0\0\0a ping!!"),
];

#[test]
fn a_flood_that_is_no_answer_ends_the_connection() {
    for (protocol, flood) in FLOODS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let pair = start_with(&url, protocol, None);
        pair.send(1);
        let (mut stream, _) = listener.accept().unwrap();
        let begin = Instant::now();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
        if protocol == OtlpProtocol::Grpc {
            // Its own settings come first.
            stream.write_all(FLOODS[1].1).unwrap();
        }
        let much = flood.repeat(1024);
        // What stands in buffers is little.
        while stream.write_all(&much).is_ok() {
            assert!(begin.elapsed() < SOON, "{protocol:?}: it takes all");
        }
        drop(listener);
        pair.exporter.stop();
    }
}

#[test]
fn what_is_refused_at_the_end_is_counted_as_refused() {
    for (protocol, refuses) in
        [(OtlpProtocol::Http, Behaviour::Answers(401)), (OtlpProtocol::Grpc, Behaviour::Ends(16))]
    {
        let collector = Collector::start();
        collector.set(refuses);
        let pair = start(&collector, protocol);
        pair.send(OF_THREE_REQUESTS);
        let counts = Arc::clone(pair.tracer.counts());
        pair.exporter.stop();
        let spans = 2 * OF_THREE_REQUESTS as u64;
        assert_eq!(counts.dropped(SpanDrop::Refused), spans, "{protocol:?}");
        assert_eq!((counts.dropped(SpanDrop::Unreachable), counts.waiting()), (0, 0));
    }
}

#[test]
fn spans_that_a_collector_leaves_out_are_counted() {
    for protocol in PROTOCOLS {
        let collector = Collector::start();
        collector.set(Behaviour::Rejects(3));
        let pair = start(&collector, protocol);
        pair.send(5);
        let counts = Arc::clone(pair.tracer.counts());
        pair.exporter.stop();
        assert_eq!((counts.exported(), counts.dropped(SpanDrop::Refused)), (7, 3), "{protocol:?}");
    }
}

#[test]
fn a_connection_that_was_closed_between_two_batches_loses_none() {
    let collector = Collector::start();
    collector.set(Behaviour::Closes);
    let pair = start(&collector, OtlpProtocol::Http);
    for round in 1..=3 {
        pair.send(1);
        collector.until("the spans", |received| received.spans.len() == 2 * round);
    }
    let counts = Arc::clone(pair.tracer.counts());
    // The end sends again what is on its way, an answer included.
    let begin = Instant::now();
    while counts.waiting() > 0 {
        assert!(begin.elapsed() < SOON, "the last answer is not read");
        std::thread::sleep(Duration::from_millis(1));
    }
    pair.exporter.stop();
    assert_eq!((counts.exported(), counts.waiting()), (6, 0));
    assert_eq!(collector.spans().len(), 6, "and sends none twice");
}

#[test]
fn by_tls_a_collector_proves_who_it_is_and_is_shown_who_sends() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let chain = || vec![CertificateDer::from(made.cert.der().to_vec())];
    let key = || PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = || Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut authorities = rustls::RootCertStore::empty();
    authorities.add(chain().remove(0)).unwrap();
    let authorities = Arc::new(authorities);
    let clients = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::clone(&authorities),
        provider(),
    );
    let server = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(chain(), key());
    let mut server = server.unwrap();
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let collector = Collector::listen(Some(Arc::new(server)));
    let url = format!("https://{}", collector.address);
    let client = |trusted: CertificateDer<'static>| {
        let mut authorities = rustls::RootCertStore::empty();
        authorities.add(trusted).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(authorities);
        Some(Arc::new(builder.with_client_auth_cert(chain(), key()).unwrap()))
    };
    for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
        let pair = start_with(&url, protocol, client(chain().remove(0)));
        pair.send(1);
        pair.exporter.stop();
        assert_eq!(collector.spans().len(), 2 * (at + 1), "{protocol:?}");
        let stranger = CertificateDer::from(other.cert.der().to_vec());
        let pair = start_with(&url, protocol, client(stranger));
        pair.send(1);
        let counts = Arc::clone(pair.tracer.counts());
        pair.exporter.stop();
        assert_eq!((counts.exported(), counts.dropped(SpanDrop::Unreachable)), (0, 2));
    }
}
