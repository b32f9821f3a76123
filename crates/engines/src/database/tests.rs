//! The engine against a database that obeys, refuses, and is not heard.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kallisto_api::{Error, Json, Map};
use kallisto_auth::Operation::{Delete, Read, Update};
use kallisto_engine::far_end::FarEndProtocol;
use kallisto_engine::{FarEndAnswer, FarEndCall, FarEndFailure, FarEndWork, RoleTtl};
use secrecy::ExposeSecret;

use super::ENGINE;
use crate::testing::TestMount;

const CONFIG: &str = r#"{"plugin_name":"postgresql-database-plugin","connection_url":"postgresql://h/db",
    "username":"root","password":"rootpw","allowed_roles":"*"}"#;

/// How a database takes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Obeys,
    Refuses,
    IsLost,
    IsLostAfter,
    /// Nobody reaches it.
    IsAway,
}

struct Database {
    passwords: BTreeMap<String, String>,
    mood: Mood,
    /// The statements that it was told.
    told: Vec<String>,
}

type Shared = Arc<Mutex<Database>>;

impl Database {
    fn answer(&mut self, call: &FarEndCall) -> Result<FarEndAnswer, FarEndFailure> {
        let FarEndProtocol::Postgres { login, .. } = &call.far_end.protocol else {
            panic!("{call:?}")
        };
        if self.mood == Mood::IsAway {
            return Err(FarEndFailure::Unreachable("connection refused".into()));
        }
        if self.passwords.get(&login.user).is_none_or(|one| one != login.password.expose_secret()) {
            return Err(FarEndFailure::LoginRefused("SQLSTATE 28P01".into()));
        }
        let FarEndWork::Sql(work) = &call.work else { return Ok(FarEndAnswer::Done) };
        let text = work.statements[0].expose_secret().to_owned();
        self.told.push(text.clone());
        if matches!(self.mood, Mood::Obeys | Mood::IsLostAfter)
            && let Some(rest) = text.strip_prefix("ALTER ROLE \"")
            && let Some((user, rest)) = rest.split_once("\" WITH PASSWORD '")
        {
            self.passwords.insert(user.to_owned(), rest.trim_end_matches('\'').to_owned());
        }
        match self.mood {
            Mood::Obeys => Ok(FarEndAnswer::Done),
            Mood::Refuses => Err(FarEndFailure::NothingDone("SQLSTATE 42710".into())),
            Mood::IsLost | Mood::IsLostAfter | Mood::IsAway => {
                Err(FarEndFailure::Unknown("not heard".into()))
            }
        }
    }
}

fn site() -> (TestMount, Shared) {
    let users = [("root", "rootpw"), ("app", "old")];
    let passwords = users.map(|(user, password)| (user.to_owned(), password.to_owned())).into();
    let database = Database { passwords, mood: Mood::Obeys, told: Vec::new() };
    let (mount, database) = (TestMount::new(&ENGINE), Arc::new(Mutex::new(database)));
    let shared = Arc::clone(&database);
    mount.far_ends_do(move |call| shared.lock().unwrap().answer(call));
    mount.ask(0, Update, "config/c", CONFIG).unwrap();
    (mount, database)
}

fn set_mood(database: &Shared, mood: Mood) {
    database.lock().unwrap().mood = mood;
}

