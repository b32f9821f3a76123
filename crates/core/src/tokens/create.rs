//! Making tokens: `auth/token/create`, `create-orphan`, `create/:role`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kallisto_auth::policy::{DEFAULT_NAME, RESPONSE_WRAPPING_NAME};
use kallisto_auth::{Token, TokenKind};
use kallisto_duration::to_go_short;
use kallisto_engine::TokenType;
use kallisto_engine::token_params::clean_policy_names;
use kallisto_leases::TtlCapped;
use kallisto_store::{Batch, Seqno};
use secrecy::{ExposeSecret, SecretString};

use super::batch;
use super::lookup::auth_object;
use super::roles::TokenStoreRole;
use crate::api::error::Error;
use crate::api::fields::{Fields, scalar_text, unconvertible};
use crate::api::json::{Json, Map};
use crate::api::response::{Logical, Response};
use crate::caller::call::AuthorizedCall;
use crate::caller::find::make_text_in;
use crate::caller::policies::CallerPolicies;
use crate::engines::identity;
use crate::identity::record::IdentityId;
use crate::leases::quota;
use crate::metrics::usage::ttl_word;
use crate::records::mount::MountEntry;
use crate::records::token::TOKEN_BYTES_MAX;
use crate::records::token::TokenEntry;
use crate::records::token::make_accessor;
use crate::storage::keys::{self, MountId};
use crate::storage::transact::transact_if;
use crate::timers::{Creation, Timer};
use crate::tokens::fields::seconds;
use crate::tokens::fields::with_default;
use crate::tokens::spec::Times;
use crate::tokens::spec::TokenSpec;
use crate::tokens::spec::leases;
use crate::view::NamespaceContext;

/// Whether the new token hangs on its maker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parent {
    /// It ends when its maker's does, unless the body asks otherwise.
    Caller,
    /// It stands alone.
    None,
}

/// Answers a create request. `role` is the role it goes through.
pub(super) async fn create(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    parent: Parent,
    role: Option<&TokenStoreRole>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let caller = CallerPolicies::of(context, call)?;
    let mut plan = TokenPlan {
        context,
        caller: &caller,
        fields,
        path: call.path.as_str(),
        parent,
        role,
        is_privileged: caller.is_root() || caller.has_sudo(call.path.as_str()),
        warnings: Vec::new(),
    };
    let mut spec = plan.spec()?;
    if let Some(name) = plan.alias()? {
        spec.entity_id = Some(entity_named(context, &name, call.now).await?);
    }
    let warnings = plan.warnings;
    let (entry, text) = issue(context, spec, call.now).await?;
    let auth = auth_object(&context.view, &entry, text.expose_secret(), call.now).to_text();
    Ok(Response::Logical(Logical { auth, warnings, ..Logical::default() }))
}

/// What shall become of a request for a token. Each part of the token is a method, which reads what the request and the role say of it.
struct TokenPlan<'a> {
    context: &'a NamespaceContext,
    caller: &'a CallerPolicies,
    fields: Fields<'a>,
    /// The path that was asked.
    path: &'a str,
    parent: Parent,
    role: Option<&'a TokenStoreRole>,
    /// Whether the caller is root, or has sudo at the path.
    is_privileged: bool,
    /// What the caller is told besides.
    warnings: Vec<String>,
}

