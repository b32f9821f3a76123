//! `pki issue PARENT CHILD-MOUNT K=V...`: an intermediate CA in one mount, signed by an issuer of another.
//!
//! Three requests make it: the child's mount makes a key and a request, the parent signs it, the child's mount takes the
//! certificate and what is above it. What is sent where is decided by the names of fields: those of the key go to the child alone.
//! A step that fails says what the steps before it have left behind.

use clap::{Args, ValueEnum};

use super::fetch::{self, IssuerPath};
use crate::pairs::{self, PairInputs};
use kallisto_command::client::{Client, ClientRequest, Method, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;
use kallisto_command::secret::Secret;

/// Fields that say how the child's key is made; the parent is not told.
const OF_THE_KEY: [&str; 6] =
    ["key_type", "key_bits", "key_name", "key_ref", "add_basic_constraints", "private_key_format"];

/// Makes an intermediate CA in one mount, signed by an issuer of another.
///
/// Fields are those of `intermediate/generate` and `sign-intermediate` together; at least one has to be given.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto pki issue -issuer_name=int-2026 pki/issuer/default int common_name='Example Int' key_type=ec ttl=4380h"
)]
pub(crate) struct Issue {
    /// The issuer that signs, as MOUNT/issuer/REF
    parent: String,
    /// The mount that keeps the new issuer
    #[arg(value_name = "CHILD-MOUNT")]
    child: String,
    /// KEY=VALUE, KEY=@file, KEY=- (stdin); @file or - is a whole JSON object
    #[arg(value_name = "KEY=VALUE", allow_hyphen_values = false)]
    data: Vec<String>,
    #[command(flatten)]
    made: Made,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

/// What is made, and how it is called.
#[derive(Args, Debug)]
pub(super) struct Made {
    /// Where its key comes from
    #[arg(long = "type", value_name = "TYPE", default_value = "internal")]
    key: KeySource,
    /// The name of the new issuer
    #[arg(long = "issuer_name", alias = "issuer-name", value_name = "NAME", default_value = "")]
    issuer_name: String,
}

/// Where a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum KeySource {
    /// The mount makes one, which never leaves it.
    Internal,
    /// The mount has it: `key_ref` names it.
    Existing,
}

impl KeySource {
    const fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Existing => "existing",
        }
    }
}

impl Issue {
    /// Makes it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let parent = IssuerPath::parse(&self.parent)?;
        let fields = pairs::parse(&self.data, &mut PairInputs::process())?;
        if fields.is_empty() {
            return Err(Error::usage(
                "Not enough arguments: a parent issuer, the child's mount, and at least one KEY=VALUE",
            ));
        }
        let client = Client::new(&config)?;
        make(&client, &parent, &self.child, fields, &self.made)
            .and_then(|secret| output::secret(&secret, &config, self.field.field.as_deref()))
    }
}

/// Makes an intermediate CA, and reads the issuer that it became.
pub(super) fn make(
    client: &Client<'_>,
    parent: &IssuerPath,
    child: &str,
    fields: Map,
    made: &Made,
) -> Result<Secret, Error> {
    let child = url::clean(child)?.trim_matches('/').to_owned();
    // Before anything is made: a parent that is not there, or may not be read.
    let above = fetch::issuer(client, parent)?;
    let mut asked = fields.clone();
    asked.remove("issuer_name");
    let csr = request(client, &child, made.key, asked)?;
    let mut to_sign = fields;
    for name in OF_THE_KEY {
        to_sign.remove(name);
    }
    to_sign.insert("csr".to_owned(), Json::from(csr));
    let signed = sign(client, parent, &child, to_sign)?;
    let mut bundle = vec![signed];
    bundle.push(above.pem);
    bundle.extend(above.chain_pems.iter().map(|pem| pem.trim().to_owned()));
    let id = import(client, &child, &bundle.join("\n"))?;
    let at = IssuerPath { mount: child, reference: id };
    if !made.issuer_name.is_empty() {
        name(client, &at, &made.issuer_name)?;
    }
    let path = at.path();
    let doing = Error::doing(format!("Unable to read the new issuer {path}"));
    let answer = client.send(&ClientRequest::get(&path)).map_err(doing)?;
    answer.ok_or_else(|| Error::no_value(&path))
}

/// The child's mount makes a key, and a request for it.
fn request(client: &Client<'_>, child: &str, key: KeySource, fields: Map) -> Result<String, Error> {
    let path = format!("{child}/intermediate/generate/{}", key.name());
    let doing = Error::doing(format!("Unable to make a request at {path}"));
    let answer = client.send(&ClientRequest::put(&path, fields)).map_err(doing)?;
    let csr = answer.as_ref().and_then(|answer| answer.datum("csr")).and_then(Json::as_str);
    let absent = || Error::Absent(format!("The answer of {path} has no csr"));
    csr.map(str::to_owned).ok_or_else(absent)
}

/// The parent signs it.
fn sign(
    client: &Client<'_>,
    parent: &IssuerPath,
    child: &str,
    fields: Map,
) -> Result<String, Error> {
    let path = format!("{}/sign-intermediate", parent.path());
    let doing = format!("Unable to sign at {path} (the new key stays at {child})");
    let answer = client.send(&ClientRequest::put(&path, fields)).map_err(Error::doing(doing))?;
    let found = answer.as_ref().and_then(|answer| answer.datum("certificate"));
    let absent = || Error::Absent(format!("The answer of {path} has no certificate"));
    found.and_then(Json::as_str).map(|text| text.trim().to_owned()).ok_or_else(absent)
}

/// The child's mount takes the certificate. Returns the id of the issuer that has the new key.
fn import(client: &Client<'_>, child: &str, bundle: &str) -> Result<String, Error> {
    let path = format!("{child}/issuers/import/cert");
    let body = Map::from([("pem_bundle".to_owned(), Json::from(bundle))]);
    let doing = format!("Unable to import the signed certificate at {path}");
    let answer = client.send(&ClientRequest::put(&path, body)).map_err(Error::doing(doing))?;
    let data = answer.and_then(|answer| answer.data).unwrap_or_default();
    let imported = fetch::strings(&data, "imported_issuers");
    let key_of = |id: &String| data.get("mapping")?.as_object()?.get(id)?.as_str();
    let with_key = |id: &&String| key_of(id).is_some_and(|key| !key.is_empty());
    let absent = || Error::Absent(format!("{path} took no issuer that has a key of the mount"));
    imported.iter().find(with_key).cloned().ok_or_else(absent)
}

fn name(client: &Client<'_>, at: &IssuerPath, name: &str) -> Result<(), Error> {
    let path = at.path();
    let body = Json::Object(Map::from([("issuer_name".to_owned(), Json::from(name))]));
    let doing = format!("Unable to name the new issuer {path}");
    let request = ClientRequest::new(Method::Patch, &path).with_body(&body);
    client.send(&request).map(drop).map_err(Error::doing(doing))
}
