//! `sys/kallisto/cluster`: every member as it is now, gathered by the server that is asked; and `sys/kallisto/metrics`, the hour that this
//! server remembers.
//!
//! A page may ask its own origin only, so the server asks the others, over the cluster port, all at once. Who does not answer in time is
//! shown with what the leader knows of it. What is worth a look is told as `alerts`, in words.

use jiff::{SignedDuration, Timestamp};
use kallisto_store::{Leadership, Member, MemberRole};

use super::autopilot::{AutopilotSettings, tolerated};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::cluster::quorum::member_name;
use crate::cluster::report::{self, MemberStatus};
use crate::dispatch::route_handler::RouteCall;
use crate::metrics::history::EventKind;
use crate::platform::cluster_port::MemberReport;

/// A clock that differs by more is told of.
const CLOCK_MS_MAX: i64 = 500;
/// A disk with less free of a hundred parts is told of.
const FREE_PERCENT_MIN: u64 = 15;
/// Minutes of an hour, which is all that is kept.
const MINUTES_MAX: i64 = 60;

/// A member, with what it and the leader say of it.
struct Described<'a> {
    member: &'a Member,
    /// What it said; `None` if it did not answer.
    said: Option<MemberStatus>,
    /// Until it had answered, in milliseconds; `None` of this server itself.
    round_trip_ms: Option<f64>,
    is_healthy: bool,
    /// Entries that it has to catch up.
    behind: u64,
}

/// Answers `GET sys/kallisto/cluster`.
///
/// # Errors
/// [`Error::UnsupportedPath`] where storage has no members.
pub(super) async fn read(run: &RouteCall<'_>) -> Result<Response, Error> {
    let (core, now) = (run.core, run.call.now);
    let cluster = core.store.replicated().ok_or(Error::UnsupportedPath)?;
    let settings = AutopilotSettings::of(&run.context)?;
    let members = cluster.members();
    let leadership = cluster.leadership();
    let others: Vec<u64> =
        members.iter().map(|one| one.peer.id).filter(|id| *id != leadership.node_id).collect();
    let mut answers = match &core.port {
        Some(port) if !others.is_empty() => port.reports(&others).await,
        _ => Vec::new(),
    }
    .into_iter();
    let position = core.store.position().0;
    let described: Vec<Described<'_>> = members
        .iter()
        .map(|member| {
            let is_own = member.peer.id == leadership.node_id;
            let answer = if is_own { None } else { answers.next().flatten() };
            let said = match (is_own, &answer) {
                (true, _) => Some(report::own(core, now)),
                (false, Some(answer)) => MemberStatus::parse(&answer.body),
                (false, None) => None,
            };
            describe(member, &settings, &leadership, position, said, answer.as_ref())
        })
        .collect();
    let own_version = core.info.release.as_str();
    let shown = described.iter().map(|one| show(one, &leadership, own_version, now)).collect();
    let voters = || described.iter().filter(|one| one.member.role == MemberRole::Voter);
    // One that is sealed stores and votes, but answers nothing and cannot lead.
    let is_sealed =
        |one: &Described<'_>| one.said.as_ref().is_some_and(|said| said.sealed == Some(true));
    let is_well = |one: &Described<'_>| one.is_healthy && !is_sealed(one);
    let healthy = voters().filter(|one| is_well(one)).count();
    let tolerance = tolerated(voters().count(), healthy, cluster.shares_records());
    let events = core.metrics.history.events().into_iter().map(|event| {
        Json::object([
            ("time", event.time.to_string().into()),
            (
                "kind",
                match event.kind {
                    EventKind::Change => "change",
                    EventKind::Warning => "warning",
                }
                .into(),
            ),
            ("text", event.text.into()),
        ])
    });
    Ok(Response::data(&Json::object([
        ("members", Json::Array(shown)),
        ("failure_tolerance", (tolerance as u64).into()),
        ("healthy", described.iter().all(is_well).into()),
        ("term", leadership.term.into()),
        ("applied", position.into()),
        ("events", Json::Array(events.collect())),
    ])))
}

fn describe<'a>(
    member: &'a Member,
    settings: &AutopilotSettings,
    leadership: &Leadership,
    position: u64,
    said: Option<MemberStatus>,
    answer: Option<&MemberReport>,
) -> Described<'a> {
    let applied = said.as_ref().and_then(|said| said.applied);
    // The leader knows what it has sent; where nobody leads, members have to be believed.
    let is_healthy = match leadership.is_mine() {
        true => settings.finds_healthy(member, leadership.node_id, position),
        false => said.is_some(),
    };
    let reached = match leadership.is_mine() && member.peer.id != leadership.node_id {
        true => member.matched,
        false => applied.unwrap_or(position),
    };
    Described {
        member,
        round_trip_ms: answer.map(|answer| answer.round_trip.as_secs_f64() * 1e3),
        is_healthy,
        behind: position.saturating_sub(reached),
        said,
    }
}

