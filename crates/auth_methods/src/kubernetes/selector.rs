//! Which namespaces a role is bound to by their labels: a Kubernetes label selector.
//!
//! Of `LabelSelector` there is `matchLabels`, as in OpenBao: every label has to be there with its value.
//! It comes as JSON, or as the two levels of YAML that say the same. An empty selector would be every
//! namespace there is, which nobody writes by intention: it is refused, and so is any other key.

use std::collections::BTreeMap;

use kallisto_api::json::{self, Json, Map};

/// Most labels of a selector.
const LABELS_MAX: usize = 64;

/// The labels a namespace has to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector(BTreeMap<String, String>);

impl Selector {
    /// Reads a selector; `None` for what is none that is understood.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let wanted = if text.trim_start().starts_with('{') { of_json(text) } else { of_yaml(text) };
        let fits = |wanted: &BTreeMap<String, String>| (1..=LABELS_MAX).contains(&wanted.len());
        wanted.filter(fits).map(Self)
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

fn of_json(text: &str) -> Option<BTreeMap<String, String>> {
    let selector = json::parse_object(text.as_bytes()).ok()?;
    let labels = selector.get("matchLabels")?.as_object()?;
    let pair = |(name, value): (&String, &Json)| Some((name.clone(), value.as_str()?.to_owned()));
    (selector.len() == 1).then_some(())?;
    labels.iter().map(pair).collect()
}

fn of_yaml(text: &str) -> Option<BTreeMap<String, String>> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    (lines.next()?.trim_end() == "matchLabels:").then_some(())?;
    let mut labels = BTreeMap::new();
    for line in lines {
        let (name, value) = line.strip_prefix([' ', '\t'])?.trim().split_once(':')?;
        let value = value.strip_prefix(' ')?;
        labels.insert(plain(name)?, plain(value)?);
    }
    Some(labels)
}

/// A word of YAML, with quotes around it or none in it; names and values of labels need no more.
fn plain(word: &str) -> Option<String> {
    let word = word.trim();
    let quoted = ['"', '\''].into_iter().find_map(|it| word.strip_prefix(it)?.strip_suffix(it));
    let word = quoted.unwrap_or(word);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    (!word.is_empty() && word.chars().all(fits)).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
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
        ] {
            assert!(holds(selector, r#"{"team":"a","k8s.io/env":"prod","x":"y"}"#), "{selector}");
            for other in ["{}", r#"{"team":"a"}"#, r#"{"team":"b","k8s.io/env":"prod"}"#, "null"] {
                assert!(!holds(selector, other), "{selector} {other}");
            }
        }
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
