//! A mount without a server, for the tests of engines: its records are in memory, and time is what a test says.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use kallisto_api::{
    BodyKind, BoxFuture, Denial, Error, Headers, Json, Logical, Map, Request, RequestId, Response,
    json,
};
use kallisto_auth::{Operation, Path};
use kallisto_engine::context::{LongWork, WorkResult};
use kallisto_engine::far_end::{FarEndProgress, FarEndStatus};
use kallisto_engine::lease::{IsRevocation, Make};
use kallisto_engine::storage::Latch;
use kallisto_engine::{
    Backend, Call, Caller, CallerToken, EngineContext, EngineSpec, FarEndAnswer, FarEndCall,
    FarEndFailure, FarEnds, Heavy, KeyedHash, LeaseCall, Leases, Leftover, MadeCredential,
    MakeFailure, Memory, MountInfo, NewLease, Outbound, OutboundAnswer, OutboundCall, Passwords,
    People, Place, Pod, PodAccount, Probe, ProbeAnswer, ProbeFailure, ProbeRunner, ProbeState,
    Profile, Random, Storage, Stored, TemplateValues, Version, WriteOutcome, Writes,
};

/// How it is mounted.
const MOUNT: MountInfo<'_> = MountInfo {
    path: "mount/",
    accessor: "mount_1",
    default_lease_secs: 3600,
    max_lease_secs: 7200,
    options: None,
};

/// What probes find, as a test says it.
#[derive(Default)]
struct Probing {
    begun: Mutex<Vec<(String, Probe)>>,
    found: Mutex<BTreeMap<String, Result<ProbeAnswer, ProbeFailure>>>,
}

impl ProbeRunner for Probing {
    fn begin(&self, id: &str, probe: Probe) -> bool {
        self.begun.lock().unwrap().push((id.to_owned(), probe));
        true
    }

    fn take(&self, id: &str) -> ProbeState {
        if let Some(found) = self.found.lock().unwrap().remove(id) {
            return ProbeState::Done(found);
        }
        let is_begun = self.begun.lock().unwrap().iter().any(|(begun, _)| begun == id);
        if is_begun { ProbeState::UnderWay } else { ProbeState::Unknown }
    }
}

/// What a far end does with a call.
type FarEndScript = Box<dyn FnMut(&FarEndCall) -> FarEndOutcome + Send>;
type FarEndOutcome = Result<FarEndAnswer, FarEndFailure>;

/// Far ends that answer at once, as a test says it.
#[derive(Default)]
struct ScriptedFarEnds {
    script: Mutex<Option<FarEndScript>>,
    begun: Mutex<BTreeMap<String, FarEndOutcome>>,
}

impl ScriptedFarEnds {
    fn outcome(&self, call: &FarEndCall) -> FarEndOutcome {
        match &mut *self.script.lock().unwrap() {
            Some(script) => script(call),
            None => Err(FarEndFailure::Unreachable("this server asks no others".into())),
        }
    }
}

