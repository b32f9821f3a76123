//! What the tokens of a role or user are like: the `token_*` fields that all login methods share.
//!
//! The same fields are read from a request, echoed by the role's endpoint and stored in its record,
//! so there is one list of them.

use kallisto_api::{Error, Fields, Json, Map};
use kallisto_auth::PolicyName;
use kallisto_auth::policy::DEFAULT_NAME;

use crate::address::{self, AddressRange};
use crate::limits::TOKEN_POLICIES_MAX;
use crate::time::seconds;
use crate::token_type::TokenType;

/// What tokens are like; 0 and empty leave it to the mount and the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenParams {
    /// How long a token lives at first, in seconds.
    pub ttl_secs: u64,
    /// How long with all its renewals, in seconds.
    pub max_ttl_secs: u64,
    /// What each renewal gives, in seconds.
    pub period_secs: u64,
    /// How long at the most, whatever is tuned later, in seconds.
    pub explicit_max_ttl_secs: u64,
    /// The policies, as they were given.
    pub policies: Vec<String>,
    /// Where a token may be used from.
    pub bound_cidrs: Vec<AddressRange>,
    /// Whether a token may be used from the address of its login only.
    pub strictly_bind_ip: bool,
    /// Whether `default` is left out.
    pub no_default_policy: bool,
    /// How many requests a token is good for; 0 for no such limit.
    pub num_uses: i64,
    /// What kind of token.
    pub token_type: TokenType,
    /// Older names that were used, and the newer ones they stand for; they are echoed too.
    older: Vec<(&'static str, &'static str)>,
}

/// Names from before the fields of all methods were one list.
const OLDER: [(&str, &str); 6] = [
    ("bound_cidrs", "token_bound_cidrs"),
    ("max_ttl", "token_max_ttl"),
    ("num_uses", "token_num_uses"),
    ("period", "token_period"),
    ("policies", "token_policies"),
    ("ttl", "token_ttl"),
];

impl TokenParams {
    /// Applies the fields of a request that are there.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the field that cannot be taken, or two that contradict each other.
    pub fn update(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        // A default yields to what is asked for, and a login asks for nothing: only a mount has one.
        if let Some(given) = fields.string("token_type")?
            && TokenType::parse(&given)?.is_default_of_mount()
        {
            return Err(Error::invalid(format!("invalid 'token_type' value {given:?}")));
        }
        self.apply(fields)
    }

