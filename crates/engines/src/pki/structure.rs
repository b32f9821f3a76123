//! Changing issuers and keys.

use std::collections::{BTreeMap, BTreeSet};

use kallisto_api::Error;
use kallisto_engine::{Call, Transaction};
use kallisto_pki::SignatureAlgorithm;
use kallisto_pki::certificate::ParsedCertificate;

use super::config::Defaults;
use super::ids::{IssuerId, ListScope};
use super::issuer::{Issuer, PkiKey, UrlSettings};
use super::memory::{GENERATION, ISSUERS, KEYS, MODIFIED, Pki, PkiState, is_default};
use super::modified::StructureModified;
use super::revoked::{
    Lists, StoredCertificate, certificate_record, issuer_record, key_record, lists_record,
};

/// The issuers that a change puts, and those that it deletes, which are `None`.
pub(super) type ChangedIssuers = BTreeMap<IssuerId, Option<Issuer>>;

/// What changes of issuers and keys. Reads what was decoded, and what was changed before.
pub(super) struct StructureChange<'a, 't> {
    pub(super) state: &'a PkiState,
    transaction: &'a mut Transaction<'t>,
    issuers: Defaults,
    keys: Defaults,
    changed: ChangedIssuers,
}

/// Changes issuers and keys, as `decide` wants it of what there is; it decides again when another change was faster.
///
/// # Errors
/// What `decide` says, and what the store says.
pub(super) async fn change<T: Send>(
    call: &Call<'_>,
    mut decide: impl FnMut(&mut StructureChange<'_, '_>) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let memory: &Pki = call.memory()?;
    let now = call.now.as_second();
    let decided = call.storage.transact(GENERATION, |transaction| {
        // Read before what is decoded: that is as of this generation or later, and if later, this does not commit.
        let generation = generation(transaction)?;
        let state = memory.read();
        let (issuers, keys) = (state.issuer_defaults.clone(), state.key_defaults.clone());
        let mut change = StructureChange {
            state: &state,
            transaction,
            issuers,
            keys,
            changed: ChangedIssuers::new(),
        };
        let decided = decide(&mut change)?;
        let StructureChange { issuers, keys, changed, .. } = change;
        put_lists(transaction, &state, &changed, now)?;
        if issuers != state.issuer_defaults {
            transaction.put(ISSUERS, issuers.encode())?;
        }
        if keys != state.key_defaults {
            transaction.put(KEYS, keys.encode())?;
        }
        put_generation(transaction, generation + 1, now)?;
        Ok(decided)
    });
    decided.await
}

/// Writes that issuers and keys changed, for whoever decides on them at the same time.
pub(super) fn note_change(transaction: &mut Transaction<'_>, now: i64) -> Result<(), Error> {
    let generation = generation(transaction)?;
    put_generation(transaction, generation + 1, now)
}

/// Writes what changed issuers mean for the lists of their scopes: new issuers have a first list; a list of a number is signed in one way, so where another
/// issuer signs from now on, or signs otherwise, there is a new one; and answers about what a deleted issuer signed go on naming it.
pub(super) fn put_lists(
    transaction: &mut Transaction<'_>,
    state: &PkiState,
    changed: &ChangedIssuers,
    now: i64,
) -> Result<(), Error> {
    let scope_of = |(id, new): (&IssuerId, &Option<Issuer>)| match new {
        Some(new) => Some(new.scope),
        None => state.issuers.get(id).map(|known| known.scope),
    };
    let unchanged = ChangedIssuers::new();
    let scopes: BTreeSet<ListScope> = changed.iter().filter_map(scope_of).collect();
    for scope in scopes {
        let in_scope = || changed.iter().filter(|one| scope_of(*one) == Some(scope));
        let deleted = in_scope().rfind(|(_, new)| new.is_none()).map(|(id, _)| *id);
        let has_new = in_scope().any(|(id, _)| !state.issuers.contains_key(id));
        let before = state.crl_signer_with(scope, &unchanged);
        let signs_otherwise = state.crl_signer_with(scope, changed).is_some_and(|after| {
            before.is_none_or(|before| crl_settings(state, before) != crl_settings(state, after))
        });
        if !has_new && !signs_otherwise && deleted.is_none() {
            continue;
        }
        let name = lists_record(scope);
        let known = match transaction.get(&name)? {
            Some(record) => record.decode(Lists::decode)?,
            None if has_new => Lists::default(),
            None => continue,
        };
        let is_renewed = signs_otherwise || (has_new && known.number == 0);
        let mut lists = if is_renewed { known.with_complete(now) } else { known.clone() };
        lists.last_issuer = deleted.or(lists.last_issuer);
        if lists != known {
            transaction.put(&name, lists.encode())?;
        }
    }
    Ok(())
}

