//! Which organization logs in, and where GitHub is.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Logical, Response};
use kallisto_engine::outbound::form_component;
use kallisto_engine::{Call, TokenParams};

use crate::records::{self, FieldsRecord};
use crate::rest::{self, id_of};

/// Where GitHub is when nobody says.
const USUAL_BASE: &str = "https://api.github.com/";
/// Longest name of an organization, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GithubConfig {
    pub(super) organization: String,
    /// 0 until it is known.
    pub(super) organization_id: i64,
    /// Where to ask; ends with a slash.
    pub(super) base_url: String,
    /// Whether that was given, and is shown.
    has_base: bool,
    pub(super) params: TokenParams,
}

impl GithubConfig {
    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        let (before, base_before) = (self.organization.clone(), self.base_url.clone());
        if let Some(name) = fields.string("organization")? {
            self.organization = name;
        }
        if self.organization.is_empty() {
            return Err(Error::invalid("organization is a required parameter"));
        }
        if self.organization.len() > NAME_BYTES_MAX {
            return Err(Error::invalid(format!("organization is over {NAME_BYTES_MAX} bytes")));
        }
        if let Some(given) = fields.string("base_url")? {
            self.has_base = !given.is_empty();
            self.base_url = match self.has_base {
                true => rest::base_url("base_url", &given)?,
                false => USUAL_BASE.to_owned(),
            };
        }
        if self.base_url.is_empty() {
            USUAL_BASE.clone_into(&mut self.base_url);
        }
        if !before.eq_ignore_ascii_case(&self.organization) || base_before != self.base_url {
            // The number was that of another organization.
            self.organization_id = 0;
        }
        if let Some(id) = fields.int("organization_id")? {
            if id < 0 {
                return Err(Error::invalid("organization_id cannot be negative"));
            }
            self.organization_id = id;
        }
        Ok(())
    }

    fn to_map(&self) -> Map {
        let mut map = self.params.to_map();
        let base = if self.has_base { self.base_url.as_str() } else { "" };
        map.insert("base_url".to_owned(), base.into());
        map.insert("organization".to_owned(), self.organization.as_str().into());
        map.insert("organization_id".to_owned(), self.organization_id.into());
        map
    }

    /// What whoever logs in is told when the organization goes by another name now.
    pub(super) fn warning_of_login(&self, name: &str) -> Option<String> {
        let is_same = name.eq_ignore_ascii_case(&self.organization);
        (!is_same).then(|| {
            format!(
                "the organization name has changed to {name:?}. It is recommended to verify and update the organization name in the config: {}={}",
                self.organization, self.organization_id
            )
        })
    }
}

impl FieldsRecord for GithubConfig {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let mut config = Self::default();
        config.take(Fields::new(&map)).ok()?;
        config.params = TokenParams::decode(&map).ok()?;
        Some(config)
    }

    fn encode(&self) -> Vec<u8> {
        Json::Object(self.to_map()).to_text()
    }

    fn shown(&self) -> Map {
        self.to_map()
    }

    fn written(before: Option<Self>, fields: Fields<'_>) -> Result<Self, Error> {
        let mut config = before.unwrap_or_default();
        config.take(fields)?;
        config.params.update(fields)?;
        Ok(config)
    }
}

/// Shows the configuration.
pub(super) fn read(run: &Call<'_>) -> Result<Response, Error> {
    let config = records::config::<GithubConfig>(&run.storage)?.ok_or(Error::NotFound)?;
    let mut warnings = Vec::new();
    if rest::sends_in_clear(&config.base_url) {
        warnings.push("tokens are sent to base_url without TLS: use https".to_owned());
    }
    let data = Json::Object(config.shown()).to_text();
    Ok(Response::Logical(Logical { data, warnings, ..Logical::default() }))
}

/// Changes the fields that are given. GitHub is asked for the number of the organization when that is not known.
pub(super) async fn write(run: &Call<'_>) -> Result<Response, Error> {
    let body = run.request.object()?;
    let fields = Fields::new(&body);
    let before = records::config::<GithubConfig>(&run.storage)?;
    let meant = GithubConfig::written(before, fields)?;
    let id = match meant.organization_id {
        0 => number_of(run, &meant).await?,
        known => known,
    };
    records::write_config_as(run, |before| {
        let mut config = GithubConfig::written(before, fields)?;
        let is_meant =
            (&config.organization, &config.base_url) == (&meant.organization, &meant.base_url);
        if !is_meant {
            // Written meanwhile: the number may be another's.
            return Err(Error::Conflict);
        }
        config.organization_id = id;
        Ok(config)
    })
    .await
}

/// Asks GitHub for the number of an organization.
async fn number_of(run: &Call<'_>, config: &GithubConfig) -> Result<i64, Error> {
    let mut name = Vec::new();
    form_component(&config.organization, &mut name);
    let path = format!("orgs/{}", String::from_utf8_lossy(&name));
    let service = super::github(run, &config.base_url, None);
    let unknown = |why: String| {
        format!(
            "unable to fetch the organization_id, you must manually set it in the config: {why}"
        )
    };
    match service.find(&path).await.map(|found| found.map_or(0, |found| id_of(&found))) {
        Ok(id) if id > 0 => Ok(id),
        Ok(_) => Err(Error::invalid(unknown(format!(
            "organization_id not found for {}",
            config.organization
        )))),
        Err(Error::Unavailable(why)) => Err(Error::Unavailable(unknown(why))),
        Err(other) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(before: Option<GithubConfig>, body: &str) -> Result<GithubConfig, Error> {
        GithubConfig::written(before, Fields::new(&json::parse_object(body.as_bytes()).unwrap()))
    }

    #[test]
    fn a_configuration_reads_back() {
        for body in [
            r#"{"organization":"acme","organization_id":42,"token_policies":"a","ttl":"1h"}"#,
            r#"{"organization":"acme","organization_id":42,"base_url":"https://hub.example/api/v3"}"#,
        ] {
            let config = written(None, body).unwrap();
            assert_eq!(GithubConfig::decode(&config.encode()).unwrap(), config);
        }
    }

    #[test]
    fn a_number_holds_for_its_organization_alone() {
        let config = written(None, r#"{"organization":"acme","organization_id":42}"#).unwrap();
        let after = |body: &str| written(Some(config.clone()), body).unwrap().organization_id;
        assert_eq!(after(r#"{"token_ttl":60}"#), 42);
        assert_eq!(after(r#"{"organization":"Acme"}"#), 42);
        assert_eq!(after(r#"{"organization":"other"}"#), 0);
        assert_eq!(after(r#"{"base_url":"https://hub.example/"}"#), 0);
        assert_eq!(after(r#"{"organization":"other","organization_id":43}"#), 43);
    }

    #[test]
    fn what_would_fail_at_a_login_is_refused_when_it_is_written() {
        for bad in [
            "{}",
            r#"{"organization":""}"#,
            r#"{"organization":"a","base_url":"hub.example"}"#,
            r#"{"organization":"a","base_url":"https://hub.example/?a=b"}"#,
            r#"{"organization":"a","organization_id":-1}"#,
        ] {
            assert!(matches!(written(None, bad), Err(Error::Invalid(_))), "{bad}");
        }
    }
}
