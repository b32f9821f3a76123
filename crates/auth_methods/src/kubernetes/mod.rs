//! Login by the token of a Kubernetes service account.
//!
//! The token is a JWT. What it claims is read to choose nothing but words for a refusal: who it
//! belongs to is what the cluster's API server says when it is asked to review it. Where the
//! configuration has public keys, the signature is checked here first, so that made-up tokens do not
//! reach the API server.

mod routes;
mod selector;

use std::future::ready;

use kallisto_api::{Denial, Error, Fields, Json, Map, Request, Response, json};
use kallisto_engine::glob::matches_glob;
use kallisto_engine::{
    Authorization, Call, EngineContext, EngineSpec, Login, LoginMethod, Outbound, OutboundCall,
    Payload, Pod, Renewal, RenewalCall, TokenParams, address,
};
use secrecy::{ExposeSecret, SecretString};

use crate::jwt::token::{Jwt, JwtKey};
use crate::jwt::{check_keys, check_url};
use crate::records::{self, FieldsRecord, RoleFields, Roles};
use selector::Selector;

/// Where the roles are.
const ROLES: Roles = Roles { folder: "role/" };
/// Most names a role may be bound to.
const NAMES_MAX: usize = 256;
/// What an account may be called to the identity engine, as requests say it.
const UID_SOURCE: &str = "serviceaccount_uid";
const NAME_SOURCE: &str = "serviceaccount_name";
/// The field of a role's selector.
const SELECTOR: &str = "bound_service_account_namespace_selector";
/// Leads the name of a service account.
const ACCOUNT: &str = "system:serviceaccount:";

/// The configuration as stored.
#[derive(Clone, Debug, Default)]
struct KubernetesConfig {
    host: String,
    authorities: String,
    /// Shown to the API server; when empty, the token of the server's own pod, or else the login's own.
    reviewer: SecretString,
    keys: Vec<String>,
    issuer: String,
    disable_iss_validation: bool,
    disable_local_ca_jwt: bool,
}

impl KubernetesConfig {
    fn read(fields: Fields<'_>) -> Result<Self, Error> {
        let text = |name: &str| fields.string(name).map(Option::unwrap_or_default);
        let config = Self {
            host: text("kubernetes_host")?.trim_end_matches('/').to_owned(),
            authorities: text("kubernetes_ca_cert")?,
            reviewer: text("token_reviewer_jwt")?.trim().into(),
            keys: fields.strings("pem_keys")?.unwrap_or_default(),
            issuer: text("issuer")?,
            disable_iss_validation: fields.boolean("disable_iss_validation")?.unwrap_or(true),
            disable_local_ca_jwt: fields.boolean("disable_local_ca_jwt")?.unwrap_or(false),
        };
        if config.host.is_empty() {
            return Err(Error::invalid("no host provided"));
        }
        check_url("kubernetes_host", &config.host)?;
        check_keys(&config.keys)?;
        Ok(config)
    }

    /// The configuration with what it leaves to the server's own pod. The pod's token is for the API server of its own cluster alone.
    fn filled_from(mut self, pod: &dyn Pod) -> Self {
        if self.disable_local_ca_jwt {
            return self;
        }
        if let Some(account) = pod.account().filter(|account| account.is_api_server(&self.host)) {
            if self.reviewer.expose_secret().is_empty() {
                self.reviewer = account.token.clone();
            }
            if self.authorities.is_empty() {
                self.authorities.clone_from(&account.authorities);
            }
        }
        self
    }

