//! How the certificates of two issuers are related.
//!
//! Five questions, answered from the two certificates and the chain that the second one's mount knows. Whether trust
//! in the first suffices for the second is answered by walking from the second up its chain: each step a signature by a CA whose time has
//! come and not ended and whose path length allows the CAs below (RFC 5280, 6.1). Names constraints and policies are not judged.

use std::collections::HashSet;

use kallisto_pki::certificate::ParsedCertificate;

use super::fetch::FetchedIssuer;

/// The answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Relation {
    /// The key of the first signed the second.
    pub(super) signature_match: bool,
    /// The first is in the chain of the second.
    pub(super) path_match: bool,
    /// The id of the first's key is the one that the second names.
    pub(super) key_id_match: bool,
    /// The subject of the first is the issuer of the second.
    pub(super) subject_match: bool,
    /// Who trusts the first can verify the second with its chain.
    pub(super) trust_match: bool,
}

impl Relation {
    /// Compares a possible issuer with what it may have issued, at `now` in seconds since 1970.
    pub(super) fn between(issuer: &ParsedCertificate, issued: &FetchedIssuer, now: i64) -> Self {
        let child = &issued.certificate;
        Self {
            signature_match: child.is_signed_by(&issuer.public),
            path_match: issued.chain.iter().any(|one| one.der == issuer.der),
            key_id_match: child.authority_key_id.as_deref() == Some(&*issuer.subject_key_id()),
            subject_match: child.issuer == issuer.subject,
            trust_match: is_trusted(issuer, child, &issued.chain, now),
        }
    }

    /// The answers by name, as Vault's command line names them.
    pub(super) const fn named(self) -> [(&'static str, bool); 5] {
        [
            ("key_id_match", self.key_id_match),
            ("path_match", self.path_match),
            ("signature_match", self.signature_match),
            ("subject_match", self.subject_match),
            ("trust_match", self.trust_match),
        ]
    }
}

/// Whether a way leads from the leaf up to the anchor, each certificate on it looked at once.
fn is_trusted(
    anchor: &ParsedCertificate,
    leaf: &ParsedCertificate,
    chain: &[ParsedCertificate],
    now: i64,
) -> bool {
    let holds = |one: &ParsedCertificate| one.not_before <= now && now <= one.not_after;
    if !holds(leaf) || !holds(anchor) {
        return false;
    }
    if leaf.der == anchor.der {
        return true;
    }
    let mut seen: HashSet<&[u8]> = HashSet::from([&*leaf.der]);
    // What is to be verified next, and how many CAs of other subjects are below its issuer.
    let mut open = vec![(leaf, 0_usize)];
    while let Some((child, below)) = open.pop() {
        let signs = |one: &ParsedCertificate| {
            let allows = one.path_length.is_none_or(|most| below <= usize::from(most));
            one.may_sign_certificates() && allows && child.is_signed_by(&one.public)
        };
        if child.issuer == anchor.subject && signs(anchor) {
            return true;
        }
        let above = chain.iter().filter(|one| child.issuer == one.subject && holds(one));
        for one in above.filter(|one| signs(one)) {
            if seen.insert(&one.der) {
                let is_self_issued = one.subject == one.issuer;
                open.push((one, below + usize::from(!is_self_issued)));
            }
        }
    }
    false
}
