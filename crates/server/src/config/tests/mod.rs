//! Configurations as people write them, in both forms, and what is said about the wrong ones.

use std::path::Path;
use std::time::Duration;

use kallisto_core::RouteAccess;
use kallisto_core::admission::AdmissionLimits;
use kallisto_store::Durability;
use secrecy::ExposeSecret;
use tracing_subscriber::filter::LevelFilter;

use super::limits::ConfiguredLimits;
use super::model::{LogConfig, TransitTls};
use super::*;
use kallisto_command::files;

mod initialize;
mod listeners;
pub(super) mod reference;
mod seal;
mod sources;
mod text;
mod tracing;

/// Reads `text` as the only source, with these variables besides.
fn read_with(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, String> {
    let lookup = |name: &str| match name {
        "VAULT_LOCAL_CONFIG" => Some(text.to_owned()),
        _ => variables.iter().find(|(known, _)| *known == name).map(|(_, it)| (*it).to_owned()),
    };
    load(&[], &Environment::of(lookup), Of::Server).map_err(|error| error.to_string())
}

fn read(text: &str) -> ServerConfig {
    let loaded = read_with(text, &[]).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(loaded.warnings, [""; 0], "{text}");
    loaded.config
}

/// What is said of `text` between the least that a configuration needs.
fn refusal(text: &str) -> String {
    match read_with(&format!("{MINIMUM}{text}"), &[]) {
        Ok(loaded) => panic!("{text} was read as {loaded:?}"),
        Err(error) => error,
    }
}

fn warnings(text: &str) -> Vec<String> {
    read_with(&format!("{MINIMUM}{text}"), &[]).unwrap().warnings
}

const MINIMUM: &str = "storage \"inmem\" {}\nlistener \"tcp\" { tls_disable = 1 }\n";

const PRODUCTION: &str = r#"
# One of three in the rack.
ui            = true
cluster_name  = "rack-4"
api_addr      = "https://kallisto-0.example:8200/"
cluster_addr  = "https://kallisto-0.example:8201"
disable_mlock = true
default_lease_ttl = "168h"
max_lease_ttl     = 2764800
log_level  = "Debug"
log_format = "json"
log_file   = "/var/log/kallisto.log"
pid_file   = "/run/kallisto.pid"
cache_size = "512MiB"
durability          = "batch"
durability_ops      = 500
durability_interval = "20ms"
raw_storage_endpoint = false
plugin_directory = "/opt/plugins"

storage "raft" {
  path    = "/var/lib/kallisto"
  node_id = "node-0"
  performance_multiplier = 5
  max_entry_size = "1MiB"
  retry_join {
    leader_api_addr         = "https://kallisto-1.example:8200"
    leader_ca_cert_file     = "/etc/tls/ca.pem"
    leader_client_cert_file = "/etc/tls/me.pem"
    leader_client_key_file  = "/etc/tls/me.key"
    leader_tls_servername   = "kallisto"
  }
  retry_join {
    leader_api_addr = "https://kallisto-2.example:8200"
    join_token_file = "/run/join-token"
  }
}

listener "tcp" {
  address         = "0.0.0.0:8200"
  cluster_address = "10.1.0.4:8201"
  tls_cert_file      = "/etc/tls/me.pem"
  tls_key_file       = "/etc/tls/me.key"
  tls_client_ca_file = "/etc/tls/clients.pem"
  tls_min_version    = "tls13"
  tls_require_and_verify_client_cert = "true"
  max_request_size         = 1048576
  http_read_header_timeout = "10s"
  http_idle_timeout        = "2m"
  x_forwarded_for_authorized_addrs      = ["10.0.0.0/8", "192.168.1.7"]
  x_forwarded_for_hop_skips             = "1"
  x_forwarded_for_reject_not_authorized = false
  telemetry { unauthenticated_metrics_access = true }
}

listener "tcp" {
  address     = "127.0.0.1:8210"
  tls_disable = 1
  unauthenticated_rekey = true
}

telemetry {
  prometheus_retention_time = "12h"
  disable_hostname          = true
}

seal "transit" {
  address         = "https://keys.example:8200"
  token           = "hvs.canary-token"
  key_name        = "kallisto"
  mount_path      = "transit/"
  namespace       = "ops/"
  disable_renewal = "false"
  tls_ca_cert     = "/etc/tls/keys.pem"
  tls_skip_verify = "false"
}
"#;

const PRODUCTION_JSON: &str = r#"{
  "ui": true, "cluster_name": "rack-4",
  "api_addr": "https://kallisto-0.example:8200", "cluster_addr": "https://kallisto-0.example:8201",
  "disable_mlock": true, "default_lease_ttl": "168h", "max_lease_ttl": "768h",
  "log_level": "debug", "log_format": "json", "log_file": "/var/log/kallisto.log",
  "pid_file": "/run/kallisto.pid", "cache_size": 536870912,
  "durability": "batch", "durability_ops": 500, "durability_interval": "20ms",
  "storage": {"raft": {
    "path": "/var/lib/kallisto", "node_id": "node-0", "performance_multiplier": 5,
    "max_entry_size": 1048576,
    "retry_join": [
      {"leader_api_addr": "https://kallisto-1.example:8200",
       "leader_ca_cert_file": "/etc/tls/ca.pem", "leader_client_cert_file": "/etc/tls/me.pem",
       "leader_client_key_file": "/etc/tls/me.key", "leader_tls_servername": "kallisto"},
      {"leader_api_addr": "https://kallisto-2.example:8200", "join_token_file": "/run/join-token"}
    ]}},
  "listener": [
    {"tcp": {"address": "0.0.0.0:8200", "cluster_address": "10.1.0.4:8201",
      "tls_cert_file": "/etc/tls/me.pem", "tls_key_file": "/etc/tls/me.key",
      "tls_client_ca_file": "/etc/tls/clients.pem", "tls_min_version": "tls13",
      "tls_require_and_verify_client_cert": true, "max_request_size": 1048576,
      "http_read_header_timeout": 10, "http_idle_timeout": 120,
      "x_forwarded_for_authorized_addrs": "10.0.0.0/8, 192.168.1.7",
      "x_forwarded_for_hop_skips": 1, "x_forwarded_for_reject_not_authorized": "false",
      "telemetry": {"unauthenticated_metrics_access": true}}},
    {"tcp": {"address": "127.0.0.1:8210", "tls_disable": true,
      "disable_unauthed_rekey_endpoints": false}}
  ],
  "telemetry": {"prometheus_retention_time": "12h", "disable_hostname": true},
  "seal": [{"transit": {"address": "https://keys.example:8200", "token": "hvs.canary-token",
    "key_name": "kallisto", "mount_path": "/transit", "namespace": "ops", "disable_renewal": false,
    "tls_ca_cert": "/etc/tls/keys.pem"}}]
}"#;

