//! The settings of ACME on a mount: `config/acme`.
//!
//! A POST changes the fields that it gives. ACME is enabled only where `config/cluster` says at which URL the mount is found, since every URL that
//! a client is given begins with it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::address::parse_all;
use kallisto_engine::{AllowedAddresses, Call, names};

use crate::pki::answer;
use crate::pki::config::ClusterUrls;
use crate::pki::given::{GivenFields, object};
use crate::pki::memory::{ACME, CLUSTER, Pki, PkiState};
use crate::pki::roles::warn_of_case;

/// What a directory without a role issues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pki) enum DefaultPolicy {
    /// Any name.
    Verbatim,
    /// Nothing.
    Forbid,
    /// What a role allows.
    Role(String),
}

/// From whom external account bindings are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pki) enum EabPolicy {
    /// From nobody.
    NotRequired,
    /// From new accounts.
    NewAccounts,
    /// From all accounts, those made before included.
    Always,
}

impl EabPolicy {
    const ALL: [(&str, Self); 3] = [
        ("not-required", Self::NotRequired),
        ("new-account-required", Self::NewAccounts),
        ("always-required", Self::Always),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }
}

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pki) struct AcmeConfig {
    pub(in crate::pki) is_enabled: bool,
    pub(super) default_policy: DefaultPolicy,
    allowed_roles: Vec<String>,
    allowed_issuers: Vec<String>,
    pub(super) allows_role_usages: bool,
    pub(super) eab: EabPolicy,
    pub(super) resolver: Option<SocketAddr>,
    resolver_text: String,
    pub(super) destinations: AllowedAddresses,
    pub(super) max_ttl_secs: i64,
}

/// Longest life of a certificate when nobody says, in seconds: 90 days.
const MAX_TTL_SECS: i64 = 90 * 24 * 3600;
/// The port of DNS.
const DNS_PORT: u16 = 53;

impl Default for AcmeConfig {
    fn default() -> Self {
        let any = || vec!["*".to_owned()];
        Self {
            is_enabled: false,
            default_policy: DefaultPolicy::Verbatim,
            allowed_roles: any(),
            allowed_issuers: any(),
            allows_role_usages: false,
            eab: EabPolicy::NotRequired,
            resolver: None,
            resolver_text: String::new(),
            destinations: AllowedAddresses::default(),
            max_ttl_secs: MAX_TTL_SECS,
        }
    }
}

fn resolver(text: &str) -> Result<Option<SocketAddr>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let address = text.parse::<SocketAddr>().ok();
    let bare = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, DNS_PORT));
    address.or_else(bare).map(Some).ok_or_else(|| {
        Error::invalid(format!(
            "failed to parse DNS resolver address: {text:?} is no address with a port"
        ))
    })
}

fn default_policy(text: &str) -> Result<DefaultPolicy, Error> {
    match text {
        "sign-verbatim" => Ok(DefaultPolicy::Verbatim),
        "forbid" => Ok(DefaultPolicy::Forbid),
        other => match other.strip_prefix("role:") {
            Some(role) if names::check(role).is_ok() => Ok(DefaultPolicy::Role(role.to_owned())),
            _ => Err(Error::invalid(format!(
                "default_directory_policy {other:?} is none of sign-verbatim, forbid and \
                 role:NAME"
            ))),
        },
    }
}

/// Refuses a name that no role has.
fn check_role(state: &PkiState, role: &str, what: &str) -> Result<(), Error> {
    if state.roles.contains_key(role) {
        return Ok(());
    }
    let hint = warn_of_case(state, role).map_or_else(String::new, |hint| format!(". {hint}"));
    Err(Error::invalid(format!("{what}: role does not exist{hint}")))
}

/// The names in a list that lets some through: none where it lets all.
///
/// # Errors
/// [`Error::Invalid`] for a list that lets none through, or has the sign for all beside names.
fn concrete<'a>(list: &'a [String], field: &str, kind: &str) -> Result<&'a [String], Error> {
    if list.is_empty() {
        return Err(Error::invalid(format!(
            "{field} must take a non-zero length value; specify '*' as the value to allow anything \
             or specify enabled=false to disable ACME entirely"
        )));
    }
    match list.iter().position(|name| name == "*") {
        None => Ok(list),
        Some(_) if list.len() == 1 => Ok(&[]),
        Some(at) => Err(Error::invalid(format!("cannot use '*' as {kind} name at index {at}"))),
    }
}

impl AcmeConfig {
    /// Changes what a request gives.
    fn update(&self, given: GivenFields<'_>) -> Result<Self, Error> {
        let list = |name: &str, known: &Vec<String>| {
            given.list_given(name).map(|list| list.unwrap_or_else(|| known.clone()))
        };
        let ranges = |name: &str, known: &Vec<_>| match given.list_given(name)? {
            None => Ok(known.clone()),
            Some(texts) => {
                parse_all(&texts).map_err(|error| Error::invalid(format!("{name}: {error}")))
            }
        };
        let eab = given.text_or("eab_policy", self.eab.name())?;
        let eab = EabPolicy::ALL.iter().find(|(name, _)| *name == eab).ok_or_else(|| {
            Error::invalid(format!(
                "invalid eab_policy value {eab:?}: it is not-required, new-account-required or \
                 always-required"
            ))
        });
        let resolver_text = given.text_or("dns_resolver", &self.resolver_text)?;
        let new = Self {
            is_enabled: given.flag("enabled", self.is_enabled)?,
            default_policy: default_policy(
                &given.text_or("default_directory_policy", &self.policy_text())?,
            )?,
            allowed_roles: list("allowed_roles", &self.allowed_roles)?,
            allowed_issuers: list("allowed_issuers", &self.allowed_issuers)?,
            allows_role_usages: given.flag("allow_role_ext_key_usage", self.allows_role_usages)?,
            eab: eab?.1,
            resolver: resolver(&resolver_text)?,
            resolver_text,
            destinations: AllowedAddresses {
                permitted: ranges("challenge_permitted_ip_ranges", &self.destinations.permitted)?,
                excluded: ranges("challenge_excluded_ip_ranges", &self.destinations.excluded)?,
            },
            max_ttl_secs: given.secs("max_ttl", self.max_ttl_secs)?,
        };
        if new.max_ttl_secs < 1 {
            return Err(Error::invalid("max_ttl must be greater than zero"));
        }
        Ok(new)
    }

