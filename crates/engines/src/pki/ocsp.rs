//! OCSP: whether a certificate is revoked, for anyone.

use std::sync::Arc;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use kallisto_api::{Error, Response};
use kallisto_engine::Call;
use kallisto_pki::Serial;
use kallisto_pki::ocsp::{
    CertificateStatus, INTERNAL_ERROR, MALFORMED, OcspQuestion, TRY_LATER, UNAUTHORIZED, answer,
};

use super::issuer::{Issuer, PkiKey};
use super::memory::Pki;
use super::ocsp_cache::Saying;
use super::revoked::certificate_record;

const RESPONSE: &str = "application/ocsp-response";
/// Longest request in a path, in bytes.
const PATH_BYTES_MAX: usize = 4096;

fn ocsp_response(code: u16, body: &[u8]) -> Response {
    Response::Text { code, content_type: RESPONSE, body: body.to_vec() }
}

pub(super) async fn post(call: Call<'_>) -> Result<Response, Error> {
    respond(&call, call.request.body).await
}

/// The request stands in the path, in base 64, which has slashes and plus signs of its own.
pub(super) async fn get(call: Call<'_>) -> Result<Response, Error> {
    let text = call.params.get("request");
    if text.len() > PATH_BYTES_MAX {
        return Ok(ocsp_response(400, MALFORMED));
    }
    // A plus sign may have become a space on its way.
    let text = text.replace(' ', "+");
    let decoded = BASE64.decode(text.as_bytes());
    let decoded = decoded.or_else(|_| {
        let bare = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
        BASE64URL_NOPAD.decode(bare.as_bytes())
    });
    match decoded {
        Ok(bytes) => respond(&call, &bytes).await,
        Err(_) => Ok(ocsp_response(400, MALFORMED)),
    }
}

/// What is known of a certificate.
enum KnownStatus {
    Is(CertificateStatus),
    /// It is good if it was issued here, which is what is stored.
    IfStored(Serial),
}

/// What there is to say, and who signs it; or the answer itself.
type Decided =
    Result<(OcspQuestion, Vec<KnownStatus>, Option<(Arc<Issuer>, Arc<PkiKey>)>, i64), Response>;

fn decide(call: &Call<'_>, bytes: &[u8]) -> Result<Decided, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    if state.crl.ocsp_is_disabled {
        return Ok(Err(ocsp_response(401, UNAUTHORIZED)));
    }
    let Ok(request) = OcspQuestion::from_der(bytes) else {
        return Ok(Err(ocsp_response(400, MALFORMED)));
    };
    let mut scope = None;
    let states: Vec<KnownStatus> = request
        .asked
        .iter()
        .map(|asked| {
            // Those of one who signs are alike in what requests name them by; so may be one from elsewhere that has no key here.
            let meant = || state.issuers.values().filter(|issuer| asked.is_of(&issuer.hashes));
            let signs = |issuer: &&Arc<Issuer>| state.ocsp_signer(issuer.scope).is_some();
            let issuer = meant().find(signs).or_else(|| meant().next());
            let (Some(issuer), Some(serial)) = (issuer, asked.serial) else {
                return KnownStatus::Is(CertificateStatus::Unknown);
            };
            // One answer has one signature: what is of somebody else is not known to who signs it.
            if *scope.get_or_insert(issuer.scope) != issuer.scope {
                return KnownStatus::Is(CertificateStatus::Unknown);
            }
            let signing = state.signing.get(&issuer.scope);
            if let Some(revoked) = signing.and_then(|signing| signing.revoked.get(&serial)) {
                return KnownStatus::Is(CertificateStatus::Revoked {
                    at: revoked.at_ns.div_euclid(1_000_000_000),
                });
            }
            let stores_all = signing.is_some_and(|signing| !signing.lists.has_unstored)
                && state.issuers_of(issuer.scope).all(|issuer| {
                    let key = issuer.key.and_then(|id| state.keys.get(&id));
                    key.is_none_or(|key| !key.is_imported)
                });
            if stores_all {
                KnownStatus::IfStored(serial)
            } else {
                KnownStatus::Is(CertificateStatus::Good)
            }
        })
        .collect();
    let signer = match scope {
        Some(scope) => state.ocsp_signer(scope),
        // Of an issuer that is not here: whoever stands for all says so.
        None => state.issuer("default").ok().and_then(|issuer| state.ocsp_signer(issuer.scope)),
    };
    Ok(Ok((request, states, signer, state.crl.ocsp_expiry_secs)))
}

async fn respond(call: &Call<'_>, bytes: &[u8]) -> Result<Response, Error> {
    // The store is not read while what is decoded is held.
    let (request, states, signer, expiry_secs) = match decide(call, bytes)? {
        Ok(decided) => decided,
        Err(answer) => return Ok(answer),
    };
    let Some((issuer, key)) = signer else { return Ok(ocsp_response(401, UNAUTHORIZED)) };
    let mut known = Vec::with_capacity(states.len());
    for state in states {
        known.push(match state {
            KnownStatus::Is(status) => status,
            KnownStatus::IfStored(serial) => {
                match call.storage.get(&certificate_record(&serial))? {
                    Some(_) => CertificateStatus::Good,
                    None => CertificateStatus::Unknown,
                }
            }
        });
    }
    let now = call.now.as_second();
    let saying = match known.as_slice() {
        &[status] if !request.has_nonce() => {
            Some(Saying { status, issuer: &issuer, key: &key, now, expiry_secs })
        }
        _ => None,
    };
    let answers = &call.memory::<Pki>()?.ocsp_answers;
    if let Some(answer) = saying.as_ref().and_then(|saying| answers.find(bytes, saying)) {
        return Ok(ocsp_response(200, &answer));
    }
    let next = (expiry_secs > 0).then(|| now + expiry_secs);
    let (signer, signing_key) = (Arc::clone(&issuer), Arc::clone(&key));
    let states = known.clone();
    let work = move || answer(&request, &states, now, next, &signer.crl_signer(&signing_key));
    // Anyone may ask: what takes long waits in a line that has an end.
    let answered = match key.private.signs_slowly() {
        true => match call.run_heavy(work).await {
            Err(Error::Busy(_)) => return Ok(ocsp_response(503, TRY_LATER)),
            answered => answered?,
        },
        false => work(),
    };
    match answered {
        Ok(body) => {
            if let Some(saying) = saying {
                answers.keep(bytes, &saying, &body);
            }
            Ok(ocsp_response(200, &body))
        }
        Err(_) => Ok(ocsp_response(500, INTERNAL_ERROR)),
    }
}
