//! Stores on one database, and how they are waited for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kallisto_engine::far_end::{FarEndTls, TlsUse};
use kallisto_store::{
    Batch, Candidacy, Error, NoPeers, OnFatal, Peer, Position, Replicated, Seqno, Store,
};
use kallisto_store_postgres::{
    MissingTables, PostgresOptions, PostgresStore, PostgresUrl, Sharing,
};

use crate::postgres::Postgres;
use crate::proxy::DatabaseProxy;

/// Longest that anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// TLS as a URL has it, without files.
pub(crate) fn tls(usage: TlsUse) -> FarEndTls {
    FarEndTls {
        usage,
        versions: None,
        authorities: String::new(),
        server_name: String::new(),
        certificate: String::new(),
        private_key: None,
    }
}

/// How a store is opened by default: the tables are called `t` and `h`.
pub(crate) fn options(url: &str, name: &str) -> PostgresOptions {
    let url = PostgresUrl::parse(url).unwrap();
    PostgresOptions {
        tls: tls(url.usage),
        url,
        table: "t".to_owned(),
        ha_table: "h".to_owned(),
        sharing: Sharing::Many,
        missing: MissingTables::Make,
        connects_max: 1,
        peer: Peer {
            name: name.to_owned(),
            cluster_address: format!("{name}:8201"),
            ..Peer::default()
        },
        transport: Arc::new(NoPeers),
        confirm_every: Duration::from_millis(250),
        on_fatal: OnFatal::default(),
    }
}

/// Opens a store that would lead.
pub(crate) fn open(url: &str, name: &str) -> Arc<PostgresStore> {
    let store = PostgresStore::open(options(url, name)).unwrap();
    store.stand(Candidacy::Willing);
    store
}

/// The same behind a wire of its own.
pub(crate) fn open_behind_wire(
    database: &Postgres,
    name: &str,
) -> (Arc<PostgresStore>, DatabaseProxy) {
    let proxy = DatabaseProxy::before(database.address());
    (open(&Postgres::url_at(proxy.address), name), proxy)
}

/// Waits until `holds`.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

/// A batch that writes one record.
pub(crate) fn put(key: &str, value: &str) -> Batch {
    let mut batch = Batch::new();
    batch.put(key.into(), value.as_bytes().to_vec());
    batch
}

/// Writes the first record, which the first of several servers may.
pub(crate) fn begin(store: &PostgresStore) -> Position {
    let mut at = None;
    until("the first write", || {
        at = store.commit(put("first", "write")).wait().ok();
        at.is_some()
    });
    at.unwrap()
}

/// What a record holds.
pub(crate) fn value(store: &PostgresStore, key: &str) -> Option<String> {
    use kallisto_store::Records;
    let record = store.get(key.as_bytes()).unwrap()?;
    Some(String::from_utf8(record.value.to_vec()).unwrap())
}

/// A batch that holds if a record is not there.
pub(crate) fn put_new(key: &str, value: &str) -> Batch {
    let mut batch = put(key, value);
    batch.expect(key.into(), Seqno::ABSENT);
    batch
}

/// What opening a store ends with.
pub(crate) fn refusal(options: PostgresOptions) -> Error {
    match PostgresStore::open(options) {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}
