//! `operator diagnose` and `operator validate-config`: what they find, and what they exit with.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use kallisto_core::json::{self, Json, Map};

use crate::support::{Directory, Server, refuse, run, until};

/// What a command exited with, and its report.
fn ask(directory: &Directory, config: &str, arguments: &[&str]) -> (i32, Map) {
    let file = directory.write("asked.hcl", config);
    let config = format!("-config={}", file.display());
    let all = [&["operator"], arguments, &[config.as_str(), "-format=json"]].concat();
    let exit = run(&directory.join(""), &[], &all);
    (exit.code.unwrap(), json::parse_object(exit.stdout.as_bytes()).unwrap_or_default())
}

/// The status of the first check of a name, and what it says.
fn find(report: &Map, name: &str) -> Option<(String, String)> {
    let text = |member: &str| report.get(member).and_then(Json::as_str).unwrap_or_default();
    if text("name") == name {
        return Some((text("status").to_owned(), text("message").to_owned()));
    }
    let Some(Json::Array(children)) = report.get("children") else { return None };
    children.iter().filter_map(Json::as_object).find_map(|child| find(child, name))
}

fn status(report: &Map, name: &str) -> String {
    find(report, name)
        .unwrap_or_else(|| {
            panic!(
                "no {name} in {:?}",
                Json::from(report.clone()).to_text().escape_ascii().to_string()
            )
        })
        .0
}

