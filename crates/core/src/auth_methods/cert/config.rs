//! `config`: what holds for the whole mount.

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::auth_methods::records::Record;

/// Whether a token is renewed with its certificate only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Binding {
    /// The certificate of the login has to be shown again, and still be good.
    #[default]
    Certificate,
    /// Nothing has to be shown.
    None,
}

/// The configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) binding: Binding,
}

impl Config {
    fn to_map(self) -> Map {
        Map::from([
            ("disable_binding".to_owned(), (self.binding == Binding::None).into()),
            // What a certificate says of its bearer always stands with their alias.
            ("enable_identity_alias_metadata".to_owned(), true.into()),
        ])
    }
}

impl Record for Config {
    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let map = json::parse_object(bytes).ok();
        let binding = match map.as_ref().and_then(|map| map.get("disable_binding")) {
            Some(Json::Bool(true)) => Binding::None,
            Some(Json::Bool(false)) => Binding::Certificate,
            _ => return Err(Error::internal(&"the configuration of a login method is damaged")),
        };
        Ok(Self { binding })
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
        if let Some(disabled) = fields.boolean("disable_binding")? {
            config.binding = if disabled { Binding::None } else { Binding::Certificate };
        }
        Ok(config)
    }
}
