//! Servers that follow: over gaps, without notifications, with the database out of reach, and after one another.

use std::time::{Duration, Instant};

use kallisto_store::{Error, Records, Replicated, Store};

use crate::postgres::Postgres;
use crate::proxy::DatabaseWire;
use crate::site::{begin, open, open_behind_wire, options, put, until, value};

#[test]
fn a_follower_that_was_away_for_longer_than_changes_are_kept_reads_all_records() {
    let Some(database) = Postgres::start("gap") else { return };
    let one = open(&database.url(), "one");
    begin(&one);
    let (two, proxy) = open_behind_wire(&database, "two");
    until("it to follow", || value(&two, "first").is_some());
    proxy.set(DatabaseWire::Cut);
    // A short gap is caught up with, by change rows.
    for round in 0..26 {
        let commits: Vec<_> =
            (0..1000).map(|n| one.commit(put(&format!("k{n}"), &round.to_string()))).collect();
        commits.into_iter().for_each(|commit| assert!(commit.wait().is_ok()));
        if round == 2 {
            proxy.set(DatabaseWire::Sound);
            until("it to have caught up", || two.position() == one.position());
            proxy.set(DatabaseWire::Cut);
        }
    }
    let kept: u64 = database.sql("SELECT min(position) FROM t_changes").parse().unwrap();
    assert!(kept > two.position().0 + 1, "the gap is gone: {kept}");
    proxy.set(DatabaseWire::Sound);
    until("it to have caught up", || two.position() == one.position());
    assert_eq!(value(&two, "k999"), Some("25".to_owned()));
    assert_eq!(two.approximate_len(), one.approximate_len());
    // Nobody is behind in the eyes of the leader, which tells the health of members by that.
    until("both to be listed", || one.members().len() > 1);
    assert!(one.members().iter().all(|member| member.matched == one.position().0));
    // And goes on by change rows.
    one.commit(put("next", "v")).wait().unwrap();
    until("it to follow", || value(&two, "next").is_some());
}

/// As an import leaves them: more than the wire carries in the time that a statement may take.
#[test]
fn a_follower_on_a_narrow_wire_catches_up_with_large_changes() {
    let Some(database) = Postgres::start("narrow") else { return };
    let one = open(&database.url(), "one");
    begin(&one);
    let (two, proxy) = open_behind_wire(&database, "two");
    until("it to follow", || value(&two, "first").is_some());
    proxy.set(DatabaseWire::Cut);
    let large = "x".repeat(1 << 20);
    for n in 0..10 {
        one.commit(put(&format!("k{n}"), &large)).wait().unwrap();
    }
    proxy.set(DatabaseWire::Narrow);
    until("it to have caught up", || two.position() == one.position());
    assert_eq!(two.stats().database.unwrap().loads, 1, "by what changed");
    assert!(value(&two, "k9").is_some_and(|value| value == large));
}

#[test]
fn without_notifications_a_follower_asks_by_the_clock() {
    let Some(database) = Postgres::start("unnotified") else { return };
    let one = open(&database.url(), "one");
    begin(&one);
    let (two, proxy) = open_behind_wire(&database, "two");
    proxy.set(DatabaseWire::NotificationsLost);
    let mut slowest = Duration::ZERO;
    for number in 0..8 {
        let number = number.to_string();
        one.commit(put("n", &number)).wait().unwrap();
        slowest = slowest.max(until("it", || value(&two, "n").as_deref() == Some(&number)));
    }
    assert!(slowest > Duration::from_millis(20), "somebody notified it after all: {slowest:?}");
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
}

