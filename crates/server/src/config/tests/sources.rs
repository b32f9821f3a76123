//! Where a configuration is read from: files, directories and the environment, and whose word counts.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use kallisto_command::files;
use secrecy::ExposeSecret;
use tracing_subscriber::filter::LevelFilter;

use super::*;

#[test]
fn the_environment_wins_where_it_does_in_vault() {
    let text = format!("{MINIMUM}api_addr = \"https://file:1\"\nlog_level = \"info\"\nui = true");
    let variables = [
        ("VAULT_API_ADDR", "https://vault:1"),
        ("KALLISTO_API_ADDR", "https://ours:1"),
        ("VAULT_CLUSTER_ADDR", "https://cluster:1"),
        ("VAULT_LOG_LEVEL", "warn"),
        ("VAULT_LOG_FORMAT", "json"),
        ("VAULT_UI", "false"),
        ("KALLISTO_DISABLE_MLOCK", "1"),
    ];
    let config = read_with(&text, &variables).unwrap().config;
    assert_eq!(config.api_addr.as_deref(), Some("https://ours:1"));
    assert_eq!(config.cluster_addr.as_deref(), Some("https://cluster:1"));
    assert_eq!(
        (config.log.level, config.log.format),
        (Some(LevelFilter::WARN), Some(LogFormat::Json))
    );
    assert!(config.ui == Some(false) && config.disable_mlock);
    let error = read_with(&text, &[("VAULT_UI", "perhaps")]).unwrap_err();
    assert_eq!(error, "VAULT_UI: expected true or false");
    let raft =
        "storage \"raft\" { path = \"p\" node_id = \"n\" }\nlistener \"tcp\" { tls_disable = 1 }";
    let variables = [("VAULT_RAFT_NODE_ID", "m"), ("KALLISTO_RAFT_PATH", "/q")];
    let config = read_with(raft, &variables).unwrap().config;
    let StorageConfig::Raft { path, node_id, .. } = config.storage else { panic!("no raft") };
    assert_eq!((path.as_path(), node_id.as_deref()), (Path::new("/q"), Some("m")));
    let raft = raft.replace(
        "node_id = \"n\"",
        "retry_join { leader_api_addr = \"https://a\" }\nretry_join { leader_api_addr = \"https://b\" join_token_file = \"f\" }",
    );
    let config = read_with(&raft, &[("KALLISTO_JOIN_TOKEN", "kjt.canary")]).unwrap().config;
    assert!(!format!("{config:?}").contains("canary"));
    let StorageConfig::Raft { retry_join, .. } = config.storage else { panic!("no raft") };
    let [first, second] = &retry_join[..] else { panic!("not two to join") };
    assert!(
        matches!(&first.join_token, Some(JoinToken::Text(token)) if token.expose_secret() == "kjt.canary")
    );
    assert!(matches!(&second.join_token, Some(JoinToken::File(path)) if path == Path::new("f")));
}

#[test]
fn a_variable_has_a_server_join_without_a_vote() {
    let raft = |text: &str| {
        format!(
            "storage \"raft\" {{ path = \"p\"\n{text} }}\nlistener \"tcp\" {{ tls_disable = 1 }}"
        )
    };
    let joins = "retry_join { leader_api_addr = \"https://a\" }";
    let asked = |text: &str, value: &str| {
        let loaded = read_with(&raft(text), &[("VAULT_RAFT_RETRY_JOIN_AS_NON_VOTER", value)]);
        let StorageConfig::Raft { join_as_non_voter, .. } = loaded.unwrap().config.storage else {
            panic!("no raft")
        };
        join_as_non_voter
    };
    assert!(asked(joins, "true") && asked(joins, "yes"), "any value but one that says no");
    assert!(!asked(joins, "") && !asked(joins, "false"));
    assert!(asked(&format!("retry_join_as_non_voter = true\n{joins}"), ""));
    let alone = read_with(&raft("retry_join_as_non_voter = true"), &[]).unwrap().warnings;
    assert_eq!(
        alone,
        ["VAULT_LOCAL_CONFIG:2: retry_join_as_non_voter has no effect: there is no retry_join"]
    );
}

/// A directory of a test's own.
pub(super) fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path =
        std::env::temp_dir().join(format!("kallisto-config-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn files_and_directories_are_read_in_order_and_the_last_word_counts() {
    let directory = directory();
    let sub = directory.join("conf.d");
    std::fs::create_dir_all(&sub).unwrap();
    let base = directory.join("base.conf");
    let write = |path: &Path, text: &str| files::write_private(path, text.as_bytes()).unwrap();
    write(
        &base,
        "storage \"inmem\" {}\ncluster_name = \"base\"\nlistener \"tcp\" { tls_disable = 1 }",
    );
    write(
        &sub.join("20.json"),
        "{\"cluster_name\": \"twenty\", \"listener\": {\"tcp\": {\"address\": \":2\", \"tls_disable\": 1}}}",
    );
    write(
        &sub.join("10.hcl"),
        "cluster_name = \"ten\"\nstorage \"file\" { path = \"d\" }\nbogus = 1",
    );
    write(&sub.join(".30.hcl"), "cluster_name = \"hidden\"");
    write(&sub.join("40.txt"), "not = = read");
    let nothing = Environment::of(|_| None);
    let loaded = load(&[base, sub.clone()], &nothing, Of::Server).unwrap();
    assert_eq!(loaded.config.cluster_name.as_deref(), Some("twenty"));
    assert_eq!(loaded.config.listeners.len(), 2);
    assert!(matches!(loaded.config.storage, StorageConfig::File { .. }));
    let place = sub.join("10.hcl").display().to_string();
    assert_eq!(loaded.warnings, [format!("{place}:3: unknown key \"bogus\"")]);
    let local = Environment::of(|name| {
        (name == "KALLISTO_LOCAL_CONFIG").then(|| "{\"cluster_name\": \"local\"}".to_owned())
    });
    let config = load(&[directory.join("base.conf")], &local, Of::Server).unwrap().config;
    assert_eq!(config.cluster_name.as_deref(), Some("local"));
    let missing =
        load(&[directory.join("none.hcl")], &nothing, Of::Server).unwrap_err().to_string();
    assert!(missing.contains("none.hcl"), "{missing}");
    let empty = directory.join("empty");
    std::fs::create_dir_all(&empty).unwrap();
    let empty = load(&[empty], &nothing, Of::Server).unwrap_err().to_string();
    assert!(empty.contains("no .hcl or .json file"), "{empty}");
    assert!(load(&[], &nothing, Of::Server).unwrap_err().to_string().contains("-config"));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_file_that_is_named_twice_counts_once_where_it_is_named_last() {
    let directory = directory();
    let (one, two) = (directory.join("one.hcl"), directory.join("two.hcl"));
    files::write_private(&one, format!("{MINIMUM}cluster_name = \"one\"").as_bytes()).unwrap();
    files::write_private(&two, b"cluster_name = \"two\"").unwrap();
    let nothing = Environment::of(|_| None);
    let roundabout = directory.join(".").join("one.hcl");
    for (paths, wanted) in [
        (vec![one.clone(), one.clone()], "one"),
        (vec![one.clone(), two.clone(), roundabout], "one"),
        (vec![directory.clone(), two], "two"),
        (vec![directory, one], "one"),
    ] {
        let config = load(&paths, &nothing, Of::Server).unwrap().config;
        assert_eq!(config.cluster_name.as_deref(), Some(wanted), "{paths:?}");
        assert_eq!(config.listeners.len(), 1, "{paths:?}");
    }
}
