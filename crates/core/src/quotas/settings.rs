//! The settings of all rules.

use crate::api::json::{self, Json, Map};

/// The settings of all rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuotaSettings {
    /// Whether answers carry the headers that tell what is left, and when to come back.
    pub(crate) sends_headers: bool,
    /// Whether what a rule refuses is written down by the audit devices.
    pub(crate) audits_refusals: bool,
    /// Paths that no rule counts; by default those of routes that say so, since an operator must not lock themself out.
    pub(crate) exempt: Vec<String>,
}

impl QuotaSettings {
    /// Those while nobody has said otherwise; `exempt` are the paths of routes that say so.
    pub(super) fn usual(exempt: &[String]) -> Self {
        Self { sends_headers: false, audits_refusals: false, exempt: exempt.to_vec() }
    }

    pub(crate) fn to_json(&self) -> Map {
        Map::from([
            ("enable_rate_limit_audit_logging".to_owned(), self.audits_refusals.into()),
            ("enable_rate_limit_response_headers".to_owned(), self.sends_headers.into()),
            ("rate_limit_exempt_paths".to_owned(), Json::strings(self.exempt.clone())),
        ])
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::Object(self.to_json()).to_text()
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let map = json::parse_object(value).ok()?;
        let Json::Array(exempt) = map.get("rate_limit_exempt_paths")? else { return None };
        let exempt = exempt.iter().map(|path| path.as_str().map(str::to_owned));
        let is_set = |name: &str| Some(*map.get(name)? == Json::Bool(true));
        Some(Self {
            sends_headers: is_set("enable_rate_limit_response_headers")?,
            audits_refusals: is_set("enable_rate_limit_audit_logging")?,
            exempt: exempt.collect::<Option<_>>()?,
        })
    }
}
