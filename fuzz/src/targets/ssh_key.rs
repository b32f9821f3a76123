//! Public keys, private keys, principals and options of SSH, as anybody may send them: read in one spelling or refused, and a
//! certificate says what it was told and nothing else.

use std::sync::OnceLock;

use kallisto_ssh::certificate::{PRINCIPALS_MAX, check_principal};
use kallisto_ssh::wire::SshReader;
use kallisto_ssh::{
    CertificateKind, OptionMap, PkiKeyKind, RsaHash, SshContents, SshPublicKey, SshSigningKey,
};

/// What keys and options are made of, and what breaks readers of them.
pub(crate) const WORDS: &[&[u8]] = &[
    b"ssh-ed25519 ",
    b"ssh-rsa ",
    b"ecdsa-sha2-nistp256 ",
    b"AAAAC3NzaC1lZDI1NTE5AAAAI",
    b"AAAAB3NzaC1yc2EAAAADAQABAAAB",
    b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20",
    b"\x00\x00\x00\x07ssh-rsa\x00\x00\x00\x03\x01\x00\x01",
    b"\x00\x00\x00\x13ecdsa-sha2-nistp256\x00\x00\x00\x08nistp256\x00\x00\x00\x41\x04",
    b"\x00\x00\x00\x1ask-ssh-ed25519@openssh.com\x00\x00\x00\x20",
    b"\x00\x00\x00\x04ssh:",
    b"-cert-v01@openssh.com",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x00",
    b"-----BEGIN OPENSSH PRIVATE KEY-----\n",
    b"-----END OPENSSH PRIVATE KEY-----\n",
    b"-----BEGIN EC PRIVATE KEY-----\n",
    b"openssh-key-v1\x00",
    b"b3BlbnNzaC1rZXktdjEA",
    b"root",
    b",",
    b"\n",
    b" ",
    b"*",
    b"=",
    b"force-command=/bin/true\n",
    b"permit-pty=\n",
    b"\xe2\x80\xa8",
];

/// Most options of a request that are taken from an input.
const OPTIONS_MAX: usize = 16;

fn ca() -> &'static SshSigningKey {
    static CA: OnceLock<SshSigningKey> = OnceLock::new();
    #[expect(clippy::unwrap_used, reason = "a machine that makes no key runs no target")]
    CA.get_or_init(|| SshSigningKey::make(PkiKeyKind::Ed25519).unwrap())
}

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    if let Ok(key) = SshPublicKey::from_blob(bytes) {
        assert_eq!(key.blob(), bytes, "a key is the bytes it was read of");
        check_key(&key);
        check_certificate(contents(key, Vec::new(), OptionMap::new()));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(key) = SshPublicKey::parse(text) {
        check_key(&key);
    }
    if let Ok(key) = SshSigningKey::from_pem(text)
        && let Ok(written) = key.to_pem()
    {
        let again = SshSigningKey::from_pem(&written).map(|again| again.public().clone());
        assert_eq!(
            again.as_ref(),
            Ok(key.public()),
            "a key that is written is the key that was read"
        );
    }
    let options = text.lines().take(OPTIONS_MAX).filter_map(|line| line.split_once('='));
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let principals = text.split('=').take(PRINCIPALS_MAX + 1).map(str::to_owned).collect();
    check_certificate(contents(ca().public().clone(), principals, options));
}

fn check_key(key: &SshPublicKey) {
    let again = SshPublicKey::parse(&key.line());
    assert_eq!(again.as_ref(), Ok(key), "the line of a key is that key");
}

fn contents(public: SshPublicKey, principals: Vec<String>, options: OptionMap) -> SshContents {
    SshContents {
        public,
        serial: 7,
        kind: CertificateKind::User,
        key_id: String::new(),
        principals,
        valid_after: 1,
        valid_before: 2,
        critical_options: options.clone(),
        extensions: options,
        nonce: [7; 32],
    }
}

/// A certificate that is signed says what it was told, name by name.
fn check_certificate(told: SshContents) {
    let is_plain = told.principals.iter().all(|name| check_principal(name).is_ok());
    let Ok(signed) = told.sign(ca(), RsaHash::Sha256) else { return };
    assert!(is_plain && told.principals.len() <= PRINCIPALS_MAX);
    // The principals are the list after the key's own fields, the serial number, the kind and the key id.
    let name = told.public.key_type();
    let own = told.public.blob().len() - 4 - name.name().len();
    let before = 4 + name.certificate_name().len() + 36 + own + 8 + 4 + 4;
    let rest = signed.bytes().get(before..).unwrap_or_default();
    let mut reader = SshReader::new(rest);
    let mut names = SshReader::new(reader.string().unwrap_or_default());
    for told in &told.principals {
        let name = names.text().unwrap_or_default();
        assert_eq!(name, told);
        let is_split = name.contains([',', '\n', '\r', '\0', ' ']);
        assert!(!is_split, "a server would take one name for two");
    }
    assert!(names.finish().is_ok());
    assert_eq!(reader.take(16).map(|times| times[7]), Ok(1));
    for _ in 0..2 {
        let mut options = SshReader::new(reader.string().unwrap_or_default());
        for (name, value) in &told.critical_options {
            assert_eq!(options.text().as_ref(), Ok(&name.as_str()));
            let data = options.string().unwrap_or_default();
            let said = if data.is_empty() { Ok("") } else { SshReader::new(data).text() };
            assert_eq!(said.as_ref(), Ok(&value.as_str()));
        }
        assert!(options.finish().is_ok());
    }
}
