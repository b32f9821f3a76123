//! Reading what was issued: certificates, chains and lists, mostly by anyone.

use std::sync::Arc;

use kallisto_api::json::Json;
use kallisto_api::{Error, Response};
use kallisto_engine::{Call, OpenReadCall};
use kallisto_pki::Serial;
use kallisto_pki::pem::{self, Label};

use super::answer;
use super::given::object;
use super::issuer::Issuer;
use super::lists::{self, Which};
use super::memory::{Pki, PkiState};
use super::modified::{self, ModifiedAt};
use super::revoke::timestamp;
use super::revoked::{RevocationRecord, StoredCertificate, certificate_record, revoked_record};

pub(super) const CERTIFICATE: &str = "application/pkix-cert";
pub(super) const CHAIN: &str = "application/pem-certificate-chain";
pub(super) const CRL: &str = "application/pkix-crl";
pub(super) const PEM: &str = "application/x-pem-file";

fn issuer(call: &Call<'_>, reference: &str) -> Result<Arc<Issuer>, Error> {
    let memory: &Pki = call.memory()?;
    memory.read().issuer(reference)
}

/// Answers a read of anyone's about an issuer, from memory: the one that the path names, or else the default one. `None` where that has no answer in
/// memory.
fn at_once(
    call: OpenReadCall<'_>,
    content_type: &'static str,
    bytes: impl FnOnce(&Pki, &PkiState, &Arc<Issuer>) -> Option<Vec<u8>>,
) -> Option<Response> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    let reference = match call.params.get("ref") {
        "" => "default",
        reference => reference,
    };
    let issuer = state.issuer(reference).ok()?;
    let bytes = bytes(memory, &state, &issuer)?;
    Some(answer::raw(content_type, bytes))
}

/// [`ca`] and [`issuer_der`], of what is in memory.
pub(super) fn der_at_once(call: OpenReadCall<'_>) -> Option<Response> {
    at_once(call, CERTIFICATE, |_, _, issuer| Some(issuer.certificate.der.clone()))
}

/// [`ca_pem`], of what is in memory.
pub(super) fn pem_at_once(call: OpenReadCall<'_>) -> Option<Response> {
    at_once(call, CHAIN, |_, _, issuer| Some(issuer.pem().into_bytes()))
}

/// [`issuer_pem`], of what is in memory.
pub(super) fn issuer_pem_at_once(call: OpenReadCall<'_>) -> Option<Response> {
    at_once(call, CHAIN, |_, _, issuer| Some(pem_file(issuer.pem())))
}

fn list_at_once(call: OpenReadCall<'_>, which: Which) -> Option<Response> {
    at_once(call, CRL, |memory, state, issuer| {
        lists::made(memory, state, issuer.scope, which).map(|list| list.to_vec())
    })
}

fn list_pem_at_once(
    call: OpenReadCall<'_>,
    which: Which,
    written: fn(String) -> Vec<u8>,
) -> Option<Response> {
    at_once(call, PEM, |memory, state, issuer| {
        lists::made(memory, state, issuer.scope, which).map(|list| written(list_pem(&list)))
    })
}

/// [`crl`] and [`issuer_crl_der`], of a list that was made.
pub(super) fn crl_at_once(call: OpenReadCall<'_>) -> Option<Response> {
    list_at_once(call, Which::Complete)
}

/// [`crl_pem`], of a list that was made.
pub(super) fn crl_pem_at_once(call: OpenReadCall<'_>) -> Option<Response> {
    list_pem_at_once(call, Which::Complete, String::into_bytes)
}

/// [`issuer_crl_pem`], of a list that was made.
pub(super) fn issuer_crl_pem_at_once(call: OpenReadCall<'_>) -> Option<Response> {
    list_pem_at_once(call, Which::Complete, pem_file)
}

/// [`delta`] and [`issuer_delta_der`], of a list that was made.
pub(super) fn delta_at_once(call: OpenReadCall<'_>) -> Option<Response> {
    list_at_once(call, Which::Delta)
}

/// [`delta_pem`], of a list that was made.
pub(super) fn delta_pem_at_once(call: OpenReadCall<'_>) -> Option<Response> {
    list_pem_at_once(call, Which::Delta, String::into_bytes)
}

