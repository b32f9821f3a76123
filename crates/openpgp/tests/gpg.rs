//! What is encrypted here, decrypted by GnuPG with keys that it made; and keys that it made and that are refused.
//!
//! Without `gpg` on the machine nothing is tested, and that is said.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use kallisto_openpgp::{Error, Recipient, armor};

/// A home of GnuPG that goes with the test.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Option<Self> {
        let path = std::env::temp_dir().join(format!("pgp-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&path, private).unwrap();
        let home = Self(path);
        let is_there = Command::new("gpg").arg("--version").output().is_ok();
        if !is_there {
            eprintln!("SKIPPED: there is no gpg on this machine");
            return None;
        }
        Some(home)
    }

    fn gpg(&self, arguments: &[&str], stdin: &[u8]) -> Output {
        let mut command = Command::new("gpg");
        command.env("GNUPGHOME", &self.0).args(["--batch", "--yes", "--quiet"]);
        command.args(["--pinentry-mode", "loopback", "--passphrase", ""]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin).unwrap();
        child.wait_with_output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.gpg(arguments, b"");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Makes a key by a description, and exports it.
    fn key(&self, name: &str, description: &str) -> Vec<u8> {
        let text = format!(
            "%no-protection\n{description}\nName-Real: {name}\nName-Email: {name}@example.com\n%commit\n"
        );
        let output = self.gpg(&["--gen-key"], text.as_bytes());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.done(&["--export", &format!("{name}@example.com")])
    }

    fn fingerprint(&self, name: &str) -> String {
        let address = format!("{name}@example.com");
        let listed = self.done(&["--with-colons", "--list-keys", &address]);
        let listed = String::from_utf8(listed).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_ascii_lowercase()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let stop =
            Command::new("gpgconf").env("GNUPGHOME", &self.0).args(["--kill", "all"]).output();
        drop(stop);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[expect(clippy::disallowed_methods, reason = "keys are made by a program that reads the clock")]
fn now() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

const KINDS: [(&str, &str); 5] = [
    ("rsa", "Key-Type: RSA\nKey-Length: 2048\nSubkey-Type: RSA\nSubkey-Length: 3072"),
    ("rsa-alone", "Key-Type: RSA\nKey-Length: 2048\nKey-Usage: sign,encrypt"),
    ("cv25519", "Key-Type: EDDSA\nKey-Curve: ed25519\nSubkey-Type: ECDH\nSubkey-Curve: cv25519"),
    ("p256", "Key-Type: ECDSA\nKey-Curve: nistp256\nSubkey-Type: ECDH\nSubkey-Curve: nistp256"),
    ("p521", "Key-Type: ECDSA\nKey-Curve: nistp521\nSubkey-Type: ECDH\nSubkey-Curve: nistp521"),
];

#[test]
fn gnupg_reads_what_is_encrypted_to_its_keys() {
    let Some(home) = Home::new("reads") else { return };
    for (name, description) in KINDS {
        let key = home.key(name, description);
        let recipient = Recipient::parse(&key, now()).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(recipient.fingerprint(), home.fingerprint(name), "{name}");
        let armored = home.done(&["--armor", "--export", &format!("{name}@example.com")]);
        assert_eq!(armor::decode(&String::from_utf8(armored).unwrap()).unwrap(), key);
        for length in [0, 1, 64, 66, 5_000] {
            let text = "a".repeat(length);
            let message = recipient.encrypt(text.as_bytes()).unwrap();
            let output = home.gpg(&["--decrypt"], &message);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}, {length} bytes: {said}");
            assert!(!said.contains("WARNING"), "{name}: {said}");
            assert_eq!(output.stdout, text.as_bytes(), "{name}");
        }
        // Nothing of a key may be changed: whatever byte is, it is refused, or the same key is encrypted to.
        for at in (0..key.len()).step_by(7) {
            let mut changed = key.clone();
            changed[at] ^= 1;
            if let Ok(other) = Recipient::parse(&changed, now())
                && other.fingerprint() == recipient.fingerprint()
            {
                let message = other.encrypt(b"text").unwrap();
                let output = home.gpg(&["--decrypt"], &message);
                assert_eq!(output.stdout, b"text", "{name}: byte {at} leads elsewhere");
            }
        }
        for cut in 0..key.len() {
            let _ = Recipient::parse(&key[..cut], now());
        }
    }
}

#[test]
fn keys_that_should_not_be_used_are_refused() {
    let Some(home) = Home::new("refused") else { return };
    let refusal = |key: &[u8], now: u64| Recipient::parse(key, now).unwrap_err();
    let (_, rsa) = KINDS[0];
    let good = home.key("good", rsa);
    let far = now() + 366 * 24 * 3600;
    assert!(Recipient::parse(&good, far).is_ok());
    let secret = home.done(&["--export-secret-keys", "good@example.com"]);
    assert_eq!(refusal(&secret, now()), Error::Secret);
    let ends = home.key("ends", &format!("{rsa}\nExpire-Date: 1d"));
    assert!(Recipient::parse(&ends, now()).is_ok());
    assert_eq!(refusal(&ends, far), Error::Expired);
    assert_eq!(refusal(&home.done(&["--export"]), now()), Error::Several);
    let signs = home.key("signs", "Key-Type: RSA\nKey-Length: 2048\nKey-Usage: sign");
    assert_eq!(refusal(&signs, now()), Error::Unusable);
    let old =
        home.key("old", "Key-Type: DSA\nKey-Length: 2048\nSubkey-Type: ELG-E\nSubkey-Length: 2048");
    assert!(Recipient::parse(&old, now()).is_err());
    let short = home
        .key("short", "Key-Type: EDDSA\nKey-Curve: ed25519\nSubkey-Type: RSA\nSubkey-Length: 1024");
    assert_eq!(refusal(&short, now()), Error::Unusable);
    // What GnuPG makes on this curve asks for a cipher that keys are not wrapped with here.
    let p384 = "Key-Type: ECDSA\nKey-Curve: nistp384\nSubkey-Type: ECDH\nSubkey-Curve: nistp384";
    assert_eq!(refusal(&home.key("p384", p384), now()), Error::Unusable);
    assert_eq!(refusal(b"", now()), Error::Malformed);
    assert_eq!(refusal(&vec![0; 70_000], now()), Error::TooLong);
    // As many signatures as somebody likes who wants the server to be busy: they are valid, and come after a subkey.
    let part = subkey_of(&good);
    let signature = &part[3 + usize::from(part[1]) * 256 + usize::from(part[2])..];
    let with = |count: usize| [good.as_slice(), &signature.repeat(count)].concat();
    assert!(Recipient::parse(&with(8), now()).is_ok());
    assert_eq!(refusal(&with(64), now()), Error::TooManySignatures);
    // A subkey of another key, with its own signature, behind a key that has not signed for it.
    let other = home.key("other", rsa);
    let foreign = subkey_of(&other);
    let lone = home.key("lone", &format!("{rsa}\nKey-Usage: sign"));
    let mut grafted = primary_of(&lone).to_vec();
    grafted.extend_from_slice(foreign);
    assert_eq!(refusal(&grafted, now()), Error::Unsigned);
    // Revoked: GnuPG writes a revocation beside each key that it makes.
    let file = home
        .0
        .join("openpgp-revocs.d")
        .join(format!("{}.rev", home.fingerprint("good").to_ascii_uppercase()));
    let text = std::fs::read_to_string(file).unwrap().replace("\n:---", "\n---");
    assert!(home.gpg(&["--import"], text.as_bytes()).status.success());
    let revoked = home.done(&["--export", "good@example.com"]);
    assert_eq!(refusal(&revoked, now()), Error::Revoked);
}

/// Where the subkey of a key with one begins: GnuPG writes old headers, with lengths of two bytes.
fn split(key: &[u8]) -> usize {
    let mut at = 0;
    while at < key.len() {
        let (tag, wide) = ((key[at] >> 2) & 15, key[at] & 3);
        if tag == 14 {
            return at;
        }
        at += match wide {
            0 => 2 + usize::from(key[at + 1]),
            _ => 3 + usize::from(key[at + 1]) * 256 + usize::from(key[at + 2]),
        };
    }
    panic!("no subkey");
}

fn primary_of(key: &[u8]) -> &[u8] {
    &key[..split(key)]
}

fn subkey_of(key: &[u8]) -> &[u8] {
    &key[split(key)..]
}
