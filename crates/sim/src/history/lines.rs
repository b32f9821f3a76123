//! A history as lines of JSON, in and out. The form is described in the module above.
//!
//! A line that says something else than the form allows is an error that names the line and the field: a checker that
//! guesses what was meant says yes to anything.

use std::fmt;
use std::io::{BufRead, Read as _};

use serde_json::{Map, Value, json};

use super::{Action, ClientOperation, Expect, OperationEnd};

/// Longest line, in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// Most operations of a history.
pub const OPERATIONS_MAX: usize = 4 << 20;

/// Why a history cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Which line, from 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for LineError {}

/// Reads a history. Empty lines are skipped.
///
/// # Errors
/// The first line that is none.
pub fn read(mut text: impl BufRead) -> Result<Vec<ClientOperation>, LineError> {
    let mut operations = Vec::new();
    let mut bytes = Vec::new();
    for line in 1.. {
        let wrong = |what: String| LineError { line, what };
        bytes.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        let count = text.by_ref().take(limit).read_until(b'\n', &mut bytes);
        if count.map_err(|error| wrong(error.to_string()))? == 0 {
            break;
        }
        if bytes.len() > LINE_BYTES_MAX {
            return Err(wrong(format!("longer than {LINE_BYTES_MAX} bytes")));
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        if operations.len() == OPERATIONS_MAX {
            return Err(wrong(format!("more than {OPERATIONS_MAX} operations")));
        }
        operations.push(parse(&bytes).map_err(wrong)?);
    }
    Ok(operations)
}

fn parse(line: &[u8]) -> Result<ClientOperation, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let Value::Object(object) = value else { return Err("not an object".into()) };
    let fields = LineFields(object);
    fields.only_known()?;
    let action = fields.action()?;
    let call = fields.number("call")?.ok_or("call is missing")?;
    let end = fields.end(&action)?;
    let ended = match end {
        OperationEnd::Done { at, .. } | OperationEnd::Refused { at } => at,
        OperationEnd::Failed | OperationEnd::Unknown => call,
    };
    if ended < call {
        return Err("return is before call".into());
    }
    Ok(ClientOperation {
        client: fields.number("client")?.ok_or("client is missing")?,
        key: fields.text("key")?.ok_or("key is missing")?,
        action,
        call,
        end,
    })
}

/// Every field there is.
const NAMES: [&str; 10] = [
    "client",
    "op",
    "key",
    "value",
    "call",
    "return",
    "outcome",
    "version",
    "expect",
    "expect_version",
];

struct LineFields(Map<String, Value>);

impl LineFields {
    fn only_known(&self) -> Result<(), String> {
        match self.0.keys().find(|name| !NAMES.contains(&name.as_str())) {
            Some(name) => Err(format!("{name:?} is no field")),
            None => Ok(()),
        }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| format!("{name} is no number")),
        }
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("{name} is no text")),
        }
    }

    fn action(&self) -> Result<Action, String> {
        let op = self.text("op")?.ok_or("op is missing")?;
        let value = || self.text("value")?.ok_or_else(|| "value is missing".to_owned());
        match op.as_str() {
            "read" => Ok(Action::Read),
            "write" => Ok(Action::Write(value()?)),
            "delete" => Ok(Action::Delete),
            "cas" => Ok(Action::Swap(self.expect()?, value()?)),
            other => Err(format!("{other:?} is no op")),
        }
    }

    fn expect(&self) -> Result<Expect, String> {
        match (self.number("expect_version")?, self.0.contains_key("expect")) {
            (Some(version), false) => Ok(Expect::Version(version)),
            (None, true) => Ok(Expect::Value(self.text("expect")?)),
            _ => Err("a cas has either expect or expect_version".into()),
        }
    }

    fn end(&self, action: &Action) -> Result<OperationEnd, String> {
        let at = || self.number("return")?.ok_or_else(|| "return is missing".to_owned());
        let reads = *action == Action::Read;
        match self.text("outcome")?.ok_or("outcome is missing")?.as_str() {
            "ok" if reads && !self.0.contains_key("value") => {
                Err("a read that is ok says what it found in value".into())
            }
            "ok" => Ok(OperationEnd::Done {
                at: at()?,
                found: if reads { self.text("value")? } else { None },
                version: self.number("version")?,
            }),
            "refused" if matches!(action, Action::Swap(..)) => {
                Ok(OperationEnd::Refused { at: at()? })
            }
            "refused" => Err("only a cas is refused".into()),
            "failed" => Ok(OperationEnd::Failed),
            "unknown" => Ok(OperationEnd::Unknown),
            other => Err(format!("{other:?} is no outcome")),
        }
    }
}

