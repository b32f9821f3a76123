//! One writer at a time, whatever happens to it, to its wire and to the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kallisto_store::{BATCH_BYTES_MAX, Batch, Candidacy, Error, Records, Replicated, Seqno, Store};
use kallisto_store_postgres::PostgresStore;

use crate::postgres::{Postgres, StopMode};
use crate::proxy::DatabaseWire;
use crate::site::{begin, open, open_behind_wire, options, put, put_new, until, value};

#[test]
fn of_servers_that_begin_an_empty_database_at_once_one_does() {
    let Some(database) = Postgres::start("empty") else { return };
    for round in 0..4 {
        let url = database.url();
        let opened: Vec<_> = (0..4)
            .map(|number| {
                let url = url.clone();
                std::thread::spawn(move || {
                    let mut options = options(&url, &format!("server-{number}"));
                    (options.table, options.ha_table) = (format!("t{round}"), format!("h{round}"));
                    let store = PostgresStore::open(options).unwrap();
                    store.stand(Candidacy::Willing);
                    store
                })
            })
            .collect();
        let stores: Vec<_> = opened.into_iter().map(|thread| thread.join().unwrap()).collect();
        let commits: Vec<_> =
            stores.iter().map(|store| store.commit(put_new("init", "v"))).collect();
        let outcomes: Vec<_> = commits.into_iter().map(kallisto_store::Commit::wait).collect();
        let done = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert!(done <= 1, "{outcomes:?}");
        for outcome in &outcomes {
            assert!(
                matches!(outcome, Ok(_) | Err(Error::NotLeader | Error::Conflict)),
                "{outcomes:?}"
            );
        }
        until("one to lead", || {
            stores.iter().any(|store| {
                store.leads() && store.position().0 > 0
                    || store.commit(put_new("init", "v")).wait().is_ok()
            })
        });
        until("all to have it", || stores.iter().all(|store| value(store, "init").is_some()));
        let id = stores[0].store_id();
        assert!(stores.iter().all(|store| store.store_id() == id));
        // Who lost the lease while it was paused hears so within its next look.
        until("one to lead alone", || stores.iter().filter(|store| store.leads()).count() == 1);
    }
}

#[test]
fn a_commit_whose_answer_is_lost_is_found_and_one_that_never_arrived_is_sent_again() {
    let Some(database) = Postgres::start("cut-commits") else { return };
    let (store, proxy) = open_behind_wire(&database, "one");
    begin(&store);
    let mut batch = put_new("once", "v");
    batch.put(b"count".to_vec(), b"1".to_vec());
    proxy.set(DatabaseWire::AnswersLost);
    let commit = store.commit(batch);
    until("the database to have it", || {
        database.sql("SELECT count(*) FROM t WHERE key = 'once'") == "1"
    });
    proxy.set(DatabaseWire::Cut);
    std::thread::sleep(Duration::from_millis(100));
    proxy.set(DatabaseWire::Sound);
    let at = commit.wait().unwrap();
    assert_eq!(store.get(b"once").unwrap().unwrap().seqno, Seqno(at.0));
    // The question is on its way when the wire is cut.
    proxy.set(DatabaseWire::Hanging);
    std::thread::sleep(Duration::from_millis(20));
    let commit = store.commit(put_new("again", "v"));
    std::thread::sleep(Duration::from_millis(50));
    proxy.set(DatabaseWire::Cut);
    std::thread::sleep(Duration::from_millis(100));
    proxy.set(DatabaseWire::Sound);
    assert!(commit.wait().unwrap() > at);
    // A database that is away for too long leaves the writer without knowing, and no write is lost or made twice by that.
    proxy.set(DatabaseWire::AnswersLost);
    let began = Instant::now();
    let commit = store.commit(put("unknown", "v"));
    until("the database to have it", || {
        database.sql("SELECT count(*) FROM t WHERE key = 'unknown'") == "1"
    });
    proxy.set(DatabaseWire::Cut);
    let error = commit.wait().unwrap_err();
    assert!(matches!(error, Error::Unknown(_)), "{error}");
    assert!(began.elapsed() > Duration::from_secs(5));
    // Those who write one record wait for each other, and none for long by now. The first is told at the next try to connect.
    // One that waited would wait for ten seconds, and each until the next try for one.
    for (writes, longest) in [(1, Duration::from_secs(8)), (100, Duration::from_secs(20))] {
        let began = Instant::now();
        for _ in 0..writes {
            let error = store.commit(put("later", "v")).wait().unwrap_err();
            assert!(matches!(error, Error::Unavailable(_) | Error::NotLeader), "{error}");
        }
        assert!(began.elapsed() < longest, "{writes}: {:?}", began.elapsed());
    }
    assert!(matches!(store.read_index().wait(), Err(Error::Unavailable(_))));
    proxy.set(DatabaseWire::Sound);
    until("it to write again", || store.commit(put("later", "v")).wait().is_ok());
    assert_eq!(value(&store, "unknown"), Some("v".to_owned()));
}

