//! Token roles: what tokens made through one may be.

use kallisto_auth::policy::DEFAULT_NAME;
use kallisto_engine::TokenType;
use kallisto_engine::address::{self, AddressRange};
use kallisto_engine::glob::matches_glob;
use kallisto_engine::token_params::clean_policy_names;
use kallisto_store::{Batch, Record, Seqno};

use crate::api::error::Error;
use crate::api::fields::{Fields, sorted_in_lower_case};
use crate::api::json::{self, Json, Map};
use crate::api::response::{Logical, Response};
use crate::caller::call::AuthorizedCall;
use crate::storage::keys;
use crate::storage::transact::transact;
use crate::tokens::fields::names_json;
use crate::tokens::fields::seconds;
use crate::tokens::fields::with_default;
use crate::view::NamespaceContext;

/// Longest name of a role, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// Most entity aliases a role may allow.
const ALIASES_MAX: usize = 256;

/// A role as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenStoreRole {
    pub(crate) name: String,
    pub(crate) allowed_policies: Vec<String>,
    pub(crate) disallowed_policies: Vec<String>,
    pub(crate) allowed_policies_glob: Vec<String>,
    pub(crate) disallowed_policies_glob: Vec<String>,
    pub(crate) orphan: bool,
    pub(crate) renewable: bool,
    pub(crate) no_default_policy: bool,
    pub(crate) path_suffix: String,
    pub(crate) period_secs: u64,
    pub(crate) explicit_max_ttl_secs: u64,
    pub(crate) num_uses: i64,
    pub(crate) token_type: TokenType,
    pub(crate) bound_cidrs: Vec<AddressRange>,
    pub(crate) allowed_entity_aliases: Vec<String>,
    pub(crate) old_names: OldNames,
}

/// Which settings were given by the names that they had before Vault 1.2. Clients that know those alone read them, and one that gave
/// a setting by its name of today is not shown another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OldNames {
    period: bool,
    explicit_max_ttl: bool,
    bound_cidrs: bool,
}

