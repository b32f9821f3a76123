//! What a rule of a rate limit says.

use std::time::Duration;

use super::scope::QuotaScope;
use crate::api::json::{self, Json};

/// What a rule says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RuleSpec {
    pub(crate) name: String,
    /// Where it holds.
    pub(crate) scope: QuotaScope,
    /// Requests in each interval.
    pub(crate) rate: f64,
    pub(crate) interval_secs: u64,
    /// For how long an address is refused that went over; 0 for the rest of the interval.
    pub(crate) block_secs: u64,
}

impl RuleSpec {
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

    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::object([
            ("path", self.scope.path.as_str().into()),
            ("namespace", self.scope.namespace.as_str().into()),
            ("role", self.scope.role.as_str().into()),
            ("inheritable", self.scope.is_inheritable.into()),
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
            scope: QuotaScope {
                namespace: text("namespace"),
                role: text("role"),
                is_inheritable: match map.get("inheritable") {
                    Some(inheritable) => *inheritable == Json::Bool(true),
                    None => path.is_empty(),
                },
                path,
            },
            rate: number("rate")?.parse().ok()?,
            interval_secs: number("interval")?.parse().ok()?,
            block_secs: number("block_interval")?.parse().ok()?,
        })
    }
}
