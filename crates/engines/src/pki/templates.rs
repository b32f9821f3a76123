//! Roles whose domains and URIs are templates of identity.
//!
//! What a template stands for is literal: it is filled in first, and what it was filled with may not have what rules would read as more than letters,
//! unless the role says so. A template that stands for nothing allows nothing.

use std::borrow::Cow;

use kallisto_api::Error;
use kallisto_engine::{Call, TemplateValues};
use kallisto_pki::names::NameRules;

use super::role::PkiRole;
use crate::identity_template;

/// The rules of a role for who asks.
pub(super) fn rules<'r>(call: &Call<'_>, role: &'r PkiRole) -> Result<Cow<'r, NameRules>, Error> {
    if !role.allows_token_name && !role.domains_are_templates && !role.uris_are_templates {
        return Ok(Cow::Borrowed(&role.rules));
    }
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
    Ok(Cow::Owned(rules))
}

/// A template, filled in; `None` when it stands for nothing, or for what it may not.
fn fill(template: &str, values: &dyn TemplateValues, allows_globs: bool) -> Option<String> {
    identity_template::fill(template, values, |value| {
        let is_plain = !value.contains(['{', '}', ',', '/']) && identity_template::is_word(value);
        is_plain && (allows_globs || !value.contains('*'))
    })
}
