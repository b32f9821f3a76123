//! Logins: what the server does for the login methods (`crates/auth_methods`), which know it by the contract alone.
//!
//! Whatever the proof was, it ends in a [`Login`], and [`grant`] makes the token of it.
//!
//! Invariants:
//! - No login makes a root token, whatever its role says.
//! - A token's times are bounded by role, mount and server, in that order.
//! - A login that a rule asks a second factor of has no token before that was shown ([`second_factor`]).

mod second_factor;

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::TokenKind;
use kallisto_engine::address::{self, AddressRange};
use kallisto_engine::token_params::{TokenParams, login_policies};
use kallisto_engine::{Attempts, Login, Logins, TokenType};
use secrecy::ExposeSecret;

use crate::api::BoxFuture;
use crate::api::error::Error;
use crate::api::request::Request;
use crate::api::response::{Logical, Response};
use crate::engines::identity::{self, LoginAlias, mfa};
use crate::identity::record::IdentityId;
use crate::platform::lockout::{Lockouts, NameOwner};
use crate::records::lockout_rules::LockoutRules;
use crate::records::mount::LeaseTimes;
use crate::storage::keys::MountId;
use crate::tokens;
use crate::tokens::spec::Times;
use crate::tokens::spec::TokenSpec;
use crate::view::Mount;
use crate::view::NamespaceContext;

pub(crate) use second_factor::{sweep, validate};

/// What the server does for the logins at a mount.
pub(crate) struct MountLogins<'a> {
    pub(crate) context: &'a NamespaceContext,
    pub(crate) request: &'a Request<'a>,
    pub(crate) mount: &'a Mount,
}

impl Logins for MountLogins<'_> {
    fn grant(&self, login: Login) -> BoxFuture<'_, Result<Response, Error>> {
        Box::pin(grant(self.context, self.request, self.mount, login))
    }

    fn attempts(&self, name: &str) -> Arc<dyn Attempts> {
        Arc::new(MountAttempts {
            lockouts: Arc::clone(&self.context.services.lockouts),
            rules: self.mount.entry.config.lockout.unwrap_or_default(),
            mount: self.mount.entry.id,
            name: name.to_owned(),
            now: self.request.now,
        })
    }
}

/// The tries at the password of a name at a mount.
struct MountAttempts {
    lockouts: Arc<Lockouts>,
    rules: LockoutRules,
    mount: MountId,
    name: String,
    now: Timestamp,
}

impl Attempts for MountAttempts {
    fn is_locked(&self) -> bool {
        self.lockouts.is_locked(self.mount, &self.name, self.rules, self.now)
    }

    fn fail(&self, is_user: bool) {
        let known = if is_user { NameOwner::User } else { NameOwner::Nobody };
        self.lockouts.failed(self.mount, &self.name, known, self.rules, self.now);
    }

    fn forget(&self) {
        self.lockouts.forget(self.mount, &self.name);
    }
}

/// Makes the token of a good login and answers with it, or with what has to be shown besides.
///
/// # Errors
/// [`Error::Invalid`] when the role asks for what no login may have; what is said of a second factor; the store's refusal.
async fn grant(
    context: &NamespaceContext,
    request: &Request<'_>,
    mount: &Mount,
    mut login: Login,
) -> Result<Response, Error> {
    login.params.bound_cidrs = bounds(&login.params, request)?;
    login.params.strictly_bind_ip = false;
    login_policies(&login.params)?;
    let entity = identify(context, mount, &login, request.now).await?;
    let needed = mfa::requirement(context, mount, entity)?;
    if !needed.is_empty() {
        let codes = second_factor::shown_in(request)?;
        if codes.is_empty() {
            let path = request.path.as_str();
            return second_factor::ask(context, path, mount, &login, entity, &needed, request.now)
                .await;
        }
        mfa::satisfy(context, &needed, entity, &codes, request.now).await?;
    }
    issue(context, request.path.as_str(), mount, login, entity, request.now).await
}

