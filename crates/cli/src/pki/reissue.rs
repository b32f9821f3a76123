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
use kallisto_pki::certificate::{NameConstraint, ParsedCertificate};
use kallisto_pki::names::AddressBlock;
use kallisto_pki::san::San;
use kallisto_pki::subject::CertificateSubject;

/// Makes an intermediate CA that says what another one says, with a key of its own.
///
/// Subject, alternative names, kind of key, path length, name constraints and lifetime are those of TEMPLATE; fields that are given count instead.
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
    let limits = found.name_limits.as_ref().ok_or_else(unknown_limits)?;
    for (prefix, list) in [("permitted", &limits.permitted), ("excluded", &limits.excluded)] {
        let kinds = ["dns_domains", "email_addresses", "uri_domains", "ip_ranges"];
        let mut texts: [Vec<String>; 4] = Default::default();
        for constraint in list {
            let (kind, text) = match constraint {
                NameConstraint::Dns(text) => (0, text.clone()),
                NameConstraint::Email(text) => (1, text.clone()),
                NameConstraint::Uri(text) => (2, text.clone()),
                NameConstraint::Ip(bytes) => {
                    let block = AddressBlock::from_constraint(bytes);
                    (3, block.ok_or_else(unknown_limits)?.to_string())
                }
            };
            texts[kind].push(text);
        }
        for (kind, texts) in kinds.into_iter().zip(texts) {
            put(&format!("{prefix}_{kind}"), texts);
        }
    }
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

/// A CA is not made anew with fewer limits than there were.
fn unknown_limits() -> Error {
    let why = "TEMPLATE limits names in a way that cannot be asked for: use pki issue";
    Error::Absent(why.to_owned())
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

#[cfg(test)]
mod tests {
    use kallisto_pki::certificate::{
        AltNames, CaNameLimits, CertificateContents, CertificatePurpose, CertificateSigner, Urls,
        Usages,
    };
    use kallisto_pki::{PkiKeyKind, PrivateKey, Serial, SignatureAlgorithm, SignatureWish};

    use super::*;

    /// The fields that say again what a CA of these limits says.
    fn contents_of(constraints: CaNameLimits) -> Result<Map, Error> {
        let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
        let subject = CertificateSubject { common_name: "Int".to_owned(), ..Default::default() };
        let subject = subject.to_der().unwrap();
        let contents = CertificateContents {
            serial: Serial::from_bytes(&[7]).unwrap(),
            not_before: 1_700_000_000,
            not_after: 1_700_003_600,
            subject: subject.clone(),
            public: key.public().clone(),
            purpose: CertificatePurpose::Ca { path_length: Some(0), constraints, key_id: None },
            usages: Usages::default(),
            ext_usages: Vec::new(),
            alt_names: AltNames::Names(Vec::new()),
            urls: Urls::default(),
            policies: Vec::new(),
            extra: Vec::new(),
        };
        let algorithm = SignatureAlgorithm::choose(key.kind(), SignatureWish::default());
        let key_id = key.public().key_id();
        let signer = CertificateSigner { name: &subject, key_id: &key_id, key: &key, algorithm };
        let der = contents.sign(&signer).unwrap();
        super::contents(&ParsedCertificate::from_der(&der).unwrap())
    }

    #[test]
    fn a_ca_that_is_made_anew_may_sign_no_more_names() {
        let block =
            |text: &str| NameConstraint::Ip(AddressBlock::parse(text).unwrap().to_constraint());
        let limits = CaNameLimits {
            permitted: vec![
                NameConstraint::dns("example.com").unwrap(),
                NameConstraint::dns(".example.org").unwrap(),
                NameConstraint::email("bob@example.com").unwrap(),
                NameConstraint::uri(".example.com").unwrap(),
                block("10.0.0.0/8"),
                block("2001:db8::/32"),
            ],
            excluded: vec![NameConstraint::dns("dev.example.com").unwrap(), block("10.9.0.0/16")],
        };
        let fields = contents_of(limits).unwrap();
        let list = |name: &str| fetch::strings(&fields, name);
        assert_eq!(list("permitted_dns_domains"), ["example.com", ".example.org"]);
        assert_eq!(list("permitted_email_addresses"), ["bob@example.com"]);
        assert_eq!(list("permitted_uri_domains"), [".example.com"]);
        assert_eq!(list("permitted_ip_ranges"), ["10.0.0.0/8", "2001:db8::/32"]);
        assert_eq!(list("excluded_dns_domains"), ["dev.example.com"]);
        assert_eq!(list("excluded_ip_ranges"), ["10.9.0.0/16"]);
        let fields = contents_of(CaNameLimits::default()).unwrap();
        assert!(!fields.keys().any(|name| name.contains("permitted") || name.contains("excluded")));
        // What cannot be asked for again.
        let gaps = NameConstraint::Ip(vec![10, 0, 0, 0, 255, 0, 255, 0]);
        assert!(contents_of(CaNameLimits { excluded: vec![gaps], ..Default::default() }).is_err());
    }
}
