//! Request targets: whatever the bytes, a path is refused or has one spelling within bounds, and
//! whatever was decoded is found again when it is encoded.

use kallisto_auth::SEGMENTS_MAX;
use kallisto_core::{PATH_BYTES_MAX, Path, QUERY_PAIRS_MAX, parse_query};

/// What targets are made of, and what walked past other gates.
pub(crate) const WORDS: &[&[u8]] = &[
    b"/",
    b"//",
    b".",
    b"..",
    b"/../",
    b"/./",
    b"%2e",
    b"%2E",
    b"%2f",
    b"%2F",
    b"%5c",
    b"\\",
    b"%00",
    b"%25",
    b"%252e%252e",
    b"%c3%a9",
    b"\xc3\xa9",
    b"%ff",
    b"%",
    b"%2",
    b"+",
    b"?",
    b"&",
    b"=",
    b";",
    b"#",
    b" ",
    b"sys/",
    b"secret/data/",
    b"list=true",
    b"version=1",
    b"\xef\xbc\x8e",
    b"\xe2\x80\xae",
];

/// The target: what stands before the first `?` is a path, what follows a query.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    check_path(path);
    check_query(query);
}

fn check_path(raw: &str) {
    let path = match Path::decode(raw) {
        Ok(path) => path,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let text = path.as_str();
    assert!(text.len() <= PATH_BYTES_MAX);
    assert!(text.len() <= raw.len());
    assert!(!text.chars().any(|c| c.is_control() || c == '\\'));
    assert_eq!(path.is_folder(), text.is_empty() || text.ends_with('/'));
    let body = text.strip_suffix('/').unwrap_or(text);
    if !body.is_empty() {
        assert!(body.split('/').count() <= SEGMENTS_MAX);
        assert!(body.split('/').all(|segment| !matches!(segment, "" | "." | "..")));
    }
    if !text.contains('%') {
        assert_eq!(Path::decode(text).as_ref(), Ok(&path), "decoding twice is decoding once");
    }
    assert_eq!(Path::decode(&encode(text)).as_ref(), Ok(&path), "every spelling is one path");
}

fn check_query(raw: &str) {
    let Some(pairs) = parse_query(raw) else { return };
    assert!(pairs.len() <= QUERY_PAIRS_MAX);
    let spelled: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    assert_eq!(parse_query(&spelled.join("&")), Some(pairs));
}

/// Every byte escaped, lower and upper case in turn.
fn encode(text: &str) -> String {
    let escape = |(at, byte): (usize, u8)| {
        if at.is_multiple_of(2) { format!("%{byte:02x}") } else { format!("%{byte:02X}") }
    };
    text.bytes().enumerate().map(escape).collect()
}
