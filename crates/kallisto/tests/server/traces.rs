//! Spans of requests, sent by the real program to a collector that records: over both protocols, through a follower, of a server that is
//! sealed or refuses, and of commands of the Redis protocol.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::collector::{Behaviour, Collector, RecordedSpan};
use crate::pair;
use crate::ports::free_address;
use crate::support::{Directory, PATIENCE, Server, refuse, until};

/// A trace that a client began, and its span there.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
/// More spans than are on their way and wait.
const SPANS_MAX: usize = 8192 + 512;

/// A trace of a client's own with this number, and the header that says so.
fn client_trace(number: u8, flags: &str) -> (String, String) {
    let trace = format!("{}{number:02x}", &TRACE[..30]);
    (trace.clone(), format!("00-{trace}-{SPAN}-{flags}"))
}

fn stanza(collector: &Collector, more: &str) -> String {
    format!("tracing \"otlp\" {{\n  endpoint = \"{}\"\n{more}\n}}\n", collector.url())
}

fn named<'s>(spans: &'s [RecordedSpan], name: &str) -> Vec<&'s RecordedSpan> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[test]
fn a_request_is_one_span_below_its_client_s_and_says_no_path() {
    for protocol in ["http/protobuf", "grpc"] {
        let directory = Directory::new("traces");
        let collector = Collector::start();
        let more = format!(
            "protocol = \"{protocol}\"\nservice_name = \"vaults\"\nresource_attributes {{ zone = \"a\" }}"
        );
        let server = Server::start(&directory, &directory.config(&stanza(&collector, &more)));
        let keys = server.initialize(1, 1);
        server.unseal(&keys);
        let (mount, parent) = client_trace(1, "01");
        let headers = [("traceparent", parent.as_str()), ("tracestate", "a=b,c=d")];
        let mut root = server.client(&keys.root).with_headers(&headers);
        root.put("sys/mounts/kv", r#"{"type":"kv-v2"}"#);
        let spans = collector.trace(&mount, 2);
        let [span] = named(&spans, "PUT /v1/sys/mounts/{path}")[..] else { panic!("{spans:#?}") };
        assert_eq!((span.parent.as_str(), span.state.as_str()), (SPAN, "a=b,c=d"));
        assert_eq!((span.kind, span.flags), (2, 0x301));
        for (name, value) in [
            ("http.request.method", "PUT"),
            ("http.route", "/v1/sys/mounts/{path}"),
            ("http.response.status_code", "204"),
            ("kallisto.operation", "update"),
            ("kallisto.namespace", "root"),
            ("kallisto.mount.path", "sys/"),
            ("kallisto.mount.type", "system"),
        ] {
            assert_eq!(span.at(name), value, "{name}");
        }
        for (name, value) in [
            ("service.name", "vaults"),
            ("zone", "a"),
            ("service.instance.id", "one"),
            ("service.version", env!("CARGO_PKG_VERSION")),
        ] {
            assert_eq!(span.resource[name], value);
        }
        let commits = named(&spans, "commit");
        assert!(!commits.is_empty());
        assert!(commits.iter().all(|commit| commit.parent == span.span_id && commit.kind == 1));
        reads_and_writes(&server, &keys.root, &collector);
        server.stop();
        let bodies = String::from_utf8_lossy(&collector.received().bodies).into_owned();
        for word in ["secret-name", "nothing", &keys.root, &keys.shares[0]] {
            assert!(!bodies.contains(word), "{word}");
        }
    }
}

/// A write, the read that memory answers, and what is not there, by one connection; then requests that name no trace.
fn reads_and_writes(server: &Server, token: &str, collector: &Collector) {
    let (trace, parent) = client_trace(2, "01");
    let mut root = server.client(token).with_headers(&[("traceparent", parent.as_str())]);
    let written = root.put("kv/data/my/secret-name", r#"{"data":{"k":"v"}}"#);
    let read = root.get("kv/data/my/secret-name").good();
    assert_eq!(root.get("kv/data/nothing").status, 404);
    let spans = collector.trace(&trace, 4);
    let [write] = named(&spans, "PUT /v1/kv/data/{path}")[..] else { panic!("{spans:#?}") };
    assert_eq!(write.at("kallisto.request_id"), written.at("request_id"));
    let [first, second] = named(&spans, "GET /v1/kv/data/{path}")[..] else { panic!("{spans:#?}") };
    assert_eq!(first.at("kallisto.request_id"), read.at("request_id"));
    assert_eq!(first.at("http.response.status_code"), "200");
    assert_eq!(second.at("http.response.status_code"), "404");
    assert_eq!((first.failed.as_ref(), second.failed.as_ref()), (None, None));
    assert_eq!((first.at("kallisto.mount.type"), first.at("kallisto.mount.path")), ("kv", "kv/"));
    assert!(spans.iter().all(|span| span.name != "commit" || span.parent == write.span_id));

    // What is malformed begins a trace and is no error; so does what comes twice.
    let twice = [("traceparent", parent.as_str()), ("traceparent", parent.as_str())];
    let long = format!("{parent}-");
    for headers in [&[("traceparent", "00-zz")][..], &twice, &[("traceparent", long.as_str())]] {
        let before = collector.spans().len();
        server.client(token).with_headers(headers).get("kv/data/my/secret-name").good();
        collector.until("a span", |received| received.spans.len() > before);
        let span = &collector.spans()[before];
        assert_eq!((span.parent.as_str(), span.trace_id == trace), ("", false), "{span:#?}");
    }
}

#[test]
fn a_request_through_a_follower_is_one_trace() {
    let directory = Directory::new("traces-pair");
    let collector = Collector::start();
    let url = collector.url();
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str())];
    let (one, two, keys) = pair::start_with(&directory, &[], &environment);
    one.client(&keys.root).put("sys/mounts/kv", r#"{"type":"kv-v2"}"#);
    // It calls a request by the route that it knows.
    until("the mount to be known at the second", || {
        two.client(&keys.root).get("kv/config").status == 200
    });
    let (trace, parent) = client_trace(3, "01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "a=b")];
    let mut through = two.client(&keys.root).with_headers(&headers);
    let written = through.put("kv/data/x", r#"{"data":{"k":"v"}}"#);
    let spans = collector.trace(&trace, 4);
    let requests = named(&spans, "PUT /v1/kv/data/{path}");
    let [forward] = named(&spans, "forward")[..] else { panic!("{spans:#?}") };
    let at_follower = requests.iter().find(|span| span.parent == SPAN).unwrap();
    let at_leader = requests.iter().find(|span| span.parent == forward.span_id).unwrap();
    assert_eq!((forward.parent.as_str(), forward.kind), (&*at_follower.span_id, 3));
    let [commit] = named(&spans, "commit")[..] else { panic!("{spans:#?}") };
    assert_eq!(commit.parent, at_leader.span_id);
    assert_eq!(at_leader.at("kallisto.relayed"), "true");
    assert_eq!(at_follower.at("kallisto.relayed"), "");
    assert_eq!(at_leader.resource["service.instance.id"], "one");
    assert_eq!(at_follower.resource["service.instance.id"], "two");
    assert_eq!(at_leader.at("kallisto.request_id"), written.at("request_id"));
    assert!(spans.iter().all(|span| span.state == "a=b"));

    // What the client does not record, nobody does; a trace that begins at the follower goes on at the leader.
    let (silent, parent) = client_trace(4, "00");
    let headers = [("traceparent", parent.as_str())];
    two.client(&keys.root).with_headers(&headers).put("kv/data/x", r#"{"data":{"k":"v"}}"#);
    let before = collector.spans().len();
    two.client(&keys.root).put("kv/data/x", r#"{"data":{"k":"v"}}"#);
    collector.until("a forward", |received| {
        received.spans[before..].iter().any(|span| span.name == "forward")
    });
    let begun = collector.spans()[before..].iter().find(|span| span.name == "forward").cloned();
    let spans = collector.trace(&begun.unwrap().trace_id, 4);
    assert_eq!(spans.iter().filter(|span| span.parent.is_empty()).count(), 1, "{spans:#?}");
    two.stop();
    one.stop();
    assert!(collector.spans().iter().all(|span| span.trace_id != silent));
}

#[test]
fn requests_that_are_refused_are_recorded_too() {
    let directory = Directory::new("traces-refused");
    let collector = Collector::start();
    let server = Server::start(&directory, &directory.config(&stanza(&collector, "")));
    let mut number = 10;
    let mut asked = |token: &str, method: &str, path: &str| {
        number += 1;
        let (trace, parent) = client_trace(number, "01");
        let headers = [("traceparent", parent.as_str())];
        let mut client = server.client(token).with_headers(&headers);
        let status = client.send(method, path, "").status;
        let span = collector.trace(&trace, 1).remove(0);
        assert_eq!(span.at("http.response.status_code"), status.to_string());
        assert_eq!(span.failed.is_some(), status >= 500, "{span:#?}");
        (status, span.name)
    };
    // Not initialised, then sealed, then open.
    assert_eq!(asked("", "GET", "sys/health"), (501, "GET /v1/sys/health".to_owned()));
    let keys = server.initialize(1, 1);
    assert_eq!(asked("", "GET", "sys/health"), (503, "GET /v1/sys/health".to_owned()));
    assert_eq!(asked(&keys.root, "GET", "kv/data/a"), (503, "GET".to_owned()));
    server.unseal(&keys);
    let mut root = server.client(&keys.root);
    root.put("sys/mounts/kv", r#"{"type":"kv-v2"}"#);
    let of_data = |method: &str| format!("{method} /v1/kv/data/{{path}}");
    assert_eq!(asked("hvs.nobody", "GET", "kv/data/a"), (403, of_data("GET")));
    assert_eq!(asked("", "PUT", "kv/data/a"), (403, of_data("PUT")));
    assert_eq!(asked(&keys.root, "GET", "no/such/mount"), (404, "GET".to_owned()));
    assert_eq!(asked(&keys.root, "BREW", "kv/data/a").1, "HTTP");
    root.put("sys/quotas/rate-limit/few", r#"{"path":"kv/","rate":1,"interval":"1h"}"#);
    let mut limited = (0..5).map(|_| asked(&keys.root, "GET", "kv/data/a"));
    assert_eq!(limited.find(|(status, _)| *status == 429), Some((429, of_data("GET"))));
    let told = server.client(&keys.root).get("sys/metrics?format=prometheus").good().body;
    let exported = "kallisto_traces_spans_exported_total ";
    let exported = told.lines().find_map(|line| line.strip_prefix(exported));
    assert!(exported.unwrap().parse::<u64>().unwrap() > 5, "{told}");
    assert!(told.contains("kallisto_traces_spans_dropped_total{reason=\"queue_full\"} 0"));
    server.stop();
}

#[test]
fn commands_of_the_redis_protocol_are_spans_too() {
    let directory = Directory::new("traces-resp");
    let collector = Collector::start();
    let port = free_address().port();
    let listener = format!(
        "listener \"resp\" {{\n  address = \"127.0.0.1:{port}\"\n  tls_disable = true\n}}\n"
    );
    let config = directory.config(&format!("{}{listener}", stanza(&collector, "")));
    let server = Server::start(&directory, &config);
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    server.client(&keys.root).put("sys/mounts/secret", r#"{"type":"kv-v2"}"#);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut ask = |commands: &str, answers: &str| {
        stream.write_all(commands.as_bytes()).unwrap();
        let mut reply = vec![0; answers.len()];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(String::from_utf8_lossy(&reply), answers);
    };
    ask("GET first\r\n", "-NOAUTH Authentication required.\r\n");
    ask(&format!("AUTH {}\r\n", keys.root), "+OK\r\n");
    ask("SET one canary\r\n", "+OK\r\n");
    ask("SET two canary\r\nSET three canary\r\n", "+OK\r\n+OK\r\n");
    ask("GET one\r\nGET two\r\n", "$6\r\ncanary\r\n$6\r\ncanary\r\n");
    ask("MSET four canary five canary\r\n", "+OK\r\n");
    ask("CANARY canary\r\n", "-ERR unknown command 'canary'\r\n");
    server.stop();
    // A batch that was on its way at the end is sent again: a collector knows a span by its id.
    let (mut spans, mut known) = (collector.spans(), HashSet::new());
    spans.retain(|span| known.insert(span.span_id.clone()));
    let all = |name: &str| named(&spans, name);
    assert_eq!((all("RESP auth").len(), all("RESP set").len(), all("RESP mset").len()), (1, 3, 1));
    let gets = all("RESP get");
    let codes: Vec<_> = gets.iter().map(|span| span.at("db.response.status_code")).collect();
    assert_eq!(codes, ["NOAUTH", "", ""]);
    assert_eq!(all("RESP unknown")[0].at("db.response.status_code"), "ERR");
    for span in spans.iter().filter(|span| span.name.starts_with("RESP ")) {
        assert_eq!((span.parent.as_str(), span.kind, span.at("db.system.name")), ("", 2, "redis"));
    }
    assert_eq!(gets[1].at("kallisto.mount.path"), "secret/");
    assert_eq!(gets[1].at("kallisto.mount.type"), "kv");
    let commits = all("commit");
    for set in all("RESP set") {
        assert_eq!(commits.iter().filter(|commit| commit.parent == set.span_id).count(), 1);
    }
    let mset = &all("RESP mset")[0].span_id;
    assert_eq!(commits.iter().filter(|commit| commit.parent == *mset).count(), 2);
    let bodies = String::from_utf8_lossy(&collector.received().bodies).into_owned();
    for word in ["canary", "CANARY", "three", &keys.root] {
        assert!(!bodies.contains(word), "{word}");
    }
}

#[test]
fn samplers_have_the_meaning_of_opentelemetry() {
    for (sampler, ratio, begun, of_recorded, of_silent) in [
        ("parentbased_traceidratio", "0", false, true, false),
        ("parentbased_always_on", "", true, true, false),
        ("traceidratio", "1", true, true, true),
        ("always_off", "", false, false, false),
    ] {
        let directory = Directory::new("traces-sampled");
        let collector = Collector::start();
        let config = directory.config(&stanza(&collector, "sampler = \"always_on\""));
        let environment = [("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", ratio)];
        let server = Server::start_with(&directory, &config, &environment);
        let (recorded, recorded_parent) = client_trace(1, "01");
        let (silent, silent_parent) = client_trace(2, "00");
        server.anyone().get("sys/health");
        for parent in [&recorded_parent, &silent_parent] {
            server.anyone().with_headers(&[("traceparent", parent)]).get("sys/health");
        }
        server.stop();
        let spans = collector.spans();
        let has = |trace: &str| spans.iter().any(|span| span.trace_id == trace);
        assert_eq!((has(&recorded), has(&silent)), (of_recorded, of_silent), "{sampler}");
        assert_eq!(spans.iter().any(|span| span.parent.is_empty()), begun, "{sampler}");
    }
}

#[test]
fn a_collector_that_hangs_or_is_gone_keeps_no_request_waiting() {
    let collector = Collector::start();
    collector.set(Behaviour::Hangs);
    for url in [collector.url(), format!("http://{}", free_address())] {
        let directory = Directory::new("traces-gone");
        let more = format!("tracing \"otlp\" {{ endpoint = \"{url}\" }}");
        let server = Server::start(&directory, &directory.config(&more));
        let keys = server.initialize(1, 1);
        server.unseal(&keys);
        let mut root = server.client(&keys.root);
        root.put("sys/mounts/kv", r#"{"type":"kv-v2"}"#);
        let begin = Instant::now();
        for at in 0..50 {
            root.put(&format!("kv/data/{}", at % 7), r#"{"data":{"k":"v"}}"#);
        }
        for _ in 0..SPANS_MAX {
            root.get("kv/data/0").good();
        }
        let took = begin.elapsed();
        // The first spans are given up after a minute, and then others have room.
        assert!(took < Duration::from_secs(55), "{took:?}");
        // Requests went on though there was no room for their spans.
        let told = root.get("sys/metrics?format=prometheus").good().body;
        let full = "kallisto_traces_spans_dropped_total{reason=\"queue_full\"} ";
        let full = told.lines().find_map(|line| line.strip_prefix(full));
        assert!(full.unwrap().parse::<u64>().unwrap() > 0, "{told}");
        let begin = Instant::now();
        server.stop();
        let took = begin.elapsed();
        assert!(took < PATIENCE, "{took:?}: the end is bounded");
    }
}

#[test]
fn without_a_word_nothing_is_sent_and_a_wrong_word_is_refused() {
    let directory = Directory::new("traces-off");
    let collector = Collector::start();
    let server = Server::start(&directory, &directory.config(""));
    server.anyone().get("sys/health");
    server.stop();
    let disabled = [("OTEL_SDK_DISABLED", "true")];
    let config = directory.config(&stanza(&collector, ""));
    let server = Server::start_with(&directory, &config, &disabled);
    server.anyone().get("sys/health");
    server.stop();
    assert_eq!(collector.received().requests, 0);
    for (line, told) in [
        ("endpoint = \"collector:4317\"", "endpoint: expected a URL"),
        ("protocol = \"http/json\"", "protocol: expected one of: http/protobuf, grpc"),
        ("sampling_ratio = 2", "sampling_ratio: expected a number from 0 to 1"),
        ("headers { host = \"hunter2\" }", "host: expected the name and the value of a header"),
        ("sampler = \"most\"", "sampler: expected one of: always_on"),
        ("protocol = \"grpc\"\nendpoint = \"http://c/path\"", "expected a URL without a path"),
        ("tls_client_cert = \"c\"", "must be given together"),
    ] {
        let config = directory.config(&format!("tracing \"otlp\" {{\n{line}\n}}"));
        let said = refuse(&directory, &config, &[]);
        assert!(said.contains(told) && !said.contains("hunter2"), "{line}: {said}");
    }
    let said = refuse(&directory, &directory.config("tracing \"zipkin\" {}"), &[]);
    assert!(said.contains("the only kind of tracing is otlp"), "{said}");
}
