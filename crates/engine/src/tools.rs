//! `random` and `hash`, as `sys/tools` and the transit engine have them: what may be asked, and how it is answered.
//!
//! Where random bytes and digests come from is an argument: this crate has no cryptography.

use data_encoding::{BASE64, BASE64_MIME_PERMISSIVE, HEXLOWER};
use kallisto_api::{Error, Fields, Json, Logical, Response};
use zeroize::Zeroizing;

/// Most random bytes in one answer.
pub const RANDOM_BYTES_MAX: usize = 128 << 10;
const RANDOM_BYTES_DEFAULT: i64 = 32;
/// Where random bytes may be asked from; here they all come from the operating system.
const SOURCES: [&str; 3] = ["platform", "seal", "all"];
const NO_SEAL: &str = "no seal/entropy augmentation available, using platform entropy source";

/// How bytes are written.
#[derive(Clone, Copy)]
enum Form {
    Hex,
    Base64,
}

impl Form {
    /// The form that is asked for; a refusal has the word as `spelled` writes it.
    fn asked(
        fields: Fields<'_>,
        usual: Self,
        spelled: impl FnOnce(&str) -> String,
    ) -> Result<Self, Error> {
        match fields.string("format")?.as_deref() {
            None => Ok(usual),
            Some("hex") => Ok(Self::Hex),
            Some("base64") => Ok(Self::Base64),
            Some(other) => Err(Error::invalid(format!(
                "unsupported encoding format {}; must be \"hex\" or \"base64\"",
                spelled(other)
            ))),
        }
    }

    fn write(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => HEXLOWER.encode(bytes),
            Self::Base64 => BASE64.encode(bytes),
        }
    }
}

/// Random bytes, which `fill` makes; the segments of the path may name a source, a count, or both.
///
/// # Errors
/// [`Error::Invalid`] for what cannot be asked, and those of `fill`.
pub fn random(
    fields: Fields<'_>,
    first: Option<&str>,
    second: Option<&str>,
    fill: impl FnOnce(&mut [u8]) -> Result<(), Error>,
) -> Result<Response, Error> {
    let (source, in_path) = match (first, second) {
        (Some(source), Some(count)) => (source, Some(count)),
        (Some(source), None) if SOURCES.contains(&source) => (source, None),
        (count, _) => (SOURCES[0], count),
    };
    let count = match in_path {
        Some(text) => text.parse().map_err(|_| {
            Error::invalid("error parsing url-set byte count: it is no whole number")
        })?,
        None => fields.int("bytes")?.unwrap_or(RANDOM_BYTES_DEFAULT),
    };
    let count = match usize::try_from(count) {
        Ok(count @ 1..=RANDOM_BYTES_MAX) => count,
        _ if count < 1 => return Err(Error::invalid("'bytes' cannot be less than 1")),
        _ => {
            return Err(Error::invalid(format!("'bytes' should be less than {RANDOM_BYTES_MAX}")));
        }
    };
    let form = Form::asked(fields, Form::Base64, |word| format!("{word:?}"))?;
    if !SOURCES.contains(&source) {
        return Err(Error::invalid(format!(
            "unsupported entropy source {source:?}; must be \"platform\" or \"seal\", or \"all\""
        )));
    }
    let mut bytes = Zeroizing::new(vec![0; count]);
    fill(&mut bytes)?;
    let data = Json::object([("random_bytes", form.write(&bytes).into())]).to_text();
    let warnings = if source == "seal" { vec![NO_SEAL.to_owned()] } else { Vec::new() };
    Ok(Response::Logical(Logical { data, warnings, ..Logical::default() }))
}

/// The digest of `input`, which is in base64, by the algorithm that the path names, or the body; `digest` has `None` for a name that it
/// does not know.
///
/// # Errors
/// [`Error::Invalid`] for what cannot be asked.
pub fn hash(
    fields: Fields<'_>,
    input: &str,
    in_path: Option<&str>,
    digest: impl FnOnce(&str, &[u8]) -> Option<Vec<u8>>,
) -> Result<Response, Error> {
    let input = Zeroizing::new(decode(input)?);
    let form = Form::asked(fields, Form::Hex, str::to_owned)?;
    let given = fields.string("algorithm")?.filter(|name| !name.is_empty());
    let algorithm = in_path.or(given.as_deref()).unwrap_or("sha2-256");
    let sum = digest(algorithm, &input)
        .ok_or_else(|| Error::invalid(format!("unsupported algorithm {algorithm}")))?;
    Ok(Response::data(&Json::object([("sum", form.write(&sum).into())])))
}

