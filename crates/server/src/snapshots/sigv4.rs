//! Signatures of requests to S3: AWS Signature Version 4, in the header.

use aws_lc_rs::{digest, hmac};
use data_encoding::HEXLOWER;
use kallisto_core::S3Target;
use secrecy::ExposeSecret;

/// A request to sign. The query is sorted and encoded.
pub(super) struct ToSign<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    /// The time, as `20261124T164000Z`.
    pub(super) time: &'a str,
    pub(super) payload: &'a [u8],
}

/// The digest of a payload, in hexadecimal.
pub(super) fn digest_of(payload: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA256, payload).as_ref())
}

/// The header `Authorization`.
pub(super) fn authorization(target: &S3Target, request: &ToSign<'_>) -> String {
    let payload = digest_of(request.payload);
    let token = target.session_token.expose_secret();
    let (token_line, token_name) = match token.is_empty() {
        true => (String::new(), ""),
        false => (format!("x-amz-security-token:{token}\n"), ";x-amz-security-token"),
    };
    let signed = format!("host;x-amz-content-sha256;x-amz-date{token_name}");
    let ToSign { method, host, path, query, time, .. } = request;
    let canonical = format!(
        "{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{payload}\n\
         x-amz-date:{time}\n{token_line}\n{signed}\n{payload}"
    );
    let day = time.get(..8).unwrap_or_default();
    let scope = format!("{day}/{}/s3/aws4_request", target.region);
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", digest_of(canonical.as_bytes()));
    let first =
        zeroize::Zeroizing::new(format!("AWS4{}", target.secret_access_key.expose_secret()));
    let mut key = tag(first.as_bytes(), day.as_bytes());
    for part in [target.region.as_str(), "s3", "aws4_request"] {
        key = tag(key.as_ref(), part.as_bytes());
    }
    let signature = HEXLOWER.encode(tag(key.as_ref(), text.as_bytes()).as_ref());
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}",
        target.access_key_id
    )
}

fn tag(key: &[u8], message: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the S3 documentation, "GET Bucket (List Objects)".
    #[test]
    fn a_signature_is_that_of_the_documentation() {
        let target = S3Target {
            endpoint: String::new(),
            region: "us-east-1".into(),
            bucket: "examplebucket".into(),
            prefix: String::new(),
            access_key_id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session_token: "".into(),
            path_style: false,
        };
        let header = authorization(
            &target,
            &ToSign {
                method: "GET",
                host: "examplebucket.s3.amazonaws.com",
                path: "/",
                query: "max-keys=2&prefix=J",
                time: "20130524T000000Z",
                payload: b"",
            },
        );
        let expected = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        assert!(header.ends_with(&format!("Signature={expected}")), "{header}");
    }
}
