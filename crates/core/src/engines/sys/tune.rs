//! `sys/mounts/:path/tune` and `sys/auth/:path/tune`: how a mount behaves.

use std::sync::Arc;

use kallisto_engine::{Class, Multiplicity};

use crate::api::error::Error;
use crate::api::fields::{Fields, scalar_text};
use crate::api::json::{Json, Map};
use crate::api::response::{Logical, Response};
use crate::caller::call::AuthorizedCall;
use crate::engines::kv::upgrade;
use crate::limits::DESCRIPTION_BYTES_MAX;
use crate::records::engine_kind::EngineKind;
use crate::records::engine_kind::KvState;
use crate::records::mount::{CONFIG_LISTS, MountConfig, MountEntry};
use crate::storage::keys::{self, MountId};
use crate::storage::transact::transact;
use crate::view::NamespaceContext;

/// Shows how the mount at `path` behaves; a login method's path is taken with its `auth/`.
pub(super) fn read(context: &NamespaceContext, path: &str) -> Result<Response, Error> {
    let Some(mount) = context.view.mounts.at(&format!("{path}/")) else {
        return Err(Error::invalid(format!("cannot fetch sysview for path \"{path}/\"")));
    };
    let entry = &mount.entry;
    let effective = |own: u64, server: u64| if own > 0 { own } else { server };
    let leases = context.leases;
    let mut data: Map = entry.config.lists.clone();
    data.insert(
        "default_lease_ttl".into(),
        effective(entry.config.default_lease_ttl_secs, leases.default_secs).into(),
    );
    data.insert(
        "max_lease_ttl".into(),
        effective(entry.config.max_lease_ttl_secs, leases.max_secs).into(),
    );
    data.insert("description".into(), entry.description.as_str().into());
    data.insert("force_no_cache".into(), entry.config.force_no_cache.into());
    if !entry.config.listing_visibility.is_empty() {
        let visibility = entry.config.listing_visibility.as_str();
        data.insert("listing_visibility".into(), visibility.into());
    }
    if entry.kind.class() == Class::Auth {
        data.insert("token_type".into(), entry.config.token_type().into());
    }
    if let Some(rules) = entry.config.lockout {
        data.extend(rules.to_map());
    }
    if let Some(options) = entry.options.as_ref().filter(|options| !options.is_empty()) {
        data.insert("options".into(), options.clone().into());
    }
    Ok(Response::merged(&data.into()))
}

pub(super) async fn write(
    context: &Arc<NamespaceContext>,
    call: &AuthorizedCall<'_, '_>,
    path: &str,
) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let _latch = context.latches.hold(&keys::mount_counter()).await;
    let Some(mount) = context.view.mounts.at(&format!("{path}/")) else {
        return Err(no_entry(path));
    };
    let mut entry = mount.entry.clone();
    check_tunable(&entry, &body)?;
    let upgrade = asked_version(entry.kind, fields)?;
    if entry.id == MountId::TOKEN && fields.raw("token_type").is_some() {
        return Err(Error::invalid(
            "'token_type' cannot be set for 'token' or 'ns_token' auth mounts",
        ));
    }
    entry.config = config(entry.config, fields)?;
    if let Some(description) = fields.string("description")? {
        if description.len() > DESCRIPTION_BYTES_MAX {
            return Err(Error::invalid(format!(
                "description is longer than {DESCRIPTION_BYTES_MAX} bytes"
            )));
        }
        entry.description = description;
    }
    if let Some(given) = fields.pairs("options")? {
        change_options(&mut entry, &given);
    }
    if upgrade == VersionChange::Upgrade {
        entry = upgrade::begun(entry);
    }
    // Whoever disables it does not wait for this one: what is gone stays so.
    let key = keys::mount(entry.id);
    let written = transact(&context.store, |batch| {
        let Some(record) = context.store.get(&key)? else { return Ok(false) };
        if context.view.mounts.with_id(entry.id).is_none_or(|now| now.entry != mount.entry) {
            return Err(Error::Conflict);
        }
        batch.expect(key.clone(), record.seqno);
        batch.put(key.clone(), entry.encode());
        Ok(true)
    });
    if !written.await? {
        return Err(no_entry(path));
    }
    match upgrade {
        VersionChange::Same => Ok(Response::Empty),
        VersionChange::Upgrade => {
            upgrade::start(context, entry.id, call.now)?;
            let warnings = vec![UPGRADE_WARNING.to_owned()];
            Ok(Response::Logical(Logical { warnings, ..Logical::default() }))
        }
    }
}

/// Takes the options that are given beside those that a mount has; one without a value is taken away. The version is the mount's kind,
/// which is changed elsewhere.
fn change_options(entry: &mut MountEntry, given: &Map) {
    for (name, value) in given.iter().filter(|(name, _)| *name != "version") {
        let options = entry.options.get_or_insert_default();
        match scalar_text(value).filter(|text| !text.is_empty()) {
            Some(text) => options.insert(name.clone(), text.into()),
            None => options.remove(name),
        };
    }
}

fn no_entry(path: &str) -> Error {
    Error::invalid(format!("tune of path \"{path}/\" failed: no mount entry found"))
}

