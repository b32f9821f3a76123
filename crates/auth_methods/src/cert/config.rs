//! `config`: what holds for the whole mount.

use crate::records::FieldsRecord;
use kallisto_api::error::Error;
use kallisto_api::fields::Fields;
use kallisto_api::json::{self, Json, Map};

/// The configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CertConfig {
    /// Whether a token is renewed without the certificate of its login, which has to be shown again and be good otherwise.
    pub(super) disables_binding: bool,
}

impl CertConfig {
    fn to_map(self) -> Map {
        Map::from([
            ("disable_binding".to_owned(), self.disables_binding.into()),
            // What a certificate says of its bearer always stands with their alias.
            ("enable_identity_alias_metadata".to_owned(), true.into()),
        ])
    }
}

impl FieldsRecord for CertConfig {
    fn decode(bytes: &[u8]) -> Option<Self> {
        match json::parse_object(bytes).ok()?.get("disable_binding") {
            Some(Json::Bool(disables_binding)) => {
                Some(Self { disables_binding: *disables_binding })
            }
            _ => None,
        }
    }

    fn encode(&self) -> Vec<u8> {
        Json::Object(self.to_map()).to_text()
    }

    fn shown(&self) -> Map {
        self.to_map()
    }

    fn written(before: Option<Self>, fields: Fields<'_>) -> Result<Self, Error> {
        if fields.boolean("enable_identity_alias_metadata")? == Some(false) {
            return Err(Error::invalid("enable_identity_alias_metadata is always true"));
        }
        let mut config = before.unwrap_or_default();
        if let Some(disables_binding) = fields.boolean("disable_binding")? {
            config.disables_binding = disables_binding;
        }
        Ok(config)
    }
}
