//! Keys in ASCII armor, as `gpg --armor --export` writes them (RFC 4880, section 6).

use data_encoding::BASE64;

use crate::Error;

const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
const PRIVATE: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----";

/// Whether `text` is a key in armor.
pub fn is_armored(text: &str) -> bool {
    text.contains("-----BEGIN PGP ")
}

/// The key in armor, which is never empty. Its check sum is not looked at: what is damaged is no key.
///
/// # Errors
/// When there is none, or more than one.
pub fn decode(text: &str) -> Result<Vec<u8>, Error> {
    if text.contains(PRIVATE) {
        return Err(Error::Secret);
    }
    let (_, rest) = text.split_once(BEGIN).ok_or(Error::Malformed)?;
    let (block, after) = rest.split_once(END).ok_or(Error::Malformed)?;
    if after.contains(BEGIN) {
        return Err(Error::Several);
    }
    let lines = block.lines().map(str::trim).skip(1);
    // Headers end at an empty line.
    let body = lines.skip_while(|line| !line.is_empty()).filter(|line| !line.starts_with('='));
    let key = BASE64.decode(body.collect::<String>().as_bytes()).map_err(|_| Error::Malformed)?;
    // Without a line that ends the headers nothing is left, and a request with an empty key is one without encryption.
    if key.is_empty() { Err(Error::Malformed) } else { Ok(key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_out_of_its_armor() {
        let text = format!("x\n{BEGIN}\nVersion: a\n\nAQID\nBA==\n=abcd\n{END}\n");
        assert!(is_armored(&text));
        assert_eq!(decode(&text), Ok(vec![1, 2, 3, 4]));
        assert_eq!(decode(&format!("{text}{text}")), Err(Error::Several));
        assert_eq!(decode(&format!("{PRIVATE}\n\nAQID\n")), Err(Error::Secret));
        assert_eq!(decode(&format!("{BEGIN}\n\n!\n{END}")), Err(Error::Malformed));
        assert_eq!(decode(BEGIN), Err(Error::Malformed));
        assert_eq!(
            decode(&format!("{BEGIN}\nAQID\n{END}")),
            Err(Error::Malformed),
            "no empty line"
        );
    }
}
