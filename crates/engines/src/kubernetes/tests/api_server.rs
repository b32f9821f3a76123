//! A stand-in for the API server of a cluster, which refuses, hangs, lies and answers half when it is told to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use data_encoding::BASE64URL_NOPAD;
use kallisto_api::json::{self, Json, Map};
use kallisto_engine::far_end::{FarEndProtocol, HttpLogin, HttpWorkAnswer, HttpWorkVerb};
use kallisto_engine::{FarEndAnswer, FarEndCall, FarEndFailure, FarEndWork};
use secrecy::ExposeSecret;

/// The token that is good.
pub(super) const TOKEN: &str = "a-canary-of-a-service-account-token";

/// What it does with a request, instead of what it is asked.
#[derive(Clone, Debug)]
pub(super) enum Mood {
    /// What it is asked.
    Good,
    /// It is not reached.
    Unreachable,
    /// It refuses with this status, as an API server does.
    Refuses(u16),
    /// A proxy answers in its stead.
    Proxy(u16),
    /// It does nothing and does not answer.
    Hangs,
    /// It does what it is asked and does not answer.
    DoesAndHangs,
    /// It does not answer, and does it when [`ApiServer::catch_up`] says so.
    DoesLater,
    /// It does what it is asked, and answers with this.
    Says(&'static str),
}

#[derive(Default)]
struct World {
    /// By path.
    objects: BTreeMap<String, Json>,
    moods: VecDeque<Mood>,
    /// Every request: the verb and the path, without the query.
    asked: Vec<String>,
    late: Vec<(String, Json)>,
    uids: u64,
    /// The life of a token, whatever is asked; as asked when 0.
    token_secs: i64,
    /// The last request for a token.
    token_spec: Map,
}

#[derive(Default)]
pub(super) struct ApiServer(Mutex<World>);

impl ApiServer {
    /// Says what happens to the next requests, one after another.
    pub(super) fn feels(&self, moods: &[Mood]) {
        self.0.lock().unwrap().moods = moods.iter().cloned().collect();
    }

    /// Puts an object that somebody else made.
    pub(super) fn put(&self, path: &str, object: &str) {
        let object = json::parse_object(object.as_bytes()).unwrap();
        self.0.lock().unwrap().objects.insert(path.to_owned(), object.into());
    }

    pub(super) fn paths(&self) -> Vec<String> {
        self.0.lock().unwrap().objects.keys().cloned().collect()
    }

    pub(super) fn object(&self, path: &str) -> Json {
        self.0.lock().unwrap().objects[path].clone()
    }

    /// What was asked since the last look.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }

    /// Does what it was asked and did not answer.
    pub(super) fn catch_up(&self) {
        let mut world = self.0.lock().unwrap();
        let late = std::mem::take(&mut world.late);
        world.objects.extend(late);
    }

    pub(super) fn gives_tokens_for(&self, secs: i64) {
        self.0.lock().unwrap().token_secs = secs;
    }

    pub(super) fn token_spec(&self) -> Map {
        self.0.lock().unwrap().token_spec.clone()
    }

    /// Answers a call.
    pub(super) fn answer(&self, call: &FarEndCall) -> Result<FarEndAnswer, FarEndFailure> {
        let FarEndWork::Http(work) = &call.work else { panic!("{:?}", call.work) };
        let FarEndProtocol::Http { login: HttpLogin::Bearer(token) } = &call.far_end.protocol
        else {
            panic!()
        };
        let mut world = self.0.lock().unwrap();
        let path = work.path.split('?').next().unwrap().to_owned();
        world.asked.push(format!("{:?} {path}", work.verb));
        let mood = world.moods.pop_front().unwrap_or(Mood::Good);
        let hangs = || Err(FarEndFailure::Unknown("it did not answer in time".into()));
        let (status, body) = match mood {
            Mood::Unreachable => {
                return Err(FarEndFailure::Unreachable("connection refused".into()));
            }
            Mood::Hangs => return hangs(),
            Mood::Refuses(status) => (status, refusal(status, "told to")),
            Mood::Proxy(status) => (status, b"<html>Not here</html>".to_vec()),
            _ if token.expose_secret() != TOKEN => (401, refusal(401, "Unauthorized")),
            Mood::DoesLater => {
                let (path, object) = world.planned(&path, &work.body);
                world.late.push((path, object));
                return hangs();
            }
            Mood::Good => world.act(work.verb, &path, &work.body),
            Mood::DoesAndHangs => {
                world.act(work.verb, &path, &work.body);
                return hangs();
            }
            Mood::Says(text) => {
                let (status, _) = world.act(work.verb, &path, &work.body);
                (status, text.as_bytes().to_vec())
            }
        };
        Ok(FarEndAnswer::Http(HttpWorkAnswer { status, body }))
    }
}

fn refusal(status: u16, message: &str) -> Vec<u8> {
    let reason = if status == 404 { "NotFound" } else { "Forbidden" };
    let body = Json::object([
        ("kind", "Status".into()),
        ("status", "Failure".into()),
        ("reason", reason.into()),
        ("message", format!("{message}; the token was {TOKEN}").into()),
    ]);
    body.to_text()
}

impl World {
    fn planned(&mut self, folder: &str, body: &[u8]) -> (String, Json) {
        let mut object = json::parse_object(body).unwrap();
        let Some(Json::Object(metadata)) = object.get_mut("metadata") else { panic!("metadata") };
        self.uids += 1;
        metadata.insert("uid".into(), format!("uid-{}", self.uids).into());
        let name = metadata["name"].as_str().unwrap();
        (format!("{folder}/{name}"), object.into())
    }

    fn act(&mut self, verb: HttpWorkVerb, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        match verb {
            HttpWorkVerb::Get if path == "/version" => (200, br#"{"major":"1"}"#.to_vec()),
            HttpWorkVerb::Get => match self.objects.get(path) {
                Some(object) => (200, object.to_text()),
                None => (404, refusal(404, "not found")),
            },
            HttpWorkVerb::Delete => match self.objects.remove(path) {
                Some(object) => (200, object.to_text()),
                None => (404, refusal(404, "not found")),
            },
            HttpWorkVerb::Post if path.ends_with("/token") => self.token(path, body),
            HttpWorkVerb::Post => {
                let (path, object) = self.planned(path, body);
                if self.objects.contains_key(&path) {
                    return (409, refusal(409, "already exists"));
                }
                self.objects.insert(path, object.clone());
                (201, object.to_text())
            }
            HttpWorkVerb::Put => panic!("nothing of a cluster is put"),
        }
    }

    fn token(&mut self, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        if !self.objects.contains_key(path.strip_suffix("/token").unwrap()) {
            return (404, refusal(404, "serviceaccounts not found"));
        }
        let request = json::parse_object(body).unwrap();
        self.token_spec = request["spec"].as_object().unwrap().clone();
        let asked = kallisto_api::Fields::new(&self.token_spec).int("expirationSeconds");
        let secs = if self.token_secs > 0 { self.token_secs } else { asked.unwrap().unwrap() };
        let claims = format!(r#"{{"iat":1000,"exp":{}}}"#, 1000 + secs);
        let claims = BASE64URL_NOPAD.encode(claims.as_bytes());
        (
            201,
            format!(r#"{{"kind":"TokenRequest","status":{{"token":"e30.{claims}.c2ln"}}}}"#)
                .into_bytes(),
        )
    }
}
