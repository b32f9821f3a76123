//! `sys/config/cors` and `sys/config/ui/headers`: the headers that browsers get.
//!
//! What is stored here goes into headers of answers, so nothing that could end a header gets in.

use crate::api::error::Error;
use crate::api::fields::{Fields, parse_bool, scalar_text};
use crate::api::json::{Json, Map};
use crate::api::response::{Logical, Response};
use crate::caller::call::AuthorizedCall;
use crate::platform::web::{ANY_ORIGIN, CORS, Origins, PAGE_HEADERS, encode_page_header};
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// Most origins, and most headers besides the usual ones.
const NAMES_MAX: usize = 256;
/// Longest origin or name of a header, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// Most headers of pages: with the values they have to fit what browsers read.
const PAGE_HEADERS_MAX: usize = 64;
/// Longest value of a header of pages, in bytes.
const VALUE_BYTES_MAX: usize = 4096;
/// Headers that frame an answer, which is not for operators to say.
const FRAMING: [&str; 4] = ["connection", "content-length", "content-type", "transfer-encoding"];
/// The header whose default keeps pages from running what others put into them.
const CONTENT_SECURITY: &str = "Content-Security-Policy";

pub(super) async fn delete_origins(context: &NamespaceContext) -> Result<Response, Error> {
    delete(context, CORS).await
}

pub(super) async fn delete_header(
    context: &NamespaceContext,
    name: &str,
) -> Result<Response, Error> {
    delete(context, &format!("{PAGE_HEADERS}{}", canonical(name))).await
}

async fn delete(context: &NamespaceContext, record: &str) -> Result<Response, Error> {
    EngineStorage::builtin(context, MountId::SYSTEM)?.delete(record).await?;
    Ok(Response::Empty)
}

async fn put(context: &NamespaceContext, record: &str, value: Vec<u8>) -> Result<(), Error> {
    EngineStorage::builtin(context, MountId::SYSTEM)?.put(record, value).await
}

pub(super) fn read_origins(context: &NamespaceContext) -> Response {
    let Some(origins) = context.view.web.origins() else {
        return Response::merged(&Json::object([("enabled", false.into())]));
    };
    Response::merged(&Json::object([
        ("enabled", true.into()),
        ("allowed_origins", Json::strings(origins.allowed.clone())),
        ("allowed_headers", Json::strings(origins.headers())),
    ]))
}

pub(super) async fn write_origins(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let allowed = fields.strings("allowed_origins")?.unwrap_or_default();
    let extra_headers = fields.strings("allowed_headers")?.unwrap_or_default();
    if allowed.is_empty() {
        return Err(counted("at least one origin or the wildcard must be provided"));
    }
    if allowed.len() > 1 && allowed.iter().any(|origin| origin == ANY_ORIGIN) {
        return Err(counted(
            "to allow all origins the '*' must be the only value for allowed_origins",
        ));
    }
    let is_origin = |text: &String| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    check_names("allowed_origins", &allowed, is_origin)?;
    check_names("allowed_headers", &extra_headers, |text| is_header_name(text))?;
    put(context, CORS, Origins { allowed, extra_headers }.encode()).await?;
    Ok(Response::Empty)
}

fn check_names(
    field: &str,
    names: &[String],
    is_sound: impl Fn(&String) -> bool,
) -> Result<(), Error> {
    if names.len() > NAMES_MAX {
        return Err(Error::invalid(format!("{field}: more than {NAMES_MAX} values")));
    }
    let unsound = |name: &String| name.len() > NAME_BYTES_MAX || !is_sound(name);
    match names.iter().position(unsound) {
        Some(at) => Err(Error::invalid(format!("{field}: value {at} cannot stand in a header"))),
        None => Ok(()),
    }
}

pub(super) fn list_headers(context: &NamespaceContext) -> Result<Response, Error> {
    let headers = context.view.web.page_headers();
    if headers.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(headers.keys().cloned()))])))
}

pub(super) fn read_header(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    name: &str,
) -> Result<Response, Error> {
    let name = &*canonical(name);
    let headers = context.view.web.page_headers();
    let values = headers.get(name).ok_or(Error::NotFound)?;
    let asked = call.query.iter().find(|(name, _)| name == "multivalue");
    let data = if asked.is_some_and(|(_, value)| parse_bool(value) == Some(true)) {
        ("values", Json::strings(values.clone()))
    } else {
        ("value", values.first().map_or("", String::as_str).into())
    };
    Ok(Response::data(&Json::object([data])))
}

pub(super) async fn write_header(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    name: &str,
) -> Result<Response, Error> {
    let name = &*canonical(name);
    let values = values(&call.object()?)?;
    if values.is_empty() {
        return Err(Error::invalid("header and values must be specified"));
    }
    if name.starts_with("X-Vault-") {
        return Err(Error::invalid("X-Vault headers cannot be set"));
    }
    if name.len() > NAME_BYTES_MAX || !is_header_name(name) {
        return Err(Error::invalid("that is no name of a header"));
    }
    if FRAMING.iter().any(|framing| framing.eq_ignore_ascii_case(name)) {
        return Err(Error::invalid(format!("the header {name} is not for operators to set")));
    }
    let is_value = |text: &String| {
        text.len() <= VALUE_BYTES_MAX && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
    };
    if values.len() > NAMES_MAX || !values.iter().all(is_value) {
        return Err(Error::invalid("values: one cannot stand in a header"));
    }
    let headers = context.view.web.page_headers();
    if headers.len() >= PAGE_HEADERS_MAX && !headers.contains_key(name) {
        return Err(Error::invalid(format!("more than {PAGE_HEADERS_MAX} headers")));
    }
    put(context, &format!("{PAGE_HEADERS}{name}"), encode_page_header(&values)).await?;
    let mut logical = Logical::default();
    if name == CONTENT_SECURITY {
        logical.warnings = vec![
            "overriding default Content-Security-Policy which is secure by default, proceed with \
             caution"
                .to_owned(),
        ];
    }
    Ok(Response::Logical(logical))
}

/// The values given; a text is one value, commas and all.
fn values(body: &Map) -> Result<Vec<String>, Error> {
    match body.get("values") {
        Some(Json::Array(_)) => Ok(Fields::new(body).strings("values")?.unwrap_or_default()),
        Some(value) => Ok(scalar_text(value).filter(|text| !text.is_empty()).into_iter().collect()),
        None => Ok(Vec::new()),
    }
}

/// The name as servers write it: `x-one-two` is `X-One-Two`.
fn canonical(name: &str) -> String {
    let mut starts = true;
    let letters = name.chars().map(|letter| {
        let shown = if starts { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        starts = letter == '-';
        shown
    });
    letters.collect()
}

/// RFC 9110, 5.6.2.
pub(super) fn is_header_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

fn counted(text: &str) -> Error {
    Error::invalid(format!("1 error occurred:\n\t* {text}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_headers_have_one_spelling() {
        for (given, shown) in [("x-one-two", "X-One-Two"), ("X-FOO", "X-Foo"), ("-", "-")] {
            assert_eq!(canonical(given), shown);
        }
        assert!(is_header_name("X-One") && !is_header_name("") && !is_header_name("a b"));
        assert!(!is_header_name("a\r\nb"));
    }
}
