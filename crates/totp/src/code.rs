//! Codes (RFC 4226, 5.3; RFC 6238, 4).

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

use crate::key::{CodeHash, TotpKey};

impl TotpKey {
    /// The code of a period, by its number since 1970.
    pub fn code(&self, number: u64) -> String {
        let algorithm = match self.algorithm {
            CodeHash::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            CodeHash::Sha256 => hmac::HMAC_SHA256,
            CodeHash::Sha512 => hmac::HMAC_SHA512,
        };
        let tag = hmac::sign(&hmac::Key::new(algorithm, &self.secret), &number.to_be_bytes());
        let tag = tag.as_ref();
        // The last four bits say where the 31 bits of the code begin: at most at 15 of at least 20 bytes.
        let at = tag.last().map_or(0, |byte| usize::from(byte & 15));
        let bits =
            tag.iter().skip(at).take(4).fold(0, |bits: u32, byte| bits << 8 | u32::from(*byte));
        let bits = bits & 0x7fff_ffff;
        let digits = self.digits;
        let modulus = 10_u32.pow(u32::try_from(digits).unwrap_or(6));
        format!("{:0digits$}", bits % modulus)
    }

    /// Whether a code is that of a period. Takes as long for one that is as for one that is not.
    pub fn is_code_of(&self, number: u64, code: &str) -> bool {
        verify_slices_are_equal(self.code(number).as_bytes(), code.as_bytes()).is_ok()
    }
}