    /// The configuration as it is shown: not the reviewer's token.
    fn to_map(&self) -> Map {
        [
            ("disable_iss_validation", self.disable_iss_validation.into()),
            ("disable_local_ca_jwt", self.disable_local_ca_jwt.into()),
            ("issuer", self.issuer.as_str().into()),
            ("kubernetes_ca_cert", self.authorities.as_str().into()),
            ("kubernetes_host", self.host.as_str().into()),
            ("pem_keys", Json::strings(self.keys.iter().cloned())),
            ("token_reviewer_jwt_set", (!self.reviewer.expose_secret().is_empty()).into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

impl FieldsRecord for KubernetesConfig {
    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::read(Fields::new(&json::parse_object(bytes).ok()?)).ok()
    }

    fn encode(&self) -> Vec<u8> {
        let mut map = self.to_map();
        map.insert("token_reviewer_jwt".into(), self.reviewer.expose_secret().into());
        Json::Object(map).to_text()
    }

    fn shown(&self) -> Map {
        self.to_map()
    }

    fn written(_before: Option<Self>, fields: Fields<'_>) -> Result<Self, Error> {
        // Written whole: what is not given is as at first.
        let config = Self::read(fields)?;
        if config.disable_local_ca_jwt && config.authorities.is_empty() {
            return Err(Error::invalid(
                "kubernetes_ca_cert must be given when disable_local_ca_jwt is true",
            ));
        }
        if fields.boolean("use_annotations_as_alias_metadata")? == Some(true) {
            return Err(Error::invalid("use_annotations_as_alias_metadata is not available"));
        }
        Ok(config)
    }
}

/// A role as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KubernetesRole {
    names: Vec<String>,
    namespaces: Vec<String>,
    /// Namespaces besides, by their labels: as it was given, and shown; empty for none.
    namespace_selector: String,
    audience: String,
    /// Whether an account is called by its name to the identity engine, not by its UID.
    has_name_alias: bool,
    params: TokenParams,
}

impl RoleFields for KubernetesRole {
    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        for (name, list) in [
            ("bound_service_account_names", &mut self.names),
            ("bound_service_account_namespaces", &mut self.namespaces),
        ] {
            if let Some(given) = fields.strings(name)? {
                *list = given;
            }
            if list.len() > NAMES_MAX {
                return Err(Error::invalid(format!("{name:?} has more than {NAMES_MAX} names")));
            }
            if list.len() > 1 && list.iter().any(|name| name == "*") {
                return Err(Error::invalid(format!("can not mix \"*\" with values in {name:?}")));
            }
        }
        if let Some(selector) = fields.string(SELECTOR)? {
            self.namespace_selector = selector;
        }
        if let Some(audience) = fields.string("audience")? {
            self.audience = audience;
        }
        self.has_name_alias = match fields.string("alias_name_source")?.as_deref() {
            None => self.has_name_alias,
            Some("" | UID_SOURCE) => false,
            Some(NAME_SOURCE) => true,
            Some(other) => {
                return Err(Error::invalid(format!("invalid alias_name_source {other:?}")));
            }
        };
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        if self.names.is_empty() {
            return Err(Error::invalid("\"bound_service_account_names\" can not be empty"));
        }
        if self.namespaces.is_empty() && self.namespace_selector.is_empty() {
            return Err(Error::invalid(format!(
                "\"bound_service_account_namespaces\" can not be empty if {SELECTOR:?} is not set"
            )));
        }
        if !self.namespace_selector.is_empty() && self.selector().is_none() {
            return Err(Error::invalid(format!(
                "invalid {SELECTOR:?} configured: it takes matchLabels with at least one label"
            )));
        }
        Ok(())
    }

    fn to_map(&self) -> Map {
        let mut map = self.params.to_map();
        let own = [
            (
                "alias_name_source",
                if self.has_name_alias { NAME_SOURCE } else { UID_SOURCE }.into(),
            ),
            ("audience", self.audience.as_str().into()),
            ("bound_service_account_names", Json::strings(self.names.iter().cloned())),
            (SELECTOR, self.namespace_selector.as_str().into()),
            ("bound_service_account_namespaces", Json::strings(self.namespaces.iter().cloned())),
        ];
        map.extend(own.into_iter().map(|(name, value)| (name.to_owned(), value)));
        map
    }

    fn params_mut(&mut self) -> &mut TokenParams {
        &mut self.params
    }
}

/// Whether an account may log in by a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoleBinding {
    Yes,
    No,
    /// When its namespace has the labels of the role's selector.
    ByLabels,
}

impl KubernetesRole {
    /// Whether an account may log in by this role.
    fn binds(&self, account: &ServiceAccount) -> RoleBinding {
        let holds =
            |list: &[String], name: &str| list.iter().any(|bound| matches_glob(bound, name));
        match holds(&self.names, &account.name) {
            false => RoleBinding::No,
            true if holds(&self.namespaces, &account.namespace) => RoleBinding::Yes,
            true if self.namespace_selector.is_empty() => RoleBinding::No,
            true => RoleBinding::ByLabels,
        }
    }

    fn selector(&self) -> Option<Selector> {
        Selector::parse(&self.namespace_selector)
    }
}

/// A service account, as the API server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ServiceAccount {
    namespace: String,
    name: String,
    uid: String,
}

