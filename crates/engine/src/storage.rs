//! The storage of a mount: what an engine keeps, by name.
//!
//! A name is a path inside the mount, such as `role/web`; below the barrier it is hidden. Which names there are is in memory, so that
//! listing asks no disk.
//!
//! What is changed by what it says is changed by [`Storage::transact`]: read, decide, commit on the condition that all that was read is
//! still the same, decide again when it is not. So there are no lost updates and no locks that a crash leaves behind.

use std::fmt;

use kallisto_api::{BoxFuture, Error, Fields, Map, Request, json};

use crate::limits::{
    CONFLICT_RETRIES_MAX, ENTRY_BYTES_MAX, LIST_ENTRIES_MAX, TRANSACTION_RECORDS_MAX,
};

/// When a record was last written, in the order of all writes; 0 for one that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(pub u64);

/// A record.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its bytes.
    pub value: bytes::Bytes,
    /// When it was last written.
    pub version: Version,
    /// Its name, and the path of its mount: what to call it when it is damaged.
    place: (Box<str>, Box<str>),
}

impl Stored {
    /// What a backend has under some name.
    pub fn new(value: bytes::Bytes, version: Version) -> Self {
        Self { value, version, place: Default::default() }
    }

    fn called(self, name: &str, mount: &str) -> Self {
        Self { place: (name.into(), mount.into()), ..self }
    }

    /// What `decode` makes of its bytes.
    ///
    /// # Errors
    /// [`Error::Internal`], with a line of the log that names the record, when that is nothing.
    pub fn decode<T>(&self, decode: impl FnOnce(&[u8]) -> Option<T>) -> Result<T, Error> {
        decode(&self.value).ok_or_else(|| self.damaged())
    }

    /// The object of JSON that it is.
    ///
    /// # Errors
    /// As of [`Stored::decode`].
    pub fn object(&self) -> Result<Map, Error> {
        self.decode(|bytes| json::parse_object(bytes).ok())
    }

    /// What `read` makes of the object of JSON that it is. What `read` says of a wrong field is for who writes one, and is not told of a
    /// record: who reads it did nothing wrong.
    ///
    /// # Errors
    /// As of [`Stored::decode`].
    pub fn decode_object<T>(
        &self,
        read: impl FnOnce(&Map) -> Result<T, Error>,
    ) -> Result<T, Error> {
        read(&self.object()?).map_err(|error| match error {
            Error::Invalid(_) => self.damaged(),
            other => other,
        })
    }

    /// Logs that it is damaged: which record it is, and nothing of what it says.
    pub fn damaged(&self) -> Error {
        let (name, mount) = &self.place;
        Error::internal(&format_args!("the record {name:?} of {mount} is damaged"))
    }
}

/// What one transaction comes to.
#[derive(Debug, Default)]
pub struct Writes {
    /// What it depends on: the records that were read, and as of when.
    pub reads: Vec<(String, Version)>,
    /// The records that it makes or replaces.
    pub puts: Vec<(String, Vec<u8>)>,
    /// The records that it deletes.
    pub deletes: Vec<String>,
    /// Whether it depends on the token of who asks being there: a service token that ended leaves nothing behind.
    pub needs_caller: bool,
}

/// What came of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It happened, and whoever reads from now on reads it.
    Committed,
    /// Nothing happened: a record was not what was read.
    Conflict,
}

/// Held while the records of a name are decided on; see [`Backend::latch`].
pub type Latch<'a> = Box<dyn Send + 'a>;

/// Where the records are. The server gives it to engines; tests have their own.
pub trait Backend: Sync {
    /// The record under a name.
    ///
    /// # Errors
    /// When it cannot be read.
    fn get(&self, name: &str) -> Result<Option<Stored>, Error>;

    /// At most `limit` of the names directly in `folder` (which ends in a slash, or is empty) that come after `after`, sorted, folders
    /// with a slash.
    fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Vec<String>;

    /// The first `limit` of the names below `folder`, sorted.
    fn scan(&self, folder: &str, limit: usize) -> Vec<String>;

    /// Commits all of it or nothing. Dropping the future does not undo it.
    ///
    /// # Errors
    /// The store's refusal.
    fn commit(&self, writes: Writes) -> BoxFuture<'_, Result<WriteOutcome, Error>>;

    /// Waits until nobody else decides on this name on this server. It saves deciding again under contention; what keeps a transaction
    /// whole is the condition of its commit.
    fn latch<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Latch<'a>>;
}

/// The records of one mount.
#[derive(Clone, Copy)]
pub struct Storage<'a> {
    backend: &'a dyn Backend,
    mount: &'a str,
}

impl<'a> Storage<'a> {
    /// The records that `backend` has of the mount at a path.
    pub const fn new(backend: &'a dyn Backend, mount: &'a str) -> Self {
        Self { backend, mount }
    }

