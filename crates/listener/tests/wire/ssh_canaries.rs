//! What an audit device hears of SSH: no private key of any form, taken in or handed out, and no one-time password.

use crate::canaries::{AuditedServer, quoted};

/// Private keys in every form that is taken in, with their public halves.
const PAIRS: [(&str, &str); 4] = [
    (
        include_str!("../../../ssh/tests/keys/ed25519"),
        include_str!("../../../ssh/tests/keys/ed25519.pub"),
    ),
    (
        include_str!("../../../ssh/tests/keys/rsa_pem"),
        include_str!("../../../ssh/tests/keys/rsa_pem.pub"),
    ),
    (
        include_str!("../../../ssh/tests/keys/p256_pem"),
        include_str!("../../../ssh/tests/keys/p256_pem.pub"),
    ),
    (
        include_str!("../../../ssh/tests/keys/p384_pkcs8"),
        include_str!("../../../ssh/tests/keys/p384_pkcs8.pub"),
    ),
];

#[test]
fn no_private_key_and_no_one_time_password_is_written_down_in_clear() {
    let audited = AuditedServer::start();
    let ask = |path: &str, body: &str| audited.done(path, body);
    ask("sys/mounts/ssh", r#"{"type":"ssh"}"#);
    let mut secrets: Vec<String> = Vec::new();
    for (private, public) in PAIRS {
        let body =
            format!(r#"{{"private_key":{},"public_key":{}}}"#, quoted(private), quoted(public));
        ask("ssh/config/ca", &body);
        // One that is refused is heard of as well.
        let refused = body.replace("ssh-", "sss-").replace("ecdsa-", "ecdsb-");
        assert_eq!(audited.server.ask("POST", "ssh/config/ca", &refused).status, 400);
        secrets.extend(private.lines().filter(|line| !line.starts_with('-')).map(str::to_owned));
    }
    ask("ssh/roles/r", r#"{"key_type":"ca","allow_user_certificates":true,"default_user":"x"}"#);
    for key_type in ["ed25519", "ec", "rsa"] {
        let reply = ask("ssh/issue/r", &format!(r#"{{"key_type":"{key_type}"}}"#));
        let private = reply.at("data/private_key").as_str().unwrap().to_owned();
        secrets.extend(private.lines().filter(|line| !line.starts_with('-')).map(str::to_owned));
    }
    ask("ssh/roles/otp", r#"{"key_type":"otp","default_user":"x","cidr_list":"10.0.0.0/8"}"#);
    for _ in 0..2 {
        let otp = ask("ssh/creds/otp", r#"{"ip":"10.0.0.1"}"#);
        let otp = otp.at("data/key").as_str().unwrap().to_owned();
        let body = format!(r#"{{"otp":"{otp}"}}"#);
        ask("ssh/verify", &body);
        assert_eq!(audited.server.ask("POST", "ssh/verify", &body).status, 400);
        secrets.push(otp);
    }
    assert!(secrets.len() > 30 && secrets.len() < 200);
    audited.assert_unheard(&secrets, ("ssh/verify", 8));
}
