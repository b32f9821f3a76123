//! A mount without a server, for the tests of engines and login methods: its records are in memory, and time is what a test says.
//!
//! A dependency of tests only. Invariants that it holds of whatever is tested with it:
//! - A record that was read is written by `transact`, so that of two writes at once none is lost.
//! - What an engine keeps decoded takes every record that is stored.
//! - What is read at once is what the handler answers.
//! - An update makes the record by which the server tells whether an update would make something.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod logins;
mod scripts;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use jiff::Timestamp;
use kallisto_api::{
    BodyKind, Error, HeaderSource, Headers, Json, Map, Request, RequestId, Response, json,
};
use kallisto_auth::{Operation, Path};
use kallisto_engine::route::{Creates, Route, UpdateTarget};
use kallisto_engine::{
    Admits, Backend, Call, Caller, CallerToken, ConditionalReads, EngineContext, EngineSpec,
    FarEndCall, FarEndOutcome, LeaseCall, Login, Memory, MountInfo, OpenReadCall, Params, Place,
    PodAccount, Probe, ProbeAnswer, ProbeFailure, Profile, RoleTtl, Routes, Storage, WriteOutcome,
    Writes,
};

use self::scripts::{Probing, ScriptedFarEnds, ScriptedPod};

/// How it is mounted.
const MOUNT: MountInfo<'_> = MountInfo {
    path: "mount/",
    accessor: "mount_1",
    default_lease_secs: 3600,
    max_lease_secs: 7200,
    options: None,
};

/// What others do while an engine works.
type Meanwhile = Box<dyn FnOnce(&TestMount) + Send>;

/// An engine with records.
pub struct TestMount {
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
    /// What happens while the next work that takes long is done.
    meanwhile: Mutex<Option<Meanwhile>>,
    /// When it was asked last, and what it would take to revoke each credential that was handed out.
    leased: Mutex<(i64, Vec<Vec<u8>>)>,
    /// What others do behind the next lease, or the next look at leases.
    beside_lease: Mutex<Option<Meanwhile>>,
    /// Which records were read since somebody asked last.
    read: Mutex<BTreeSet<String>>,
    /// What others do between what is read and the next commit.
    before_commit: Mutex<Option<Meanwhile>>,
    caller: Mutex<Caller>,
    /// The last login that was granted.
    granted: Mutex<Option<Login>>,
    attempts: Arc<logins::CountedAttempts>,
    /// Whether the token of who asks has ended.
    is_caller_gone: AtomicBool,
    conditional_reads: Mutex<Option<ConditionalReads>>,
    since: Mutex<Dates>,
}

/// The dates of requests that ask for what changed.
#[derive(Clone, Default)]
struct Dates(Vec<String>);

impl HeaderSource for Dates {
    fn values(&self, name: &str) -> Vec<String> {
        if name == "if-modified-since" { self.0.clone() } else { Vec::new() }
    }
}

/// The status, kind and bytes of an answer that is no JSON.
fn bytes_of(answer: &Response) -> Option<(u16, &str, &[u8])> {
    match answer {
        Response::Text { code, content_type, body } => Some((*code, content_type, body)),
        _ => None,
    }
}

