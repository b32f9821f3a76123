//! A mount under another path.

use kallisto_core::{Error, Operation, Response};

use super::text;
use crate::support::{Site, ask_as};

#[test]
fn a_moved_mount_has_its_secrets_and_its_settings_at_the_new_path_alone() {
    let site = Site::open(1 << 20);
    site.put("a", "v");
    site.ask(Operation::Update, "secret/config", r#"{"max_versions":3}"#).unwrap();
    let body = r#"{"from":"secret","to":"/team/kv/"}"#;
    let Response::Merged(told) = site.ask(Operation::Update, "sys/remount", body).unwrap() else {
        panic!("no merged reply")
    };
    let told = kallisto_core::json::parse_object(&told.data).unwrap();
    let id = told["migration_id"].as_str().unwrap().to_owned();
    for is_restarted in [false, true] {
        if is_restarted {
            pollster::block_on(site.core.seal()).unwrap();
            site.unseal();
        }
        let read = |path: &str| site.ask(Operation::Read, path, "");
        assert!(matches!(read("secret/data/a"), Err(Error::NoRoute(_))));
        let Response::Logical(reply) = read("team/kv/data/a").unwrap() else { panic!() };
        assert!(reply.data.starts_with(br#"{"data":{"v":"v"}"#));
        let Response::Logical(config) = read("team/kv/config").unwrap() else { panic!() };
        assert!(String::from_utf8_lossy(&config.data).contains(r#""max_versions":3"#));
        let Response::Logical(status) = read(&format!("sys/remount/status/{id}")).unwrap() else {
            panic!()
        };
        let status = kallisto_core::json::parse_object(&status.data).unwrap();
        assert_eq!(
            text(&status["migration_info"]),
            r#"{"source_mount":"secret/","status":"success","target_mount":"team/kv/"}"#
        );
    }
    assert_eq!(
        site.ask(Operation::Read, "sys/remount/status/none", "").unwrap_err(),
        Error::NotFound
    );
    // The path it left is free again.
    site.ask(Operation::Update, "sys/mounts/secret", r#"{"type":"kv"}"#).unwrap();
}

#[test]
fn what_cannot_be_moved_is_said_as_clients_know_it() {
    let site = Site::open(1 << 20);
    site.ask(Operation::Update, "sys/mounts/kv", r#"{"type":"kv"}"#).unwrap();
    for (from, to, message) in [
        ("nope", "q", "no matching mount at \"nope/\""),
        ("kv", "secret", "path already in use at \"secret/\""),
        ("kv", "secret/q", "path already in use at \"secret/\""),
        ("kv", "kv", "path already in use at \"kv/\""),
        ("sys", "q", "cannot remount \"sys/\""),
        ("kv", "sys/q", "cannot remount to destination sys/q/"),
        ("kv", "cubbyhole/q", "cannot remount to destination cubbyhole/q/"),
        ("kv", "auth/q", "cannot remount to destination auth/q/"),
        ("auth/token", "auth/q", "cannot remount \"auth/token/\""),
        ("", "q", "both 'from' and 'to' path must be specified as a string"),
        ("kv", "", "both 'from' and 'to' path must be specified as a string"),
    ] {
        let body = format!(r#"{{"from":"{from}","to":"{to}"}}"#);
        let refused = site.ask(Operation::Update, "sys/remount", &body).unwrap_err();
        assert_eq!(refused, Error::Invalid(message.to_owned()));
    }
    let denied = ask_as(&site.core, "nobody", 0, Operation::Update, "sys/remount", "{}");
    assert!(matches!(denied, Err(Error::Denied(_))));
}
