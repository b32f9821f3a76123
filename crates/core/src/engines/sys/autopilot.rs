//! `sys/storage/raft/autopilot`: how the members are, and what is done about those that are gone.
//!
//! The settings are a record of the cluster's. What they do here: say when a member counts as healthy, and, if
//! `cleanup_dead_servers` is on, remove a member that was silent for too long, one at a time, as long as `min_quorum` voters
//! and a healthy majority stay. A member is promoted once it has caught up, whatever `server_stabilization_time` says; it is
//! kept for clients that set it.

use std::time::Duration;

use kallisto_store::{Member, MemberChange, MemberRole, Replicated};

use crate::api::Span;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::cluster;
use crate::cluster::quorum::{member_name, member_number};
use crate::cluster::report::MemberStatus;
use crate::metrics::observed::MemberHealth;
use crate::platform::cluster_port::MemberReport;
use crate::state::Core;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// The name of the settings' record.
const RECORD: &str = "raft/autopilot";
/// Least silence after which a server may be removed, in seconds.
const DEAD_SECS_MIN: i64 = 60;
/// Least `min_quorum` with which servers are removed.
const MIN_QUORUM_MIN: i64 = 3;

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AutopilotSettings {
    /// Whether servers that are gone are removed.
    removes_dead: bool,
    pub(super) silent_max: Span,
    dead_after: Span,
    max_trailing_logs: i64,
    min_quorum: i64,
    stabilization: Span,
}

fn secs(secs: i64) -> Span {
    Span::from_secs(secs).unwrap_or(Span::ZERO)
}

impl Default for AutopilotSettings {
    fn default() -> Self {
        Self {
            removes_dead: false,
            silent_max: secs(10),
            dead_after: secs(24 * 60 * 60),
            max_trailing_logs: 1000,
            min_quorum: 0,
            stabilization: secs(10),
        }
    }
}

impl AutopilotSettings {
    /// The settings of the cluster.
    pub(super) fn of(context: &NamespaceContext) -> Result<Self, Error> {
        let record = EngineStorage::builtin(context, MountId::SYSTEM)?.get(RECORD)?;
        let Some(record) = record else { return Ok(Self::default()) };
        let damaged = |_| Error::internal(&"the autopilot's settings are damaged");
        let map = json::parse_object(&record.value).map_err(damaged)?;
        Self::default().with(Fields::new(&map))
    }

    /// These settings with the fields that are given.
    fn with(self, fields: Fields<'_>) -> Result<Self, Error> {
        let at_least_zero = |name: &str, value: i64| match value {
            0.. => Ok(value),
            _ => Err(Error::invalid(format!("{name} must not be negative"))),
        };
        let span = |name: &str, kept: Span| {
            let span = fields.span(name)?.unwrap_or(kept);
            at_least_zero(name, span.nanos()).map(|_| span)
        };
        let count = |name: &str, kept: i64| at_least_zero(name, fields.int(name)?.unwrap_or(kept));
        let settings = Self {
            removes_dead: fields.boolean("cleanup_dead_servers")?.unwrap_or(self.removes_dead),
            silent_max: span("last_contact_threshold", self.silent_max)?,
            dead_after: span("dead_server_last_contact_threshold", self.dead_after)?,
            max_trailing_logs: count("max_trailing_logs", self.max_trailing_logs)?,
            min_quorum: count("min_quorum", self.min_quorum)?,
            stabilization: span("server_stabilization_time", self.stabilization)?,
        };
        if settings.removes_dead && settings.min_quorum < MIN_QUORUM_MIN {
            return Err(Error::invalid(format!(
                "min_quorum must be set when cleanup_dead_servers is set and it should at least be {MIN_QUORUM_MIN}"
            )));
        }
        if settings.dead_after.secs() < DEAD_SECS_MIN {
            return Err(Error::invalid(
                "dead_server_last_contact_threshold should not be set to less than 1m",
            ));
        }
        Ok(settings)
    }

    fn to_json(&self) -> Json {
        Json::object([
            ("cleanup_dead_servers", self.removes_dead.into()),
            ("dead_server_last_contact_threshold", self.dead_after.to_go().into()),
            ("last_contact_threshold", self.silent_max.to_go().into()),
            ("max_trailing_logs", self.max_trailing_logs.unsigned_abs().into()),
            ("min_quorum", self.min_quorum.unsigned_abs().into()),
            ("server_stabilization_time", self.stabilization.to_go().into()),
        ])
    }

    /// Whether a member was heard lately and has what the leader has.
    pub(super) fn finds_healthy(&self, member: &Member, own: u64, position: u64) -> bool {
        let trailing = position.saturating_sub(member.matched);
        member.peer.id == own
            || (silent_nanos(member).is_some_and(|silent| silent < self.silent_max.nanos())
                && trailing <= self.max_trailing_logs.unsigned_abs())
    }
}

