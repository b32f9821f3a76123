//! Changing issuers and keys.

use std::collections::BTreeMap;

use kallisto_api::Error;
use kallisto_engine::{Call, Transaction};
use kallisto_pki::certificate::ParsedCertificate;

use super::config::Defaults;
use super::ids::{IssuerId, ListScope};
use super::issuer::{Issuer, PkiKey};
use super::memory::{GENERATION, ISSUERS, KEYS, MODIFIED, Pki, PkiState, is_default};
use super::modified::StructureModified;
use super::revoked::{
    Lists, StoredCertificate, certificate_record, issuer_record, key_record, lists_record,
};

/// What changes of issuers and keys. Reads what was decoded, and what was changed before.
pub(super) struct StructureChange<'a, 't> {
    pub(super) state: &'a PkiState,
    transaction: &'a mut Transaction<'t>,
    issuers: Defaults,
    keys: Defaults,
    made: BTreeMap<ListScope, ()>,
    now: i64,
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
            made: BTreeMap::new(),
            now,
        };
        let decided = decide(&mut change)?;
        let (issuers, keys) = (change.issuers, change.keys);
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

/// Writes which issuer of a scope was deleted last: answers about what it signed go on naming it.
pub(super) fn note_last_issuer(
    transaction: &mut Transaction<'_>,
    scope: ListScope,
    id: IssuerId,
) -> Result<(), Error> {
    let name = lists_record(scope);
    let Some(record) = transaction.get(&name)? else { return Ok(()) };
    let lists = Lists { last_issuer: Some(id), ..record.decode(Lists::decode)? };
    transaction.put(&name, lists.encode())
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

    /// Takes in a new issuer, with the first of its lists if there are none.
    pub(super) fn put_new_issuer(&mut self, issuer: &Issuer) -> Result<(), Error> {
        self.put_issuer(issuer)?;
        if issuer.key.is_some() && (self.issuers.default.is_none() || self.issuers.follows_latest) {
            self.issuers.default = Some(issuer.id);
        }
        let known = self.state.signing.get(&issuer.scope);
        let has_lists = known.is_some_and(|signing| signing.lists.number > 0);
        if !has_lists && self.made.insert(issuer.scope, ()).is_none() {
            let lists = known.map(|signing| signing.lists.clone()).unwrap_or_default();
            let lists = lists.with_complete(self.now);
            self.transaction.put(&lists_record(issuer.scope), lists.encode())?;
        }
        Ok(())
    }

    /// Replaces an issuer.
    pub(super) fn put_issuer(&mut self, issuer: &Issuer) -> Result<(), Error> {
        self.transaction.put(&issuer_record(issuer.id), issuer.encode())
    }

    /// Lets there be new lists of who signs in a scope.
    pub(super) fn renew_lists(&mut self, scope: ListScope) -> Result<(), Error> {
        let name = lists_record(scope);
        if let Some(record) = self.transaction.get(&name)? {
            let lists = record.decode(Lists::decode)?.with_complete(self.now);
            self.transaction.put(&name, lists.encode())?;
        }
        Ok(())
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

    /// Writes that what signed in a scope elsewhere is not known here.
    pub(super) fn delete_issuer(&mut self, id: IssuerId) -> Result<(), Error> {
        if self.issuers.default == Some(id) {
            self.issuers.default = None;
        }
        if let Some(issuer) = self.state.issuers.get(&id) {
            note_last_issuer(self.transaction, issuer.scope, id)?;
        }
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
