//! The page of configuration keys. Which keys there are is what the readers of the stanzas ask for, not a list.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use kallisto_core::admission::AdmissionLimits;
use kallisto_reference::{hold, page, table};

use super::super::Problems;
use super::{Environment, Loaded, Of, load};

thread_local! {
    /// The keys that were asked for on this thread, by stanza.
    static ASKED: RefCell<BTreeMap<String, BTreeSet<&'static str>>> = RefCell::default();
}

/// The keys that were asked for so far, by stanza.
pub(super) fn asked() -> BTreeMap<String, BTreeSet<&'static str>> {
    ASKED.with_borrow(Clone::clone)
}

/// Notes what a stanza was asked for.
pub(in super::super) fn note(title: &str, asked: &BTreeSet<&'static str>) {
    ASKED.with_borrow_mut(|all| all.entry(title.to_owned()).or_default().extend(asked));
}

/// Configurations that between them have every stanza in every kind.
pub(super) const EVERY_STANZA: [&str; 6] = [
    r#"storage "raft" {
  path = "/d"
  retry_join { leader_api_addr = "https://a.example:8200" }
}
listener "tcp" {
  tls_disable = true
  telemetry { unauthenticated_metrics_access = true }
}
listener "tcp" {
  address       = "127.0.0.1:8300"
  tls_cert_file = "c"
  tls_key_file  = "k"
}
listener "resp" { tls_disable = true }
telemetry { disable_hostname = true }
limits { max_connections = 1000 }
audit "file" "a" {
  options { file_path = "/var/log/kallisto/a.log" }
}
seal "transit" {
  address  = "https://a.example:8200"
  token    = "t"
  key_name = "k"
}"#,
    r#"storage "file" { path = "/d" }
listener "tcp" { tls_disable = true }
listener "resp" { path = "/s" }
seal "static" {
  current_key_id = "a"
  current_key    = "0000000000000000000000000000000000000000000000000000000000000001"
}
initialize "a" {
  request "b" {
    operation = "read"
    path      = "sys/mounts"
  }
}"#,
    r#"storage "inmem" {}
listener "tcp" { tls_disable = true }
tracing "otlp" { endpoint = "http://a.example:4318" }
service_registration "kubernetes" {
  namespace = "n"
  pod_name  = "p"
}
seal "shamir" {}"#,
    r#"storage "raft" { path = "/d" }
listener "tcp" { tls_disable = true }
durability = "batch""#,
    r#"storage "raft" {
  path = "/d"
  retry_join {
    leader_api_addr = "https://a.example:8200"
    join_token_file = "/t"
  }
}
listener "tcp" { tls_disable = true }"#,
    r#"storage "postgresql" { connection_url = "postgres://h/d" }
listener "tcp" { tls_disable = true }"#,
];

/// Reads a configuration in a pod of Kubernetes.
pub(super) fn read_in_a_pod(text: &str) -> Result<Loaded, Problems> {
    let lookup = |name: &str| match name {
        "VAULT_LOCAL_CONFIG" => Some(text.to_owned()),
        "KUBERNETES_SERVICE_HOST" => Some("10.0.0.1".to_owned()),
        "KUBERNETES_SERVICE_PORT" => Some("443".to_owned()),
        _ => None,
    };
    load(&[], &Environment::of(lookup), Of::Server)
}

/// A line for each key: stanza, key, default, meaning. A key that is missing here fails the test, and so does one that nobody asks for.
const MEANINGS: &str = include_str!("meanings.txt");

fn limits() -> Vec<(&'static str, usize)> {
    let limits = AdmissionLimits::default();
    vec![
        ("max_connections", limits.connections_max),
        ("reserved_connections", limits.connections_reserved),
        ("max_handshakes", limits.handshakes_max),
        ("max_requests", limits.requests_max),
        ("reserved_requests", limits.requests_reserved),
        ("max_hashes", limits.hashes_max),
        ("max_long_lists", limits.lists_max),
        ("max_computations", limits.computations_max),
        ("max_body_memory", limits.body_bytes_max),
        ("max_reply_memory", limits.reply_bytes_max),
    ]
}

#[test]
fn every_kind_of_storage_and_seal_is_read_for_the_page() {
    let storages = super::super::storage::KINDS.map(|(kind, _)| format!("storage \"{kind}\""));
    let seals = super::super::seal::KINDS.map(|(kind, _)| format!("seal \"{kind}\""));
    let stanzas = storages.into_iter().chain(seals);
    let is_missing = |stanza: &String| !EVERY_STANZA.iter().any(|text| text.contains(stanza));
    let missing: Vec<String> = stanzas.filter(is_missing).collect();
    assert_eq!(missing, [""; 0], "these stanzas are missing in EVERY_STANZA");
}

#[test]
fn the_page_of_configuration_keys_is_what_is_read() {
    for text in EVERY_STANZA {
        let read = read_in_a_pod(text);
        assert!(read.is_ok(), "{}", read.unwrap_err());
    }
    let about = "Every key of a configuration file, by stanza. How files are found and read, and which keys of Vault are known and ignored, is in \
        [operations](../operations.md#configuration).";
    let mut text = page("Configuration keys", about, "the readers of the configuration");
    let asked = asked();
    let limits = limits();
    let lines = MEANINGS.lines().map(|line| line.splitn(4, " | ").collect::<Vec<_>>());
    let meanings: Vec<Vec<&str>> = lines.collect();
    let mut missing = Vec::new();
    let mut told = 0;
    for (title, keys) in &asked {
        let shown = if title.is_empty() { "At the top" } else { title };
        text.push_str(&format!("## {shown}\n\n"));
        let mut rows = Vec::new();
        for key in keys {
            let found = meanings.iter().find(|line| line[0] == title && line[1] == *key);
            let Some([_, _, default, about]) = found.map(Vec::as_slice) else {
                missing.push(format!("({title:?}, {key:?})"));
                continue;
            };
            told += 1;
            let of_limits = limits.iter().find(|(name, _)| title == "limits" && name == key);
            let of_limits = of_limits.map(|(_, number)| number.to_string());
            // What is written beside a number says when it is another.
            let default = match (of_limits, default.is_empty()) {
                (None, _) => (*default).to_owned(),
                (Some(number), true) => number,
                (Some(number), false) => format!("{number}; {default}"),
            };
            rows.push(vec![format!("`{key}`"), default, (*about).to_owned()]);
        }
        table(&mut text, &["key", "default", "meaning"], rows);
    }
    assert_eq!(missing, [""; 0], "these keys are read and have no meaning here");
    assert_eq!(
        told,
        meanings.len(),
        "a meaning is of a key that nothing reads, or whose stanza is not in EVERY_STANZA"
    );
    hold("configuration.md", &format!("{}\n", text.trim_end()));
}
