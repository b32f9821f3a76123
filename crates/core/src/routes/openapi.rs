//! `sys/internal/specs/openapi`: the routes a caller reaches as an OpenAPI 3.0 document.
//!
//! OpenAPI knows no `LIST`: a list is the `GET` of the path with an ending slash and `list=true`, as
//! clients send it; where a route takes `SCAN` too, the same `GET` takes `scan=true`.

use std::collections::BTreeMap;

use kallisto_auth::Operation;

use super::{Admits, Field, FieldKind, FieldPlace, Rights, Route, Routes, pattern};
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::caller::policies::CallerPolicies;
use crate::platform::server_info::ServerInfo;
use crate::registry;
use crate::state::Core;
use crate::view::NamespaceContext;
use kallisto_engine::Multiplicity;

const OK: u16 = 200;

/// Answers the bearer of a valid token, or nobody in particular: the document is then empty.
pub(crate) fn answer(
    context: &NamespaceContext,
    info: &ServerInfo,
    request: &Request<'_>,
    caller: Option<&CallerPolicies>,
) -> Result<Response, crate::api::error::Error> {
    let query = request.query_fields();
    let generic = Fields::new(&query).boolean("generic_mount_paths")?.unwrap_or(false);
    let mut paths = PathItems::default();
    if let Some(caller) = caller {
        for mount in context.view.mounts.all() {
            let entry = &mount.entry;
            let is_builtin = entry.kind.multiplicity() == Multiplicity::Builtin;
            if !is_builtin && !caller.reaches(&entry.path) {
                continue;
            }
            let family = registry::driver(entry.kind).routes();
            // One engine mounted twice is described once when its path is a parameter.
            let base = if generic && !is_builtin {
                format!("/{{{}_mount_path}}/", family.name().replace('-', "_"))
            } else {
                format!("/{}", entry.path)
            };
            paths.add(family, &base, family.routes());
        }
    }
    Ok(Response::Bare { code: OK, body: paths.into_document(info) })
}

/// Answers who shows no token.
pub(crate) fn public(
    core: &Core,
    request: &Request<'_>,
) -> Result<Response, crate::api::error::Error> {
    let context = core.namespace_context(request.namespace)?;
    answer(&context, &core.info, request, None)
}

/// The word of an operation where people read it.
pub(super) const fn verb(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "GET",
        Operation::Update => "POST",
        Operation::Patch => "PATCH",
        Operation::Delete => "DELETE",
        Operation::List => "LIST",
        Operation::Scan => "SCAN",
        Operation::Recover => "RECOVER",
    }
}

/// Path items, by path.
#[derive(Default)]
pub(super) struct PathItems(BTreeMap<String, Map>);

impl PathItems {
    /// Adds a family's routes below `base`, which begins and ends with a slash.
    pub(super) fn add(
        &mut self,
        family: &dyn Routes,
        base: &str,
        routes: impl Iterator<Item = &'static Route>,
    ) {
        for route in routes {
            let path = format!("{base}{}", pattern::template(route.pattern));
            for &(operation, about) in route.does {
                let (path, method) = match operation {
                    Operation::Read => (path.clone(), "get"),
                    Operation::Update => (path.clone(), "post"),
                    Operation::Patch => (path.clone(), "patch"),
                    Operation::Delete => (path.clone(), "delete"),
                    Operation::List => (format!("{path}/"), "get"),
                    // Beside a list it is a parameter of the list, and beside a write one of the write.
                    Operation::Scan | Operation::Recover => continue,
                };
                let item = self.0.entry(path).or_insert_with(|| item(route, base));
                item.insert(method.into(), described(family, base, route, operation, about));
            }
        }
    }

    /// The whole document.
    pub(super) fn into_document(self, info: &ServerInfo) -> Json {
        let paths: Map = self.0.into_iter().map(|(path, item)| (path, item.into())).collect();
        Json::object([
            ("openapi", "3.0.3".into()),
            (
                "info",
                Json::object([
                    ("title", "Kallisto".into()),
                    ("description", "The HTTP API. All paths stand below `/v1`.".into()),
                    ("version", info.version.as_str().into()),
                    ("license", Json::object([("name", "Apache-2.0".into())])),
                ]),
            ),
            ("servers", Json::Array(vec![Json::object([("url", "/v1".into())])])),
            ("security", Json::Array(vec![Json::object([("token", Json::Array(Vec::new()))])])),
            ("paths", paths.into()),
            ("components", components()),
        ])
    }
}

