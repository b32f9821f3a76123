//! What a mount leaves when it goes or moves: its records, and the tokens that were made there.
//!
//! The batch that takes the mount away puts a note of what is to be cleared; whoever took it away clears it and deletes the note. Where that is cut
//! short (the client hung up, the server was killed or lost the lead, the disk was full), a job of whoever leads goes on with it.
//!
//! Invariants:
//! - Nothing is cleared of a mount that is there.
//! - While tokens of a login that is gone are being ended, no login is mounted at its path: none of those could be told from its own.

use kallisto_store::{Batch, Visit};

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::limits::SWEEP_RECORDS_MAX;
use crate::random;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::{self, MountId};
use crate::tokens;
use crate::view::{Closed, NamespaceContext};

/// Where the notes are, in the engine storage of `sys/`.
const FOLDER: &str = "leftovers/";
/// Notes that are looked up at once.
const PAGE_NOTES: usize = 64;
/// Batches of records of one mount in a run of the job; the rest waits for the next.
const MOUNT_BATCHES_MAX: usize = 16;
/// The same of all mounts together. What takes of it gets on, so no note keeps those behind it waiting for good.
const RUN_BATCHES_MAX: usize = 1024;

/// What is to be cleared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Leftovers {
    /// The mount whose records go.
    pub(super) mount: Option<MountId>,
    /// The path of a login, below which tokens were made that end.
    pub(super) login: Option<String>,
}

impl Leftovers {
    fn encode(&self) -> Vec<u8> {
        let mut map = Map::new();
        if let Some(MountId(id)) = self.mount {
            map.insert("mount".into(), u64::from(id).into());
        }
        if let Some(login) = &self.login {
            map.insert("login".into(), login.as_str().into());
        }
        Json::Object(map).to_text()
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let map = json::parse_object(bytes).map_err(|error| Error::internal(&error))?;
        let fields = Fields::new(&map);
        let mount = fields.int("mount")?.and_then(|id| u32::try_from(id).ok()).map(MountId);
        Ok(Self { mount, login: fields.string("login")? })
    }

    /// Adds a note to the batch that takes the mount away; its name.
    ///
    /// # Errors
    /// When there is no randomness.
    pub(super) fn note_in(
        &self,
        batch: &mut Batch,
        context: &NamespaceContext,
    ) -> Result<String, Error> {
        let name = format!("{FOLDER}{}", random::make_uuid()?);
        storage(context)?.put_in(batch, &name, self.encode())?;
        Ok(name)
    }

    /// Clears all of it, and deletes its note.
    ///
    /// # Errors
    /// The store's refusal; the job goes on.
    pub(super) async fn clear(&self, context: &NamespaceContext, name: &str) -> Result<(), Error> {
        self.clear_some(context, name, usize::MAX).await.map(drop)
    }

    /// Clears it as far as so many batches of records go; how many it took.
    async fn clear_some(
        &self,
        context: &NamespaceContext,
        name: &str,
        batches_max: usize,
    ) -> Result<usize, Error> {
        // On a full disk they end, whatever cannot be swept.
        if let Some(login) = &self.login {
            tokens::revoke_made_below(context, login).await?;
            if self.mount.is_some() {
                // From here on another login may be mounted there.
                let rest = Self { login: None, ..self.clone() };
                let mut batch = Batch::new();
                batch.set_essential();
                storage(context)?.put_in(&mut batch, name, rest.encode())?;
                context.store.commit(batch).await?;
            }
        }
        let mut batches = 0;
        if let Some(id) = self.mount {
            if context.view.mounts.with_id(id).is_some() {
                return Err(Error::internal(&"a mount that is to be cleared is there"));
            }
            for prefix in keys::engine_prefixes(id) {
                loop {
                    let swept = sweep(context, &prefix).await?;
                    batches += usize::from(swept > 0);
                    if swept < SWEEP_RECORDS_MAX {
                        break;
                    }
                    if batches >= batches_max {
                        return Ok(batches);
                    }
                }
            }
        }
        storage(context)?.delete(name).await?;
        // The note is one as well: a mount may have no records at all.
        Ok(batches + 1)
    }
}

fn storage(context: &NamespaceContext) -> Result<EngineStorage<'_>, Error> {
    EngineStorage::builtin(context, MountId::SYSTEM)
}

/// The names of all notes, at most [`PAGE_NOTES`] at a time: each page is what comes after the one before when it is asked for.
fn pages<'s>(storage: &'s EngineStorage<'_>) -> impl Iterator<Item = Vec<String>> + 's {
    let mut after = None;
    std::iter::from_fn(move || {
        let page = storage.list_page(FOLDER, after.as_deref(), PAGE_NOTES);
        after = Some(page.last()?.clone());
        Some(page)
    })
}

