//! Signed requests, keys and names of ACME, as anybody may send them without a token: read or refused, and a key or name has one spelling.

/// What requests and keys are made of.
pub(crate) const WORDS: &[&[u8]] = &[
    b"{\"protected\":\"",
    b"\",\"payload\":\"",
    b"\",\"signature\":\"",
    b"\"}",
    b"eyJhbGciOiJFUzI1NiIs",
    b"{\"alg\":\"ES256\",\"nonce\":\"\",\"url\":\"\",\"jwk\":",
    b"{\"alg\":\"HS256\",\"kid\":\"\",\"url\":\"\"}",
    b"\"jwk\":{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"",
    b"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}",
    b"{\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"",
    b"\",\"y\":\"",
    b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    b"-_",
    b"*.",
    b"xn--",
    b".example.test",
    b"\xc3\xbc",
    b"\x30\x82\x01\x00",
    b"\x06\x08\x2b\x06\x01\x05\x05\x07\x01\x1f",
    b"\x04\x22\x04\x20",
    b"null",
    b"\"crit\":[]",
];
