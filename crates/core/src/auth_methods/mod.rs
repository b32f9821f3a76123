//! Login methods: a proof of who somebody is goes in, a token comes out.
//!
//! Each method is a module and keeps its roles or users in its mount's engine storage. A login route runs
//! without a token (`ServerEngine::is_open`). Whatever the proof was, it ends in a [`Login`], and [`grant`] makes the token of it.
//!
//! Invariants:
//! - No login makes a root token, whatever its role says.
//! - A token's times are bounded by role, mount and server, in that order.
//! - All refusals of a wrong proof read the same: none says which users there are.

pub(crate) mod approle;
pub(crate) mod cert;
mod glob;
mod identity;
pub(crate) mod jwt;
pub(crate) mod kubernetes;
pub(crate) mod lockout;
mod params;
mod password;
mod records;
mod routes;
pub(crate) mod userpass;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kallisto_auth::policy::DEFAULT_NAME;
use secrecy::ExposeSecret;

use crate::admission::{Admission, Flow, Shares};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::{Logical, Response};
use crate::engines::server_engine::{OpenRun, Renewal};
use crate::pipeline::address::{self, AddressRange};
use crate::pipeline::compute::{Claim, Pool};
use crate::pipeline::state::{Call, Leases, NamespaceContext};
use crate::platform::outbound::{Outbound, OutboundAnswer, OutboundCall};
use crate::storage::engine_storage::EngineStorage;
use crate::tokens::{self, Times, TokenSpec, TokenType};
use crate::view::Mount;
use kallisto_engine::storage::Page;

pub(crate) use identity::Alias;
pub(crate) use params::{TokenParams, seconds};

/// What login methods keep in memory, sealed or not.
pub(crate) struct Logins {
    pub(crate) hashers: Pool,
    pub(crate) lockouts: Arc<lockout::Lockouts>,
    callers: Pool,
    /// Sends what login methods ask of other servers; `None` where nothing does.
    pub(crate) outbound: Option<Arc<dyn Outbound>>,
    key_sets: jwt::KeySets,
}

/// A proof that was good: who it is, and what their token is to be.
pub(crate) struct Login {
    /// What the method calls them; see [`Alias::name`].
    pub(crate) alias: String,
    /// What people see of them, after the mount's path; may be empty.
    pub(crate) display_name: String,
    /// What is written on the token.
    pub(crate) metadata: Map,
    /// The groups the method has them in.
    pub(crate) groups: Vec<String>,
    /// What the role says of the token.
    pub(crate) params: TokenParams,
    /// What the method needs to judge a renewal; kept with the token, shown to nobody.
    pub(crate) kept: Map,
}

/// Makes the token of a good login and answers with it.
///
/// # Errors
/// [`Error::Invalid`] when the role asks for what no login may have; the store's refusal.
pub(crate) async fn grant(
    unsealed: &NamespaceContext,
    request: &Request<'_>,
    mount: &Mount,
    login: Login,
) -> Result<Response, Error> {
    let mut warnings = Vec::new();
    let bound_cidrs = bounds(&login.params, request)?;
    let params = &login.params;
    let policies = policies(params)?;
    let of_mount = TokenType::parse(mount.entry.config.token_type())?;
    let kind = TokenType::of_login(of_mount, params.token_type);
    let (times, max_secs) =
        times(params, mount.entry.config.leases(unsealed.leases), &mut warnings);
    let alias =
        Alias { mount, name: &login.alias, metadata: &login.metadata, groups: &login.groups };
    let entity_id = identity::identify(unsealed, &alias, request.now).await?;
    let spec = TokenSpec {
        kind,
        policies,
        display_name: display_name(mount, &login.display_name),
        path: request.path.as_str().to_owned(),
        parent: None,
        parent_above: None,
        meta: Some(login.metadata),
        uses: params.num_uses,
        times,
        max_secs,
        renewable: true,
        role: None,
        entity_id,
        bound_cidrs,
        kept: login.kept,
        text: None,
    };
    let (entry, text) = tokens::issue(unsealed, spec, request.now).await?;
    let auth =
        tokens::auth_object(&unsealed.view, &entry, text.expose_secret(), request.now).to_text();
    Ok(Response::Logical(Logical { auth, warnings, ..Logical::default() }))
}

