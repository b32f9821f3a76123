//! What the configuration says of metrics (`telemetry`).

use std::time::Duration;

/// The beginning of the names that Vault has.
const FAMILY: &str = "vault";

/// Which metrics are told, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSettings {
    /// What names of Vault begin with, `vault` in most places.
    pub prefix: String,
    /// How often tokens and aliases are counted by name; `None` for never, and for no name of a mount or policy in any metric.
    pub usage_period: Option<Duration>,
    /// Most names of a kind.
    pub cardinality_max: usize,
    /// Beginnings of names with dots, and whether what begins so is told; the longest decides.
    pub filter: Vec<(String, bool)>,
    /// Whether the rest is told.
    pub tells_rest: bool,
}

impl Default for MetricsSettings {
    fn default() -> Self {
        Self {
            prefix: FAMILY.to_owned(),
            usage_period: None,
            cardinality_max: 500,
            filter: Vec::new(),
            tells_rest: true,
        }
    }
}

impl MetricsSettings {
    /// Whether a name is told; it begins as it is told.
    pub fn tells(&self, name: &str) -> bool {
        let fits = self.filter.iter().filter(|(prefix, _)| name.starts_with(prefix.as_str()));
        fits.max_by_key(|(prefix, _)| prefix.len()).map_or(self.tells_rest, |(_, tells)| *tells)
    }

    /// A name as it is told, where that differs from what it is here.
    pub fn renamed(&self, name: &str) -> Option<String> {
        if self.prefix == FAMILY {
            return None;
        }
        let rest = name.strip_prefix(FAMILY)?.strip_prefix('.')?;
        Some(if self.prefix.is_empty() {
            rest.to_owned()
        } else {
            format!("{}.{rest}", self.prefix)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_decides() {
        let filter = [("vault.token", false), ("vault.token.count", true), ("vault", true)];
        let filter = filter.map(|(prefix, tells)| (prefix.to_owned(), tells)).into();
        let settings = MetricsSettings { filter, tells_rest: false, ..MetricsSettings::default() };
        let told = ["vault.token.count", "vault.core.active"].map(|name| settings.tells(name));
        assert_eq!(told, [true, true]);
        assert!(!settings.tells("vault.token.create") && !settings.tells("process.threads"));
    }

    #[test]
    fn names_of_vault_begin_as_they_are_told_to() {
        let with =
            |prefix: &str| MetricsSettings { prefix: prefix.to_owned(), ..Default::default() };
        assert_eq!(with("bao").renamed("vault.core.active").as_deref(), Some("bao.core.active"));
        assert_eq!(with("").renamed("vault.core.active").as_deref(), Some("core.active"));
        assert_eq!(with("bao").renamed("kallisto.jobs.runs_total"), None);
        assert_eq!(with("vault").renamed("vault.core.active"), None);
    }
}
