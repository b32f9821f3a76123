//! The engine against a broker that keeps users, refuses, and is not heard.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kallisto_api::{Error, Json, json};
use kallisto_auth::Operation::{Read, Update};
use kallisto_engine::far_end::{FarEndProtocol, HttpWork, HttpWorkAnswer, HttpWorkVerb};
use kallisto_engine::{FarEndAnswer, FarEndCall, FarEndFailure, FarEndWork, RoleTtl};

use super::ENGINE;
use crate::testing::TestMount;

const CREDS: &str = "mount/creds/r";

/// Users of a broker with their permissions, by their names.
#[derive(Default)]
struct FakeBroker {
    users: BTreeMap<String, Vec<String>>,
    /// The status with which permissions are answered, if they are refused.
    refuses_permissions: Option<u16>,
    is_down: bool,
}

type Shared = Arc<Mutex<FakeBroker>>;

impl FakeBroker {
    fn answer(&mut self, call: &FarEndCall) -> Result<FarEndAnswer, FarEndFailure> {
        assert!(matches!(call.far_end.protocol, FarEndProtocol::Http { .. }), "{call:?}");
        let FarEndWork::Http(HttpWork { verb, path, .. }) = &call.work else { panic!("{call:?}") };
        if self.is_down {
            return Err(FarEndFailure::Unreachable("down".into()));
        }
        let parts: Vec<&str> = path.strip_prefix("/api/").unwrap().split('/').collect();
        let status = match (*verb, parts.as_slice()) {
            (HttpWorkVerb::Get, ["whoami"]) => 200,
            (HttpWorkVerb::Get, ["users", name]) if self.users.contains_key(*name) => 200,
            (HttpWorkVerb::Put, ["users", name]) => {
                self.users.insert((*name).to_owned(), Vec::new());
                201
            }
            (HttpWorkVerb::Put, [kind, vhost, name]) => match self.refuses_permissions {
                Some(status) => status,
                None => {
                    self.users.get_mut(*name).unwrap().push(format!("{kind} {vhost}"));
                    201
                }
            },
            (HttpWorkVerb::Delete, ["users", name]) if self.users.remove(*name).is_some() => 204,
            (HttpWorkVerb::Get | HttpWorkVerb::Delete, ["users", _]) => 404,
            _ => panic!("{verb:?} {path}"),
        };
        Ok(FarEndAnswer::Http(HttpWorkAnswer { status, body: Vec::new() }))
    }
}

/// An engine that is configured for a broker, with a role.
fn site() -> (TestMount, Shared) {
    let (mount, broker) = (TestMount::new(&ENGINE), Shared::default());
    let shared = Arc::clone(&broker);
    mount.far_ends_do(move |call| shared.lock().unwrap().answer(call));
    let connection = r#"{"connection_uri":"http://h:15672","username":"admin","password":"p"}"#;
    mount.ask(0, Update, "config/connection", connection).unwrap();
    let role = r#"{"tags":"management","vhosts":{"v":{"read":".*"}},"vhost_topics":{"v":{"x":{"read":".*"}}}}"#;
    mount.ask(0, Update, "roles/r", role).unwrap();
    (mount, broker)
}

#[test]
fn a_user_is_made_with_its_permissions_and_deleted_with_its_lease() {
    let (mount, broker) = site();
    let made = mount.ask(0, Read, "creds/r", "").unwrap();
    let name = TestMount::text(&made, "username");
    let permissions = broker.lock().unwrap().users.get(&name).cloned();
    assert_eq!(permissions.unwrap(), ["permissions v", "topic-permissions v"]);
    let lease = mount.leased().pop().unwrap();
    let revocation = json::parse_object(&lease).unwrap();
    assert_eq!(revocation.get("username").and_then(Json::as_str), Some(name.as_str()));
    assert!(!lease.windows(8).any(|part| part == b"password"), "a lease keeps no password");
    // Once more, as after a crash: a user that is not there is deleted.
    for _ in 0..2 {
        assert_eq!(mount.end_lease(9, CREDS, &lease), Ok(()));
        assert!(broker.lock().unwrap().users.is_empty());
    }
}

#[test]
fn what_was_made_in_part_is_taken_back_by_its_lease() {
    let (mount, broker) = site();
    broker.lock().unwrap().refuses_permissions = Some(400);
    assert!(matches!(mount.ask(0, Read, "creds/r", ""), Err(Error::Invalid(_))));
    assert_eq!(broker.lock().unwrap().users.len(), 1);
    let lease = mount.leased().pop().unwrap();
    broker.lock().unwrap().is_down = true;
    // It is called again until the broker is heard.
    assert!(matches!(mount.end_lease(1, CREDS, &lease), Err(Error::Unavailable(_))));
    broker.lock().unwrap().is_down = false;
    assert_eq!(mount.end_lease(2, CREDS, &lease), Ok(()));
    assert!(broker.lock().unwrap().users.is_empty());
}

#[test]
fn a_user_of_the_broker_is_left_as_it_is() {
    let (mount, broker) = site();
    broker.lock().unwrap().users.insert("theirs-0".into(), Vec::new());
    let connection = r#"{"connection_uri":"http://h:15672","username":"admin","password":"p","username_template":"theirs-{{unix_time}}"}"#;
    mount.ask(0, Update, "config/connection", connection).unwrap();
    assert!(matches!(mount.ask(0, Read, "creds/r", ""), Err(Error::Invalid(_))));
    assert!(mount.leased().is_empty(), "no lease will delete it");
    assert!(broker.lock().unwrap().users.contains_key("theirs-0"));
}

#[test]
fn a_renewal_is_bounded_by_what_the_mount_says_by_then() {
    let (mount, _broker) = site();
    mount.ask(0, Read, "creds/r", "").unwrap();
    let lease = mount.leased().pop().unwrap();
    assert_eq!(mount.role_ttl(CREDS, &lease), Ok(RoleTtl::default()));
    mount.ask(0, Update, "config/lease", r#"{"ttl":"1m","max_ttl":"1h"}"#).unwrap();
    let told = RoleTtl { default_secs: 60, max_secs: 3600 };
    assert_eq!(mount.role_ttl(CREDS, &lease), Ok(told));
    assert_eq!(mount.renew_lease(9, CREDS, &lease, 99), Ok(()));
}
