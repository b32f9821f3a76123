//! `initialize "name" { request "name" { .. } }`: what a server on empty storage asks of itself, once, as OpenBao has it since 2.4.
//!
//! A value is a literal, or says where it comes from: the environment, a file, an earlier request or its answer. Which requests and sources there
//! are is checked here; what they hold is read when they run.
//!
//! It needs a seal that opens by itself, since nobody would be there to take unseal shares, and a server that joins nobody, since each would be a
//! cluster of its own.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kallisto_command::json::{Json, Map, parse};
use kallisto_core::Operation;
use kallisto_hcl::{BlockBody, HclValue, ValueKind};

use super::error::{Error, FilePosition, ValueOrigin};
use super::model::{EvaluatedForm, InitRequest, InitValue, RequestName, ValueSource};
use super::raw_value::NUL;
use super::section::ConfigSection;

/// Most requests of all stanzas.
const REQUESTS_MAX: usize = 1000;
/// Longest name of a stanza or request, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// The key that tells a source from a literal.
const SOURCE: &str = "eval_source";

/// What can be asked, in the words of policies.
pub(crate) const OPERATIONS: [(&str, Operation); 7] = [
    ("create", Operation::Update),
    ("update", Operation::Update),
    ("patch", Operation::Patch),
    ("read", Operation::Read),
    ("list", Operation::List),
    ("scan", Operation::Scan),
    ("delete", Operation::Delete),
];

const FORMS: [(&str, EvaluatedForm); 7] = [
    ("string", EvaluatedForm::Text),
    ("int", EvaluatedForm::Whole),
    ("float64", EvaluatedForm::Number),
    ("bool", EvaluatedForm::Truth),
    ("[]string", EvaluatedForm::Texts),
    ("map", EvaluatedForm::Map),
    ("any", EvaluatedForm::Any),
];

/// Why no server may do this, given the rest of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hindrance {
    /// Somebody would have to keep unseal shares.
    Shares,
    /// The server joins others, which may have been initialised.
    Joins,
}

/// Every request of every stanza, in their order.
pub(super) fn read(
    top: &mut ConfigSection<'_>,
    hindrance: Option<Hindrance>,
    warnings: &mut Vec<String>,
) -> Result<Vec<InitRequest>, Error> {
    let mut requests: Vec<InitRequest> = Vec::new();
    let mut blocks = BTreeSet::new();
    for (block, mut stanza) in top.labelled("initialize")? {
        match hindrance {
            Some(Hindrance::Shares) => {
                return Err(stanza.refuse(
                    "needs a seal that opens by itself: nobody is there to be given unseal shares",
                ));
            }
            Some(Hindrance::Joins) => {
                return Err(stanza.refuse(
                    "is for a server that joins nobody, and there is a retry_join: give it to one server, and retry_join to the others",
                ));
            }
            None => {}
        }
        if !is_name(block) || !blocks.insert(block.to_owned()) {
            return Err(stanza.refuse(NAMES));
        }
        let found = stanza.labelled("request")?;
        if found.is_empty() {
            return Err(stanza.refuse("has no request"));
        }
        stanza.finish(&[], warnings)?;
        for (name, request) in found {
            let name = RequestName { block: block.to_owned(), request: name.to_owned() };
            let is_known = requests.iter().any(|known| known.name == name);
            if !is_name(&name.request) || is_known || requests.len() == REQUESTS_MAX {
                return Err(request.refuse(NAMES));
            }
            let read = read_request(request, name, &requests, warnings)?;
            requests.push(read);
        }
    }
    Ok(requests)
}

const NAMES: &str = "has to have a name of its own, of letters, digits, _ and -, and there are at most 1000 requests";

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let begins = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    begins
        && text.len() <= NAME_BYTES_MAX
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn read_request(
    mut stanza: ConfigSection<'_>,
    name: RequestName,
    before: &[InitRequest],
    warnings: &mut Vec<String>,
) -> Result<InitRequest, Error> {
    let place = stanza.place().clone();
    let mut field = |key: &'static str| match stanza.tree(key) {
        None => Ok(None),
        Some((origin, found)) => Ok(Some((origin.clone(), value(&origin, found, before)?))),
    };
    let (operation, path) = (field("operation")?, field("path")?);
    let (token, data) = (field("token")?, field("data")?);
    let allow_failure = field("allow_failure")?;
    if let Some((origin, InitValue::Literal(literal))) = &operation {
        let known = |text: &str| OPERATIONS.iter().any(|(word, _)| *word == text);
        if !literal.as_str().is_some_and(known) {
            let words = OPERATIONS.map(|(word, _)| word).join(", ");
            return Err(Error::Value(origin.clone(), format!("expected one of: {words}")));
        }
    }
    let needs_text = |found: &Option<(ValueOrigin, InitValue)>| match found {
        Some((origin, InitValue::Literal(literal))) if literal.as_str().is_none() => {
            Err(Error::Value(origin.clone(), "expected text".to_owned()))
        }
        Some((origin, InitValue::Literal(Json::String(text)))) if text.contains('\0') => {
            Err(Error::Value(origin.clone(), NUL.to_owned()))
        }
        _ => Ok(()),
    };
    needs_text(&path)?;
    needs_text(&token)?;
    let plain = |found: Option<(ValueOrigin, InitValue)>| found.map(|(_, value)| value);
    let (Some(operation), Some(path)) = (plain(operation), plain(path)) else {
        return Err(stanza.refuse("needs an operation and a path"));
    };
    let (token, data, allow_failure) = (plain(token), plain(data), plain(allow_failure));
    stanza.finish(&[], warnings)?;
    Ok(InitRequest { name, place: place.to_string(), operation, path, token, data, allow_failure })
}

