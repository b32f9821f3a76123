//! Challenges (RFC 8555, section 8; RFC 8737; RFC 8738): what is looked at, when, and what it comes to.
//!
//! A client that says that a challenge is ready has it entered into `acme/probe/`, and it is looked at at once: this asks the server for a probe
//! ([`kallisto_engine::probe`]) and does not wait for it. Its outcome is taken by the next request for the challenge, its authorization or its
//! order, or by the job, whichever comes first. A look that fails is taken again after [`WAITS_SECS`]; the last failure is final.
//!
//! Invariants:
//! - Only requests that the leader answers and the leader's job look at anything. Whoever leads next looks again at what is entered.
//! - A challenge that ended does so in the transaction that takes its entry out, together with its authorization.
//! - What a client hears of a failure is one of a few fixed texts.

use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;
use kallisto_api::Error;
use kallisto_api::json::{Json, Map};
use kallisto_engine::{
    EngineContext, Probe, ProbeAnswer, ProbeFailure, ProbeHost, ProbeKind, ProbeState,
};
use kallisto_pki::San;
use kallisto_pki::acme::AcmeCertificate;

use super::accounts::{self, AcmeAccount};
use super::exchange::{AcmeCall, AcmeDirectory, AcmeReply, SignedRequest};
use super::orders::{
    AUTHORIZATION_SECS, AcmeAuthorization, AcmeIdentifier, AuthorizationStatus,
    authorization_record,
};
use super::problem::{Failure, Kind, Problem, fail, malformed};
use crate::pki::given::{GivenFields, object, write_time};
use crate::pki::memory::Pki;

/// Seconds between the end of a look and the next: a first mistake is often mended within a moment, and a client that waits is told soon.
const WAITS_SECS: [i64; 3] = [2, 3, 5];
/// How long after the client's word there is another look, in seconds. With the longest look all ends within half a minute.
const LOOKS_SECS: i64 = 18;
/// Most challenges of an account that are being looked at.
const PROBES_OF_ACCOUNT_MAX: usize = 200;
/// Most challenges of a mount that are being looked at.
const PROBES_MAX: usize = 4_096;

/// How a name is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChallengeKind {
    Http,
    Dns,
    TlsAlpn,
}

impl ChallengeKind {
    const ALL: [(&str, Self); 3] =
        [("http-01", Self::Http), ("dns-01", Self::Dns), ("tls-alpn-01", Self::TlsAlpn)];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

/// How a name may be shown. A wildcard is of all names below it, which only its zone says; an address has no zone.
pub(super) fn kinds(identifier: &AcmeIdentifier) -> &'static [ChallengeKind] {
    match identifier {
        AcmeIdentifier::Dns(name) if name.starts_with("*.") => &[ChallengeKind::Dns],
        AcmeIdentifier::Dns(_) => {
            &[ChallengeKind::Http, ChallengeKind::Dns, ChallengeKind::TlsAlpn]
        }
        AcmeIdentifier::Ip(_) => &[ChallengeKind::Http, ChallengeKind::TlsAlpn],
    }
}

/// A challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AcmeChallenge {
    kind: ChallengeKind,
    pub(super) status: AuthorizationStatus,
    token: String,
    /// When it was found to be right; 0 before that.
    validated_at: i64,
    /// Why the last look failed.
    error: Option<Map>,
    /// Looks that ended.
    looks: usize,
    /// When the client said that it is ready; 0 before that.
    began_at: i64,
    /// When there is another look.
    next_at: i64,
}

impl AcmeChallenge {
    pub(super) const fn new(kind: ChallengeKind, token: String) -> Self {
        Self {
            kind,
            status: AuthorizationStatus::Pending,
            token,
            validated_at: 0,
            error: None,
            looks: 0,
            began_at: 0,
            next_at: 0,
        }
    }

    pub(super) fn encode(&self) -> Json {
        let mut map = object([
            ("type", self.kind.name().into()),
            ("status", self.status.name().into()),
            ("token", self.token.as_str().into()),
            ("validated_at", self.validated_at.into()),
            ("looks", (self.looks as u64).into()),
            ("began_at", self.began_at.into()),
            ("next_at", self.next_at.into()),
        ]);
        if let Some(error) = &self.error {
            map.insert("error".to_owned(), Json::Object(error.clone()));
        }
        Json::Object(map)
    }

    pub(super) fn decode(json: &Json) -> Option<Self> {
        let Json::Object(map) = json else { return None };
        let given = GivenFields::of(map);
        Some(Self {
            kind: ChallengeKind::named(&given.text("type").ok()?)?,
            status: AuthorizationStatus::named(&given.text("status").ok()?)?,
            token: given.text("token").ok()?,
            validated_at: given.whole("validated_at", 0).ok()?,
            error: match map.get("error") {
                Some(Json::Object(error)) => Some(error.clone()),
                _ => None,
            },
            looks: usize::try_from(given.whole("looks", 0).ok()?).ok()?,
            began_at: given.whole("began_at", 0).ok()?,
            next_at: given.whole("next_at", 0).ok()?,
        })
    }