impl ServiceAccount {
    /// Reads the answer to a review; `None` unless it says that the token is good.
    fn reviewed(body: &[u8], audience: &str) -> Option<Self> {
        let answer = json::parse_object(body).ok()?;
        let status = answer.get("status")?.as_object()?;
        if !matches!(status.get("authenticated"), Some(Json::Bool(true))) {
            return None;
        }
        if !audience.is_empty() {
            // A server that knows nothing of audiences leaves them out of its answer.
            let Some(Json::Array(audiences)) = status.get("audiences") else { return None };
            if !audiences.iter().any(|one| one.as_str() == Some(audience)) {
                return None;
            }
        }
        let user = status.get("user")?.as_object()?;
        let username = user.get("username")?.as_str()?.strip_prefix(ACCOUNT)?;
        let (namespace, name) = username.split_once(':')?;
        let uid = user.get("uid")?.as_str()?;
        let full = ![namespace, name, uid].contains(&"") && !name.contains(':');
        full.then(|| Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        })
    }
}

/// Logs in.
async fn log_in(run: Call<'_>) -> Result<Response, Error> {
    let request = run.request;
    let body = request.object()?;
    let given = |name: &str| {
        let text = Fields::new(&body).string(name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| Error::invalid(format!("missing {name}")))
    };
    // A token of a file has a line end behind it, often.
    let text = SecretString::from(given("jwt")?.trim());
    let name = given("role")?.to_ascii_lowercase();
    let role = ROLES.load::<KubernetesRole>(&run.storage, &name)?;
    let role = role.ok_or_else(|| Error::invalid(format!("invalid role name {name:?}")))?;
    let config = records::config::<KubernetesConfig>(&run.storage)?;
    let config = config.ok_or_else(|| Error::invalid("could not load backend configuration"))?;
    let config = config.filled_from(run.pod);
    address::check(&role.params.bound_cidrs, request.remote)?;
    check_locally(&config, text.expose_secret(), run.mount.path)?;
    let account = review(run.outbound, &config, &role, text).await?;
    let is_bound = match role.binds(&account) {
        RoleBinding::Yes => true,
        RoleBinding::No => false,
        RoleBinding::ByLabels => has_labels(&run, &config, (&name, &role), &account).await?,
    };
    if !is_bound {
        return Err(Error::Denied(Denial::BadToken));
    }
    let alias = if role.has_name_alias {
        format!("{}/{}", account.namespace, account.name)
    } else {
        account.uid.clone()
    };
    let metadata = [
        ("role", name.as_str()),
        ("service_account_name", &account.name),
        ("service_account_namespace", &account.namespace),
        ("service_account_secret_name", ""),
        ("service_account_uid", &account.uid),
    ];
    let login = Login {
        alias,
        display_name: format!("{}-{}", account.namespace, account.name),
        metadata: metadata.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect(),
        groups: Vec::new(),
        params: role.params,
        kept: Map::from([("role".to_owned(), name.as_str().into())]),
    };
    run.logins()?.grant(login).await
}

/// Refuses what is no JWT, and with keys at hand what they did not sign.
fn check_locally(config: &KubernetesConfig, text: &str, mount: &str) -> Result<(), Error> {
    let denied = || Error::Denied(Denial::BadToken);
    let jwt = Jwt::parse(text).ok_or_else(denied)?;
    if !config.disable_iss_validation
        && !config.issuer.is_empty()
        && jwt.claims.get("iss").and_then(Json::as_str) != Some(&config.issuer)
    {
        return Err(denied());
    }
    if config.keys.is_empty() {
        return Ok(());
    }
    let keys: Option<Vec<Vec<JwtKey>>> =
        config.keys.iter().map(|pem| JwtKey::from_pem(pem)).collect();
    let keys = keys
        .ok_or_else(|| {
            Error::internal(&format_args!(
                "a public key in the configuration of {mount} is damaged"
            ))
        })?
        .concat();
    if jwt.is_signed_by(&keys) { Ok(()) } else { Err(denied()) }
}

/// Asks the API server whose token it is.
async fn review(
    outbound: &dyn Outbound,
    config: &KubernetesConfig,
    role: &KubernetesRole,
    token: SecretString,
) -> Result<ServiceAccount, Error> {
    let mut spec = Map::from([("token".to_owned(), token.expose_secret().into())]);
    if !role.audience.is_empty() {
        spec.insert("audiences".into(), Json::strings([role.audience.as_str()]));
    }
    let body = Json::object([
        ("apiVersion", "authentication.k8s.io/v1".into()),
        ("kind", "TokenReview".into()),
        ("spec", spec.into()),
    ]);
    let own = config.reviewer.expose_secret().is_empty();
    let call = OutboundCall {
        url: format!("{}/apis/authentication.k8s.io/v1/tokenreviews", config.host),
        authorization: Authorization::Bearer(if own { token } else { config.reviewer.clone() }),
        payload: Payload::Json(body.to_text()),
        authorities: config.authorities.clone(),
    };
    let answer = outbound.call(call).await?;
    match answer.status {
        200..=299 => ServiceAccount::reviewed(&answer.body, &role.audience)
            .ok_or(Error::Denied(Denial::BadToken)),
        // The reviewer is refused: for whoever logs in that is no reason to try again.
        401 | 403 => Err(Error::Denied(Denial::BadToken)),
        status => Err(Error::Unavailable(format!(
            "the Kubernetes API server answered a token review with status {status}"
        ))),
    }
}

