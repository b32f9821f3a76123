//! What a mount keeps decoded: its issuers with their keys, roles and settings, and what is revoked.
//!
//! Handlers read it instead of records. What changes issuers and keys is decided in a transaction that writes [`GENERATION`], so that it is decided again
//! when another one was faster: see [`super::structure`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use kallisto_api::Error;
use kallisto_engine::Memory;
use kallisto_pki::Serial;
use kallisto_pki::certificate::Urls;

use super::acme::config::AcmeConfig;
use super::acme::nonces::{KEEPER, UsedNonces};
use super::config::{ClusterUrls, CrlConfig, Defaults};
use super::given::GivenFields;
use super::ids::{IssuerId, ListScope};
use super::issuer::{Issuer, PkiKey, UrlSettings};
use super::modified::{ModifiedAt, StructureModified};
use super::ocsp_cache::OcspCache;
use super::pool::KeyPool;
use super::revoked::{Lists, RevocationRecord, RevokedSet};
use super::role::PkiRole;
use super::structure::ChangedIssuers;

/// The record that every change of issuers and keys writes.
pub(super) const GENERATION: &str = "config/generation";
/// The record that says when they changed last.
pub(super) const MODIFIED: &str = "config/modified";
pub(super) const ISSUERS: &str = "config/issuers";
pub(super) const KEYS: &str = "config/keys";
pub(super) const URLS: &str = "config/urls";
pub(super) const CLUSTER: &str = "config/cluster";
pub(super) const CRL: &str = "config/crl";
pub(super) const ACME: &str = "config/acme";
pub(super) const AUTO_TIDY: &str = "config/auto-tidy";
pub(super) const TIDY: &str = "tidy/status";

/// One who signs.
#[derive(Default)]
pub(super) struct Signing {
    pub(super) lists: Lists,
    pub(super) revoked: RevokedSet,
}

/// A list that was made.
#[derive(Clone)]
pub(super) struct MadeList {
    /// Its number.
    pub(super) number: u64,
    /// When, in nanoseconds since 1970.
    pub(super) at_ns: i64,
    /// When it was decided on, in seconds since 1970, as it says.
    pub(super) this_update: i64,
    /// How many entries it has.
    pub(super) entries: usize,
    pub(super) der: Arc<Vec<u8>>,
}

/// The decoded state of a mount.
#[derive(Default)]
pub(super) struct PkiState {
    pub(super) issuers: BTreeMap<IssuerId, Arc<Issuer>>,
    pub(super) keys: BTreeMap<IssuerId, Arc<PkiKey>>,
    pub(super) issuer_defaults: Defaults,
    pub(super) key_defaults: Defaults,
    pub(super) roles: HashMap<String, Arc<PkiRole>>,
    pub(super) urls: UrlSettings,
    pub(super) cluster: ClusterUrls,
    pub(super) crl: CrlConfig,
    pub(super) signing: HashMap<ListScope, Signing>,
    pub(super) certificates: usize,
    /// Rises with every change that may change whose certificate an OCSP request asks for, who signs the answer, or whether an unrevoked certificate is
    /// good: of issuers, keys and settings, and when a certificate is deleted.
    pub(super) ocsp_revision: u64,
    /// How many changes of issuers and keys there were.
    generation: u64,
    modified: StructureModified,
    pub(super) acme: Arc<AcmeConfig>,
    pub(super) acme_accounts: usize,
    /// Which server keeps the nonces of ACME that were used.
    pub(super) nonce_keeper: String,
    issuers_by_name: HashMap<String, IssuerId>,
    issuers_by_scope: HashMap<ListScope, Vec<IssuerId>>,
    issuers_by_subject: HashMap<Vec<u8>, Vec<IssuerId>>,
    issuers_by_signer: HashMap<Vec<u8>, Vec<IssuerId>>,
    keys_by_name: HashMap<String, IssuerId>,
    keys_by_spki: HashMap<Vec<u8>, IssuerId>,
    /// Who signed whom, checked once.
    pub(super) parents: HashMap<IssuerId, Vec<IssuerId>>,
}

