//! What anyone may read is answered from memory where it is plainly asked for, and nobody can tell but by the time it takes: the same requests the long way
//! have the same answers, whatever holds for them.

use data_encoding::BASE64;
use x509_parser::prelude::*;

use crate::pki_decoded::{hex, ocsp_status, tlv};
use crate::support::{Recorder, Reply, Running, TOKEN, of_request, request};

/// Makes a request hyper's, which answers it the long way.
const LONG_WAY: (&str, &str) = ("TE", "trailers");

fn comparable(reply: &Reply) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let mut headers: Vec<_> =
        reply.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
    headers.sort();
    let mut body = reply.body.clone();
    if let Some((_, rest)) = reply.text().split_once("\"request_id\":\"") {
        let id = rest.split('"').next().unwrap();
        body = reply.text().replace(id, "id").into_bytes();
    }
    (reply.status, headers, body)
}

/// A server with a CA, a certificate of it that is asked for, and one that is not revoked by anybody.
struct Site {
    server: Running,
    serial: String,
    /// What asks for its state.
    ocsp: Vec<u8>,
}

fn ocsp_request(root: &[u8], serial: &str) -> Vec<u8> {
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
    let (_, root) = X509Certificate::from_der(root).unwrap();
    let sha1 = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
    let (name, key) =
        (sha1(root.subject().as_raw()), sha1(&root.public_key().subject_public_key.data));
    let algorithm = [0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0];
    let id = [&algorithm[..], &tlv(4, &name), &tlv(4, &key), &tlv(2, &hex(serial))].concat();
    tlv(0x30, &tlv(0x30, &tlv(0x30, &tlv(0x30, &tlv(0x30, &id)))))
}

