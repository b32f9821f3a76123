//! The commands that Vault's command line does not have, against our own server.

use std::process::{Command, Stdio};

use crate::support::{DevServer, Stub, directory, kallisto};

#[test]
fn secrets_are_found_moved_and_deleted_together() {
    let server = DevServer::start(&directory());
    for (line, code, stdout) in [
        ("kv put -field=version secret/app/db user=ada", 0, "1"),
        ("kv put -field=version secret/app/db user=eve", 0, "2"),
        ("kv put -field=version secret/app/web user=bob", 0, "1"),
        ("kv metadata put -format=json -custom-metadata=owner=ada secret/app/web", 0, ""),
        ("kv search -format=yaml secret db", 0, "- path: secret/app/db\n"),
        (
            "kv search -metadata=owner=a* secret",
            0,
            "Path              Custom Metadata\n----              ---------------\nsecret/app/web    map[owner:ada]\n",
        ),
        ("kv search -metadata=owner<=ada -format=json secret", 0, "secret/app/web"),
        ("kv search -metadata=owner<ada secret", 2, ""),
        ("kv search -metadata=owner secret", 1, ""),
        ("kv search secret nowhere", 2, ""),
        ("kv get secret/app/db", 0, "= Secret Path ="),
        ("kv get secret/app/db secret/app/none", 2, "secret/data/app/db"),
        ("kv get -mount=secret -format=yaml app/web app/db", 0, "path: secret/data/app/web"),
        ("kv get -field=user secret/app/db secret/app/web", 1, ""),
        (
            "kv copy -dry-run secret/app/ secret/old/",
            0,
            "Nothing was done. Would copy 2 secrets:\n  secret/app/db -> secret/old/db\n  secret/app/web -> secret/old/web\n",
        ),
        ("kv copy -mount=secret app/ old/", 0, "Success! Copied 2 secrets:\n"),
        ("kv get -field=user -version=1 secret/old/db", 0, "ada"),
        ("kv move secret/old/db secret/app/db", 2, ""),
        ("kv move secret/old/db secret/older", 0, "Success! Moved 1 secret:\n"),
        ("kv delete -dry-run secret/older", 0, "Would delete 1 secret, the latest version of each"),
        ("kv delete -dry-run -purge secret/older", 0, "Would delete 1 secret, with all versions"),
        ("kv delete -purge secret/older", 1, ""),
        ("kv delete -purge -versions=1 secret/older", 1, ""),
        ("kv get -field=user secret/older", 0, "eve"),
        ("kv delete -recursive -dry-run secret/app", 0, "Nothing was done. Would delete 2 secrets"),
        ("kv get -field=user secret/app/db", 0, "eve"),
        ("kv delete -recursive secret/app", 0, "Success! Deleted 2 secrets"),
        ("kv get -field=user secret/app/db", 2, ""),
        (
            "kv undelete -recursive -dry-run secret/app",
            0,
            "Nothing was done. Would bring back 2 secrets, the latest version of each:\n  secret/app/db (version 2)\n  secret/app/web (version 1)\n",
        ),
        ("kv get -field=user secret/app/db", 2, ""),
        ("kv undelete -mount=secret -recursive app", 0, "Success! Brought back 2 secrets"),
        ("kv get -field=user secret/app/db", 0, "eve"),
        ("kv undelete -recursive -format=json secret", 0, "\"count\": 0"),
        ("kv undelete -recursive -versions=1 secret/app", 1, ""),
        ("kv undelete -dry-run -versions=1 secret/app/db", 1, ""),
        ("kv delete secret/app/db", 0, "Success!"),
        ("kv undelete -format=json -versions=2 secret/app/db", 0, ""),
        ("kv delete -recursive -purge -format=json secret", 0, "\"count\": 4"),
        ("kv list secret", 2, ""),
        ("kv delete -recursive secret", 2, ""),
        ("kv delete -recursive -versions=1 secret", 1, ""),
        (
            "secrets move secret team/kv",
            0,
            "Success! Finished moving secrets engine secret/ to team/kv/",
        ),
        ("kv put -field=version team/kv/a b=c", 0, "1"),
        ("secrets move nowhere else", 2, ""),
    ] {
        let ran = server.run(line);
        assert_eq!(ran.code, code, "{line}: {} {}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(stdout), "{line}: {}", ran.stdout);
    }
}

/// All versions of a secret go for good where somebody said so twice, or by the command that is for it.
#[test]
fn a_purge_of_one_secret_is_refused_before_anything_is_sent() {
    let stub = Stub::start(Vec::new());
    let environment = [("VAULT_ADDR", stub.address.as_str()), ("VAULT_TOKEN", "root")];
    let words = ["kv", "delete", "-purge", "secret/app"];
    let ran = kallisto(&directory(), &environment, "", &words);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains("-recursive") && ran.stderr.contains("kv metadata delete"),
        "{ran:?}"
    );
    assert_eq!(stub.asked(), []);
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_told() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kallisto"));
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ended = command.arg("version").stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(told.starts_with("cannot write to standard output: No space left"), "{told:?}");
}

#[test]
fn where_there_is_nothing_the_commands_say_so() {
    let server = DevServer::start(&directory());
    for (line, path) in [
        ("kv copy secret/none secret/b", "secret/none"),
        ("kv copy secret/none secret/b/", "secret/none/"),
        ("kv move -mount=secret -dry-run none/ b/", "secret/none/"),
        ("kv delete -recursive secret/none", "secret/none/"),
        ("kv delete -recursive -purge -format=json secret/none", "secret/none/"),
        ("kv undelete -recursive secret/none", "secret/none/"),
    ] {
        let ran = server.run(line);
        assert_eq!(ran.code, 2, "{line}: {} {}", ran.stdout, ran.stderr);
        assert_eq!(ran.stderr, format!("No value found at {path}\n"), "{line}");
    }
}

#[test]
fn a_watch_ends_when_what_it_waited_for_has_come() {
    let server = DevServer::start(&directory());
    assert_eq!(server.run("kv put -field=version secret/app/db a=1").code, 0);
    let mut watch = Command::new(env!("CARGO_BIN_EXE_kallisto"));
    let watch = watch
        .args(["kv", "watch", "-index=1", "-events=3", "secret/app/"])
        .env("VAULT_ADDR", &server.address)
        .env("VAULT_TOKEN", "root")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(server.run("kv put -field=version secret/app/db a=2").code, 0);
    assert_eq!(server.run("kv metadata delete -format=json secret/app/db").code, 0);
    let ended = watch.wait_with_output().unwrap();
    assert!(ended.status.success());
    assert_eq!(
        String::from_utf8(ended.stdout).unwrap(),
        "put     secret/app/db  1\nput     secret/app/db  2\nremove  secret/app/db\n"
    );
    let refused = server.run("kv watch -index=bogus secret/app/");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}
