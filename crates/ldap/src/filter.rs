//! Filters of searches (RFC 4515), and templates of them.

use crate::template::{TemplatePiece, pieces};

/// How deep a filter stands in filters.
const DEPTH_MAX: usize = 16;
/// Longest filter, in bytes.
const FILTER_BYTES_MAX: usize = 8 << 10;

/// Who is looked for.
#[derive(Clone, Copy, Debug)]
pub struct FilterValues<'a> {
    /// The attribute that users are named by.
    pub user_attr: &'a str,
    /// The name, as it was given.
    pub username: &'a str,
    /// The name of their entry; empty before it is known.
    pub user_dn: &'a str,
}

/// A value inside a filter (RFC 4515, section 3): whatever it has, it is one value and no pattern.
pub fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '*' | '(' | ')' | '\\' => out.push_str(&format!("\\{:02x}", u32::from(c))),
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

/// Fills a template of a filter.
///
/// # Errors
/// What is wrong with it, or with the filter that it makes.
pub fn fill(template: &str, values: &FilterValues<'_>) -> Result<String, String> {
    let mut out = String::new();
    for piece in pieces(template)? {
        match piece {
            TemplatePiece::Text(text) => out.push_str(text),
            TemplatePiece::Value(".UserAttr", "") => out.push_str(values.user_attr),
            TemplatePiece::Value(".Username", "") => out.push_str(&escape(values.username)),
            TemplatePiece::Value(".UserDN", "") => out.push_str(&escape(values.user_dn)),
            TemplatePiece::Value(name, "") => return Err(format!("there is no value {name}")),
            TemplatePiece::Value(_, functions) | TemplatePiece::Quoted(_, functions) => {
                return Err(format!("no function {functions:?} here"));
            }
        }
    }
    check(&out)?;
    Ok(out)
}

/// Checks a template as it would be filled.
///
/// # Errors
/// What is wrong with it.
pub fn check_template(template: &str) -> Result<(), String> {
    let sample = FilterValues { user_attr: "cn", username: "name", user_dn: "cn=name,dc=example" };
    fill(template, &sample).map(drop)
}

/// Whether a text can name an attribute: letters, digits, dashes and dots, with options after semicolons.
pub fn is_attribute(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ';');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(fits)
}

/// Checks a filter.
///
/// # Errors
/// What is wrong with it, and where.
pub fn check(filter: &str) -> Result<(), String> {
    if filter.len() > FILTER_BYTES_MAX {
        return Err(format!("longer than {FILTER_BYTES_MAX} bytes"));
    }
    let rest = one(filter, DEPTH_MAX)
        .ok_or_else(|| format!("{filter:?} is no filter as RFC 4515 writes them"))?;
    match rest {
        "" => Ok(()),
        more => Err(format!("{more:?} comes after the end of a filter")),
    }
}

/// Reads one filter; what comes after it.
fn one(text: &str, depth: usize) -> Option<&str> {
    let deeper = depth.checked_sub(1)?;
    let inside = text.strip_prefix('(')?;
    if let Some(mut list) = inside.strip_prefix(['&', '|']) {
        while list.starts_with('(') {
            list = one(list, deeper)?;
        }
        return list.strip_prefix(')');
    }
    if let Some(negated) = inside.strip_prefix('!') {
        return one(negated, deeper)?.strip_prefix(')');
    }
    let (item, rest) = inside.split_once(')')?;
    is_item(item).then_some(rest)
}

/// An attribute, how it is compared, and with what.
fn is_item(item: &str) -> bool {
    let Some((left, value)) = item.split_once('=') else { return false };
    let left = left.strip_suffix(['~', '>', '<']).unwrap_or(left);
    // `cn:caseExactMatch:=x`, `ou:dn:=x`, `:1.2.3:=x`
    let is_named = match left.strip_suffix(':') {
        Some(extended) => {
            let mut parts = extended.split(':');
            let first = parts.next().unwrap_or_default();
            (first.is_empty() || is_attribute(first)) && parts.all(is_attribute)
        }
        None => is_attribute(left),
    };
    is_named && is_value(value)
}

/// A value has no parenthesis or NUL, and `\` is followed by two digits.
fn is_value(value: &str) -> bool {
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'(' | b')' | 0 => return false,
            b'\\' => {
                let digits = [bytes.next(), bytes.next()];
                if !digits.iter().all(|one| one.is_some_and(|byte| byte.is_ascii_hexdigit())) {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &str =
        "(|(memberUid={{.Username}})(member={{.UserDN}})(uniqueMember={{.UserDN}}))";

    #[test]
    fn no_value_is_more_than_a_value() {
        for (value, escaped) in [
            ("alice", "alice"),
            ("*", "\\2a"),
            ("a)(uid=*", "a\\29\\28uid=\\2a"),
            ("\\2a", "\\5c2a"),
            ("a\0b", "a\\00b"),
            ("Bob (B)", "Bob \\28B\\29"),
            ("größe ", "größe "),
            ("\u{85}", "\\c2\\85"),
        ] {
            assert_eq!(escape(value), escaped, "{value:?}");
            let values = FilterValues { user_attr: "uid", username: value, user_dn: value };
            let filled = fill(GROUPS, &values).unwrap();
            assert_eq!(filled.matches('(').count(), 4, "{filled}");
            assert_eq!(filled.matches('*').count(), 0, "{filled}");
        }
    }

    #[test]
    fn filters_are_read_as_rfc_4515_writes_them() {
        for good in [
            "(cn=Babs Jensen)",
            "(!(cn=Tim Howes))",
            "(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))",
            "(o=univ*of*mich*)",
            "(seeAlso=)",
            "(cn:caseExactMatch:=Fred Flintstone)",
            "(cn:=Betty Rubble)",
            "(o:dn:=Ace Industry)",
            "(:1.2.3:=Wilma Flintstone)",
            "(:DN:2.4.6.8.10:=Dino)",
            "(o=Parens R Us \\28for all your parenthetical needs\\29)",
            "(cn=*\\2A*)",
            "(sn=Lu\\c4\\8di\\c4\\87)",
            "(memberOf:1.2.840.113556.1.4.1941:=cn=a,dc=b)",
            "(a>=1)",
            "(a<=1)",
            "(a~=1)",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let deep = format!("{}(a=b){}", "(!".repeat(99), ")".repeat(99));
        for bad in
            ["", "((bad", "(cn=a", "cn=a", "(cn=a))", "(cn=\\zz)", "(=a)", "(c n=a)", "(!)", &deep]
        {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_template_is_read_whole() {
        assert_eq!(check_template(GROUPS), Ok(()));
        assert_eq!(check_template("({{ .UserAttr }}={{.Username}})"), Ok(()));
        for bad in ["(uid={{.Nope}})", "(uid={{.Username)", "(uid={{Username}})", "((bad"] {
            assert!(check_template(bad).is_err(), "{bad}");
        }
    }
}
