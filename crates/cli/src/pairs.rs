//! `key=value` arguments into a JSON object.
//!
//! | argument | means |
//! |---|---|
//! | `key=value` | the string `value`, everything after the first `=` |
//! | `key=@path` | the text of a file, as it is |
//! | `key=-` | the text of standard input, as it is |
//! | `key=\@text` | the string `@text` |
//! | `@path`, `-` | a JSON object whose members are added |
//!
//! A key given twice becomes a list. Members of a JSON object replace what came before them.
//! Standard input can be used once. What begins with `@` is the name of a file, `=` in it or not. Errors show the argument's key or path, never a value.

use std::io::Read;
use std::path::Path;

use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::json::{Json, Map, parse_object};

/// Where values may come from besides the command line.
pub(crate) struct PairInputs<'a> {
    stdin: Option<Box<dyn Read + 'a>>,
}

impl<'a> PairInputs<'a> {
    /// Values may come from `stdin`.
    pub(crate) fn new(stdin: impl Read + 'a) -> Self {
        Self { stdin: Some(Box::new(stdin)) }
    }

    /// The process's own standard input.
    pub(crate) fn process() -> Self {
        Self::new(std::io::stdin())
    }

    /// Everything on standard input; only the first caller gets it.
    pub(crate) fn stdin(&mut self) -> Result<Vec<u8>, String> {
        let stdin = self.stdin.take().ok_or("stdin already consumed")?;
        files::bounded(stdin).map_err(|error| format!("reading stdin: {error}"))
    }
}

/// Reads `arguments` into one object.
pub(crate) fn parse(arguments: &[String], inputs: &mut PairInputs<'_>) -> Result<Map, Error> {
    let mut object = Map::new();
    for argument in arguments.iter().filter(|argument| !argument.is_empty()) {
        add(&mut object, argument, inputs).map_err(|reason| {
            let shown = without_value(argument);
            Error::usage(format!(
                "Failed to parse K=V data: invalid key/value pair {shown:?}: {reason}"
            ))
        })?;
    }
    Ok(object)
}

/// Reads arguments that must all be plain strings, as `login` and `read` take them.
pub(crate) fn parse_strings(
    arguments: &[String],
    inputs: &mut PairInputs<'_>,
) -> Result<Vec<(String, String)>, Error> {
    let object = parse(arguments, inputs)?;
    let mut pairs = Vec::new();
    for (key, value) in object {
        match value {
            Json::String(text) => pairs.push((key, text)),
            Json::Array(items) => {
                pairs.extend(
                    items
                        .iter()
                        .filter_map(Json::as_str)
                        .map(|item| (key.clone(), item.to_owned())),
                );
            }
            _ => return Err(Error::usage(format!("the value of {key:?} must be a string"))),
        }
    }
    Ok(pairs)
}

/// Reads the pairs of a flag that may be repeated, such as -metadata. Values are text as they are: nothing is read from files. Of a
/// key that is given twice the last value counts.
pub(crate) fn texts(flag: &str, arguments: &[String]) -> Result<Map, Error> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), Json::from(value))),
        None => Err(Error::usage(format!("flag {flag}: missing = in KV pair: {text:?}"))),
    };
    arguments.iter().map(pair).collect()
}

fn add(object: &mut Map, argument: &str, inputs: &mut PairInputs<'_>) -> Result<(), String> {
    let pair = argument.split_once('=').filter(|_| !argument.starts_with('@'));
    let Some((key, value)) = pair else {
        return add_members(object, argument, inputs);
    };
    let value = if value == "-" {
        text(inputs.stdin()?)?
    } else if let Some(path) = value.strip_prefix('@') {
        text(read(path).map_err(|error| format!("error reading file: {error}"))?)?
    } else if value.starts_with("\\@") {
        value[1..].to_owned()
    } else {
        value.to_owned()
    };
    put(object, key, value);
    Ok(())
}

