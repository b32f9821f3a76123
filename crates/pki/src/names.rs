//! Which names a role allows: the one place where that is decided.
//!
//! A name is read once, into what it is (a wildcard or none, a mailbox or none, and a host in lower case and A-labels), and rules are about that:
//! nothing is cut or compared in place. Names of a request's body, of the subject of a certificate request and of its alternative names
//! all become a [`WantedNames`], so that no rule holds for the one and not for the other.
//!
//! Invariants:
//! - What stands in a certificate is what was judged: [`grant`] returns the names, in the spelling that was compared.
//! - The first refusal wins, and the order is that of [`grant`].

use std::fmt;
use std::net::IpAddr;

use crate::ObjectIdentifier;
use crate::error::{Error, Result};
use crate::san::{self, NAMES_MAX, San};

/// Longest name, in bytes.
const HOST_BYTES_MAX: usize = 253;
/// Longest label, in bytes.
const LABEL_BYTES_MAX: usize = 63;
/// Longest part before the `@` of a mailbox, in bytes (RFC 5321, 4.5.3.1.1).
const LOCAL_BYTES_MAX: usize = 64;
/// Longest text that is looked at at all.
const TEXT_BYTES_MAX: usize = 1024;

/// What a role says of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameRules {
    /// Whether any name will do, as far as what follows allows it.
    pub allow_any_name: bool,
    /// Whether the domains allow themselves.
    pub allow_bare_domains: bool,
    /// Whether the domains allow what is below them.
    pub allow_subdomains: bool,
    /// Whether a `*` in a domain stands for anything.
    pub allow_glob_domains: bool,
    /// Whether `localhost` and `localdomain` will do.
    pub allow_localhost: bool,
    /// Whether wildcards will do.
    pub allow_wildcards: bool,
    /// Whether names have to be hosts.
    pub enforce_hostnames: bool,
    /// The domains.
    pub domains: Vec<String>,
    /// The name of who asks, where that will do.
    pub display_name: Option<String>,
    /// What the common name may be: `email`, `hostname`; anything if empty; not even a name that would be allowed if `disabled` alone.
    pub cn_validations: Vec<String>,
    /// Whether there has to be a common name.
    pub require_cn: bool,
    /// Whether IP addresses will do.
    pub allow_ip_sans: bool,
    /// The networks that they have to be of; any if empty.
    pub ip_networks: Vec<AddressBlock>,
    /// Patterns of URIs.
    pub uri_sans: Vec<String>,
    /// Other names: `*`, or `OID;UTF8:PATTERN`.
    pub other_sans: Vec<String>,
    /// Patterns of the attribute serialNumber.
    pub serial_numbers: Vec<String>,
    /// Patterns of user ids.
    pub user_ids: Vec<String>,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedNames {
    /// The common name; empty for none.
    pub common_name: String,
    /// DNS names and e-mail addresses.
    pub names: Vec<String>,
    /// IP addresses.
    pub ips: Vec<IpAddr>,
    /// URIs.
    pub uris: Vec<String>,
    /// Others.
    pub others: Vec<(ObjectIdentifier, String)>,
    /// The attribute serialNumber; empty for none.
    pub serial_number: String,
    /// User ids.
    pub user_ids: Vec<String>,
    /// Whether the common name stays out of the alternative names.
    pub excludes_cn: bool,
    /// Whether the alternative names are those of a certificate request, and not of the request's body.
    pub is_of_csr: bool,
}

impl WantedNames {
    /// Where the names came from, in the words of refusals.
    fn via(&self) -> &'static str {
        if self.is_of_csr { "via the CSR" } else { "via the API" }
    }
}

/// What stands in the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedNames {
    /// The common name; empty for none.
    pub common_name: String,
    /// The alternative names.
    pub alt_names: Vec<San>,
}

/// Addresses that have their first bits in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    address: IpAddr,
    bits: u8,
}

