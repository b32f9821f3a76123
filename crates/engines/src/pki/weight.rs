//! Which requests take a moment only, so that they are answered where they came in: handing one over to another thread costs more than a signature
//! over P-256.
//!
//! What makes or uses a key of RSA, or one of a larger curve, is handed over, and so is a list that has to be made first or is long.

use std::any::Any;

use kallisto_engine::Memory;
use kallisto_pki::PkiKeyKind;

use super::issuer::Issuer;
use super::lists::{self, Which};
use super::memory::{Pki, PkiState};

/// Most issuers that are gone through for each certificate that a request of OCSP names.
const ISSUERS_MAX: usize = 16;

/// Whether the request at a path takes a moment only, its body being small.
pub(super) fn is_light(memory: &dyn Memory, path: &str) -> bool {
    let Some(memory) = (memory as &dyn Any).downcast_ref::<Pki>() else { return false };
    let mut parts = path.trim_end_matches('/').splitn(5, '/');
    let parts: [&str; 5] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    let (reference, parts) = match parts {
        ["issuer", reference, rest @ ..] => (Some(reference), rest),
        [verb, name, more, "", ""] => (None, [verb, name, more]),
        _ => return path.starts_with("ocsp/") && answers_quickly(&memory.read()),
    };
    let state = memory.read();
    match parts {
        ["issue", role, ""] => signs_quickly(&state, reference, role, true),
        ["sign", role, ""] => signs_quickly(&state, reference, role, false),
        ["ca" | "ca_chain", "" | "pem", ""] | ["cert", _, "" | "raw"] => reference.is_none(),
        ["json" | "pem" | "der", "", ""] => reference.is_some(),
        ["crl", "" | "der" | "pem", ""] => {
            let issuer = state.issuer(reference.unwrap_or("default"));
            issuer.is_ok_and(|issuer| {
                lists::made(memory, &state, issuer.scope, Which::Complete).is_some()
            })
        }
        ["ocsp", ..] => reference.is_none() && answers_quickly(&state),
        _ => false,
    }
}

const fn is_quick(kind: PkiKeyKind) -> bool {
    matches!(kind, PkiKeyKind::P256 | PkiKeyKind::Ed25519)
}

fn has_quick_key(state: &PkiState, issuer: &Issuer) -> bool {
    let key = issuer.key.and_then(|id| state.keys.get(&id));
    key.is_some_and(|key| is_quick(key.private.kind()))
}

fn signs_quickly(state: &PkiState, reference: Option<&str>, role: &str, makes_key: bool) -> bool {
    let Some(role) = state.roles.get(role) else { return false };
    let is_made_quickly = !makes_key || role.key_kind.is_some_and(is_quick);
    let issuer = state.issuer(reference.unwrap_or(&role.issuer_ref));
    is_made_quickly && issuer.is_ok_and(|issuer| has_quick_key(state, &issuer))
}

fn answers_quickly(state: &PkiState) -> bool {
    state.issuers.len() <= ISSUERS_MAX
        && state.issuers.values().all(|issuer| has_quick_key(state, issuer))
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::{Read, Update};

    use super::super::tests::{NOW, with_root};
    use super::*;

    #[test]
    fn what_makes_or_uses_a_key_of_rsa_and_long_lists_are_answered_elsewhere() {
        let (mount, _) = with_root();
        let write = |path: &str, body: &str| drop(mount.ask(NOW, Update, path, body).unwrap());
        write("roles/rsa", r#"{"allow_any_name":true,"key_type":"rsa"}"#);
        write("roles/whichever", r#"{"allow_any_name":true,"key_type":"any"}"#);
        let is_light = |path: &str| is_light(mount.memory::<Pki>(), path);
        for path in [
            "issue/any",
            "issue/any/",
            "sign/any",
            "sign/whichever",
            "issuer/root/issue/any",
            "issuer/root/sign/any",
            "ocsp",
            "ocsp/MEowSDBGMEQwQjAJBgUrDgMCGgUABBQ",
            "ocsp/a/b/c/d/e/f",
            "ca",
            "ca/pem",
            "cert/ab",
            "issuer/root/der",
        ] {
            assert!(is_light(path), "{path}");
        }
        for path in [
            "issue/rsa",
            "issue/whichever",
            "issue/nobody",
            "issue/ANY",
            "sign/nobody",
            "issuer/nobody/sign/any",
            "sign-verbatim/any",
            "root/generate/internal",
            "crl",
            "crl/rotate",
            "issuer/root/crl",
            "revoke",
            "tidy",
            "certs",
            "issuer/root/ocsp/x",
            "roles/any",
            "",
        ] {
            assert!(!is_light(path), "{path}");
        }
        mount.raw(NOW, Read, "crl", b"").unwrap();
        assert!(is_light("crl") && is_light("crl/pem") && is_light("issuer/root/crl/der"));
        assert!(!is_light("issuer/root/crl/delta"), "another list");
        write(
            "root/generate/internal",
            r#"{"common_name":"R","key_type":"rsa","issuer_name":"slow"}"#,
        );
        assert!(!is_light("issuer/slow/sign/any") && is_light("issuer/root/sign/any"));
        assert!(!is_light("ocsp"), "the slow one may be who is asked about");
    }
}
