//! Names of entries (RFC 4514).

use crate::text;

/// Longest name that is taken apart, in bytes.
const DN_BYTES_MAX: usize = 8 << 10;

/// A value inside a name of an entry (RFC 4514, section 2.4): whatever it has, it is one value.
pub fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (at, c) in value.chars().enumerate() {
        match c {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' => out.extend(['\\', c]),
            '#' if at == 0 => out.extend(['\\', c]),
            ' ' if at == 0 || at == last => out.extend(['\\', c]),
            c if c.is_control() => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    out.push_str(&format!("\\{byte:02x}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// The parts of a name in their order, each an attribute and its value; those of one level stand one after another. `None` for what is no
/// name.
pub fn parts(dn: &str) -> Option<Vec<(String, String)>> {
    levels(dn).map(|levels| levels.into_iter().flatten().collect())
}

/// The levels of a name, each its attributes and their values.
fn levels(dn: &str) -> Option<Vec<Vec<(String, String)>>> {
    if dn.len() > DN_BYTES_MAX {
        return None;
    }
    let mut found: Vec<Vec<(String, String)>> = Vec::new();
    let mut is_next_level = true;
    let mut chars = dn.chars().peekable();
    while chars.peek().is_some() {
        let mut name = String::new();
        loop {
            match chars.next()? {
                '=' => break,
                c => name.push(c),
            }
        }
        let name = name.trim().to_owned();
        if !crate::filter::is_attribute(&name) {
            return None;
        }
        while chars.next_if_eq(&' ').is_some() {}
        let (mut value, mut kept) = (Vec::new(), 0);
        let ends_level = loop {
            let mut bytes = [0; 4];
            match chars.next() {
                Some('+') => break false,
                None | Some(',' | ';') => break true,
                Some('\\') => {
                    let escaped = chars.next()?;
                    match escaped.to_digit(16) {
                        Some(high) => {
                            let low = chars.next()?.to_digit(16)?;
                            value.push(u8::try_from(high * 16 + low).ok()?);
                        }
                        None => value.extend(escaped.encode_utf8(&mut bytes).bytes()),
                    }
                    kept = value.len();
                }
                Some(c) => {
                    value.extend(c.encode_utf8(&mut bytes).bytes());
                    // Spaces before the end of a value are none of it.
                    if c != ' ' {
                        kept = value.len();
                    }
                }
            }
        };
        value.truncate(kept);
        let part = (name, String::from_utf8(value).ok()?);
        match found.last_mut().filter(|_| !is_next_level) {
            Some(level) => level.push(part),
            None => found.push(vec![part]),
        }
        is_next_level = ends_level;
    }
    (!found.is_empty()).then_some(found)
}

/// A name as directories compare them: without case, with single spaces, the attributes of a level in one order. A text that is no name is
/// as it is. Two spellings that a directory takes for one may still differ here: what it says itself is the spelling to keep.
pub fn normalized(dn: &str) -> String {
    let Some(levels) = levels(dn) else { return dn.to_owned() };
    let spelled = |level: Vec<(String, String)>| {
        let of = |(name, value): (String, String)| {
            format!("{}={}", name.to_lowercase(), escape(&text::canonical(&value)))
        };
        let mut parts: Vec<String> = level.into_iter().map(of).collect();
        parts.sort();
        parts.join("+")
    };
    levels.into_iter().map(spelled).collect::<Vec<_>>().join(",")
}

/// Whether two names are those of one entry, as far as that can be said without a directory.
pub fn is_same(one: &str, other: &str) -> bool {
    normalized(one) == normalized(other)
}

/// What a group is called: the first common name in the name of its entry, or a text that is no name as it is.
pub fn common_name(dn: &str) -> String {
    let parts = parts(dn).unwrap_or_default();
    let named = parts.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("cn"));
    named.map_or_else(|| dn.to_owned(), |(_, value)| value)
}

/// Whether a text is the name of an entry.
pub fn is_dn(text: &str) -> bool {
    parts(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_is_one_value_and_reads_back() {
        for value in [
            "alice", "a,b", "a+b=c", " lead", "trail ", " ", "#1", "\"q\"", "a\\b", "\\2a", "*()",
            "a\0b", "x<y>;z", "größe", "\u{85}",
        ] {
            let dn = format!("cn={},dc=example", escape(value));
            let expected = [("cn".to_owned(), value.to_owned()), ("dc".into(), "example".into())];
            assert_eq!(parts(&dn).unwrap(), expected, "{dn}");
        }
    }

    #[test]
    fn however_a_name_is_spelled_it_is_one() {
        let one = "cn=Svc One,ou=People,dc=x";
        for same in [
            "CN=svc one,OU=people,DC=X",
            "cn = Svc  One , ou=People;dc=x",
            "cn=Svc\\20One,ou=Pe\\6fple,dc=x",
            "cn=Svc\u{a0}One,ou=People,dc=x",
        ] {
            assert!(is_same(one, same), "{same}: {}", normalized(same));
        }
        for other in ["cn=Svc One", "cn=Svc One,dc=x,ou=People", "cn=SvcOne,ou=People,dc=x"] {
            assert!(!is_same(one, other), "{other}");
        }
        assert!(is_same("uid=a+cn=b,dc=x", "cn=B+uid=A,dc=x"));
        assert!(!is_same("uid=a+cn=b,dc=x", "uid=a,cn=b,dc=x"));
        assert!(!is_same("cn=a\\,b,dc=x", "cn=a,b=,dc=x"));
        assert_eq!(normalized("no name"), "no name");
    }

    #[test]
    fn a_group_is_called_by_its_common_name() {
        for (dn, name) in [
            ("cn=engineers,ou=groups,dc=example,dc=org", "engineers"),
            ("CN=All Staff, OU=x", "All Staff"),
            ("uid=a+cn=B\\, C,dc=x", "B, C"),
            ("engineers", "engineers"),
            ("ou=only,dc=x", "ou=only,dc=x"),
            ("cn=Bob \\28B\\29,dc=x", "Bob (B)"),
            ("cn=broken\\", "cn=broken\\"),
        ] {
            assert_eq!(common_name(dn), name, "{dn}");
        }
        assert!(!is_dn("") && !is_dn("nonsense") && !is_dn("=x") && is_dn("dc=x"));
    }
}
