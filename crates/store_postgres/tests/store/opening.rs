//! What a store says of a database that it cannot use.

use std::time::Instant;

use kallisto_store::{Error, Replicated, Store};
use kallisto_store_postgres::{MissingTables, PostgresStore, Sharing};

use crate::postgres::{PASSWORD, Postgres};
use crate::site::{begin, open, options, put, refusal, until, value};

#[test]
fn a_database_that_does_not_let_in_or_cannot_be_written_to_says_why_and_no_password() {
    let Some(mut database) = Postgres::start("refusing") else { return };
    let said = |options| {
        let error = refusal(options);
        let all = format!("{error} {error:?}");
        assert!(!all.contains(PASSWORD) && !all.contains("hunter2"), "{all}");
        error.to_string()
    };
    let wrong = database.url().replace(PASSWORD, "hunter2");
    let told = said(options(&wrong, "one"));
    assert!(told.contains("password authentication failed"), "{told}");
    let unknown = database.url().replace("/kallisto?", "/nowhere?");
    let told = said(options(&unknown, "one"));
    assert!(told.contains("database \"nowhere\" does not exist"), "{told}");
    // As the role may not make anything, and as a database of which only reads are taken.
    database.sql(
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC; ALTER DATABASE kallisto OWNER TO postgres",
    );
    let told = said(options(&database.url(), "one"));
    assert!(told.contains("permission denied for schema public"), "{told}");
    database.sql("ALTER DATABASE kallisto SET default_transaction_read_only = on");
    let told = said(options(&database.url(), "one"));
    assert!(told.contains("does not allow writes"), "{told}");
    // It is tried as often as it is to be, and no more often.
    let url = database.url();
    database.stop(crate::postgres::StopMode::Fast);
    for (tries, least_ms) in [(1, 0), (4, 350)] {
        let began = Instant::now();
        let mut options = options(&url, "one");
        options.connects_max = tries;
        let told = said(options);
        let took = began.elapsed().as_millis();
        assert!(told.contains("Connection refused"), "{told}");
        assert!(took >= least_ms && took < 30_000, "{tries} tries took {took} ms");
    }
}

#[test]
fn tables_of_another_program_or_layout_are_named_with_their_column_and_stay_as_they_are() {
    let Some(database) = Postgres::start("foreign") else { return };
    // As OpenBao makes its own.
    database.sql("CREATE TABLE t (parent_path text NOT NULL, path text, key text, value bytea, PRIMARY KEY (path, key)); ALTER TABLE t OWNER TO kallisto");
    let error = refusal(options(&database.url(), "one"));
    assert_eq!(error, Error::Damaged("column key of table \"t\" is text, not bytea".into()));
    assert_eq!(database.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "1");
    database.sql("DROP TABLE t");
    let store = open(&database.url(), "one");
    begin(&store);
    drop(store);
    for (breaking, mending, said) in [
        (
            "ALTER TABLE t_meta RENAME trimmed TO other",
            "ALTER TABLE t_meta RENAME other TO trimmed",
            "table \"t_meta\" has no column trimmed",
        ),
        (
            "ALTER TABLE t_changes ALTER body TYPE text USING encode(body, 'hex')",
            "ALTER TABLE t_changes ALTER body TYPE bytea USING decode(body, 'hex')",
            "column body of table \"t_changes\" is text, not bytea",
        ),
        (
            "UPDATE t_meta SET schema = 2",
            "UPDATE t_meta SET schema = 1",
            "layout 2, this server knows 1",
        ),
    ] {
        database.sql(breaking);
        let error = refusal(options(&database.url(), "one"));
        assert!(matches!(&error, Error::Damaged(why) if why.contains(said)), "{error}");
        database.sql(mending);
    }
    let store = open(&database.url(), "one");
    assert_eq!(value(&store, "first"), Some("write".to_owned()));
    // While it runs as well: the task says so, and does not panic.
    database.sql("ALTER TABLE t_changes ALTER epoch TYPE boolean USING true");
    let mut error = Error::NotLeader;
    until("a server that leads", || {
        error = store.commit(put("a", "1")).wait().unwrap_err();
        error != Error::NotLeader
    });
    assert!(matches!(&error, Error::Unavailable(why) if why.contains("epoch")), "{error}");
    database.sql("ALTER TABLE t_changes ALTER epoch TYPE bigint USING 1");
    until("a write", || store.commit(put("a", "2")).wait().is_ok());
}

