//! Every route in the states in which a server answers little: sealed, led by another server, over a rate limit. What it says, what it writes
//! down and what it changes are compared with a model that knows the rows and the documentation, and nothing of the pipeline.
//! A member that is cut off, was removed or has a full disk is in [`super::member_states`]; the state in which no device works is [`super::nothing_is_answered_or_changed_that_no_device_takes`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kallisto_auth::Operation::{self, Update};
use kallisto_auth::Path;
use kallisto_engine::route::ServedBy;

use super::follows::Follows;
use super::{BODY, Site, UNAUDITED, settings};
use crate::api::error::Error;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::platform::server_info::RouteAccess;
use crate::routes::Admits;
use crate::routes::Route;
use crate::routes::tests::{OPERATIONS, ROOT, request, rows, sample};

/// What a store without room says.
pub(super) const NO_SPACE: &str = "no space is left";
const TOKENS: [Option<&str>; 3] = [None, Some("hvs.canary-token"), Some(ROOT)];

/// Ways to spell a path that name the same: as it is, and with its first byte and a slash escaped.
fn spellings(path: &str) -> [String; 3] {
    let first = path.as_bytes()[0];
    let escaped = format!("%{first:02X}{}", &path[1..]);
    [path.to_owned(), escaped, path.replacen('/', "%2f", 1)]
}

/// What a request came to, as far as a state decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateVerdict {
    Sealed,
    NotLeader,
    OverQuota,
    Stale,
    Full,
    /// The state had nothing to say.
    Else,
}

pub(super) fn verdict_of(answer: &Result<Response, Error>) -> StateVerdict {
    match answer {
        Err(Error::Sealed) => StateVerdict::Sealed,
        Err(Error::NotLeader) => StateVerdict::NotLeader,
        Err(Error::OverQuota(_)) => StateVerdict::OverQuota,
        Err(Error::Stale(_)) => StateVerdict::Stale,
        Err(Error::Unavailable(why)) if why == NO_SPACE => StateVerdict::Full,
        _ => StateVerdict::Else,
    }
}

