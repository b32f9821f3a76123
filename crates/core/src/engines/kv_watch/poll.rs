//! `?wait=30s&index=N` on a read or list of a KV mount: answer when something there changed after `N`.
//!
//! The first request comes without `index` and is answered at once, with an index to come back with.
//! A request that waits is answered as one that arrives at that moment: the listener sends it through
//! the pipeline again, so it is judged by what holds then.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kallisto_auth::Operation;
use tokio::sync::watch;

use super::bearer::{ContextSlot, WatchCaller};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::response::{Logical, Response};
use crate::api::stream::{Awaited, ChangeFuture, Waiting};
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::engines::kv::access::Kv;
use crate::limits::WAIT_SECS_MAX;
use crate::records::engine_kind::EngineKind;
use crate::records::engine_kind::KvState;
use crate::state::Core;
use crate::storage::keys::MountId;
use crate::view::{Feed, FeedChange, FeedPosition, Permit};

/// Changes looked at in one go.
const LOOK_MAX: usize = 1024;

/// Whether a request asks to wait, or to be told the index.
pub(crate) fn asks_to_wait(call: &AuthorizedCall<'_, '_>) -> bool {
    !call.query.is_empty()
        && !call.operation.writes()
        && call.query.iter().any(|(name, _)| name == "wait")
}

/// Which changes are waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines) enum ChangeInterest {
    /// Those of one secret.
    Secret(String),
    /// Those below a folder, whose name ends in a slash; of all in the mount for the empty one.
    Folder(String),
}

impl ChangeInterest {
    pub(in crate::engines) fn covers(&self, path: &str) -> bool {
        match self {
            Self::Secret(secret) => path == secret,
            Self::Folder(folder) => path.starts_with(folder),
        }
    }

    /// What the answer to a read or list depends on.
    fn of(kind: EngineKind, operation: Operation, inside: &str) -> Option<Self> {
        let rest = match (kind.kv(), inside.split_once('/')) {
            (Some(KvState::V1), _) => inside,
            (Some(KvState::V2), None) if inside == "metadata" => "",
            (
                Some(KvState::V2),
                Some(("data" | "metadata" | "subkeys" | "detailed-metadata", rest)),
            ) => rest,
            _ => return None,
        };
        match operation {
            Operation::Read if !rest.is_empty() && !rest.ends_with('/') => {
                Some(Self::Secret(rest.to_owned()))
            }
            // A folder's name ends in a slash: `spelling`.
            Operation::List | Operation::Scan => Some(Self::Folder(rest.to_owned())),
            _ => None,
        }
    }
}

/// Answers with `read`, or says how to wait.
pub(crate) fn wait(
    core: &Core,
    kv: &Kv<'_>,
    read: impl FnOnce() -> Result<Response, Error>,
) -> Result<Response, Error> {
    let Kv { context, call, mount, path: inside, .. } = *kv;
    if call.read_snapshot().is_some() {
        return Err(Error::invalid("a loaded snapshot does not change: read it without 'wait'"));
    }
    let query = call.query_fields();
    let fields = Fields::new(&query);
    let span = fields.span("wait")?.map_or(0, |span| span.nanos());
    let longest = u64::try_from(span).ok().map(Duration::from_nanos);
    let longest = longest.filter(|span| *span <= Duration::from_secs(WAIT_SECS_MAX));
    let longest = longest.ok_or_else(|| {
        Error::invalid(format!("'wait' must be from 0 to {WAIT_SECS_MAX} seconds"))
    })?;
    let index = fields.string("index")?.filter(|text| !text.is_empty()).map(|text| {
        FeedPosition::parse(&text)
            .ok_or_else(|| Error::invalid("'index' is none that a server gave"))
    });
    let interest = ChangeInterest::of(mount.entry.kind, call.operation, inside)
        .ok_or_else(|| Error::invalid("nothing to wait for: this path has no changes"))?;
    // Before the answer is read: what happens between comes again, and nothing is missed.
    let feed = &context.view.feed;
    let latest = feed.latest();
    let Some(at) = index.transpose()?.filter(|_| !longest.is_zero()) else {
        return with_index(read(), latest);
    };
    let caller = CallerPolicies::of(context, call)?;
    let mut follower = ChangeFollower {
        slot: ContextSlot::of(core, context),
        feed: Arc::clone(feed),
        notified: feed.listen(),
        bearer: WatchCaller::of(call),
        now: call.now,
        at,
        mount: mount.entry.id,
        interest,
        _permit: admit(feed, &caller)?,
    };
    if follower.has_news() {
        return with_index(read(), latest);
    }
    Ok(Response::Waiting(Waiting { longest, awaited: Box::new(follower) }))
}

