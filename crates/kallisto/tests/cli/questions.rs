//! The small commands around secrets, against our own server: leases, versions, engines, the log,
//! help, completion, and what is shown instead of being sent.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::{DevServer, directory, kallisto};

#[test]
fn leases_are_asked_about_renewed_and_ended() {
    let server = DevServer::start(&directory());
    for _ in 0..2 {
        let made = server.run("token create -ttl=1h -policy=default -field=token");
        assert_eq!(made.code, 0, "{}", made.stderr);
    }
    let listed = server.run("list -format=yaml sys/leases/lookup/auth/token/create");
    let ids: Vec<&str> = listed.stdout.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert_eq!(ids.len(), 2, "{}", listed.stdout);
    let id = format!("auth/token/create/{}", ids[0]);
    for (line, code, stdout) in [
        (format!("lease lookup {id}"), 0, "renewable       true\n"),
        (format!("lease lookup -format=json {id}"), 0, "\"path\": \"auth/token/create\""),
        // Leases of tokens are renewed with their tokens, as Vault has it.
        (format!("lease renew -increment=2h {id}"), 2, ""),
        (format!("lease renew -increment=soon {id}"), 1, ""),
        (format!("lease revoke -sync {id}"), 0, &*format!("Success! Revoked lease: {id}\n")),
        (format!("lease lookup {id}"), 2, ""),
        ("lease revoke -force auth".to_owned(), 1, ""),
        (
            "lease revoke -prefix auth/token/create".to_owned(),
            0,
            "All revocation operations queued successfully!\n",
        ),
        ("list sys/leases/lookup/auth/token/create".to_owned(), 2, ""),
    ] {
        let ran = server.run(&line);
        assert_eq!(ran.code, code, "{line}: {} {}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(stdout), "{line}: {}", ran.stdout);
    }
}

/// A file that a name or an id is read from ends in a newline; a path is what it says.
#[test]
fn blanks_around_ids_and_user_names_are_none_of_theirs() {
    let server = DevServer::start(&directory());
    for line in [
        "auth enable userpass",
        "write auth/userpass/users/bob password=secret",
        "token create -ttl=1h -policy=default",
    ] {
        assert_eq!(server.run(line).code, 0, "{line}");
    }
    for name in ["bob ", "bob\n"] {
        let named = format!("username={name}");
        let words = ["login", "-no-store", "-method=userpass", &named, "password=secret"];
        let ran = server.run_words(&words);
        assert_eq!(ran.code, 0, "{name:?}: {}", ran.stderr);
    }
    let leases = "list sys/leases/lookup/auth/token/create";
    assert_eq!(server.run(leases).code, 0);
    let ran = server.run_words(&["lease", "revoke", "-sync", "-prefix", "auth/token/create "]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(server.run(leases).code, 2, "they are revoked");
    for (path, value) in [("secret/a", "1"), ("secret/a ", "2")] {
        let field = format!("x={value}");
        assert_eq!(server.run_words(&["kv", "put", path, &field]).code, 0, "{path:?}");
    }
    let read = |path| server.run_words(&["kv", "get", "-field=x", path]).stdout;
    assert_eq!((read("secret/a").trim(), read("secret/a ").trim()), ("1", "2"));
}

/// Kinds that are there from the start, once, and cannot be mounted; and the second name of one.
const NOT_MOUNTED: [&str; 5] = ["cubbyhole", "identity", "openldap", "system", "token"];

#[test]
fn the_help_of_enabling_names_every_kind_that_the_server_mounts() {
    let server = DevServer::start(&directory());
    for (kind, command) in [("secret", "secrets enable -h"), ("auth", "auth enable -h")] {
        let listed = server.run(&format!("plugin list {kind}"));
        let help = server.run(command).stdout;
        let arguments = help.split_once("Arguments:").map_or("", |(_, rest)| rest);
        let named = arguments.split("Options:").next().unwrap_or_default();
        let names = listed.stdout.lines().skip(2).filter_map(|line| line.split(' ').next());
        let mounted: Vec<&str> = names.filter(|name| !NOT_MOUNTED.contains(name)).collect();
        assert!(mounted.len() > 5, "{}", listed.stdout);
        for name in mounted {
            let is_named = named.split([' ', ',', '\n']).any(|word| word == name);
            assert!(is_named, "{command} does not name {name}: {named}");
        }
    }
}

#[test]
fn a_server_tells_its_versions_engines_and_methods() {
    let server = DevServer::start(&directory());
    for (line, code, stdout) in [
        ("version-history", 0, "Version    Installation Time"),
        ("version-history -format=json", 0, "\"previous_version\": null"),
        (
            "plugin list",
            0,
            "Name          Type      Version\n----          ----      -------\napprole       auth",
        ),
        ("plugin list -detailed secret", 0, "Deprecation Status"),
        ("plugin list bogus", 1, ""),
        ("plugin info -field=builtin auth userpass", 0, "true"),
        ("plugin info auth bogus", 2, ""),
        ("auth help userpass", 0, "Usage: kallisto login -method=userpass"),
        ("auth help okta", 0, "Okta Verify is asked"),
        ("auth help github/", 0, "Usage: kallisto login -method=github"),
        ("auth help ldap", 0, "Usage: kallisto login -method=ldap"),
        ("auth enable -path=machines approle", 0, "Success!"),
        ("auth help machines/", 0, "Usage: kallisto login -method=approle"),
        ("auth help bogus", 2, ""),
        ("auth list -detailed", 0, "Default TTL"),
        ("kv put -field=version secret/app/db a=1", 0, "1"),
        ("kv put -field=version secret/top a=1", 0, "1"),
        ("scan -format=yaml secret/metadata", 0, "- top\n- app/db\n"),
        ("scan secret/metadata/none", 2, ""),
        (
            "patch secret/metadata/top max_versions=3",
            0,
            "Success! Data patched at: secret/metadata/top",
        ),
        ("read -field=max_versions secret/metadata/top", 0, "3"),
        ("secrets list -format=raw", 1, ""),
    ] {
        let ran = server.run(line);
        assert_eq!(ran.code, code, "{line}: {} {}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(stdout), "{line}: {}", ran.stdout);
    }
}

#[test]
fn a_request_is_shown_as_the_policy_it_needs() {
    let server = DevServer::start(&directory());
    for (line, path, capabilities) in [
        ("kv put -output-policy secret/a b=c", "secret/data/a", "\"create\", \"update\""),
        ("kv list -output-policy secret/a", "secret/metadata/a", "\"list\""),
        ("write -f -output-policy sys/rotate", "sys/rotate", "\"create\", \"update\", \"sudo\""),
        ("scan -output-policy secret/metadata", "secret/metadata", "\"scan\""),
        ("patch -output-policy secret/data/a b=c", "secret/data/a", "\"patch\""),
    ] {
        let ran = server.run(line);
        let rule = format!("path \"{path}\" {{\n  capabilities = [{capabilities}]\n}}\n");
        assert_eq!((ran.code, ran.stdout), (0, rule), "{line}: {}", ran.stderr);
    }
    let ran = server.run("kv get secret/a");
    assert_eq!(ran.code, 2, "what was shown was sent: {}", ran.stdout);
}

#[test]
fn the_log_is_followed_until_the_server_ends_the_stream() {
    let server = DevServer::start(&directory());
    let mut monitor = Command::new(env!("CARGO_BIN_EXE_kallisto"))
        .args(["monitor", "-log-level=debug", "-log-format=json"])
        .env("VAULT_ADDR", &server.address)
        .env("VAULT_TOKEN", "root")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(monitor.stdout.take().unwrap()).lines();
    // Something to hear of, again until the stream is open. Other lines may come first.
    let (heard, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let is_meant = |line: &String| line.contains(r#""@message":"log level changed""#);
        heard.send(lines.by_ref().map_while(Result::ok).any(|line| is_meant(&line))).unwrap();
        lines.count()
    });
    let is_heard = loop {
        assert_eq!(server.run("write sys/loggers level=debug").code, 0);
        if let Ok(is_heard) = told.try_recv() {
            break is_heard;
        }
    };
    assert!(is_heard, "the stream ended");
    assert_eq!(server.run("operator seal").code, 0);
    let ended = monitor.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    reader.join().unwrap();
    let refused = server.run("monitor -log-level=loud");
    assert_eq!(refused.code, 1, "{}", refused.stderr);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may touch disk")]
fn shells_are_told_how_to_complete() {
    let home = directory();
    for (shell, sign) in [
        ("bash", "complete -F _kallisto"),
        ("zsh", "#compdef kallisto"),
        ("fish", "complete -c kallisto"),
    ] {
        let ran = kallisto(&home, &[], "", &["completion", shell]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains(sign) && ran.stdout.contains("version-history"), "{shell}");
    }
    let ask = |flag: &str| kallisto(&home, &[], "", &[flag]);
    assert_eq!(ask("-autocomplete-install").code, 1, "there is no shell yet");
    std::fs::write(home.join(".bashrc"), "alias k=kallisto").unwrap();
    assert_eq!(ask("-autocomplete-uninstall").code, 1);
    assert_eq!(ask("-autocomplete-install").code, 0);
    let installed = std::fs::read_to_string(home.join(".bashrc")).unwrap();
    assert!(installed.starts_with("alias k=kallisto\n"), "{installed}");
    assert!(installed.contains("$(kallisto completion bash)"), "{installed}");
    assert!(ask("-autocomplete-install").stdout.contains("installed already"));
    assert_eq!(std::fs::read_to_string(home.join(".bashrc")).unwrap(), installed);
    assert_eq!(ask("-autocomplete-uninstall").code, 0);
    assert_eq!(std::fs::read_to_string(home.join(".bashrc")).unwrap(), "alias k=kallisto\n");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may touch disk")]
fn bash_completes_flags_with_one_dash_and_with_two() {
    let home = directory();
    let ran = kallisto(&home, &[], "", &["completion", "bash"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // Too long for an argument.
    let script = home.join("completion.bash");
    std::fs::write(&script, ran.stdout).unwrap();
    let ask = r#"
        source "$0"
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        [[ $(complete -p kallisto) =~ -F\ ([^ ]+) ]]
        "${BASH_REMATCH[1]}" kallisto "${@: -1}" "${@: -2:1}"
        echo "${COMPREPLY[*]}""#;
    for (line, wanted) in [
        ("kv get -fo", "-format"),
        ("kv get --fo", "--format"),
        ("kv delete -recursive -dry", "-dry-run"),
        ("token create -orphan -per", "-period"),
        ("kv unde", "undelete"),
        ("completion ba", "bash"),
        ("bench http -nothing", ""),
    ] {
        let mut bash = Command::new("bash");
        bash.args(["-c", ask]).arg(&script).arg("kallisto").args(line.split(' '));
        // Not every machine has this shell.
        let Ok(answer) = bash.output() else { return };
        assert_eq!(String::from_utf8(answer.stdout).unwrap().trim(), wanted, "{line}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may touch disk")]
fn fish_and_zsh_complete_flags_with_one_dash_and_with_two() {
    let home = directory();
    let script = |shell: &str| kallisto(&home, &[], "", &["completion", shell]).stdout.clone();
    let zsh = script("zsh");
    assert!(zsh.contains("'*'{--config,-config}'=[Configuration file"), "{zsh}");
    assert!(zsh.contains("'(--compare)'{--dry-run,-dry-run}'[Say what would move"), "{zsh}");
    assert!(!zsh.contains("\n'--") && !zsh.contains("=(-s "), "one letter a flag: {zsh}");
    let file = home.join("completion.fish");
    std::fs::write(&file, script("fish")).unwrap();
    for (line, wanted) in [
        ("kv get -form", "-format"),
        ("kv get --form", "--format"),
        ("kv delete -recursive -dry", "-dry-run"),
        ("token create -orphan -per", "-period"),
        ("kv unde", "undelete"),
    ] {
        let mut fish = Command::new("fish");
        let ask = "source $argv[1]; complete -C $argv[2]";
        fish.args(["--no-config", "-c", ask]).arg(&file).arg(format!("kallisto {line}"));
        // Not every machine has this shell.
        let Ok(answer) = fish.env("HOME", &home).output() else { return };
        let told = String::from_utf8(answer.stdout).unwrap();
        let names: Vec<_> = told.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(names, [wanted], "{line}");
    }
}