fn read(context: &NamespaceContext, name: &str) -> Result<Option<Leftovers>, Error> {
    let record = storage(context)?.get(name)?;
    record.map(|record| Leftovers::decode(&record.value)).transpose()
}

/// Deletes a batch of the records under `prefix`; how many. Of a full disk's reserve a small engine takes a little, and
/// a large one nothing: its batches are over what is essential.
async fn sweep(context: &NamespaceContext, prefix: &[u8]) -> Result<usize, Error> {
    let mut batch = Batch::new();
    batch.set_essential();
    context.store.scan(prefix, &mut |key, _| {
        batch.delete(key.to_vec());
        if batch.ops().len() < SWEEP_RECORDS_MAX { Visit::Continue } else { Visit::Stop }
    })?;
    let swept = batch.ops().len();
    if swept > 0 {
        context.store.commit(batch).await?;
    }
    Ok(swept)
}

/// Refuses a login where tokens of one that was there are still being ended.
///
/// # Errors
/// [`Error::Unavailable`] then.
pub(super) fn refuse_while_ending(context: &NamespaceContext, path: &str) -> Result<(), Error> {
    for name in pages(&storage(context)?).flatten() {
        let left = read(context, &format!("{FOLDER}{name}"))?;
        // Tokens are found by how the path begins that they were made at.
        let login = left.and_then(|left| left.login);
        if login.is_some_and(|login| login.starts_with(path) || path.starts_with(&login)) {
            return Err(Error::Unavailable(format!(
                "tokens of the login that was at {path} are still being ended: try again"
            )));
        }
    }
    Ok(())
}

/// Goes on with what was cut short in a namespace.
///
/// # Errors
/// The store's refusal; the next run goes on.
pub(crate) async fn clear_cut_short(context: &NamespaceContext) -> Result<(), Error> {
    let storage = storage(context)?;
    let (mut outcome, mut batches_left) = (Ok(()), RUN_BATCHES_MAX);
    for name in pages(&storage).flatten() {
        let batches_max = batches_left.min(MOUNT_BATCHES_MAX);
        // One that cannot be cleared keeps no other waiting.
        match clear_noted(context, &format!("{FOLDER}{name}"), batches_max).await {
            Ok(batches) => batches_left = batches_left.saturating_sub(batches),
            Err(error) => outcome = outcome.and(Err(error)),
        }
        if batches_left == 0 {
            break;
        }
    }
    outcome
}

