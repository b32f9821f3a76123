//! What a mount is set to.

use kallisto_api::Error;
use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Fields, Span};

use super::given::{GivenFields, object, short};
use super::ids::IssuerId;
use super::issuer::is_url;

/// How revocation is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CrlConfig {
    pub(super) expiry_secs: i64,
    pub(super) is_disabled: bool,
    pub(super) ocsp_is_disabled: bool,
    pub(super) ocsp_expiry_secs: i64,
    pub(super) rebuilds_itself: bool,
    pub(super) grace_secs: i64,
    pub(super) has_deltas: bool,
    pub(super) delta_secs: i64,
    pub(super) allows_expired: bool,
    /// The times as they were given: tools that compare what they wrote with what is shown see no difference then.
    written: Map,
}

/// The settings that are times.
const CRL_TIMES: [&str; 4] =
    ["auto_rebuild_grace_period", "delta_rebuild_interval", "expiry", "ocsp_expiry"];

impl Default for CrlConfig {
    fn default() -> Self {
        Self {
            expiry_secs: 72 * 3600,
            is_disabled: false,
            ocsp_is_disabled: false,
            ocsp_expiry_secs: 12 * 3600,
            rebuilds_itself: false,
            grace_secs: 12 * 3600,
            has_deltas: false,
            delta_secs: 15 * 60,
            allows_expired: false,
            written: Map::new(),
        }
    }
}

fn span(given: GivenFields<'_>, name: &str, now: i64) -> Result<i64, Error> {
    if !given.has(name) {
        return Ok(now);
    }
    let text = given.text(name)?;
    let span = Span::parse(&text).ok_or_else(|| {
        Error::invalid(format!(
            "given {name} could not be decoded: time: invalid duration {text:?}"
        ))
    })?;
    if span.is_negative() {
        return Err(Error::invalid(format!("{name} cannot be negative")));
    }
    Ok(span.secs())
}

impl CrlConfig {
    /// Changes what a request gives.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what cannot be.
    pub(super) fn update(&self, given: GivenFields<'_>) -> Result<Self, Error> {
        let mut written = self.written.clone();
        for name in CRL_TIMES.into_iter().filter(|name| given.has(name)) {
            written.insert(name.to_owned(), given.text(name)?.into());
        }
        let new = Self {
            written,
            expiry_secs: span(given, "expiry", self.expiry_secs)?,
            is_disabled: given.flag("disable", self.is_disabled)?,
            ocsp_is_disabled: given.flag("ocsp_disable", self.ocsp_is_disabled)?,
            ocsp_expiry_secs: span(given, "ocsp_expiry", self.ocsp_expiry_secs)?,
            rebuilds_itself: given.flag("auto_rebuild", self.rebuilds_itself)?,
            grace_secs: span(given, "auto_rebuild_grace_period", self.grace_secs)?,
            has_deltas: given.flag("enable_delta", self.has_deltas)?,
            delta_secs: span(given, "delta_rebuild_interval", self.delta_secs)?,
            allows_expired: given.flag("allow_expired_cert_revocation", self.allows_expired)?,
        };
        if new.expiry_secs < 1 {
            return Err(Error::invalid("expiry must be greater than zero"));
        }
        if new.rebuilds_itself && new.grace_secs >= new.expiry_secs {
            return Err(Error::invalid(format!(
                "CRL auto-rebuilding grace period ({}) must be strictly shorter than CRL expiry \
                 ({}) value when auto-rebuilding of CRLs is enabled",
                short(new.grace_secs),
                short(new.expiry_secs)
            )));
        }
        if new.rebuilds_itself && new.has_deltas && new.delta_secs >= new.expiry_secs {
            return Err(Error::invalid(format!(
                "CRL delta rebuild window ({}) must be strictly shorter than CRL expiry ({}) value \
                 when delta CRLs are enabled",
                short(new.delta_secs),
                short(new.expiry_secs)
            )));
        }
        if new.has_deltas && !new.rebuilds_itself {
            return Err(Error::invalid(
                "Delta CRLs cannot be enabled when auto rebuilding is disabled as the complete CRL \
                 is always regenerated!",
            ));
        }
        Ok(new)
    }

    pub(super) fn shown(&self) -> Map {
        let mut shown = object([
            ("allow_expired_cert_revocation", self.allows_expired.into()),
            ("auto_rebuild", self.rebuilds_itself.into()),
            ("auto_rebuild_grace_period", short(self.grace_secs).into()),
            ("delta_rebuild_interval", short(self.delta_secs).into()),
            ("disable", self.is_disabled.into()),
            ("enable_delta", self.has_deltas.into()),
            ("expiry", short(self.expiry_secs).into()),
            ("ocsp_disable", self.ocsp_is_disabled.into()),
            ("ocsp_expiry", short(self.ocsp_expiry_secs).into()),
        ]);
        shown.extend(self.written.clone());
        shown
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        Self::default().update(GivenFields(Fields::new(&map))).ok()
    }
}