    /// Refuses settings of which one contradicts another. Not for what is stored: version 0.2.0 compared names of roles without case, and what it
    /// took has to be readable. Such a directory is refused to its clients.
    fn check(&self) -> Result<(), Error> {
        if let DefaultPolicy::Role(role) = &self.default_policy
            && !self.allows_role(role)
        {
            return Err(Error::invalid(format!(
                "default_directory_policy is the role {role}, which is not among allowed_roles"
            )));
        }
        Ok(())
    }

    /// Refuses names of what is not there, and lists without any: ACME would be dead without a word. Settings that the request does not give are
    /// as they were taken, and looked at only when it turns ACME on.
    fn check_names(&self, state: &PkiState, given: GivenFields<'_>) -> Result<(), Error> {
        let turns_on = self.is_enabled && given.has("enabled");
        let checks = |name: &str| turns_on || given.has(name);
        if let DefaultPolicy::Role(role) = &self.default_policy
            && checks("default_directory_policy")
        {
            let what = format!("default directory policy role {role} is not a valid ACME role");
            check_role(state, role, &what)?;
        }
        if checks("allowed_roles") {
            for role in concrete(&self.allowed_roles, "allowed_roles", "role")? {
                check_role(state, role, &format!("allowed_role {role} is not a valid acme role"))?;
            }
        }
        if checks("allowed_issuers") {
            for issuer in concrete(&self.allowed_issuers, "allowed_issuers", "issuer")? {
                state.issuer(issuer).map_err(|why| {
                    Error::invalid(format!(
                        "failed validating allowed_issuers: unable to fetch issuer: {issuer}: {why}"
                    ))
                })?;
            }
        }
        Ok(())
    }

    /// What is said of names that no role has, though one of other letters is there.
    fn warnings(&self, state: &PkiState) -> Vec<String> {
        let default = match &self.default_policy {
            DefaultPolicy::Role(role) => Some(role),
            DefaultPolicy::Verbatim | DefaultPolicy::Forbid => None,
        };
        let named = self.allowed_roles.iter().chain(default);
        let absent: BTreeSet<_> = named.filter(|name| !state.roles.contains_key(*name)).collect();
        absent.into_iter().filter_map(|name| warn_of_case(state, name)).collect()
    }

    fn policy_text(&self) -> String {
        match &self.default_policy {
            DefaultPolicy::Verbatim => "sign-verbatim".to_owned(),
            DefaultPolicy::Forbid => "forbid".to_owned(),
            DefaultPolicy::Role(role) => format!("role:{role}"),
        }
    }

    /// Whether directories may be of a role.
    pub(super) fn allows_role(&self, role: &str) -> bool {
        let is_it = |allowed: &String| allowed == "*" || allowed == role;
        self.allowed_roles.iter().any(is_it)
    }

    /// Whether directories may be of an issuer, that has these names.
    pub(super) fn allows_issuer(&self, names: &[&str]) -> bool {
        let is_it = |allowed: &String| allowed == "*" || names.contains(&allowed.as_str());
        self.allowed_issuers.iter().any(is_it)
    }

    fn shown(&self) -> Map {
        let ranges = kallisto_engine::address::shown;
        object([
            ("allow_role_ext_key_usage", self.allows_role_usages.into()),
            ("allowed_issuers", Json::strings(self.allowed_issuers.clone())),
            ("allowed_roles", Json::strings(self.allowed_roles.clone())),
            ("challenge_excluded_ip_ranges", ranges(&self.destinations.excluded)),
            ("challenge_permitted_ip_ranges", ranges(&self.destinations.permitted)),
            ("default_directory_policy", self.policy_text().into()),
            ("dns_resolver", self.resolver_text.as_str().into()),
            ("eab_policy", self.eab.name().into()),
            ("enabled", self.is_enabled.into()),
            ("max_ttl", self.max_ttl_secs.into()),
        ])
    }

    pub(in crate::pki) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        Self::default().update(GivenFields(Fields::new(&map))).ok()
    }
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    Ok(answer::data(state.acme.shown(), state.acme.warnings(&state)))
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let memory: &Pki = call.memory()?;
    let config = call.storage.transact(ACME, |transaction| {
        let known = match transaction.get(ACME)? {
            None => AcmeConfig::default(),
            Some(record) => record.decode(AcmeConfig::decode)?,
        };
        let config = known.update(given)?;
        config.check()?;
        config.check_names(&memory.read(), given)?;
        let cluster = match transaction.get(CLUSTER)? {
            None => ClusterUrls::default(),
            Some(record) => record.decode(ClusterUrls::decode)?,
        };
        if config.is_enabled && cluster.path.is_empty() {
            return Err(Error::invalid(
                "ACME feature requires local cluster 'path' field configuration to be set",
            ));
        }
        transaction.put(ACME, Json::Object(config.shown()).to_text())?;
        Ok(config)
    });
    let config = config.await?;
    let warnings = config.warnings(&memory.read());
    Ok(answer::data(config.shown(), warnings))
}
