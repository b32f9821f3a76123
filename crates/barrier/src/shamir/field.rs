//! Arithmetic in GF(256) with the polynomial of AES, x^8 + x^4 + x^3 + x + 1.
//!
//! Constant time by construction: a product is eight masked steps whatever the factors are, an inverse thirteen products.
//! No table is read (a table's cache lines tell which entry was asked for, CVE-2023-25000) and nothing branches on a value.

/// The polynomial without its x^8: what a product that overflowed is reduced by.
const REDUCTION: u8 = 0x1b;

/// The product of `a` and `b`.
pub(super) fn mul(a: u8, b: u8) -> u8 {
    let (mut shifted, mut bits, mut product) = (a, b, 0);
    for _ in 0..8 {
        product ^= shifted & mask(bits & 1);
        let overflow = mask(shifted >> 7);
        shifted = (shifted << 1) ^ (REDUCTION & overflow);
        bits >>= 1;
    }
    product
}

/// All ones for 1, all zeros for 0.
fn mask(bit: u8) -> u8 {
    // The barrier keeps the compiler from seeing a choice here and making a branch of it.
    std::hint::black_box(0u8.wrapping_sub(bit))
}

/// The inverse of `a`, which is a^254; of zero it is zero.
pub(super) fn inverse(a: u8) -> u8 {
    let a2 = mul(a, a);
    let a3 = mul(a2, a);
    let a6 = mul(a3, a3);
    let a12 = mul(a6, a6);
    let a15 = mul(a12, a3);
    let a30 = mul(a15, a15);
    let a60 = mul(a30, a30);
    let a120 = mul(a60, a60);
    let a126 = mul(a120, a6);
    let a127 = mul(a126, a);
    mul(a127, a127)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schoolbook product: multiply as polynomials, then divide.
    fn mul_naive(a: u8, b: u8) -> u8 {
        let mut product = 0u16;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                product ^= u16::from(a) << bit;
            }
        }
        for bit in (8..16).rev() {
            if product >> bit & 1 == 1 {
                product ^= 0x11b << (bit - 8);
            }
        }
        u8::try_from(product).unwrap()
    }

    #[test]
    fn every_product_is_the_schoolbooks() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), mul_naive(a, b));
            }
        }
    }

    #[test]
    fn every_inverse_inverts() {
        assert_eq!(inverse(0), 0);
        for a in 1..=255 {
            assert_eq!(mul(a, inverse(a)), 1);
        }
    }

    /// FIPS 197, section 4.2: the worked example.
    #[test]
    fn the_field_is_that_of_aes() {
        assert_eq!(mul(0x57, 0x83), 0xc1);
        assert_eq!(mul(0x57, 0x13), 0xfe);
    }
}
