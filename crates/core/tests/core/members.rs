//! The members of a cluster as operators see and change them, over a store that says who they are.

use kallisto_core::{Error, Json, Response};
use kallisto_store::{Member, MemberChange, Peer, Store};

use crate::member_site::{LEARNER, Site, VOTER, items, member, of, peer};

#[test]
fn the_members_are_listed_with_who_leads_and_who_votes() {
    let site = Site::of(vec![member(1, VOTER, None), member(2, LEARNER, Some(0))]);
    let (shown, warnings) = site.read("storage/raft/configuration");
    assert!(warnings.is_empty());
    let servers = items(of(&shown["config"], "servers"));
    let said =
        |name: &str| servers.iter().map(|server| of(server, name).clone()).collect::<Vec<_>>();
    assert_eq!(said("node_id"), ["node-1".into(), "node-2".into()]);
    assert_eq!(said("address"), ["10.0.0.1:8201".into(), "10.0.0.2:8201".into()]);
    assert_eq!(said("leader"), [true.into(), false.into()]);
    assert_eq!(said("voter"), [true.into(), false.into()]);
}

#[test]
fn while_nobody_leads_the_list_says_who_was_heard_lately() {
    let silent = |ms| [2, 3].map(|id| member(id, VOTER, ms));
    let said = |others: [Member; 2]| {
        let site = Site::of([vec![member(1, VOTER, None)], others.to_vec()].concat());
        *site.cluster.leader_id.lock().unwrap() = 0;
        let (shown, warnings) = site.read("storage/raft/configuration");
        let servers = items(of(&shown["config"], "servers"));
        assert!(servers.iter().all(|server| *of(server, "leader") == false.into()));
        let [warning] = warnings.try_into().unwrap();
        assert!(warning.starts_with("no server leads"), "{warning}");
        warning.split_once("lately it heard ").unwrap().1.to_owned()
    };
    assert_eq!(said(silent(Some(2_000))), "all of them");
    assert_eq!(said(silent(Some(2_001))), "all but node-2, node-3");
    let [mut two, three] = silent(Some(0));
    two.silent_ms = None;
    assert_eq!(said([two, three]), "all but node-2");
}

