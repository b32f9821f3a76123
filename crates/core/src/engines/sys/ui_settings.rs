//! `sys/config/ui/settings`, and what of it the page asks before a login: `sys/internal/ui/config`.
//!
//! One record in the engine storage of `sys/` of the root namespace, read when it is asked for. What the page shows before a login is for
//! anyone, so nothing secret belongs there: a banner, which login methods there are (those listed as `unauth`), and how long the page
//! keeps values on a screen. A banner is text: the page puts no markup of it into a document.

use jiff::Timestamp;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::state::Core;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;
use kallisto_engine::Class;

/// Where the settings are.
const RECORD: &str = "config/ui/settings";
/// Longest banner, in bytes.
const BANNER_BYTES_MAX: usize = 1_024;
/// Most login methods in an order.
const LOGINS_MAX: usize = 64;
/// Each number with its bounds and what holds when nobody says, in seconds.
const SECONDS: [(&str, i64, i64, i64); 3] = [
    // (name, least, most, default)
    ("clipboard_secs", 5, 600, 45),
    ("idle_secs", 60, 3_600, 900),
    ("reveal_secs", 5, 600, 30),
];
const LEVELS: [&str; 3] = ["info", "warn", "bad"];
const SESSIONS: [&str; 2] = ["tab", "memory"];

fn stored(context: &NamespaceContext) -> Result<Map, Error> {
    let record = EngineStorage::builtin(context, MountId::SYSTEM)?.get(RECORD)?;
    match record {
        None => Ok(Map::new()),
        Some(record) => json::parse_object(&record.value).map_err(|error| Error::internal(&error)),
    }
}

/// The settings, with what holds where nobody said anything.
fn whole(stored: &Map) -> Map {
    let mut map = Map::new();
    let or = |name: &str, default: Json| stored.get(name).cloned().unwrap_or(default);
    for (name, _, _, default) in SECONDS {
        map.insert(name.into(), or(name, Json::Number(default.to_string().into())));
    }
    map.insert("banner".into(), or("banner", Json::Null));
    map.insert("logins".into(), or("logins", Json::Array(Vec::new())));
    map.insert("private_titles".into(), or("private_titles", false.into()));
    map.insert("session".into(), or("session", SESSIONS[0].into()));
    map
}

/// Answers `GET sys/config/ui/settings`.
pub(super) fn read(context: &NamespaceContext) -> Result<Response, Error> {
    Ok(Response::data(&whole(&stored(context)?).into()))
}

/// Answers `DELETE sys/config/ui/settings`.
pub(super) async fn delete(context: &NamespaceContext) -> Result<Response, Error> {
    EngineStorage::builtin(context, MountId::SYSTEM)?.delete(RECORD).await?;
    Ok(Response::Empty)
}

/// Answers `POST sys/config/ui/settings`: fields that are absent stay, `null` takes one back.
///
/// # Errors
/// [`Error::Invalid`] naming the field that is out of its bounds.
pub(super) async fn write(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let mut settings = stored(context)?;
    for (name, value) in body.iter() {
        if *value == Json::Null {
            settings.remove(name);
            continue;
        }
        settings.insert(name.clone(), checked(name, &body)?);
    }
    let record = Json::Object(settings).to_text();
    EngineStorage::builtin(context, MountId::SYSTEM)?.put(RECORD, record).await?;
    Ok(Response::Empty)
}

/// The value of a field, if it is one that may be kept.
fn checked(name: &str, body: &Map) -> Result<Json, Error> {
    let fields = Fields::new(body);
    let wrong = |what: String| Error::invalid(format!("'{name}' {what}"));
    if let Some((_, least, most, _)) = SECONDS.iter().find(|(known, ..)| *known == name) {
        let secs = fields.int(name)?.unwrap_or_default();
        return match (*least..=*most).contains(&secs) {
            true => Ok(Json::Number(secs.to_string().into())),
            false => Err(wrong(format!("must be {least} to {most} seconds"))),
        };
    }
    match name {
        "private_titles" => Ok(fields.boolean(name)?.unwrap_or_default().into()),
        "session" => {
            let session = fields.string(name)?.unwrap_or_default();
            let known = SESSIONS.into_iter().find(|known| *known == session);
            known.map(Json::from).ok_or_else(|| wrong("must be tab or memory".to_owned()))
        }
        "logins" => {
            let logins = fields.strings(name)?.unwrap_or_default();
            if logins.len() > LOGINS_MAX {
                return Err(wrong(format!("may name {LOGINS_MAX} login methods")));
            }
            let slashed = |path: &String| format!("{}/", path.trim_matches('/'));
            Ok(Json::strings(logins.iter().map(slashed).collect::<Vec<_>>()))
        }
        "banner" => banner(fields.map(name)?.unwrap_or(&Map::new())),
        _ => Err(wrong("is no setting of the page".to_owned())),
    }
}

fn banner(given: &Map) -> Result<Json, Error> {
    let fields = Fields::new(given);
    let text = fields.string("text")?.unwrap_or_default();
    if text.is_empty() || text.len() > BANNER_BYTES_MAX {
        return Err(Error::invalid(format!(
            "'banner.text' must have 1 to {BANNER_BYTES_MAX} bytes"
        )));
    }
    let level = fields.string("level")?.unwrap_or_else(|| LEVELS[0].to_owned());
    if !LEVELS.contains(&level.as_str()) {
        return Err(Error::invalid("'banner.level' must be info, warn or bad"));
    }
    let until = match fields.string("until")?.filter(|until| !until.is_empty()) {
        None => Json::Null,
        Some(until) => {
            let parsed = until.parse::<Timestamp>();
            let wrong =
                |_| Error::invalid("'banner.until' must be a time such as 2027-01-31T08:00:00Z");
            parsed.map_err(wrong)?.to_string().into()
        }
    };
    Ok(Json::object([("text", text.into()), ("level", level.into()), ("until", until)]))
}

/// Answers `GET sys/internal/ui/config`, for anyone.
///
/// # Errors
/// [`Error::Sealed`].
pub(super) fn public(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let root = core.namespace_context("")?;
    let mut settings = whole(&stored(&root)?);
    let ended = |banner: &Map| {
        let until = banner.get("until")?.as_str()?.parse::<Timestamp>().ok()?;
        Some(until <= request.now)
    };
    if settings["banner"].as_object().and_then(ended) == Some(true) {
        settings.insert("banner".into(), Json::Null);
    }
    let context = core.namespace_context(request.namespace)?;
    let logins = logins(&context, &settings["logins"]);
    settings.insert("logins".into(), logins);
    Ok(Response::data(&settings.into()))
}

/// The login methods that may be shown before a login, those in the operators' order first.
fn logins(context: &NamespaceContext, order: &Json) -> Json {
    let order: Vec<&str> = match order {
        Json::Array(order) => order.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    let mut public: Vec<_> = context.view.mounts.all();
    public.retain(|mount| {
        mount.entry.kind.class() == Class::Auth && mount.entry.config.listing_visibility == "unauth"
    });
    let place = |path: &str| order.iter().position(|known| *known == path).unwrap_or(order.len());
    public.sort_by_key(|mount| place(mount.entry.shown_path()));
    let shown = public.iter().map(|mount| {
        let entry = mount.entry.to_wire();
        let text = |name: &str| entry.get(name).cloned().unwrap_or(Json::Null);
        Json::object([
            ("mount", mount.entry.shown_path().into()),
            ("type", text("type")),
            ("label", text("description")),
        ])
    });
    Json::Array(shown.collect())
}
