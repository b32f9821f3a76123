//! One of the two servers, asked for one thing at a time. In the place of the source may be a snapshot, which answers reads as its server would have.
//!
//! Namespaces are said in front of the path, which Vault, OpenBao and Kallisto take alike. What comes of a failed request is decided here: the server
//! refused one item and the pass goes on ([`ItemFailure::Item`], [`ItemFailure::Denied`]), or nobody answers and it cannot ([`ItemFailure::Fatal`]).

use super::snapshot::SnapshotSource;
use kallisto_command::client::error::ClientError;
use kallisto_command::client::url;
use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// Tries of a write that may be done twice, when the connection broke.
const WRITE_TRIES: usize = 5;

/// The status of what a token may not.
const DENIED: u16 = 403;

/// A server and a word for it.
pub(super) struct Endpoint<'a> {
    name: &'static str,
    place: EndpointPlace<'a>,
}

/// Where answers come from.
enum EndpointPlace<'a> {
    Server(Client<'a>),
    Snapshot(Box<SnapshotSource>),
}

/// Why something was not done.
pub(super) enum ItemFailure {
    /// This one thing: the server said so, or it cannot be.
    Item(String),
    /// This one thing: the token may not. Whether it is there is not known then.
    Denied(String),
    /// Nothing more can be done.
    Fatal(Error),
}

impl ItemFailure {
    /// Why, for the report.
    pub(super) fn text(self) -> String {
        match self {
            Self::Item(why) | Self::Denied(why) => why,
            Self::Fatal(error) => error.to_string(),
        }
    }
}

impl From<Error> for ItemFailure {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// The two clusters by their ids, as far as they tell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClusterPair {
    pub(super) source: String,
    pub(super) target: String,
}

/// Asks both servers who they are.
///
/// # Errors
/// One is not reached or sealed, does not have the namespace, or both are one cluster.
pub(super) fn identify(source: &Endpoint<'_>, target: &Endpoint<'_>) -> Result<ClusterPair, Error> {
    let ends = ClusterPair { source: source.cluster()?, target: target.cluster()? };
    if !ends.source.is_empty() && ends.source == ends.target && source.is_at_same_namespace(target)
    {
        return Err(Error::usage(
            "source and target are one cluster, and the same namespace of it",
        ));
    }
    source.check_namespace()?;
    target.check_namespace()?;
    Ok(ends)
}

impl<'a> Endpoint<'a> {
    pub(super) const fn new(name: &'static str, client: Client<'a>) -> Self {
        Self { name, place: EndpointPlace::Server(client) }
    }

    /// A snapshot in the place of the source.
    pub(super) fn of_snapshot(snapshot: SnapshotSource) -> Self {
        Self { name: "snapshot", place: EndpointPlace::Snapshot(Box::new(snapshot)) }
    }

    /// The snapshot, if this is one: it tells more than an API.
    pub(super) fn snapshot(&self) -> Option<&SnapshotSource> {
        match &self.place {
            EndpointPlace::Snapshot(snapshot) => Some(snapshot),
            EndpointPlace::Server(_) => None,
        }
    }

