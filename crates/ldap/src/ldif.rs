//! Records of entries and changes (RFC 2849), and templates of them.
//!
//! ```text
//! record   dn line, changetype line?, content
//! content  attribute lines                            of an addition
//!          (kind line, attribute lines, "-")*         of a modification
//!          newrdn, deleteoldrdn, newsuperior?         of a renaming
//! line     name ":" value | name "::" base64; a line that begins with a space goes on with the one before
//! ```
//!
//! A template is taken apart before values are put in, so a value is never more than a value: a newline in a password ends no line.

use data_encoding::BASE64;
use kallisto_engine::far_end::{LdapAttribute, LdapChange, LdapOperation, LdapValue};
use zeroize::Zeroizing;

use crate::dn;
use crate::filter::is_attribute;
use crate::template::{TEMPLATE_BYTES_MAX, TemplatePiece, pieces};

/// Most records of a template.
const RECORDS_MAX: usize = 64;

/// What a template is filled with: names with their values.
pub type LdifValues<'a> = [(&'a str, &'a str)];

/// A line of a record, still a template.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LdifLine {
    name: String,
    template: String,
    is_base64: bool,
}

/// The operations of a text that is filled with these values.
///
/// # Errors
/// What is wrong with it.
pub fn operations(text: &str, values: &LdifValues<'_>) -> Result<Vec<LdapOperation>, String> {
    let text = plain(text);
    let records = records(&text)?;
    records.iter().map(|lines| operation(lines, values)).collect()
}

/// The names of the entries that operations are about, each once, in their order.
pub fn names(operations: &[LdapOperation]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for operation in operations {
        let dn = match operation {
            LdapOperation::Add { dn, .. }
            | LdapOperation::Modify { dn, .. }
            | LdapOperation::Rename { dn, .. }
            | LdapOperation::Delete { dn } => dn,
            LdapOperation::Search(_) | LdapOperation::WhoAmI => continue,
        };
        if !names.contains(dn) {
            names.push(dn.clone());
        }
    }
    names
}

/// The text, which may have come as base64.
fn plain(text: &str) -> String {
    let joined: String = text.split_whitespace().collect();
    let decoded = BASE64.decode(joined.as_bytes()).ok().and_then(|b| String::from_utf8(b).ok());
    decoded.unwrap_or_else(|| text.to_owned())
}

/// The records, each its lines.
fn records(text: &str) -> Result<Vec<Vec<LdifLine>>, String> {
    if text.len() > TEMPLATE_BYTES_MAX {
        return Err(format!("longer than {TEMPLATE_BYTES_MAX} bytes"));
    }
    let mut unfolded: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix(' '), unfolded.last_mut()) {
            (Some(more), Some(before)) if !before.is_empty() => before.push_str(more),
            _ => unfolded.push(line.to_owned()),
        }
    }
    let mut records = vec![Vec::new()];
    for (at, line) in unfolded.iter().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            records.push(Vec::new());
            continue;
        }
        let last = records.last_mut().ok_or("no record")?;
        if line.trim_end() == "-" {
            last.push(LdifLine { name: "-".into(), template: String::new(), is_base64: false });
            continue;
        }
        let bad = || format!("line {}: no NAME: VALUE", at + 1);
        let (name, value) = line.split_once(':').ok_or_else(bad)?;
        if name.eq_ignore_ascii_case("version") && last.is_empty() {
            continue;
        }
        if !is_attribute(name) {
            return Err(bad());
        }
        if value.starts_with('<') {
            return Err(format!("line {}: values of URLs are not read", at + 1));
        }
        let (value, is_base64) = match value.strip_prefix(':') {
            Some(value) => (value, true),
            None => (value, false),
        };
        last.push(LdifLine { name: name.to_owned(), template: value.trim().to_owned(), is_base64 });
    }
    records.retain(|record| !record.is_empty());
    match records.len() {
        0 => Err("it has no record".to_owned()),
        1..=RECORDS_MAX => Ok(records),
        _ => Err(format!("more than {RECORDS_MAX} records")),
    }
}

fn operation(lines: &[LdifLine], values: &LdifValues<'_>) -> Result<LdapOperation, String> {
    let [first, rest @ ..] = lines else { return Err("it has no record".to_owned()) };
    if !first.name.eq_ignore_ascii_case("dn") {
        return Err(format!("a record begins with dn, not with {}", first.name));
    }
    let dn = text(first, values, dn::escape)?;
    if !dn::is_dn(&dn) {
        return Err(format!("{:?} is no name of an entry", first.template));
    }
    let (kind, rest) = match rest {
        [kind, rest @ ..] if kind.name.eq_ignore_ascii_case("changetype") => {
            (kind.template.to_ascii_lowercase(), rest)
        }
        [control, ..] if control.name.eq_ignore_ascii_case("control") => {
            return Err("controls are not sent".to_owned());
        }
        rest => ("add".to_owned(), rest),
    };
    match kind.as_str() {
        "add" => {
            let mut attributes: Vec<LdapAttribute> = Vec::new();
            for line in rest {
                put(&mut attributes, line, values)?;
            }
            match attributes.is_empty() {
                true => Err(format!("{:?} is added without attributes", first.template)),
                false => Ok(LdapOperation::Add { dn, attributes }),
            }
        }
        "delete" if rest.is_empty() => Ok(LdapOperation::Delete { dn }),
        "delete" => Err("a deletion has nothing after its changetype".to_owned()),
        "modify" => Ok(LdapOperation::Modify { dn, changes: changes(rest, values)? }),
        "modrdn" | "moddn" => rename(dn, rest, values),
        other => Err(format!("there is no changetype {other:?}")),
    }
}

