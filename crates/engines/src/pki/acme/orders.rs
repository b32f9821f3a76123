//! Orders and authorizations (RFC 8555, 7.1.3, 7.1.4, 7.4, 7.5).
//!
//! An order is stored as it was made, and once more with its certificate. Whether it can be finalized is not stored: it is what its authorizations
//! say at that moment. So a challenge that ends writes one record, and nothing can disagree.
//!
//! Invariants:
//! - The records of an order and of its authorizations stand below the account that made them.
//! - Every order has an entry in [`super::expiry`], made in the same transaction: what was made is deleted.

use std::net::IpAddr;

use data_encoding::BASE64URL_NOPAD;
use kallisto_api::Error;
use kallisto_api::json::{Json, Map};
use kallisto_engine::{Random, Storage, Stored};
use kallisto_pki::names::{WantedNames, grant, host_name};

use super::accounts;
use super::challenges;
use super::exchange::{AcmeCall, AcmeDirectory, AcmeReply, IssuingPolicy, SignedRequest};
use super::expiry;
use super::problem::{Failure, Kind, fail, malformed};
use crate::pki::given::{GivenFields, object, write_time};
use crate::pki::ids::IssuerId;
use crate::pki::templates;

/// How long an order may take, in seconds.
pub(super) const ORDER_SECS: i64 = 24 * 3600;
/// How long a valid authorization is one, in seconds.
pub(super) const AUTHORIZATION_SECS: i64 = 15 * 24 * 3600;
/// Most names of an order.
const IDENTIFIERS_MAX: usize = 100;
/// Most orders of an account that are not deleted yet.
const ORDERS_MAX: usize = 10_000;
/// Most orders in a list.
const LISTED_MAX: usize = 1_000;
/// Random bytes of a token.
const TOKEN_BYTES: usize = 24;

/// What a certificate is wanted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AcmeIdentifier {
    /// A name in lower case and A-labels; a wildcard with its `*.`.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

impl AcmeIdentifier {
    fn read(given: &Json) -> Result<Self, Failure> {
        let Json::Object(given) = given else {
            return Err(malformed("an identifier is no JSON object"));
        };
        let text = |name: &str| {
            let text = given.get(name).and_then(Json::as_str);
            text.ok_or_else(|| malformed(format!("an identifier has no {name}")))
        };
        let (kind, value) = (text("type")?, text("value")?);
        match kind {
            "dns" => Self::dns(value),
            "ip" => {
                let address: IpAddr = value.parse().map_err(|_| {
                    malformed(format!("value argument ({value}) failed validation: no IP address"))
                })?;
                // One spelling (RFC 8738, section 3), so that a name is asked for once.
                if address.to_string() != value || address != address.to_canonical() {
                    let why = format!(
                        "value argument ({value}) failed validation: not as RFC 5952 has it"
                    );
                    return Err(malformed(why));
                }
                Ok(Self::Ip(address))
            }
            other => {
                let why = format!("unsupported identifier type {other}");
                Err(fail(Kind::UnsupportedIdentifier, why))
            }
        }
    }

    pub(super) fn dns(value: &str) -> Result<Self, Failure> {
        let failed = |why: &str| {
            Err(malformed(format!("value argument ({value}) failed validation: {why}")))
        };
        if value.parse::<IpAddr>().is_ok() {
            return Err(malformed(format!(
                "refusing to accept argument ({value}) as DNS type identifier: parsed OK as IP \
                 address"
            )));
        }
        let host = value.strip_prefix("*.").unwrap_or(value);
        if host.contains('*') {
            return failed(
                "invalid wildcard: expected only one wildcard identifier in the given domain name",
            );
        }
        if host_name(host).as_deref() != Some(host) {
            return failed("it is no host name in lower case and A-labels");
        }
        Ok(Self::Dns(value.to_owned()))
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Dns(_) => "dns",
            Self::Ip(_) => "ip",
        }
    }

    pub(super) fn value(&self) -> String {
        match self {
            Self::Dns(name) => name.clone(),
            Self::Ip(address) => address.to_string(),
        }
    }

    /// The name that is to be shown, without the `*.` of a wildcard.
    fn base(&self) -> String {
        match self {
            Self::Dns(name) => name.strip_prefix("*.").unwrap_or(name).to_owned(),
            Self::Ip(address) => address.to_string(),
        }
    }

    fn is_wildcard(&self) -> bool {
        matches!(self, Self::Dns(name) if name.starts_with("*."))
    }

    fn shown(&self) -> Json {
        Json::object([("type", self.kind().into()), ("value", self.value().into())])
    }

    fn stored(given: &Json) -> Option<Self> {
        let Json::Object(given) = given else { return None };
        let value = given.get("value")?.as_str()?;
        match given.get("type")?.as_str()? {
            "ip" => value.parse().ok().map(Self::Ip),
            _ => Some(Self::Dns(value.to_owned())),
        }
    }
}