#[test]
fn what_is_not_confirmed_grows_old_and_strong_reads_are_refused() {
    let Some(database) = Postgres::start("stale") else { return };
    let (one, wire_of_one) = open_behind_wire(&database, "one");
    begin(&one);
    let (two, wire_of_two) = open_behind_wire(&database, "two");
    until("it to follow", || value(&two, "first").is_some());
    let age = |store: &kallisto_store_postgres::PostgresStore| {
        store.as_of().age(store.now()).unwrap_or(Duration::MAX)
    };
    until("it to be fresh", || age(&two) < Duration::from_millis(400));
    for wire in [DatabaseWire::Hanging, DatabaseWire::Cut, DatabaseWire::AnswersLost] {
        wire_of_two.set(wire);
        let began = Instant::now();
        until("it to grow old", || age(&two) > Duration::from_millis(1400));
        one.commit(put("n", "v")).wait().unwrap();
        assert!(age(&two) > Duration::from_millis(1400), "{wire:?}: {:?}", age(&two));
        let refused = two.read_index().wait();
        assert!(
            matches!(refused, Err(Error::NotLeader | Error::Unavailable(_))),
            "{wire:?}: {refused:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(20), "{wire:?}: an answer came late");
        // A wire that hung for longer than connections are waited for comes back as well.
        if wire == DatabaseWire::Hanging {
            std::thread::sleep(Duration::from_secs(8));
        }
        wire_of_two.set(DatabaseWire::Sound);
        until("it to be fresh again", || age(&two) < Duration::from_millis(400));
        until("a strong read", || two.read_index().wait().is_ok());
        assert_eq!(value(&two, "n"), Some("v".to_owned()));
    }
    // A leader is up to date for as long as nobody else can lead, and no longer.
    wire_of_one.set(DatabaseWire::Hanging);
    until("its lease to be over", || !one.leads());
    let when_over = age(&one);
    until("it to grow older", || age(&one) >= when_over + Duration::from_millis(900));
    until("the other one to lead", || two.leads());
}

#[test]
fn a_server_that_died_is_listed_once_more_and_never_beside_its_successor() {
    let Some(database) = Postgres::start("rows") else { return };
    let one = open(&database.url(), "one");
    begin(&one);
    // Its wire is cut, so that it cannot say that it goes.
    let (two, wire) = open_behind_wire(&database, "two");
    let names = || {
        let mut all: Vec<_> = one.members().into_iter().map(|member| member.peer.name).collect();
        all.sort();
        all
    };
    until("both to be listed", || names() == ["one", "two"]);
    wire.set(DatabaseWire::Cut);
    drop(two);
    assert_eq!(database.sql("SELECT count(*) FROM h WHERE name = 'two'"), "1");
    let two = open(&database.url(), "two");
    until("its successor to be listed", || {
        database.sql("SELECT id FROM h WHERE name = 'two'") == two.leadership().node_id.to_string()
    });
    until("it alone", || names() == ["one", "two"]);
    drop(two);
    // By its name, where it comes back at another address.
    database.sql(
        "INSERT INTO h VALUES (5, 'three', 'old:8201', '', true, now() - interval '10 seconds')",
    );
    let mut options = options(&database.url(), "three");
    options.peer.cluster_address = "new:8201".to_owned();
    let three = kallisto_store_postgres::PostgresStore::open(options).unwrap();
    until("one row", || {
        database.sql("SELECT cluster_address FROM h WHERE name = 'three'") == "new:8201"
    });
    drop(three);
}

#[test]
fn a_hand_over_that_the_database_does_not_hear_of_fails_soon_and_is_not_made_up_for() {
    let Some(database) = Postgres::start("unheard") else { return };
    let (one, proxy) = open_behind_wire(&database, "one");
    begin(&one);
    let two = open(&database.url(), "two");
    until("it to know the other one", || one.members().len() == 2);
    until("it to lead", || one.leads());
    proxy.set(DatabaseWire::Cut);
    let began = Instant::now();
    let refused = one.transfer(None).wait();
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // Before the lease is over.
    proxy.set(DatabaseWire::Sound);
    until("it to write", || one.commit(put("a", "1")).wait().is_ok());
    // It would be made up for at a beat, and each beat renews the lease.
    let lease = || database.sql("SELECT expires FROM t_meta");
    for _ in 0..3 {
        let before = lease();
        until("a renewal", || lease() != before);
        assert!(!two.leads(), "what was refused happens later");
    }
    assert!(one.leads());
}

#[test]
fn a_closed_store_answers_what_is_asked_of_it() {
    let Some(database) = Postgres::start("closed") else { return };
    let store = open(&database.url(), "one");
    begin(&store);
    store.close().unwrap();
    for asked in [store.read_index(), store.commit(put("a", "1")), store.begin_restore()] {
        assert!(matches!(asked.wait(), Err(Error::Unavailable(_))));
    }
    assert!(store.transfer(None).wait().is_err());
}

#[test]
fn a_hand_over_waits_for_nobodys_next_beat() {
    let Some(database) = Postgres::start("at-once") else { return };
    let (one, two) = (open(&database.url(), "one"), open(&database.url(), "two"));
    begin(&one);
    until("them to know each other", || {
        one.members().len() == 2 && two.members().len() == 2 && one.leads()
    });
    let mut took = Vec::new();
    for _ in 0..6 {
        for (from, to) in [(&one, &two), (&two, &one)] {
            let began = Instant::now();
            from.transfer(None).wait().unwrap();
            until("the other one to lead", || to.leads());
            took.push(began.elapsed());
        }
    }
    took.sort();
    // A beat is a second. Some may take longer on a busy machine, and most do not.
    assert!(took[took.len() / 2] < Duration::from_millis(400), "{took:?}");
}
