//! Values of parameters, in rules and in requests, and when they are the same.

use std::collections::BTreeMap;

use kallisto_hcl::{HclValue, ValueKind};

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Self>),
    /// A map.
    Map(BTreeMap<String, Self>),
}

/// What a number in a rule means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberRule {
    /// It is equal to no number of a request. So it is in the contract, and it grants less.
    Differ,
    /// It is equal to the same number in a request, however both are written.
    Compare,
}

impl Literal {
    pub(crate) fn from_hcl(value: &HclValue) -> Self {
        match &value.kind {
            ValueKind::Null => Self::Null,
            ValueKind::Bool(value) => Self::Bool(*value),
            ValueKind::Number(text) => Self::Number(text.clone()),
            ValueKind::Text(text) => Self::Text(text.clone()),
            ValueKind::List(values) => Self::List(values.iter().map(Self::from_hcl).collect()),
            ValueKind::Object(body) => {
                let item = |item: &kallisto_hcl::TreeItem| {
                    (item.key.text.clone(), Self::from_hcl(&item.value))
                };
                Self::Map(body.items.iter().map(item).collect())
            }
        }
    }

    /// True when `given`, of a request, is what this literal of a rule allows or denies. Strings of
    /// a rule may start or end with `*`.
    pub(crate) fn covers(&self, given: &Self, numbers: NumberRule) -> bool {
        match (self, given) {
            (Self::Text(glob), Self::Text(text)) => matches_glob(glob, text),
            (rule, given) => rule.equals(given, numbers),
        }
    }

    fn equals(&self, given: &Self, numbers: NumberRule) -> bool {
        match (self, given) {
            (Self::Number(rule), Self::Number(given)) => {
                numbers == NumberRule::Compare && same_number(rule, given)
            }
            (Self::List(rule), Self::List(given)) => {
                rule.len() == given.len()
                    && rule.iter().zip(given).all(|(rule, given)| rule.equals(given, numbers))
            }
            (Self::Map(rule), Self::Map(given)) => {
                let same = |(name, value): (&String, &Self)| {
                    given.get(name).is_some_and(|given| value.equals(given, numbers))
                };
                rule.len() == given.len() && rule.iter().all(same)
            }
            (Self::Null, Self::Null) => true,
            (Self::Bool(rule), Self::Bool(given)) => rule == given,
            (Self::Text(rule), Self::Text(given)) => rule == given,
            _ => false,
        }
    }
}

fn same_number(rule: &str, given: &str) -> bool {
    let hexadecimal = rule.strip_prefix("0x").or_else(|| rule.strip_prefix("0X"));
    let decimal = hexadecimal.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let rule = decimal.map_or_else(|| rule.to_owned(), |number| number.to_string());
    // Equal as text settles numbers past what a float can tell apart.
    rule == given
        || matches!((rule.parse::<f64>(), given.parse::<f64>()), (Ok(rule), Ok(given)) if rule == given)
}

/// `*` at the start, at the end or at both stands for anything; elsewhere it is a star.
fn matches_glob(glob: &str, text: &str) -> bool {
    if glob == "*" {
        return true;
    }
    match (glob.strip_prefix('*'), glob.strip_suffix('*')) {
        (Some(rest), Some(_)) => text.contains(rest.strip_suffix('*').unwrap_or(rest)),
        (Some(end), None) => text.ends_with(end),
        (None, Some(start)) => text.starts_with(start),
        (None, None) => text == glob,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Literal {
        Literal::Text(text.to_owned())
    }

    #[test]
    fn strings_of_a_rule_may_be_open_at_either_end() {
        for (rule, given, covered) in [
            ("a", "a", true),
            ("a", "A", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*b*", "abc", true),
            ("*", "", true),
            ("**", "x", true),
            ("a*c", "abc", false),
            ("a*", "ba", false),
            ("*c", "cb", false),
        ] {
            assert_eq!(
                text(rule).covers(&text(given), NumberRule::Differ),
                covered,
                "{rule} {given}"
            );
        }
    }

    #[test]
    fn values_compare_by_type() {
        let number = |text: &str| Literal::Number(text.to_owned());
        assert!(!number("1").covers(&number("1"), NumberRule::Differ));
        assert!(!number("1").covers(&text("1"), NumberRule::Compare));
        for same in ["1", "1.0", "1e0"] {
            assert!(number("1").covers(&number(same), NumberRule::Compare));
            assert!(number("0x1").covers(&number(same), NumberRule::Compare));
        }
        assert!(!number("1").covers(&number("2"), NumberRule::Compare));
        assert!(!text("true").covers(&Literal::Bool(true), NumberRule::Differ));
        assert!(Literal::Bool(true).covers(&Literal::Bool(true), NumberRule::Differ));
        assert!(Literal::Null.covers(&Literal::Null, NumberRule::Differ));
        assert!(!Literal::Null.covers(&text(""), NumberRule::Differ));
        let list = |items: &[&str]| Literal::List(items.iter().copied().map(text).collect());
        assert!(list(&["x"]).covers(&list(&["x"]), NumberRule::Differ));
        assert!(!list(&["x*"]).covers(&list(&["xy"]), NumberRule::Differ));
        assert!(!list(&["x"]).covers(&text("x"), NumberRule::Differ));
        let map = |value: &str| Literal::Map([("a".to_owned(), text(value))].into());
        assert!(map("b").covers(&map("b"), NumberRule::Differ));
        assert!(!map("b").covers(&map("c"), NumberRule::Differ));
    }
}
