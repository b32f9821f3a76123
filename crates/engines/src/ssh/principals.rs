//! Principals: which users or hosts a certificate is good for, by what is asked and what the role allows who asks.
//!
//! Templates are filled in before anything is compared, and what they are filled with is literal: see [`crate::identity_template`].

use kallisto_api::json::Json;
use kallisto_api::{Error, Fields};
use kallisto_engine::Call;
use kallisto_ssh::CertificateKind;
use kallisto_ssh::certificate::{PRINCIPALS_MAX, check_principal};

use super::refuse;
use super::role::{AllowedNames, CaRole, items};
use crate::identity_template::{fill, is_template, is_word};

/// The names that a request asks for, sorted: a text with commas, or a list with a name in each item.
fn asked(fields: Fields<'_>) -> Result<Vec<String>, Error> {
    let mut names = match fields.raw("valid_principals") {
        Some(Json::Array(_)) => fields.strings("valid_principals")?.unwrap_or_default(),
        _ => items(&fields.string("valid_principals")?.unwrap_or_default()),
    };
    names.sort();
    names.dedup();
    Ok(names)
}

/// A text of a role, filled in for who asks; several names if the role lets a value be several.
fn filled(call: &Call<'_>, role: &CaRole, text: &str) -> Vec<String> {
    if !is_template(text) {
        return items(text);
    }
    let value = fill(text, call.identity, |value| {
        let may_be = |c: char, allowed: bool| allowed || !value.contains(c);
        is_word(value)
            && !value.contains(['{', '}'])
            && may_be(',', role.allows_commas)
            && may_be('*', role.allows_wildcards)
    });
    value.map(|value| items(&value)).unwrap_or_default()
}

/// The names that a role allows who asks.
fn allowed(call: &Call<'_>, role: &CaRole, list: &AllowedNames) -> Vec<String> {
    if !list.are_templates {
        return list.names.clone();
    }
    list.names.iter().flat_map(|name| filled(call, role, name)).collect()
}

/// Whether a list allows any name.
fn is_any(names: &[String]) -> bool {
    matches!(names, [only] if only == "*")
}

/// Whether a host is one of the domains, or below one.
fn is_host_of(role: &CaRole, domains: &[String], host: &str) -> bool {
    domains.iter().map(|domain| domain.to_ascii_lowercase()).any(|domain| {
        let above = host.strip_suffix(&domain).and_then(|rest| rest.strip_suffix('.'));
        (role.allows_bare_domains && host == domain)
            || (role.allows_subdomains && above.is_some_and(|above| !above.is_empty()))
    })
}

/// The principals of a certificate.
///
/// # Errors
/// [`Error::Invalid`] for a name that the role does not allow, and for none where it wants some.
pub(super) fn decide(
    call: &Call<'_>,
    role: &CaRole,
    kind: CertificateKind,
    fields: Fields<'_>,
) -> Result<Vec<String>, Error> {
    let (list, defaults) = match kind {
        CertificateKind::User if role.default_user_is_template => {
            (&role.users, filled(call, role, &role.default_user))
        }
        CertificateKind::User => (&role.users, items(&role.default_user)),
        CertificateKind::Host => (&role.domains, Vec::new()),
    };
    let mut wanted = asked(fields)?;
    if wanted.is_empty() {
        wanted.clone_from(&defaults);
    }
    if wanted.is_empty() {
        if role.allows_no_principals {
            return Ok(wanted);
        }
        return Err(Error::invalid(
            "refusing to issue unsafe, globally-valid certificate with no principals specified; set \
             valid_principals or default_user",
        ));
    }
    if wanted.len() > PRINCIPALS_MAX {
        return Err(Error::invalid(format!("more than {PRINCIPALS_MAX} valid_principals")));
    }
    if kind == CertificateKind::Host {
        // Clients compare names of hosts in lower case.
        wanted = wanted.iter().map(|name| name.to_ascii_lowercase()).collect();
        wanted.sort();
        wanted.dedup();
    }
    let allowed = allowed(call, role, list);
    for name in &wanted {
        check_principal(name).map_err(refuse)?;
        if is_any(&allowed) || defaults.contains(name) {
            continue;
        }
        if list.names.is_empty() {
            return Err(Error::invalid("role is not configured to allow any principals"));
        }
        let is_allowed = match kind {
            CertificateKind::User => allowed.contains(name),
            CertificateKind::Host => is_host_of(role, &allowed, name),
        };
        if !is_allowed {
            return Err(Error::invalid(format!(
                "{name} is not a valid value for valid_principals"
            )));
        }
    }
    Ok(wanted)
}