    /// The record under a name.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn get(self, name: &str) -> Result<Option<Stored>, Error> {
        Ok(self.backend.get(name)?.map(|found| found.called(name, self.mount)))
    }

    /// Puts one record, whatever was there.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a record over its limit; the store's refusal.
    pub async fn put(self, name: &str, value: Vec<u8>) -> Result<(), Error> {
        check(name, &value)?;
        let puts = vec![(name.to_owned(), value)];
        self.commit_all(Writes { puts, ..Writes::default() }).await
    }

    /// Makes records, together; nothing happens where one of them is there. For names that nobody else makes, such as those of random numbers: there
    /// is nothing to decide again.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a record over its limit, or when there are too many; the store's refusal.
    pub async fn create(self, records: Vec<(String, Vec<u8>)>) -> Result<WriteOutcome, Error> {
        if records.len() > TRANSACTION_RECORDS_MAX {
            return Err(too_many());
        }
        for (name, value) in &records {
            check(name, value)?;
        }
        let reads = records.iter().map(|(name, _)| (name.clone(), Version(0))).collect();
        self.backend.commit(Writes { reads, puts: records, ..Writes::default() }).await
    }

    /// Deletes one record, if it is there.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn delete(self, name: &str) -> Result<(), Error> {
        let deletes = vec![name.to_owned()];
        self.commit_all(Writes { deletes, ..Writes::default() }).await
    }

    /// Changes records by what they say, together or not at all. `decide` may run more than once; `name` is the one that others change
    /// most likely.
    ///
    /// # Errors
    /// What `decide` says, the store's refusal, or [`Error::Conflict`] when others kept changing what was read.
    pub async fn transact<T: Send>(
        self,
        name: &str,
        mut decide: impl FnMut(&mut Transaction<'_>) -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        let _latch = self.backend.latch(name).await;
        for _ in 0..CONFLICT_RETRIES_MAX {
            let mut transaction = Transaction { storage: self, writes: Writes::default() };
            let decided = decide(&mut transaction)?;
            let writes = transaction.writes;
            if writes.puts.is_empty() && writes.deletes.is_empty() {
                return Ok(decided);
            }
            if self.backend.commit(writes).await? == WriteOutcome::Committed {
                return Ok(decided);
            }
        }
        Err(Error::Conflict)
    }

    /// The names directly in `folder` (which ends in a slash, or is empty), sorted, folders with a slash.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are more than a list may return.
    pub fn list(self, folder: &str) -> Result<Vec<String>, Error> {
        bounded(self.backend.list(folder, None, LIST_ENTRIES_MAX + 1))
    }

    /// The first `limit` of the names directly in `folder`, as [`Storage::list`] has them.
    pub fn list_some(self, folder: &str, limit: usize) -> Vec<String> {
        self.backend.list(folder, None, limit)
    }

    /// The first `limit` of the names below `folder`, sorted, each without the folder before it.
    pub fn scan_some(self, folder: &str, limit: usize) -> Vec<String> {
        self.backend.scan(folder, limit)
    }

    /// Deletes records, whatever they say, in steps: after a crash some are gone.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn delete_all(self, names: Vec<String>) -> Result<(), Error> {
        for some in names.chunks(TRANSACTION_RECORDS_MAX) {
            self.commit_all(Writes { deletes: some.to_vec(), ..Writes::default() }).await?;
        }
        Ok(())
    }

    /// Deletes all records below `folder` (which ends in a slash, or is empty), however many there are, in steps.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn delete_below(self, folder: &str) -> Result<(), Error> {
        loop {
            let names = self.scan_some(folder, TRANSACTION_RECORDS_MAX);
            if names.is_empty() {
                return Ok(());
            }
            let names = names.into_iter().map(|name| format!("{folder}{name}"));
            self.delete_all(names.collect()).await?;
        }
    }

    /// Commits writes that depend on no record. They fail where all of the state is another one by now: the namespace is gone, or a backup was restored.
    async fn commit_all(self, writes: Writes) -> Result<(), Error> {
        match self.backend.commit(writes).await? {
            WriteOutcome::Committed => Ok(()),
            WriteOutcome::Conflict => Err(Error::Conflict),
        }
    }

    /// A page of the names directly in `folder`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when all are asked for and there are more than a list may return.
    pub fn list_page(self, folder: &str, page: &Page) -> Result<Vec<String>, Error> {
        let limit = page.limit.unwrap_or(LIST_ENTRIES_MAX + 1);
        bounded(self.backend.list(folder, page.after.as_deref(), limit))
    }
}

fn bounded(names: Vec<String>) -> Result<Vec<String>, Error> {
    if names.len() > LIST_ENTRIES_MAX {
        return Err(Error::invalid(format!("more than {LIST_ENTRIES_MAX} entries")));
    }
    Ok(names)
}

