//! What a mount keeps decoded: its issuers with their keys, and its roles. Handlers read it instead of records.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use kallisto_api::Error;
use kallisto_api::Fields;
use kallisto_api::json;
use kallisto_engine::Memory;

use super::issuer::{IssuersConfig, SshIssuer};
use super::role::SshRole;

/// The record that says which issuer is the default, and that every change of issuers writes.
pub(super) const ISSUERS: &str = "config/issuers";
/// The record of the roles that are good for any address.
pub(super) const ZERO_ADDRESS: &str = "config/zeroaddress";

/// The decoded state of a mount.
#[derive(Default)]
pub(super) struct SshState {
    pub(super) issuers: BTreeMap<String, Arc<SshIssuer>>,
    pub(super) config: IssuersConfig,
    pub(super) roles: HashMap<String, Arc<SshRole>>,
    /// `None` where it was never said, or taken back.
    pub(super) zero_address: Option<Vec<String>>,
}

impl SshState {
    /// The issuer that a text names: its id, its name, or `default`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none.
    pub(super) fn issuer(&self, reference: &str) -> Result<Arc<SshIssuer>, Error> {
        let reference = reference.trim();
        if reference.eq_ignore_ascii_case("default") {
            let found = self.issuers.get(&self.config.default);
            return found
                .cloned()
                .ok_or_else(|| Error::invalid("no default issuer currently configured"));
        }
        let named = || self.issuers.values().find(|issuer| issuer.name == reference);
        let found = self.issuers.get(reference).or_else(named).filter(|_| !reference.is_empty());
        found.cloned().ok_or_else(|| {
            Error::invalid(format!("unable to find issuer for reference: {reference}"))
        })
    }

    /// Whether a role is good for any address.
    pub(super) fn is_zero_address(&self, role: &str) -> bool {
        self.zero_address.iter().flatten().any(|name| name == role)
    }
}

/// The decoded state, for readers and for the one who follows what is committed.
#[derive(Default)]
pub(super) struct SshMemory(RwLock<SshState>);

impl SshMemory {
    /// What is decoded. Not held while anything is waited for.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, SshState> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut SshState)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The names of a record of [`ZERO_ADDRESS`].
pub(super) fn decode_zero_address(value: &[u8]) -> Option<Vec<String>> {
    let map = json::parse_object(value).ok()?;
    Fields::new(&map).strings("roles").ok()?
}

impl Memory for SshMemory {
    fn put(&self, name: &str, value: &[u8]) -> bool {
        match name.split_once('/') {
            Some(("issuer", id)) => {
                let Some(issuer) = SshIssuer::decode(id, value) else { return false };
                self.change(|state| {
                    state.issuers.insert(id.to_owned(), Arc::new(issuer));
                });
            }
            Some(("role", role)) => {
                let Some(decoded) = SshRole::decode(value) else { return false };
                self.change(|state| {
                    state.roles.insert(role.to_owned(), Arc::new(decoded));
                });
            }
            _ if name == ISSUERS => {
                let Some(config) = IssuersConfig::decode(value) else { return false };
                self.change(|state| state.config = config);
            }
            _ if name == ZERO_ADDRESS => {
                let Some(roles) = decode_zero_address(value) else { return false };
                self.change(|state| state.zero_address = Some(roles));
            }
            _ => {}
        }
        true
    }

    fn remove(&self, name: &str) {
        self.change(|state| match name.split_once('/') {
            Some(("issuer", id)) => drop(state.issuers.remove(id)),
            Some(("role", role)) => drop(state.roles.remove(role)),
            _ if name == ISSUERS => state.config = IssuersConfig::default(),
            _ if name == ZERO_ADDRESS => state.zero_address = None,
            _ => {}
        });
    }
}
