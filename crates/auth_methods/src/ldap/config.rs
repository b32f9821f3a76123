//! Which directory, and what users and groups are found by.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Logical, Response};
use kallisto_engine::far_end::LdapDereference;
use kallisto_engine::{Call, Storage, TokenParams};
use kallisto_ldap::filter::{check_template, is_attribute};
use kallisto_ldap::{DirectoryReach, dn};

use crate::local::NameCase;

const RECORD: &str = "config";
const USER_FILTER: &str = "({{.UserAttr}}={{.Username}})";
const GROUP_FILTER: &str =
    "(|(memberUid={{.Username}})(member={{.UserDN}})(uniqueMember={{.UserDN}}))";
/// Most entries of a page.
const PAGE_MAX: i64 = 1000;

const DEREFERENCES: [(&str, LdapDereference); 4] = [
    ("never", LdapDereference::Never),
    ("finding", LdapDereference::Finding),
    ("searching", LdapDereference::Searching),
    ("always", LdapDereference::Always),
];

/// The configuration.
#[derive(Clone, Debug)]
pub(super) struct LdapConfig {
    pub(super) reach: DirectoryReach,
    pub(super) user_filter: String,
    pub(super) discover_dn: bool,
    pub(super) anonymous_group_search: bool,
    pub(super) group_dn: String,
    pub(super) group_filter: String,
    pub(super) group_attr: String,
    pub(super) username_as_alias: bool,
    pub(super) has_case: bool,
    pub(super) denies_null_bind: bool,
    pub(super) dereference: LdapDereference,
    pub(super) page_size: u32,
    pub(super) revision: u64,
    pub(super) params: TokenParams,
}

impl Default for LdapConfig {
    fn default() -> Self {
        Self {
            reach: DirectoryReach::default(),
            user_filter: USER_FILTER.to_owned(),
            discover_dn: false,
            anonymous_group_search: false,
            group_dn: String::new(),
            group_filter: GROUP_FILTER.to_owned(),
            group_attr: "cn".to_owned(),
            username_as_alias: false,
            has_case: false,
            denies_null_bind: true,
            dereference: LdapDereference::Never,
            page_size: 0,
            revision: 0,
            params: TokenParams::default(),
        }
    }
}

impl LdapConfig {
    /// Which spellings of a group or user are one name.
    pub(super) const fn name_case(&self) -> NameCase {
        if self.has_case { NameCase::Kept } else { NameCase::Folded }
    }

    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        self.reach.take(fields)?;
        for (name, text, usual) in [
            ("userfilter", &mut self.user_filter, USER_FILTER),
            ("groupdn", &mut self.group_dn, ""),
            ("groupfilter", &mut self.group_filter, GROUP_FILTER),
            ("groupattr", &mut self.group_attr, "cn"),
        ] {
            if let Some(given) = fields.string(name)? {
                *text = if given.is_empty() { usual.to_owned() } else { given };
            }
        }
        for (name, flag) in [
            ("discoverdn", &mut self.discover_dn),
            ("anonymous_group_search", &mut self.anonymous_group_search),
            ("username_as_alias", &mut self.username_as_alias),
            ("case_sensitive_names", &mut self.has_case),
            ("deny_null_bind", &mut self.denies_null_bind),
        ] {
            if let Some(given) = fields.boolean(name)? {
                *flag = given;
            }
        }
        if let Some(given) = fields.string("dereference_aliases")? {
            let known = DEREFERENCES.iter().find(|(name, _)| given.is_empty() || *name == given);
            let known = known.ok_or_else(|| {
                Error::invalid(format!(
                    "invalid 'dereference_aliases': {given:?}; never, finding, searching or always"
                ))
            })?;
            self.dereference = known.1;
        }
        if let Some(size) = fields.int("max_page_size")? {
            // Below nothing is nothing, as with others.
            self.page_size = u32::try_from(size.clamp(0, PAGE_MAX)).unwrap_or(0);
        }
        if fields.boolean("use_token_groups")?.unwrap_or(false) {
            return Err(Error::invalid(
                "use_token_groups is not supported: a groupfilter with the rule 1.2.840.113556.1.4.1941 finds nested groups of an Active Directory",
            ));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        self.reach.check()?;
        for (name, template) in
            [("userfilter", &self.user_filter), ("groupfilter", &self.group_filter)]
        {
            check_template(template)
                .map_err(|why| Error::invalid(format!("invalid '{name}': {why}")))?;
        }
        if !is_attribute(&self.group_attr) {
            return Err(Error::invalid(format!(
                "groupattr: {:?} is no attribute",
                self.group_attr
            )));
        }
        if !self.group_dn.is_empty() && !dn::is_dn(&self.group_dn) {
            return Err(Error::invalid(format!(
                "groupdn: {:?} is no name of an entry",
                self.group_dn
            )));
        }
        Ok(())
    }

