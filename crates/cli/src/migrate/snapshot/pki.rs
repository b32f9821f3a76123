//! Certificate authorities, as OpenBao keeps them: keys and issuers with ids of their own, roles, settings, and certificates by their serial numbers.
//!
//! ```text
//! config/key/ID, config/issuer/ID     a key in PEM; a certificate with the id of its key
//! config/issuers, config/keys         which issuer is the default, and which key
//! urls, config/crl|cluster|acme|...   settings, nearly as they are shown
//! role/NAME                           a role: durations in nanoseconds, some fields under older names
//! certs/SERIAL, revoked/SERIAL        a certificate in DER; what is known of one that was revoked, with the certificate
//! ```

use std::collections::HashSet;

use data_encoding::BASE64;
use kallisto_pki::certificate::ParsedCertificate;
use kallisto_vault_snapshot::OpenSnapshot;

use super::fields::{self, FieldForm, FieldRow, ReadFields};
use super::layout::StoredMount;
use super::{item, read_bytes, read_json, records_in};
use crate::migrate::endpoint::ItemFailure;
use crate::migrate::mounts::text;
use kallisto_command::json::{Json, Map};

use FieldForm::{Internal, Named, Seconds};

/// What an issuer may be used for, by bits.
const USAGES: [(u64, &str); 3] =
    [(4, "crl-signing"), (2, "issuing-certificates"), (8, "ocsp-signing")];
/// What happens to certificates that would outlive their issuer, by numbers.
const OUTLIVING: [&str; 4] = ["err", "truncate", "permit", "always_enforce_err"];
/// Algorithms of revocation lists by their numbers; any other is left to the target.
const ALGORITHMS: [(&str, &str); 9] = [
    ("4", "SHA256WithRSA"),
    ("5", "SHA384WithRSA"),
    ("6", "SHA512WithRSA"),
    ("10", "ECDSAWithSHA256"),
    ("11", "ECDSAWithSHA384"),
    ("12", "ECDSAWithSHA512"),
    ("13", "SHA256WithRSAPSS"),
    ("14", "SHA384WithRSAPSS"),
    ("15", "SHA512WithRSAPSS"),
];
/// Folders that are made of what moves, or are the server's own. Those of settings are looked at one by one.
const OWN_FOLDERS: [&str; 6] = ["certs", CONFIG, "crls", "revoked", "role", "urls"];
const CONFIG: &str = "config";
/// The same of settings.
const OWN_SETTINGS: [&str; 9] = [
    "acme",
    "auto-tidy",
    "cluster",
    "crl",
    "issuer",
    "issuers",
    "key",
    "keys",
    "legacyMigrationBundleLog",
];
/// What one authority was kept as before there were several, and what is left of that.
const BUNDLES: [&str; 2] = ["config/ca_bundle", "config/ca_bundle.bak"];

