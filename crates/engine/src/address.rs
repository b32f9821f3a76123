//! Ranges of addresses that tokens, roles and secret ids are bound to.
//!
//! A range keeps the text it was given as, less what says nothing: `127.0.0.1/32` shows as
//! `127.0.0.1`. An IPv4 address that arrived in the clothes of IPv6 (`::ffff:10.0.0.1`) is judged as
//! what it is.

use std::net::{IpAddr, SocketAddr};

use kallisto_api::{Denial, Error, Json, Map};

/// Most ranges one role, token or secret id may be bound to.
pub const RANGES_MAX: usize = 64;

/// An address with the number of its leading bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// Reads `10.0.0.0/8`, `2001:db8::/32` or a single address; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let all = width(address);
        let bits = match bits {
            None => all,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|&bits| bits <= all)?
            }
            Some(_) => return None,
        };
        // A range of IPv4 in the clothes of IPv6: what is judged is without them.
        let bare = width(address) - width(address.to_canonical());
        match bits.checked_sub(bare) {
            Some(bits) => Some(Self { address: address.to_canonical(), bits }),
            None => Some(Self { address, bits }),
        }
    }

    /// The range of one address.
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, bits: width(address) }
    }

    /// Whether an address lies in the range.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                same_start(u128::from(own.to_bits()) << 96, u128::from(other.to_bits()) << 96, self)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                same_start(own.to_bits(), other.to_bits(), self)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// Whether every address of `other` lies in the range.
    pub fn covers(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }

    /// The range in its shortest text.
    pub fn text(self) -> String {
        if self.bits == width(self.address) { self.address.to_string() } else { self.block_text() }
    }

    /// The range with its number of bits, also of a single address.
    pub fn block_text(self) -> String {
        format!("{}/{}", self.address, self.bits)
    }
}

const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Whether two addresses, moved to the top of 128 bits, agree in the bits of the range that count.
fn same_start(one: u128, other: u128, range: AddressRange) -> bool {
    let rest = 128 - u32::from(range.bits);
    // A range of no bits holds everything; shifting by the whole width is undefined.
    (one ^ other).checked_shr(rest).unwrap_or(0) == 0
}

/// Reads a list of ranges.
///
/// # Errors
/// [`Error::Invalid`] naming the first that is none, or when there are more than [`RANGES_MAX`].
pub fn parse_all(texts: &[String]) -> Result<Vec<AddressRange>, Error> {
    if texts.len() > RANGES_MAX {
        return Err(Error::invalid(format!("more than {RANGES_MAX} address ranges")));
    }
    let parse = |text: &String| {
        AddressRange::parse(text).ok_or_else(|| {
            Error::invalid(format!(
                "error parsing address {text:?}: Unable to convert {text:?} to an IPv4 or IPv6 \
                 address, or a UNIX Socket"
            ))
        })
    };
    texts.iter().map(parse).collect()
}

/// Reads back a list that [`shown`] wrote into a record; an absent one is empty.
pub fn stored(record: &Map, name: &str) -> Option<Vec<AddressRange>> {
    let Some(given) = record.get(name) else { return Some(Vec::new()) };
    let Json::Array(texts) = given else { return None };
    texts.iter().map(|text| AddressRange::parse(text.as_str()?)).collect()
}

/// The list as it is shown.
pub fn shown(ranges: &[AddressRange]) -> Json {
    Json::strings(ranges.iter().map(|range| range.text()))
}

/// Whether a request from `remote` is within `ranges`; no ranges are no bounds. One that came from
/// within the process has no address, and is in no range.
pub fn allows(ranges: &[AddressRange], remote: Option<SocketAddr>) -> bool {
    ranges.is_empty()
        || remote.is_some_and(|remote| ranges.iter().any(|range| range.contains(remote.ip())))
}

/// Refuses a request from outside of `ranges`.
///
/// # Errors
/// [`Denial::BadToken`]: from there, nothing here is known.
pub fn check(ranges: &[AddressRange], remote: Option<SocketAddr>) -> Result<(), Error> {
    if allows(ranges, remote) { Ok(()) } else { Err(Error::Denied(Denial::BadToken)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        AddressRange::parse(text).unwrap()
    }

    #[test]
    fn ranges_hold_what_shares_their_first_bits() {
        for (text, inside, outside) in [
            ("10.0.0.7/8", "10.255.0.1", "11.0.0.0"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("10.0.0.0/31", "::ffff:10.0.0.1", "::ffff:10.0.0.2"),
            ("::ffff:10.0.0.0/104", "10.255.0.1", "11.0.0.1"),
            ("::ffff:10.0.0.7", "10.0.0.7", "10.0.0.8"),
            (" 10.0.0.0/8\n", "10.0.0.1", "11.0.0.1"),
        ] {
            let range = range(text);
            assert!(range.contains(inside.parse().unwrap()), "{text} {inside}");
            assert!(!range.contains(outside.parse().unwrap()), "{text} {outside}");
        }
        for bad in
            ["", "10.0.0.0/33", "10.0.0/8", "10.0.0.1/", "10.0.0.1/+8", "a", "::/129", "1/2/3"]
        {
            assert_eq!(AddressRange::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_range_covers_the_smaller_ones_inside() {
        assert!(range("10.0.0.0/8").covers(range("10.1.0.0/16")));
        assert!(range("10.0.0.0/8").covers(range("10.0.0.0/8")));
        assert!(!range("10.1.0.0/16").covers(range("10.0.0.0/8")));
        assert!(!range("10.0.0.0/8").covers(range("11.0.0.0/16")));
        assert!(!range("0.0.0.0/0").covers(range("::/0")));
    }

    #[test]
    fn a_single_address_shows_without_its_bits() {
        assert_eq!(range("127.0.0.1/32").text(), "127.0.0.1");
        assert_eq!(range("127.0.0.1").block_text(), "127.0.0.1/32");
        assert_eq!(range("10.0.0.7/8").text(), "10.0.0.7/8");
        assert_eq!(range("::1/128").text(), "::1");
    }

    #[test]
    fn who_has_no_address_is_in_no_range() {
        assert!(allows(&[], None));
        assert!(!allows(&[range("0.0.0.0/0")], None));
        let remote = Some("10.0.0.1:5".parse().unwrap());
        assert!(allows(&[range("127.0.0.1"), range("10.0.0.0/8")], remote));
        assert!(check(&[range("127.0.0.1")], remote).is_err());
    }
}
