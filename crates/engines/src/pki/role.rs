//! Roles: what may be issued.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields};
use kallisto_engine::FieldKind::{Flag, Span as Seconds, Text, Texts, Whole};
use kallisto_engine::route::{Field, field};
use kallisto_pki::certificate::{
    CLIENT_AUTH, CODE_SIGNING, EMAIL_PROTECTION, NO_CA, SERVER_AUTH, Usages, ext_usage_named,
    usage_named,
};
use kallisto_pki::names::{AddressBlock, NameRules};
use kallisto_pki::policy::CertificatePolicy;
use kallisto_pki::san::parse_oid;
use kallisto_pki::{
    CertificateSubject, Hash, KeyUsages, ObjectIdentifier, PkiKeyKind, SignatureWish,
};

use super::given::{GivenFields, parse_time, refuse};

pub(super) const FIELDS: &[Field] = &[
    field("name", Text, "The name of the role."),
    field("allow_any_name", Flag, "Whether any name will do."),
    field("allow_bare_domains", Flag, "Whether the domains themselves will do."),
    field("allow_glob_domains", Flag, "Whether `*` in a domain stands for anything."),
    field(
        "allow_globs_in_identity_templates",
        Flag,
        "Whether what a template fills in may have a `*`.",
    ),
    field("allow_ip_sans", Flag, "Whether IP addresses will do."),
    field("allow_localhost", Flag, "Whether `localhost` will do."),
    field("allow_subdomains", Flag, "Whether what is below the domains will do."),
    field("allow_token_displayname", Flag, "Whether the display name of the token will do."),
    field("allow_wildcard_certificates", Flag, "Whether wildcards will do."),
    field("allowed_domains", Texts, "The domains."),
    field("allowed_domains_template", Flag, "Whether the domains are templates of identity."),
    field("allowed_ip_sans_cidr", Texts, "The networks that IP addresses have to be of."),
    field("allowed_other_sans", Texts, "Other names, as `OID;UTF8:PATTERN`, or `*`."),
    field("allowed_serial_numbers", Texts, "Patterns of serial numbers of subjects."),
    field("allowed_uri_sans", Texts, "Patterns of URIs."),
    field("allowed_uri_sans_template", Flag, "Whether those are templates of identity."),
    field("allowed_user_ids", Texts, "Patterns of user ids."),
    field(
        "basic_constraints_valid_for_non_ca",
        Flag,
        "Whether certificates say that they are no CA's.",
    ),
    field("client_flag", Flag, "Whether certificates are for TLS clients."),
    field("cn_validations", Texts, "What common names may be: `email`, `hostname` or `disabled`."),
    field("code_signing_flag", Flag, "Whether certificates are for signing code."),
    field("country", Texts, "C of the subject."),
    field("email_protection_flag", Flag, "Whether certificates are for e-mail."),
    field("enforce_hostnames", Flag, "Whether names have to be hosts."),
    field("ext_key_usage", Texts, "More extended key usages, by name."),
    field("ext_key_usage_oids", Texts, "More extended key usages, by number."),
    field("generate_lease", Flag, "Whether certificates come with a lease."),
    field("issuer_ref", Text, "Who signs."),
    field("key_bits", Whole, "Bits of the keys; 0 for the usual ones."),
    field("key_type", Text, "`rsa`, `ec`, `ed25519` or `any`."),
    field("key_usage", Texts, "Key usages, by name."),
    field("locality", Texts, "L of the subject."),
    field("max_ttl", Seconds, "How long certificates are good at the most."),
    field("no_store", Flag, "Whether certificates are not kept."),
    field("no_store_metadata", Flag, "Whether requests may have nothing kept with certificates."),
    field("not_after", Text, "When certificates end, in RFC 3339."),
    field(
        "not_after_bound",
        Text,
        "What requests may say of it: `permit`, `ttl-limited`, `forbid`, or the last time.",
    ),
    field("not_before", Text, "When certificates begin, in RFC 3339."),
    field(
        "not_before_bound",
        Text,
        "What requests may say of it: `permit`, `duration` or `forbid`.",
    ),
    field(
        "not_before_duration",
        Seconds,
        "How long before they are issued certificates begin: not before their issuer does.",
    ),
    field("organization", Texts, "O of the subject."),
    field("ou", Texts, "OU of the subject."),
    field(
        "policy_identifiers",
        Texts,
        "Certificate policies: numbers, or objects with `oid`, `cps` and `notice`.",
    ),
    field("postal_code", Texts, "The postal code of the subject."),
    field("province", Texts, "ST of the subject."),
    field("require_cn", Flag, "Whether there has to be a common name."),
    field("server_flag", Flag, "Whether certificates are for TLS servers."),
    field("signature_bits", Whole, "Bits of the hash that is signed; 0 for the usual ones."),
    field("street_address", Texts, "The street of the subject."),
    field("ttl", Seconds, "How long certificates are good when nobody says."),
    field(
        "use_csr_common_name",
        Flag,
        "Whether the common name is that of the certificate request.",
    ),
    field(
        "use_csr_sans",
        Flag,
        "Whether the alternative names are those of the certificate request.",
    ),
    field("use_pss", Flag, "Whether RSA signs with PSS."),
];