const URLS: &[FieldRow] = &[
    ("crl_distribution_points", Named("crl_distribution_points")),
    ("delta_crl_distribution_points", Named("delta_crl_distribution_points")),
    ("enable_templating", Named("enable_templating")),
    ("issuing_certificates", Named("issuing_certificates")),
    ("ocsp_servers", Named("ocsp_servers")),
];
const CLUSTER: &[FieldRow] = &[("aia_path", Named("aia_path")), ("path", Named("path"))];
const CRL: &[FieldRow] = &[
    ("allow_expired_cert_revocation", Named("allow_expired_cert_revocation")),
    ("auto_rebuild", Named("auto_rebuild")),
    ("auto_rebuild_grace_period", Named("auto_rebuild_grace_period")),
    ("delta_rebuild_interval", Named("delta_rebuild_interval")),
    ("disable", Named("disable")),
    ("enable_delta", Named("enable_delta")),
    ("expiry", Named("expiry")),
    ("ocsp_disable", Named("ocsp_disable")),
    ("ocsp_expiry", Named("ocsp_expiry")),
    ("version", Internal),
];
const AUTO_TIDY: &[FieldRow] = &[
    ("acme_account_safety_buffer", Seconds("acme_account_safety_buffer")),
    ("enabled", Named("enabled")),
    ("interval_duration", Seconds("interval_duration")),
    ("issuer_safety_buffer", Seconds("issuer_safety_buffer")),
    ("maintain_stored_certificate_counts", Named("maintain_stored_certificate_counts")),
    ("page_size", Named("page_size")),
    ("pause_duration", Seconds("pause_duration")),
    ("publish_stored_certificate_count_metrics", Named("publish_stored_certificate_count_metrics")),
    ("revoked_safety_buffer", Seconds("revoked_safety_buffer")),
    ("safety_buffer", Seconds("safety_buffer")),
    ("tidy_acme", Named("tidy_acme")),
    ("tidy_cert_store", Named("tidy_cert_store")),
    ("tidy_expired_issuers", Named("tidy_expired_issuers")),
    ("tidy_invalid_certs", Named("tidy_invalid_certs")),
    ("tidy_move_legacy_ca_bundle", Named("tidy_move_legacy_ca_bundle")),
    ("tidy_revoked_cert_issuer_associations", Named("tidy_revoked_cert_issuer_associations")),
    ("tidy_revoked_certs", Named("tidy_revoked_certs")),
];
const ACME: &[FieldRow] = &[
    ("allow_role_ext_key_usage", Named("allow_role_ext_key_usage")),
    // As it is spelled there.
    ("allowed_issuers=", Named("allowed_issuers")),
    ("allowed_issuers", Named("allowed_issuers")),
    ("allowed_roles", Named("allowed_roles")),
    ("default_directory_policy", Named("default_directory_policy")),
    ("dns_resolver", Named("dns_resolver")),
    ("eab_policy_name", Named("eab_policy")),
    ("enabled", Named("enabled")),
];
const ROLE: &[FieldRow] = &[
    ("allow_any_name", Named("allow_any_name")),
    ("allow_bare_domains", Named("allow_bare_domains")),
    ("allow_glob_domains", Named("allow_glob_domains")),
    ("allow_globs_in_identity_templates", Named("allow_globs_in_identity_templates")),
    ("allow_ip_sans", Named("allow_ip_sans")),
    ("allow_localhost", Named("allow_localhost")),
    ("allow_subdomains", Named("allow_subdomains")),
    ("allow_token_displayname", Named("allow_token_displayname")),
    ("allow_wildcard_certificates", Named("allow_wildcard_certificates")),
    ("allowed_domains_list", Named("allowed_domains")),
    ("allowed_domains_template", Named("allowed_domains_template")),
    ("allowed_ip_sans_cidr", Named("allowed_ip_sans_cidr")),
    ("allowed_other_sans", Named("allowed_other_sans")),
    ("allowed_serial_numbers", Named("allowed_serial_numbers")),
    ("allowed_uri_sans", Named("allowed_uri_sans")),
    ("allowed_uri_sans_template", Named("allowed_uri_sans_template")),
    ("allowed_user_ids", Named("allowed_user_ids")),
    ("basic_constraints_valid_for_non_ca", Named("basic_constraints_valid_for_non_ca")),
    ("client_flag", Named("client_flag")),
    ("cn_validations", Named("cn_validations")),
    ("code_signing_flag", Named("code_signing_flag")),
    ("country", Named("country")),
    ("email_protection_flag", Named("email_protection_flag")),
    ("enforce_hostnames", Named("enforce_hostnames")),
    ("ext_key_usage_oids", Named("ext_key_usage_oids")),
    ("extended_key_usage_list", Named("ext_key_usage")),
    ("generate_lease", Named("generate_lease")),
    ("issuer", Named("issuer_ref")),
    ("key_bits", Named("key_bits")),
    ("key_type", Named("key_type")),
    ("key_usage_list", Named("key_usage")),
    ("locality", Named("locality")),
    ("max_ttl_duration", Seconds("max_ttl")),
    ("name", Internal),
    ("no_store", Named("no_store")),
    ("not_after", Named("not_after")),
    ("not_after_bound", Named("not_after_bound")),
    ("not_before", Named("not_before")),
    ("not_before_bound", Named("not_before_bound")),
    ("not_before_duration", Seconds("not_before_duration")),
    ("organization_list", Named("organization")),
    ("ou_list", Named("ou")),
    ("policy_identifiers", Named("policy_identifiers")),
    ("postal_code", Named("postal_code")),
    ("province", Named("province")),
    ("require_cn", Named("require_cn")),
    ("server_flag", Named("server_flag")),
    ("signature_bits", Named("signature_bits")),
    ("street_address", Named("street_address")),
    ("ttl_duration", Seconds("ttl")),
    ("use_csr_common_name", Named("use_csr_common_name")),
    ("use_csr_sans", Named("use_csr_sans")),
    ("use_pss", Named("use_pss")),
];
const ISSUER: &[FieldRow] = &[
    ("aia_uris", Internal),
    ("ca_chain", Internal),
    ("certificate", Internal),
    ("id", Internal),
    ("key_id", Internal),
    ("last_modified", Internal),
    ("manual_chain", Internal),
    ("name", Named("issuer_name")),
    ("not_after_behavior", Internal),
    ("revocation_signature_algorithm", Internal),
    ("revocation_time", Internal),
    ("revocation_time_utc", Internal),
    ("revoked", Internal),
    ("serial_number", Internal),
    ("usage", Internal),
    ("version", Internal),
];

