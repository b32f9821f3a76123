//! Passwords: made into hashes and compared.
//!
//! A hash is meant to take long, so none is made where requests are served: callers run these on the
//! threads for work that takes long (`Heavy`). New hashes are argon2id with the parameters of RFC 9106's second
//! recommendation as OWASP scaled them down; bcrypt hashes that came from elsewhere are taken as they are
//! and made into argon2id at the first good login.

use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use kallisto_api::error::Error;

/// Longest password, in bytes.
pub(crate) const PASSWORD_BYTES_MAX: usize = 1024;
/// Longest password that bcrypt looks at to its end, in bytes.
const BCRYPT_PASSWORD_BYTES_MAX: usize = 72;
/// Highest cost of a bcrypt hash: one more doubles the time each login takes.
const BCRYPT_COST_MAX: u32 = 14;
/// What makes two hashes of one password differ: random bytes, drawn for each hash.
pub(crate) type PasswordSalt = [u8; 16];

/// What a name without a user is compared with, so that it takes as long; nobody knows its password.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$a2FsbGlzdG8gbm9ib2R5$\
                      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The hash of a new password; takes long.
///
/// # Errors
/// [`Error::Internal`] when the algorithm refuses.
pub(crate) fn make_hash(password: &str, salt: PasswordSalt) -> Result<String, Error> {
    let hash = argon().hash_password_with_salt(password.as_bytes(), &salt);
    hash.map(|hash| hash.to_string()).map_err(|error| Error::internal(&error))
}

/// Whether a password is the one of a stored hash; `None` stands for a user that is not there, and
/// takes as long. Takes long.
pub(crate) fn matches(password: &str, stored: Option<&str>) -> bool {
    let hash = stored.unwrap_or(NOBODY);
    let same = if is_bcrypt(hash) {
        // It counts a zero behind the password, for which the longest one has no room: that cuts off nothing of the password itself.
        let fits = password.len() <= BCRYPT_PASSWORD_BYTES_MAX;
        fits && bcrypt::verify(password, hash).unwrap_or(false)
    } else {
        argon().verify_password(password.as_bytes(), hash).is_ok()
    };
    same && stored.is_some()
}

/// Whether a hash is to be made anew at the next chance.
pub(crate) fn is_outdated(stored: &str) -> bool {
    is_bcrypt(stored)
}

/// Refuses what is no bcrypt hash, or one that takes too long.
///
/// # Errors
/// [`Error::Invalid`] saying which.
pub(crate) fn check_bcrypt(hash: &str) -> Result<(), Error> {
    let parts: Option<bcrypt::HashParts> = hash.parse().ok();
    let cost = parts.filter(|_| is_bcrypt(hash)).map(|parts| parts.get_cost());
    match cost {
        None => Err(Error::invalid("password_hash is not a valid bcrypt hash")),
        Some(cost) if cost > BCRYPT_COST_MAX => {
            Err(Error::invalid(format!("password_hash has a bcrypt cost above {BCRYPT_COST_MAX}")))
        }
        Some(_) => Ok(()),
    }
}

fn is_bcrypt(hash: &str) -> bool {
    hash.starts_with("$2")
}

fn argon() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_match_their_own_hash_alone() {
        let hash = make_hash("pw", [7; 16]).unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(matches("pw", Some(&hash)));
        assert!(!matches("pW", Some(&hash)));
        assert!(!matches("pw", Some("damaged")));
        assert_ne!(make_hash("pw", [8; 16]).unwrap(), hash);
    }

    #[test]
    fn bcrypt_hashes_are_taken_and_known_to_be_outdated() {
        // Made by another implementation.
        let hash = "$2b$05$NzNjIu8T.pKF7AM1/6BkW.niCPo4qXXhtdt03qRjh8529BEEC8o46";
        check_bcrypt(hash).unwrap();
        assert!(matches("pw", Some(hash)) && !matches("no", Some(hash)));
        assert!(is_outdated(hash) && !is_outdated(NOBODY));
        for bad in ["", "y", "$2b$04$short", "$argon2id$v=19$m=19456,t=2,p=1$a$b"] {
            assert!(check_bcrypt(bad).is_err(), "{bad}");
        }
        let dear = hash.replacen("$05$", "$15$", 1);
        assert!(check_bcrypt(&dear).unwrap_err().to_string().contains("cost above"));
    }

    #[test]
    fn the_longest_password_of_bcrypt_matches_and_a_longer_one_does_not() {
        // Of 72 times `x`, made by another implementation.
        let hash = "$2b$05$zjSGkus8/GZv3N3QtB8IVO8uEU53W./zIr.g8kiZBlv4lxPbJ06Nu";
        assert!(matches(&"x".repeat(72), Some(hash)));
        assert!(!matches(&"x".repeat(71), Some(hash)) && !matches(&"x".repeat(73), Some(hash)));
    }

    /// The same algorithm and parameters as a real hash, so the same time.
    #[test]
    fn nobody_is_compared_as_somebody_would_be() {
        let (nobody, somebody) = (NOBODY.rsplit_once('$'), make_hash("x", [7; 16]).unwrap());
        let start = |hash: &str| hash.splitn(5, '$').take(4).collect::<Vec<_>>().join("$");
        assert_eq!(start(NOBODY), start(&somebody));
        assert_eq!(nobody.unwrap().1.len(), somebody.rsplit_once('$').unwrap().1.len());
        assert!(!matches("", None));
        // It is a hash that can be compared with, not one that is refused at a glance.
        let refused = argon().verify_password(b"", NOBODY).unwrap_err();
        assert_eq!(refused, argon2::password_hash::Error::PasswordInvalid);
    }
}
