//! Checks of issuers, their revocation lists, and what roots have issued.

use jiff::Timestamp;

use super::super::fetch;
use super::mount::{FetchResult, PkiMount};
use super::{CheckParameters, HealthFinding, Severity};
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};
use kallisto_pki::certificate::ParsedCertificate;
use kallisto_pki::crl;

/// An issuer of the mount.
struct FoundIssuer {
    /// `issuer/ID`.
    inside: String,
    data: Map,
    certificate: ParsedCertificate,
}

impl FoundIssuer {
    fn may(&self, usage: &str) -> bool {
        let usages = self.data.get("usage").and_then(Json::as_str).unwrap_or_default();
        usages.split(',').any(|one| one == usage)
    }

    /// One without its key, such as the root above, has no list.
    fn has_key(&self) -> bool {
        self.data.get("key_id").and_then(Json::as_str).is_some_and(|id| !id.is_empty())
    }
}

/// All issuers, and what kept some from being seen.
fn issuers(mount: &PkiMount<'_>) -> Result<(Vec<FoundIssuer>, Vec<HealthFinding>), Error> {
    let (mut issuers, mut findings) = (Vec::new(), Vec::new());
    let ids = match mount.page("issuers", "")? {
        FetchResult::Answered(ids) => ids,
        FetchResult::Nothing => Vec::new(),
        FetchResult::Refused(finding) => return Ok((issuers, vec![finding])),
    };
    for id in ids {
        let inside = format!("issuer/{id}");
        match mount.read(&mount.at(&inside))? {
            FetchResult::Answered(data) => {
                let text = data.get("certificate").and_then(Json::as_str).unwrap_or_default();
                match fetch::certificate(text) {
                    Ok(certificate) => issuers.push(FoundIssuer { inside, data, certificate }),
                    Err(why) => findings.push(HealthFinding::new(
                        Severity::Warning,
                        &mount.at(&inside),
                        format!("The certificate cannot be read: {why}."),
                    )),
                }
            }
            FetchResult::Nothing => {}
            FetchResult::Refused(finding) => findings.push(finding),
        }
    }
    Ok((issuers, findings))
}

/// Issuers that will end soon.
pub(super) fn validity(
    mount: &PkiMount<'_>,
    with: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let (issuers, mut findings) = issuers(mount)?;
    for issuer in &issuers {
        let kind = if issuer.certificate.is_self_signed() { "root" } else { "intermediate" };
        let bounds = [
            (Severity::Critical, with.secs(&format!("{kind}_expiry_critical"))?),
            (Severity::Warning, with.secs(&format!("{kind}_expiry_warning"))?),
            (Severity::Informational, with.secs(&format!("{kind}_expiry_informational"))?),
        ];
        let end = issuer.certificate.not_after;
        let left = end.saturating_sub(mount.now);
        let severity = bounds.iter().find(|(_, bound)| left <= *bound);
        let severity = severity.map_or(Severity::Ok, |(severity, _)| *severity);
        let message = match severity {
            _ if left <= 0 => format!("The {kind} certificate ended on {}.", day(end)),
            Severity::Ok => format!("The {kind} certificate is valid until {}.", day(end)),
            _ => format!(
                "The {kind} certificate ends on {}, in {} days: make a new issuer.",
                day(end),
                left / 86_400
            ),
        };
        findings.push(HealthFinding::new(severity, &mount.at(&issuer.inside), message));
    }
    Ok(findings)
}

