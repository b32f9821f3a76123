//! Shamir's secret sharing over GF(256), with shares in Vault's form.
//!
//! Every byte of the secret is the value at zero of its own random polynomial of degree `threshold - 1`; a share is the
//! values of all of them at one point x, followed by x:
//!
//! ```text
//! share := y u8 * 32 | x u8                     x is not zero and differs from share to share
//! ```
//!
//! - Coefficients are uniform bytes, the leading one included: forbidding a zero there would tell something about the
//!   secret to who holds `threshold - 1` shares (RUSTSEC-2024-0398).
//! - Points are a random choice, so that shares of two splittings seldom meet at one point and none tells how many there are.
//! - `combine` cannot know whether the shares were the right ones: what comes out is checked against the commitment of
//!   the key it should be (`RootKey::unwrap`).
//! - Arithmetic takes the same time for all secrets (`field`); points are public and may decide a branch.

mod field;

use std::fmt;

use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::limits::{KEY_BYTES, SHARES_MAX};
use crate::random;
use crate::secret::SecretKey;

/// Length of a share, in bytes.
pub const SHARE_BYTES: usize = KEY_BYTES + 1;

/// One share of a key. `Debug` shows none of it.
pub struct Share(Zeroizing<[u8; SHARE_BYTES]>);

impl Share {
    /// The share in `bytes`, which the caller wipes.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are not 33 or end in a zero.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let Some(&bytes) = bytes.as_array::<SHARE_BYTES>() else {
            return Err(Error::Invalid("a share has 33 bytes"));
        };
        let share = Self(Zeroizing::new(bytes));
        if share.point() == 0 {
            return Err(Error::Invalid("a share does not end in a zero byte"));
        }
        Ok(share)
    }

    /// The share itself, for the person who will keep it.
    #[must_use]
    pub fn expose(&self) -> &[u8; SHARE_BYTES] {
        &self.0
    }

    /// Its point, which is public: two shares of one point are one share given twice.
    #[must_use]
    pub fn point(&self) -> u8 {
        self.0[KEY_BYTES]
    }

    fn values(&self) -> &[u8] {
        &self.0[..KEY_BYTES]
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Share")
    }
}

/// Splits a key into `shares`, any `threshold` of which give it back and fewer of which say nothing about it.
///
/// One share of threshold one is allowed: it is the key, with a point behind it.
///
/// # Errors
/// [`Error::Invalid`] unless `1 <= threshold <= shares`, with a threshold of one for a single share only;
/// [`Error::Machine`] if there is no randomness.
pub fn split(secret: &SecretKey, shares: u8, threshold: u8) -> Result<Vec<Share>> {
    check(shares, threshold)?;
    let points = draw_points(shares)?;
    let coefficients = draw_coefficients(threshold)?;
    Ok(points.iter().map(|&x| share_at(secret, &coefficients, x)).collect())
}

fn check(shares: u8, threshold: u8) -> Result<()> {
    if shares == 0 || threshold == 0 {
        return Err(Error::Invalid("shares and threshold are at least one"));
    }
    if threshold > shares {
        return Err(Error::Invalid("the threshold is not above the number of shares"));
    }
    if threshold == 1 && shares > 1 {
        return Err(Error::Invalid("several shares have a threshold above one"));
    }
    Ok(())
}

/// The secret-independent rest of every polynomial: `threshold - 1` coefficients for each byte, highest degree first.
fn draw_coefficients(threshold: u8) -> Result<Zeroizing<Vec<u8>>> {
    let mut coefficients = Zeroizing::new(vec![0; usize::from(threshold - 1) * KEY_BYTES]);
    random::fill(&mut coefficients)?;
    Ok(coefficients)
}

/// `count` different points out of all that are not zero, every choice as likely as another.
fn draw_points(count: u8) -> Result<Vec<u8>> {
    let mut points: Vec<u8> = (1..=SHARES_MAX).collect();
    for place in 0..usize::from(count) {
        let left = points.len() - place;
        let chosen = place + draw_below(left)?;
        points.swap(place, chosen);
    }
    points.truncate(usize::from(count));
    Ok(points)
}

/// A uniform number below `end`, which is 255 at most.
fn draw_below(end: usize) -> Result<usize> {
    /// A byte is refused less than every other time: so many in a row say that the system's randomness is broken.
    const TRIES_MAX: usize = 256;
    let fair = 256 - 256 % end;
    for _ in 0..TRIES_MAX {
        let mut byte = [0];
        random::fill(&mut byte)?;
        let drawn = usize::from(byte[0]);
        if drawn < fair {
            return Ok(drawn % end);
        }
    }
    Err(Error::Machine("random bytes that are not random"))
}

/// The share at `x`: every polynomial by Horner's rule, from the highest coefficient down to the secret.
fn share_at(secret: &SecretKey, coefficients: &[u8], x: u8) -> Share {
    let mut share = Share(Zeroizing::new([0; SHARE_BYTES]));
    for degree in coefficients.chunks_exact(KEY_BYTES).chain([secret.expose().as_slice()]) {
        for (value, coefficient) in share.0.iter_mut().zip(degree) {
            *value = field::mul(*value, x) ^ coefficient;
        }
    }
    share.0[KEY_BYTES] = x;
    share
}

/// The key that `shares` give: the right one if they are enough and of one splitting, else any.
///
/// # Errors
/// [`Error::Invalid`] if there is none or if two have one point; [`Error::Machine`] if there is no memory.
pub fn combine(shares: &[Share]) -> Result<SecretKey> {
    if shares.is_empty() {
        return Err(Error::Invalid("no shares"));
    }
    let mut seen = [false; 256];
    for share in shares {
        if std::mem::replace(&mut seen[usize::from(share.point())], true) {
            return Err(Error::Invalid("two shares have one point"));
        }
    }
    SecretKey::make(|secret| {
        for share in shares {
            let weight = weight_at_zero(shares, share.point());
            for (byte, value) in secret.iter_mut().zip(share.values()) {
                *byte ^= field::mul(*value, weight);
            }
        }
        Ok(())
    })
}

/// Lagrange's weight of the share at `x` for the value at zero: the product of x' / (x' - x) over the other points.
fn weight_at_zero(shares: &[Share], x: u8) -> u8 {
    let others = shares.iter().map(Share::point).filter(|&other| other != x);
    let (above, below) = others.fold((1, 1), |(above, below), other| {
        (field::mul(above, other), field::mul(below, other ^ x))
    });
    field::mul(above, field::inverse(below))
}

#[cfg(test)]
mod tests;
