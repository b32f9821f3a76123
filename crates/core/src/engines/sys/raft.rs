//! `sys/storage/raft`: the members, and how a server joins them.

use kallisto_store::{Member, MemberChange, MemberRole, Peer, Replicated};

use super::autopilot;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::request::Request;
use crate::api::response::{Logical, Response};
use crate::backup::{self, Check};
use crate::caller::call::AuthorizedCall;
use crate::cluster;
use crate::cluster::quorum::{member_name, member_number};
use crate::dispatch::route_handler::RouteCall;
use crate::platform::cluster_port::JoinTarget;
use crate::state::Core;

const OK: u16 = 200;
/// A member that was silent for longer is named where nobody leads, in milliseconds.
const SILENT_MS: u64 = 2_000;
/// Most bytes of each text that says whom to join: a chain of certificates is the longest.
const JOIN_TEXT_BYTES_MAX: usize = 64 << 10;

/// `join`: this server is to become part of another's cluster.
pub(super) async fn join(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    if core.store.replicated().is_none() {
        return Err(Error::UnsupportedPath);
    }
    let body = request.object()?;
    let fields = Fields::new(&body);
    let text = |name: &str| match fields.string(name)?.unwrap_or_default() {
        text if text.len() > JOIN_TEXT_BYTES_MAX => {
            Err(Error::invalid(format!("{name} is longer than {JOIN_TEXT_BYTES_MAX} bytes")))
        }
        text => Ok(text),
    };
    for unsupported in ["auto_join", "auto_join_scheme"] {
        if !text(unsupported)?.is_empty() {
            return Err(Error::invalid("auto_join is not supported: name a leader_api_addr"));
        }
    }
    let api_address = text("leader_api_addr")?.trim_end_matches('/').to_owned();
    if api_address.is_empty() {
        return Err(Error::invalid("missing leader_api_addr: the URL of a member's API"));
    }
    let (cert, key) = (text("leader_client_cert")?, text("leader_client_key")?);
    let target = JoinTarget {
        is_requested: true,
        api_address,
        ca_cert: text("leader_ca_cert")?,
        client_identity: (!cert.is_empty() && !key.is_empty()).then_some((cert, key)),
        token: text("token")?.into(),
        server_name: Some(text("leader_tls_servername")?).filter(|name| !name.is_empty()),
        wants: match fields.boolean("non_voter")?.unwrap_or(false) {
            true => MemberRole::Learner,
            false => MemberRole::Voter,
        },
    };
    if is_member_of_several(core)? {
        // Who asks again, as a hook of a pod does, has what it asks for; so Vault answers too.
        return Ok(joined());
    }
    core.join(target, request.now).await?;
    // A seal that opens by itself is enough to join at once; it is tried again when it does not answer.
    if let Err(error) = core.auto_unseal().await {
        tracing::error!(%error, "not joined yet; trying again");
        core.try_seal_again();
    }
    Ok(joined())
}

fn joined() -> Response {
    Response::Bare { code: OK, body: Json::object([("joined", true.into())]) }
}

/// Whether this server has keys and is not the only member. One that was initialised by itself is a cluster of its own, and is told that.
fn is_member_of_several(core: &Core) -> Result<bool, Error> {
    // Servers on a database join nobody, and are told so.
    let cluster = core.store.replicated().filter(|cluster| !cluster.shares_records());
    let members = cluster.map_or(0, |cluster| cluster.members().len());
    Ok(members > 1 && !core.is_removed() && !core.is_blank()?)
}

/// The cluster. A server whose storage replicates nothing has none of these routes.
fn cluster_of<'r>(run: &'r RouteCall<'_>) -> Result<&'r dyn Replicated, Error> {
    run.core.store.replicated().ok_or(Error::UnsupportedPath)
}

pub(super) async fn make_join_token(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    cluster::make_join_token(&run.context, run.call).await
}

pub(super) fn read_admission(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    cluster::read_admission(&run.context)
}

pub(super) async fn write_admission(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    cluster::write_admission(&run.context, run.call).await
}

pub(super) fn rotate_certificate(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    cluster::rotate_certificate(run.core, &run.context)
}

pub(super) async fn autopilot_state(run: &RouteCall<'_>) -> Result<Response, Error> {
    autopilot::state(run.core, &run.context, cluster_of(run)?).await
}

pub(super) fn read_autopilot(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    autopilot::read(&run.context)
}

pub(super) async fn write_autopilot(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    autopilot::write(&run.context, run.call).await
}

pub(super) async fn save(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    backup::save(run.core, &run.context).await
}

pub(super) async fn restore(run: &RouteCall<'_>, check: Check) -> Result<Response, Error> {
    cluster_of(run)?;
    let query = run.call.query_fields();
    if Fields::new(&query).boolean("check")?.unwrap_or(false) {
        return backup::begin_check(run.core, &run.context);
    }
    backup::begin(run.core, &run.context, check).await
}

pub(super) fn load(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    backup::loaded::begin(run.core, &run.context, run.call.now)
}

/// Loads a file of a schedule: the one that `url` names, or the last that was verified.
pub(super) async fn load_scheduled(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    let body = run.call.object()?;
    let url = Fields::new(&body).string("url")?.unwrap_or_default();
    let file = backup::schedule::file(&run.context, run.params.get("name"), &url)?;
    backup::loaded::load_scheduled(run.core, &run.context, file, run.call.now).await
}

