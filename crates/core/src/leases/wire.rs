//! What `sys/leases` says of leases of dynamic secrets. Ids are those of the namespace that `site` is, and of no other: whose
//! lease is asked about is settled before (`tokens::leases`).

use jiff::Timestamp;
use kallisto_engine::lease::IsRevocation;
use kallisto_engine::pace::cooperative_yield;
use kallisto_leases::{LeaseId, LeasePhase, LeaseRecord, LeaseState, Located};

use super::create::nanos;
use super::record::{StoredLease, number_of, read};
use super::{renew, revoke, work};
use crate::api::error::Error;
use crate::api::json::{Json, Map};
use crate::api::response::{LeaseHandle, Logical, Response};
use crate::storage::keys::MountId;
use crate::view::{NamespaceContext, View};

/// Leases that are looked at between two others' turns.
const LOOKED_AT: usize = 256;
/// Most irrevocable leases in one answer.
const IRREVOCABLE_LISTED_MAX: usize = 10_000;

/// The lease with this id, as clients spell it; `None` when there is none that a client could know.
pub(crate) fn find(site: &NamespaceContext, text: &str) -> Option<LeaseId> {
    let id = LeaseId::parse(site.view.unmarked(text)?).ok()?;
    let lease = site.view.leases.table().find(number_of(site), id.as_str())?;
    (lease.phase != LeasePhase::Pending).then_some(id)
}

/// Whether a mount has a lease for whose revocation `is_it` is true.
///
/// # Errors
/// When a record cannot be read, or is damaged.
pub(crate) async fn any_of_mount(
    site: &NamespaceContext,
    mount: MountId,
    is_it: IsRevocation<'_>,
) -> Result<bool, Error> {
    let mut cursor = None;
    loop {
        let (found, next) =
            site.view.leases.table().below(number_of(site), "", cursor.as_ref(), LOOKED_AT);
        for lease in found.iter().filter(|lease| lease.mount == mount.0) {
            if read(site, &lease.id)?.is_some_and(|stored| is_it(&stored.record.revocation)) {
                return Ok(true);
            }
        }
        cursor = next;
        if cursor.is_none() {
            return Ok(false);
        }
        cooperative_yield().await;
    }
}

/// Describes a lease.
///
/// # Errors
/// [`Error::Invalid`] when it is gone.
pub(crate) fn look_up(
    site: &NamespaceContext,
    id: &LeaseId,
    now: Timestamp,
) -> Result<Response, Error> {
    let stored = read(site, id)?.ok_or_else(|| Error::invalid("invalid lease"))?;
    let LeaseRecord { term, .. } = &stored.record;
    let time = |at_ns: i64| {
        let at = Timestamp::from_nanosecond(at_ns.into());
        at.map_or(Json::Null, |at| at.to_string().into())
    };
    Ok(described(
        &site.view,
        [
            ("expire_time", time(term.expires_ns)),
            ("id", site.view.marked(id.to_string()).into()),
            ("issue_time", time(term.issued_ns)),
            ("last_renewal", term.renewed_ns.map_or(Json::Null, time)),
            ("path", id.path().into()),
            ("renewable", term.renewable.into()),
            ("ttl", stored.record.ttl_left_secs(nanos(now)).into()),
        ],
    ))
}

/// What a look-up says of a lease, with the namespace that it is of.
pub(crate) fn described<const N: usize>(view: &View, told: [(&str, Json); N]) -> Response {
    let place = view.inside.is_some().then(|| ("namespace_path", view.namespace_path().into()));
    let told = told.into_iter().chain(place);
    let told: Map = told.map(|(name, value)| (name.to_owned(), value)).collect();
    Response::data(&Json::Object(told))
}

/// What a list of the folder `path` shows, at most `limit` names.
pub(crate) fn names(site: &NamespaceContext, path: &str, limit: usize) -> Vec<String> {
    let names = site.view.leases.table().list(number_of(site), path, limit);
    let mark = |name: String| if name.ends_with('/') { name } else { site.view.marked(name) };
    names.into_iter().map(mark).collect()
}

