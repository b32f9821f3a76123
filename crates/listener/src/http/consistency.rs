//! How recent a read has to be: `X-Vault-Index`, `X-Vault-Inconsistent` and `X-Kallisto-Consistency`.
//!
//! Every server answers reads from its own view, which may be behind. A client that shows what it has seen is answered by
//! a view that holds it: the server waits a little, and says 412 if it is still behind, or has the leader answer at once
//! where the client says so. A client that asks for `strong` is answered by a view that holds everything that anybody was
//! told before, whichever server it asks: that takes a question to the leader and its majority. One that asks for `stale` is
//! answered also by a server that was not told for too long what was committed; any other refuses such requests (`core::pipeline::freshness`).
//!
//! Nobody waits who is refused anyway: without a token, or with nothing left of a rate limit, a request goes on at once. The
//! others wait in a bounded number of places, of which tokens that this server does not know (yet) have few.
//!
//! Requests without these headers, which is nearly all, pay two look-ups in the map of headers.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use kallisto_core::admission::Held;
use kallisto_core::{CONSISTENCY_HEADER, Core, Error, Patience, Request, STALE, SeenIndex};

use super::{HttpReply, admit, error, refuse, relay};

static INDEX: HeaderName = HeaderName::from_static("x-vault-index");
static INCONSISTENT: HeaderName = HeaderName::from_static("x-vault-inconsistent");
static CONSISTENCY: HeaderName = HeaderName::from_static(CONSISTENCY_HEADER);
const FORWARD: &str = "forward-active-node";
const FAIL: &str = "fail";
const STRONG: &str = "strong";

/// How long a server that is behind waits for what a client has seen.
const BEHIND_MAX: Duration = Duration::from_secs(2);
/// How often it looks.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// What a request asks of the view that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ViewDemand {
    /// It shows this.
    Seen(SeenIndex, Behind),
    /// It shows everything.
    Everything,
}

/// What is to be done where the view is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// Wait, then refuse.
    Wait,
    /// Have the leader answer.
    Forward,
}

/// Returns once the view shows what the request asks it to.
///
/// # Errors
/// The refusal, or `None` if the leader is to answer.
pub(super) async fn hold(
    core: &Core,
    headers: &HeaderMap,
    request: &Request<'_>,
) -> Result<(), Option<HttpReply>> {
    let wanted = match wanted(headers) {
        Ok(None) => return Ok(()),
        Ok(Some(wanted)) => wanted,
        Err(refusal) => return Err(refused(refusal)),
    };
    // Boxed, so that the future of a request that asks for nothing stays small.
    Box::pin(wait(core, wanted.for_request(request), request)).await
}

/// A place among those who wait; `None` for a request that is refused at once.
///
/// # Errors
/// The refusal when there are too many.
fn place_of(core: &Core, request: &Request<'_>) -> Result<Option<Held>, Error> {
    let (shares, flow) = match core.patience(request) {
        Patience::None => return Ok(None),
        Patience::Stranger => (&core.admission().strangers, request.flow()),
        Patience::Known => (&core.admission().behind, admit::known_flow(core, request)),
    };
    shares.take(flow, 1).map(Some).map_err(Error::Busy)
}

/// The refusal that an error is.
fn refused(error: Error) -> Option<HttpReply> {
    Some(error::render(&error))
}

