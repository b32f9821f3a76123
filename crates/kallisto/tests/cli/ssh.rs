//! `kallisto ssh`, with a program in the place of `ssh` that says what it was given.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Answer, Ran, Stub, directory, kallisto};

const PUBLIC_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKX3+zrQ9GRJOkjabqqcJjz3W1mXU73mSewfLIzdzAcU u@h";
const SIGNED: &str =
    r#"{"data":{"serial_number":"1f","signed_key":"ssh-ed25519-cert-v01@openssh.com AAAA\n"}}"#;
const MADE: &str = r#"{"data":{"ip":"127.0.0.1","key":"2f7e25a2-24c9-4b7b-0d35-27d5e5203a5c","key_type":"otp","port":22,"username":"ada"}}"#;

/// Prints each argument on a line, and what is in the files that options name; it fails with 7.
const SCRIPT: &str = r#"#!/bin/sh
for word in "$@"; do
  echo "$word"
  case "$word" in CertificateFile=*|UserKnownHostsFile=*) /bin/cat "${word#*=}";; esac
done
[ -z "$SSHPASS" ] || echo "SSHPASS=$SSHPASS"
exit 7
"#;

/// A home with a key, and a program in the place of `ssh`.
struct Home {
    path: PathBuf,
    ssh: PathBuf,
}

/// Written by another process: a program that is still open for writing is not run, and what this one has open is open in each process
/// that another test is about to start.
fn script(path: &Path, text: &str) {
    let line = "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\"";
    let status = Command::new("sh").args(["-c", line]).arg(path).arg(text).status();
    assert!(status.unwrap().success());
}

impl Home {
    fn new() -> Self {
        let path = directory();
        std::fs::create_dir(path.join(".ssh")).unwrap();
        std::fs::create_dir(path.join("bin")).unwrap();
        std::fs::write(path.join(".ssh/id_ed25519.pub"), format!("{PUBLIC_KEY}\n")).unwrap();
        let ssh = path.join("ssh-of-the-test");
        script(&ssh, SCRIPT);
        Self { path, ssh }
    }

    /// Runs `kallisto ssh` against a server with these answers.
    fn run(&self, answers: &[(u16, &str)], arguments: &str) -> (Ran, Vec<(String, String)>) {
        let answers = answers.iter().map(|(status, body)| Answer::of(*status, body)).collect();
        let stub = Stub::start(answers);
        let program = format!("-ssh-executable={}", self.ssh.display());
        let mut words = vec!["ssh", program.as_str()];
        words.extend(arguments.split(' '));
        let bin = self.path.join("bin");
        let environment = [
            ("VAULT_ADDR", stub.address.as_str()),
            ("VAULT_TOKEN", "root"),
            ("TMPDIR", self.path.to_str().unwrap()),
            ("PATH", bin.to_str().unwrap()),
        ];
        let ran = kallisto(&self.path, &environment, "", &words);
        let asked = stub.asked().into_iter().map(|request| (request.path, request.body)).collect();
        (ran, asked)
    }

    /// What is left of directories that were made for a run.
    fn scratch(&self) -> usize {
        let entries = std::fs::read_dir(&self.path).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("kallisto-ssh")).count()
    }
}

#[test]
fn a_key_is_signed_and_ssh_run_with_the_certificate() {
    let home = Home::new();
    let line = "-mode=ca -role=dev ada@host.example.com -p 2222 -v ls -la";
    let (ran, asked) = home.run(&[(200, SIGNED)], line);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].0, "/v1/ssh/sign/dev");
    let body =
        format!(r#"{{"cert_type":"user","public_key":"{PUBLIC_KEY}","valid_principals":"ada"}}"#);
    assert_eq!(asked[0].1, body);
    let said: Vec<&str> = ran.stdout.lines().collect();
    assert!(said[1].starts_with("CertificateFile="), "{said:?}");
    assert_eq!(said[2], "ssh-ed25519-cert-v01@openssh.com AAAA");
    let key = home.path.join(".ssh/id_ed25519");
    let rest = [
        "-o",
        "IdentitiesOnly=yes",
        "-i",
        key.to_str().unwrap(),
        "-p",
        "2222",
        "-v",
        "ada@host.example.com",
        "ls",
        "-la",
    ];
    assert_eq!(said[3..], rest);
    assert_eq!(home.scratch(), 0, "nothing is left of the certificate");
}