/// [`issuer_delta_pem`], of a list that was made.
pub(super) fn issuer_delta_pem_at_once(call: OpenReadCall<'_>) -> Option<Response> {
    list_pem_at_once(call, Which::Delta, pem_file)
}

/// When issuers changed last.
fn structure_modified(call: &Call<'_>) -> Result<ModifiedAt, Error> {
    let memory: &Pki = call.memory()?;
    Ok(memory.read().structure_modified())
}

/// Bytes about issuers, that change with them alone.
fn of_issuers(
    call: &Call<'_>,
    content_type: &'static str,
    bytes: Vec<u8>,
) -> Result<Response, Error> {
    Ok(modified::raw(call, content_type, bytes, structure_modified(call)?))
}

/// The default issuer, if there is one.
fn default_issuer(call: &Call<'_>) -> Result<Option<Arc<Issuer>>, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    let has_default = state.issuer_defaults.default.is_some();
    if has_default { state.issuer("default").map(Some) } else { Ok(None) }
}

pub(super) async fn ca(call: Call<'_>) -> Result<Response, Error> {
    let found = default_issuer(&call)?;
    let der = found.map_or_else(Vec::new, |one| one.certificate.der.clone());
    of_issuers(&call, CERTIFICATE, der)
}

pub(super) async fn ca_pem(call: Call<'_>) -> Result<Response, Error> {
    let found = default_issuer(&call)?;
    of_issuers(&call, CHAIN, found.map_or_else(Vec::new, |one| one.pem().into_bytes()))
}

fn chain_pem(call: &Call<'_>, issuer: &Arc<Issuer>) -> Result<String, Error> {
    let memory: &Pki = call.memory()?;
    let chain = memory.read().chain(issuer);
    let chain: Vec<String> = chain.iter().map(|one| one.pem()).collect();
    Ok(chain.join("\n"))
}

pub(super) async fn ca_chain(call: Call<'_>) -> Result<Response, Error> {
    let text = match default_issuer(&call)? {
        Some(issuer) => chain_pem(&call, &issuer)?,
        None => String::new(),
    };
    of_issuers(&call, CERTIFICATE, text.into_bytes())
}

/// A list in DER, and when it changed last: with the issuers too, which decide whose it is.
#[derive(Default)]
struct FoundList {
    der: Vec<u8>,
    modified: ModifiedAt,
}

impl FoundList {
    /// As it is.
    fn raw(self, call: &Call<'_>) -> Response {
        modified::raw(call, CRL, self.der, self.modified)
    }

    /// In PEM, as `written` writes it.
    fn raw_pem(self, call: &Call<'_>, written: fn(String) -> Vec<u8>) -> Response {
        modified::raw(call, PEM, written(list_pem(&self.der)), self.modified)
    }

    /// In PEM, as data.
    fn data(self, call: &Call<'_>) -> Response {
        let unchanged = modified::unchanged(call, self.modified);
        unchanged.unwrap_or_else(|| {
            answer::data(object([("crl", list_pem(&self.der).into())]), Vec::new())
        })
    }
}

async fn list(call: &Call<'_>, issuer: Option<&Issuer>, which: Which) -> Result<FoundList, Error> {
    let Some(issuer) = issuer else { return Ok(FoundList::default()) };
    // Before the list, which may be of a later state: its date is later too then.
    let structure = structure_modified(call)?;
    let found = lists::latest(call, issuer.scope, which).await?;
    Ok(found.map_or_else(FoundList::default, |list| FoundList {
        der: list.der.to_vec(),
        modified: modified::later(structure, Some(list.this_update)),
    }))
}

/// A list in PEM; nothing for none.
fn list_pem(der: &[u8]) -> String {
    if der.is_empty() { String::new() } else { pem::write(Label::Crl, der) }
}

/// PEM as a file of it ends. The routes below `issuer/` end so in OpenBao and Vault; the older ones and all fields of JSON here do not.
fn pem_file(mut text: String) -> Vec<u8> {
    text.push('\n');
    text.into_bytes()
}

/// The list of the default issuer.
async fn default_list(call: &Call<'_>, which: Which) -> Result<FoundList, Error> {
    let issuer = default_issuer(call)?;
    list(call, issuer.as_deref(), which).await
}

pub(super) async fn crl(call: Call<'_>) -> Result<Response, Error> {
    Ok(default_list(&call, Which::Complete).await?.raw(&call))
}