/// Settings: where the API has them, where they are stored, and their fields. ACME comes after what it needs.
const SETTINGS: [(&str, &str, &[FieldRow]); 5] = [
    ("config/urls", "urls", URLS),
    ("config/cluster", "config/cluster", CLUSTER),
    ("config/crl", "config/crl", CRL),
    ("config/auto-tidy", "config/auto-tidy", AUTO_TIDY),
    ("config/acme", "config/acme", ACME),
];

/// The routes of settings, in the order in which they are written.
pub(in crate::migrate) fn setting_routes() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|(route, ..)| *route)
}

/// What a mount has besides roles and settings.
#[derive(Default)]
pub(in crate::migrate) struct StoredAuthority {
    pub(in crate::migrate) keys: Vec<AuthorityKey>,
    pub(in crate::migrate) issuers: Vec<AuthorityIssuer>,
    pub(in crate::migrate) revoked: Vec<RevokedAtSource>,
    /// Which issuer is the default, and whether that is always the last.
    pub(in crate::migrate) default_issuer: String,
    pub(in crate::migrate) default_follows: bool,
    pub(in crate::migrate) default_key: String,
    /// Certificates that are stored and were not revoked.
    pub(in crate::migrate) good: usize,
    /// What was not read, by its record, and why.
    pub(in crate::migrate) unread: Vec<(String, String)>,
}

/// A private key.
pub(in crate::migrate) struct AuthorityKey {
    pub(in crate::migrate) id: String,
    pub(in crate::migrate) name: String,
    /// With `pem_bundle` and `key_name`, as the target takes it.
    pub(in crate::migrate) body: Map,
}

/// A certificate of an authority.
pub(in crate::migrate) struct AuthorityIssuer {
    pub(in crate::migrate) id: String,
    pub(in crate::migrate) key: String,
    pub(in crate::migrate) certificate: String,
    /// Its settings, as the API has them.
    pub(in crate::migrate) settings: Map,
    /// Ids of a chain that somebody gave.
    pub(in crate::migrate) chain: Vec<String>,
    pub(in crate::migrate) is_revoked: bool,
}

/// A certificate that was revoked.
pub(in crate::migrate) struct RevokedAtSource {
    pub(in crate::migrate) serial: String,
    pub(in crate::migrate) pem: String,
    pub(in crate::migrate) not_after: i64,
}

/// The names of roles.
pub(super) fn list(opened: &OpenSnapshot, mount: &StoredMount, path: &str) -> Vec<String> {
    match path {
        "roles" => records_in(opened, &format!("{}role/", mount.folder)),
        _ => Vec::new(),
    }
}

/// A role or settings, as the API shows them.
pub(super) fn read(
    opened: &OpenSnapshot,
    mount: &StoredMount,
    path: &str,
) -> Result<Option<Map>, ItemFailure> {
    let (at, rows) = match path.strip_prefix("roles/") {
        Some(name) => (format!("role/{name}"), ROLE),
        None => match SETTINGS.iter().find(|(route, ..)| *route == path) {
            Some((_, at, rows)) => ((*at).to_owned(), *rows),
            None => return Ok(None),
        },
    };
    let stored = read_json(opened, &format!("{}{at}", mount.folder))?;
    let Some(stored) = stored else { return Ok(None) };
    let ReadFields { mut shown, .. } = fields::settings(stored, rows)?;
    shown.retain(|_, value| *value != Json::Null);
    Ok(Some(shown))
}