/// A directory whose storage nobody else may enter.
fn private(name: &str) -> Directory {
    let directory = Directory::new(name);
    let data = directory.join("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    directory
}

/// What `diagnose` exits with when all is well: whoever built this may share the directories above.
fn well(directory: &Directory) -> i32 {
    let path = directory.join("").canonicalize().unwrap();
    let is_open = |path: &Path| {
        let mode = path.metadata().unwrap().permissions().mode();
        mode & 0o022 != 0 && mode & 0o1000 == 0
    };
    if path.ancestors().any(is_open) { 2 } else { 0 }
}

/// A file that nobody else may read.
fn private_file(directory: &Directory, name: &str, content: String) -> PathBuf {
    let path = directory.write(name, content);
    set_mode(&path, 0o600);
    path
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_others_may_write_or_read_is_named_with_its_mode() {
    let directory = Directory::new("exposed");
    let key = directory.write("seal.key", HEXLOWER.encode(&(1..33).collect::<Vec<u8>>()));
    let open = directory.join("open");
    let data = open.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let config = directory.config(&format!(
        "seal \"static\" {{\n  current_key_id = \"one\"\n  current_key_file = \"{}\"\n}}",
        key.display()
    ));
    let config = config.replace(directory.join("data").to_str().unwrap(), data.to_str().unwrap());
    let modes = |of_key, of_data, of_open| {
        set_mode(&key, of_key);
        set_mode(&data, of_data);
        set_mode(&open, of_open);
    };
    let said = [
        ("seal.key", "0644", "others may read it"),
        ("open/data", "0770", "others may write to it"),
        ("open", "0777", "others may replace what is in it"),
    ];
    modes(0o644, 0o770, 0o777);
    let (code, report) = ask(&directory, &config, &["diagnose"]);
    assert_eq!((code, status(&report, "Check File Permissions")), (2, "warn".to_owned()));
    let report = Json::from(report).to_text().escape_ascii().to_string();
    let server = Server::start(&directory, &config);
    let log = server.log();
    server.stop();
    for (path, mode, why) in said {
        let path = directory.join(path).canonicalize().unwrap().display().to_string();
        let found = report.contains(&format!("its mode is {mode}")) && report.contains(&path);
        assert!(found && report.contains(why), "{path} {mode} {why}: {report}");
        let named = |line: &&str| line.contains(&format!("{path} mode={mode}"));
        let line = log.lines().find(named).unwrap_or_else(|| panic!("{path}: {log}"));
        assert!(line.contains("WARN") && line.contains(why), "{line}");
    }
    // A sticky directory lets nobody replace what is another's.
    modes(0o640, 0o750, 0o1777);
    let server = Server::start(&directory, &config);
    let log = server.log();
    server.stop();
    for (path, ..) in said {
        let path = directory.join(path).canonicalize().unwrap().display().to_string();
        assert!(!log.contains(&format!("{path} mode=")), "{path}: {log}");
    }
}

#[test]
fn what_a_start_needs_is_tried_and_let_go_of() {
    let directory = private("diagnose");
    let config = directory.config("");
    let (code, report) = ask(&directory, &config, &["diagnose"]);
    assert_eq!(code, well(&directory), "{report:?}");
    assert_eq!(status(&report, "Check Autounseal Encryption"), "skipped");
    let left: Vec<_> = std::fs::read_dir(directory.join("data")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");

    // Of a server that runs, the storage is taken.
    let server = Server::start(&directory, &config);
    let (code, report) = ask(&directory, &config, &["diagnose"]);
    assert_eq!((code, status(&report, "Check Storage Lock")), (1, "fail".to_owned()));
    let (code, _) = ask(&directory, &config, &["diagnose", "-skip=storage", "-skip=listener"]);
    assert_eq!(code, well(&directory));
    server.stop();
    let data = directory.join("data");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (code, report) = ask(&directory, &config, &["diagnose"]);
    assert_eq!((code, status(&report, "Check Storage Folder Permissions")), (2, "warn".into()));
}

#[test]
fn files_that_a_start_opens_are_tried() {
    let directory = private("diagnose-files");
    std::fs::write(directory.join("ordinary"), "text\n").unwrap();
    let place = |name: &str| directory.join(name).display().to_string();
    let audit =
        |path: &str| format!("audit \"file\" \"a\" {{\n  options {{ file_path = \"{path}\" }}\n}}");
    let socket = |path: &str| format!("listener \"resp\" {{ path = \"{path}\" }}");
    let line = |key: &str, path: &str| format!("{key} = \"{path}\"");
    for (more, name, wanted) in [
        (line("log_file", &place("log")), "Check Log File", "ok"),
        (line("log_file", &place("none/log")), "Check Log File", "fail"),
        (line("pid_file", &place("pid")), "Check PID File", "ok"),
        (line("pid_file", &place("none/pid")), "Check PID File", "fail"),
        (audit(&place("audit.log")), "Check Audit File", "ok"),
        (audit("relative-audit.log"), "Check Audit File", "ok"),
        (audit(&place("none/audit.log")), "Check Audit File", "fail"),
        (audit(&place("ordinary")), "Check Audit File", "fail"),
        (socket(&place("socket")), "Create Listeners", "ok"),
        (socket(&place("ordinary")), "Create Listeners", "fail"),
    ] {
        let config = directory.config(&more);
        let (code, report) = ask(&directory, &config, &["diagnose"]);
        // Of the listeners, the first is at a free port.
        if name != "Create Listeners" {
            assert_eq!(status(&report, name), wanted, "{more}: {report:?}");
        }
        assert_eq!(code == 1, wanted == "fail", "{more}: {report:?}");
    }
    assert!(!directory.join("relative-audit.log").exists() && !directory.join("log").exists());
    assert_eq!(std::fs::read(directory.join("ordinary")).unwrap(), b"text\n");
}

#[test]
fn what_would_keep_a_server_from_serving_is_named() {
    let directory = private("diagnose-bad");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let data = directory.join("data");
    let missing = directory.join("missing.pem");
    let config = format!(
        "storage \"file\" {{ path = \"{}\" }}\nlistener \"tcp\" {{\n  address = \"{taken}\"\n  \
         tls_cert_file = \"{}\"\n  tls_key_file = \"{}\"\n}}\nseal \"transit\" {{\n  address = \
         \"http://127.0.0.1:1\"\n  token = \"planted-token\"\n  key_name = \"k\"\n  mount_path = \
         \"t\"\n  disable_renewal = true\n}}\n",
        data.display(),
        missing.display(),
        missing.display()
    );
    // Held until here, so that nobody else was given it.
    let held = TcpListener::bind(taken);
    let (code, report) = ask(&directory, &config, &["diagnose"]);
    assert_eq!(code, 1);
    assert_eq!(status(&report, "Check Listener TLS"), "fail");
    let (status, said) = find(&report, "Check Autounseal Encryption").unwrap();
    assert!(status == "fail" && said.contains("127.0.0.1:1"), "{said}");
    assert!(!format!("{report:?}").contains("planted-token"));
    drop(held);
}

#[test]
fn certificates_are_good_soon_over_or_over() {
    let directory = private("diagnose-tls");
    let key = rcgen::KeyPair::generate().unwrap();
    let key_file = directory.write("key.pem", key.serialize_pem());
    for (from, until, expected) in [
        ((2020, 1, 1), (2021, 1, 1), "fail"),
        ((2020, 1, 1), (4000, 1, 1), "ok"),
        ((3999, 1, 1), (4000, 1, 1), "fail"),
    ] {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
        params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
        let file = directory.write("cert.pem", params.self_signed(&key).unwrap().pem());
        let config = format!(
            "storage \"inmem\" {{}}\nlistener \"tcp\" {{\n  address = \"127.0.0.1:0\"\n  \
             tls_cert_file = \"{}\"\n  tls_key_file = \"{}\"\n}}\n",
            file.display(),
            key_file.display()
        );
        let (_, report) = ask(&directory, &config, &["diagnose"]);
        assert_eq!(status(&report, "Check Listener TLS"), expected, "{from:?} {report:?}");
    }
}

#[test]
fn the_files_of_tracing_are_read_as_a_start_reads_them() {
    let directory = private("diagnose-tracing");
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(4000, 1, 1);
    let cert = directory.write("cert.pem", params.self_signed(&key).unwrap().pem());
    let key = private_file(&directory, "key.pem", key.serialize_pem());
    let missing = directory.join("missing.pem");
    let of = |url: &str, ca: &Path, cert: &Path, key: &Path| {
        let [ca, cert, key] = [ca, cert, key].map(Path::display);
        directory.config(&format!(
            "tracing \"otlp\" {{\n  endpoint = \"{url}\"\n  tls_ca_cert = \"{ca}\"\n  \
             tls_client_cert = \"{cert}\"\n  tls_client_key = \"{key}\"\n}}\n"
        ))
    };
    let url = "https://127.0.0.1:1";
    let (_, report) = ask(&directory, &directory.config(""), &["diagnose"]);
    assert_eq!(status(&report, "Check Tracing"), "skipped");
    let (code, report) = ask(&directory, &of(url, &cert, &cert, &key), &["diagnose"]);
    assert_eq!((code, status(&report, "Check Tracing")), (well(&directory), "ok".to_owned()));
    let (_, report) = ask(&directory, &of("http://c:1", &missing, &cert, &key), &["diagnose"]);
    assert_eq!(status(&report, "Check Tracing"), "ok");
    for (config, wrong) in [
        (of(url, &missing, &cert, &key), &missing),
        (of(url, &key, &cert, &key), &key),
        (of(url, &cert, &missing, &key), &missing),
        (of(url, &cert, &key, &key), &key),
        (of(url, &cert, &cert, &missing), &missing),
        (of(url, &cert, &cert, &cert), &cert),
    ] {
        let (code, report) = ask(&directory, &config, &["diagnose"]);
        let (status, said) = find(&report, "Check Tracing TLS").unwrap();
        assert_eq!((code, status.as_str()), (1, "fail"), "{said}");
        assert!(said.contains(wrong.to_str().unwrap()), "{said}");
        // Lines are folded where a terminal would.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let refused = words(&refuse(&directory, &config, &[]));
        assert!(refused.contains(&words(&said)), "{said}: {refused}");
    }
}

#[test]
fn a_seal_that_opens_by_itself_is_tried() {
    let directory = private("diagnose-seal");
    let content = HEXLOWER.encode(&(1..33).collect::<Vec<u8>>());
    let key = private_file(&directory, "seal.key", content);
    let config = directory.config(&format!(
        "seal \"static\" {{\n  current_key_id = \"one\"\n  current_key = \"file://{}\"\n}}",
        key.display()
    ));
    let (code, report) = ask(&directory, &config, &["diagnose"]);
    let found = (code, status(&report, "Check Autounseal Encryption"));
    assert_eq!(found, (well(&directory), "ok".to_owned()));
}

#[test]
fn a_configuration_is_judged_without_touching_anything_else() {
    let directory = Directory::new("validate");
    let good = directory.config("");
    for (more, code, expected) in [
        ("", 0, "ok"),
        ("bogus = 3", 2, "warn"),
        ("log_level = \"loud\"", 1, "fail"),
        ("ui = ", 1, "fail"),
    ] {
        let found = ask(&directory, &format!("{good}{more}\n"), &["validate-config"]);
        assert_eq!((found.0, status(&found.1, "Validate Config")), (code, expected.to_owned()));
    }
    // The usual key alone is taken, here and by a start; others without it are said to do nothing.
    let proxied =
        |keys: &str| good.replace("tls_disable = true", &format!("tls_disable = true\n{keys}"));
    for (keys, code, expected) in [
        ("x_forwarded_for_authorized_addrs = \"10.0.0.0/8\"", 0, "ok"),
        ("x_forwarded_for_hop_skips = 1", 2, "warn"),
        ("x_forwarded_for_authorized_addrs = \"10/8\"", 1, "fail"),
    ] {
        let found = ask(&directory, &proxied(keys), &["validate-config"]);
        let found = (found.0, status(&found.1, "Validate Config"));
        assert_eq!(found, (code, expected.to_owned()), "{keys}");
    }
    // What a start warns of is warned of here.
    let found = ask(&directory, &format!("{good}\ndisable_mlock = true\n"), &["validate-config"]);
    assert_eq!(found.0, 2);
    let made = std::fs::read_dir(directory.join("data")).unwrap().count();
    assert_eq!(made, 0, "the storage was touched");
    let (code, report) = ask(&directory, "ui = ", &["diagnose"]);
    assert_eq!((code, status(&report, "Parse Configuration")), (4, "fail".to_owned()));
    let exit = run(&directory.join(""), &[], &["operator", "diagnose"]);
    assert_eq!(exit.code, Some(3));
}

#[test]
fn a_server_that_runs_is_asked_what_it_says_of_itself() {
    let directory = private("diagnose-running");
    let server = Server::start(&directory, &directory.config(""));
    let address = format!("-address=http://{}", server.address);
    let diagnose = |token: &str, more: &[&str]| {
        let all = [&["operator", "diagnose", address.as_str(), "-format=json"], more].concat();
        let exit = run(&directory.join(""), &[("VAULT_TOKEN", token)], &all);
        (exit.code.unwrap(), json::parse_object(exit.stdout.as_bytes()).unwrap_or_default())
    };
    let (code, report) = diagnose("", &[]);
    assert_eq!((code, status(&report, "Check Health")), (1, "fail".to_owned()));
    assert_eq!(status(&report, "Check Jobs"), "skipped");
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    until("a job to have run", || {
        let (_, report) = diagnose(&keys.root, &[]);
        find(&report, "join_token_expiry").is_some_and(|(status, _)| status == "ok")
    });
    let (code, report) = diagnose(&keys.root, &[]);
    assert_eq!(code, 0, "{report:?}");
    for name in ["Check Health", "Check Clock", "Check Seal", "Check Leader", "Check HA Status"] {
        assert_eq!(status(&report, name), "ok", "{name}");
    }
    let (_, said) = find(&report, "token_expiry").unwrap();
    assert!(said.contains("last run 2") && said.contains(" ms; runs "), "{said}");
    let at = format!("-address=http://{}", server.address);
    let all = ["read", at.as_str(), "-format=json", "sys/config/state/sanitized"];
    let shown = run(&directory.join(""), &[("VAULT_TOKEN", keys.root.as_str())], &all).stdout;
    for part in ["\"listeners\"", "\"tls_disable\": true", "\"log_level\": \"info\""] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Nothing of it is a namespace's.
    let all = ["operator", "diagnose", address.as_str()];
    let environment = [("VAULT_TOKEN", keys.root.as_str()), ("VAULT_NAMESPACE", "team")];
    let exit = run(&directory.join(""), &environment, &all);
    assert_eq!(exit.code, Some(0), "{}", exit.stdout);
    // What the token may not read is left out, and no reason for alarm.
    let (code, report) = diagnose("", &[]);
    assert_eq!((code, status(&report, "Check Jobs")), (0, "skipped".to_owned()));
    // One or the other.
    assert_eq!(diagnose("", &["-config=server.hcl"]).0, 1);
    assert_eq!(diagnose("", &["-skip=storage"]).0, 1);
    server.stop();
    let (code, report) = diagnose(&keys.root, &[]);
    assert_eq!((code, status(&report, "Check Health")), (1, "fail".to_owned()));
}
