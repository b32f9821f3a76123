//! Fields that tokens and token roles have in common.

use kallisto_auth::policy::DEFAULT_NAME;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;

/// The names sorted, each once, with `default` if `adds`; `root` stands alone.
pub(crate) fn with_default(mut names: Vec<String>, adds: bool) -> Vec<String> {
    if names.iter().any(|name| name == "root") {
        return vec!["root".to_owned()];
    }
    if adds {
        names.push(DEFAULT_NAME.to_owned());
    }
    names.sort();
    names.dedup();
    names
}

/// A span of time that is not negative, in seconds; 0 when absent.
pub(crate) fn seconds(fields: Fields<'_>, name: &str) -> Result<u64, Error> {
    let Some(span) = fields.span(name)? else { return Ok(0) };
    u64::try_from(span.secs()).map_err(|_| Error::invalid(format!("{name} must be positive")))
}

/// The JSON of a list that may be empty.
pub(crate) fn names_json(names: &[String]) -> Json {
    Json::strings(names.iter().cloned())
}