impl TokenStoreRole {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            allowed_policies: Vec::new(),
            disallowed_policies: Vec::new(),
            allowed_policies_glob: Vec::new(),
            disallowed_policies_glob: Vec::new(),
            orphan: false,
            renewable: true,
            no_default_policy: false,
            path_suffix: String::new(),
            period_secs: 0,
            explicit_max_ttl_secs: 0,
            num_uses: 0,
            token_type: TokenType::DefaultService,
            bound_cidrs: Vec::new(),
            allowed_entity_aliases: Vec::new(),
            old_names: OldNames::default(),
        }
    }

    /// Whether it says which policies its tokens may have. If not, they may have what their maker has.
    pub(super) fn limits_policies(&self) -> bool {
        let lists = [
            &self.allowed_policies,
            &self.allowed_policies_glob,
            &self.disallowed_policies,
            &self.disallowed_policies_glob,
        ];
        lists.iter().any(|list| !list.is_empty())
    }

    /// The policies of a token made through it: those asked for, or all that it allows, or, where
    /// it only refuses some, those of who asks.
    ///
    /// # Errors
    /// [`Error::Invalid`] in the words of the contract for one that it does not let through.
    pub(super) fn choose(
        &self,
        asked: Option<Vec<String>>,
        held: Vec<String>,
        no_default: bool,
    ) -> Result<Vec<String>, Error> {
        let adds = !no_default && !self.no_default_policy && !self.refuses(DEFAULT_NAME);
        let asked = asked.map(|names| with_default(names, adds)).filter(|names| !names.is_empty());
        let is_list = !self.allowed_policies.is_empty() || !self.allowed_policies_glob.is_empty();
        let chosen = match (asked, is_list) {
            (Some(asked), true) => {
                self.check_allowed(&asked, adds)?;
                asked
            }
            (Some(asked), false) => asked,
            (None, true) => with_default(self.allowed_policies.clone(), adds),
            (None, false) => with_default(held, adds),
        };
        match chosen.iter().find(|name| self.refuses(name)) {
            Some(name) => {
                Err(Error::invalid(format!("token policy \"{name}\" is disallowed by this role")))
            }
            None => Ok(chosen),
        }
    }

    fn check_allowed(&self, asked: &[String], adds: bool) -> Result<(), Error> {
        let allowed = with_default(self.allowed_policies.clone(), adds);
        if asked.iter().all(|name| listed(&allowed, &self.allowed_policies_glob, name)) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "token policies ({}) must be subset of the role's allowed policies ({}) or glob \
             policies ({})",
            quoted(asked),
            quoted(&allowed),
            quoted(&self.allowed_policies_glob)
        )))
    }

    fn refuses(&self, name: &str) -> bool {
        listed(&self.disallowed_policies, &self.disallowed_policies_glob, name)
    }

    /// Whether its tokens may be made for the entity with this alias.
    pub(super) fn allows_alias(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.allowed_entity_aliases.iter().any(|glob| matches_glob(glob, &name))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::Object(self.to_map()).to_text()
    }

    /// Reads a record back; `None` when the bytes are no role.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let mut role = Self::new(map.get("name")?.as_str()?);
        let fields = Fields::new(&map);
        role.update(fields).ok()?;
        // A record has the names of today, and the old ones of what was given by them.
        let is_old = |name: &str| seconds(fields, name).is_ok_and(|secs| secs > 0);
        role.old_names = OldNames {
            period: is_old("period"),
            explicit_max_ttl: is_old("explicit_max_ttl"),
            bound_cidrs: fields.raw("bound_cidrs").is_some(),
        };
        Some(role)
    }

    /// Applies the fields that are there, and tells of those that count for nothing.
    fn update(&mut self, fields: Fields<'_>) -> Result<Vec<String>, Error> {
        self.update_policies(fields)?;
        replace(&mut self.orphan, fields.boolean("orphan")?);
        replace(&mut self.renewable, fields.boolean("renewable")?);
        replace(&mut self.no_default_policy, fields.boolean("token_no_default_policy")?);
        replace(&mut self.path_suffix, fields.string("path_suffix")?);
        let warnings = self.update_renamed(fields)?;
        replace(&mut self.num_uses, num_uses(fields)?);
        if fields.boolean("token_strictly_bind_ip")? == Some(true) {
            return Err(Error::invalid(
                "token_strictly_bind_ip is for roles of logins: who makes a token by a token role is \
                 not who uses it",
            ));
        }
        replace(&mut self.allowed_entity_aliases, entity_aliases(fields)?);
        replace(&mut self.token_type, token_type(fields)?);
        self.check_type()?;
        Ok(warnings)
    }

    fn update_policies(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        let names = |name| -> Result<Option<Vec<String>>, Error> {
            fields.strings(name)?.map(clean_policy_names).transpose()
        };
        replace(&mut self.allowed_policies, names("allowed_policies")?);
        replace(&mut self.disallowed_policies, names("disallowed_policies")?);
        let globs = |name| -> Result<Option<Vec<String>>, Error> {
            Ok(fields.strings(name)?.map(|globs| sorted_in_lower_case(&globs)))
        };
        replace(&mut self.allowed_policies_glob, globs("allowed_policies_glob")?);
        replace(&mut self.disallowed_policies_glob, globs("disallowed_policies_glob")?);
        Ok(())
    }

    /// The settings that have two names, [`OldNames`].
    fn update_renamed(&mut self, fields: Fields<'_>) -> Result<Vec<String>, Error> {
        let mut warnings = Vec::new();
        if let Some(given) = GivenName::of("period", fields, &mut warnings) {
            self.period_secs = seconds(fields, &given.name)?;
            self.old_names.period = given.is_old;
        }
        if let Some(given) = GivenName::of("explicit_max_ttl", fields, &mut warnings) {
            self.explicit_max_ttl_secs = seconds(fields, &given.name)?;
            self.old_names.explicit_max_ttl = given.is_old;
        }
        if let Some(given) = GivenName::of("bound_cidrs", fields, &mut warnings) {
            let ranges = fields.strings(&given.name)?.unwrap_or_default();
            self.bound_cidrs = address::parse_all(&ranges)?;
            self.old_names.bound_cidrs = given.is_old;
        }
        Ok(warnings)
    }

    /// Refuses a role whose tokens could not be batch tokens.
    fn check_type(&self) -> Result<(), Error> {
        if self.token_type != TokenType::Batch {
            return Ok(());
        }
        let refused = [
            (!self.orphan, "non-orphan"),
            (self.period_secs > 0, "periodic"),
            (self.renewable, "renewable"),
        ];
        match refused.into_iter().find(|(refused, _)| *refused) {
            Some((_, what)) => Err(Error::invalid(format!(
                "'token_type' cannot be 'batch' when role is set to generate {what} tokens"
            ))),
            None => Ok(()),
        }
    }

    fn to_map(&self) -> Map {
        let old_names = self.old_names;
        let old = |is_old: bool, secs: u64| if is_old { secs } else { 0 };
        let mut map: Map = [
            ("allowed_entity_aliases", names_json(&self.allowed_entity_aliases)),
            ("allowed_policies", names_json(&self.allowed_policies)),
            ("allowed_policies_glob", names_json(&self.allowed_policies_glob)),
            ("disallowed_policies", names_json(&self.disallowed_policies)),
            ("disallowed_policies_glob", names_json(&self.disallowed_policies_glob)),
            (
                "explicit_max_ttl",
                old(old_names.explicit_max_ttl, self.explicit_max_ttl_secs).into(),
            ),
            ("name", self.name.as_str().into()),
            ("orphan", self.orphan.into()),
            ("path_suffix", self.path_suffix.as_str().into()),
            ("period", old(old_names.period, self.period_secs).into()),
            ("renewable", self.renewable.into()),
            ("token_bound_cidrs", address::shown(&self.bound_cidrs)),
            ("token_explicit_max_ttl", self.explicit_max_ttl_secs.into()),
            ("token_no_default_policy", self.no_default_policy.into()),
            ("token_num_uses", self.num_uses.into()),
            ("token_period", self.period_secs.into()),
            ("token_type", self.token_type.name().into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        if old_names.bound_cidrs {
            map.insert("bound_cidrs".to_owned(), address::shown(&self.bound_cidrs));
        }
        map
    }
}

/// The name by which a request gives a setting that has two: the one of today, or the old one where that is given alone.
struct GivenName {
    name: String,
    is_old: bool,
}

impl GivenName {
    /// `None` when the request says nothing of the setting.
    fn of(old: &str, fields: Fields<'_>, warnings: &mut Vec<String>) -> Option<Self> {
        // Clients that send all fields they know send those they do not mean as null.
        let is_given = |name: &str| fields.raw(name).is_some_and(|value| *value != Json::Null);
        let new = format!("token_{old}");
        match (is_given(&new), is_given(old)) {
            (false, false) => None,
            (false, true) => Some(Self { name: old.to_owned(), is_old: true }),
            (true, is_both) => {
                if is_both {
                    warnings.push(format!(
                        "Both '{new}' and deprecated '{old}' value supplied, ignoring the deprecated value"
                    ));
                }
                Some(Self { name: new, is_old: false })
            }
        }
    }
}

/// Sets what is given, and leaves the rest as it was.
fn replace<T>(setting: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *setting = given;
    }
}

