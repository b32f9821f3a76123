//! From version 1 to version 2 in place: every secret becomes the first version of itself.
//!
//! ```text
//! KvV1 --begin--> KvUpgrading --a batch of secrets at a time--> KvUpgrading --end--> KvV2
//! ```
//! The mount's own record says where it stands, so that every server of a cluster refuses requests
//! meanwhile, and whoever leads after a crash goes on. A batch moves a secret whole: the old record goes
//! where its metadata and version come, on the condition that it is the one that was read and that the mount is there. What fails is tried
//! again, for as long as this server leads in the same term.
//!
//! A write that was under way when the upgrade began may be committed behind its back: it is moved with
//! the others if it comes before the end, and not seen at all if it comes after. So it is answered with a
//! refusal ([`refuse_if_begun`]).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use kallisto_store::{Batch, Error as StoreError, Visit};

use crate::api::error::Error;
use crate::api::json::Map;
use crate::engines::kv::access::damaged;
use crate::limits::ENTRY_BYTES_MAX;
use crate::platform::threads::{OwnThreads, Threads};
use crate::records::engine_kind::EngineKind;
use crate::records::kv::{SecretMetadata, VersionInfo, decode_one, encode_version};
use crate::records::mount::MountEntry;
use crate::storage::keys::{self, MountId, ParsedKey, kind};
use crate::storage::transact::transact;
use crate::view::Mount;
use crate::view::NamespaceContext;

/// Secrets moved in one batch.
const BATCH_SECRETS_MAX: usize = 128;
/// Bytes of data in one batch, from which on no other secret is added.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// The pause after an attempt that failed; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);
const _: () = assert!(BATCH_BYTES_MAX + ENTRY_BYTES_MAX < kallisto_store::BATCH_BYTES_MAX / 2);

/// What requests hear meanwhile, in the words that clients know and wait at.
pub(crate) fn refusal() -> Error {
    Error::invalid(
        "Upgrading from non-versioned to versioned data. This backend will be unavailable for a \
         brief period and will resume service shortly.",
    )
}

/// The entry of a mount whose upgrade begins, to be committed by the caller before [`start`].
pub(crate) fn begun(mut entry: MountEntry) -> MountEntry {
    entry.kind = EngineKind::KV_UPGRADING;
    let options = entry.options.get_or_insert_with(Map::new);
    options.insert("version".into(), "2".into());
    entry
}

/// Refuses to acknowledge a write of version 1 whose mount began to be upgraded before the write was
/// committed: the upgrade may have passed it by.
///
/// # Errors
/// [`refusal`].
pub(super) fn refuse_if_begun(context: &NamespaceContext, mount: &Mount) -> Result<(), Error> {
    let now = context.view.mounts.with_id(mount.entry.id);
    if now.is_some_and(|now| now.entry.kind != EngineKind::KV_V1) { Err(refusal()) } else { Ok(()) }
}

