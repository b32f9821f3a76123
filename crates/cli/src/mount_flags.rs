//! Flags of engines and login methods alike, which `secrets` and `auth` take with `enable` and `tune`.
//!
//! Lists are sent as lists: a flag that is given more than once adds to its own.

use clap::Args;

use super::pairs;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// What a mount may be told when it is made and later.
#[derive(Args, Debug)]
pub(super) struct MountFlags {
    /// A field of requests that audit devices write in the clear; may be repeated
    #[arg(long, value_name = "FIELD")]
    audit_non_hmac_request_keys: Vec<String>,
    /// A field of answers that audit devices write in the clear; may be repeated
    #[arg(long, value_name = "FIELD")]
    audit_non_hmac_response_keys: Vec<String>,
    /// A header of requests that the engine may see; may be repeated
    #[arg(long, value_name = "HEADER")]
    passthrough_request_headers: Vec<String>,
    /// A header that the engine may answer with; may be repeated
    #[arg(long, value_name = "HEADER")]
    allowed_response_headers: Vec<String>,
    /// An option of the engine, as KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    options: Vec<String>,
}

/// What a mount is told when it is made and keeps.
#[derive(Args, Debug)]
pub(super) struct NewMountFlags {
    /// Mark it as one that is not replicated
    #[arg(long)]
    local: bool,
    /// Mark it as one whose records a seal wraps
    #[arg(long)]
    seal_wrap: bool,
    /// Mark it as one that may draw randomness from outside
    #[arg(long)]
    external_entropy_access: bool,
}

impl MountFlags {
    /// Adds what belongs among the settings.
    pub(super) fn add_settings(&self, settings: &mut Map) {
        for (name, values) in [
            ("audit_non_hmac_request_keys", &self.audit_non_hmac_request_keys),
            ("audit_non_hmac_response_keys", &self.audit_non_hmac_response_keys),
            ("passthrough_request_headers", &self.passthrough_request_headers),
            ("allowed_response_headers", &self.allowed_response_headers),
        ] {
            if !values.is_empty() {
                settings.insert(name.to_owned(), Json::strings(values.clone()));
            }
        }
    }

    /// Adds the options, and the version if one was given by itself.
    ///
    /// # Errors
    /// When an option is no pair.
    pub(super) fn add_options(&self, body: &mut Map, version: Option<u32>) -> Result<(), Error> {
        let mut options = pairs::texts("-options", &self.options)?;
        if let Some(version) = version {
            options.insert("version".to_owned(), version.to_string().into());
        }
        if !options.is_empty() {
            body.insert("options".to_owned(), Json::Object(options));
        }
        Ok(())
    }
}

impl NewMountFlags {
    /// Adds what was said.
    pub(super) fn add(&self, body: &mut Map) {
        for (name, said) in [
            ("local", self.local),
            ("seal_wrap", self.seal_wrap),
            ("external_entropy_access", self.external_entropy_access),
        ] {
            if said {
                body.insert(name.to_owned(), true.into());
            }
        }
    }
}