/// What the revocation lists that an issuer signs say besides revocations.
fn crl_settings<'a>(
    state: &'a PkiState,
    issuer: &'a Issuer,
) -> (IssuerId, Option<SignatureAlgorithm>, &'a [String], bool) {
    let UrlSettings { urls, are_templates } = state.url_settings(&issuer.urls);
    let deltas = &urls.delta_crl_distribution_points[..];
    (issuer.id, issuer.crl_algorithm, deltas, *are_templates)
}

/// Writes that there is a new generation, since `now` or, where the one before is as young or of a clock that was ahead, since a second after that.
fn put_generation(
    transaction: &mut Transaction<'_>,
    generation: u64,
    now: i64,
) -> Result<(), Error> {
    let known = transaction.get(MODIFIED)?;
    let known = known.and_then(|record| StructureModified::decode(&record.value));
    let at = known.map_or(now, |known| now.max(known.at.saturating_add(1)));
    transaction.put(MODIFIED, StructureModified { generation, at }.encode())?;
    transaction.put(GENERATION, generation.to_be_bytes().to_vec())
}

fn generation(transaction: &mut Transaction<'_>) -> Result<u64, Error> {
    let Some(record) = transaction.get(GENERATION)? else { return Ok(0) };
    record.decode(|bytes| bytes.try_into().ok().map(u64::from_be_bytes))
}

impl StructureChange<'_, '_> {
    /// Takes in a key.
    pub(super) fn put_key(&mut self, key: &PkiKey) -> Result<(), Error> {
        self.transaction.put(&key_record(key.id), key.encode())?;
        if self.keys.default.is_none() {
            self.keys.default = Some(key.id);
        }
        Ok(())
    }

    /// Takes in a new issuer.
    pub(super) fn put_new_issuer(&mut self, issuer: &Issuer) -> Result<(), Error> {
        self.put_issuer(issuer)?;
        if issuer.key.is_some() && (self.issuers.default.is_none() || self.issuers.follows_latest) {
            self.issuers.default = Some(issuer.id);
        }
        Ok(())
    }

    /// Replaces an issuer.
    pub(super) fn put_issuer(&mut self, issuer: &Issuer) -> Result<(), Error> {
        self.changed.insert(issuer.id, Some(issuer.clone()));
        self.transaction.put(&issuer_record(issuer.id), issuer.encode())
    }

    /// Stores a certificate, if it is not stored.
    pub(super) fn put_certificate(
        &mut self,
        certificate: &ParsedCertificate,
        scope: ListScope,
    ) -> Result<(), Error> {
        let name = certificate_record(&certificate.serial);
        if self.transaction.get(&name)?.is_none() {
            let not_after = certificate.not_after;
            let stored = StoredCertificate { scope, not_after, der: &certificate.der };
            self.transaction.put(&name, stored.encode())?;
        }
        Ok(())
    }

    pub(super) fn delete_issuer(&mut self, id: IssuerId) -> Result<(), Error> {
        if self.issuers.default == Some(id) {
            self.issuers.default = None;
        }
        self.changed.insert(id, None);
        self.transaction.delete(&issuer_record(id))
    }

    pub(super) fn delete_key(&mut self, id: IssuerId) -> Result<(), Error> {
        if self.keys.default == Some(id) {
            self.keys.default = None;
        }
        self.transaction.delete(&key_record(id))
    }

    pub(super) const fn issuer_defaults(&mut self) -> &mut Defaults {
        &mut self.issuers
    }

    pub(super) const fn key_defaults(&mut self) -> &mut Defaults {
        &mut self.keys
    }

    /// The name of a new issuer, checked.
    pub(super) fn check_issuer_name(&self, name: &str, own: Option<IssuerId>) -> Result<(), Error> {
        check_name(name, "issuer")?;
        let taken = self.state.has_issuer_name(name)
            && self.state.issuer(name).is_ok_and(|found| Some(found.id) != own);
        if taken { Err(Error::invalid("issuer name already in use")) } else { Ok(()) }
    }

    /// The name of a new key, checked.
    pub(super) fn check_key_name(&self, name: &str, own: Option<IssuerId>) -> Result<(), Error> {
        check_name(name, "key")?;
        let taken = self.state.has_key_name(name)
            && self.state.key(name).is_ok_and(|found| Some(found.id) != own);
        if taken { Err(Error::invalid("key name already in use")) } else { Ok(()) }
    }
}

fn check_name(name: &str, what: &str) -> Result<(), Error> {
    if is_default(name) {
        return Err(Error::invalid(format!(
            "reserved keyword 'default' can not be used as {what} name"
        )));
    }
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let has_dot_outside = name.starts_with('.') || name.ends_with('.');
    if name.len() > 128 || has_dot_outside || !name.bytes().all(is_word) {
        return Err(Error::invalid(format!(
            "{what} name contained invalid characters: it has letters, digits, `_`, `-`, and `.` \
             inside"
        )));
    }
    if IssuerId::parse(name).is_some() {
        return Err(Error::invalid(format!("an id can not be used as {what} name")));
    }
    Ok(())
}