pub(super) async fn crl_pem(call: Call<'_>) -> Result<Response, Error> {
    Ok(default_list(&call, Which::Complete).await?.raw_pem(&call, String::into_bytes))
}

pub(super) async fn delta(call: Call<'_>) -> Result<Response, Error> {
    Ok(default_list(&call, Which::Delta).await?.raw(&call))
}

pub(super) async fn delta_pem(call: Call<'_>) -> Result<Response, Error> {
    Ok(default_list(&call, Which::Delta).await?.raw_pem(&call, String::into_bytes))
}

pub(super) async fn issuer_json(call: Call<'_>) -> Result<Response, Error> {
    let issuer = issuer(&call, call.params.get("ref"))?;
    if let Some(unchanged) = modified::unchanged(&call, structure_modified(&call)?) {
        return Ok(unchanged);
    }
    let memory: &Pki = call.memory()?;
    let chain = memory.read().chain(&issuer);
    let data = object([
        ("ca_chain", Json::strings(chain.iter().map(|one| one.pem()))),
        ("certificate", issuer.pem().into()),
        ("issuer_id", issuer.id.to_string().into()),
        ("issuer_name", issuer.name.as_str().into()),
    ]);
    Ok(answer::data(data, Vec::new()))
}

pub(super) async fn issuer_pem(call: Call<'_>) -> Result<Response, Error> {
    let issuer = issuer(&call, call.params.get("ref"))?;
    of_issuers(&call, CHAIN, pem_file(issuer.pem()))
}

pub(super) async fn issuer_der(call: Call<'_>) -> Result<Response, Error> {
    let issuer = issuer(&call, call.params.get("ref"))?;
    of_issuers(&call, CERTIFICATE, issuer.certificate.der.clone())
}

/// The list of the issuer that the path names. One that nobody here signs for has none, and an empty text would be taken for a damaged one.
async fn issuer_list(call: &Call<'_>, which: Which) -> Result<FoundList, Error> {
    let reference = call.params.get("ref");
    let issuer = issuer(call, reference)?;
    let found = list(call, Some(&issuer), which).await?;
    if found.der.is_empty() {
        let id = issuer.id;
        let why = format!("unable to find CRL for issuer: id:{id}/ref:{reference}");
        return Err(Error::Invalid(why));
    }
    Ok(found)
}

pub(super) async fn issuer_crl(call: Call<'_>) -> Result<Response, Error> {
    Ok(issuer_list(&call, Which::Complete).await?.data(&call))
}

pub(super) async fn issuer_crl_pem(call: Call<'_>) -> Result<Response, Error> {
    Ok(issuer_list(&call, Which::Complete).await?.raw_pem(&call, pem_file))
}

pub(super) async fn issuer_crl_der(call: Call<'_>) -> Result<Response, Error> {
    Ok(issuer_list(&call, Which::Complete).await?.raw(&call))
}

pub(super) async fn issuer_delta(call: Call<'_>) -> Result<Response, Error> {
    Ok(issuer_list(&call, Which::Delta).await?.data(&call))
}

pub(super) async fn issuer_delta_pem(call: Call<'_>) -> Result<Response, Error> {
    Ok(issuer_list(&call, Which::Delta).await?.raw_pem(&call, pem_file))
}

pub(super) async fn issuer_delta_der(call: Call<'_>) -> Result<Response, Error> {
    Ok(issuer_list(&call, Which::Delta).await?.raw(&call))
}

/// What a path says of a certificate.
enum NamedCertificate {
    Ca,
    CaChain,
    List(Which),
    Serial(Serial),
}

fn named(call: &Call<'_>) -> Result<NamedCertificate, Error> {
    match call.params.get("serial") {
        "ca" => Ok(NamedCertificate::Ca),
        "ca_chain" => Ok(NamedCertificate::CaChain),
        "crl" => Ok(NamedCertificate::List(Which::Complete)),
        "delta-crl" => Ok(NamedCertificate::List(Which::Delta)),
        text => Serial::parse(text).map(NamedCertificate::Serial).ok_or(Error::NotFound),
    }
}

/// A stored certificate.
fn stored(call: &Call<'_>, serial: &Serial) -> Result<Vec<u8>, Error> {
    let record = call.storage.get(&certificate_record(serial))?.ok_or(Error::NotFound)?;
    record.decode(|bytes| StoredCertificate::decode(bytes).map(|stored| stored.der.to_vec()))
}