/// The names of an order as a role judges them.
pub(super) fn wanted(identifiers: &[AcmeIdentifier]) -> WantedNames {
    let mut wanted = WantedNames { is_of_csr: true, ..WantedNames::default() };
    for identifier in identifiers {
        match identifier {
            AcmeIdentifier::Dns(name) => wanted.names.push(name.clone()),
            AcmeIdentifier::Ip(address) => wanted.ips.push(*address),
        }
    }
    wanted
}

/// Whether a role issues for these names.
fn check_names(
    acme: &AcmeCall<'_>,
    policy: &IssuingPolicy,
    identifiers: &[AcmeIdentifier],
) -> Result<(), Failure> {
    let mut rules = templates::rules(&acme.call, &policy.role)?.into_owned();
    rules.require_cn = false;
    for identifier in identifiers {
        let wanted = wanted(std::slice::from_ref(identifier));
        if grant(&rules, &wanted).is_err() {
            let role = match policy.role_name.as_str() {
                "" => "the default directory".to_owned(),
                name => format!("role ({name})"),
            };
            let why = format!("{role} will not issue certificate for name {}", identifier.value());
            return Err(fail(Kind::RejectedIdentifier, why));
        }
    }
    Ok(())
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AcmeOrder {
    pub(super) id: String,
    pub(super) expires: i64,
    pub(super) identifiers: Vec<AcmeIdentifier>,
    /// Their ids, one for each identifier.
    pub(super) authorizations: Vec<String>,
    /// The certificate that fulfils it.
    pub(super) certificate: Option<Fulfilled>,
}

/// What fulfils an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fulfilled {
    pub(super) der: Vec<u8>,
    /// The issuer that signed it.
    pub(super) issuer: String,
}

/// How an order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderStatus {
    Pending,
    Ready,
    Valid,
    Invalid,
}

impl OrderStatus {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Valid => "valid",
            Self::Invalid => "invalid",
        }
    }
}

pub(super) fn folder(account: &str) -> String {
    format!("acme/order/{account}/")
}

pub(super) fn record(account: &str, id: &str) -> String {
    format!("acme/order/{account}/{id}")
}

