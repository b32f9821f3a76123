//! The bytes between a directory and the crate that reads them.
//!
//! Invariants:
//! - What is let through is a whole message of LDAP (RFC 4511), in definite lengths, that has the parts which its reader takes for granted.
//! - A message has at most `MESSAGE_BYTES_MAX` bytes and is nested at most `DEPTH_MAX` deep; what comes after one request has at most
//!   `ANSWER_BYTES_MAX`.
//! - A message answers a request that is under way, with one of the answers that such a request has.
//! - The one control whose value the reader takes apart (paged results, RFC 2696) has the value that RFC 2696 says, and nothing else.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kallisto_engine::far_end::FAR_END_ANSWER_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

/// Largest message.
const MESSAGE_BYTES_MAX: usize = FAR_END_ANSWER_BYTES_MAX;
/// Most bytes that come after one request.
const ANSWER_BYTES_MAX: usize = 4 * FAR_END_ANSWER_BYTES_MAX;
/// How deep elements stand in elements: a value of an attribute of an entry in a message is the sixth.
const DEPTH_MAX: usize = 12;
/// Most requests that are under way at a time; a session has one, and a page of a search begins when the one before has ended.
const REQUESTS_MAX: usize = 8;
/// The control of paged results (RFC 2696).
const PAGED_RESULTS: &[u8] = b"1.2.840.113556.1.4.319";

/// A request for StartTLS (RFC 4511, section 4.14), as message 1.
const START_TLS: &[u8] = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";

const SEQUENCE: u8 = 0x30;
const BOOLEAN: u8 = 0x01;
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
    match start_tls_code(&message) {
        Some(0) => Ok(()),
        Some(code) => Err(format!("StartTLS is refused: LDAP result {code}")),
        None => Err("StartTLS is not answered in LDAP".to_owned()),
    }
}

/// Carries messages both ways until one side ends or says what is no LDAP.
pub(super) async fn carry(inside: UnixStream, outside: Box<dyn LdapWire>) {
    let (mut from_inside, mut to_inside) = inside.into_split();
    let (mut from_outside, mut to_outside) = tokio::io::split(outside);
    let under_way = Mutex::new(RequestsUnderWay::default());
    let requests = async {
        let mut message = Vec::new();
        loop {
            read_message(&mut from_inside, &mut message).await?;
            lock(&under_way).begin(&message).ok_or_else(garbled)?;
            to_outside.write_all(&message).await?;
            to_outside.flush().await?;
        }
    };
    let answers = async {
        let mut message = Vec::new();
        loop {
            read_message(&mut from_outside, &mut message).await?;
            lock(&under_way).answer(&message).ok_or_else(garbled)?;
            to_inside.write_all(&message).await?;
        }
    };
    // Whatever ends one of the two ends both.
    let _: std::io::Result<()> = tokio::select! {
        ended = requests => ended,
        ended = answers => ended,
    };
}

fn lock(held: &Mutex<RequestsUnderWay>) -> MutexGuard<'_, RequestsUnderWay> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The requests that wait for answers. The reader takes it for granted that an answer fits its request, and panics when it does not.
#[derive(Debug, Default)]
struct RequestsUnderWay {
    /// By the id of the request, what it asks for: the tag of its operation.
    tags: BTreeMap<u32, u8>,
    /// How many bytes may still come.
    bytes_left: usize,
}

impl RequestsUnderWay {
    /// Takes note of a request; `None` for what is none, or one too many.
    fn begin(&mut self, message: &[u8]) -> Option<()> {
        let (id, operation) = parts_of(message)?;
        self.bytes_left = ANSWER_BYTES_MAX;
        // The end of a session (RFC 4511, section 4.3) and a request that is given up (4.11) have no answer.
        if matches!(operation.tag, 0x42 | 0x50) {
            return Some(());
        }
        self.tags.insert(id, operation.tag);
        (self.tags.len() <= REQUESTS_MAX).then_some(())
    }