    /// Whether both are servers and asked in one namespace.
    fn is_at_same_namespace(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (EndpointPlace::Server(one), EndpointPlace::Server(other)) => {
                one.namespace() == other.namespace()
            }
            _ => false,
        }
    }

    /// The id of the cluster; empty where the server does not say.
    fn cluster(&self) -> Result<String, Error> {
        let client = match &self.place {
            EndpointPlace::Server(client) => client,
            EndpointPlace::Snapshot(snapshot) => return Ok(snapshot.cluster()),
        };
        let doing = format!("asking the {} who it is", self.name);
        let answer = client.send(&ClientRequest::get("sys/seal-status"));
        let status = answer.map_err(Error::doing(doing))?.unwrap_or_default();
        if status.datum("sealed") == Some(&Json::Bool(true)) {
            return Err(Error::Unusable(format!(
                "the {} is sealed: it must be unsealed first",
                self.name
            )));
        }
        Ok(status.datum("cluster_id").and_then(Json::as_str).unwrap_or_default().to_owned())
    }

    /// Checks that the namespace asked in is there, by what every token may ask.
    fn check_namespace(&self) -> Result<(), Error> {
        if self.snapshot().is_some() {
            return Ok(());
        }
        match self.read("", "sys/internal/ui/mounts") {
            Ok(_) | Err(ItemFailure::Denied(_)) => Ok(()),
            Err(ItemFailure::Item(why)) => Err(Error::Unusable(why)),
            Err(ItemFailure::Fatal(error)) => Err(error),
        }
    }

    /// What is at a path of a namespace; `None` when nothing is, which no server says of an unknown namespace or mount.
    pub(super) fn read(&self, namespace: &str, path: &str) -> Result<Option<Map>, ItemFailure> {
        if let Some(snapshot) = self.snapshot() {
            return snapshot.read(namespace, path, None);
        }
        self.send(&ClientRequest::get(&in_namespace(namespace, path)))
    }

    /// A version of a secret.
    pub(super) fn read_version(
        &self,
        namespace: &str,
        path: &str,
        version: &str,
    ) -> Result<Option<Map>, ItemFailure> {
        if let Some(snapshot) = self.snapshot() {
            return snapshot.read(namespace, path, Some(version));
        }
        let query = ("version", version.to_owned());
        let request = ClientRequest::get(&in_namespace(namespace, path));
        self.send(&request.with_query(query.0, query.1))
    }

    /// The names at a path of a namespace; none when nothing is there.
    pub(super) fn list(&self, namespace: &str, path: &str) -> Result<Vec<String>, ItemFailure> {
        if let Some(snapshot) = self.snapshot() {
            return snapshot.list(namespace, path);
        }
        let data = self.send(&ClientRequest::list(&in_namespace(namespace, path)))?;
        let keys = data.and_then(|mut data| data.remove("keys"));
        let Some(Json::Array(keys)) = keys else { return Ok(Vec::new()) };
        Ok(keys.iter().filter_map(Json::as_str).map(str::to_owned).collect())
    }

    /// Writes something that may be written twice.
    pub(super) fn write(
        &self,
        namespace: &str,
        path: &str,
        body: Map,
    ) -> Result<Option<Map>, ItemFailure> {
        let request = ClientRequest::new(Method::Post, &in_namespace(namespace, path));
        let request = request.with_body(&Json::Object(body));
        let mut tried = 0;
        loop {
            tried += 1;
            match self.server()?.send(&request) {
                Err(ClientError::Transport { .. }) if tried < WRITE_TRIES => {}
                answer => return self.data(answer),
            }
        }
    }

    /// Deletes what is at a path of a namespace.
    pub(super) fn delete(&self, namespace: &str, path: &str) -> Result<(), ItemFailure> {
        self.send(&ClientRequest::new(Method::Delete, &in_namespace(namespace, path))).map(drop)
    }

    fn send(&self, request: &ClientRequest) -> Result<Option<Map>, ItemFailure> {
        self.data(self.server()?.send(request))
    }

    /// The server, where there is one. Nothing but reads is asked of a snapshot.
    fn server(&self) -> Result<&Client<'a>, ItemFailure> {
        match &self.place {
            EndpointPlace::Server(client) => Ok(client),
            EndpointPlace::Snapshot(_) => {
                Err(ItemFailure::Item("nothing is written to a snapshot".to_owned()))
            }
        }
    }

    fn data(
        &self,
        answer: Result<Option<kallisto_command::secret::Secret>, ClientError>,
    ) -> Result<Option<Map>, ItemFailure> {
        match answer {
            Ok(secret) => Ok(secret.and_then(|secret| secret.data)),
            Err(ClientError::Api(error)) if error.status == DENIED => {
                Err(ItemFailure::Denied(format!("the {} said to {}", self.name, error.summary())))
            }
            Err(ClientError::Api(error)) if matches!(error.status, 400..=411 | 413..=428 | 500) => {
                Err(ItemFailure::Item(format!("the {} said to {}", self.name, error.summary())))
            }
            Err(error) => {
                let doing = format!("asking the {}; the same command goes on from here", self.name);
                Err(ItemFailure::Fatal(Error::doing(doing)(error)))
            }
        }
    }
}

/// Checks a path of the target as the target does.
///
/// # Errors
/// It refuses whatever is asked there, so nothing can be moved to it.
pub(super) fn check_target_path(namespace: &str, path: &str) -> Result<(), ItemFailure> {
    match url::Path::literal(&in_namespace(namespace, path)) {
        Ok(_) => Ok(()),
        Err(why) => Err(ItemFailure::Item(format!("the target does not take its path: {why}"))),
    }
}

fn in_namespace(namespace: &str, path: &str) -> String {
    format!("{namespace}{path}")
}