/// How long ago a member was heard, in nanoseconds.
fn silent_nanos(member: &Member) -> Option<i64> {
    i64::try_from(member.silent_ms?).ok()?.checked_mul(1_000_000)
}

/// How long a member was silent towards the leader, which leads for `led`, in nanoseconds. Before, this server heard a member when that asked for votes, if
/// ever: nothing follows from that.
fn unheard_nanos(member: &Member, led: Duration) -> i64 {
    let led = i64::try_from(led.as_nanos()).unwrap_or(i64::MAX);
    silent_nanos(member).map_or(led, |silent| silent.min(led))
}

/// For how long this server leads, as far as was seen.
fn led(core: &Core) -> Duration {
    core.metrics.observed().led_for((core.stopwatch)()).unwrap_or_default()
}

/// `configuration`, read.
pub(super) fn read(context: &NamespaceContext) -> Result<Response, Error> {
    Ok(Response::data(&AutopilotSettings::of(context)?.to_json()))
}

/// `configuration`, written: what is not named stays.
pub(super) async fn write(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let settings = AutopilotSettings::of(context)?.with(Fields::new(&body))?;
    let storage = EngineStorage::builtin(context, MountId::SYSTEM)?;
    storage.put(RECORD, settings.to_json().to_text()).await?;
    Ok(Response::Empty)
}

/// Which of these members say that they are sealed. Such a one stores and votes, but answers nothing and cannot lead: whoever restarts servers one
/// after the other has to unseal it before the next.
async fn find_sealed(core: &Core, of: &[u64]) -> Vec<u64> {
    let (Some(port), false) = (&core.port, of.is_empty()) else {
        return Vec::new();
    };
    let reports = port.reports(of).await;
    let is_sealed = |report: &Option<MemberReport>| {
        let said = report.as_ref().and_then(|report| MemberStatus::parse(&report.body));
        said.is_some_and(|said| said.sealed == Some(true))
    };
    of.iter().zip(&reports).filter(|(_, report)| is_sealed(report)).map(|(id, _)| *id).collect()
}

/// The others that were heard lately and have what the leader has.
fn heard_others(cluster: &dyn Replicated, settings: &AutopilotSettings, position: u64) -> Vec<u64> {
    let own = cluster.leadership().node_id;
    let is_heard =
        |member: &Member| member.peer.id != own && settings.finds_healthy(member, own, position);
    let members = cluster.members();
    members.iter().filter(|member| is_heard(member)).map(|member| member.peer.id).collect()
}

/// Asks the members whether they are sealed, for [`health`]; a job of the leader. Whoever does not answer was heard just now, so it is waited for a
/// moment and not again and again.
///
/// # Errors
/// When the settings cannot be read.
pub(crate) async fn look_for_sealed(core: &Core, context: &NamespaceContext) -> Result<(), Error> {
    let Some(cluster) = core.store.replicated() else { return Ok(()) };
    let settings = AutopilotSettings::of(context)?;
    let others = heard_others(cluster, &settings, core.store.position().0);
    let sealed = find_sealed(core, &others).await;
    core.metrics.observe(|observed| observed.sealed = sealed);
    Ok(())
}