impl TokenPlan<'_> {
    /// Decides what the token shall be.
    fn spec(&mut self) -> Result<TokenSpec, Error> {
        let Self { context, caller, fields, role, .. } = *self;
        if caller.token().kind == TokenKind::Batch {
            return Err(Error::invalid("batch tokens cannot create more tokens"));
        }
        // It would be used as often as anybody likes by way of a child.
        if caller.is_limited() {
            return Err(Error::invalid("restricted use token cannot generate child tokens"));
        }
        let asked_kind = self.asked_kind()?;
        let policies = self.policies()?;
        for name in policies.iter().filter(|name| *name != "root") {
            if !context.view.policies.exists(name) {
                self.warnings.push(format!("Policy \"{name}\" does not exist"));
            }
        }
        let kind = match (policies.iter().any(|name| name == "root"), asked_kind) {
            (true, TokenKind::Batch) => {
                return Err(Error::invalid("batch tokens cannot be root tokens"));
            }
            (true, _) => TokenKind::Root,
            (false, asked) => asked,
        };
        let times = self.times(kind)?;
        if kind == TokenKind::Root && times.ttl_secs == 0 && caller.token().expires_at.is_some() {
            return Err(Error::invalid(
                "expiring root tokens cannot create non-expiring root tokens",
            ));
        }
        let renewable = fields.boolean("renewable")?.unwrap_or(true)
            && role.is_none_or(|role| role.renewable)
            && times.ttl_secs > 0;
        let orphan = self.is_orphan()?;
        Ok(TokenSpec {
            kind,
            policies,
            display_name: display_name(&fields.string("display_name")?.unwrap_or_default()),
            path: match role {
                Some(role) if !role.path_suffix.is_empty() => {
                    format!("{}/{}", self.path, role.path_suffix.trim_matches('/'))
                }
                _ => self.path.to_owned(),
            },
            parent: if orphan { None } else { Some(caller.hash) },
            parent_above: caller.above().filter(|_| !orphan).cloned(),
            meta: plan_meta(fields)?,
            uses: self.uses()?,
            times,
            max_secs: 0,
            renewable,
            role: role.map(|role| role.name.clone()),
            // An orphan is nobody's, unless a role says whose; nor is there anybody of another namespace.
            entity_id: caller.entity_id().filter(|_| !orphan && caller.above().is_none()),
            bound_cidrs: match role {
                Some(role) => role.bound_cidrs.clone(),
                // A child is used from where its maker may be, or the bounds would be left by making one.
                None if !orphan => caller.entry().bound_cidrs.clone(),
                None => Vec::new(),
            },
            login: None,
            kept: Map::new(),
            text: self.text()?,
        })
    }

    /// What kind the body asks for, and the role lets it be.
    fn asked_kind(&self) -> Result<TokenKind, Error> {
        let asked = match self.fields.string("type")?.as_deref() {
            None | Some("") => None,
            Some("service") => Some(TokenKind::Service),
            Some("batch") => Some(TokenKind::Batch),
            Some(_) => return Err(Error::invalid("invalid 'token_type' value")),
        };
        let of_role = self.role.map_or(TokenType::DefaultService, |role| role.token_type);
        Ok(of_role.choose(asked))
    }

    /// The policies of the new token: sorted, each once.
    ///
    /// A role that says which policies it allows or refuses decides alone; with any other, and without
    /// one, nobody hands out what they do not hold unless they may do anything. A request that names no
    /// policies at all is not one with a list of empty names, which asks for nothing.
    fn policies(&self) -> Result<Vec<String>, Error> {
        let Self { caller, fields, role, .. } = *self;
        let no_default = fields.boolean("no_default_policy")?.unwrap_or(false)
            || role.is_some_and(|role| role.no_default_policy);
        let asked = asked_policies(fields)?;
        let held = match caller.above() {
            // Names of policies mean something else here than where the caller's are from.
            Some(_) => vec![DEFAULT_NAME.to_owned()],
            None if caller.is_root() => vec!["root".to_owned()],
            None => caller.policies().to_vec(),
        };
        let mut policies = match (role.filter(|role| role.limits_policies()), asked) {
            (Some(role), asked) => role.choose(asked, held, no_default)?,
            (None, None) => held,
            (None, Some(asked)) if self.is_privileged => with_default(asked, !no_default),
            (None, Some(asked)) => {
                if !asked.iter().all(|name| held.contains(name)) {
                    return Err(Error::invalid("child policies must be subset of parent"));
                }
                let inherits_default = held.iter().any(|name| name == DEFAULT_NAME);
                with_default(asked, inherits_default && !no_default)
            }
        };
        if policies.iter().any(|name| name == RESPONSE_WRAPPING_NAME) {
            return Err(Error::invalid("cannot assign policy \"response-wrapping\""));
        }
        if policies.iter().any(|name| name == "root") {
            if caller.above().is_some() {
                return Err(Error::invalid(
                    "root tokens may not be created from a parent namespace",
                ));
            }
            if !caller.is_root() {
                return Err(Error::invalid(
                    "root tokens may not be created without parent token being root",
                ));
            }
        }
        policies.retain(|name| name != DEFAULT_NAME || !no_default);
        Ok(policies)
    }

    /// How long a token of this kind shall live.
    fn times(&mut self, kind: TokenKind) -> Result<Times, Error> {
        let (fields, leases) = (self.fields, leases(self.context));
        // Nothing extends a batch token, so a role's period is nothing to it, and its maximum bounds the one lifetime that it has.
        let is_batch = kind == TokenKind::Batch;
        let own_period = seconds(fields, "period")?;
        if own_period > 0 && !self.is_privileged {
            return Err(Error::invalid(
                "root or sudo privileges required to create periodic token",
            ));
        }
        let own_explicit = seconds(fields, "explicit_max_ttl")?;
        let (of_role_explicit, of_role_period) =
            self.role.map_or((0, 0), |role| (role.explicit_max_ttl_secs, role.period_secs));
        let of_role_period = if is_batch { 0 } else { of_role_period };
        let explicit_max_secs = self.lesser("Explicit max TTL", own_explicit, of_role_explicit);
        let period_secs = self.lesser("Period", own_period, of_role_period);
        let asked = match seconds(fields, "ttl")? {
            0 => seconds(fields, "lease")?,
            ttl => ttl,
        };
        let bound =
            |secs: u64| if explicit_max_secs > 0 { secs.min(explicit_max_secs) } else { secs };
        let max = bound(leases.max_secs);
        let ttl_secs = match (period_secs, asked) {
            (0, 0) if kind == TokenKind::Root => explicit_max_secs,
            (0, 0) => max.min(leases.default_secs),
            (0, asked) => {
                if asked > max {
                    self.warnings.push(capped(asked, max));
                }
                asked.min(max)
            }
            (period, _) => {
                if period > max {
                    self.warnings.push(capped_period(period, max));
                }
                period.min(max)
            }
        };
        let explicit_max_secs = if is_batch { own_explicit } else { explicit_max_secs };
        Ok(Times { ttl_secs, period_secs, explicit_max_secs })
    }

    /// The smaller of what is asked and what a role says, in seconds; 0 says nothing.
    fn lesser(&mut self, what: &str, asked: u64, of_role: u64) -> u64 {
        if asked == 0 || of_role == 0 {
            return asked.max(of_role);
        }
        let secs = asked.min(of_role);
        self.warnings.push(format!(
            "{what} specified both during creation call and in role; using the lesser value of {secs} \
             seconds"
        ));
        secs
    }

    /// Whether it hangs on nobody.
    fn is_orphan(&mut self) -> Result<bool, Error> {
        let no_parent = self.fields.boolean("no_parent")?.unwrap_or(false);
        match (self.role, self.parent) {
            // A role is for those who have no sudo, so it alone says whether its tokens are orphans.
            (Some(role), _) => {
                if no_parent && !role.orphan {
                    let why =
                        "no_parent has no effect: the role decides whether its tokens are orphans";
                    self.warnings.push(why.to_owned());
                }
                Ok(role.orphan)
            }
            (None, Parent::None) => Ok(true),
            (None, Parent::Caller) if no_parent && !self.is_privileged => {
                Err(Error::invalid("root or sudo privileges required to create orphan token"))
            }
            (None, Parent::Caller) => Ok(no_parent),
        }
    }

    /// The entity that the token shall be for, by its alias, where the role allows that.
    fn alias(&self) -> Result<Option<String>, Error> {
        let Some(name) = self.fields.string("entity_alias")?.filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let role = self.role.ok_or_else(|| {
            Error::invalid("'entity_alias' is only allowed in combination with token role")
        })?;
        if role.allows_alias(&name) {
            return Ok(Some(name));
        }
        Err(Error::invalid("invalid 'entity_alias' value"))
    }

    /// How often it may be used: what is asked, within what the role gives.
    fn uses(&self) -> Result<i64, Error> {
        let given = self.role.map_or(0, |role| role.num_uses);
        match (self.fields.int("num_uses")?.unwrap_or_default(), given) {
            (asked, _) if asked < 0 => Err(Error::invalid("number of uses cannot be negative")),
            (0, given) => Ok(given),
            (asked, 0) => Ok(asked),
            (asked, given) => Ok(asked.min(given)),
        }
    }

    /// Its text, where the request brings one.
    fn text(&self) -> Result<Option<SecretString>, Error> {
        let text = self.fields.string("id")?.filter(|id| !id.is_empty());
        if text.is_some() && !self.context.is_top() {
            return Err(Error::invalid(
                "token IDs can only be manually specified in the root namespace",
            ));
        }
        if text.is_some() && !self.is_privileged {
            return Err(Error::invalid("root or sudo privileges required to specify token id"));
        }
        text.map(|id| check_id(id).map(SecretString::from)).transpose()
    }
}

