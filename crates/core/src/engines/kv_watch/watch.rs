//! `kv/watch`: changes below a folder as server-sent events, names and versions only.
//!
//! Every event is judged when it is sent, by the policies and the time of that moment: whoever may
//! read neither the secret nor its metadata then gets no event of it, and a token that ended, or lost the
//! right to the route, ends the stream. Nothing is buffered per stream: events are pulled from the
//! view's feed, and a stream that was left behind by it is told to start over (`resync`).

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::bearer::{ContextSlot, WatchCaller};
use super::poll::{ChangeInterest, admit};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::api::stream::{ChangeFuture, NextPiece, Source, Stream};
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::engines::kv_batch::judge::BatchJudge;
use crate::engines::kv_batch::meter::Meter;
use crate::engines::kv_batch::place;
use crate::state::Core;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;
use crate::view::{Feed, FeedChange, FeedPosition, Mount, PathEvent, Permit};

/// Changes looked at for one piece of a stream; bounds its bytes.
const LOOK_MAX: usize = 256;

/// The route of streams: its rule is asked again for each piece of one.
const WATCH: &str = "sys/kallisto/kv/watch";

/// A stream of events.
struct EventStream {
    slot: ContextSlot,
    feed: Arc<Feed>,
    notified: watch::Receiver<()>,
    bearer: WatchCaller,
    mount: MountId,
    /// Where the mount was when the stream began: rules name that path.
    mount_path: String,
    interest: ChangeInterest,
    at: FeedPosition,
    /// What is said first.
    greeting: Option<Vec<u8>>,
    _permit: Permit,
}

/// Opens a stream.
pub(in crate::engines) fn open(
    core: &Core,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let query = call.query_fields();
    let fields = Fields::new(&query);
    let place = place::SecretPlace::from_field(context, call, fields, "path")?;
    let index = fields.string("index")?.filter(|text| !text.is_empty()).map(|text| {
        FeedPosition::parse(&text)
            .ok_or_else(|| Error::invalid("'index' is none that a server gave"))
    });
    Meter::of(core, call).take_list(&place)?;
    let caller = CallerPolicies::of(context, call)?;
    let feed = &context.view.feed;
    let permit = admit(feed, &caller)?;
    let at = index.transpose()?.unwrap_or_else(|| feed.latest());
    let interest = match place.is_folder() {
        true => ChangeInterest::Folder(place.path.clone()),
        false => ChangeInterest::Secret(place.path.clone()),
    };
    let source = EventStream {
        slot: ContextSlot::of(core, context),
        feed: Arc::clone(feed),
        notified: feed.listen(),
        bearer: WatchCaller::of(call),
        mount: place.mount.entry.id,
        mount_path: place.mount.entry.path.clone(),
        interest,
        at,
        greeting: Some(event("ready", Some(at), &Json::object([("path", place.full().into())]))),
        _permit: permit,
    };
    let source = Box::new(source);
    Ok(Response::Stream(Stream { content_type: "text/event-stream", source }))
}

impl Source for EventStream {
    fn next(&mut self, now: Timestamp) -> NextPiece {
        if let Some(greeting) = self.greeting.take() {
            return NextPiece::Bytes(greeting);
        }
        // First this: what comes while this looks notifies again.
        self.notified.borrow_and_update();
        let Some(context) = self.slot.load() else {
            return NextPiece::End(farewell("the server was sealed"));
        };
        if !context.is_fresh() {
            return NextPiece::End(farewell(
                "the server was not told for too long what the cluster committed",
            ));
        }
        let mount = context.view.mounts.with_id(self.mount);
        let mount = mount.filter(|mount| mount.entry.path == self.mount_path);
        let Some(mount) = mount else {
            return NextPiece::End(farewell("the mount was moved or is gone"));
        };
        let Some(judge) = self.bearer.judge(&context, WATCH, now) else {
            return NextPiece::End(farewell("permission denied"));
        };
        self.pull(&judge, &mount, now)
    }

    fn changed(&mut self) -> ChangeFuture<'_> {
        // The sender lives as long as the feed, which is held here.
        Box::pin(async move { self.notified.changed().await.unwrap_or_default() })
    }

    fn heartbeat(&self) -> &'static [u8] {
        b":\n\n"
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        Some(farewell("the server stops"))
    }
}

impl EventStream {
    /// The next events that the caller may hear of.
    fn pull(&mut self, judge: &BatchJudge<'_>, mount: &Mount, now: Timestamp) -> NextPiece {
        loop {
            let wants = |change: &FeedChange| {
                change.mount == self.mount && self.interest.covers(&change.path)
            };
            let Ok(taken) = self.feed.take(self.at, LOOK_MAX, wants) else {
                self.at = self.feed.latest();
                let reason = "changes were forgotten: read anew what you follow";
                let data = Json::object([("reason", reason.into())]);
                return NextPiece::Bytes(event("resync", Some(self.at), &data));
            };
            self.at = taken.upto;
            let mut bytes = Vec::new();
            for (at, change) in taken.changes {
                if judge.may_see_metadata(mount, &change.path) {
                    bytes.extend_from_slice(&event_of(at, &change, mount, now));
                }
            }
            if !bytes.is_empty() {
                return NextPiece::Bytes(bytes);
            }
            if taken.at_end {
                return NextPiece::Wait;
            }
        }
    }
}

fn event_of(at: FeedPosition, change: &FeedChange, mount: &Mount, now: Timestamp) -> Vec<u8> {
    let path = Json::from(format!("{}{}", mount.entry.path, change.path));
    match change.what {
        PathEvent::Removed => event("remove", Some(at), &Json::object([("path", path)])),
        PathEvent::Written { version, deletion_ns, gone } => {
            let now_ns = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
            let is_live = !gone && deletion_ns.is_none_or(|deletion| deletion > now_ns);
            let name = if is_live { "put" } else { "delete" };
            event(name, Some(at), &Json::object([("path", path), ("version", version.into())]))
        }
    }
}

fn farewell(reason: &str) -> Vec<u8> {
    event("end", None, &Json::object([("reason", reason.into())]))
}

/// One event; JSON text has no line breaks, so it is one line.
fn event(name: &str, at: Option<FeedPosition>, data: &Json) -> Vec<u8> {
    let mut bytes = format!("event: {name}\n").into_bytes();
    if let Some(at) = at {
        bytes.extend_from_slice(format!("id: {at}\n").as_bytes());
    }
    bytes.extend_from_slice(b"data: ");
    data.write(&mut bytes);
    bytes.extend_from_slice(b"\n\n");
    bytes
}
