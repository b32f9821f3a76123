//! The tag of what a read of a secret answers: equal exactly when the answer is.
//!
//! Made of what the hot header holds, so that a conditional read decides before anything is
//! decrypted and a plain one pays for a few words copied. It tells nothing that the answer beside it
//! does not.

/// What tells one answer to a read from another (RFC 9110, section 8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Etag {
    /// The version; for a secret without versions the place of its last write.
    pub version: u64,
    /// When the version was written: a path that was removed and written anew counts from 1 again.
    pub created_ns: i64,
    /// When it will be deleted, which the answer shows.
    pub deletion_ns: Option<i64>,
    /// Counts changes of the custom metadata, which the answer shows.
    pub metadata_version: u32,
}

/// Bytes of a tag, quotes included, at the most.
pub const ETAG_BYTES_MAX: usize = 2 + 16 + 1 + 16 + 1 + 8 + 1 + 16;

impl Etag {
    /// Appends the tag with its quotes.
    pub fn write(self, out: &mut Vec<u8>) {
        out.push(b'"');
        write_hex(self.version, out);
        out.push(b'.');
        write_hex(self.created_ns.cast_unsigned(), out);
        out.push(b'.');
        write_hex(u64::from(self.metadata_version), out);
        if let Some(deletion) = self.deletion_ns {
            out.push(b'.');
            write_hex(deletion.cast_unsigned(), out);
        }
        out.push(b'"');
    }

    /// Whether the value of an `If-None-Match` names this tag; `*` names any.
    pub fn is_named_in(self, header: &str) -> bool {
        let mut own = Vec::with_capacity(ETAG_BYTES_MAX);
        self.write(&mut own);
        header.split(',').map(str::trim).any(|named| {
            named == "*" || named.strip_prefix("W/").unwrap_or(named).as_bytes() == own
        })
    }
}

/// Appends lower-case hexadecimal digits without leading zeros.
fn write_hex(number: u64, out: &mut Vec<u8>) {
    let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
    for at in (0..digits).rev() {
        let digit = (number >> (4 * at)) & 15;
        out.push(b"0123456789abcdef"[digit as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tag: Etag) -> String {
        let mut out = Vec::new();
        tag.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_tag_fits_its_limit_and_is_found_in_a_list() {
        let tag = Etag { version: 3, created_ns: 255, deletion_ns: None, metadata_version: 0 };
        assert_eq!(text(tag), "\"3.ff.0\"");
        for header in ["\"3.ff.0\"", "W/\"3.ff.0\"", "\"x\" , \"3.ff.0\"", "*"] {
            assert!(tag.is_named_in(header), "{header}");
        }
        for header in ["", "3.ff.0", "\"3.ff.0", "\"3.ff.00\"", "\"x\""] {
            assert!(!tag.is_named_in(header), "{header}");
        }
        let longest = Etag {
            version: u64::MAX,
            created_ns: -1,
            deletion_ns: Some(-1),
            metadata_version: u32::MAX,
        };
        assert_eq!(text(longest).len(), ETAG_BYTES_MAX);
    }

    #[test]
    fn hexadecimal_is_that_of_the_standard_formatter() {
        for number in [0, 1, 15, 16, 255, 256, 0xdead_beef, u64::MAX] {
            let mut out = Vec::new();
            write_hex(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{number:x}"));
        }
    }
}
