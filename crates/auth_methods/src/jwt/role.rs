//! Roles of logins with a JWT and through a browser: what is wanted of claims, where a browser may come back to, and what the token is
//! like.

use std::collections::{BTreeMap, BTreeSet};

use crate::records::RoleFields;
use kallisto_api::error::Error;
use kallisto_api::fields::{Fields, unconvertible};
use kallisto_api::json::{Json, Map};
use kallisto_engine::TokenParams;
use kallisto_engine::glob::matches_glob;

use super::claims::claim_text;
use super::oidc::redirect;

/// Most entries of a role's lists and maps.
const ENTRIES_MAX: usize = 256;

/// How the values of bound claims are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ClaimMatch {
    /// Byte by byte.
    #[default]
    Exact,
    /// `*` stands for any text.
    Glob,
}

impl ClaimMatch {
    /// Whether a claim is what a role wants. Only a text of the role is compared with what is none: `true` in a role is no text, which somebody might
    /// write into a profile.
    pub(super) fn holds(self, wanted: &Json, claimed: &Json) -> bool {
        match (wanted, claimed) {
            (Json::String(wanted), claimed) => claim_text(claimed).is_some_and(|text| match self {
                Self::Exact => *wanted == text,
                Self::Glob => matches_glob(wanted, &text),
            }),
            (Json::Number(wanted), Json::Number(claimed)) => is_same_number(wanted, claimed),
            _ => wanted == claimed,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Exact => "string",
            Self::Glob => "glob",
        }
    }
}

/// Who hears of a login through a browser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CallbackMode {
    /// The client that asked for it, which hands it on.
    #[default]
    Client,
    /// This server, and the client asks for its token when somebody confirmed it.
    Direct,
    /// Nobody: the provider is asked (RFC 8628).
    Device,
}