/// Keys, issuers and certificates.
pub(super) fn authority(opened: &OpenSnapshot, mount: &StoredMount) -> StoredAuthority {
    let mut found = StoredAuthority::default();
    let all = |folder: &str| records_in(opened, &format!("{}{folder}", mount.folder));
    for id in all("config/key/") {
        let record = format!("config/key/{id}");
        match key(opened, mount, &record) {
            Ok(key) => found.keys.push(key),
            Err(failure) => found.unread.push((record, failure.text())),
        }
    }
    for id in all("config/issuer/") {
        let record = format!("config/issuer/{id}");
        match issuer(opened, mount, &record) {
            Ok(issuer) => found.issuers.push(issuer),
            Err(failure) => found.unread.push((record, failure.text())),
        }
    }
    let revoked = all("revoked/");
    for serial in &revoked {
        let record = format!("revoked/{serial}");
        match revoked_entry(opened, mount, &record, serial) {
            Ok(entry) => found.revoked.push(entry),
            Err(failure) => found.unread.push((record, failure.text())),
        }
    }
    // The certificates of issuers are among them.
    let revoked: HashSet<String> = revoked.into_iter().collect();
    let stored = all("certs/").into_iter().filter(|serial| !revoked.contains(serial)).count();
    found.good = stored.saturating_sub(found.issuers.len());
    found.read_defaults(opened, mount);
    let settings = opened.names(&format!("{}{CONFIG}/", mount.folder));
    let settings = settings.into_iter().map(|name| format!("{CONFIG}/{name}"));
    for place in opened.names(&mount.folder).into_iter().chain(settings) {
        let count = || opened.below(&format!("{}{place}", mount.folder)).count();
        if let Some(why) = why_it_stays(&place, count) {
            found.unread.push((place, why));
        }
    }
    found
}

impl StoredAuthority {
    fn read_defaults(&mut self, opened: &OpenSnapshot, mount: &StoredMount) {
        let mut read = |record: &str| {
            let stored = read_json(opened, &format!("{}{record}", mount.folder));
            stored.map(Option::unwrap_or_default).unwrap_or_else(|failure| {
                self.unread.push((record.to_owned(), failure.text()));
                Map::new()
            })
        };
        let (issuers, keys) = (read("config/issuers"), read("config/keys"));
        self.default_issuer = text(&issuers, "default").to_owned();
        self.default_follows = issuers.get("default_follows_latest_issuer") == Some(&true.into());
        self.default_key = text(&keys, "default").to_owned();
    }
}

/// Why a record or folder of the mount does not move; nothing for what moves and for the server's own.
fn why_it_stays(place: &str, count: impl FnOnce() -> usize) -> Option<String> {
    let bare = place.trim_end_matches('/');
    let setting = bare.strip_prefix(CONFIG).and_then(|rest| rest.strip_prefix('/'));
    let is_own = match setting {
        Some(setting) => OWN_SETTINGS.contains(&setting),
        None => OWN_FOLDERS.contains(&bare),
    };
    if is_own {
        return None;
    }
    Some(if BUNDLES.contains(&bare) {
        "the authority as it was kept before there were several: it moves as an issuer if it is \
         one, and is else imported by hand (issuers/import/bundle)"
            .to_owned()
    } else if place.ends_with('/') {
        format!("{} of them: what they are is not read from a snapshot", count())
    } else {
        "what it is is not read from a snapshot: set it up by hand".to_owned()
    })
}

fn key(
    opened: &OpenSnapshot,
    mount: &StoredMount,
    record: &str,
) -> Result<AuthorityKey, ItemFailure> {
    let stored = required(opened, mount, record)?;
    if !text(&stored, "external_key_ref").is_empty() || text(&stored, "private_key").is_empty() {
        return Err(item("its private key is kept elsewhere"));
    }
    let (id, name) = (text(&stored, "id").to_owned(), text(&stored, "name").to_owned());
    let mut body = Map::from([("pem_bundle".to_owned(), Json::from(text(&stored, "private_key")))]);
    if !name.is_empty() {
        body.insert("key_name".to_owned(), name.as_str().into());
    }
    Ok(AuthorityKey { id, name, body })
}

