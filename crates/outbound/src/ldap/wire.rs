//! The bytes between a directory and the crate that reads them.
//!
//! Invariants:
//! - What is let through is a whole message of LDAP (RFC 4511), in definite lengths, that has the parts which its reader takes for granted.
//! - A message has at most `MESSAGE_BYTES_MAX` bytes and is nested at most `DEPTH_MAX` deep; what comes after one request has at most
//!   `ANSWER_BYTES_MAX`.

use kallisto_engine::far_end::FAR_END_ANSWER_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

/// Largest message.
const MESSAGE_BYTES_MAX: usize = FAR_END_ANSWER_BYTES_MAX;
/// Most bytes that come after one request.
const ANSWER_BYTES_MAX: usize = 4 * FAR_END_ANSWER_BYTES_MAX;
/// How deep elements stand in elements: a value of an attribute of an entry in a message is the sixth.
const DEPTH_MAX: usize = 12;
/// Most bytes that are sent at a time.
const CHUNK_BYTES: usize = 16 << 10;

/// A request for StartTLS (RFC 4511, section 4.14), as message 1.
const START_TLS: &[u8] = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const ENUMERATED: u8 = 0x0a;
const OCTETS: u8 = 0x04;

/// What a directory is spoken with over.
pub(super) trait LdapWire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> LdapWire for T {}

/// Asks for TLS on a connection that is open.
pub(super) async fn start_tls(stream: &mut (impl LdapWire + ?Sized)) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("StartTLS: {error}");
    stream.write_all(START_TLS).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    // One message, and not a byte more: what comes before TLS is nobody's word.
    let mut message = Vec::new();
    read_message(stream, &mut message).await.map_err(failed)?;
    match result_code(&message) {
        Some(0) => Ok(()),
        Some(code) => Err(format!("StartTLS is refused: LDAP result {code}")),
        None => Err("StartTLS is not answered in LDAP".to_owned()),
    }
}

/// Carries bytes both ways until one side ends or says what is no LDAP.
pub(super) async fn carry(inside: UnixStream, outside: Box<dyn LdapWire>) {
    let (mut from_inside, mut to_inside) = inside.into_split();
    let (mut from_outside, mut to_outside) = tokio::io::split(outside);
    let budget = std::sync::atomic::AtomicUsize::new(0);
    // The two run in one task; what the budget orders is this task alone.
    let order = std::sync::atomic::Ordering::Relaxed;
    let requests = async {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = from_inside.read(&mut chunk).await?;
            if count == 0 {
                return Ok::<(), std::io::Error>(());
            }
            budget.store(ANSWER_BYTES_MAX, order);
            to_outside.write_all(&chunk[..count]).await?;
            to_outside.flush().await?;
        }
    };
    let answers = async {
        let mut message = Vec::new();
        loop {
            read_message(&mut from_outside, &mut message).await?;
            let left = budget.load(order).checked_sub(message.len());
            if !is_ldap(&message) {
                return Err::<(), std::io::Error>(garbled());
            }
            budget.store(left.ok_or_else(garbled)?, order);
            to_inside.write_all(&message).await?;
        }
    };
    tokio::select! {
        _ = requests => {}
        _ = answers => {}
    }
}

fn garbled() -> std::io::Error {
    std::io::Error::other("it does not speak LDAP")
}

/// Reads one message, whole.
async fn read_message(
    stream: &mut (impl AsyncRead + Unpin + ?Sized),
    message: &mut Vec<u8>,
) -> std::io::Result<()> {
    message.clear();
    message.resize(2, 0);
    stream.read_exact(&mut message[..]).await?;
    if message[0] != SEQUENCE {
        return Err(garbled());
    }
    let length = match message[1] {
        short @ 0..=0x7f => usize::from(short),
        long @ 0x81..=0x84 => {
            message.resize(2 + usize::from(long & 0x7f), 0);
            stream.read_exact(&mut message[2..]).await?;
            message[2..].iter().fold(0, |length, byte| (length << 8) | usize::from(*byte))
        }
        _ => return Err(garbled()),
    };
    if length > MESSAGE_BYTES_MAX {
        return Err(garbled());
    }
    let start = message.len();
    message.resize(start + length, 0);
    stream.read_exact(&mut message[start..]).await.map(drop)
}