/// Where the cluster is found, for templates of URLs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterUrls {
    pub(super) path: String,
    pub(super) aia_path: String,
    /// Both as they were given: perhaps with a slash at the end.
    written: [String; 2],
}

impl ClusterUrls {
    /// Changes what a request gives.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming what is no URL.
    pub(super) fn update(&self, given: GivenFields<'_>) -> Result<Self, Error> {
        let path = given.text_or("path", &self.written[0])?;
        let aia_path = given.text_or("aia_path", &self.written[1])?;
        if !path.is_empty() && !is_url(&path) {
            return Err(Error::invalid(format!("invalid, non-URL path given to cluster: {path}")));
        }
        if !aia_path.is_empty() && !is_url(&aia_path) {
            return Err(Error::invalid(format!(
                "invalid, non-URL aia_path given to cluster: {aia_path}"
            )));
        }
        let trimmed = |text: &str| text.trim_end_matches('/').to_owned();
        Ok(Self { path: trimmed(&path), aia_path: trimmed(&aia_path), written: [path, aia_path] })
    }

    pub(super) fn shown(&self) -> Map {
        let [path, aia_path] = self.written.each_ref().map(|text| Json::from(text.as_str()));
        object([("aia_path", aia_path), ("path", path)])
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        Self::default().update(GivenFields(Fields::new(&map))).ok()
    }

    /// A URL of a template.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it needs what is not set, or is filled to what is no URL.
    pub(super) fn fill(&self, template: &str, issuer: IssuerId) -> Result<String, Error> {
        let Self { path, aia_path, .. } = self;
        for (name, field, value) in
            [("{{cluster_path}}", "path", path), ("{{cluster_aia_path}}", "aia_path", aia_path)]
        {
            if template.contains(name) && value.is_empty() {
                let what =
                    "unable to template AIA URLs as we lack local cluster address information";
                return Err(Error::invalid(format!("{what} ({field})")));
            }
        }
        let filled = template
            .replace("{{issuer_id}}", &issuer.to_string())
            .replace("{{cluster_path}}", path)
            .replace("{{cluster_aia_path}}", aia_path);
        if is_url(&filled) {
            return Ok(filled);
        }
        Err(Error::invalid(format!("the template of a URL is filled to what is none: {filled}")))
    }
}

/// What stands for an issuer or a key when none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Defaults {
    pub(super) default: Option<super::ids::IssuerId>,
    pub(super) follows_latest: bool,
}

impl Defaults {
    pub(super) fn encode(&self) -> Vec<u8> {
        let map = object([
            ("default", self.default_text().into()),
            ("follows_latest", self.follows_latest.into()),
        ]);
        Json::Object(map).to_text()
    }

    pub(super) fn default_text(&self) -> String {
        self.default.map_or_else(String::new, |id| id.to_string())
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let given = GivenFields(Fields::new(&map));
        let default = given.text("default").ok()?;
        Some(Self {
            default: match default.as_str() {
                "" => None,
                id => Some(super::ids::IssuerId::parse(id)?),
            },
            follows_latest: given.flag("follows_latest", false).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_shown_as_it_was_given() {
        let read = |text: &str| json::parse_object(text.as_bytes()).unwrap();
        let body = read(r#"{"expiry":"7d","ocsp_expiry":"90m","delta_rebuild_interval":900}"#);
        let config = CrlConfig::default().update(GivenFields::of(&body)).unwrap();
        assert_eq!(config.expiry_secs, 7 * 24 * 3600);
        let text = |config: &CrlConfig, name: &str| {
            config.shown()[name].as_str().unwrap_or_default().to_owned()
        };
        for (name, shown) in [
            ("expiry", "7d"),
            ("ocsp_expiry", "90m"),
            ("delta_rebuild_interval", "900"),
            ("auto_rebuild_grace_period", "12h"),
        ] {
            assert_eq!(text(&config, name), shown);
        }
        let stored = CrlConfig::decode(&Json::Object(config.shown()).to_text()).unwrap();
        assert_eq!(stored.shown(), config.shown());
        assert_eq!(stored.expiry_secs, config.expiry_secs);

        let body = read(r#"{"path":"https://a/v1/pki/"}"#);
        let cluster = ClusterUrls::default().update(GivenFields::of(&body)).unwrap();
        assert_eq!(cluster.path, "https://a/v1/pki", "URLs are made of it");
        let stored = ClusterUrls::decode(&Json::Object(cluster.shown()).to_text()).unwrap();
        assert_eq!(stored.shown()["path"].as_str(), Some("https://a/v1/pki/"));
        assert_eq!(stored.path, cluster.path);
    }
}