impl FarEnds for ScriptedFarEnds {
    fn ask(&self, call: FarEndCall) -> BoxFuture<'_, FarEndOutcome> {
        Box::pin(std::future::ready(self.outcome(&call)))
    }

    fn begin(&self, id: &str, call: FarEndCall) -> bool {
        let outcome = self.outcome(&call);
        self.begun.lock().unwrap().insert(id.to_owned(), outcome);
        true
    }

    fn take(&self, id: &str) -> FarEndProgress {
        let ended = self.begun.lock().unwrap().remove(id);
        ended.map_or(FarEndProgress::Unknown, FarEndProgress::Ended)
    }

    fn close(&self, _: &str, _: Option<&str>) {}

    fn check(&self, _: &str, _: &str) -> BoxFuture<'_, Result<(), FarEndFailure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn statuses(&self) -> Vec<FarEndStatus> {
        Vec::new()
    }

    fn pause(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A pod that tests say.
#[derive(Default)]
struct ScriptedPod(Mutex<Option<Arc<PodAccount>>>);

impl Pod for ScriptedPod {
    fn account(&self) -> Option<Arc<PodAccount>> {
        self.0.lock().unwrap().clone()
    }
}

/// An engine with records.
pub(crate) struct Mount {
    spec: &'static EngineSpec,
    records: Mutex<BTreeMap<String, (u64, Vec<u8>)>>,
    memory: Option<Box<dyn Memory>>,
    next: AtomicU64,
    drawn: Mutex<u64>,
    identity: Mutex<BTreeMap<String, String>>,
    people: Mutex<BTreeMap<String, Profile>>,
    written: Mutex<(usize, usize)>,
    probes: Probing,
    far_ends: ScriptedFarEnds,
    pod: ScriptedPod,
    /// Whether work that takes long never ends.
    is_waiting: AtomicBool,
    /// When it was asked last, and what it would take to revoke each credential that was handed out.
    leased: Mutex<(i64, Vec<Vec<u8>>)>,
    caller: Mutex<Caller>,
    /// Whether the token of who asks has ended.
    is_caller_gone: AtomicBool,
}

impl Mount {
    /// A mount of an engine, in which nothing is.
    pub(crate) fn new(spec: &'static EngineSpec) -> Self {
        Self {
            spec,
            records: Mutex::default(),
            memory: spec.memory.map(|make| make()),
            next: AtomicU64::default(),
            drawn: Mutex::default(),
            identity: Mutex::default(),
            people: Mutex::default(),
            written: Mutex::default(),
            probes: Probing::default(),
            far_ends: ScriptedFarEnds::default(),
            pod: ScriptedPod::default(),
            is_waiting: AtomicBool::default(),
            leased: Mutex::default(),
            caller: Mutex::default(),
            is_caller_gone: AtomicBool::default(),
        }
    }

    /// Says whose token asks from now on.
    pub(crate) fn ask_by(&self, token: CallerToken) {
        *self.caller.lock().unwrap() = Caller { token, ..Caller::default() };
    }

    /// Ends the token of who asks, once it was let in.
    pub(crate) fn end_caller(&self) {
        self.is_caller_gone.store(true, Ordering::Relaxed);
    }

    /// The same records after a start: what is decoded is decoded again.
    pub(crate) fn restarted(self) -> Self {
        let memory = self.spec.memory.map(|make| make());
        if let Some(memory) = &memory {
            for (name, (_, value)) in self.records.lock().unwrap().iter() {
                assert!(memory.put(name, value), "{name} is damaged");
            }
        }
        Self { memory, ..self }
    }

    /// Says what a template of identity stands for from now on.
    pub(crate) fn say_identity(&self, name: &str, value: &str) {
        self.identity.lock().unwrap().insert(name.to_owned(), value.to_owned());
    }

    /// Says who an entity is from now on.
    pub(crate) fn say_person(&self, person: Profile) {
        self.people.lock().unwrap().insert(person.id.clone(), person);
    }

    /// Says who asks from now on.
    pub(crate) fn ask_as(&self, caller: Caller) {
        *self.caller.lock().unwrap() = caller;
    }

    /// Says what far ends do from now on.
    pub(crate) fn far_ends_do(
        &self,
        script: impl FnMut(&FarEndCall) -> FarEndOutcome + Send + 'static,
    ) {
        *self.far_ends.script.lock().unwrap() = Some(Box::new(script));
    }

    /// Says which pod the server runs in from now on, if any.
    pub(crate) fn runs_in(&self, account: Option<PodAccount>) {
        *self.pod.0.lock().unwrap() = account.map(Arc::new);
    }

    /// A record as it is stored.
    pub(crate) fn record(&self, name: &str) -> Option<Map> {
        let records = self.records.lock().unwrap();
        records.get(name).map(|(_, value)| json::parse_object(value).unwrap())
    }

    /// Runs a job of the engine at a time, in seconds since 1970.
    pub(crate) fn run_job(&self, at: i64, name: &str) -> Result<(), Error> {
        let job = self.spec.jobs.iter().find(|job| job.name == name).unwrap();
        now((job.run)(self.context(at)))
    }

    /// What the engine may use at a time.
    fn context(&self, at: i64) -> EngineContext<'_> {
        EngineContext {
            now: Timestamp::from_second(at).unwrap(),
            mount: MOUNT,
            storage: Storage::new(self),
            memory: self.memory.as_deref(),
            random: self,
            heavy: self,
            outbound: self,
            probes: &self.probes,
            far_ends: &self.far_ends,
            pod: &self.pod,
            passwords: self,
            keyed_hash: self,
            people: self,
            place: Place {
                api_addr: "http://127.0.0.1:8200",
                namespace_id: "root",
                namespace_path: "",
            },
        }
    }

    /// The probes that were begun and have no outcome yet, oldest first.
    pub(crate) fn probes(&self) -> Vec<(String, Probe)> {
        self.probes.begun.lock().unwrap().clone()
    }

    /// Says what a probe found.
    pub(crate) fn find_by_probe(&self, id: &str, found: Result<ProbeAnswer, ProbeFailure>) {
        self.probes.begun.lock().unwrap().retain(|(begun, _)| begun != id);
        self.probes.found.lock().unwrap().insert(id.to_owned(), found);
    }

    /// Ends a lease that was asked for at a path.
    pub(crate) fn end_lease(&self, at: i64, path: &str, revocation: &[u8]) -> Result<(), Error> {
        let leases = self.spec.leases.as_ref().unwrap();
        now((leases.revoke)(LeaseCall { context: self.context(at), path, revocation }))
    }

    /// Asks at a time, in seconds since 1970, with a body of JSON. The data of the answer; empty where it has none.
    pub(crate) fn ask(
        &self,
        at: i64,
        operation: Operation,
        path: &str,
        body: &str,
    ) -> Result<Map, Error> {
        match self.answer(at, operation, path, body.as_bytes())? {
            Response::Logical(logical) | Response::Accepted(logical) => {
                if logical.data.is_empty() {
                    return Ok(Map::new());
                }
                Ok(json::parse_object(&logical.data).unwrap())
            }
            Response::Empty => Ok(Map::new()),
            other => panic!("{other:?}"),
        }
    }

    /// Asks for bytes that are no JSON: the status code, and the bytes.
    pub(crate) fn raw(
        &self,
        at: i64,
        operation: Operation,
        path: &str,
        body: &[u8],
    ) -> Result<(u16, Vec<u8>), Error> {
        match self.answer(at, operation, path, body)? {
            Response::Text { code, body, .. } => Ok((code, body)),
            other => panic!("{other:?}"),
        }
    }

    /// Asks at a time, in seconds since 1970, with a body.
    pub(crate) fn answer(
        &self,
        at: i64,
        operation: Operation,
        path: &str,
        body: &[u8],
    ) -> Result<Response, Error> {
        self.answer_with(at, operation, path, &[], body)
    }

    /// The same with a query.
    pub(crate) fn answer_with(
        &self,
        at: i64,
        operation: Operation,
        path: &str,
        query: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response, Error> {
        self.poll(at, operation, path, query, body)?.expect("nothing here waits")
    }

    /// The answer, as far as it comes at once.
    fn poll(
        &self,
        at: i64,
        operation: Operation,
        path: &str,
        query: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Option<Result<Response, Error>>, Error> {
        let found = self.spec.routes.dispatch(operation, path)?;
        self.leased.lock().unwrap().0 = at;
        let caller = self.caller.lock().unwrap().clone();
        let full = format!("mount/{path}");
        let request = Request {
            id: RequestId::make(),
            operation,
            path: Path::decode(&full).unwrap(),
            namespace: "",
            token: None,
            query: query
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            body,
            body_kind: match operation {
                Operation::Patch => BodyKind::MergePatch,
                // A JWS says that it is one.
                _ if body.starts_with(b"{\"protected\"") => {
                    BodyKind::Other("application/jose+json")
                }
                _ => BodyKind::Json,
            },
            wrap_ttl_secs: 0,
            now: Timestamp::from_second(at).unwrap(),
            remote: None,
            client_chain: &[],
            headers: Headers::default(),
        };
        let answering = (found.handler)(Call {
            context: self.context(at),
            request: &request,
            params: found.params,
            creates: false,
            page_entries_max: None,
            caller: Some(&caller),
            identity: self,
            leases: Some(self),
            logins: None,
        });
        Ok(match std::pin::pin!(answering).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        })
    }

    /// What it would take to revoke each credential that was handed out.
    pub(crate) fn leased(&self) -> Vec<Vec<u8>> {
        self.leased.lock().unwrap().1.clone()
    }

    /// Asks, and leaves as soon as there is anything to wait for.
    pub(crate) fn leave_while_waiting(&self, at: i64, operation: Operation, path: &str) {
        self.is_waiting.store(true, Ordering::Relaxed);
        let left = self.poll(at, operation, path, &[], b"");
        self.is_waiting.store(false, Ordering::Relaxed);
        assert!(left.unwrap().is_none(), "there was nothing to wait for");
    }

    /// What an answer says of a field, as text.
    pub(crate) fn text(answer: &Map, name: &str) -> String {
        match answer.get(name) {
            Some(Json::String(text)) => text.clone(),
            Some(other) => String::from_utf8(other.to_text()).unwrap(),
            None => String::new(),
        }
    }

    /// What the engine keeps decoded.
    pub(crate) fn memory<M: Memory>(&self) -> &M {
        let memory: &dyn std::any::Any = self.memory.as_deref().unwrap();
        memory.downcast_ref().unwrap()
    }

    /// Puts a record behind the engine's back.
    pub(crate) fn put(&self, name: &str, value: &[u8]) {
        let puts = vec![(name.to_owned(), value.to_vec())];
        assert_eq!(
            now(self.commit(Writes { puts, ..Writes::default() })),
            Ok(WriteOutcome::Committed)
        );
    }

    /// Deletes a record behind the engine's back.
    pub(crate) fn delete(&self, name: &str) {
        let deletes = vec![name.to_owned()];
        let commit = self.commit(Writes { deletes, ..Writes::default() });
        assert_eq!(now(commit), Ok(WriteOutcome::Committed));
    }

    /// How many records there are below a folder.
    pub(crate) fn names_in(&self, folder: &str) -> usize {
        self.records.lock().unwrap().keys().filter(|name| name.starts_with(folder)).count()
    }

    /// How many records were written, and how many bytes of them.
    pub(crate) fn written(&self) -> (usize, usize) {
        *self.written.lock().unwrap()
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
        let below = records.keys().filter_map(|name| name.strip_prefix(folder));
        let mut names: Vec<&str> =
            below.filter_map(|name| name.split_inclusive('/').next()).collect();
        names.sort_unstable();
        names.dedup();
        let later = names.into_iter().filter(|name| after.is_none_or(|after| *name > after));
        later.take(limit).map(str::to_owned).collect()
    }

    fn scan(&self, folder: &str, limit: usize) -> Vec<String> {
        let records = self.records.lock().unwrap();
        let below = records.keys().filter_map(|name| name.strip_prefix(folder));
        below.take(limit).map(str::to_owned).collect()
    }

    fn commit(&self, writes: Writes) -> BoxFuture<'_, Result<WriteOutcome, Error>> {
        let mut records = self.records.lock().unwrap();
        let is_same = |(name, version): &(String, Version)| {
            records.get(name).map_or(0, |(version, _)| *version) == version.0
        };
        if writes.needs_caller && self.is_caller_gone.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(Error::Denied(Denial::BadToken))));
        }
        let outcome = if writes.reads.iter().all(is_same) {
            for (name, value) in writes.puts {
                let next = self.next.load(Ordering::Relaxed) + 1;
                let mut written = self.written.lock().unwrap();
                *written = (written.0 + 1, written.1 + value.len());
                if let Some(memory) = &self.memory {
                    assert!(memory.put(&name, &value), "{name} is damaged");
                }
                records.insert(name, (next, value));
                self.next.store(next, Ordering::Relaxed);
            }
            for name in writes.deletes {
                records.remove(&name);
                if let Some(memory) = &self.memory {
                    memory.remove(&name);
                }
            }
            WriteOutcome::Committed
        } else {
            WriteOutcome::Conflict
        };
        Box::pin(std::future::ready(Ok(outcome)))
    }

    fn latch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Latch<'a>> {
        Box::pin(std::future::ready(Box::new(()) as Latch<'a>))
    }
}