/// The decoded state, and the lists that were made of it.
#[derive(Default)]
pub(super) struct Pki {
    state: RwLock<PkiState>,
    pub(super) made: Mutex<HashMap<(ListScope, bool), MadeList>>,
    /// Signed answers of OCSP.
    pub(super) ocsp_answers: OcspCache,
    /// Nonces of ACME that were used.
    pub(super) used_nonces: UsedNonces,
    /// Keys that are made ahead.
    pub(super) pool: KeyPool,
    /// Where lists are being made.
    pub(super) making: Mutex<HashSet<(ListScope, bool)>>,
}

/// A list is being made. It ends with who makes it, who may leave before.
pub(super) struct Making<'a> {
    memory: &'a Pki,
    place: (ListScope, bool),
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.memory.making().remove(&self.place);
    }
}

fn unpoisoned<T>(guard: Result<T, PoisonError<T>>) -> T {
    guard.unwrap_or_else(PoisonError::into_inner)
}

impl Pki {
    /// What is decoded. Not held while anything is waited for.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, PkiState> {
        unpoisoned(self.state.read())
    }

    pub(super) fn made(&self) -> MutexGuard<'_, HashMap<(ListScope, bool), MadeList>> {
        unpoisoned(self.made.lock())
    }

    pub(super) fn making(&self) -> MutexGuard<'_, HashSet<(ListScope, bool)>> {
        unpoisoned(self.making.lock())
    }

    /// Says that a list is being made, for as long as what is returned is held.
    pub(super) fn begin(&self, place: (ListScope, bool)) -> Making<'_> {
        self.making().insert(place);
        Making { memory: self, place }
    }
}

impl Memory for Pki {
    fn put(&self, name: &str, value: &[u8]) -> bool {
        // Most records by far; only how many there are is kept of them.
        if name.starts_with("cert/") {
            unpoisoned(self.state.write()).certificates += 1;
            return true;
        }
        let Some(parsed) = ParsedRecord::of(name, value) else { return false };
        unpoisoned(self.state.write()).put(parsed);
        true
    }

    fn remove(&self, name: &str) {
        unpoisoned(self.state.write()).remove(name);
    }
}

/// A record, decoded before the state is locked.
enum ParsedRecord {
    Issuer(Box<Issuer>),
    Key(PkiKey),
    Role(String, Box<PkiRole>),
    Revoked(RevocationRecord),
    Lists(ListScope, Lists),
    Issuers(Defaults),
    Keys(Defaults),
    Generation(u64),
    Modified(StructureModified),
    Urls(UrlSettings),
    Cluster(ClusterUrls),
    Crl(CrlConfig),
    Acme(Box<AcmeConfig>),
    AcmeKey,
    NonceKeeper(String),
    Other,
}

impl ParsedRecord {
    /// Decodes a record; `None` when it is damaged.
    fn of(name: &str, value: &[u8]) -> Option<Self> {
        Some(match name.split_once('/') {
            Some(("issuer", _)) => Self::Issuer(Box::new(Issuer::decode(value)?)),
            Some(("key", _)) => Self::Key(PkiKey::decode(value)?),
            Some(("role", role)) => Self::Role(role.to_owned(), Box::new(PkiRole::decode(value)?)),
            Some(("revoked", serial)) => {
                Self::Revoked(RevocationRecord::decode(Serial::parse(serial)?, value)?)
            }
            Some(("crl", scope)) => Self::Lists(ListScope::parse(scope)?, Lists::decode(value)?),
            // One for each account, made and deleted with it, and never written over.
            Some(("acme", place)) if place.starts_with("key/") => Self::AcmeKey,
            _ => match name {
                ISSUERS => Self::Issuers(Defaults::decode(value)?),
                KEYS => Self::Keys(Defaults::decode(value)?),
                GENERATION => Self::Generation(u64::from_be_bytes(value.try_into().ok()?)),
                MODIFIED => Self::Modified(StructureModified::decode(value)?),
                URLS => Self::Urls(decode_urls(value)?),
                CLUSTER => Self::Cluster(ClusterUrls::decode(value)?),
                CRL => Self::Crl(CrlConfig::decode(value)?),
                ACME => Self::Acme(Box::new(AcmeConfig::decode(value)?)),
                KEEPER => Self::NonceKeeper(String::from_utf8(value.to_vec()).ok()?),
                _ => Self::Other,
            },
        })
    }
}

