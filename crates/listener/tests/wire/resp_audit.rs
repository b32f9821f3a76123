//! Reads that come together with audit devices: what is written of each is what was written of it alone.

use std::cell::RefCell;
use std::collections::BTreeSet;

use kallisto_core::json::{Json, Map};

use super::resp::{Reply, Site, bulk, encode, ok};
use super::support::{Recorder, of_request};

/// What differs between two records of the same.
const OF_THE_MOMENT: [&str; 2] = ["time", "chain"];

/// The first so many records of reads of secrets.
fn records_of_reads(recorder: &Recorder, count: usize) -> Vec<Json> {
    let kept = RefCell::new(Vec::new());
    let is_of_read = |record: &&Json| {
        record.as_object().unwrap().contains_key("request")
            && of_request(record, "path").starts_with("secret/data/")
            && of_request(record, "operation") == "read"
    };
    recorder.wait(|records| {
        *kept.borrow_mut() = records.iter().filter(is_of_read).cloned().collect();
        kept.borrow().len() >= count
    });
    kept.into_inner()
}

/// A record without what is of its moment, and the id of its request.
fn split(record: &Json) -> (Map, String) {
    let mut record = record.as_object().unwrap().clone();
    for name in OF_THE_MOMENT {
        assert!(record.remove(name).is_some(), "{name}");
    }
    let Some(Json::Object(request)) = record.get_mut("request") else { panic!("no request") };
    let Some(Json::String(id)) = request.remove("id") else { panic!("no id") };
    (record, id)
}

#[test]
fn what_is_written_of_reads_that_come_together_is_what_is_written_of_each_alone() {
    let site = Site::start();
    let there = ["a/1", "a/22", "a/\u{e9}", "b/1", "b/quoted\"name", "own", "c/1"];
    let value = |key: &str| format!("value of {key}");
    for key in there {
        assert_eq!(site.root().ask_words(&["SET", key, &value(key)]), ok());
    }
    let rule = |path: &str, more: &str| {
        format!(r#"path \"secret/data/{path}\" {{ capabilities = [\"read\"{more}] }} "#)
    };
    for (name, rules) in [
        ("one", rule("a/*", "")),
        ("two", rule("a/*", r#", \"update\""#) + &rule("own", "")),
        ("three", rule("b/*", "")),
    ] {
        let body = format!(r#"{{"policy":"{rules}"}}"#);
        site.ask(&format!("sys/policies/acl/{name}"), &body).unwrap();
    }
    let token = r#"{"policies":["one","two","three"],"id":"reader","meta":{"team":"x"}}"#;
    site.ask("auth/token/create", token).unwrap();
    let recorders = [(Recorder::start(), "json", 2), (Recorder::start(), "compact", 1)];
    for (recorder, format, _) in &recorders {
        let options = format!(r#""options":{{"format":"{format}","#);
        let device = recorder.device().replace(r#""options":{"#, &options);
        site.ask(&format!("sys/audit/{format}"), &device).unwrap();
    }

    // From each to the next another rule, policy, length or outcome, and the same.
    let order = [
        "a/1",
        "a/22",
        "a/1",
        "b/1",
        "c/1",
        "a/none",
        "own",
        "own",
        "a/\u{e9}",
        "b/none",
        "c/none",
        "a/22",
        "b/quoted\"name",
        "a/22",
    ];
    let keys = order.repeat(5);
    for who in ["reader", "root"] {
        let expected = |key: &str| match key {
            "c/1" | "c/none" if who == "reader" => Reply::Error("NOPERM permission denied".into()),
            key if there.contains(&key) => bulk(&value(key)),
            _ => Reply::Null,
        };
        let mut client = site.connect();
        assert_eq!(client.ask_words(&["AUTH", who]), ok());
        for key in &keys {
            assert_eq!(client.ask_words(&["GET", key]), expected(key), "{key}");
        }
        let gets = keys.iter().flat_map(|key| encode(&["GET", key]));
        client.send(&gets.collect::<Vec<u8>>());
        for key in &keys {
            assert_eq!(client.receive(), Some(expected(key)), "{key}");
        }
    }
    for (recorder, format, each) in &recorders {
        let count = each * keys.len();
        let records = records_of_reads(recorder, 4 * count);
        assert_eq!(records.len(), 4 * count, "{format}");
        let (records, ids): (Vec<Map>, Vec<String>) = records.iter().map(split).unzip();
        for of_each in records.chunks(2 * count) {
            let (alone, together) = of_each.split_at(count);
            assert_eq!(alone, together, "{format}");
        }
        let of_requests: BTreeSet<&[String]> = ids.chunks(*each).collect();
        assert_eq!(of_requests.len(), 4 * keys.len(), "each has an id of its own");
        assert!(of_requests.iter().all(|ids| ids.iter().all(|id| *id == ids[0])), "{format}");
    }
}
