//! Logins by TLS certificates through the pipeline: trusted, taken back, trusted again.

use jiff::Timestamp;
use kallisto_core::{Error, Json, Operation, Path, Request, Response, TokenText};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber, date_time_ymd,
};

use crate::support::Site;

/// When all of this happens: after 1975, where the certificates begin.
const NOW_SECS: i64 = 1_800_000_000;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn make() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn client(&self, serial: u64) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("client-{serial}"));
        params.serial_number = Some(SerialNumber::from(serial));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        params.signed_by(&key, &self.issuer).unwrap().der().to_vec()
    }

    fn list(&self, serial: u64) -> String {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2036, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

/// Asks over a connection whose client showed `certificate`.
fn ask(
    site: &Site,
    token: Option<&str>,
    path: &str,
    certificate: &[u8],
) -> Result<Response, Error> {
    let chain = [certificate.to_vec()];
    let request = Request {
        token: token.map(TokenText::new),
        body: b"{}",
        client_chain: &chain,
        ..Request::new(
            Operation::Update,
            Path::decode(path).unwrap(),
            Timestamp::from_second(NOW_SECS).unwrap(),
        )
    };
    pollster::block_on(site.core.handle(&request))
}

fn log_in(site: &Site, certificate: &[u8]) -> Result<String, Error> {
    match ask(site, None, "auth/cert/login", certificate)? {
        Response::Logical(reply) => {
            let auth = kallisto_core::json::parse_object(&reply.auth).unwrap();
            Ok(auth["client_token"].as_str().unwrap().to_owned())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_certificate_that_was_taken_back_logs_in_no_more() {
    let site = Site::open(1 << 20);
    let authority = Authority::make();
    let (kept, revoked) = (authority.client(0x1000), authority.client(0x1001));
    site.ask(Operation::Update, "sys/auth/cert", r#"{"type":"cert"}"#).unwrap();
    let text = |object: Json| String::from_utf8(object.to_text()).unwrap();
    let role = text(Json::object([("certificate", authority.pem.as_str().into())]));
    site.ask(Operation::Update, "auth/cert/certs/all", &role).unwrap();
    let token = log_in(&site, &revoked).unwrap();
    let renew = |certificate: &[u8]| ask(&site, Some(&token), "auth/token/renew-self", certificate);
    renew(&revoked).unwrap();
    assert!(renew(&kept).is_err(), "a token is bound to its certificate");

    let list = text(Json::object([("crl", authority.list(0x1001).into())]));
    site.ask(Operation::Update, "auth/cert/crls/ours", &list).unwrap();
    match site.ask(Operation::Read, "auth/cert/crls/ours", "").unwrap() {
        Response::Logical(reply) => assert_eq!(reply.data, br#"{"serials":{"4097":{}}}"#),
        other => panic!("{other:?}"),
    }
    log_in(&site, &kept).unwrap();
    assert!(matches!(log_in(&site, &revoked), Err(Error::Invalid(_))));
    assert!(renew(&revoked).is_err());

    // A role that would not let it in any more renews it no more.
    site.ask(Operation::Delete, "auth/cert/crls/ours", "").unwrap();
    renew(&revoked).unwrap();
    for (narrow, wide) in [
        (r#"{"allowed_common_names":"x"}"#, r#"{"allowed_common_names":[]}"#),
        (r#"{"required_extensions":"1.2.3:x"}"#, r#"{"required_extensions":[]}"#),
    ] {
        site.ask(Operation::Update, "auth/cert/certs/all", narrow).unwrap();
        assert!(renew(&revoked).is_err() && log_in(&site, &revoked).is_err(), "{narrow}");
        site.ask(Operation::Update, "auth/cert/certs/all", wide).unwrap();
        renew(&revoked).unwrap();
    }
    assert!(matches!(site.ask(Operation::Read, "auth/cert/crls/ours", ""), Err(Error::Invalid(_))));
    log_in(&site, &revoked).unwrap();
    site.ask(Operation::Update, "auth/cert/config", r#"{"disable_binding":true}"#).unwrap();
    renew(&kept).unwrap();
}
