//! Roles: what is asked of them, what is kept, what is shown.
//!
//! A record is what is shown of a role; it is read again as a request is, so that there is one reader.

use std::net::IpAddr;

use kallisto_api::fields::scalar_text;
use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Span};
use kallisto_engine::AddressRange;
use kallisto_engine::FieldKind::{self, Flag, Span as Seconds, Text, Whole};
use kallisto_engine::route::{Field, field};
use kallisto_ssh::certificate::check_options;
use kallisto_ssh::{KeyType, OptionMap, PkiKeyKind, RsaHash, SshPublicKey};

use super::{ROLE, refuse};

/// Longest text of a role, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Most types of keys that a role names, and most sizes of each.
const KEY_TYPES_MAX: usize = 32;
/// Fewest bits of RSA, where a role does not name the bits.
const RSA_BITS_MIN: u16 = 2048;
/// Longest time that a certificate begins before it is made, in seconds: a year.
const NOT_BEFORE_SECS_MAX: u64 = 366 * 24 * 3600;
const NOT_BEFORE_SECS_DEFAULT: u64 = 30;

pub(super) const FIELDS: &[Field] = &[
    ROLE,
    field("key_type", Text, "`ca` or `otp`."),
    field("default_user", Text, "The user that is meant when a request names none."),
    field("default_user_template", Flag, "Whether that is a template of identity."),
    field("allowed_users", Text, "The users that may be asked for, with commas; `*` for any."),
    field("allowed_users_template", Flag, "Whether they are templates of identity."),
    field(
        "allowed_domains",
        Text,
        "The domains of hosts that may be asked for, with commas; `*` for any.",
    ),
    field("allowed_domains_template", Flag, "Whether they are templates of identity."),
    field("allow_bare_domains", Flag, "Whether a host may be one of the domains."),
    field("allow_subdomains", Flag, "Whether a host may be below one of the domains."),
    field("allow_user_certificates", Flag, "Whether keys of users are signed."),
    field("allow_host_certificates", Flag, "Whether keys of hosts are signed."),
    field(
        "allow_empty_principals",
        Flag,
        "Whether a certificate may be good for every user or host.",
    ),
    field("allow_user_key_ids", Flag, "Whether a request may say the key id."),
    field(
        "allow_commas_in_identity_templates",
        Flag,
        "Whether a value of identity may be several users.",
    ),
    field("allow_wildcards_in_identity_templates", Flag, "Whether a value of identity may be `*`."),
    field(
        "key_id_format",
        Text,
        "The key id, with `{{token_display_name}}`, `{{role_name}}` and `{{public_key_hash}}`.",
    ),
    field(
        "allowed_critical_options",
        Text,
        "The critical options that may be asked for, with commas; empty for any.",
    ),
    field(
        "default_critical_options",
        FieldKind::Map,
        "Critical options where a request names none.",
    ),
    field(
        "allowed_extensions",
        Text,
        "The extensions that may be asked for, with commas; `*` for any.",
    ),
    field("default_extensions", FieldKind::Map, "Extensions where a request names none."),
    field("default_extensions_template", Flag, "Whether their values are templates of identity."),
    field(
        "allowed_user_key_lengths",
        FieldKind::Map,
        "Types of keys that are signed, with their bits.",
    ),
    field("algorithm_signer", Text, "`default`, `rsa-sha2-256` or `rsa-sha2-512`."),
    field("issuer_ref", Text, "The issuer that signs: its id, its name, or `default`."),
    field("ttl", Seconds, "How long a certificate is good where a request does not say."),
    field("max_ttl", Seconds, "How long it is good at the most."),
    field("not_before_duration", Seconds, "How long before it is made it begins."),
    field("cidr_list", Text, "The networks of hosts, with commas."),
    field("exclude_cidr_list", Text, "Networks among those that are left out, with commas."),
    field("port", Whole, "The port of hosts."),
];

/// A role.
pub(super) struct SshRole {
    /// What is shown of it, and kept.
    pub(super) shown: Map,
    does: Does,
}