/// An element: its tag and its content.
#[derive(Clone, Copy)]
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
}

/// The first element of some bytes, and what comes after it.
fn element(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    // The reader knows tags of one byte.
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(short), rest),
        long @ 0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (length.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((Element { tag, content }, rest))
}

fn elements(mut bytes: &[u8]) -> Option<Vec<Element<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (one, rest) = element(bytes)?;
        found.push(one);
        bytes = rest;
    }
    Some(found)
}

/// Whether every constructed element holds elements, and none too deep.
fn is_nested_well(bytes: &[u8], depth: usize) -> bool {
    let Some(found) = elements(bytes) else { return false };
    found
        .iter()
        .all(|one| one.tag & 0x20 == 0 || (depth > 0 && is_nested_well(one.content, depth - 1)))
}

/// Whether a message is one that its reader can take apart.
fn is_ldap(message: &[u8]) -> bool {
    let read = || {
        let (outer, rest) = element(message)?;
        let parts = elements(outer.content)?;
        let [id, operation, controls @ ..] = parts.as_slice() else { return None };
        let is_id = id.tag == INTEGER && (1..=4).contains(&id.content.len());
        let are_controls = match controls {
            [] => true,
            [one] => one.tag == 0xa0 && elements(one.content)?.iter().all(is_control),
            _ => false,
        };
        Some(rest.is_empty() && is_id && are_controls && is_answer(*operation)?)
    };
    is_nested_well(message, DEPTH_MAX) && read() == Some(true)
}

/// A control: its name, then whether it is critical, then its value.
fn is_control(one: &Element<'_>) -> bool {
    let parts = elements(one.content);
    let tags: Option<Vec<u8>> = parts.as_ref().map(|parts| parts.iter().map(|p| p.tag).collect());
    let is_shaped = matches!(
        tags.as_deref(),
        Some([OCTETS] | [OCTETS, 0x01 | OCTETS] | [OCTETS, 0x01, OCTETS])
    );
    let is_named = parts.is_some_and(|parts| parts.first().is_some_and(is_text));
    let is_flagged = elements(one.content)
        .is_some_and(|parts| parts.iter().all(|part| part.tag != 0x01 || part.content.len() == 1));
    one.tag == SEQUENCE && is_shaped && is_named && is_flagged
}

fn is_text(one: &Element<'_>) -> bool {
    one.tag & 0x20 == 0 && std::str::from_utf8(one.content).is_ok()
}

/// Whether an operation is an answer with the parts that it has to have.
fn is_answer(operation: Element<'_>) -> Option<bool> {
    let parts = elements(operation.content)?;
    Some(match operation.tag {
        // Results: of a bind, a search, a change, an addition, a deletion, a renaming, a comparison, an extended operation.
        0x61 | 0x65 | 0x67 | 0x69 | 0x6b | 0x6d | 0x6f | 0x78 => is_result(&parts),
        // An entry.
        0x64 => match parts.as_slice() {
            [name, attributes] => is_text(name) && attributes.tag == SEQUENCE,
            _ => false,
        },
        // A reference, which is passed over.
        0x73 => parts.iter().all(is_text),
        _ => false,
    })
}

fn is_result(parts: &[Element<'_>]) -> bool {
    let [code, matched, text, more @ ..] = parts else { return false };
    let is_code = code.tag == ENUMERATED && (1..=4).contains(&code.content.len());
    let is_more = |one: &Element<'_>| match one.tag {
        // Referrals.
        0xa3 => elements(one.content).is_some_and(|all| all.iter().all(is_text)),
        // Credentials of SASL, the value of an extended answer.
        0x87 | 0x8b => true,
        // Its name.
        0x8a => is_text(one),
        _ => false,
    };
    let is_octets = |one: &Element<'_>| one.tag == OCTETS && is_text(one);
    is_code && is_octets(matched) && is_octets(text) && more.iter().all(is_more)
}

