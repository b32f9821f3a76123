//! Initialisation: an empty store gets keys, a cluster, a root token and its first mounts, all in
//! one batch.

use crate::records::engine_kind::BuiltinKind;
use crate::records::engine_kind::KvState;
use crate::records::token::TOKEN_BYTES_MAX;
use crate::records::token::make_root;
use crate::records::token::make_text;
use data_encoding::{BASE64, HEXLOWER};
use jiff::Timestamp;
use kallisto_barrier::{Keyring, RootKey, UnsealKey};
use kallisto_store::{Batch, Seqno};
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use crate::api::error::Error;
use crate::api::json::Map;
use crate::random;
use crate::records::engine_kind::EngineKind;
use crate::records::mount::{MountConfig, MountEntry};
use crate::state::Core;
use crate::state::seal::config::{SealConfig, SealScheme};
use crate::state::versions::Installed;
use crate::storage::barrier_store::seal_batch;
use crate::storage::cluster_identity::{ClusterIdentity, TokenKey};
use crate::storage::keys::{self, MountId};

/// Shares of a key, each as people get it.
type KeyShares = Vec<Zeroizing<Vec<u8>>>;

/// How to initialise.
pub struct InitSpec {
    /// Shares to make.
    pub shares: u8,
    /// Shares that are enough.
    pub threshold: u8,
    /// The text of the root token; drawn when absent.
    pub root_token: Option<SecretString>,
    /// What is mounted at `secret/`, if anything is: a dev server has that.
    pub mount_kv: Option<KvVersion>,
}

/// What follows the initialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetUp {
    Nothing,
    /// Requests that set the server up.
    Requests,
}

/// The two engines for key-value secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvVersion {
    /// Without versions.
    V1,
    /// With versions.
    V2,
}

/// What initialisation hands out, once.
pub struct Initialized {
    /// The shares of the unseal key; none with auto-unseal.
    pub keys: KeyShares,
    /// The shares of the recovery key; none without auto-unseal.
    pub recovery_keys: KeyShares,
    /// The root token.
    pub root_token: SecretString,
}

impl Initialized {
    /// Shares as hexadecimal text.
    pub fn hex(shares: &[Zeroizing<Vec<u8>>]) -> Vec<String> {
        shares.iter().map(|share| HEXLOWER.encode(share)).collect()
    }

    /// Shares as base64 text.
    pub fn base64(shares: &[Zeroizing<Vec<u8>>]) -> Vec<String> {
        shares.iter().map(|share| BASE64.encode(share)).collect()
    }
}

impl InitSpec {
    /// Refuses numbers of shares that make no scheme.
    ///
    /// # Errors
    /// [`Error::Invalid`] in the words of the contract.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_scheme(self.shares, self.threshold)
    }
}

/// Refuses numbers of shares that make no scheme.
pub(super) fn check_scheme(shares: u8, threshold: u8) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::invalid(format!("invalid seal configuration: {why}")));
    match (shares, threshold) {
        (0, _) => refuse("shares must be at least one"),
        (_, 0) => refuse("threshold must be at least one"),
        (shares, threshold) if threshold > shares => {
            refuse("threshold cannot be larger than shares")
        }
        (2.., 1) => refuse("threshold must be greater than one for multiple shares"),
        _ => Ok(()),
    }
}

/// Splits a key; a scheme of one share is the key itself.
pub(super) fn split(key: &UnsealKey, shares: u8, threshold: u8) -> Result<KeyShares, Error> {
    if shares == 1 {
        return Ok(vec![Zeroizing::new(key.expose().to_vec())]);
    }
    let split = key.split(shares, threshold).map_err(unavailable)?;
    Ok(split.iter().map(|share| Zeroizing::new(share.expose().to_vec())).collect())
}

pub(super) fn unavailable(error: kallisto_barrier::Error) -> Error {
    Error::Unavailable(error.to_string())
}

impl Core {
    /// Initialises an empty store. It stays sealed, unless the seal opens by itself.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is initialised already or the specification is wrong,
    /// [`Error::Unavailable`] when randomness, the auto-seal or the store fail.
    pub async fn initialize(&self, spec: &InitSpec, now: Timestamp) -> Result<Initialized, Error> {
        self.initialize_before(SetUp::Nothing, spec, now, Ok).await
    }

    /// The same where what is handed out is made into another form first, by `encrypt`. If that fails, nothing was done.
    ///
    /// # Errors
    /// What [`Core::initialize`] and `encrypt` say.
    pub(crate) async fn initialize_encrypted(
        &self,
        spec: &InitSpec,
        now: Timestamp,
        encrypt: impl FnOnce(Initialized) -> Result<Initialized, Error>,
    ) -> Result<Initialized, Error> {
        self.initialize_before(SetUp::Nothing, spec, now, encrypt).await
    }