/// Refuses an entry of more than [`ENTRY_BYTES_MAX`] bytes. `what` says which one it is.
///
/// # Errors
/// [`Error::TooLarge`] with both numbers, in bytes.
pub fn check_entry_size(what: impl fmt::Display, value: &[u8]) -> Result<(), Error> {
    if value.len() <= ENTRY_BYTES_MAX {
        return Ok(());
    }
    let bytes = value.len();
    Err(Error::TooLarge(format!("{what} of {bytes} bytes is over the limit of {ENTRY_BYTES_MAX}")))
}

/// The same for the record of a name.
fn check(name: &str, value: &[u8]) -> Result<(), Error> {
    check_entry_size(format_args!("the entry {name:?}"), value)
}

/// What is decided together.
pub struct Transaction<'a> {
    storage: Storage<'a>,
    writes: Writes,
}

impl Transaction<'_> {
    /// The record under a name, as it is stored. What the transaction comes to depends on it.
    ///
    /// # Errors
    /// When it cannot be read, or too many are.
    pub fn get(&mut self, name: &str) -> Result<Option<Stored>, Error> {
        let found = self.storage.get(name)?;
        let version = found.as_ref().map_or(Version(0), |found| found.version);
        self.admit(self.writes.reads.len())?;
        self.writes.reads.push((name.to_owned(), version));
        Ok(found)
    }

    /// What the transaction comes to depends on the token of who asks: it fails as any request of a token that has ended.
    pub const fn need_caller(&mut self) {
        self.writes.needs_caller = true;
    }

    /// Makes or replaces a record.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a record over its limit, or when too many are written.
    pub fn put(&mut self, name: &str, value: Vec<u8>) -> Result<(), Error> {
        check(name, &value)?;
        self.admit(self.writes.puts.len())?;
        self.writes.puts.push((name.to_owned(), value));
        Ok(())
    }

    /// Deletes a record, if it is there.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when too many are.
    pub fn delete(&mut self, name: &str) -> Result<(), Error> {
        self.admit(self.writes.deletes.len())?;
        self.writes.deletes.push(name.to_owned());
        Ok(())
    }

    fn admit(&self, count: usize) -> Result<(), Error> {
        if count < TRANSACTION_RECORDS_MAX {
            return Ok(());
        }
        Err(too_many())
    }
}

fn too_many() -> Error {
    Error::TooLarge(format!("a transaction of more than {TRANSACTION_RECORDS_MAX} records"))
}

/// Which of the names of a list are asked for. A limit of zero or less, and none at all, mean all that the caller's policies let it see.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// The name after which it goes on; it need not exist.
    pub after: Option<String>,
    /// `None` for as many as a list may have.
    pub limit: Option<usize>,
}