/// Goes on with one of them, as far as so many batches of records go; how many it took.
async fn clear_noted(
    context: &NamespaceContext,
    name: &str,
    batches_max: usize,
) -> Result<usize, Error> {
    let Some(left) = read(context, name)? else { return Ok(0) };
    // Whoever takes the mount away is still at it.
    let is_at_work = left
        .mount
        .is_some_and(|id| context.view.leases.work().closing.contains(&Closed::Mount(id.0)));
    if is_at_work { Ok(0) } else { left.clear_some(context, name, batches_max).await }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kallisto_auth::Operation::{Delete, Update};

    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};
    use crate::state::Core;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn records_of(context: &NamespaceContext, id: MountId) -> usize {
        let mut found = 0;
        for prefix in keys::engine_prefixes(id) {
            let count = &mut |_: &[u8], _: &_| {
                found += 1;
                Visit::Continue
            };
            context.store.scan(&prefix, count).unwrap();
        }
        found
    }

    fn notes(context: &NamespaceContext) -> usize {
        pages(&storage(context).unwrap()).flatten().count()
    }

    /// A core with some secrets in a mount that was taken away, and whoever did it went before more was done.
    fn cut_short() -> (Core, MountId) {
        let core = open_core(RouteAccess::Token);
        for number in 0..3 {
            ask(&core, Some(ROOT), Update, &format!("one/{number}"), r#"{"a":"b"}"#).unwrap();
        }
        let context = core.context.load_full().unwrap();
        let id = context.view.mounts.at("one/").unwrap().entry.id;
        let left = Leftovers { mount: Some(id), login: None };
        let mut batch = Batch::new();
        batch.delete(keys::mount(id));
        left.note_in(&mut batch, &context).unwrap();
        pollster::block_on(context.store.commit(batch)).unwrap();
        assert_eq!((records_of(&context, id), notes(&context)), (3, 1));
        (core, id)
    }

    #[test]
    fn what_an_unmount_left_that_was_cut_short_is_cleared_by_whoever_leads() {
        let (core, id) = cut_short();
        let context = core.context.load_full().unwrap();
        {
            let _closing = crate::leases::revoke::Closing::begin(&context, Closed::Mount(id.0));
            pollster::block_on(core.run_due_jobs(NOW)).unwrap();
            assert_eq!(records_of(&context, id), 3, "somebody is at it");
        }
        pollster::block_on(core.run_due_jobs(NOW)).unwrap();
        assert_eq!((records_of(&context, id), notes(&context)), (0, 0));
    }

    /// Many mounts with few records would have one run take as long as they like.
    #[test]
    fn a_batch_that_is_not_full_counts_as_well() {
        let (core, _) = cut_short();
        let context = core.context.load_full().unwrap();
        let name = pages(&storage(&context).unwrap()).flatten().next().unwrap();
        let name = format!("{FOLDER}{name}");
        let cleared = clear_noted(&context, &name, MOUNT_BATCHES_MAX);
        assert_eq!(pollster::block_on(cleared).unwrap(), 2, "its records, and the note");
    }

    #[test]
    fn a_run_clears_as_many_batches_as_it_may_and_the_next_one_goes_on() {
        let (core, id) = cut_short();
        let context = core.context.load_full().unwrap();
        let [prefix, ..] = keys::engine_prefixes(id);
        let mut batch = Batch::new();
        for number in 0..2 * SWEEP_RECORDS_MAX {
            batch.put([&prefix[..], &number.to_be_bytes()].concat(), Vec::new());
        }
        pollster::block_on(context.store.commit(batch)).unwrap();
        let name = pages(&storage(&context).unwrap()).flatten().next().unwrap();
        let name = format!("{FOLDER}{name}");
        let run = || pollster::block_on(clear_noted(&context, &name, 1)).unwrap();
        let left = || (records_of(&context, id), notes(&context));
        assert_eq!(run(), 1);
        assert_eq!(left(), (SWEEP_RECORDS_MAX + 3, 1));
        assert_eq!(run(), 1);
        assert_eq!(left(), (3, 1), "a batch that was full may not have been the last");
        assert_eq!(run(), 2);
        assert_eq!(left(), (0, 0));
    }

    #[test]
    fn an_unmount_that_comes_to_its_end_leaves_no_note() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let id = context.view.mounts.at("one/").unwrap().entry.id;
        ask(&core, Some(ROOT), Update, "one/a", r#"{"a":"b"}"#).unwrap();
        ask(&core, Some(ROOT), Delete, "sys/mounts/one", "").unwrap();
        assert_eq!((records_of(&context, id), notes(&context)), (0, 0));
    }

    #[test]
    fn no_login_comes_where_tokens_of_another_are_being_ended() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let left = Leftovers { mount: None, login: Some("auth/up/".to_owned()) };
        let mut batch = Batch::new();
        left.note_in(&mut batch, &context).unwrap();
        pollster::block_on(context.store.commit(batch)).unwrap();
        let mount = |path: &str| {
            let body = r#"{"type":"userpass"}"#;
            ask(&core, Some(ROOT), Update, &format!("sys/auth/{path}"), body)
        };
        for path in ["up", "up/inner"] {
            assert!(matches!(mount(path), Err(Error::Unavailable(_))), "{path}");
        }
        assert!(mount("upper").is_ok());
        let moved = || {
            ask(&core, Some(ROOT), Update, "sys/remount", r#"{"from":"auth/upper","to":"auth/up"}"#)
        };
        assert!(matches!(moved(), Err(Error::Unavailable(_))));
        pollster::block_on(core.run_due_jobs(NOW)).unwrap();
        assert!(moved().is_ok());
    }

    #[test]
    fn no_note_is_hidden_behind_those_that_cannot_be_cleared() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        // A mount that is there is never cleared.
        let id = context.view.mounts.at("one/").unwrap().entry.id;
        let stays = Leftovers { mount: Some(id), login: None };
        let login = Leftovers { mount: None, login: Some("auth/up/".to_owned()) };
        let storage = storage(&context).unwrap();
        let mut batch = Batch::new();
        for number in 0..3 * PAGE_NOTES {
            storage.put_in(&mut batch, &format!("{FOLDER}{number:04}"), stays.encode()).unwrap();
        }
        storage.put_in(&mut batch, &format!("{FOLDER}last"), login.encode()).unwrap();
        pollster::block_on(context.store.commit(batch)).unwrap();
        assert_eq!(notes(&context), 3 * PAGE_NOTES + 1);
        let mount = || ask(&core, Some(ROOT), Update, "sys/auth/up", r#"{"type":"userpass"}"#);
        assert!(matches!(mount(), Err(Error::Unavailable(_))));
        assert!(pollster::block_on(clear_cut_short(&context)).is_err());
        assert_eq!(notes(&context), 3 * PAGE_NOTES);
        assert!(mount().is_ok());
    }

    #[test]
    fn a_note_comes_back() {
        for (mount, login) in [
            (Some(MountId(17)), None),
            (None, Some("auth/a/".to_owned())),
            (Some(MountId(u32::MAX)), Some("auth/\"b\"/".to_owned())),
        ] {
            let left = Leftovers { mount, login };
            assert_eq!(Leftovers::decode(&left.encode()).unwrap(), left);
        }
    }
}
