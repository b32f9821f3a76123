//! Rules of a role that is made (`PolicyRule` of `rbac.authorization.k8s.io/v1`).

use kallisto_api::json::Json;

use kallisto_engine::yaml;

/// Most rules of a role.
const RULES_MAX: usize = 256;
/// Most texts of a member of a rule.
const TEXTS_MAX: usize = 1024;
/// What the members of a rule may be called.
const RULE_MEMBERS: [&str; 5] =
    ["apiGroups", "nonResourceURLs", "resourceNames", "resources", "verbs"];

/// The list of rules in a document; `None` for what is none.
pub(super) fn parse(text: &str) -> Option<Json> {
    let Json::Object(mut document) = yaml::parse(text)? else { return None };
    let Json::Array(rules) = document.remove("rules")? else { return None };
    let is_rule = |rule: &Json| {
        let Some(rule) = rule.as_object() else { return false };
        let texts = |value: &Json| match value {
            Json::Array(items) if items.iter().all(|item| item.as_str().is_some()) => items.len(),
            _ => usize::MAX,
        };
        let is_texts = |value| texts(value) <= TEXTS_MAX;
        let has_verbs =
            rule.get("verbs").is_some_and(|verbs| (1..=TEXTS_MAX).contains(&texts(verbs)));
        has_verbs
            && rule
                .iter()
                .all(|(name, value)| RULE_MEMBERS.contains(&name.as_str()) && is_texts(value))
    };
    let fits =
        document.is_empty() && (1..=RULES_MAX).contains(&rules.len()) && rules.iter().all(is_rule);
    fits.then_some(Json::Array(rules))
}
