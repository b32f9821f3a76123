//! Checks of roles.

use super::super::fetch;
use super::mount::{FetchResult, PkiMount};
use super::{CheckParameters, HealthFinding, Severity};
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// Most roles that are looked at.
const ROLES_MAX: usize = 10_000;

type RoleJudge<'a> = &'a dyn Fn(&str, &Map) -> Option<(Severity, String)>;

/// Asks each role; what kept one from being seen is a finding.
fn each(mount: &PkiMount<'_>, judge: RoleJudge<'_>) -> Result<Vec<HealthFinding>, Error> {
    let names = match mount.page("roles", "")? {
        FetchResult::Answered(names) => names,
        FetchResult::Nothing => Vec::new(),
        FetchResult::Refused(finding) => return Ok(vec![finding]),
    };
    let mut findings = Vec::new();
    for name in names.iter().take(ROLES_MAX) {
        let path = mount.at(&format!("roles/{name}"));
        match mount.read(&path)? {
            FetchResult::Answered(role) => {
                let (severity, message) =
                    judge(name, &role).unwrap_or((Severity::Ok, "The role is well.".to_owned()));
                findings.push(HealthFinding::new(severity, &path, message));
            }
            FetchResult::Nothing => {}
            FetchResult::Refused(finding) => findings.push(finding),
        }
    }
    Ok(findings)
}

fn is(role: &Map, field: &str) -> bool {
    role.get(field) == Some(&Json::Bool(true))
}

/// Roles of certain domains that name `localhost` too.
pub(super) fn localhost(
    mount: &PkiMount<'_>,
    _: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    each(mount, &|_, role| {
        let of_domains = !fetch::strings(role, "allowed_domains").is_empty();
        let too_wide = of_domains && is(role, "allow_localhost") && !is(role, "allow_any_name");
        let message = "The role is for certain domains and issues for localhost as well: set \
                       allow_localhost to false unless that is wanted.";
        too_wide.then(|| (Severity::Warning, message.to_owned()))
    })
}

/// Roles whose wildcards of domains meet wildcard certificates.
pub(super) fn glob_wildcards(
    mount: &PkiMount<'_>,
    _: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    each(mount, &|_, role| {
        let has_glob =
            fetch::strings(role, "allowed_domains").iter().any(|domain| domain.contains('*'));
        let too_wide =
            has_glob && is(role, "allow_glob_domains") && is(role, "allow_wildcard_certificates");
        let message = "A * in allowed_domains spans any labels, and the role issues wildcard \
                       certificates: together they name far more than either says. Turn one of \
                       allow_glob_domains and allow_wildcard_certificates off.";
        too_wide.then(|| (Severity::Warning, message.to_owned()))
    })
}

/// Roles that keep what they issue.
pub(super) fn stored(
    mount: &PkiMount<'_>,
    with: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let allowed = with.texts("allowed_roles");
    each(mount, &|name, role| {
        let keeps = !is(role, "no_store") && !allowed.iter().any(|one| one == name);
        let message = "The role keeps each certificate that it issues. That is what revoking by \
                       serial number needs; where certificates are short-lived and never revoked, \
                       no_store saves the space.";
        keeps.then(|| (Severity::Informational, message.to_owned()))
    })
}
