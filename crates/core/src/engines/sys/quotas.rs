//! `sys/quotas/*`: the rules of rate limits and of lease counts.

use std::sync::Arc;

use crate::api::error::Error;
use crate::api::fields::{Fields, scalar_text};
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::quotas::lease_count::{LEASE_RULES, LeaseSpec};
use crate::quotas::scope::QuotaScope;
use crate::quotas::{QuotaSettings, RULES, RULES_MAX, RuleSpec, SETTINGS};
use crate::registry;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;
use crate::view::View;
use kallisto_engine::Class;
use kallisto_store::Batch;

/// Longest interval or block.
const SPAN_MAX_SECS: i64 = 365 * 24 * 60 * 60;
/// Longest name of a role that a rule may be for, in bytes.
const ROLE_BYTES_MAX: usize = 256;
/// Most requests a rule may let pass in an interval.
const RATE_MAX: f64 = 1e12;

/// Why a mount takes no rule for a role.
const NO_METHOD: &str =
    "is not a valid auth method and therefore unsuitable for use with role-based quotas";

pub(super) fn read_config(context: &NamespaceContext) -> Response {
    Response::data(&context.view.quotas.settings().to_json().into())
}

pub(super) fn list(context: &NamespaceContext) -> Result<Response, Error> {
    let names = context.view.quotas.names();
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

pub(super) fn read(context: &NamespaceContext, name: &str) -> Result<Response, Error> {
    let spec = context.view.quotas.spec(name).ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::object([
        ("block_interval", spec.block_secs.into()),
        ("inheritable", spec.scope.is_inheritable.into()),
        ("interval", spec.interval_secs.into()),
        ("name", spec.name.as_str().into()),
        ("path", spec.scope.path.as_str().into()),
        ("rate", Json::Number(spec.rate.to_string().into())),
        ("role", spec.scope.role.as_str().into()),
        ("type", "rate-limit".into()),
    ])))
}

pub(super) async fn write(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    name: &str,
) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let place = place(context, &fields.string("path")?.unwrap_or_default())?;
    let role = fields.string("role")?.unwrap_or_default();
    if !role.is_empty() {
        check_role(&place, &role)?;
    }
    let spec = RuleSpec {
        name: name.to_owned(),
        scope: place.scope(role, fields)?,
        rate: rate(&body)?,
        interval_secs: span_secs(fields, "interval")?.max(1),
        block_secs: span_secs(fields, "block_interval")?,
    };
    let quotas = &context.view.quotas;
    refuse_twin(quotas.twin(&spec))?;
    if quotas.spec(name).is_none() {
        check_room(quotas.names().len())?;
    }
    storage(context)?.put(&format!("{RULES}{name}"), spec.encode()).await?;
    Ok(Response::Empty)
}

pub(super) fn list_lease_counts(context: &NamespaceContext) -> Result<Response, Error> {
    let specs = context.view.quotas.leases.specs();
    if specs.is_empty() {
        return Err(Error::NotFound);
    }
    let names = specs.into_iter().map(|spec| spec.name);
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

pub(super) fn read_lease_count(context: &NamespaceContext, name: &str) -> Result<Response, Error> {
    let spec = context.view.quotas.leases.spec(name).ok_or(Error::NotFound)?;
    let count = context.view.count_leases(&spec.scope, usize::MAX);
    Ok(Response::data(&Json::object([
        ("counter", (count as u64).into()),
        ("inheritable", spec.scope.is_inheritable.into()),
        ("max_leases", spec.max_leases.into()),
        ("name", spec.name.as_str().into()),
        ("path", spec.scope.path.as_str().into()),
        ("role", spec.scope.role.as_str().into()),
        ("type", "lease-count".into()),
    ])))
}

pub(super) async fn write_lease_count(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    name: &str,
) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    if fields.string("role")?.is_some_and(|role| !role.is_empty()) {
        return Err(Error::invalid("role: the leases of one role are not counted apart"));
    }
    let max_leases = fields.int("max_leases")?.and_then(|max| u64::try_from(max).ok());
    let max_leases = max_leases.filter(|&max| max > 0);
    let max_leases = max_leases.ok_or_else(|| Error::invalid("'max_leases' is invalid"))?;
    let place = place(context, &fields.string("path")?.unwrap_or_default())?;
    let scope = place.scope(String::new(), fields)?;
    let spec = LeaseSpec { name: name.to_owned(), scope, max_leases };
    let quotas = &context.view.quotas.leases;
    refuse_twin(quotas.twin(&spec))?;
    if quotas.spec(name).is_none() {
        check_room(quotas.specs().len())?;
    }
    storage(context)?.put(&format!("{LEASE_RULES}{name}"), spec.encode()).await?;
    Ok(Response::Empty)
}

