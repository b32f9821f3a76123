//! The engine against a directory that obeys, refuses, and is not heard.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kallisto_api::{Error, Json};
use kallisto_auth::Operation::{self, Delete, Read, Update};
use kallisto_engine::far_end::{
    FarEndProtocol, LdapChange, LdapEntry, LdapOperation, LdapScope, LdapSearch,
};
use kallisto_engine::{
    Caller, CallerToken, FarEndAnswer, FarEndCall, FarEndFailure, FarEndWork, RoleTtl,
};
use kallisto_ldap::dn;
use secrecy::ExposeSecret;

use super::ENGINE;
use crate::testing::TestMount;

const BINDER: &str = "cn=manager,dc=x";
const CONFIG: &str = r#"{"url":"ldap://127.0.0.1","binddn":"cn=Manager,dc=x","bindpass":"managerpw","userdn":"dc=x"}"#;

/// How a directory takes a change of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Obeys,
    /// It does nothing, and says so.
    Refuses,
    /// It does it, and says that it did not.
    Lies,
    /// It does nothing, and is not heard.
    IsLost,
    /// It does it, and is not heard.
    IsLostAfter,
    /// No login is wrong or right.
    IsDown,
}

/// Entries with their passwords, by their normalized names.
struct Directory {
    entries: BTreeMap<String, (String, String)>,
    mood: Mood,
    /// Which passwords were set, or were to be.
    asked: Vec<(String, String)>,
    /// Operations that are neither of the above.
    changes: usize,
}

type Shared = Arc<Mutex<Directory>>;

impl Directory {
    fn new() -> Self {
        let entries = [
            (BINDER, "managerpw"),
            ("cn=Svc1,dc=x", "old1"),
            ("cn=svc2,dc=x", "old2"),
            ("cn=svc3,dc=x", "old3"),
        ];
        let entries = entries
            .map(|(name, password)| (dn::normalized(name), (name.to_owned(), password.to_owned())));
        Self { entries: entries.into(), mood: Mood::Obeys, asked: Vec::new(), changes: 0 }
    }

    fn logs_in(&self, name: &str, password: &str) -> bool {
        self.entries.get(&dn::normalized(name)).is_some_and(|(_, known)| known == password)
    }

    fn answer(&mut self, call: &FarEndCall) -> Result<FarEndAnswer, FarEndFailure> {
        let FarEndProtocol::Ldap { login, .. } = &call.far_end.protocol else { panic!("{call:?}") };
        if self.mood == Mood::IsDown {
            return Err(FarEndFailure::Unreachable("down".into()));
        }
        if !self.logs_in(&login.user, login.password.expose_secret()) {
            return Err(FarEndFailure::LoginRefused("invalidCredentials".into()));
        }
        let FarEndWork::Ldap(work) = &call.work else { return Ok(FarEndAnswer::Done) };
        let [operation] = work.operations.as_slice() else { panic!("{work:?}") };
        match operation {
            LdapOperation::Search(search) => Ok(self.search(search)),
            LdapOperation::Modify { dn, changes } => {
                let [(LdapChange::Replace, attribute)] = changes.as_slice() else { panic!() };
                let password = String::from_utf8(attribute.values[0].0.to_vec()).unwrap();
                self.set(dn, password)
            }
            _ => {
                self.changes += 1;
                Err(FarEndFailure::NothingDone("LDAP result 68 entryAlreadyExists".into()))
            }
        }
    }

    fn set(&mut self, name: &str, password: String) -> Result<FarEndAnswer, FarEndFailure> {
        self.asked.push((dn::normalized(name), password.clone()));
        let does = matches!(self.mood, Mood::Obeys | Mood::Lies | Mood::IsLostAfter);
        if does {
            self.entries.get_mut(&dn::normalized(name)).unwrap().1 = password;
        }
        match self.mood {
            Mood::Obeys => Ok(FarEndAnswer::Done),
            Mood::Refuses | Mood::Lies => Err(FarEndFailure::NothingDone("result 19".into())),
            _ => Err(FarEndFailure::Unknown("nothing was heard".into())),
        }
    }

