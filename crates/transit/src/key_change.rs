//! What an owner changes about a key that there is: its settings, and which of its oldest versions serve or stay.

use crate::error::{Error, Result};
use crate::key::{TransitKey, auto_rotate_secs};
use crate::settings::KeySettings;

/// What to change of a key; `None` leaves it.
#[derive(Clone, Debug, Default)]
pub struct KeyChange {
    /// The oldest version that decrypts and verifies.
    pub min_decryption_version: Option<i64>,
    /// The oldest version that encrypts and signs.
    pub min_encryption_version: Option<i64>,
    /// Whether the key may be deleted.
    pub deletion_allowed: Option<bool>,
    /// Whether its material may leave; `false` does not take it back.
    pub exportable: Option<bool>,
    /// Whether a backup in the clear may be made; `false` does not take it back.
    pub allow_plaintext_backup: Option<bool>,
    /// After how many seconds it should be rotated.
    pub auto_rotate_secs: Option<i64>,
}

impl TransitKey {
    /// The key with other settings, and a warning where what was asked was not quite done; `None`
    /// in place of the key when nothing changes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what does not go together.
    pub fn configured(&self, change: &KeyChange) -> Result<(Option<Self>, Option<&'static str>)> {
        let mut warning = None;
        let mut settings = self.settings.clone();
        if let Some(asked) = change.min_decryption_version {
            if asked == 0 {
                warning = Some("transit key numbering starts at 1; forcing minimum to 1");
            }
            settings.min_decryption_version = self.check_minimum(asked, "decryption")?.max(1);
        }
        if let Some(asked) = change.min_encryption_version {
            settings.min_encryption_version = self.check_minimum(asked, "encryption")?;
        }
        check_minimums(&settings)?;
        if let Some(allowed) = change.deletion_allowed {
            settings.deletion_allowed = allowed;
        }
        settings.exportable |= change.exportable.unwrap_or(false);
        settings.allow_plaintext_backup |= change.allow_plaintext_backup.unwrap_or(false);
        if let Some(secs) = change.auto_rotate_secs {
            settings.auto_rotate_secs = auto_rotate_secs(secs)?;
        }
        if settings == self.settings {
            return Ok((None, warning));
        }
        check_available(&settings)?;
        Ok((Some(Self { settings, ..self.clone() }), warning))
    }

    fn check_minimum(&self, asked: i64, of: &str) -> Result<u32> {
        let latest = self.latest_version();
        match u32::try_from(asked) {
            Ok(version) if version <= latest => Ok(version),
            Err(_) if asked < 0 => {
                Err(Error::invalid(format!("min {of} version cannot be negative")))
            }
            _ => Err(Error::invalid(format!(
                "cannot set min {of} version of {asked}, latest key version is {latest}"
            ))),
        }
    }

    /// The key without the versions below `asked`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when those versions may still be asked for.
    pub fn trimmed(&self, asked: i64) -> Result<Self> {
        let settings = &self.settings;
        let refuse = |why: &str| Err(Error::invalid(format!("minimum available version {why}")));
        if asked < i64::from(settings.min_available_version) {
            return refuse("cannot be decremented");
        }
        if settings.min_encryption_version == 0 {
            return refuse("cannot be set when minimum encryption version is not set");
        }
        if asked > i64::from(settings.min_encryption_version) {
            return refuse("cannot be greater than minmum encryption version");
        }
        if asked > i64::from(settings.min_decryption_version) {
            return refuse("cannot be greater than minimum decryption version");
        }
        let Some(first) = u32::try_from(asked).ok().filter(|&version| version > 0) else {
            return refuse("should be positive");
        };
        let mut key = self.clone();
        key.versions = key.versions.split_off(&first);
        key.settings.min_available_version = first;
        Ok(key)
    }
}

/// Which oldest versions go together; of a change and of a record alike.
pub(crate) fn check_minimums(settings: &KeySettings) -> Result<()> {
    let (encryption, decryption) =
        (settings.min_encryption_version, settings.min_decryption_version);
    if encryption > 0 && encryption < decryption {
        return Err(Error::invalid(format!(
            "cannot set min encryption/decryption values; min encryption version of {encryption} \
             must be greater than or equal to min decryption version of {decryption}"
        )));
    }
    Ok(())
}

fn check_available(settings: &KeySettings) -> Result<()> {
    let available = settings.min_available_version;
    if available > settings.min_encryption_version {
        return Err(Error::invalid(
            "min encryption version should not be less than min available version",
        ));
    }
    if available > settings.min_decryption_version {
        return Err(Error::invalid(
            "min decryption version should not be less then min available version",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeySpec;
    use crate::kind::KeyKind;

    fn three_versions(kind: KeyKind) -> TransitKey {
        let one = TransitKey::make(kind, &KeySpec::default(), 5).unwrap();
        one.rotated(0).unwrap().rotated(0).unwrap()
    }

    fn refusal<T>(result: Result<T>) -> String {
        result.err().expect("it is refused").to_string()
    }

    fn minimums(decryption: Option<i64>, encryption: Option<i64>) -> KeyChange {
        KeyChange {
            min_decryption_version: decryption,
            min_encryption_version: encryption,
            ..KeyChange::default()
        }
    }

    #[test]
    fn minimums_move_within_the_versions_there_are() {
        let three = three_versions(KeyKind::Ed25519);
        let change = |decryption, encryption| three.configured(&minimums(decryption, encryption));
        let (changed, warning) = change(Some(2), Some(3)).unwrap();
        let changed = changed.unwrap();
        assert_eq!(warning, None);
        assert_eq!(changed.list(b"").unwrap().len(), 2);
        assert_eq!(refusal(changed.version(1).map(|_| ())), "no such key version");
        let (back, warning) = changed.configured(&minimums(Some(0), None)).unwrap();
        assert_eq!(back.unwrap().list(b"").unwrap().len(), 3);
        assert!(warning.is_some());
        assert!(change(Some(1), None).unwrap().0.is_none());
        for (decryption, encryption, why) in [
            (Some(-1), None, "min decryption version cannot be negative"),
            (Some(4), None, "cannot set min decryption version of 4, latest key version is 3"),
            (None, Some(-1), "min encryption version cannot be negative"),
            (None, Some(9), "cannot set min encryption version of 9, latest key version is 3"),
        ] {
            assert_eq!(refusal(change(decryption, encryption)), why);
        }
        assert!(refusal(change(Some(3), Some(2))).contains("must be greater than or equal to"));
    }

    #[test]
    fn only_versions_nobody_may_ask_for_are_trimmed() {
        let three = three_versions(KeyKind::Hmac);
        assert!(refusal(three.trimmed(1)).contains("minimum encryption version is not set"));
        let ready = three.configured(&minimums(Some(2), Some(3))).unwrap().0.unwrap();
        assert!(refusal(ready.trimmed(0)).contains("should be positive"));
        assert!(refusal(ready.trimmed(4)).contains("minmum encryption version"));
        assert!(refusal(ready.trimmed(3)).contains("minimum decryption version"));
        let trimmed = ready.trimmed(2).unwrap();
        assert_eq!(trimmed.versions.len(), 2);
        assert_eq!(trimmed.settings.min_available_version, 2);
        assert!(refusal(trimmed.trimmed(1)).contains("cannot be decremented"));
        let refused = trimmed.configured(&minimums(Some(1), None));
        assert!(refusal(refused).contains("min available version"));
    }
}
