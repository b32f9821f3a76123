//! `sys/tools/random`, `sys/tools/hash`: randomness and digests for those who have none.

use aws_lc_rs::digest;
use data_encoding::{BASE64, BASE64_MIME_PERMISSIVE, HEXLOWER};
use zeroize::Zeroizing;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::random;

/// Most random bytes in one answer.
const RANDOM_BYTES_MAX: i64 = 128 << 10;
const RANDOM_BYTES_DEFAULT: i64 = 32;

/// `rest` is nothing, a count, a source, or a source and a count.
pub(super) fn random_bytes(body: &Map, rest: &str) -> Result<Response, Error> {
    let fields = Fields::new(body);
    let (source, count) = match rest.split_once('/') {
        Some((source, count)) => (Some(source), Some(count)),
        None if matches!(rest, "platform" | "seal" | "all") => (Some(rest), None),
        None => (None, Some(rest).filter(|count| !count.is_empty())),
    };
    if source.is_some_and(|source| !matches!(source, "platform" | "seal" | "all")) {
        return Err(Error::invalid(
            "unsupported entropy source; must be \"platform\" or \"seal\", or \"all\"",
        ));
    }
    let count = match count {
        Some(count) => count.parse().map_err(|_| {
            Error::invalid("error parsing url-set byte count: strconv.Atoi: invalid syntax")
        })?,
        None => fields.int("bytes")?.unwrap_or(RANDOM_BYTES_DEFAULT),
    };
    if count < 1 {
        return Err(Error::invalid("'bytes' cannot be less than 1"));
    }
    if count > RANDOM_BYTES_MAX {
        return Err(Error::invalid(format!("'bytes' should be less than {RANDOM_BYTES_MAX}")));
    }
    let encode = encoder(fields, "base64")?;
    let mut bytes = Zeroizing::new(vec![0; usize::try_from(count).unwrap_or_default()]);
    random::fill(&mut bytes)?;
    Ok(Response::data(&Json::object([("random_bytes", encode(&bytes).into())])))
}

pub(super) fn hash(body: &Map, rest: &str) -> Result<Response, Error> {
    let fields = Fields::new(body);
    let given = fields.string("algorithm")?.filter(|name| !name.is_empty());
    let named = if rest.is_empty() { given.as_deref().unwrap_or("sha2-256") } else { rest };
    let algorithm = match named {
        "sha2-224" => &digest::SHA224,
        "sha2-256" => &digest::SHA256,
        "sha2-384" => &digest::SHA384,
        "sha2-512" => &digest::SHA512,
        "sha3-256" => &digest::SHA3_256,
        "sha3-384" => &digest::SHA3_384,
        "sha3-512" => &digest::SHA3_512,
        _ => {
            return Err(Error::invalid(
                "unsupported algorithm: it must be sha2-224, sha2-256, sha2-384, sha2-512, \
                 sha3-256, sha3-384 or sha3-512",
            ));
        }
    };
    let input = Zeroizing::new(fields.string("input")?.unwrap_or_default());
    // A shell's `base64` breaks lines; where it is wrong is said of the text without them.
    let decoded = BASE64
        .decode(input.as_bytes())
        .or_else(|error| BASE64_MIME_PERMISSIVE.decode(input.as_bytes()).map_err(|_| error));
    let input = decoded.map(Zeroizing::new).map_err(|error| {
        let at = error.position;
        Error::invalid(format!(
            "unable to decode input as base64: illegal base64 data at input byte {at}"
        ))
    })?;
    let encode = encoder(fields, "hex")?;
    let sum = digest::digest(algorithm, &input);
    Ok(Response::data(&Json::object([("sum", encode(sum.as_ref()).into())])))
}

/// The encoding that the body asks for.
fn encoder(fields: Fields<'_>, default: &str) -> Result<fn(&[u8]) -> String, Error> {
    let format = fields.string("format")?.filter(|format| !format.is_empty());
    match format.as_deref().unwrap_or(default) {
        "hex" => Ok(|bytes| HEXLOWER.encode(bytes)),
        "base64" => Ok(|bytes| BASE64.encode(bytes)),
        _ => Err(Error::invalid("unsupported encoding format; must be \"hex\" or \"base64\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::json::parse_object;

    fn data(answer: Result<Response, Error>) -> String {
        match answer {
            Ok(Response::Logical(reply)) => String::from_utf8(reply.data).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Recorded from OpenBao 2.7.2: digests of `abc`.
    #[test]
    fn digests_are_those_of_the_reference() {
        let body = parse_object(br#"{"input":"YWJj"}"#).unwrap();
        for (name, start) in [
            ("sha2-224", "23097d223405d822"),
            ("sha2-256", "ba7816bf8f01cfea"),
            ("", "ba7816bf8f01cfea"),
            ("sha2-384", "cb00753f45a35e8b"),
            ("sha2-512", "ddaf35a193617aba"),
            ("sha3-256", "3a985da74fe225b2"),
        ] {
            assert!(data(hash(&body, name)).starts_with(&format!("{{\"sum\":\"{start}")), "{name}");
        }
        assert!(hash(&body, "md5").is_err());
        let lines = parse_object(br#"{"input":"YW\nJj\r\n"}"#).unwrap();
        assert_eq!(data(hash(&lines, "")), data(hash(&body, "")));
        let body = parse_object(br#"{"input":"Y!"}"#).unwrap();
        assert!(hash(&body, "").unwrap_err().to_string().contains("illegal base64 data"));
    }

    #[test]
    fn randomness_is_as_long_as_asked_and_never_the_same() {
        let hex = parse_object(br#"{"format":"hex","bytes":"5"}"#).unwrap();
        let frame = "{\"random_bytes\":\"\"}".len();
        for (rest, chars) in [("", 10), ("platform", 10), ("16", 32), ("all/16", 32), ("seal/1", 2)]
        {
            assert_eq!(data(random_bytes(&hex, rest)).len(), frame + chars, "{rest}");
        }
        assert_ne!(data(random_bytes(&hex, "16")), data(random_bytes(&hex, "16")));
        for refused in ["0", "-1", "131073", "x", "bogus/3", "platform/x"] {
            assert!(random_bytes(&hex, refused).is_err(), "{refused}");
        }
    }
}
