//! Lists of certificates with what they say.

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Response};
use kallisto_engine::Call;
use kallisto_pki::certificate::ParsedCertificate;
use kallisto_pki::{CertificateSubject, San, Serial};

use super::answer;
use super::given::{object, write_time};
use super::memory::Pki;
use super::revoke::timestamp;
use super::revoked::{StoredCertificate, certificate_record};

/// Most certificates of a page: each is read.
const DETAILED_MAX: usize = 1_000;

pub(super) async fn list_detailed(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let mut page = call.page()?;
    page.after = page.after.map(|after| after.replace(':', "-"));
    page.limit = Some(page.limit.unwrap_or(DETAILED_MAX).min(DETAILED_MAX));
    let names = call.storage.list_page("cert/", &page)?;
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    let mut warnings = Vec::new();
    if names.len() == DETAILED_MAX {
        warnings.push(format!("a page has {DETAILED_MAX} certificates: go on with after"));
    }
    let mut info = Map::new();
    let mut keys = Vec::new();
    for name in names {
        let Some(serial) = Serial::parse(&name) else { continue };
        let record = call.storage.get(&certificate_record(&serial))?;
        let info_of_one = record.as_ref().and_then(|record| {
            let stored = StoredCertificate::decode(&record.value)?;
            let certificate = ParsedCertificate::from_der(stored.der).ok()?;
            let state = memory.read();
            let issuer = state.issuers_of(stored.scope).next().map(|issuer| issuer.id);
            let revoked = state.signing.get(&stored.scope);
            let revoked = revoked.and_then(|signing| signing.revoked.get(&serial).copied());
            Some(certificate_info(&certificate, issuer, revoked.map(|revoked| revoked.at_ns)))
        });
        keys.push(serial.to_string());
        info.insert(serial.to_string(), Json::Object(info_of_one.unwrap_or_default()));
    }
    let data = object([("keys", Json::strings(keys)), ("key_info", info.into())]);
    Ok(answer::data(data, warnings))
}

fn certificate_info(
    certificate: &ParsedCertificate,
    issuer: Option<super::ids::IssuerId>,
    revoked_ns: Option<i64>,
) -> Map {
    let name = |der: &[u8]| {
        CertificateSubject::from_der(der).map(|name| name.common_name).unwrap_or_default()
    };
    let kind = certificate.public.kind();
    let mut names: [Vec<String>; 4] = Default::default();
    for san in &certificate.alt_names {
        match san {
            San::Dns(name) => names[0].push(name.clone()),
            San::Email(name) => names[1].push(name.clone()),
            San::Ip(ip) => names[2].push(ip.to_string()),
            San::Uri(uri) => names[3].push(uri.clone()),
            San::Other(..) => {}
        }
    }
    let [dns, emails, ips, uris] = names;
    let mut map = object([
        ("common_name", name(&certificate.subject).into()),
        ("issuer_common_name", name(&certificate.issuer).into()),
        ("issuer_id", issuer.map_or_else(String::new, |id| id.to_string()).into()),
        ("key_type", kind.map_or("", kallisto_pki::PkiKeyKind::type_name).into()),
        ("key_bits", i64::from(kind.map_or(0, kallisto_pki::PkiKeyKind::bits)).into()),
        ("not_before", write_time(certificate.not_before).into()),
        ("not_after", write_time(certificate.not_after).into()),
        ("dns_names", Json::strings(dns)),
        ("email_addresses", Json::strings(emails)),
        ("ip_addresses", Json::strings(ips)),
        ("uris", Json::strings(uris)),
        ("is_ca", certificate.is_ca.into()),
        ("revoked", revoked_ns.is_some().into()),
    ]);
    if let Some(at) = revoked_ns {
        map.insert("revocation_time".to_owned(), timestamp(at).as_second().into());
        map.insert("revocation_time_rfc3339".to_owned(), timestamp(at).to_string().into());
    }
    map
}