/// What requests may say of the end of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotAfterBound {
    Permit,
    TtlLimited,
    Forbid,
    Until(i64),
}

/// What requests may say of the beginning of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotBeforeBound {
    Permit,
    Duration,
    Forbid,
}

/// A role.
#[derive(Clone, Debug)]
pub(super) struct PkiRole {
    /// What it shows of itself, which is also its record.
    pub(super) shown: Map,
    pub(super) rules: NameRules,
    pub(super) allows_token_name: bool,
    pub(super) domains_are_templates: bool,
    pub(super) uris_are_templates: bool,
    pub(super) allows_globs_in_templates: bool,
    pub(super) subject: CertificateSubject,
    /// `None` for any.
    pub(super) key_kind: Option<PkiKeyKind>,
    pub(super) says_no_ca: bool,
    pub(super) usages: Usages,
    pub(super) ext_usages: Vec<ObjectIdentifier>,
    pub(super) policies: Vec<CertificatePolicy>,
    pub(super) signature: SignatureWish,
    pub(super) generates_lease: bool,
    pub(super) issuer_ref: String,
    pub(super) ttl: i64,
    pub(super) max_ttl: i64,
    pub(super) stores_nothing: bool,
    pub(super) stores_no_metadata: bool,
    pub(super) not_after: Option<i64>,
    pub(super) not_after_bound: NotAfterBound,
    pub(super) not_before: Option<i64>,
    pub(super) not_before_bound: NotBeforeBound,
    pub(super) not_before_secs: i64,
    pub(super) uses_csr_common_name: bool,
    pub(super) uses_csr_names: bool,
}

/// Fields that are lists, in what is shown.
const LISTS: &[&str] = &[
    "allowed_domains",
    "allowed_ip_sans_cidr",
    "allowed_other_sans",
    "allowed_serial_numbers",
    "allowed_uri_sans",
    "allowed_user_ids",
    "country",
    "ext_key_usage",
    "ext_key_usage_oids",
    "locality",
    "organization",
    "ou",
    "postal_code",
    "province",
    "street_address",
];
/// Fields that are true or false, and what they are when nobody says.
const FLAGS: &[(&str, bool)] = &[
    ("allow_any_name", false),
    ("allow_bare_domains", false),
    ("allow_glob_domains", false),
    ("allow_globs_in_identity_templates", false),
    ("allow_ip_sans", true),
    ("allow_localhost", true),
    ("allow_subdomains", false),
    ("allow_token_displayname", false),
    ("allow_wildcard_certificates", true),
    ("allowed_domains_template", false),
    ("allowed_uri_sans_template", false),
    ("basic_constraints_valid_for_non_ca", false),
    ("client_flag", true),
    ("code_signing_flag", false),
    ("email_protection_flag", false),
    ("enforce_hostnames", true),
    ("generate_lease", false),
    ("no_store", false),
    ("no_store_metadata", false),
    ("require_cn", true),
    ("server_flag", true),
    ("use_csr_common_name", true),
    ("use_csr_sans", true),
    ("use_pss", false),
];
/// Fields that are texts, and what they are when nobody says.
const TEXTS: &[(&str, &str)] = &[
    ("issuer_ref", "default"),
    ("key_type", "rsa"),
    ("not_after", ""),
    ("not_after_bound", "permit"),
    ("not_before", ""),
    ("not_before_bound", "permit"),
];
/// Fields that are seconds, and what they are when nobody says.
const SPANS: &[(&str, i64)] = &[("max_ttl", 0), ("not_before_duration", 30), ("ttl", 0)];