#[test]
fn hosts_with_signed_keys_are_trusted_and_no_others() {
    let home = Home::new();
    let line = "-mode=ca -role=dev -mount-point=/ssh-users/ -host-key-mount-point=ssh-hosts -host-key-hostnames=*.example.com -strict-host-key-checking=no -extensions=permit-pty,permit-user-rc ada@host";
    let (ran, asked) = home.run(&[(200, SIGNED), (200, "ssh-ed25519 HOSTCA\n")], line);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert_eq!(asked[0].0, "/v1/ssh-users/sign/dev");
    assert!(asked[0].1.contains(r#""extensions":{"permit-pty":"","permit-user-rc":""}"#));
    assert_eq!(asked[1].0, "/v1/ssh-hosts/public_key");
    let said: Vec<&str> = ran.stdout.lines().collect();
    assert!(said[1].starts_with("UserKnownHostsFile="), "{said:?}");
    assert_eq!(said[2], "@cert-authority *.example.com ssh-ed25519 HOSTCA");
    assert_eq!(said[3..7], ["-o", "GlobalKnownHostsFile=none", "-o", "StrictHostKeyChecking=yes"]);
    assert_eq!(home.scratch(), 0);
}

#[test]
fn settings_stand_in_for_flags_and_home_for_its_sign() {
    let home = Home::new();
    let stub = Stub::start(vec![Answer::of(200, SIGNED)]);
    let environment = [
        ("VAULT_ADDR", stub.address.as_str()),
        ("VAULT_TOKEN", "root"),
        ("TMPDIR", home.path.to_str().unwrap()),
        ("USER", "ada"),
        ("VAULT_SSH_EXECUTABLE", home.ssh.to_str().unwrap()),
        ("BAO_SSH_STRICT_HOST_KEY_CHECKING", "accept-new"),
    ];
    let line = [
        "ssh",
        "-mode=ca",
        "-role=dev",
        "-public-key-path=~/.ssh/id_ed25519.pub",
        "-user-known-hosts-file=~/known",
        "10.0.0.7",
        "-oBatchMode=yes",
        "ls",
        "-la",
    ];
    let ran = kallisto(&home.path, &environment, "", &line);
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(ran.stdout.contains("StrictHostKeyChecking=accept-new\n"), "{ran:?}");
    let known = format!("UserKnownHostsFile={}\n", home.path.join("known").display());
    assert!(ran.stdout.contains(&known), "{ran:?}");
    let key = format!("-i\n{}\n", home.path.join(".ssh/id_ed25519").display());
    assert!(ran.stdout.contains(&key), "{ran:?}");
    assert!(ran.stdout.ends_with("-oBatchMode=yes\nada@10.0.0.7\nls\n-la\n"), "{ran:?}");
}

#[test]
fn a_one_time_password_is_shown_or_typed_by_sshpass() {
    let home = Home::new();
    let (ran, asked) = home.run(&[(200, MADE)], "-mode=otp -role=otp ada@127.0.0.1 -p 2222");
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    let creds = ("/v1/ssh/creds/otp", r#"{"ip":"127.0.0.1","username":"ada"}"#);
    assert_eq!((asked[0].0.as_str(), asked[0].1.as_str()), creds);
    assert!(ran.stderr.contains("2f7e25a2-24c9-4b7b-0d35-27d5e5203a5c"), "{}", ran.stderr);
    assert!(ran.stdout.ends_with("-p\n2222\nada@127.0.0.1\n"), "{}", ran.stdout);
    // The role may be left out where one is good for the address.
    script(&home.path.join("bin/sshpass"), "#!/bin/sh\necho \"sshpass $1\"\nshift\nexec \"$@\"\n");
    let one = (200, r#"{"data":{"roles":["otp"]}}"#);
    let (ran, asked) = home.run(&[one, (200, MADE)], "-mode=otp ada@127.0.0.1");
    assert_eq!(asked[0].0, "/v1/ssh/lookup");
    assert!(ran.stdout.starts_with("sshpass -e\n"), "{} {}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.ends_with("SSHPASS=2f7e25a2-24c9-4b7b-0d35-27d5e5203a5c\n"),
        "{}",
        ran.stdout
    );
    assert_eq!(ran.stderr, "", "what is typed is not shown");
    for (roles, why) in [
        ("null", "no role is good for 127.0.0.1: say -role\n"),
        (r#"["a","b"]"#, "2 roles are good for 127.0.0.1: say -role with one of a, b\n"),
    ] {
        let answer = format!(r#"{{"data":{{"roles":{roles}}}}}"#);
        let (ran, _) = home.run(&[(200, &answer)], "-mode=otp ada@127.0.0.1");
        assert_eq!((ran.code, ran.stderr.as_str()), (1, why));
    }
}

#[test]
fn without_ssh_the_answer_is_printed() {
    let home = Home::new();
    let line = "-mode=ca -role=dev -no-exec -field=serial_number ada@host";
    let (ran, _) = home.run(&[(200, SIGNED)], line);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1f"), "{}", ran.stderr);
    let (ran, _) =
        home.run(&[(200, MADE)], "-mode=otp -role=otp -no-exec -field=key ada@127.0.0.1");
    assert_eq!(ran.stdout, "2f7e25a2-24c9-4b7b-0d35-27d5e5203a5c");
}

#[test]
fn mistakes_are_named_before_anything_is_asked() {
    let home = Home::new();
    std::fs::write(home.path.join("key"), "-----BEGIN OPENSSH PRIVATE KEY-----\n").unwrap();
    for (line, why) in [
        ("-role=dev ada@host", "-mode is missing: take -mode=ca or -mode=otp"),
        ("-mode=dynamic ada@host", "-mode=dynamic is no more: take -mode=ca or -mode=otp"),
        ("-mode=x ada@host", "Unknown SSH mode \"x\": take -mode=ca or -mode=otp"),
        ("-mode=ca ada@host", "-role is missing"),
        ("-mode=ca -role=dev host", "Who logs in is not known: write USER@HOST, or set USER"),
        ("-mode=ca -role=dev ada@", "\"ada@\" is no destination: write USER@HOST"),
        (
            "-mode=ca -role=dev ada@-oProxyCommand=x",
            "\"ada@-oProxyCommand=x\" is no destination: write USER@HOST",
        ),
        (
            "-mode=ca -role=dev -field=x ada@host",
            "-field and -format can be used with -no-exec only",
        ),
        ("-mode=ca -role=dev -public-key-path=none.pub ada@host", "none.pub cannot be read"),
        (
            "-mode=ca -role=dev -public-key-path=key -private-key-path=key ada@host",
            "key is a private key",
        ),
    ] {
        let (ran, asked) = home.run(&[], line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.stderr);
        assert!(ran.stderr.starts_with(why), "{line}: {}", ran.stderr);
        assert!(asked.is_empty(), "{line}");
    }
    let refused = (400, r#"{"errors":["eve is not a valid value for valid_principals"]}"#);
    let (ran, _) = home.run(&[refused], "-mode=ca -role=dev eve@host");
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("failed to sign public key"), "{}", ran.stderr);
    assert!(ran.stderr.contains("eve is not a valid value"), "{}", ran.stderr);
    std::fs::remove_file(&home.ssh).unwrap();
    let (ran, _) = home.run(&[(200, SIGNED)], "-mode=ca -role=dev ada@host");
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("ssh-of-the-test cannot be run"), "{}", ran.stderr);
    assert_eq!(home.scratch(), 0);
}
