//! Roles whose domains and URIs are templates of identity.
//!
//! What a template stands for is literal: it is filled in first, and what it was filled with may not have what rules would read as more than letters,
//! unless the role says so. A template that stands for nothing allows nothing.

use kallisto_api::Error;
use kallisto_engine::{Call, TemplateValues};
use kallisto_pki::names::Rules;

use super::role::Role;

/// Most places of a template that are filled in.
const PLACES_MAX: usize = 16;

/// The rules of a role for who asks.
pub(super) fn rules(call: &Call<'_>, role: &Role) -> Result<Rules, Error> {
    let mut rules = role.rules.clone();
    if role.allows_token_name {
        rules.display_name = call.caller.map(|caller| caller.display_name.clone());
    }
    let fill_all = |texts: &mut Vec<String>| {
        let filled = texts
            .iter()
            .filter_map(|text| fill(text, call.identity, role.allows_globs_in_templates));
        *texts = filled.collect();
    };
    if role.domains_are_templates {
        fill_all(&mut rules.domains);
    }
    if role.uris_are_templates {
        fill_all(&mut rules.uri_sans);
    }
    Ok(rules)
}

/// A template, filled in; `None` when it stands for nothing, or for what it may not.
fn fill(template: &str, values: &dyn TemplateValues, allows_globs: bool) -> Option<String> {
    let mut filled = String::with_capacity(template.len());
    let mut left = template;
    for _ in 0..=PLACES_MAX {
        let Some((before, rest)) = left.split_once("{{") else {
            filled.push_str(left);
            return Some(filled);
        };
        let (name, after) = rest.split_once("}}")?;
        let value = values.value(name.trim())?;
        let is_plain = !value.is_empty()
            && !value.contains(['{', '}', ',', '/'])
            && !value.chars().any(|c| c.is_control() || c.is_whitespace() || is_marker(c))
            && (allows_globs || !value.contains('*'));
        if !is_plain {
            return None;
        }
        filled.push_str(before);
        filled.push_str(&value);
        left = after;
    }
    None
}

/// Characters that are not seen and change how what is around them is.
const fn is_marker(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
