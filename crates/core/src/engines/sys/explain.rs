//! `sys/policies/explain`: which rule of which policy decided, and why the others lost.
//!
//! For operators, and ours alone. The answer comes from the function that decides, asked for a
//! request that carries nothing but a path and a capability; a rule that looks at parameters or
//! wrapping is said to refuse it for want of them.

use kallisto_auth::acl::{Dropped, Explanation, Lost, PolicyRule, Reason, RuleReport, Why};
use kallisto_auth::policy::Refusal;
use kallisto_auth::{Capability, Operation, Path, Precedence, Subject, Unresolved};

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::pipeline::authz_request;
use crate::pipeline::policies::Caller;
use crate::pipeline::spelling;
use crate::view::View;

/// What is asked about.
struct Question {
    path: Path<'static>,
    capability: Capability,
    needs_sudo: bool,
    caseless: Option<Box<str>>,
}

/// The operation that takes a capability.
const fn operation(capability: Capability) -> Operation {
    match capability {
        Capability::Delete => Operation::Delete,
        Capability::List => Operation::List,
        Capability::Patch => Operation::Patch,
        Capability::Read => Operation::Read,
        Capability::Scan => Operation::Scan,
        Capability::Create
        | Capability::Deny
        | Capability::Recover
        | Capability::Subscribe
        | Capability::Sudo
        | Capability::Update => Operation::Update,
    }
}

impl Subject for Question {
    fn operation(&self) -> Operation {
        operation(self.capability)
    }

    fn path(&self) -> &Path<'_> {
        &self.path
    }

    fn caseless_path(&self) -> Option<&str> {
        self.caseless.as_deref()
    }

    fn capability(&self) -> Capability {
        self.capability
    }

    fn needs_sudo(&self) -> bool {
        self.needs_sudo
    }
}

/// Answers for `caller` what `body` asks: `path`, and `capability`, which is `read` if absent. The path is taken as a
/// request's would be: a question about what no request can ask is refused like it.
pub(super) fn answer(view: &View, body: &Map, caller: &Caller) -> Result<Response, Error> {
    let question = question(view, &Fields::new(body))?;
    if caller.is_root() {
        let pairs = [("allowed", true.into()), ("reason", "the token is a root token".into())];
        return Ok(Response::data(&Json::object(pairs)));
    }
    Ok(Response::data(&to_json(&caller.acl().explain(&question))))
}

/// Answers what a token asks about itself, which every token may. `None` for a question about another, whose right is
/// that of its path.
pub(super) fn about_itself(
    view: &View,
    request: &Request<'_>,
    caller: &Caller,
) -> Option<Result<Response, Error>> {
    let body = match request.object() {
        Ok(body) => body,
        Err(error) => return Some(Err(error)),
    };
    match Fields::new(&body).string("accessor") {
        Ok(accessor) if accessor.as_deref().is_none_or(str::is_empty) => {
            Some(answer(view, &body, caller))
        }
        _ => None,
    }
}

fn question(view: &View, fields: &Fields<'_>) -> Result<Question, Error> {
    let path = fields.string("path")?.unwrap_or_default();
    let path = path.trim_start_matches('/');
    if path.is_empty() {
        return Err(Error::invalid("path must be supplied"));
    }
    let name = fields.string("capability")?.unwrap_or_else(|| "read".to_owned());
    let capability = Capability::named(&name)
        .ok_or_else(|| Error::invalid(format!("invalid capability {name:?}")))?;
    let path = spelling::canonical(operation(capability), path)?;
    let path = Path::literal(&path).map(Path::into_owned);
    let path = path.map_err(|error| Error::invalid(error.to_string()))?;
    let needs_sudo = authz_request::needs_sudo(operation(capability), path.as_str(), view);
    let caseless = spelling::caseless(path.as_str(), view);
    Ok(Question { path, capability, needs_sudo, caseless })
}

fn to_json(explanation: &Explanation) -> Json {
    let decided_by =
        explanation.decided_by.as_ref().map_or(Json::Null, |rule| rule_json(rule).into());
    Json::object([
        ("allowed", explanation.is_granted().into()),
        ("reason", reason_text(explanation.reason).into()),
        ("decided_by", decided_by),
        ("lost", Json::Array(explanation.lost.iter().map(lost_json).collect())),
        ("dropped", Json::Array(explanation.dropped.iter().map(dropped_json).collect())),
    ])
}

fn rule_json(rule: &RuleReport) -> Map {
    let mut map = Map::new();
    map.insert("pattern".into(), rule.pattern.as_str().into());
    map.insert("capabilities".into(), Json::strings(rule.capabilities.names()));
    map.insert("sources".into(), Json::Array(rule.sources.iter().map(source_json).collect()));
    map
}

fn source_json(source: &PolicyRule) -> Json {
    Json::object([
        ("policy", source.policy.as_str().into()),
        ("line", u64::from(source.line).into()),
        ("pattern", source.pattern.as_str().into()),
        ("capabilities", Json::strings(source.capabilities.names())),
    ])
}

fn lost_json(lost: &Lost) -> Json {
    let mut map = rule_json(&lost.rule);
    map.insert("because".into(), precedence_text(lost.to).into());
    map.into()
}

fn dropped_json(dropped: &Dropped) -> Json {
    let because = match dropped.why {
        Why::Template(Unresolved::NoValue) => "the caller has no value for its template",
        Why::Template(Unresolved::UnsafeValue) => {
            "the caller's value for its template holds '/', '*' or '+'"
        }
        Why::Expired => "it has expired",
    };
    Json::object([("rule", source_json(&dropped.source)), ("because", because.into())])
}

fn reason_text(reason: Reason) -> String {
    match reason {
        Reason::Granted => "the rule grants it".to_owned(),
        Reason::NoRule => "no rule matches the path".to_owned(),
        Reason::Denied => "the rule denies everything".to_owned(),
        Reason::DeniedWithoutCase => {
            "the rule denies everything, and a denial does not mind case".to_owned()
        }
        Reason::Lacks(capability) => format!("the rule does not grant {}", capability.name()),
        Reason::Refused(refusal) => refusal_text(refusal).to_owned(),
    }
}

const fn refusal_text(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::WrapTtl => "the rule asks for a wrapped answer of a certain time to live",
        Refusal::PageTooLong => "the rule allows shorter pages only",
        Refusal::ParametersUnknown => "the rule judges parameters, and this question has none",
        Refusal::ParameterMissing => "the rule requires a parameter",
        Refusal::ParameterDenied => "the rule denies a parameter or its value",
        Refusal::ParameterNotAllowed => "the rule does not allow a parameter or its value",
    }
}

const fn precedence_text(precedence: Precedence) -> &'static str {
    match precedence {
        Precedence::Exact => "an exact pattern comes before one with wildcards",
        Precedence::LaterWildcard => "its first wildcard stands earlier",
        Precedence::NoFinalGlob => "it ends in '*'",
        Precedence::FewerSegmentWildcards => "it has more '+' segments",
        Precedence::Longer => "it is shorter",
        Precedence::WithSlash => "for a listing, a rule for the path with its slash comes first",
        Precedence::Denial => "of two equally specific rules a denial comes first",
        Precedence::GreaterText => "its text is smaller",
    }
}
