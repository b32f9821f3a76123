//! The meaning of a policy file: from the tree of its language to rules.
//!
//! ```text
//! path "<pattern>" {
//!   capabilities        = ["read", ..]         or the old form: policy = "read|write|sudo|deny"
//!   allowed_parameters  = { "<name>" = [..] }  denied_parameters likewise
//!   required_parameters = ["<name>", ..]
//!   min_wrapping_ttl    = "10s"                max_wrapping_ttl likewise
//!   pagination_limit    = 100
//!   expiration          = "2030-01-01T00:00:00Z"
//!   comment             = "anything"
//! }
//! stale_reads           = "deny"           or "allow", which is what a policy says that says nothing
//! ```
//!
//! Written twice, lists and maps add up and of anything else the last one counts, as other servers
//! have it.

use std::time::Duration;

use jiff::Timestamp;
use kallisto_hcl::{BlockBody, HclValue, NameKey, TextPosition, TreeItem, ValueKind, parse};

use super::constraints::PolicyParameters;
use super::error::{PolicyError, PolicyFault};
use super::limits::RULES_MAX;
use super::{Literal, PatternRule, PolicyConstraints};
use crate::pattern::{Pattern, PatternError};
use crate::{Capabilities, Capability};

/// The key that says whether stale reads are answered.
const STALE_READS: &str = "stale_reads";
/// Keys of rules elsewhere. To ignore one would grant what its author meant to guard.
const UNSUPPORTED: [&str; 5] = [
    "control_group",
    "list_scan_response_keys_filter_path",
    "mfa_methods",
    "response_keys_filter_path",
    "subscribe_event_types",
];

/// Most errors that one look at a policy gathers.
const ERRORS_MAX: usize = 100;

/// What a text says, as far as it says something, and what is wrong with it.
pub(super) struct PolicyReading {
    pub(super) rules: Vec<PatternRule>,
    pub(super) denies_stale_reads: bool,
    /// In the order of the text, one for a rule; empty for a policy that can be used.
    pub(super) errors: Vec<PolicyError>,
}

/// The rules of `text`, in its order, and whether it forbids stale reads.
pub(super) fn read(text: &str) -> Result<(Vec<PatternRule>, bool), PolicyError> {
    let PolicyReading { rules, denies_stale_reads, errors } = read_all(text);
    match errors.into_iter().next() {
        None => Ok((rules, denies_stale_reads)),
        Some(error) => Err(error),
    }
}

/// The same, and all that is wrong instead of the first of it.
pub(super) fn read_all(text: &str) -> PolicyReading {
    let mut reading =
        PolicyReading { rules: Vec::new(), denies_stale_reads: false, errors: Vec::new() };
    if let Err(error) = reading.take(text) {
        reading.errors.push(error);
    }
    reading
}

impl PolicyReading {
    /// Reads `text`. What is wrong with one item or rule is noted, and the next is read.
    ///
    /// # Errors
    /// What leaves nothing to go on with.
    fn take(&mut self, text: &str) -> Result<(), PolicyError> {
        let body = parse(text.as_bytes())?;
        for item in &body.items {
            match item.key.text.as_str() {
                "name" | "path" => {}
                STALE_READS => match read_stale_reads(&item.value) {
                    Ok(said) => self.denies_stale_reads = said,
                    Err((at, fault)) => self.note(PolicyError { path: None, at, fault })?,
                },
                other => {
                    let fault = PolicyFault::UnknownKey(other.to_owned());
                    self.note(PolicyError { path: None, at: item.key.at, fault })?;
                }
            }
        }
        let blocks = body.labelled("path")?;
        if let Some((key, _)) = blocks.get(RULES_MAX) {
            return Err(PolicyError { path: None, at: key.at, fault: PolicyFault::TooManyRules });
        }
        for (path, body) in blocks {
            match rule(path, body) {
                Ok(rule) => self.rules.push(rule),
                Err(error) => self.note(error)?,
            }
        }
        Ok(())
    }