fn components() -> Json {
    let errors = Json::object([
        ("type", "object".into()),
        ("properties", Json::object([("errors", schema_of(FieldKind::Texts))])),
    ]);
    let of_errors =
        Json::object([("schema", Json::object([("$ref", "#/components/schemas/Errors".into())]))]);
    Json::object([
        (
            "securitySchemes",
            Json::object([(
                "token",
                Json::object([
                    ("type", "apiKey".into()),
                    ("in", "header".into()),
                    ("name", "X-Vault-Token".into()),
                ]),
            )]),
        ),
        ("schemas", Json::object([("Errors", errors)])),
        (
            "responses",
            Json::object([(
                "Errors",
                Json::object([
                    ("description", "What is wrong, or nothing where nothing may be told.".into()),
                    ("content", Json::object([("application/json", of_errors)])),
                ]),
            )]),
        ),
    ])
}

/// What all operations of a path share.
fn item(route: &Route, base: &str) -> Map {
    let mut item = Map::new();
    item.insert("description".into(), route.summary().into());
    let mount = base.strip_prefix("/{").and_then(|rest| rest.strip_suffix("}/"));
    let mount = mount.map(|name| path_parameter(name, "Path of the mount."));
    let own = pattern::parameters(route.pattern).map(|name| {
        let field = route.fields.iter().find(|field| field.name == name);
        path_parameter(name, field.map_or("", |field| field.about))
    });
    let parameters: Vec<Json> = mount.into_iter().chain(own).collect();
    if !parameters.is_empty() {
        item.insert("parameters".into(), Json::Array(parameters));
    }
    match route.rights {
        Rights::Plain | Rights::SudoToList | Rights::SudoToWrite => {}
        Rights::Sudo => {
            item.insert("x-vault-sudo".into(), true.into());
        }
    }
    match route.admits {
        Admits::Anyone | Admits::WrappingToken => {
            item.insert("x-vault-unauthenticated".into(), true.into());
        }
        Admits::Policy
        | Admits::AnyToken
        | Admits::AnyTokenOrNone
        | Admits::AnyoneIfConfigured
        | Admits::AnyoneWhileSealed
        | Admits::AnyoneAtListener => {}
    }
    item
}

fn described(
    family: &dyn Routes,
    base: &str,
    route: &Route,
    operation: Operation,
    about: &str,
) -> Json {
    let mut described = Map::new();
    described.insert("summary".into(), about.into());
    described.insert("tags".into(), Json::strings([family.tag()]));
    described.insert("operationId".into(), identifier(family, base, route, operation).into());
    let parameters = query_parameters(route, operation);
    if !parameters.is_empty() {
        described.insert("parameters".into(), Json::Array(parameters));
    }
    if matches!(operation, Operation::Update | Operation::Patch)
        && let Some(body) = request_body(route, operation)
    {
        described.insert("requestBody".into(), body);
    }
    match route.admits {
        Admits::Anyone | Admits::WrappingToken => {
            described.insert("security".into(), Json::Array(Vec::new()));
        }
        Admits::AnyTokenOrNone | Admits::AnyoneIfConfigured | Admits::AnyoneAtListener => {
            let token = Json::object([("token", Json::Array(Vec::new()))]);
            let nothing = Json::Object(Map::new());
            described.insert("security".into(), Json::Array(vec![nothing, token]));
        }
        Admits::Policy | Admits::AnyToken | Admits::AnyoneWhileSealed => {}
    }
    described.insert("responses".into(), responses(operation));
    described.into()
}