/// The entity with an alias at `auth/token/`, made if need be.
async fn entity_named(
    context: &NamespaceContext,
    name: &str,
    now: Timestamp,
) -> Result<IdentityId, Error> {
    let mount = context.view.mounts.with_id(MountId::TOKEN);
    let mount = mount.ok_or_else(|| Error::internal(&"a built-in mount is missing"))?;
    let alias = identity::LoginAlias { mount: &mount, name, metadata: &Map::new(), groups: &[] };
    identity::log_in(context, &alias, now).await
}

/// What is noted with the token: texts, whatever was sent.
fn plan_meta(fields: Fields<'_>) -> Result<Option<Map>, Error> {
    let Some(given) = fields.pairs("meta")? else { return Ok(None) };
    let text = |(key, value): (&String, &Json)| match value {
        Json::Null => Ok((key.clone(), Json::from(""))),
        other => match scalar_text(other) {
            Some(text) => Ok((key.clone(), Json::String(text))),
            None => Err(unconvertible("meta", other, "string")),
        },
    };
    given.iter().map(text).collect::<Result<_, _>>().map(Some)
}

/// The warning about a period that was cut, both in seconds.
pub(crate) fn capped_period(asked_secs: u64, max_secs: u64) -> String {
    let short = |secs| to_go_short(Duration::from_secs(secs));
    let (asked, max) = (short(asked_secs), short(max_secs));
    format!(
        "period of \"{asked}\" exceeded the effective max_ttl of \"{max}\"; period value is capped \
         accordingly"
    )
}

