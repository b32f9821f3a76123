//! `sys/policies/check`: a policy looked at before it is stored, for editors.
//!
//! Errors come from the reader of policies, each with its line and column. Warnings are of two sources: `kallisto_auth::policy::check`
//! knows which rules are never reached, this file which mounts there are and which routes take `sudo`.
//!
//! Any token may ask. Which mounts there are is no secret of a caller who reaches them or may read `sys/mounts`; to others the warnings
//! that would tell say nothing. Nothing is stored, and no text of a policy is repeated but its patterns.

use kallisto_auth::policy::{CheckedRule, Unreached, check};
use kallisto_auth::{Capability, Operation};

use super::explain;
use super::policies::decoded;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::authz::authz_request;
use crate::caller::policies::CallerPolicies;
use crate::registry;
use crate::view::Mount;
use crate::view::NamespaceContext;

/// A warning about the rule on a line.
struct Warning {
    line: u32,
    kind: &'static str,
    message: String,
}

/// Answers `POST sys/policies/check`.
///
/// # Errors
/// [`Error::Invalid`] without a text.
pub(super) fn answer(
    context: &NamespaceContext,
    request: &Request<'_>,
    caller: &CallerPolicies,
) -> Result<Response, Error> {
    let body = request.object()?;
    let text = Fields::new(&body).string("policy")?.filter(|text| !text.is_empty());
    let missing = || Error::invalid("'policy' parameter not supplied or empty");
    let checked = check(&decoded(text.ok_or_else(missing)?), request.now);
    let errors = checked.errors.iter().map(|error| {
        Json::object([
            ("line", u64::from(error.at.line).into()),
            ("column", u64::from(error.at.column).into()),
            ("message", error.message().into()),
        ])
    });
    let places = KnownMounts::of(context, caller);
    let mut warnings = Vec::new();
    for rule in &checked.rules {
        of_reach(rule, &mut warnings);
        places.of_mounts(rule, &mut warnings);
        of_sudo(context, rule, &mut warnings);
    }
    let warnings = warnings.into_iter().map(|Warning { line, kind, message }| {
        let (kind, message) = (kind.into(), message.into());
        Json::object([("line", u64::from(line).into()), ("kind", kind), ("message", message)])
    });
    let rules = checked.rules.iter().map(|rule| {
        Json::object([
            ("line", u64::from(rule.line).into()),
            ("pattern", rule.pattern.as_str().into()),
            ("capabilities", Json::strings(rule.capabilities.names())),
        ])
    });
    Ok(Response::data(&Json::object([
        ("errors", Json::Array(errors.collect())),
        ("warnings", Json::Array(warnings.collect())),
        ("rules", Json::Array(rules.collect())),
    ])))
}

fn of_reach(rule: &CheckedRule, warnings: &mut Vec<Warning>) {
    let line = rule.line;
    let pattern = &rule.pattern;
    if let Some(message) = &rule.unknown_template {
        warnings.push(Warning { line, kind: "template", message: message.clone() });
    }
    let (kind, message) = match &rule.unreached {
        None => return,
        Some(Unreached::Expired) => ("expired", format!("path \"{pattern}\" has expired")),
        Some(Unreached::Denied { by_line }) => (
            "unreached",
            format!("path \"{pattern}\" is never reached: line {by_line} denies the same paths"),
        ),
        Some(Unreached::Covered { by_line, by }) => (
            "unreached",
            format!(
                "path \"{pattern}\" is never reached: \"{by}\" on line {by_line} matches the same \
                 paths and comes first"
            ),
        ),
    };
    warnings.push(Warning { line, kind, message });
}

/// The mounts that a caller may hear of.
struct KnownMounts {
    mounts: Vec<std::sync::Arc<Mount>>,
    /// Whether these are all there are.
    knows_all: bool,
    /// Paths of namespaces below, whose mounts are their own.
    namespaces: Vec<String>,
}

impl KnownMounts {
    fn of(context: &NamespaceContext, caller: &CallerPolicies) -> Self {
        let knows_all =
            caller.is_root() || caller.acl().capabilities("sys/mounts").has(Capability::Read);
        let mut mounts = context.view.mounts.all();
        mounts.retain(|mount| knows_all || caller.reaches(&mount.entry.path));
        let own = context.view.namespace_path().to_owned();
        let below = context.ask_namespaces(|all| all.below(&own));
        let namespaces = below
            .iter()
            .filter_map(|space| space.namespace.path.strip_prefix(&own).map(str::to_owned))
            .collect();
        Self { mounts, knows_all, namespaces }
    }

