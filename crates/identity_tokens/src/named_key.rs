//! A named key: the version that signs, the one that will, and those whose tokens still live.
//!
//! The next version is published with the one that signs, so that who keeps a copy of the key set has it before the first token under it.
//! A rotation makes the next version the one that signs, and retires the other: its private half is dropped, and its public half is
//! published until every token that it signed has ended. That is `verification_ttl` after the rotation, or later: no token lives longer
//! than the `verification_ttl` that held when it was signed, so where that is lowered, the end of what was signed before is kept.
//!
//! Invariants:
//! - A version that is published goes on being so until the last token that it signed has ended, unless a rotation was told to cut it off.
//! - At most [`RETIRED_MAX`] versions are retired by request; rotations by the clock retire at most ten in the life of a token.

use kallisto_api::{Error, Json};

use crate::algorithm::SigningAlgorithm;
use crate::record;
use crate::signing_key::{JsonWebKey, StoredSigningKey, TokenSigningKey};

/// Shortest period between rotations, in seconds.
pub const ROTATION_PERIOD_SECS_MIN: u64 = 60;
/// How many times the rotation period tokens may be verified.
const VERIFICATION_PERIODS_MAX: u64 = 10;
/// Seconds of a day: both times when nobody says.
pub const DAY_SECS: u64 = 24 * 3600;
/// How long a retired version is published beyond its tokens, in seconds: a server that is behind signs with it until it hears of the
/// rotation, and clocks differ.
pub const RETIRED_GRACE_SECS: u64 = 300;
/// Most retired versions of one key at which it is rotated by request.
pub const RETIRED_MAX: usize = 64;
/// Most clients that a key lists.
pub const ALLOWED_CLIENT_IDS_MAX: usize = 4096;

/// The key that clients have when they name none.
pub const DEFAULT: &str = "default";

/// What is asked of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedKeySettings {
    /// The algorithm of its versions.
    pub algorithm: SigningAlgorithm,
    /// Seconds from one rotation to the next.
    pub rotation_period_secs: u64,
    /// How long tokens of a version can be verified after its retirement, in seconds; no token lives longer.
    pub verification_ttl_secs: u64,
    /// Whose tokens it signs, by client id; `*` for everybody's.
    pub allowed_client_ids: Vec<String>,
}

/// A version that does not sign any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetiredVersion {
    /// What verifies its tokens.
    pub public: JsonWebKey,
    /// When the last of them has ended.
    pub until: i64,
}

/// A named key. `None` for the versions of the default key that nothing was signed with yet.
#[derive(Debug)]
pub struct NamedKey {
    /// What is asked of it.
    pub settings: NamedKeySettings,
    /// When it rotates next.
    pub next_rotation: i64,
    versions: Option<KeyVersions>,
    retired: Vec<RetiredVersion>,
    /// When the last token has ended that was signed under a longer `verification_ttl` than there is now.
    longest_end: i64,
}

#[derive(Debug)]
struct KeyVersions {
    current: StoredSigningKey,
    next: StoredSigningKey,
}

/// New versions for a key that has none.
#[derive(Debug)]
pub struct FreshVersions {
    /// Signs from now on.
    pub current: StoredSigningKey,
    /// Signs from the first rotation on.
    pub next: StoredSigningKey,
}

impl FreshVersions {
    /// Two versions.
    ///
    /// # Errors
    /// As [`TokenSigningKey::make`].
    pub fn make(algorithm: SigningAlgorithm) -> Result<Self, Error> {
        let make = || Ok::<_, Error>(TokenSigningKey::make(algorithm)?.store());
        Ok(Self { current: make()?, next: make()? })
    }
}

impl Default for NamedKeySettings {
    fn default() -> Self {
        Self {
            algorithm: SigningAlgorithm::Rs256,
            rotation_period_secs: DAY_SECS,
            verification_ttl_secs: DAY_SECS,
            allowed_client_ids: Vec::new(),
        }
    }
}

impl NamedKeySettings {
    /// Those of the default key while nobody changed it.
    pub fn of_default() -> Self {
        Self { allowed_client_ids: vec!["*".to_owned()], ..Self::default() }
    }

