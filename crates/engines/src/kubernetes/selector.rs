//! Which namespaces a role may be used in by their labels: `LabelSelector` of `meta/v1`.

use std::collections::BTreeMap;

use kallisto_api::json::{Json, Map};

use kallisto_engine::yaml;

/// Most requirements of a selector.
const REQUIREMENTS_MAX: usize = 64;

/// The labels that a namespace has to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamespaceSelector(Vec<LabelRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    operator: LabelOperator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl NamespaceSelector {
    /// Reads a selector; `None` for what is none that is understood, or one without a requirement: that would be every namespace, which nobody
    /// writes by intention.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let Json::Object(selector) = yaml::parse(text)? else { return None };
        let mut requirements = Vec::new();
        for (name, value) in &selector {
            match (name.as_str(), value) {
                ("matchLabels", Json::Object(labels)) => {
                    for (key, value) in labels {
                        requirements.push(LabelRequirement {
                            key: key.clone(),
                            operator: LabelOperator::In,
                            values: vec![value.as_str()?.to_owned()],
                        });
                    }
                }
                ("matchExpressions", Json::Array(expressions)) => {
                    for expression in expressions {
                        requirements.push(LabelRequirement::read(expression.as_object()?)?);
                    }
                }
                _ => return None,
            }
        }
        (1..=REQUIREMENTS_MAX).contains(&requirements.len()).then_some(Self(requirements))
    }

    /// Whether labels fulfil every requirement.
    pub(super) fn holds(&self, labels: &BTreeMap<&str, &str>) -> bool {
        self.0.iter().all(|wanted| {
            let found = labels.get(wanted.key.as_str());
            let is_listed = found.is_some_and(|found| wanted.values.iter().any(|one| one == found));
            match wanted.operator {
                LabelOperator::In => is_listed,
                LabelOperator::NotIn => !is_listed,
                LabelOperator::Exists => found.is_some(),
                LabelOperator::DoesNotExist => found.is_none(),
            }
        })
    }
}

impl LabelRequirement {
    fn read(expression: &Map) -> Option<Self> {
        let is_known = |name: &String| matches!(name.as_str(), "key" | "operator" | "values");
        let values = match expression.get("values") {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::Array(items)) => {
                let texts: Option<_> =
                    items.iter().map(|it| it.as_str().map(str::to_owned)).collect();
                texts?
            }
            Some(_) => return None,
        };
        let (operator, takes_values) = match expression.get("operator")?.as_str()? {
            "In" => (LabelOperator::In, true),
            "NotIn" => (LabelOperator::NotIn, true),
            "Exists" => (LabelOperator::Exists, false),
            "DoesNotExist" => (LabelOperator::DoesNotExist, false),
            _ => return None,
        };
        let key = expression.get("key")?.as_str()?.to_owned();
        let fits = takes_values != values.is_empty() && expression.keys().all(is_known);
        fits.then_some(Self { key, operator, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(selector: &str, labels: &[(&str, &str)]) -> bool {
        NamespaceSelector::parse(selector).unwrap().holds(&labels.iter().copied().collect())
    }

    #[test]
    fn every_requirement_has_to_be_fulfilled() {
        let both = r#"{"matchLabels":{"team":"red"},"matchExpressions":[{"key":"env","operator":"NotIn","values":["prod"]}]}"#;
        assert!(holds(both, &[("team", "red")]));
        assert!(holds(both, &[("team", "red"), ("env", "test")]));
        assert!(!holds(both, &[("team", "red"), ("env", "prod")]));
        assert!(!holds(both, &[("team", "blue")]));
        assert!(!holds(both, &[]));
        let there = "matchExpressions:\n- key: a\n  operator: Exists\n- key: b\n  operator: DoesNotExist\n- key: c\n  operator: In\n  values: [x, y]";
        assert!(holds(there, &[("a", ""), ("c", "y")]));
        assert!(!holds(there, &[("a", ""), ("b", ""), ("c", "y")]));
        assert!(!holds(there, &[("a", ""), ("c", "z")]));
        assert!(!holds(there, &[("c", "x")]));
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
            r#"{"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]}"#,
            r#"{"matchExpressions":[{"key":"a","operator":"In"}]}"#,
            r#"{"matchExpressions":[{"key":"a","operator":"Exists","values":["b"]}]}"#,
            r#"{"matchExpressions":[{"key":"a","operator":"Exists","extra":1}]}"#,
        ] {
            assert_eq!(NamespaceSelector::parse(bad), None, "{bad:?}");
        }
    }
}
