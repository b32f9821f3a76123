//! The leader's side of joining.

use aws_lc_rs::digest;
use data_encoding::BASE64;
use kallisto_store::{
    Batch, Error as StoreError, Member, MemberChange, MemberRole, Peer, PeerClash, Replicated,
    Seqno,
};
use zeroize::Zeroizing;

use super::token;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::cluster::protocol::ANSWER;
use crate::cluster::protocol::CHALLENGE;
use crate::cluster::protocol::NUMBER;
use crate::cluster::protocol::WELCOME;
use crate::cluster::protocol::covered;
use crate::cluster::protocol::peers_to_json;
use crate::cluster::quorum::member_name;
use crate::platform::cluster_port::AuthorityKeys;
use crate::platform::cluster_port::ClusterPort;
use crate::platform::cluster_port::Membership;
use crate::state::Core;
use crate::storage::keys;
use crate::view::NamespaceContext;

/// How long a challenge may be answered, in seconds.
const CHALLENGE_SECS_MAX: i64 = 120;
/// Bytes of a challenge before its tag: the time, and what makes it one of its kind.
const CHALLENGE_BYTES: usize = 8 + 16;
/// Tries to change the members while another change is under way.
const CHANGE_TRIES: usize = 50;

/// A challenge, and what an unseal key is tried on.
///
/// # Errors
/// [`Error::NotLeader`], [`Error::Sealed`], or what the store says.
pub(crate) fn challenge(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let context = leading(core)?;
    let mut challenge = request.now.as_second().to_le_bytes().to_vec();
    challenge.extend_from_slice(&crate::random::make_bytes::<16>()?);
    let tag = sign(&context, CHALLENGE, &[&challenge])?;
    challenge.extend_from_slice(&tag);
    let config = core.seal_config()?.ok_or(Error::Sealed)?;
    Ok(Response::data(&Json::object([
        ("challenge", BASE64.encode(&challenge).into()),
        ("seal", BASE64.encode(&config.encode()).into()),
    ])))
}

/// Takes a server in that answers a challenge.
///
/// # Errors
/// [`Error::Invalid`] when the answer is wrong, late or of a name that is taken.
pub(crate) async fn admit(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let context = leading(core)?;
    let port = core.port.as_deref().ok_or(Error::UnsupportedPath)?;
    let cluster = core.store.replicated().ok_or(Error::UnsupportedPath)?;
    let body = request.object()?;
    let asked = JoinClaim::read(Fields::new(&body))?;
    asked.check(&context, request.now.as_second())?;
    let store_id = cluster.store_id();
    let node_id = derive_number(&store_id, &asked.public_key);
    let peer = Peer { id: node_id, ..asked.peer };
    let members = cluster.members();
    // One that asks again used its token up the first time.
    let needs_token = is_new(&members, &peer)?;
    if needs_token {
        token::check(&context, &asked.token, request.now)?;
    }
    refuse_clash(&members, &peer)?;
    if needs_token {
        token::take(&context, &asked.token).await?;
    }
    let authority = ensure_authority(&context, port).await?;
    ensure_identity(core, &context).await?;
    let certificate =
        port.issue(&authority, node_id, &store_id, &asked.public_key).map_err(Error::invalid)?;
    change(core, vec![MemberChange::Put(peer, MemberRole::Learner)]).await?;
    let peers = cluster.members().into_iter().map(|member| member.peer).collect::<Vec<_>>();
    let peers = String::from_utf8(peers_to_json(&peers).to_text()).unwrap_or_default();
    let parts: [&[u8]; 6] = [
        &asked.challenge,
        &node_id.to_le_bytes(),
        &store_id,
        &certificate,
        &authority.certificate,
        peers.as_bytes(),
    ];
    let tag = sign(&context, WELCOME, &parts)?;
    Ok(Response::data(&Json::object([
        ("node_id", format!("{node_id:016x}").into()),
        ("store_id", BASE64.encode(&store_id).into()),
        ("certificate", BASE64.encode(&certificate).into()),
        ("authority", BASE64.encode(&authority.certificate).into()),
        ("peers", peers.into()),
        ("tag", BASE64.encode(&tag).into()),
    ])))
}