pub(super) async fn delete_lease_count(
    context: &NamespaceContext,
    name: &str,
) -> Result<Response, Error> {
    storage(context)?.delete(&format!("{LEASE_RULES}{name}")).await?;
    Ok(Response::Empty)
}

/// Adds the rules of a mount that is moved to a batch of the root namespace, as they are then: a limit on it would be gone
/// otherwise.
///
/// # Errors
/// When a record is none.
pub(super) fn follow_in(
    root: &NamespaceContext,
    batch: &mut Batch,
    namespace: &str,
    (from, to): (&str, &str),
) -> Result<(), Error> {
    let (quotas, storage) = (&root.view.quotas, storage(root)?);
    for spec in quotas.names().iter().filter_map(|name| quotas.spec(name)) {
        if let Some(scope) = spec.scope.moved(namespace, from, to) {
            let name = format!("{RULES}{}", spec.name);
            storage.put_in(batch, &name, RuleSpec { scope, ..spec }.encode())?;
        }
    }
    for spec in quotas.leases.specs() {
        if let Some(scope) = spec.scope.moved(namespace, from, to) {
            let name = format!("{LEASE_RULES}{}", spec.name);
            storage.put_in(batch, &name, LeaseSpec { scope, ..spec }.encode())?;
        }
    }
    Ok(())
}

/// Adds to a batch of the root namespace that the rules of what goes away go with it: those of a mount that is disabled, by its path in
/// its namespace, or all of a namespace that is deleted (an empty path). Whatever is made there later is not counted by them.
///
/// # Errors
/// When the engine storage is not there.
pub(super) fn forget_in(
    root: &NamespaceContext,
    batch: &mut Batch,
    namespace: &str,
    mount: &str,
) -> Result<(), Error> {
    let (quotas, storage) = (&root.view.quotas, storage(root)?);
    for spec in quotas.names().iter().filter_map(|name| quotas.spec(name)) {
        if spec.scope.is_of(namespace, mount) {
            storage.delete_in(batch, &format!("{RULES}{}", spec.name));
        }
    }
    for spec in quotas.leases.specs() {
        if spec.scope.is_of(namespace, mount) {
            storage.delete_in(batch, &format!("{LEASE_RULES}{}", spec.name));
        }
    }
    Ok(())
}

/// Refuses a rule where there is one for the same already.
fn refuse_twin(twin: Option<String>) -> Result<(), Error> {
    let Some(other) = twin else { return Ok(()) };
    let other = Json::from(other).to_text();
    let other = String::from_utf8_lossy(&other).into_owned();
    Err(Error::invalid(format!("quota rule with similar properties exists under the name {other}")))
}

/// Refuses one more rule than there may be.
fn check_room(rules: usize) -> Result<(), Error> {
    if rules < RULES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!("there are {RULES_MAX} rules, as many as there may be")))
}

pub(super) async fn delete(context: &NamespaceContext, name: &str) -> Result<Response, Error> {
    storage(context)?.delete(&format!("{RULES}{name}")).await?;
    Ok(Response::Empty)
}

pub(super) async fn configure(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let exempt = fields.strings("rate_limit_exempt_paths")?.unwrap_or_default();
    if exempt.len() > RULES_MAX {
        return Err(Error::invalid(format!("rate_limit_exempt_paths: at most {RULES_MAX} paths")));
    }
    // As in OpenBao, a write replaces all of them.
    let is_set = |name: &str| Ok::<_, Error>(fields.boolean(name)?.unwrap_or(false));
    let settings = QuotaSettings {
        sends_headers: is_set("enable_rate_limit_response_headers")?,
        audits_refusals: is_set("enable_rate_limit_audit_logging")?,
        exempt,
    };
    storage(context)?.put(SETTINGS, settings.encode()).await?;
    Ok(Response::Empty)
}

fn storage(context: &NamespaceContext) -> Result<EngineStorage<'_>, Error> {
    EngineStorage::builtin(context, MountId::SYSTEM)
}

/// Where a rule holds.
struct RuleScope {
    /// What the namespace has.
    view: Arc<View>,
    /// The namespace's path.
    namespace: String,
    /// The path in it; empty for all of it, a mount's own with its slash.
    inside: String,
}

