//! Requests as bytes, and where a reply ends: HTTP/1.1 and RESP, no more of either than a load needs.
//!
//! What the bytes of a request have in common is made once. Of a reply only its end and whether it is the
//! one that was hoped for are looked at.

use kallisto_core::json::write_u64;
use memchr::{memchr, memmem};
use secrecy::{ExposeSecret, SecretString};

use super::plan::LoadKind;
use super::target::LoadProtocol;

/// Longest head of a reply, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Longest body of a reply that is taken, in bytes.
const BODY_BYTES_MAX: usize = 64 << 20;

/// What a whole reply said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoadReply {
    /// Its length.
    pub(super) bytes: usize,
    /// Where its body starts.
    pub(super) body: usize,
    pub(super) verdict: ReplyVerdict,
    /// Whether the server closes the connection after it: what is sent behind it would be lost, an error of ours.
    pub(super) closes: bool,
}

/// Whether a reply is the one hoped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyVerdict {
    Good,
    /// An HTTP status that is no 2xx.
    Status(u16),
    /// An error of RESP.
    Error,
    /// A null: no such key.
    Null,
}

/// The bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// How to ask.
pub(super) struct RequestTemplates {
    protocol: LoadProtocol,
    before_read: Vec<u8>,
    after_read: Vec<u8>,
    before_write: Vec<u8>,
    after_write: Vec<u8>,
    greeting: Vec<u8>,
}

/// What the requests of a run are made of.
pub(super) struct TemplateParts<'a> {
    pub(super) protocol: LoadProtocol,
    pub(super) authority: &'a str,
    /// Path (HTTP) or key (RESP), with `{}` where the number of the key goes.
    pub(super) pattern: &'a str,
    pub(super) token: Option<&'a SecretString>,
    pub(super) value_bytes: usize,
}

impl RequestTemplates {
    /// `parts.pattern` holds `{}`, as the arguments have made sure.
    pub(super) fn new(parts: &TemplateParts<'_>) -> Self {
        let (before, after) = parts.pattern.split_once("{}").unwrap_or((parts.pattern, ""));
        let value = "v".repeat(parts.value_bytes);
        let token = parts.token.map(|token| token.expose_secret());
        match parts.protocol {
            LoadProtocol::Http => {
                let token =
                    token.map_or(String::new(), |token| format!("X-Vault-Token: {token}\r\n"));
                let host = format!(" HTTP/1.1\r\nHost: {}\r\n{token}", parts.authority);
                let body = format!("{{\"data\":{{\"value\":\"{value}\"}}}}");
                let typed = format!(
                    "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                Self {
                    protocol: LoadProtocol::Http,
                    before_read: format!("GET {before}").into(),
                    after_read: format!("{after}{host}\r\n").into(),
                    before_write: format!("POST {before}").into(),
                    after_write: format!("{after}{host}{typed}").into(),
                    greeting: Vec::new(),
                }
            }
            LoadProtocol::Resp => {
                let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
                let greeting = token.map(|token| format!("*2\r\n{}{}", bulk("AUTH"), bulk(token)));
                Self {
                    protocol: LoadProtocol::Resp,
                    before_read: before.into(),
                    after_read: after.into(),
                    before_write: before.into(),
                    after_write: [after, "\r\n", &bulk(&value)].concat().into(),
                    greeting: greeting.unwrap_or_default().into(),
                }
            }
        }
    }

    /// What a connection starts with, which has one reply; nothing for none.
    pub(super) fn greeting(&self) -> &[u8] {
        &self.greeting
    }