    /// Keeps an error; the last one that is kept ends the reading.
    fn note(&mut self, error: PolicyError) -> Result<(), PolicyError> {
        if self.errors.len() + 1 == ERRORS_MAX {
            return Err(error);
        }
        self.errors.push(error);
        Ok(())
    }
}

fn read_stale_reads(value: &HclValue) -> Result<bool, Wrong> {
    match &value.kind {
        ValueKind::Text(text) if text == "deny" => Ok(true),
        ValueKind::Text(text) if text == "allow" => Ok(false),
        _ => {
            let fault =
                PolicyFault::BadType { key: STALE_READS, expected: "\"deny\" or \"allow\"" };
            Err((value.at, fault))
        }
    }
}

/// One rule. Errors inside know where they are; the path is added here.
fn rule(path: &NameKey, body: &BlockBody) -> Result<PatternRule, PolicyError> {
    read_rule(path, body).map_err(|(at, fault)| {
        let path = Some(path.text.clone());
        PolicyError { path, at, fault }
    })
}

/// What is wrong inside a rule, and where.
type Wrong = (TextPosition, PolicyFault);

fn read_rule(path: &NameKey, body: &BlockBody) -> Result<PatternRule, Wrong> {
    let pattern = Pattern::parse(&path.text).map_err(|error| {
        let fault = match error {
            PatternError::TooLong => PolicyFault::PatternTooLong,
            PatternError::MixedWildcards => PolicyFault::MixedWildcards,
            PatternError::Unbalanced => PolicyFault::UnbalancedTemplate,
        };
        (path.at, fault)
    })?;
    let mut rule = PatternRule {
        pattern,
        at: path.at,
        capabilities: Capabilities::NONE,
        constraints: PolicyConstraints::default(),
        expires_at: None,
    };
    let mut old_policy = Capabilities::NONE;
    for item in &body.items {
        if let Some(label) = item.labels.first() {
            return Err((label.at, PolicyFault::Syntax("a rule holds no blocks with labels")));
        }
        match item.key.text.as_str() {
            "policy" => old_policy = read_old_policy(&item.value)?,
            _ => read_item(item, &mut rule)?,
        }
    }
    rule.capabilities = rule.capabilities.union(old_policy);
    let PolicyConstraints { wrap_ttl_min: least, wrap_ttl_max: most, .. } = &rule.constraints;
    if let (Some(least), Some(most)) = (least, most)
        && most < least
    {
        return Err((path.at, PolicyFault::WrapTtlOrder));
    }
    Ok(rule)
}

fn read_item(item: &TreeItem, rule: &mut PatternRule) -> Result<(), Wrong> {
    let value = &item.value;
    let constraints = &mut rule.constraints;
    match item.key.text.as_str() {
        "capabilities" => {
            for (at, word) in words(value, "capabilities")? {
                let capability =
                    Capability::named(&word).ok_or((at, PolicyFault::BadCapability(word)))?;
                rule.capabilities = rule.capabilities.with(capability);
            }
        }
        "allowed_parameters" => {
            read_parameters(value, "allowed_parameters", &mut constraints.allowed)?;
        }
        "denied_parameters" => {
            read_parameters(value, "denied_parameters", &mut constraints.denied)?;
        }
        "required_parameters" => {
            let names = words(value, "required_parameters")?;
            constraints.required.extend(names.into_iter().map(|(_, name)| name.to_lowercase()));
        }
        "min_wrapping_ttl" => {
            constraints.wrap_ttl_min = read_duration(value, "min_wrapping_ttl")?;
        }
        "max_wrapping_ttl" => {
            constraints.wrap_ttl_max = read_duration(value, "max_wrapping_ttl")?;
        }
        "pagination_limit" => constraints.page_entries_max = read_count(value)?,
        "expiration" => rule.expires_at = Some(read_time(value)?),
        "comment" => {}
        key if UNSUPPORTED.contains(&key) => {
            return Err((item.key.at, PolicyFault::UnsupportedKey(key.to_owned())));
        }
        key => return Err((item.key.at, PolicyFault::UnknownKey(key.to_owned()))),
    }
    Ok(())
}

