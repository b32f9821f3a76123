//! Stands in for the servers at which engines make credentials: an API server of Kubernetes, a broker, databases. They do what they are
//! asked, but for what no database can do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use kallisto_core::ServerInfo;
use kallisto_core::json::{self, Json};
use kallisto_engine::far_end::{
    FarEndProgress, FarEndProtocol, FarEndStatus, HttpLogin, HttpWork, HttpWorkAnswer,
    HttpWorkVerb, RedisReply,
};
use kallisto_engine::{BoxFuture, FarEndAnswer, FarEndCall, FarEndFailure, FarEndWork, FarEnds};
use kallisto_store::MemoryStore;
use secrecy::ExposeSecret;

use crate::directory::Directory;
use crate::support::{Running, whole_core};

/// How long a token of a service account lives, whatever is asked, in seconds.
const TOKEN_SECS: u64 = 600;

/// The servers.
#[derive(Default)]
pub(crate) struct StandIns {
    /// Objects of the cluster by their paths, and users of the broker.
    there: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Calls that were begun.
    begun: Mutex<BTreeMap<String, FarEndCall>>,
    directory: Mutex<Directory>,
}

/// A server whose engines ask the stand-ins.
pub(crate) fn running() -> (Running, Arc<StandIns>) {
    let directory = Mutex::new(Directory::recorded());
    let stand_ins = Arc::new(StandIns { directory, ..StandIns::default() });
    stand_ins
        .put("/api/v1/namespaces/test", r#"{"metadata":{"name":"test","labels":{"team":"red"}}}"#);
    stand_ins.put("/api/v1/namespaces/test/serviceaccounts/sa", "{}");
    let core = whole_core(Arc::new(MemoryStore::new()), ServerInfo::default())
        .with_far_ends(Arc::clone(&stand_ins) as Arc<dyn FarEnds>);
    (Running::start_as(core, |service| service), stand_ins)
}

impl StandIns {
    fn put(&self, path: &str, object: &str) {
        self.there.lock().unwrap().insert(path.to_owned(), object.as_bytes().to_vec());
    }

    /// What there is.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.there.lock().unwrap().keys().cloned().collect()
    }

    fn act(&self, call: &FarEndCall) -> Result<FarEndAnswer, FarEndFailure> {
        if let FarEndProtocol::Ldap { login, .. } = &call.far_end.protocol {
            let work = match &call.work {
                FarEndWork::Ldap(work) => Some(work),
                _ => None,
            };
            return self.directory.lock().unwrap().act(&call.far_end, login, work);
        }
        match &call.work {
            FarEndWork::Check => Ok(FarEndAnswer::Done),
            FarEndWork::Sql(work) => {
                let is_nonsense = work
                    .statements
                    .iter()
                    .any(|it| it.expose_secret().contains("nonsense_function"));
                let words = "ERROR: function nonsense_function() does not exist (SQLSTATE 42883)";
                if is_nonsense {
                    Err(FarEndFailure::Refused(words.into()))
                } else {
                    Ok(FarEndAnswer::Done)
                }
            }
            FarEndWork::Redis(commands) => {
                let replies = commands.iter().map(|_| RedisReply::Text("OK".into()));
                Ok(FarEndAnswer::Replies(replies.collect()))
            }
            FarEndWork::Http(work) => {
                let answer = match &call.far_end.protocol {
                    FarEndProtocol::Http { login: HttpLogin::Basic(_) } => self.broker(work),
                    _ => self.api_server(work),
                };
                Ok(FarEndAnswer::Http(answer))
            }
            FarEndWork::Ldap(_) => panic!("a directory is asked by its own protocol"),
        }
    }

    fn api_server(&self, work: &HttpWork) -> HttpWorkAnswer {
        let path = work.path.split('?').next().unwrap();
        let mut there = self.there.lock().unwrap();
        let (status, body) = match work.verb {
            HttpWorkVerb::Get => (200, there[path].clone()),
            HttpWorkVerb::Delete => (200, there.remove(path).unwrap()),
            HttpWorkVerb::Put => panic!("nothing of a cluster is put"),
            HttpWorkVerb::Post => match path.strip_suffix("/token") {
                Some(account) => {
                    assert!(there.contains_key(account), "{account}");
                    let claims = format!(r#"{{"iat":1,"exp":{}}}"#, 1 + TOKEN_SECS);
                    let token = format!("e30.{}.", BASE64URL_NOPAD.encode(claims.as_bytes()));
                    (201, format!(r#"{{"status":{{"token":"{token}"}}}}"#).into_bytes())
                }
                None => {
                    let mut object = json::parse_object(&work.body).unwrap();
                    let Some(Json::Object(metadata)) = object.get_mut("metadata") else {
                        panic!("an object without metadata")
                    };
                    metadata.insert("uid".into(), "11111111-2222-3333-4444-555555555555".into());
                    let path = format!("{path}/{}", metadata["name"].as_str().unwrap());
                    let body = Json::Object(object).to_text();
                    there.insert(path, body.clone());
                    (201, body)
                }
            },
        };
        HttpWorkAnswer { status, body }
    }

    /// The management interface of a broker.
    fn broker(&self, work: &HttpWork) -> HttpWorkAnswer {
        let path = work.path.strip_prefix("/api/").unwrap();
        let mut there = self.there.lock().unwrap();
        let is_there = there.contains_key(path);
        let status = match work.verb {
            HttpWorkVerb::Get if is_there || path == "whoami" => 200,
            HttpWorkVerb::Get => 404,
            HttpWorkVerb::Post => panic!("nothing of a broker is posted"),
            HttpWorkVerb::Put => {
                there.insert(path.to_owned(), work.body.clone());
                201
            }
            HttpWorkVerb::Delete => {
                // A user's permissions go with it.
                let user = path.rsplit('/').next().unwrap().to_owned();
                there.retain(|path, _| !path.ends_with(&user));
                if is_there { 204 } else { 404 }
            }
        };
        HttpWorkAnswer { status, body: b"{}".to_vec() }
    }
}

impl FarEnds for StandIns {
    fn ask(&self, call: FarEndCall) -> BoxFuture<'_, Result<FarEndAnswer, FarEndFailure>> {
        let answer = self.act(&call);
        Box::pin(std::future::ready(answer))
    }

    fn begin(&self, id: &str, call: FarEndCall) -> bool {
        self.begun.lock().unwrap().insert(id.to_owned(), call);
        true
    }

    fn take(&self, id: &str) -> FarEndProgress {
        match self.begun.lock().unwrap().remove(id) {
            Some(call) => FarEndProgress::Ended(self.act(&call)),
            None => FarEndProgress::Unknown,
        }
    }

    fn close(&self, _: &str, _: Option<&str>) {}

    fn check(&self, _: &str, _: &str) -> BoxFuture<'_, Result<(), FarEndFailure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn statuses(&self) -> Vec<FarEndStatus> {
        Vec::new()
    }

    fn pause(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
