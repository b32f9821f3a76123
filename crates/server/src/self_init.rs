//! What `initialize` of the configuration asks for: a server on empty storage initialises itself, makes the requests in their order with the root
//! token, and revokes that token. It happens before anybody can reach the server, and once: storage that is initialised is left as it is.
//!
//! Values of the environment and of files are read first, so that what is missing keeps anything from being made. A request that fails ends the
//! start, after the root token was revoked. The storage stays initialised then; who mends the configuration empties it. Until all requests ran the
//! storage says so: whoever starts the server again, a service manager for one, does not get one that holds a part of what it was to hold.
//!
//! Invariants:
//! - Nobody sees the root token. It is revoked whatever happens, and where that fails the start says so.
//! - Nobody is given a share of the recovery key: it is made, as every seal has one, and thrown away.
//! - No value is in an error or a line of the log: an error names the request and where it stands.

use std::collections::BTreeMap;
use std::time::Duration;

use kallisto_command::config::Environment;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::json::{Json, Map, parse};
use kallisto_core::{BodyKind, Core, InitSpec, Operation, Path, Request, Response, TokenText};
use kallisto_listener::{SystemClock, WallClock};
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::config::{EvaluatedForm, InitRequest, InitValue, OPERATIONS, RequestName, ValueSource};

/// Between two looks whether this server can write, or another has initialised what they share.
const PAUSE: Duration = Duration::from_millis(200);
/// Looks before the start fails.
const LOOKS_MAX: u32 = 150;

/// What was asked and answered so far: values, as later requests may name them.
type InitHistory = BTreeMap<RequestName, (Json, Json)>;

