//! `keys/NAME/csr`: a certificate request for a key that stays here.

use kallisto_api::{Error, Fields, Json, Response};
use kallisto_pki::pem::{self, Label};
use kallisto_pki::{PrivateKey, request};

use super::{TransitHandler, refusal};

/// Makes a request for the key of a version: with the name and what else another request asks for, if one is given.
pub(super) async fn make(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let fields = Fields::new(&body);
    let version = fields.int("version")?.unwrap_or(0);
    let template = template(&fields.string("csr")?.unwrap_or_default())?;
    let missing = || Error::invalid(format!("key with provided name '{name}' not found"));
    let key = transit.find(name)?.ok_or_else(missing)?;
    let signing = key.signing_pkcs8(version).map_err(refusal)?;
    let made = transit.call.run_heavy(move || {
        let key = PrivateKey::from_pkcs8(&signing)?;
        request::remade(template.as_deref(), &key)
    });
    let der = made.await?.map_err(|why| Error::invalid(why.to_string()))?;
    Ok(Response::data(&Json::object([
        ("name", name.into()),
        ("type", key.kind().name().into()),
        ("csr", format!("{}\n", pem::write(Label::Request, &der)).into()),
    ])))
}

/// The request in a text; `None` for an empty one.
fn template(text: &str) -> Result<Option<Vec<u8>>, Error> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let unreadable = || Error::invalid("could not decode PEM CSR");
    let blocks = pem::read(text).map_err(|_| unreadable())?;
    let mut requests = blocks.into_iter().filter(|(label, _)| *label == Label::Request);
    requests.next().map(|(_, der)| Some(der.to_vec())).ok_or_else(unreadable)
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::Update;
    use kallisto_pki::request::CertificateRequest;

    use super::super::ENGINE;
    use super::*;
    use crate::testing::TestMount;

    const NOW: i64 = 1_800_000_000;
    /// A request that openssl made.
    const ASKING: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIIBCjCBsgIBADAYMRYwFAYDVQQDDA12LmV4YW1wbGUuY29tMFkwEwYHKoZIzj0C
AQYIKoZIzj0DAQcDQgAE/QjrvTifqP062YD2lBIep1YocIsK3o4yC8vwCgIHnOU5
gQFrnDp9nzufEu/d6nawym/GBzTQC9ACyNzvpmzlh6A4MDYGCSqGSIb3DQEJDjEp
MCcwGAYDVR0RBBEwD4INdi5leGFtcGxlLmNvbTALBgNVHQ8EBAMCAYYwCgYIKoZI
zj0EAwIDRwAwRAIgOOM30gbsRdsgaFkzPZS3qI7J26acgh9PXaPwph5vZNcCIA3r
Zhy+rFQ9gqGzjp6RHuXeqJcHIKVIUtVaKv4iuCh4
-----END CERTIFICATE REQUEST-----";

    fn csr(mount: &TestMount, key: &str, more: &str) -> Result<String, Error> {
        let body = format!("{{{more}}}");
        let told = mount.ask(NOW, Update, &format!("keys/{key}/csr"), &body)?;
        assert_eq!(TestMount::text(&told, "name"), key);
        Ok(TestMount::text(&told, "csr"))
    }

    fn read(text: &str) -> CertificateRequest {
        let (label, der) = pem::read(text).unwrap().into_iter().next().unwrap();
        assert_eq!(label, Label::Request);
        // This checks its signature.
        CertificateRequest::from_der(&der).unwrap()
    }

    #[test]
    fn keys_that_sign_make_certificate_requests() {
        let mount = TestMount::new(&ENGINE);
        for kind in ["ecdsa-p256", "ecdsa-p384", "ecdsa-p521", "ed25519", "rsa-2048"] {
            let body = format!(r#"{{"type":"{kind}"}}"#);
            mount.ask(NOW, Update, &format!("keys/{kind}"), &body).unwrap();
            let plain = read(&csr(&mount, kind, "").unwrap());
            assert!(plain.subject_names.is_empty() && plain.alt_names == Ok(Vec::new()), "{kind}");
            mount.ask(NOW, Update, &format!("keys/{kind}/rotate"), "").unwrap();
            let latest = read(&csr(&mount, kind, "").unwrap());
            assert_ne!(latest.public, plain.public, "{kind}");
            let first = read(&csr(&mount, kind, r#""version":1"#).unwrap());
            assert_eq!(first.public, plain.public, "{kind}");
        }
        // What another request asks for, with this key.
        let theirs = ASKING.replace('\n', "\\n");
        let given = format!(r#""csr":"{theirs}""#);
        let made = read(&csr(&mount, "ed25519", &given).unwrap());
        let asked = read(ASKING);
        assert_eq!(made.subject_der, asked.subject_der);
        assert_eq!(made.alt_names, asked.alt_names);
        assert_eq!(made.usages(), asked.usages());
        assert_ne!(made.public, asked.public);
    }

    #[test]
    fn who_cannot_sign_a_request_is_told_so() {
        let mount = TestMount::new(&ENGINE);
        for (name, body) in [
            ("aes", r#"{"type":"aes256-gcm96"}"#),
            ("derived", r#"{"type":"ed25519","derived":true}"#),
            ("signs", r#"{"type":"ed25519"}"#),
        ] {
            mount.ask(NOW, Update, &format!("keys/{name}"), body).unwrap();
        }
        let why = |key, more| csr(&mount, key, more).unwrap_err().to_string();
        assert!(why("aes", "").ends_with("does not support signing"), "{}", why("aes", ""));
        assert!(why("derived", "").contains("derivation enabled"), "{}", why("derived", ""));
        assert!(why("none", "").ends_with("'none' not found"), "{}", why("none", ""));
        assert!(why("signs", r#""version":2"#).contains("higher than the latest"));
        assert_eq!(why("signs", r#""csr":"no request""#), "could not decode PEM CSR");
    }
}