/// The number of the server that holds this key: the same each time it asks. Who asks for the number of another gets a certificate that
/// is worth nothing without that one's private key.
fn derive_number(store_id: &[u8; 16], public_key: &[u8]) -> u64 {
    let digest = digest::digest(&digest::SHA256, &covered(&[NUMBER, store_id, public_key]));
    let bytes = digest.as_ref().first_chunk::<8>().copied().unwrap_or_default();
    u64::from_le_bytes(bytes).max(1)
}

/// Whether a server is not a member yet; false for one that was taken in, and was sent nothing: it may not have heard the answer.
///
/// # Errors
/// [`Error::Invalid`] for any other member: it has lost what it was sent, so it may have forgotten what it voted.
fn is_new(members: &[Member], joiner: &Peer) -> Result<bool, Error> {
    match members.iter().find(|member| member.peer.id == joiner.id) {
        None => Ok(true),
        Some(Member { role: MemberRole::Learner, matched: 0, .. }) => Ok(false),
        Some(member) => Err(Error::invalid(format!(
            "a server with the key of this one is a member, {}: remove it first, or give this one an empty directory",
            member_name(&member.peer)
        ))),
    }
}

/// Refuses a server whose name or cluster address is that of a member.
fn refuse_clash(members: &[Member], joiner: &Peer) -> Result<(), Error> {
    let Some((what, by)) = joiner.clash(members.iter().map(|member| &member.peer)) else {
        return Ok(());
    };
    Err(Error::invalid(match what {
        PeerClash::Name => format!(
            "a server named {} is a member: remove it first, or give this one another node_id",
            joiner.name
        ),
        PeerClash::ClusterAddress => format!(
            "the member {} has the cluster_addr {}: remove it first, or give this one another",
            member_name(by),
            joiner.cluster_address
        ),
    }))
}

/// What a server that wants to join says.
struct JoinClaim {
    challenge: Vec<u8>,
    peer: Peer,
    public_key: Vec<u8>,
    tag: Vec<u8>,
    /// The join token it was given, or nothing.
    token: Zeroizing<String>,
}

impl JoinClaim {
    fn read(fields: Fields<'_>) -> Result<Self, Error> {
        let text = |name: &str| {
            fields.string(name)?.filter(|text| !text.is_empty()).ok_or_else(|| {
                Error::invalid(format!("missing {name}: this is no answer to a challenge"))
            })
        };
        let bytes = |name: &str| {
            let text = text(name)?;
            BASE64
                .decode(text.as_bytes())
                .map_err(|_| Error::invalid(format!("{name} is not base64")))
        };
        let wants = match fields.boolean("non_voter")?.unwrap_or(false) {
            true => MemberRole::Learner,
            false => MemberRole::Voter,
        };
        let peer = Peer {
            id: 0,
            name: text("name")?,
            cluster_address: text("cluster_address")?,
            api_address: fields.string("api_address")?.unwrap_or_default(),
            wants,
        };
        Ok(Self {
            challenge: bytes("challenge")?,
            peer,
            public_key: bytes("public_key")?,
            tag: bytes("tag")?,
            token: Zeroizing::new(fields.string("token")?.unwrap_or_default()),
        })
    }

    /// Whether the challenge is ours and fresh, and whether who answers holds the unseal key.
    fn check(&self, context: &NamespaceContext, now_secs: i64) -> Result<(), Error> {
        let refuse = || Error::invalid("the answer does not prove the unseal key");
        let limit = kallisto_store::PEER_TEXT_BYTES_MAX;
        let texts = [&self.peer.name, &self.peer.cluster_address, &self.peer.api_address];
        if texts.iter().any(|text| text.len() > limit) {
            return Err(Error::invalid(format!("a name or address is over {limit} bytes")));
        }
        let parts = self.challenge.split_at_checked(CHALLENGE_BYTES);
        let (said, tag) = parts.ok_or_else(refuse)?;
        let key = |label| context.root.tag_key(label).map_err(|error| Error::internal(&error));
        if !key(CHALLENGE)?.verify(&covered(&[said]), tag) {
            return Err(refuse());
        }
        let time = said.first_chunk::<8>().map(|bytes| i64::from_le_bytes(*bytes));
        let age = now_secs.saturating_sub(time.unwrap_or_default());
        if !(-CHALLENGE_SECS_MAX..=CHALLENGE_SECS_MAX).contains(&age) {
            return Err(Error::invalid("the challenge is too old: ask for another"));
        }
        match key(ANSWER)?
            .verify(&answer_bytes(&self.challenge, &self.peer, &self.public_key), &self.tag)
        {
            true => Ok(()),
            false => Err(refuse()),
        }
    }
}

