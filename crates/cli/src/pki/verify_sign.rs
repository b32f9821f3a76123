//! `pki verify-sign ISSUER ISSUED`: how two issuers are related.

use clap::Args;
use jiff::Timestamp;

use super::fetch::{self, IssuerPath};
use super::relation::Relation;
use kallisto_command::client::Client;
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat, table};

/// Prints whether one issuer has signed another.
///
/// Five answers: whether the signature was made by the issuer's key, whether the subject and the key id are those that the issued
/// certificate names, whether the issuer is in its chain, and whether who trusts the issuer can verify it.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto pki verify-sign pki/issuer/default int/issuer/default"
)]
pub(crate) struct VerifySign {
    /// The possible issuer, as MOUNT/issuer/REF
    #[arg(value_name = "POSSIBLE-ISSUER")]
    issuer: String,
    /// What it may have issued, as MOUNT/issuer/REF
    #[arg(value_name = "POSSIBLE-ISSUED")]
    issued: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl VerifySign {
    /// Prints it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let (issuer, issued) = (IssuerPath::parse(&self.issuer)?, IssuerPath::parse(&self.issued)?);
        let client = Client::new(&config)?;
        let parent = fetch::issuer(&client, &issuer)?;
        let child = fetch::issuer(&client, &issued)?;
        let now = Timestamp::now().as_second();
        let relation = Relation::between(&parent.certificate, &child, now);
        if config.format == OutputFormat::Table {
            let rows = relation.named().map(|(name, is)| vec![name.to_owned(), is.to_string()]);
            let table = table::under(&["field", "value"], rows.into_iter());
            let heading = format!("issuer: {}\nissued: {}\n\n", issuer.path(), issued.path());
            return Ok(Outcome::print(heading + &table));
        }
        let answers: Map =
            relation.named().map(|(name, is)| (name.to_owned(), Json::from(is))).into();
        Ok(Outcome::print(Document::Object(&answers).to_text(config.format)?))
    }
}
