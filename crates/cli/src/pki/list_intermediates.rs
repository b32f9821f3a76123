//! `pki list-intermediates PARENT [CHILD...]`: which issuers a certificate has issued.

use std::collections::BTreeMap;

use clap::{ArgAction, Args};
use jiff::Timestamp;

use super::fetch::{self, IssuerPath};
use super::relation::Relation;
use kallisto_command::client::{Client, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat, table};

/// Most issuers that are compared at once.
const ISSUERS_MAX: usize = 10_000;

/// Lists the intermediate CAs that an issuer has issued.
///
/// Each CHILD is the path of an issuer, or of a PKI mount whose issuers are all compared. Without any, all PKI mounts that the token may see are.
/// An issuer matches when all criteria that are asked for hold.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto pki list-intermediates pki/issuer/default\n  kallisto pki list-intermediates -use_names pki/issuer/root int int2/issuer/old"
)]
pub(crate) struct ListIntermediates {
    /// The possible issuer, as MOUNT/issuer/REF
    parent: String,
    /// Issuers, or mounts of them
    child: Vec<String>,
    #[command(flatten)]
    criteria: Criteria,
    /// Name issuers by their names, where they have one
    #[arg(long = "use_names", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = ArgAction::Set, value_name = "BOOL")]
    use_names: bool,
    #[command(flatten)]
    common: CommonFlags,
}

/// What makes a match.
#[derive(Args, Debug)]
struct Criteria {
    /// The subject of PARENT is the issuer that the certificate names
    #[arg(long = "subject_match", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    subject: bool,
    /// The key id of PARENT is the one that the certificate names
    #[arg(long = "key_id_match", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    key_id: bool,
    /// The key of PARENT signed the certificate
    #[arg(long = "direct_sign", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    direct: bool,
    /// Who trusts PARENT can verify the certificate with its chain
    #[arg(long = "indirect_sign", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    indirect: bool,
    /// PARENT is in the chain of the certificate
    #[arg(long = "path_match", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = ArgAction::Set, value_name = "BOOL")]
    path: bool,
}

impl Criteria {
    const fn hold(&self, relation: Relation) -> bool {
        (!self.subject || relation.subject_match)
            && (!self.key_id || relation.key_id_match)
            && (!self.direct || relation.signature_match)
            && (!self.indirect || relation.trust_match)
            && (!self.path || relation.path_match)
    }
}

impl ListIntermediates {
    /// Lists them.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let parent = IssuerPath::parse(&self.parent)?;
        let client = Client::new(&config)?;
        let issuer = fetch::issuer(&client, &parent)?.certificate;
        let now = Timestamp::now().as_second();
        let mut matches = BTreeMap::new();
        for child in self.children(&client)? {
            let relation = Relation::between(&issuer, &fetch::issuer(&client, &child)?, now);
            matches.insert(child.path(), self.criteria.hold(relation));
        }
        if config.format == OutputFormat::Table {
            let rows = matches.into_iter().map(|(path, is)| vec![path, is.to_string()]);
            return Ok(Outcome::print(table::under(&["intermediate", "match?"], rows)));
        }
        let answers: Map = matches.into_iter().map(|(path, is)| (path, Json::from(is))).collect();
        Ok(Outcome::print(Document::Object(&answers).to_text(config.format)?))
    }

    /// The issuers to compare with.
    fn children(&self, client: &Client<'_>) -> Result<Vec<IssuerPath>, Error> {
        let named = match &*self.child {
            [] => fetch::mounts(client)?,
            given => given.iter().map(|path| url::clean(path)).collect::<Result<_, _>>()?,
        };
        let mut all = Vec::new();
        for path in named {
            match IssuerPath::parse(&path) {
                Ok(issuer) => all.push(issuer),
                Err(_) => {
                    let mount = path.trim_matches('/');
                    all.extend(fetch::issuers_of(client, mount, self.use_names)?);
                }
            }
            if all.len() > ISSUERS_MAX {
                return Err(Error::usage(format!(
                    "More than {ISSUERS_MAX} issuers: name the mounts to look at"
                )));
            }
        }
        Ok(all)
    }
}
