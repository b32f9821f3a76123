//! When a login method refuses a name after wrong passwords: part of a mount's configuration.
//!
//! What is counted by these rules is in [`crate::platform::lockout`].

use kallisto_engine::time::seconds;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};

/// When a name is locked, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockoutRules {
    /// Failures until then.
    pub(crate) threshold: u32,
    /// For how long, in seconds.
    pub(crate) duration_secs: u64,
    /// Failures further apart than this do not add up.
    pub(crate) reset_secs: u64,
    /// Whether names are never locked.
    pub(crate) disabled: bool,
}

impl Default for LockoutRules {
    fn default() -> Self {
        Self { threshold: 5, duration_secs: 900, reset_secs: 900, disabled: false }
    }
}

impl LockoutRules {
    /// Applies the fields of `user_lockout_config`; an empty text changes nothing, and 0 is the default.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the field that cannot be taken.
    pub(crate) fn update(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        let is_given = |name: &str| fields.raw(name).and_then(Json::as_str) != Some("");
        let default = Self::default();
        if is_given("lockout_threshold")
            && let Some(given) = fields.int("lockout_threshold")?
        {
            let given = u32::try_from(given);
            let given = given.map_err(|_| Error::invalid("lockout_threshold is out of range"))?;
            self.threshold = or_default(given, default.threshold);
        }
        for (name, secs, default_secs) in [
            ("lockout_duration", &mut self.duration_secs, default.duration_secs),
            ("lockout_counter_reset_duration", &mut self.reset_secs, default.reset_secs),
        ] {
            // What command lines send for a span below zero.
            if fields.raw(name).and_then(Json::as_str) == Some("system") {
                *secs = default_secs;
            } else if is_given(name)
                && let Some(given) = seconds(fields, name)?
            {
                *secs = or_default(given, default_secs);
            }
        }
        if is_given("lockout_disable")
            && let Some(disabled) = fields.boolean("lockout_disable")?
        {
            self.disabled = disabled;
        }
        Ok(())
    }

    /// The rules as they are shown and stored.
    pub(crate) fn to_map(self) -> Map {
        [
            ("user_lockout_counter_reset_duration", Json::from(self.reset_secs)),
            ("user_lockout_disable", self.disabled.into()),
            ("user_lockout_duration", self.duration_secs.into()),
            ("user_lockout_threshold", u64::from(self.threshold).into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Reads back what [`LockoutRules::to_map`] wrote; `None` when it did not. Records of old may have spans of 0, which locked nobody.
    pub(crate) fn decode(map: &Map) -> Option<Self> {
        let fields = Fields::new(map);
        let number = |name: &str| u64::try_from(fields.int(name).ok()??).ok();
        let (default, reset_name) = (Self::default(), "user_lockout_counter_reset_duration");
        Some(Self {
            threshold: number("user_lockout_threshold")?.try_into().ok()?,
            duration_secs: or_default(number("user_lockout_duration")?, default.duration_secs),
            reset_secs: or_default(number(reset_name)?, default.reset_secs),
            disabled: fields.boolean("user_lockout_disable").ok()??,
        })
    }
}

/// A setting, or its default where it is 0: rules that lock nobody are said by `lockout_disable` alone.
fn or_default<T: Default + PartialEq>(given: T, default: T) -> T {
    if given == T::default() { default } else { given }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::json::parse_object;

    #[test]
    fn the_word_system_takes_a_span_back_and_an_empty_text_changes_nothing() {
        let mut rules = LockoutRules::default();
        let mut update = |body: &str| {
            rules.update(Fields::new(&parse_object(body.as_bytes()).unwrap())).unwrap();
            (rules.duration_secs, rules.reset_secs)
        };
        let both = r#"{"lockout_duration":"10m","lockout_counter_reset_duration":60}"#;
        assert_eq!(update(both), (600, 60));
        let empty = r#"{"lockout_duration":"","lockout_counter_reset_duration":""}"#;
        assert_eq!(update(empty), (600, 60));
        assert_eq!(update(r#"{"lockout_duration":"system"}"#), (900, 60));
        assert_eq!(update(r#"{"lockout_counter_reset_duration":"system"}"#), (900, 900));
    }

    #[test]
    fn nothing_is_the_default_and_turns_no_lockout_off() {
        let zeros =
            r#"{"lockout_threshold":0,"lockout_duration":0,"lockout_counter_reset_duration":"0s"}"#;
        for body in [zeros, &zeros.replace(":0", r#":"0""#)] {
            let mut rules = LockoutRules { threshold: 1, duration_secs: 1, ..Default::default() };
            rules.update(Fields::new(&parse_object(body.as_bytes()).unwrap())).unwrap();
            assert_eq!(rules, LockoutRules::default(), "{body}");
        }
        let old = LockoutRules { duration_secs: 0, reset_secs: 0, ..Default::default() };
        assert_eq!(LockoutRules::decode(&old.to_map()), Some(LockoutRules::default()));
        let below = parse_object(br#"{"lockout_threshold":-1}"#).unwrap();
        assert!(LockoutRules::default().update(Fields::new(&below)).is_err());
        let under_a_second = parse_object(br#"{"lockout_duration":"500ms"}"#).unwrap();
        let mut rules = LockoutRules::default();
        rules.update(Fields::new(&under_a_second)).unwrap();
        assert_eq!(rules.duration_secs, 1);
    }
}