/// What may be changed of the server's own engines: how they are audited.
const TUNABLE_BUILTIN: [&str; 3] =
    ["audit_non_hmac_request_keys", "audit_non_hmac_response_keys", "force_no_cache"];
/// What may be changed of any mount.
const TUNABLE: [&str; 12] = [
    "allowed_response_headers",
    "audit_non_hmac_request_keys",
    "audit_non_hmac_response_keys",
    "default_lease_ttl",
    "description",
    "force_no_cache",
    "listing_visibility",
    "max_lease_ttl",
    "options",
    "passthrough_request_headers",
    "token_type",
    "user_lockout_config",
];

/// Refuses a field that this mount cannot be tuned by. One that nobody knows is not looked at.
fn check_tunable(entry: &MountEntry, body: &Map) -> Result<(), Error> {
    if entry.kind.class() == Class::Auth {
        return Ok(());
    }
    if body.contains_key("token_type") {
        return Err(Error::invalid("'token_type' can only be modified on auth mounts"));
    }
    if entry.kind.multiplicity() == Multiplicity::Any {
        return Ok(());
    }
    let fixed = |name: &&str| body.contains_key(*name) && !TUNABLE_BUILTIN.contains(name);
    match TUNABLE.into_iter().find(fixed) {
        Some(name) => {
            Err(Error::invalid(format!("cannot tune parameter {name} of {}", entry.path)))
        }
        None => Ok(()),
    }
}

/// What is told to who has a mount upgraded.
const UPGRADE_WARNING: &str = "Upgrading mount from version 1 to version 2. This mount will be \
    unavailable for a brief period and will resume service shortly.";

/// What becomes of a mount's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VersionChange {
    Same,
    Upgrade,
}

/// A mount keeps its version or goes up: a downgrade would lose data.
fn asked_version(kind: EngineKind, fields: Fields<'_>) -> Result<VersionChange, Error> {
    let options = fields.pairs("options")?;
    let options = options.as_ref().map(Fields::new);
    let asked = options.map_or(Ok(None), |options| options.string("version"))?;
    match (kind.kv(), asked.as_deref()) {
        (_, None)
        | (Some(KvState::V1), Some("1"))
        | (Some(KvState::V2 | KvState::Upgrading), Some("2")) => Ok(VersionChange::Same),
        (Some(KvState::V2 | KvState::Upgrading), Some("1")) => {
            Err(Error::invalid("cannot downgrade mount from version 2"))
        }
        (Some(KvState::V1), Some("2")) => Ok(VersionChange::Upgrade),
        (_, Some(version)) => Err(Error::invalid(format!("invalid version provided: {version}"))),
    }
}

/// Applies the fields of a mount's configuration; absent ones keep their value.
///
/// # Errors
/// [`Error::Invalid`] naming the field that cannot be taken.
pub(super) fn config(mut config: MountConfig, fields: Fields<'_>) -> Result<MountConfig, Error> {
    if let Some(secs) = ttl(fields, "default_lease_ttl")? {
        config.default_lease_ttl_secs = secs;
    }
    if let Some(secs) = ttl(fields, "max_lease_ttl")? {
        config.max_lease_ttl_secs = secs;
    }
    let (default, max) = (config.default_lease_ttl_secs, config.max_lease_ttl_secs);
    if max > 0 && default > max {
        return Err(Error::invalid("given default lease TTL greater than given max lease TTL"));
    }
    if let Some(force) = fields.boolean("force_no_cache")? {
        config.force_no_cache = force;
    }
    if let Some(visibility) = fields.string("listing_visibility")? {
        if !matches!(visibility.as_str(), "" | "unauth" | "hidden") {
            return Err(Error::invalid(format!("invalid listing_visibility {visibility}")));
        }
        config.listing_visibility = visibility;
    }
    if let Some(token_type) = fields.string("token_type")? {
        if !matches!(
            token_type.as_str(),
            "" | "default-service" | "default-batch" | "service" | "batch"
        ) {
            return Err(Error::invalid("invalid value for 'token_type'"));
        }
        config.token_type = token_type;
    }
    if let Some(given) = fields.map("user_lockout_config")? {
        config.lockout.get_or_insert_default().update(Fields::new(given))?;
    }
    for name in CONFIG_LISTS {
        match fields.strings(name)? {
            Some(list) if list.is_empty() => drop(config.lists.remove(name)),
            Some(list) => drop(config.lists.insert(name.to_owned(), Json::strings(list))),
            None => {}
        }
    }
    Ok(config)
}

/// A lease's length in seconds; `system` leaves it to the server. The empty text is what command
/// lines send for a flag that was not given: it changes nothing.
fn ttl(fields: Fields<'_>, name: &str) -> Result<Option<u64>, Error> {
    match fields.raw(name).and_then(Json::as_str) {
        Some("") => return Ok(None),
        Some("system") => return Ok(Some(0)),
        _ => {}
    }
    let Some(span) = fields.span(name)? else { return Ok(None) };
    let secs = u64::try_from(span.secs());
    secs.map(Some).map_err(|_| Error::invalid(format!("{name} must not be negative")))
}
