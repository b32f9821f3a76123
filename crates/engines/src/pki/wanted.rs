//! What requests ask of a certificate: names, times, keys.

use std::net::IpAddr;

use data_encoding::HEXLOWER_PERMISSIVE;
use jiff::Timestamp;
use kallisto_api::{Error, Span};
use kallisto_engine::FieldKind::{Flag, Span as Seconds, Text, Texts, Whole};
use kallisto_engine::route::{Field, field};
use kallisto_pki::certificate::{CaNameLimits, NameConstraint, ParsedCertificate};
use kallisto_pki::names::{AddressBlock, WantedNames};
use kallisto_pki::san::parse_other;
use kallisto_pki::{CertificateSubject, Hash, PkiKeyKind, SignatureWish};

use super::given::{GivenFields, refuse, write_time};
use super::issuer::Outliving;
use super::role::{NotAfterBound, NotBeforeBound, PkiRole};

pub(super) const COMMON_NAME: Field = field("common_name", Text, "The common name.");
pub(super) const ALT_NAMES: Field = field("alt_names", Texts, "DNS names and e-mail addresses.");
pub(super) const IP_SANS: Field = field("ip_sans", Texts, "IP addresses.");
pub(super) const URI_SANS: Field = field("uri_sans", Texts, "URIs.");
pub(super) const OTHER_SANS: Field = field("other_sans", Texts, "Other names, as `OID;UTF8:TEXT`.");
pub(super) const EXCLUDE_CN: Field =
    field("exclude_cn_from_sans", Flag, "Whether the common name is no alternative name.");
pub(super) const TTL: Field = field("ttl", Seconds, "How long the certificate is good.");
pub(super) const NOT_AFTER: Field = field("not_after", Text, "When it ends, in RFC 3339.");
pub(super) const NOT_BEFORE: Field = field("not_before", Text, "When it begins, in RFC 3339.");
pub(super) const NOT_BEFORE_DURATION: Field = field(
    "not_before_duration",
    Seconds,
    "How long before now it begins: not before its issuer does.",
);
pub(super) const FORMAT: Field = field("format", Text, "`pem`, `der` or `pem_bundle`.");
pub(super) const KEY_FORMAT: Field = field("private_key_format", Text, "`der`, `pem` or `pkcs8`.");
pub(super) const KEY_TYPE: Field = field("key_type", Text, "`rsa`, `ec` or `ed25519`.");
pub(super) const KEY_BITS: Field = field("key_bits", Whole, "Bits of the key; 0 for the usual.");
pub(super) const SIGNATURE_BITS: Field =
    field("signature_bits", Whole, "Bits of the hash that is signed; 0 for the usual.");
pub(super) const USE_PSS: Field = field("use_pss", Flag, "Whether RSA signs with PSS.");
pub(super) const SERIAL: Field =
    field("serial_number", Text, "The attribute serialNumber of the subject.");
pub(super) const USER_IDS: Field = field("user_ids", Texts, "User ids of the subject.");
pub(super) const REMOVE_ROOTS: Field =
    field("remove_roots_from_chain", Flag, "Whether roots stay out of the chain.");

fn addresses(given: GivenFields<'_>) -> Result<Vec<IpAddr>, Error> {
    let parse = |text: &String| {
        text.parse()
            .map_err(|_| Error::invalid(format!("the value {text:?} is not a valid IP address")))
    };
    given.list("ip_sans")?.iter().map(parse).collect()
}

/// The names that a request's body asks for.
pub(super) fn names(given: GivenFields<'_>) -> Result<WantedNames, Error> {
    let others = given.list("other_sans")?;
    let others = others.iter().map(|text| parse_other(text).map_err(refuse));
    Ok(WantedNames {
        common_name: given.text("common_name")?,
        names: given.list("alt_names")?,
        ips: addresses(given)?,
        uris: given.list("uri_sans")?,
        others: others.collect::<Result<_, _>>()?,
        serial_number: given.text("serial_number")?,
        user_ids: given.list("user_ids")?,
        excludes_cn: given.flag("exclude_cn_from_sans", false)?,
        ..WantedNames::default()
    })
}

/// The names that a request's body asks for, for a CA: its common name is told as it is, and is an alternative name only if it looks like a host of a
/// domain. A CA is no host, and constraints of names would hold for it as for one.
pub(super) fn ca_names(given: GivenFields<'_>) -> Result<WantedNames, Error> {
    let mut names = names(given)?;
    names.excludes_cn |= !names.common_name.contains('.');
    Ok(names)
}

