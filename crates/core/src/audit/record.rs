//! The records of auditing in the engine storage of `sys/`: devices and headers, as JSON.

use data_encoding::HEXLOWER;
use kallisto_audit::{DeviceOptions, SALT_BYTES};
use zeroize::Zeroizing;

use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::random;

/// A device that was enabled.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DeviceRecord {
    /// `file`, `socket` or `syslog`.
    pub(crate) kind: String,
    /// For people.
    pub(crate) description: String,
    /// Never replicated elsewhere; shown back.
    pub(crate) local: bool,
    /// What it was told.
    pub(crate) options: DeviceOptions,
    /// Keys the masks of its values; drawn when it is enabled, gone with it.
    pub(crate) salt: Zeroizing<[u8; SALT_BYTES]>,
    /// Whether the configuration declares it.
    pub(crate) declared: bool,
}

/// A request header that is audited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderRecord {
    /// Whether its values are masked.
    pub(crate) hmac: bool,
}

impl DeviceRecord {
    /// A record with a salt of its own.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the operating system gives no randomness.
    pub(crate) fn make(
        kind: &str,
        description: String,
        local: bool,
        options: DeviceOptions,
    ) -> Result<Self, Error> {
        let mut salt = Zeroizing::new([0; SALT_BYTES]);
        random::fill(&mut *salt)?;
        Ok(Self { kind: kind.to_owned(), description, local, options, salt, declared: false })
    }

    /// The device as a listing shows it.
    pub(crate) fn to_wire(&self, path: &str) -> Json {
        Json::object([
            ("description", self.description.as_str().into()),
            ("local", self.local.into()),
            ("options", self.options_json()),
            ("path", format!("{path}/").into()),
            ("type", self.kind.as_str().into()),
        ])
    }

    fn options_json(&self) -> Json {
        let pairs = self.options.iter();
        let map: Map = pairs.map(|(name, text)| (name.clone(), text.as_str().into())).collect();
        map.into()
    }

    /// The record's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::object([
            ("type", self.kind.as_str().into()),
            ("description", self.description.as_str().into()),
            ("local", self.local.into()),
            ("options", self.options_json()),
            ("salt", HEXLOWER.encode(&*self.salt).into()),
            ("declared", self.declared.into()),
        ])
        .to_text()
    }

    /// Reads a record back; `None` when the bytes are no device.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let text = |name: &str| map.get(name).and_then(Json::as_str).map(str::to_owned);
        let flag = |name: &str| match map.get(name)? {
            Json::Bool(value) => Some(*value),
            _ => None,
        };
        let options = map.get("options")?.as_object()?.iter();
        let options = options.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        let salt = Zeroizing::new(HEXLOWER.decode(text("salt")?.as_bytes()).ok()?);
        Some(Self {
            kind: text("type")?,
            description: text("description")?,
            local: flag("local")?,
            options: options.collect::<Option<_>>()?,
            salt: Zeroizing::new(salt.as_slice().try_into().ok()?),
            declared: flag("declared")?,
        })
    }
}

impl HeaderRecord {
    /// The record's bytes, which are also what the wire shows.
    pub(crate) fn to_json(self) -> Json {
        Json::object([("hmac", self.hmac.into())])
    }

    /// Reads a record back; `None` when the bytes are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        match json::parse_object(bytes).ok()?.get("hmac")? {
            Json::Bool(hmac) => Some(Self { hmac: *hmac }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back() {
        let options = [("file_path".to_owned(), "/var/log/a".to_owned())].into();
        let mut record = DeviceRecord::make("file", "d\"".into(), true, options).unwrap();
        record.declared = true;
        assert!(DeviceRecord::decode(&record.encode()) == Some(record));
        assert!(DeviceRecord::decode(b"{}").is_none());
        let header = HeaderRecord { hmac: true };
        assert_eq!(HeaderRecord::decode(&header.to_json().to_text()), Some(header));
        assert_eq!(HeaderRecord::decode(b"{}"), None);
    }
}