impl ClientOperation {
    /// The operation as a line, without its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = Map::new();
        let mut put = |name: &str, value: Value| line.insert(name.to_owned(), value);
        put("client", json!(self.client));
        put("key", json!(self.key));
        put("call", json!(self.call));
        match &self.action {
            Action::Read => put("op", json!("read")),
            Action::Delete => put("op", json!("delete")),
            Action::Write(value) => {
                put("op", json!("write"));
                put("value", json!(value))
            }
            Action::Swap(expect, value) => {
                put("op", json!("cas"));
                match expect {
                    Expect::Value(expect) => put("expect", json!(expect)),
                    Expect::Version(version) => put("expect_version", json!(version)),
                };
                put("value", json!(value))
            }
        };
        match &self.end {
            OperationEnd::Done { at, found, version } => {
                put("outcome", json!("ok"));
                put("return", json!(at));
                if self.action == Action::Read {
                    put("value", json!(found));
                }
                version.and_then(|version| put("version", json!(version)))
            }
            OperationEnd::Refused { at } => {
                put("return", json!(at));
                put("outcome", json!("refused"))
            }
            OperationEnd::Failed => put("outcome", json!("failed")),
            OperationEnd::Unknown => put("outcome", json!("unknown")),
        };
        Value::Object(line).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let done = |found: Option<&str>, version| OperationEnd::Done {
            at: 9,
            found: found.map(str::to_owned),
            version,
        };
        let cases = [
            (Action::Read, done(Some("x\n\""), Some(3))),
            (Action::Read, done(None, None)),
            (Action::Read, OperationEnd::Unknown),
            (Action::Write("x".into()), done(None, Some(1))),
            (Action::Write(String::new()), OperationEnd::Failed),
            (Action::Swap(Expect::Version(0), "x".into()), OperationEnd::Refused { at: 5 }),
            (Action::Swap(Expect::Value(None), "x".into()), done(None, None)),
            (Action::Swap(Expect::Value(Some("y".into())), "x".into()), OperationEnd::Unknown),
            (Action::Delete, done(None, None)),
        ];
        let operations = cases.map(|(action, end)| ClientOperation {
            client: 7,
            key: "k".into(),
            action,
            call: 5,
            end,
        });
        let text: String =
            operations.iter().map(|operation| operation.to_line() + "\n\n").collect();
        assert_eq!(read(text.as_bytes()).unwrap(), operations);
    }

    #[test]
    fn a_line_that_says_something_else_is_named() {
        let good =
            r#"{"client":1,"op":"read","key":"k","call":4,"return":5,"outcome":"ok","value":"x"}"#;
        for (from, to, what) in [
            ("\"client\":1,", "", "client is missing"),
            ("\"read\"", "\"raed\"", "no op"),
            (",\"value\":\"x\"", "", "says what it found"),
            ("\"call\":4", "\"call\":-4", "call is no number"),
            ("\"call\":4", "\"call\":6", "return is before call"),
            ("\"return\":5,", "", "return is missing"),
            ("\"ok\"", "\"maybe\"", "no outcome"),
            ("\"ok\"", "\"refused\"", "only a cas"),
            ("\"key\"", "\"kye\"", "no field"),
            ("}", "", "EOF"),
        ] {
            let text = format!("{good}\n{}\n", good.replacen(from, to, 1));
            let error = read(text.as_bytes()).unwrap_err();
            assert_eq!(error.line, 2);
            assert!(error.what.contains(what), "{what}: {error}");
        }
        let cas = r#"{"client":1,"op":"cas","key":"k","value":"x","call":4,"outcome":"unknown"}"#;
        assert!(read(cas.as_bytes()).unwrap_err().what.contains("either"));
        let long = " ".repeat(LINE_BYTES_MAX + 1);
        assert!(read(long.as_bytes()).unwrap_err().what.contains("longer"));
    }
}
