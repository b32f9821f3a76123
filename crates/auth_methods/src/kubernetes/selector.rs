//! Which namespaces a role is bound to by their labels: a Kubernetes label selector.
//!
//! Of `LabelSelector` there is `matchLabels`, as in OpenBao: every label has to be there with its value.
//! It comes as JSON, or as the YAML that says the same. An empty selector would be every
//! namespace there is, which nobody writes by intention: it is refused, and so is any other key.

use std::collections::BTreeMap;

use kallisto_api::json::{Json, Map};
use kallisto_engine::yaml;

/// Most labels of a selector.
const LABELS_MAX: usize = 64;

/// The labels a namespace has to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector(BTreeMap<String, String>);

impl Selector {
    /// Reads a selector; `None` for what is none that is understood.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_json = text.trim_start().starts_with('{');
        let Json::Object(selector) = yaml::parse(text)? else { return None };
        let labels = selector.get("matchLabels")?.as_object()?;
        let fits = selector.len() == 1 && (1..=LABELS_MAX).contains(&labels.len());
        let pairs = labels.iter().map(|(name, value)| Some((name.clone(), label(value, is_json)?)));
        pairs.collect::<Option<_>>().filter(|_| fits).map(Self)
    }

    /// Whether a namespace, as the API server describes it, has every label.
    pub(super) fn holds(&self, namespace: &Map) -> bool {
        let metadata = namespace.get("metadata").and_then(Json::as_object);
        let labels = metadata.and_then(|it| it.get("labels")).and_then(Json::as_object);
        let has = |(name, value): (&String, &String)| {
            labels.and_then(|it| it.get(name)).and_then(Json::as_str) == Some(value)
        };
        self.0.iter().all(has)
    }
}

/// The value of a label. YAML has no quotes around one that looks like a number or a truth, which JSON of a label never is.
fn label(value: &Json, is_json: bool) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(text) if !is_json => Some(text.to_string()),
        Json::Bool(truth) if !is_json => Some(truth.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kallisto_api::json;

    use super::*;

    fn holds(selector: &str, labels: &str) -> bool {
        let namespace = format!(r#"{{"metadata":{{"name":"ns","labels":{labels}}}}}"#);
        let namespace = json::parse_object(namespace.as_bytes()).unwrap();
        Selector::parse(selector).unwrap().holds(&namespace)
    }

    #[test]
    fn every_label_has_to_be_there_with_its_value() {
        for selector in [
            r#"{"matchLabels":{"team":"a","k8s.io/env":"prod"}}"#,
            "matchLabels:\n  team: a\n  \"k8s.io/env\": 'prod'\n",
            "---\n# Who owns it.\nmatchLabels: # all of them\n    k8s.io/env: prod # not test\n    team: a\n",
            "matchLabels: {team: a, k8s.io/env: prod}",
        ] {
            assert!(holds(selector, r#"{"team":"a","k8s.io/env":"prod","x":"y"}"#), "{selector}");
            for other in ["{}", r#"{"team":"a"}"#, r#"{"team":"b","k8s.io/env":"prod"}"#, "null"] {
                assert!(!holds(selector, other), "{selector} {other}");
            }
        }
        let unquoted = "matchLabels:\n  tier: 1\n  open: true";
        assert!(holds(unquoted, r#"{"tier":"1","open":"true"}"#));
        let bare = json::parse_object(b"{}").unwrap();
        assert!(!Selector::parse("matchLabels:\n  a: b").unwrap().holds(&bare));
    }

    #[test]
    fn what_would_be_every_namespace_or_is_not_understood_is_no_selector() {
        for bad in [
            "",
            "{}",
            "bogus",
            r#"{"matchLabels":{}}"#,
            r#"{"matchLabels":{"a":1}}"#,
            r#"{"matchLabels":{"a":"b"},"bogus":1}"#,
            r#"{"matchExpressions":[{"key":"a","operator":"Exists"}]}"#,
            "matchLabels:",
            "matchLabels:\na: b",
            "matchLabels:\n  a: {b: c}",
            "matchExpressions:\n  - key: a",
        ] {
            assert_eq!(Selector::parse(bad), None, "{bad:?}");
        }
    }
}
