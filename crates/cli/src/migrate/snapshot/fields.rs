//! What fields of stored objects are called and how they are written in the API.
//!
//! Every field of an object has a row. One without a row is refused by its name unless it says nothing, so that no setting is lost unseen.

use super::item;
use crate::migrate::endpoint::ItemFailure;
use crate::migrate::pass::is_nothing;
use kallisto_command::json::{Json, Map};

/// Nanoseconds of a second: durations are stored so.
const NANOS: i64 = 1_000_000_000;
/// Types of tokens by their numbers.
const TOKEN_TYPES: [&str; 5] = ["default", "service", "batch", "default-service", "default-batch"];

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldForm {
    /// The same value by this name.
    Named(&'static str),
    /// A duration, shown in seconds by this name.
    Seconds(&'static str),
    /// The type of tokens, shown by its name.
    TokenType,
    /// An old name of another field, which counts where that one says nothing.
    Old(&'static str),
    /// The same for durations.
    OldSeconds(&'static str),
    /// Something that no API tells, by the name under which it is written.
    Hidden(&'static str),
    /// The server's own.
    Internal,
}

use FieldForm::{Hidden, Internal, Named, Old, OldSeconds, Seconds, TokenType};

/// A field as it is stored, and what becomes of it.
pub(super) type FieldRow = (&'static str, FieldForm);

/// What an object is made of.
#[derive(Default)]
pub(super) struct ReadFields {
    /// What the API would have told.
    pub(super) shown: Map,
    /// What it would not.
    pub(super) hidden: Map,
}

/// What tokens of a role or a user are like.
const TOKEN: &[FieldRow] = &[
    ("token_bound_cidrs", Named("token_bound_cidrs")),
    ("token_explicit_max_ttl", Seconds("token_explicit_max_ttl")),
    ("token_max_ttl", Seconds("token_max_ttl")),
    ("token_no_default_policy", Named("token_no_default_policy")),
    ("token_num_uses", Named("token_num_uses")),
    ("token_period", Seconds("token_period")),
    ("token_policies", Named("token_policies")),
    ("token_strictly_bind_ip", Named("token_strictly_bind_ip")),
    ("token_ttl", Seconds("token_ttl")),
    ("token_type", TokenType),
    // What they were called before.
    ("bound_cidrs", Old("token_bound_cidrs")),
    ("BoundCIDRs", Old("token_bound_cidrs")),
    ("explicit_max_ttl", OldSeconds("token_explicit_max_ttl")),
    ("max_ttl", OldSeconds("token_max_ttl")),
    ("MaxTTL", OldSeconds("token_max_ttl")),
    ("num_uses", Old("token_num_uses")),
    ("period", OldSeconds("token_period")),
    ("Period", OldSeconds("token_period")),
    ("policies", Old("token_policies")),
    ("Policies", Old("token_policies")),
    ("ttl", OldSeconds("token_ttl")),
    ("TTL", OldSeconds("token_ttl")),
];

pub(super) const APPROLE_ROLE: &[FieldRow] = &[
    ("bind_secret_id", Named("bind_secret_id")),
    ("bound_cidr_list_list", Old("secret_id_bound_cidrs")),
    ("hmac_key", Internal),
    ("lower_case_role_name", Internal),
    ("name", Internal),
    ("role_id", Internal),
    ("secret_id_bound_cidrs", Named("secret_id_bound_cidrs")),
    ("secret_id_num_uses", Named("secret_id_num_uses")),
    ("secret_id_prefix", Internal),
    ("secret_id_ttl", Seconds("secret_id_ttl")),
];
pub(super) const USERPASS_USER: &[FieldRow] = &[("PasswordHash", Internal)];
pub(super) const TOKEN_ROLE: &[FieldRow] = &[
    ("allowed_entity_aliases", Named("allowed_entity_aliases")),
    ("allowed_policies", Named("allowed_policies")),
    ("allowed_policies_glob", Named("allowed_policies_glob")),
    ("disallowed_policies", Named("disallowed_policies")),
    ("disallowed_policies_glob", Named("disallowed_policies_glob")),
    ("name", Named("name")),
    ("orphan", Named("orphan")),
    ("path_suffix", Named("path_suffix")),
    ("renewable", Named("renewable")),
];
pub(super) const JWT_CONFIG: &[FieldRow] = &[
    ("bound_issuer", Named("bound_issuer")),
    ("default_role", Named("default_role")),
    ("jwks_ca_pem", Named("jwks_ca_pem")),
    ("jwks_url", Named("jwks_url")),
    ("jwt_supported_algs", Named("jwt_supported_algs")),
    ("jwt_validation_pubkeys", Named("jwt_validation_pubkeys")),
    ("namespace_in_state", Named("namespace_in_state")),
    ("oidc_client_id", Named("oidc_client_id")),
    ("oidc_client_secret", Hidden("oidc_client_secret")),
    ("oidc_discovery_ca_pem", Named("oidc_discovery_ca_pem")),
    ("oidc_discovery_url", Named("oidc_discovery_url")),
    ("oidc_response_mode", Named("oidc_response_mode")),
    ("oidc_response_types", Named("oidc_response_types")),
    ("override_allowed_server_names", Named("override_allowed_server_names")),
    ("provider_config", Named("provider_config")),
];
pub(super) const JWT_ROLE: &[FieldRow] = &[
    ("allowed_redirect_uris", Named("allowed_redirect_uris")),
    ("bound_audiences", Named("bound_audiences")),
    ("bound_claims", Named("bound_claims")),
    ("bound_claims_type", Named("bound_claims_type")),
    ("bound_subject", Named("bound_subject")),
    ("callback_mode", Named("callback_mode")),
    ("claim_mappings", Named("claim_mappings")),
    ("clock_skew_leeway", Seconds("clock_skew_leeway")),
    ("expiration_leeway", Seconds("expiration_leeway")),
    ("groups_claim", Named("groups_claim")),
    ("max_age", Seconds("max_age")),
    ("not_before_leeway", Seconds("not_before_leeway")),
    ("oauth2_metadata", Named("oauth2_metadata")),
    ("oidc_disable_confirmation", Named("oidc_disable_confirmation")),
    ("oidc_scopes", Named("oidc_scopes")),
    ("poll_interval", Named("poll_interval")),
    ("role_type", Named("role_type")),
    ("token_policies_template_claims", Named("token_policies_template_claims")),
    ("user_claim", Named("user_claim")),
    ("user_claim_json_pointer", Named("user_claim_json_pointer")),
    ("verbose_oidc_logging", Named("verbose_oidc_logging")),
];
pub(super) const KUBERNETES_CONFIG: &[FieldRow] = &[
    ("ca_cert", Named("kubernetes_ca_cert")),
    ("disable_iss_validation", Named("disable_iss_validation")),
    ("disable_local_ca_jwt", Named("disable_local_ca_jwt")),
    ("host", Named("kubernetes_host")),
    ("issuer", Named("issuer")),
    ("pem_keys", Named("pem_keys")),
    ("token_reviewer_jwt", Hidden("token_reviewer_jwt")),
];
pub(super) const KUBERNETES_ROLE: &[FieldRow] = &[
    ("alias_name_source", Named("alias_name_source")),
    ("audience", Named("audience")),
    ("bound_service_account_names", Named("bound_service_account_names")),
    ("bound_service_account_namespace_selector", Named("bound_service_account_namespace_selector")),
    ("bound_service_account_namespaces", Named("bound_service_account_namespaces")),
];
pub(super) const CERT_ROLE: &[FieldRow] = &[
    ("AllowedCommonNames", Named("allowed_common_names")),
    ("AllowedDNSSANs", Named("allowed_dns_sans")),
    ("AllowedEmailSANs", Named("allowed_email_sans")),
    ("AllowedMetadataExtensions", Named("allowed_metadata_extensions")),
    ("AllowedNames", Named("allowed_names")),
    ("AllowedOrganizationalUnits", Named("allowed_organizational_units")),
    ("AllowedURISANs", Named("allowed_uri_sans")),
    ("Certificate", Named("certificate")),
    ("DisplayName", Named("display_name")),
    ("Name", Internal),
    ("OcspCaCertificates", Named("ocsp_ca_certificates")),
    ("OcspEnabled", Named("ocsp_enabled")),
    ("OcspFailOpen", Named("ocsp_fail_open")),
    ("OcspQueryAllServers", Named("ocsp_query_all_servers")),
    ("OcspServersOverride", Named("ocsp_servers_override")),
    ("RequiredExtensions", Named("required_extensions")),
];

/// An object of settings.
pub(super) fn settings(stored: Map, rows: &[FieldRow]) -> Result<ReadFields, ItemFailure> {
    read(stored, rows, &[])
}

/// An object that tokens are made by.
pub(super) fn role(stored: Map, rows: &[FieldRow]) -> Result<ReadFields, ItemFailure> {
    read(stored, rows, TOKEN)
}

fn read(stored: Map, rows: &[FieldRow], more: &[FieldRow]) -> Result<ReadFields, ItemFailure> {
    let mut fields = ReadFields::default();
    let mut old = Vec::new();
    for (name, value) in stored {
        let row = rows.iter().chain(more).find(|(known, _)| *known == name);
        let Some((_, form)) = row else {
            if is_nothing(&value) {
                continue;
            }
            return Err(ItemFailure::Item(format!("its field {name:?} is not understood")));
        };
        match form {
            Named(name) => drop(fields.shown.insert((*name).to_owned(), value)),
            Seconds(name) => drop(fields.shown.insert((*name).to_owned(), in_seconds(&value)?)),
            TokenType => {
                let kind =
                    token_type(&value).ok_or_else(|| item("its token_type is not understood"))?;
                fields.shown.insert("token_type".to_owned(), kind.into());
            }
            Old(name) => old.push((*name, value)),
            OldSeconds(name) => old.push((*name, in_seconds(&value)?)),
            Hidden(name) if !is_nothing(&value) => {
                fields.hidden.insert((*name).to_owned(), value);
            }
            Hidden(_) | Internal => {}
        }
    }
    for (name, value) in old {
        if fields.shown.get(name).is_none_or(is_nothing) && !is_nothing(&value) {
            fields.shown.insert(name.to_owned(), value);
        }
    }
    Ok(fields)
}

fn in_seconds(value: &Json) -> Result<Json, ItemFailure> {
    if *value == Json::Null {
        return Ok(Json::Null);
    }
    let secs = seconds(value).ok_or_else(|| item("a duration in it is not of whole seconds"))?;
    Ok(secs.into())
}

/// A stored duration in seconds.
pub(super) fn seconds(value: &Json) -> Option<i64> {
    let Json::Number(text) = value else { return None };
    let nanos: i64 = text.parse().ok()?;
    (nanos % NANOS == 0).then_some(nanos / NANOS)
}

/// The name of a type of tokens.
pub(super) fn token_type(value: &Json) -> Option<&'static str> {
    let Json::Number(text) = value else { return None };
    TOKEN_TYPES.get(text.parse::<usize>().ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_command::json::parse_object;

    fn map(text: &str) -> Map {
        parse_object(text.as_bytes()).unwrap()
    }

    #[test]
    fn fields_get_their_names_and_units_and_old_names_count_where_new_ones_say_nothing() {
        let stored = map(
            r#"{"token_ttl":60000000000,"token_policies":null,"policies":["old"],"period":5000000000,
                "token_period":1000000000,"token_type":3,"hmac_key":"k","secret_id_ttl":0,"unknown":null}"#,
        );
        let read = role(stored, APPROLE_ROLE).ok().unwrap();
        let wanted = map(
            r#"{"token_ttl":60,"token_policies":["old"],"token_period":1,"token_type":"default-service","secret_id_ttl":0}"#,
        );
        assert!(read.shown == wanted, "{:?}", read.shown.keys());
        assert!(read.hidden.is_empty());
    }

    #[test]
    fn what_has_no_row_is_refused_by_its_name_and_secrets_are_kept_apart() {
        let told = |text: &str| match role(map(text), JWT_ROLE) {
            Err(ItemFailure::Item(why) | ItemFailure::Denied(why)) => why,
            _ => String::new(),
        };
        assert!(told(r#"{"newer":1}"#).contains("\"newer\" is not understood"));
        assert!(told(r#"{"token_ttl":1}"#).contains("whole seconds"));
        assert!(told(r#"{"token_type":9}"#).contains("token_type"));
        let read = settings(map(r#"{"oidc_client_secret":"s","oidc_client_id":"c"}"#), JWT_CONFIG);
        let read = read.ok().unwrap();
        assert!(!read.shown.contains_key("oidc_client_secret"));
        assert!(read.hidden.contains_key("oidc_client_secret"));
    }
}
