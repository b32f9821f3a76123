//! The table against the obvious structure, and what it promises about memory.

use std::collections::BTreeMap;

use super::*;
use crate::record::LeaseState;
use crate::record::tests::record;

const NAMESPACES: u32 = 3;
const MOUNTS: u32 = 4;

const ALL: [LeasePhase; 4] =
    [LeasePhase::Pending, LeasePhase::Live, LeasePhase::Revoking, LeasePhase::Irrevocable];

type Model = BTreeMap<(u32, LeaseId), LeaseRecord>;

const PATHS: [&str; 9] =
    ["a", "a-b", "a/b", "a/b/c", "a/b0", "b", "b/creds/r", "b/creds/r-2", "b/x"];
const PREFIXES: [&str; 10] =
    ["", "a", "a/b", "a/", "b", "b/creds", "b/creds/r", "c", "a-", "b/creds/r/x"];

fn make(random: &mut fastrand::Rng) -> (u32, LeaseRecord) {
    let mut lease = record(random.choice(PATHS).unwrap());
    let number = random.u32(..12);
    lease.id = LeaseId::new(lease.id.path(), &format!("{number:024}")).unwrap();
    lease.mount = random.u32(..MOUNTS);
    let [owners, byte] = [random.u8(..4), random.u8(..2)];
    // Some share all bytes but the last.
    lease.owner = (owners > 0).then(|| {
        let mut hash = [owners; 32];
        hash[31] = byte;
        Owner { namespace: 0, hash }
    });
    lease.term.expires_ns = random.i64(..1000);
    lease.state = match random.u8(..4) {
        0 => LeaseState::Pending,
        1 => LeaseState::Revoking { attempts: 1, next_try_ns: random.i64(..1000) },
        2 => LeaseState::irrevocable("no"),
        _ => LeaseState::Live,
    };
    (random.u32(..NAMESPACES), lease)
}

fn locate(namespace: u32, record: &LeaseRecord) -> Located {
    Located { namespace, mount: record.mount, id: record.id.clone(), phase: record.state.phase() }
}

fn sorted(mut all: Vec<Located>) -> Vec<Located> {
    all.sort_by(|a, b| (a.namespace, &a.id).cmp(&(b.namespace, &b.id)));
    all
}

/// The leases of the model for which `holds`, in the order of [`sorted`].
fn of_model(model: &Model, holds: impl Fn(u32, &LeaseRecord) -> bool) -> Vec<Located> {
    let all = model.iter().filter(|((namespace, _), record)| holds(*namespace, record));
    all.map(|((namespace, _), record)| locate(*namespace, record)).collect()
}

fn is_below(path: &str, prefix: &str) -> bool {
    let rest = path.strip_prefix(prefix);
    prefix.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn check(table: &LeaseTable, model: &Model, random: &mut fastrand::Rng) {
    assert_eq!(table.len(), model.len());
    assert_eq!(table.is_empty(), model.is_empty());
    for mount in 0..MOUNTS {
        let due = table.of_mount(mount, usize::MAX);
        let times: Vec<_> =
            due.iter().map(|lease| model[&(lease.namespace, lease.id.clone())].due_ns()).collect();
        assert!(times.is_sorted() && times.iter().all(Option::is_some));
        let expected = of_model(model, |_, lease| lease.mount == mount && lease.due_ns().is_some());
        assert_eq!(sorted(due), expected);
        let irrevocable =
            of_model(model, |_, lease| lease.mount == mount && lease.due_ns().is_none());
        assert_eq!(sorted(table.irrevocable_of(mount, usize::MAX)), irrevocable);
        let revoking = of_model(model, |_, lease| {
            lease.mount == mount && lease.state.phase() == LeasePhase::Revoking
        });
        let counts = LeaseCounts {
            all: expected.len() + irrevocable.len(),
            revoking: revoking.len(),
            irrevocable: irrevocable.len(),
        };
        assert_eq!(table.counts.get(&mount).copied().unwrap_or_default(), counts);
        let now = random.i64(..1200);
        let due_at = of_model(model, |_, lease| {
            lease.mount == mount && lease.due_ns().is_some_and(|due| due <= now)
        });
        assert_eq!(sorted(table.due_at(mount, now).collect()), due_at);
    }
    check_owners(table, model, random);
    for namespace in 0..NAMESPACES {
        for prefix in PREFIXES {
            let expected =
                of_model(model, |at, lease| at == namespace && is_below(lease.id.path(), prefix));
            let limit = random.usize(1..20);
            assert_eq!(sorted(walk(table, namespace, prefix, limit)), expected, "{prefix}");
            check_list(table, model, namespace, prefix);
        }
    }
}

/// A whole walk in steps of `limit`.
fn walk(table: &LeaseTable, namespace: u32, prefix: &str, limit: usize) -> Vec<Located> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let (found, next) = table.below(namespace, prefix, cursor.as_ref(), limit);
        assert!(found.len() <= limit);
        all.extend(found);
        cursor = next;
        if cursor.is_none() {
            return all;
        }
    }
}

