//! Spans of commands of the Redis protocol: what they say of a failure, and what they never say. Spans of requests are looked at from here too.

use std::sync::Arc;

use kallisto_core::admission::AdmissionLimits;
use kallisto_store::MemoryStore;
use kallisto_traces::{FinishedSpan, SpanReceiver, SpanStatus};

use super::resp::{Reply, Site, bulk, encode, ok};
use super::tracer::tracer;

/// More than a server gathers of replies before it sends them.
const LARGE_BYTES: usize = 70 << 10;

/// A server that has its commands recorded.
fn traced() -> (Site, SpanReceiver) {
    let (tracer, receiver) = tracer();
    let store = Arc::new(MemoryStore::new());
    (Site::start_over(store, &AdmissionLimits::default(), Some(tracer)), receiver)
}

/// All that was recorded.
pub(crate) fn recorded(mut receiver: SpanReceiver) -> Vec<FinishedSpan> {
    receiver.close();
    let mut spans = Vec::new();
    while pollster::block_on(receiver.take(&mut spans, usize::MAX)) > 0 {}
    spans
}

fn failure_words<'s>(spans: &'s [FinishedSpan], name: &str) -> Vec<String> {
    let of = |span: &'s FinishedSpan| {
        let noted = span.attributes.iter().find(|(name, _)| *name == "db.response.status_code");
        noted.map_or_else(String::new, |(_, value)| format!("{value:?}"))
    };
    spans.iter().filter(|span| span.name == name).map(of).collect()
}

#[test]
fn a_value_that_looks_like_an_error_is_in_no_span() {
    let (site, receiver) = traced();
    let mut client = site.root();
    let large = format!("-SECRETWORD{}", "A".repeat(LARGE_BYTES));
    assert_eq!(client.ask_words(&["SET", "large", &large]), ok());
    assert_eq!(client.ask_words(&["SET", "small", "-SECRETWORD"]), ok());
    // The first reply is as long as the head of a short value, and leaves with the large one: where the second reply began, the value
    // of the last key stands.
    let pipeline = [encode(&["SET", "other", "v"]), encode(&["MGET", "large", "small"])].concat();
    for _ in 0..8 {
        client.send(&pipeline);
        assert_eq!(client.receive(), Some(ok()));
        let values = Reply::Array(vec![bulk(&large), bulk("-SECRETWORD")]);
        assert_eq!(client.receive(), Some(values));
    }
    // A span may end after its reply has left.
    drop(client);
    site.stop();
    let spans = recorded(receiver);
    assert_eq!(failure_words(&spans, "RESP mget"), vec![String::new(); 8]);
    assert!(!format!("{spans:?}").contains("SECRET"), "{spans:#?}");
}

#[test]
fn a_span_says_the_word_of_what_failed() {
    let (site, receiver) = traced();
    let mut client = site.connect();
    client.assert_error("MGET a", "NOAUTH");
    client.assert_error("AUTH wrong", "WRONGPASS");
    assert_eq!(client.ask("AUTH root"), ok());
    client.assert_error("MSET a", "ERR wrong number");
    client.assert_error("SECRETWORD a", "ERR unknown command");
    client.assert_error("SET a b EX 1", "ERR");
    client.assert_error("HELLO 9", "NOPROTO");
    drop(client);
    site.stop();
    let spans = recorded(receiver);
    let word = |word: &str| format!("Text({word:?})");
    for (name, words) in [
        ("RESP mget", vec![word("NOAUTH")]),
        ("RESP auth", vec![word("WRONGPASS"), String::new()]),
        ("RESP mset", vec![word("ERR")]),
        ("RESP unknown", vec![word("ERR")]),
        ("RESP set", vec![word("ERR")]),
        ("RESP hello", vec![word("NOPROTO")]),
    ] {
        assert_eq!(failure_words(&spans, name), words, "{name}: {spans:#?}");
    }
    assert!(spans.iter().all(|span| span.status == SpanStatus::Unset));
    assert!(!format!("{spans:?}").contains("SECRETWORD"));
}