fn text(mount: &TestMount, record: &str, name: &str) -> String {
    let record = mount.record(record).unwrap();
    record.get(name).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn is_unavailable(answer: Result<Map, Error>) -> bool {
    matches!(answer, Err(Error::Unavailable(_)))
}

#[test]
fn a_root_password_is_set_until_it_is_known_to_be_set() {
    for mood in [Mood::IsLost, Mood::IsLostAfter] {
        let (mount, database) = site();
        set_mood(&database, mood);
        let rotated = mount.ask(10, Update, "rotate-root/c", "");
        assert_eq!(is_unavailable(rotated), mood == Mood::IsLost, "{mood:?}");
        if mood == Mood::IsLost {
            let pending = text(&mount, "config/c", "pending_password");
            for change in [r#"{"password":"x"}"#, r#"{"connection_url":"postgresql://i/db"}"#] {
                assert!(is_unavailable(mount.ask(11, Update, "config/c", change)), "{change}");
            }
            set_mood(&database, Mood::Obeys);
            mount.ask(12, Update, "rotate-root/c", "").unwrap();
            assert_eq!(text(&mount, "config/c", "password"), pending, "the same one");
        }
        assert_eq!(text(&mount, "config/c", "pending_password"), "");
        let kept = text(&mount, "config/c", "password");
        assert_eq!(database.lock().unwrap().passwords["root"], kept);
    }
    let (mount, database) = site();
    set_mood(&database, Mood::Refuses);
    let refused = mount.ask(10, Update, "rotate-root/c", "").unwrap_err().to_string();
    assert!(refused.contains("42710"), "{refused}");
    assert_eq!(text(&mount, "config/c", "pending_password"), "", "it logs nobody in");
}

#[test]
fn a_static_role_keeps_a_password_that_may_be_set() {
    let (mount, database) = site();
    let role = r#"{"db_name":"c","username":"app","rotation_period":"1h"}"#;
    mount.ask(0, Update, "static-roles/s", role).unwrap();
    set_mood(&database, Mood::IsLostAfter);
    assert!(is_unavailable(mount.ask(10, Update, "rotate-role/s", "")));
    let pending = text(&mount, "static-role/s", "pending");
    // It refuses what it was told before.
    set_mood(&database, Mood::Refuses);
    mount.ask(11, Update, "rotate-role/s", "").unwrap();
    assert_eq!(text(&mount, "static-role/s", "password"), pending);
    let creds = mount.ask(11, Read, "static-creds/s", "").unwrap();
    assert_eq!(database.lock().unwrap().passwords["app"], TestMount::text(&creds, "password"));
}

/// A role `s` of the user `app`.
fn with_static_role() -> (TestMount, Shared) {
    let (mount, database) = site();
    let role = r#"{"db_name":"c","username":"app","rotation_period":"1h"}"#;
    mount.ask(0, Update, "static-roles/s", role).unwrap();
    (mount, database)
}

#[test]
fn the_password_that_is_told_logs_in_whatever_became_of_a_change() {
    for (lost, then) in [
        (Mood::IsLost, Mood::Obeys),
        (Mood::IsLost, Mood::Refuses),
        (Mood::IsLostAfter, Mood::Obeys),
        (Mood::IsLostAfter, Mood::Refuses),
    ] {
        let (mount, database) = with_static_role();
        set_mood(&database, lost);
        assert!(is_unavailable(mount.ask(10, Update, "rotate-role/s", "")));
        let unclear = mount.ask(11, Read, "static-creds/s", "").unwrap_err().to_string();
        assert!(unclear.contains("whether it is set is not known: failed to set"), "{unclear}");
        set_mood(&database, then);
        let creds = mount.ask(12, Read, "static-creds/s", "").unwrap();
        let told = TestMount::text(&creds, "password");
        assert_eq!(database.lock().unwrap().passwords["app"], told, "{lost:?} {then:?}");
        assert_eq!(text(&mount, "static-role/s", "pending"), "");
    }
    // What it was never asked for, and what it refuses, is not waited for.
    let (mount, database) = with_static_role();
    let before = text(&mount, "static-role/s", "password");
    for mood in [Mood::IsAway, Mood::Refuses] {
        set_mood(&database, mood);
        mount.ask(20, Update, "rotate-role/s", "").unwrap_err();
        let told = database.lock().unwrap().told.len();
        let creds = mount.ask(21, Read, "static-creds/s", "").unwrap();
        assert_eq!(TestMount::text(&creds, "password"), before);
        assert_eq!(database.lock().unwrap().told.len(), told, "{mood:?}");
    }
}

#[test]
fn a_change_that_a_crash_left_is_finished_for_who_asks() {
    for is_set in [false, true] {
        let (mount, database) = with_static_role();
        // What a server has written down that died with the database.
        let mut record = mount.record("static-role/s").unwrap();
        record.insert("pending".into(), "left".into());
        record.insert("asked".into(), 1_u64.into());
        mount.put("static-role/s", &Json::Object(record).to_text());
        if is_set {
            database.lock().unwrap().passwords.insert("app".into(), "left".into());
        }
        set_mood(&database, Mood::IsAway);
        assert!(is_unavailable(mount.ask(9, Read, "static-creds/s", "")));
        set_mood(&database, Mood::Obeys);
        let creds = mount.ask(10, Read, "static-creds/s", "").unwrap();
        assert_eq!(TestMount::text(&creds, "password"), "left");
        assert_eq!(database.lock().unwrap().passwords["app"], "left");
    }
}

/// A server that was away at the time of a schedule begins within the window, and else waits for the next time.
#[test]
fn a_rotation_of_a_schedule_begins_within_its_window_or_the_next_time() {
    const DAY: i64 = 86_400;
    let role = r#"{"db_name":"c","username":"app","rotation_schedule":"0 2 * * *","rotation_window":"1h"}"#;
    let two = 2 * 3600;
    for (late, begins) in [(0, true), (3599, true), (3600, false), (7 * 3600, false)] {
        let (mount, _) = site();
        mount.ask(0, Update, "static-roles/s", role).unwrap();
        let before = text(&mount, "static-role/s", "password");
        for _ in 0..8 {
            mount.run_job(two + late, "rotate").unwrap();
        }
        let is_changed = text(&mount, "static-role/s", "password") != before;
        assert_eq!(is_changed, begins, "{late} s late");
        let read = mount.ask(two + late, Read, "static-roles/s", "").unwrap();
        let next = jiff::Timestamp::from_second(two + DAY).unwrap();
        assert_eq!(TestMount::text(&read, "next_rotation"), next.to_string(), "{late} s late");
    }
}

#[test]
fn the_user_of_a_connection_belongs_to_no_static_role() {
    let (mount, _) = site();
    let role = r#"{"db_name":"c","username":"root","rotation_period":"1h"}"#;
    let refused = mount.ask(0, Update, "static-roles/s", role).unwrap_err().to_string();
    assert!(refused.contains("rotate-root"), "{refused}");
    assert_eq!(mount.names(), ["config/c"]);
}

#[test]
fn a_connection_stays_while_only_it_can_drop_users() {
    let (mount, _) = site();
    mount.ask(0, Update, "config/d", &CONFIG.replace("h/db", "i/db")).unwrap();
    let role = r#"{"db_name":"c","creation_statements":"CREATE ROLE \"{{name}}\""}"#;
    mount.ask(0, Update, "roles/r", role).unwrap();
    mount.ask(1, Read, "creds/r", "").unwrap();
    mount.ask(2, Delete, "config/d", "").unwrap();
    let refused = mount.ask(2, Delete, "config/c", "").unwrap_err().to_string();
    assert!(refused.contains("there are leases of users"), "{refused}");
    mount.answer_with(3, Delete, "config/c", &[("force", "true")], b"").unwrap();
    assert!(mount.record("config/c").is_none());
}

#[test]
fn a_lease_follows_its_role() {
    let (mount, _) = site();
    let write = |ttl: &str| {
        let statements = r#"CREATE ROLE \"{{name}}\""#;
        let role = format!(r#"{{"db_name":"c","creation_statements":"{statements}",{ttl}}}"#);
        mount.ask(0, Update, "roles/r", &role).unwrap();
    };
    write(r#""default_ttl":"1h","max_ttl":"24h""#);
    mount.ask(1, Read, "creds/r", "").unwrap();
    let lease = mount.leased().remove(0);
    let by_now = || mount.role_ttl("creds/r", &lease).map_err(|error| error.to_string());
    assert_eq!(by_now(), Ok(RoleTtl { default_secs: 3600, max_secs: 86_400 }));
    write(r#""default_ttl":"1m","max_ttl":"1h""#);
    assert_eq!(by_now(), Ok(RoleTtl { default_secs: 60, max_secs: 3600 }));
    mount.ask(2, Delete, "roles/r", "").unwrap();
    assert!(by_now().unwrap_err().contains("could not find role"));
}

#[test]
fn a_connection_that_is_deleted_while_a_user_is_made_leaves_no_user_or_stays() {
    let role = r#"{"db_name":"c","creation_statements":"CREATE ROLE \"{{name}}\""}"#;
    let (mount, database) = site();
    mount.ask(0, Update, "roles/r", role).unwrap();
    let told = |database: &Shared| database.lock().unwrap().told.len();
    let before = told(&database);
    mount.beside_lease(|mount| {
        mount.answer_with(1, Delete, "config/c", &[("force", "true")], b"").unwrap();
    });
    let refused = mount.ask(1, Read, "creds/r", "").unwrap_err().to_string();
    assert!(refused.contains("\"c\"") || refused.contains("connection"), "{refused}");
    assert_eq!((told(&database), mount.leased().len()), (before, 0));
    // The other way round: the user is made behind the first look at the leases.
    let (mount, database) = site();
    mount.ask(0, Update, "roles/r", role).unwrap();
    let before = mount.record("config/c");
    mount.beside_lease(|mount| drop(mount.ask(1, Read, "creds/r", "").unwrap()));
    let refused = mount.ask(1, Delete, "config/c", "").unwrap_err().to_string();
    assert!(refused.contains("there are leases of users"), "{refused}");
    assert!(mount.record("config/c") == before && told(&database) > 0);
}

#[test]
fn a_password_that_is_rotated_while_its_connection_is_deleted_is_the_one_that_stays() {
    let role = r#"{"db_name":"c","creation_statements":"CREATE ROLE \"{{name}}\""}"#;
    let (mount, database) = site();
    mount.ask(0, Update, "roles/r", role).unwrap();
    let before = text(&mount, "config/c", "password");
    mount.beside_lease(|mount| {
        mount.ask(1, Read, "creds/r", "").unwrap();
        mount.before_commit(|mount| drop(mount.ask(1, Update, "rotate-root/c", "").unwrap()));
    });
    let refused = mount.ask(1, Delete, "config/c", "").unwrap_err().to_string();
    assert!(refused.contains("there are leases of users"), "{refused}");
    let kept = text(&mount, "config/c", "password");
    assert_ne!(kept, before);
    assert_eq!(database.lock().unwrap().passwords["root"], kept);
}

#[test]
fn a_user_that_was_there_before_is_left_alone() {
    let (mount, database) = site();
    let role = r#"{"db_name":"c","creation_statements":"CREATE ROLE \"{{name}}\"",
        "rollback_statements":"DROP ROLE \"{{name}}\""}"#;
    mount.ask(0, Update, "roles/r", role).unwrap();
    set_mood(&database, Mood::Refuses);
    let refused = mount.ask(0, Read, "creds/r", "").unwrap_err().to_string();
    assert!(refused.contains("42710"), "{refused}");
    let told = database.lock().unwrap().told.clone();
    assert!(told.len() == 1 && told[0].starts_with("CREATE ROLE"), "{told:?}");
    let template = r#"{"username_template":"u-{{.RoleName}}"}"#;
    let refused = mount.ask(0, Update, "config/c", template).unwrap_err().to_string();
    assert!(refused.contains("same name each time"), "{refused}");
}

#[test]
fn a_write_of_a_static_role_puts_no_rotation_off() {
    let (mount, _) = with_static_role();
    let next = |mount: &TestMount| mount.record("static-role/s").unwrap()["next"].clone();
    let first = next(&mount);
    for at in [600, 1200, 3000] {
        mount.ask(at, Update, "static-roles/s", r#"{"rotation_period":"1h"}"#).unwrap();
        assert_eq!(next(&mount), first, "{at}");
    }
    mount.ask(3001, Update, "static-roles/s", r#"{"rotation_period":"2h"}"#).unwrap();
    assert_ne!(next(&mount), first, "a longer period counts from the last rotation");
    mount.ask(3002, Update, "static-roles/s", r#"{"rotation_period":"10m"}"#).unwrap();
    let before = text(&mount, "static-role/s", "password");
    for _ in 0..4 {
        mount.run_job(3003, "rotate").unwrap();
    }
    assert_ne!(text(&mount, "static-role/s", "password"), before, "a period that is over is due");
    // One that was never rotated counts from its first write.
    let skips =
        r#"{"db_name":"c","username":"other","rotation_period":"1h","skip_import_rotation":true}"#;
    mount.ask(0, Update, "static-roles/t", skips).unwrap();
    let first = mount.record("static-role/t").unwrap()["next"].clone();
    mount.ask(3000, Update, "static-roles/t", skips).unwrap();
    assert_eq!(mount.record("static-role/t").unwrap()["next"], first);
}

#[test]
fn a_static_role_goes_from_a_schedule_to_a_period_and_back() {
    let (mount, _) = site();
    let role = r#"{"db_name":"c","username":"app","rotation_schedule":"0 0 * * SAT","rotation_window":"2h"}"#;
    mount.ask(0, Update, "static-roles/s", role).unwrap();
    mount.ask(1, Update, "static-roles/s", r#"{"rotation_period":"24h0m0s"}"#).unwrap();
    let shown = mount.ask(1, Read, "static-roles/s", "").unwrap();
    assert_eq!(shown["rotation_period"], Json::from(86_400_u64));
    assert!(!shown.contains_key("rotation_window"), "{shown:?}");
    let back = r#"{"rotation_period":0,"rotation_schedule":"0 0 * * 6"}"#;
    mount.ask(2, Update, "static-roles/s", back).unwrap();
    let shown = mount.ask(2, Read, "static-roles/s", "").unwrap();
    assert_eq!(TestMount::text(&shown, "rotation_schedule"), "0 0 * * 6");
    let both = r#"{"rotation_period":"1h","rotation_schedule":"0 0 * * 6"}"#;
    assert!(mount.ask(3, Update, "static-roles/s", both).is_err());
}

#[test]
fn what_is_null_in_a_write_of_a_connection_is_not_given() {
    let (mount, _) = site();
    let nulls = r#"{"password":null,"username":null,"connection_url":null,"allowed_roles":"a, b"}"#;
    mount.ask(1, Update, "config/c", nulls).unwrap();
    assert_eq!(text(&mount, "config/c", "password"), "rootpw");
}

#[test]
fn a_connection_is_verified_by_every_write_that_does_not_say_no() {
    let (mount, _) = site();
    let unseen = r#"{"password":"other","verify_connection":"false"}"#;
    mount.ask(1, Update, "config/c", unseen).unwrap();
    let refused = mount.ask(2, Update, "config/c", r#"{"password":"another"}"#);
    assert!(refused.unwrap_err().to_string().contains("error verifying connection"));
}

#[test]
fn statements_in_base_64_are_sent_as_what_they_say() {
    let (mount, database) = site();
    let sql =
        data_encoding::BASE64.encode(b"CREATE ROLE \"{{name}}\" LOGIN; GRANT x TO \"{{name}}\"");
    let role = format!(r#"{{"db_name":"c","creation_statements":["{sql}"]}}"#);
    mount.ask(0, Update, "roles/r", &role).unwrap();
    let made = mount.ask(0, Read, "creds/r", "").unwrap();
    let told = database.lock().unwrap().told.clone();
    let name = TestMount::text(&made, "username");
    assert_eq!(told, [format!("CREATE ROLE \"{name}\" LOGIN; GRANT x TO \"{name}\"")]);
    let shown = mount.ask(1, Read, "roles/r", "").unwrap();
    assert_eq!(shown["creation_statements"], Json::strings([sql.as_str()]), "as it was given");
}

#[test]
fn a_database_is_told_verifiers_of_passwords_where_its_connection_says_so() {
    let (mount, database) = site();
    let refused = mount.ask(0, Update, "config/c", r#"{"password_authentication":"md5"}"#);
    assert!(refused.unwrap_err().to_string().contains("password_authentication"));
    let scram = r#"{"password_authentication":"scram-sha-256"}"#;
    mount.ask(0, Update, "config/c", scram).unwrap();
    let role = r#"{"db_name":"c","creation_statements":"CREATE ROLE \"{{name}}\" PASSWORD '{{password}}'"}"#;
    mount.ask(0, Update, "roles/r", role).unwrap();
    let made = mount.ask(0, Read, "creds/r", "").unwrap();
    let told = database.lock().unwrap().told.clone();
    assert!(told[0].contains("PASSWORD 'SCRAM-SHA-256$4096:"), "{told:?}");
    assert!(!told[0].contains(&TestMount::text(&made, "password")), "{told:?}");
}

#[test]
fn a_name_by_a_template_is_cut_as_postgresql_cuts_it() {
    let (mount, _) = site();
    let template = r#"{"username_template":"{{random 20}}-{{.RoleName}}-{{random 80}}"}"#;
    mount.ask(0, Update, "config/c", template).unwrap();
    let role = r#"{"db_name":"c","creation_statements":"CREATE ROLE \"{{name}}\""}"#;
    mount.ask(0, Update, "roles/r", role).unwrap();
    let made = mount.ask(0, Read, "creds/r", "").unwrap();
    assert_eq!(TestMount::text(&made, "username").len(), 63);
}

#[test]
fn a_user_that_a_block_makes_ends_with_its_lease() {
    let (mount, database) = site();
    mount.ask(0, Update, "config/c", r#"{"password_authentication":"scram-sha-256"}"#).unwrap();
    let block = "DO $$ BEGIN CREATE ROLE \"{{name}}\" PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'; END $$";
    let role = Json::object([("db_name", "c".into()), ("creation_statements", block.into())]);
    let role = String::from_utf8(role.to_text()).unwrap();
    mount.ask(0, Update, "roles/r", &role).unwrap();
    mount.ask(0, Read, "creds/r", "").unwrap();
    let told = database.lock().unwrap().told.clone();
    assert!(told[0].contains("PASSWORD 'SCRAM-SHA-256$4096:"), "{told:?}");
    assert!(told[0].contains("VALID UNTIL '19"), "{told:?}");
}

#[test]
fn a_user_of_mysql_is_dropped_at_every_host_that_its_creation_names() {
    let mount = TestMount::new(&ENGINE);
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    mount.far_ends_do(move |call| {
        if let FarEndWork::Sql(work) = &call.work {
            let statements = work.statements.iter().map(|text| text.expose_secret().to_owned());
            heard.lock().unwrap().extend(statements);
        }
        Ok(FarEndAnswer::Done)
    });
    let config = r#"{"plugin_name":"mysql-database-plugin","connection_url":"{{username}}:{{password}}@tcp(h:3306)/",
        "username":"root","password":"rootpw","allowed_roles":"*"}"#;
    mount.ask(0, Update, "config/c", config).unwrap();
    for (host, dropped) in [
        ("%", "DROP USER IF EXISTS 'NAME'@'%'"),
        ("localhost", "DROP USER IF EXISTS 'NAME'@'localhost', 'NAME'@'%'"),
    ] {
        let role = format!(
            r#"{{"db_name":"c","creation_statements":"CREATE USER '{{{{name}}}}'@'{host}' IDENTIFIED BY '{{{{password}}}}'"}}"#
        );
        mount.ask(0, Update, "roles/r", &role).unwrap();
        let made = mount.ask(0, Read, "creds/r", "").unwrap();
        let lease = mount.leased().pop().unwrap();
        mount.end_lease(1, "creds/r", &lease).unwrap();
        let last = told.lock().unwrap().pop().unwrap();
        assert_eq!(last, dropped.replace("NAME", &TestMount::text(&made, "username")), "{host}");
    }
}

#[test]
fn a_window_that_is_null_in_a_write_of_a_static_role_is_not_given() {
    let (mount, _) = site();
    let role = r#"{"db_name":"c","username":"app","rotation_schedule":"0 0 * * 6","rotation_window":"2h"}"#;
    mount.ask(0, Update, "static-roles/s", role).unwrap();
    mount.ask(1, Update, "static-roles/s", r#"{"rotation_window":null}"#).unwrap();
    let shown = mount.ask(1, Read, "static-roles/s", "").unwrap();
    assert_eq!(shown["rotation_window"], Json::from(7200_u64));
}

#[test]
fn a_database_that_was_not_asked_leaves_no_lease() {
    let (mount, database) = site();
    let role = r#"{"db_name":"c","creation_statements":"CREATE ROLE \"{{name}}\"",
        "rollback_statements":"DROP ROLE \"{{name}}\""}"#;
    mount.ask(0, Update, "roles/r", role).unwrap();
    let leases_after = |mood: Mood| {
        set_mood(&database, mood);
        mount.ask(0, Read, "creds/r", "").unwrap_err();
        mount.leased().len()
    };
    assert_eq!(leases_after(Mood::IsAway), 0, "nobody reaches it");
    database.lock().unwrap().passwords.insert("root".into(), "another".into());
    assert_eq!(leases_after(Mood::Obeys), 0, "it does not let the login in");
    database.lock().unwrap().passwords.insert("root".into(), "rootpw".into());
    assert_eq!(leases_after(Mood::IsLost), 1, "a user may have been made");
}
