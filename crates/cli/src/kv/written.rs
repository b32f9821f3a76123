//! What `kv put` and `kv patch` print.

use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, OutputFormat, table};
use kallisto_command::secret::Secret;

/// The metadata of the new version, or a sentence where there is none.
pub(crate) fn written(
    secret: Option<&Secret>,
    path: &str,
    config: &Config,
    field: Option<&str>,
) -> Result<Outcome, Error> {
    let Some(secret) = secret else {
        return Ok(output::done(config, &format!("Success! Data written to: {path}")));
    };
    let plain =
        config.format == OutputFormat::Table && field.is_none() && secret.wrap_info.is_none();
    match &secret.data {
        Some(metadata) if plain => {
            let mut text = secret_path(path);
            text.push_str(&table::heading_of("Metadata", metadata));
            text.push_str(&table::object(metadata));
            Ok(Outcome::print(text).with_notice(&output::warnings(secret)))
        }
        _ => output::secret(secret, config, field),
    }
}

/// The heading that names the real path.
pub(crate) fn secret_path(path: &str) -> String {
    format!("{}{path}\n\n", table::heading("Secret Path", path.len()))
}
