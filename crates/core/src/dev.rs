//! How a dev server begins: an empty store gets a cluster, a root token and KV v2 at `secret/`.

use jiff::Timestamp;
use kallisto_store::{Batch, Seqno};
use secrecy::{ExposeSecret, SecretString};

use crate::cluster::{Cluster, TokenKey};
use crate::error::Error;
use crate::keys::{self, MountId};
use crate::mount::{EngineKind, MountConfig, MountEntry};
use crate::state::Core;
use crate::{random, token};

/// The root token of a dev server.
pub enum DevRoot {
    /// Draw one.
    Random,
    /// Use this text, as `-dev-root-token-id` asks.
    Given(SecretString),
}

impl Core {
    /// Initialises an empty store the way a dev server starts: a cluster, a root token, and KV v2
    /// at `secret/`. Returns the root token.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a token text no client could send; [`Error::Unavailable`] without
    /// randomness or when the store refuses.
    pub async fn initialize_dev(
        &self,
        root: DevRoot,
        now: Timestamp,
    ) -> Result<SecretString, Error> {
        let text = match root {
            DevRoot::Random => token::make_text()?,
            DevRoot::Given(text) => text,
        };
        check_token_text(text.expose_secret())?;
        let mut key = zeroize::Zeroizing::new([0; 32]);
        random::fill(&mut *key)?;
        let id = random::make_uuid()?;
        let name = format!("vault-cluster-{}", &id[..8]);
        let cluster = Cluster { id, name, token_key: TokenKey::new(key) };
        let hash = cluster.token_key.hash(text.expose_secret());

        let mut batch = Batch::new();
        batch.expect(keys::cluster(), Seqno::ABSENT);
        batch.put(keys::cluster(), cluster.encode());
        batch.put(keys::token(hash.as_ref()), token::encode(&token::make_root(now)?));
        let system = self.builtin_mount(MountId(0), "sys/", EngineKind::System)?;
        let secret = self.builtin_mount(MountId(1), "secret/", EngineKind::KvV2)?;
        for entry in [system, secret] {
            batch.put(keys::mount(entry.id), entry.encode());
        }
        batch.put(keys::mount_counter(), 1_u32.to_be_bytes().to_vec());
        self.store.commit(batch).await?;
        Ok(text)
    }

    fn builtin_mount(
        &self,
        id: MountId,
        path: &str,
        kind: EngineKind,
    ) -> Result<MountEntry, Error> {
        let uuid = random::make_uuid()?;
        let (description, options) = match kind {
            EngineKind::System => ("system endpoints for control, policy and debugging", None),
            EngineKind::KvV1 | EngineKind::KvV2 => {
                let version = [("version".to_owned(), "2".into())];
                ("key/value secret storage", Some(version.into_iter().collect()))
            }
        };
        Ok(MountEntry {
            id,
            path: path.to_owned(),
            kind,
            accessor: format!("{}_{}", kind.name(), &uuid[..8]),
            uuid,
            description: description.to_owned(),
            local: false,
            seal_wrap: kind == EngineKind::System,
            external_entropy_access: false,
            options,
            config: MountConfig::default(),
        })
    }
}

fn check_token_text(text: &str) -> Result<(), Error> {
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || text.len() > token::TOKEN_BYTES_MAX || !printable {
        return Err(Error::invalid(format!(
            "a root token id must be 1 to {} printable ASCII characters",
            token::TOKEN_BYTES_MAX
        )));
    }
    Ok(())
}
