//! A far end: a server with users, which an engine of the simulation makes, renews and revokes. It fails, hangs and lies.
//!
//! A request takes its time on the way there and back, drawn from the seed. What it asks for happens when it comes there, whether or not
//! who asked is still alive; the answer says so, or does not. Time is the world's: [`FaultyFarEnd::follow`] does what is due.
//!
//! ```text
//! ask > on the way > the deed, or none > on the way > the answer, or an error after a long while
//! ```

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use kallisto_core::{EngineSet, Error, Json, Response, set_engines};
use kallisto_engine::route::{Field, field};
use kallisto_engine::{
    Call, EngineContext, EngineLeases, EngineSpec, FieldKind, Handler, LeaseCall, NewLease,
    RoleTtl, RouteRows, RowIndex, handler, row,
};

use super::background;

/// What the engine is called.
pub(crate) const ENGINE_NAME: &str = "far";
/// The option of a mount that says which far end is its own.
const OPTION: &str = "far_end";
/// The longest that a request is on its way, and its answer, in milliseconds.
const WAY_MS_MAX: u64 = 60;
/// The same of one that is held up.
const LONG_WAY_MS_MAX: u64 = 4_000;
/// The longest until who asked a far end that hangs gives up, in milliseconds. A creation has a minute.
const HANGS_MS_MAX: u64 = 20_000;

const SECS: Field = field("secs", FieldKind::Text, "How long it shall live, in seconds.");

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "far",
    tag: "secrets",
    about: "Users at a far end, in simulations.",
    index: RowIndex::new(),
    groups: &[&[row!("creds/{secs}", &[SECS], {
        Update => "Make a user.", handler!(make);
    })]],
};

static ENGINE: EngineSpec = EngineSpec {
    leases: Some(EngineLeases {
        revoke: |call| Box::pin(revoke(call)),
        renew: |call, _| Box::pin(renew(call)),
        role_ttl: |_| Ok(RoleTtl::default()),
    }),
    ..EngineSpec::secret(ENGINE_NAME, &ROUTES)
};

/// The server's engines, and the one with this far end.
const ENGINES: EngineSet = EngineSet {
    engines: &[kallisto_engines::ENGINES, kallisto_auth_methods::METHODS, &[&ENGINE]],
    identity_oidc: &kallisto_engines::IDENTITY_OIDC,
};
/// The far ends of this process, by number; a world that is gone leaves a weak entry only.
static FAR_ENDS: Mutex<BTreeMap<u64, std::sync::Weak<FaultyFarEnd>>> = Mutex::new(BTreeMap::new());
static NUMBERS: AtomicU64 = AtomicU64::new(0);
/// What is asked of a far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FarEndRequest {
    /// To make a user.
    Make(String),
    /// To renew one.
    Renew(String),
    /// To revoke one.
    Revoke(String),
}

/// A server with users.
pub(crate) struct FaultyFarEnd {
    number: u64,
    inner: Mutex<FarEndInner>,
}

struct FarEndInner {
    dice: fastrand::Rng,
    now: Duration,
    made: u64,
    users: BTreeMap<String, Duration>,
    /// Deeds that are on their way, by when they come there.
    coming: BTreeMap<(Duration, u64), FarEndRequest>,
    next: u64,
    /// Users that were revoked since anybody looked.
    revoked: Vec<String>,
    is_calm: bool,
}

/// What becomes of a request.
struct Fate {
    happens: bool,
    answer: Result<(), Error>,
    /// When the answer is there.
    at: Duration,
}

impl FaultyFarEnd {
    /// A new one, and the engine that asks it.
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        set_engines(ENGINES);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let inner = FarEndInner {
            dice: fastrand::Rng::with_seed(seed ^ 0xfa4e),
            now: Duration::ZERO,
            made: 0,
            users: BTreeMap::new(),
            coming: BTreeMap::new(),
            next: 0,
            revoked: Vec::new(),
            is_calm: false,
        };
        let far_end = Arc::new(Self { number, inner: Mutex::new(inner) });
        far_ends().insert(number, Arc::downgrade(&far_end));
        far_end
    }

    /// The option of a mount of the engine that has this far end. Its length is always the same: so are the sizes of records.
    pub(crate) fn options(&self) -> serde_json::Value {
        serde_json::json!({ OPTION: format!("{:012}", self.number) })
    }

    fn inner(&self) -> MutexGuard<'_, FarEndInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it does what it is asked, at once.
    pub(crate) fn calm(&self) {
        self.inner().is_calm = true;
    }

    /// Does what is due at `now`.
    pub(crate) fn follow(&self, now: Duration) {
        let mut inner = self.inner();
        inner.now = now;
        while let Some(entry) = inner.coming.first_entry().filter(|entry| entry.key().0 <= now) {
            let (at, deed) = (entry.key().0, entry.remove());
            match deed {
                FarEndRequest::Make(user) => {
                    inner.users.insert(user, at);
                }
                FarEndRequest::Renew(_) => {}
                FarEndRequest::Revoke(user) => {
                    if inner.users.remove(&user).is_some() {
                        inner.revoked.push(user);
                    }
                }
            }
        }
    }

    /// Whom it revoked since this was asked last.
    pub(crate) fn take_revoked(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().revoked)
    }

    /// Whether a user is there.
    pub(crate) fn has(&self, user: &str) -> bool {
        self.inner().users.contains_key(user)
    }

    /// Who is there, and since when.
    pub(crate) fn users(&self) -> Vec<(String, Duration)> {
        self.inner().users.iter().map(|(user, since)| (user.clone(), *since)).collect()
    }

    /// Asks for something, and waits for the answer.
    async fn ask(&self, deed: FarEndRequest) -> Result<(), Error> {
        if background::is_gone() {
            return std::future::pending().await;
        }
        let fate = self.inner().take_up(deed);
        poll_fn(|_| if self.inner().now >= fate.at { Poll::Ready(()) } else { Poll::Pending })
            .await;
        fate.answer
    }
}

