//! TLS to a database with a certificate: who is believed, by each `sslmode`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kallisto_store_postgres::{PostgresOptions, PostgresStore};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::postgres::{PASSWORD, Postgres, give};
use crate::site::{begin, options, refusal};

/// An authority of its own, and what it issues.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Another name than those it issues have, which would be taken for certificates that issued themselves.
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

fn keep(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    give(&path);
}

/// How a database is asked with an `sslmode`, by a name, and what is believed.
fn asked(
    database: &Postgres,
    host: &str,
    mode: &str,
    believed: Option<&Authority>,
) -> PostgresOptions {
    let port = database.address().port();
    // `hostaddr` has the name be asked for where nobody resolves it.
    let url = format!(
        "host={host} hostaddr=127.0.0.1 port={port} user=kallisto password={PASSWORD} dbname=kallisto sslmode={mode}"
    );
    let mut options = options(&url, "one");
    options.tls.authorities = believed.map(|authority| authority.pem.clone()).unwrap_or_default();
    options
}

#[test]
fn each_mode_believes_what_it_says() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let (certificate, key) = ours.issue("db.example");
    let settings = ["ssl = on", "ssl_cert_file = 'server.crt'", "ssl_key_file = 'server.key'"];
    let started = Postgres::start_with("tls", &settings, |directory| {
        keep(directory, "server.crt", &certificate);
        keep(directory, "server.key", &key);
        // In the clear nobody comes in.
        keep(
            directory,
            "pg_hba.conf",
            "hostssl kallisto kallisto 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 scram-sha-256\n",
        );
    });
    let Some(database) = started else { return };
    for (host, mode, believed) in [
        ("db.example", "prefer", None),
        ("db.example", "require", None),
        ("other.example", "require", None),
        ("db.example", "verify-ca", Some(&ours)),
        // It looks at the authority alone.
        ("other.example", "verify-ca", Some(&ours)),
        ("db.example", "verify-full", Some(&ours)),
    ] {
        let store = PostgresStore::open(asked(&database, host, mode, believed));
        let store = store.unwrap_or_else(|error| panic!("{host} {mode}: {error}"));
        begin(&store);
        assert_eq!(
            database.sql("SELECT bool_and(ssl) AND count(*) >= 2 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'kallisto'"),
            "t",
            "{host} {mode}"
        );
    }
    for (host, mode, believed, why) in [
        ("db.example", "disable", None, "no pg_hba.conf entry"),
        ("db.example", "verify-ca", Some(&other), "UnknownIssuer"),
        ("db.example", "verify-full", Some(&other), "UnknownIssuer"),
        ("other.example", "verify-full", Some(&ours), "not valid for name"),
        // Nobody of those that the system knows issued it.
        ("db.example", "verify-full", None, "certificate"),
    ] {
        let error = refusal(asked(&database, host, mode, believed)).to_string();
        assert!(error.contains(why), "{host} {mode}: {error}");
        assert!(!error.contains(PASSWORD), "{error}");
    }
}

#[test]
fn a_database_without_tls_is_not_asked_in_the_clear_where_tls_was_said() {
    let Some(database) = Postgres::start("no-tls") else { return };
    for mode in ["require", "verify-full"] {
        let error = refusal(asked(&database, "db.example", mode, None)).to_string();
        assert!(error.contains("does not support TLS"), "{mode}: {error}");
    }
    begin(&PostgresStore::open(asked(&database, "db.example", "prefer", None)).unwrap());
}

#[test]
fn a_certificate_is_shown_to_a_database_that_asks_for_one() {
    let ours = Authority::new("ours");
    let (certificate, key) = ours.issue("db.example");
    let settings = [
        "ssl = on",
        "ssl_cert_file = 'server.crt'",
        "ssl_key_file = 'server.key'",
        "ssl_ca_file = 'ca.crt'",
    ];
    let started = Postgres::start_with("client-certificates", &settings, |directory| {
        keep(directory, "server.crt", &certificate);
        keep(directory, "server.key", &key);
        keep(directory, "ca.crt", &ours.pem);
        keep(
            directory,
            "pg_hba.conf",
            "hostssl kallisto kallisto 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\nhost all postgres 127.0.0.1/32 scram-sha-256\n",
        );
    });
    let Some(database) = started else { return };
    let error = refusal(asked(&database, "db.example", "verify-full", Some(&ours))).to_string();
    assert!(error.contains("certificate"), "{error}");
    let (certificate, key) = ours.issue("kallisto");
    let mut options = asked(&database, "db.example", "verify-full", Some(&ours));
    (options.tls.certificate, options.tls.private_key) = (certificate, Some(key.into()));
    begin(&PostgresStore::open(options).unwrap());
}