impl AcmeOrder {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut map = object([
            ("expires", self.expires.into()),
            (
                "identifiers",
                Json::Array(self.identifiers.iter().map(AcmeIdentifier::shown).collect()),
            ),
            ("authorizations", Json::strings(self.authorizations.clone())),
        ]);
        if let Some(Fulfilled { der, issuer }) = &self.certificate {
            map.insert("certificate".to_owned(), BASE64URL_NOPAD.encode(der).into());
            map.insert("issuer".to_owned(), issuer.as_str().into());
        }
        Json::Object(map).to_text()
    }

    pub(super) fn decode(id: &str, stored: &Stored) -> Result<Self, Error> {
        let damaged = || stored.damaged();
        stored.decode_object(|map| {
            let given = GivenFields::of(map);
            let Some(Json::Array(identifiers)) = map.get("identifiers") else {
                return Err(damaged());
            };
            let identifiers: Option<Vec<_>> =
                identifiers.iter().map(AcmeIdentifier::stored).collect();
            let certificate = match given.text("certificate")?.as_str() {
                "" => None,
                text => Some(Fulfilled {
                    der: BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| damaged())?,
                    issuer: given.text("issuer")?,
                }),
            };
            Ok(Self {
                id: id.to_owned(),
                expires: given.whole("expires", 0)?,
                identifiers: identifiers.ok_or_else(damaged)?,
                authorizations: given.list("authorizations")?,
                certificate,
            })
        })
    }

    /// How it stands, by what its authorizations say.
    pub(super) fn status(&self, authorizations: &[AcmeAuthorization], now: i64) -> OrderStatus {
        if self.certificate.is_some() {
            return OrderStatus::Valid;
        }
        let is_whole = authorizations.len() == self.authorizations.len();
        let mut statuses = authorizations.iter().map(|one| one.status(now));
        let has_ended = statuses
            .clone()
            .any(|one| !matches!(one, AuthorizationStatus::Pending | AuthorizationStatus::Valid));
        if now >= self.expires || !is_whole || has_ended {
            return OrderStatus::Invalid;
        }
        match statuses.all(|one| one == AuthorizationStatus::Valid) {
            true => OrderStatus::Ready,
            false => OrderStatus::Pending,
        }
    }

    pub(super) fn url(&self, directory: &AcmeDirectory) -> String {
        directory.at(&format!("order/{}", self.id))
    }

    /// What is told of it.
    pub(super) fn reply(&self, acme: &AcmeCall<'_>, code: u16, status: OrderStatus) -> AcmeReply {
        let url = self.url(&acme.directory);
        let at = |id: &String| acme.directory.at(&format!("authorization/{id}"));
        let mut shown = object([
            ("status", status.name().into()),
            ("expires", write_time(self.expires).into()),
            (
                "identifiers",
                Json::Array(self.identifiers.iter().map(AcmeIdentifier::shown).collect()),
            ),
            ("authorizations", Json::strings(self.authorizations.iter().map(at))),
            ("finalize", format!("{url}/finalize").into()),
        ]);
        if status == OrderStatus::Valid {
            shown.insert("certificate".to_owned(), format!("{url}/cert").into());
        }
        AcmeReply::json(code, shown).at(url)
    }
}

/// How an authorization stands, or a challenge of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthorizationStatus {
    Pending,
    /// Of challenges alone.
    Processing,
    Valid,
    Invalid,
    /// Of authorizations alone.
    Deactivated,
    /// Of authorizations alone.
    Expired,
}

impl AuthorizationStatus {
    const ALL: [(&str, Self); 6] = [
        ("pending", Self::Pending),
        ("processing", Self::Processing),
        ("valid", Self::Valid),
        ("invalid", Self::Invalid),
        ("deactivated", Self::Deactivated),
        ("expired", Self::Expired),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, status)| *status == self).map_or("", |(name, _)| name)
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, status)| *status)
    }
}

/// What an account has to show for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AcmeAuthorization {
    pub(super) id: String,
    /// The name; a wildcard with its `*.`.
    pub(super) identifier: AcmeIdentifier,
    /// As it was stored; [`AcmeAuthorization::status`] knows the time.
    pub(super) stored: AuthorizationStatus,
    pub(super) expires: i64,
    pub(super) challenges: Vec<challenges::AcmeChallenge>,
}

pub(super) fn authorization_folder(account: &str) -> String {
    format!("acme/authz/{account}/")
}

pub(super) fn authorization_record(account: &str, id: &str) -> String {
    format!("acme/authz/{account}/{id}")
}

