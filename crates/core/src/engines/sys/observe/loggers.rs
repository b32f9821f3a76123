//! `sys/loggers`: how urgent an event must be to be logged, changed while the server runs.

use std::sync::Arc;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::platform::host::{Host, LogLevel};
use crate::state::Core;

fn host(core: &Core) -> Result<&Arc<dyn Host>, Error> {
    let nothing = || Error::Unavailable("the log of this server cannot be changed".to_owned());
    core.host.as_ref().ok_or_else(nothing)
}

pub(in crate::engines::sys) fn read_all(core: &Core) -> Result<Response, Error> {
    let levels = host(core)?.log_levels().into_iter();
    let levels: Map = levels.map(|(name, level)| (name, level.name().into())).collect();
    Ok(Response::data(&levels.into()))
}

/// One logger; an unknown one has no level to show.
pub(in crate::engines::sys) fn read(core: &Core, name: &str) -> Result<Response, Error> {
    let levels = host(core)?.log_levels().into_iter().filter(|(known, _)| known == name);
    let levels: Map = levels.map(|(name, level)| (name, level.name().into())).collect();
    Ok(Response::data(&levels.into()))
}

pub(in crate::engines::sys) fn write(
    core: &Core,
    call: &AuthorizedCall<'_, '_>,
    name: Option<&str>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let level = Fields::new(&body).string("level")?.unwrap_or_default();
    if level.is_empty() {
        return Err(Error::invalid("level is required"));
    }
    let parsed = LogLevel::named(&level).ok_or_else(|| {
        Error::invalid("invalid level provided: it must be trace, debug, info, warn or error")
    })?;
    set(core, name, Some(parsed))
}

pub(in crate::engines::sys) fn reset(core: &Core, name: Option<&str>) -> Result<Response, Error> {
    set(core, name, None)
}

fn set(core: &Core, name: Option<&str>, level: Option<LogLevel>) -> Result<Response, Error> {
    if !host(core)?.set_log_level(name, level) {
        let name = Json::from(name.unwrap_or_default()).to_text();
        let name = String::from_utf8_lossy(&name).into_owned();
        return Err(Error::invalid(format!("logger {name} not found")));
    }
    tracing::warn!(
        logger = name.unwrap_or("all"),
        level = level.map_or("as configured", LogLevel::name),
        "log level changed"
    );
    Ok(Response::Empty)
}