/// Renews a lease.
///
/// # Errors
/// [`Error::Invalid`] in the words of the contract.
pub(crate) async fn renew(
    site: &NamespaceContext,
    id: &LeaseId,
    increment_secs: u64,
    now: Timestamp,
) -> Result<Response, Error> {
    let renewal = renew::renew(site, id, increment_secs, now).await?;
    let handle = LeaseHandle { id: site.view.marked(id.to_string()), renewable: true };
    Ok(Response::Logical(Logical {
        lease: Some(handle),
        lease_secs: renewal.ttl_secs,
        warnings: renewal.capped.map(|capped| capped.to_string()).into_iter().collect(),
        ..Logical::default()
    }))
}

/// Ends a lease: at once, or by the queue when the caller does not `wait`.
///
/// # Errors
/// [`Error::Invalid`] in the words of the far end, for who waits; the lease stays then.
pub(crate) async fn revoke(
    site: &NamespaceContext,
    id: &LeaseId,
    wait: bool,
    now: Timestamp,
) -> Result<(), Error> {
    if !wait {
        let lease = site.view.leases.table().find(number_of(site), id.as_str());
        revoke::mark(site, lease.as_slice(), nanos(now)).await?;
        work::start_marked(site, now);
        return Ok(());
    }
    let revoked = revoke::revoke_now(site, id, now).await?;
    revoked.map_err(|error| Error::invalid(format!("failed to revoke entry: {error}")))
}

/// How many leases of this namespace are irrevocable, by the accessor of their mount.
pub(crate) fn count_irrevocable(site: &NamespaceContext) -> (usize, Map) {
    let table = site.view.leases.table();
    let mut all = 0;
    let mut counts = Map::new();
    for (mount, counted) in table.mounts().filter(|(_, counted)| counted.irrevocable > 0) {
        // A mount has leases of one namespace.
        let first = table.irrevocable_of(mount, 1);
        if first.first().is_none_or(|lease| lease.namespace != number_of(site)) {
            continue;
        }
        all += counted.irrevocable;
        let mounted = site.view.mounts.with_id(MountId(mount));
        let name =
            mounted.map_or_else(|| format!("unmounted_{mount}"), |m| m.entry.accessor.clone());
        counts.insert(name, (counted.irrevocable as u64).into());
    }
    (all, counts)
}

/// The leases of this namespace that are irrevocable, and what their far ends said last; at most `limit`.
///
/// # Errors
/// When a record cannot be read.
pub(crate) fn list_irrevocable(
    site: &NamespaceContext,
    limit: Option<usize>,
) -> Result<Json, Error> {
    let mut shown = Vec::new();
    for lease in irrevocable(site, limit.unwrap_or(IRREVOCABLE_LISTED_MAX)) {
        let stored = read(site, &lease.id)?;
        let Some(StoredLease { record, .. }) = stored else { continue };
        if let LeaseState::Irrevocable { error } = record.state {
            shown.push(Json::object([
                ("error", Json::from(&*error)),
                ("lease_id", site.view.marked(lease.id.to_string()).into()),
            ]));
        }
    }
    Ok(Json::Array(shown))
}

fn irrevocable(site: &NamespaceContext, limit: usize) -> Vec<Located> {
    let limit = limit.min(IRREVOCABLE_LISTED_MAX);
    let table = site.view.leases.table();
    let mut found = Vec::new();
    for (mount, counted) in table.mounts() {
        if counted.irrevocable > 0 && found.len() < limit {
            let of_mount = table.irrevocable_of(mount, limit - found.len());
            found.extend(of_mount.into_iter().filter(|lease| lease.namespace == number_of(site)));
        }
    }
    found
}

/// Has irrevocable leases of this namespace tried again; `after_restore` says besides that leases end by the clock again.
///
/// # Errors
/// The store's refusal; [`Error::Invalid`] for the second in a namespace that is not the root.
pub(crate) async fn tidy(
    site: &NamespaceContext,
    after_restore: bool,
    now: Timestamp,
) -> Result<(), Error> {
    if after_restore && !site.is_top() {
        return Err(Error::invalid("after_restore is for the root namespace"));
    }
    let again = irrevocable(site, IRREVOCABLE_LISTED_MAX);
    revoke::mark(site, &again, nanos(now)).await?;
    if after_restore {
        work::release(site).await?;
    }
    Ok(())
}
