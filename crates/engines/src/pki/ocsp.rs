//! OCSP: whether a certificate is revoked, for anyone.

use std::sync::Arc;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use kallisto_api::{Error, Response};
use kallisto_engine::{Call, OpenReadCall};
use kallisto_pki::Serial;
use kallisto_pki::ocsp::{
    CertificateStatus, INTERNAL_ERROR, MALFORMED, OcspQuery, OcspQuestion, TRY_LATER, UNAUTHORIZED,
    answer,
};

use super::ids::ListScope;
use super::issuer::{Issuer, PkiKey};
use super::memory::{Pki, PkiState};
use super::ocsp_cache::{AskedCertificate, Saying};
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
    match decode_path(call.params.get("request")) {
        Some(bytes) => respond(&call, &bytes).await,
        None => Ok(ocsp_response(400, MALFORMED)),
    }
}

/// The request that stands in a path.
fn decode_path(text: &str) -> Option<Vec<u8>> {
    if text.len() > PATH_BYTES_MAX {
        return None;
    }
    // A plus sign may have become a space on its way.
    let text = text.replace(' ', "+");
    let decoded = BASE64.decode(text.as_bytes());
    let decoded = decoded.or_else(|_| {
        let bare = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
        BASE64URL_NOPAD.decode(bare.as_bytes())
    });
    decoded.ok()
}

/// [`get`], of an answer that was signed already.
pub(super) fn get_at_once(call: OpenReadCall<'_>) -> Option<Response> {
    let memory: &Pki = call.memory()?;
    let bytes = decode_path(call.params.get("request"))?;
    let state = memory.read();
    let answer = memory.ocsp_answers.find_known(&bytes, &state, call.now.as_second())?;
    Some(Response::Text { code: 200, content_type: RESPONSE, body: answer })
}

/// What is known of a certificate.
enum KnownStatus {
    Is(CertificateStatus),
    /// It is good if it was issued here, which is what is stored.
    IfStored(Serial),
}

/// What there is to say, and who signs it.
struct OcspDecision {
    question: OcspQuestion,
    states: Vec<KnownStatus>,
    /// The certificate that is asked for, where it is one of ours, and the only one.
    about: Option<AskedCertificate>,
    signer: Option<(Arc<Issuer>, Arc<PkiKey>)>,
    expiry_secs: i64,
}

/// What is known of a certificate that is asked for, and of whose it is. One answer has one signature: what is of another than `scope` is not known to who
/// signs it.
fn status_of(state: &PkiState, asked: &OcspQuery, scope: &mut Option<ListScope>) -> KnownStatus {
    // Those of one who signs are alike in what requests name them by; so may be one from elsewhere that has no key here.
    let meant = || state.issuers.values().filter(|issuer| asked.is_of(&issuer.hashes));
    let signs = |issuer: &&Arc<Issuer>| state.ocsp_signer(issuer.scope).is_some();
    let issuer = meant().find(signs).or_else(|| meant().next());
    let (Some(issuer), Some(serial)) = (issuer, asked.serial) else {
        return KnownStatus::Is(CertificateStatus::Unknown);
    };
    if *scope.get_or_insert(issuer.scope) != issuer.scope {
        return KnownStatus::Is(CertificateStatus::Unknown);
    }
    let about = AskedCertificate { scope: issuer.scope, serial, revision: state.ocsp_revision };
    if let Some(revoked) = about.revoked(state) {
        return KnownStatus::Is(revoked);
    }
    let signing = state.signing.get(&issuer.scope);
    let stores_all = signing.is_some_and(|signing| !signing.lists.has_unstored)
        && state.issuers_of(issuer.scope).all(|issuer| {
            let key = issuer.key.and_then(|id| state.keys.get(&id));
            key.is_none_or(|key| !key.is_imported)
        });
    match stores_all {
        true => KnownStatus::IfStored(serial),
        false => KnownStatus::Is(CertificateStatus::Good),
    }
}

/// Decides what to say, or finds the answer itself.
fn decide(call: &Call<'_>, bytes: &[u8]) -> Result<Result<OcspDecision, Response>, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    let known = memory.ocsp_answers.find_known(bytes, &state, call.now.as_second());
    if let Some(body) = known {
        return Ok(Err(Response::Text { code: 200, content_type: RESPONSE, body }));
    }
    if state.crl.ocsp_is_disabled {
        return Ok(Err(ocsp_response(401, UNAUTHORIZED)));
    }
    let Ok(question) = OcspQuestion::from_der(bytes) else {
        return Ok(Err(ocsp_response(400, MALFORMED)));
    };
    let mut scope = None;
    let states = question.asked.iter().map(|asked| status_of(&state, asked, &mut scope)).collect();
    let about = match (question.asked.as_slice(), scope) {
        ([OcspQuery { serial: Some(serial), .. }], Some(scope)) => {
            Some(AskedCertificate { scope, serial: *serial, revision: state.ocsp_revision })
        }
        _ => None,
    };
    let signer = match scope {
        Some(scope) => state.ocsp_signer(scope),
        // Of an issuer that is not here: whoever stands for all says so.
        None => state.issuer("default").ok().and_then(|issuer| state.ocsp_signer(issuer.scope)),
    };
    Ok(Ok(OcspDecision {
        question,
        states,
        about,
        signer,
        expiry_secs: state.crl.ocsp_expiry_secs,
    }))
}

async fn respond(call: &Call<'_>, bytes: &[u8]) -> Result<Response, Error> {
    // The store is not read while what is decoded is held.
    let decision = match decide(call, bytes)? {
        Ok(decision) => decision,
        Err(answer) => return Ok(answer),
    };
    let OcspDecision { question, states, about, signer, expiry_secs } = decision;
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
    let saying = match (known.as_slice(), about) {
        (&[status], Some(about)) if !question.has_nonce() => {
            Some(Saying { status, about, issuer: &issuer, key: &key, now, expiry_secs })
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
    let work = move || answer(&question, &states, now, next, &signer.crl_signer(&signing_key));
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