    /// What is told of it.
    pub(super) fn shown(&self, directory: &AcmeDirectory, authorization: &str) -> Map {
        let url = directory.at(&format!("challenge/{authorization}/{}", self.kind.name()));
        let mut map = object([
            ("type", self.kind.name().into()),
            ("url", url.into()),
            ("status", self.status.name().into()),
            ("token", self.token.as_str().into()),
        ]);
        if self.validated_at != 0 {
            map.insert("validated".to_owned(), write_time(self.validated_at).into());
        }
        if let Some(error) = &self.error
            && self.status != AuthorizationStatus::Valid
        {
            map.insert("error".to_owned(), Json::Object(error.clone()));
        }
        map
    }

    /// What shows that whoever put it there has the key of the account (RFC 8555, 8.1).
    fn key_authorization(&self, account: &AcmeAccount) -> String {
        format!("{}.{}", self.token, account.key.thumbprint())
    }

    /// What to look at.
    fn probe(
        &self,
        authorization: &AcmeAuthorization,
        context: &EngineContext<'_>,
    ) -> Option<Probe> {
        let base = authorization.base();
        let memory = context.memory::<Pki>().ok()?;
        let config = memory.read().acme.clone();
        let host = match &authorization.identifier {
            AcmeIdentifier::Dns(_) => ProbeHost::Name(base.clone()),
            AcmeIdentifier::Ip(address) => ProbeHost::Address(*address),
        };
        let (host, what) = match self.kind {
            ChallengeKind::Http => {
                let path = format!("/.well-known/acme-challenge/{}", self.token);
                (host, ProbeKind::Http { path })
            }
            ChallengeKind::Dns => {
                (ProbeHost::Name(format!("_acme-challenge.{base}")), ProbeKind::Texts)
            }
            ChallengeKind::TlsAlpn => {
                let server_name = match &authorization.identifier {
                    AcmeIdentifier::Dns(_) => base,
                    AcmeIdentifier::Ip(address) => reverse_name(*address),
                };
                (host, ProbeKind::TlsAlpn { server_name })
            }
        };
        let (resolver, destinations) = (config.resolver, config.destinations.clone());
        Some(Probe { host, what, resolver, destinations })
    }

    /// What a look comes to.
    fn judge(
        &self,
        authorization: &AcmeAuthorization,
        account: &AcmeAccount,
        outcome: Result<ProbeAnswer, ProbeFailure>,
    ) -> Result<(), Problem> {
        let expected = self.key_authorization(account);
        let hash = digest(&SHA256, expected.as_bytes());
        let wrong = |why: &str| Problem::new(Kind::IncorrectResponse, why);
        match outcome.map_err(failure_problem)? {
            ProbeAnswer::Body(body) if self.kind == ChallengeKind::Http => {
                if body.trim_ascii_end() == expected.as_bytes() {
                    return Ok(());
                }
                Err(wrong("what is served is not the key authorization of this challenge"))
            }
            ProbeAnswer::Texts(texts) if self.kind == ChallengeKind::Dns => {
                let expected = BASE64URL_NOPAD.encode(hash.as_ref());
                if texts.iter().any(|text| text == expected.as_bytes()) {
                    return Ok(());
                }
                Err(wrong("no TXT record is the hash of the key authorization of this challenge"))
            }
            ProbeAnswer::Certificate(der) if self.kind == ChallengeKind::TlsAlpn => {
                let name = match &authorization.identifier {
                    AcmeIdentifier::Dns(_) => San::Dns(authorization.base()),
                    AcmeIdentifier::Ip(address) => San::Ip(*address),
                };
                let shown = AcmeCertificate::from_der(&der)
                    .map_err(|_| wrong("the certificate that is shown is none of tls-alpn-01"))?;
                if shown.name == name && shown.hash == hash.as_ref() {
                    return Ok(());
                }
                Err(wrong("the certificate that is shown is of another name or challenge"))
            }
            _ => Err(wrong("")),
        }
    }
}

