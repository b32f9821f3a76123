//! What is tidied, and how often by the clock.

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Fields, Response, Span};
use kallisto_engine::FieldKind::{Flag, Span as Seconds, Whole};
use kallisto_engine::route::{Field, field};
use kallisto_engine::{Call, Storage, Stored};

use super::answer;
use super::given::{GivenFields, object, short};
use super::memory::AUTO_TIDY;

/// The operations, as refusals name them.
pub(super) const OPERATIONS: &str = "(tidy_cert_store / tidy_revoked_certs / tidy_invalid_certs / \
     tidy_revoked_cert_issuer_associations / tidy_expired_issuers / tidy_move_legacy_ca_bundle / tidy_acme)";

/// What requests about it take.
pub(super) const FIELDS: &[Field] = &[
    field("tidy_cert_store", Flag, "Whether certificates that ended are deleted."),
    field(
        "tidy_revoked_certs",
        Flag,
        "Whether revocations of certificates that ended are deleted.",
    ),
    field("tidy_revocation_list", Flag, "The same, by an older name."),
    field("tidy_revoked_cert_issuer_associations", Flag, "Nothing: revocations know who signed."),
    field("tidy_expired_issuers", Flag, "Whether issuers that ended are deleted."),
    field("tidy_invalid_certs", Flag, "Whether records that are no certificates are deleted."),
    field("tidy_move_legacy_ca_bundle", Flag, "Nothing: there is none."),
    field("tidy_acme", Flag, "Whether ACME is tidied."),
    field("tidy_cert_metadata", Flag, "Whether metadata of certificates that ended is deleted."),
    field("safety_buffer", Seconds, "How long after its end a certificate is kept."),
    field("issuer_safety_buffer", Seconds, "The same of issuers."),
    field("acme_account_safety_buffer", Seconds, "The same of ACME's accounts."),
    field("revoked_safety_buffer", Seconds, "The same of revocations."),
    field("pause_duration", Seconds, "How long to wait between pages."),
    field("page_size", Whole, "How many are looked at at a time."),
    field("enabled", Flag, "Whether it happens by the clock."),
    field("interval_duration", Seconds, "How often."),
    field(
        "maintain_stored_certificate_counts",
        Flag,
        "Whether certificates are counted; they are anyway.",
    ),
    field("publish_stored_certificate_count_metrics", Flag, "Whether counts are metrics."),
];

/// What is tidied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TidyWhat {
    pub(super) certificates: bool,
    pub(super) revoked: bool,
    pub(super) associations: bool,
    pub(super) expired_issuers: bool,
    pub(super) invalid: bool,
    pub(super) legacy: bool,
    pub(super) acme: bool,
    pub(super) metadata: bool,
    pub(super) buffer_secs: i64,
    pub(super) issuer_buffer_secs: i64,
    pub(super) acme_buffer_secs: i64,
    pub(super) revoked_buffer_secs: i64,
    pub(super) pause_secs: i64,
    pub(super) page_size: i64,
}

impl Default for TidyWhat {
    fn default() -> Self {
        Self {
            certificates: false,
            revoked: false,
            associations: false,
            expired_issuers: false,
            invalid: false,
            legacy: false,
            acme: false,
            metadata: false,
            buffer_secs: 72 * 3600,
            issuer_buffer_secs: 8760 * 3600,
            acme_buffer_secs: 720 * 3600,
            revoked_buffer_secs: 72 * 3600,
            pause_secs: 0,
            page_size: 1000,
        }
    }
}

impl TidyWhat {
    /// Changes what a request gives.
    pub(super) fn update(&self, given: GivenFields<'_>) -> Result<Self, Error> {
        let pause_secs = match given.text("pause_duration")?.as_str() {
            "" => self.pause_secs,
            text => match Span::parse(text) {
                // Not `secs`: a pause below a second is none, and one of a second would be longer than was asked for.
                Some(span) if !span.is_negative() => span.nanos() / 1_000_000_000,
                _ => {
                    return Err(Error::invalid(format!(
                        "Error parsing pause_duration: time: invalid duration {text:?}"
                    )));
                }
            },
        };
        let buffer_secs = given.secs("safety_buffer", self.buffer_secs)?;
        let revoked = match given.has("safety_buffer") {
            true => buffer_secs,
            false => self.revoked_buffer_secs,
        };
        let new = Self {
            certificates: given.flag("tidy_cert_store", self.certificates)?,
            // The second one is an older name, which many scripts have.
            revoked: given.flag("tidy_revoked_certs", self.revoked)?
                || given.flag("tidy_revocation_list", false)?,
            associations: given.flag("tidy_revoked_cert_issuer_associations", self.associations)?,
            expired_issuers: given.flag("tidy_expired_issuers", self.expired_issuers)?,
            invalid: given.flag("tidy_invalid_certs", self.invalid)?,
            legacy: given.flag("tidy_move_legacy_ca_bundle", self.legacy)?,
            acme: given.flag("tidy_acme", self.acme)?,
            metadata: given.flag("tidy_cert_metadata", self.metadata)?,
            buffer_secs,
            issuer_buffer_secs: given.secs("issuer_safety_buffer", self.issuer_buffer_secs)?,
            acme_buffer_secs: given.secs("acme_account_safety_buffer", self.acme_buffer_secs)?,
            revoked_buffer_secs: given.secs("revoked_safety_buffer", revoked)?,
            pause_secs,
            page_size: given.whole("page_size", self.page_size)?,
        };
        for (name, secs) in [
            ("safety_buffer", new.buffer_secs),
            ("issuer_safety_buffer", new.issuer_buffer_secs),
            ("acme_account_safety_buffer", new.acme_buffer_secs),
            ("revoked_safety_buffer", new.revoked_buffer_secs),
        ] {
            if secs < 1 {
                return Err(Error::invalid(format!("{name} must be greater than zero")));
            }
        }
        if !(1..=1_000_000).contains(&new.page_size) {
            return Err(Error::invalid("page_size must be 1 to 1000000"));
        }
        Ok(new)
    }