/// A place for a stream or a waiting request.
///
/// # Errors
/// [`Error::Invalid`] for a token of limited use, [`Error::Unavailable`] when there are too many.
pub(in crate::engines) fn admit(
    feed: &Arc<Feed>,
    caller: &CallerPolicies,
) -> Result<Permit, Error> {
    if caller.is_limited() {
        return Err(Error::invalid("a token of limited use can neither wait nor watch"));
    }
    let full = || Error::Unavailable("too many streams and waiting requests".into());
    feed.admit(caller.hash).ok_or_else(full)
}

/// The answer with the index to come back with. One that says nothing is there has it too.
fn with_index(answer: Result<Response, Error>, latest: FeedPosition) -> Result<Response, Error> {
    let index = Some(latest.position());
    Ok(match answer {
        Ok(Response::Logical(logical)) => Response::Logical(Logical { index, ..logical }),
        Ok(Response::Missing(logical)) => Response::Missing(Logical { index, ..logical }),
        Ok(Response::NotModified { etag, .. }) => Response::NotModified { etag, index },
        Err(Error::NotFound) => Response::Missing(Logical { index, ..Logical::default() }),
        other => return other,
    })
}

/// Looks for a change since a place.
pub(crate) struct ChangeFollower {
    slot: ContextSlot,
    feed: Arc<Feed>,
    notified: watch::Receiver<()>,
    bearer: WatchCaller,
    /// When the request came.
    now: Timestamp,
    at: FeedPosition,
    mount: MountId,
    interest: ChangeInterest,
    _permit: Permit,
}

impl Awaited for ChangeFollower {
    fn has_news(&mut self) -> bool {
        // First this: what comes while this looks notifies again.
        self.notified.borrow_and_update();
        let context = self.slot.load();
        let is_same = context.as_ref().is_some_and(|context| {
            context.is_fresh() && self.bearer.caller(context, self.now).is_some()
        });
        if !is_same {
            return true;
        }
        let wants =
            |change: &FeedChange| change.mount == self.mount && self.interest.covers(&change.path);
        loop {
            let Ok(taken) = self.feed.take(self.at, LOOK_MAX, wants) else { return true };
            if !taken.changes.is_empty() {
                return true;
            }
            self.at = taken.upto;
            if taken.at_end {
                return false;
            }
        }
    }

    fn changed(&mut self) -> ChangeFuture<'_> {
        // The sender lives as long as the feed, which is held here.
        Box::pin(async move { self.notified.changed().await.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::{List, Read, Scan};

    use super::*;

    #[test]
    fn what_an_answer_depends_on_is_a_secret_or_a_folder_or_nothing() {
        let secret = |path: &str| Some(ChangeInterest::Secret(path.to_owned()));
        let folder = |path: &str| Some(ChangeInterest::Folder(path.to_owned()));
        let (one, two) = (EngineKind::KV_V1, EngineKind::KV_V2);
        for (kind, operation, inside, interest) in [
            (one, Read, "a/b", secret("a/b")),
            (one, Read, "data/a", secret("data/a")),
            (one, Read, "", None),
            (one, Read, "a/", None),
            (one, List, "a/", folder("a/")),
            (one, List, "", folder("")),
            (two, Read, "data/a/b", secret("a/b")),
            (two, Read, "metadata/a", secret("a")),
            (two, Read, "subkeys/a", secret("a")),
            (two, Read, "data/", None),
            (two, Read, "data/a/", None),
            (two, Read, "config/a", None),
            (two, Read, "config", None),
            (two, List, "config", None),
            (two, List, "metadata", folder("")),
            (two, Scan, "metadata/a/", folder("a/")),
            (two, List, "detailed-metadata/a/", folder("a/")),
            (EngineKind::KV_UPGRADING, Read, "data/a", None),
        ] {
            assert_eq!(ChangeInterest::of(kind, operation, inside), interest, "{inside}");
        }
        let (is_secret, is_folder) = (secret("a/b").unwrap(), folder("a/").unwrap());
        for (path, of_secret, of_folder) in [
            ("a/b", true, true),
            ("a/bc", false, true),
            ("a", false, false),
            ("b/a/b", false, false),
        ] {
            assert_eq!((is_secret.covers(path), is_folder.covers(path)), (of_secret, of_folder));
        }
        assert!(folder("").unwrap().covers("anything"));
    }
}