fn failure_problem(failure: ProbeFailure) -> Problem {
    let (kind, why) = match failure {
        ProbeFailure::NoName => (Kind::Dns, "the name does not resolve".to_owned()),
        ProbeFailure::Refused => {
            (Kind::Connection, "this server does not connect to where the name leads".to_owned())
        }
        ProbeFailure::NoConnection => (Kind::Connection, "no connection".to_owned()),
        ProbeFailure::TooLate => (Kind::Connection, "no answer in time".to_owned()),
        ProbeFailure::Status(code) => {
            (Kind::IncorrectResponse, format!("the answer has status {code}"))
        }
        ProbeFailure::TooLong => (Kind::IncorrectResponse, "the answer is too long".to_owned()),
        ProbeFailure::TooManyRedirects => (Kind::Connection, "too many redirects".to_owned()),
        ProbeFailure::BadRedirect => {
            (Kind::Connection, "a redirect leads to where this server does not connect".to_owned())
        }
        ProbeFailure::NoHttp => (Kind::Connection, "the peer does not speak HTTP".to_owned()),
        ProbeFailure::NoTls => (Kind::Tls, "the peer does not speak TLS as it should".to_owned()),
    };
    Problem::new(kind, why)
}

/// The name by which an address is asked for (RFC 8738, section 6).
fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(v6) => {
            let digits = v6.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            let digits: Vec<String> = digits.map(|digit| format!("{digit:x}")).collect();
            format!("{}.ip6.arpa", digits.join("."))
        }
    }
}

fn probe_folder(account: &str) -> String {
    format!("acme/probe/{account}/")
}

fn probe_record(account: &str, authorization: &str) -> String {
    format!("acme/probe/{account}/{authorization}")
}

/// Tells of a challenge, or takes the client's word that it is ready (7.5.1).
pub(super) async fn respond(
    acme: &AcmeCall<'_>,
    signed: &SignedRequest,
) -> Result<AcmeReply, Failure> {
    let account = signed.account()?;
    let (storage, now) = (acme.call.storage, acme.now());
    let missing = || malformed("there is no such challenge").not_found();
    let kind = ChallengeKind::named(acme.call.params.get("type")).ok_or_else(missing)?;
    let found = AcmeAuthorization::find(storage, &account.id, acme.call.params.get("id"))?;
    let mut found = found.ok_or_else(missing)?;
    if !found.challenges.iter().any(|challenge| challenge.kind == kind) {
        return Err(missing());
    }
    if !signed.only_reads() {
        // An empty object; what a later RFC adds is not known here.
        signed.object()?;
        found = begin(acme, account, &found.id, kind, now).await?;
    }
    advance(&acme.call.context, account, &mut found).await?;
    let shown = found.shown(&acme.directory, now);
    let at = |json: &&Json| matches!(json, Json::Object(map) if map.get("type").and_then(Json::as_str) == Some(kind.name()));
    let challenge = match shown.get("challenges") {
        Some(Json::Array(all)) => all.iter().find(at).cloned(),
        _ => None,
    };
    let Some(Json::Object(challenge)) = challenge else { return Err(missing()) };
    let up = acme.directory.at(&format!("authorization/{}", found.id));
    Ok(AcmeReply::json(200, challenge).linked(&up, "up"))
}

/// Enters a challenge among those that are looked at.
async fn begin(
    acme: &AcmeCall<'_>,
    account: &AcmeAccount,
    id: &str,
    kind: ChallengeKind,
    now: i64,
) -> Result<AcmeAuthorization, Failure> {
    let storage = acme.call.storage;
    let limit = |folder: &str, most: usize| storage.scan_some(folder, most).len() >= most;
    if limit(&probe_folder(&account.id), PROBES_OF_ACCOUNT_MAX) {
        return Err(fail(Kind::RateLimited, "too many challenges of the account are looked at"));
    }
    if limit("acme/probe/", PROBES_MAX) {
        return Err(fail(Kind::RateLimited, "too many challenges are looked at"));
    }
    let (name, entry) = (authorization_record(&account.id, id), probe_record(&account.id, id));
    let begun = storage.transact(&name, |transaction| {
        let stored = transaction.get(&name)?.ok_or(Error::NotFound)?;
        let mut found = AcmeAuthorization::decode(id, &stored)?;
        let is_looked_at = |one: &AcmeChallenge| one.status == AuthorizationStatus::Processing;
        if found.status(now) != AuthorizationStatus::Pending
            || found.challenges.iter().any(is_looked_at)
        {
            return Ok(found);
        }
        if let Some(one) = found.challenges.iter_mut().find(|one| one.kind == kind) {
            one.status = AuthorizationStatus::Processing;
            (one.began_at, one.next_at) = (now, now);
        }
        transaction.put(&name, found.encode())?;
        transaction.put(&entry, Vec::new())?;
        Ok(found)
    });
    Ok(begun.await?)
}