/// The code of a message that is a result.
fn result_code(message: &[u8]) -> Option<u64> {
    if !is_ldap(message) {
        return None;
    }
    let parts = elements(element(message)?.0.content)?;
    let result = elements(parts.get(1)?.content)?;
    let code = result.first().filter(|code| code.tag == ENUMERATED)?;
    Some(code.content.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An element of these bytes.
    fn made(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        match u8::try_from(content.len()) {
            Ok(short @ 0..=0x7f) => out.push(short),
            _ => {
                out.push(0x84);
                out.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
            }
        }
        out.extend(content);
        out
    }

    fn message(operation: &[u8]) -> Vec<u8> {
        made(SEQUENCE, &[&made(INTEGER, &[1])[..], operation].concat())
    }

    fn result(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        message(&made(tag, &parts.concat()))
    }

    #[test]
    fn answers_are_let_through() {
        let (code, empty) = (made(ENUMERATED, &[49]), made(OCTETS, b""));
        let bound = result(0x61, &[&code, &empty, &made(OCTETS, "falsch: ü".as_bytes())]);
        assert!(is_ldap(&bound));
        assert_eq!(result_code(&bound), Some(49));
        let value = made(0x31, &made(OCTETS, b"\xff\x00"));
        let attribute = made(SEQUENCE, &[made(OCTETS, b"cn"), value].concat());
        let entry = made(0x64, &[made(OCTETS, b"cn=a"), made(SEQUENCE, &attribute)].concat());
        assert!(is_ldap(&message(&entry)));
        let control = made(SEQUENCE, &[made(OCTETS, b"1.2"), made(OCTETS, b"\x30\x00")].concat());
        let done = made(0x65, &[made(ENUMERATED, &[0]), empty.clone(), empty].concat());
        let all = [made(INTEGER, &[1]), done, made(0xa0, &control)].concat();
        assert!(is_ldap(&made(SEQUENCE, &all)));
    }

    #[test]
    fn what_its_reader_cannot_take_apart_is_not() {
        let (code, empty) = (made(ENUMERATED, &[0]), made(OCTETS, b""));
        let mut deep = made(OCTETS, b"");
        for _ in 0..DEPTH_MAX + 2 {
            deep = made(SEQUENCE, &deep);
        }
        let whole = result(0x61, &[&code, &empty, &empty]);
        for bad in [
            Vec::new(),
            made(SEQUENCE, b""),
            made(SEQUENCE, &made(INTEGER, &[1])),
            result(0x61, &[&code, &empty]),
            result(0x61, &[&empty, &empty, &empty]),
            result(0x61, &[&code, &made(OCTETS, b"\xff"), &empty]),
            result(0x61, &[&made(ENUMERATED, b""), &empty, &empty]),
            result(0x42, &[&code, &empty, &empty]),
            result(0x61, &[&code, &empty, &empty, &made(0xa9, b"\x04\x09")]),
            message(&made(0x64, &made(OCTETS, b"\xff\xfe"))),
            message(&made(0x64, &[made(OCTETS, b"a"), deep.clone()].concat())),
            message(&deep),
            [whole.clone(), vec![0]].concat(),
            whole[..whole.len() - 1].to_vec(),
        ] {
            assert!(!is_ldap(&bad), "{bad:x?}");
        }
    }

    #[test]
    fn nothing_that_is_changed_by_a_byte_makes_it_panic() {
        let (code, empty) = (made(ENUMERATED, &[0]), made(OCTETS, b"text"));
        let whole = result(0x78, &[&code, &empty, &empty, &made(0x8a, b"1.2")]);
        for at in 0..whole.len() {
            for byte in 0..=255 {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _ = (is_ldap(&changed), result_code(&changed));
            }
        }
    }
}
