//! What requests of HTTP/1.1 are made of, and what makes two servers read them differently.

/// The words of the target.
pub(crate) const WORDS: &[&[u8]] = &[
    b"GET ",
    b"POST ",
    b"/v1/secret/data/a",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    b"Host: h\r\n",
    b"X-Vault-Token: t\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: +3\r\n",
    b"content-length:3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Connection: keep-alive\r\n",
    b"Connection: close\r\n",
    b"\r\n",
    b"\n",
    b" ",
    b"\t",
    b"abc",
    b"?list=true",
    b"#",
    b"%2f",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];
