//! `sys/rotate/config`: when the data key is rotated automatically.
//!
//! The settings are a record of the cluster's. The tick of the server that leads looks at the key's age and at
//! how many records it sealed, and rotates as `sys/rotate` does. Nonces are drawn so that no number of records
//! comes near a limit of the cipher; the bounds are those that clients of Vault know.

use std::ops::RangeInclusive;
use std::sync::Arc;

use jiff::Timestamp;

use crate::api::Span;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::state::Core;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// The name of the settings' record in the engine storage of `sys/`.
const RECORD: &str = "rotate/config";
/// How many records a key may seal before it is replaced.
const OPERATIONS: RangeInclusive<u64> = 1_000_000..=3_865_470_566;
/// Least age at which a key is replaced for it, in seconds.
const INTERVAL_SECS_MIN: i64 = 24 * 60 * 60;

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RotationSettings {
    /// Whether the key is replaced at all unless somebody asks.
    is_enabled: bool,
    /// Age at which a key is replaced; zero for none.
    interval: Span,
    /// Records after which it is.
    operations_max: u64,
}

impl Default for RotationSettings {
    fn default() -> Self {
        Self { is_enabled: true, interval: Span::ZERO, operations_max: *OPERATIONS.end() }
    }
}

impl RotationSettings {
    fn load(storage: &EngineStorage<'_>) -> Result<Self, Error> {
        let Some(record) = storage.get(RECORD)? else { return Ok(Self::default()) };
        let read = || {
            let map = json::parse_object(&record.value).ok()?;
            Self::default().written(Fields::new(&map)).ok()
        };
        read().ok_or_else(|| Error::internal(&"the record of rotations is damaged"))
    }

    /// The settings as these fields make them.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the field that cannot be taken.
    fn written(mut self, fields: Fields<'_>) -> Result<Self, Error> {
        if let Some(is_enabled) = fields.boolean("enabled")? {
            self.is_enabled = is_enabled;
        }
        if let Some(most) = fields.int("max_operations")? {
            let most = u64::try_from(most).ok().filter(|most| OPERATIONS.contains(most));
            self.operations_max = most.ok_or_else(|| {
                let (least, most) = (OPERATIONS.start(), OPERATIONS.end());
                Error::invalid(format!("max_operations must be in the range [{least},{most}]"))
            })?;
        }
        if let Some(interval) = fields.span("interval")? {
            if interval.is_negative() {
                return Err(Error::invalid(format!(
                    "Field validation failed: error converting input for field \"interval\": cannot \
                     provide negative value '{}'",
                    interval.secs()
                )));
            }
            if interval != Span::ZERO && interval.secs() < INTERVAL_SECS_MIN {
                return Err(Error::invalid("interval must be greater or equal to 24h0m0s"));
            }
            self.interval = interval;
        }
        Ok(self)
    }

    /// What is stored, and but for its form what is shown.
    fn to_map(&self, interval: Json) -> Map {
        Map::from([
            ("enabled".to_owned(), self.is_enabled.into()),
            ("interval".to_owned(), interval),
            ("max_operations".to_owned(), self.operations_max.into()),
        ])
    }

    /// Whether a key that was installed `age_secs` ago and sealed so many records is to be replaced.
    fn is_due(&self, age_secs: i64, seals: u64) -> bool {
        let is_old = self.interval != Span::ZERO && age_secs >= self.interval.secs();
        self.is_enabled && (is_old || seals >= self.operations_max)
    }
}

/// Answers a read of the settings.
pub(super) fn read(context: &NamespaceContext) -> Result<Response, Error> {
    let settings = RotationSettings::load(&EngineStorage::builtin(context, MountId::SYSTEM)?)?;
    let interval = match settings.interval {
        Span::ZERO => 0_u64.into(),
        interval => interval.to_go().into(),
    };
    Ok(Response::data(&settings.to_map(interval).into()))
}

/// Answers a write of them.
pub(super) async fn write(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let storage = EngineStorage::builtin(context, MountId::SYSTEM)?;
    let settings = RotationSettings::load(&storage)?.written(Fields::new(&body))?;
    let interval = settings.interval.to_go().into();
    storage.put(RECORD, Json::Object(settings.to_map(interval)).to_text()).await?;
    Ok(Response::Empty)
}