    /// Refuses what no key may be.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what.
    pub fn check(&self) -> Result<(), Error> {
        if self.rotation_period_secs < ROTATION_PERIOD_SECS_MIN {
            return Err(Error::invalid("rotation_period must be at least one minute"));
        }
        let most = self.rotation_period_secs.saturating_mul(VERIFICATION_PERIODS_MAX);
        if self.verification_ttl_secs > most {
            return Err(Error::invalid(
                "verification_ttl cannot be longer than 10x rotation_period",
            ));
        }
        if self.allowed_client_ids.len() > ALLOWED_CLIENT_IDS_MAX {
            return Err(Error::invalid(format!(
                "allowed_client_ids has more than {ALLOWED_CLIENT_IDS_MAX} entries"
            )));
        }
        Ok(())
    }

    /// Whether it signs for a client.
    pub fn allows(&self, client_id: &str) -> bool {
        self.allowed_client_ids.iter().any(|allowed| allowed == "*" || allowed == client_id)
    }
}

fn after(now: i64, secs: u64) -> i64 {
    now.saturating_add(i64::try_from(secs).unwrap_or(i64::MAX))
}

impl NamedKey {
    /// A key without versions.
    pub fn new(settings: NamedKeySettings, now: i64) -> Self {
        let next_rotation = after(now, settings.rotation_period_secs);
        Self { settings, next_rotation, versions: None, retired: Vec::new(), longest_end: 0 }
    }

    /// Changes what is asked of it. `fresh` has versions of the new algorithm, where [`NamedKey::needs_versions`] says that it
    /// takes them.
    pub fn change(&mut self, settings: NamedKeySettings, fresh: Option<FreshVersions>, now: i64) {
        if settings.verification_ttl_secs < self.settings.verification_ttl_secs {
            let end = after(now, self.settings.verification_ttl_secs);
            self.longest_end = self.longest_end.max(end);
        }
        let next_rotation = after(now, settings.rotation_period_secs);
        self.next_rotation = self.next_rotation.min(next_rotation);
        self.settings = settings;
        if let Some(fresh) = fresh {
            self.take(fresh, now);
        }
    }

    /// Takes versions; those that there are retire.
    pub fn take(&mut self, fresh: FreshVersions, now: i64) {
        let versions = KeyVersions { current: fresh.current, next: fresh.next };
        if let Some(old) = self.versions.replace(versions) {
            self.retire(old.current, self.end_of_tokens(now), now);
        }
        self.next_rotation = after(now, self.settings.rotation_period_secs);
    }

    /// Whether it has no versions of this algorithm.
    pub fn needs_versions(&self, algorithm: SigningAlgorithm) -> bool {
        let current = self.versions.as_ref().map(|versions| versions.current.public().algorithm());
        current != Some(algorithm)
    }

    /// When the last token has ended that was signed until `now`.
    fn end_of_tokens(&self, now: i64) -> i64 {
        let end = after(now, self.settings.verification_ttl_secs);
        after(self.longest_end.max(end), RETIRED_GRACE_SECS)
    }

    fn retire(&mut self, version: StoredSigningKey, until: i64, now: i64) {
        self.retired.retain(|retired| retired.until > now);
        if until > now {
            self.retired.push(RetiredVersion { public: version.public().clone(), until });
        }
    }

    /// Makes the next version the one that signs, and `next` the one after it. With `cut_off_secs` the retired version is published
    /// that long and no longer.
    pub fn rotate(&mut self, next: StoredSigningKey, now: i64, cut_off_secs: Option<u64>) {
        let until = match cut_off_secs {
            Some(secs) => after(now, secs),
            None => self.end_of_tokens(now),
        };
        if let Some(versions) = self.versions.take() {
            self.versions = Some(KeyVersions { current: versions.next, next });
            self.retire(versions.current, until, now);
        }
        self.next_rotation = after(now, self.settings.rotation_period_secs);
    }

    /// Whether the clock asks for a rotation.
    pub const fn is_due(&self, now: i64) -> bool {
        self.versions.is_some() && self.next_rotation <= now
    }

    /// Whether a retired version has outlived its tokens.
    pub fn has_ended(&self, now: i64) -> bool {
        self.retired.iter().any(|retired| retired.until <= now)
    }

    /// Lets go of retired versions whose tokens have ended.
    pub fn forget_ended(&mut self, now: i64) {
        self.retired.retain(|retired| retired.until > now);
    }

    /// How many versions are retired.
    pub fn retired_count(&self) -> usize {
        self.retired.len()
    }

    /// The version that signs; `None` for a default key that nothing was signed with yet.
    pub fn signing(&self) -> Option<&StoredSigningKey> {
        self.versions.as_ref().map(|versions| &versions.current)
    }

