//! A mount without a server, for the tests of engines: its records are in memory, and time is what a test says.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use jiff::Timestamp;
use kallisto_api::{
    BodyKind, BoxFuture, Error, Headers, Json, Map, Request, RequestId, Response, json,
};
use kallisto_auth::{Operation, Path};
use kallisto_engine::call::{Made, Work};
use kallisto_engine::storage::Latch;
use kallisto_engine::{
    Backend, Call, Caller, EngineSpec, Heavy, MountInfo, Outcome, Random, Storage, Stored, Version,
    Writes,
};

/// An engine with records.
pub(crate) struct Mount {
    spec: &'static EngineSpec,
    records: Mutex<BTreeMap<String, (u64, Vec<u8>)>>,
    drawn: Mutex<u8>,
}

impl Mount {
    /// A mount of an engine, in which nothing is.
    pub(crate) fn new(spec: &'static EngineSpec) -> Self {
        Self { spec, records: Mutex::default(), drawn: Mutex::default() }
    }

    /// Asks at a time, in seconds since 1970, with a body of JSON. The data of the answer; empty where it has none.
    pub(crate) fn ask(
        &self,
        at: i64,
        operation: Operation,
        path: &str,
        body: &str,
    ) -> Result<Map, Error> {
        let found = self.spec.routes.dispatch(operation, path)?;
        let caller = Caller::default();
        let full = format!("mount/{path}");
        let request = Request {
            id: RequestId::make(),
            operation,
            path: Path::decode(&full).unwrap(),
            namespace: "",
            token: None,
            query: Vec::new(),
            body: body.as_bytes(),
            body_kind: BodyKind::Json,
            wrap_ttl_secs: 0,
            now: Timestamp::from_second(at).unwrap(),
            remote: None,
            client_chain: &[],
            headers: Headers::default(),
        };
        let mount = MountInfo {
            path: "mount/",
            accessor: "mount_1",
            default_lease_secs: 3600,
            max_lease_secs: 7200,
            options: None,
        };
        let answering = (found.handler)(Call {
            request: &request,
            params: found.params,
            creates: false,
            page_entries_max: None,
            caller: Some(&caller),
            mount,
            storage: Storage::new(self),
            leases: None,
            memory: None,
            random: self,
            heavy: self,
        });
        match now(answering)? {
            Response::Logical(logical) => Ok(json::parse_object(&logical.data).unwrap()),
            Response::Empty => Ok(Map::new()),
            other => panic!("{other:?}"),
        }
    }

    /// What an answer says of a field, as text.
    pub(crate) fn text(answer: &Map, name: &str) -> String {
        match answer.get(name) {
            Some(Json::String(text)) => text.clone(),
            Some(other) => String::from_utf8(other.to_text()).unwrap(),
            None => String::new(),
        }
    }

    /// The names of all records.
    pub(crate) fn names(&self) -> Vec<String> {
        self.records.lock().unwrap().keys().cloned().collect()
    }
}

/// What a future that waits for nothing comes to.
fn now<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}

impl Backend for Mount {
    fn get(&self, name: &str) -> Result<Option<Stored>, Error> {
        let records = self.records.lock().unwrap();
        Ok(records.get(name).map(|(version, value)| Stored {
            value: value.clone().into(),
            version: Version(*version),
        }))
    }

    fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let records = self.records.lock().unwrap();
        let names = records.keys().filter_map(|name| name.strip_prefix(folder));
        let later = names.filter(|name| after.is_none_or(|after| *name > after));
        later.take(limit).map(str::to_owned).collect()
    }

    fn commit(&self, writes: Writes) -> BoxFuture<'_, Result<Outcome, Error>> {
        let mut records = self.records.lock().unwrap();
        let is_same = |(name, version): &(String, Version)| {
            records.get(name).map_or(0, |(version, _)| *version) == version.0
        };
        let outcome = if writes.reads.iter().all(is_same) {
            for (name, value) in writes.puts {
                let next = records.values().map(|(version, _)| *version).max().unwrap_or(0) + 1;
                records.insert(name, (next, value));
            }
            for name in writes.deletes {
                records.remove(&name);
            }
            Outcome::Committed
        } else {
            Outcome::Conflict
        };
        Box::pin(std::future::ready(Ok(outcome)))
    }

    fn latch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Latch<'a>> {
        Box::pin(std::future::ready(Box::new(()) as Latch<'a>))
    }
}

/// Bytes that count up: unlike each other, and the same in every run.
impl Random for Mount {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let mut drawn = self.drawn.lock().unwrap();
        for byte in bytes {
            *drawn = drawn.wrapping_add(1);
            *byte = *drawn;
        }
        Ok(())
    }
}

impl Heavy for Mount {
    fn run(&self, work: Work) -> BoxFuture<'_, Result<Made, Error>> {
        Box::pin(std::future::ready(Ok(work())))
    }
}

mod tests {
    use kallisto_engine::{Handler, RowIndex, Table, handler, row};

    use super::*;

    static ROUTES: Table<Handler> = Table {
        name: "notes",
        tag: "secrets",
        about: "Keeps what it is told.",
        index: RowIndex::new(),
        groups: &[&[row!("notes/{name}", &[], {
            Read => "Read a note.", handler!(read);
            Update => "Keep a note.", handler!(write);
        })]],
    };
    static NOTES: EngineSpec = EngineSpec::secret("notes", &ROUTES);

    async fn read(call: Call<'_>) -> Result<Response, Error> {
        let note = call.storage.get(call.params.get("name"))?.ok_or(Error::NotFound)?;
        Ok(Response::data(&json::parse_object(&note.value).unwrap().into()))
    }

    async fn write(call: Call<'_>) -> Result<Response, Error> {
        let mut drawn = [0];
        call.random.fill(&mut drawn)?;
        let note = Json::object([
            ("at", call.now().as_second().into()),
            ("drawn", u64::from(drawn[0]).into()),
        ]);
        call.storage.put(call.params.get("name"), note.to_text()).await?;
        Ok(Response::Empty)
    }

    #[test]
    fn a_mount_keeps_its_records_and_the_time_is_what_a_test_says() {
        let mount = Mount::new(&NOTES);
        assert_eq!(mount.ask(7, Operation::Read, "notes/a", ""), Err(Error::NotFound));
        assert_eq!(mount.ask(7, Operation::Update, "notes/a", ""), Ok(Map::new()));
        let read = mount.ask(8, Operation::Read, "notes/a", "").unwrap();
        assert_eq!(
            (Mount::text(&read, "at"), Mount::text(&read, "drawn")),
            ("7".into(), "1".into())
        );
        assert_eq!(mount.names(), ["a"]);
        let deleted = mount.ask(8, Operation::Delete, "notes/a", "");
        assert_eq!(deleted, Err(Error::UnsupportedOperation));
    }
}