impl AddressBlock {
    /// Reads `ADDRESS/BITS`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("invalid CIDR address: {text}"));
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if bits > most { Err(wrong()) } else { Ok(Self { address, bits }) }
    }

    /// Whether an address is of it.
    pub fn holds(&self, ip: IpAddr) -> bool {
        let same = |ours: u128, theirs: u128, width: u32| {
            let shift = width - u32::from(self.bits);
            ours.checked_shr(shift).unwrap_or(0) == theirs.checked_shr(shift).unwrap_or(0)
        };
        match (self.address, ip) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                same(u128::from(u32::from(ours)), u128::from(u32::from(theirs)), 32)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => same(ours.into(), theirs.into(), 128),
            _ => false,
        }
    }

    /// The block of an address and a mask, one after the other, as name constraints have them; `None` for a mask with gaps.
    pub fn from_constraint(bytes: &[u8]) -> Option<Self> {
        let (address, mask) = bytes.split_at(bytes.len() / 2);
        let (address, mask): (IpAddr, u128) = if bytes.len() == 8 {
            let mask = u32::from_be_bytes(mask.try_into().ok()?);
            (<[u8; 4]>::try_from(address).ok()?.into(), u128::from(mask) << 96)
        } else {
            let mask = u128::from_be_bytes(mask.try_into().ok()?);
            (<[u8; 16]>::try_from(address).ok()?.into(), mask)
        };
        let bits = mask.leading_ones();
        let has_gaps = mask.checked_shl(bits).is_some_and(|rest| rest != 0);
        let bits = u8::try_from(bits).ok()?;
        (!has_gaps).then_some(Self { address, bits })
    }

    /// The address and the mask, one after the other, as name constraints have them.
    pub fn to_constraint(&self) -> Vec<u8> {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                let network = u32::from(address) & mask;
                [network.to_be_bytes(), mask.to_be_bytes()].concat()
            }
            IpAddr::V6(address) => {
                let network = u128::from(address) & mask;
                [network.to_be_bytes(), mask.to_be_bytes()].concat()
            }
        }
    }
}

impl fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// A name, read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReadName {
    /// What stands before the `@` of a mailbox.
    local: Option<String>,
    /// The first label of a wildcard, which has a `*`.
    wildcard: Option<String>,
    /// A host, in lower case and A-labels; or whatever else was given, in lower case, which is no host.
    host: String,
    /// What was given, where it is no host.
    free: Option<String>,
}

impl ReadName {
    /// Reads a name; `None` for what is none whatever a role says.
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control) {
            return None;
        }
        if let Some((local, host)) = text.split_once('@') {
            let host = host_name(host).filter(|_| is_mailbox(local))?;
            return Some(Self { local: Some(local.to_owned()), wildcard: None, host, free: None });
        }
        if text.contains('*') {
            let (label, rest) = text.split_once('.')?;
            let wildcard = wildcard_label(label)?;
            let host = host_name(rest)?;
            return Some(Self { local: None, wildcard: Some(wildcard), host, free: None });
        }
        match host_name(text) {
            Some(host) => Some(Self { local: None, wildcard: None, host, free: None }),
            None => {
                let free = Some(text.to_owned());
                Some(Self { local: None, wildcard: None, host: text.to_lowercase(), free })
            }
        }
    }

    /// Its one spelling.
    fn text(&self) -> String {
        match (&self.local, &self.wildcard, &self.free) {
            (_, _, Some(free)) => free.clone(),
            (Some(local), ..) => format!("{local}@{}", self.host),
            (None, Some(label), _) => format!("{label}.{}", self.host),
            (None, None, None) => self.host.clone(),
        }
    }

    /// It as an alternative name, if it can be one. A host that ends in a number is an address to those who read it, or nothing.
    fn san(&self) -> Option<San> {
        match (&self.local, &self.free) {
            (_, Some(_)) => None,
            _ if ends_in_number(&self.host) => None,
            (Some(_), _) => Some(San::Email(self.text())),
            (None, None) => Some(San::Dns(self.text())),
        }
    }

    fn is_below(&self, domain: &str) -> bool {
        let above = self.host.strip_suffix(domain);
        let below = above.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'));
        below || (self.wildcard.is_some() && self.host == domain)
    }

    fn is_of(&self, domain: &str, rules: &NameRules) -> bool {
        if domain.is_empty() {
            return false;
        }
        let folded = fold(domain);
        let whole = self.text().to_lowercase();
        let is_bare = rules.allow_bare_domains
            && (whole == folded || (self.local.is_some() && self.host == folded));
        let is_below = rules.allow_subdomains && self.is_below(&folded);
        let is_like = rules.allow_glob_domains && folded.contains('*') && is_like(&folded, &whole);
        is_bare || is_below || is_like
    }

    fn is_local(&self, rules: &NameRules) -> bool {
        ["localhost", "localdomain"].iter().any(|local| {
            (self.wildcard.is_none() && self.host == *local)
                || (rules.allow_subdomains && self.is_below(local))
        })
    }

    fn is_callers(&self, caller: &str, rules: &NameRules) -> bool {
        let caller = caller.to_lowercase();
        if caller.is_empty() {
            return false;
        }
        let is_below = match caller.split_once('@') {
            Some((_, domain)) => self.local.is_some() && self.is_below(domain),
            None => self.is_below(&caller),
        };
        self.text().to_lowercase() == caller || (rules.allow_subdomains && is_below)
    }

    /// Whether a role allows it.
    fn is_allowed(&self, rules: &NameRules) -> bool {
        if self.wildcard.is_some() && !rules.allow_wildcards {
            return false;
        }
        if self.free.is_some() && rules.enforce_hostnames {
            return false;
        }
        rules.allow_any_name
            || (rules.allow_localhost && self.is_local(rules))
            || rules.display_name.as_ref().is_some_and(|caller| self.is_callers(caller, rules))
            || rules.domains.iter().any(|domain| self.is_of(domain, rules))
    }
}

