//! `sys/quotas/*`: the rules of rate limits (API.md A21).

use kallisto_auth::Operation;

use crate::error::Error;
use crate::fields::{Fields, scalar_text};
use crate::json::{Json, Map};
use crate::keys::MountId;
use crate::quotas::{RULES, RULES_MAX, SETTINGS, Spec, Told};
use crate::response::Response;
use crate::shelf::Shelf;
use crate::state::{Call, Unsealed};

/// Longest interval or block.
const SPAN_MAX_SECS: i64 = 365 * 24 * 60 * 60;
/// Most requests a rule may let pass in an interval.
const RATE_MAX: f64 = 1e12;

/// Answers the routes of this room; `path` is what follows `quotas/`.
pub(super) async fn handle(
    unsealed: &Unsealed,
    call: &Call<'_, '_>,
    path: &str,
) -> Result<Response, Error> {
    use Operation::{Delete, List, Read, Update};
    if let Some(name) = path.strip_prefix("rate-limit/").filter(|name| !name.is_empty()) {
        return match call.operation {
            Read => read(unsealed, name),
            Update => write(unsealed, call, name).await,
            Delete => delete(unsealed, name).await,
            _ => Err(Error::UnsupportedOperation),
        };
    }
    match (path, call.operation) {
        ("rate-limit" | "rate-limit/", List) => list(unsealed),
        ("config", Read) => {
            let settings = unsealed.view.quotas.settings();
            Ok(Response::data(&settings.to_json().into()))
        }
        ("config", Update) => configure(unsealed, call).await,
        ("rate-limit" | "rate-limit/" | "config", _) => Err(Error::UnsupportedOperation),
        _ => Err(Error::UnsupportedPath),
    }
}

fn list(unsealed: &Unsealed) -> Result<Response, Error> {
    let names = unsealed.view.quotas.names();
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

fn read(unsealed: &Unsealed, name: &str) -> Result<Response, Error> {
    let spec = unsealed.view.quotas.spec(name).ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::object([
        ("block_interval", spec.block_secs.into()),
        ("inheritable", spec.path.is_empty().into()),
        ("interval", spec.interval_secs.into()),
        ("name", spec.name.as_str().into()),
        ("path", spec.path.as_str().into()),
        ("rate", Json::Number(spec.rate.to_string().into())),
        ("role", "".into()),
        ("type", "rate-limit".into()),
    ])))
}

async fn write(unsealed: &Unsealed, call: &Call<'_, '_>, name: &str) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    if fields.string("role")?.is_some_and(|role| !role.is_empty()) {
        return Err(Error::invalid("role: limits by role are not available on this server"));
    }
    let spec = Spec {
        name: name.to_owned(),
        path: path(unsealed, &fields.string("path")?.unwrap_or_default())?,
        rate: rate(&body)?,
        interval_secs: span_secs(fields, "interval")?.max(1),
        block_secs: span_secs(fields, "block_interval")?,
    };
    let quotas = &unsealed.view.quotas;
    if let Some(other) = quotas.twin(&spec) {
        let other = Json::from(other).to_text();
        let other = String::from_utf8_lossy(&other).into_owned();
        return Err(Error::invalid(format!(
            "quota rule with similar properties exists under the name {other}"
        )));
    }
    if quotas.spec(name).is_none() && quotas.names().len() >= RULES_MAX {
        return Err(Error::invalid(format!(
            "there are {RULES_MAX} rules, as many as there may be"
        )));
    }
    shelf(unsealed)?.put(&format!("{RULES}{name}"), spec.encode()).await?;
    Ok(Response::Empty)
}

async fn delete(unsealed: &Unsealed, name: &str) -> Result<Response, Error> {
    shelf(unsealed)?.delete(&format!("{RULES}{name}")).await?;
    Ok(Response::Empty)
}

async fn configure(unsealed: &Unsealed, call: &Call<'_, '_>) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let mut settings = unsealed.view.quotas.settings();
    if let Some(told) = fields.boolean("enable_rate_limit_response_headers")? {
        settings.told = if told { Told::Headers } else { Told::Nothing };
    }
    if let Some(exempt) = fields.strings("rate_limit_exempt_paths")? {
        if exempt.len() > RULES_MAX {
            return Err(Error::invalid(format!(
                "rate_limit_exempt_paths: at most {RULES_MAX} paths"
            )));
        }
        settings.exempt = exempt;
    }
    shelf(unsealed)?.put(SETTINGS, settings.encode()).await?;
    Ok(Response::Empty)
}

fn shelf(unsealed: &Unsealed) -> Result<Shelf<'_>, Error> {
    Shelf::builtin(unsealed, MountId::SYSTEM)
}

/// The path of a rule; a mount's own gets its slash.
fn path(unsealed: &Unsealed, given: &str) -> Result<String, Error> {
    if given.is_empty() {
        return Ok(String::new());
    }
    let bare = given.trim_end_matches('*');
    let Some((mount, inside)) = unsealed.view.mounts.route(bare) else {
        let shown = Json::from(given).to_text();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        return Err(Error::invalid(format!("invalid mount path {shown}")));
    };
    let is_mount = inside.is_empty() && bare.len() == given.len();
    Ok(if is_mount { mount.entry.path.clone() } else { given.to_owned() })
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