/// Upgrades the mount on a thread of its own; secrets get `now` as the time of their first version.
///
/// # Errors
/// [`Error::Unavailable`] when there is no thread; the next leader begins again.
pub(crate) fn start(
    context: &Arc<NamespaceContext>,
    id: MountId,
    now: Timestamp,
) -> Result<(), Error> {
    let (weak, term) = (Arc::downgrade(context), context.store.term());
    let run = move || {
        let mut pause = PAUSE_FIRST;
        loop {
            match pollster::block_on(upgrade(&weak, id, now)) {
                Ok(secrets) => {
                    tracing::info!(mount = id.0, secrets, "upgraded to versioned secrets");
                    return;
                }
                Err(error) => tracing::error!(mount = id.0, %error, "an upgrade stopped"),
            }
            // Whoever leads in another term takes it up.
            if !leads_in(&weak, term) {
                return;
            }
            OwnThreads.pause(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    };
    let spawned = std::thread::Builder::new().name("kv-upgrade".into()).spawn(run);
    spawned.map(|_| ()).map_err(|error| Error::Unavailable(format!("no thread: {error}")))
}

/// Whether this server is unsealed and leads, in this term still.
fn leads_in(context: &Weak<NamespaceContext>, term: u64) -> bool {
    let context = context.upgrade();
    context.is_some_and(|context| context.store.below().leads() && context.store.term() == term)
}

/// Takes up upgrades that a restart cut short, once a term.
///
/// # Errors
/// As [`start`]; the next call tries again.
pub(crate) fn take_up_if_cut_short(
    context: &Arc<NamespaceContext>,
    now: Timestamp,
) -> Result<(), Error> {
    let term = context.store.term();
    if context.upgraded.load(Ordering::Acquire) == term {
        return Ok(());
    }
    take_up(context, now)?;
    context.upgraded.store(term, Ordering::Release);
    Ok(())
}

fn take_up(context: &Arc<NamespaceContext>, now: Timestamp) -> Result<(), Error> {
    let mounts = context.view.mounts.all();
    let cut_short = mounts.iter().filter(|mount| mount.entry.kind == EngineKind::KV_UPGRADING);
    cut_short.map(|mount| mount.entry.id).try_for_each(|id| start(context, id, now))
}

/// Moves every secret, then ends the upgrade; how many there were. Ends early when the server is sealed or the mount goes.
async fn upgrade(weak: &Weak<NamespaceContext>, id: MountId, now: Timestamp) -> Result<u64, Error> {
    let mut moved = 0;
    loop {
        let Some(context) = weak.upgrade() else { return Ok(moved) };
        context.check_follows()?;
        let secrets = next_secrets(&context, id)?;
        if secrets.is_empty() {
            end(&context, id).await?;
            return Ok(moved);
        }
        match move_secrets(&context, id, &secrets, now).await? {
            Some(some) => moved += some,
            None => return Ok(moved),
        }
    }
}

/// The paths of some secrets that are still of version 1.
fn next_secrets(context: &NamespaceContext, id: MountId) -> Result<Vec<String>, Error> {
    let mut paths = Vec::new();
    context.store.scan(&keys::engine_prefix(kind::KV_ONE, id), &mut |key, _| {
        if let ParsedKey::KvOne(_, path) = keys::parse(key) {
            paths.push(path.to_owned());
        }
        if paths.len() < BATCH_SECRETS_MAX { Visit::Continue } else { Visit::Stop }
    })?;
    Ok(paths)
}

/// Moves the first of these secrets in one batch; how many. 0 when one of them was written meanwhile, to be tried again; `None` when the
/// mount is gone.
async fn move_secrets(
    context: &NamespaceContext,
    id: MountId,
    paths: &[String],
    now: Timestamp,
) -> Result<Option<u64>, Error> {
    let now_ns = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
    let mut batch = Batch::new();
    // Nothing is put where a mount that went was cleared.
    let mount = keys::mount(id);
    let Some(mounted) = context.store.get(&mount)? else { return Ok(None) };
    batch.expect(mount, mounted.seqno);
    let (mut moved, mut bytes) = (0, 0);
    for path in paths {
        moved += 1;
        let one = keys::kv_one(id, path);
        let Some(record) = context.store.get(&one)? else { continue };
        let (_, data) = decode_one(&record.value).map_err(damaged)?;
        bytes += data.len();
        batch.expect(one.clone(), record.seqno);
        batch.delete(one);
        batch.put(keys::kv_version(id, path, 1), encode_version(data));
        batch.put(keys::kv_meta(id, path), first_version(now_ns).encode());
        if bytes >= BATCH_BYTES_MAX {
            break;
        }
    }
    match context.store.commit(batch).await {
        Ok(_) => Ok(Some(moved)),
        Err(StoreError::Conflict) => Ok(Some(0)),
        Err(error) => Err(error.into()),
    }
}

fn first_version(now_ns: i64) -> SecretMetadata {
    let info = VersionInfo {
        version: 1,
        created_ns: now_ns,
        deletion_ns: None,
        deleted: false,
        destroyed: false,
        has_no_data: false,
    };
    SecretMetadata {
        created_ns: now_ns,
        updated_ns: now_ns,
        current_version: 1,
        oldest_version: 1,
        versions: vec![info],
        ..SecretMetadata::default()
    }
}

/// Lets requests in again, unless the mount is gone.
async fn end(context: &NamespaceContext, id: MountId) -> Result<(), Error> {
    let _latch = context.latches.hold(&keys::mount_counter()).await;
    transact(&context.store, |batch| {
        let mount = context.view.mounts.with_id(id);
        let upgrading = mount.filter(|mount| mount.entry.kind == EngineKind::KV_UPGRADING);
        let record = context.store.get(&keys::mount(id))?;
        let (Some(mount), Some(record)) = (upgrading, record) else { return Ok(()) };
        let entry = MountEntry { kind: EngineKind::KV_V2, ..mount.entry.clone() };
        batch.expect(keys::mount(id), record.seqno);
        batch.put(keys::mount(id), entry.encode());
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use kallisto_auth::Operation::{Read, Update};
    use kallisto_store::{Commit, MemoryStore, Store, StoreLayer};

    use super::*;
    use crate::api::response::Response;
    use crate::platform::server_info::{RouteAccess, ServerInfo};
    use crate::routes::tests::{ROOT, ask, open_core};
    use crate::state::Core;

    /// How often a mount is looked at until its upgrade has ended.
    const LOOKS_MAX: usize = 10_000;

    fn begin(context: &NamespaceContext, path: &str) -> MountId {
        let (mount, _) = context.view.mounts.route(path).unwrap();
        let mut batch = Batch::new();
        batch.put(keys::mount(mount.entry.id), begun(mount.entry.clone()).encode());
        pollster::block_on(context.store.commit(batch)).unwrap();
        mount.entry.id
    }

    fn is_upgraded(context: &NamespaceContext, id: MountId) -> bool {
        // As requests find it, which is a moment after the mount is known by its id.
        let mounts = context.view.mounts.all();
        let kind = mounts.iter().find(|mount| mount.entry.id == id).unwrap().entry.kind;
        assert!([EngineKind::KV_UPGRADING, EngineKind::KV_V2].contains(&kind));
        kind == EngineKind::KV_V2
    }

    fn is_soon_upgraded(context: &NamespaceContext, id: MountId) -> bool {
        (0..LOOKS_MAX).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            is_upgraded(context, id)
        })
    }

    /// Of the root namespace and of one inside, whose records have other keys.
    #[test]
    fn an_upgrade_that_nobody_goes_on_with_is_taken_up_once_a_term() {
        let core = open_core(RouteAccess::Token);
        ask(&core, Some(ROOT), Update, "sys/namespaces/team", "{}").unwrap();
        for namespace in ["", "team/"] {
            for mount in ["old", "older"] {
                let mount = format!("{namespace}sys/mounts/{mount}");
                ask(&core, Some(ROOT), Update, &mount, r#"{"type":"kv"}"#).unwrap();
            }
            for at in 0..=BATCH_SECRETS_MAX {
                let secret = format!("{namespace}old/f/{at}");
                ask(&core, Some(ROOT), Update, &secret, r#"{"v":"x"}"#).unwrap();
            }
            let root = core.context.load_full().unwrap();
            let context = match namespace {
                "" => root,
                below => root.view.namespaces.at(below).unwrap().context(&root).unwrap(),
            };
            let id = begin(&context, "old/");
            take_up_if_cut_short(&context, Timestamp::UNIX_EPOCH).unwrap();
            assert!(is_soon_upgraded(&context, id));
            for at in [0, BATCH_SECRETS_MAX] {
                let secret = format!("{namespace}old/data/f/{at}");
                let Response::Logical(read) = ask(&core, Some(ROOT), Read, &secret, "").unwrap()
                else {
                    panic!("{secret} is gone");
                };
                assert!(read.data.starts_with(br#"{"data":{"v":"x"}"#));
            }
            // What began in this term is gone on with by who began it.
            let id = begin(&context, "older/");
            take_up_if_cut_short(&context, Timestamp::UNIX_EPOCH).unwrap();
            assert!(!is_upgraded(&context, id));
            context.upgraded.store(0, Ordering::Release);
            take_up_if_cut_short(&context, Timestamp::UNIX_EPOCH).unwrap();
            assert!(is_soon_upgraded(&context, id));
        }
    }

    /// Together they are more than a batch may have.
    #[test]
    fn secrets_of_any_size_are_moved() {
        let core = open_core(RouteAccess::Token);
        let body = format!(r#"{{"at":"{}"}}"#, "x".repeat(1_000_000));
        for at in 0..40 {
            ask(&core, Some(ROOT), Update, &format!("one/{at}"), &body).unwrap();
        }
        let context = core.context.load_full().unwrap();
        let id = begin(&context, "one/");
        start(&context, id, Timestamp::UNIX_EPOCH).unwrap();
        assert!(is_soon_upgraded(&context, id));
        for at in 0..40 {
            ask(&core, Some(ROOT), Read, &format!("one/data/{at}"), "").unwrap();
        }
    }

    /// A store that takes no batch of many changes while it is told so.
    #[derive(Default)]
    struct NarrowStore {
        inner: MemoryStore,
        is_narrow: AtomicBool,
        refused: AtomicUsize,
    }

    impl StoreLayer for NarrowStore {
        fn inner(&self) -> &dyn Store {
            &self.inner
        }

        fn commit(&self, batch: Batch) -> Commit {
            if self.is_narrow.load(Ordering::SeqCst) && batch.ops().len() > 8 {
                self.refused.fetch_add(1, Ordering::SeqCst);
                return Commit::decided(Err(StoreError::Unavailable("no space is left".into())));
            }
            self.inner.commit(batch)
        }
    }

    #[test]
    fn an_upgrade_that_the_store_refused_goes_on_when_it_does_not_any_more() {
        let store = Arc::<NarrowStore>::default();
        let core = Core::new(Arc::clone(&store) as _, ServerInfo::default());
        let root = Some(ROOT.to_owned().into());
        pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        ask(&core, Some(ROOT), Update, "sys/mounts/one", r#"{"type":"kv"}"#).unwrap();
        for at in 0..9 {
            ask(&core, Some(ROOT), Update, &format!("one/{at}"), r#"{"v":"x"}"#).unwrap();
        }
        let context = core.context.load_full().unwrap();
        let id = begin(&context, "one/");
        store.is_narrow.store(true, Ordering::SeqCst);
        start(&context, id, Timestamp::UNIX_EPOCH).unwrap();
        let was_refused = (0..LOOKS_MAX).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            store.refused.load(Ordering::SeqCst) > 0
        });
        assert!(was_refused);
        store.is_narrow.store(false, Ordering::SeqCst);
        assert!(is_soon_upgraded(&context, id));
    }

    #[test]
    fn nothing_is_put_where_a_mount_that_goes_meanwhile_is_cleared() {
        let core = open_core(RouteAccess::Token);
        ask(&core, Some(ROOT), Update, "one/a", r#"{"v":"x"}"#).unwrap();
        let context = core.context.load_full().unwrap();
        let id = begin(&context, "one/");
        let secrets = next_secrets(&context, id).unwrap();
        assert_eq!(secrets, ["a"]);
        let mut batch = Batch::new();
        batch.delete(keys::mount(id));
        pollster::block_on(context.store.commit(batch)).unwrap();
        pollster::block_on(move_secrets(&context, id, &secrets, Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(context.store.get(&keys::kv_meta(id, "a")), Ok(None));
    }

    #[test]
    fn a_write_whose_mount_began_to_be_upgraded_meanwhile_is_not_acknowledged() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let (mount, _) = context.view.mounts.route("one/").unwrap();
        assert_eq!(refuse_if_begun(&context, &mount), Ok(()));
        let mut batch = Batch::new();
        batch.put(keys::mount(mount.entry.id), begun(mount.entry.clone()).encode());
        pollster::block_on(context.store.commit(batch)).unwrap();
        assert_eq!(refuse_if_begun(&context, &mount), Err(refusal()));
    }
}