/// A value, of which every part may come from somewhere.
fn value(
    origin: &ValueOrigin,
    found: &HclValue,
    before: &[InitRequest],
) -> Result<InitValue, Error> {
    let scalar = match &found.kind {
        ValueKind::Null => Json::Null,
        ValueKind::Bool(truth) => Json::Bool(*truth),
        ValueKind::Text(text) => Json::String(text.clone()),
        ValueKind::Number(text) => number(text)
            .ok_or_else(|| Error::Value(origin.clone(), "expected a number of JSON".to_owned()))?,
        ValueKind::List(items) => {
            let items = items.iter().map(|item| value(&at(origin, item), item, before));
            return items.collect::<Result<_, _>>().map(InitValue::List);
        }
        ValueKind::Object(body) if body.first(SOURCE).is_some() => {
            return evaluated(origin, body, before);
        }
        ValueKind::Object(body) => {
            let mut members = Vec::new();
            for item in &body.items {
                if !item.labels.is_empty() {
                    let what =
                        "has a block with a name inside, where members of a map are expected";
                    return Err(Error::Value(at(origin, &item.value), what.to_owned()));
                }
                let inner = value(&at(origin, &item.value), &item.value, before)?;
                members.push((item.key.text.clone(), inner));
            }
            return Ok(InitValue::Map(members));
        }
    };
    Ok(InitValue::Literal(scalar))
}

/// The same key, at the line of a part of its value.
fn at(origin: &ValueOrigin, part: &HclValue) -> ValueOrigin {
    match origin {
        ValueOrigin::File(place, key) => {
            let place = FilePosition { line: part.at.line, ..place.clone() };
            ValueOrigin::File(place, key.clone())
        }
        ValueOrigin::Environment(_) => origin.clone(),
    }
}

/// A number as JSON has it.
fn number(text: &str) -> Option<Json> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(Json::from),
        None => parse(text.as_bytes()).ok().filter(|parsed| matches!(parsed, Json::Number(_))),
    }
}

/// A value that comes from somewhere. Its own fields are literals.
fn evaluated(
    origin: &ValueOrigin,
    body: &BlockBody,
    before: &[InitRequest],
) -> Result<InitValue, Error> {
    let refuse = |what: String| Error::Value(origin.clone(), what);
    let mut fields = Map::new();
    for item in &body.items {
        match value(origin, &item.value, before)? {
            InitValue::Literal(literal) => drop(fields.insert(item.key.text.clone(), literal)),
            InitValue::List(items) => {
                let literals = items.into_iter().map(|item| match item {
                    InitValue::Literal(literal) => Ok(literal),
                    _ => Err(refuse("a source has literals alone".to_owned())),
                });
                let list = Json::Array(literals.collect::<Result<_, _>>()?);
                fields.insert(item.key.text.clone(), list);
            }
            InitValue::Map(_) | InitValue::Evaluated { .. } => {
                return Err(refuse("a source has literals alone".to_owned()));
            }
        }
    }
    let mut take = |name: &str| fields.remove(name);
    let text = |found: Option<Json>, name: &str| {
        let found = found.as_ref().and_then(Json::as_str).map(str::to_owned);
        found.ok_or_else(|| refuse(format!("a source needs {name}, a text")))
    };
    let source = text(take(SOURCE), SOURCE)?;
    let form = text(take("eval_type"), "eval_type")?;
    let found = FORMS.iter().find(|(word, _)| *word == form);
    let Some((_, form)) = found else {
        let words = FORMS.map(|(word, _)| word).join(", ");
        return Err(refuse(format!("expected an eval_type of: {words}")));
    };
    let source = match source.as_str() {
        "env" => ValueSource::Environment {
            name: text(take("env_var"), "env_var")?,
            is_required: matches!(take("require_present"), Some(Json::Bool(true))),
        },
        "file" => ValueSource::File(PathBuf::from(text(take("path"), "path")?)),
        "request" | "response" => {
            let block = text(take("initialize_name"), "initialize_name")?;
            let other = take("response_name");
            let request = text(take("request_name").or(other), "request_name")?;
            let name = RequestName { block, request };
            if !before.iter().any(|earlier| earlier.name == name) {
                return Err(refuse("no request of that name comes before".to_owned()));
            }
            let selector = match take("field_selector") {
                Some(Json::String(field)) => vec![field],
                Some(Json::Array(fields)) => {
                    let fields = fields.iter().map(|field| field.as_str().map(str::to_owned));
                    fields.collect::<Option<Vec<_>>>().unwrap_or_default()
                }
                _ => Vec::new(),
            };
            if selector.is_empty() {
                return Err(refuse("a source needs field_selector, a name or several".to_owned()));
            }
            match source.as_str() {
                "request" => ValueSource::Request(name, selector),
                _ => ValueSource::Response(name, selector),
            }
        }
        _ => {
            return Err(refuse("expected an eval_source of: env, file, request, response".into()));
        }
    };
    match fields.keys().next() {
        Some(unknown) => Err(refuse(format!("a source of this kind has no {unknown}"))),
        None => Ok(InitValue::Evaluated { form: *form, source }),
    }
}
