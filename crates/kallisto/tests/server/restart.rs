//! Starting and stopping: what stays, who is kept out, and what a bad configuration is told.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::support::{Directory, Server, refuse, run, stop_once_told, until};

#[test]
fn a_clean_stop_keeps_everything() {
    let directory = Directory::new("stop");
    // As a script makes it for a server that may write nothing else there.
    let pid_file = directory.write("pid", "9999999999999999999");
    std::fs::set_permissions(&pid_file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let config = directory.config(&format!("pid_file = \"{}\"", pid_file.display()));
    let server = Server::start(&directory, &config);
    let keys = server.initialize(5, 3);
    assert!(server.is_sealed());
    server.unseal(&keys);
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    let mode = std::fs::metadata(&pid_file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o640, "it is the file that somebody made for it");
    assert_eq!(pid.trim(), server.pid().as_raw_nonzero().to_string());
    let mut client = server.client(&keys.root);
    client.put("sys/mounts/kv", r#"{"type":"kv","options":{"version":"2"}}"#);
    for number in 0..200 {
        client.put(&format!("kv/data/app/{number}"), &format!(r#"{{"data":{{"n":"{number}"}}}}"#));
    }
    client.send("DELETE", "kv/metadata/app/7", "").good();
    let token = client.put("auth/token/create", r#"{"policies":["default"],"ttl":"1h"}"#);
    let token = token.at("auth.client_token");
    server.stop();
    assert!(!pid_file.exists());

    let server = Server::start(&directory, &config);
    assert!(server.is_sealed());
    assert_eq!(server.client(&keys.root).get("kv/data/app/1").status, 503);
    server.unseal(&keys);
    let mut client = server.client(&keys.root);
    for number in 0..200 {
        let reply = client.get(&format!("kv/data/app/{number}"));
        match number {
            7 => assert_eq!(reply.status, 404),
            _ => assert_eq!(reply.at("data.data.n"), number.to_string()),
        }
    }
    let itself = server.client(&token).get("auth/token/lookup-self");
    assert_eq!(itself.good().at("data.policies.0"), "default");
    server.stop();
}

#[test]
fn a_configuration_in_the_environment_needs_no_file() {
    let directory = Directory::new("environment");
    let config = directory.config("");
    let server = Server::spawn(&directory, &[("VAULT_LOCAL_CONFIG", &config)], &[]);
    server.initialize(1, 1);
    server.stop();
}

#[test]
fn a_server_starts_when_what_it_says_finds_no_room() {
    let directory = Directory::new("unheard");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let told = "the start-up message cannot be written to standard output";
    assert_eq!(stop_once_told(&directory, &directory.config(""), full, told), Some(0));
}

#[test]
fn a_second_server_on_the_directory_is_refused() {
    let directory = Directory::new("second");
    let config = directory.config("");
    let first = Server::start(&directory, &config);
    let keys = first.initialize(1, 1);
    let said = refuse(&directory, &config, &[]);
    assert!(said.contains("in use"), "{said}");
    assert!(said.contains(&directory.join("data").display().to_string()), "{said}");
    first.unseal(&keys);
    first.stop();
    Server::start(&directory, &config).unseal(&keys);
}

#[test]
fn a_bad_configuration_is_refused_with_its_place() {
    let directory = Directory::new("bad");
    let good = directory.config("");
    let lines = good.lines().count();
    for (more, place, what) in [
        ("durability = \"sometimes\"", 0, "durability"),
        ("max_lease_ttl = \"soon\"", 0, "max_lease_ttl"),
        ("log_level = \"loud\"", 0, "log_level"),
        ("seal \"hsm\" {}", 0, "shamir, static and transit"),
        (
            "seal \"static\" {\n  current_key_id = \"a\"\n  current_key = \"short\"\n}",
            2,
            "32 bytes",
        ),
        ("ui = ", 1, "expected a value"),
    ] {
        let said = refuse(&directory, &format!("{good}{more}\n"), &[]);
        let wanted = format!("refused.hcl:{}: ", lines + place + 1);
        assert!(said.contains(&wanted) && said.contains(what), "{more}: {said}");
        assert!(!said.contains("short"), "a key in {said}");
    }
    let said = refuse(&directory, "listener \"tcp\" { tls_disable = true }\n", &[]);
    assert!(said.contains("storage"), "{said}");
    let exit = run(&directory.join(""), &[], &["server", "-config=/nonexistent/kallisto.hcl"]);
    assert_eq!(exit.code, Some(1));
    assert!(exit.stderr.contains("/nonexistent/kallisto.hcl"), "{exit:?}");
    assert!(!directory.join("data/engine").exists(), "a refused start made a store");
}

#[test]
fn keys_that_nobody_knows_are_warned_of() {
    let directory = Directory::new("warn");
    let config = directory.config("colour = \"blue\"\nui = true\ndisable_mlock = true");
    let server = Server::start(&directory, &config);
    let log = server.log();
    assert!(log.contains("colour") && log.contains("server.hcl:"), "{log}");
    assert!(log.contains("disable_mlock has no effect"), "{log}");
    assert!(!log.contains("ui has no effect"), "{log}");
    server.stop();
}

#[test]
fn a_signal_while_sealed_stops_it_too() {
    let directory = Directory::new("signal");
    let config = directory.config("");
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::start(&directory, &config);
        assert_eq!(server.end(signal).code(), Some(0));
    }
    // A reload of what has no certificates is no reason to end.
    let server = Server::start(&directory, &config);
    server.signal(Signal::HUP);
    until("an answer", || server.anyone().get("sys/seal-status").status == 200);
    server.stop();
}

#[test]
fn a_signal_without_a_meaning_is_logged_and_no_more() {
    let directory = Directory::new("signals");
    let server = Server::start(&directory, &directory.config(""));
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    for (signal, name) in [(Signal::USR1, "SIGUSR1"), (Signal::USR2, "SIGUSR2")] {
        server.signal(signal);
        until("the signal's line", || server.log().contains(name));
    }
    server.signal(Signal::PIPE);
    assert!(!server.is_sealed(), "{}", server.log());
    let status = server.end(Signal::QUIT);
    assert_eq!(status.code(), Some(0), "{status}");
}

/// A request that seals is itself one of those that sealing waits for.
#[test]
fn sealing_with_a_limited_token_does_not_wait_for_itself_and_the_last_use_ends_it() {
    let directory = Directory::new("seal-limited");
    let audit = directory.join("audit.log");
    let more = format!(
        "audit \"file\" \"file\" {{\n  options {{\n    file_path = \"{}\"\n  }}\n}}",
        audit.display()
    );
    let server = Server::start(&directory, &directory.config(&more));
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    let policy = r#"{"policy":"path \"sys/seal\" { capabilities = [\"update\", \"sudo\"] }"}"#;
    server.client(&keys.root).put("sys/policies/acl/sealer", policy);
    for uses in [1, 3] {
        let body = format!(r#"{{"policies":["sealer"],"num_uses":{uses}}}"#);
        let token = server.client(&keys.root).put("auth/token/create", &body);
        let token = token.at("auth.client_token");
        let reply = server.client(&token).send("PUT", "sys/seal", "");
        assert_eq!(reply.status, 204, "{}", reply.body);
        assert!(!server.log().contains("a request still runs"), "{uses}: {}", server.log());
        server.unseal(&keys);
        let look = format!(r#"{{"token":"{token}"}}"#);
        let left = server.client(&keys.root).send("POST", "auth/token/lookup", &look);
        match uses {
            1 => assert_eq!(left.status, 403, "{}", left.body),
            _ => assert_eq!(left.good().at("data.num_uses"), "2"),
        }
    }
    server.stop();
}

#[test]
fn a_directory_that_cannot_be_used_is_named_with_its_owner() {
    let directory = Directory::new("unusable");
    let config = directory.config("");
    let data = directory.join("data");
    std::fs::remove_dir(&data).unwrap();
    directory.write("data", "a file in the way");
    for below in ["", "/below/it"] {
        let config = config.replace("/data\"", &format!("/data{below}\""));
        let said = refuse(&directory, &config, &[]);
        assert!(!said.contains("cluster port"), "{said}");
        let place = format!("storage at {}{below}: cannot be read and written", data.display());
        let whose = format!("({}: mode 0", data.display());
        for told in [place.as_str(), &whose, "no directory", "this server is user "] {
            assert!(said.contains(told), "{told}: {said}");
        }
    }
    // What is missing above it is made, as `operator diagnose` says.
    std::fs::remove_file(&data).unwrap();
    Server::start(&directory, &config.replace("/data\"", "/data/below/it\"")).stop();
    // The files of the cluster are something else than its port.
    let key = data.join("below/it/peers/node.key");
    std::fs::create_dir(&key).unwrap();
    let said = refuse(&directory, &config.replace("/data\"", "/data/below/it\""), &[]);
    assert!(said.contains("the cluster's files at ") && !said.contains("cluster port"), "{said}");
}

#[test]
fn sealing_does_not_wait_for_itself() {
    let directory = Directory::new("seal-self");
    let server = Server::start(&directory, &directory.config(""));
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    assert_eq!(server.client(&keys.root).send("PUT", "sys/seal", "").status, 204);
    assert!(server.is_sealed());
    assert!(!server.log().contains("a request still runs"), "{}", server.log());
    server.stop();
}