    fn show(&self, map: &mut Map) {
        for (name, text) in [
            ("userfilter", &self.user_filter),
            ("groupdn", &self.group_dn),
            ("groupfilter", &self.group_filter),
            ("groupattr", &self.group_attr),
        ] {
            map.insert(name.to_owned(), text.as_str().into());
        }
        for (name, flag) in [
            ("discoverdn", self.discover_dn),
            ("anonymous_group_search", self.anonymous_group_search),
            ("username_as_alias", self.username_as_alias),
            ("case_sensitive_names", self.has_case),
            ("deny_null_bind", self.denies_null_bind),
            ("use_token_groups", false),
        ] {
            map.insert(name.to_owned(), flag.into());
        }
        let named = DEREFERENCES.iter().find(|(_, one)| *one == self.dereference);
        map.insert("dereference_aliases".into(), named.map_or("never", |(name, _)| name).into());
        map.insert("max_page_size".into(), u64::from(self.page_size).into());
        map.extend(self.params.to_map());
    }

    fn encode(&self) -> Vec<u8> {
        let mut map = Map::new();
        self.show(&mut map);
        self.reach.keep(&mut map);
        map.insert("revision".into(), self.revision.into());
        Json::Object(map).to_text()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let fields = Fields::new(&map);
        let mut config = Self::default();
        config.take(fields).ok()?;
        config.params = TokenParams::decode(&map).ok()?;
        let revision = fields.int("revision").ok()??;
        config.revision = u64::try_from(revision).ok()?;
        Some(config)
    }

    /// What whoever wrote it may not have meant.
    fn warnings_of_write(&self) -> Vec<String> {
        let has_attribute = self.user_filter.replace(' ', "").contains("{{.UserAttr}}");
        let text = "userfilter configured does not consider userattr and may result in colliding entity aliases on logins";
        if has_attribute { Vec::new() } else { vec![text.to_owned()] }
    }

    /// What whoever reads it should know besides. A write says less: clients of Vault expect that it has no body.
    fn warnings_of_read(&self) -> Vec<String> {
        let mut warnings = self.warnings_of_write();
        if self.reach.sends_in_clear() {
            warnings.push(
                "passwords are sent to the directory without TLS: use ldaps or starttls".to_owned(),
            );
        }
        warnings
    }
}

/// The configuration, if there is one.
pub(super) fn find(storage: &Storage<'_>) -> Result<Option<LdapConfig>, Error> {
    storage.get(RECORD)?.map(|found| found.decode(LdapConfig::decode)).transpose()
}

/// Which spellings the mount takes for one name.
pub(super) fn name_case(storage: &Storage<'_>) -> Result<NameCase, Error> {
    Ok(find(storage)?.unwrap_or_default().name_case())
}

/// Shows the configuration, or what it is before there is one.
pub(super) fn read(run: &Call<'_>) -> Result<Response, Error> {
    let config = find(&run.storage)?.unwrap_or_default();
    let mut map = Map::new();
    config.show(&mut map);
    config.reach.show(&mut map);
    let (data, warnings) = (Json::Object(map).to_text(), config.warnings_of_read());
    Ok(Response::Logical(Logical { data, warnings, ..Logical::default() }))
}

/// Changes the fields that are given.
pub(super) async fn write(run: &Call<'_>) -> Result<Response, Error> {
    let body = run.request.object()?;
    let fields = Fields::new(&body);
    let config = run.storage.transact(RECORD, |transaction| {
        let mut config = match transaction.get(RECORD)? {
            Some(found) => found.decode(LdapConfig::decode)?,
            None => LdapConfig::default(),
        };
        config.take(fields)?;
        config.params.update(fields)?;
        config.check()?;
        config.revision += 1;
        transaction.put(RECORD, config.encode())?;
        Ok(config)
    });
    let warnings = config.await?.warnings_of_write();
    if warnings.is_empty() {
        return Ok(Response::Empty);
    }
    Ok(Response::Logical(Logical { warnings, ..Logical::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<LdapConfig, Error> {
        let map = json::parse_object(body.as_bytes()).unwrap();
        let mut config = LdapConfig::default();
        config.take(Fields::new(&map))?;
        config.params.update(Fields::new(&map))?;
        config.check()?;
        Ok(config)
    }

    #[test]
    fn a_configuration_reads_back() {
        let config = read(
            r#"{"url":"ldaps://d.example","userattr":"uid","binddn":"cn=b,dc=x","bindpass":"canary",
                "groupfilter":"(member={{.UserDN}})","dereference_aliases":"always","max_page_size":100,
                "deny_null_bind":false,"token_policies":"a","token_ttl":60,"case_sensitive_names":true}"#,
        )
        .unwrap();
        assert_eq!(LdapConfig::decode(&config.encode()).unwrap().encode(), config.encode());
        let mut shown = Map::new();
        config.show(&mut shown);
        config.reach.show(&mut shown);
        assert!(!Json::Object(shown).to_text().windows(6).any(|part| part == b"canary"));
    }

    #[test]
    fn what_would_fail_at_a_login_is_refused_when_it_is_written() {
        for bad in [
            r#"{"url":"bogus://x"}"#,
            r#"{"url":"nonsense"}"#,
            r#"{"userfilter":"((bad"}"#,
            r#"{"userfilter":"(uid={{.Nope}})"}"#,
            r#"{"groupfilter":"((bad"}"#,
            r#"{"dereference_aliases":"x"}"#,
            r#"{"groupattr":"a b"}"#,
            r#"{"groupdn":"x"}"#,
            r#"{"use_token_groups":true}"#,
        ] {
            assert!(matches!(read(bad), Err(Error::Invalid(_))), "{bad}");
        }
    }
}