/// Whether a text stands for the issuer or key that is the default, in upper or lower case.
pub(super) const fn is_default(reference: &str) -> bool {
    reference.eq_ignore_ascii_case("default")
}

pub(super) fn decode_urls(value: &[u8]) -> Option<UrlSettings> {
    let map = kallisto_api::json::parse_object(value).ok()?;
    let mut urls = UrlSettings::default();
    urls.update(GivenFields::of(&map), "enable_templating").ok()?;
    Some(urls)
}

impl PkiState {
    /// When issuers, keys or which of them are the defaults changed last, in seconds since 1970; `None` where nobody knows. No two states that anyone saw
    /// have the same.
    pub(super) fn structure_modified(&self) -> ModifiedAt {
        (self.modified.generation == self.generation).then_some(self.modified.at)
    }

    fn put(&mut self, parsed: ParsedRecord) {
        if self.changes_ocsp(&parsed) {
            self.ocsp_revision += 1;
        }
        match parsed {
            ParsedRecord::Issuer(issuer) => self.put_issuer(*issuer),
            ParsedRecord::Key(key) => {
                self.remove_key(key.id);
                if !key.name.is_empty() {
                    self.keys_by_name.insert(key.name.clone(), key.id);
                }
                self.keys_by_spki.insert(key.private.spki().to_vec(), key.id);
                self.keys.insert(key.id, Arc::new(key));
            }
            ParsedRecord::Role(name, role) => {
                self.roles.insert(name, Arc::new(*role));
            }
            ParsedRecord::Revoked(record) => {
                self.signing.entry(record.scope).or_default().revoked.put(record.revoked);
            }
            ParsedRecord::Lists(scope, lists) => {
                self.signing.entry(scope).or_default().lists = lists
            }
            ParsedRecord::Issuers(defaults) => self.issuer_defaults = defaults,
            ParsedRecord::Keys(defaults) => self.key_defaults = defaults,
            ParsedRecord::Generation(generation) => self.generation = generation,
            ParsedRecord::Modified(modified) => self.modified = modified,
            ParsedRecord::Urls(urls) => self.urls = urls,
            ParsedRecord::Cluster(cluster) => self.cluster = cluster,
            ParsedRecord::Crl(config) => self.crl = config,
            ParsedRecord::Acme(config) => self.acme = Arc::new(*config),
            ParsedRecord::AcmeKey => self.acme_accounts += 1,
            ParsedRecord::NonceKeeper(keeper) => self.nonce_keeper = keeper,
            ParsedRecord::Other => {}
        }
    }

    /// Whether a record changes what [`PkiState::ocsp_revision`] is about.
    fn changes_ocsp(&self, parsed: &ParsedRecord) -> bool {
        match parsed {
            ParsedRecord::Issuer(_)
            | ParsedRecord::Key(_)
            | ParsedRecord::Issuers(_)
            | ParsedRecord::Keys(_)
            | ParsedRecord::Crl(_) => true,
            // A revocation is looked up by who answers. The first one makes that issued certificates are looked up.
            ParsedRecord::Revoked(record) => !self.signing.contains_key(&record.scope),
            ParsedRecord::Lists(scope, lists) => {
                let known = self.signing.get(scope);
                known.is_none_or(|known| known.lists.has_unstored != lists.has_unstored)
            }
            ParsedRecord::Role(..)
            | ParsedRecord::Generation(_)
            | ParsedRecord::Modified(_)
            | ParsedRecord::Urls(_)
            | ParsedRecord::Cluster(_)
            | ParsedRecord::Acme(_)
            | ParsedRecord::AcmeKey
            | ParsedRecord::NonceKeeper(_)
            | ParsedRecord::Other => false,
        }
    }