enum Does {
    Ca(Box<CaRole>),
    Otp(OtpRole),
}

/// What may be signed.
pub(super) struct CaRole {
    pub(super) allows_users: bool,
    pub(super) allows_hosts: bool,
    pub(super) allows_no_principals: bool,
    pub(super) users: AllowedNames,
    pub(super) domains: AllowedNames,
    pub(super) default_user: String,
    pub(super) default_user_is_template: bool,
    pub(super) allows_commas: bool,
    pub(super) allows_wildcards: bool,
    pub(super) allows_bare_domains: bool,
    pub(super) allows_subdomains: bool,
    pub(super) allows_key_ids: bool,
    pub(super) key_id_format: String,
    /// Empty for any.
    pub(super) critical_options: Vec<String>,
    pub(super) default_critical_options: OptionMap,
    pub(super) extensions: Vec<String>,
    pub(super) default_extensions: OptionMap,
    pub(super) extensions_are_templates: bool,
    key_lengths: Vec<(String, Vec<i64>)>,
    pub(super) rsa_hash: RsaHash,
    pub(super) issuer_ref: String,
    pub(super) ttl_secs: u64,
    pub(super) max_ttl_secs: u64,
    pub(super) not_before_secs: u64,
}

/// Names that may be asked for.
pub(super) struct AllowedNames {
    pub(super) names: Vec<String>,
    pub(super) are_templates: bool,
}

/// Who may log in where.
pub(super) struct OtpRole {
    pub(super) default_user: String,
    /// Empty for the default user alone.
    pub(super) users: Vec<String>,
    pub(super) port: i64,
    ranges: Vec<AddressRange>,
    excluded: Vec<AddressRange>,
}

impl OtpRole {
    /// Whether a host may be logged in to. What is left out is left out of roles that are good for any address too.
    pub(super) fn admits(&self, address: IpAddr, is_zero_address: bool) -> bool {
        let has = |ranges: &[AddressRange]| ranges.iter().any(|range| range.contains(address));
        (is_zero_address || has(&self.ranges)) && !has(&self.excluded)
    }
}

/// The items of a list with commas, trimmed, without what is empty.
pub(super) fn items(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(str::to_owned).collect()
}

/// Names with values, which are texts whatever they were given as.
///
/// # Errors
/// [`Error::Invalid`] naming what is no option.
pub(super) fn options(fields: Fields<'_>, name: &str) -> Result<OptionMap, Error> {
    let mut options = OptionMap::new();
    for (option, value) in fields.map(name)?.into_iter().flatten() {
        let text = match value {
            Json::Null => String::new(),
            Json::Bool(value) => value.to_string(),
            value => scalar_text(value).ok_or_else(|| {
                Error::invalid(format!("the value of {option:?} in {name} is no text"))
            })?,
        };
        options.insert(option.clone(), text);
    }
    check_options(&options, name).map_err(refuse)?;
    Ok(options)
}

impl SshRole {
    /// Reads a request, which replaces what was there: what it does not name is as it is in a new role.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what cannot be.
    pub(super) fn read(fields: Fields<'_>) -> Result<Self, Error> {
        let key_type = fields.string("key_type")?.unwrap_or_default().to_ascii_lowercase();
        match key_type.as_str() {
            "ca" => read_ca(fields),
            "otp" => read_otp(fields),
            "" => Err(Error::invalid("missing key type")),
            "dynamic" => Err(Error::invalid("dynamic key type roles are no longer supported")),
            _ => Err(Error::invalid("invalid key type")),
        }
    }

