//! Seal status, unsealing and leadership.

use jiff::{SignedDuration, Timestamp};

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::state::Core;
use crate::state::seal::parse_share;

const OK: u16 = 200;

pub(super) fn seal_status(core: &Core) -> Result<Response, Error> {
    let status = core.seal_status()?;
    let view = core.view();
    let cluster = view.as_ref().and_then(|view| view.cluster());
    let mut body: Map = Map::new();
    let mut put = |name: &str, value: Json| body.insert(name.to_owned(), value);
    put("type", status.scheme.into());
    put("initialized", status.initialized.into());
    put("sealed", cluster.is_none().into());
    put("t", u64::from(status.threshold).into());
    put("n", u64::from(status.shares).into());
    put("progress", (status.given as u64).into());
    put("nonce", status.nonce.into());
    put("recovery_seal", status.recovery.into());
    if status.recovery {
        put("recovery_seal_type", "shamir".into());
    }
    put("version", core.info.version.as_str().into());
    put("build_date", core.info.build_date.as_str().into());
    put("commit_date", core.info.build_date.as_str().into());
    put("migration", false.into());
    put("storage_type", core.info.storage_type.as_str().into());
    if core.is_removed() {
        put("removed_from_cluster", true.into());
    }
    if let Some(cluster) = cluster {
        put("cluster_name", cluster.name.as_str().into());
        put("cluster_id", cluster.id.as_str().into());
    }
    Ok(Response::Bare { code: OK, body: body.into() })
}

/// Takes a share. The answer is the status, whatever the share led to.
pub(super) async fn unseal(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let body = request.object()?;
    let fields = Fields::new(&body);
    let reset = fields.boolean("reset")?.unwrap_or(false);
    let key = zeroize::Zeroizing::new(fields.string("key")?.unwrap_or_default());
    if key.is_empty() && !reset {
        return Err(Error::invalid(
            "'key' must be specified in request body as JSON, or 'reset' set to true",
        ));
    }
    if reset {
        core.forget_shares();
    } else {
        core.give_share(parse_share(&key)?).await?;
    }
    seal_status(core)
}

pub(super) fn leader(core: &Core, now: Timestamp) -> Result<Response, Error> {
    if core.is_sealed() {
        return Err(Error::Sealed);
    }
    let Some(cluster) = core.cluster() else {
        let body = Json::object([
            ("ha_enabled", false.into()),
            ("is_self", false.into()),
            // Nobody leads where nobody could take over, as clients of Vault know it.
            ("leader_address", "".into()),
            ("leader_cluster_address", "".into()),
            ("performance_standby", false.into()),
            ("performance_standby_last_remote_wal", 0_u64.into()),
        ]);
        return Ok(Response::Bare { code: OK, body });
    };
    let leadership = cluster.leadership();
    let leader = cluster.members().into_iter().find(|m| m.peer.id == leadership.leader_id);
    let leader = leader.map(|member| member.peer).unwrap_or_default();
    let api = match leadership.is_mine() && leader.api_address.is_empty() {
        true => core.info.api_addr.clone().unwrap_or_default(),
        false => leader.api_address,
    };
    let position = core.store.position().0;
    let mut body = Json::object([
        ("ha_enabled", true.into()),
        ("is_self", leadership.is_mine().into()),
        ("leader_address", api.into()),
        ("leader_cluster_address", cluster_url(&leader.cluster_address).into()),
        ("performance_standby", false.into()),
        ("performance_standby_last_remote_wal", 0_u64.into()),
        ("raft_committed_index", position.into()),
        ("raft_applied_index", position.into()),
    ]);
    if let (Some(since), Json::Object(map)) = (active_since(core, now), &mut body) {
        map.insert("active_time".to_owned(), since.to_string().into());
    }
    Ok(Response::Bare { code: OK, body })
}

/// Since when this server leads, to the second; `None` where it does not, or was not seen to yet.
fn active_since(core: &Core, now: Timestamp) -> Option<Timestamp> {
    if !core.store.leads() {
        return None;
    }
    let led = core.metrics.observed().led_for((core.stopwatch)())?;
    let since = now.checked_sub(SignedDuration::try_from(led).ok()?).ok()?;
    Timestamp::from_second(since.as_second()).ok()
}

/// A cluster address as clients know it.
fn cluster_url(address: &str) -> String {
    if address.is_empty() { String::new() } else { format!("https://{address}") }
}

/// The servers of the cluster.
pub(super) fn ha_status(core: &Core) -> Response {
    if let Some(cluster) = core.cluster() {
        let leader = cluster.leadership().leader_id;
        let node = |member: &kallisto_store::Member| {
            Json::object([
                ("hostname", member.peer.name.as_str().into()),
                ("api_address", member.peer.api_address.as_str().into()),
                ("cluster_address", cluster_url(&member.peer.cluster_address).into()),
                ("active_node", (member.peer.id == leader).into()),
                ("last_echo", Json::Null),
                ("version", core.info.version.as_str().into()),
            ])
        };
        let nodes = cluster.members().iter().map(node).collect();
        return Response::merged(&Json::object([("nodes", Json::Array(nodes))]));
    }
    let machine = core.host.as_ref().and_then(|host| host.machine());
    let node = Json::object([
        ("hostname", machine.map(|machine| machine.hostname).unwrap_or_default().into()),
        ("api_address", core.info.api_addr.as_deref().unwrap_or_default().into()),
        ("cluster_address", core.info.cluster_addr.as_deref().unwrap_or_default().into()),
        ("active_node", true.into()),
        ("last_echo", Json::Null),
        ("version", core.info.version.as_str().into()),
    ]);
    Response::merged(&Json::object([("nodes", Json::Array(vec![node]))]))
}