/// The subject that a request's body asks for, of a CA.
pub(super) fn subject(
    given: GivenFields<'_>,
    common_name: &str,
) -> Result<CertificateSubject, Error> {
    Ok(CertificateSubject {
        common_name: common_name.to_owned(),
        serial_number: given.text("serial_number")?,
        country: given.list("country")?,
        province: given.list("province")?,
        locality: given.list("locality")?,
        street_address: given.list("street_address")?,
        postal_code: given.list("postal_code")?,
        organization: given.list("organization")?,
        ou: given.list("ou")?,
        user_ids: given.list("user_ids")?,
    })
}

/// The key that a request's body asks for.
pub(super) fn key_kind(given: GivenFields<'_>) -> Result<PkiKeyKind, Error> {
    let name = given.text_or("key_type", "rsa")?;
    let name = if name.is_empty() { "rsa" } else { &name };
    PkiKeyKind::named(name, given.whole("key_bits", 0)?).map_err(refuse)
}

/// How a request's body wants it signed.
pub(super) fn signature(given: GivenFields<'_>) -> Result<SignatureWish, Error> {
    let hash = match given.whole("signature_bits", 0)? {
        0 => None,
        bits => Some(Hash::of_bits(bits).map_err(refuse)?),
    };
    Ok(SignatureWish { hash, use_pss: given.flag("use_pss", false)? })
}

/// How many CAs may follow, as a request's body asks for it; `None` where it does not.
pub(super) fn path_length(given: GivenFields<'_>) -> Result<Option<u8>, Error> {
    match given.whole("max_path_length", -1)? {
        -1 => Ok(None),
        length => u8::try_from(length)
            .ok()
            .filter(|length| *length < 128)
            .map(Some)
            .ok_or_else(|| Error::invalid("max_path_length must be -1, or 0 to 127")),
    }
}

/// Longest id of a key, in bytes.
const KEY_ID_BYTES_MAX: usize = 64;

/// The id that a request's body gives the key of a CA, in hexadecimal digits with what tools write between them.
pub(super) fn key_id(given: GivenFields<'_>) -> Result<Option<Vec<u8>>, Error> {
    let text = given.text("skid")?;
    let digits: String = text.chars().filter(|c| !matches!(c, ':' | '-' | ' ')).collect();
    if digits.is_empty() {
        return Ok(None);
    }
    let id = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok();
    let id = id.filter(|id| id.len() <= KEY_ID_BYTES_MAX);
    id.map(Some).ok_or_else(|| {
        Error::invalid(format!(
            "cannot parse requested SKID value as hex of at most {KEY_ID_BYTES_MAX} bytes"
        ))
    })
}

/// What a CA may sign, as a request's body asks for it.
pub(super) fn constraints(given: GivenFields<'_>) -> Result<CaNameLimits, Error> {
    let mut constraints = CaNameLimits::default();
    for (prefix, list) in
        [("permitted", &mut constraints.permitted), ("excluded", &mut constraints.excluded)]
    {
        let names = |kind: &str| given.list(&format!("{prefix}_{kind}"));
        for text in names("dns_domains")? {
            list.push(NameConstraint::dns(&text).map_err(refuse)?);
        }
        for text in names("email_addresses")? {
            list.push(NameConstraint::email(&text).map_err(refuse)?);
        }
        for text in names("uri_domains")? {
            list.push(NameConstraint::uri(&text).map_err(refuse)?);
        }
        for text in names("ip_ranges")? {
            let network = AddressBlock::parse(&text).map_err(refuse)?;
            list.push(NameConstraint::Ip(network.to_constraint()));
        }
    }
    Ok(constraints)
}

/// When a certificate begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

/// What bounds the times of a certificate.
pub(super) struct Bounds<'a> {
    pub(super) now: Timestamp,
    /// The role, if there is one.
    pub(super) role: Option<&'a PkiRole>,
    /// How long it is good when nobody says, and at the most.
    pub(super) mount_default_secs: u64,
    pub(super) mount_max_secs: u64,
    /// Who signs, and what becomes of what would outlive it; `None` for a root.
    pub(super) issuer: Option<(&'a ParsedCertificate, Outliving)>,
}