pub(super) fn list_loaded(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    backup::loaded::list(run.core, run.call.now)
}

pub(super) fn read_loaded(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    backup::loaded::read(run.core, run.params.get("snapshot_id"), run.call.now)
}

pub(super) fn unload(run: &RouteCall<'_>) -> Result<Response, Error> {
    cluster_of(run)?;
    backup::loaded::unload(run.core, run.params.get("snapshot_id"))
}

/// The leader hands its place to another server; alone it stays.
pub(super) async fn step_down(core: &Core) -> Result<Response, Error> {
    if let Some(cluster) = core.store.replicated()
        && cluster.members().iter().filter(|member| member.role == MemberRole::Voter).count() > 1
    {
        cluster.transfer(None).await?;
    }
    Ok(Response::Empty)
}

pub(super) fn configuration(run: &RouteCall<'_>) -> Result<Response, Error> {
    Ok(members(run.core, cluster_of(run)?))
}

fn members(core: &Core, cluster: &dyn Replicated) -> Response {
    let leader = cluster.leadership().leader_id;
    let server = |member: &Member| {
        Json::object([
            ("address", member.peer.cluster_address.as_str().into()),
            ("leader", (member.peer.id == leader).into()),
            ("node_id", member_name(&member.peer).into()),
            ("protocol_version", "3".into()),
            ("voter", (member.role == MemberRole::Voter).into()),
        ])
    };
    let servers = Json::Array(cluster.members().iter().map(server).collect());
    let config = Json::object([("index", core.store.position().0.into()), ("servers", servers)]);
    let data = Json::object([("config", config)]).to_text();
    let warnings = if leader == 0 { vec![nobody_leads(core, cluster)] } else { Vec::new() };
    Response::Logical(Logical { data, warnings, ..Logical::default() })
}

/// What is said with the members that a server knows of while nobody leads.
fn nobody_leads(core: &Core, cluster: &dyn Replicated) -> String {
    let own = cluster.leadership().node_id;
    let silent = |member: &&Member| {
        member.peer.id != own && member.silent_ms.is_none_or(|silent| silent > SILENT_MS)
    };
    let members = cluster.members();
    let names: Vec<String> = members.iter().filter(silent).map(|m| member_name(&m.peer)).collect();
    let who = if names.is_empty() {
        "all of them".to_owned()
    } else {
        format!("all but {}", names.join(", "))
    };
    // What it has applied may be less than what it acknowledged: by this an operator chooses who goes on alone.
    let log_end = core.store.stats().raft.map(|raft| {
        format!(". Its log ends with term {}, at entry {}", raft.last_term, raft.last_index)
    });
    format!(
        "no server leads: these are the members as this server knows them; lately it heard {who}{}",
        log_end.unwrap_or_default()
    )
}

fn find(cluster: &dyn Replicated, call: &AuthorizedCall<'_, '_>) -> Result<Option<Member>, Error> {
    let body = call.object()?;
    let asked = Fields::new(&body).string("server_id")?.unwrap_or_default();
    if asked.is_empty() {
        return Err(Error::invalid("no server id provided"));
    }
    let is_asked = |member: &Member| {
        member_name(&member.peer) == asked || member_number(&member.peer) == asked
    };
    let mut found: Vec<Member> = cluster.members().into_iter().filter(is_asked).collect();
    if found.len() > 1 {
        let numbers: Vec<String> = found.iter().map(|one| member_number(&one.peer)).collect();
        return Err(Error::invalid(format!(
            "{} members are named {asked}: name one by its number, which are {}",
            found.len(),
            numbers.join(", ")
        )));
    }
    Ok(found.pop())
}

pub(super) async fn remove(run: &RouteCall<'_>) -> Result<Response, Error> {
    let (core, cluster, call) = (run.core, cluster_of(run)?, run.call);
    // First: what is refused moves no lead.
    cluster::check_own_records(cluster)?;
    // One that is no member is as gone as one that was removed.
    let Some(member) = find(cluster, call)? else { return Ok(Response::Empty) };
    let voters = cluster.members().iter().filter(|member| member.role == MemberRole::Voter).count();
    if member.role == MemberRole::Voter && voters == 1 {
        return Err(Error::invalid("the only voter cannot be removed"));
    }
    if member.peer.id == cluster.leadership().node_id {
        // Another server removes this one.
        cluster.transfer(None).await?;
        return Err(Error::NotLeader);
    }
    cluster::change(core, vec![MemberChange::Remove(member.peer.id)]).await?;
    Ok(Response::Empty)
}

pub(super) async fn set_role(run: &RouteCall<'_>, role: MemberRole) -> Result<Response, Error> {
    let (core, cluster, call) = (run.core, cluster_of(run)?, run.call);
    cluster::check_own_records(cluster)?;
    let member = find(cluster, call)?;
    let member = member.ok_or_else(|| Error::invalid("there is no such server"))?;
    let voters = cluster.members().iter().filter(|member| member.role == MemberRole::Voter).count();
    if role == MemberRole::Learner && member.role == MemberRole::Voter && voters == 1 {
        return Err(Error::invalid("the only voter cannot be demoted"));
    }
    if role == MemberRole::Learner && member.peer.id == cluster.leadership().node_id {
        cluster.transfer(None).await?;
        return Err(Error::NotLeader);
    }
    let peer = Peer { wants: role, ..member.peer };
    cluster::change(core, vec![MemberChange::Put(peer, role)]).await?;
    Ok(Response::Empty)
}
