//! What a server reports of itself, and what its configuration said at the start.
//!
//! The process makes one [`ServerInfo`] of its configuration and gives it to the core, which shares it with all that answer requests. Nothing
//! here changes while the server runs.

use std::time::Duration;

use crate::api::json::Json;
use crate::limits::MAX_STALENESS_DEFAULT;
use crate::platform::metrics_settings::MetricsSettings;
use crate::records::mount::LeaseTimes;

/// What this server says of itself, and what it was told at start.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The Vault-like version that clients gate their features on.
    pub version: String,
    /// The version of its own: what members of a cluster are compared by.
    pub release: String,
    /// When the running code was committed, as RFC 3339 text.
    pub build_date: String,
    /// The name of the storage type, such as `inmem`.
    pub storage_type: String,
    /// The name of the cluster, when the configuration gives one; drawn otherwise.
    pub cluster_name: Option<String>,
    /// How long tokens and leases live.
    pub leases: LeaseTimes,
    /// URL at which clients reach this server, when it was told.
    pub api_addr: Option<String>,
    /// URL at which other servers reach this one, when it was told.
    pub cluster_addr: Option<String>,
    /// Bytes of entries the hot table may hold before the coldest leave it.
    pub hot_bytes_max: usize,
    /// Whether rekey and generate-root answer without a token.
    pub unauthenticated_rekey: RouteAccess,
    /// Whether metrics are served in the text that Prometheus reads.
    pub serves_prometheus: bool,
    /// Which metrics are told, and how.
    pub metrics: MetricsSettings,
    /// Whether the web page is served below `/ui/`.
    pub serves_ui: bool,
    /// How far in the past the view of a server with peers may be that answers from it.
    pub max_staleness: Duration,
    /// What `sys/config/state/sanitized` shows besides, without a secret.
    pub shown_settings: Vec<(&'static str, Json)>,
}

impl Default for ServerInfo {
    /// A server in memory that was told nothing.
    fn default() -> Self {
        Self {
            version: "1.18.3".to_owned(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            build_date: "1970-01-01T00:00:00Z".to_owned(),
            storage_type: "inmem".to_owned(),
            cluster_name: None,
            leases: LeaseTimes::default(),
            api_addr: None,
            cluster_addr: None,
            hot_bytes_max: 1 << 30,
            unauthenticated_rekey: RouteAccess::Token,
            serves_prometheus: true,
            metrics: MetricsSettings::default(),
            serves_ui: false,
            max_staleness: MAX_STALENESS_DEFAULT,
            shown_settings: Vec::new(),
        }
    }
}

/// Who may use a group of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAccess {
    /// Those with a token that may.
    Token,
    /// Anyone.
    Open,
}