/// The words of a list. A number among them is a word too, as it is elsewhere.
fn words(value: &HclValue, key: &'static str) -> Result<Vec<(TextPosition, String)>, Wrong> {
    let ValueKind::List(values) = &value.kind else {
        return Err((value.at, PolicyFault::BadType { key, expected: "a list" }));
    };
    let word = |value: &HclValue| match &value.kind {
        ValueKind::Text(text) | ValueKind::Number(text) => Ok((value.at, text.clone())),
        ValueKind::Null | ValueKind::Bool(_) | ValueKind::List(_) | ValueKind::Object(_) => {
            Err((value.at, PolicyFault::BadType { key, expected: "a list of strings" }))
        }
    };
    values.iter().map(word).collect()
}

fn read_old_policy(value: &HclValue) -> Result<Capabilities, Wrong> {
    use Capability::{Create, Delete, Deny, List, Read, Sudo, Update};
    let expected = PolicyFault::BadType { key: "policy", expected: "a string" };
    let held: &[Capability] = match value.as_text().ok_or((value.at, expected))? {
        "deny" => &[Deny],
        "read" => &[Read, List],
        "write" => &[Create, Read, Update, Delete, List],
        "sudo" => &[Create, Read, Update, Delete, List, Sudo],
        other => return Err((value.at, PolicyFault::BadOldPolicy(other.to_owned()))),
    };
    Ok(held.iter().copied().collect())
}

/// A map of lists. JSON may wrap the map in a list.
fn read_parameters(
    value: &HclValue,
    key: &'static str,
    parameters: &mut PolicyParameters,
) -> Result<(), Wrong> {
    match &value.kind {
        ValueKind::Object(body) => add_parameters(body, key, parameters),
        ValueKind::List(values)
            if values.iter().all(|v| matches!(v.kind, ValueKind::Object(_))) =>
        {
            values.iter().try_for_each(|value| read_parameters(value, key, parameters))
        }
        _ => Err((value.at, PolicyFault::BadType { key, expected: "a map" })),
    }
}

fn add_parameters(
    body: &BlockBody,
    key: &'static str,
    into: &mut PolicyParameters,
) -> Result<(), Wrong> {
    for item in &body.items {
        let ValueKind::List(values) = &item.value.kind else {
            return Err((item.value.at, PolicyFault::BadType { key, expected: "a map of lists" }));
        };
        let values = values.iter().map(Literal::from_hcl);
        into.entry(item.key.text.to_lowercase()).or_default().extend(values);
    }
    Ok(())
}

/// A span of time; zero is none.
fn read_duration(value: &HclValue, key: &'static str) -> Result<Option<Duration>, Wrong> {
    let span = value.as_duration().ok_or((value.at, PolicyFault::BadDuration(key)))?;
    Ok(Some(span).filter(|span| !span.is_zero()))
}

fn read_count(value: &HclValue) -> Result<Option<u64>, Wrong> {
    let expected = PolicyFault::BadType { key: "pagination_limit", expected: "a whole number" };
    let given = value.as_u64().or_else(|| value.as_text()?.parse().ok());
    let count = given.ok_or((value.at, expected))?;
    Ok(Some(count).filter(|count| *count > 0))
}

/// A time: RFC 3339, or seconds since 1970.
fn read_time(value: &HclValue) -> Result<Timestamp, Wrong> {
    let seconds = |text: &str| Timestamp::from_second(text.parse().ok()?).ok();
    let parsed = match &value.kind {
        ValueKind::Text(text) => text.parse().ok().or_else(|| seconds(text)),
        ValueKind::Number(text) => seconds(text),
        ValueKind::Null | ValueKind::Bool(_) | ValueKind::List(_) | ValueKind::Object(_) => None,
    };
    parsed.ok_or((value.at, PolicyFault::BadExpiration))
}