    /// The record's bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        Json::Object(self.shown.clone()).to_text()
    }

    /// Reads a record back; `None` when it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        Self::read(Fields::new(&map)).ok()
    }

    /// What may be signed, if it is of this type.
    pub(super) fn ca(&self) -> Option<&CaRole> {
        match &self.does {
            Does::Ca(role) => Some(role),
            Does::Otp(_) => None,
        }
    }

    /// Who may log in where, if it is of this type.
    pub(super) const fn otp(&self) -> Option<&OtpRole> {
        match &self.does {
            Does::Otp(role) => Some(role),
            Does::Ca(_) => None,
        }
    }

    /// Its type.
    pub(super) const fn key_type(&self) -> &'static str {
        match &self.does {
            Does::Ca(_) => "ca",
            Does::Otp(_) => "otp",
        }
    }
}

/// Reads a role's fields, and writes down what is shown of each.
struct RoleReading<'a> {
    fields: Fields<'a>,
    shown: Map,
}

impl RoleReading<'_> {
    fn show(&mut self, name: &str, value: impl Into<Json>) {
        self.shown.insert(name.to_owned(), value.into());
    }

    fn text(&mut self, name: &str) -> Result<String, Error> {
        // A list is taken as well, and shown as the text that it stands for.
        let text = match self.fields.raw(name) {
            Some(Json::Array(_)) => self.fields.strings(name)?.unwrap_or_default().join(","),
            _ => self.fields.string(name)?.unwrap_or_default(),
        };
        if text.len() > TEXT_BYTES_MAX {
            return Err(Error::invalid(format!("{name} has more than {TEXT_BYTES_MAX} bytes")));
        }
        self.show(name, text.as_str());
        Ok(text)
    }

    fn flag(&mut self, name: &str) -> Result<bool, Error> {
        let flag = self.fields.boolean(name)?.unwrap_or(false);
        self.show(name, flag);
        Ok(flag)
    }

    fn secs(&mut self, name: &str, default: u64) -> Result<u64, Error> {
        let secs = self.fields.span(name)?.map(Span::secs);
        let secs = secs.map_or(Ok(default), u64::try_from);
        let secs = secs.map_err(|_| Error::invalid(format!("{name} cannot be negative")))?;
        self.show(name, secs);
        Ok(secs)
    }

    fn options(&mut self, name: &str) -> Result<OptionMap, Error> {
        let options = options(self.fields, name)?;
        let shown = options.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        self.show(name, Json::Object(shown.collect()));
        Ok(options)
    }

    /// Networks; those of a list that is none are refused in the words that clients know.
    fn ranges(&mut self, name: &str) -> Result<Vec<AddressRange>, Error> {
        let text = self.text(name)?;
        let ranges = items(&text).iter().map(|item| AddressRange::parse(item)).collect();
        let refused = || {
            let entry = if name == "cidr_list" { "" } else { " entry" };
            Error::invalid(format!("failed to validate {name}{entry}"))
        };
        let ranges: Option<Vec<AddressRange>> = ranges;
        ranges.ok_or_else(refused)
    }

    fn allowed(&mut self, name: &str, template: &str) -> Result<AllowedNames, Error> {
        Ok(AllowedNames { names: items(&self.text(name)?), are_templates: self.flag(template)? })
    }

    fn key_lengths(&mut self) -> Result<Vec<(String, Vec<i64>)>, Error> {
        let name = "allowed_user_key_lengths";
        let mut lengths = Vec::new();
        let mut shown = Map::new();
        if let Some(map) = self.fields.map(name)? {
            if map.len() > KEY_TYPES_MAX {
                return Err(Error::invalid(format!("more than {KEY_TYPES_MAX} of {name}")));
            }
            for key_type in map.keys() {
                let bits = Fields::new(map).ints(key_type).map_err(|_| {
                    Error::invalid(format!(
                        "error processing {name}: the bits of {key_type:?} are no whole numbers"
                    ))
                })?;
                let bits = bits.unwrap_or_default();
                if bits.len() > KEY_TYPES_MAX {
                    return Err(Error::invalid(format!(
                        "error processing {name}: more than {KEY_TYPES_MAX} sizes of {key_type:?}"
                    )));
                }
                let listed = bits.iter().map(|bits| Json::from(*bits)).collect();
                shown.insert(key_type.clone(), Json::Array(listed));
                lengths.push((key_type.clone(), bits));
            }
        }
        self.show(name, Json::Object(shown));
        Ok(lengths)
    }

    fn rsa_hash(&mut self) -> Result<RsaHash, Error> {
        let name = self.fields.string("algorithm_signer")?.unwrap_or_default();
        let (shown, hash) = match name.as_str() {
            "" | "default" => ("default", RsaHash::Sha256),
            "rsa-sha2-256" => ("rsa-sha2-256", RsaHash::Sha256),
            "rsa-sha2-512" => ("rsa-sha2-512", RsaHash::Sha512),
            "ssh-rsa" => {
                return Err(Error::invalid(
                    "algorithm_signer ssh-rsa signs with SHA-1, which OpenSSH refuses since 8.8: \
                     take rsa-sha2-256 or rsa-sha2-512",
                ));
            }
            other => return Err(Error::invalid(format!("unknown algorithm signer {other:?}"))),
        };
        self.show("algorithm_signer", shown);
        Ok(hash)
    }
}