/// `state`.
pub(super) async fn state(
    core: &Core,
    context: &NamespaceContext,
    cluster: &dyn Replicated,
) -> Result<Response, Error> {
    let settings = AutopilotSettings::of(context)?;
    let leadership = cluster.leadership();
    let members = cluster.members();
    let position = core.store.position().0;
    let heard = |member: &Member| settings.finds_healthy(member, leadership.node_id, position);
    let others = heard_others(cluster, &settings, position);
    let sealed = find_sealed(core, &others).await;
    let healthy = |member: &Member| heard(member) && !sealed.contains(&member.peer.id);
    let voters: Vec<&Member> = members.iter().filter(|m| m.role == MemberRole::Voter).collect();
    let tolerance = tolerance(&members, cluster.shares_records(), healthy);
    let led = led(core);
    let mut servers = Map::new();
    for member in &members {
        let status = match (member.peer.id == leadership.leader_id, member.role) {
            (true, _) => "leader",
            (false, MemberRole::Voter) => "voter",
            (false, MemberRole::Learner) => "non-voter",
        };
        let index = match member.peer.id == leadership.node_id {
            true => position,
            false => member.matched,
        };
        let silent = match member.peer.id == leadership.node_id {
            true => 0,
            false => unheard_nanos(member, led) / 1_000_000,
        };
        let mut server = Json::object([
            ("id", member_name(&member.peer).into()),
            ("name", member_name(&member.peer).into()),
            ("address", member.peer.cluster_address.as_str().into()),
            ("node_status", if heard(member) { "alive" } else { "failed" }.into()),
            ("last_contact", format!("{silent}ms").into()),
            ("last_term", leadership.term.into()),
            ("last_index", index.into()),
            ("healthy", healthy(member).into()),
            ("status", status.into()),
            ("version", core.info.version.as_str().into()),
            (
                "node_type",
                if member.role == MemberRole::Voter { "voter" } else { "non-voter" }.into(),
            ),
        ]);
        if let (true, Json::Object(server)) = (sealed.contains(&member.peer.id), &mut server) {
            server.insert("sealed".to_owned(), true.into());
        }
        // Two of one name there may be where an earlier release let one in.
        let mut name = member_name(&member.peer);
        if servers.contains_key(&name) {
            name = member_number(&member.peer);
        }
        servers.insert(name, server);
    }
    let leader = members.iter().find(|member| member.peer.id == leadership.leader_id);
    Ok(Response::data(&Json::object([
        ("failure_tolerance", (tolerance as u64).into()),
        ("healthy", members.iter().all(healthy).into()),
        ("leader", leader.map(|member| member_name(&member.peer)).unwrap_or_default().into()),
        ("servers", Json::Object(servers)),
        (
            "voters",
            Json::Array(voters.iter().map(|member| member_name(&member.peer).into()).collect()),
        ),
    ])))
}

/// How the members are, for the metrics.
///
/// # Errors
/// When the settings cannot be read.
pub(crate) fn health(
    core: &Core,
    context: &NamespaceContext,
    cluster: &dyn Replicated,
) -> Result<MemberHealth, Error> {
    let settings = AutopilotSettings::of(context)?;
    let (own, position) = (cluster.leadership().node_id, core.store.position().0);
    let members = cluster.members();
    let sealed = core.metrics.observed().sealed;
    let is_healthy = |member: &Member| {
        settings.finds_healthy(member, own, position) && !sealed.contains(&member.peer.id)
    };
    let named = |member: &Member| (member_name(&member.peer), is_healthy(member));
    Ok(MemberHealth {
        is_healthy: members.iter().all(is_healthy),
        tolerance: tolerance(&members, cluster.shares_records(), is_healthy),
        servers: members.iter().map(named).collect(),
    })
}

fn tolerance(
    members: &[Member],
    shares_records: bool,
    is_healthy: impl Fn(&Member) -> bool,
) -> usize {
    let voters: Vec<&Member> = members.iter().filter(|m| m.role == MemberRole::Voter).collect();
    let healthy = voters.iter().filter(|member| is_healthy(member)).count();
    tolerated(voters.len(), healthy, shares_records)
}

/// How many of the healthy voters may fail before nobody leads. Of those that share the records of a database any one can lead alone; of
/// others it takes a majority.
pub(super) fn tolerated(voters: usize, healthy: usize, shares_records: bool) -> usize {
    healthy.saturating_sub(if shares_records { 1 } else { voters / 2 + 1 })
}

/// Removes a member that is gone, if the settings say so; a job of the leader.
///
/// # Errors
/// What the store says.
pub(crate) async fn clean_up(core: &Core, context: &NamespaceContext) -> Result<(), Error> {
    let Some(cluster) = core.store.replicated() else { return Ok(()) };
    let settings = AutopilotSettings::of(context)?;
    // Servers on a database come and go by themselves.
    if !settings.removes_dead || cluster.shares_records() {
        return Ok(());
    }
    let (own, position) = (cluster.leadership().node_id, core.store.position().0);
    let members = cluster.members();
    let gone = choose_gone(&members, &settings, own, position, led(core));
    let Some(gone) = gone else { return Ok(()) };
    cluster::change(core, vec![MemberChange::Remove(gone.peer.id)]).await?;
    tracing::warn!(
        server = member_name(&gone.peer),
        "removed a server that was silent for too long"
    );
    Ok(())
}

/// The member that may be removed: silent for too long, and the rest is enough without it.
fn choose_gone<'m>(
    members: &'m [Member],
    settings: &AutopilotSettings,
    own: u64,
    position: u64,
    led: Duration,
) -> Option<&'m Member> {
    let voters = members.iter().filter(|member| member.role == MemberRole::Voter);
    let healthy =
        voters.clone().filter(|member| settings.finds_healthy(member, own, position)).count();
    let voters = voters.count();
    members.iter().find(|member| {
        let silent = unheard_nanos(member, led);
        let left = voters - usize::from(member.role == MemberRole::Voter);
        let enough = left as u64 >= settings.min_quorum.unsigned_abs() && healthy > left / 2;
        let is_gone = member.peer.id != own && silent >= settings.dead_after.nanos();
        is_gone && (member.role == MemberRole::Learner || enough)
    })
}