fn issuer(
    opened: &OpenSnapshot,
    mount: &StoredMount,
    record: &str,
) -> Result<AuthorityIssuer, ItemFailure> {
    let stored = required(opened, mount, record)?;
    let of = |name: &str| text(&stored, name).to_owned();
    let (id, key, certificate) = (of("id"), of("key_id"), of("certificate"));
    let number = |name: &str| match stored.get(name) {
        Some(Json::Number(text)) => &**text,
        _ => "0",
    };
    let outliving = number("not_after_behavior").parse::<usize>().ok();
    let outliving = outliving.and_then(|number| OUTLIVING.get(number));
    let outliving = outliving.ok_or_else(|| item("its not_after_behavior is not understood"))?;
    let bits = number("usage").parse::<u64>().ok().filter(|bits| bits & !0xe == 0);
    let bits = bits.ok_or_else(|| item("its usage is not understood"))?;
    let usages = USAGES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name);
    // In the order in which a target shows them.
    let usages: Vec<&str> = usages.chain(std::iter::once("read-only")).collect();
    let algorithm = number("revocation_signature_algorithm");
    let algorithm = ALGORITHMS.iter().find(|(number, _)| *number == algorithm);
    let mut own = Map::from([
        ("leaf_not_after_behavior".to_owned(), Json::from(*outliving)),
        ("usage".to_owned(), usages.join(",").into()),
    ]);
    own.extend(
        algorithm.map(|(_, name)| ("revocation_signature_algorithm".to_owned(), Json::from(*name))),
    );
    if let Some(urls) = stored.get("aia_uris").and_then(Json::as_object) {
        let mut urls = fields::settings(urls.clone(), URLS)?.shown;
        if let Some(templates) = urls.remove("enable_templating") {
            urls.insert("enable_aia_url_templating".to_owned(), templates);
        }
        own.extend(urls);
    }
    let chain = match stored.get("manual_chain") {
        Some(Json::Array(ids)) => ids.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let is_revoked = stored.get("revoked") == Some(&true.into());
    let mut settings = fields::settings(stored, ISSUER)?.shown;
    settings.extend(own);
    Ok(AuthorityIssuer { id, key, certificate, settings, chain, is_revoked })
}

fn revoked_entry(
    opened: &OpenSnapshot,
    mount: &StoredMount,
    record: &str,
    name: &str,
) -> Result<RevokedAtSource, ItemFailure> {
    let stored = required(opened, mount, record)?;
    let der = BASE64.decode(text(&stored, "certificate_bytes").as_bytes());
    let der = match der.ok().filter(|der| !der.is_empty()) {
        Some(der) => der,
        None => read_bytes(opened, &format!("{}certs/{name}", mount.folder))?
            .map(|der| der.to_vec())
            .unwrap_or_default(),
    };
    let parsed = ParsedCertificate::from_der(&der)
        .map_err(|_| item("its certificate is not in the snapshot, or is not understood"))?;
    let pem = pem::encode(&pem::Pem::new("CERTIFICATE", parsed.der.clone()));
    Ok(RevokedAtSource { serial: name.replace('-', ":"), pem, not_after: parsed.not_after })
}

fn required(opened: &OpenSnapshot, mount: &StoredMount, record: &str) -> Result<Map, ItemFailure> {
    let stored = read_json(opened, &format!("{}{record}", mount.folder))?;
    stored.ok_or_else(|| item("it is gone at the source"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_move_is_named_in_every_folder() {
        let why = |place: &str| why_it_stays(place, || 7).unwrap_or_default();
        let moves = ["config/", "config/keys", "config/key/", "config/acme", "certs/", "urls"];
        assert_eq!(moves.map(why), moves.map(|_| String::new()));
        for enrolment in ["config/est", "config/scep", "config/cmp", "config/keys.old"] {
            assert!(why(enrolment).contains("by hand"), "{enrolment}");
        }
        assert!(why("config/ca_bundle").contains("issuers/import/bundle"));
        assert!(why("config/ca_bundle.bak").contains("issuers/import/bundle"));
        for folder in ["acme/", "config/external/"] {
            assert!(why(folder).starts_with("7 of them"), "{folder}");
        }
        // Settings of these names are no folders of the mount, nor the other way round.
        assert!(!why("keys").is_empty() && !why("config/certs").is_empty());
    }
}