#[test]
fn a_member_is_removed_by_its_name_unless_nobody_would_vote() {
    let remove = |site: &Site, name: &str| {
        let body = format!(r#"{{"server_id":"{name}"}}"#);
        site.write("storage/raft/remove-peer", &body).map(|_| ())
    };
    let site = Site::of_voters(3);
    assert!(remove(&site, "node-2").is_ok());
    assert_eq!(site.asked(), (vec![MemberChange::Remove(2)], 0));
    assert!(remove(&site, "node-9").is_ok(), "it is gone");
    assert_eq!(remove(&site, ""), Err(Error::invalid("no server id provided")));
    assert_eq!(site.asked(), (vec![], 0));
    assert_eq!(remove(&site, "node-1"), Err(Error::NotLeader), "another removes it");
    assert_eq!(site.asked(), (vec![], 1));
    let site = Site::of(vec![member(1, VOTER, None), member(2, LEARNER, Some(0))]);
    let only = Err(Error::invalid("the only voter cannot be removed"));
    assert_eq!(remove(&site, "node-1"), only);
    assert_eq!(site.asked(), (vec![], 0));
    assert!(remove(&site, "node-2").is_ok());
    assert_eq!(site.asked(), (vec![MemberChange::Remove(2)], 0));
}

/// An earlier release let a member take the name of another.
#[test]
fn of_two_members_of_one_name_each_is_named_by_its_number() {
    let mut members: Vec<_> = (1..=3).map(|id| member(id, VOTER, Some(0))).collect();
    members[2].peer.name = "node-2".to_owned();
    let site = Site::of(members);
    let remove = |name: &str| {
        let body = format!(r#"{{"server_id":"{name}"}}"#);
        site.write("storage/raft/remove-peer", &body).map(|_| ())
    };
    let Err(Error::Invalid(why)) = remove("node-2") else { panic!("one of two was chosen") };
    assert!(why.contains("0000000000000002, 0000000000000003"), "{why}");
    let (state, _) = site.read("storage/raft/autopilot/state");
    assert_eq!(*of(of(&state["servers"], "0000000000000003"), "name"), "node-2".into());
    assert_eq!(site.asked(), (vec![], 0));
    assert!(remove("0000000000000003").is_ok());
    assert_eq!(site.asked(), (vec![MemberChange::Remove(3)], 0));
}

#[test]
fn members_are_promoted_and_demoted_unless_nobody_would_vote() {
    let set = |site: &Site, what: &str, name: &str| {
        let body = format!(r#"{{"server_id":"{name}"}}"#);
        site.write(&format!("storage/raft/{what}"), &body).map(|_| ())
    };
    let put = |id, role| vec![MemberChange::Put(Peer { wants: role, ..peer(id) }, role)];
    let site = Site::of_voters(3);
    assert!(set(&site, "demote", "node-2").is_ok());
    assert_eq!(site.asked(), (put(2, LEARNER), 0));
    assert!(set(&site, "promote", "node-1").is_ok());
    assert_eq!(site.asked(), (put(1, VOTER), 0));
    assert_eq!(set(&site, "demote", "node-1"), Err(Error::NotLeader), "another demotes it");
    assert_eq!(site.asked(), (vec![], 1));
    let unknown = Err(Error::invalid("there is no such server"));
    assert_eq!(set(&site, "promote", "node-9"), unknown);
    let site = Site::of(vec![member(1, VOTER, None), member(2, LEARNER, Some(0))]);
    let only = Err(Error::invalid("the only voter cannot be demoted"));
    assert_eq!(set(&site, "demote", "node-1"), only);
    assert!(set(&site, "demote", "node-2").is_ok());
    assert_eq!(site.asked(), (put(2, LEARNER), 0));
    assert!(set(&site, "promote", "node-2").is_ok());
    assert_eq!(site.asked(), (put(2, VOTER), 0));
}

#[test]
fn a_leader_steps_down_where_another_could_lead() {
    for (members, transfers) in [
        (vec![member(1, VOTER, None)], 0),
        (vec![member(1, VOTER, None), member(2, LEARNER, Some(0))], 0),
        (vec![member(1, VOTER, None), member(2, VOTER, Some(0))], 1),
        ((1..4).map(|id| member(id, VOTER, Some(0))).collect(), 1),
    ] {
        let count = members.len();
        let site = Site::of(members);
        assert!(site.write("step-down", "").is_ok());
        assert_eq!(site.asked(), (vec![], transfers), "{count}");
    }
}

#[test]
fn who_asks_to_join_what_it_is_a_member_of_has_what_it_asks_for() {
    let site = Site::of_voters(2);
    let join = |body: &str| site.write("storage/raft/join", body);
    let joined = |body: &str| match join(body) {
        Ok(Response::Bare { body, .. }) => *of(&body, "joined") == true.into(),
        other => panic!("{other:?}"),
    };
    let to = |text: &str| format!(r#"{{"leader_api_addr":"https://10.0.0.2:8200"{text}}}"#);
    assert!(joined(&to("")));
    let longest = "x".repeat(64 << 10);
    assert!(joined(&to(&format!(r#","leader_ca_cert":"{longest}""#))));
    let longer = to(&format!(r#","leader_ca_cert":"{longest}x""#));
    let over = Err(Error::invalid("leader_ca_cert is longer than 65536 bytes"));
    assert_eq!(join(&longer).map(|_| ()), over);
    for body in [r#"{"leader_api_addr":""}"#, "{}", r#"{"auto_join":"provider=aws"}"#] {
        assert!(matches!(join(body), Err(Error::Invalid(_))), "{body}");
    }
    for members in [1, 0] {
        let site = Site::of_voters(members);
        let body = r#"{"leader_api_addr":"https://10.0.0.2:8200"}"#;
        let answer = site.write("storage/raft/join", body);
        assert!(!matches!(answer, Ok(Response::Bare { .. })), "it has to join: {answer:?}");
    }
}

#[test]
fn autopilot_says_how_each_member_is_and_how_many_may_fail() {
    let mut behind = member(3, VOTER, Some(0));
    behind.matched = 0;
    let site = Site::of(vec![
        member(1, VOTER, None),
        member(2, VOTER, Some(9_999)),
        behind,
        member(4, VOTER, Some(10_000)),
        member(5, VOTER, None),
        member(6, LEARNER, Some(0)),
    ]);
    site.write("storage/raft/autopilot/configuration", r#"{"max_trailing_logs":0}"#).unwrap();
    let (state, _) = site.read("storage/raft/autopilot/state");
    let servers = &state["servers"];
    let said = |name: &str| {
        (1..=6).map(|id| of(of(servers, &format!("node-{id}")), name).clone()).collect::<Vec<_>>()
    };
    let healthy = [true, true, false, false, false, true];
    let found: Vec<bool> = said("healthy").iter().map(|one| *one == true.into()).collect();
    assert_eq!(found, healthy);
    let alive = healthy.map(|alive| Json::from(if alive { "alive" } else { "failed" }));
    assert_eq!(said("node_status"), alive);
    let of_voters = ["leader", "voter", "voter", "voter", "voter", "non-voter"];
    assert_eq!(said("status"), of_voters.map(Json::from));
    let kinds = ["voter", "voter", "voter", "voter", "voter", "non-voter"];
    assert_eq!(said("node_type"), kinds.map(Json::from));
    let position = Json::from(site.cluster.position().0);
    assert_eq!((&said("last_index")[0], &said("last_index")[2]), (&position, &0_u64.into()));
    assert_eq!(said("last_contact")[0], "0ms".into());
    assert_eq!(state["healthy"], false.into());
    assert_eq!(state["failure_tolerance"], 0_u64.into(), "two of five are healthy");
    assert_eq!(state["leader"], "node-1".into());
    assert_eq!(items(&state["voters"]).len(), 5);
    for (voters, tolerance) in [(1, 0_u64), (2, 0), (3, 1), (4, 1), (5, 2)] {
        let (state, _) = Site::of_voters(voters).read("storage/raft/autopilot/state");
        assert_eq!(state["failure_tolerance"], tolerance.into(), "{voters}");
        assert_eq!(state["healthy"], true.into());
    }
}

#[test]
fn everybody_is_told_who_leads_and_where() {
    let site = Site::of_voters(3);
    for (leader, is_self) in [(1, true), (2, false)] {
        *site.cluster.leader_id.lock().unwrap() = leader;
        let (told, _) = site.read("leader");
        assert_eq!((&told["ha_enabled"], &told["is_self"]), (&true.into(), &is_self.into()));
        assert_eq!(told["leader_address"], format!("https://10.0.0.{leader}:8200").into());
        let cluster = format!("https://10.0.0.{leader}:8201");
        assert_eq!(told["leader_cluster_address"], cluster.into());
    }
    *site.cluster.leader_id.lock().unwrap() = 0;
    let (told, _) = site.read("leader");
    assert_eq!(
        (&told["leader_address"], &told["leader_cluster_address"]),
        (&"".into(), &"".into())
    );
    *site.cluster.leader_id.lock().unwrap() = 1;
    let (status, _) = site.read("ha-status");
    let nodes = items(&status["nodes"]);
    let said = |name: &str| nodes.iter().map(|node| of(node, name).clone()).collect::<Vec<_>>();
    assert_eq!(said("active_node"), [true, false, false].map(Json::from));
    assert_eq!(said("hostname"), ["node-1", "node-2", "node-3"].map(Json::from));
    let at = [1, 2, 3].map(|id| Json::from(format!("https://10.0.0.{id}:8201")));
    assert_eq!(said("cluster_address"), at);
}