    fn search(&self, search: &LdapSearch) -> FarEndAnswer {
        let is_found = |name: &str| match search.scope {
            LdapScope::Base => dn::is_same(name, &search.base),
            LdapScope::Subtree => {
                let cn = dn::common_name(name).to_lowercase();
                search.filter.to_lowercase() == format!("(cn={cn})")
            }
        };
        let found = self.entries.values().filter(|(name, _)| is_found(name));
        let entries = found.map(|(name, _)| LdapEntry { dn: name.clone(), ..LdapEntry::default() });
        FarEndAnswer::Entries { entries: entries.collect(), is_whole: true }
    }
}

/// An engine that is configured for a directory.
fn site() -> (TestMount, Shared) {
    let (mount, directory) = (TestMount::new(&ENGINE), Arc::new(Mutex::new(Directory::new())));
    let shared = Arc::clone(&directory);
    mount.far_ends_do(move |call| shared.lock().unwrap().answer(call));
    mount.ask(0, Update, "config", CONFIG).unwrap();
    (mount, directory)
}

fn set_mood(directory: &Shared, mood: Mood) {
    directory.lock().unwrap().mood = mood;
}

fn text(mount: &TestMount, record: &str, name: &str) -> String {
    let record = mount.record(record).unwrap();
    record.get(name).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn refused(mount: &TestMount, operation: Operation, path: &str, body: &str) -> String {
    match mount.ask(0, operation, path, body) {
        Err(Error::Invalid(why)) => why,
        other => panic!("{path} {body}: {other:?}"),
    }
}

fn is_unavailable(answer: Result<kallisto_api::Map, Error>) -> bool {
    matches!(answer, Err(Error::Unavailable(_)))
}

#[test]
fn the_same_root_password_is_set_until_it_is_known_to_be_set() {
    for mood in [Mood::IsLost, Mood::IsLostAfter, Mood::Lies] {
        let (mount, directory) = site();
        set_mood(&directory, mood);
        let rotated = mount.ask(10, Update, "rotate-root", "");
        if mood == Mood::IsLost {
            assert!(is_unavailable(rotated), "{mood:?}");
            let pending = text(&mount, "config", "pending_password");
            assert!(!pending.is_empty() && text(&mount, "config", "bindpass") == "managerpw");
            set_mood(&directory, Mood::Obeys);
            mount.ask(11, Update, "rotate-root", "").unwrap();
            assert_eq!(text(&mount, "config", "bindpass"), pending, "the same one");
        } else {
            // A login says that it is set, whatever else was said.
            rotated.unwrap();
        }
        let asked: Vec<String> =
            directory.lock().unwrap().asked.iter().map(|(_, password)| password.clone()).collect();
        assert!(asked.iter().all(|one| *one == asked[0]), "{mood:?}");
        let kept = text(&mount, "config", "bindpass");
        assert!(directory.lock().unwrap().logs_in(BINDER, &kept), "{mood:?}");
        assert_eq!(text(&mount, "config", "pending_password"), "", "{mood:?}");
    }
}

#[test]
fn a_root_password_is_dropped_when_it_is_refused_and_logs_nobody_in() {
    let (mount, directory) = site();
    set_mood(&directory, Mood::Refuses);
    let why = refused(&mount, Update, "rotate-root", "");
    assert!(why.contains("result 19"), "{why}");
    assert_eq!(text(&mount, "config", "pending_password"), "");
    assert_eq!(text(&mount, "config", "bindpass"), "managerpw");
}

#[test]
fn nothing_is_dropped_while_neither_password_logs_in() {
    let (mount, directory) = site();
    set_mood(&directory, Mood::IsLost);
    assert!(is_unavailable(mount.ask(10, Update, "rotate-root", "")));
    let pending = text(&mount, "config", "pending_password");
    // The directory locks the login out: both passwords are wrong.
    directory.lock().unwrap().entries.get_mut(BINDER).unwrap().1 = "locked".into();
    assert!(is_unavailable(mount.ask(11, Update, "rotate-root", "")));
    for at in 200..210 {
        mount.run_job(at, "rotate").unwrap();
    }
    assert_eq!(text(&mount, "config", "pending_password"), pending);
    assert_eq!(text(&mount, "config", "bindpass"), "managerpw");
    // It is let in again, by the password that it had.
    directory.lock().unwrap().entries.get_mut(BINDER).unwrap().1 = "managerpw".into();
    for at in 300..310 {
        mount.run_job(at, "rotate").unwrap();
    }
    assert_eq!(text(&mount, "config", "pending_password"), "", "it is known not to be set");
}

#[test]
fn the_job_finds_a_root_password_that_was_set_unheard() {
    let (mount, directory) = site();
    set_mood(&directory, Mood::IsLost);
    assert!(is_unavailable(mount.ask(10, Update, "rotate-root", "")));
    let pending = text(&mount, "config", "pending_password");
    set_mood(&directory, Mood::Obeys);
    directory.lock().unwrap().entries.get_mut(BINDER).unwrap().1 = pending.clone();
    mount.run_job(20, "rotate").unwrap();
    assert_eq!(
        text(&mount, "config", "bindpass"),
        "managerpw",
        "who changes it may still be at it"
    );
    for at in 200..205 {
        mount.run_job(at, "rotate").unwrap();
    }
    assert_eq!(text(&mount, "config", "bindpass"), pending);
}

#[test]
fn the_login_stays_while_its_password_is_changed() {
    let (mount, directory) = site();
    set_mood(&directory, Mood::IsLost);
    assert!(is_unavailable(mount.ask(10, Update, "rotate-root", "")));
    for change in [
        r#"{"bindpass":"other"}"#,
        r#"{"binddn":"cn=other,dc=x"}"#,
        r#"{"url":"ldap://127.0.0.2"}"#,
        r#"{"schema":"ad"}"#,
    ] {
        assert!(is_unavailable(mount.ask(11, Update, "config", change)), "{change}");
    }
    mount.ask(11, Update, "config", r#"{"request_timeout":7}"#).unwrap();
    set_mood(&directory, Mood::Obeys);
    mount.ask(12, Update, "rotate-root", "").unwrap();
    mount.ask(13, Update, "config", r#"{"bindpass":"other"}"#).unwrap();
}

#[test]
fn a_static_role_keeps_a_password_that_may_be_set() {
    let role = r#"{"username":"svc1","dn":"cn=svc1,dc=x","rotation_period":3600}"#;
    let (mount, directory) = site();
    mount.ask(0, Update, "static-role/s", role).unwrap();
    set_mood(&directory, Mood::IsLostAfter);
    assert!(is_unavailable(mount.ask(10, Update, "rotate-role/s", "")));
    let pending = text(&mount, "static-role/s", "pending");
    assert!(directory.lock().unwrap().logs_in("cn=svc1,dc=x", &pending));
    // Set before, and refused now, since it was used before: a login says that it is set.
    set_mood(&directory, Mood::Refuses);
    mount.ask(11, Update, "rotate-role/s", "").unwrap();
    assert_eq!(text(&mount, "static-role/s", "password"), pending);
    assert_eq!(text(&mount, "static-role/s", "pending"), "");
    // One that is refused and not set is dropped, and another one comes.
    let why = refused(&mount, Update, "rotate-role/s", "");
    assert!(why.contains("result 19"), "{why}");
    assert_eq!(text(&mount, "static-role/s", "pending"), "");
    assert_eq!(text(&mount, "static-role/s", "password"), pending);
    set_mood(&directory, Mood::Obeys);
    mount.ask(12, Update, "rotate-role/s", "").unwrap();
    let asked = directory.lock().unwrap().asked.clone();
    let [.., (_, refused), (_, set)] = asked.as_slice() else { panic!() };
    assert_ne!(refused, set);
}

#[test]
fn the_job_settles_what_was_refused_by_a_login() {
    for (mood, is_set) in [(Mood::Lies, true), (Mood::Refuses, false)] {
        let (mount, directory) = site();
        let role = r#"{"username":"svc1","rotation_period":100}"#;
        mount.ask(0, Update, "static-role/s", role).unwrap();
        let first = text(&mount, "static-role/s", "password");
        set_mood(&directory, mood);
        for at in 101..106 {
            mount.run_job(at, "rotate").unwrap();
        }
        let (password, pending) =
            (text(&mount, "static-role/s", "password"), text(&mount, "static-role/s", "pending"));
        assert_eq!((password != first, pending.as_str()), (is_set, ""), "{mood:?}");
        assert!(directory.lock().unwrap().logs_in("cn=svc1,dc=x", &password), "{mood:?}");
        let error = text(&mount, "static-role/s", "last_error");
        assert_eq!(error.is_empty(), is_set, "{error}");
    }
}

#[test]
fn a_new_role_whose_password_is_refused_is_none() {
    let (mount, directory) = site();
    set_mood(&directory, Mood::Refuses);
    let role = r#"{"username":"svc1","rotation_period":3600}"#;
    let why = refused(&mount, Update, "static-role/s", role);
    assert!(why.contains("result 19"), "{why}");
    assert_eq!(mount.names(), ["config"]);
    set_mood(&directory, Mood::IsLostAfter);
    assert!(is_unavailable(mount.ask(0, Update, "static-role/s", role)));
    assert!(mount.record("static-role/s").is_some(), "nobody else knows the password");
}

#[test]
fn the_entry_of_binddn_belongs_to_no_role_and_no_set() {
    let (mount, _) = site();
    for body in [
        r#"{"username":"manager","rotation_period":3600}"#,
        r#"{"username":"x","dn":"CN=manager, DC=X","rotation_period":3600}"#,
    ] {
        let why = refused(&mount, Update, "static-role/s", body);
        assert!(why.contains("is the binddn"), "{why}");
    }
    let why = refused(&mount, Update, "library/l", r#"{"service_account_names":"svc1,manager"}"#);
    assert!(why.contains("is the binddn"), "{why}");
    assert_eq!(mount.names(), ["config"]);
    mount.ask(0, Update, "static-role/s", r#"{"username":"svc1","rotation_period":3600}"#).unwrap();
    let why = refused(&mount, Update, "config", r#"{"binddn":"CN=SVC1,dc=x"}"#);
    assert!(why.contains("binddn is an entry"), "{why}");
}

#[test]
fn an_entry_is_one_however_its_name_is_spelled() {
    let (mount, _) = site();
    let role = r#"{"username":"one","dn":"CN = svc1 ,DC=X","rotation_period":3600}"#;
    mount.ask(0, Update, "static-role/s", role).unwrap();
    assert_eq!(text(&mount, "static-role/s", "dn"), "cn=Svc1,dc=x", "as the directory spells it");
    for body in [
        r#"{"username":"two","dn":"cn=SVC1,dc=x","rotation_period":3600}"#,
        r#"{"username":"two","dn":"cn=sv\\631,dc=x","rotation_period":3600}"#,
        r#"{"username":"svc1","rotation_period":3600}"#,
    ] {
        let why = refused(&mount, Update, "static-role/t", body);
        assert!(why.contains("already managed"), "{why}");
    }
    let why = refused(&mount, Update, "library/l", r#"{"service_account_names":"svc1"}"#);
    assert!(why.contains("already managed"), "{why}");
    let why = refused(
        &mount,
        Update,
        "static-role/t",
        r#"{"username":"x","dn":"cn=nobody,dc=x","rotation_period":3600}"#,
    );
    assert!(why.contains("noSuchObject"), "{why}");
    // The same name in another spelling is no change.
    mount
        .ask(0, Update, "static-role/s", r#"{"dn":"cn=svc1, dc=x","rotation_period":7200}"#)
        .unwrap();
    mount.ask(0, Delete, "static-role/s", "").unwrap();
    assert_eq!(mount.names(), ["config"]);
}

#[test]
fn a_write_of_a_set_that_fails_leaves_all_that_is_lent() {
    let (mount, directory) = site();
    mount.ask(0, Update, "library/l", r#"{"service_account_names":"svc1,svc2"}"#).unwrap();
    let lent = mount.ask(1, Update, "library/l/check-out", "").unwrap();
    let lent = TestMount::text(&lent, "service_account_name");
    let other = if lent == "svc1" { "svc2" } else { "svc1" };
    let names = mount.names();
    // One is to go and one to come, which the directory refuses.
    set_mood(&directory, Mood::Refuses);
    let body = format!(r#"{{"service_account_names":"{lent},svc3"}}"#);
    let why = refused(&mount, Update, "library/l", &body);
    assert!(why.contains("result 19"), "{why}");
    assert_eq!(mount.names(), names, "all is as it was");
    set_mood(&directory, Mood::Obeys);
    // One that is lent cannot go, and what was to come instead is let go.
    let body = format!(r#"{{"service_account_names":"{other},svc3"}}"#);
    let why = refused(&mount, Update, "library/l", &body);
    assert!(why.contains("checked out"), "{why}");
    assert_eq!(mount.names(), names);
    let status = mount.ask(2, Read, "library/l/status", "").unwrap();
    let is_available = |name: &str| {
        status.get(name).and_then(Json::as_object).and_then(|state| state.get("available").cloned())
    };
    assert_eq!(is_available(&lent), Some(false.into()));
    assert_eq!(is_available(other), Some(true.into()));
    // What may have been set stays taken, comes in at the next write, and goes with the set.
    set_mood(&directory, Mood::IsLostAfter);
    let body = r#"{"service_account_names":"svc1,svc2,svc3"}"#;
    assert!(is_unavailable(mount.ask(3, Update, "library/l", body)));
    let status = mount.ask(3, Read, "library/l/status", "").unwrap();
    assert!(!status.contains_key("svc3"));
    set_mood(&directory, Mood::Obeys);
    mount.ask(4, Update, "library/l", body).unwrap();
    mount
        .ask(5, Update, "library/manage/l/check-in", r#"{"service_account_names":"svc1,svc2"}"#)
        .unwrap();
    mount.ask(6, Delete, "library/l", "").unwrap();
    assert_eq!(mount.names(), ["config"]);
}

#[test]
fn who_borrowed_an_account_gives_it_back_and_no_other_unless_the_set_is_open() {
    const BACK: &str = "library/l/check-in";
    let (mount, _) = site();
    let asks = |entity: &str, token: u8| {
        let token = CallerToken { id: [token; 32], ..CallerToken::default() };
        mount.ask_as(Caller { entity_id: entity.to_owned(), token, ..Caller::default() });
    };
    for is_open in [false, true] {
        let body = format!(
            r#"{{"service_account_names":"svc1","disable_check_in_enforcement":{is_open}}}"#
        );
        mount.ask(0, Update, "library/l", &body).unwrap();
        for (borrower, stranger) in [
            (("ann", 1), ("bob", 2)),
            (("", 1), ("", 2)),
            (("ann", 1), ("", 1)),
            (("", 1), ("ann", 1)),
        ] {
            asks(borrower.0, borrower.1);
            mount.ask(1, Update, "library/l/check-out", "").unwrap();
            asks(stranger.0, stranger.1);
            let named = r#"{"service_account_names":"svc1"}"#;
            match is_open {
                true => {
                    mount.ask(2, Update, BACK, named).unwrap();
                    continue;
                }
                // An entity that borrowed gives back by any of its tokens; a token without one by itself alone.
                false if borrower.0.is_empty() && borrower.1 == stranger.1 => {
                    mount.ask(2, Update, BACK, named).unwrap();
                    continue;
                }
                false => {}
            }
            let why = refused(&mount, Update, BACK, named);
            assert!(why.contains("wasn't checked out by the caller"), "{why}");
            // Without names nothing of the stranger's is found.
            let none = mount.ask(2, Update, BACK, "").unwrap();
            assert_eq!(TestMount::text(&none, "check_ins"), "[]");
            asks(borrower.0, borrower.1);
            let own = mount.ask(3, Update, BACK, "").unwrap();
            assert_eq!(TestMount::text(&own, "check_ins"), r#"["svc1"]"#);
        }
    }
}

#[test]
fn a_loan_follows_its_set() {
    let (mount, _) = site();
    let write = |ttl: &str| {
        let body = format!(r#"{{"service_account_names":"svc1",{ttl}}}"#);
        mount.ask(0, Update, "library/l", &body).unwrap();
    };
    write(r#""ttl":"1h","max_ttl":"24h""#);
    mount.ask(1, Update, "library/l/check-out", "").unwrap();
    let loan = mount.leased().remove(0);
    let by_now = || mount.role_ttl("library/l/check-out", &loan);
    assert_eq!(by_now(), Ok(RoleTtl { default_secs: 3600, max_secs: 86_400 }));
    write(r#""ttl":"1m","max_ttl":"1h""#);
    assert_eq!(by_now(), Ok(RoleTtl { default_secs: 60, max_secs: 3600 }));
}

#[test]
fn an_entry_that_was_there_before_is_left_alone() {
    let (mount, directory) = site();
    let role = r#"{"creation_ldif":"dn: cn={{.Username}},dc=x\nobjectClass: person\ncn: {{.Username}}\n",
        "deletion_ldif":"dn: cn={{.Username}},dc=x\nchangetype: delete\n",
        "rollback_ldif":"dn: cn={{.Username}},dc=x\nchangetype: delete\n"}"#;
    mount.ask(0, Update, "role/r", role).unwrap();
    let why = refused(&mount, Read, "creds/r", "");
    assert!(why.contains("entryAlreadyExists"), "{why}");
    assert_eq!(directory.lock().unwrap().changes, 1, "nothing is rolled back");
    directory.lock().unwrap().mood = Mood::IsDown;
    mount.ask(0, Read, "creds/r", "").unwrap_err();
    assert_eq!(mount.leased().len(), 0, "there is nothing that a lease would have to delete");
}

#[test]
fn the_directory_stays_while_it_has_to_take_something_back() {
    let (mount, _) = site();
    let set = r#"{"service_account_names":"svc1"}"#;
    mount.ask(0, Update, "library/l", set).unwrap();
    mount.ask(1, Update, "library/l/check-out", "").unwrap();
    let why = refused(&mount, Delete, "config", "");
    assert!(why.contains("say force=true"), "{why}");
    mount.answer_with(2, Delete, "config", &[("force", "true")], b"").unwrap();
    assert!(mount.record("config").is_none());
}

#[test]
fn a_write_of_a_static_role_puts_no_rotation_off() {
    let (mount, _) = site();
    let role = r#"{"username":"svc1","rotation_period":"1h"}"#;
    mount.ask(0, Update, "static-role/s", role).unwrap();
    let next = |mount: &TestMount| mount.record("static-role/s").unwrap()["next"].clone();
    let first = next(&mount);
    mount.ask(3000, Update, "static-role/s", role).unwrap();
    assert_eq!(next(&mount), first);
}