impl FarEndInner {
    /// Sends a deed on its way, and draws what becomes of it.
    fn take_up(&mut self, deed: FarEndRequest) -> Fate {
        let there = self.draw_way();
        let back = self.draw_way();
        let at = self.now + there + back;
        let failed = |text: &str| Err(Error::invalid(text.to_owned()));
        let knows = match &deed {
            FarEndRequest::Renew(user) => self.users.contains_key(user),
            FarEndRequest::Make(_) | FarEndRequest::Revoke(_) => true,
        };
        let drawn = if self.is_calm { 0 } else { self.dice.u8(..20) };
        let fate = match drawn {
            0..=13 if !knows => Fate { happens: false, answer: failed("no such user"), at },
            0..=13 => Fate { happens: true, answer: Ok(()), at },
            14..=16 => Fate { happens: false, answer: failed("it is down"), at },
            17 => Fate { happens: true, answer: failed("it hung up"), at },
            _ => {
                let at = at + Duration::from_millis(self.dice.u64(1_000..HANGS_MS_MAX));
                Fate { happens: self.dice.bool(), answer: failed("it does not answer"), at }
            }
        };
        if fate.happens {
            self.next += 1;
            self.coming.insert((self.now + there, self.next), deed);
        }
        fate
    }

    fn draw_way(&mut self) -> Duration {
        let most = match self.is_calm || self.dice.u8(..8) > 0 {
            true => WAY_MS_MAX,
            false => LONG_WAY_MS_MAX,
        };
        Duration::from_millis(self.dice.u64(1..most))
    }
}

impl Drop for FaultyFarEnd {
    fn drop(&mut self) {
        far_ends().remove(&self.number);
    }
}

fn far_ends() -> MutexGuard<'static, BTreeMap<u64, std::sync::Weak<FaultyFarEnd>>> {
    FAR_ENDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The far end of a mount.
fn far_end(context: &EngineContext<'_>) -> Result<Arc<FaultyFarEnd>, Error> {
    let option = context.mount.options.and_then(|options| options.get(OPTION));
    let number = option.and_then(Json::as_str).and_then(|number| number.parse::<u64>().ok());
    let found = number.and_then(|number| far_ends().get(&number)?.upgrade());
    found.ok_or_else(|| Error::invalid("there is no such far end"))
}

async fn make(call: Call<'_>) -> Result<Response, Error> {
    let far_end = far_end(&call.context)?;
    let made = {
        let mut inner = far_end.inner();
        inner.made += 1;
        inner.made
    };
    let user = format!("v-{made:06}");
    let secs = call.params.get("secs").parse().map_err(|_| Error::invalid("secs: no number"))?;
    let lease = NewLease {
        ttl_secs: secs,
        renewable: true,
        revocation: user.clone().into_bytes(),
        ..NewLease::default()
    };
    call.issue(lease, move |_| {
        Box::pin(async move {
            far_end.ask(FarEndRequest::Make(user.clone())).await?;
            Ok::<_, Error>(Json::object([("username", user.into())]))
        })
    })
    .await
}

async fn revoke(call: LeaseCall<'_>) -> Result<(), Error> {
    far_end(&call.context)?.ask(FarEndRequest::Revoke(user(&call))).await
}

async fn renew(call: LeaseCall<'_>) -> Result<(), Error> {
    far_end(&call.context)?.ask(FarEndRequest::Renew(user(&call))).await
}

fn user(call: &LeaseCall<'_>) -> String {
    String::from_utf8_lossy(call.revocation).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_happens_in_its_time_and_a_calm_far_end_does_it() {
        let far_end = FaultyFarEnd::new(1);
        far_end.calm();
        let user = || "v-1".to_owned();
        far_end.inner().take_up(FarEndRequest::Make(user()));
        assert!(!far_end.has("v-1"));
        far_end.follow(Duration::from_millis(WAY_MS_MAX));
        assert!(far_end.has("v-1") && far_end.take_revoked().is_empty());
        far_end.inner().take_up(FarEndRequest::Revoke(user()));
        far_end.follow(Duration::from_secs(1));
        assert!(!far_end.has("v-1") && far_end.take_revoked() == [user()]);
    }

    #[test]
    fn it_fails_hangs_and_lies() {
        let far_end = FaultyFarEnd::new(2);
        let fates: Vec<Fate> = (0..200)
            .map(|made| far_end.inner().take_up(FarEndRequest::Make(format!("v-{made}"))))
            .collect();
        let count = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count();
        assert!(count(|fate| fate.happens && fate.answer.is_ok()) > 100);
        assert!(count(|fate| !fate.happens && fate.answer.is_err()) > 10, "it fails");
        assert!(count(|fate| fate.happens && fate.answer.is_err()) > 5, "it lies");
        assert!(count(|fate| fate.at > Duration::from_millis(2 * LONG_WAY_MS_MAX)) > 2, "it hangs");
        assert_eq!(count(|fate| !fate.happens && fate.answer.is_ok()), 0);
    }
}
