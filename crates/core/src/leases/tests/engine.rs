//! An engine that exists only in tests: it makes users at a far end that fails, hangs and lies.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use jiff::{SignedDuration, Timestamp};
use kallisto_engine::FieldKind::{Span, Text};
use kallisto_engine::route::{Field, field};
use kallisto_engine::{
    Call, EngineLeases, EngineSpec, Handler, LeaseCall, Leftover, MadeCredential, MakeFailure,
    NewLease, RoleTtl, RouteRows, RowIndex, handler, row,
};

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::Response;

const NAME: Field = field("name", Text, "A role.");
const TTL: Field = field("ttl", Span, "How long it shall live.");

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "far",
    tag: "secrets",
    about: "Users at a far end, in tests.",
    index: RowIndex::new(),
    groups: &[&[row!("creds/{name}", &[NAME, TTL], {
        Read => "Make a user.", handler!(make);
        Update => "Make a user.", handler!(make);
    })]],
};

/// The engine.
pub(crate) static ENGINE: EngineSpec = EngineSpec {
    leases: Some(EngineLeases {
        revoke: |call| Box::pin(revoke(call)),
        renew: |call, end| Box::pin(renew(call, end)),
        role_ttl: |call| role_ttl(&call),
    }),
    ..EngineSpec::secret("far", &ROUTES)
};

/// What a far end says that has somebody of the name already.
const TAKEN: &str = "ERROR: the name is taken";

/// How a far end behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mood {
    /// It does what it is asked.
    #[default]
    Healthy,
    /// It does nothing and says so.
    Fails,
    /// Nobody reaches it.
    Away,
    /// It does what it is asked, and says that it failed.
    Lies,
    /// It does what it is asked, and never answers.
    Hangs,
    /// It does nothing until it is in another mood.
    Waits,
    /// It does nothing, since it has somebody of that name, and says so.
    HasTheName,
}

/// A server with users.
#[derive(Default)]
pub(super) struct FarEnd {
    users: Mutex<BTreeSet<String>>,
    mood: Mutex<Mood>,
    /// What the roles say by now of the leases there are.
    roles: Mutex<RoleTtl>,
    made: AtomicU64,
    /// Requests under way, and the most there were.
    at_once: Mutex<(usize, usize)>,
    /// How often it was asked to revoke.
    pub(super) revocations: AtomicU64,
}

/// The far ends, by the accessor of their mount, which no two mounts share.
static FAR_ENDS: Mutex<BTreeMap<String, Arc<FarEnd>>> = Mutex::new(BTreeMap::new());

impl FarEnd {
    /// The far end of a mount.
    pub(super) fn of(accessor: &str) -> Arc<Self> {
        Arc::clone(FAR_ENDS.lock().unwrap().entry(accessor.to_owned()).or_default())
    }

    pub(super) fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub(super) fn set_roles(&self, lives: RoleTtl) {
        *self.roles.lock().unwrap() = lives;
    }

    /// Who is there.
    pub(super) fn users(&self) -> BTreeSet<String> {
        self.users.lock().unwrap().clone()
    }

    /// The most requests there were at a time.
    pub(super) fn at_once_max(&self) -> usize {
        self.at_once.lock().unwrap().1
    }

    /// The way of a request, in which others begin theirs.
    async fn travel(&self) {
        let mut is_there = false;
        poll_fn(|context| {
            let mut at_once = self.at_once.lock().unwrap();
            if is_there {
                at_once.0 -= 1;
                return Poll::Ready(());
            }
            at_once.0 += 1;
            at_once.1 = at_once.1.max(at_once.0);
            is_there = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Does something, or not, and answers, or not.
    async fn act(&self, deed: impl FnOnce(&mut BTreeSet<String>)) -> Result<(), Error> {
        self.travel().await;
        let mood = poll_fn(|context| match *self.mood.lock().unwrap() {
            Mood::Waits => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            mood => Poll::Ready(mood),
        });
        let mood = mood.await;
        if !matches!(mood, Mood::Fails | Mood::Away | Mood::HasTheName) {
            deed(&mut self.users.lock().unwrap());
        }
        match mood {
            Mood::Healthy | Mood::Waits => Ok(()),
            Mood::Fails => Err(Error::invalid("ERROR: the far end is down")),
            Mood::Away => Err(Error::Unavailable("connection refused".into())),
            Mood::HasTheName => Err(Error::invalid(TAKEN)),
            Mood::Lies => Err(Error::invalid("ERROR: the far end hung up")),
            Mood::Hangs => pending().await,
        }
    }
}

async fn make(call: Call<'_>) -> Result<Response, Error> {
    let far_end = FarEnd::of(call.mount.accessor);
    let user = format!("v-{}", far_end.made.fetch_add(1, Ordering::Relaxed));
    let body = call.request.object().unwrap_or_default();
    let ttl_secs = Fields::new(&body).span("ttl")?.map_or(0, |span| span.secs().unsigned_abs());
    let role = call.params.get("name");
    let lease = NewLease {
        ttl_secs,
        role_default_secs: 1800,
        role_max_secs: if role == "short" { 8 } else { 86_400 },
        renewable: role != "fixed",
        revocation: user.clone().into_bytes(),
    };
    let role = role.to_owned();
    call.issue_credential(lease, move |_| {
        Box::pin(async move {
            // One that is made under another name than was planned says so, whatever comes of it.
            let other = role == "renamed";
            let user = if other { format!("{user}-renamed") } else { user };
            let revocation = other.then(|| user.clone().into_bytes());
            let made = far_end.act(|users| {
                users.insert(user.clone());
            });
            match made.await {
                Ok(()) => Ok(MadeCredential {
                    data: Json::object([("username", user.into())]),
                    ends: (role == "brief").then_some(call.now + SignedDuration::from_secs(300)),
                    revocation,
                    warnings: if role == "brief" { vec!["it is brief".into()] } else { Vec::new() },
                }),
                Err(error) => {
                    let left = match revocation {
                        _ if error == Error::invalid(TAKEN) => Leftover::Nothing,
                        Some(revocation) => Leftover::Only(revocation),
                        None => Leftover::AsPlanned,
                    };
                    Err(MakeFailure { error, left })
                }
            }
        })
    })
    .await
}

async fn revoke(call: LeaseCall<'_>) -> Result<(), Error> {
    let far_end = FarEnd::of(call.mount.accessor);
    far_end.revocations.fetch_add(1, Ordering::Relaxed);
    let user = String::from_utf8(call.revocation.to_vec()).unwrap();
    far_end
        .act(|users| {
            users.remove(&user);
        })
        .await
}

async fn renew(call: LeaseCall<'_>, _: Timestamp) -> Result<(), Error> {
    FarEnd::of(call.mount.accessor).act(|_| ()).await
}

fn role_ttl(call: &LeaseCall<'_>) -> Result<RoleTtl, Error> {
    Ok(*FarEnd::of(call.mount.accessor).roles.lock().unwrap())
}