/// Replaces the data key if its time has come.
///
/// # Errors
/// What rotating says; the next run tries again.
pub(crate) async fn rotate_due(
    core: &Core,
    context: &Arc<NamespaceContext>,
    now: Timestamp,
) -> Result<(), Error> {
    let settings = RotationSettings::load(&EngineStorage::builtin(context, MountId::SYSTEM)?)?;
    let Some(key) = Core::active_key(context) else { return Ok(()) };
    let age_secs = now.as_second().saturating_sub(key.installed_at_unix);
    if settings.is_due(age_secs, key.seals) {
        tracing::info!(age_secs, encryptions = key.seals, "the data key is due for rotation");
        core.rotate(context, now).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::{Read, Update};
    use kallisto_store::MemoryStore;

    use super::*;
    use crate::platform::server_info::ServerInfo;

    fn settings(text: &str) -> Result<RotationSettings, Error> {
        let map = json::parse_object(text.as_bytes()).unwrap();
        RotationSettings::default().written(Fields::new(&map))
    }

    #[test]
    fn settings_are_within_bounds_or_refused() {
        let good = settings(r#"{"enabled":"false","interval":"25h","max_operations":"1000000"}"#);
        let good = good.unwrap();
        assert!(!good.is_enabled);
        assert_eq!((good.interval.secs(), good.operations_max), (90_000, 1_000_000));
        assert_eq!(settings("{}").unwrap(), RotationSettings::default());
        assert_eq!(settings(r#"{"interval":0}"#).unwrap().interval, Span::ZERO);
        for (text, word) in [
            (r#"{"interval":"23h59m"}"#, "24h0m0s"),
            (r#"{"interval":"-1h"}"#, "negative value '-3600'"),
            (r#"{"interval":"soon"}"#, "interval"),
            (r#"{"max_operations":999999}"#, "[1000000,3865470566]"),
            (r#"{"max_operations":3865470567}"#, "[1000000,3865470566]"),
            (r#"{"max_operations":-1}"#, "[1000000,3865470566]"),
            (r#"{"max_operations":"x"}"#, "max_operations"),
        ] {
            let Err(Error::Invalid(why)) = settings(text) else { panic!("{text} was taken") };
            assert!(why.contains(word), "{text}: {why}");
        }
    }

    #[test]
    fn a_key_is_due_by_age_or_by_use_and_never_when_it_is_off() {
        let by_age = settings(r#"{"interval":"24h"}"#).unwrap();
        assert!(!by_age.is_due(86_399, 0) && by_age.is_due(86_400, 0));
        let by_use = settings(r#"{"max_operations":1000000}"#).unwrap();
        assert!(!by_use.is_due(i64::MAX, 999_999) && by_use.is_due(0, 1_000_000));
        let off = settings(r#"{"enabled":false,"interval":"24h"}"#).unwrap();
        assert!(!off.is_due(i64::MAX, u64::MAX));
    }

    #[test]
    fn the_job_replaces_a_key_whose_time_has_come_once() {
        let core = Core::new(Arc::new(MemoryStore::new()), ServerInfo::default());
        let made = core.initialize_dev(Some("root".to_owned().into()), Timestamp::UNIX_EPOCH);
        pollster::block_on(made).unwrap();
        let ask = |operation, body: &str| {
            let path = "sys/rotate/config";
            let request = crate::routes::tests::request(Some("root"), operation, path, body);
            pollster::block_on(core.handle(&request)).unwrap()
        };
        let version = || Core::active_key(&core.context.load_full().unwrap()).unwrap().version;
        let tick = |hours: i64| {
            pollster::block_on(core.run_due_jobs(Timestamp::from_second(hours * 3600).unwrap()))
                .unwrap();
            version()
        };
        let first = version();
        assert_eq!(tick(1000), first, "nothing is due by itself");
        ask(Update, r#"{"interval":"2000h"}"#);
        assert_eq!(tick(1999), first);
        assert_eq!(tick(2000), first + 1);
        assert_eq!(tick(2001), first + 1);
        let Response::Logical(shown) = ask(Read, "") else { panic!("no data") };
        let shown = String::from_utf8(shown.data).unwrap();
        assert!(shown.contains(r#""interval":"2000h0m0s""#), "{shown}");
    }
}