/// Whether a text is what stands before the `@`: a dot-atom (RFC 5321, 4.1.2), without quotes.
pub(crate) fn is_mailbox(local: &str) -> bool {
    local.len() <= LOCAL_BYTES_MAX
        && local.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_of_mailbox))
}

const fn is_of_mailbox(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'+' | b'-' | b'/')
        || matches!(byte, b'=' | b'?' | b'^'..=b'`' | b'{'..=b'~')
}

/// A domain of a role, as it is compared: in lower case, and in A-labels where it is a host.
fn fold(domain: &str) -> String {
    host_name(domain).unwrap_or_else(|| domain.to_lowercase())
}

/// A host in lower case and A-labels; `None` for what is none.
pub fn host_name(text: &str) -> Option<String> {
    let has_alabel = || text.split('.').any(|label| label.get(..4).is_some_and(is_alabel));
    let host = if text.is_ascii() && !has_alabel() {
        text.to_ascii_lowercase()
    } else {
        idna::domain_to_ascii_strict(text).ok()?
    };
    let fits = host.len() <= HOST_BYTES_MAX && host.split('.').all(is_label);
    fits.then_some(host)
}

/// Whether the last label of a host is a number (RFC 1123, 2.1).
fn ends_in_number(host: &str) -> bool {
    host.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_alabel(prefix: &str) -> bool {
    prefix.eq_ignore_ascii_case("xn--")
}

fn is_label(label: &str) -> bool {
    let word = |byte: &u8| byte.is_ascii_alphanumeric();
    let bytes = label.as_bytes();
    bytes.len() <= LABEL_BYTES_MAX
        && bytes.first().is_some_and(word)
        && bytes.last().is_some_and(word)
        && bytes.iter().all(|byte| word(byte) || *byte == b'-')
}

/// The first label of a wildcard: `*` alone, or with one fixed part before or behind it.
fn wildcard_label(label: &str) -> Option<String> {
    let fixed = label.strip_prefix('*').or_else(|| label.strip_suffix('*'))?;
    let fits = fixed.is_empty() || (is_label(fixed) && !is_alabel_part(label));
    (fits && label.len() <= LABEL_BYTES_MAX).then(|| label.to_ascii_lowercase())
}

/// A part of an A-label says nothing of what the whole is (RFC 6125, 6.4.3).
fn is_alabel_part(label: &str) -> bool {
    label.get(..4).is_some_and(is_alabel)
}

/// Whether a text is like a pattern, in which `*` stands for anything.
pub fn is_like(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let Some((middle, last)) = rest.rsplit_once('*') else {
        return left.ends_with(rest);
    };
    // Each part is looked for as early as may be, which leaves the most to those behind it.
    for part in middle.split('*') {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

fn is_any_like(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| is_like(pattern, text))
}

/// Whether a role allows a DNS name or e-mail address, and how that is spelled.
pub fn allows(rules: &NameRules, text: &str) -> Option<String> {
    ReadName::parse(text).filter(|name| name.is_allowed(rules)).map(|name| name.text())
}

fn not_allowed(text: &str) -> Error {
    Error::invalid(format!("subject alternate name {text} not allowed by this role"))
}

fn common_name(rules: &NameRules, text: &str) -> Result<Option<ReadName>> {
    if matches!(&rules.cn_validations[..], [only] if only == "disabled") {
        return Ok(ReadName::parse(text));
    }
    let refused = || Error::invalid(format!("common name {text} not allowed by this role"));
    let name = ReadName::parse(text).filter(|name| name.is_allowed(rules)).ok_or_else(refused)?;
    // There are clients that read an address there.
    if let Ok(ip) = text.parse::<IpAddr>() {
        address(rules, ip.to_canonical(), "as the common name")?;
    }
    let kind = if name.local.is_some() { "email" } else { "hostname" };
    let fits = rules.cn_validations.is_empty()
        || rules.cn_validations.iter().any(|validation| validation == kind);
    if fits { Ok(Some(name)) } else { Err(refused()) }
}

/// Whether a role allows an address, as one by itself or as the common name.
fn address(rules: &NameRules, ip: IpAddr, via: &str) -> Result<()> {
    if !rules.allow_ip_sans {
        return Err(Error::invalid(format!(
            "IP Subject Alternative Names are not allowed in this role, but was provided {via}"
        )));
    }
    let networks = &rules.ip_networks;
    if !networks.is_empty() && !networks.iter().any(|network| network.holds(ip)) {
        return Err(Error::invalid(format!("the IP address \"{ip}\" is not allowed in this role")));
    }
    Ok(())
}

/// What a name becomes in the certificate, if the role allows it.
fn dns_and_email(rules: &NameRules, wanted: &WantedNames) -> Result<Vec<San>> {
    let sans = wanted.names.iter().map(|text| {
        let name = ReadName::parse(text).filter(|name| name.is_allowed(rules));
        name.and_then(|name| name.san()).ok_or_else(|| not_allowed(text))
    });
    sans.collect()
}

fn others(rules: &NameRules, wanted: &WantedNames) -> Result<Vec<San>> {
    let is_any = rules.other_sans.iter().any(|pattern| pattern == "*");
    let sans = wanted.others.iter().map(|(oid, text)| {
        if !is_any {
            check_other(rules, oid, text)?;
        }
        Ok(San::Other(*oid, text.clone()))
    });
    sans.collect()
}

fn check_other(rules: &NameRules, oid: &ObjectIdentifier, text: &str) -> Result<()> {
    let patterns = rules.other_sans.iter().filter_map(|pattern| {
        let (id, rest) = pattern.split_once(';')?;
        let (_, pattern) = rest.split_once(':')?;
        (id.trim() == oid.to_string()).then_some(pattern)
    });
    let patterns: Vec<&str> = patterns.collect();
    if patterns.is_empty() {
        return Err(Error::invalid(format!("other SAN OID {oid} not allowed by this role")));
    }
    if !patterns.iter().any(|pattern| is_like(pattern, text)) {
        return Err(Error::invalid(format!(
            "other SAN {text} not allowed for OID {oid} by this role"
        )));
    }
    Ok(())
}

fn addresses(rules: &NameRules, wanted: &WantedNames) -> Result<Vec<San>> {
    let sans = wanted.ips.iter().map(|ip| {
        // One of IPv4 in the form of IPv6 is the same address to those who compare: one spelling, as for names.
        let ip = ip.to_canonical();
        address(rules, ip, wanted.via())?;
        Ok(San::Ip(ip))
    });
    sans.collect()
}

fn uris(rules: &NameRules, wanted: &WantedNames) -> Result<Vec<San>> {
    let via = wanted.via();
    if !wanted.uris.is_empty() && rules.uri_sans.is_empty() {
        return Err(Error::invalid(format!(
            "URI Subject Alternative Names are not allowed in this role, but were provided {via}"
        )));
    }
    let sans = wanted.uris.iter().map(|uri| {
        if !san::is_uri(uri) {
            return Err(Error::invalid(format!("the value {uri:?} is not a valid URI")));
        }
        if !is_any_like(&rules.uri_sans, uri) {
            return Err(Error::invalid(format!(
                "URI Subject Alternative Names were provided {via} which are not valid for this \
                 role"
            )));
        }
        Ok(San::Uri(uri.clone()))
    });
    sans.collect()
}

/// What is refused before any name is looked at.
fn check_whole(rules: &NameRules, wanted: &WantedNames) -> Result<()> {
    let count = wanted.names.len() + wanted.ips.len() + wanted.uris.len() + wanted.others.len();
    if count > NAMES_MAX {
        return Err(Error::invalid(format!("more than {NAMES_MAX} subject alternate names")));
    }
    if wanted.common_name.is_empty() && rules.require_cn {
        return Err(Error::invalid(
            "the common_name field is required, or must be provided in a CSR with \
             \"use_csr_common_name\" set to true, unless \"require_cn\" is set to false",
        ));
    }
    Ok(())
}

fn check_serial_number(rules: &NameRules, wanted: &WantedNames) -> Result<()> {
    let number = &wanted.serial_number;
    if number.is_empty() || is_any_like(&rules.serial_numbers, number) {
        return Ok(());
    }
    Err(Error::invalid(format!("serial_number {number} not allowed by this role")))
}

fn check_user_ids(rules: &NameRules, wanted: &WantedNames) -> Result<()> {
    match wanted.user_ids.iter().find(|id| !is_any_like(&rules.user_ids, id)) {
        Some(id) => Err(Error::invalid(format!("user_id {id} is not allowed by this role"))),
        None => Ok(()),
    }
}

/// The alternative name that a common name becomes. The common name may go unchecked; this does not.
fn san_of_common_name(
    rules: &NameRules,
    wanted: &WantedNames,
    name: Option<&ReadName>,
) -> Result<Option<San>> {
    let Some(name) = name.filter(|_| !wanted.excludes_cn) else { return Ok(None) };
    match name.san() {
        Some(_) if !name.is_allowed(rules) => Err(not_allowed(&wanted.common_name)),
        san => Ok(san),
    }
}

/// Each once, by kind, and within a kind in the order given.
fn in_order(sans: impl Iterator<Item = San>) -> Vec<San> {
    let mut ordered: Vec<San> = Vec::new();
    for san in sans {
        if !ordered.contains(&san) {
            ordered.push(san);
        }
    }
    ordered.sort_by_key(|san| match san {
        San::Other(..) => 0,
        San::Dns(_) => 1,
        San::Email(_) => 2,
        San::Ip(_) => 3,
        San::Uri(_) => 4,
    });
    ordered
}

/// Decides on all that is asked for, and says what stands in the certificate.
///
/// # Errors
/// [`Error::Invalid`] with the first refusal, in the words that clients know.
pub fn grant(rules: &NameRules, wanted: &WantedNames) -> Result<GrantedNames> {
    check_whole(rules, wanted)?;
    let name = match wanted.common_name.as_str() {
        "" => None,
        text => common_name(rules, text)?,
    };
    check_serial_number(rules, wanted)?;
    let of_common_name = san_of_common_name(rules, wanted, name.as_ref())?;
    // Those of a certificate request stand in its order, before what the request's body adds.
    let (first, last) =
        if wanted.is_of_csr { (None, of_common_name) } else { (of_common_name, None) };
    let mut asked = dns_and_email(rules, wanted)?;
    asked.extend(others(rules, wanted)?);
    asked.extend(addresses(rules, wanted)?);
    asked.extend(uris(rules, wanted)?);
    check_user_ids(rules, wanted)?;
    Ok(GrantedNames {
        common_name: name.map_or_else(|| wanted.common_name.clone(), |name| name.text()),
        alt_names: in_order(first.into_iter().chain(asked).chain(last)),
    })
}