    /// Appends a request for the key with this number.
    pub(super) fn ask(&self, kind: LoadKind, key: u64, out: &mut Vec<u8>) {
        let (before, after) = match kind {
            LoadKind::Read => (&self.before_read, &self.after_read),
            LoadKind::Write => (&self.before_write, &self.after_write),
        };
        if self.protocol == LoadProtocol::Resp {
            self.command(kind, key, out);
        }
        out.extend_from_slice(before);
        write_u64(key, out);
        out.extend_from_slice(after);
        if self.protocol == LoadProtocol::Resp && kind == LoadKind::Read {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// The command up to its key's first byte.
    fn command(&self, kind: LoadKind, key: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(match kind {
            LoadKind::Read => b"*2\r\n$3\r\nGET\r\n$".as_slice(),
            LoadKind::Write => b"*3\r\n$3\r\nSET\r\n$".as_slice(),
        });
        let digits = key.checked_ilog10().map_or(1, |log| u64::from(log) + 1);
        write_u64((self.before_read.len() + self.after_read.len()) as u64 + digits, out);
        out.extend_from_slice(b"\r\n");
    }

    /// The reply that `input` starts with; `None` while it is not whole.
    pub(super) fn reply(&self, input: &[u8]) -> Result<Option<LoadReply>, Broken> {
        match self.protocol {
            LoadProtocol::Http => http_reply(input),
            LoadProtocol::Resp => resp_reply(input),
        }
    }
}

/// The HTTP/1.1 reply that `input` starts with.
pub(super) fn http_reply(input: &[u8]) -> Result<Option<LoadReply>, Broken> {
    let Some(end) = memmem::find(input, b"\r\n\r\n") else {
        return if input.len() > HEAD_BYTES_MAX { Err(Broken) } else { Ok(None) };
    };
    let head = &input[..end + 2];
    let body = end + 4;
    let digits = head.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3)).ok_or(Broken)?;
    let status = number(digits).ok_or(Broken)? as u16;
    let length = match framing(head)? {
        Framing::Length(length) => Some(length),
        Framing::Chunks => chunks(&input[body..])?,
    };
    let Some(length) = length else { return Ok(None) };
    if length > BODY_BYTES_MAX {
        return Err(Broken);
    }
    if input.len() < body + length {
        return Ok(None);
    }
    let verdict = if status / 100 == 2 { ReplyVerdict::Good } else { ReplyVerdict::Status(status) };
    // Servers close after a request that they do not understand. Good replies, which are nearly all, are not looked into.
    let closes = verdict != ReplyVerdict::Good && says_close(head);
    Ok(Some(LoadReply { bytes: body + length, body, verdict, closes }))
}

/// How the end of a body is told.
enum Framing {
    Length(usize),
    Chunks,
}

fn framing(head: &[u8]) -> Result<Framing, Broken> {
    const LENGTH: &[u8] = b"content-length:";
    const CODING: &[u8] = b"transfer-encoding:";
    let mut rest = head;
    while let Some(end) = memchr(b'\n', rest) {
        let line = &rest[..end];
        rest = &rest[end + 1..];
        // The names differ in length from most others: few lines are compared.
        if has_name(line, LENGTH) {
            let length = number(line[LENGTH.len()..].trim_ascii()).ok_or(Broken)?;
            return Ok(Framing::Length(length));
        }
        if has_name(line, CODING) {
            return Ok(Framing::Chunks);
        }
    }
    Ok(Framing::Length(0))
}

fn says_close(head: &[u8]) -> bool {
    const CONNECTION: &[u8] = b"connection:";
    let says = |line: &[u8]| {
        has_name(line, CONNECTION)
            && line[CONNECTION.len()..].trim_ascii().eq_ignore_ascii_case(b"close")
    };
    head.split(|&byte| byte == b'\n').any(says)
}

fn has_name(line: &[u8], name: &[u8]) -> bool {
    line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name)
}