impl PkiRole {
    /// Reads what a request says, and what a role says when nobody says.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what cannot be taken.
    pub(super) fn read(given: GivenFields<'_>) -> Result<Self, Error> {
        let mut shown = Map::new();
        let mut show = |name: &str, value: Json| shown.insert(name.to_owned(), value);
        for name in LISTS {
            show(name, Json::strings(given.list(name)?));
        }
        for (name, default) in FLAGS {
            show(name, given.flag(name, *default)?.into());
        }
        for (name, default) in TEXTS {
            let text = given.text_or(name, default)?;
            show(name, if text.is_empty() { *default } else { &text }.into());
        }
        for (name, default) in SPANS {
            show(name, given.secs(name, *default)?.into());
        }
        let usages = given.list_given("key_usage")?.unwrap_or_else(|| {
            ["DigitalSignature", "KeyAgreement", "KeyEncipherment"].map(str::to_owned).to_vec()
        });
        for usage in &usages {
            if usage_named(usage).map_err(refuse)? == KeyUsages::KeyCertSign {
                return Err(Error::invalid(NO_CA));
            }
        }
        show("key_usage", Json::strings(usages));
        show("policy_identifiers", Json::strings(policy_texts(given)?));
        let validations = given.list_given("cn_validations")?.unwrap_or_default();
        show("cn_validations", Json::strings(cn_validations(validations)?));
        show("signature_bits", given.whole("signature_bits", 0)?.into());
        let bits = given.whole("key_bits", 0)?;
        let kind = match given.text_or("key_type", "rsa")?.as_str() {
            "any" => None,
            "" => Some(PkiKeyKind::named("rsa", bits).map_err(refuse)?),
            name => Some(PkiKeyKind::named(name, bits).map_err(refuse)?),
        };
        // Where they say nothing they are shown as they were given.
        let own = kind.map_or(0, |kind| i64::from(kind.bits()));
        show("key_bits", if own == 0 { bits } else { own }.into());
        Self::of(shown)
    }

    /// A role as it shows itself.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what cannot be.
    fn of(mut shown: Map) -> Result<Self, Error> {
        // Of what is not kept nothing can be revoked when a lease ends.
        if GivenFields(Fields::new(&shown)).flag("no_store", false)? {
            shown.insert("generate_lease".to_owned(), false.into());
        }
        let given = GivenFields(Fields::new(&shown));
        let (ttl, max_ttl) = (given.secs("ttl", 0)?, given.secs("max_ttl", 0)?);
        if max_ttl > 0 && ttl > max_ttl {
            return Err(Error::invalid("\"ttl\" value must be less than \"max_ttl\" value"));
        }
        let key_type = given.text("key_type")?;
        let key_kind = match key_type.as_str() {
            "any" => None,
            name => Some(PkiKeyKind::named(name, given.whole("key_bits", 0)?).map_err(refuse)?),
        };
        let subject = CertificateSubject {
            country: given.list("country")?,
            province: given.list("province")?,
            locality: given.list("locality")?,
            street_address: given.list("street_address")?,
            postal_code: given.list("postal_code")?,
            organization: given.list("organization")?,
            ou: given.list("ou")?,
            ..CertificateSubject::default()
        };
        subject.to_der().map_err(refuse)?;
        let usages = given.list("key_usage")?;
        let usages = usages.iter().map(|name| usage_named(name).map_err(refuse));
        let usages = usages.collect::<Result<Vec<_>, _>>()?;
        let policies = given.list("policy_identifiers")?;
        let policies = policies.iter().map(|text| policy(text));
        let hash = match given.whole("signature_bits", 0)? {
            0 => None,
            bits => Some(Hash::of_bits(bits).map_err(refuse)?),
        };
        Ok(Self {
            rules: rules(given)?,
            allows_token_name: given.flag("allow_token_displayname", false)?,
            domains_are_templates: given.flag("allowed_domains_template", false)?,
            uris_are_templates: given.flag("allowed_uri_sans_template", false)?,
            allows_globs_in_templates: given.flag("allow_globs_in_identity_templates", false)?,
            subject,
            key_kind,
            says_no_ca: given.flag("basic_constraints_valid_for_non_ca", false)?,
            usages: usages.into_iter().fold(Usages::default(), |all, one| all | one),
            ext_usages: ext_usages(given)?,
            policies: policies.collect::<Result<_, _>>()?,
            signature: SignatureWish { hash, use_pss: given.flag("use_pss", false)? },
            generates_lease: given.flag("generate_lease", false)?,
            issuer_ref: given.text_or("issuer_ref", "default")?,
            ttl,
            max_ttl,
            stores_nothing: given.flag("no_store", false)?,
            stores_no_metadata: given.flag("no_store_metadata", false)?,
            not_after: given.time("not_after")?,
            not_after_bound: not_after_bound(&given.text("not_after_bound")?)?,
            not_before: given.time("not_before")?,
            not_before_bound: not_before_bound(&given.text("not_before_bound")?)?,
            not_before_secs: given.secs("not_before_duration", 30)?,
            uses_csr_common_name: given.flag("use_csr_common_name", true)?,
            uses_csr_names: given.flag("use_csr_sans", true)?,
            shown,
        })
    }