#[test]
fn what_a_leader_sent_before_it_stood_still_changes_nothing_when_it_arrives() {
    let Some(database) = Postgres::start("late") else { return };
    let (old, proxy) = open_behind_wire(&database, "old");
    begin(&old);
    let new = open(&database.url(), "new");
    proxy.set(DatabaseWire::Hanging);
    std::thread::sleep(Duration::from_millis(20));
    let late = old.commit(put("who", "old"));
    until("the other one to lead", || new.leads());
    assert!(!old.leads(), "a lease that was not renewed is over");
    new.commit(put("who", "new")).wait().unwrap();
    // What was sent arrives now.
    proxy.set(DatabaseWire::Sound);
    let outcome = late.wait();
    assert!(matches!(outcome, Err(Error::NotLeader | Error::Unknown(_))), "{outcome:?}");
    until("the old one to follow", || value(&old, "who").as_deref() == Some("new"));
    assert_eq!(database.sql("SELECT convert_from(value, 'UTF8') FROM t WHERE key = 'who'"), "new");
    assert!(old.commit(put("a", "1")).wait() == Err(Error::NotLeader));
    until("it to know who leads", || old.leadership().leader_id == new.leadership().node_id);
}

#[test]
fn a_clock_of_the_database_that_is_set_neither_ends_a_lease_nor_keeps_it() {
    let Some(database) = Postgres::start("clocks") else { return };
    let (one, proxy) = open_behind_wire(&database, "one");
    begin(&one);
    let two = open(&database.url(), "two");
    // An hour forward, for longer than a lease: each renewal is over by the database's time when it is written.
    let forward = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while forward.load(Ordering::Relaxed) {
                database.sql("UPDATE t_meta SET expires = expires - interval '1 hour'");
            }
        });
        let end = Instant::now() + Duration::from_secs(8);
        let mut number = 0;
        while Instant::now() < end {
            number += 1;
            one.commit(put("n", &number.to_string())).wait().unwrap();
            assert!(!two.leads());
            std::thread::sleep(Duration::from_millis(100));
        }
        forward.store(false, Ordering::Relaxed);
    });
    // Back: what is written lasts an hour longer, and who wrote it is gone.
    proxy.set(DatabaseWire::Cut);
    database.sql("UPDATE t_meta SET expires = expires + interval '1 hour'");
    // For an hour, if the clock of the database were believed.
    until("the other one to lead", || two.leads());
    two.commit(put("n", "last")).wait().unwrap();
}

#[test]
fn a_full_database_refuses_writes_and_has_lost_nothing_when_there_is_room() {
    let Some(database) = Postgres::start("full") else { return };
    let (one, two) = (open(&database.url(), "one"), open(&database.url(), "two"));
    begin(&one);
    one.commit(put("kept", "v")).wait().unwrap();
    for (code, is_full) in [("53100", true), ("P0001", false)] {
        database.sql(&format!(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               RAISE EXCEPTION 'could not extend file \"base/1\": No space left on device' USING ERRCODE = '{code}'; END $$;
             CREATE TRIGGER full_disk BEFORE INSERT ON t_changes EXECUTE FUNCTION full_disk()"
        ));
        let error = one.commit(put("kept", "lost")).wait().unwrap_err();
        match is_full {
            true => assert!(
                matches!(&error, Error::Full(why) if why.contains("No space left")),
                "{error}"
            ),
            false => assert!(
                matches!(&error, Error::Unavailable(why) if why.contains("No space left")),
                "{error}"
            ),
        }
        for store in [&one, &two] {
            assert_eq!(value(store, "kept"), Some("v".to_owned()));
        }
        // Reads go on, strong ones as well: nothing was written.
        one.read_index().wait().unwrap();
        until("a read of the follower", || two.read_index().wait().is_ok());
        database.sql("DROP TRIGGER full_disk ON t_changes; DROP FUNCTION full_disk");
        one.commit(put("after", code)).wait().unwrap();
        until("the other one to have it", || value(&two, "after").as_deref() == Some(code));
        assert!(one.leads());
    }
}