    /// Takes note of an answer; `None` for what is none, answers no request, or is one byte too much.
    fn answer(&mut self, message: &[u8]) -> Option<()> {
        if !is_ldap(message) {
            return None;
        }
        let (id, operation) = parts_of(message)?;
        let request = *self.tags.get(&id)?;
        let is_last = match (request, operation.tag) {
            // Entries and references of a search, then its end.
            (0x63, 0x64 | 0x73) => false,
            (0x60, 0x61)
            | (0x63, 0x65)
            | (0x66, 0x67)
            | (0x68, 0x69)
            | (0x4a, 0x6b)
            | (0x6c, 0x6d)
            | (0x77, 0x78) => true,
            _ => return None,
        };
        self.bytes_left = self.bytes_left.checked_sub(message.len())?;
        if is_last {
            self.tags.remove(&id);
        }
        Some(())
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
    let Some(parts) = elements(one.content) else { return false };
    let (name, flag, value) = match parts.as_slice() {
        [name] => (name, None, None),
        [name, flag] if flag.tag == BOOLEAN => (name, Some(flag), None),
        [name, value] => (name, None, Some(value)),
        [name, flag, value] => (name, Some(flag), Some(value)),
        _ => return false,
    };
    let is_flag = |flag: &Element<'_>| flag.tag == BOOLEAN && flag.content.len() == 1;
    let is_value = |value: &Element<'_>| value.tag == OCTETS;
    let is_shaped = one.tag == SEQUENCE
        && name.tag == OCTETS
        && is_text(name)
        && flag.is_none_or(is_flag)
        && value.is_none_or(is_value);
    // Values of other controls are never looked into.
    is_shaped && (name.content != PAGED_RESULTS || value.is_some_and(is_page))
}

/// The value of the control of paged results: how many entries there are, and a cookie.
fn is_page(value: &Element<'_>) -> bool {
    let read = || {
        let (outer, rest) = element(value.content)?;
        let parts =
            (outer.tag == SEQUENCE && rest.is_empty()).then(|| elements(outer.content))??;
        let [size, cookie] = parts.as_slice() else { return None };
        let is_size = size.tag == INTEGER && (1..=4).contains(&size.content.len());
        Some(is_size && cookie.tag == OCTETS)
    };
    read() == Some(true)
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

/// The id of a message, and its operation.
fn parts_of(message: &[u8]) -> Option<(u32, Element<'_>)> {
    let parts = elements(element(message)?.0.content)?;
    let [id, operation, ..] = parts.as_slice() else { return None };
    let is_id = id.tag == INTEGER && (1..=4).contains(&id.content.len());
    let number = id.content.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte));
    is_id.then_some((number, *operation))
}