impl CallbackMode {
    const ALL: [(&'static str, Self); 3] =
        [("client", Self::Client), ("direct", Self::Direct), ("device", Self::Device)];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

/// Seconds between two questions of a client whether a login is done, unless its role says otherwise.
const POLL_INTERVAL_SECS: i64 = 5;

/// A role as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JwtRole {
    /// Whether it is logged in by showing a JWT, and not through a browser.
    pub(super) takes_jwt: bool,
    pub(super) allowed_redirect_uris: Vec<String>,
    /// Besides `openid`.
    pub(super) oidc_scopes: Vec<String>,
    /// How long ago somebody may have shown the provider who they are, in seconds; 0 for any time.
    pub(super) max_age_secs: i64,
    pub(super) callback_mode: CallbackMode,
    /// In seconds; 0 for the usual.
    poll_interval_secs: i64,
    pub(super) bound_audiences: Vec<String>,
    pub(super) bound_subject: Option<String>,
    /// The values are texts, numbers and booleans. Roles that were written with 0.2.0 have texts alone.
    pub(super) bound_claims: BTreeMap<String, Vec<Json>>,
    pub(super) bound_claims_match: ClaimMatch,
    pub(super) claim_mappings: BTreeMap<String, String>,
    pub(super) user_claim: String,
    /// Whether `user_claim` is a JSON pointer (RFC 6901), not a name.
    pub(super) user_claim_json_pointer: bool,
    /// Shown back: what a provider answers is never logged.
    verbose_oidc_logging: bool,
    pub(super) groups_claim: String,
    /// In seconds; 0 for the built-in one, below that for none.
    pub(super) expiration_leeway_secs: i64,
    /// In seconds; 0 for the built-in one, below that for none.
    pub(super) not_before_leeway_secs: i64,
    /// In seconds; 0 for the built-in one, below that for none.
    pub(super) clock_skew_leeway_secs: i64,
    pub(super) params: TokenParams,
}

impl JwtRole {
    /// Seconds between two questions of a client whether a login is done.
    pub(super) const fn poll_interval_secs(&self) -> i64 {
        if self.poll_interval_secs > 0 { self.poll_interval_secs } else { POLL_INTERVAL_SECS }
    }

    /// Applies the fields that say how a login through a browser goes.
    fn take_browser_fields(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        match fields.string("role_type")?.as_deref() {
            None => {}
            Some("" | "oidc") => self.takes_jwt = false,
            Some("jwt") => self.takes_jwt = true,
            Some(other) => return Err(Error::invalid(format!("invalid 'role_type': {other}"))),
        }
        match fields.string("callback_mode")?.as_deref() {
            None => {}
            Some("") => self.callback_mode = CallbackMode::Client,
            Some(given) => {
                let known = CallbackMode::ALL.iter().find(|(name, _)| *name == given);
                let known = known
                    .ok_or_else(|| Error::invalid(format!("invalid 'callback_mode': {given}")))?;
                self.callback_mode = known.1;
            }
        }
        for (name, list) in [
            ("allowed_redirect_uris", &mut self.allowed_redirect_uris),
            ("oidc_scopes", &mut self.oidc_scopes),
        ] {
            if let Some(given) = fields.strings(name)? {
                *list = given;
            }
        }
        for (name, secs) in
            [("max_age", &mut self.max_age_secs), ("poll_interval", &mut self.poll_interval_secs)]
        {
            if let Some(given) = fields.span(name)? {
                *secs = given.secs();
            }
            if *secs < 0 {
                return Err(Error::invalid(format!("'{name}' cannot be negative")));
            }
        }
        Ok(())
    }

    /// Whether a role for logins through a browser says all that it must, and no more than can stand in an address.
    fn check_browser_fields(&self) -> Result<(), Error> {
        if self.allowed_redirect_uris.is_empty() && self.callback_mode != CallbackMode::Device {
            return Err(Error::invalid(
                "'allowed_redirect_uris' must be set if 'role_type' is 'oidc' or unspecified.",
            ));
        }
        if let Some(bad) = self.allowed_redirect_uris.iter().find(|uri| !redirect::is_uri(uri)) {
            return Err(Error::invalid(format!(
                "'allowed_redirect_uris': {bad:?} is no absolute URI without a fragment"
            )));
        }
        // RFC 6749, section 3.3.
        let is_scope = |scope: &String| {
            let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
            !scope.is_empty() && scope.bytes().all(fits)
        };
        if let Some(bad) = self.oidc_scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(Error::invalid(format!("'oidc_scopes': {bad:?} is no scope")));
        }
        Ok(())
    }
}

impl RoleFields for JwtRole {
    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        self.take_browser_fields(fields)?;
        if let Some(audiences) = fields.strings("bound_audiences")? {
            self.bound_audiences = audiences;
        }
        if let Some(subject) = fields.string("bound_subject")? {
            self.bound_subject = (!subject.is_empty()).then_some(subject);
        }
        if let Some(claims) = fields.map("bound_claims")? {
            let values = |(name, value): (&String, &Json)| Ok((name.clone(), values(name, value)?));
            self.bound_claims = claims.iter().map(values).collect::<Result<_, Error>>()?;
        }
        match fields.string("bound_claims_type")?.as_deref() {
            None => {}
            Some("" | "string") => self.bound_claims_match = ClaimMatch::Exact,
            Some("glob") => self.bound_claims_match = ClaimMatch::Glob,
            Some(other) => {
                return Err(Error::invalid(format!("invalid 'bound_claims_type': {other}")));
            }
        }
        if let Some(mappings) = fields.pairs("claim_mappings")? {
            let text = |(name, value): (&String, &Json)| {
                let to = value.as_str().ok_or_else(|| unconvertible(name, value, "string"))?;
                Ok((name.clone(), to.to_owned()))
            };
            self.claim_mappings = mappings.iter().map(text).collect::<Result<_, Error>>()?;
        }
        for (name, text) in
            [("user_claim", &mut self.user_claim), ("groups_claim", &mut self.groups_claim)]
        {
            if let Some(given) = fields.string(name)? {
                *text = given;
            }
        }
        for (name, flag) in [
            ("user_claim_json_pointer", &mut self.user_claim_json_pointer),
            ("verbose_oidc_logging", &mut self.verbose_oidc_logging),
        ] {
            if let Some(given) = fields.boolean(name)? {
                *flag = given;
            }
        }
        if fields.boolean("token_policies_template_claims")? == Some(true) {
            return Err(Error::invalid("token_policies_template_claims is not available"));
        }
        if fields.boolean("oidc_disable_confirmation")? == Some(true) {
            return Err(Error::invalid("oidc_disable_confirmation is not available"));
        }
        if fields.strings("oauth2_metadata")?.is_some_and(|names| !names.is_empty()) {
            return Err(Error::invalid("oauth2_metadata is not available"));
        }
        for (name, secs) in [
            ("expiration_leeway", &mut self.expiration_leeway_secs),
            ("not_before_leeway", &mut self.not_before_leeway_secs),
            ("clock_skew_leeway", &mut self.clock_skew_leeway_secs),
        ] {
            if let Some(given) = fields.span(name)? {
                *secs = given.secs();
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        if self.user_claim.is_empty() {
            return Err(Error::invalid("a user claim must be defined on the role"));
        }
        if !self.takes_jwt {
            self.check_browser_fields()?;
        }
        let bound = !self.takes_jwt
            || !self.bound_audiences.is_empty()
            || self.bound_subject.is_some()
            || !self.bound_claims.is_empty()
            || !self.params.bound_cidrs.is_empty();
        if !bound {
            return Err(Error::invalid(
                "must have at least one bound constraint when creating/updating a role",
            ));
        }
        let sizes = [
            self.bound_audiences.len(),
            self.bound_claims.len(),
            self.claim_mappings.len(),
            self.allowed_redirect_uris.len(),
            self.oidc_scopes.len(),
        ];
        if sizes.into_iter().any(|size| size > ENTRIES_MAX) {
            return Err(Error::invalid(format!(
                "a role has lists of at most {ENTRIES_MAX} entries"
            )));
        }
        let mut targets = BTreeSet::new();
        for name in self.claim_mappings.values() {
            if name == "role" {
                return Err(Error::invalid(
                    "metadata key \"role\" is reserved and may not be a mapping destination",
                ));
            }
            if !targets.insert(name) {
                return Err(Error::invalid(format!(
                    "multiple keys are mapped to metadata key {name:?}"
                )));
            }
        }
        Ok(())
    }

    fn to_map(&self) -> Map {
        let mut map = self.params.to_map();
        let claims = self.bound_claims.iter();
        let claims: Map =
            claims.map(|(name, values)| (name.clone(), Json::Array(values.clone()))).collect();
        let mappings = self.claim_mappings.iter();
        let mappings: Map =
            mappings.map(|(claim, name)| (claim.clone(), name.as_str().into())).collect();
        let or_null = |map: Map| if map.is_empty() { Json::Null } else { map.into() };
        let own = [
            ("role_type", if self.takes_jwt { "jwt" } else { "oidc" }.into()),
            ("allowed_redirect_uris", strings_or_null(&self.allowed_redirect_uris)),
            ("oidc_scopes", strings_or_null(&self.oidc_scopes)),
            ("max_age", self.max_age_secs.into()),
            ("callback_mode", self.callback_mode.name().into()),
            ("poll_interval", self.poll_interval_secs.into()),
            ("bound_audiences", Json::strings(self.bound_audiences.iter().cloned())),
            ("bound_subject", self.bound_subject.as_deref().unwrap_or_default().into()),
            ("bound_claims", or_null(claims)),
            ("bound_claims_type", self.bound_claims_match.name().into()),
            ("claim_mappings", or_null(mappings)),
            ("user_claim", self.user_claim.as_str().into()),
            ("user_claim_json_pointer", self.user_claim_json_pointer.into()),
            ("verbose_oidc_logging", self.verbose_oidc_logging.into()),
            ("groups_claim", self.groups_claim.as_str().into()),
            ("expiration_leeway", self.expiration_leeway_secs.into()),
            ("not_before_leeway", self.not_before_leeway_secs.into()),
            ("clock_skew_leeway", self.clock_skew_leeway_secs.into()),
        ];
        map.extend(own.into_iter().map(|(name, value)| (name.to_owned(), value)));
        map
    }

    fn params_mut(&mut self) -> &mut TokenParams {
        &mut self.params
    }
}

fn strings_or_null(list: &[String]) -> Json {
    if list.is_empty() { Json::Null } else { Json::strings(list.iter().cloned()) }
}

/// The values of a bound claim: one, or a list.
fn values(name: &str, value: &Json) -> Result<Vec<Json>, Error> {
    let one = |value: &Json| match claim_text(value) {
        Some(_) => Ok(value.clone()),
        None => Err(unconvertible(name, value, "string")),
    };
    match value {
        Json::Array(items) => items.iter().map(one).collect(),
        other => Ok(vec![one(other)?]),
    }
}

/// Whether two numbers are one, however they are written: `5`, `5.0`, `0.5e1`.
fn is_same_number(one: &str, other: &str) -> bool {
    // Whole ones may be past what a float can tell apart.
    if let (Ok(one), Ok(other)) = (one.parse::<i128>(), other.parse::<i128>()) {
        return one == other;
    }
    matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::FieldsRecord;
    use kallisto_api::json;

    #[test]
    fn a_role_reads_back_and_must_bind_something() {
        let body = br#"{"role_type":"jwt","user_claim":"sub","bound_audiences":["a"],
            "bound_claims":{"g":["x","y"],"on":true},"claim_mappings":{"e":"email"},
            "clock_skew_leeway":-1,"policies":"p","bound_claims_type":"glob",
            "user_claim_json_pointer":true,"verbose_oidc_logging":true}"#;
        let body = json::parse_object(body).unwrap();
        let role = JwtRole::written(None, Fields::new(&body)).unwrap();
        assert_eq!(JwtRole::decode(&role.encode()), Some(role));
        let body = br#"{"user_claim":"sub","allowed_redirect_uris":["https://a/x"],"max_age":"1m",
            "oidc_scopes":"profile,email","callback_mode":"direct","poll_interval":"7s"}"#;
        let body = json::parse_object(body).unwrap();
        let role = JwtRole::written(None, Fields::new(&body)).unwrap();
        assert_eq!((role.max_age_secs, role.poll_interval_secs()), (60, 7));
        assert_eq!(JwtRole::decode(&role.encode()), Some(role));
        // Mappings are pairs too, as a command line has them.
        for (given, count) in [
            (r#"{"/a/b":"team","e":"email"}"#, 2),
            (r#"["/a/b=team","e=email"]"#, 2),
            (r#""e=email""#, 1),
            (r#""""#, 0),
        ] {
            let body = format!(
                r#"{{"role_type":"jwt","user_claim":"sub","bound_audiences":"a","claim_mappings":{given}}}"#
            );
            let body = json::parse_object(body.as_bytes()).unwrap();
            let role = JwtRole::written(None, Fields::new(&body)).unwrap();
            assert_eq!(role.claim_mappings.len(), count, "{given}");
            assert_eq!(JwtRole::decode(&role.encode()), Some(role));
        }
        let device = json::parse_object(br#"{"user_claim":"sub","callback_mode":"device"}"#);
        assert!(JwtRole::written(None, Fields::new(&device.unwrap())).is_ok());
        for bad in [
            r#"{"user_claim":"sub"}"#,
            r#"{"bound_audiences":"a"}"#,
            r#"{"user_claim":"sub","role_type":"jwt"}"#,
            r#"{"user_claim":"sub","bound_audiences":"a","role_type":"oidc"}"#,
            r#"{"user_claim":"sub","role_type":"jwt","bound_audiences":"a","claim_mappings":{"x":"role"}}"#,
            r#"{"user_claim":"sub","role_type":"jwt","bound_audiences":"a","claim_mappings":{"x":"z","y":"z"}}"#,
            r#"{"user_claim":"sub","role_type":"jwt","bound_audiences":"a","claim_mappings":"x"}"#,
            r#"{"user_claim":"sub","role_type":"jwt","bound_audiences":"a","bound_claims":{"x":{}}}"#,
            r#"{"user_claim":"sub","allowed_redirect_uris":"/relative"}"#,
            r#"{"user_claim":"sub","allowed_redirect_uris":"https://a/#f"}"#,
            r#"{"user_claim":"sub","allowed_redirect_uris":"https://a","oidc_scopes":"a b"}"#,
            r#"{"user_claim":"sub","allowed_redirect_uris":"https://a","max_age":-1}"#,
            r#"{"user_claim":"sub","allowed_redirect_uris":"https://a","callback_mode":"x"}"#,
            r#"{"user_claim":"sub","callback_mode":"direct"}"#,
        ] {
            let body = json::parse_object(bad.as_bytes()).unwrap();
            assert!(JwtRole::written(None, Fields::new(&body)).is_err(), "{bad}");
        }
    }
}
