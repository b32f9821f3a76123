//! Reads that are written down together.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kallisto_core::json::{Json, Map};
use kallisto_core::{AuditBatch, Error, Operation, Response};

use super::{DEVICE, PUT, Site, at, request};
use crate::support::TOKEN;

impl Site {
    /// A read that memory answers, of the secret or of its fields alone.
    fn read_fast(
        &self,
        token: &str,
        path: &str,
        is_whole: bool,
        gathered: &mut AuditBatch,
    ) -> Option<Result<Response, Error>> {
        let second = self.clock.fetch_add(1, Ordering::SeqCst);
        let request = request(token, Operation::Read, path, "", second);
        if is_whole {
            return self.core.read_fast(&request, gathered);
        }
        let reads = self.core.fast_reads()?;
        let bearer = reads.bearer(request.token, request.remote, request.now)?;
        bearer.ok()?.read_fields(&request, gathered)
    }
}

/// What a record says of a request, but for what no two requests have in common.
fn comparable(record: &Map) -> Map {
    let mut record = record.clone();
    record.remove("time");
    record.remove("chain");
    if let Some(Json::Object(request)) = record.get_mut("request") {
        request.remove("id").unwrap();
    }
    record
}

#[test]
fn reads_that_are_written_together_are_written_as_each_alone() {
    let site = Site::audited();
    site.ask(Operation::Update, "secret/data/mine/a", PUT).unwrap();
    site.ask(Operation::Update, "secret/data/mine/gone", PUT).unwrap();
    site.ask(Operation::Delete, "secret/data/mine/gone", "").unwrap();
    site.ask(Operation::Update, "secret/data/theirs/a", PUT).unwrap();
    site.ask(Operation::Update, "sys/mounts/old", r#"{"type":"kv"}"#).unwrap();
    site.ask(Operation::Update, "old/a", r#"{"v":"hidden"}"#).unwrap();
    let policy = r#"{"policy":"path \"secret/data/mine/*\" { capabilities = [\"read\"] }"}"#;
    site.ask(Operation::Update, "sys/policies/acl/mine", policy).unwrap();
    let make = r#"{"policies":["mine"],"id":"limited","meta":{"a":"b"}}"#;
    site.ask(Operation::Update, "auth/token/create", make).unwrap();
    let reads = [
        (TOKEN, "secret/data/mine/a"),
        (TOKEN, "secret/data/mine/gone"),
        (TOKEN, "secret/data/none"),
        (TOKEN, "old/a"),
        ("limited", "secret/data/mine/a"),
        ("limited", "secret/data/theirs/a"),
        ("limited", "secret/data/theirs/none"),
    ];
    let begun = site.memory.records().len();
    let told: Vec<String> = reads
        .iter()
        .map(|(token, path)| format!("{:?}", site.ask_as(token, Operation::Read, path, "")))
        .collect();
    let alone = site.memory.records().split_off(begun);
    for is_whole in [true, false] {
        let begun = site.memory.records().len();
        let mut gathered = AuditBatch::default();
        for ((token, path), told) in reads.iter().zip(&told) {
            let answer = site.read_fast(token, path, is_whole, &mut gathered).unwrap();
            match answer {
                Ok(Response::Logical(fields)) if !is_whole => {
                    let of_old = path.starts_with("old/");
                    let whole = r#"{"l":["x"],"n":1,"p":"hidden"}"#;
                    let expected = if of_old { r#"{"v":"hidden"}"# } else { whole };
                    assert_eq!(String::from_utf8(fields.data).unwrap(), expected, "{path}");
                }
                answer => assert_eq!(format!("{answer:?}"), *told, "{path}"),
            }
        }
        assert_eq!(gathered.len(), reads.len());
        assert_eq!(site.memory.records().len(), begun, "nothing is written before its time");
        assert!(pollster::block_on(site.core.write_gathered(gathered)));
        let together = site.memory.records().split_off(begun);
        let comparable = |records: &[Map]| records.iter().map(comparable).collect::<Vec<_>>();
        assert_eq!(comparable(&together), comparable(&alone));
        assert_eq!(at(&together[0], "request.id"), at(&together[1], "request.id"));
    }
}

#[test]
fn reads_that_cannot_be_written_together_go_the_long_way_or_nowhere() {
    let site = Site::audited();
    site.ask(Operation::Update, "secret/data/a", PUT).unwrap();
    let make = r#"{"policies":["root"],"id":"twice","num_uses":2}"#;
    site.ask(Operation::Update, "auth/token/create", make).unwrap();
    let mut gathered = AuditBatch::default();
    let mut read = |token, path| site.read_fast(token, path, true, &mut gathered).is_some();
    // What has an effect, and who is nobody.
    assert!(!read("twice", "secret/data/a"));
    assert!(!read("nobody", "secret/data/a"));
    assert!(!read(TOKEN, "cubbyhole/a"));
    assert!(!read(TOKEN, "nowhere/a"));
    assert!(read(TOKEN, "secret/data/a"));
    // Another device than those that write the rest.
    site.ask(Operation::Update, "sys/audit/more", DEVICE).unwrap();
    let mut read = |token, path| site.read_fast(token, path, true, &mut gathered).is_some();
    assert!(!read(TOKEN, "secret/data/a"));
    assert_eq!(gathered.len(), 1);
    // Headers are looked at where there are some.
    let mut later = AuditBatch::default();
    assert!(site.read_fast(TOKEN, "secret/data/a", true, &mut later).is_some());
    let header = "sys/config/auditing/request-headers/X-Planted";
    site.ask(Operation::Update, header, "{}").unwrap();
    assert!(site.read_fast(TOKEN, "secret/data/a", true, &mut later).is_none());
    // No device takes them.
    site.memory.fails.store(true, Ordering::SeqCst);
    assert!(!pollster::block_on(site.core.write_gathered(later)));
    assert!(!pollster::block_on(site.core.write_gathered(gathered)));
}

#[test]
fn a_device_that_is_disabled_ends_whatever_connections_are_open() {
    /// Looks at whether a thread has ended.
    const LOOKS_MAX: usize = 60_000;
    let site = Site::open(Vec::new());
    let users = || Arc::strong_count(&site.memory.kept);
    let without = users();
    site.ask(Operation::Update, "sys/audit/mem", DEVICE).unwrap();
    site.ask(Operation::Update, "secret/data/a", PUT).unwrap();
    assert_eq!(users(), without + 1);
    // One connection asked for what is not gathered, the other has had its reads written.
    let (mut refused, mut written) = (AuditBatch::default(), AuditBatch::default());
    assert!(site.read_fast(TOKEN, "cubbyhole/a", true, &mut refused).is_none());
    site.read_fast(TOKEN, "secret/data/a", true, &mut written).unwrap().unwrap();
    assert!(pollster::block_on(site.core.write_gathered(std::mem::take(&mut written))));
    site.ask(Operation::Delete, "sys/audit/mem", "").unwrap();
    let ended = (0..LOOKS_MAX).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        users() == without
    });
    assert!(ended, "its writer still has the destination");
    // And what was refused may be gathered for another device.
    site.ask(Operation::Update, "sys/audit/other", DEVICE).unwrap();
    site.read_fast(TOKEN, "secret/data/a", true, &mut refused).unwrap().unwrap();
    drop((refused, written));
}

#[test]
fn many_reads_are_written_before_more_join() {
    let site = Site::audited();
    site.ask(Operation::Update, "secret/data/a", PUT).unwrap();
    let mut gathered = AuditBatch::default();
    while !gathered.is_full() {
        site.read_fast(TOKEN, "secret/data/a", false, &mut gathered).unwrap().unwrap();
        assert!(gathered.len() < 100);
    }
    assert!(gathered.len() > 1);
}