async fn wait(
    core: &Core,
    wanted: ViewDemand,
    request: &Request<'_>,
) -> Result<(), Option<HttpReply>> {
    let (seen, behind) = match wanted {
        ViewDemand::Seen(seen, behind) => (seen, behind),
        ViewDemand::Everything => {
            return match place_of(core, request).map_err(refused)? {
                Some(_place) => everything(core, request).await,
                None => Ok(()),
            };
        }
    };
    // What is sealed refuses in its own words.
    let Some(cluster) = core.cluster_id() else { return Ok(()) };
    let forwards = behind == Behind::Forward && !core.store().leads();
    let is_ours = cluster == seen.cluster;
    let shows = || is_ours && core.shown().is_some_and(|shown| shown >= seen.index);
    if shows() {
        return Ok(());
    }
    if is_ours && forwards {
        return Err(None);
    }
    let Some(_place) = place_of(core, request).map_err(refused)? else { return Ok(()) };
    if !is_ours {
        return Err(Some(absent()));
    }
    let shown = async {
        while !shows() {
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    };
    tokio::time::timeout(BEHIND_MAX, shown).await.map_err(|_| Some(absent()))
}

async fn everything(core: &Core, request: &Request<'_>) -> Result<(), Option<HttpReply>> {
    let caught_up = async {
        loop {
            match core.catch_up().await {
                Ok(()) if core.is_sealed() || core.shown().is_some() => return Ok(()),
                // A store that has failed does not come back by waiting, and its server is about to end.
                Err(error @ Error::Internal(_)) => return Err(error),
                Ok(()) | Err(_) => tokio::time::sleep(LOOK_PAUSE).await,
            }
        }
    };
    // Whoever leads by then is asked; where nobody does, the client hears so.
    let caught_up = tokio::time::timeout(relay::WAIT_MAX, caught_up).await;
    caught_up.unwrap_or_else(|_| Err(core.leaderless(request))).map_err(refused)
}

impl ViewDemand {
    /// What a request can have of it: an answer that takes time, such as a stream, is not relayed, so it waits here.
    fn for_request(self, request: &Request<'_>) -> Self {
        match self {
            Self::Seen(seen, Behind::Forward) if Core::takes_time(request) => {
                Self::Seen(seen, Behind::Wait)
            }
            other => other,
        }
    }
}

fn wanted(headers: &HeaderMap) -> Result<Option<ViewDemand>, Error> {
    // A field without a value says no more than none.
    if let Some(value) = headers.get(&CONSISTENCY).filter(|value| !value.is_empty()) {
        return match value.as_bytes() {
            text if text == STRONG.as_bytes() => Ok(Some(ViewDemand::Everything)),
            // Nothing to wait for; the core decides who may.
            text if text == STALE.as_bytes() => Ok(None),
            _ => Err(Error::invalid(format!("X-Kallisto-Consistency is {STRONG} or {STALE}"))),
        };
    }
    let Some(seen) = seen_in(headers)? else { return Ok(None) };
    let behind = match headers.get(&INCONSISTENT).map(HeaderValue::as_bytes) {
        None => Behind::Wait,
        Some(text) if text == FAIL.as_bytes() => Behind::Wait,
        Some(text) if text == FORWARD.as_bytes() => Behind::Forward,
        Some(_) => {
            let text = format!("X-Vault-Inconsistent is {FORWARD} or {FAIL}");
            return Err(Error::invalid(text));
        }
    };
    Ok(Some(ViewDemand::Seen(seen, behind)))
}

/// The latest of what a client has seen: it may send one header for each answer, and proxies join headers.
fn seen_in(headers: &HeaderMap) -> Result<Option<SeenIndex>, Error> {
    let unknown = || Error::invalid("X-Vault-Index is none that was given out");
    let mut latest: Option<SeenIndex> = None;
    for value in headers.get_all(&INDEX) {
        let texts = value.to_str().map_err(|_| unknown())?.split(',').map(str::trim);
        for text in texts.filter(|text| !text.is_empty()) {
            let seen = SeenIndex::decode(text).ok_or_else(unknown)?;
            match &mut latest {
                None => latest = Some(seen),
                Some(other) if other.cluster != seen.cluster => {
                    return Err(Error::invalid("X-Vault-Index is of more than one cluster"));
                }
                Some(other) => other.index = other.index.max(seen.index),
            }
        }
    }
    Ok(latest)
}

fn absent() -> HttpReply {
    refuse(StatusCode::PRECONDITION_FAILED, &["required index state not present"])
}

/// Says up to where the order of all writes goes with this answer, which is one to a write.
pub(super) fn stamp(core: &Core, reply: HttpReply) -> HttpReply {
    let (true, Some(_), Some(cluster)) =
        (reply.status().is_success(), core.store().replicated(), core.cluster_id())
    else {
        return reply;
    };
    let seen = SeenIndex { cluster, index: core.store().position().0 };
    let (mut head, body) = reply.into_parts();
    if let Ok(value) = HeaderValue::from_str(&seen.encode()) {
        head.headers.insert(&INDEX, value);
    }
    Response::from_parts(head, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        given.iter().map(pair).collect()
    }

    #[test]
    fn headers_say_how_recent_or_are_refused() {
        let seen = SeenIndex { cluster: "c".into(), index: 7 };
        let text = seen.encode();
        let index = ("x-vault-index", text.as_str());
        assert_eq!(wanted(&headers(&[])), Ok(None));
        let waits = Ok(Some(ViewDemand::Seen(seen.clone(), Behind::Wait)));
        assert_eq!(wanted(&headers(&[index])), waits);
        assert_eq!(wanted(&headers(&[index, ("x-vault-inconsistent", "fail")])), waits);
        // Of several the latest counts, in whatever order they are.
        let [older, newer] = [3, 9].map(|index| SeenIndex { cluster: "c".into(), index });
        let texts = [older.encode(), newer.encode()];
        let joined = texts.join(", ");
        let latest = Ok(Some(ViewDemand::Seen(newer, Behind::Wait)));
        let [old, new] = [0, 1].map(|at| ("x-vault-index", texts[at].as_str()));
        for several in [&[old, index, new][..], &[new, old], &[("x-vault-index", &joined)]] {
            let mut all = HeaderMap::new();
            for &(name, value) in several {
                let value = HeaderValue::from_str(value).unwrap();
                all.append(HeaderName::from_static(name), value);
            }
            assert_eq!(wanted(&all), latest);
        }
        let forward = headers(&[index, ("x-vault-inconsistent", "forward-active-node")]);
        assert_eq!(wanted(&forward), Ok(Some(ViewDemand::Seen(seen, Behind::Forward))));
        let strong = headers(&[("x-kallisto-consistency", "strong")]);
        assert_eq!(wanted(&strong), Ok(Some(ViewDemand::Everything)));
        // As a client sends it that has seen nothing yet.
        let fail = ("x-vault-inconsistent", "fail");
        for nothing in [
            headers(&[("x-vault-index", "")]),
            headers(&[("x-vault-index", " , "), fail]),
            headers(&[("x-kallisto-consistency", "")]),
        ] {
            assert_eq!(wanted(&nothing), Ok(None), "{nothing:?}");
        }
        assert_eq!(wanted(&headers(&[index, ("x-kallisto-consistency", "")])), waits);
        for bad in [
            headers(&[("x-vault-index", "12")]),
            headers(&[index, ("x-vault-inconsistent", "maybe")]),
            headers(&[("x-kallisto-consistency", "weak")]),
        ] {
            assert!(wanted(&bad).is_err());
        }
    }
}