    fn remove(&mut self, name: &str) {
        self.ocsp_revision += 1;
        match name.split_once('/') {
            Some(("cert", _)) => self.certificates = self.certificates.saturating_sub(1),
            Some(("issuer", id)) => {
                if let Some(id) = IssuerId::parse(id) {
                    self.remove_issuer(id);
                }
            }
            Some(("key", id)) => {
                if let Some(id) = IssuerId::parse(id) {
                    self.remove_key(id);
                }
            }
            Some(("role", role)) => {
                self.roles.remove(role);
            }
            Some(("revoked", serial)) => {
                if let Some(serial) = Serial::parse(serial) {
                    for signing in self.signing.values_mut() {
                        signing.revoked.remove(&serial);
                    }
                }
            }
            Some(("crl", scope)) => {
                if let Some(scope) = ListScope::parse(scope) {
                    self.signing.remove(&scope);
                }
            }
            _ => match name {
                ISSUERS => self.issuer_defaults = Defaults::default(),
                KEYS => self.key_defaults = Defaults::default(),
                GENERATION => self.generation = 0,
                MODIFIED => self.modified = StructureModified::default(),
                URLS => self.urls = UrlSettings::default(),
                CLUSTER => self.cluster = ClusterUrls::default(),
                CRL => self.crl = CrlConfig::default(),
                ACME => self.acme = Arc::default(),
                KEEPER => self.nonce_keeper.clear(),
                _ if name.starts_with("acme/key/") => {
                    self.acme_accounts = self.acme_accounts.saturating_sub(1);
                }
                _ => {}
            },
        }
    }

    fn put_issuer(&mut self, issuer: Issuer) {
        let known = self.issuers.get(&issuer.id);
        let is_same = known.is_some_and(|known| known.certificate == issuer.certificate);
        if is_same {
            self.forget_issuer_name(issuer.id);
        } else {
            self.remove_issuer(issuer.id);
            self.link(&issuer);
        }
        if !issuer.name.is_empty() {
            self.issuers_by_name.insert(issuer.name.clone(), issuer.id);
        }
        self.issuers.insert(issuer.id, Arc::new(issuer));
    }

    /// Finds who signed it, and whom it signed, among those that there are.
    fn link(&mut self, issuer: &Issuer) {
        let certificate = &issuer.certificate;
        let named = |map: &HashMap<Vec<u8>, Vec<IssuerId>>, name: &[u8]| {
            map.get(name).cloned().unwrap_or_default()
        };
        let mut parents = Vec::new();
        for id in named(&self.issuers_by_subject, &certificate.issuer) {
            if let Some(parent) = self.issuers.get(&id)
                && certificate.names_as_issuer(&parent.certificate)
                && certificate.is_signed_by(&parent.certificate.public)
            {
                parents.push(id);
            }
        }
        for id in named(&self.issuers_by_signer, &certificate.subject) {
            if let Some(child) = self.issuers.get(&id)
                && child.certificate.names_as_issuer(certificate)
                && child.certificate.is_signed_by(&certificate.public)
            {
                self.parents.entry(id).or_default().push(issuer.id);
            }
        }
        if certificate.is_self_signed() {
            parents.push(issuer.id);
        }
        self.parents.insert(issuer.id, parents);
        self.issuers_by_subject.entry(certificate.subject.clone()).or_default().push(issuer.id);
        self.issuers_by_signer.entry(certificate.issuer.clone()).or_default().push(issuer.id);
        let in_scope = self.issuers_by_scope.entry(issuer.scope).or_default();
        in_scope.insert(in_scope.partition_point(|id| *id < issuer.id), issuer.id);
    }