impl RuleScope {
    /// The scope of a rule here. The rule for everything holds everywhere unless somebody says otherwise.
    fn scope(self, role: String, fields: Fields<'_>) -> Result<QuotaScope, Error> {
        let path = format!("{}{}", self.namespace, self.inside);
        let is_inheritable = fields.boolean("inheritable")?.unwrap_or(path.is_empty());
        Ok(QuotaScope { path, namespace: self.namespace, role, is_inheritable })
    }
}

/// Reads the path of a rule, which starts at the root namespace whatever it leads to.
fn place(root: &NamespaceContext, given: &str) -> Result<RuleScope, Error> {
    let given = given.trim_start_matches('/');
    let slashed = format!("{}/", given.trim_end_matches('/'));
    let space = root.view.namespaces.around(&slashed);
    let (namespace, view) = match space {
        None => (String::new(), Arc::clone(&root.view)),
        Some(space) => {
            let view = root.view.namespaces.view(space.namespace.number);
            (space.namespace.path.clone(), view.ok_or(Error::NoNamespace)?)
        }
    };
    // A namespace may be named without its slash.
    let inside = given.get(namespace.len()..).unwrap_or_default();
    let inside = if inside.is_empty() { String::new() } else { place_inside(&view, inside)? };
    Ok(RuleScope { view, namespace, inside })
}

/// The path of a rule in its namespace; a mount's own gets its slash.
fn place_inside(view: &View, given: &str) -> Result<String, Error> {
    let bare = given.trim_end_matches('*');
    let Some((mount, inside)) = view.mounts.route(bare) else {
        let shown = Json::from(format!("{}/", given.trim_end_matches('/'))).to_text();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        return Err(Error::invalid(format!("invalid mount path {shown}")));
    };
    let is_mount = inside.is_empty() && bare.len() == given.len();
    Ok(match is_mount {
        true => mount.entry.path.clone(),
        false => given.trim_end_matches('/').to_owned(),
    })
}

/// Refuses a rule for a role where there can be none. Whether there is a role of that name is not asked:
/// it may be made later.
fn check_role(place: &RuleScope, role: &str) -> Result<(), Error> {
    let refuse = |path: &str, why: &str| {
        let shown = Json::from(path).to_text();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        Err(Error::invalid(format!("Mount path {shown} {why}")))
    };
    let path = place.inside.as_str();
    let found = place.view.mounts.route(path).filter(|(_, inside)| inside.is_empty());
    let Some((mount, _)) = found else {
        if path.is_empty() {
            return refuse("", NO_METHOD);
        }
        return Err(Error::invalid(
            "Quotas cannot contain both a path suffix and a role. If a role is provided, path must \
             be a valid auth mount with a concept of roles",
        ));
    };
    if mount.entry.kind.class() != Class::Auth {
        return refuse(path, NO_METHOD);
    }
    if !registry::driver(mount.entry.kind).has_roles() {
        return refuse(path, "does not support use with role-based quotas");
    }
    if role.len() > ROLE_BYTES_MAX {
        return Err(Error::invalid(format!("role: longer than {ROLE_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn rate(body: &Map) -> Result<f64, Error> {
    let text = match body.get("rate") {
        None | Some(Json::Null) => String::new(),
        Some(value) => scalar_text(value).unwrap_or_else(|| "x".to_owned()),
    };
    if text.is_empty() {
        return Err(Error::invalid("'rate' is invalid"));
    }
    let rate: f64 = text.parse().map_err(|_| {
        Error::invalid(
            "Field validation failed: error converting input for field \"rate\": '' cannot parse \
             value as 'float64': strconv.ParseFloat: invalid syntax",
        )
    })?;
    if rate > 0.0 && rate <= RATE_MAX { Ok(rate) } else { Err(Error::invalid("'rate' is invalid")) }
}

/// A span in whole seconds; 0 when it is absent.
fn span_secs(fields: Fields<'_>, name: &str) -> Result<u64, Error> {
    let Some(span) = fields.span(name)? else { return Ok(0) };
    let nanos = span.nanos();
    if nanos < 0 || nanos / 1_000_000_000 > SPAN_MAX_SECS {
        return Err(Error::invalid(format!(
            "Field validation failed: error converting input for field \"{name}\": expected 0 to \
             {SPAN_MAX_SECS} seconds"
        )));
    }
    Ok(u64::try_from(nanos).unwrap_or(0).div_ceil(1_000_000_000))
}
