//! What a leader and its followers know of the members, and what they do about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use kallisto_core::{Error, Json, Operation, Path, Request, Response};
use kallisto_store::{MemberChange, MemoryStore, Store};

use crate::member_site::{LEARNER, Port, Site, VOTER, items, member, of};
use crate::support::{TOKEN, data, request_of};

#[test]
fn autopilot_says_for_how_long_a_member_is_silent_but_no_longer_than_it_leads() {
    let members = vec![
        member(1, VOTER, None),
        member(2, VOTER, Some(2_500)),
        member(3, VOTER, None),
        member(4, VOTER, Some(900_000)),
    ];
    let site = Site::led_since(members, 100, 130);
    let (state, _) = site.read("storage/raft/autopilot/state");
    let contact = |id: u64| {
        let server = of(&state["servers"], &format!("node-{id}"));
        of(server, "last_contact").as_str().unwrap().to_owned()
    };
    assert_eq!([1, 2, 3, 4].map(contact), ["0ms", "2500ms", "30000ms", "30000ms"]);
}

#[test]
fn a_leader_says_since_when_it_leads_and_nobody_else_does() {
    let site = Site::led_since((1..4).map(|id| member(id, VOTER, Some(0))).collect(), 100, 130);
    let told = || {
        let path = Path::decode("sys/leader").unwrap();
        let now = Timestamp::from_second(1_000).unwrap();
        let asked = Request::new(Operation::Read, path, now);
        match pollster::block_on(site.core.handle(&asked)).unwrap() {
            Response::Bare { body: Json::Object(map), .. } => map.get("active_time").cloned(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(told(), Some("1970-01-01T00:16:10Z".into()), "30 seconds before");
    *site.cluster.leader_id.lock().unwrap() = 2;
    assert_eq!(told(), None);
}

#[test]
fn metrics_say_how_the_members_are() {
    let members = vec![
        member(1, VOTER, None),
        member(2, VOTER, Some(0)),
        member(3, VOTER, Some(0)),
        member(4, VOTER, Some(60_000)),
    ];
    let site = Site::led_since(members, 0, 1);
    let lines = site.metric_lines();
    for line in [
        "vault_autopilot_healthy 0",
        "vault_autopilot_failure_tolerance 0",
        "vault_autopilot_node_healthy{node_id=\"node-3\"} 1",
        "vault_autopilot_node_healthy{node_id=\"node-4\"} 0",
    ] {
        assert!(lines.iter().any(|known| known == line), "{line}");
    }
}

/// Removes it itself, where the settings say so and no operator does.
#[test]
fn a_leader_removes_who_is_silent_for_too_long_where_it_is_told_to() {
    let day = 24 * 60 * 60;
    let members = || {
        let mut all: Vec<_> = (1..=4).map(|id| member(id, VOTER, Some(0))).collect();
        all[3].silent_ms = Some(2 * day * 1_000);
        all
    };
    let removed = |settings: Option<&str>| {
        let site = Site::led_since(members(), 0, 3 * day);
        if let Some(settings) = settings {
            site.write("storage/raft/autopilot/configuration", settings).unwrap();
        }
        let later = Timestamp::from_second(60).unwrap();
        pollster::block_on(site.core.run_due_jobs(later)).unwrap();
        site.asked().0
    };
    assert_eq!(removed(None), []);
    assert_eq!(removed(Some(r#"{"min_quorum":3}"#)), []);
    let clean = r#"{"min_quorum":3,"cleanup_dead_servers":true}"#;
    assert_eq!(removed(Some(clean)), [MemberChange::Remove(4)]);
}

#[test]
fn a_learner_does_not_count_as_one_who_votes_when_members_change() {
    let members =
        vec![member(1, VOTER, None), member(2, VOTER, Some(0)), member(3, LEARNER, Some(0))];
    let site = Site::of(members);
    for what in ["remove-peer", "demote"] {
        let body = r#"{"server_id":"node-2"}"#;
        assert!(site.write(&format!("storage/raft/{what}"), body).is_ok(), "{what}");
        assert_eq!(site.asked().0.len(), 1);
    }
}

#[test]
fn the_cluster_is_shown_with_what_each_member_says_and_what_its_leader_knows() {
    let position = MemoryStore::new().position().0;
    let report = r#"{"sealed":false,"version":"9.9","applied":5,"term":7,"memory":77}"#;
    let said = vec![Some((report.to_owned(), 1_500)), None, Some((report.to_owned(), 2))];
    let port = Arc::new(Port { said, ..Port::default() });
    // What a leader sent to itself says nothing.
    let (mut own, mut behind) = (member(1, VOTER, None), member(2, VOTER, Some(0)));
    (own.matched, behind.matched) = (0, 0);
    let members = vec![own, behind, member(3, VOTER, Some(0)), member(4, LEARNER, Some(0))];
    let held = Arc::clone(&port);
    let site = Site::with(members, move |core| core.with_port(held));
    let (shown, _) = site.read("kallisto/cluster");
    assert_eq!(*port.asked.lock().unwrap(), [2, 3, 4], "all but itself");
    let members = items(&shown["members"]);
    let told = |name: &str| {
        members.iter().map(|one| one.as_object().unwrap().get(name)).collect::<Vec<_>>()
    };
    let text = |name: &str| {
        told(name)
            .iter()
            .map(|one| one.and_then(|one| one.as_str()).map(str::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        text("role"),
        ["leader", "voter", "voter", "learner"].map(|role| Some(role.to_owned()))
    );
    let yes_no = |all: [bool; 4]| all.map(Json::from);
    let flags = |name: &str| told(name).into_iter().flatten().cloned().collect::<Vec<_>>();
    assert_eq!(flags("answered"), yes_no([true, true, false, true]));
    assert_eq!(text("version")[1..], [Some("9.9".to_owned()), None, Some("9.9".to_owned())]);
    let trips = told("round_trip_ms");
    assert_eq!(trips[0], None, "it asked itself");
    assert_eq!(trips[1], Some(&Json::Number("1500.000".into())));
    let applied = shown["applied"].clone();
    assert_eq!(flags("behind"), [0_u64.into(), applied.clone(), 0_u64.into(), 0_u64.into()]);
    assert!(applied != position.into());
    assert_eq!(shown["failure_tolerance"], 1_u64.into(), "of three who vote");
    // Nobody else is asked where there is nobody else, and without a port.
    let alone = Arc::new(Port::default());
    let held = Arc::clone(&alone);
    let site = Site::with(vec![member(1, VOTER, None)], move |core| core.with_port(held));
    assert_eq!(items(&site.read("kallisto/cluster").0["members"]).len(), 1);
    assert!(alone.asked.lock().unwrap().is_empty());
    for (voters, tolerance) in [(1, 0_u64), (2, 0), (3, 1), (4, 1), (5, 2)] {
        let (shown, _) = Site::of_voters(voters).read("kallisto/cluster");
        assert_eq!(shown["failure_tolerance"], tolerance.into(), "{voters}");
    }
}

/// Nobody knows then what the others were sent: they are as far as they say, and as well as they answer.
#[test]
fn while_nobody_leads_the_others_are_believed_what_they_say_of_themselves() {
    let said = vec![Some((r#"{"applied":1}"#.to_owned(), 3)), None];
    let port = Arc::new(Port { said, ..Port::default() });
    let members = (1..=3).map(|id| member(id, VOTER, None)).collect();
    let site = Site::with(members, move |core| core.with_port(port));
    *site.cluster.leader_id.lock().unwrap() = 0;
    let (shown, _) = site.read("kallisto/cluster");
    let members = items(&shown["members"]);
    let told = |name: &str| members.iter().map(|one| of(one, name).clone()).collect::<Vec<_>>();
    assert_eq!(told("healthy"), [true, true, false].map(Json::from));
    assert_eq!(told("role"), ["voter", "voter", "voter"].map(Json::from));
    let Json::Number(applied) = &shown["applied"] else { panic!("no number") };
    let behind: u64 = applied.parse::<u64>().unwrap() - 1;
    assert_eq!(told("behind"), [0_u64.into(), behind.into(), 0_u64.into()]);
}

#[test]
fn a_standby_is_well_for_those_who_take_one_whatever_they_call_it() {
    let site = Site::of_voters(3);
    *site.cluster.leader_id.lock().unwrap() = 2;
    let code = |query: &[(&str, &str)]| {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let path = Path::decode("sys/health").unwrap();
        let asked = Request::new(Operation::Read, path, Timestamp::UNIX_EPOCH);
        let asked = Request { query: query.iter().map(own).collect(), ..asked };
        match pollster::block_on(site.core.handle(&asked)).unwrap() {
            Response::Bare { code, .. } => code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code(&[]), 429);
    for query in [&[("standbyok", "true")][..], &[("perfstandbyok", "true")]] {
        assert_eq!(code(query), 200, "{query:?}");
    }
    assert_eq!(code(&[("standbyok", "false")]), 429);
}

#[test]
fn a_certificate_is_shown_to_whom_one_joins_with_its_key_or_not_at_all() {
    let port = Arc::<Port>::default();
    let held = Arc::clone(&port);
    let site = Site::blank(vec![member(1, VOTER, None)], move |core| core.with_port(held));
    // Attempts are made some seconds apart.
    let clock = AtomicI64::new(0);
    let target = |more: &str| {
        let now = Timestamp::from_second(clock.fetch_add(10, Ordering::SeqCst)).unwrap();
        let body = format!(r#"{{"leader_api_addr":"https://10.0.0.2:8200/"{more}}}"#);
        let path = Path::decode("sys/storage/raft/join").unwrap();
        let asked = Request::new(Operation::Update, path, now);
        let asked = Request { body: body.as_bytes(), ..asked };
        let refused = pollster::block_on(site.core.handle(&asked));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        port.targets.lock().unwrap().pop().unwrap()
    };
    let plain = target("");
    assert_eq!((plain.client_identity, plain.server_name), (None, None));
    assert_eq!((plain.api_address.as_str(), plain.wants), ("https://10.0.0.2:8200", VOTER));
    let both = target(r#","leader_client_cert":"c","leader_client_key":"k""#);
    assert_eq!(both.client_identity, Some(("c".to_owned(), "k".to_owned())));
    for half in [r#","leader_client_cert":"c""#, r#","leader_client_key":"k""#] {
        assert_eq!(target(half).client_identity, None, "{half}");
    }
    let named = target(r#","leader_tls_servername":"node","non_voter":true"#);
    assert_eq!((named.server_name.as_deref(), named.wants), (Some("node"), LEARNER));
}

#[test]
fn what_every_server_does_is_overdue_at_a_follower_too_and_a_leaders_work_is_not() {
    let site = Site::led_since((1..4).map(|id| member(id, VOTER, Some(0))).collect(), 0, 0);
    let overdue = |name: &str| {
        let late = request_of(TOKEN, 100_000, Operation::Read, "sys/internal/jobs", "");
        let told = data(pollster::block_on(site.core.handle(&late)));
        of(of(&told["key_info"], name), "overdue").clone()
    };
    let both = ["history", "dead_server_cleanup"];
    assert_eq!(both.map(overdue), [true.into(), true.into()]);
    *site.cluster.leader_id.lock().unwrap() = 2;
    assert_eq!(both.map(overdue), [true.into(), false.into()]);
}

/// Three who vote; the third says that it is sealed.
fn with_one_sealed() -> Site {
    let says = |sealed: bool| Some((format!(r#"{{"sealed":{sealed}}}"#), 1));
    let port = Arc::new(Port { said: vec![says(false), says(true)], ..Port::default() });
    let members = (1..=3).map(|id| member(id, VOTER, Some(0))).collect();
    Site::with(members, move |core| core.with_port(port))
}

#[test]
fn a_member_that_is_sealed_is_not_healthy() {
    let site = with_one_sealed();
    let (state, _) = site.read("storage/raft/autopilot/state");
    let said = |id: u64, name: &str| of(of(&state["servers"], &format!("node-{id}")), name).clone();
    assert_eq!([1, 2, 3].map(|id| said(id, "healthy")), [true, true, false].map(Json::from));
    assert_eq!(said(3, "node_status"), "alive".into(), "it is heard");
    assert_eq!(said(3, "sealed"), true.into(), "why it is not healthy");
    assert_eq!((&state["healthy"], &state["failure_tolerance"]), (&false.into(), &0_u64.into()));
    let (page, _) = site.read("kallisto/cluster");
    assert_eq!((&page["healthy"], &page["failure_tolerance"]), (&false.into(), &0_u64.into()));
}

#[test]
fn metrics_count_a_member_that_is_sealed_as_not_healthy() {
    let site = with_one_sealed();
    // Another job fails: this port makes no certificates.
    let _ = pollster::block_on(site.core.run_due_jobs(Timestamp::UNIX_EPOCH));
    let lines = site.metric_lines();
    for line in [
        "vault_autopilot_healthy 0",
        "vault_autopilot_failure_tolerance 0",
        "vault_autopilot_node_healthy{node_id=\"node-2\"} 1",
        "vault_autopilot_node_healthy{node_id=\"node-3\"} 0",
    ] {
        assert!(lines.iter().any(|known| known == line), "{line}");
    }
}