    async fn initialize_before(
        &self,
        set_up: SetUp,
        spec: &InitSpec,
        now: Timestamp,
        encrypt: impl FnOnce(Initialized) -> Result<Initialized, Error>,
    ) -> Result<Initialized, Error> {
        let _turn = self.seal.turn().await;
        if self.seal_config()?.is_some() {
            return Err(Error::invalid("Vault is already initialized"));
        }
        spec.check()?;
        let root_token = match &spec.root_token {
            Some(text) => text.clone(),
            None => make_text()?,
        };
        check_token_text(root_token.expose_secret())?;

        let root = RootKey::generate().map_err(unavailable)?;
        let (config, keys, recovery_keys) = self.make_seal(spec, &root)?;
        let id = random::make_uuid()?;
        let keyring = Keyring::generate(random::uuid_bytes(&id), now.as_second());
        let keyring = keyring.map_err(unavailable)?;

        let clear = self.first_records(spec, id, root_token.expose_secret(), now)?;
        let mut batch = seal_batch(&clear, &keyring)?;
        batch.expect(keys::seal_config(), Seqno::ABSENT);
        batch.put(keys::seal_config(), config.encode());
        batch.put(keys::keyring(), keyring.seal(&root).map_err(unavailable)?);
        if set_up == SetUp::Requests {
            batch.put(keys::set_up(), Vec::new());
        }
        // Before there are such keys: shares that nobody was given would lock the storage for good.
        let handed_out = encrypt(Initialized { keys, recovery_keys, root_token })?;
        self.store.commit(batch).await?;
        tracing::info!(seal = config.name(), "initialized");
        Ok(handed_out)
    }

    /// Initialises an empty store the way a dev server starts: one share, KV version 2 at
    /// `secret/`, unsealed.
    ///
    /// # Errors
    /// What [`Core::initialize`] and opening say.
    pub async fn initialize_dev(
        &self,
        root_token: Option<SecretString>,
        now: Timestamp,
    ) -> Result<Initialized, Error> {
        let mount_kv = Some(KvVersion::V2);
        let spec = InitSpec { shares: 1, threshold: 1, root_token, mount_kv };
        self.initialize_unsealed(&spec, now).await
    }

    /// Initialises an empty store and unseals it, with the shares that were just made or by the seal that opens by itself.
    ///
    /// # Errors
    /// What [`Core::initialize`] and opening say.
    pub async fn initialize_unsealed(
        &self,
        spec: &InitSpec,
        now: Timestamp,
    ) -> Result<Initialized, Error> {
        self.initialize_and_open(SetUp::Nothing, spec, now).await
    }

    /// The same where requests follow that set the server up. Until they ran ([`Core::end_set_up`]) the storage says so.
    ///
    /// # Errors
    /// As [`Core::initialize_unsealed`].
    pub async fn initialize_to_set_up(
        &self,
        spec: &InitSpec,
        now: Timestamp,
    ) -> Result<Initialized, Error> {
        self.initialize_and_open(SetUp::Requests, spec, now).await
    }

    /// Whether the storage was initialised and the requests that set the server up did not all run.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when its record cannot be read.
    pub fn is_half_set_up(&self) -> Result<bool, Error> {
        Ok(self.store.get(&keys::set_up())?.is_some())
    }

