//! Verifiers of SCRAM-SHA-256 (RFC 5802) as PostgreSQL keeps them: with one in the place of a password, no statement and no log of
//! statements has the password.
//!
//! ```text
//! SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>     each but the number in base 64
//! ```

use std::num::NonZeroU32;

use aws_lc_rs::{digest, hmac, pbkdf2};
use data_encoding::BASE64;
use zeroize::Zeroizing;

/// Bytes of a salt.
pub(super) const SALT_BYTES: usize = 16;
/// As many as PostgreSQL makes by itself; passwords that are made here need none.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");

/// The verifier of a password.
pub(super) fn verifier(password: &str, salt: &[u8; SALT_BYTES]) -> String {
    let mut salted = Zeroizing::new([0_u8; 32]);
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(algorithm, ITERATIONS, salt, password.as_bytes(), &mut *salted);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &*salted);
    let stored = digest::digest(&digest::SHA256, hmac::sign(&key, b"Client Key").as_ref());
    let server = hmac::sign(&key, b"Server Key");
    let text = |bytes: &[u8]| BASE64.encode(bytes);
    format!(
        "SCRAM-SHA-256${ITERATIONS}:{}${}:{}",
        text(salt),
        text(stored.as_ref()),
        text(server.as_ref())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn a_verifier_is_what_postgresql_keeps() {
        let salt = BASE64.decode(b"W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        assert_eq!(
            verifier("pencil", salt.as_slice().try_into().unwrap()),
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
    }
}