    fn remove_issuer(&mut self, id: IssuerId) {
        self.forget_issuer_name(id);
        let Some(issuer) = self.issuers.remove(&id) else { return };
        let leave = |map: &mut HashMap<Vec<u8>, Vec<IssuerId>>, name: &[u8]| {
            if let Some(ids) = map.get_mut(name) {
                ids.retain(|known| *known != id);
            }
        };
        for child in self.issuers_by_signer.get(&issuer.certificate.subject).into_iter().flatten() {
            if let Some(parents) = self.parents.get_mut(child) {
                parents.retain(|parent| *parent != id);
            }
        }
        leave(&mut self.issuers_by_subject, &issuer.certificate.subject);
        leave(&mut self.issuers_by_signer, &issuer.certificate.issuer);
        if let Some(ids) = self.issuers_by_scope.get_mut(&issuer.scope) {
            ids.retain(|known| *known != id);
        }
        self.parents.remove(&id);
    }

    /// Takes the name from an issuer, unless another one has it already: the records of a change come in any order.
    fn forget_issuer_name(&mut self, id: IssuerId) {
        if let Some(issuer) = self.issuers.get(&id)
            && self.issuers_by_name.get(&issuer.name) == Some(&id)
        {
            self.issuers_by_name.remove(&issuer.name);
        }
    }

    fn remove_key(&mut self, id: IssuerId) {
        if let Some(key) = self.keys.remove(&id) {
            if self.keys_by_name.get(&key.name) == Some(&id) {
                self.keys_by_name.remove(&key.name);
            }
            self.keys_by_spki.remove(key.private.spki());
        }
    }

    /// The issuer that a text names: by id, by name, or `default`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none.
    pub(super) fn issuer(&self, reference: &str) -> Result<Arc<Issuer>, Error> {
        let id = match self.issuers_by_name.get(reference) {
            Some(id) => Some(*id),
            None if is_default(reference) => {
                let default = self.issuer_defaults.default;
                Some(
                    default
                        .ok_or_else(|| Error::invalid("no default issuer currently configured"))?,
                )
            }
            None => IssuerId::parse(reference),
        };
        let found = id.and_then(|id| self.issuers.get(&id)).cloned();
        found.ok_or_else(|| {
            Error::invalid(format!("unable to find PKI issuer for reference: {reference}"))
        })
    }

    /// The key that a text names: by id, by name, or `default`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none.
    pub(super) fn key(&self, reference: &str) -> Result<Arc<PkiKey>, Error> {
        let id = match self.keys_by_name.get(reference) {
            Some(id) => Some(*id),
            None if is_default(reference) => {
                let default = self.key_defaults.default;
                Some(default.ok_or_else(|| Error::invalid("no default key currently configured"))?)
            }
            None => IssuerId::parse(reference),
        };
        let found = id.and_then(|id| self.keys.get(&id)).cloned();
        found.ok_or_else(|| {
            Error::invalid(format!("unable to find PKI key for reference: {reference}"))
        })
    }

    /// The key with this public half.
    pub(super) fn key_of(&self, spki: &[u8]) -> Option<Arc<PkiKey>> {
        self.keys_by_spki.get(spki).and_then(|id| self.keys.get(id)).cloned()
    }

    pub(super) fn has_issuer_name(&self, name: &str) -> bool {
        self.issuers_by_name.contains_key(name)
    }

    pub(super) fn has_key_name(&self, name: &str) -> bool {
        self.keys_by_name.contains_key(name)
    }

    /// The issuers of a certificate's subject name and key, by their ids: every server finds the same one first.
    pub(super) fn issuers_of(&self, scope: ListScope) -> impl Iterator<Item = &Arc<Issuer>> {
        let ids = self.issuers_by_scope.get(&scope).into_iter().flatten();
        ids.filter_map(|id| self.issuers.get(id))
    }

    /// How many certificates there are, and how many revocations.
    pub(super) fn counts(&self) -> (usize, usize) {
        let revoked = self.signing.values().map(|signing| signing.revoked.len()).sum();
        (self.certificates, revoked)
    }

    /// Everybody who signs lists here.
    pub(super) fn scopes(&self) -> Vec<ListScope> {
        let with_keys = self.issuers_by_scope.keys().copied();
        with_keys.filter(|scope| self.crl_signer(*scope).is_some()).collect()
    }

