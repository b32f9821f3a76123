//! OCSP: whether a certificate is revoked, for anyone.

use data_encoding::{BASE64, BASE64URL_NOPAD};
use kallisto_api::{Error, Response};
use kallisto_engine::Call;
use kallisto_pki::Serial;
use kallisto_pki::ocsp::{INTERNAL_ERROR, MALFORMED, Request, Status, UNAUTHORIZED, answer};

use super::memory::Pki;
use super::revoked::certificate_record;

const RESPONSE: &str = "application/ocsp-response";
/// Longest request in a path, in bytes.
const PATH_BYTES_MAX: usize = 4096;

fn told(code: u16, body: &[u8]) -> Response {
    Response::Text { code, content_type: RESPONSE, body: body.to_vec() }
}

pub(super) async fn post(call: Call<'_>) -> Result<Response, Error> {
    respond(&call, call.request.body)
}

/// The request stands in the path, in base 64, which has slashes and plus signs of its own.
pub(super) async fn get(call: Call<'_>) -> Result<Response, Error> {
    let text = call.params.get("request");
    if text.len() > PATH_BYTES_MAX {
        return Ok(told(400, MALFORMED));
    }
    // A plus sign may have become a space on its way.
    let text = text.replace(' ', "+");
    let decoded = BASE64.decode(text.as_bytes());
    let decoded = decoded.or_else(|_| {
        let bare = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
        BASE64URL_NOPAD.decode(bare.as_bytes())
    });
    match decoded {
        Ok(bytes) => respond(&call, &bytes),
        Err(_) => Ok(told(400, MALFORMED)),
    }
}

/// What is known of a certificate.
enum Known {
    Is(Status),
    /// It is good if it was issued here, which is what is stored.
    IfStored(Serial),
}

fn respond(call: &Call<'_>, bytes: &[u8]) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    if state.crl.ocsp_is_disabled {
        return Ok(told(401, UNAUTHORIZED));
    }
    let Ok(request) = Request::from_der(bytes) else { return Ok(told(400, MALFORMED)) };
    let mut scope = None;
    let states: Vec<Known> = request
        .asked
        .iter()
        .map(|asked| {
            // Those of one who signs are alike in what requests name them by.
            let issuer = state.issuers.values().find(|issuer| asked.is_of(&issuer.hashes));
            let (Some(issuer), Some(serial)) = (issuer, asked.serial) else {
                return Known::Is(Status::Unknown);
            };
            // One answer has one signature: what is of somebody else is not known to who signs it.
            if *scope.get_or_insert(issuer.scope) != issuer.scope {
                return Known::Is(Status::Unknown);
            }
            let signing = state.signing.get(&issuer.scope);
            if let Some(revoked) = signing.and_then(|signing| signing.revoked.get(&serial)) {
                return Known::Is(Status::Revoked { at: revoked.at_ns.div_euclid(1_000_000_000) });
            }
            let stores_all = signing.is_some_and(|signing| !signing.lists.has_unstored)
                && state.issuers_of(issuer.scope).all(|issuer| {
                    let key = issuer.key.and_then(|id| state.keys.get(&id));
                    key.is_none_or(|key| !key.is_imported)
                });
            if stores_all { Known::IfStored(serial) } else { Known::Is(Status::Good) }
        })
        .collect();
    let signer = match scope {
        Some(scope) => state.ocsp_signer(scope),
        // Of an issuer that is not here: whoever stands for all says so.
        None => state.issuer("default").ok().and_then(|issuer| state.ocsp_signer(issuer.scope)),
    };
    let expiry_secs = state.crl.ocsp_expiry_secs;
    // The store is not read while what is decoded is held.
    drop(state);
    let Some((issuer, key)) = signer else { return Ok(told(401, UNAUTHORIZED)) };
    let mut known = Vec::with_capacity(states.len());
    for state in states {
        known.push(match state {
            Known::Is(status) => status,
            Known::IfStored(serial) => match call.storage.get(&certificate_record(&serial))? {
                Some(_) => Status::Good,
                None => Status::Unknown,
            },
        });
    }
    let now = call.now.as_second();
    let next = (expiry_secs > 0).then(|| now + expiry_secs);
    match answer(&request, &known, now, next, &issuer.crl_signer(&key)) {
        Ok(body) => Ok(told(200, &body)),
        Err(_) => Ok(told(500, INTERNAL_ERROR)),
    }
}