    fn apply(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        let older = self.follow_older_names(fields);
        self.take(Fields::new(&older))?;
        self.take(fields)?;
        self.check()
    }

    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        for (name, secs) in [
            ("token_ttl", &mut self.ttl_secs),
            ("token_max_ttl", &mut self.max_ttl_secs),
            ("token_period", &mut self.period_secs),
            ("token_explicit_max_ttl", &mut self.explicit_max_ttl_secs),
        ] {
            if let Some(given) = seconds(fields, name)? {
                *secs = given;
            }
        }
        if let Some(policies) = fields.strings("token_policies")? {
            self.policies = policies;
        }
        if let Some(ranges) = fields.strings("token_bound_cidrs")? {
            self.bound_cidrs = address::parse_all(&ranges)?;
        }
        if let Some(strictly) = fields.boolean("token_strictly_bind_ip")? {
            self.strictly_bind_ip = strictly;
        }
        if let Some(left_out) = fields.boolean("token_no_default_policy")? {
            self.no_default_policy = left_out;
        }
        if let Some(uses) = fields.int("token_num_uses")? {
            self.num_uses = uses;
        }
        if let Some(given) = fields.string("token_type")? {
            self.token_type = TokenType::parse(&given)?;
        }
        Ok(())
    }

    /// Reads back what [`TokenParams::to_map`] wrote, in 0.2.0 too, which took a mount's defaults as
    /// the `token_type` of a role.
    ///
    /// # Errors
    /// When the map was not written by it.
    pub fn decode(map: &Map) -> Result<Self, Error> {
        let mut params = Self::default();
        params.apply(Fields::new(map))?;
        params.older = OLDER.into_iter().filter(|(old, _)| map.contains_key(*old)).collect();
        Ok(params)
    }

    /// A field of an older name stands for the newer one where that is not given.
    fn follow_older_names(&mut self, given: Fields<'_>) -> Map {
        let mut fields = Map::new();
        // Clients that send all fields they know send those they do not mean as null.
        let said = |name: &str| given.raw(name).filter(|value| **value != Json::Null);
        for pair in OLDER {
            let (old, new) = pair;
            if said(new).is_some() {
                self.older.retain(|other| *other != pair);
            } else if let Some(value) = said(old) {
                fields.insert(new.to_owned(), value.clone());
                if !self.older.contains(&pair) {
                    self.older.push(pair);
                }
            }
        }
        fields
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |text: &str| Err(Error::invalid(text));
        if self.strictly_bind_ip && !self.bound_cidrs.is_empty() {
            return refuse(
                "'token_strictly_bind_ip' conflicts with 'token_bound_cidrs'; set only one",
            );
        }
        if self.num_uses < 0 {
            return refuse("'token_num_uses' cannot be negative");
        }
        if self.max_ttl_secs > 0 && self.ttl_secs > self.max_ttl_secs {
            return refuse("'token_ttl' cannot be greater than 'token_max_ttl'");
        }
        if self.policies.len() > TOKEN_POLICIES_MAX {
            return Err(Error::invalid(format!("more than {TOKEN_POLICIES_MAX} policies")));
        }
        let may_be_batch = matches!(self.token_type, TokenType::Batch | TokenType::DefaultBatch);
        if may_be_batch && self.period_secs > 0 {
            return refuse(
                "'token_type' cannot be 'batch' or 'default_batch' when set to generate periodic \
                 tokens",
            );
        }
        if may_be_batch && self.num_uses > 0 {
            return refuse(
                "'token_type' cannot be 'batch' or 'default_batch' when set to generate tokens with \
                 limited use count",
            );
        }
        Ok(())
    }

    /// The fields as they are echoed and stored.
    pub fn to_map(&self) -> Map {
        let mut map = self.newer();
        for (old, new) in &self.older {
            if let Some(value) = map.get(*new).cloned() {
                map.insert((*old).to_owned(), value);
            }
        }
        map
    }

    fn newer(&self) -> Map {
        [
            ("token_bound_cidrs", address::shown(&self.bound_cidrs)),
            ("token_explicit_max_ttl", self.explicit_max_ttl_secs.into()),
            ("token_max_ttl", self.max_ttl_secs.into()),
            ("token_no_default_policy", self.no_default_policy.into()),
            ("token_num_uses", self.num_uses.into()),
            ("token_period", self.period_secs.into()),
            ("token_policies", Json::strings(self.policies.iter().cloned())),
            ("token_strictly_bind_ip", self.strictly_bind_ip.into()),
            ("token_ttl", self.ttl_secs.into()),
            ("token_type", self.token_type.name().into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

/// Lower-cases and checks names of policies; empty ones go.
pub fn clean_policy_names(asked: Vec<String>) -> Result<Vec<String>, Error> {
    if asked.len() > TOKEN_POLICIES_MAX {
        return Err(Error::invalid(format!("more than {TOKEN_POLICIES_MAX} policies")));
    }
    let mut names = Vec::with_capacity(asked.len());
    for name in asked.iter().filter(|name| !name.trim().is_empty()) {
        // The exact word makes a root token, where its maker may; anything that looks like it is
        // no name at all.
        if name == "root" {
            names.push(name.to_owned());
            continue;
        }
        let name = PolicyName::parse(name.trim());
        let name = name.map_err(|error| Error::invalid(error.to_string()))?;
        names.push(name.to_string());
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The policies of a login's token: sorted, each once, with `default` unless the role leaves it out.
///
/// # Errors
/// [`Error::Invalid`] for a name that is none, and for `root`: no login makes a root token.
pub fn login_policies(params: &TokenParams) -> Result<Vec<String>, Error> {
    let mut names = clean_policy_names(params.policies.clone())?;
    if names.iter().any(|name| name == "root") {
        return Err(Error::invalid("auth methods cannot create root tokens"));
    }
    if !params.no_default_policy {
        names.push(DEFAULT_NAME.to_owned());
    }
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_api::json::parse_object;

    fn read(body: &str) -> Result<TokenParams, Error> {
        let mut params = TokenParams::default();
        params.update(Fields::new(&parse_object(body.as_bytes()).unwrap()))?;
        Ok(params)
    }

    #[test]
    fn what_is_echoed_reads_back() {
        let params = read(
            r#"{"token_ttl":"1h","token_max_ttl":7200,"token_policies":"a,B","token_period":"",
                "token_bound_cidrs":["127.0.0.1/32","10.0.0.0/8"],"token_num_uses":"3",
                "token_no_default_policy":"true","token_explicit_max_ttl":"1d",
                "token_type":"service"}"#,
        )
        .unwrap();
        let map = params.to_map();
        assert_eq!(map.get("token_ttl"), Some(&3600_u64.into()));
        assert_eq!(map.get("token_bound_cidrs"), Some(&Json::strings(["127.0.0.1", "10.0.0.0/8"])));
        assert_eq!(TokenParams::decode(&map).unwrap(), params);
    }

    #[test]
    fn what_cannot_be_is_refused_in_the_words_clients_know() {
        for (body, text) in [
            (r#"{"token_ttl":"2h","token_max_ttl":"1h"}"#, "'token_ttl' cannot be greater"),
            (r#"{"token_type":"bogus"}"#, "invalid 'token_type' value \"bogus\""),
            (r#"{"token_type":"default-batch"}"#, "invalid 'token_type' value \"default-batch\""),
            (
                r#"{"token_type":"default-service"}"#,
                "invalid 'token_type' value \"default-service\"",
            ),
            (r#"{"token_type":"batch","token_num_uses":3}"#, "limited use count"),
            (r#"{"token_type":"batch","token_period":"1h"}"#, "periodic tokens"),
            (r#"{"token_bound_cidrs":"bogus"}"#, "error parsing address \"bogus\""),
            (
                r#"{"token_bound_cidrs":"10.0.0.0/8","token_strictly_bind_ip":true}"#,
                "'token_strictly_bind_ip' conflicts with 'token_bound_cidrs'",
            ),
            (r#"{"token_num_uses":-1}"#, "'token_num_uses' cannot be negative"),
            (r#"{"token_ttl":"-1h"}"#, "cannot provide negative value '-3600'"),
        ] {
            let error = read(body).unwrap_err().to_string();
            assert!(error.contains(text), "{body}: {error}");
        }
    }

    #[test]
    fn a_default_of_mounts_that_an_earlier_version_stored_is_read() {
        for kind in ["", "default", "service", "batch"] {
            assert!(read(&format!(r#"{{"token_type":"{kind}"}}"#)).is_ok(), "{kind}");
        }
        for stored in [TokenType::DefaultBatch, TokenType::DefaultService] {
            let mut params = TokenParams { token_type: stored, ..TokenParams::default() };
            assert_eq!(TokenParams::decode(&params.to_map()), Ok(params.clone()));
            // A change of something else leaves it as it is.
            let body = parse_object(br#"{"token_ttl":60}"#).unwrap();
            params.update(Fields::new(&body)).unwrap();
            assert_eq!((params.token_type, params.ttl_secs), (stored, 60));
        }
    }

    #[test]
    fn an_older_name_counts_where_the_newer_is_not_given() {
        let body =
            parse_object(br#"{"policies":"old","token_policies":"new","period":60}"#).unwrap();
        let mut params = TokenParams::default();
        params.update(Fields::new(&body)).unwrap();
        assert_eq!((&params.policies[..], params.period_secs), (&["new".to_owned()][..], 60));
        let map = params.to_map();
        assert_eq!((map.get("period"), map.get("policies")), (Some(&60_u64.into()), None));
        assert_eq!(TokenParams::decode(&map).unwrap(), params);
        let nulls = parse_object(br#"{"token_period":null,"period":80,"policies":null}"#).unwrap();
        params.update(Fields::new(&nulls)).unwrap();
        assert_eq!((&params.policies[..], params.period_secs), (&["new".to_owned()][..], 80));
        let newer = parse_object(br#"{"token_period":70}"#).unwrap();
        params.update(Fields::new(&newer)).unwrap();
        assert_eq!(params.to_map().get("period"), None);
    }
}
