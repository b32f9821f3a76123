//! What is mounted: the entry that is stored, shown and tuned.
//!
//! Stored as JSON (mounts are few and written rarely). `docs/api.md` has the shape shown on the wire.

use kallisto_engine::{Class, Multiplicity};

use super::engine_kind::EngineKind;
use crate::api::json::{self, Json, Map};
use crate::limits::DEFAULT_LEASE_SECS;
use crate::records::lockout_rules::LockoutRules;
use crate::storage::keys::MountId;

/// How a mount behaves. TTLs are in seconds; 0 leaves them to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountConfig {
    /// Lease given when nothing else says.
    pub default_lease_ttl_secs: u64,
    /// Longest lease given.
    pub max_lease_ttl_secs: u64,
    /// Accepted and shown; Kallisto's view is always coherent.
    pub force_no_cache: bool,
    /// `unauth`, `hidden` or empty.
    pub listing_visibility: String,
    /// What kind of tokens a login method makes; empty for the default.
    pub token_type: String,
    /// When a login method refuses a name after wrong passwords; `None` for the defaults.
    pub(crate) lockout: Option<LockoutRules>,
    /// Lists of names, by their name on the wire; absent ones are not shown.
    pub lists: Map,
}

/// The rules of user lockout in a mount's configuration.
const LOCKOUT: &str = "user_lockout_config";

/// The lists a mount's configuration may hold.
pub(crate) const CONFIG_LISTS: [&str; 4] = [
    "allowed_response_headers",
    "audit_non_hmac_request_keys",
    "audit_non_hmac_response_keys",
    "passthrough_request_headers",
];

/// A mount as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Its id in storage keys.
    pub id: MountId,
    /// Its path, with an ending slash.
    pub path: String,
    /// The engine.
    pub kind: EngineKind,
    /// Its UUID on the wire.
    pub uuid: String,
    /// Its accessor on the wire.
    pub accessor: String,
    /// For people.
    pub description: String,
    /// Never replicated elsewhere.
    pub local: bool,
    /// Asked for wrapping by the seal; shown back.
    pub seal_wrap: bool,
    /// Asked for external entropy; shown back.
    pub external_entropy_access: bool,
    /// The options as given, such as `{"version":"2"}`; `None` shows as `null`.
    pub options: Option<Map>,
    /// How it behaves.
    pub config: MountConfig,
    /// The last time it was moved; not shown with it.
    pub moved: Option<MountMove>,
}

/// A move of a mount from one path to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountMove {
    /// The id that was given to who asked for it.
    pub id: String,
    /// The path before.
    pub from: String,
}

/// How long tokens and leases live, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// When nobody says.
    pub default_secs: u64,
    /// At the most.
    pub max_secs: u64,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self { default_secs: DEFAULT_LEASE_SECS, max_secs: DEFAULT_LEASE_SECS }
    }
}

impl MountConfig {
    /// What kind of tokens a login method makes, on the wire.
    pub fn token_type(&self) -> &str {
        if self.token_type.is_empty() { "default-service" } else { &self.token_type }
    }

    /// How long what the mount hands out lives: its own word before the server's.
    pub(crate) fn leases(&self, server: LeaseTimes) -> LeaseTimes {
        let own = |own: u64, server: u64| if own > 0 { own } else { server };
        let max_secs = own(self.max_lease_ttl_secs, server.max_secs);
        let default_secs = own(self.default_lease_ttl_secs, server.default_secs);
        LeaseTimes { default_secs: default_secs.min(max_secs), max_secs }
    }

    fn to_json(&self) -> Map {
        let mut map = self.lists.clone();
        map.insert("default_lease_ttl".into(), self.default_lease_ttl_secs.into());
        map.insert("max_lease_ttl".into(), self.max_lease_ttl_secs.into());
        map.insert("force_no_cache".into(), self.force_no_cache.into());
        if !self.listing_visibility.is_empty() {
            map.insert("listing_visibility".into(), self.listing_visibility.as_str().into());
        }
        if !self.token_type.is_empty() {
            map.insert("token_type".into(), self.token_type.as_str().into());
        }
        if let Some(rules) = self.lockout {
            map.insert(LOCKOUT.into(), rules.to_map().into());
        }
        map
    }

    fn from_json(map: &Map) -> Option<Self> {
        let lists = CONFIG_LISTS
            .iter()
            .filter_map(|&name| Some((name.to_owned(), map.get(name)?.clone())))
            .collect();
        let text = |name: &str| map.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
        Some(Self {
            default_lease_ttl_secs: number(map, "default_lease_ttl")?,
            max_lease_ttl_secs: number(map, "max_lease_ttl")?,
            force_no_cache: boolean(map, "force_no_cache")?,
            listing_visibility: text("listing_visibility"),
            token_type: text("token_type"),
            lockout: match map.get(LOCKOUT) {
                None => None,
                Some(rules) => Some(LockoutRules::decode(rules.as_object()?)?),
            },
            lists,
        })
    }
}