/// The entity that logs in.
async fn identify(
    context: &NamespaceContext,
    mount: &Mount,
    login: &Login,
    now: Timestamp,
) -> Result<IdentityId, Error> {
    let alias =
        LoginAlias { mount, name: &login.alias, metadata: &login.metadata, groups: &login.groups };
    identity::log_in(context, &alias, now).await
}

/// Makes the token of a login at `path` that was proven whole.
async fn issue(
    context: &NamespaceContext,
    path: &str,
    mount: &Mount,
    login: Login,
    entity: IdentityId,
    now: Timestamp,
) -> Result<Response, Error> {
    let mut warnings = Vec::new();
    let params = &login.params;
    let policies = login_policies(params)?;
    let of_mount = TokenType::parse(mount.entry.config.token_type())?;
    let kind = TokenType::of_login(of_mount, params.token_type);
    let leases = mount.entry.config.leases(context.leases);
    let (mut times, max_secs) = times(params, leases, &mut warnings);
    if kind == TokenKind::Batch {
        // Nothing extends it, and the one lifetime that it has is within these already.
        (times.period_secs, times.explicit_max_secs) = (0, 0);
    }
    let spec = TokenSpec {
        kind,
        policies,
        display_name: display_name(mount, &login.display_name),
        path: path.to_owned(),
        parent: None,
        parent_above: None,
        meta: Some(login.metadata),
        uses: params.num_uses,
        times,
        max_secs,
        renewable: true,
        role: None,
        entity_id: Some(entity),
        bound_cidrs: login.params.bound_cidrs,
        login: Some(mount.entry.id),
        kept: login.kept,
        text: None,
    };
    let (entry, text) = tokens::issue(context, spec, now).await?;
    let auth = tokens::auth_object(&context.view, &entry, text.expose_secret(), now).to_text();
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

/// How long the token lives, and with all its renewals.
fn times(params: &TokenParams, leases: LeaseTimes, warnings: &mut Vec<String>) -> (Times, u64) {
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
        (period, _) => {
            let most = bound(max_secs, explicit);
            if period > most {
                warnings.push(tokens::capped_period(period, most));
            }
            period.min(most)
        }
    };
    let times = Times { ttl_secs, period_secs: params.period_secs, explicit_max_secs: explicit };
    (times, max_secs)
}