fn num_uses(fields: Fields<'_>) -> Result<Option<i64>, Error> {
    match fields.int("token_num_uses")? {
        Some(..0) => Err(Error::invalid("number of uses cannot be negative")),
        uses => Ok(uses),
    }
}

fn entity_aliases(fields: Fields<'_>) -> Result<Option<Vec<String>>, Error> {
    let Some(names) = fields.strings("allowed_entity_aliases")? else { return Ok(None) };
    if names.len() > ALIASES_MAX {
        return Err(Error::invalid(format!("more than {ALIASES_MAX} entity aliases")));
    }
    Ok(Some(sorted_in_lower_case(&names)))
}

fn token_type(fields: Fields<'_>) -> Result<Option<TokenType>, Error> {
    let Some(name) = fields.string("token_type")? else { return Ok(None) };
    Ok(Some(match TokenType::parse(&name)? {
        TokenType::Default => TokenType::DefaultService,
        given => given,
    }))
}

fn listed(names: &[String], globs: &[String], name: &str) -> bool {
    names.iter().any(|listed| listed == name) || globs.iter().any(|glob| matches_glob(glob, name))
}

/// Names as the contract lists them in a message.
fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

/// The role called `name`.
///
/// # Errors
/// When its record cannot be read.
pub(super) fn load(
    context: &NamespaceContext,
    name: &str,
) -> Result<Option<TokenStoreRole>, Error> {
    context.store.get(&keys::token_role(name))?.map(|record| decode(name, &record)).transpose()
}

fn decode(name: &str, record: &Record) -> Result<TokenStoreRole, Error> {
    let role = TokenStoreRole::decode(&record.value);
    role.ok_or_else(|| Error::internal(&format_args!("the token role {name:?} is damaged")))
}

