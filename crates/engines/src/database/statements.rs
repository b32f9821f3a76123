//! Statements of roles and connections: how they are given, and what is sent of them.
//!
//! A statement is a text, or that text in base 64; either may be a JSON list of statements, as command lines give it. It is kept and shown as
//! it was given, and spelled out when it is sent.

use data_encoding::BASE64;
use kallisto_api::json::{self, Json};
use kallisto_api::{Error, Fields};

/// Statements: one text, or a list of them.
pub(super) fn statements(fields: Fields<'_>, name: &str) -> Result<Option<Vec<String>>, Error> {
    let bad = || Error::invalid(format!("{name} is a text or a list of texts"));
    let given = match fields.raw(name) {
        Some(Json::String(text)) => listed(text).unwrap_or_else(|| vec![text.clone()]),
        Some(Json::Array(items)) => {
            let given: Option<Vec<String>> =
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
            given.ok_or_else(bad)?
        }
        None | Some(Json::Null) => return Ok(None),
        Some(_) => return Err(bad()),
    };
    let given: Vec<String> =
        given.into_iter().filter(|statement| !statement.trim().is_empty()).collect();
    if given.iter().map(String::len).sum::<usize>() > super::STATEMENTS_BYTES_MAX {
        return Err(Error::invalid(format!(
            "{name} is over its limit of {} bytes",
            super::STATEMENTS_BYTES_MAX
        )));
    }
    Ok(Some(given))
}

/// What is sent of a statement of SQL.
pub(super) fn spelled_out(statement: &str) -> Vec<String> {
    let plain = decoded(statement).unwrap_or_else(|| statement.to_owned());
    listed(&plain).unwrap_or_else(|| vec![plain])
}

/// The statements of a JSON list of them; the rules of a role of Redis are such a list too, and one statement.
fn listed(text: &str) -> Option<Vec<String>> {
    let Ok(Json::Array(items)) = json::parse(text.as_bytes()) else { return None };
    let is_statement =
        |text: &str| text.contains(' ') && !text.starts_with(['+', '~', '%', '&', '(']);
    let texts: Option<Vec<String>> = items
        .iter()
        .map(|item| item.as_str().filter(|text| is_statement(text)).map(str::to_owned))
        .collect();
    texts
}

/// The text that came in base 64, perhaps in lines. A statement has blanks, and base 64 has none but those between lines.
fn decoded(text: &str) -> Option<String> {
    let joined: String = text.trim().lines().collect();
    let plain = String::from_utf8(BASE64.decode(joined.as_bytes()).ok()?).ok()?;
    plain.contains(char::is_whitespace).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(body: &str) -> Vec<String> {
        statements(Fields::new(&json::parse_object(body.as_bytes()).unwrap()), "x")
            .unwrap()
            .unwrap()
    }

    #[test]
    fn statements_come_as_text_as_a_list_and_as_a_text_of_one() {
        for body in [
            r#"{"x":["CREATE USER a","GRANT b"]}"#,
            r#"{"x":"[\"CREATE USER a\", \"GRANT b\"]"}"#,
            r#"{"x":["CREATE USER a"," ","GRANT b"]}"#,
        ] {
            assert_eq!(given(body), ["CREATE USER a", "GRANT b"], "{body}");
        }
        // Rules of Redis are one statement, also where all of them are selectors.
        for rules in [r#"["~*","+@read"]"#, r#"["(~a +get)","(~b +get)"]"#, r#"["+config|get x"]"#]
        {
            let body = Json::object([("x", rules.into())]).to_text();
            assert_eq!(given(std::str::from_utf8(&body).unwrap()), [rules]);
        }
    }

    #[test]
    fn what_is_sent_is_spelled_out() {
        let text = "CREATE ROLE \"{{name}}\" LOGIN;\nGRANT x TO \"{{name}}\";\n";
        let list = r#"["CREATE ROLE a", "GRANT b"]"#;
        let wrapped = |text: &str| {
            let encoded = BASE64.encode(text.as_bytes());
            let lines: Vec<&str> =
                encoded.as_bytes().chunks(76).map(|l| std::str::from_utf8(l).unwrap()).collect();
            format!("{}\n", lines.join("\r\n"))
        };
        assert_eq!(spelled_out(text), [text]);
        assert_eq!(spelled_out(&BASE64.encode(text.as_bytes())), [text]);
        assert_eq!(spelled_out(&wrapped(text)), [text]);
        assert_eq!(spelled_out(list), ["CREATE ROLE a", "GRANT b"]);
        assert_eq!(spelled_out(&wrapped(list)), ["CREATE ROLE a", "GRANT b"]);
        // What is both a statement and base 64 is a statement.
        for word in ["ROLLBACK", "COMMIT", "SELECT 1", "c2VjcmV0"] {
            assert_eq!(spelled_out(word), [word]);
        }
    }
}