impl Page {
    /// The page that a request asks for, whose caller may see at most `entries_max` names at a time.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the limit is no number.
    pub fn asked(request: &Request<'_>, entries_max: Option<u64>) -> Result<Self, Error> {
        let allowed = entries_max.and_then(|most| usize::try_from(most).ok());
        let query = request.query_fields();
        let fields = Fields::new(&query);
        let after = fields.string("after")?.filter(|after| !after.is_empty());
        let limit = fields.limit()?.or(allowed);
        Ok(Self { after, limit: limit.filter(|&limit| limit <= LIST_ENTRIES_MAX) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Records with their versions; after each read somebody else changes one, as often as it is told to.
    #[derive(Default)]
    struct Contended {
        records: Mutex<BTreeMap<String, (u64, Vec<u8>)>>,
        meddle: Mutex<usize>,
    }

    impl Backend for Contended {
        fn get(&self, name: &str) -> Result<Option<Stored>, Error> {
            let mut records = self.records.lock().unwrap();
            let found = records
                .get(name)
                .map(|(version, value)| Stored::new(value.clone().into(), Version(*version)));
            let mut left = self.meddle.lock().unwrap();
            if *left > 0 {
                *left -= 1;
                let entry = records.entry(name.to_owned()).or_default();
                *entry =
                    (entry.0 + 1, vec![entry.1.first().copied().unwrap_or(0).wrapping_add(10)]);
            }
            Ok(found)
        }

        fn list(&self, _: &str, _: Option<&str>, limit: usize) -> Vec<String> {
            self.records.lock().unwrap().keys().take(limit).cloned().collect()
        }

        fn scan(&self, _: &str, limit: usize) -> Vec<String> {
            self.list("", None, limit)
        }

        fn commit(&self, writes: Writes) -> BoxFuture<'_, Result<WriteOutcome, Error>> {
            let mut records = self.records.lock().unwrap();
            let is_same = |(name, version): &(String, Version)| {
                records.get(name).map_or(0, |(version, _)| *version) == version.0
            };
            if !writes.reads.iter().all(is_same) {
                return Box::pin(std::future::ready(Ok(WriteOutcome::Conflict)));
            }
            for (name, value) in writes.puts {
                let entry = records.entry(name).or_default();
                *entry = (entry.0 + 1, value);
            }
            for name in writes.deletes {
                records.remove(&name);
            }
            Box::pin(std::future::ready(Ok(WriteOutcome::Committed)))
        }

        fn latch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Latch<'a>> {
            Box::pin(std::future::ready(Box::new(()) as Latch<'a>))
        }
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    fn add_one(transaction: &mut Transaction<'_>) -> Result<u8, Error> {
        let found = transaction.get("n")?.map_or(0, |found| found.value[0]);
        transaction.put("n", vec![found + 1])?;
        Ok(found + 1)
    }

    #[test]
    fn a_damaged_record_is_called_by_its_name_and_mount() {
        let backend = Contended::default();
        let storage = Storage::new(&backend, "db/");
        now(storage.put("role/web", b"{".to_vec())).unwrap();
        let found = storage.get("role/web").unwrap().unwrap();
        let in_transaction = now(storage.transact("role/web", |it| it.get("role/web")));
        for found in [found, in_transaction.unwrap().unwrap()] {
            assert_eq!(found.place, ("role/web".into(), "db/".into()));
            assert!(matches!(found.object(), Err(Error::Internal(_))));
            assert_eq!(found.decode(|bytes| Some(bytes.len())), Ok(1));
            assert!(matches!(found.decode(|_| None::<()>), Err(Error::Internal(_))));
        }
    }

    #[test]
    fn a_transaction_decides_again_until_nobody_was_faster() {
        let backend = Contended::default();
        let storage = Storage::new(&backend, "m/");
        assert_eq!(now(storage.transact("n", add_one)), Ok(1));
        *backend.meddle.lock().unwrap() = 3;
        assert_eq!(now(storage.transact("n", add_one)), Ok(32), "no update of the others is lost");
        *backend.meddle.lock().unwrap() = usize::MAX;
        *backend.records.lock().unwrap() = BTreeMap::new();
        let given_up = now(storage.transact("n", |transaction| {
            transaction.get("n")?;
            transaction.put("n", Vec::new())
        }));
        assert_eq!(given_up, Err(Error::Conflict));
    }

    #[test]
    fn a_transaction_that_writes_nothing_or_fails_commits_nothing() {
        let backend = Contended::default();
        let storage = Storage::new(&backend, "m/");
        *backend.meddle.lock().unwrap() = 1;
        assert!(now(storage.transact("n", |transaction| transaction.get("n"))).unwrap().is_none());
        let refused = now(storage.transact("m", |transaction| {
            transaction.put("m", vec![1])?;
            Err::<(), _>(Error::NotFound)
        }));
        assert_eq!((refused, storage.get("m").unwrap().is_none()), (Err(Error::NotFound), true));
        let long = now(storage.put("m", vec![0; ENTRY_BYTES_MAX + 1]));
        assert!(matches!(long, Err(Error::TooLarge(_))));
    }

    #[test]
    fn more_is_deleted_below_a_folder_than_one_step_deletes() {
        let backend = Contended::default();
        let names = (0..=2 * TRANSACTION_RECORDS_MAX).map(|n| (n.to_string(), (1, Vec::new())));
        *backend.records.lock().unwrap() = names.collect();
        assert_eq!(now(Storage::new(&backend, "m/").delete_below("")), Ok(()));
        assert!(backend.records.lock().unwrap().is_empty());
    }

    /// A backup took the place of the state, or the namespace has ended.
    struct Replaced;

    impl Backend for Replaced {
        fn get(&self, _: &str) -> Result<Option<Stored>, Error> {
            Ok(None)
        }

        fn list(&self, _: &str, _: Option<&str>, _: usize) -> Vec<String> {
            Vec::new()
        }

        fn scan(&self, _: &str, _: usize) -> Vec<String> {
            Vec::new()
        }

        fn commit(&self, _: Writes) -> BoxFuture<'_, Result<WriteOutcome, Error>> {
            Box::pin(std::future::ready(Ok(WriteOutcome::Conflict)))
        }

        fn latch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Latch<'a>> {
            Box::pin(std::future::ready(Box::new(()) as Latch<'a>))
        }
    }

    #[test]
    fn what_was_not_written_is_not_acknowledged() {
        let storage = Storage::new(&Replaced, "m/");
        assert_eq!(now(storage.put("n", Vec::new())), Err(Error::Conflict));
        assert_eq!(now(storage.delete("n")), Err(Error::Conflict));
        assert_eq!(now(storage.delete_all(vec!["n".to_owned()])), Err(Error::Conflict));
    }
}