impl Passwords for Mount {
    fn make(&self, policy: &str) -> Result<String, Error> {
        Ok(format!("by-{policy}"))
    }
}

/// Bytes that count up, and then look random: the same in every run.
impl Random for Mount {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let mut drawn = self.drawn.lock().unwrap();
        for byte in bytes {
            *drawn += 1;
            let mixed = drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *byte = if *drawn < 256 { *drawn } else { mixed >> 56 } as u8;
        }
        Ok(())
    }
}

/// Each lease lives as long as the mount says.
impl Leases for Mount {
    fn issue<'a>(
        &'a self,
        lease: NewLease,
        make: Make<'a>,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        let asked = {
            let mut leased = self.leased.lock().unwrap();
            leased.1.push(lease.revocation);
            leased.0
        };
        let ends = asked + i64::try_from(MOUNT.default_lease_secs).unwrap();
        Box::pin(async move {
            let made = make(Timestamp::from_second(ends).unwrap()).await;
            {
                let leased = &mut self.leased.lock().unwrap().1;
                match &made {
                    Ok(MadeCredential { revocation: Some(revocation), .. })
                    | Err(MakeFailure { left: Leftover::Only(revocation), .. }) => {
                        *leased.last_mut().unwrap() = revocation.clone();
                    }
                    Err(MakeFailure { left: Leftover::Nothing, .. }) => drop(leased.pop()),
                    _ => {}
                }
            }
            let made = made.map_err(|failure| failure.error)?;
            Ok(Response::Logical(Logical {
                data: made.data.to_text(),
                warnings: made.warnings,
                ..Logical::default()
            }))
        })
    }

    fn any<'a>(&'a self, is_it: IsRevocation<'a>) -> BoxFuture<'a, Result<bool, Error>> {
        let found = self.leased.lock().unwrap().1.iter().any(|revocation| is_it(revocation));
        Box::pin(async move { Ok(found) })
    }
}