    /// Every version that is published: the one that signs, the one that will, and those whose tokens live.
    pub fn published(&self, now: i64) -> impl Iterator<Item = &JsonWebKey> {
        let versions = self.versions.iter();
        let kept =
            versions.flat_map(|versions| [versions.current.public(), versions.next.public()]);
        let live = self.retired.iter().filter(move |retired| retired.until > now);
        kept.chain(live.map(|retired| &retired.public))
    }

    /// What is shown of it.
    pub fn shown(&self) -> Json {
        Json::object([
            ("algorithm", self.settings.algorithm.name().into()),
            ("allowed_client_ids", Json::strings(self.settings.allowed_client_ids.clone())),
            ("rotation_period", self.settings.rotation_period_secs.into()),
            ("verification_ttl", self.settings.verification_ttl_secs.into()),
        ])
    }

    /// The record's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let retired = self.retired.iter().map(|retired| {
            Json::object([("jwk", retired.public.jwk()), ("until", number(retired.until))])
        });
        let version = |pick: fn(&KeyVersions) -> &StoredSigningKey| match &self.versions {
            Some(versions) => pick(versions).to_json(),
            None => Json::Null,
        };
        Json::object([
            ("algorithm", self.settings.algorithm.name().into()),
            ("rotation_period", self.settings.rotation_period_secs.into()),
            ("verification_ttl", self.settings.verification_ttl_secs.into()),
            ("allowed_client_ids", Json::strings(self.settings.allowed_client_ids.clone())),
            ("next_rotation", number(self.next_rotation)),
            ("longest_end", number(self.longest_end)),
            ("current", version(|versions| &versions.current)),
            ("next", version(|versions| &versions.next)),
            ("retired", Json::Array(retired.collect())),
        ])
        .to_text()
    }

    /// Reads a record back; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let map = record::object(bytes)?;
        let versions = match (map.get("current")?, map.get("next")?) {
            (Json::Null, Json::Null) => None,
            (current, next) => Some(KeyVersions {
                current: StoredSigningKey::from_json(current)?,
                next: StoredSigningKey::from_json(next)?,
            }),
        };
        let Json::Array(retired) = map.get("retired")? else { return None };
        let retired = retired.iter().map(|retired| {
            let map = retired.as_object()?;
            let public = JsonWebKey::from_jwk(map.get("jwk")?)?;
            Some(RetiredVersion { public, until: record::number(map, "until")? })
        });
        Some(Self {
            settings: NamedKeySettings {
                algorithm: SigningAlgorithm::named(map.get("algorithm")?.as_str()?)?,
                rotation_period_secs: record::number(&map, "rotation_period")?,
                verification_ttl_secs: record::number(&map, "verification_ttl")?,
                allowed_client_ids: record::texts(&map, "allowed_client_ids")?,
            },
            next_rotation: record::number(&map, "next_rotation")?,
            versions,
            retired: retired.collect::<Option<_>>()?,
            longest_end: record::number(&map, "longest_end")?,
        })
    }
}