/// Unique in a document: the base, the verb and the words of the pattern. Of two routes with the same words, as
/// `a-b/c` and `a/b-c` have, the second one's ends in a 2.
pub(super) fn identifier(
    family: &dyn Routes,
    base: &str,
    route: &Route,
    operation: Operation,
) -> String {
    // Lists differ from reads of the same pattern by their verb.
    let verb = verb(operation).to_ascii_lowercase();
    let mut identifier = family.name().to_owned();
    for word in [base, verb.as_str(), route.pattern].into_iter().flat_map(words) {
        identifier.push('-');
        identifier.push_str(word);
    }
    let mut before = family.routes().take_while(|other| other.pattern != route.pattern);
    if before.any(|other| words(other.pattern).eq(words(route.pattern))) {
        identifier.push_str("-2");
    }
    identifier
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// What stands in the query: all of a read's fields, and what makes a `GET` a list.
fn query_parameters(route: &Route, operation: Operation) -> Vec<Json> {
    let mut parameters = Vec::new();
    if operation == Operation::List {
        let mut list = parameter_object("query", "list", "Always `true`.", FieldKind::Text);
        list.insert("required".into(), true.into());
        let values = [("type", "string".into()), ("enum", Json::strings(["true"]))];
        list.insert("schema".into(), Json::object(values));
        parameters.push(list.into());
        if route.takes(Operation::Scan) {
            let about = "`true`, without `list`, for everything below.";
            parameters.push(parameter_object("query", "scan", about, FieldKind::Flag).into());
        }
    }
    if matches!(operation, Operation::Read | Operation::List) {
        for field in beside_the_path(route, FieldPlace::Query) {
            parameters.push(parameter_object("query", field.name, field.about, field.kind).into());
        }
    }
    parameters
}

/// The fields that stand in `place` and not in the path.
fn beside_the_path(route: &Route, place: FieldPlace) -> impl Iterator<Item = &'static Field> {
    let Route { fields, pattern, .. } = *route;
    fields.iter().filter(move |field| {
        field.place == place && pattern::parameters(pattern).all(|name| name != field.name)
    })
}

fn request_body(route: &Route, operation: Operation) -> Option<Json> {
    let properties: Map = beside_the_path(route, FieldPlace::Body)
        .map(|field| {
            let mut schema = Map::from([("description".to_owned(), field.about.into())]);
            if let Json::Object(kind) = schema_of(field.kind) {
                schema.extend(kind);
            }
            (field.name.to_owned(), schema.into())
        })
        .collect();
    if properties.is_empty() && operation == Operation::Update && route.more.is_empty() {
        return None;
    }
    let schema = Json::object([("type", "object".into()), ("properties", properties.into())]);
    let media = match operation {
        Operation::Patch => "application/merge-patch+json",
        _ => "application/json",
    };
    let content = Json::object([(media, Json::object([("schema", schema)]))]);
    Some(Json::object([("content", content)]))
}

fn responses(operation: Operation) -> Json {
    let mut responses = Map::new();
    let mut say = |code: &str, text: &str| {
        let described = Json::object([("description", text.into())]);
        responses.insert(code.to_owned(), described);
    };
    match operation {
        Operation::Read | Operation::List | Operation::Scan => say("200", "The answer."),
        Operation::Update | Operation::Patch | Operation::Delete | Operation::Recover => {
            say("200", "Done, and what came of it.");
            say("204", "Done.");
        }
    }
    let errors = Json::object([("$ref", "#/components/responses/Errors".into())]);
    responses.insert("default".into(), errors);
    responses.into()
}

fn path_parameter(name: &str, about: &str) -> Json {
    let mut parameter = parameter_object("path", name, about, FieldKind::Text);
    parameter.insert("required".into(), true.into());
    parameter.into()
}

fn parameter_object(place: &str, name: &str, about: &str, kind: FieldKind) -> Map {
    Map::from([
        ("in".to_owned(), place.into()),
        ("name".to_owned(), name.into()),
        ("description".to_owned(), about.into()),
        ("schema".to_owned(), schema_of(kind)),
    ])
}

/// What a field of this kind holds.
fn schema_of(kind: FieldKind) -> Json {
    let of = |kind: &str| Json::object([("type", kind.into())]);
    match kind {
        FieldKind::Text | FieldKind::Span => of("string"),
        FieldKind::Whole => of("integer"),
        FieldKind::Number => of("number"),
        FieldKind::Flag => of("boolean"),
        FieldKind::Texts => Json::object([("type", "array".into()), ("items", of("string"))]),
        FieldKind::Wholes => Json::object([("type", "array".into()), ("items", of("integer"))]),
        FieldKind::Map => of("object"),
    }
}
