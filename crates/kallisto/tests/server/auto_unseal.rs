//! Seals that open by themselves: a static key, and another server's transit engine.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use data_encoding::{BASE64_NOPAD, HEXLOWER};
use rustix::process::Signal;

use crate::ports::free_address;
use crate::support::{Client, Directory, Keys, Server, refuse, until};

/// Where the tests look for a server with a transit engine, besides `bao` in the path.
const BAO: &str = "KALLISTO_TEST_BAO";

fn key(first: u8) -> Vec<u8> {
    (first..first + 32).collect()
}

/// A configuration whose static seal has these keys.
fn static_config(directory: &Directory, keys: &str) -> String {
    directory.config(&format!("seal \"static\" {{\n{keys}\n}}"))
}

fn plant(server: &Server, root: &str) {
    let mut client = server.client(root);
    client.put("sys/mounts/kv", r#"{"type":"kv"}"#);
    client.put("kv/app", r#"{"a":"planted"}"#);
}

#[track_caller]
fn expect_planted(server: &Server, root: &str) {
    assert!(!server.is_sealed(), "{}", server.log());
    assert_eq!(server.client(root).get("kv/app").good().at("data.a"), "planted");
}

/// How often the scheduler has had the jobs run, sealed or not, by the metrics that anyone may read.
fn scheduler_passes(server: &Server) -> u64 {
    let metrics = server.anyone().get("sys/metrics?format=prometheus").good().body;
    let name = "kallisto_jobs_runs_total{job=\"view_freshness\"} ";
    let runs = metrics.lines().find_map(|line| line.strip_prefix(name));
    runs.unwrap_or_else(|| panic!("no {name}in {metrics}")).parse().unwrap()
}

#[track_caller]
fn wait_unsealed(server: &Server) {
    until("an unsealed server", || !server.is_sealed());
}

#[test]
fn a_static_key_opens_at_every_start_and_another_does_not() {
    let directory = Directory::new("static");
    let file = directory.write("seal.key", HEXLOWER.encode(&key(1)));
    let with_file = |id: &str, path: &Path| {
        format!("  current_key_id = \"{id}\"\n  current_key = \"file://{}\"", path.display())
    };
    let config = static_config(&directory, &with_file("one", &file));
    let server = Server::start(&directory, &config);
    assert!(server.is_sealed());
    // By this `operator init` of Vault's and OpenBao's command lines knows which shares to ask for.
    assert_eq!(server.anyone().get("sys/seal-status").at("recovery_seal"), "true");
    let keys = server.initialize(5, 3);
    assert!(keys.shares.is_empty());
    assert_eq!(keys.recovery.len(), 5);
    plant(&server, &keys.root);
    let status = server.anyone().get("sys/seal-status");
    assert_eq!(status.at("type"), "static");
    assert_eq!(status.at("recovery_seal"), "true");
    server.end(Signal::KILL);

    let server = Server::start(&directory, &config);
    wait_unsealed(&server);
    expect_planted(&server, &keys.root);
    server.stop();

    // The same key from the environment, named by the file and in place of it.
    let text = HEXLOWER.encode(&key(1));
    let named = "  current_key_id = \"one\"\n  current_key = \"env://SEAL_KEY\"";
    let named = static_config(&directory, named);
    let server = Server::start_with(&directory, &named, &[("SEAL_KEY", &text)]);
    wait_unsealed(&server);
    server.stop();
    let plain = directory.config("");
    let environment = [
        ("VAULT_SEAL_TYPE", "static"),
        ("VAULT_STATIC_SEAL_CURRENT_KEY", &text),
        ("VAULT_STATIC_SEAL_CURRENT_KEY_ID", "one"),
    ];
    let server = Server::start_with(&directory, &plain, &environment);
    wait_unsealed(&server);
    server.stop();

    let wrong = directory.write("wrong.key", HEXLOWER.encode(&key(77)));
    let wrong = static_config(&directory, &with_file("one", &wrong));
    let server = Server::start(&directory, &wrong);
    until("a refusal", || server.log().contains("not unsealed"));
    assert!(server.log().contains("wrong key"), "{}", server.log());
    assert!(server.is_sealed());
    assert_eq!(server.client(&keys.root).get("kv/app").status, 503);
    let again =
        server.anyone().send("PUT", "sys/init", r#"{"recovery_shares":1,"recovery_threshold":1}"#);
    assert_eq!(again.status, 400, "{}", again.body);
    server.stop();
    let said = refuse(&directory, &named, &[]);
    assert!(said.contains("SEAL_KEY is not set"), "{said}");

    let server = Server::start(&directory, &config);
    wait_unsealed(&server);
    expect_planted(&server, &keys.root);
    server.stop();
}

/// A command of `kallisto operator raft snapshot` on that file.
#[track_caller]
fn snapshot(server: &Server, token: &str, words: &[&str], file: &Path) {
    let done = Command::new(env!("CARGO_BIN_EXE_kallisto"))
        .args(["operator", "raft", "snapshot"])
        .args(words)
        .arg(file)
        .env("VAULT_ADDR", format!("http://{}", server.address))
        .env("VAULT_TOKEN", token)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_snapshot_of_another_cluster_opens_by_the_same_seal_without_a_restart() {
    let seal = |key: &[u8]| {
        format!("  current_key_id = \"one\"\n  current_key = \"{}\"", HEXLOWER.encode(key))
    };
    let directory = Directory::new("lost");
    let server = Server::start(&directory, &static_config(&directory, &seal(&key(1))));
    let keys = server.initialize(1, 1);
    plant(&server, &keys.root);
    let file = directory.write("backup.snap", "");
    snapshot(&server, &keys.root, &["save"], &file);
    server.stop();

    let directory = Directory::new("new");
    let config = static_config(&directory, &seal(&key(1))).replacen(
        "tls_disable = true",
        "tls_disable = true\n  telemetry { unauthenticated_metrics_access = true }",
        1,
    );
    let server = Server::start(&directory, &config);
    let other = server.initialize(1, 1);
    snapshot(&server, &other.root, &["restore", "-force"], &file);
    until("its tokens", || server.client(&keys.root).get("kv/app").status == 200);
    expect_planted(&server, &keys.root);
    // What an operator seals stays sealed: a seal that is to be tried again is so in each fifth pass, and the first may be half over.
    server.client(&keys.root).put("sys/seal", "{}");
    let before = scheduler_passes(&server);
    until("six passes", || scheduler_passes(&server) >= before + 6);
    assert!(server.is_sealed(), "{}", server.log());
    server.stop();
}

#[test]
fn shares_of_a_key_that_the_seal_does_not_have_are_refused() {
    let directory = Directory::new("counts");
    let keys =
        format!("  current_key_id = \"one\"\n  current_key = \"{}\"", HEXLOWER.encode(&key(1)));
    let both =
        r#"{"secret_shares":5,"secret_threshold":3,"recovery_shares":3,"recovery_threshold":2}"#;
    for (config, wanted) in [
        (
            directory.config(""),
            "parameters recovery_shares,recovery_threshold not applicable to seal type shamir",
        ),
        (
            static_config(&directory, &keys),
            "parameters secret_shares,secret_threshold not applicable to seal type static",
        ),
    ] {
        let server = Server::start(&directory, &config);
        let refused = server.anyone().send("PUT", "sys/init", both);
        assert_eq!(refused.status, 400, "{}", refused.body);
        assert!(refused.body.contains(wanted), "{}", refused.body);
        assert_eq!(server.anyone().get("sys/init").at("initialized"), "false");
        server.stop();
    }
}

#[test]
fn a_server_is_ready_before_its_seal_answers() {
    let directory = Directory::new("ready");
    let keeper = Directory::new("keeper");
    let dev = ["-dev", "-dev-root-token-id=root", "-dev-listen-address=127.0.0.1:0"];
    let keeper = Server::spawn(&keeper, &[], &dev);
    keeper.client("root").put("sys/mounts/transit", r#"{"type":"transit"}"#);
    let config = directory.config(&format!(
        "seal \"transit\" {{\n  address = \"http://{}\"\n  token = \"root\"\n  key_name = \"k\"\n}}",
        keeper.address
    ));
    let server = Server::start(&directory, &config);
    server.initialize(1, 1);
    server.stop();
    // It takes connections from now on, and answers nobody.
    keeper.signal(Signal::STOP);
    let name = directory.join("notify");
    let heard = std::os::unix::net::UnixDatagram::bind(&name).unwrap();
    heard.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    let environment = [("NOTIFY_SOCKET", name.to_str().unwrap()), ("WATCHDOG_USEC", "300000")];
    let server = Server::start_with(&directory, &config, &environment);
    let mut buffer = [0; 64];
    let mut told = || {
        let count = heard.recv(&mut buffer).expect("the service manager is told");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let told: std::collections::BTreeSet<String> = (0..3).map(|_| told()).collect();
    assert_eq!(told.into_iter().collect::<Vec<_>>(), ["READY=1", "WATCHDOG=1"]);
    assert!(server.is_sealed());
}

#[test]
fn a_static_key_is_changed_by_naming_the_one_before() {
    let directory = Directory::new("change");
    let (old, new) = (HEXLOWER.encode(&key(1)), HEXLOWER.encode(&key(50)));
    let keys_of = |current: (&str, &str), previous: Option<(&str, &str)>| {
        let previous = previous.map_or_else(String::new, |(id, key)| {
            format!("\n  previous_key_id = \"{id}\"\n  previous_key = \"{key}\"")
        });
        let (id, key) = current;
        let current = format!("  current_key_id = \"{id}\"\n  current_key = \"{key}\"");
        static_config(&directory, &format!("{current}{previous}"))
    };
    let server = Server::start(&directory, &keys_of(("one", &old), None));
    let keys = server.initialize(1, 1);
    plant(&server, &keys.root);
    server.stop();
    let server = Server::start(&directory, &keys_of(("two", &new), Some(("one", &old))));
    wait_unsealed(&server);
    expect_planted(&server, &keys.root);
    server.stop();
    // From then on the old key is not needed any more, and does not open any more.
    let server = Server::start(&directory, &keys_of(("two", &new), None));
    wait_unsealed(&server);
    expect_planted(&server, &keys.root);
    server.stop();
    let server = Server::start(&directory, &keys_of(("one", &old), None));
    until("a refusal", || server.log().contains("not unsealed"));
    assert!(server.is_sealed());
    server.stop();
}

#[test]
fn storage_for_people_is_not_opened_by_a_seal_nor_the_other_way_round() {
    let directory = Directory::new("mixed");
    let sealed_by_key =
        format!("  current_key_id = \"one\"\n  current_key = \"{}\"", HEXLOWER.encode(&key(1)));
    let sealed_by_key = static_config(&directory, &sealed_by_key);
    let server = Server::start(&directory, &directory.config(""));
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    plant(&server, &keys.root);
    server.stop();
    let server = Server::start(&directory, &sealed_by_key);
    until("a refusal", || server.log().contains("not unsealed"));
    assert!(server.log().contains("unseal shares"), "{}", server.log());
    server.stop();
    let server = Server::start(&directory, &directory.config(""));
    server.unseal(&keys);
    expect_planted(&server, &keys.root);
    server.stop();
}

/// A server with a transit engine, in memory, made by others.
struct Bao {
    process: Child,
    address: String,
    client: Client,
}

impl Bao {
    /// Starts one, or says that there is none.
    fn start(directory: &Directory) -> Option<Self> {
        let program = std::env::var(BAO).unwrap_or_else(|_| "bao".to_owned());
        let address = free_address();
        let log = std::fs::File::create(directory.join("bao.log")).unwrap();
        let arguments = ["server", "-dev", "-dev-root-token-id=root", "-dev-no-store-token"];
        let process = Command::new(&program)
            .args(arguments)
            .arg(format!("-dev-listen-address={address}"))
            .env("HOME", directory.join(""))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        let Ok(process) = process else {
            println!("*** SKIPPED: transit: there is no `{program}` ({BAO} names one)");
            return None;
        };
        let mut bao = Self {
            process,
            address: format!("http://{address}"),
            client: Client::new(address, "root"),
        };
        until("the other server", || {
            assert!(bao.process.try_wait().unwrap().is_none(), "the other server ended");
            matches!(bao.client.try_send("GET", "sys/health", ""), Ok(reply) if reply.status == 200)
        });
        bao.client.put("sys/mounts/transit", r#"{"type":"transit"}"#);
        bao.client.put("transit/keys/kallisto", "{}");
        Some(bao)
    }
}

impl Drop for Bao {
    fn drop(&mut self) {
        // It may have ended by itself; then the test has failed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn another_servers_transit_engine_opens_at_every_start() {
    let directory = Directory::new("transit");
    let Some(mut bao) = Bao::start(&directory) else { return };
    let config = directory.config(&format!(
        "seal \"transit\" {{\n  address = \"{}\"\n  token = \"root\"\n  key_name = \"kallisto\"\n}}",
        bao.address
    ));
    let server = Server::start(&directory, &config);
    let keys = server.initialize(3, 2);
    assert_eq!(server.anyone().get("sys/seal-status").at("type"), "transit");
    plant(&server, &keys.root);
    server.end(Signal::KILL);

    let server = Server::start(&directory, &config);
    wait_unsealed(&server);
    expect_planted(&server, &keys.root);
    server.stop();

    // A newer version of the key opens what the older one wrapped.
    bao.client.put("transit/keys/kallisto/rotate", "");
    let server = Server::start(&directory, &config);
    wait_unsealed(&server);
    server.stop();

    // A server that cannot ask stays sealed, says so, and loses nothing.
    let cut_off = config.replace("token = \"root\"", "token = \"nobody\"");
    let server = Server::start(&directory, &cut_off);
    until("a refusal", || server.log().contains("not unsealed"));
    assert!(server.is_sealed());
    assert!(!server.log().contains("nobody"), "a token in the log");
    server.stop();
    let server = Server::start(&directory, &config);
    wait_unsealed(&server);
    expect_planted(&server, &keys.root);
    server.stop();
}

/// A root token by the consent of those who hold recovery shares; `None` when they are refused.
fn generate_root(server: &Server, root: &str, shares: &[String]) -> Option<String> {
    let mut client = server.client(root);
    let attempt = client.put("sys/generate-root/attempt", "{}");
    let (nonce, otp) = (attempt.at("nonce"), attempt.at("otp"));
    let mut encoded = String::new();
    for share in shares {
        let body = format!(r#"{{"key":"{share}","nonce":"{nonce}"}}"#);
        let reply = client.send("PUT", "sys/generate-root/update", &body);
        if reply.status != 200 {
            client.send("DELETE", "sys/generate-root/attempt", "").good();
            return None;
        }
        encoded = reply.at("encoded_token");
    }
    let bytes = BASE64_NOPAD.decode(encoded.as_bytes()).unwrap();
    let token = bytes.iter().zip(otp.as_bytes()).map(|(a, b)| char::from(a ^ b)).collect();
    Some(token)
}

fn rekey_recovery(server: &Server, root: &str, shares: &[String]) -> Vec<String> {
    let mut client = server.client(root);
    let spec = r#"{"secret_shares":4,"secret_threshold":2}"#;
    let nonce = client.put("sys/rekey-recovery-key/init", spec).at("nonce");
    let mut made = Vec::new();
    for share in shares {
        let body = format!(r#"{{"key":"{share}","nonce":"{nonce}"}}"#);
        made = client.put("sys/rekey-recovery-key/update", &body).strings("keys");
    }
    made
}

#[test]
fn recovery_keys_make_root_tokens_and_new_recovery_keys_but_do_not_unseal() {
    let directory = Directory::new("recovery");
    let seal =
        format!("  current_key_id = \"a\"\n  current_key = \"{}\"", HEXLOWER.encode(&key(9)));
    let config = static_config(&directory, &seal);
    let server = Server::start(&directory, &config);
    let Keys { recovery: old, root, .. } = server.initialize(3, 2);
    plant(&server, &root);

    let token = generate_root(&server, &root, &old[1..]).unwrap();
    assert_ne!(token, root);
    expect_planted(&server, &token);

    let new = rekey_recovery(&server, &token, &old[..2]);
    assert_eq!(new.len(), 4);
    assert_eq!(generate_root(&server, &token, &old[..2]), None, "the old ones are of no use");
    let token = generate_root(&server, &token, &new[2..]).unwrap();
    server.end(Signal::KILL);

    let server = Server::start(&directory, &config);
    wait_unsealed(&server);
    expect_planted(&server, &token);
    assert!(generate_root(&server, &token, &new[..2]).is_some());
    // Sealed by a person, it stays so: a recovery key is no unseal key.
    server.client(&token).put("sys/seal", "");
    let refused: Vec<u16> = new[..2]
        .iter()
        .map(|share| {
            server.anyone().send("PUT", "sys/unseal", &crate::support::share_of(share)).status
        })
        .collect();
    assert!(refused.contains(&400), "{refused:?}");
    assert!(server.is_sealed());
    server.stop();
}
