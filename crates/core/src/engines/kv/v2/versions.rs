//! Deleting, undeleting and destroying versions.

use super::commit::{Plan, run};
use super::decide;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::response::Response;
use crate::engines::kv::access::Kv;
use crate::engines::kv::fields::expected_version;
use crate::records::kv::SecretMetadata;

/// What is done to the versions named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionsChange {
    /// Hide the data; it can come back.
    Delete,
    /// Bring it back.
    Undelete,
    /// Remove the data for good.
    Destroy,
}

pub(super) async fn delete_latest(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    let now_ns = kv.call.now_ns();
    let author = kv.author();
    // Of protocols that say what they have read; a body of HTTP says nothing here.
    let expected = expected_version(kv.call.body_kind);
    run(kv, path, |metadata| {
        let current = metadata.as_ref().map_or(0, |metadata| metadata.current_version);
        if expected.is_some_and(|expected| expected != current) {
            return Err(Error::CasMismatch);
        }
        let decision = metadata.and_then(|metadata| {
            let current = metadata.current_version;
            decide::delete(metadata, &[current], author.as_ref(), now_ns)
        });
        Ok(plan(VersionsChange::Delete, decision))
    })
    .await
}

/// Applies `change` to the versions the body names; those that do not exist are no error.
pub(super) async fn change(
    kv: &Kv<'_>,
    path: &str,
    change: VersionsChange,
) -> Result<Response, Error> {
    let body = kv.call.object()?;
    let named = Fields::new(&body).ints("versions")?.unwrap_or_default();
    if named.is_empty() {
        return Err(Error::invalid("No version number provided"));
    }
    let versions: Vec<u64> =
        named.into_iter().filter_map(|version| u64::try_from(version).ok()).collect();
    let config = kv.mount.kv_config.load();
    let now_ns = kv.call.now_ns();
    let author = kv.author();
    run(kv, path, |metadata| {
        if let (Some(metadata), VersionsChange::Undelete) = (&metadata, change) {
            check_data(metadata, &versions)?;
        }
        let decision = metadata.and_then(|metadata| match change {
            VersionsChange::Delete => decide::delete(metadata, &versions, author.as_ref(), now_ns),
            VersionsChange::Undelete => decide::undelete(metadata, &config, &versions, now_ns),
            VersionsChange::Destroy => decide::destroy(metadata, &versions),
        });
        Ok(plan(change, decision))
    })
    .await
}

/// Refuses to bring back a version whose data never came here.
fn check_data(metadata: &SecretMetadata, versions: &[u64]) -> Result<(), Error> {
    let is_missing =
        |version: &u64| metadata.version(*version).is_some_and(|info| info.has_no_data);
    match versions.iter().copied().find(is_missing) {
        None => Ok(()),
        Some(version) => Err(Error::invalid(format!(
            "version {version} was imported after it was deleted, and without its data: it cannot be undeleted"
        ))),
    }
}

fn plan(
    change: VersionsChange,
    decision: Option<decide::WriteDecision>,
) -> Plan<'static, Response> {
    let reply = Response::Empty;
    match (decision, change) {
        (None, _) => Plan::Reply(reply),
        (Some(decision), VersionsChange::Undelete) => Plan::Write { decision, data: None, reply },
        (Some(decision), VersionsChange::Delete | VersionsChange::Destroy) => {
            Plan::TakeAway { decision, reply }
        }
    }
}
