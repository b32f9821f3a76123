//! The body of the fuzz target: whatever anybody types or a directory says, read as filters, names and LDIF.
//!
//! What is read is refused, or means one thing, whatever values are put into it.

use crate::{dn, filter, ldif, text};

/// Reads bytes as what their first one says: a text, and after a byte `0xff` a value that goes into it.
pub fn directory(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else { return };
    let mut parts = rest.splitn(2, |byte| *byte == 0xff).map(std::str::from_utf8);
    let Some(Ok(given)) = parts.next() else { return };
    let value = parts.next().and_then(Result::ok).unwrap_or_default();
    match which % 3 {
        0 => read_filter(given, value),
        1 => read_name(given),
        _ => read_ldif(given, value),
    }
}

/// A value never changes how many items a filter has.
fn read_filter(template: &str, value: &str) {
    let filled = |value| {
        let values = filter::FilterValues { user_attr: "cn", username: value, user_dn: value };
        let filled = filter::fill(template, &values).ok()?;
        Some(["(", ")", "*"].map(|sign| filled.matches(sign).count()))
    };
    if let (Some(hostile), Some(word)) = (filled(value), filled("w")) {
        assert_eq!(hostile, word, "{template:?}");
    }
}

/// A value is one value of a name, and a name has one form.
fn read_name(given: &str) {
    if let Some(parts) = dn::parts(&format!("cn={},dc=x", dn::escape(given))) {
        let expected = [("cn".to_owned(), given.to_owned()), ("dc".to_owned(), "x".to_owned())];
        assert_eq!(parts, expected);
    }
    let normalized = dn::normalized(given);
    assert_eq!(dn::is_dn(given), dn::is_dn(&normalized), "{given:?}");
    let _ = (dn::common_name(given), text::is_name(given), text::canonical(given));
}

/// A value never changes how many operations a text has.
fn read_ldif(template: &str, value: &str) {
    let count = |value| {
        let values = [("Username", value), ("Password", value)];
        ldif::operations(template, &values).ok().map(|operations| operations.len())
    };
    if let (Some(hostile), Some(word)) = (count(value), count("w")) {
        assert_eq!(hostile, word, "{template:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planted_is_read() {
        for which in [0, 1, 2] {
            for text in [
                "(&(cn={{.Username}})(member={{.UserDN}}))\u{0}x",
                "cn=a\\2cb+ou=\u{a0}x ,dc=x",
                "dn: cn={{.Username}},dc=x\nsn:: {{.Password | base64}}\n",
            ] {
                let bytes =
                    [&[which][..], text.as_bytes(), &[0xff], b"a)(=*\n\ndn: cn=x\\"].concat();
                directory(&bytes);
            }
        }
    }
}