/// What the tag of an answer covers.
pub(super) fn answer_bytes(challenge: &[u8], peer: &Peer, public_key: &[u8]) -> Vec<u8> {
    let wants: &[u8] = match peer.wants {
        MemberRole::Voter => b"voter",
        MemberRole::Learner => b"learner",
    };
    covered(&[
        challenge,
        peer.name.as_bytes(),
        peer.cluster_address.as_bytes(),
        peer.api_address.as_bytes(),
        wants,
        public_key,
    ])
}

fn sign(context: &NamespaceContext, label: &[u8], parts: &[&[u8]]) -> Result<[u8; 32], Error> {
    let key = context.root.tag_key(label).map_err(|error| Error::internal(&error))?;
    Ok(key.sign(&covered(parts)))
}

fn leading(core: &Core) -> Result<std::sync::Arc<NamespaceContext>, Error> {
    if core.store.replicated().is_none() {
        return Err(Error::UnsupportedPath);
    }
    let context = core.context.load_full().ok_or(Error::Sealed)?;
    if core.store.leads() { Ok(context) } else { Err(Error::NotLeader) }
}

/// Refuses to change the members where servers share a database.
///
/// # Errors
/// [`Error::Invalid`], which says why.
pub(crate) fn check_own_records(cluster: &dyn Replicated) -> Result<(), Error> {
    if !cluster.shares_records() {
        return Ok(());
    }
    Err(Error::invalid("the servers share a database: they come and go by themselves"))
}

/// Changes the members, waiting a little while another change is under way.
///
/// # Errors
/// What the store says.
pub(crate) async fn change(core: &Core, changes: Vec<MemberChange>) -> Result<(), Error> {
    let cluster = core.store.replicated().ok_or(Error::UnsupportedPath)?;
    check_own_records(cluster)?;
    for _ in 0..CHANGE_TRIES {
        match cluster.change(changes.clone()).await {
            // A read of a majority takes as long as the other change needs to go on.
            Err(StoreError::Busy) => drop(cluster.read_index().await?),
            other => return Ok(other.map(|_| ())?),
        }
    }
    Err(Error::Unavailable("another change of the members is under way".into()))
}

/// Gives this server its certificate if it has none and takes its place by itself.
///
/// # Errors
/// What the store or the port say.
pub(crate) async fn keep_identity(core: &Core) -> Result<(), Error> {
    match core.context.load_full() {
        Some(context) => ensure_identity(core, &context).await,
        None => Ok(()),
    }
}

/// Gives this server its certificate if it has none: to the leader, and to whoever shares its records and so reads the authority's
/// key in them.
///
/// # Errors
/// What the store or the port say.
pub(crate) async fn ensure_identity(core: &Core, context: &NamespaceContext) -> Result<(), Error> {
    let (Some(port), Some(cluster)) = (core.port.as_deref(), core.store.replicated()) else {
        return Ok(());
    };
    let issues_its_own = cluster.shares_records() && known_authority(context)?.is_some();
    if !core.store.leads() && !issues_its_own {
        return Ok(());
    }
    // A backup of another cluster brought its authority: a server that is alone takes a certificate of that.
    let is_foreign = |authority: &AuthorityKeys| {
        cluster.is_alone() && port.authority().is_some_and(|own| own != authority.certificate)
    };
    if port.has_identity() {
        return match known_authority(context)? {
            Some(authority) if is_foreign(&authority) => renew(core, port, &authority),
            _ => Ok(()),
        };
    }
    let authority = ensure_authority(context, port).await?;
    let (node_id, store_id) = (cluster.leadership().node_id, cluster.store_id());
    let make = || {
        let public_key = port.public_key()?;
        let certificate = port.issue(&authority, node_id, &store_id, &public_key)?;
        let authority = authority.certificate.clone();
        port.install(&Membership { node_id, store_id, certificate, authority })
    };
    make().map_err(Error::Unavailable)
}