/// The mount's path and what the method says, with dashes: `userpass-bob`.
fn display_name(mount: &Mount, name: &str) -> String {
    let path = mount.entry.shown_path().trim_end_matches('/').replace('/', "-");
    if name.is_empty() { path } else { format!("{path}-{name}") }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use kallisto_auth::Operation::{Delete, Update};

    use super::*;
    use crate::api::json::Map;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core, request};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    /// Parameters that say what `set` sets.
    fn params(set: impl FnOnce(&mut TokenParams)) -> TokenParams {
        let mut params = TokenParams::default();
        set(&mut params);
        params
    }

    #[test]
    fn a_login_that_goes_on_while_its_method_goes_makes_no_token() {
        for (operation, path, body) in [
            (Delete, "sys/auth/userpass", ""),
            (Update, "sys/remount", r#"{"from":"auth/userpass","to":"auth/other"}"#),
        ] {
            let core = open_core(RouteAccess::Token);
            let context = core.context.load_full().unwrap();
            let mount = context.view.mounts.at("auth/userpass/").unwrap();
            let login_as = |kind: TokenType| {
                let login = Login {
                    alias: "bob".to_owned(),
                    display_name: "bob".to_owned(),
                    metadata: Map::new(),
                    groups: Vec::new(),
                    params: params(|params| params.token_type = kind),
                    kept: Map::new(),
                };
                let entity = IdentityId::make().unwrap();
                let at = "auth/userpass/login/bob";
                pollster::block_on(issue(&context, at, &mount, login, entity, NOW))
            };
            let kinds = [TokenType::Service, TokenType::Batch];
            assert!(kinds.iter().all(|kind| login_as(*kind).is_ok()));
            ask(&core, Some(ROOT), operation, path, body).unwrap();
            for kind in kinds {
                let refused = login_as(kind);
                assert!(matches!(refused, Err(Error::Unavailable(_))), "{path}: {refused:?}");
            }
        }
    }

    #[test]
    fn a_password_that_is_changed_or_taken_away_while_it_is_compared_lets_nobody_in() {
        for (operation, path, body) in [
            (Delete, "auth/userpass/users/bob", ""),
            (Update, "auth/userpass/users/bob/password", r#"{"password":"other"}"#),
        ] {
            let core = open_core(RouteAccess::Token);
            let password = r#"{"password":"pw"}"#;
            ask(&core, Some(ROOT), Update, "auth/userpass/users/bob", password).unwrap();
            let login = request(None, Update, "auth/userpass/login/bob", password);
            let mut logging_in = pin!(core.handle(&login));
            let begun = logging_in.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(begun.is_pending(), "passwords are compared on threads for that");
            ask(&core, Some(ROOT), operation, path, body).unwrap();
            let answer = pollster::block_on(logging_in);
            assert!(matches!(answer, Err(Error::Invalid(_))), "{path}: {answer:?}");
        }
    }

    /// The first of them makes another hash of the password.
    #[test]
    fn logins_at_once_by_a_hash_that_was_imported_are_all_good() {
        let core = open_core(RouteAccess::Token);
        let hash = "$2b$05$NzNjIu8T.pKF7AM1/6BkW.niCPo4qXXhtdt03qRjh8529BEEC8o46";
        let body = format!(r#"{{"password_hash":"{hash}"}}"#);
        ask(&core, Some(ROOT), Update, "auth/userpass/users/bob", &body).unwrap();
        let login = request(None, Update, "auth/userpass/login/bob", r#"{"password":"pw"}"#);
        let (mut one, mut other) = (pin!(core.handle(&login)), pin!(core.handle(&login)));
        for logging_in in [one.as_mut(), other.as_mut()] {
            let begun = logging_in.poll(&mut Context::from_waker(Waker::noop()));
            assert!(begun.is_pending());
        }
        assert!(pollster::block_on(one).is_ok() && pollster::block_on(other).is_ok());
    }

    #[test]
    fn a_login_never_makes_root() {
        let of = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            login_policies(&params(|params| params.policies = names))
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
        let leases = LeaseTimes { default_secs: 100, max_secs: 1000 };
        for (role, ttl, max, warned) in [
            (params(|_| ()), 100, 1000, false),
            (params(|params| params.ttl_secs = 50), 50, 1000, false),
            (params(|params| params.ttl_secs = 1000), 1000, 1000, false),
            (params(|params| params.ttl_secs = 5000), 1000, 1000, true),
            (params(|params| params.max_ttl_secs = 60), 60, 60, false),
            (params(|params| params.max_ttl_secs = 5000), 100, 1000, false),
            (params(|params| params.period_secs = 900), 900, 1000, false),
            (params(|params| params.period_secs = 1000), 1000, 1000, false),
            (params(|params| params.period_secs = 2000), 1000, 1000, true),
            (params(|params| (params.period_secs, params.max_ttl_secs) = (900, 60)), 60, 60, true),
            (params(|params| params.explicit_max_ttl_secs = 70), 70, 1000, false),
            (
                params(|params| (params.period_secs, params.explicit_max_ttl_secs) = (2000, 70)),
                70,
                1000,
                true,
            ),
        ] {
            let mut warnings = Vec::new();
            let (times, most) = times(&role, leases, &mut warnings);
            assert_eq!((times.ttl_secs, most), (ttl, max), "{role:?}");
            assert_eq!(!warnings.is_empty(), warned, "{role:?}");
        }
    }
}