    pub(super) const fn is_nothing(&self) -> bool {
        !(self.certificates
            || self.revoked
            || self.associations
            || self.expired_issuers
            || self.invalid
            || self.legacy
            || self.acme
            || self.metadata)
    }

    pub(super) fn shown(&self) -> Map {
        object([
            ("tidy_cert_store", self.certificates.into()),
            ("tidy_revoked_certs", self.revoked.into()),
            ("tidy_revoked_cert_issuer_associations", self.associations.into()),
            ("tidy_expired_issuers", self.expired_issuers.into()),
            ("tidy_invalid_certs", self.invalid.into()),
            ("tidy_move_legacy_ca_bundle", self.legacy.into()),
            ("tidy_acme", self.acme.into()),
            ("tidy_cert_metadata", self.metadata.into()),
            ("safety_buffer", self.buffer_secs.into()),
            ("issuer_safety_buffer", self.issuer_buffer_secs.into()),
            ("acme_account_safety_buffer", self.acme_buffer_secs.into()),
            ("revoked_safety_buffer", self.revoked_buffer_secs.into()),
            ("pause_duration", short(self.pause_secs).into()),
            ("page_size", self.page_size.into()),
        ])
    }
}

/// Tidying by the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Auto {
    pub(super) is_enabled: bool,
    pub(super) interval_secs: i64,
    pub(super) keeps_counts: bool,
    publishes_counts: bool,
    pub(super) what: TidyWhat,
}

impl Default for Auto {
    fn default() -> Self {
        Self {
            is_enabled: false,
            interval_secs: 12 * 3600,
            keeps_counts: false,
            publishes_counts: false,
            what: TidyWhat::default(),
        }
    }
}

impl Auto {
    pub(super) fn update(&self, given: GivenFields<'_>) -> Result<Self, Error> {
        let new = Self {
            is_enabled: given.flag("enabled", self.is_enabled)?,
            interval_secs: given.secs("interval_duration", self.interval_secs)?,
            keeps_counts: given.flag("maintain_stored_certificate_counts", self.keeps_counts)?,
            publishes_counts: given
                .flag("publish_stored_certificate_count_metrics", self.publishes_counts)?,
            what: self.what.update(given)?,
        };
        if new.interval_secs < 1 {
            return Err(Error::invalid("interval_duration must be greater than zero"));
        }
        if new.is_enabled && new.what.is_nothing() {
            return Err(Error::invalid(format!(
                "Auto-tidy enabled but no tidy operations were requested. Enable at least one tidy \
                 operation to be run {OPERATIONS}."
            )));
        }
        if new.publishes_counts && !new.keeps_counts {
            return Err(Error::invalid(
                "Can not publish a running storage metrics count to metrics without first \
                 maintaining that count. Enable `maintain_stored_certificate_counts` to enable \
                 `publish_stored_certificate_count_metrics`.",
            ));
        }
        Ok(new)
    }

    pub(super) fn shown(&self) -> Map {
        let mut map = self.what.shown();
        map.extend(object([
            ("enabled", self.is_enabled.into()),
            ("interval_duration", self.interval_secs.into()),
            ("maintain_stored_certificate_counts", self.keeps_counts.into()),
            ("publish_stored_certificate_count_metrics", self.publishes_counts.into()),
        ]));
        map
    }

    pub(super) fn read(storage: &Storage<'_>) -> Result<Self, Error> {
        match storage.get(AUTO_TIDY)? {
            None => Ok(Self::default()),
            Some(record) => Self::decode(&record),
        }
    }

    fn decode(stored: &Stored) -> Result<Self, Error> {
        stored.decode_object(|map| Self::default().update(GivenFields(Fields::new(map))))
    }
}

pub(super) async fn read_auto(call: Call<'_>) -> Result<Response, Error> {
    Ok(answer::data(Auto::read(&call.storage)?.shown(), Vec::new()))
}

pub(super) async fn write_auto(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let auto = call.storage.transact(AUTO_TIDY, |transaction| {
        let known = match transaction.get(AUTO_TIDY)? {
            None => Auto::default(),
            Some(record) => Auto::decode(&record)?,
        };
        let auto = known.update(GivenFields::of(&body))?;
        transaction.put(AUTO_TIDY, Json::Object(auto.shown()).to_text())?;
        Ok(auto)
    });
    Ok(answer::data(auto.await?.shown(), Vec::new()))
}