fn read_ca(fields: Fields<'_>) -> Result<SshRole, Error> {
    let mut reading = RoleReading { fields, shown: Map::new() };
    let read = &mut reading;
    read.show("key_type", "ca");
    let allows_users = read.flag("allow_user_certificates")?;
    let allows_hosts = read.flag("allow_host_certificates")?;
    if !allows_users && !allows_hosts {
        return Err(Error::invalid(
            "Either 'allow_user_certificates' or 'allow_host_certificates' must be set to 'true'",
        ));
    }
    let (ttl_secs, max_ttl_secs) = (read.secs("ttl", 0)?, read.secs("max_ttl", 0)?);
    if ttl_secs != 0 && max_ttl_secs != 0 && ttl_secs > max_ttl_secs {
        return Err(Error::invalid(
            "\"ttl\" value must be less than \"max_ttl\" when both are specified",
        ));
    }
    let not_before_secs = read.secs("not_before_duration", NOT_BEFORE_SECS_DEFAULT)?;
    if not_before_secs > NOT_BEFORE_SECS_MAX {
        return Err(Error::invalid("not_before_duration is a year at most"));
    }
    let issuer_ref = match fields.string("issuer_ref")?.unwrap_or_default().trim() {
        "" => "default".to_owned(),
        reference => reference.to_owned(),
    };
    read.show("issuer_ref", issuer_ref.as_str());
    let role = CaRole {
        allows_users,
        allows_hosts,
        allows_no_principals: read.flag("allow_empty_principals")?,
        users: read.allowed("allowed_users", "allowed_users_template")?,
        domains: read.allowed("allowed_domains", "allowed_domains_template")?,
        default_user: read.text("default_user")?,
        default_user_is_template: read.flag("default_user_template")?,
        allows_commas: read.flag("allow_commas_in_identity_templates")?,
        allows_wildcards: read.flag("allow_wildcards_in_identity_templates")?,
        allows_bare_domains: read.flag("allow_bare_domains")?,
        allows_subdomains: read.flag("allow_subdomains")?,
        allows_key_ids: read.flag("allow_user_key_ids")?,
        key_id_format: read.text("key_id_format")?,
        critical_options: items(&read.text("allowed_critical_options")?),
        default_critical_options: read.options("default_critical_options")?,
        extensions: items(&read.text("allowed_extensions")?),
        default_extensions: read.options("default_extensions")?,
        extensions_are_templates: read.flag("default_extensions_template")?,
        key_lengths: read.key_lengths()?,
        rsa_hash: read.rsa_hash()?,
        issuer_ref,
        ttl_secs,
        max_ttl_secs,
        not_before_secs,
    };
    Ok(SshRole { shown: reading.shown, does: Does::Ca(Box::new(role)) })
}