/// Where the token may be used from: the address of the login alone, where the role says so.
fn bounds(params: &TokenParams, request: &Request<'_>) -> Result<Vec<AddressRange>, Error> {
    if !params.strictly_bind_ip {
        return Ok(params.bound_cidrs.clone());
    }
    // Bounds that a secret id brings are not widened by it.
    address::check(&params.bound_cidrs, request.remote)?;
    let remote = request.remote.ok_or_else(|| {
        Error::invalid("a login by this role comes from an address: its token is bound to that")
    })?;
    Ok(vec![AddressRange::of(remote.ip())])
}

/// The policies of the token: sorted, each once, with `default` unless the role leaves it out.
fn policies(params: &TokenParams) -> Result<Vec<String>, Error> {
    let mut names = tokens::clean_names(params.policies.clone())?;
    if names.iter().any(|name| name == "root") {
        return Err(Error::invalid("auth methods cannot create root tokens"));
    }
    if !params.no_default_policy {
        names.push(DEFAULT_NAME.to_owned());
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// How long the token lives, and with all its renewals.
fn times(params: &TokenParams, leases: Leases, warnings: &mut Vec<String>) -> (Times, u64) {
    let bound = |secs: u64, limit: u64| if limit > 0 { secs.min(limit) } else { secs };
    let explicit = params.explicit_max_ttl_secs;
    let max_secs = bound(leases.max_secs, params.max_ttl_secs);
    let ttl_secs = match (params.period_secs, params.ttl_secs) {
        (0, 0) => bound(leases.default_secs.min(max_secs), explicit),
        (0, asked) => {
            let most = bound(max_secs, explicit);
            if asked > most {
                warnings.push(tokens::capped(asked, most));
            }
            asked.min(most)
        }
        (period, _) => bound(period, explicit),
    };
    let times = Times { ttl_secs, period_secs: params.period_secs, explicit_max_secs: explicit };
    (times, max_secs)
}

/// The mount's path and what the method says, with dashes: `userpass-bob`.
fn display_name(mount: &Mount, name: &str) -> String {
    let path = mount.entry.shown_path().trim_end_matches('/').replace('/', "-");
    if name.is_empty() { path } else { format!("{path}-{name}") }
}

/// Refuses a renewal when the policies of a role or user are not those of the token any more.
///
/// # Errors
/// [`Error::Invalid`] saying so.
fn check_policies(renewal: &Renewal<'_, '_>, params: &TokenParams) -> Result<(), Error> {
    if policies(params)? == renewal.entry.auth.policies {
        return Ok(());
    }
    Err(Error::invalid("policies have changed, not renewing"))
}

/// The role by which a request would log in; `None` when it names none. Nothing is proven by it.
pub(crate) fn role_of(login: &OpenRun<'_>) -> Option<String> {
    let body = login.request.object().ok()?;
    login.mount.entry.kind.engine().role_of(login, Fields::new(&body))
}

/// The names in a folder of a method's engine storage, as a listing.
///
/// # Errors
/// [`Error::NotFound`] when there are none.
pub(crate) fn list(
    storage: &EngineStorage<'_>,
    call: &Call<'_, '_>,
    folder: &str,
) -> Result<Response, Error> {
    let names = storage.list_in_pages(folder, &Page::asked(call, call.page_entries_max())?)?;
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

/// Longest name of a role, in bytes.
const ROLE_NAME_BYTES_MAX: usize = 256;

/// The one spelling of a role's name: ASCII letters in lower case, digits, `_`, and `-`, `.`, `@`
/// within.
///
/// # Errors
/// [`Error::UnsupportedPath`]: nothing else is a role.
pub(crate) fn role_name(name: &str) -> Result<String, Error> {
    canonical(name, ROLE_NAME_BYTES_MAX).ok_or(Error::UnsupportedPath)
}

/// The one spelling of a name; `None` for what is no name.
fn canonical(name: &str, bytes_max: usize) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = name.bytes().all(|byte| word(byte) || matches!(byte, b'-' | b'.' | b'@'));
    let (first, last) = (name.bytes().next()?, name.bytes().next_back()?);
    (fits && word(first) && word(last) && name.len() <= bytes_max).then_some(name)
}

/// Threads for calls to other servers; they wait, and cost no core.
const CALLERS: usize = 8;

/// Calls to other servers that wait for a thread, or for their answer.
const CALLS_MAX: usize = 256;

impl Logins {
    /// Nothing known yet; hashes wait in places of `admission`.
    pub(crate) fn new(admission: &Admission) -> Self {
        let hashes = Arc::clone(&admission.hashes);
        let calls = Arc::new(Shares::new(CALLS_MAX, 0));
        Self {
            hashers: Pool::new("hash", password::threads(), Claim::Equal, hashes),
            lockouts: Arc::default(),
            callers: Pool::new("outbound", CALLERS, Claim::Equal, calls),
            outbound: None,
            key_sets: jwt::KeySets::default(),
        }
    }

    /// Asks another server, for a client.
    ///
    /// # Errors
    /// [`Error::Busy`] when too many wait; [`Error::Unavailable`] when it cannot be asked; what went wrong is in the log only, since it
    /// tells of this server's surroundings.
    async fn call(&self, flow: Flow, call: OutboundCall) -> Result<OutboundAnswer, Error> {
        let Some(outbound) = self.outbound.clone() else {
            return Err(Error::Unavailable("this server asks no others".into()));
        };
        let answer = self.callers.run(flow, move || outbound.send(&call)).await?;
        answer.map_err(|why| {
            tracing::warn!(why, "a server that logins depend on was not reached");
            Error::Unavailable("a server that this login depends on was not reached".into())
        })
    }
}

/// A moment some seconds later; the end of time when there is none.
pub(crate) fn after(from: Timestamp, secs: u64) -> Timestamp {
    let span = SignedDuration::from_secs(i64::try_from(secs).unwrap_or(i64::MAX));
    from.saturating_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> TokenParams {
        TokenParams::default()
    }

    #[test]
    fn a_login_never_makes_root() {
        let of = |names: &[&str]| {
            policies(&TokenParams {
                policies: names.iter().map(|name| (*name).to_owned()).collect(),
                ..params()
            })
        };
        assert_eq!(of(&["b", "A", "b"]).unwrap(), ["a", "b", "default"]);
        assert_eq!(
            of(&["a", "root"]).unwrap_err().to_string(),
            "auth methods cannot create root tokens"
        );
        for sly in ["Root", " ROOT ", "root "] {
            assert!(of(&[sly]).is_err(), "{sly}");
        }
    }

    #[test]
    fn role_mount_and_server_bound_a_token_in_that_order() {
        let leases = Leases { default_secs: 100, max_secs: 1000 };
        for (role, ttl, max, warned) in [
            (params(), 100, 1000, false),
            (TokenParams { ttl_secs: 50, ..params() }, 50, 1000, false),
            (TokenParams { ttl_secs: 5000, ..params() }, 1000, 1000, true),
            (TokenParams { max_ttl_secs: 60, ..params() }, 60, 60, false),
            (TokenParams { max_ttl_secs: 5000, ..params() }, 100, 1000, false),
            (TokenParams { period_secs: 2000, ..params() }, 2000, 1000, false),
            (TokenParams { explicit_max_ttl_secs: 70, ..params() }, 70, 1000, false),
            (
                TokenParams { period_secs: 2000, explicit_max_ttl_secs: 70, ..params() },
                70,
                1000,
                false,
            ),
        ] {
            let mut warnings = Vec::new();
            let (times, most) = times(&role, leases, &mut warnings);
            assert_eq!((times.ttl_secs, most), (ttl, max), "{role:?}");
            assert_eq!(!warnings.is_empty(), warned, "{role:?}");
        }
    }
}