    /// Warns of a pattern that leads to no mount, or to none of the routes of KV version 2.
    fn of_mounts(&self, rule: &CheckedRule, warnings: &mut Vec<Warning>) {
        let pattern = rule.pattern.strip_prefix('/').unwrap_or(&rule.pattern);
        let (fixed, is_whole) = fixed_part(pattern);
        if fixed.is_empty() || self.namespaces.iter().any(|inside| fixed.starts_with(inside)) {
            return;
        }
        let whole = if is_whole { format!("{fixed}/") } else { fixed.to_owned() };
        let meets = |mount: &&std::sync::Arc<Mount>| {
            let at = mount.entry.path.as_str();
            whole.starts_with(at) || (!is_whole && at.starts_with(fixed))
        };
        let line = rule.line;
        let Some(mount) = self.mounts.iter().find(meets) else {
            if self.knows_all {
                let message = format!("nothing is mounted at path \"{}\"", rule.pattern);
                warnings.push(Warning { line, kind: "no_mount", message });
            }
            return;
        };
        let at = mount.entry.path.as_str();
        let Some(inside) = fixed.strip_prefix(at).filter(|inside| !inside.is_empty()) else {
            return;
        };
        if !mount.entry.kind.has_versions() || has_route(mount, inside, is_whole) {
            return;
        }
        let message = format!(
            "path \"{}\" names no route of KV version 2: secrets are at \"{at}data/\", their \
             metadata and lists at \"{at}metadata/\"",
            rule.pattern
        );
        warnings.push(Warning { line, kind: "kv_v2_path", message });
    }
}

/// Whether some route of the engine begins as `inside` does, whose last segment may be cut short.
fn has_route(mount: &Mount, inside: &str, is_whole: bool) -> bool {
    let (first, is_whole) = match inside.split_once('/') {
        Some((first, _)) => (first, true),
        None => (inside, is_whole),
    };
    registry::driver(mount.entry.kind).routes().routes().any(|route| {
        let noun = route.pattern.split('/').next().unwrap_or_default();
        if is_whole { noun == first } else { noun.starts_with(first) }
    })
}

/// What stands in front of the first wildcard or template of a pattern, and whether that is all of it.
fn fixed_part(pattern: &str) -> (&str, bool) {
    let ends = [pattern.strip_suffix('*').map(str::len), pattern.find("{{"), wildcard(pattern)];
    match ends.into_iter().flatten().min() {
        Some(end) => (&pattern[..end], false),
        None => (pattern, true),
    }
}

/// Where the first segment that is `+` begins.
fn wildcard(pattern: &str) -> Option<usize> {
    let mut at = 0;
    for segment in pattern.split('/') {
        if segment == "+" {
            return Some(at);
        }
        at += segment.len() + 1;
    }
    None
}

/// Warns of a route that takes `sudo`, in a rule without it.
fn of_sudo(context: &NamespaceContext, rule: &CheckedRule, warnings: &mut Vec<Warning>) {
    if rule.capabilities.has(Capability::Sudo) || rule.capabilities.grants_nothing() {
        return;
    }
    let pattern = rule.pattern.strip_prefix('/').unwrap_or(&rule.pattern);
    let sample: Vec<&str> =
        pattern.split('/').map(|segment| if segment == "+" { "x" } else { segment }).collect();
    let mut path = sample.join("/");
    if path.ends_with('*') {
        path.pop();
        path.push('x');
    }
    let Some((mount, inside)) = context.view.mounts.route(&path) else { return };
    let inside = inside.trim_end_matches('/');
    let routes = registry::driver(mount.entry.kind).routes();
    let Some(route) = routes.find(inside) else { return };
    let takes = |operation: Operation| {
        route.takes(operation) && authz_request::needs_sudo(operation, &path, &context.view)
    };
    let lacking = Capability::ALL
        .into_iter()
        .filter(|capability| rule.capabilities.has(*capability))
        .find(|capability| takes(explain::operation(*capability)));
    if let Some(capability) = lacking {
        let message = format!(
            "path \"{}\": {} takes the capability sudo besides",
            rule.pattern,
            capability.name()
        );
        warnings.push(Warning { line: rule.line, kind: "sudo", message });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_part_of_a_pattern_ends_at_its_first_wildcard() {
        for (pattern, fixed) in [
            ("secret/data/a", ("secret/data/a", true)),
            ("secret/*", ("secret/", false)),
            ("secret/da*", ("secret/da", false)),
            ("secret/+/a", ("secret/", false)),
            ("secret/a+/b", ("secret/a+/b", true)),
            ("+/data", ("", false)),
            ("secret/{{identity.entity.id}}/*", ("secret/", false)),
            ("*", ("", false)),
        ] {
            assert_eq!(fixed_part(pattern), fixed, "{pattern}");
        }
    }
}
