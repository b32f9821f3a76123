//! What holds of the records of every engine: a write that keeps what it does not name loses no other write, and a damaged record is no
//! mistake of who reads it.

use kallisto_api::Error;
use kallisto_auth::Operation::{Read, Update};
use kallisto_engine::EngineSpec;

use crate::testing::TestMount;

/// Two writes of a record, each of some of its fields.
struct PartialWrites {
    engine: &'static EngineSpec,
    path: &'static str,
    first: &'static str,
    /// The bodies, and which field has which value then.
    both: [(&'static str, &'static str, &'static str); 2],
}

const PARTIAL_WRITES: &[PartialWrites] = &[
    PartialWrites {
        engine: &crate::ldap::ENGINE,
        path: "role/r",
        first: r#"{"creation_ldif":"dn: cn={{.Username}},dc=x\nobjectClass: person\n","deletion_ldif":"dn: cn={{.Username}},dc=x\nchangetype: delete\n"}"#,
        both: [
            (r#"{"default_ttl":60}"#, "default_ttl", "60"),
            (r#"{"max_ttl":120}"#, "max_ttl", "120"),
        ],
    },
    PartialWrites {
        engine: &crate::kubernetes::ENGINE,
        path: "roles/r",
        first: r#"{"allowed_kubernetes_namespaces":"n","service_account_name":"a"}"#,
        both: [
            (r#"{"token_default_ttl":60}"#, "token_default_ttl", "60"),
            (r#"{"token_max_ttl":120}"#, "token_max_ttl", "120"),
        ],
    },
    PartialWrites {
        engine: &crate::kubernetes::ENGINE,
        path: "config",
        first: r#"{"kubernetes_host":"https://k8s.test:6443","service_account_jwt":"t"}"#,
        both: [
            (r#"{"disable_local_ca_jwt":true}"#, "disable_local_ca_jwt", "true"),
            (
                r#"{"kubernetes_ca_cert":"-----BEGIN CERTIFICATE-----"}"#,
                "kubernetes_ca_cert",
                "-----BEGIN CERTIFICATE-----",
            ),
        ],
    },
];

#[test]
fn of_two_partial_writes_at_once_none_is_lost() {
    for PartialWrites { engine, path, first, both } in PARTIAL_WRITES {
        let mount = TestMount::new(engine);
        mount.ask(0, Update, path, first).unwrap();
        let [(one, ..), (other, ..)] = both;
        mount.before_commit(|mount| drop(mount.ask(0, Update, path, other).unwrap()));
        mount.ask(0, Update, path, one).unwrap();
        let read = mount.ask(0, Read, path, "").unwrap();
        for (_, field, value) in both {
            assert_eq!(TestMount::text(&read, field), *value, "{path}: {field}");
        }
    }
}

#[test]
fn a_damaged_record_is_no_mistake_of_who_reads_it() {
    const DAMAGED: &[(&EngineSpec, &str, &str, &str)] = &[
        (&crate::database::ENGINE, "role/r", "roles/r", r#"{"max_ttl":[]}"#),
        (&crate::kubernetes::ENGINE, "role/r", "roles/r", r#"{"token_max_ttl":-1}"#),
        (&crate::kubernetes::ENGINE, "config", "config", r#"{"kubernetes_host":"x"}"#),
        (&crate::ldap::ENGINE, "role/r", "role/r", r#"{"max_ttl":-1}"#),
        (&crate::ldap::ENGINE, "library/l", "library/l", r#"{"ttl":-1}"#),
        (&crate::rabbitmq::ENGINE, "role/r", "roles/r", r#"{"vhosts":"x"}"#),
        (&crate::rabbitmq::ENGINE, "config/lease", "config/lease", r#"{"ttl":-1}"#),
        (&crate::transit::ENGINE, "config/keys", "config/keys", r#"{"disable_upsert":[]}"#),
        (&crate::pki::ENGINE, "config/auto-tidy", "config/auto-tidy", r#"{"enabled":[]}"#),
    ];
    for (engine, record, path, damage) in DAMAGED {
        let mount = TestMount::new(engine);
        mount.put(record, damage.as_bytes());
        let read = mount.ask(0, Read, path, "");
        assert!(matches!(read, Err(Error::Internal(_))), "{path}: {read:?}");
    }
}