#[test]
fn a_whole_configuration_says_the_same_in_both_forms() {
    let of = |text: &str| {
        let Loaded { config, warnings } = read_with(text, &[]).unwrap();
        let [told] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(told.contains(": unauthenticated_rekey has no effect"), "{told}");
        config
    };
    let (hcl, json) = (of(PRODUCTION), of(PRODUCTION_JSON));
    assert_eq!(format!("{hcl:#?}"), format!("{json:#?}"));
    assert!(!format!("{hcl:?}").contains("canary"));
    let SealSettings::Transit(seal) = hcl.seal else { panic!("no transit seal") };
    assert_eq!(seal.token.expose_secret(), "hvs.canary-token");
    assert_eq!((seal.mount_path.as_str(), seal.namespace.as_deref()), ("transit", Some("ops/")));
    assert_eq!((seal.disable_renewal, seal.tls.trusts_anyone), (false, false));
    let StorageConfig::Raft { path, node_id, retry_join, performance_multiplier, .. } = hcl.storage
    else {
        panic!("no raft storage")
    };
    assert_eq!(
        (path.as_path(), node_id.as_deref()),
        (Path::new("/var/lib/kallisto"), Some("node-0"))
    );
    assert_eq!((retry_join.len(), performance_multiplier), (2, Some(5)));
    let [outer, inner] = &hcl.listeners[..] else { panic!("not two listeners") };
    let tls = outer.tls.as_ref().unwrap();
    assert_eq!((tls.min_version, tls.max_version), (TlsVersion::Tls13, TlsVersion::Tls13));
    assert_eq!(
        tls.client_certificates,
        ClientCertificates::Required("/etc/tls/clients.pem".into())
    );
    assert_eq!(outer.header_timeout, Some(Duration::from_secs(10)));
    assert_eq!(outer.forwarded_for.authorized.len(), 2);
    assert!(outer.forwarded_for.reject_not_present && !outer.forwarded_for.reject_not_authorized);
    assert_eq!(outer.unauthenticated_metrics, RouteAccess::Open);
    assert_eq!(outer.unauthenticated_rekey, RouteAccess::Token);
    assert_eq!(
        (inner.address.to_string().as_str(), inner.unauthenticated_rekey),
        ("127.0.0.1:8210", RouteAccess::Open)
    );
    assert_eq!(inner.cluster_address.to_string(), "127.0.0.1:8211");
    assert_eq!(hcl.durability, Durability::Batch { ops: 500, interval: Duration::from_millis(20) });
    assert_eq!(hcl.lease_ttls.max, Some(Duration::from_secs(768 * 3600)));
    assert_eq!(hcl.log.level, Some(LevelFilter::DEBUG));
    assert_eq!(hcl.api_addr.as_deref(), Some("https://kallisto-0.example:8200"));
}