    /// Those who have keys and may sign no lists, by who signs together.
    pub(super) fn without_lists(&self) -> impl Iterator<Item = (ListScope, Vec<IssuerId>)> {
        self.issuers_by_scope.iter().filter_map(|(scope, ids)| {
            let has_key =
                |id: &&IssuerId| self.issuers.get(*id).is_some_and(|one| one.key.is_some());
            let ids: Vec<IssuerId> = ids.iter().filter(has_key).copied().collect();
            (!ids.is_empty() && self.crl_signer(*scope).is_none()).then_some((*scope, ids))
        })
    }

    /// The issuers of a name.
    pub(super) fn issuers_named(&self, subject: &[u8]) -> impl Iterator<Item = &Arc<Issuer>> {
        let ids = self.issuers_by_subject.get(subject).into_iter().flatten();
        ids.filter_map(|id| self.issuers.get(id))
    }

    /// Who signs for a scope: an issuer with a key that may.
    pub(super) fn crl_signer(&self, scope: ListScope) -> Option<(Arc<Issuer>, Arc<PkiKey>)> {
        self.signer(scope, Issuer::signs_lists)
    }

    /// Who will sign for a scope once issuers are `changed`, whose keys there are by then.
    pub(super) fn crl_signer_with<'a>(
        &'a self,
        scope: ListScope,
        changed: &'a ChangedIssuers,
    ) -> Option<&'a Issuer> {
        let known = self.issuers_of(scope).map(Arc::as_ref);
        let kept = known.filter(|issuer| !changed.contains_key(&issuer.id));
        let new = changed.values().flatten().filter(|issuer| issuer.scope == scope);
        let may = |issuer: &&Issuer| issuer.key.is_some() && issuer.signs_lists();
        kept.chain(new).filter(may).min_by_key(|issuer| issuer.id)
    }

    /// Who signed the latest list of a scope, though it may sign no other one by now.
    pub(super) fn latest_crl_signer(&self, scope: ListScope) -> Option<(Arc<Issuer>, Arc<PkiKey>)> {
        let once = || self.signer(scope, |issuer| issuer.certificate.may_sign_crls());
        self.crl_signer(scope).or_else(once)
    }

    /// Who signs answers of OCSP for a scope.
    pub(super) fn ocsp_signer(&self, scope: ListScope) -> Option<(Arc<Issuer>, Arc<PkiKey>)> {
        self.signer(scope, |issuer| issuer.usage.signs_ocsp)
    }

    fn signer(
        &self,
        scope: ListScope,
        may: impl Fn(&Issuer) -> bool,
    ) -> Option<(Arc<Issuer>, Arc<PkiKey>)> {
        self.issuers_of(scope).find_map(|issuer| {
            let key = issuer.key.and_then(|id| self.keys.get(&id))?;
            may(issuer).then(|| (Arc::clone(issuer), Arc::clone(key)))
        })
    }

    /// The URLs that count for an issuer: its own ones, or else those of the mount.
    pub(super) fn url_settings<'a>(&'a self, own: &'a UrlSettings) -> &'a UrlSettings {
        if own.is_empty() { &self.urls } else { own }
    }

    /// Where more is to be found about what an issuer signs.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a template needs what is not set.
    pub(super) fn urls_of(&self, issuer: IssuerId, own: &UrlSettings) -> Result<Urls, Error> {
        let settings = self.url_settings(own);
        if !settings.are_templates {
            return Ok(settings.urls.clone());
        }
        let filled = |urls: &Vec<String>| {
            urls.iter().map(|url| self.cluster.fill(url, issuer)).collect::<Result<Vec<_>, _>>()
        };
        let urls = &settings.urls;
        Ok(Urls {
            issuing_certificates: filled(&urls.issuing_certificates)?,
            crl_distribution_points: filled(&urls.crl_distribution_points)?,
            delta_crl_distribution_points: filled(&urls.delta_crl_distribution_points)?,
            ocsp_servers: filled(&urls.ocsp_servers)?,
        })
    }
}