fn changes(
    lines: &[LdifLine],
    values: &LdifValues<'_>,
) -> Result<Vec<(LdapChange, LdapAttribute)>, String> {
    let mut changes = Vec::new();
    for part in lines.split(|line| line.name == "-").filter(|part| !part.is_empty()) {
        let [kind, rest @ ..] = part else { continue };
        let change = match kind.name.to_ascii_lowercase().as_str() {
            "add" => LdapChange::Add,
            "delete" => LdapChange::Delete,
            "replace" => LdapChange::Replace,
            other => return Err(format!("a modification adds, deletes or replaces, not {other}")),
        };
        let mut attribute = LdapAttribute { name: kind.template.clone(), values: Vec::new() };
        if !is_attribute(&attribute.name) {
            return Err(format!("{:?} is no attribute", attribute.name));
        }
        for line in rest {
            if !line.name.eq_ignore_ascii_case(&attribute.name) {
                return Err(format!("a change of {} has a value of {}", attribute.name, line.name));
            }
            attribute.values.push(value(line, values)?);
        }
        changes.push((change, attribute));
    }
    match changes.is_empty() {
        true => Err("a modification that changes nothing".to_owned()),
        false => Ok(changes),
    }
}

fn rename(
    dn: String,
    lines: &[LdifLine],
    values: &LdifValues<'_>,
) -> Result<LdapOperation, String> {
    let find = |name: &str| lines.iter().find(|line| line.name.eq_ignore_ascii_case(name));
    let known = ["newrdn", "deleteoldrdn", "newsuperior"];
    if let Some(line) =
        lines.iter().find(|line| !known.contains(&line.name.to_ascii_lowercase().as_str()))
    {
        return Err(format!("a renaming has no {}", line.name));
    }
    let rdn = find("newrdn").ok_or("a renaming needs newrdn")?;
    let parent = find("newsuperior").map(|line| text(line, values, dn::escape)).transpose()?;
    Ok(LdapOperation::Rename {
        dn,
        rdn: text(rdn, values, dn::escape)?,
        deletes_old: find("deleteoldrdn").is_none_or(|line| line.template == "1"),
        parent,
    })
}

fn put(
    attributes: &mut Vec<LdapAttribute>,
    line: &LdifLine,
    values: &LdifValues<'_>,
) -> Result<(), String> {
    let value = value(line, values)?;
    match attributes.iter_mut().find(|one| one.name.eq_ignore_ascii_case(&line.name)) {
        Some(known) => known.values.push(value),
        None => attributes.push(LdapAttribute { name: line.name.clone(), values: vec![value] }),
    }
    Ok(())
}

/// A line's value as text.
fn text(
    line: &LdifLine,
    values: &LdifValues<'_>,
    escape: fn(&str) -> String,
) -> Result<String, String> {
    let bytes = filled(line, values, escape)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| format!("the value of {} is no text", line.name))
}

fn value(line: &LdifLine, values: &LdifValues<'_>) -> Result<LdapValue, String> {
    filled(line, values, str::to_owned).map(LdapValue)
}

/// A line's value: its template is filled, then decoded where it is base64.
fn filled(
    line: &LdifLine,
    values: &LdifValues<'_>,
    escape: fn(&str) -> String,
) -> Result<Zeroizing<Vec<u8>>, String> {
    let find = |name: &str| {
        let found = values.iter().find(|(known, _)| name.strip_prefix('.') == Some(*known));
        found.map(|(_, value)| *value).ok_or_else(|| format!("there is no value {name}"))
    };
    let mut out = Zeroizing::new(Vec::new());
    for piece in pieces(&line.template)? {
        match piece {
            TemplatePiece::Text(text) => out.extend(text.as_bytes()),
            TemplatePiece::Value(name, functions) => {
                let value = Zeroizing::new(escape(find(name)?).into_bytes());
                out.extend(through(value, functions)?.iter());
            }
            TemplatePiece::Quoted(name, functions) => {
                let value = Zeroizing::new(escape(&format!("\"{}\"", find(name)?)).into_bytes());
                out.extend(through(value, functions)?.iter());
            }
        }
    }
    if !line.is_base64 {
        return Ok(out);
    }
    let decoded = BASE64.decode(&out);
    decoded.map(Zeroizing::new).map_err(|_| format!("the value of {} is no base64", line.name))
}