#[test]
fn the_least_that_starts_a_server_is_safe() {
    let config = read(
        "storage \"file\" { path = \"data\" }\nlistener \"tcp\" {\n  tls_cert_file = \"c\"\n  tls_key_file = \"k\"\n}",
    );
    let [listener] = &config.listeners[..] else { panic!("not one listener") };
    assert_eq!(listener.address.to_string(), "127.0.0.1:8200");
    assert_eq!(listener.cluster_address.to_string(), "127.0.0.1:8201");
    let tls = listener.tls.as_ref().unwrap();
    assert_eq!((tls.min_version, tls.max_version), (TlsVersion::Tls12, TlsVersion::Tls13));
    assert_eq!(tls.client_certificates, ClientCertificates::Any);
    assert_eq!(listener.unauthenticated_rekey, RouteAccess::Token);
    assert_eq!(listener.unauthenticated_metrics, RouteAccess::Token);
    assert!(matches!(config.storage, StorageConfig::File { .. }));
    assert!(matches!(config.seal, SealSettings::Shamir));
    assert_eq!(config.durability, Durability::Strict);
    assert!(config.ui.is_none() && !config.disable_mlock && !config.raw_storage_endpoint);
    assert_eq!(config.log, LogConfig::default());
}

/// What the test suites of clients start their servers with.
#[test]
fn files_of_client_test_suites_are_read() {
    for text in [
        "backend \"inmem\" {\n}\nlistener \"tcp\" {\n  address = \"127.0.0.1:8200\"\n  tls_cert_file = \"t/server.crt\"\n  tls_key_file = \"t/server.key\"\n}\ndisable_mlock = true\ndefault_lease_ttl = \"768h\"\nmax_lease_ttl = \"768h\"\nraw_storage_endpoint = true\n",
        "{\"backend\": {\"inmem\": {}}, \"listener\": {\"tcp\": {\"address\": \"0.0.0.0:8200\", \"tls_disable\": 1}}, \"disable_mlock\": true, \"max_lease_ttl\": \"\"}",
        "storage \"inmem\" {}\nlistener \"tcp\" { address = \":8200\" tls_disable = \"true\" }\nplugin_directory = \"/p\"\nmax_lease_ttl = 0",
        "storage = { file = { path = \"/vault/file\" } }\nlistener = { tcp = { address = \"[::]:8200\", cluster_address = \"[::]:8201\", tls_disable = \"1\" } }",
    ] {
        read(text);
    }
}

#[test]
fn unknown_options_of_audit_devices_are_warned_about() {
    let options = "file_path = \"stdout\"\n fromat = \"compact\"\n bogus = 1";
    let found = warnings(&format!("audit \"file\" \"a\" {{\n options {{ {options} }}\n}}"));
    let place = "VAULT_LOCAL_CONFIG:3: audit \"file\" \"a\": unknown option";
    let typo = format!("{place} \"fromat\": did you mean \"format\"?");
    assert_eq!(found, [format!("{place} \"bogus\""), typo]);
}