fn show(one: &Described<'_>, leadership: &Leadership, own_version: &str, now: Timestamp) -> Json {
    let Described { member, said, .. } = one;
    let role = match (member.peer.id == leadership.leader_id, member.role) {
        (true, _) => "leader",
        (false, MemberRole::Voter) => "voter",
        (false, MemberRole::Learner) => "learner",
    };
    let mut shown = Map::new();
    let mut put = |name: &str, value: Option<Json>| {
        if let Some(value) = value {
            shown.insert(name.to_owned(), value);
        }
    };
    put("id", Some(member_name(&member.peer).into()));
    put("address", Some(member.peer.cluster_address.as_str().into()));
    put("api_address", Some(member.peer.api_address.as_str().into()));
    put("role", Some(role.into()));
    put("healthy", Some(one.is_healthy.into()));
    put("answered", Some(said.is_some().into()));
    put("behind", Some(one.behind.into()));
    put("round_trip_ms", one.round_trip_ms.map(millis));
    put("silent_ms", member.silent_ms.map(Json::from));
    let alerts = alerts(one, own_version, now);
    put("alerts", Some(Json::strings(alerts.iter().map(String::as_str))));
    if let Some(said) = said {
        put("sealed", said.sealed.map(Json::from));
        put("version", said.version.as_deref().map(Json::from));
        put("uptime", said.uptime.map(Json::from));
        put("term", said.term.map(Json::from));
        put("applied", said.applied.map(Json::from));
        put("memory", said.memory.map(Json::from));
        put("clock_ms", clock_ms(one, now).map(Json::from));
        put("disk", said.disk.map(report::disk));
    }
    shown.into()
}

/// How far a member's clock is ahead of this server's, as well as the way of the answer lets one say; 0 of this server.
fn clock_ms(one: &Described<'_>, now: Timestamp) -> Option<i64> {
    let theirs = one.said.as_ref()?.clock_ms?;
    let way = one.round_trip_ms.map_or(0, |trip| (trip / 2.0) as i64);
    Some(theirs.saturating_sub(now.as_millisecond()).saturating_sub(way))
}

/// What is worth a look, in words.
fn alerts(one: &Described<'_>, own_version: &str, now: Timestamp) -> Vec<String> {
    let Some(said) = &one.said else { return vec!["does not answer".to_owned()] };
    let mut told = Vec::new();
    if said.sealed == Some(true) {
        told.push("is sealed".to_owned());
    }
    if let Some(off) = clock_ms(one, now).filter(|off| off.saturating_abs() > CLOCK_MS_MAX) {
        let way = if off > 0 { "ahead" } else { "behind" };
        told.push(format!("its clock is {} ms {way}", off.saturating_abs()));
    }
    if let Some((free, total)) = said.disk
        && free.saturating_mul(100) < total.saturating_mul(FREE_PERCENT_MIN)
    {
        told.push(format!("{} MiB of its disk are free", free >> 20));
    }
    if let Some(version) = said.version.as_deref().filter(|version| *version != own_version) {
        told.push(format!("it runs version {version}, not {own_version}"));
    }
    told
}

fn millis(ms: f64) -> Json {
    Json::Number(format!("{ms:.3}").into())
}

/// Answers `GET sys/kallisto/metrics`.
///
/// # Errors
/// [`Error::Invalid`] for minutes that are none.
pub(super) fn history(run: &RouteCall<'_>) -> Result<Response, Error> {
    let query = run.call.query_fields();
    let minutes = Fields::new(&query).int("minutes")?.unwrap_or(MINUTES_MAX);
    if !(1..=MINUTES_MAX).contains(&minutes) {
        return Err(Error::invalid(format!("minutes must be from 1 to {MINUTES_MAX}")));
    }
    let since = run.call.now.checked_sub(SignedDuration::from_mins(minutes));
    let since = since.map_err(|error| Error::internal(&error))?;
    Ok(Response::data(&run.core.metrics.history.since(since)))
}

#[cfg(test)]
mod tests {
    use kallisto_store::Peer;

    use super::*;

    fn told(said: Option<MemberStatus>, round_trip_ms: f64) -> Vec<String> {
        let peer = Peer { id: 2, ..Peer::default() };
        let member = Member { peer, role: MemberRole::Voter, matched: 9, silent_ms: Some(1) };
        let round_trip_ms = Some(round_trip_ms);
        let one = Described { member: &member, said, round_trip_ms, is_healthy: true, behind: 0 };
        alerts(&one, "1.0", Timestamp::from_second(100).unwrap())
    }

    #[test]
    fn what_is_worth_a_look_is_told_and_nothing_else() {
        let well = MemberStatus {
            sealed: Some(false),
            version: Some("1.0".to_owned()),
            clock_ms: Some(100_400),
            disk: Some((50, 100)),
            ..MemberStatus::default()
        };
        assert_eq!(told(Some(well.clone()), 10.0), Vec::<String>::new());
        assert_eq!(told(None, 0.0), ["does not answer"]);
        let off = |clock_ms| MemberStatus { clock_ms: Some(clock_ms), ..well.clone() };
        assert_eq!(told(Some(off(98_000)), 1000.0), ["its clock is 2500 ms behind"]);
        assert_eq!(told(Some(off(102_000)), 1000.0), ["its clock is 1500 ms ahead"]);
        assert_eq!(told(Some(off(100_500)), 0.0), [""; 0], "as far off as it may be");
        let enough = MemberStatus { disk: Some((15 << 20, 100 << 20)), ..well.clone() };
        assert_eq!(told(Some(enough), 0.0), [""; 0], "as little as there may be");
        let full = MemberStatus {
            sealed: Some(true),
            version: Some("0.9".to_owned()),
            disk: Some((14 << 20, 100 << 20)),
            clock_ms: None,
            ..well
        };
        let wanted = ["is sealed", "14 MiB of its disk are free", "it runs version 0.9, not 1.0"];
        assert_eq!(told(Some(full), 0.0), wanted);
    }
}