#[cfg(test)]
mod tests {
    use kallisto_store::Peer;

    use super::*;

    fn settings(text: &str) -> Result<AutopilotSettings, Error> {
        let map = json::parse_object(text.as_bytes()).unwrap();
        AutopilotSettings::default().with(Fields::new(&map))
    }

    #[test]
    fn settings_come_back_and_bad_ones_are_refused() {
        let text = r#"{"cleanup_dead_servers":true,"min_quorum":3,"dead_server_last_contact_threshold":"2m"}"#;
        let made = settings(text).unwrap();
        let Json::Object(map) = made.to_json() else { panic!("no object") };
        assert_eq!(AutopilotSettings::default().with(Fields::new(&map)), Ok(made));
        for bad in [
            r#"{"cleanup_dead_servers":true}"#,
            r#"{"dead_server_last_contact_threshold":"59s"}"#,
            r#"{"max_trailing_logs":-1}"#,
            r#"{"last_contact_threshold":"-1s"}"#,
        ] {
            assert!(settings(bad).is_err(), "{bad}");
        }
    }

    fn chosen(members: &[Member], settings: &AutopilotSettings, led: u64) -> Option<u64> {
        let led = Duration::from_secs(led);
        choose_gone(members, settings, 1, 9, led).map(|member| member.peer.id)
    }

    fn member(id: u64, silent_ms: Option<u64>) -> Member {
        let peer = Peer { id, ..Peer::default() };
        Member { peer, role: MemberRole::Voter, matched: 9, silent_ms }
    }

    #[test]
    fn servers_on_a_database_need_no_majority() {
        let three = [1, 2, 3].map(|id| member(id, Some(0)));
        let tolerated = |shares, healthy: u64| tolerance(&three, shares, |m| m.peer.id <= healthy);
        assert_eq!([3, 2, 1, 0].map(|healthy| tolerated(false, healthy)), [1, 0, 0, 0]);
        assert_eq!([3, 2, 1, 0].map(|healthy| tolerated(true, healthy)), [2, 1, 0, 0]);
    }

    /// A follower hears of the others when there are elections. So what a leader knows of a member counts from when it began to lead.
    #[test]
    fn silence_counts_from_when_the_leader_began_to_lead() {
        let settings = settings(r#"{"cleanup_dead_servers":true,"min_quorum":3}"#).unwrap();
        let (now, day) = (Some(10), 24 * 60 * 60);
        let ago = |days: u64| Some(days * day * 1000);
        let of = |fourth| [member(1, None), member(2, now), member(3, now), member(4, fourth)];
        assert_eq!(chosen(&of(ago(3)), &settings, 5), None, "it voted three days ago");
        assert_eq!(chosen(&of(None), &settings, 5), None);
        assert_eq!(chosen(&of(None), &settings, day - 1), None);
        assert_eq!(chosen(&of(None), &settings, day), Some(4), "this leader never heard it");
        assert_eq!(chosen(&of(ago(1)), &settings, 2 * day), Some(4));
    }

    #[test]
    fn only_who_is_gone_is_removed_and_only_while_enough_stay() {
        let settings = settings(
            r#"{"cleanup_dead_servers":true,"min_quorum":3,"dead_server_last_contact_threshold":"60s"}"#,
        );
        let settings = settings.unwrap();
        let member = |id, silent_ms| member(id, Some(silent_ms));
        let gone = |members: &[Member]| chosen(members, &settings, 3600);
        let four = [member(1, 0), member(2, 10), member(3, 10), member(4, 60_000)];
        assert_eq!(gone(&four), Some(4));
        assert_eq!(gone(&four[..3]), None, "nobody is gone");
        assert_eq!(gone(&[member(1, 0), member(2, 10), member(4, 60_000)]), None, "too few");
        let split = [member(1, 0), member(2, 59_000), member(3, 59_000), member(4, 60_000)];
        assert_eq!(gone(&split), None, "no healthy majority stays");
        let five = [1, 2, 3, 4].map(|id| member(id, if id == 1 { 0 } else { 59_000 }));
        let five = [&five[..], &[member(5, 60_000)]].concat();
        assert_eq!(gone(&five), None, "one of four is no majority");
        let strict = AutopilotSettings { min_quorum: 5, ..settings };
        let well = [&[1, 2, 3, 4].map(|id| member(id, 0))[..], &[member(5, 60_000)]].concat();
        assert_eq!(chosen(&well, &strict, 3600), None, "four are fewer than are to stay");
        assert_eq!(gone(&well), Some(5));
    }
}
