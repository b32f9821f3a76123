//! `pki reissue PARENT TEMPLATE CHILD-MOUNT [K=V...]`: an intermediate CA with the contents of one that there is.

use clap::Args;

use super::fetch::{self, IssuerPath};
use super::issue::{self, Made};
use crate::pairs::{self, PairInputs};
use kallisto_command::client::Client;
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;
use kallisto_pki::certificate::ParsedCertificate;
use kallisto_pki::san::San;
use kallisto_pki::subject::CertificateSubject;

/// Makes an intermediate CA that says what another one says, with a key of its own.
///
/// Subject, alternative names, kind of key, path length and lifetime are those of TEMPLATE; fields that are given count instead.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto pki reissue -issuer_name=int-2027 pki/issuer/default int/issuer/int-2026 int ttl=8760h"
)]
pub(crate) struct Reissue {
    /// The issuer that signs, as MOUNT/issuer/REF
    parent: String,
    /// The issuer whose contents are taken, as MOUNT/issuer/REF
    template: String,
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

impl Reissue {
    /// Makes it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let parent = IssuerPath::parse(&self.parent)?;
        let template = IssuerPath::parse(&self.template)?;
        let given = pairs::parse(&self.data, &mut PairInputs::process())?;
        let client = Client::new(&config)?;
        let found = fetch::issuer(&client, &template)?.certificate;
        let mut fields = contents(&found)?;
        if given.contains_key("not_after") {
            fields.remove("ttl");
        }
        if given.contains_key("key_type") {
            fields.remove("key_bits");
        }
        fields.extend(given);
        issue::make(&client, &parent, &self.child, fields, &self.made)
            .and_then(|secret| output::secret(&secret, &config, self.field.field.as_deref()))
    }
}

/// What a certificate says, as the fields that would say it again.
fn contents(found: &ParsedCertificate) -> Result<Map, Error> {
    let unreadable = |why: kallisto_pki::error::Error| Error::Absent(format!("TEMPLATE: {why}"));
    let subject = CertificateSubject::from_der(&found.subject).map_err(unreadable)?;
    let mut fields = Map::new();
    let mut put = |name: &str, values: Vec<String>| {
        if !values.is_empty() {
            let values = values.into_iter().map(Json::from).collect();
            fields.insert(name.to_owned(), Json::Array(values));
        }
    };
    let sans = |kind: fn(&San) -> Option<String>| found.alt_names.iter().filter_map(kind).collect();
    put("alt_names", sans(dns_or_email));
    put("ip_sans", sans(ip));
    put("uri_sans", sans(uri));
    put("other_sans", sans(other));
    put("country", subject.country);
    put("province", subject.province);
    put("locality", subject.locality);
    put("street_address", subject.street_address);
    put("postal_code", subject.postal_code);
    put("organization", subject.organization);
    put("ou", subject.ou);
    put("user_ids", subject.user_ids);
    let kind = found.public.kind();
    let bits = kind.map(|kind| kind.bits()).filter(|bits| *bits > 0);
    let secs = found.not_after.saturating_sub(found.not_before).max(0);
    for (name, value) in [
        ("common_name", subject.common_name),
        ("serial_number", subject.serial_number),
        ("key_type", kind.map(|kind| kind.type_name().to_owned()).unwrap_or_default()),
        ("key_bits", bits.map(|bits| bits.to_string()).unwrap_or_default()),
        ("ttl", format!("{secs}s")),
    ] {
        if !value.is_empty() {
            fields.insert(name.to_owned(), Json::from(value));
        }
    }
    if let Some(length) = found.path_length {
        fields.insert("max_path_length".to_owned(), Json::from(u64::from(length)));
    }
    // The common name is among the alternative names, or was left out on purpose.
    fields.insert("exclude_cn_from_sans".to_owned(), Json::from(true));
    Ok(fields)
}

fn dns_or_email(san: &San) -> Option<String> {
    match san {
        San::Dns(name) | San::Email(name) => Some(name.clone()),
        San::Ip(_) | San::Uri(_) | San::Other(..) => None,
    }
}

fn ip(san: &San) -> Option<String> {
    if let San::Ip(address) = san { Some(address.to_string()) } else { None }
}

fn uri(san: &San) -> Option<String> {
    if let San::Uri(text) = san { Some(text.clone()) } else { None }
}

fn other(san: &San) -> Option<String> {
    if let San::Other(oid, text) = san { Some(format!("{oid};UTF8:{text}")) } else { None }
}