/// The result of the one request before TLS; `None` for a message that is something else.
fn start_tls_code(message: &[u8]) -> Option<u64> {
    let (1, operation) = parts_of(message).filter(|_| is_ldap(message))? else { return None };
    let code = *elements(operation.content)?.first().filter(|_| operation.tag == 0x78)?;
    Some(code.content.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}

/// Reads bytes as a message of a directory, whatever was asked before: a target of the fuzzers. What is let through is taken apart by its
/// reader without a panic.
#[cfg(any(test, feature = "fuzz"))]
pub fn read_hostile(message: &[u8]) {
    let _ = start_tls_code(message);
    let Some((id, _)) = parts_of(message) else { return };
    for tag in [0x60, 0x63, 0x66, 0x68, 0x4a, 0x6c, 0x77] {
        let mut under_way = RequestsUnderWay { bytes_left: ANSWER_BYTES_MAX, ..Default::default() };
        under_way.tags.insert(id, tag);
        if under_way.answer(message).is_some() {
            take_apart(message);
        }
    }
}

/// Takes pages of a message apart as its reader does.
#[cfg(any(test, feature = "fuzz"))]
fn take_apart(message: &[u8]) {
    let controls = element(message).and_then(|(outer, _)| elements(outer.content));
    let controls = controls.and_then(|parts| elements(parts.get(2)?.content)).unwrap_or_default();
    for control in &controls {
        let Some(parts) = elements(control.content) else { continue };
        if let [name, .., value] = parts.as_slice()
            && name.content == PAGED_RESULTS
        {
            let (ctype, val) = (String::new(), Some(value.content.to_vec()));
            let _: ldap3::controls::PagedResults =
                ldap3::controls::RawControl { ctype, crit: false, val }.parse();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Sequences in sequences, this deep.
    pub(crate) fn nested(depth: u32) -> Vec<u8> {
        let header = |inside: u32| [&[SEQUENCE, 0x84][..], &(6 * inside).to_be_bytes()].concat();
        (0..depth).rev().flat_map(header).collect()
    }

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
        assert_eq!(start_tls_code(&bound), None);
        let refused = result(0x78, &[&code, &empty, &empty]);
        assert_eq!(start_tls_code(&refused), Some(49));
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

    /// The end of a search with a control of this name and value.
    pub(crate) fn controlled(id: u8, name: &[u8], value: Option<&[u8]>) -> Vec<u8> {
        let parts = [Some(made(OCTETS, name)), value.map(|value| made(OCTETS, value))];
        let parts: Vec<Vec<u8>> = parts.into_iter().flatten().collect();
        let control = made(SEQUENCE, &parts.concat());
        let done = [made(ENUMERATED, &[0]), made(OCTETS, b""), made(OCTETS, b"")].concat();
        let all = [made(INTEGER, &[id]), made(0x65, &done), made(0xa0, &control)].concat();
        made(SEQUENCE, &all)
    }

    #[test]
    fn a_page_has_its_size_and_its_cookie_and_nothing_else() {
        let (size, cookie) = (made(INTEGER, &[0]), made(OCTETS, b"next"));
        let page = made(SEQUENCE, &[&size[..], &cookie].concat());
        assert!(is_ldap(&controlled(1, PAGED_RESULTS, Some(&page))));
        let nested = nested(100_000);
        let deep_cookie = made(SEQUENCE, &[&size[..], &nested].concat());
        for bad in [
            None,
            Some(Vec::new()),
            Some(page[..page.len() - 1].to_vec()),
            Some([&page[..], &[0]].concat()),
            Some(made(SEQUENCE, &size)),
            Some(made(SEQUENCE, &[&size[..], &size].concat())),
            Some(made(SEQUENCE, &[&size[..], &cookie, &cookie].concat())),
            Some(made(SEQUENCE, &[&made(INTEGER, &[0; 9])[..], &cookie].concat())),
            Some(nested.clone()),
            Some(deep_cookie),
        ] {
            let length = bad.as_ref().map(Vec::len);
            assert!(!is_ldap(&controlled(1, PAGED_RESULTS, bad.as_deref())), "{length:?}");
        }
        // Nobody looks into the value of another control.
        assert!(is_ldap(&controlled(1, b"1.2.3", Some(&nested))));
    }

    #[test]
    fn an_answer_fits_a_request_that_is_under_way() {
        let with_id = |id: u8, tag: u8, parts: &[&[u8]]| {
            made(SEQUENCE, &[made(INTEGER, &[id]), made(tag, &parts.concat())].concat())
        };
        let (code, empty, names) = (made(ENUMERATED, &[0]), made(OCTETS, b""), made(SEQUENCE, b""));
        let ended: &[&[u8]] = &[&code, &empty, &empty];
        let entry: &[&[u8]] = &[&empty, &names];
        let begun = |requests: &[(u8, u8)]| {
            let mut under_way = RequestsUnderWay::default();
            for (id, tag) in requests {
                under_way.begin(&with_id(*id, *tag, &[])).unwrap();
            }
            under_way
        };
        for (request, answer, parts) in [
            (0x60, 0x61, ended),
            (0x63, 0x65, ended),
            (0x66, 0x67, ended),
            (0x68, 0x69, ended),
            (0x4a, 0x6b, ended),
            (0x6c, 0x6d, ended),
            (0x77, 0x78, ended),
        ] {
            let mut under_way = begun(&[(1, request)]);
            assert_eq!(under_way.answer(&with_id(2, answer, parts)), None, "another id");
            assert_eq!(under_way.answer(&with_id(1, answer, parts)), Some(()), "{request:x}");
            assert_eq!(under_way.answer(&with_id(1, answer, parts)), None, "answered twice");
        }
        let mut search = begun(&[(7, 0x63)]);
        assert_eq!(search.answer(&with_id(7, 0x64, entry)), Some(()));
        assert_eq!(search.answer(&with_id(7, 0x73, &[])), Some(()));
        assert_eq!(search.answer(&with_id(7, 0x61, ended)), None, "the end of a bind");
        let mut bind = begun(&[(1, 0x60)]);
        assert_eq!(bind.answer(&with_id(1, 0x64, entry)), None, "an entry for a bind");
        assert_eq!(bind.answer(&with_id(0, 0x78, ended)), None, "a notice of disconnection");
        let mut none = begun(&[(1, 0x42), (2, 0x50)]);
        assert_eq!(none.answer(&with_id(1, 0x61, ended)), None);
        let mut many = RequestsUnderWay::default();
        let begins = (0..=REQUESTS_MAX).map(|id| u8::try_from(id).unwrap());
        let begins: Vec<_> =
            begins.map(|id| many.begin(&with_id(id, 0x63, &[])).is_some()).collect();
        assert_eq!(begins.iter().filter(|began| !**began).count(), 1, "one too many");
    }

    #[test]
    fn what_is_let_through_is_taken_apart() {
        let page = made(SEQUENCE, &[made(INTEGER, &[1, 2]), made(OCTETS, b"cookie")].concat());
        let whole = controlled(1, PAGED_RESULTS, Some(&page));
        for at in 0..whole.len() {
            for byte in 0..=255 {
                let mut changed = whole.clone();
                changed[at] = byte;
                read_hostile(&changed);
            }
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
                let _ = (is_ldap(&changed), start_tls_code(&changed));
            }
        }
    }
}