fn read_otp(fields: Fields<'_>) -> Result<SshRole, Error> {
    let mut reading = RoleReading { fields, shown: Map::new() };
    let read = &mut reading;
    read.show("key_type", "otp");
    let ranges = read.ranges("cidr_list")?;
    let excluded = read.ranges("exclude_cidr_list")?;
    let port = match fields.int("port")?.unwrap_or(0) {
        0 => 22,
        port @ 1..=65535 => port,
        port => return Err(Error::invalid(format!("port {port} is none: it is 65535 at most"))),
    };
    read.show("port", port);
    let default_user = read.text("default_user")?;
    if default_user.is_empty() {
        return Err(Error::invalid("missing default user"));
    }
    let users = items(&read.text("allowed_users")?);
    let role = OtpRole { default_user, users, port, ranges, excluded };
    Ok(SshRole { shown: reading.shown, does: Does::Otp(role) })
}

impl CaRole {
    /// Whether a key is of a type and size that is signed.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what it is not, after the words that clients know.
    pub(super) fn check_key(&self, key: &SshPublicKey) -> Result<(), Error> {
        let refused = |why: String| {
            Error::Invalid(format!("public_key failed to meet the key requirements: {why}"))
        };
        let (key_type, bits) = (key.key_type(), key.bits());
        if self.key_lengths.is_empty() {
            if key_type == KeyType::Rsa && bits < RSA_BITS_MIN {
                return Err(refused(format!(
                    "RSA with {bits} bits is weak: {RSA_BITS_MIN} are needed, or a role that allows \
                     these bits by allowed_user_key_lengths"
                )));
            }
            return Ok(());
        }
        match self.judge(key_type, bits) {
            JudgedKey::Allowed => Ok(()),
            JudgedKey::OtherSize => Err(refused(format!("key is of an invalid size: {bits}"))),
            JudgedKey::OtherType => {
                Err(refused(format!("key of type {} is not allowed", key_type.family())))
            }
        }
    }

    /// Whether a kind of key that is made here is one that is signed.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying which field of the request names another.
    pub(super) fn check_kind(&self, kind: PkiKeyKind) -> Result<(), Error> {
        if self.key_lengths.is_empty() {
            return Ok(());
        }
        let (key_type, bits) = match kind {
            PkiKeyKind::Rsa(bits) => (KeyType::Rsa, bits),
            PkiKeyKind::P256 => (KeyType::EcdsaP256, 256),
            PkiKeyKind::P384 => (KeyType::EcdsaP384, 384),
            PkiKeyKind::P521 => (KeyType::EcdsaP521, 521),
            PkiKeyKind::Ed25519 => (KeyType::Ed25519, 256),
        };
        match self.judge(key_type, bits) {
            JudgedKey::Allowed => Ok(()),
            JudgedKey::OtherSize => Err(Error::invalid(
                "provided key_bits value not in list of role's allowed_user_key_types",
            )),
            JudgedKey::OtherType => {
                Err(Error::invalid("provided key_type value not in allowed_user_key_types"))
            }
        }
    }

    /// What the types and sizes that the role names say of a key.
    fn judge(&self, key_type: KeyType, bits: u16) -> JudgedKey {
        let mut judged = JudgedKey::OtherType;
        let named = self.key_lengths.iter().filter(|(name, _)| is_named(name, key_type));
        for (name, sizes) in named {
            // The name of one type says its bits already, but that of RSA.
            let names_bits = key_type != KeyType::Rsa && name == key_type.name();
            if names_bits || key_type.family() == "ed25519" || sizes.contains(&i64::from(bits)) {
                return JudgedKey::Allowed;
            }
            judged = JudgedKey::OtherSize;
        }
        judged
    }
}

/// What a role says of a key.
enum JudgedKey {
    Allowed,
    OtherSize,
    OtherType,
}

/// Whether a name of settings means a type of keys. A key on a security key is one of its family too, and has a name that means no other.
fn is_named(name: &str, key_type: KeyType) -> bool {
    let family = key_type.family();
    name == key_type.name() || name == family || (family == "ecdsa" && name == "ec")
}