pub(super) async fn write(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    name: &str,
) -> Result<Response, Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('/') {
        return Err(Error::invalid(format!(
            "a role's name has 1 to {NAME_BYTES_MAX} bytes and no '/'"
        )));
    }
    let body = call.object()?;
    let key = keys::token_role(name);
    let _latch = context.latches.hold(&key).await;
    // Whoever deletes it waits for nobody.
    let warnings = transact(&context.store, |batch| {
        let stored = context.store.get(&key)?;
        batch.expect(key.clone(), stored.as_ref().map_or(Seqno::ABSENT, |record| record.seqno));
        let known = stored.map(|record| decode(name, &record)).transpose()?;
        let mut role = known.unwrap_or_else(|| TokenStoreRole::new(name));
        let warnings = role.update(Fields::new(&body))?;
        check_suffix(&role.path_suffix)?;
        batch.put(key.clone(), role.encode());
        Ok(warnings)
    })
    .await?;
    Ok(match warnings.is_empty() {
        true => Response::Empty,
        false => Response::Logical(Logical { warnings, ..Logical::default() }),
    })
}

/// Refuses a suffix that could not stand in the path of a token.
fn check_suffix(suffix: &str) -> Result<(), Error> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let inner = |byte: &u8| is_word(byte) || matches!(byte, b'-' | b'.');
    match suffix.as_bytes() {
        [] => Ok(()),
        [first, middle @ .., last]
            if is_word(first)
                && is_word(last)
                && !middle.is_empty()
                && middle.iter().all(inner) =>
        {
            Ok(())
        }
        _ => Err(Error::invalid(
            "given role path suffix contains invalid characters; must match \\w[\\w-.]+\\w",
        )),
    }
}

pub(super) fn read(context: &NamespaceContext, name: &str) -> Result<Response, Error> {
    let role = load(context, name)?.ok_or(Error::NotFound)?;
    let mut shown = role.to_map();
    if role.allowed_entity_aliases.is_empty() {
        shown.insert("allowed_entity_aliases".to_owned(), Json::Null);
    }
    if role.bound_cidrs.is_empty() {
        shown.remove("token_bound_cidrs");
        shown.remove("bound_cidrs");
    }
    if role.num_uses == 0 {
        shown.remove("token_num_uses");
    }
    Ok(Response::data(&Json::Object(shown)))
}

pub(super) async fn delete(context: &NamespaceContext, name: &str) -> Result<Response, Error> {
    let mut batch = Batch::new();
    batch.delete(keys::token_role(name)).set_essential();
    context.store.commit(batch).await?;
    Ok(Response::Empty)
}