    /// Says that the requests that set the server up have run.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn end_set_up(&self) -> Result<(), Error> {
        let mut batch = Batch::new();
        batch.delete(keys::set_up());
        self.store.commit(batch).await?;
        Ok(())
    }

    async fn initialize_and_open(
        &self,
        set_up: SetUp,
        spec: &InitSpec,
        now: Timestamp,
    ) -> Result<Initialized, Error> {
        let made = self.initialize_before(set_up, spec, now, Ok).await?;
        for share in made.keys.iter().take(usize::from(spec.threshold)) {
            self.give_share(share.clone()).await?;
        }
        self.auto_unseal().await?;
        Ok(made)
    }

    /// The seal's record, the unseal shares and the recovery shares.
    fn make_seal(
        &self,
        spec: &InitSpec,
        root: &RootKey,
    ) -> Result<(SealConfig, KeyShares, KeyShares), Error> {
        let key = UnsealKey::generate().map_err(unavailable)?;
        let wrapped_root = root.wrap(&key).map_err(unavailable)?;
        let (shares, threshold) = (spec.shares, spec.threshold);
        let Some(auto) = &self.auto_seal else {
            let keys = split(&key, shares, threshold)?;
            let scheme = SealScheme::Shamir;
            return Ok((
                SealConfig { scheme, shares, threshold, root: wrapped_root },
                keys,
                Vec::new(),
            ));
        };
        let wrapped = auto.wrap(key.expose()).map_err(Error::Unavailable)?;
        let recovery = UnsealKey::generate().map_err(unavailable)?;
        let proof = RootKey::generate().and_then(|thrown_away| thrown_away.wrap(&recovery));
        let proof = proof.map_err(unavailable)?;
        let scheme = SealScheme::Auto { name: auto.name().to_owned(), wrapped, proof };
        let keys = split(&recovery, shares, threshold)?;
        Ok((SealConfig { scheme, shares, threshold, root: wrapped_root }, Vec::new(), keys))
    }

    /// What an initialised store starts with, in the clear.
    fn first_records(
        &self,
        spec: &InitSpec,
        id: String,
        root_token: &str,
        now: Timestamp,
    ) -> Result<Batch, Error> {
        let mut key = Zeroizing::new([0; 32]);
        random::fill(&mut *key)?;
        let drawn = || format!("vault-cluster-{}", &id[..8]);
        let name = self.info.cluster_name.clone().unwrap_or_else(drawn);
        let cluster = ClusterIdentity { id, name, token_key: TokenKey::new(key) };
        let hash = cluster.token_key.hash(root_token);
        let mut batch = Batch::new();
        batch.put(keys::cluster(), cluster.encode());
        batch.put(keys::token(hash.as_ref()), make_root(now)?.encode());
        let mut last = MountId::RESERVED;
        put_builtin(&mut batch, |key| key)?;
        if let Some(version) = spec.mount_kv {
            last = MountId(last.0 + 1);
            let about = "key/value secret storage";
            let kind = match version {
                KvVersion::V1 => EngineKind::KV_V1,
                KvVersion::V2 => EngineKind::KV_V2,
            };
            let entry = builtin_mount(last, "secret/", kind, about)?;
            batch.put(keys::mount(last), entry.encode());
        }
        batch.put(keys::mount_counter(), last.0.to_be_bytes().to_vec());
        let version = Installed::running(&self.info, now);
        batch.put(keys::storage(MountId::SYSTEM, &version.record()), version.encode());
        Ok(batch)
    }
}

/// Puts what every namespace starts with: the server's own mounts and policies, under the keys that
/// `key_of` makes of theirs.
///
/// # Errors
/// [`Error::Unavailable`] when the operating system gives no randomness.
pub(crate) fn put_builtin(
    batch: &mut Batch,
    key_of: impl Fn(Vec<u8>) -> Vec<u8>,
) -> Result<(), Error> {
    for kind in EngineKind::all() {
        let Some(mount) = kind.facts().builtin else { continue };
        let BuiltinKind { id, path, description } = mount;
        let entry = builtin_mount(id, path, kind, description)?;
        batch.put(key_of(keys::mount(id)), entry.encode());
    }
    for (name, text) in crate::view::policies::builtin() {
        batch.put(key_of(keys::policy(name)), text.as_bytes().to_vec());
    }
    Ok(())
}

fn builtin_mount(
    id: MountId,
    path: &str,
    kind: EngineKind,
    description: &str,
) -> Result<MountEntry, Error> {
    let uuid = random::make_uuid()?;
    let version = match kind.kv() {
        Some(KvState::V1) => Some("1"),
        Some(KvState::V2) => Some("2"),
        Some(KvState::Upgrading) | None => None,
    };
    Ok(MountEntry {
        id,
        path: path.to_owned(),
        kind,
        accessor: kind.accessor(&uuid),
        uuid,
        description: description.to_owned(),
        local: id == MountId::CUBBYHOLE,
        seal_wrap: id == MountId::SYSTEM,
        external_entropy_access: false,
        options: version.map(|version| Map::from([("version".to_owned(), version.into())])),
        config: MountConfig::default(),
        moved: None,
    })
}

fn check_token_text(text: &str) -> Result<(), Error> {
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || text.len() > TOKEN_BYTES_MAX || !printable {
        return Err(Error::invalid(format!(
            "a root token id must be 1 to {} printable ASCII characters",
            TOKEN_BYTES_MAX
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kallisto_store::MemoryStore;

    use super::*;
    use crate::platform::server_info::ServerInfo;

    /// Shares that were made and not handed out would lock the storage for good.
    #[test]
    fn what_cannot_be_handed_out_is_not_made() {
        let core = Core::new(Arc::new(MemoryStore::new()), ServerInfo::default());
        let spec = InitSpec { shares: 3, threshold: 2, root_token: None, mount_kv: None };
        let now = Timestamp::UNIX_EPOCH;
        let refused = |_| Err(Error::Unavailable("no randomness".to_owned()));
        let failed = pollster::block_on(core.initialize_encrypted(&spec, now, refused));
        assert!(matches!(failed, Err(Error::Unavailable(_))));
        assert!(!core.seal_status().unwrap().initialized);
        let made = pollster::block_on(core.initialize(&spec, now)).unwrap();
        assert_eq!(made.keys.len(), 3);
        assert!(core.seal_status().unwrap().initialized);
    }
}
