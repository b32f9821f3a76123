//! The versions that served this storage, and since when: a record for each, made when it first leads.
//!
//! The records are in the engine storage of `sys/`, JSON, by version. A job makes the running one's when there
//! is none, and an initialised store begins with it; none is ever changed.

use jiff::Timestamp;

use crate::api::error::Error;
use crate::api::json::{self, Json};
use crate::platform::server_info::ServerInfo;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// Where they are in the engine storage.
const FOLDER: &str = "version/";
/// Most versions that are shown; the oldest come first.
const SHOWN_MAX: usize = 1024;

/// One of them: of the server, since that of the API stays the same over upgrades. Records of 0.2.0 and before have the API's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) version: String,
    /// When it first served this storage.
    pub(crate) at: Timestamp,
    /// When its code was committed, as RFC 3339 text.
    pub(crate) build_date: String,
}

impl Installed {
    /// The running version, as installed now.
    pub(crate) fn running(info: &ServerInfo, now: Timestamp) -> Self {
        // A second is as exact as clients of Vault show it.
        let at = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Self { version: info.release.clone(), at, build_date: info.build_date.clone() }
    }

    /// The name of its record in the engine storage of `sys/`.
    pub(crate) fn record(&self) -> String {
        format!("{FOLDER}{}", self.version)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::object([
            ("timestamp_installed", self.at.to_string().into()),
            ("build_date", self.build_date.as_str().into()),
        ])
        .to_text()
    }

    fn decode(version: &str, value: &[u8]) -> Result<Self, Error> {
        let read = || {
            let map = json::parse_object(value).ok()?;
            Some(Self {
                version: version.to_owned(),
                at: map.get("timestamp_installed")?.as_str()?.parse().ok()?,
                build_date: map.get("build_date")?.as_str()?.to_owned(),
            })
        };
        read().ok_or_else(|| Error::internal(&"the record of a version is damaged"))
    }
}

/// Makes the record of the running version, unless there is one.
///
/// # Errors
/// The store's refusal; the next run tries again.
pub(crate) async fn note(context: &NamespaceContext, now: Timestamp) -> Result<(), Error> {
    let running = Installed::running(&context.info, now);
    let storage = EngineStorage::builtin(context, MountId::SYSTEM)?;
    if storage.get(&running.record())?.is_none() {
        tracing::info!(version = running.version, "this version serves this storage from now on");
        storage.put(&running.record(), running.encode()).await?;
    }
    Ok(())
}

/// All of them, the oldest first.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn history(context: &NamespaceContext) -> Result<Vec<Installed>, Error> {
    let storage = EngineStorage::builtin(context, MountId::SYSTEM)?;
    let mut found = Vec::new();
    for version in storage.list_some(FOLDER, SHOWN_MAX) {
        if let Some(record) = storage.get(&format!("{FOLDER}{version}"))? {
            found.push(Installed::decode(&version, &record.value)?);
        }
    }
    found.sort_by(|one, other| (one.at, &one.version).cmp(&(other.at, &other.version)));
    Ok(found)
}
