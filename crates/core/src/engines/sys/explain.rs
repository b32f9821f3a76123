//! `sys/policies/explain`: which rule of which policy decided, and why the others lost.
//!
//! Ours alone. The answer comes from the function that decides, asked for a request that carries nothing but a path and a
//! capability; a rule that looks at parameters or wrapping is said to refuse it for want of them. Every token may ask about itself,
//! also what a draft of a policy would change for it; about other tokens, entities and policies, who has a right to the path
//! ([`explain_subject`](super::explain_subject) finds whom a question is about). One question is a path and a capability; many are a grid.
//!
//! Bounds: [`EXPLAINED_CELLS_MAX`] questions, [`EXPLAINED_RULES_MAX`] looks at rules, [`EXPLAINED_LOST_MAX`] losers shown for each.

use kallisto_auth::acl::{
    Dropped, Explanation, LostRule, PolicyRule, Reason, RuleReport, SkipReason,
};
use kallisto_auth::policy::ConstraintRefusal;
use kallisto_auth::{Capability, Operation, Path, Precedence, Subject, Unresolved};

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::authz::authz_request;
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::caller::spelling;
use crate::engines::sys::explain_subject::SubjectQuery;
use crate::limits::{EXPLAINED_CELLS_MAX, EXPLAINED_LOST_MAX, EXPLAINED_RULES_MAX};
use crate::view::NamespaceContext;
use crate::view::View;

/// What is asked about.
pub(super) struct ExplainQuestion {
    path: Path<'static>,
    capability: Capability,
    needs_sudo: bool,
    caseless: Option<Box<str>>,
}

/// The operation that takes a capability.
pub(super) const fn operation(capability: Capability) -> Operation {
    match capability {
        Capability::Delete => Operation::Delete,
        Capability::List => Operation::List,
        Capability::Patch => Operation::Patch,
        Capability::Read => Operation::Read,
        Capability::Recover => Operation::Recover,
        Capability::Scan => Operation::Scan,
        Capability::Create
        | Capability::Deny
        | Capability::Subscribe
        | Capability::Sudo
        | Capability::Update => Operation::Update,
    }
}

impl ExplainQuestion {
    /// What is asked for.
    pub(super) const fn capability(&self) -> Capability {
        self.capability
    }
}