fn check_owners(table: &LeaseTable, model: &Model, random: &mut fastrand::Rng) {
    let mut owners: Vec<Owner> = model.values().filter_map(|lease| lease.owner).collect();
    owners.sort_unstable();
    owners.dedup();
    for owner in &owners {
        assert!(table.may_own(&owner.hash));
        for phases in [&ALL[..], &ALL[..2], &ALL[3..]] {
            let expected = of_model(model, |_, lease| {
                lease.owner.is_some_and(|its| its.hash == owner.hash)
                    && phases.contains(&lease.state.phase())
            });
            assert_eq!(sorted(table.owned_by(&owner.hash, phases, usize::MAX)), expected);
        }
        assert_eq!(table.owned_by(&owner.hash, &ALL, 1).len(), 1);
    }
    assert!(table.owned_by(&[99; 32], &ALL, 1).is_empty() && !table.may_own(&[99; 32]));
    let (mut met, mut after) = (Vec::new(), None);
    while let Some((owners, last)) = table.owners(after, random.usize(1..9)) {
        met.extend(owners);
        after = Some(last);
    }
    met.sort_unstable();
    assert_eq!(met, owners);
}

fn check_list(table: &LeaseTable, model: &Model, namespace: u32, folder: &str) {
    if folder.ends_with('/') {
        return;
    }
    let inside = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let mut expected = Vec::new();
    for (at, id) in model.keys() {
        let Some(rest) = id.as_str().strip_prefix(&inside).filter(|_| *at == namespace) else {
            continue;
        };
        expected.push(match rest.split_once('/') {
            Some((segment, _)) => format!("{segment}/"),
            None => rest.to_owned(),
        });
    }
    expected.sort_unstable();
    expected.dedup();
    let mut found = table.list(namespace, folder, usize::MAX);
    found.sort_unstable();
    assert_eq!(found, expected, "{folder}");
}

#[test]
fn the_table_equals_a_map_of_records() {
    for seed in 0..4 {
        let mut random = fastrand::Rng::with_seed(20261123 + seed);
        let mut table = LeaseTable::new(SipKey::from_bytes([2; 16]));
        let mut model = Model::new();
        for step in 0..1500 {
            let (namespace, lease) = make(&mut random);
            // Tables that grow, shrink to nothing, and grow again.
            let puts = if step / 300 % 2 == 0 { 8 } else { 2 };
            if random.u8(..10) < puts {
                assert!(table.put(namespace, &lease));
                model.insert((namespace, lease.id.clone()), lease.clone());
                assert!(table.put(namespace, &lease), "idempotent");
            } else {
                let was_there = model.remove(&(namespace, lease.id.clone())).is_some();
                assert_eq!(table.remove(namespace, &lease.id), was_there);
                assert!(!table.remove(namespace, &lease.id), "idempotent");
            }
            let found = table.find(namespace, lease.id.as_str());
            let expected = model.get(&(namespace, lease.id.clone()));
            assert_eq!(found, expected.map(|lease| locate(namespace, lease)));
            if step % 50 == 0 {
                check(&table, &model, &mut random);
            }
        }
        for (namespace, id) in model.keys() {
            assert!(table.remove(*namespace, id));
        }
        check(&table, &Model::new(), &mut random);
        table.clear();
        assert_eq!(table.mounts().count(), 0);
    }
}

#[test]
fn a_walk_that_removes_and_changes_what_it_meets_meets_everything_once() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..50 {
        let mut table = LeaseTable::new(SipKey::from_bytes([3; 16]));
        let mut model = Model::new();
        for _ in 0..200 {
            let (_, lease) = make(&mut random);
            assert!(table.put(0, &lease));
            model.insert((0, lease.id.clone()), lease);
        }
        let expected = of_model(&model, |_, lease| is_below(lease.id.path(), "a"));
        let (mut met, mut cursor) = (Vec::new(), None);
        loop {
            let (found, next) = table.below(0, "a", cursor.as_ref(), 3);
            for lease in found {
                match random.bool() {
                    true => assert!(table.remove(0, &lease.id)),
                    false => {
                        let mut changed = model[&(0, lease.id.clone())].clone();
                        changed.term.expires_ns += 500;
                        assert!(table.put(0, &changed));
                    }
                }
                met.push(lease);
            }
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(sorted(met), expected);
    }
}