/// Initialises the server as the configuration says, if its storage is empty.
///
/// # Errors
/// Which request failed and why; what is missing for one.
pub(super) fn run(
    core: &Core,
    requests: &[InitRequest],
    environment: &Environment<'_>,
) -> Result<(), Error> {
    let blank = || core.is_blank().map_err(|error| Error::usage(format!("initialize: {error}")));
    if requests.is_empty() {
        note_half_set_up(core);
        return Ok(());
    }
    if !blank()? {
        return check_set_up(core);
    }
    let requests: Vec<_> = requests
        .iter()
        .map(|request| ReadyRequest::of(request, environment))
        .collect::<Result<_, _>>()?;
    let spec = InitSpec { shares: 1, threshold: 1, root_token: None, mount_kv: None };
    let mut looks = 0;
    let made = loop {
        match pollster::block_on(core.initialize_to_set_up(&spec, SystemClock.now())) {
            Ok(made) => break made,
            // Another server of a database was faster, or leads and will be.
            Err(_) if !blank()? => return check_set_up(core),
            Err(kallisto_core::Error::NotLeader) if looks < LOOKS_MAX => {
                looks += 1;
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(Error::usage(format!("initialize: {error}"))),
        }
    };
    let ran = run_all(core, &requests, &made.root_token);
    let revoked = revoke(core, &made.root_token);
    match (&ran, revoked) {
        (_, Err(why)) => Err(Error::usage(format!(
            "initialize: the root token could not be revoked: {why}. Empty the storage before it is used"
        ))),
        (Err(why), Ok(())) => Err(Error::usage(format!(
            "{why}. The storage is initialised and its root token revoked: mend this and start again on empty storage"
        ))),
        (Ok(()), Ok(())) => {
            let ended = pollster::block_on(core.end_set_up());
            ended.map_err(|error| Error::usage(format!("initialize: {error}")))?;
            tracing::info!(
                requests = requests.len(),
                "initialised as the configuration says; the root token is revoked"
            );
            Ok(())
        }
    }
}

/// Says of storage that a first start was to set up, and did not to its end, that it holds a part of that. Who took the stanzas out chose to
/// go on with it, so what cannot be read yet ends no start.
fn note_half_set_up(core: &Core) {
    if core.is_half_set_up().unwrap_or(false) {
        tracing::warn!(
            "a first start initialised this storage, and its requests did not all run: it holds a part of what the configuration said then"
        );
    }
}

/// Refuses storage whose requests did not all run. A server that shares it may be at them.
fn check_set_up(core: &Core) -> Result<(), Error> {
    let is_half =
        || core.is_half_set_up().map_err(|error| Error::usage(format!("initialize: {error}")));
    let is_shared = core.store().replicated().is_some_and(|cluster| cluster.shares_records());
    let mut looks = 0;
    while is_half()? {
        if !is_shared || looks == LOOKS_MAX {
            return Err(Error::usage(
                "initialize: the storage was initialised, and its requests did not all run: the log of that start names the one that failed, or the \
                 server was killed in between. Start again on empty storage; without the stanzas the server starts with what there is",
            ));
        }
        looks += 1;
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn run_all(core: &Core, requests: &[ReadyRequest], root: &SecretString) -> Result<(), String> {
    let mut history = InitHistory::new();
    for request in requests {
        request.run(core, root, &mut history)?;
    }
    Ok(())
}

fn revoke(core: &Core, root: &SecretString) -> Result<(), String> {
    let path = Path::literal("auth/token/revoke-self").map_err(|error| error.to_string())?;
    let mut request = Request::new(Operation::Update, path, SystemClock.now());
    request.token = Some(TokenText::new(root.expose_secret()));
    request.body = b"{}";
    pollster::block_on(core.handle(&request)).map(drop).map_err(|error| error.to_string())
}

/// A request whose values of the environment and of files are there.
struct ReadyRequest {
    name: RequestName,
    place: String,
    operation: Prepared,
    path: Prepared,
    token: Option<Prepared>,
    data: Option<Prepared>,
    allow_failure: Option<Prepared>,
}

/// A value that is there, or is a field of what was asked or answered before.
enum Prepared {
    Known(Json),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
    Earlier { form: EvaluatedForm, name: RequestName, selector: Vec<String>, is_answer: bool },
}

impl ReadyRequest {
    fn of(request: &InitRequest, environment: &Environment<'_>) -> Result<Self, Error> {
        let read = |value: &InitValue| {
            prepare(value, environment)
                .map_err(|why| Error::usage(failed(&request.place, &request.name, &why)))
        };
        let maybe = |value: &Option<InitValue>| value.as_ref().map(read).transpose();
        Ok(Self {
            name: request.name.clone(),
            place: request.place.clone(),
            operation: read(&request.operation)?,
            path: read(&request.path)?,
            token: maybe(&request.token)?,
            data: maybe(&request.data)?,
            allow_failure: maybe(&request.allow_failure)?,
        })
    }

    fn run(
        &self,
        core: &Core,
        root: &SecretString,
        history: &mut InitHistory,
    ) -> Result<(), String> {
        let told = |why: &str| failed(&self.place, &self.name, why);
        let take = |value: &Prepared| value.take(history).map_err(|why| told(&why));
        let text = |value: &Prepared| match take(value)? {
            Json::String(text) => Ok(Zeroizing::new(text)),
            _ => Err(told("expected text")),
        };
        let word = text(&self.operation)?;
        let operation = OPERATIONS.iter().find(|(known, _)| *known == word.as_str());
        let Some((_, operation)) = operation else { return Err(told("no such operation")) };
        let path = text(&self.path)?;
        let token = self.token.as_ref().map(text).transpose()?;
        let data = self.data.as_ref().map(take).transpose()?.unwrap_or_else(|| Map::new().into());
        let Json::Object(data) = data else { return Err(told("data has to be a map")) };
        let may_fail = match self.allow_failure.as_ref().map(take).transpose()? {
            None => false,
            Some(Json::Bool(truth)) => truth,
            Some(_) => return Err(told("allow_failure has to be true or false")),
        };
        let root = root.expose_secret();
        let token = token.as_ref().map_or(root, |token| token.as_str());
        let answer = ask(core, *operation, &path, token, &data);
        tracing::debug!(
            block = self.name.block,
            request = self.name.request,
            good = answer.is_ok(),
            "asked as the configuration says"
        );
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) if may_fail => {
                tracing::warn!("{}; going on, as allow_failure says", told(&why));
                Json::Null
            }
            Err(why) => return Err(told(&why)),
        };
        let asked = Json::object([
            ("operation", word.as_str().into()),
            ("path", path.as_str().into()),
            ("data", Json::Object(data)),
        ]);
        history.insert(self.name.clone(), (asked, answer));
        Ok(())
    }
}

fn failed(place: &str, RequestName { block, request }: &RequestName, why: &str) -> String {
    format!("{place}: initialize {block:?} request {request:?}: {why}")
}

/// Makes one request; what it answers, as it is on the wire.
fn ask(
    core: &Core,
    operation: Operation,
    path: &str,
    token: &str,
    data: &Map,
) -> Result<Json, String> {
    let path = Path::literal(path.trim_start_matches('/')).map_err(|error| error.to_string())?;
    let mut request = Request::new(operation, path, SystemClock.now());
    request.token = Some(TokenText::new(token));
    let body = Zeroizing::new(Json::Object(data.clone()).to_text());
    match operation {
        Operation::Update | Operation::Recover => request.body = &body,
        Operation::Patch => {
            request.body = &body;
            request.body_kind = BodyKind::MergePatch;
        }
        // These have no body: what they are given stands in the query.
        Operation::Read | Operation::List | Operation::Scan | Operation::Delete => {
            let plain = |value: &Json| match value {
                Json::String(text) => text.clone(),
                other => String::from_utf8_lossy(&other.to_text()).into_owned(),
            };
            request.query = data.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
        }
    }
    let answer = pollster::block_on(core.handle(&request)).map_err(|error| error.to_string())?;
    let logical = match answer {
        Response::Empty | Response::MissingEmpty => return Ok(Json::Null),
        Response::Logical(logical) | Response::Accepted(logical) | Response::Merged(logical) => {
            logical
        }
        Response::Bare { code: 200..=299, body } => return Ok(body),
        Response::Text { code: 200..=299, body, .. } => {
            return Ok(String::from_utf8_lossy(&body).into_owned().into());
        }
        Response::WithStatus { code, .. } | Response::Bare { code, .. } => {
            return Err(format!("it answers {code}"));
        }
        Response::Missing(_) => return Err("it answers 404".to_owned()),
        _ => return Err("its answer is none that a configuration could use".to_owned()),
    };
    let member = |text: &[u8]| match text.is_empty() {
        true => Ok(Json::Null),
        false => parse(text).map_err(|error| error.to_string()),
    };
    Ok(Json::object([
        ("data", member(&logical.data)?),
        ("auth", member(&logical.auth)?),
        ("wrap_info", member(&logical.wrap_info)?),
        ("warnings", Json::strings(logical.warnings)),
    ]))
}

/// Reads what a value needs of the environment and of files.
fn prepare(value: &InitValue, environment: &Environment<'_>) -> Result<Prepared, String> {
    let (form, source) = match value {
        InitValue::Literal(literal) => return Ok(Prepared::Known(literal.clone())),
        InitValue::List(items) => {
            let items = items.iter().map(|item| prepare(item, environment));
            return items.collect::<Result<_, _>>().map(Prepared::List);
        }
        InitValue::Map(members) => {
            let members = members
                .iter()
                .map(|(name, value)| Ok((name.clone(), prepare(value, environment)?)));
            return members.collect::<Result<_, String>>().map(Prepared::Map);
        }
        InitValue::Evaluated { form, source } => (*form, source),
    };
    let (name, selector, is_answer) = match source {
        ValueSource::Environment { name, is_required } => {
            let found = environment.plain(name).map(Zeroizing::new);
            return match found {
                None if *is_required => Err(format!("{name} is not in the environment")),
                found => shaped_text(form, &found.unwrap_or_default()).map(Prepared::Known),
            };
        }
        ValueSource::File(path) => {
            let place = path.display();
            let bytes = files::read(path).map(Zeroizing::new);
            let bytes = bytes.map_err(|error| format!("{place}: {error}"))?;
            let text = std::str::from_utf8(&bytes).map_err(|error| format!("{place}: {error}"))?;
            return shaped_text(form, text).map(Prepared::Known);
        }
        ValueSource::Request(name, selector) => (name, selector, false),
        ValueSource::Response(name, selector) => (name, selector, true),
    };
    Ok(Prepared::Earlier { form, name: name.clone(), selector: selector.clone(), is_answer })
}

impl Prepared {
    fn take(&self, history: &InitHistory) -> Result<Json, String> {
        match self {
            Self::Known(value) => Ok(value.clone()),
            Self::List(items) => items
                .iter()
                .map(|item| item.take(history))
                .collect::<Result<_, _>>()
                .map(Json::Array),
            Self::Map(members) => members
                .iter()
                .map(|(name, value)| Ok((name.clone(), value.take(history)?)))
                .collect::<Result<Map, String>>()
                .map(Json::Object),
            Self::Earlier { form, name, selector, is_answer } => {
                let (asked, answered) =
                    history.get(name).ok_or("an earlier request did not run")?;
                let mut found = if *is_answer { answered } else { asked };
                for field in selector {
                    let inner = found.as_object().and_then(|map| map.get(field));
                    found = inner.ok_or_else(|| format!("there is no {}", selector.join(".")))?;
                }
                match found {
                    Json::String(text) => shaped_text(*form, text),
                    other => shaped(*form, other.clone()),
                }
            }
        }
    }
}

/// A text as what it has to be.
fn shaped_text(form: EvaluatedForm, text: &str) -> Result<Json, String> {
    match form {
        EvaluatedForm::Text | EvaluatedForm::Any => Ok(text.into()),
        _ => {
            let parsed = parse(text.trim().as_bytes());
            shaped(form, parsed.map_err(|_| unlike(form))?)
        }
    }
}

/// A value as what it has to be.
fn shaped(form: EvaluatedForm, value: Json) -> Result<Json, String> {
    let fits = match (&value, form) {
        (_, EvaluatedForm::Any)
        | (Json::String(_), EvaluatedForm::Text)
        | (Json::Number(_), EvaluatedForm::Number)
        | (Json::Bool(_), EvaluatedForm::Truth)
        | (Json::Object(_), EvaluatedForm::Map) => true,
        (Json::Number(text), EvaluatedForm::Whole) => text.parse::<i64>().is_ok(),
        (Json::Array(items), EvaluatedForm::Texts) => {
            items.iter().all(|item| item.as_str().is_some())
        }
        (Json::Number(_) | Json::Bool(_), EvaluatedForm::Text) => {
            return Ok(String::from_utf8_lossy(&value.to_text()).into_owned().into());
        }
        _ => false,
    };
    if fits { Ok(value) } else { Err(unlike(form)) }
}

fn unlike(form: EvaluatedForm) -> String {
    let wanted = match form {
        EvaluatedForm::Text => "text",
        EvaluatedForm::Whole => "a whole number",
        EvaluatedForm::Number => "a number",
        EvaluatedForm::Truth => "true or false",
        EvaluatedForm::Texts => "a list of texts",
        EvaluatedForm::Map => "a map",
        EvaluatedForm::Any => "a value",
    };
    format!("a value is not what its eval_type says: {wanted}")
}

#[cfg(test)]
mod tests;