/// The length of a chunked body with its frames; `None` while it is not whole.
fn chunks(body: &[u8]) -> Result<Option<usize>, Broken> {
    let mut at = 0;
    loop {
        let Some(end) = memchr(b'\n', &body[at..]) else { return Ok(None) };
        let digits = body[at..at + end].trim_ascii();
        let digits = std::str::from_utf8(digits).map_err(|_| Broken)?;
        let size = usize::from_str_radix(digits, 16).map_err(|_| Broken)?;
        if size > BODY_BYTES_MAX || at > BODY_BYTES_MAX {
            return Err(Broken);
        }
        // The chunk, or the trailer, which is empty for whom we ask; and its line's end.
        at += end + 1 + size + 2;
        if body.len() < at {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

fn resp_reply(input: &[u8]) -> Result<Option<LoadReply>, Broken> {
    let Some(end) = memchr(b'\n', input) else {
        return if input.len() > HEAD_BYTES_MAX { Err(Broken) } else { Ok(None) };
    };
    let line = input[..end].strip_suffix(b"\r").ok_or(Broken)?;
    let (mark, text) = line.split_first().ok_or(Broken)?;
    let short = |verdict| Ok(Some(LoadReply { bytes: end + 1, body: 1, verdict, closes: false }));
    match mark {
        b'+' | b':' => short(ReplyVerdict::Good),
        b'-' => short(ReplyVerdict::Error),
        b'_' => short(ReplyVerdict::Null),
        b'$' if text == b"-1" => short(ReplyVerdict::Null),
        b'$' => {
            let length = number(text).filter(|&length| length <= BODY_BYTES_MAX).ok_or(Broken)?;
            let bytes = end + 1 + length + 2;
            let verdict = ReplyVerdict::Good;
            let reply = LoadReply { bytes, body: end + 1, verdict, closes: false };
            Ok((input.len() >= bytes).then_some(reply))
        }
        _ => Err(Broken),
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    // More digits than any length that is taken has.
    const DIGITS_MAX: usize = 12;
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    digits.iter().try_fold(0, |sum: usize, &digit| {
        digit.is_ascii_digit().then(|| sum * 10 + usize::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates(protocol: LoadProtocol, pattern: &str) -> RequestTemplates {
        let token = SecretString::from("t");
        let parts = TemplateParts {
            protocol,
            authority: "h:1",
            pattern,
            token: Some(&token),
            value_bytes: 3,
        };
        RequestTemplates::new(&parts)
    }

    fn asked(templates: &RequestTemplates, kind: LoadKind, key: u64) -> String {
        let mut out = Vec::new();
        templates.ask(kind, key, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_are_what_servers_read() {
        let http = templates(LoadProtocol::Http, "/v1/secret/data/k{}");
        assert_eq!(
            asked(&http, LoadKind::Read, 70),
            "GET /v1/secret/data/k70 HTTP/1.1\r\nHost: h:1\r\nX-Vault-Token: t\r\n\r\n"
        );
        let write = asked(&http, LoadKind::Write, 0);
        assert!(write.starts_with("POST /v1/secret/data/k0 HTTP/1.1\r\n"), "{write}");
        let (head, body) = write.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
        let resp = templates(LoadProtocol::Resp, "b/{}/x");
        assert_eq!(asked(&resp, LoadKind::Read, 10), "*2\r\n$3\r\nGET\r\n$6\r\nb/10/x\r\n");
        assert_eq!(
            asked(&resp, LoadKind::Write, 0),
            "*3\r\n$3\r\nSET\r\n$5\r\nb/0/x\r\n$3\r\nvvv\r\n"
        );
        assert_eq!(resp.greeting(), b"*2\r\n$4\r\nAUTH\r\n$1\r\nt\r\n");
    }

    #[test]
    fn a_reply_ends_where_it_says_and_not_before() {
        let replies: [(LoadProtocol, &[u8], ReplyVerdict); 8] = [
            (
                LoadProtocol::Http,
                b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab",
                ReplyVerdict::Good,
            ),
            (LoadProtocol::Http, b"HTTP/1.1 204 No Content\r\n\r\n", ReplyVerdict::Good),
            (
                LoadProtocol::Http,
                b"HTTP/1.1 404 Not Found\r\nContent-Length:0\r\n\r\n",
                ReplyVerdict::Status(404),
            ),
            (
                LoadProtocol::Http,
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
                ReplyVerdict::Good,
            ),
            (LoadProtocol::Resp, b"$2\r\nab\r\n", ReplyVerdict::Good),
            (LoadProtocol::Resp, b"$-1\r\n", ReplyVerdict::Null),
            (LoadProtocol::Resp, b"-ERR no\r\n", ReplyVerdict::Error),
            (LoadProtocol::Resp, b"+OK\r\n", ReplyVerdict::Good),
        ];
        for (protocol, bytes, verdict) in replies {
            let templates = templates(protocol, "{}");
            for cut in 0..bytes.len() {
                assert_eq!(templates.reply(&bytes[..cut]), Ok(None), "{cut}");
            }
            let twice = [bytes, bytes].concat();
            let reply = templates.reply(&twice).unwrap().unwrap();
            assert_eq!((reply.bytes, reply.verdict), (bytes.len(), verdict));
        }
        let closing = b"HTTP/1.1 400 Bad Request\r\nConnection: Close\r\ncontent-length: 0\r\n\r\n";
        assert!(http_reply(closing).unwrap().unwrap().closes);
        assert!(!http_reply(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap().unwrap().closes);
        assert_eq!(http_reply(b"HTTP/1.0 200 OK\r\n\r\n"), Err(Broken));
        assert_eq!(http_reply(b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab"), Err(Broken));
    }
}