    /// What whoever signs as a request wants it goes by: sign-verbatim without a role.
    pub(super) fn verbatim() -> Result<Self, Error> {
        let body = super::given::object([
            ("allow_any_name", true.into()),
            ("enforce_hostnames", false.into()),
            ("key_type", "any".into()),
            ("require_cn", false.into()),
            ("allowed_uri_sans", "*".into()),
            ("allowed_other_sans", "*".into()),
            ("server_flag", false.into()),
            ("client_flag", false.into()),
        ]);
        Self::read(GivenFields::of(&body))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        Json::Object(self.shown.clone()).to_text()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        Self::of(json::parse_object(bytes).ok()?).ok()
    }

    /// The same, with some fields changed.
    pub(super) fn patched(&self, patch: Map) -> Result<Self, Error> {
        let mut fields = self.shown.clone();
        // A key of another type has the usual bits of that type, unless the patch says how many.
        if patch.contains_key("key_type") && !patch.contains_key("key_bits") {
            fields.remove("key_bits");
        }
        json::merge_patch(&mut fields, patch);
        Self::read(GivenFields::of(&fields))
    }
}

fn cn_validations(given: Vec<String>) -> Result<Vec<String>, Error> {
    if given.is_empty() {
        return Ok(vec!["email".to_owned(), "hostname".to_owned()]);
    }
    if given.iter().any(|one| one == "disabled") && given.len() > 1 {
        return Err(Error::invalid(
            "cannot specify \"disabled\" along with other values for CNValidations",
        ));
    }
    let mut sorted = Vec::new();
    for one in given {
        if !matches!(one.as_str(), "email" | "hostname" | "disabled") {
            return Err(Error::invalid(format!(
                "unknown value {one:?} of cn_validations: it is email, hostname or disabled"
            )));
        }
        if !sorted.contains(&one) {
            sorted.push(one);
        }
    }
    Ok(sorted)
}

fn rules(given: GivenFields<'_>) -> Result<NameRules, Error> {
    let networks = given.list("allowed_ip_sans_cidr")?;
    let networks = networks.iter().map(|text| AddressBlock::parse(text).map_err(refuse));
    let other_sans = given.list("allowed_other_sans")?;
    if other_sans.iter().any(|one| one != "*") {
        for one in &other_sans {
            kallisto_pki::san::parse_other(one).map_err(|error| {
                Error::invalid(format!("error parsing allowed_other_sans: {error}"))
            })?;
        }
    }
    Ok(NameRules {
        allow_any_name: given.flag("allow_any_name", false)?,
        allow_bare_domains: given.flag("allow_bare_domains", false)?,
        allow_subdomains: given.flag("allow_subdomains", false)?,
        allow_glob_domains: given.flag("allow_glob_domains", false)?,
        allow_localhost: given.flag("allow_localhost", true)?,
        allow_wildcards: given.flag("allow_wildcard_certificates", true)?,
        enforce_hostnames: given.flag("enforce_hostnames", true)?,
        domains: given.list("allowed_domains")?,
        display_name: None,
        cn_validations: given.list("cn_validations")?,
        require_cn: given.flag("require_cn", true)?,
        allow_ip_sans: given.flag("allow_ip_sans", true)?,
        ip_networks: networks.collect::<Result<_, _>>()?,
        uri_sans: given.list("allowed_uri_sans")?,
        other_sans,
        serial_numbers: given.list("allowed_serial_numbers")?,
        user_ids: given.list("allowed_user_ids")?,
    })
}

