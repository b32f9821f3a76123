//! `sys/tools/random`, `sys/tools/hash`: randomness and digests for those who have none.

use aws_lc_rs::digest;
use kallisto_engine::tools;
use zeroize::Zeroizing;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Map;
use crate::api::response::Response;
use crate::random;

/// Random bytes; the path may name a source, a count, or both.
pub(super) fn random_bytes(
    body: &Map,
    first: Option<&str>,
    second: Option<&str>,
) -> Result<Response, Error> {
    tools::random(Fields::new(body), first, second, random::fill)
}

/// The hash of an input.
pub(super) fn hash(body: &Map, in_path: Option<&str>) -> Result<Response, Error> {
    let fields = Fields::new(body);
    let input = Zeroizing::new(fields.string("input")?.unwrap_or_default());
    tools::hash(fields, &input, in_path, |name, input| {
        let algorithm = match name {
            "sha2-224" => &digest::SHA224,
            "sha2-256" => &digest::SHA256,
            "sha2-384" => &digest::SHA384,
            "sha2-512" => &digest::SHA512,
            "sha3-256" => &digest::SHA3_256,
            "sha3-384" => &digest::SHA3_384,
            "sha3-512" => &digest::SHA3_512,
            _ => return None,
        };
        Some(digest::digest(algorithm, input).as_ref().to_vec())
    })
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
            (Some("sha2-224"), "23097d223405d822"),
            (Some("sha2-256"), "ba7816bf8f01cfea"),
            (None, "ba7816bf8f01cfea"),
            (Some("sha2-384"), "cb00753f45a35e8b"),
            (Some("sha2-512"), "ddaf35a193617aba"),
            (Some("sha3-256"), "3a985da74fe225b2"),
        ] {
            let answer = data(hash(&body, name));
            assert!(answer.starts_with(&format!("{{\"sum\":\"{start}")), "{name:?}");
        }
        assert!(hash(&body, Some("md5")).is_err());
        // An input that is not given is an empty one here, unlike that of the transit engine.
        assert!(data(hash(&Map::new(), None)).starts_with("{\"sum\":\"e3b0c44298fc1c14"));
    }

    #[test]
    fn randomness_is_never_the_same() {
        let draw = || data(random_bytes(&Map::new(), Some("16"), None));
        assert_ne!(draw(), draw());
    }
}