/// Revocation lists that are about to be out of date.
pub(super) fn revocation_lists(
    mount: &PkiMount<'_>,
    with: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let (issuers, mut findings) = issuers(mount)?;
    let deltas = match mount.read(&mount.at("config/crl"))? {
        FetchResult::Answered(data) if data.get("disable") == Some(&Json::Bool(true)) => {
            let message = "Revocation lists are disabled, so there is nothing to be out of date.";
            let path = mount.at("config/crl");
            return Ok(vec![HealthFinding::new(Severity::NotApplicable, &path, message)]);
        }
        FetchResult::Answered(data) => data.get("enable_delta") == Some(&Json::Bool(true)),
        FetchResult::Nothing => false,
        FetchResult::Refused(finding) => {
            findings.push(finding);
            false
        }
    };
    let complete_max = with.number("crl_expiry_pct_critical")?;
    let delta_max = with.number("delta_crl_expiry_pct_critical")?;
    let lists = [("crl", "The revocation list", complete_max)]
        .into_iter()
        .chain(deltas.then_some(("crl/delta", "The delta list", delta_max)));
    let lists: Vec<_> = lists.collect();
    for issuer in issuers.iter().filter(|issuer| issuer.has_key() && issuer.may("crl-signing")) {
        for (list, what, most) in &lists {
            let inside = format!("{}/{list}/der", issuer.inside);
            match mount.bytes(&inside)? {
                FetchResult::Answered(der) => {
                    let (severity, message) = age(&der, what, *most, mount.now);
                    findings.push(HealthFinding::new(severity, &mount.at(&inside), message));
                }
                FetchResult::Nothing => {}
                FetchResult::Refused(finding) => findings.push(finding),
            }
        }
    }
    Ok(findings)
}

/// How much of a list's time is over.
fn age(der: &[u8], what: &str, percent_max: u64, now: i64) -> (Severity, String) {
    let list = match crl::ParsedList::from_der(der) {
        Ok(list) => list,
        Err(why) => return (Severity::Critical, format!("{what} cannot be read: {why}.")),
    };
    let Some(next) = list.next_update else {
        return (Severity::Ok, format!("{what} has no end."));
    };
    let (whole, over) = (next - list.this_update, now - list.this_update);
    let limit = i128::from(whole) * i128::from(percent_max);
    if next <= now {
        (Severity::Critical, format!("{what} ended on {}.", day(next)))
    } else if i128::from(over) * 100 >= limit {
        let message = format!(
            "{what} ends on {} and has used over {percent_max} % of its time: it is not made anew.",
            day(next)
        );
        (Severity::Critical, message)
    } else {
        (Severity::Ok, format!("{what} is valid until {}.", day(next)))
    }
}

/// Keys of roots in hardware, which no mount here has.
pub(super) fn hardware(
    mount: &PkiMount<'_>,
    _: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let message = "This server keeps all keys behind its barrier and has none in hardware.";
    Ok(vec![HealthFinding::new(Severity::NotApplicable, &mount.at("keys"), message)])
}

/// Certificates of no CA that a root has issued.
pub(super) fn leaves_of_roots(
    mount: &PkiMount<'_>,
    with: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let (issuers, mut findings) = issuers(mount)?;
    let roots: Vec<_> =
        issuers.iter().filter(|issuer| issuer.certificate.is_self_signed()).collect();
    let path = mount.at("certs");
    if roots.is_empty() {
        let message = "The mount has no root.";
        findings.push(HealthFinding::new(Severity::NotApplicable, &path, message));
        return Ok(findings);
    }
    let serials = match mount.page("certs", "")? {
        FetchResult::Answered(serials) => serials,
        FetchResult::Nothing => Vec::new(),
        FetchResult::Refused(finding) => {
            findings.push(finding);
            return Ok(findings);
        }
    };
    let most = usize::try_from(with.number("certs_to_fetch")?).unwrap_or(usize::MAX);
    let mut leaves = 0_u64;
    for serial in serials.iter().take(most) {
        let FetchResult::Answered(data) = mount.read(&mount.at(&format!("cert/{serial}")))? else {
            continue;
        };
        let text = data.get("certificate").and_then(Json::as_str).unwrap_or_default();
        let Ok(found) = fetch::certificate(text) else { continue };
        let is_of = |root: &&FoundIssuer| found.is_signed_by(&root.certificate.public);
        leaves += u64::from(!found.is_ca && roots.iter().any(is_of));
    }
    let looked = serials.len().min(most);
    findings.push(if leaves == 0 {
        let message = format!("No root has issued any of {looked} certificates of no CA.");
        HealthFinding::new(Severity::Ok, &path, message)
    } else {
        let message = format!(
            "{leaves} of {looked} certificates were issued by a root directly: issue from an \
             intermediate, and keep the root out of use."
        );
        HealthFinding::new(Severity::Warning, &path, message)
    });
    Ok(findings)
}

/// The day of a time.
pub(super) fn day(secs: i64) -> String {
    let at = Timestamp::from_second(secs).map(|at| at.to_string());
    at.map_or_else(|_| secs.to_string(), |text| text.chars().take(10).collect())
}