fn ext_usages(given: GivenFields<'_>) -> Result<Vec<ObjectIdentifier>, Error> {
    let mut usages = Vec::new();
    for (flag, oid, default) in [
        ("server_flag", SERVER_AUTH, true),
        ("client_flag", CLIENT_AUTH, true),
        ("code_signing_flag", CODE_SIGNING, false),
        ("email_protection_flag", EMAIL_PROTECTION, false),
    ] {
        if given.flag(flag, default)? {
            usages.push(parse_oid(oid).map_err(refuse)?);
        }
    }
    usages.extend(named_ext_usages(given)?);
    let mut once = Vec::new();
    for usage in usages {
        if !once.contains(&usage) {
            once.push(usage);
        }
    }
    Ok(once)
}

/// The extended key usages that a role or request names.
pub(super) fn named_ext_usages(given: GivenFields<'_>) -> Result<Vec<ObjectIdentifier>, Error> {
    let mut usages = Vec::new();
    for name in given.list("ext_key_usage")? {
        usages.push(ext_usage_named(&name).map_err(refuse)?);
    }
    for text in given.list("ext_key_usage_oids")? {
        let oid = parse_oid(&text).map_err(|_| {
            Error::invalid(format!(
                "{text:?} could not be parsed as a valid oid for an extended key usage"
            ))
        });
        usages.push(oid?);
    }
    Ok(usages)
}

/// The certificate policies that a request names. There may be commas in what they say, so a list of objects may be one text, in JSON, but not a text
/// that is split at commas.
fn policy_texts(given: GivenFields<'_>) -> Result<Vec<String>, Error> {
    const NAME: &str = "policy_identifiers";
    let parsed = match given.0.raw(NAME) {
        Some(Json::String(text)) if text.trim_start().starts_with('[') => {
            let parsed = json::parse(text.as_bytes());
            parsed.map_err(|_| Error::invalid(format!("{NAME} is no list in JSON")))?
        }
        Some(list @ Json::Array(_)) => list.clone(),
        _ => return given.list(NAME),
    };
    let Json::Array(items) = parsed else { return given.list(NAME) };
    let wrong = || Error::invalid(format!("{NAME} is a list of numbers with dots, or of objects"));
    let text = |item: Json| {
        let object = match item {
            Json::String(text) if text.trim_start().starts_with('{') => {
                Json::Object(json::parse_object(text.as_bytes()).map_err(|_| wrong())?)
            }
            Json::String(text) => return Ok(text.trim().to_owned()),
            object @ Json::Object(_) => object,
            _ => return Err(wrong()),
        };
        String::from_utf8(object.to_text()).map_err(|_| wrong())
    };
    let mut texts = items.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
    texts.retain(|text| !text.is_empty());
    Ok(texts)
}

/// A certificate policy: a number, or an object in JSON.
fn policy(text: &str) -> Result<CertificatePolicy, Error> {
    if !text.starts_with('{') {
        let id = parse_oid(text).map_err(refuse)?;
        return CertificatePolicy::new(id, "", "").map_err(refuse);
    }
    let map = json::parse_object(text.as_bytes())
        .map_err(|_| Error::invalid(format!("{text:?} is no certificate policy")))?;
    let given = GivenFields::of(&map);
    let id = parse_oid(given.text("oid")?.trim()).map_err(refuse)?;
    CertificatePolicy::new(id, given.text("cps")?.trim(), &given.text("notice")?).map_err(refuse)
}

fn not_after_bound(text: &str) -> Result<NotAfterBound, Error> {
    match text {
        "" | "permit" => Ok(NotAfterBound::Permit),
        "ttl-limited" => Ok(NotAfterBound::TtlLimited),
        "forbid" => Ok(NotAfterBound::Forbid),
        time => parse_time("not_after_bound", time).map(NotAfterBound::Until),
    }
}

fn not_before_bound(text: &str) -> Result<NotBeforeBound, Error> {
    match text {
        "" | "permit" => Ok(NotBeforeBound::Permit),
        "duration" => Ok(NotBeforeBound::Duration),
        "forbid" => Ok(NotBeforeBound::Forbid),
        other => Err(Error::invalid(format!(
            "unknown value {other:?} of not_before_bound: it is permit, duration or forbid"
        ))),
    }
}
