//! What a rule says, and where it holds.

use std::time::Duration;

use crate::api::json::{self, Json};

/// What a rule says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    pub(crate) name: String,
    /// Where it holds, from the root namespace on: empty for everything; a mount's or a namespace's
    /// path ends in a slash.
    pub(crate) path: String,
    /// The namespace that its path is in, or that it is: how its path begins.
    pub(crate) namespace: String,
    /// The role whose logins at the mount it holds for; empty for all of the path.
    pub(crate) role: String,
    /// Whether a rule for a whole namespace holds in those below it too.
    pub(crate) is_inheritable: bool,
    /// Requests in each interval.
    pub(crate) rate: f64,
    pub(crate) interval_secs: u64,
    /// For how long an address is refused that went over; 0 for the rest of the interval.
    pub(crate) block_secs: u64,
}

impl Spec {
    /// Whether it is for all of its namespace.
    fn is_for_namespace(&self) -> bool {
        self.path == self.namespace
    }

    /// Whether it is for what is in this namespace, path aside.
    pub(super) fn holds_in(&self, namespace: &str) -> bool {
        match self.is_inheritable && self.is_for_namespace() {
            true => namespace.starts_with(&self.namespace),
            false => namespace == self.namespace,
        }
    }

    /// Requests an address may make in one interval.
    pub(super) fn limit(&self) -> u64 {
        self.rate.ceil() as u64
    }

    pub(super) fn interval(&self) -> Duration {
        Duration::from_secs(self.interval_secs)
    }

    pub(super) fn block(&self) -> Duration {
        Duration::from_secs(self.block_secs)
    }

    /// Higher is tried first: roles, then paths, then mounts, then namespaces, the root one last.
    pub(super) fn rank(&self) -> (u8, usize) {
        let kind = match self.path.as_str() {
            _ if !self.role.is_empty() => 4,
            _ if self.is_for_namespace() => 0,
            mount if mount.ends_with('/') => 1,
            prefix if prefix.ends_with('*') => 2,
            _ => 3,
        };
        (kind, self.path.len())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::object([
            ("path", self.path.as_str().into()),
            ("namespace", self.namespace.as_str().into()),
            ("role", self.role.as_str().into()),
            ("inheritable", self.is_inheritable.into()),
            ("rate", Json::Number(self.rate.to_string().into())),
            ("interval", self.interval_secs.into()),
            ("block_interval", self.block_secs.into()),
        ])
        .to_text()
    }

    pub(super) fn decode(name: &str, value: &[u8]) -> Option<Self> {
        let map = json::parse_object(value).ok()?;
        let number = |name: &str| match map.get(name)? {
            Json::Number(text) => Some(text.clone()),
            _ => None,
        };
        let path = map.get("path")?.as_str()?.to_owned();
        // Records of earlier releases lack some of these; without `inheritable` what was for
        // everything held everywhere.
        let text = |name: &str| map.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
        Some(Self {
            name: name.to_owned(),
            namespace: text("namespace"),
            role: text("role"),
            is_inheritable: match map.get("inheritable") {
                Some(inheritable) => *inheritable == Json::Bool(true),
                None => path.is_empty(),
            },
            path,
            rate: number("rate")?.parse().ok()?,
            interval_secs: number("interval")?.parse().ok()?,
            block_secs: number("block_interval")?.parse().ok()?,
        })
    }
}

/// Whether a rule's path is for `path`: the same, or all that begins with it. The path of a list ends in a slash, which
/// a rule for it may leave out.
pub(super) fn fits(rule: &str, path: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None if rule.is_empty() || rule.ends_with('/') => path.starts_with(rule),
        None => path.strip_suffix('/').unwrap_or(path) == rule,
    }
}