/// A certificate, and when it was revoked.
pub(super) async fn certificate(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let mut revoked_ns = 0;
    let mut issuer_id = None;
    let mut modified = structure_modified(&call)?;
    let named = named(&call)?;
    let is_chain = matches!(named, NamedCertificate::CaChain);
    let text = match named {
        NamedCertificate::Ca => issuer(&call, "default")?.pem(),
        NamedCertificate::CaChain => chain_pem(&call, &issuer(&call, "default")?)?,
        NamedCertificate::List(which) => {
            let issuer = issuer(&call, "default")?;
            let found = list(&call, Some(&issuer), which).await?;
            modified = found.modified;
            list_pem(&found.der)
        }
        NamedCertificate::Serial(serial) => {
            modified = None;
            let der = stored(&call, &serial)?;
            if let Some(record) = call.storage.get(&revoked_record(&serial))? {
                let record = record.decode(|bytes| RevocationRecord::decode(serial, bytes))?;
                revoked_ns = record.revoked.at_ns;
                let state = memory.read();
                let deleted = state.signing.get(&record.scope).map(|one| one.lists.last_issuer);
                let issuer = state.issuers_of(record.scope).next().map(|one| one.id);
                issuer_id = issuer.or_else(|| deleted.flatten());
            }
            pem::write(Label::Certificate, &der)
        }
    };
    if let Some(unchanged) = modified::unchanged(&call, modified) {
        return Ok(unchanged);
    }
    let at = timestamp(revoked_ns);
    let rfc3339 = if revoked_ns == 0 { String::new() } else { at.to_string() };
    let mut data = object([
        ("certificate", text.into()),
        ("revocation_time", at.as_second().into()),
        ("revocation_time_rfc3339", rfc3339.into()),
    ]);
    if is_chain {
        data.insert("ca_chain".to_owned(), data["certificate"].clone());
    }
    if let Some(id) = issuer_id {
        data.insert("issuer_id".to_owned(), id.to_string().into());
    }
    Ok(answer::data(data, Vec::new()))
}

pub(super) async fn certificate_raw(call: Call<'_>) -> Result<Response, Error> {
    match named(&call)? {
        NamedCertificate::Ca => ca(call).await,
        NamedCertificate::CaChain => ca_chain(call).await,
        NamedCertificate::List(Which::Complete) => crl(call).await,
        NamedCertificate::List(Which::Delta) => delta(call).await,
        NamedCertificate::Serial(serial) => Ok(answer::raw(CERTIFICATE, stored(&call, &serial)?)),
    }
}

pub(super) async fn certificate_raw_pem(call: Call<'_>) -> Result<Response, Error> {
    match named(&call)? {
        NamedCertificate::Ca => ca_pem(call).await,
        NamedCertificate::CaChain => {
            let chain = chain_pem(&call, &issuer(&call, "default")?)?;
            of_issuers(&call, CHAIN, chain.into_bytes())
        }
        NamedCertificate::List(Which::Complete) => crl_pem(call).await,
        NamedCertificate::List(Which::Delta) => delta_pem(call).await,
        NamedCertificate::Serial(serial) => {
            let text = pem::write(Label::Certificate, &stored(&call, &serial)?);
            Ok(answer::raw(CHAIN, text.into_bytes()))
        }
    }
}

/// The names below a folder, as serial numbers with colons.
fn serials(call: &Call<'_>, folder: &str) -> Result<Vec<String>, Error> {
    let mut page = call.page()?;
    // Clients go on after what they were shown, which has colons.
    page.after = page.after.map(|after| after.replace(':', "-"));
    let names = call.storage.list_page(folder, &page)?;
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(names.into_iter().map(|name| name.replace('-', ":")).collect())
}

pub(super) async fn list_certificates(call: Call<'_>) -> Result<Response, Error> {
    let keys = serials(&call, "cert/")?;
    Ok(answer::data(object([("keys", Json::strings(keys))]), Vec::new()))
}

pub(super) async fn list_revoked(call: Call<'_>) -> Result<Response, Error> {
    let keys = serials(&call, "revoked/")?;
    Ok(answer::data(object([("keys", Json::strings(keys))]), Vec::new()))
}