#[test]
fn a_table_of_gathered_records_equals_one_of_records_put() {
    let mut random = fastrand::Rng::with_seed(8);
    let mut model = Model::new();
    for _ in 0..400 {
        let (namespace, lease) = make(&mut random);
        model.insert((namespace, lease.id.clone()), lease);
    }
    let mut table = LeaseTable::new(SipKey::from_bytes([6; 16]));
    let mut gathered = GatheredLeases::default();
    for ((namespace, id), lease) in &model {
        assert!(table.gather(*namespace, lease, &mut gathered));
        assert!(!table.gather(*namespace, lease, &mut gathered), "it came before");
        assert!(table.find(*namespace, id.as_str()).is_some());
    }
    table.settle(gathered);
    check(&table, &model, &mut random);
}

#[test]
fn a_lease_that_ends_at_the_end_of_time_is_no_irrevocable_one() {
    let mut table = LeaseTable::new(SipKey::from_bytes([5; 16]));
    let mut lease = record("database/creds/r");
    lease.term.expires_ns = i64::MAX;
    assert!(table.put(0, &lease));
    assert_eq!(
        (table.of_mount(lease.mount, 9).len(), table.irrevocable_of(lease.mount, 9).len()),
        (1, 0)
    );
}

#[test]
fn ids_that_are_none_are_not_found() {
    let mut table = LeaseTable::new(SipKey::from_bytes([4; 16]));
    let lease = record("database/creds/r");
    assert!(table.put(5, &lease));
    assert!(table.find(5, lease.id.as_str()).is_some());
    let long = "a/".repeat(ID_BYTES_MAX);
    for (namespace, id) in
        [(4, lease.id.as_str()), (5, ""), (5, "/"), (5, "database/creds/r/"), (5, &long)]
    {
        assert_eq!(table.find(namespace, id), None);
    }
}

#[test]
fn a_lease_that_waits_is_due_later_until_its_record_changes() {
    let mut table = LeaseTable::new(SipKey::from_bytes([5; 16]));
    let mut record = crate::record::tests::record("db/creds/r").to_revoking(10);
    let lease = locate(0, &record);
    assert!(table.put(0, &record));
    table.postpone(&lease, 50);
    assert_eq!(table.due_at(record.mount, 49).count(), 0);
    assert_eq!(table.due_at(record.mount, 50).count(), 1);
    assert!(table.put(0, &record));
    assert_eq!(table.due_at(record.mount, 10).count(), 1);
    table.postpone(&lease, 50);
    assert!(table.remove(0, &record.id));
    assert_eq!(table.due_at(record.mount, i64::MAX).count(), 0);
    // What has ended, or never ends, has nothing to wait for.
    table.postpone(&lease, 50);
    record.state = LeaseState::irrevocable("no");
    assert!(table.put(0, &record));
    table.postpone(&lease, 50);
    assert_eq!(table.due_at(record.mount, i64::MAX).count(), 0);
}

#[test]
fn leases_are_counted_by_how_their_paths_begin_up_to_a_limit() {
    let mut table = LeaseTable::new(SipKey::from_bytes([3; 16]));
    for (namespace, path, leases) in [
        (0, "a/creds/r", 3),
        (0, "a/creds/s", 2),
        (0, "a/keys/r", 1),
        (0, "b/creds/r", 5),
        (1, "a/creds/r", 7),
    ] {
        for number in 0..leases {
            let mut lease = record(path);
            lease.id = LeaseId::new(path, &format!("{number:024}")).unwrap();
            assert!(table.put(namespace, &lease));
        }
    }
    let count = |prefix, limit| table.count_at(0, prefix, limit, |_| true);
    assert_eq!((count("", 100), count("a/", 100), count("a/creds", 100)), (11, 6, 5));
    assert_eq!((count("c", 100), table.count_at(2, "", 100, |_| true)), (0, 0));
    assert_eq!((count("", 0), count("", 1), count("", 3), count("", 4)), (0, 3, 3, 5));
    assert_eq!(table.count_at(0, "", 100, |path| path.ends_with("/r")), 9);
    table.clear();
    assert!(table.is_empty() && table.count_at(0, "", 100, |_| true) == 0);
}

#[test]
fn the_longest_id_is_found() {
    let mut table = LeaseTable::new(SipKey::from_bytes([3; 16]));
    let longest = record(&"a".repeat(ID_BYTES_MAX - RANDOM_CHARS - 1));
    assert!(table.put(0, &longest));
    assert_eq!(table.find(0, longest.id.as_str()), Some(locate(0, &longest)));
}

#[test]
fn a_lease_that_waits_for_ever_is_no_irrevocable_one() {
    let mut table = LeaseTable::new(SipKey::from_bytes([3; 16]));
    let mut lease = record("a");
    lease.state = LeaseState::Revoking { attempts: 1, next_try_ns: 10 };
    assert!(table.put(0, &lease));
    table.postpone(&locate(0, &lease), i64::MAX);
    assert_eq!(table.of_mount(lease.mount, 9), [locate(0, &lease)]);
    assert_eq!(table.irrevocable_of(lease.mount, 9), []);
}