/// `-` and `@path`: a whole JSON object.
fn add_members(
    object: &mut Map,
    argument: &str,
    inputs: &mut PairInputs<'_>,
) -> Result<(), String> {
    let bytes = if argument == "-" {
        inputs.stdin()?
    } else if let Some(path) = argument.strip_prefix('@') {
        read(path)?
    } else {
        return Err("format must be key=value".to_owned());
    };
    if bytes.trim_ascii().is_empty() {
        // As of a command before a pipe that failed: it must not write an empty secret over one that is there.
        return Err("it is empty, and not a JSON object".to_owned());
    }
    let members = parse_object(&bytes).map_err(|error| format!("not a JSON object: {error}"))?;
    object.extend(members);
    Ok(())
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    files::read(Path::new(path)).map_err(|error| format!("open {path}: {error}"))
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "not UTF-8 text: encode it first, e.g. with base64".into())
}

fn put(object: &mut Map, key: &str, value: String) {
    match object.get_mut(key) {
        Some(Json::Array(items)) => items.push(value.into()),
        Some(existing) => {
            let first = std::mem::replace(existing, Json::Null);
            *existing = Json::Array(vec![first, value.into()]);
        }
        None => {
            object.insert(key.to_owned(), value.into());
        }
    }
}

/// The argument as an error may show it: where a value came from, but no value itself.
fn without_value(argument: &str) -> &str {
    match argument.split_once('=') {
        _ if argument.starts_with('@') => argument,
        Some((_, value)) if value == "-" || value.starts_with('@') => argument,
        Some((key, _)) => key,
        None => argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str], stdin: &str) -> Result<String, String> {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        let mut inputs = PairInputs::new(stdin.as_bytes());
        parse(&arguments, &mut inputs)
            .map(|object| String::from_utf8(Json::Object(object).to_text()).unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn pairs_become_strings() {
        let table: [(&[&str], &str); 9] = [
            (&["a=1", "b=two"], r#"{"a":"1","b":"two"}"#),
            (&["w=a=b"], r#"{"w":"a=b"}"#),
            (&["v="], r#"{"v":""}"#),
            (&["=x"], r#"{"":"x"}"#),
            (&["v=\\@x"], r#"{"v":"@x"}"#),
            (&["v=\\-"], r#"{"v":"\\-"}"#),
            (&["a b=c d"], r#"{"a b":"c d"}"#),
            (&["v=1", "v=2", "v=3"], r#"{"v":["1","2","3"]}"#),
            (&[""], "{}"),
        ];
        for (given, wanted) in table {
            assert_eq!(parsed(given, ""), Ok(wanted.to_owned()), "{given:?}");
        }
    }

    #[test]
    fn stdin_is_a_value_or_an_object() {
        assert_eq!(parsed(&["v=-"], "line\n"), Ok(r#"{"v":"line\n"}"#.to_owned()));
        let object = r#"{"n":1.50,"o":{"k":[true,null]}}"#;
        assert_eq!(parsed(&["-"], object), Ok(object.to_owned()));
        assert_eq!(parsed(&["n=1", "-"], r#"{"n":2}"#), Ok(r#"{"n":2}"#.to_owned()));
    }

    #[test]
    fn errors_name_the_argument_and_no_value() {
        for (given, wanted) in [
            (vec!["plain"], "\"plain\": format must be key=value"),
            (vec!["-", "x=-"], "\"x=-\": stdin already consumed"),
            (vec!["v=@no-such-file"], "\"v=@no-such-file\": error reading file: open no-such-file"),
            (vec!["@no-such-file"], "\"@no-such-file\": open no-such-file"),
            (vec!["@no-such=file"], "\"@no-such=file\": open no-such=file"),
        ] {
            let error = parsed(&given, "{}").unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        for nothing in ["", " \n"] {
            let error = parsed(&["-"], nothing).unwrap_err();
            assert!(error.ends_with("\"-\": it is empty, and not a JSON object"), "{error}");
        }
        let error = parsed(&["-"], r#"["hunter2"]"#).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn pairs_of_flags_are_text() {
        let given = ["a=@x", "b=-", "c=1=2", "a=\\@y", "d="].map(str::to_owned);
        let object = Json::Object(texts("-metadata", &given).unwrap());
        assert_eq!(object.to_text(), br#"{"a":"\\@y","b":"-","c":"1=2","d":""}"#);
        let error = texts("-metadata", &["plain".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "flag -metadata: missing = in KV pair: \"plain\"");
    }
}