/// A shell's `base64` breaks lines; where a text is wrong is said of the text without them.
fn decode(text: &str) -> Result<Vec<u8>, Error> {
    let decoded = BASE64
        .decode(text.as_bytes())
        .or_else(|error| BASE64_MIME_PERMISSIVE.decode(text.as_bytes()).map_err(|_| error));
    decoded.map_err(|error| {
        let at = error.position;
        Error::invalid(format!(
            "unable to decode input as base64: illegal base64 data at input byte {at}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_api::json::{Map, parse_object};

    fn body(text: &str) -> Map {
        parse_object(text.as_bytes()).unwrap()
    }

    fn logical(answer: Result<Response, Error>) -> Logical {
        match answer {
            Ok(Response::Logical(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn randomness_is_as_long_as_asked_and_a_source_that_is_not_there_warns() {
        let ask = |text: &str, first: Option<&str>, second: Option<&str>| {
            random(Fields::new(&body(text)), first, second, |bytes| {
                bytes.fill(0xab);
                Ok(())
            })
        };
        let hex = r#"{"format":"hex","bytes":"5"}"#;
        for (first, second, count) in [
            (None, None, 5),
            (Some("platform"), None, 5),
            (Some("16"), None, 16),
            (Some("all"), Some("16"), 16),
            (Some("seal"), Some("1"), 1),
        ] {
            let reply = logical(ask(hex, first, second));
            let expected = format!(r#"{{"random_bytes":"{}"}}"#, "ab".repeat(count));
            assert_eq!(reply.data, expected.as_bytes(), "{first:?} {second:?}");
            assert_eq!(reply.warnings.is_empty(), first != Some("seal"));
        }
        let base64 = logical(ask("{}", Some("3"), None));
        assert_eq!(base64.data, br#"{"random_bytes":"q6ur"}"#);
        for (text, first, second, refusal) in [
            ("{}", Some("0"), None, "cannot be less than 1"),
            ("{}", Some("-1"), None, "cannot be less than 1"),
            ("{}", Some("131073"), None, "should be less than 131072"),
            ("{}", Some("x"), None, "byte count"),
            ("{}", Some("platform"), Some("x"), "byte count"),
            ("{}", Some("bogus"), Some("3"), "unsupported entropy source \"bogus\""),
            (r#"{"bytes":0}"#, None, None, "cannot be less than 1"),
            (r#"{"format":"bogus"}"#, None, None, "unsupported encoding format \"bogus\""),
        ] {
            let refused = ask(text, first, second).unwrap_err().to_string();
            assert!(refused.contains(refusal), "{text} {first:?} {second:?}: {refused}");
        }
    }

    #[test]
    fn an_input_is_decoded_and_the_path_names_the_algorithm_before_the_body() {
        let ask = |text: &str, input: &str, in_path: Option<&str>| {
            hash(Fields::new(&body(text)), input, in_path, |name, bytes| {
                (name != "md5").then(|| [name.as_bytes(), b":", bytes].concat())
            })
        };
        let base64 = r#"{"format":"base64","algorithm":"b"}"#;
        for (text, in_path, sum) in [
            (base64, Some("a"), BASE64.encode(b"a:abc")),
            (base64, None, BASE64.encode(b"b:abc")),
            ("{}", None, HEXLOWER.encode(b"sha2-256:abc")),
        ] {
            for input in ["YWJj", "YW\nJj\r\n"] {
                let reply = logical(ask(text, input, in_path));
                assert_eq!(reply.data, format!(r#"{{"sum":"{sum}"}}"#).as_bytes(), "{input:?}");
            }
        }
        for (text, input, in_path, refusal) in [
            ("{}", "Y!", None, "illegal base64 data at input byte"),
            ("{}", "", Some("md5"), "unsupported algorithm md5"),
            (r#"{"format":"bogus"}"#, "", None, "unsupported encoding format bogus;"),
        ] {
            let refused = ask(text, input, in_path).unwrap_err().to_string();
            assert!(refused.contains(refusal), "{text}: {refused}");
        }
    }
}