/// Gives this server, which may follow, a new key and a certificate for it. Connections that are open stay.
///
/// # Errors
/// [`Error::Invalid`] on a server that has no certificate yet.
pub(crate) fn rotate_certificate(
    core: &Core,
    context: &NamespaceContext,
) -> Result<Response, Error> {
    let port = core.port.as_deref().filter(|port| port.has_identity());
    let none = || Error::invalid("this server has no certificate: it has no peers");
    let authority = known_authority(context)?.ok_or_else(none)?;
    renew(core, port.ok_or_else(none)?, &authority)?;
    tracing::info!("this server's certificate for its peers was replaced");
    Ok(Response::Empty)
}

fn renew(core: &Core, port: &dyn ClusterPort, authority: &AuthorityKeys) -> Result<(), Error> {
    let cluster = core.store.replicated().ok_or(Error::UnsupportedPath)?;
    let (node_id, store_id) = (cluster.leadership().node_id, cluster.store_id());
    let issue = |public_key: &[u8]| {
        let certificate = port.issue(authority, node_id, &store_id, public_key)?;
        let authority = authority.certificate.clone();
        Ok(Membership { node_id, store_id, certificate, authority })
    };
    port.renew(&issue).map_err(Error::Unavailable)
}

/// The cluster's authority, if one was made.
fn known_authority(context: &NamespaceContext) -> Result<Option<AuthorityKeys>, Error> {
    let Some(record) = context.store.get(&keys::authority())? else { return Ok(None) };
    decode(&record.value).map(Some).ok_or_else(|| Error::internal(&"the authority is damaged"))
}

/// The cluster's authority, made if there is none.
async fn ensure_authority(
    context: &NamespaceContext,
    port: &dyn ClusterPort,
) -> Result<AuthorityKeys, Error> {
    if let Some(known) = known_authority(context)? {
        return Ok(known);
    }
    let made = port.make_authority().map_err(|why| Error::internal(&why))?;
    let mut batch = Batch::new();
    batch.expect(keys::authority(), Seqno::ABSENT);
    batch.put(keys::authority(), encode(&made).to_vec());
    match context.store.commit(batch).await {
        Ok(_) => Ok(made),
        // Somebody else was faster.
        Err(StoreError::Conflict) => {
            known_authority(context)?.ok_or_else(|| Error::internal(&"the authority is gone"))
        }
        Err(error) => Err(error.into()),
    }
}

fn encode(authority: &AuthorityKeys) -> Zeroizing<Vec<u8>> {
    let key = Zeroizing::new(BASE64.encode(&authority.key));
    let certificate = BASE64.encode(&authority.certificate);
    Zeroizing::new(
        Json::object([("certificate", certificate.into()), ("key", key.as_str().into())]).to_text(),
    )
}

fn decode(bytes: &[u8]) -> Option<AuthorityKeys> {
    let map = json::parse_object(bytes).ok()?;
    let field = |name: &str| BASE64.decode(map.get(name)?.as_str()?.as_bytes()).ok();
    Some(AuthorityKeys { certificate: field("certificate")?, key: Zeroizing::new(field("key")?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(id: u64) -> Peer {
        Peer { id, name: "one".to_owned(), ..Peer::default() }
    }

    #[test]
    fn the_number_of_a_key_is_its_own_in_each_store() {
        let number = derive_number(&[1; 16], b"key");
        assert_eq!(number, 0x45ea_a5f4_40cc_3ea5, "servers of every build make the same");
        assert_ne!(number, derive_number(&[2; 16], b"key"));
        assert_ne!(number, derive_number(&[1; 16], b"kez"));
    }

    #[test]
    fn of_members_only_one_that_was_sent_nothing_may_ask_again() {
        let member = |role, matched| Member { peer: peer(7), role, matched, silent_ms: None };
        let asked = |members: &[Member]| is_new(members, &peer(7));
        assert_eq!(asked(&[]), Ok(true));
        assert_eq!(asked(&[member(MemberRole::Learner, 0)]), Ok(false));
        assert_eq!(is_new(&[member(MemberRole::Learner, 0)], &peer(8)), Ok(true));
        for one in [member(MemberRole::Learner, 1), member(MemberRole::Voter, 0)] {
            let Err(Error::Invalid(why)) = asked(std::slice::from_ref(&one)) else {
                panic!("{one:?} was taken in");
            };
            assert!(why.contains("is a member, one: remove it first"), "{why}");
        }
    }
}