/// Asks the API server whether the namespace of an account has the labels that a role wants.
async fn has_labels(
    run: &Call<'_>,
    config: &KubernetesConfig,
    (name, role): (&str, &KubernetesRole),
    account: &ServiceAccount,
) -> Result<bool, Error> {
    let selector = role.selector().ok_or_else(|| {
        let mount = run.mount.path;
        Error::internal(&format_args!("the selector of the role {name:?} of {mount} is damaged"))
    })?;
    // The token of a login has no business reading namespaces.
    if config.reviewer.expose_secret().is_empty() {
        return Err(Error::invalid(
            "namespace lookup failed: token_reviewer_jwt needs to be configured to use namespace \
             selectors",
        ));
    }
    // What stands in a URL is the API server's own word, and is held to the form of a name.
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !account.namespace.bytes().all(is_name) {
        return Ok(false);
    }
    let call = OutboundCall {
        url: format!("{}/api/v1/namespaces/{}", config.host, account.namespace),
        authorization: Authorization::Bearer(config.reviewer.clone()),
        authorities: config.authorities.clone(),
        ..OutboundCall::default()
    };
    let answer = run.outbound.call(call).await?;
    match answer.status {
        200..=299 => {
            let namespace = json::parse_object(&answer.body);
            Ok(namespace.is_ok_and(|namespace| selector.holds(&namespace)))
        }
        // The reviewer may not look, or nothing is there: no reason to try again.
        401 | 403 | 404 => Ok(false),
        status => Err(Error::Unavailable(format!(
            "the Kubernetes API server answered for a namespace with status {status}"
        ))),
    }
}

/// A role that is gone renews no token.
///
/// # Errors
/// [`Error::Invalid`] saying so.
fn check_renewal(renewal: &RenewalCall<'_>) -> Result<Renewal, Error> {
    let name = renewal.kept.get("role").and_then(Json::as_str).unwrap_or_default();
    match ROLES.load::<KubernetesRole>(&renewal.storage, name)? {
        Some(role) => Ok(Renewal::by(role.params)),
        None => Err(Error::invalid("role does not exist during renewal")),
    }
}

/// The role by which a request would log in.
fn role_of(_: &EngineContext<'_>, _: &Request<'_>, fields: Fields<'_>) -> Option<String> {
    let named = fields.string("role").ok()?.filter(|name| !name.is_empty());
    named.map(|name| name.to_ascii_lowercase())
}