impl TestMount {
    /// A mount of an engine, in which nothing is.
    pub fn new(spec: &'static EngineSpec) -> Self {
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
            meanwhile: Mutex::default(),
            leased: Mutex::default(),
            beside_lease: Mutex::default(),
            read: Mutex::default(),
            before_commit: Mutex::default(),
            caller: Mutex::default(),
            granted: Mutex::default(),
            attempts: Arc::default(),
            is_caller_gone: AtomicBool::default(),
            conditional_reads: Mutex::default(),
            since: Mutex::default(),
        }
    }

    /// The login that was granted since this was asked last.
    pub fn granted(&self) -> Option<Login> {
        self.granted.lock().unwrap().take()
    }

    /// Wrong passwords so far, of names of users and of names of nobody.
    pub fn wrong_passwords(&self) -> (u64, u64) {
        self.attempts.counted()
    }

    /// Says whether names are locked from now on.
    pub fn lock_names(&self, locks: bool) {
        self.attempts.lock(locks);
    }

    /// Says whose token asks from now on.
    pub fn ask_by(&self, token: CallerToken) {
        *self.caller.lock().unwrap() = Caller { token, ..Caller::default() };
    }

    /// Ends the token of who asks, once it was let in.
    pub fn end_caller(&self) {
        self.is_caller_gone.store(true, Ordering::Relaxed);
    }

    /// The same records after a start: what is decoded is decoded again.
    pub fn restarted(self) -> Self {
        let memory = self.spec.memory.map(|make| make());
        if let Some(memory) = &memory {
            for (name, (_, value)) in self.records.lock().unwrap().iter() {
                assert!(memory.put(name, value), "{name} is damaged");
            }
        }
        Self { memory, ..self }
    }

    /// Says what a template of identity stands for from now on.
    pub fn say_identity(&self, name: &str, value: &str) {
        self.identity.lock().unwrap().insert(name.to_owned(), value.to_owned());
    }

    /// Says who an entity is from now on.
    pub fn say_person(&self, person: Profile) {
        self.people.lock().unwrap().insert(person.id.clone(), person);
    }

    /// Says who asks from now on.
    pub fn ask_as(&self, caller: Caller) {
        *self.caller.lock().unwrap() = caller;
    }

    /// Says what happens while the next work that takes long is done.
    pub fn meanwhile(&self, happens: impl FnOnce(&Self) + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(happens));
    }

    /// Says what far ends do from now on.
    pub fn far_ends_do(&self, script: impl FnMut(&FarEndCall) -> FarEndOutcome + Send + 'static) {
        *self.far_ends.script.lock().unwrap() = Some(Box::new(script));
    }

    /// Says which pod the server runs in from now on, if any.
    pub fn runs_in(&self, account: Option<PodAccount>) {
        *self.pod.0.lock().unwrap() = account.map(Arc::new);
    }

    /// A record as it is stored.
    pub fn record(&self, name: &str) -> Option<Map> {
        let records = self.records.lock().unwrap();
        records.get(name).map(|(_, value)| json::parse_object(value).unwrap())
    }

    /// Runs a job of the engine at a time, in seconds since 1970.
    pub fn run_job(&self, at: i64, name: &str) -> Result<(), Error> {
        self.read.lock().unwrap().clear();
        let job = self.spec.jobs.iter().find(|job| job.name == name).unwrap();
        now((job.run)(self.context(at)))
    }

    /// What the engine may use at a time.
    fn context(&self, at: i64) -> EngineContext<'_> {
        EngineContext {
            now: Timestamp::from_second(at).unwrap(),
            mount: MOUNT,
            storage: Storage::new(self, MOUNT.path),
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
            conditional_reads: *self.conditional_reads.lock().unwrap(),
        }
    }

    /// Says whether clients may ask for what changed from now on.
    pub fn tune(&self, reads: Option<ConditionalReads>) {
        *self.conditional_reads.lock().unwrap() = reads;
    }

    /// Says which date all requests name from now on as `If-Modified-Since`, one for each header of that name.
    pub fn ask_since(&self, dates: &[&str]) {
        *self.since.lock().unwrap() = Dates(dates.iter().map(|&date| date.to_owned()).collect());
    }

    /// The probes that were begun and have no outcome yet, oldest first.
    pub fn probes(&self) -> Vec<(String, Probe)> {
        self.probes.begun.lock().unwrap().clone()
    }

    /// Says what a probe found.
    pub fn find_by_probe(&self, id: &str, found: Result<ProbeAnswer, ProbeFailure>) {
        self.probes.begun.lock().unwrap().retain(|(begun, _)| begun != id);
        self.probes.found.lock().unwrap().insert(id.to_owned(), found);
    }

    /// Ends a lease that was asked for at a path.
    pub fn end_lease(&self, at: i64, path: &str, revocation: &[u8]) -> Result<(), Error> {
        let leases = self.spec.leases.as_ref().unwrap();
        now((leases.revoke)(LeaseCall { context: self.context(at), path, revocation }))
    }

    /// Lets such a lease live until a time.
    pub fn renew_lease(
        &self,
        at: i64,
        path: &str,
        revocation: &[u8],
        until: i64,
    ) -> Result<(), Error> {
        let leases = self.spec.leases.as_ref().unwrap();
        let call = LeaseCall { context: self.context(at), path, revocation };
        now((leases.renew)(call, Timestamp::from_second(until).unwrap()))
    }

    /// What the role of such a lease says of lifetimes by now.
    pub fn role_ttl(&self, path: &str, revocation: &[u8]) -> Result<RoleTtl, Error> {
        let leases = self.spec.leases.as_ref().unwrap();
        (leases.role_ttl)(LeaseCall { context: self.context(0), path, revocation })
    }

    /// Asks at a time, in seconds since 1970, with a body of JSON. The data of the answer; empty where it has none.
    pub fn ask(&self, at: i64, operation: Operation, path: &str, body: &str) -> Result<Map, Error> {
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
    pub fn raw(
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
    pub fn answer(
        &self,
        at: i64,
        operation: Operation,
        path: &str,
        body: &[u8],
    ) -> Result<Response, Error> {
        self.answer_with(at, operation, path, &[], body)
    }

    /// The same with a query.
    pub fn answer_with(
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
        self.read.lock().unwrap().clear();
        let caller = self.caller.lock().unwrap().clone();
        let full = format!("mount/{path}");
        let since = self.since.lock().unwrap().clone();
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
            headers: Headers::of(&since),
        };
        // Who names a date is answered by the handler.
        let at_once = since.0.is_empty().then(|| self.read_at_once(&request, path)).flatten();
        let answering = (found.handler)(Call {
            context: self.context(at),
            request: &request,
            params: found.params,
            creates: false,
            page_entries_max: None,
            caller: Some(&caller),
            identity: self,
            leases: Some(self),
            logins: Some(self),
        });
        let answer = match std::pin::pin!(answering).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => return Ok(None),
        };
        if let Some(at_once) = at_once {
            let handled = answer.as_ref().ok().and_then(bytes_of);
            assert_eq!(bytes_of(&at_once), handled, "{path}: at once, and by its handler");
            assert!(handled.is_some(), "{path}: what is read at once is bytes");
        }
        if operation == Operation::Update && answer.is_ok() {
            self.check_is_made(found.route, found.params, caller.token.id);
        }
        Ok(Some(answer))
    }

    /// Checks that an update of a route made the record by which the server tells whether an update makes something.
    fn check_is_made(&self, route: &Route, params: Params<'_>, token: [u8; 32]) {
        let Creates::Record(record_of) = route.creates else { return };
        let record = record_of(&UpdateTarget { params, token: Some(&token) });
        let is_there = record.is_none_or(|name| self.records.lock().unwrap().contains_key(&name));
        assert!(is_there, "{}: it is called otherwise", route.pattern);
    }

    /// What memory answers whoever reads at a path of the mount.
    fn read_at_once(&self, request: &Request<'_>, path: &str) -> Option<Response> {
        let route = Routes::find(self.spec.routes, path)?;
        let read = route.read_at_once.filter(|_| request.operation == Operation::Read)?;
        assert_eq!(route.admits, Admits::Anyone, "{path}");
        let params = Params::new(route.pattern, path);
        read(OpenReadCall { memory: self.memory.as_deref()?, params, now: request.now })
    }

    /// Whether memory answers whoever reads at a path of the mount.
    pub fn reads_at_once(&self, at: i64, path: &str) -> bool {
        let now = Timestamp::from_second(at).unwrap();
        let request = Request::new(Operation::Read, Path::decode(path).unwrap(), now);
        self.read_at_once(&request, path).is_some()
    }

    /// Says what others do behind the next lease that is written, or the next look at leases.
    pub fn beside_lease(&self, others: impl FnOnce(&Self) + Send + 'static) {
        *self.beside_lease.lock().unwrap() = Some(Box::new(others));
    }

    /// Says what others do between what is read and the next commit.
    pub fn before_commit(&self, others: impl FnOnce(&Self) + Send + 'static) {
        *self.before_commit.lock().unwrap() = Some(Box::new(others));
    }

    /// Lets others do what they were told to, once.
    fn others_act(&self, told: &Mutex<Option<Meanwhile>>) {
        let others = told.lock().unwrap().take();
        if let Some(others) = others {
            others(self);
        }
    }

    /// What it would take to revoke each credential that was handed out.
    pub fn leased(&self) -> Vec<Vec<u8>> {
        self.leased.lock().unwrap().1.clone()
    }

    /// Asks, and leaves as soon as there is anything to wait for.
    pub fn leave_while_waiting(&self, at: i64, operation: Operation, path: &str) {
        self.is_waiting.store(true, Ordering::Relaxed);
        let left = self.poll(at, operation, path, &[], b"");
        self.is_waiting.store(false, Ordering::Relaxed);
        assert!(left.unwrap().is_none(), "there was nothing to wait for");
    }

    /// What an answer says of a field, as text.
    pub fn text(answer: &Map, name: &str) -> String {
        match answer.get(name) {
            Some(Json::String(text)) => text.clone(),
            Some(other) => String::from_utf8(other.to_text()).unwrap(),
            None => String::new(),
        }
    }

    /// What the engine keeps decoded.
    pub fn memory<M: Memory>(&self) -> &M {
        let memory: &dyn std::any::Any = self.memory.as_deref().unwrap();
        memory.downcast_ref().unwrap()
    }

    /// Puts a record behind the engine's back.
    pub fn put(&self, name: &str, value: &[u8]) {
        self.read.lock().unwrap().remove(name);
        let puts = vec![(name.to_owned(), value.to_vec())];
        assert_eq!(
            now(self.commit(Writes { puts, ..Writes::default() })),
            Ok(WriteOutcome::Committed)
        );
    }

    /// Deletes a record behind the engine's back.
    pub fn delete(&self, name: &str) {
        let deletes = vec![name.to_owned()];
        let commit = self.commit(Writes { deletes, ..Writes::default() });
        assert_eq!(now(commit), Ok(WriteOutcome::Committed));
    }

    /// How many records there are below a folder.
    pub fn names_in(&self, folder: &str) -> usize {
        self.records.lock().unwrap().keys().filter(|name| name.starts_with(folder)).count()
    }

    /// How many records were written, and how many bytes of them.
    pub fn written(&self) -> (usize, usize) {
        *self.written.lock().unwrap()
    }

    /// The names of all records.
    pub fn names(&self) -> Vec<String> {
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

#[cfg(test)]
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
        let mount = TestMount::new(&NOTES);
        assert_eq!(mount.ask(7, Operation::Read, "notes/a", ""), Err(Error::NotFound));
        assert_eq!(mount.ask(7, Operation::Update, "notes/a", ""), Ok(Map::new()));
        let read = mount.ask(8, Operation::Read, "notes/a", "").unwrap();
        assert_eq!(
            (TestMount::text(&read, "at"), TestMount::text(&read, "drawn")),
            ("7".into(), "1".into())
        );
        assert_eq!(mount.names(), ["a"]);
        let deleted = mount.ask(8, Operation::Delete, "notes/a", "");
        assert_eq!(deleted, Err(Error::UnsupportedOperation));
    }
}
