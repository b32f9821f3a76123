//! OCSP: whether a certificate is revoked, for anyone.

use data_encoding::{BASE64, BASE64URL_NOPAD};
use kallisto_api::{Error, Response};
use kallisto_engine::Call;
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

fn respond(call: &Call<'_>, bytes: &[u8]) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    if state.crl.ocsp_is_disabled {
        return Ok(told(401, UNAUTHORIZED));
    }
    let Ok(request) = Request::from_der(bytes) else { return Ok(told(400, MALFORMED)) };
    let mut known = Vec::with_capacity(request.asked.len());
    let mut scope = None;
    for asked in &request.asked {
        // Those of one who signs are alike in what requests name them by.
        let issuer = state.issuers.values().find(|issuer| asked.is_of(&issuer.hashes));
        let Some(issuer) = issuer else {
            known.push(Status::Unknown);
            continue;
        };
        // One answer has one signature: what is of somebody else is not known to who signs it.
        if *scope.get_or_insert(issuer.scope) != issuer.scope {
            known.push(Status::Unknown);
            continue;
        }
        let Some(serial) = asked.serial else {
            known.push(Status::Unknown);
            continue;
        };
        let signing = state.signing.get(&issuer.scope);
        if let Some(revoked) = signing.and_then(|signing| signing.revoked.get(&serial)) {
            known.push(Status::Revoked { at: revoked.at_ns.div_euclid(1_000_000_000) });
            continue;
        }
        let stores_all = signing.is_some_and(|signing| !signing.lists.has_unstored)
            && state.issuers_of(issuer.scope).all(|issuer| {
                let key = issuer.key.and_then(|id| state.keys.get(&id));
                key.is_none_or(|key| !key.is_imported)
            });
        let is_known = !stores_all || call.storage.get(&certificate_record(&serial))?.is_some();
        known.push(if is_known { Status::Good } else { Status::Unknown });
    }
    let signer = match scope {
        Some(scope) => state.ocsp_signer(scope),
        // Of an issuer that is not here: whoever stands for all says so.
        None => state.issuer("default").ok().and_then(|issuer| state.ocsp_signer(issuer.scope)),
    };
    let Some((issuer, key)) = signer else { return Ok(told(401, UNAUTHORIZED)) };
    let now = call.now().as_second();
    let next = (state.crl.ocsp_expiry_secs > 0).then(|| now + state.crl.ocsp_expiry_secs);
    drop(state);
    match answer(&request, &known, now, next, &issuer.crl_signer(&key)) {
        Ok(body) => Ok(told(200, &body)),
        Err(_) => Ok(told(500, INTERNAL_ERROR)),
    }
}