impl Bounds<'_> {
    /// When a certificate that a request asks for begins and ends, and what is to say of it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it may not.
    pub(super) fn validity(
        &self,
        given: GivenFields<'_>,
    ) -> Result<(Validity, Vec<String>), Error> {
        let mut warnings = Vec::new();
        let not_before = self.not_before(given)?;
        let mut not_after = self.not_after(given, &mut warnings)?;
        if let Some((issuer, outliving)) = self.issuer
            && not_after > issuer.not_after
        {
            match outliving {
                Outliving::Permit => {}
                Outliving::Truncate => not_after = issuer.not_after,
                Outliving::Refuse | Outliving::RefuseAll => {
                    return Err(Error::invalid(format!(
                        "cannot satisfy request, as TTL would result in notAfter of {} that is \
                         beyond the expiration of the CA certificate at {}",
                        write_time(not_after),
                        write_time(issuer.not_after)
                    )));
                }
            }
        }
        if let Some(NotAfterBound::Until(last)) = self.role.map(|role| &role.not_after_bound)
            && not_after > *last
        {
            return Err(ends_too_late(*last));
        }
        if not_after > kallisto_pki::time::LAST {
            return Err(Error::invalid("a certificate cannot end after the year 9999"));
        }
        if not_after <= not_before {
            return Err(Error::invalid(format!(
                "The certificate's Not Before ({}) is later than the certificate's Not After ({})",
                write_time(not_before),
                write_time(not_after)
            )));
        }
        Ok((Validity { not_before, not_after }, warnings))
    }

    fn not_before(&self, given: GivenFields<'_>) -> Result<i64, Error> {
        let now = self.now.as_second();
        let usual = self.role.map_or(30, |role| role.not_before_secs);
        let bound = self.role.map_or(NotBeforeBound::Permit, |role| role.not_before_bound);
        let asked = given.time("not_before")?;
        let before = given.has("not_before_duration").then(|| given.secs("not_before_duration", 0));
        let before = before.transpose()?;
        if bound == NotBeforeBound::Forbid && asked.is_some() {
            return Err(Error::invalid("this role does not allow a not_before of the request"));
        }
        let earliest = now.saturating_sub(usual);
        if let Some(asked) = asked {
            if bound == NotBeforeBound::Duration && asked < earliest {
                return Err(Error::invalid(format!(
                    "this role does not allow a not_before earlier than {}",
                    write_time(earliest)
                )));
            }
            // Nothing is signed as of a time at which its issuer was not there.
            if let Some((issuer, _)) = self.issuer
                && asked < issuer.not_before
            {
                return Err(Error::invalid(format!(
                    "cannot satisfy request, as notBefore of {} is earlier than that of the CA \
                     certificate at {}",
                    write_time(asked),
                    write_time(issuer.not_before)
                )));
            }
            return Ok(asked);
        }
        // With a role its own beginning counts, or its own duration.
        let at = match (self.role, before) {
            (Some(role), _) => role.not_before.unwrap_or(earliest),
            (None, Some(secs)) => now.saturating_sub(secs),
            (None, None) => earliest,
        };
        // It is not said for one issuer, and holds as far as the issuer was there.
        Ok(self.issuer.map_or(at, |(issuer, _)| at.max(issuer.not_before)))
    }

    fn not_after(&self, given: GivenFields<'_>, warnings: &mut Vec<String>) -> Result<i64, Error> {
        let now = self.now.as_second();
        let secs = |secs: u64| i64::try_from(secs).unwrap_or(i64::MAX);
        let ttl = given.secs("ttl", 0)?;
        let role_max = self.role.map_or(0, |role| role.max_ttl);
        let most = if role_max > 0 { role_max } else { secs(self.mount_max_secs) };
        let asked = given.time("not_after")?;
        let fixed = self.role.and_then(|role| role.not_after);
        if ttl > 0 && (asked.is_some() || fixed.is_some()) {
            return Err(Error::invalid(
                "either ttl or not_after should be provided; both should not be provided in \
                 the same request, and the not_after of a role counts as one",
            ));
        }
        if let Some(at) = fixed {
            // What the role says is not for its callers to lift.
            if asked.is_some() {
                warnings
                    .push("not_after of the request has no effect: the role has its own".into());
            }
            return Ok(at);
        }
        if let Some(asked) = asked {
            let last = now.saturating_add(most);
            return match self.role.map(|role| &role.not_after_bound) {
                Some(NotAfterBound::Forbid) => {
                    Err(Error::invalid("this role does not allow a not_after of the request"))
                }
                Some(NotAfterBound::TtlLimited) if asked > last => Err(ends_too_late(last)),
                // The last of these holds wherever the end comes from.
                None
                | Some(
                    NotAfterBound::Permit | NotAfterBound::TtlLimited | NotAfterBound::Until(_),
                ) => Ok(asked),
            };
        }
        let role_ttl = self.role.map_or(0, |role| role.ttl);
        let wanted = [ttl, role_ttl, secs(self.mount_default_secs)];
        let wanted = wanted.into_iter().find(|ttl| *ttl > 0).unwrap_or(0);
        if wanted > most {
            let go = |secs| Span::from_secs(secs).map_or_else(String::new, Span::to_go);
            warnings.push(format!(
                "TTL {:?} is longer than permitted maxTTL {:?}, so maxTTL is being used",
                go(wanted),
                go(most)
            ));
        }
        Ok(now.saturating_add(wanted.min(most)))
    }
}

fn ends_too_late(last: i64) -> Error {
    Error::invalid(format!("this role does not allow a not_after later than {}", write_time(last)))
}
