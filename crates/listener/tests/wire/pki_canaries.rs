//! What an audit device hears of PKI: no private key in any form, handed out or taken in, and no key for an external account binding.

use crate::canaries::{AuditedServer, quoted};
use crate::support::Reply;

/// Characters of a piece of a key that is looked for: as many as a line of PEM has.
const PIECE: usize = 64;

fn field(reply: &Reply, name: &str) -> String {
    reply.at(&format!("data/{name}")).as_str().unwrap().to_owned()
}

/// The lines of a text that are of a private key, in PEM or in bare base 64, in pieces as long as a line.
fn pieces(text: &str) -> Vec<String> {
    let Some((_, pem)) = text.split_once("PRIVATE KEY-----") else {
        let bytes = text.as_bytes().chunks(PIECE);
        return bytes.map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect();
    };
    let lines = pem.lines().filter(|line| !line.is_empty());
    lines.take_while(|line| !line.starts_with('-')).map(str::to_owned).collect()
}

#[test]
fn no_private_key_of_a_certificate_is_written_down_in_clear() {
    let audited = AuditedServer::start();
    let ask = |path: &str, body: &str| audited.done(path, body);
    ask("sys/mounts/pki", r#"{"type":"pki","config":{"max_lease_ttl":"9000h"}}"#);
    let mut secrets: Vec<String> = Vec::new();
    let mut heard_of = |reply: &Reply| secrets.extend(pieces(&field(reply, "private_key")));
    let mut root = String::new();
    for key_type in ["ec", "ed25519"] {
        for format in ["pem", "der", "pem_bundle"] {
            for form in ["der", "pkcs8"] {
                let body = format!(
                    r#"{{"common_name":"Root","ttl":"8000h","key_type":"{key_type}","format":"{format}","private_key_format":"{form}"}}"#
                );
                let made = ask("pki/root/generate/exported", &body);
                heard_of(&made);
                if format == "pem_bundle" && form == "pkcs8" {
                    root = field(&made, "certificate");
                }
                heard_of(&ask("pki/intermediate/generate/exported", &body));
            }
        }
    }
    heard_of(&ask("pki/keys/generate/exported", r#"{"key_type":"ec"}"#));
    ask("pki/roles/any", r#"{"allow_any_name":true,"key_type":"any","generate_lease":true}"#);
    let mut last = None;
    for key_type in ["ec", "ed25519", "rsa"] {
        for (format, form) in [("pem", "pkcs8"), ("der", "der"), ("pem_bundle", "pem")] {
            let body = format!(
                r#"{{"common_name":"a.example.com","key_type":"{key_type}","format":"{format}","private_key_format":"{form}"}}"#
            );
            let issued = ask("pki/issue/any", &body);
            heard_of(&issued);
            if format == "pem" {
                last = Some((field(&issued, "serial_number"), field(&issued, "private_key")));
            }
        }
    }
    // What comes in, taken or refused.
    ask("sys/mounts/other", r#"{"type":"pki"}"#);
    ask("other/config/ca", &format!(r#"{{"pem_bundle":{}}}"#, quoted(&root)));
    let bundle = format!(r#"{{"pem_bundle":{}}}"#, quoted(&root));
    assert_eq!(audited.server.ask("POST", "other/issuers/import/cert", &bundle).status, 400);
    let (serial, key) = last.unwrap();
    let key = quoted(&key);
    ask("other/keys/import", &format!(r#"{{"pem_bundle":{key}}}"#));
    ask("pki/config/cluster", r#"{"path":"http://127.0.0.1:8200/v1/pki"}"#);
    ask("pki/config/acme", r#"{"enabled":true}"#);
    let binding = field(&ask("pki/acme/new-eab", "{}"), "key");
    let body = format!(r#"{{"serial_number":"{serial}","private_key":{key}}}"#);
    ask("pki/revoke-with-key", &body);
    secrets.push(binding);
    assert!(secrets.len() > 60, "{} pieces", secrets.len());
    audited.assert_unheard(&secrets, ("pki/revoke-with-key", 2));
}