impl Subject for ExplainQuestion {
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

/// Answers what `body` asks about `asked`: `path` and `capability` (which is `read` if absent), or each of `paths` for each of
/// `capabilities`. A path is taken as a request's would be: a question about what no request can ask is refused like it.
pub(super) fn answer(view: &View, body: &Map, asked: &SubjectQuery) -> Result<Response, Error> {
    let fields = Fields::new(body);
    let many =
        |name| -> Result<Vec<String>, Error> { Ok(fields.strings(name)?.unwrap_or_default()) };
    let (paths, capabilities) = (many("paths")?, many("capabilities")?);
    if paths.is_empty() && capabilities.is_empty() {
        let path = fields.string("path")?.unwrap_or_default();
        let capability = fields.string("capability")?.unwrap_or_else(|| "read".to_owned());
        let mut cell = asked.explain(&question(view, &path, &capability)?, usize::MAX);
        cell.extend(asked.dropped(usize::MAX).unwrap_or_default());
        return Ok(Response::data(&cell.into()));
    }
    let paths = if paths.is_empty() { many("path")? } else { paths };
    let capabilities = match capabilities.is_empty() {
        true => vec![fields.string("capability")?.unwrap_or_else(|| "read".to_owned())],
        false => capabilities,
    };
    let cells = paths.len().saturating_mul(capabilities.len());
    if cells > EXPLAINED_CELLS_MAX {
        return Err(Error::invalid(format!(
            "{} paths and {} capabilities are {cells} questions; one request may ask {EXPLAINED_CELLS_MAX}",
            paths.len(),
            capabilities.len()
        )));
    }
    if asked.rule_count().saturating_mul(cells) > EXPLAINED_RULES_MAX {
        return Err(Error::invalid(format!(
            "{cells} questions to {} rules are too many for one request: it may look at {EXPLAINED_RULES_MAX} rules",
            asked.rule_count()
        )));
    }
    let mut grid = Vec::with_capacity(cells);
    for path in &paths {
        for capability in &capabilities {
            let question = question(view, path, capability)?;
            let mut cell = asked.explain(&question, EXPLAINED_LOST_MAX);
            // A root token and a disabled entity are decided about by no rule.
            cell.entry("decided_by".to_owned()).or_insert(Json::Null);
            cell.entry("lost".to_owned()).or_insert_with(|| Json::Array(Vec::new()));
            cell.insert("path".into(), path.as_str().into());
            cell.insert("capability".into(), question.capability.name().into());
            grid.push(cell.into());
        }
    }
    let mut data = asked.describe();
    data.extend(asked.dropped(EXPLAINED_LOST_MAX).unwrap_or_default());
    data.insert("grid".into(), Json::Array(grid));
    Ok(Response::data(&data.into()))
}

/// Answers what a token asks about itself, which every token may. `None` for a question about another, or about policies that it has
/// not: the right to that is the right to the path.
pub(super) fn about_itself(
    context: &NamespaceContext,
    request: &Request<'_>,
    caller: &CallerPolicies,
) -> Option<Result<Response, Error>> {
    let answer = || -> Result<Option<Response>, Error> {
        let body = request.object()?;
        let fields = Fields::new(&body);
        let accessor = fields.string("accessor")?.unwrap_or_default();
        let is_own = accessor.is_empty() || accessor == caller.token().accessor;
        let entity = fields.string("entity_id")?.unwrap_or_default();
        let is_own = is_own
            && (entity.is_empty() || caller.entity_id().is_some_and(|id| id.to_string() == entity));
        let others = fields.strings("policies")?.is_some_and(|policies| !policies.is_empty());
        if !is_own || others {
            return Ok(None);
        }
        let asked = SubjectQuery::by_itself(context, &body, caller, request.now)?;
        self::answer(&context.view, &body, &asked).map(Some)
    };
    answer().transpose()
}

/// The same, at the route that is only for that.
pub(super) fn only_about_itself(
    context: &NamespaceContext,
    request: &Request<'_>,
    caller: &CallerPolicies,
) -> Result<Response, Error> {
    about_itself(context, request, caller).unwrap_or_else(|| {
        Err(Error::invalid(
            "this route answers a token about itself; 'accessor', 'entity_id' and 'policies' are for sys/policies/explain",
        ))
    })
}

/// Answers about the subject that the body names.
pub(super) fn about_others(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let asked = SubjectQuery::named(context, &body, call)?;
    answer(&context.view, &body, &asked)
}

pub(super) fn question(view: &View, path: &str, name: &str) -> Result<ExplainQuestion, Error> {
    let path = path.trim_start_matches('/');
    if path.is_empty() {
        return Err(Error::invalid("path must be supplied"));
    }
    let capability = Capability::named(name)
        .ok_or_else(|| Error::invalid(format!("invalid capability {name:?}")))?;
    let path = spelling::canonical(operation(capability), path)?;
    let path = Path::literal(&path).map(Path::into_owned);
    let path = path.map_err(|error| Error::invalid(error.to_string()))?;
    let needs_sudo = authz_request::needs_sudo(operation(capability), path.as_str(), view);
    let caseless = spelling::caseless(path.as_str(), view);
    Ok(ExplainQuestion { path, capability, needs_sudo, caseless })
}

/// A decision, with at most `lost_max` of the rules that were not asked.
pub(super) fn cell(explanation: &Explanation, lost_max: usize) -> Map {
    let decided_by =
        explanation.decided_by.as_ref().map_or(Json::Null, |rule| rule_json(rule).into());
    let lost = explanation.lost.iter().take(lost_max).map(lost_json);
    let mut map = Map::new();
    map.insert("allowed".into(), explanation.is_granted().into());
    map.insert("reason".into(), reason_text(explanation.reason).into());
    map.insert("decided_by".into(), decided_by);
    map.insert("lost".into(), Json::Array(lost.collect()));
    if let Some(more) = more_than(explanation.lost.len(), lost_max) {
        map.insert("lost_more".into(), more);
    }
    map
}

/// The rules of a set that say nothing about its subject, at most so many.
pub(super) fn dropped(rules: &[Dropped], most: usize) -> Map {
    let mut map = Map::new();
    let shown = rules.iter().take(most).map(dropped_json);
    map.insert("dropped".into(), Json::Array(shown.collect()));
    if let Some(more) = more_than(rules.len(), most) {
        map.insert("dropped_more".into(), more);
    }
    map
}

/// How many there are beyond `most`.
fn more_than(count: usize, most: usize) -> Option<Json> {
    count.checked_sub(most).filter(|more| *more > 0).map(|more| (more as u64).into())
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

fn lost_json(lost: &LostRule) -> Json {
    let mut map = rule_json(&lost.rule);
    map.insert("because".into(), precedence_text(lost.to).into());
    map.into()
}

fn dropped_json(dropped: &Dropped) -> Json {
    let because = match dropped.why {
        SkipReason::Template(Unresolved::NoValue) => "the caller has no value for its template",
        SkipReason::Template(Unresolved::UnsafeValue) => {
            "the caller's value for its template holds '/', '*' or '+'"
        }
        SkipReason::Expired => "it has expired",
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

const fn refusal_text(refusal: ConstraintRefusal) -> &'static str {
    match refusal {
        ConstraintRefusal::WrapTtl => {
            "the rule asks for a wrapped answer of a certain time to live"
        }
        ConstraintRefusal::PageTooLong => "the rule allows shorter pages only",
        ConstraintRefusal::ParametersUnknown => {
            "the rule judges parameters, and this question has none"
        }
        ConstraintRefusal::ParameterMissing => "the rule requires a parameter",
        ConstraintRefusal::ParameterDenied => "the rule denies a parameter or its value",
        ConstraintRefusal::ParameterNotAllowed => {
            "the rule does not allow a parameter or its value"
        }
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