/// Goes on with a challenge that is looked at: begins a look, or takes what one came to. Does not wait for it.
pub(super) async fn advance(
    context: &EngineContext<'_>,
    account: &AcmeAccount,
    authorization: &mut AcmeAuthorization,
) -> Result<(), Error> {
    let now = context.now.as_second();
    let is_looked_at = |one: &&AcmeChallenge| one.status == AuthorizationStatus::Processing;
    let Some(challenge) = authorization.challenges.iter().find(is_looked_at).cloned() else {
        return Ok(());
    };
    if authorization.status(now) != AuthorizationStatus::Pending {
        return Ok(());
    }
    let (mount, kind) = (context.mount.accessor, challenge.kind.name());
    let id = format!("{mount}/{}/{}/{kind}/{}", account.id, authorization.id, challenge.looks);
    match context.probes.take(&id) {
        ProbeState::UnderWay => Ok(()),
        ProbeState::Unknown => {
            if now >= challenge.next_at
                && let Some(probe) = challenge.probe(authorization, context)
            {
                // If there is no room, the job tries again.
                let _ = context.probes.begin(&id, probe);
            }
            Ok(())
        }
        ProbeState::Done(outcome) => {
            let judged = challenge.judge(authorization, account, outcome);
            *authorization = enter(context, account, &authorization.id, &challenge, judged).await?;
            Ok(())
        }
    }
}

/// Writes down what a look came to.
async fn enter(
    context: &EngineContext<'_>,
    account: &AcmeAccount,
    id: &str,
    looked_at: &AcmeChallenge,
    judged: Result<(), Problem>,
) -> Result<AcmeAuthorization, Error> {
    let now = context.now.as_second();
    let (name, entry) = (authorization_record(&account.id, id), probe_record(&account.id, id));
    let entered = context.storage.transact(&name, |transaction| {
        let stored = transaction.get(&name)?.ok_or(Error::NotFound)?;
        let mut found = AcmeAuthorization::decode(id, &stored)?;
        let is_pending = found.status(now) == AuthorizationStatus::Pending;
        // Somebody else wrote it down, or it has ended meanwhile.
        let Some(challenge) = found.challenges.iter_mut().find(|one| *one == looked_at) else {
            return Ok(found);
        };
        challenge.looks += 1;
        let wait = WAITS_SECS.get(challenge.looks - 1);
        let next_at = wait.map(|wait| now + wait);
        let next_at = next_at.filter(|at| *at <= challenge.began_at + LOOKS_SECS);
        let is_final = match (&judged, next_at) {
            (Ok(()), _) => {
                challenge.status = AuthorizationStatus::Valid;
                challenge.validated_at = now;
                challenge.error = None;
                true
            }
            (Err(problem), next_at) => {
                let mut error = problem.to_json();
                error.insert("status".to_owned(), u64::from(problem.code()).into());
                challenge.error = Some(error);
                challenge.next_at = next_at.unwrap_or(now);
                if next_at.is_none() {
                    challenge.status = AuthorizationStatus::Invalid;
                }
                next_at.is_none()
            }
        };
        if is_final {
            if is_pending {
                found.stored = if judged.is_ok() {
                    AuthorizationStatus::Valid
                } else {
                    AuthorizationStatus::Invalid
                };
                if judged.is_ok() {
                    found.expires = now + AUTHORIZATION_SECS;
                }
            }
            transaction.delete(&entry)?;
        }
        transaction.put(&name, found.encode())?;
        Ok(found)
    });
    entered.await
}

/// Goes on with all challenges that are looked at.
pub(super) async fn run(context: EngineContext<'_>) -> Result<(), Error> {
    let now = context.now.as_second();
    for place in context.storage.scan_some("acme/probe/", PROBES_MAX) {
        let name = format!("acme/probe/{place}");
        let Some((account, authorization)) = place.split_once('/') else { continue };
        let stored = context.storage.get(&accounts::record(account))?;
        let known = stored.map(|stored| AcmeAccount::decode(account, &stored)).transpose()?;
        let found = AcmeAuthorization::find(context.storage, account, authorization)?;
        let (Some(known), Some(mut found)) = (known, found) else {
            context.storage.delete(&name).await?;
            continue;
        };
        let is_looked_at = |one: &AcmeChallenge| one.status == AuthorizationStatus::Processing;
        if found.status(now) != AuthorizationStatus::Pending
            || !found.challenges.iter().any(is_looked_at)
        {
            context.storage.delete(&name).await?;
            continue;
        }
        advance(&context, &known, &mut found).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_asked_for_by_its_reverse_name() {
        assert_eq!(reverse_name("192.0.2.1".parse().unwrap()), "1.2.0.192.in-addr.arpa");
        assert_eq!(
            reverse_name("2001:db8::1".parse().unwrap()),
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
        );
    }

    #[test]
    fn the_last_look_ends_within_half_a_minute() {
        let longest = i64::try_from(kallisto_engine::probe::PROBE_SECS_MAX).unwrap();
        assert!(LOOKS_SECS + longest <= 30);
        assert!(WAITS_SECS.iter().sum::<i64>() <= LOOKS_SECS);
    }
}
