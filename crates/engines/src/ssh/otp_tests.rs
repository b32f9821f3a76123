//! One-time passwords: for whom they are made, and that each is good once.

use std::sync::atomic::{AtomicUsize, Ordering};

use kallisto_api::Error;
use kallisto_api::json::Map;
use kallisto_auth::Operation::{Delete, Read, Update};

use super::ENGINE;
use super::tests::{NOW, ask, refusal};
use crate::testing::TestMount;

/// A mount with the role `otp` for hosts in 10/8, but for those in 10.1/16.
pub(super) fn with_otp() -> TestMount {
    let mount = TestMount::new(&ENGINE);
    let body = r#"{"key_type":"otp","default_user":"ubuntu","cidr_list":"10.0.0.0/8,127.0.0.1/32","exclude_cidr_list":"10.1.0.0/16","allowed_users":"bob, alice","port":2222}"#;
    ask(&mount, "roles/otp", body).unwrap();
    mount
}

fn creds(mount: &TestMount, body: &str) -> Result<Map, Error> {
    ask(mount, "creds/otp", body)
}

fn verify(mount: &TestMount, at: i64, otp: &str) -> Result<Map, Error> {
    mount.ask(at, Update, "verify", &format!(r#"{{"otp":"{otp}"}}"#))
}

#[test]
fn a_one_time_password_is_good_once_and_until_its_lease_ends() {
    let mount = with_otp();
    let made = creds(&mount, r#"{"ip":"10.2.3.4"}"#).unwrap();
    for (name, value) in
        [("ip", "10.2.3.4"), ("key_type", "otp"), ("port", "2222"), ("username", "ubuntu")]
    {
        assert_eq!(TestMount::text(&made, name), value);
    }
    let otp = TestMount::text(&made, "key");
    for spelled in [
        format!(" {otp}"),
        format!("{otp} "),
        otp.to_uppercase(),
        otp.replace('-', ""),
        format!("{otp}\\n"),
        String::new(),
        "rubbish".to_owned(),
    ] {
        assert_eq!(refusal(verify(&mount, NOW, &spelled)), "OTP not found", "{spelled}");
    }
    let taken = verify(&mount, NOW, &otp).unwrap();
    for (name, value) in [("ip", "10.2.3.4"), ("role_name", "otp"), ("username", "ubuntu")] {
        assert_eq!(TestMount::text(&taken, name), value);
    }
    assert_eq!(refusal(verify(&mount, NOW, &otp)), "OTP not found");
    assert_eq!(refusal(ask(&mount, "verify", "{}")), "OTP not found");
    let echo = verify(&mount, NOW, "verify-echo-request").unwrap();
    assert_eq!(TestMount::text(&echo, "message"), "verify-echo-response");
    // Its lease ends it, late or in time.
    let otp =
        TestMount::text(&creds(&mount, r#"{"ip":"10.2.3.4","username":"bob"}"#).unwrap(), "key");
    assert_eq!(refusal(verify(&mount, NOW + 3600, &otp)), "OTP not found");
    let otp = TestMount::text(&creds(&mount, r#"{"ip":"10.2.3.4"}"#).unwrap(), "key");
    for _ in 0..2 {
        mount.end_lease(NOW, "ssh/creds/otp", mount.leased().last().unwrap()).unwrap();
    }
    assert_eq!(refusal(verify(&mount, NOW, &otp)), "OTP not found");
    assert_eq!(mount.names(), ["role/otp"], "nothing is left of what was taken");
}

#[test]
fn of_64_who_show_a_one_time_password_at_once_one_is_told_that_it_is_good() {
    let mount = with_otp();
    for _ in 0..20 {
        let otp = TestMount::text(&creds(&mount, r#"{"ip":"10.2.3.4"}"#).unwrap(), "key");
        let good = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| match verify(&mount, NOW, &otp) {
                    Ok(_) => drop(good.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => assert_eq!(error.to_string(), "OTP not found"),
                });
            }
        });
        assert_eq!(good.into_inner(), 1);
    }
}

#[test]
fn hosts_and_users_of_one_time_passwords_are_those_of_the_role() {
    let mount = with_otp();
    let no_ip = "Error validating IP: IP does not belong to role";
    for (body, why) in [
        (r#"{"ip":"11.0.0.1"}"#, no_ip),
        (r#"{"ip":"10.1.2.3"}"#, no_ip),
        (r#"{"ip":"::ffff:10.1.2.3"}"#, no_ip),
        (r#"{"ip":"::1"}"#, no_ip),
        (r#"{"ip":"x"}"#, "Invalid IP \"x\""),
        (r#"{"ip":"10.1"}"#, "Invalid IP \"10.1\""),
        ("{}", "Missing ip"),
        (r#"{"ip":"10.2.3.4","username":"eve"}"#, "Username is not present is allowed users list"),
        (
            r#"{"ip":"10.2.3.4","username":"bob,alice"}"#,
            "Username is not present is allowed users list",
        ),
    ] {
        assert_eq!(refusal(creds(&mount, body)), why, "{body}");
    }
    assert_eq!(
        refusal(ask(&mount, "creds/nope", r#"{"ip":"10.2.3.4"}"#)),
        "Role \"nope\" not found"
    );
    let made = creds(&mount, r#"{"ip":"::ffff:10.2.3.4","username":"alice"}"#).unwrap();
    assert_eq!(TestMount::text(&made, "ip"), "10.2.3.4");
    // A role for any address leaves out what it leaves out all the same.
    assert_eq!(refusal(ask(&mount, "config/zeroaddress", "{}")), "Missing roles");
    let refused = refusal(ask(&mount, "config/zeroaddress", r#"{"roles":"otp,none"}"#));
    assert_eq!(refused, "Role \"none\" does not exist");
    assert_eq!(mount.ask(NOW, Read, "config/zeroaddress", ""), Err(Error::NotFound));
    ask(&mount, "config/zeroaddress", r#"{"roles":"otp"}"#).unwrap();
    assert!(creds(&mount, r#"{"ip":"192.168.0.1"}"#).is_ok());
    assert_eq!(refusal(creds(&mount, r#"{"ip":"10.1.0.1"}"#)), no_ip);
    let roles = |ip: &str| {
        let found = ask(&mount, "lookup", &format!(r#"{{"ip":"{ip}"}}"#)).unwrap();
        TestMount::text(&found, "roles")
    };
    assert_eq!((roles("192.168.0.1"), roles("10.1.0.1")), (r#"["otp"]"#.into(), "null".into()));
    mount.ask(NOW, Delete, "config/zeroaddress", "").unwrap();
    assert_eq!((roles("192.168.0.1"), roles("10.2.0.1")), ("null".into(), r#"["otp"]"#.into()));
    // A role that is deleted leaves the list, so that one of its name that is made later is not on it.
    ask(&mount, "config/zeroaddress", r#"{"roles":["otp"]}"#).unwrap();
    mount.ask(NOW, Delete, "roles/otp", "").unwrap();
    let read = mount.ask(NOW, Read, "config/zeroaddress", "").unwrap();
    assert_eq!(TestMount::text(&read, "roles"), "[]");
}
