//! What `operator diagnose` is told of a database.

use kallisto_store_postgres::{
    DatabaseFinding, FindingKind, MissingTables, PostgresUrl, Sharing, probe,
};

use crate::postgres::{PASSWORD, Postgres};
use crate::site::{begin, open, tls};

fn look(url: &str, missing: MissingTables) -> Vec<DatabaseFinding> {
    let url = PostgresUrl::parse(url).unwrap();
    let found = probe(&url, &tls(url.usage), ("t", "h"), Sharing::Many, missing);
    assert!(!format!("{found:?}").contains(PASSWORD), "{found:?}");
    found
}

#[track_caller]
fn is(found: &[DatabaseFinding], name: &str, kind: FindingKind, said: &str) {
    let one = found.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("{found:?}"));
    assert!(one.kind == kind && one.said.contains(said), "{one:?}");
}

#[test]
fn a_database_is_looked_at_and_left_as_it_is() {
    use FindingKind::{Doubtful, Failing, Well};
    let Some(mut database) = Postgres::start("probed") else { return };
    let (make, refuse) = (MissingTables::Make, MissingTables::Refuse);
    let found = look(&database.url(), make);
    is(&found, "Check Database Connection", Well, "as kallisto");
    is(&found, "Check Database TLS", Well, "on this machine");
    is(&found, "Check Database Durability", Well, "");
    is(&found, "Check Database Tables", Well, "will be made");
    is(&look(&database.url(), refuse), "Check Database Tables", Failing, "skip_create_table");
    assert_eq!(database.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0");
    let store = open(&database.url(), "one");
    begin(&store);
    let found = look(&database.url(), make);
    is(&found, "Check Database Tables", Well, "all are there");
    is(&found, "Check Database Privileges", Well, "");
    is(&found, "Check Database Lease", Well, "one had it last");
    drop(store);
    is(&look(&database.url(), make), "Check Database Lease", Well, "nobody writes");
    database.sql(
        "ALTER ROLE kallisto SET synchronous_commit = off; ALTER TABLE t_staged OWNER TO postgres",
    );
    let found = look(&database.url(), make);
    is(&found, "Check Database Durability", Doubtful, "synchronous_commit is off");
    is(&found, "Check Database Privileges", Failing, "INSERT on \"t_staged\"");
    database.sql("ALTER TABLE t DROP value");
    is(&look(&database.url(), make), "Check Database Tables", Failing, "no column value");
    database.sql("ALTER DATABASE kallisto SET default_transaction_read_only = on");
    is(&look(&database.url(), make), "Check Database Connection", Failing, "does not allow writes");
    let wrong = database.url().replace(PASSWORD, "hunter2");
    is(&look(&wrong, make), "Check Database Connection", Failing, "password authentication failed");
    database.stop(crate::postgres::StopMode::Fast);
    is(&look(&database.url(), make), "Check Database Connection", Failing, "refused");
    let far = "postgres://kallisto@192.0.2.1/kallisto?sslmode=require&connect_timeout=1";
    is(&look(far, make), "Check Database TLS", Doubtful, "nobody checks who answers");
}
