//! `sys/audit`, `sys/audit-hash`, `sys/audit-head` and the audited request headers.
//!
//! A device is tried before it is enabled: its destination is opened and a test record written, by
//! the device that then stays. The record in the engine storage comes back through the fold, which puts the
//! device in place on every node.

use std::collections::BTreeMap;
use std::sync::Arc;

use kallisto_audit::limits::{DEVICES_MAX, HEADERS_MAX};
use kallisto_audit::{Device, DeviceOptions, DeviceSpec, Health, check_path, file_of};

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::{Logical, Response};
use crate::audit::{Audit, DEVICE_FOLDER, DeviceRecord, HEADER_FOLDER, HeaderRecord, try_device};
use crate::caller::call::AuthorizedCall;
use crate::engines::sys::web::is_header_name;
use crate::limits::{DESCRIPTION_BYTES_MAX, MOUNT_PATH_BYTES_MAX};
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::{self, MountId};
use crate::view::NamespaceContext;

/// Longest name of an audited header, in bytes.
const HEADER_BYTES_MAX: usize = 128;
/// Headers that carry tokens are never audited in the clear.
const SECRET_HEADERS: [&str; 3] = ["authorization", "cookie", "x-vault-token"];

pub(super) fn read_all(audit: &Audit) -> Response {
    let records = audit.records();
    let wire = records.iter().map(|(path, record)| (format!("{path}/"), record.to_wire(path)));
    Response::merged(&wire.collect::<Map>().into())
}

pub(super) async fn enable(
    audit: &Audit,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    path: &str,
) -> Result<Response, Error> {
    let body = call.object()?;
    if path.len() > MOUNT_PATH_BYTES_MAX {
        return Err(Error::invalid(format!("path is longer than {MOUNT_PATH_BYTES_MAX} bytes")));
    }
    // One at a time: what is free is looked at and taken together.
    let _latch = context.latches.hold(&keys::storage(MountId::SYSTEM, DEVICE_FOLDER)).await;
    let records = audit.records();
    let nests = |other: &String| {
        let (one, other) = (format!("{path}/"), format!("{other}/"));
        one.starts_with(&other) || other.starts_with(&one)
    };
    if records.keys().any(nests) {
        return Err(Error::invalid("path already in use"));
    }
    if records.len() >= DEVICES_MAX {
        return Err(Error::invalid(format!("more than {DEVICES_MAX} audit devices")));
    }
    let record = new_record(Fields::new(&body))?;
    check_destination(audit, &record, &records)?;
    let device = try_device(audit, path, &record).await?;
    audit.keep_opened(Some(device));
    let storage = EngineStorage::builtin(context, MountId::SYSTEM)?;
    let stored = storage.put(&format!("{DEVICE_FOLDER}{path}"), record.encode()).await;
    // The fold has taken it, unless the commit failed.
    audit.keep_opened(None);
    stored?;
    tracing::info!(path, kind = record.kind, "audit device enabled");
    match DeviceSpec::unknown_options(&record.kind, &record.options) {
        none if none.is_empty() => Ok(Response::Empty),
        warnings => Ok(Response::Logical(Logical { warnings, ..Logical::default() })),
    }
}

fn new_record(fields: Fields<'_>) -> Result<DeviceRecord, Error> {
    let kind = fields.string("type")?.unwrap_or_default();
    let description = fields.string("description")?.unwrap_or_default();
    if description.len() > DESCRIPTION_BYTES_MAX {
        return Err(Error::invalid(format!(
            "description is longer than {DESCRIPTION_BYTES_MAX} bytes"
        )));
    }
    let mut options = DeviceOptions::new();
    if let Some(given) = fields.pairs("options")? {
        for name in given.keys() {
            if let Some(text) = Fields::new(&given).string(name)? {
                options.insert(name.clone(), text);
            }
        }
    }
    let local = fields.boolean("local")?.unwrap_or_default();
    DeviceRecord::make(&kind, description, local, options)
}

/// Refuses what no device may write to.
fn check_destination(
    audit: &Audit,
    record: &DeviceRecord,
    records: &BTreeMap<String, DeviceRecord>,
) -> Result<(), Error> {
    let spec = DeviceSpec::parse(&record.kind, &record.options).map_err(Error::Invalid)?;
    DeviceSpec::check_served(&record.options).map_err(Error::Invalid)?;
    if let Some(path) = spec.destination.file() {
        check_path(path, &audit.settings.directories).map_err(Error::Invalid)?;
    }
    let Some(file) = file_of(&spec) else { return Ok(()) };
    let shares = |other: &DeviceRecord| {
        let other = DeviceSpec::parse(&other.kind, &other.options).ok();
        other.and_then(|other| file_of(&other)).is_some_and(|other| other == file)
    };
    match records.iter().find(|(_, other)| shares(other)) {
        Some((path, _)) => {
            Err(Error::invalid(format!("the audit device at {path}/ writes this file already")))
        }
        None => Ok(()),
    }
}