#[test]
fn unknown_and_useless_keys_are_warned_about_by_place() {
    let found = warnings(
        "ui = true\nui = false\nuii = true\nplugin_directory = \"/p\"\nservice_registration \"consul\" {}\nlog_requests_level = \"debug\"\ndurability_ops = 7\ntelemetry {\n\n  bogus = 1\n}\nlistener \"tcp\" {\n tls_disable = true address = \"127.0.0.1:9200\"\n tls_cipher_suites = \"X\"\n telemetry { nothing = 1 }\n}",
    );
    assert_eq!(
        found,
        [
            "VAULT_LOCAL_CONFIG:4: ui is given again; this one counts",
            "VAULT_LOCAL_CONFIG:5: unknown key \"uii\": did you mean \"ui\"?",
            "VAULT_LOCAL_CONFIG:7: service_registration \"consul\" is ignored: only \"kubernetes\" is there",
            "VAULT_LOCAL_CONFIG:9: durability_ops has no effect: durability is strict",
            "VAULT_LOCAL_CONFIG:12: unknown key \"bogus\" in telemetry",
            "VAULT_LOCAL_CONFIG:16: tls_cipher_suites in listener \"tcp\" is ignored",
            "VAULT_LOCAL_CONFIG:17: unknown key \"nothing\" in telemetry",
        ]
    );
}