/// The warning about a lifetime that was cut, both in seconds.
pub(crate) fn capped(asked_secs: u64, max_secs: u64) -> String {
    TtlCapped { asked_secs, max_secs }.to_string()
}

/// The policies that a request names, cleaned; `None` when it names none.
fn asked_policies(fields: Fields<'_>) -> Result<Option<Vec<String>>, Error> {
    let given = fields.strings("policies")?.filter(|names| !names.is_empty());
    given.map(clean_policy_names).transpose()
}

/// Makes a token and returns it with its text. A service token is stored; a batch token is sealed into
/// its own text and leaves no trace.
///
/// # Errors
/// [`Error::Invalid`] when the text is taken or a batch token is asked to be what it cannot be, [`Error::Unavailable`] when the store refuses.
pub(crate) async fn issue(
    context: &NamespaceContext,
    spec: TokenSpec,
    now: Timestamp,
) -> Result<(TokenEntry, SecretString), Error> {
    let begin = context.services.timers.now();
    let made = match spec.kind {
        TokenKind::Batch => {
            let mut unused = Batch::new();
            expect_login_in(&mut unused, context, (spec.login, &spec.path))?;
            batch::issue(context, spec, now)
        }
        TokenKind::Root | TokenKind::Service => store(context, spec, now).await,
    };
    if let Ok((entry, _)) = &made {
        context.services.timers.end(Timer::TokenCreate, begin);
        context.services.timers.count_creation(creation(context, entry));
    }
    made
}

/// How a new token is counted.
fn creation(context: &NamespaceContext, entry: &TokenEntry) -> Creation {
    let mount = context.view.mounts.route(&entry.auth.path);
    let method = mount.map_or("token", |(mount, _)| mount.entry.kind.name()).to_owned();
    let kind = match entry.auth.kind {
        TokenKind::Batch => "batch",
        TokenKind::Root | TokenKind::Service => "service",
    };
    (method, ttl_word(entry.ttl_secs), kind)
}