fn number(value: i64) -> Json {
    Json::Number(value.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(settings: NamedKeySettings, now: i64) -> NamedKey {
        let mut key = NamedKey::new(settings, now);
        key.take(FreshVersions::make(SigningAlgorithm::EdDsa).unwrap(), now);
        key
    }

    fn settings(rotation_period_secs: u64, verification_ttl_secs: u64) -> NamedKeySettings {
        let algorithm = SigningAlgorithm::EdDsa;
        NamedKeySettings {
            algorithm,
            rotation_period_secs,
            verification_ttl_secs,
            ..NamedKeySettings::default()
        }
    }

    fn fresh() -> StoredSigningKey {
        TokenSigningKey::make(SigningAlgorithm::EdDsa).unwrap().store()
    }

    fn kid(key: &NamedKey) -> String {
        key.signing().unwrap().public().kid().to_owned()
    }

    fn publishes(key: &NamedKey, kid: &str, now: i64) -> bool {
        key.published(now).any(|public| public.kid() == kid)
    }

    #[test]
    fn what_signs_next_is_published_before_it_signs() {
        let mut key = make(settings(100, 100), 0);
        let before: Vec<String> = key.published(0).map(|key| key.kid().to_owned()).collect();
        assert_eq!(before.len(), 2);
        key.rotate(fresh(), 100, None);
        assert_eq!(kid(&key), before[1]);
    }

    /// The key beside a list of the tokens that it signed: whatever is done with it, each live token's version is published.
    #[test]
    fn a_version_is_published_until_the_last_token_that_it_signed_has_ended() {
        for seed in 0..60 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut key = make(settings(1000, 5000), 0);
            let mut tokens: Vec<(String, i64)> = Vec::new();
            let mut now = 0;
            for _ in 0..60 {
                now += random.i64(0..700);
                match random.u8(0..6) {
                    0 => key.rotate(fresh(), now, None),
                    1 => {
                        let to = settings(1000, random.u64(0..10_000));
                        key.change(to, None, now);
                    }
                    2 if key.is_due(now) => key.rotate(fresh(), now, None),
                    3 => key.forget_ended(now),
                    4 => key.take(FreshVersions { current: fresh(), next: fresh() }, now),
                    _ => {
                        let ttl = random.u64(0..=key.settings.verification_ttl_secs);
                        tokens.push((kid(&key), after(now, ttl)));
                    }
                }
                key = NamedKey::decode(&key.encode()).unwrap();
                for (kid, end) in tokens.iter().filter(|(_, end)| *end > now) {
                    assert!(publishes(&key, kid, now), "seed {seed}: ends at {end}, now {now}");
                }
            }
        }
    }

    #[test]
    fn a_retired_version_keeps_no_private_half_and_ends() {
        let mut key = make(settings(100, 200), 0);
        let first = kid(&key);
        let pkcs8 = key.signing().unwrap().to_json();
        let pkcs8 = record::text(pkcs8.as_object().unwrap(), "pkcs8").unwrap();
        assert!(String::from_utf8(key.encode()).unwrap().contains(&pkcs8));
        key.rotate(fresh(), 100, None);
        assert!(!String::from_utf8(key.encode()).unwrap().contains(&pkcs8));
        let end = 100 + 200 + 300;
        assert!(publishes(&key, &first, end - 1));
        assert!(!publishes(&key, &first, end));
        assert!(key.has_ended(end));
        key.forget_ended(end);
        assert_eq!(key.retired_count(), 0);
    }

    #[test]
    fn a_rotation_that_cuts_off_publishes_as_long_as_it_was_told() {
        let mut key = make(settings(100, 200), 0);
        let first = kid(&key);
        key.rotate(fresh(), 50, Some(0));
        assert!(!publishes(&key, &first, 50));
        assert_eq!(key.next_rotation, 150);
    }

    #[test]
    fn what_no_key_may_be_is_refused() {
        assert!(settings(60, 600).check().is_ok());
        assert!(settings(59, 60).check().is_err());
        assert!(settings(60, 601).check().is_err());
        assert!(NamedKey::decode(b"{}").is_none());
        assert!(NamedKey::decode(b"\xff").is_none());
    }

    #[test]
    fn a_key_signs_for_the_clients_that_it_names_or_for_everybody() {
        let of = |ids: &[&str]| NamedKeySettings {
            allowed_client_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            ..NamedKeySettings::default()
        };
        assert!(of(&["a", "b"]).allows("b") && !of(&["a", "b"]).allows("c"));
        assert!(of(&["*"]).allows("c") && !of(&[]).allows("c"));
        assert!(NamedKeySettings::of_default().allows("c"));
        let many = |count| of(&vec!["a"; count]).check().is_ok();
        assert!(many(ALLOWED_CLIENT_IDS_MAX) && !many(ALLOWED_CLIENT_IDS_MAX + 1));
    }

    #[test]
    fn a_change_is_taken_and_brings_a_rotation_no_later() {
        let mut key = make(settings(100, 100), 0);
        assert!(!key.needs_versions(SigningAlgorithm::EdDsa));
        assert!(key.needs_versions(SigningAlgorithm::Es256));
        assert!(NamedKey::new(settings(100, 100), 0).needs_versions(SigningAlgorithm::EdDsa));
        key.change(settings(60, 100), None, 10);
        assert_eq!((key.next_rotation, key.settings.rotation_period_secs), (70, 60));
        key.change(settings(1000, 100), None, 20);
        assert_eq!(key.next_rotation, 70);
    }

    #[test]
    fn retired_versions_are_counted_until_their_tokens_have_ended() {
        let mut key = make(settings(100, 200), 0);
        key.rotate(fresh(), 0, Some(0));
        assert_eq!(key.retired_count(), 0, "it was cut off");
        key.rotate(fresh(), 0, Some(10));
        assert_eq!((key.retired_count(), key.has_ended(9), key.has_ended(10)), (1, false, true));
        key.rotate(fresh(), 10, Some(10));
        assert_eq!(key.retired_count(), 1, "the first is gone");
    }
}
