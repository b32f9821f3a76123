//! The cluster port, and the requests to other servers that joining needs; the binary implements it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use kallisto_store::{MemberRole, Peer};
use secrecy::SecretString;
use zeroize::Zeroizing;

use crate::api::json::Json;

/// Whom to join, and how to reach it.
#[derive(Clone, Debug, Default)]
pub struct JoinTarget {
    /// Whether a request says so, and not the server's configuration, which may name any address. A request comes from anybody who reaches a
    /// listener of a new server: [`ClusterPort::ask`] bounds where that leads, and the answer does not tell what was found there.
    pub is_requested: bool,
    /// URL of the API of a member.
    pub api_address: String,
    /// PEM text of the authority to trust for it; empty for those of the system.
    pub ca_cert: String,
    /// PEM text of the certificate to show it, and of its key.
    pub client_identity: Option<(String, String)>,
    /// A token that an operator of the cluster made for this, where it wants one; empty for none.
    pub token: SecretString,
    /// Name its certificate must carry.
    pub server_name: Option<String>,
    /// Whether this server is to have a vote.
    pub wants: MemberRole,
}

/// The cluster's authority: its certificate, and its private key.
pub struct AuthorityKeys {
    /// The certificate, DER.
    pub certificate: Vec<u8>,
    /// The private key, PKCS #8.
    pub key: Zeroizing<Vec<u8>>,
}

/// Who this server is to its peers, once the cluster says so.
#[derive(Debug)]
pub struct Membership {
    /// Its number.
    pub node_id: u64,
    /// Which store the cluster keeps.
    pub store_id: [u8; 16],
    /// This server's certificate, DER, for the public key it gave.
    pub certificate: Vec<u8>,
    /// The authority's certificate, DER.
    pub authority: Vec<u8>,
}

/// What a member said of itself, and how long that took.
#[derive(Clone, Debug)]
pub struct MemberReport {
    /// What [`Core::member_report`](crate::Core::member_report) of it made.
    pub body: Vec<u8>,
    /// From the question to the answer.
    pub round_trip: Duration,
}

/// Reports to come, in the order of who was asked; `None` of a member that did not answer.
pub type Reports = Pin<Box<dyn Future<Output = Vec<Option<MemberReport>>> + Send>>;

/// The cluster port, and the errands outside that joining needs. Nothing here runs on a listener's thread, except what is
/// said to be quick.
pub trait ClusterPort: Send + Sync {
    /// Whether this server has a certificate. Quick.
    fn has_identity(&self) -> bool;

    /// This server as it wants to be known; its number is not looked at. Quick.
    fn own(&self) -> Peer;

    /// The public half of this server's key, which is made if there is none.
    ///
    /// # Errors
    /// What went wrong, without the key.
    fn public_key(&self) -> Result<Vec<u8>, String>;

    /// Keeps who this server is, and takes it into use.
    ///
    /// # Errors
    /// What went wrong.
    fn install(&self, membership: &Membership) -> Result<(), String>;

    /// The certificate of the authority that this server's own is of. Quick.
    fn authority(&self) -> Option<Vec<u8>>;

    /// Takes a new key into use, with what `issue` says of its public half. What breaks off leaves the old one or the new.
    ///
    /// # Errors
    /// What went wrong.
    fn renew(&self, issue: &dyn Fn(&[u8]) -> Result<Membership, String>) -> Result<(), String>;

    /// Makes an authority.
    ///
    /// # Errors
    /// What went wrong.
    fn make_authority(&self) -> Result<AuthorityKeys, String>;

    /// Issues a certificate.
    ///
    /// # Errors
    /// What went wrong.
    fn issue(
        &self,
        authority: &AuthorityKeys,
        node_id: u64,
        store_id: &[u8; 16],
        public_key: &[u8],
    ) -> Result<Vec<u8>, String>;

    /// Sends a request without a token to another server's API and gives the `data` of its answer. Where a request said
    /// whom to ask, it goes to servers only: no other scheme, path or address than one of those can have.
    ///
    /// # Errors
    /// What went wrong.
    fn ask(&self, target: &JoinTarget, path: &str, body: &Json) -> Result<Json, String>;

    /// Asks members how they are, all at once, and waits a bounded time.
    fn reports(&self, _of: &[u64]) -> Reports {
        Box::pin(std::future::ready(Vec::new()))
    }
}