/// Service accounts of a Kubernetes cluster.
pub(crate) const METHOD: EngineSpec = EngineSpec {
    caseless_folders: &["role/"],
    ..EngineSpec::login_method(
        "kubernetes",
        &routes::KUBERNETES,
        LoginMethod {
            check_renewal: |call| Box::pin(ready(check_renewal(&call))),
            role_of: Some(role_of),
        },
    )
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_what_a_good_review_says() {
        let review = |status: &str| {
            ServiceAccount::reviewed(format!(r#"{{"status":{status}}}"#).as_bytes(), "")
        };
        let user = r#""user":{"username":"system:serviceaccount:ns:web","uid":"u"}"#;
        let found = review(&format!(r#"{{"authenticated":true,{user}}}"#)).unwrap();
        assert_eq!((found.namespace.as_str(), found.name.as_str()), ("ns", "web"));
        for bad in [
            format!(r#"{{"authenticated":false,{user}}}"#),
            format!(r#"{{"authenticated":"true",{user}}}"#),
            format!("{{{user}}}"),
            r#"{"authenticated":true}"#.to_owned(),
            r#"{"authenticated":true,"user":{"username":"admin","uid":"u"}}"#.to_owned(),
            r#"{"authenticated":true,"user":{"username":"system:serviceaccount:ns:a:b","uid":"u"}}"#
                .to_owned(),
            r#"{"authenticated":true,"user":{"username":"system:serviceaccount:ns:a","uid":""}}"#
                .to_owned(),
        ] {
            assert_eq!(review(&bad), None, "{bad}");
        }
    }

    #[test]
    fn an_audience_that_is_wanted_must_be_confirmed() {
        let with = |audiences: &str| {
            let body = format!(
                r#"{{"status":{{"authenticated":true{audiences},
                    "user":{{"username":"system:serviceaccount:ns:web","uid":"u"}}}}}}"#
            );
            ServiceAccount::reviewed(body.as_bytes(), "vault").is_some()
        };
        assert!(with(r#","audiences":["x","vault"]"#));
        assert!(!with(r#","audiences":["x"]"#) && !with(""));
    }

    #[test]
    fn a_role_binds_names_and_namespaces_together() {
        let role = |body: &str| {
            let body = json::parse_object(body.as_bytes()).unwrap();
            KubernetesRole::written(None, Fields::new(&body))
        };
        let found = role(
            r#"{"bound_service_account_names":"web","bound_service_account_namespaces":"*",
                "audience":"a","alias_name_source":"serviceaccount_name","token_ttl":60}"#,
        )
        .unwrap();
        let account = |namespace: &str, name: &str| ServiceAccount {
            namespace: namespace.into(),
            name: name.into(),
            uid: "u".into(),
        };
        assert_eq!(found.binds(&account("any", "web")), RoleBinding::Yes);
        assert_eq!(found.binds(&account("any", "db")), RoleBinding::No);
        assert_eq!(KubernetesRole::decode(&Json::Object(found.to_map()).to_text()), Some(found));
        for bad in [
            r#"{"bound_service_account_names":"web"}"#,
            r#"{"bound_service_account_names":"*,a","bound_service_account_namespaces":"*"}"#,
            r#"{"bound_service_account_namespaces":"*"}"#,
            r#"{"bound_service_account_names":"a","bound_service_account_namespace_selector":"{}"}"#,
        ] {
            assert!(role(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_star_stands_for_any_text_in_names_and_namespaces() {
        let body = br#"{"bound_service_account_names":"web-*,*-ro",
            "bound_service_account_namespaces":["team-*-prod","ops"]}"#;
        let role =
            KubernetesRole::written(None, Fields::new(&json::parse_object(body).unwrap())).unwrap();
        for (namespace, name, is_bound) in [
            ("ops", "web-1", true),
            ("ops", "db-ro", true),
            ("team-a-prod", "web-", true),
            ("team-a-prod", "my-web-1", false),
            ("team-a-test", "web-1", false),
            ("ops2", "web-1", false),
            ("devops", "web-1", false),
        ] {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            let account = ServiceAccount { namespace, name, uid: "u".to_owned() };
            let binding = if is_bound { RoleBinding::Yes } else { RoleBinding::No };
            assert_eq!(role.binds(&account), binding, "{account:?}");
        }
    }

    #[test]
    fn a_namespace_may_be_named_or_have_labels() {
        let body = br#"{"bound_service_account_names":"web","bound_service_account_namespaces":"n",
            "bound_service_account_namespace_selector":"{\"matchLabels\":{\"a\":\"b\"}}"}"#;
        let role =
            KubernetesRole::written(None, Fields::new(&json::parse_object(body).unwrap())).unwrap();
        let of = |namespace: &str, name: &str| {
            role.binds(&ServiceAccount {
                namespace: namespace.into(),
                name: name.into(),
                uid: "u".into(),
            })
        };
        assert_eq!((of("n", "web"), of("m", "web")), (RoleBinding::Yes, RoleBinding::ByLabels));
        assert_eq!((of("n", "db"), of("m", "db")), (RoleBinding::No, RoleBinding::No));
        assert_eq!(KubernetesRole::decode(&role.encode()), Some(role));
    }

    #[test]
    fn a_configuration_without_the_pods_authority_names_its_own() {
        let written = |body: &str| {
            KubernetesConfig::written(
                None,
                Fields::new(&json::parse_object(body.as_bytes()).unwrap()),
            )
        };
        let host = r#""kubernetes_host":"https://10.0.0.1""#;
        let refused = written(&format!("{{{host},\"disable_local_ca_jwt\":true}}")).err();
        let text = "kubernetes_ca_cert must be given when disable_local_ca_jwt is true";
        assert_eq!(refused, Some(Error::invalid(text)));
        let given = format!(r#"{{{host},"disable_local_ca_jwt":true,"kubernetes_ca_cert":"PEM"}}"#);
        assert!(written(&given).is_ok() && written(&format!("{{{host}}}")).is_ok());
    }
}