impl AcmeAuthorization {
    fn new(random: &dyn Random, identifier: AcmeIdentifier, now: i64) -> Result<Self, Error> {
        let mut challenges = Vec::new();
        for kind in challenges::kinds(&identifier) {
            let mut token = [0; TOKEN_BYTES];
            random.fill(&mut token)?;
            challenges.push(challenges::AcmeChallenge::new(*kind, BASE64URL_NOPAD.encode(&token)));
        }
        Ok(Self {
            id: IssuerId::make(random)?.to_string(),
            identifier,
            stored: AuthorizationStatus::Pending,
            expires: now + ORDER_SECS,
            challenges,
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let challenges = self.challenges.iter().map(challenges::AcmeChallenge::encode);
        Json::Object(object([
            ("identifier", self.identifier.shown()),
            ("status", self.stored.name().into()),
            ("expires", self.expires.into()),
            ("challenges", Json::Array(challenges.collect())),
        ]))
        .to_text()
    }

    pub(super) fn decode(id: &str, stored: &Stored) -> Result<Self, Error> {
        let damaged = || stored.damaged();
        stored.decode_object(|map| {
            let given = GivenFields::of(map);
            let Some(Json::Array(challenges)) = map.get("challenges") else {
                return Err(damaged());
            };
            let challenges = challenges.iter().map(challenges::AcmeChallenge::decode);
            Ok(Self {
                id: id.to_owned(),
                identifier: map
                    .get("identifier")
                    .and_then(AcmeIdentifier::stored)
                    .ok_or_else(damaged)?,
                stored: AuthorizationStatus::named(&given.text("status")?).ok_or_else(damaged)?,
                expires: given.whole("expires", 0)?,
                challenges: challenges.collect::<Option<_>>().ok_or_else(damaged)?,
            })
        })
    }

    /// The one of an account with this id.
    pub(super) fn find(
        storage: Storage<'_>,
        account: &str,
        id: &str,
    ) -> Result<Option<Self>, Error> {
        let Some(id) = IssuerId::parse(id) else { return Ok(None) };
        let id = id.to_string();
        let stored = storage.get(&authorization_record(account, &id))?;
        stored.map(|stored| Self::decode(&id, &stored)).transpose()
    }

    /// How it stands at a time.
    pub(super) fn status(&self, now: i64) -> AuthorizationStatus {
        match self.stored {
            AuthorizationStatus::Pending if now >= self.expires => AuthorizationStatus::Invalid,
            AuthorizationStatus::Valid if now >= self.expires => AuthorizationStatus::Expired,
            stored => stored,
        }
    }

    /// The name that is to be shown, without the `*.` of a wildcard.
    pub(super) fn base(&self) -> String {
        self.identifier.base()
    }

    /// What is told of it.
    pub(super) fn shown(&self, directory: &AcmeDirectory, now: i64) -> Map {
        let status = self.status(now);
        let challenges = self.challenges.iter().map(|challenge| {
            let mut challenge = challenge.clone();
            // Nobody looks at them any more (7.1.6).
            let has_ended =
                !matches!(status, AuthorizationStatus::Pending | AuthorizationStatus::Valid);
            if has_ended && challenge.status != AuthorizationStatus::Valid {
                challenge.status = AuthorizationStatus::Invalid;
            }
            Json::Object(challenge.shown(directory, &self.id))
        });
        let identifier =
            Json::object([("type", self.identifier.kind().into()), ("value", self.base().into())]);
        let mut shown = object([
            ("identifier", identifier),
            ("status", status.name().into()),
            ("expires", write_time(self.expires).into()),
            ("challenges", Json::Array(challenges.collect())),
        ]);
        // Of others it must not be said (7.1.4).
        if self.identifier.is_wildcard() {
            shown.insert("wildcard".to_owned(), true.into());
        }
        shown
    }
}

/// An order with its authorizations.
pub(super) fn load(
    acme: &AcmeCall<'_>,
    account: &str,
) -> Result<(AcmeOrder, Vec<AcmeAuthorization>), Failure> {
    let missing = || malformed("there is no such order").not_found();
    let id = IssuerId::parse(acme.call.params.get("id")).ok_or_else(missing)?.to_string();
    let stored = acme.call.storage.get(&record(account, &id))?.ok_or_else(missing)?;
    let order = AcmeOrder::decode(&id, &stored)?;
    let mut authorizations = Vec::new();
    for id in &order.authorizations {
        authorizations.extend(AcmeAuthorization::find(acme.call.storage, account, id)?);
    }
    Ok((order, authorizations))
}

/// Makes an order (7.4).
pub(super) async fn new(acme: &AcmeCall<'_>, signed: &SignedRequest) -> Result<AcmeReply, Failure> {
    let account = signed.account()?;
    let payload = signed.object()?;
    let given = match payload.get("identifiers") {
        Some(Json::Array(given)) if !given.is_empty() => given,
        None | Some(Json::Array(_)) => {
            return Err(malformed("missing required identifiers argument"));
        }
        Some(_) => return Err(malformed("the member \"identifiers\" is no list")),
    };
    if payload.contains_key("notBefore") || payload.contains_key("notAfter") {
        return Err(malformed("NotBefore and NotAfter are not supported"));
    }
    if given.len() > IDENTIFIERS_MAX {
        return Err(malformed(format!("more than {IDENTIFIERS_MAX} identifiers")));
    }
    let mut identifiers: Vec<AcmeIdentifier> = Vec::new();
    for one in given {
        let identifier = AcmeIdentifier::read(one)?;
        if !identifiers.contains(&identifier) {
            identifiers.push(identifier);
        }
    }
    check_names(acme, &acme.policy()?, &identifiers)?;
    let storage = acme.call.storage;
    if storage.list_some(&folder(&account.id), ORDERS_MAX).len() >= ORDERS_MAX {
        return Err(fail(Kind::RateLimited, "the account has too many orders"));
    }
    let (now, random) = (acme.now(), acme.call.random);
    let make =
        |identifier: &AcmeIdentifier| AcmeAuthorization::new(random, identifier.clone(), now);
    let authorizations: Vec<AcmeAuthorization> =
        identifiers.iter().map(make).collect::<Result<_, _>>()?;
    let order = AcmeOrder {
        id: IssuerId::make(random)?.to_string(),
        expires: now + ORDER_SECS,
        identifiers,
        authorizations: authorizations.iter().map(|one| one.id.clone()).collect(),
        certificate: None,
    };
    let name = record(&account.id, &order.id);
    storage
        .transact(&name, |transaction| {
            accounts::need_valid(transaction, &account.id)?;
            for one in &authorizations {
                transaction.put(&authorization_record(&account.id, &one.id), one.encode())?;
            }
            transaction.put(&name, order.encode())?;
            expiry::enter(transaction, &account.id, &order)
        })
        .await
        .map_err(accounts::ended)?;
    let status = order.status(&authorizations, now);
    Ok(order.reply(acme, 201, status))
}

/// Tells of an order.
pub(super) async fn read(
    acme: &AcmeCall<'_>,
    signed: &SignedRequest,
) -> Result<AcmeReply, Failure> {
    let account = signed.account()?;
    let (order, mut authorizations) = load(acme, &account.id)?;
    for one in &mut authorizations {
        challenges::advance(&acme.call.context, account, one).await?;
    }
    let status = order.status(&authorizations, acme.now());
    Ok(order.reply(acme, 200, status))
}

/// Lists the orders of an account (7.1.2.1).
pub(super) async fn list(
    acme: &AcmeCall<'_>,
    signed: &SignedRequest,
) -> Result<AcmeReply, Failure> {
    let account = accounts::own(acme, signed)?;
    let ids = acme.call.storage.list_some(&folder(&account.id), LISTED_MAX);
    let urls = ids.iter().map(|id| acme.directory.at(&format!("order/{id}")));
    Ok(AcmeReply::json(200, object([("orders", Json::strings(urls))])))
}

/// Tells of an authorization, or deactivates it (7.5, 7.5.2).
pub(super) async fn authorization(
    acme: &AcmeCall<'_>,
    signed: &SignedRequest,
) -> Result<AcmeReply, Failure> {
    let account = signed.account()?;
    let (storage, now) = (acme.call.storage, acme.now());
    let missing = || malformed("there is no such authorization").not_found();
    let found = AcmeAuthorization::find(storage, &account.id, acme.call.params.get("id"))?;
    let mut found = found.ok_or_else(missing)?;
    if signed.only_reads() {
        challenges::advance(&acme.call.context, account, &mut found).await?;
        return Ok(AcmeReply::json(200, found.shown(&acme.directory, now)));
    }
    let payload = signed.object()?;
    if payload.get("status").and_then(Json::as_str) != Some("deactivated") {
        return Err(malformed("an authorization's status becomes deactivated or nothing"));
    }
    let name = authorization_record(&account.id, &found.id);
    let changed = storage.transact(&name, |transaction| {
        let stored = transaction.get(&name)?.ok_or(Error::NotFound)?;
        let mut changed = AcmeAuthorization::decode(&found.id, &stored)?;
        if matches!(changed.status(now), AuthorizationStatus::Pending | AuthorizationStatus::Valid)
        {
            changed.stored = AuthorizationStatus::Deactivated;
            transaction.put(&name, changed.encode())?;
        }
        Ok(changed)
    });
    Ok(AcmeReply::json(200, changed.await?.shown(&acme.directory, now)))
}