impl MountEntry {
    /// The path as its class shows it: without the `auth/` of a login method.
    pub fn shown_path(&self) -> &str {
        let prefix = self.kind.class().prefix();
        self.path.strip_prefix(prefix).unwrap_or(&self.path)
    }

    /// The entry as `sys/mounts` shows it.
    pub fn to_wire(&self) -> Map {
        let version = concat!("v", env!("CARGO_PKG_VERSION"), "+builtin.kallisto");
        let options = self.options.clone().map_or(Json::Null, Json::Object);
        let Json::Object(mut map) = Json::object([
            ("accessor", self.accessor.as_str().into()),
            ("config", self.config_to_wire().into()),
            ("description", self.description.as_str().into()),
            ("external_entropy_access", self.external_entropy_access.into()),
            ("local", self.local.into()),
            ("options", options),
            ("plugin_version", "".into()),
            ("running_plugin_version", version.into()),
            ("running_sha256", "".into()),
            ("seal_wrap", self.seal_wrap.into()),
            ("type", self.kind.name().into()),
            ("uuid", self.uuid.as_str().into()),
        ]) else {
            unreachable!("an object was made of pairs");
        };
        if self.kind.multiplicity() == Multiplicity::Any {
            map.insert("deprecation_status".into(), "supported".into());
        }
        map
    }

    fn config_to_wire(&self) -> Map {
        let mut map = self.config.to_json();
        if self.kind.class() == Class::Auth {
            map.insert("token_type".into(), self.config.token_type().into());
        }
        map
    }

    /// The record's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut map = self.to_wire();
        map.insert("id".into(), u64::from(self.id.0).into());
        map.insert("path".into(), self.path.as_str().into());
        map.insert("type".into(), self.kind.stored().into());
        if let Some(moved) = &self.moved {
            map.insert("moved_by".into(), moved.id.as_str().into());
            map.insert("moved_from".into(), moved.from.as_str().into());
        }
        Json::Object(map).to_text()
    }

    /// Reads a record back; `None` when the bytes are no mount.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let text = |name: &str| map.get(name).and_then(Json::as_str).map(str::to_owned);
        let path = text("path")?;
        let class = if path.starts_with("auth/") { Class::Auth } else { Class::Secret };
        Some(Self {
            id: MountId(number(&map, "id")?.try_into().ok()?),
            kind: EngineKind::from_stored(&text("type")?, class)?,
            path,
            uuid: text("uuid")?,
            accessor: text("accessor")?,
            description: text("description")?,
            local: boolean(&map, "local")?,
            seal_wrap: boolean(&map, "seal_wrap")?,
            external_entropy_access: boolean(&map, "external_entropy_access")?,
            options: map.get("options").and_then(Json::as_object).cloned(),
            config: MountConfig::from_json(map.get("config")?.as_object()?)?,
            moved: text("moved_by")
                .zip(text("moved_from"))
                .map(|(id, from)| MountMove { id, from }),
        })
    }
}

fn number(map: &Map, name: &str) -> Option<u64> {
    match map.get(name)? {
        Json::Number(text) => text.parse().ok(),
        _ => None,
    }
}

fn boolean(map: &Map, name: &str) -> Option<bool> {
    match map.get(name)? {
        Json::Bool(value) => Some(*value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_read_back() {
        let entry = MountEntry {
            id: MountId(3),
            path: "a/b/".into(),
            kind: EngineKind::KV_V2,
            uuid: "u".into(),
            accessor: "kv_1".into(),
            description: "d\"".into(),
            local: false,
            seal_wrap: true,
            external_entropy_access: false,
            options: Some(Map::from([("version".to_owned(), "2".into())])),
            config: MountConfig {
                default_lease_ttl_secs: 3600,
                max_lease_ttl_secs: 0,
                force_no_cache: true,
                listing_visibility: "unauth".into(),
                token_type: "batch".into(),
                lockout: Some(LockoutRules::default()),
                lists: Map::from([(
                    "passthrough_request_headers".to_owned(),
                    Json::strings(["X"]),
                )]),
            },
            moved: Some(MountMove { id: "m".into(), from: "c/".into() }),
        };
        assert_eq!(MountEntry::decode(&entry.encode()), Some(entry));
        assert_eq!(MountEntry::decode(b"{}"), None);
    }
}
