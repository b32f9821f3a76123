//! Acknowledged versions survive: a version of a secret that a writer was told of is what it was, on every server that has caught
//! up, whatever crashed since; and the secret's current version is that one or a later.

use std::collections::BTreeMap;

use super::{InvariantViolation, violated};

const NAME: &str = "acknowledged versions survive";
/// Versions that a secret keeps.
const KEPT: u64 = 10;

/// What writers were told, by secret and version.
#[derive(Debug, Default)]
pub(crate) struct VersionsOracle(BTreeMap<String, BTreeMap<u64, AcknowledgedVersion>>);

#[derive(Debug)]
struct AcknowledgedVersion {
    value: String,
    /// A position that holds it.
    index: u64,
}

/// What a server whose view holds everything up to `held` shows of a secret.
#[derive(Clone, Debug)]
pub(crate) struct SecretLook<'a> {
    pub(crate) server: u64,
    pub(crate) held: u64,
    pub(crate) key: &'a str,
    /// The version asked for, unless it was the current one.
    pub(crate) asked: Option<u64>,
    /// The version shown; 0 for nothing.
    pub(crate) version: u64,
    /// Its value; `None` where it is gone.
    pub(crate) value: Option<&'a str>,
}

impl VersionsOracle {
    /// A writer was told that its value is this version of a secret.
    pub(crate) fn learn(
        &mut self,
        key: &str,
        version: u64,
        value: &str,
        index: u64,
    ) -> Result<(), InvariantViolation> {
        let versions = self.0.entry(key.to_owned()).or_default();
        let told = AcknowledgedVersion { value: value.to_owned(), index };
        match versions.insert(version, told) {
            None => Ok(()),
            Some(other) => Err(violated(NAME)(format!(
                "version {version} of {key} was acknowledged as {} and as {value}",
                other.value
            ))),
        }
    }

    /// The newest version of a secret that anybody was told of; 0 for none.
    pub(crate) fn newest_of(&self, key: &str) -> u64 {
        let newest = self.0.get(key).and_then(|versions| versions.keys().next_back());
        newest.copied().unwrap_or_default()
    }

    /// Secrets, with those of their acknowledged versions that may still be kept.
    pub(crate) fn newest(&self) -> Vec<(String, Vec<u64>)> {
        let kept = |key: &String, versions: &BTreeMap<u64, AcknowledgedVersion>| {
            let oldest = (self.newest_of(key) + 1).saturating_sub(KEPT);
            versions.range(oldest..).map(|(at, _)| *at).collect()
        };
        self.0.iter().map(|(key, versions)| (key.clone(), kept(key, versions))).collect()
    }

    /// A server shows a secret.
    pub(crate) fn looked(&self, look: &SecretLook<'_>) -> Result<(), InvariantViolation> {
        let Some(versions) = self.0.get(look.key) else { return Ok(()) };
        let newest = versions.iter().rfind(|(_, told)| told.index <= look.held);
        let newest = newest.map_or(0, |(version, _)| *version);
        let told = versions.get(&look.asked.unwrap_or(look.version));
        let wrong =
            |what: String| Err(violated(NAME)(format!("server {}: {look:?}: {what}", look.server)));
        match look.asked {
            None if look.version < newest => wrong(format!("{newest} was acknowledged")),
            // Newer ones that nobody was told of may have taken its place.
            Some(asked) if look.version == 0 && asked < newest => Ok(()),
            Some(asked) if look.version != asked && asked == newest => {
                wrong("it is not there".into())
            }
            _ => match (told, look.value) {
                (Some(told), Some(value)) if told.value != value => {
                    wrong(format!("{} was acknowledged", told.value))
                }
                _ => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_lost_or_another_is_seen() {
        let mut versions = VersionsOracle::default();
        for version in 1..=12 {
            versions.learn("k", version, &format!("v{version}"), 100 + version).unwrap();
        }
        assert_eq!(versions.newest(), [("k".to_owned(), (3..=12).collect())]);
        let look = |held, asked, version, value| {
            versions.looked(&SecretLook { server: 1, held, key: "k", asked, version, value })
        };
        assert_eq!(look(112, None, 12, Some("v12")), Ok(()));
        assert_eq!(look(111, None, 11, Some("v11")), Ok(()));
        assert_eq!(look(112, None, 12, None), Ok(()), "deleted");
        assert!(look(112, None, 11, Some("v11")).is_err(), "behind what was seen");
        assert!(look(111, None, 11, Some("v12")).is_err(), "another value");
        assert!(look(112, None, 0, None).is_err());
        assert_eq!(look(112, Some(5), 5, Some("v5")), Ok(()));
        assert!(look(112, Some(5), 5, Some("v6")).is_err());
        assert!(look(112, Some(12), 0, None).is_err());
        assert!(versions.learn("k", 12, "other", 130).is_err());
    }
}