fn through(value: Zeroizing<Vec<u8>>, functions: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let mut value = value;
    for function in functions.split('|').map(str::trim).filter(|function| !function.is_empty()) {
        let as_text = || std::str::from_utf8(&value).map_err(|_| format!("{function}: no text"));
        value = Zeroizing::new(match function {
            "base64" => BASE64.encode(&value).into_bytes(),
            "utf16le" => as_text()?.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            "uppercase" => as_text()?.to_uppercase().into_bytes(),
            "lowercase" => as_text()?.to_lowercase().into_bytes(),
            other => return Err(format!("there is no function {other:?}")),
        });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: &LdifValues<'static> =
        &[("Username", "v,a"), ("Password", "p\ndn: cn=admin\nx: 1"), ("RoleName", "r")];
    const USER: &str = "dn: cn={{.Username}},ou=people,dc=example\nobjectClass: person\n\
        objectClass: top\ncn: {{.Username}}\nsn: {{.Password | utf16le | base64}}\n\
        userPassword: {{.Password}}\n";

    fn bytes(attribute: &LdapAttribute) -> Vec<Vec<u8>> {
        attribute.values.iter().map(|value| value.0.to_vec()).collect()
    }

    #[test]
    fn a_value_is_one_value_whatever_it_has() {
        let made = operations(USER, VALUES).unwrap();
        let [LdapOperation::Add { dn, attributes }] = made.as_slice() else { panic!("{made:?}") };
        assert_eq!(dn, "cn=v\\,a,ou=people,dc=example");
        let names: Vec<&str> = attributes.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["objectClass", "cn", "sn", "userPassword"]);
        assert_eq!(bytes(&attributes[0]), [b"person".to_vec(), b"top".to_vec()]);
        assert_eq!(bytes(&attributes[1]), [b"v,a".to_vec()]);
        assert_eq!(bytes(&attributes[3]), [b"p\ndn: cn=admin\nx: 1".to_vec()]);
    }

    #[test]
    fn records_of_every_kind_are_read() {
        let text = "version: 1\n# a comment\ndn: cn={{.Username}},dc=x\nchangetype: modify\n\
            replace: unicodePwd\nunicodePwd:: {{ printf \"%q\" .Password | utf16le | base64}}\n-\n\
            add: member\nmember: cn=a,\n dc=x\n-\ndelete: old\n-\n\n\
            dn: cn=b,dc=x\nchangetype: modrdn\nnewrdn: cn={{.Username}}\ndeleteoldrdn: 0\n\n\n\
            dn:: Y249YyxkYz14\nchangetype: delete\n";
        let made = operations(text, VALUES).unwrap();
        assert_eq!(names(&made), ["cn=v\\,a,dc=x", "cn=b,dc=x", "cn=c,dc=x"]);
        let [LdapOperation::Modify { changes, .. }, rename, LdapOperation::Delete { .. }] =
            made.as_slice()
        else {
            panic!("{made:?}")
        };
        let kinds: Vec<LdapChange> = changes.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [LdapChange::Replace, LdapChange::Add, LdapChange::Delete]);
        assert_eq!(bytes(&changes[0].1)[0][..4], [b'"', 0, b'p', 0]);
        assert_eq!(bytes(&changes[1].1), [b"cn=a,dc=x".to_vec()]);
        let LdapOperation::Rename { rdn, deletes_old, .. } = rename else { panic!("{rename:?}") };
        assert_eq!((rdn.as_str(), *deletes_old), ("cn=v\\,a", false));
        let encoded = BASE64.encode(USER.as_bytes());
        assert_eq!(
            names(&operations(&encoded, VALUES).unwrap()),
            ["cn=v\\,a,ou=people,dc=example"]
        );
    }

    #[test]
    fn what_is_no_ldif_is_refused() {
        for bad in [
            "",
            "nonsense",
            "cn: a",
            "dn: nonsense\ncn: a",
            "dn: cn=a,dc=x",
            "dn: cn=a,dc=x\nchangetype: nope",
            "dn: cn=a,dc=x\nchangetype: delete\ncn: a",
            "dn: cn=a,dc=x\nchangetype: modify\nadd: a\nb: c",
            "dn: cn=a,dc=x\nchangetype: modify\n-",
            "dn: cn=a,dc=x\nchangetype: modrdn\nnope: x",
            "dn: cn=a,dc=x\ncn: {{.Nope}}",
            "dn: cn=a,dc=x\ncn: {{.Username | nope}}",
            "dn: cn=a,dc=x\ncn: {{.Username",
            "dn: cn=a,dc=x\ncn: {{printf \"%s\" .Username}}",
            "dn: cn=a,dc=x\ncn:: {{.Username}}",
            "dn: cn=a,dc=x\ncn:< file:///etc/passwd",
            "dn: cn=a,dc=x\ncontrol: 1.2.3\nchangetype: delete",
        ] {
            assert!(operations(bad, VALUES).is_err(), "{bad}");
        }
    }
}