pub(super) fn list(context: &NamespaceContext) -> Result<Response, Error> {
    let names = context.view.token_roles.names();
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_reads_back_and_lets_through_what_it_says() {
        let body = br#"{"allowed_policies":"App, web","disallowed_policies_glob":["adm*"],
            "token_period":"1h","orphan":true,"renewable":"false"}"#;
        let map = json::parse_object(body).unwrap();
        let mut role = TokenStoreRole::new("r");
        role.update(Fields::new(&map)).unwrap();
        assert_eq!(TokenStoreRole::decode(&role.encode()), Some(role.clone()));
        assert_eq!(role.allowed_policies, ["app", "web"]);
        assert_eq!(role.period_secs, 3600);
        assert!(role.orphan && !role.renewable);
        let choose = |role: &TokenStoreRole, asked: &[&str]| {
            let asked = asked.iter().map(|name| (*name).to_owned()).collect();
            role.choose(Some(asked), vec!["mine".to_owned()], false)
        };
        assert_eq!(choose(&role, &["app"]).unwrap(), ["app", "default"]);
        assert!(choose(&role, &["db"]).is_err());
        role.allowed_policies.clear();
        assert!(choose(&role, &["admin"]).is_err());
        assert_eq!(choose(&role, &["db"]).unwrap(), ["db", "default"]);
    }

    #[test]
    fn a_role_gives_what_it_allows_and_not_what_its_user_holds() {
        let role = |body: &[u8]| {
            let mut role = TokenStoreRole::new("r");
            role.update(Fields::new(&json::parse_object(body).unwrap())).unwrap();
            role
        };
        let held = || vec!["root".to_owned()];
        let globs = role(br#"{"allowed_policies_glob":["app-*"]}"#);
        assert_eq!(globs.choose(None, held(), false).unwrap(), ["default"]);
        assert_eq!(globs.choose(None, held(), true).unwrap(), [""; 0]);
        let listed = role(br#"{"allowed_policies":["x"],"disallowed_policies_glob":["def*"]}"#);
        assert_eq!(listed.choose(None, held(), false).unwrap(), ["x"]);
        assert!(listed.choose(Some(vec!["default".to_owned()]), held(), false).is_err());
        let middle = role(br#"{"allowed_policies_glob":["team-*-ro"]}"#);
        let asked = |name: &str| Some(vec![name.to_owned()]);
        assert_eq!(middle.choose(asked("team-a-ro"), held(), true).unwrap(), ["team-a-ro"]);
        assert!(middle.choose(asked("team-a-rw"), held(), true).is_err());
        let refused = role(br#"{"disallowed_policies_glob":["*-prod-*-admin","d*lt"]}"#);
        assert!(refused.choose(asked("eu-prod-1-admin"), held(), true).is_err());
        assert_eq!(
            refused.choose(asked("eu-test-1-admin"), held(), false).unwrap(),
            ["eu-test-1-admin"]
        );
        let aliases = role(br#"{"allowed_entity_aliases":["Team-*@example.com"]}"#);
        assert!(
            aliases.allows_alias("team-A@example.com") && !aliases.allows_alias("team-a@a.com")
        );
        let refusing = role(br#"{"disallowed_policies":["bad"]}"#);
        assert_eq!(refusing.choose(None, vec!["a".to_owned()], false).unwrap(), ["a", "default"]);
        assert!(!role(br#"{"token_period":"1h"}"#).limits_policies());
    }

    #[test]
    fn an_old_name_shows_what_was_given_by_it_and_nothing_else() {
        let mut role = TokenStoreRole::new("r");
        let mut shown = |body: &[u8]| {
            let warnings = role.update(Fields::new(&json::parse_object(body).unwrap())).unwrap();
            assert_eq!(TokenStoreRole::decode(&role.encode()), Some(role.clone()));
            let map = role.to_map();
            let text = |name: &str| {
                map.get(name)
                    .map_or(String::new(), |value| String::from_utf8(value.to_text()).unwrap())
            };
            let names = ["period", "token_period", "explicit_max_ttl", "bound_cidrs"];
            (names.map(text).join(" "), warnings.len())
        };
        assert_eq!(shown(br#"{"token_period":"1h"}"#), ("0 3600 0 ".to_owned(), 0));
        assert_eq!(shown(br#"{"period":"2h"}"#), ("7200 7200 0 ".to_owned(), 0));
        assert_eq!(shown(br#"{"orphan":true}"#), ("7200 7200 0 ".to_owned(), 0));
        assert_eq!(shown(br#"{"period":"2h","token_period":"3h"}"#), ("0 10800 0 ".to_owned(), 1));
        let both = br#"{"explicit_max_ttl":"1h","bound_cidrs":"10.0.0.0/8"}"#;
        assert_eq!(shown(both), ("0 10800 3600 [\"10.0.0.0/8\"]".to_owned(), 0));
        let today = br#"{"token_explicit_max_ttl":"1h","token_bound_cidrs":"10.0.0.0/8"}"#;
        assert_eq!(shown(today), ("0 10800 0 ".to_owned(), 0));
    }

    #[test]
    fn lists_of_a_role_are_sorted_and_name_nothing_twice() {
        let body = br#"{"allowed_policies_glob":["z*","A*"," a* ","z*",""],
            "disallowed_policies_glob":"b*,a*,b*","allowed_policies":"z,a,Z",
            "disallowed_policies":"q,p,q","allowed_entity_aliases":["z","a","Z"]}"#;
        let mut role = TokenStoreRole::new("r");
        role.update(Fields::new(&json::parse_object(body).unwrap())).unwrap();
        assert_eq!(role.allowed_policies_glob, ["a*", "z*"]);
        assert_eq!(role.disallowed_policies_glob, ["a*", "b*"]);
        assert_eq!(
            (role.allowed_policies, role.disallowed_policies),
            lists(["a", "z"], ["p", "q"])
        );
        assert_eq!(role.allowed_entity_aliases, ["a", "z"]);
    }

    fn lists(one: [&str; 2], other: [&str; 2]) -> (Vec<String>, Vec<String>) {
        (one.map(str::to_owned).to_vec(), other.map(str::to_owned).to_vec())
    }

    #[test]
    fn a_suffix_is_a_word() {
        for good in ["", "app", "a-b.c", "a_1"] {
            assert!(check_suffix(good).is_ok(), "{good}");
        }
        for bad in ["ab", "/x", "a b", "-ab", "ab.", "a/b"] {
            assert!(check_suffix(bad).is_err(), "{bad}");
        }
    }
}