#[test]
fn a_role_without_the_right_to_make_tables_uses_those_that_are_there() {
    let Some(database) = Postgres::start("given") else { return };
    let mut refused = options(&database.url(), "one");
    refused.missing = MissingTables::Refuse;
    let error = refusal(refused).to_string();
    for table in ["\"t\"", "\"t_changes\"", "\"t_meta\"", "\"t_staged\"", "\"h\""] {
        assert!(error.contains(table), "{error}");
    }
    assert!(error.contains("skip_create_table"), "{error}");
    drop(open(&database.url(), "one"));
    database.sql(
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC; ALTER DATABASE kallisto OWNER TO postgres;
         REASSIGN OWNED BY kallisto TO postgres;
         GRANT SELECT, INSERT, UPDATE, DELETE ON t, t_changes, t_meta, t_staged, h TO kallisto",
    );
    for missing in [MissingTables::Refuse, MissingTables::Make] {
        let mut given = options(&database.url(), "one");
        given.missing = missing;
        let store = PostgresStore::open(given).unwrap();
        begin(&store);
        let generation = store.begin_restore().wait().unwrap();
        let records = vec![(b"k"[..].to_vec().into(), b"v"[..].to_vec().into())];
        store.stage(generation, records).wait().unwrap();
        // One that is missing, or one too many, is no restore.
        for count in [0, 2] {
            let refused = store.finish_restore(generation, count).wait();
            assert!(matches!(refused, Err(Error::Conflict)), "{count}: {refused:?}");
        }
        store.finish_restore(generation, 1).wait().unwrap();
        assert_eq!(value(&store, "k"), Some("v".to_owned()));
    }
}

#[test]
fn names_as_long_as_they_may_be_are_told_of_changes() {
    let Some(database) = Postgres::start("long-names") else { return };
    let (schema, table) = ("s".repeat(49), "t".repeat(50));
    database.sql(&format!("CREATE SCHEMA {schema} AUTHORIZATION kallisto"));
    let open = |name: &str| {
        let mut options = options(&database.url(), name);
        options.table = format!("{schema}.{table}");
        options.ha_table = format!("{schema}.servers");
        // So that only a notification wakes it.
        options.confirm_every = std::time::Duration::from_secs(60);
        PostgresStore::open(options).unwrap()
    };
    let (one, two) = (open("one"), open("two"));
    begin(&one);
    one.commit(put("told", "v")).wait().unwrap();
    until("the other one to be told", || value(&two, "told").is_some());
    let generation = one.begin_restore().wait().unwrap();
    one.finish_restore(generation, 0).wait().unwrap();
    until("the other one to be told of a restore", || value(&two, "told").is_none());
}

#[test]
fn of_a_database_that_one_server_has_for_itself_a_killed_one_is_waited_for_and_a_living_one_refused()
 {
    let Some(database) = Postgres::start("alone") else { return };
    let alone = |name: &str| {
        let mut options = options(&database.url(), name);
        options.sharing = Sharing::Alone;
        options
    };
    let store = PostgresStore::open(alone("one")).unwrap();
    begin(&store);
    assert!(store.is_alone() && store.shares_records());
    let error = refusal(alone("two")).to_string();
    assert!(error.contains("another server uses this database"), "{error}");
    let mut copying = alone("two");
    copying.sharing = Sharing::Stopped;
    let error = refusal(copying).to_string();
    assert!(error.contains("stop all servers") && !error.contains("ha_enabled"), "{error}");
    store.close().unwrap();
    // As if it had been killed, with the database's clock an hour behind since.
    database.sql("UPDATE t_meta SET holder = 77, expires = now() + interval '1 hour'");
    let began = Instant::now();
    let store = PostgresStore::open(alone("three")).unwrap();
    until("it to lead", || store.leads() && store.commit(put("a", "1")).wait().is_ok());
    let took = began.elapsed().as_secs();
    // An hour, if the clock of the database were believed.
    assert!((4..60).contains(&took), "{took} s");
}

#[test]
fn a_restore_that_is_given_up_takes_nothing_from_the_one_behind_it_and_half_of_one_is_none() {
    let Some(database) = Postgres::start("restores") else { return };
    let store = open(&database.url(), "one");
    begin(&store);
    let record = |key: &'static [u8]| vec![(key.into(), b"v"[..].into())];
    let given_up = store.begin_restore().wait().unwrap();
    store.stage(given_up, record(b"old")).wait().unwrap();
    let this = store.begin_restore().wait().unwrap();
    store.stage(this, record(b"k")).wait().unwrap();
    store.stage(this, record(b"l")).wait().unwrap();
    store.abandon_restore(given_up).wait().unwrap();
    assert_eq!(database.sql("SELECT count(*) FROM t_staged"), "2");
    // One of them goes.
    database.sql("DELETE FROM t_staged WHERE key = 'l'");
    assert_eq!(store.finish_restore(this, 2).wait(), Err(Error::Conflict));
    assert!(value(&store, "first").is_some() && value(&store, "k").is_none());
    assert_eq!(database.sql("SELECT count(*) FROM t"), "1");
    store.stage(this, record(b"l")).wait().unwrap();
    store.finish_restore(this, 2).wait().unwrap();
    assert!(value(&store, "first").is_none() && value(&store, "l").is_some());
    assert_eq!(database.sql("SELECT count(*) FROM t_staged"), "0");
}
