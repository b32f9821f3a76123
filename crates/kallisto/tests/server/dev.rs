//! A dev server with a configuration, its flags, and what its log looks like.

use kallisto_core::json;

use crate::support::{Directory, Server, run, until};

/// Arguments of a dev server on a port of the system's choice.
const DEV: [&str; 4] =
    ["-dev", "-dev-root-token-id=root", "-dev-listen-address=127.0.0.1:0", "-dev-no-store-token"];

fn start(directory: &Directory, environment: &[(&str, &str)], more: &[&str]) -> Server {
    let arguments: Vec<&str> = DEV.iter().chain(more).copied().collect();
    Server::spawn(directory, environment, &arguments)
}

/// Writes a configuration and says how to name it.
fn config(directory: &Directory, text: &str) -> String {
    format!("-config={}", directory.write("dev.hcl", text).display())
}

#[test]
fn a_configuration_adds_to_a_dev_server() {
    let directory = Directory::new("dev");
    let port = crate::ports::free_address().port();
    let config = config(
        &directory,
        &format!(
            "listener \"tcp\" {{\n  address = \"127.0.0.1:{port}\"\n  tls_disable = true\n}}\n\
             cluster_name = \"from-the-file\"\nmax_lease_ttl = \"2h\"\ndefault_lease_ttl = \"1h\"\n\
             telemetry {{\n  prometheus_retention_time = \"0s\"\n}}\n"
        ),
    );
    let server = start(&directory, &[], &[&config]);
    let mut own = server.client("root");
    let mut other = crate::support::Client::new(([127, 0, 0, 1], port).into(), "root");
    own.put("secret/data/a", r#"{"data":{"n":"1"}}"#);
    assert_eq!(other.get("secret/data/a").good().at("data.data.n"), "1");
    assert_eq!(own.get("sys/health").at("cluster_name"), "from-the-file");
    // Who could not take over does not lead.
    assert_eq!(own.get("sys/leader").at("leader_address"), "");
    let token = own.put("auth/token/create", "{}");
    assert_eq!(own.get("auth/token/lookup-self").status, 200);
    assert_eq!(token.at("auth.lease_duration"), "0", "root tokens have no end");
    let token = own.put("auth/token/create", r#"{"policies":["default"]}"#);
    assert_eq!(token.at("auth.lease_duration"), "3600");
    assert_eq!(own.get("sys/metrics?format=prometheus").status, 400, "no retention, no metrics");
    server.stop();
}

#[test]
fn the_storage_of_a_configuration_is_a_dev_servers_too_but_only_when_empty() {
    let directory = Directory::new("dev-raft");
    let data = directory.join("data");
    let config = config(
        &directory,
        &format!("storage \"raft\" {{\n  path = \"{}\"\n  node_id = \"one\"\n}}\n", data.display()),
    );
    let server = start(&directory, &[], &[&config]);
    let mut client = server.client("root");
    client.put("secret/data/a", r#"{"data":{"n":"1"}}"#);
    assert_eq!(client.get("sys/seal-status").at("storage_type"), "raft");
    server.stop();
    assert!(data.join("peers").is_dir());
    let mut arguments = vec!["server"];
    arguments.extend(DEV);
    arguments.push(&config);
    let again = run(&directory.join(""), &[], &arguments);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stderr.contains("the storage is initialised"), "{again:?}");
}

#[test]
fn a_seal_that_opens_by_itself_opens_a_dev_server() {
    let directory = Directory::new("dev-seal");
    let key = "0123456789abcdef".repeat(4);
    let config = config(
        &directory,
        &format!("seal \"static\" {{\n  current_key_id = \"a\"\n  current_key = \"{key}\"\n}}\n"),
    );
    let server = start(&directory, &[], &[&config]);
    let status = server.anyone().get("sys/seal-status");
    assert_eq!((status.at("sealed"), status.at("type")), ("false".into(), "static".into()));
    server.client("root").put("secret/data/a", r#"{"data":{"n":"1"}}"#);
    server.stop();
}

#[test]
fn the_first_version_of_the_engine_is_at_secret_when_a_flag_asks() {
    let directory = Directory::new("dev-kv-v1");
    let server = start(&directory, &[], &["-dev-kv-v1"]);
    let mut client = server.client("root");
    client.put("secret/a", r#"{"n":"1"}"#);
    assert_eq!(client.get("secret/a").good().at("data.n"), "1");
    assert_eq!(client.get("sys/mounts/secret").good().at("data.options.version"), "1");
    server.stop();
}

#[test]
fn the_address_of_the_dev_server_itself_is_not_one_for_the_file() {
    let directory = Directory::new("dev-taken");
    let port = crate::ports::free_address().port();
    let address = format!("127.0.0.1:{port}");
    let text =
        format!("listener \"tcp\" {{\n  address = \"{address}\"\n  tls_disable = true\n}}\n");
    let config = config(&directory, &text);
    let own = format!("-dev-listen-address={address}");
    let exit = run(&directory.join(""), &[], &["server", "-dev", &own, &config]);
    assert_eq!(exit.code, Some(1));
    assert!(exit.stderr.contains("-dev-listen-address"), "{exit:?}");
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let directory = Directory::new("dev-log");
    let file = config(&directory, "log_level = \"debug\"\nlog_format = \"json\"\n");
    let (bao, vault) = (("BAO_LOG_FORMAT", "standard"), ("VAULT_LOG_FORMAT", "json"));
    for (environment, flags, is_json) in [
        (&[][..], &[][..], false),
        (&[], &[file.as_str()], true),
        (&[bao], &[file.as_str()], false),
        (&[vault, bao], &[file.as_str()], false),
        (&[vault], &[], true),
        (&[vault], &["-log-format=Standard", file.as_str()], false),
        (&[bao], &["-log-format=json"], true),
    ] {
        let server = start(&directory, environment, flags);
        until("a line", || server.log().contains('\n'));
        let line = server.log().lines().next().unwrap().to_owned();
        let object = json::parse_object(line.as_bytes());
        assert_eq!(object.is_ok(), is_json, "{environment:?} {flags:?}: {line}");
        if let Ok(object) = object {
            for key in ["@level", "@message", "@module", "@timestamp"] {
                assert!(object.contains_key(key), "{line}");
            }
        }
        server.stop();
    }
    let wrong = run(&directory.join(""), &[], &["server", "-dev", "-log-format=xml"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
}