/// Asks at every row, with every operation, in every spelling, as nobody, as somebody unknown and as root; `each` has the row, the request and its place
/// for a message, and says what is wrong.
pub(super) fn every_request(
    mut each: impl FnMut(&Route, &str, &Request<'_>) -> Result<(), String>,
) {
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for (base, route) in rows() {
        let path = sample(base, route);
        for spelled in spellings(&path) {
            for operation in OPERATIONS {
                for token in TOKENS {
                    let request = request(token, operation, &spelled, BODY);
                    assert_eq!(request.path, Path::decode(&path).unwrap());
                    let said = each(route, base, &request);
                    let place = || format!("{operation:?} {spelled} as {token:?}");
                    wrong.extend(said.err().map(|what| format!("{}: {what}", place())));
                    asked += 1;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked > 10_000, "{asked}");
}

pub(super) fn expect(
    found: StateVerdict,
    expected: StateVerdict,
    answer: &Result<Response, Error>,
) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{expected:?} was expected: {answer:?}")),
    }
}

/// A sealed server answers what the documentation says anyone may ask of it; it has no secret to hand out, and nothing to write to.
#[test]
fn a_sealed_server_answers_what_anyone_may_ask_and_changes_nothing() {
    let site = Site::open(settings(RouteAccess::Token));
    pollster::block_on(site.core.seal()).unwrap();
    check_sealed(&site);
}

/// Asks a sealed server everything.
pub(super) fn check_sealed(site: &Site) {
    assert!(site.core.is_sealed());
    let check = || {
        every_request(|route, base, request| {
            let before = site.core.store.position();
            let answer = site.ask(request);
            let is_open = base == "sys/"
                && match route.admits {
                    Admits::Anyone => true,
                    Admits::AnyoneWhileSealed => route.takes(request.operation),
                    Admits::AnyTokenOrNone => {
                        request.token.is_none() && route.takes(request.operation)
                    }
                    Admits::WrappingToken => !route.takes(request.operation),
                    _ => false,
                };
            if site.core.store.position() != before {
                return Err("it changed something".to_owned());
            }
            if !site.core.is_sealed() {
                return Err("it unsealed the server".to_owned());
            }
            // A row that anyone may ask may need what a sealed server has not.
            match (is_open, verdict_of(&answer)) {
                (true, StateVerdict::Sealed | StateVerdict::Else) => Ok(()),
                (true, _) => Err(format!("{answer:?}")),
                (false, found) => expect(found, StateVerdict::Sealed, &answer),
            }
        })
    };
    // A device signs what it wrote when it ends, on a thread of its own: perhaps only now.
    let (records, ()) = site.recorded(check);
    assert!(records.is_empty(), "its devices ended with the keys");
}

/// Reads that write, as Vault has them: what follows the name of their mount. A server that does not lead finds out when it commits.
const READS_THAT_WRITE: [&str; 2] = ["wrapping_key", "creds/{name}"];

/// What is the leader's, by the row alone.
pub(super) fn is_leaders(route: &Route, operation: Operation) -> bool {
    let writes = match operation {
        Operation::Update | Operation::Patch | Operation::Delete | Operation::Recover => true,
        Operation::Read | Operation::List | Operation::Scan => false,
    };
    match route.served_by {
        ServedBy::LeaderToWrite | ServedBy::LeaderOrRecentView => writes,
        ServedBy::Leader | ServedBy::LeaderIfAny => true,
        ServedBy::AnyServer => false,
    }
}

#[test]
fn a_server_that_another_leads_changes_nothing_and_leaves_to_it_what_is_its_own() {
    let begin = || {
        let store = Arc::new(Follows::default());
        let site = Site::over(Arc::clone(&store) as Arc<_>, settings(RouteAccess::Token));
        store.follows.store(true, Ordering::SeqCst);
        site
    };
    let mut site = begin();
    every_request(|route, _, request| {
        let before = site.core.store.position();
        let (records, answer) = site.recorded(|| site.ask(request));
        let leaders = is_leaders(route, request.operation);
        let is_unaudited = UNAUDITED.contains(&(request.path.as_str(), request.operation));
        let count = records.len();
        let changed = site.core.store.position() != before;
        if site.core.is_sealed() {
            site = begin();
        }
        let may_write = READS_THAT_WRITE.contains(&route.pattern);
        if leaders {
            expect(verdict_of(&answer), StateVerdict::NotLeader, &answer)?;
        } else if verdict_of(&answer) == StateVerdict::NotLeader && !may_write {
            return Err(format!("{} is everybody's", route.pattern));
        }
        match count {
            // The leader writes it down.
            0 if leaders || is_unaudited => {}
            2 if !leaders && !is_unaudited => {}
            _ => return Err(format!("{count} records: {answer:?}")),
        }
        if changed { Err("it changed something".to_owned()) } else { Ok(()) }
    });
}

#[test]
fn over_a_rate_limit_nothing_is_answered_but_what_has_none() {
    let site = Site::open(settings(RouteAccess::Token));
    let limit = r#"{"rate":1,"interval":"24h"}"#;
    site.ask(&request(Some(ROOT), Update, "sys/quotas/rate-limit/all", limit)).unwrap();
    let remote = Some("192.0.2.7:4711".parse().unwrap());
    let used = Request { remote, ..request(Some(ROOT), Operation::Read, "sys/mounts", "") };
    assert_eq!(verdict_of(&site.ask(&used)), StateVerdict::Else);
    // What has no limit would seal it, or end the device; the rest is refused before anything is looked at.
    every_request(|route, base, request| {
        let is_builtin = ["sys/", "auth/token/", "identity/", "cubbyhole/"].contains(&base);
        let is_free = is_builtin && !route.is_limited;
        if is_free && request.operation.writes() {
            return Ok(());
        }
        let before = site.core.store.position();
        let (records, answer) = site.recorded(|| site.ask(&Request { remote, ..request.clone() }));
        if is_free {
            return expect(verdict_of(&answer), StateVerdict::Else, &answer);
        }
        expect(verdict_of(&answer), StateVerdict::OverQuota, &answer)?;
        if !records.is_empty() || site.core.store.position() != before {
            return Err("it wrote something".to_owned());
        }
        Ok(())
    });
}