/// Makes a token that is stored.
async fn store(
    context: &NamespaceContext,
    spec: TokenSpec,
    now: Timestamp,
) -> Result<(TokenEntry, SecretString), Error> {
    let _place = quota::reserve(context, &spec.path)?;
    let text = match spec.text {
        Some(text) => text,
        None => make_text_in(&context.view)?,
    };
    let cluster = context.view.cluster().ok_or(Error::Sealed)?;
    let tag = cluster.token_key.hash(text.expose_secret());
    let key = keys::token(tag.as_ref());
    let times = spec.times;
    let ttl = SignedDuration::from_secs(i64::try_from(times.ttl_secs).unwrap_or(i64::MAX));
    let expires_at =
        (times.ttl_secs > 0).then(|| now.saturating_add(ttl).unwrap_or(Timestamp::MAX));
    let entry = TokenEntry {
        auth: Token {
            accessor: context.view.marked(make_accessor()?),
            kind: spec.kind,
            policies: spec.policies,
            display_name: spec.display_name,
            path: spec.path,
            created_at: now,
            expires_at,
            orphan: spec.parent.is_none(),
        },
        parent: spec.parent,
        parent_above: spec.parent_above.as_ref().map(|above| above.view.namespace_number()),
        meta: spec.meta,
        uses_left: spec.uses,
        ttl_secs: times.ttl_secs,
        period_secs: times.period_secs,
        explicit_max_ttl_secs: times.explicit_max_secs,
        max_ttl_secs: spec.max_secs,
        renewable: spec.renewable,
        role: spec.role,
        entity_id: spec.entity_id,
        bound_cidrs: spec.bound_cidrs,
        kept: spec.kept,
        renewed_at: None,
    };
    // The text may be taken meanwhile, or the parent renewed or used.
    let created = transact_if(&context.store, |batch, condition| {
        if context.store.get(&key)?.is_some() {
            return Err(Error::invalid("cannot create a token with a duplicate ID"));
        }
        batch.expect(key.clone(), Seqno::ABSENT);
        batch.put(key.clone(), entry.encode());
        expect_login_in(batch, context, (spec.login, &entry.auth.path))?;
        if let Some(parent) = spec.parent {
            // A parent that is revoked meanwhile must not leave a child behind.
            let parent = keys::token(&parent);
            let home = spec.parent_above.as_ref().map_or(&context.store, |above| &above.store);
            let record = home.get(&parent)?;
            let record = record.ok_or(Error::Denied(crate::Denial::BadToken))?;
            *condition = Some(home.condition(&parent, record.seqno));
        }
        Ok(())
    });
    created.await?;
    Ok((entry, text))
}

/// Makes a batch depend on the login method that a token is for. One that is removed or moved ends the tokens that are there, and
/// one that is made meanwhile would stay.
///
/// # Errors
/// [`Error::Unavailable`] when it is gone.
fn expect_login_in(
    batch: &mut Batch,
    context: &NamespaceContext,
    (login, path): (Option<MountId>, &str),
) -> Result<(), Error> {
    let Some(login) = login else { return Ok(()) };
    let key = keys::mount(login);
    let found = context.store.get(&key)?;
    let mounted = found.as_ref().and_then(|record| MountEntry::decode(&record.value));
    match (found, mounted) {
        (Some(record), Some(mounted)) if path.starts_with(&mounted.path) => {
            batch.expect(key, record.seqno);
            Ok(())
        }
        _ => Err(Error::Unavailable("the login method was removed or moved meanwhile".into())),
    }
}

fn check_id(id: String) -> Result<String, Error> {
    if let Some(prefix) = ["s.", "hvs."].into_iter().find(|prefix| id.starts_with(prefix)) {
        return Err(Error::invalid(format!("custom token ID cannot have the '{prefix}' prefix")));
    }
    if id.contains('.') {
        return Err(Error::invalid("custom token ID cannot have a '.' in the value"));
    }
    if id.len() > TOKEN_BYTES_MAX || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::invalid(format!(
            "a custom token ID must be 1 to {TOKEN_BYTES_MAX} printable ASCII characters"
        )));
    }
    Ok(id)
}

/// `token`, or `token-` and the given name in the letters that names are made of.
fn display_name(given: &str) -> String {
    let slug: String = given
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' })
        .take(128)
        .collect();
    let slug = slug.trim_matches('-');
    if slug.is_empty() { "token".to_owned() } else { format!("token-{slug}") }
}