#[test]
fn the_largest_batches_are_written_and_followed() {
    let Some(database) = Postgres::start("large") else { return };
    let (one, two) = (open(&database.url(), "one"), open(&database.url(), "two"));
    begin(&one);
    let mut large = Batch::new();
    large.put(b"large".to_vec(), vec![7; BATCH_BYTES_MAX - 200]);
    assert!(large.check_limits().is_ok());
    let mut many = Batch::new();
    let mut number = 0_u32;
    loop {
        let mut longer = many.clone();
        longer.put(number.to_be_bytes().to_vec(), b"v".to_vec());
        if number == 1000 || longer.check_limits().is_err() {
            break;
        }
        (many, number) = (longer, number + 1);
    }
    assert!(number > 10);
    // All at once, so that groups of more than one go.
    let small: Vec<_> = (0..3000).map(|n| one.commit(put(&format!("s{n}"), "v"))).collect();
    let commits = [one.commit(large.clone()), one.commit(many), one.commit(large)];
    commits.into_iter().for_each(|commit| assert!(commit.wait().is_ok()));
    small.into_iter().for_each(|commit| assert!(commit.wait().is_ok()));
    until("the other one to have all", || two.position() == one.position());
    assert_eq!(two.get(b"large").unwrap().unwrap().value.len(), BATCH_BYTES_MAX - 200);
    assert_eq!(two.approximate_len(), u64::from(number) + 3000 + 2);
    // And one that begins now reads them.
    let three = open(&database.url(), "three");
    assert_eq!(three.approximate_len(), two.approximate_len());
}

#[test]
fn isolation_above_what_is_asked_for_costs_nothing_but_time() {
    let Some(database) = Postgres::start("serializable") else { return };
    database.sql("ALTER ROLE kallisto SET default_transaction_isolation = 'serializable'");
    let (one, two) = (open(&database.url(), "one"), open(&database.url(), "two"));
    begin(&one);
    for number in 0..3000 {
        one.commit(put(&format!("k{}", number % 7), &number.to_string())).wait().unwrap();
    }
    until("the other one to have all", || two.position() == one.position());
}

#[test]
fn writes_that_keep_coming_keep_no_read_waiting() {
    let Some(database) = Postgres::start("busy") else { return };
    let store = open(&database.url(), "one");
    begin(&store);
    let stop = Arc::new(AtomicBool::new(false));
    // A read that waits for writes to end waits as long as these go on, which is far longer than a busy machine takes.
    let end = Instant::now() + Duration::from_secs(30);
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) && Instant::now() < end {
                    store.commit(put(&format!("w{writer}"), "v")).wait().unwrap();
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    let mut longest = Duration::ZERO;
    for _ in 0..50 {
        let began = Instant::now();
        store.read_index().wait().unwrap();
        longest = longest.max(began.elapsed());
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert!(longest < Duration::from_secs(10), "{longest:?}");
}

#[test]
fn a_database_that_is_killed_and_started_again_has_all_that_was_acknowledged() {
    let Some(mut database) = Postgres::start("restarted") else { return };
    let store = open(&database.url(), "one");
    begin(&store);
    let stop = Arc::new(AtomicBool::new(false));
    let written = Arc::<AtomicU64>::default();
    let writer = {
        let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
        let written = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut acknowledged = Vec::new();
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                match store.commit(put_new(&format!("k{number}"), "v")).wait() {
                    Ok(at) => {
                        acknowledged.push((number, at));
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
            acknowledged
        })
    };
    for mode in [StopMode::Killed, StopMode::Immediate, StopMode::Fast] {
        let before = written.load(Ordering::Relaxed);
        until("some writes", || written.load(Ordering::Relaxed) > before + 15);
        database.stop(mode);
        database.run();
        until("it to write again", || store.commit(put("again", "v")).wait().is_ok());
    }
    stop.store(true, Ordering::Relaxed);
    let acknowledged = writer.join().unwrap();
    assert!(acknowledged.len() > 30, "{}", acknowledged.len());
    let fresh = open(&database.url(), "two");
    for (number, at) in acknowledged {
        for store in [&store, &fresh] {
            let record = store.get(format!("k{number}").as_bytes()).unwrap().unwrap();
            assert_eq!(record.seqno, Seqno(at.0), "k{number}");
        }
    }
}

#[test]
fn servers_go_on_at_a_standby_that_took_over_and_never_ask_one_that_did_not() {
    let Some(mut database) = Postgres::start("failover") else { return };
    let standby = database.standby();
    let only = options(&standby.url(), "one");
    let error = crate::site::refusal(only).to_string();
    assert!(error.contains("does not allow writes"), "{error}");
    // The standby is named first.
    let url = format!(
        "host=127.0.0.1,127.0.0.1 port={},{} user=kallisto password={} dbname=kallisto sslmode=disable",
        standby.address().port(),
        database.address().port(),
        crate::postgres::PASSWORD
    );
    let (one, two) = (open(&url, "one"), open(&url, "two"));
    begin(&one);
    let mut acknowledged = Vec::new();
    for number in 0..200 {
        if number == 100 {
            database.stop(StopMode::Killed);
            standby.promote();
        }
        match one.commit(put_new(&format!("k{number}"), "v")).wait() {
            Ok(_) => acknowledged.push(number),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    until("a write", || one.commit(put("after", "v")).wait().is_ok());
    until("the other one to have it", || value(&two, "after").is_some());
    assert!(acknowledged.len() > 150, "{}", acknowledged.len());
    for number in acknowledged {
        for store in [&one, &two] {
            assert!(value(store, &format!("k{number}")).is_some(), "k{number}");
        }
    }
}