#[test]
fn a_pod_is_known_by_the_environment_and_then_by_the_file() {
    let text = format!(
        "{MINIMUM}service_registration \"kubernetes\" {{\n namespace = \"of-the-file\"\n pod_name = \"kallisto-0\"\n}}"
    );
    let server = [("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("KUBERNETES_SERVICE_PORT", "443")];
    let read = |more: &[(&str, &str)]| read_with(&text, &[&server, more].concat());
    let config = read(&[]).unwrap().config;
    let pod = config.pod.unwrap();
    assert_eq!((pod.namespace.as_str(), pod.pod.as_str()), ("of-the-file", "kallisto-0"));
    assert_eq!(pod.api_server, "https://10.0.0.1:443");
    assert!(config.service_account_dir.ends_with("kubernetes.io/serviceaccount"));
    let config = read(&[("BAO_K8S_NAMESPACE", "a"), ("KALLISTO_K8S_SERVICE_ACCOUNT_DIR", "/d")]);
    let config = config.unwrap().config;
    assert_eq!(config.pod.unwrap().namespace, "a");
    assert_eq!(config.service_account_dir, Path::new("/d"));
    let refused = read(&[("VAULT_K8S_POD_NAME", "../secrets/a")]).unwrap_err();
    assert_eq!(refused, "VAULT_K8S_POD_NAME: expected the name of an object of Kubernetes");
    let none = format!("{MINIMUM}service_registration \"kubernetes\" {{}}");
    let refused = read_with(&none, &server).unwrap_err();
    assert!(refused.contains("needs namespace, or VAULT_K8S_NAMESPACE"), "{refused}");
    let refused = read_with(&text, &[]).unwrap_err();
    assert!(refused.contains("KUBERNETES_SERVICE_HOST"), "{refused}");
    assert_eq!(super::tests::read(MINIMUM).pod, None);
}

#[test]
fn the_log_and_the_metrics_are_what_vaults_keys_say() {
    let config = read(&format!(
        "{MINIMUM}log_file = \"/l/k.log\"\nlog_rotate_bytes = 1000\nlog_rotate_duration = \"2h\"\nlog_rotate_max_files = -1\ntelemetry {{\n  metrics_prefix = \"bao\"\n  usage_gauge_period = \"5m\"\n  maximum_gauge_cardinality = 7\n  prefix_filter = [\"-bao.token\", \"+bao.token.count\"]\n  filter_default = true\n}}\n"
    ));
    let file = config.log.file.unwrap();
    assert_eq!((file.bytes_max, file.kept), (Some(1000), Some(0)));
    assert_eq!(file.period, Duration::from_secs(7200));
    let metrics = config.telemetry.metrics;
    assert_eq!((metrics.prefix.as_str(), metrics.cardinality_max), ("bao", 7));
    assert_eq!(metrics.usage_period, Some(Duration::from_secs(300)));
    assert!(metrics.tells("bao.token.count") && !metrics.tells("bao.token.create"));
    let default = read(&format!("{MINIMUM}log_file = \"/l/k.log\"\n")).log.file.unwrap();
    assert_eq!((default.bytes_max, default.kept), (None, None));
    let twice = "telemetry {\n  prometheus_retention_time = 0\n}\ntelemetry {}";
    assert_eq!(
        warnings(twice),
        ["VAULT_LOCAL_CONFIG:6: telemetry is given again; this one counts, and all of it"]
    );
    let folder = read(&format!("{MINIMUM}log_file = \"/l/\"\n")).log.file.unwrap();
    assert_eq!(folder.path, Path::new("/l/kallisto.log"));
}

#[test]
fn wrong_values_are_refused_with_file_line_and_key() {
    for (text, wanted) in [
        ("ui = \"maybe\"", "3: ui: expected true or false"),
        ("ui = []", "3: ui: expected one value"),
        ("\ncluster_name = true", "4: cluster_name: expected text"),
        ("api_addr = \"kallisto:8200\"", "3: api_addr: expected a URL"),
        ("api_addr = \"https://u:p@kallisto\"", "3: api_addr: expected a URL"),
        ("max_lease_ttl = \"soon\"", "3: max_lease_ttl: expected seconds"),
        ("max_lease_ttl = \"-1h\"", "3: max_lease_ttl: expected seconds"),
        (
            "max_lease_ttl = \"1h\"\ndefault_lease_ttl = \"2h\"",
            "4: default_lease_ttl: is longer than max",
        ),
        ("max_lease_ttl = \"999999h\"", "3: max_lease_ttl: is longer than 100 years"),
        ("cache_size = \"1\"", "3: cache_size: expected 1048576 to"),
        ("log_level = \"loud\"", "3: log_level: expected one of: trace, debug"),
        (
            "log_rotate_max_files = -5",
            "3: log_rotate_max_files: expected a whole number from -1 to",
        ),
        ("log_requests_level = \"loud\"", "3: log_requests_level: expected one of: trace, debug"),
        ("log_file = \"/l\"\nlog_rotate_duration = \"0s\"", "4: log_rotate_duration: expected 1s"),
        (
            "telemetry {\n  statsd_address = \"x\"\n}",
            "4: statsd_address in telemetry is not supported",
        ),
        (
            "telemetry {\n  add_lease_metrics_namespace_labels = true\n}",
            "4: add_lease_metrics_namespace_labels in telemetry is not supported",
        ),
        (
            "telemetry {\n  disable_hostname = false\n}",
            "4: disable_hostname: expected true: no name of a metric",
        ),
        ("telemetry {\n  metrics_prefix = \"a-b\"\n}", "4: metrics_prefix: expected letters"),
        ("telemetry {\n  usage_gauge_period = \"1s\"\n}", "4: usage_gauge_period: expected none"),
        ("telemetry {\n  prefix_filter = [\"vault\"]\n}", "4: prefix_filter: expected + or -"),
        ("log_format = \"xml\"", "3: log_format: expected one of: standard, json"),
        ("durability = \"maybe\"", "3: durability: expected one of: strict, batch"),
        (
            "durability = \"batch\"\ndurability_ops = 0",
            "4: durability_ops: expected a whole number from 1",
        ),
        (
            "durability = \"batch\"\ndurability_interval = 0",
            "4: durability_interval: expected more than",
        ),
        (
            "durability = \"batch\"\ndurability_interval = \"2h\"",
            "4: durability_interval: expected more than",
        ),
        ("enable_multiseal = true", "3: enable_multiseal is not supported"),
        ("ui {", "4: expected a key or '}'"),
    ] {
        let error = refusal(&format!("{text}\n"));
        assert!(error.starts_with(&format!("VAULT_LOCAL_CONFIG:{wanted}")), "{text}: {error}");
    }
}

/// Whatever a hand or a disk does to a file, it is read or refused, and no secret shows.
#[test]
fn cut_and_flipped_files_are_read_or_refused() {
    for text in [PRODUCTION, PRODUCTION_JSON] {
        let cuts = (0..text.len()).map(|end| text[..end].to_owned());
        let flips = (0..text.len()).map(|at| {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= 1 << (at % 7);
            String::from_utf8(bytes).unwrap()
        });
        for text in cuts.chain(flips) {
            let said = match read_with(&text, &[]) {
                Ok(loaded) => format!("{loaded:?}"),
                Err(error) => error,
            };
            assert!(!said.contains("canary"), "{said}");
        }
    }
}

#[test]
fn a_database_is_read_from_the_file_and_the_environment() {
    let text = "storage \"postgresql\" {\n  connection_url = \"postgres://u:canary@file/d\"\n  \
        table = \"s.t\"\n  ha_enabled = \"false\"\n  max_connect_retries = 7\n  max_idle_connections = 3\n  \
        skip_create_table = true\n}\nlistener \"tcp\" { tls_disable = 1 }\n";
    for (variables, host) in [
        (&[][..], "file:5432/d"),
        (&[("BAO_PG_CONNECTION_URL", "postgres://u:canary@bao/d")][..], "bao:5432/d"),
        (&[("VAULT_PG_CONNECTION_URL", "postgres://u:canary@vault:9/d")][..], "vault:9/d"),
    ] {
        let loaded = read_with(text, variables).unwrap();
        assert!(!format!("{:?}", loaded.config).contains("canary"));
        let StorageConfig::Postgresql(database) = loaded.config.storage else { panic!("none") };
        assert_eq!(database.url.shown(), host);
        assert_eq!((database.table.as_str(), database.connects_max), ("s.t", 7));
        assert!(!database.ha_enabled && !database.makes_tables);
    }
}

#[test]
fn storage_is_named_once_and_known() {
    let listener = "listener \"tcp\" { tls_disable = 1 }\n";
    for (text, wanted) in [
        ("", "no storage is configured"),
        (
            "storage \"consul\" { path = \"vault/\" }",
            "the kinds of storage are raft, postgresql, file and inmem",
        ),
        ("storage \"raft\" {}", "storage \"raft\": a path is missing"),
        ("storage \"file\" {}", "storage \"file\": a path is missing"),
        ("storage \"postgresql\" {}", "a connection_url is missing"),
        (
            "storage \"postgresql\" { connection_url = \"postgres://u:canary@h/d?sslmode=no\" }",
            "connection_url: has an sslmode that is none of",
        ),
        (
            "storage \"postgresql\" { connection_url = \"postgres://h/d\"\n table = \"a; b\" }",
            "table: is no name of a table",
        ),
        (
            "storage \"postgresql\" { connection_url = \"postgres://h/d\"\n ha_table = \"kallisto_store_meta\" }",
            "ha_table is another table",
        ),
        (
            "storage \"postgresql\" { connection_url = \"postgres://h/d\"\n max_parallel = 1 }",
            "max_parallel: expected",
        ),
        ("storage \"inmem\" {}\nbackend \"inmem\" {}", "there can be only one in a file"),
        ("storage \"raft\" { path = \"p\" retry_join {} }", "a leader_api_addr is missing"),
        (
            "storage \"raft\" { path = \"p\" retry_join { auto_join = \"provider=aws\" } }",
            "auto_join is not supported",
        ),
        (
            "storage \"raft\" { path = \"p\" retry_join { leader_api_addr = \"https://a\" leader_client_cert_file = \"c\" } }",
            "must be given together",
        ),
        (
            "storage \"raft\" { path = \"p\" retry_join { leader_api_addr = \"https://a\" join_token = \"kjt.x\" } }",
            "use join_token_file",
        ),
        ("storage \"raft\" { path = \"p\" performance_multiplier = 11 }", "from 0 to 10"),
        ("storage { path = \"p\" }", "expected a block"),
        ("storage \"a\" \"b\" {}", "this block takes one label"),
    ] {
        let error = read_with(&format!("{listener}{text}"), &[]).unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn limits_are_read_and_a_reserve_leaves_something_for_the_rest() {
    let limits = read(&format!(
        "{MINIMUM}limits {{\n max_connections = 1000\n max_body_memory = \"128MiB\"\n}}"
    ))
    .limits;
    let usual = AdmissionLimits::default();
    for (memory, replies) in [(64 << 30, 512 << 20), (2 << 30, 128 << 20), (128 << 20, 64 << 20)] {
        let limits = limits.clone().within_memory(memory);
        assert_eq!((limits.connections_max, limits.body_bytes_max), (1000, 128 << 20));
        assert_eq!((limits.requests_max, limits.reply_bytes_max), (usual.requests_max, replies));
    }
    assert_eq!(ConfiguredLimits::default().within_memory(8 << 30), usual);
    for (text, why) in [
        ("limits { max_connections = 0 }", "expected a whole number from 16"),
        ("limits { max_connections = 100 }", "reserved_connections has to be less"),
        ("limits { reserved_requests = 99999 }", "reserved_requests has to be less"),
        ("limits { max_reply_memory = 5 }", "bytes, such as"),
    ] {
        let said = refusal(text);
        assert!(said.contains(why), "{text}: {said}");
    }
    assert!(warnings("limits { max_everything = 1 }").join("").contains("max_everything"));
}

#[test]
fn everything_wrong_is_told_at_once_by_place_with_what_was_meant() {
    let text = r#"
storage "raft" {
  pth = "/var/lib/kallisto"
}
listener "tcp" {
  address = "nowhere:99999"
  tls_disable = "perhaps"
  tls_min_versoin = "tls12"
}
listener "tcp" {
  tls_cert_fil = "a.pem"
  tls_key_file = "a.key"
}
listener "unix" {}
seal "static" {
  current_key_id = "a"
  current_key = "short"
}
log_levle = "debug"
log_format = "xml"
max_staleness = "1y"
default_lease_ttl = "2h"
max_lease_ttl = "1h"
api_addr = "here"
audit_directories = ["/var/log", "logs"]
listener "tcp" {
  tls_disable = true
  proxy_protocol_behavior = "use_always"
  proxy_protocol_authorized_addrs = "10.0.0.0/8"
}
"#;
    let said = read_with(text, &[]).unwrap_err();
    let at = |line: u32, what: &str| {
        let start = format!("VAULT_LOCAL_CONFIG:{line}: ");
        let found = said.lines().filter(|told| told.starts_with(&start) && told.contains(what));
        assert_eq!(found.count(), 1, "{line} {what} in\n{said}");
    };
    at(2, "a path is missing; line 3 says \"pth\": did you mean \"path\"?");
    at(6, "address");
    at(7, "tls_disable: expected true or false");
    at(8, "unknown key \"tls_min_versoin\"");
    at(8, "did you mean \"tls_min_version\"?");
    at(10, "line 11 says \"tls_cert_fil\": did you mean \"tls_cert_file\"?");
    at(14, "only \"tcp\"");
    at(17, "current_key");
    at(19, "did you mean \"log_level\"?");
    at(20, "log_format: expected one of");
    at(21, "max_staleness");
    at(22, "is longer than max_lease_ttl");
    at(24, "api_addr");
    at(25, "expected absolute paths");
    at(28, "name the proxies");
    let numbers: Vec<u32> =
        said.lines().map(|line| line.split(':').nth(1).unwrap().parse().unwrap()).collect();
    assert!(numbers.is_sorted(), "{said}");
    assert_eq!(numbers.len(), 14, "nothing follows from another: {said}");
    assert!(!said.contains("short") && !said.contains("nowhere"), "no values: {said}");
}

#[test]
fn warnings_come_by_place() {
    let said =
        warnings("zz = 1\ncluster_cipher_suites = \"x\"\ntelemetry {\n  what = 1\n}\naaa = 1\n");
    let line = |text: &String| text.split(':').nth(1).unwrap().parse::<u32>().unwrap();
    assert!(said.len() == 4 && said.is_sorted_by_key(line), "{said:?}");
}