impl Site {
    fn start() -> Self {
        let server = Running::start();
        let done = |path: &str, body: &str| {
            let reply = server.ask("POST", path, body);
            assert!(reply.status < 300, "{path}: {}", reply.text());
            reply
        };
        done("sys/mounts/pki", r#"{"type":"pki"}"#);
        let root = r#"{"common_name":"Root","key_type":"ec","issuer_name":"root"}"#;
        done("pki/root/generate/internal", root);
        done("pki/roles/any", r#"{"allow_any_name":true,"key_type":"ec"}"#);
        let issued = done("pki/issue/any", r#"{"common_name":"a.example.com"}"#);
        let serial = issued.at("data/serial_number").as_str().unwrap().to_owned();
        let root = server.connect().ask_with("GET", "pki/ca", &[], "").body;
        let ocsp = ocsp_request(&root, &serial);
        Self { server, serial, ocsp }
    }

    /// Reads the short way and the long way, and compares.
    fn read(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let short = self.server.connect().ask_with("GET", path, headers, "");
        let long =
            self.server.connect().ask_with("GET", path, &[headers, &[LONG_WAY]].concat(), "");
        assert_eq!(comparable(&short), comparable(&long), "{path} {headers:?}");
        short
    }

    fn ocsp_path(&self) -> String {
        let text = BASE64.encode(&self.ocsp);
        let text = text.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        format!("pki/ocsp/{text}")
    }

    /// The request of [`Site::ocsp`] about a certificate whose serial ends with `bytes`, which nobody has issued.
    fn ocsp_ending_with(&self, bytes: [u8; 3]) -> Vec<u8> {
        let (mut request, end) = (self.ocsp.clone(), self.ocsp.len() - bytes.len());
        request[end..].copy_from_slice(&bytes);
        request
    }

    /// Every spelling of what anyone may read, and of what only looks like it.
    fn paths(&self) -> Vec<String> {
        let text = BASE64.encode(&self.ocsp);
        let mut paths: Vec<String> = [
            "pki/ca",
            "pki/ca/pem",
            "pki/ca_chain",
            "pki/crl",
            "pki/crl/pem",
            "pki/crl/delta",
            "pki/crl/delta/pem",
            "pki/issuer/root/der",
            "pki/issuer/root/pem",
            "pki/issuer/root/json",
            "pki/issuer/default/crl/der",
            "pki/issuer/root/crl/pem",
            "pki/issuer/root/crl/delta/der",
            "pki/issuer/nobody/der",
            "pki/cert/ca/raw",
            "pki/crl/",
            "pki/crl%2Fpem",
            "pki/cr%6c",
            "pki/CRL",
            "pki/crl?a=b",
            "pki/crl?help=1",
            "pki/../pki/crl",
            "pki//crl",
            "pki/ocsp",
            "pki/ocsp/",
            "pki/ocsp/rubbish",
            "pki/ocsp/a%2F%2Fb",
            "pki/roles/any",
            "pki/certs?list=true",
            "pki/issuers?list=true",
            "pki/crl/rotate",
            "pki",
            "nowhere/crl",
            "secret/data/none",
        ]
        .map(str::to_owned)
        .to_vec();
        paths.extend([self.ocsp_path(), format!("pki/ocsp/{text}")]);
        paths.push(format!("pki/ocsp/{}", text.replace('/', "_").replace('+', "-")));
        paths
    }
}

#[test]
fn an_answer_is_the_same_by_the_short_way_and_the_long_way() {
    let site = Site::start();
    let wrong = ("X-Vault-Token", "wrong");
    for turn in 0..2 {
        for path in site.paths() {
            for headers in [
                &[][..],
                &[("X-Vault-Token", TOKEN)],
                &[wrong],
                &[("X-Vault-Namespace", "none")],
                &[("Authorization", "Bearer wrong")],
                &[("X-Vault-Wrap-TTL", "60")],
                &[("Origin", "http://evil.example")],
            ] {
                // What wraps says when and by which token; what rotates is another one each time.
                let differs = headers.iter().any(|(name, _)| *name == "X-Vault-Wrap-TTL");
                if path == "pki/crl/rotate" || (differs && path.starts_with("pki/")) {
                    continue;
                }
                site.read(&path, headers);
            }
        }
        let said = ocsp_status(&site.read(&site.ocsp_path(), &[]).body);
        assert_eq!(said, ["GOOD", "REVOKED"][turn]);
        let list = site.read("pki/crl", &[]).body;
        let (_, list) = CertificateRevocationList::from_der(&list).unwrap();
        assert_eq!(list.iter_revoked_certificates().count(), turn);
        // The very next read knows of it.
        let body = format!(r#"{{"serial_number":"{}"}}"#, site.serial);
        assert_eq!(site.server.ask("POST", "pki/revoke", &body).status, 200);
    }
    // Clients list issuers before they have a token.
    let issuers = site.server.connect().ask_with("LIST", "pki/issuers", &[], "");
    assert_eq!(issuers.status, 200, "{}", issuers.text());
    assert!(issuers.text().contains(r#""issuer_name":"root""#), "{}", issuers.text());
    let certificates = site.server.connect().ask_with("LIST", "pki/certs", &[], "");
    assert_eq!(certificates.status, 403);
    // Read by HEAD it is what it was before there was a short way.
    assert_eq!(site.server.connect().ask_with("HEAD", "pki/crl", &[], "").status, 405);
}

#[test]
fn ocsp_by_get_is_answered_whatever_its_base_64_is() {
    let site = Site::start();
    assert_eq!(site.ocsp.len() % 3, 0, "nothing is padded");
    for (bytes, end) in [([0xcf, 0xf0, 1], "z/AB"), ([0, 0xff, 0xf1], "AP/x"), ([1; 3], "AQEB")]
        .into_iter()
        .chain([([0, 0, 0x3f], "AAA/"), ([0, 0x0f, 0xff], "AA//"), ([0xff; 3], "////")])
    {
        let request = site.ocsp_ending_with(bytes);
        let text = BASE64.encode(&request);
        assert!(text.ends_with(end), "{text}");
        let spelled = text.replace('+', "%2B").replace('=', "%3D");
        for text in [spelled.replace('/', "%2F"), spelled.replace('/', "%2f"), spelled, text] {
            // Each is signed when it is asked for, so no two are the same.
            for headers in [&[][..], &[LONG_WAY]] {
                let path = format!("pki/ocsp/{text}");
                let reply = site.server.connect().ask_with("GET", &path, headers, "");
                assert_eq!(reply.status, 200, "{text}: {}", reply.text());
                assert_eq!(ocsp_status(&reply.body), "UNKNOWN", "{text}");
            }
        }
    }
}

#[test]
fn what_did_not_change_is_not_sent_again_where_the_mount_is_tuned_for_it() {
    let site = Site::start();
    let since = [("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT")];
    let open = ["pki/ca", "pki/ca/pem", "pki/crl", "pki/issuer/root/crl/pem", "pki/cert/ca"];
    let tune = |body: &str| {
        assert_eq!(site.server.ask("POST", "sys/mounts/pki/tune", body).status, 204);
    };
    tune(r#"{"allowed_response_headers":["Last-Modified"]}"#);
    for path in open {
        assert_eq!(site.server.connect().ask_with("GET", path, &since, "").status, 200, "{path}");
    }
    tune(r#"{"passthrough_request_headers":["if-modified-since"]}"#);
    let shown = TOKEN;
    for path in open {
        for headers in [&since[..], &[since[0], ("X-Vault-Token", shown)], &[since[0], LONG_WAY]] {
            let reply = site.server.connect().ask_with("GET", path, headers, "");
            assert_eq!((reply.status, &*reply.body), (304, &b""[..]), "{path} {headers:?}");
            // Changed a moment ago: not for each server yet.
            assert_eq!(reply.header("last-modified"), None, "{path}");
        }
        let before = [("If-Modified-Since", "Sat, 01 Jan 2000 00:00:00 GMT")];
        for headers in [&before[..], &[]] {
            let reply = site.server.connect().ask_with("GET", path, headers, "");
            assert_eq!((reply.status, reply.header("last-modified")), (200, None), "{path}");
            assert!(!reply.body.is_empty());
        }
    }
    // What else may be asked so is as it was.
    let role = site.server.connect().ask_with(
        "GET",
        "pki/roles/any",
        &[since[0], ("X-Vault-Token", shown)],
        "",
    );
    assert_eq!(role.status, 200);
    assert_eq!(site.server.connect().ask_with("GET", &site.ocsp_path(), &since, "").status, 200);
}

#[test]
fn what_holds_for_a_request_holds_the_short_way() {
    let site = Site::start();
    let server = &site.server;
    let open = ["pki/crl".to_owned(), "pki/ca/pem".to_owned(), site.ocsp_path()];
    for path in &open {
        assert_eq!(site.read(path, &[]).status, 200);
    }
    // Whoever is deleted or switched off answers nothing any more, and the next one at once.
    server.ask("POST", "pki/config/crl", r#"{"ocsp_disable":true}"#);
    assert_eq!(site.read(&site.ocsp_path(), &[]).status, 401);
    server.ask("POST", "pki/config/crl", r#"{"ocsp_disable":false}"#);
    assert_eq!(site.read(&site.ocsp_path(), &[]).status, 200);
    let before = site.read("pki/ca/pem", &[]).body;
    let next = r#"{"common_name":"Next","key_type":"ec"}"#;
    assert_eq!(server.ask("POST", "pki/root/rotate/internal", next).status, 200);
    assert_eq!(server.ask("POST", "pki/root/replace", r#"{"default":"next"}"#).status, 200);
    assert_ne!(site.read("pki/ca/pem", &[]).body, before);
    let file = [&before[..], b"\n"].concat();
    assert_eq!(site.read("pki/issuer/root/pem", &[]).body, file);
    assert_eq!(server.ask("DELETE", "pki/issuer/root", "").status / 100, 2);
    assert_ne!(site.read("pki/issuer/root/pem", &[]).status, 200);
    // A rate limit that is used up.
    let quota = r#"{"rate":3,"interval":"3600s","path":"pki"}"#;
    assert_eq!(server.ask("POST", "sys/quotas/rate-limit/q", quota).status, 204);
    let asked = (0..6).map(|turn| {
        let path = &open[turn % 2];
        server.connect().ask_with("GET", path, &[], "").status
    });
    assert_eq!(asked.collect::<Vec<_>>(), [200, 200, 200, 429, 429, 429]);
    assert_eq!(server.ask("DELETE", "sys/quotas/rate-limit/q", "").status, 204);
    assert_eq!(site.read("pki/crl", &[]).status, 200);
    // A namespace beside it, with a mount of the same name that has no CA.
    assert_eq!(server.ask("POST", "sys/namespaces/team", "").status, 200);
    let inside = [("X-Vault-Token", TOKEN), ("X-Vault-Namespace", "team")];
    let mount = r#"{"type":"pki"}"#;
    server.connect().ask_with("POST", "sys/mounts/pki", &inside, mount);
    assert_eq!(site.read("pki/crl", &[("X-Vault-Namespace", "team")]).status, 204);
    assert_eq!(site.read("team/pki/crl", &[]).status, 204);
    assert_eq!(site.read("pki/crl", &[]).status, 200);
    assert_eq!(server.ask("DELETE", "sys/namespaces/team", "").status / 100, 2);
    // Sealed, it answers nothing.
    pollster::block_on(server.core.seal()).unwrap();
    for path in &open {
        assert_eq!(site.read(path, &[]).status, 503);
    }
}

#[test]
fn with_an_audit_device_each_is_written_down_and_without_a_record_none_is_answered() {
    let site = Site::start();
    let open = ["pki/crl".to_owned(), "pki/ca".to_owned(), site.ocsp_path()];
    for path in &open {
        assert_eq!(site.read(path, &[]).status, 200);
    }
    let recorder = Recorder::start();
    assert_eq!(site.server.ask("POST", "sys/audit/socket", &recorder.device()).status, 204);
    let mut sent = Vec::new();
    for path in &open {
        sent.extend_from_slice(&request("GET", path, &[], ""));
        sent.extend_from_slice(&request("GET", path, &[("X-Vault-Token", TOKEN)], ""));
    }
    let mut connection = site.server.connect();
    connection.send(&sent);
    for _ in 0..2 * open.len() {
        assert_eq!(connection.receive().unwrap().status, 200);
    }
    recorder.wait(|records| {
        let of =
            |path: &str| records.iter().filter(|record| of_request(record, "path") == path).count();
        of("pki/crl") == 4 && of("pki/ca") == 4
    });
    recorder.stop();
    // The first record may be taken by a connection that nobody reads from any more.
    let refused =
        (0..10).any(|_| site.server.connect().ask_with("GET", "pki/crl", &[], "").status == 500);
    assert!(refused, "nobody writes it down");
    assert_eq!(site.read("pki/ca", &[]).status, 500);
}