impl TemplateValues for Mount {
    fn value(&self, name: &str) -> Option<String> {
        self.identity.lock().unwrap().get(name).cloned()
    }
}

impl Heavy for Mount {
    fn run(&self, work: LongWork) -> BoxFuture<'_, Result<WorkResult, Error>> {
        if self.is_waiting.load(Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(Ok(work())))
    }
}

impl People for Mount {
    fn person(&self, entity_id: &str) -> Option<Profile> {
        self.people.lock().unwrap().get(entity_id).cloned()
    }
}

/// No other server answers.
impl Outbound for Mount {
    fn call(&self, _: OutboundCall) -> BoxFuture<'_, Result<OutboundAnswer, Error>> {
        Box::pin(std::future::ready(Err(Error::Unavailable("no server is reached".into()))))
    }
}

/// What begins with the text.
impl KeyedHash for Mount {
    fn hash(&self, text: &str) -> Result<[u8; 32], Error> {
        let mut hash = [0; 32];
        for (place, byte) in hash.iter_mut().zip(text.bytes()) {
            *place = byte;
        }
        Ok(hash)
    }
}

mod tests {
    use kallisto_engine::{Handler, RouteRows, RowIndex, handler, row};

    use super::*;

    static ROUTES: RouteRows<Handler> = RouteRows {
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
            ("at", call.now.as_second().into()),
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