pub(super) async fn disable(
    audit: &Audit,
    context: &NamespaceContext,
    path: &str,
) -> Result<Response, Error> {
    let _latch = context.latches.hold(&keys::storage(MountId::SYSTEM, DEVICE_FOLDER)).await;
    match audit.records().get(path) {
        None => return Ok(Response::Empty),
        Some(record) if record.declared => {
            return Err(Error::invalid(
                "this audit device is declared in the configuration: remove it there",
            ));
        }
        Some(_) => {}
    }
    let storage = EngineStorage::builtin(context, MountId::SYSTEM)?;
    storage.delete(&format!("{DEVICE_FOLDER}{path}")).await?;
    tracing::info!(path, "audit device disabled");
    Ok(Response::Empty)
}

fn known(audit: &Audit, path: &str) -> Result<Arc<Device>, Error> {
    let device = audit.devices.named(path);
    device.ok_or_else(|| Error::invalid(format!("unknown audit backend \"{path}/\"")))
}

pub(super) fn hash(
    audit: &Audit,
    call: &AuthorizedCall<'_, '_>,
    path: &str,
) -> Result<Response, Error> {
    let body = call.object()?;
    let input = Fields::new(&body).string("input")?.filter(|text| !text.is_empty());
    let input = input.ok_or_else(|| Error::invalid("the \"input\" parameter is empty"))?;
    let hash = known(audit, path)?.hash(&input);
    Ok(Response::merged(&Json::object([("hash", hash.into())])))
}

pub(super) fn head(audit: &Audit, path: &str) -> Result<Response, Error> {
    let device = known(audit, path)?;
    let head = device.head();
    let (health, error) = match device.health() {
        Health::Working => ("working", Json::Null),
        Health::Failed(why) => ("failed", why.into()),
        Health::Hanging => ("hanging", Json::Null),
    };
    Ok(Response::data(&Json::object([
        ("seq", head.seq.into()),
        ("hash", head.hash_text().into()),
        ("health", health.into()),
        ("error", error),
        ("chain", device.verdict().map_or(Json::Null, |verdict| verdict.name().into())),
        ("public_key", device.public_key().to_text().into()),
        ("node", audit.settings.node.as_str().into()),
    ])))
}

/// The routes of audited headers; `rest` is what follows their family.
pub(super) fn read_headers(audit: &Audit) -> Response {
    let all = audit.headers();
    let map: Map = all.iter().map(|(name, record)| (name.clone(), record.to_json())).collect();
    Response::merged(&Json::object([("headers", map.into())]))
}

/// Names are kept in lower case, and shown as asked for.
pub(super) fn read_header(audit: &Audit, asked: &str) -> Result<Response, Error> {
    match audit.headers().get(&asked.to_ascii_lowercase()) {
        Some(record) => Ok(Response::merged(&Json::object([(asked, record.to_json())]))),
        None => Err(Error::invalid("Could not find header in config")),
    }
}

pub(super) async fn put_header(
    audit: &Audit,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    name: &str,
) -> Result<Response, Error> {
    let name = &*name.to_ascii_lowercase();
    let body = call.object()?;
    let hmac = Fields::new(&body).boolean("hmac")?.unwrap_or_default();
    if name.len() > HEADER_BYTES_MAX || !is_header_name(name) {
        return Err(Error::invalid("that is no name of a header"));
    }
    if !hmac && SECRET_HEADERS.contains(&name) {
        return Err(Error::invalid(format!("the header {name} is audited with hmac only")));
    }
    if audit.headers().len() >= HEADERS_MAX && !audit.headers().contains_key(name) {
        return Err(Error::invalid(format!("more than {HEADERS_MAX} audited headers")));
    }
    let storage = EngineStorage::builtin(context, MountId::SYSTEM)?;
    let record = HeaderRecord { hmac };
    storage.put(&format!("{HEADER_FOLDER}{name}"), record.to_json().to_text()).await?;
    Ok(Response::Empty)
}

pub(super) async fn delete_header(
    context: &NamespaceContext,
    name: &str,
) -> Result<Response, Error> {
    let name = &*name.to_ascii_lowercase();
    let storage = EngineStorage::builtin(context, MountId::SYSTEM)?;
    storage.delete(&format!("{HEADER_FOLDER}{name}")).await?;
    Ok(Response::Empty)
}
