//! Issuers and keys, as they are kept.

use std::sync::Arc;

use data_encoding::BASE64;
use jiff::Timestamp;
use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields};
use kallisto_pki::certificate::{CertificateSigner, ParsedCertificate, Urls};
use kallisto_pki::ocsp::IssuerHashes;
use kallisto_pki::{PrivateKey, PublicKey, SignatureAlgorithm, SignatureWish};
use zeroize::Zeroizing;

use super::given::{GivenFields, object};
use super::ids::{IssuerId, ListScope};

/// What an issuer may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IssuerUsage {
    pub(super) issues: bool,
    pub(super) signs_crls: bool,
    pub(super) signs_ocsp: bool,
}

impl IssuerUsage {
    pub(super) const ALL: Self = Self { issues: true, signs_crls: true, signs_ocsp: true };

    /// Reads the names of usages.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming one that there is not.
    pub(super) fn read(names: &[String]) -> Result<Self, Error> {
        let mut usage = Self { issues: false, signs_crls: false, signs_ocsp: false };
        for name in names {
            match name.as_str() {
                "read-only" => {}
                "issuing-certificates" => usage.issues = true,
                "crl-signing" => usage.signs_crls = true,
                "ocsp-signing" => usage.signs_ocsp = true,
                other => {
                    return Err(Error::invalid(format!("unknown name for usage: {other}")));
                }
            }
        }
        Ok(usage)
    }

    /// Their names, sorted, as the API has them.
    pub(super) fn text(self) -> String {
        let names = [
            (self.signs_crls, "crl-signing"),
            (self.issues, "issuing-certificates"),
            (self.signs_ocsp, "ocsp-signing"),
            (true, "read-only"),
        ];
        let names: Vec<&str> = names.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        names.join(",")
    }
}

/// What becomes of a certificate that would outlive its issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outliving {
    /// Refused, but for CAs and for what ACME issues.
    Refuse,
    /// Those too.
    RefuseAll,
    Truncate,
    Permit,
}

impl Outliving {
    pub(super) fn named(name: &str) -> Result<Self, Error> {
        match name {
            "" | "err" => Ok(Self::Refuse),
            "always_enforce_err" => Ok(Self::RefuseAll),
            "truncate" => Ok(Self::Truncate),
            "permit" => Ok(Self::Permit),
            other => Err(Error::invalid(format!(
                "unknown value for field `leaf_not_after_behavior`; possible values are `err`, \
                 `always_enforce_err`, `truncate`, and `permit`, got {other:?}"
            ))),
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "err",
            Self::RefuseAll => "always_enforce_err",
            Self::Truncate => "truncate",
            Self::Permit => "permit",
        }
    }
}

/// Where more is to be found about what an issuer signs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UrlSettings {
    pub(super) urls: Urls,
    pub(super) are_templates: bool,
}

impl UrlSettings {
    pub(super) const NAMES: [&str; 4] = [
        "issuing_certificates",
        "crl_distribution_points",
        "delta_crl_distribution_points",
        "ocsp_servers",
    ];

    pub(super) fn is_empty(&self) -> bool {
        self.urls == Urls::default()
    }

    pub(super) fn lists(&self) -> [(&'static str, &Vec<String>); 4] {
        let urls = &self.urls;
        [
            (Self::NAMES[0], &urls.issuing_certificates),
            (Self::NAMES[1], &urls.crl_distribution_points),
            (Self::NAMES[2], &urls.delta_crl_distribution_points),
            (Self::NAMES[3], &urls.ocsp_servers),
        ]
    }

    fn lists_mut(&mut self) -> [(&'static str, &mut Vec<String>); 4] {
        let urls = &mut self.urls;
        [
            (Self::NAMES[0], &mut urls.issuing_certificates),
            (Self::NAMES[1], &mut urls.crl_distribution_points),
            (Self::NAMES[2], &mut urls.delta_crl_distribution_points),
            (Self::NAMES[3], &mut urls.ocsp_servers),
        ]
    }

    /// Makes the fields that are to be reset what they are in a new issuer; `flag` is the name of that of templates.
    pub(super) fn reset(&mut self, is_reset: impl Fn(&str) -> bool, flag: &str) {
        if is_reset(flag) {
            self.are_templates = false;
        }
        for (name, list) in self.lists_mut() {
            if is_reset(name) {
                list.clear();
            }
        }
    }

    /// Changes what a request gives, and checks it.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming what is no URL.
    pub(super) fn update(&mut self, given: GivenFields<'_>, flag: &str) -> Result<(), Error> {
        let are_templates = given.flag(flag, self.are_templates)?;
        self.are_templates = are_templates;
        for (name, list) in self.lists_mut() {
            if let Some(urls) = given.list_given(name)? {
                *list = urls;
            }
            for url in list.iter() {
                if !are_templates && !is_url(url) {
                    return Err(Error::invalid(format!(
                        "invalid URL found in Authority Information Access (AIA) parameter \
                         {name}: {url}"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Whether a text is a URL with a scheme and a host.
pub(super) fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let is_scheme = scheme.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // `ldap:///CN=…` has no host.
    let has_host = !host.is_empty() || (scheme == "ldap" && rest.len() > 1);
    let is_clean = text.is_ascii()
        && !text.bytes().any(|byte| byte.is_ascii_control() || b" \"<>\\^`{|}".contains(&byte));
    is_scheme && has_host && is_clean
}

/// An issuer.
#[derive(Clone, Debug)]
pub(super) struct Issuer {
    pub(super) id: IssuerId,
    /// Empty for none.
    pub(super) name: String,
    pub(super) key: Option<IssuerId>,
    pub(super) certificate: Arc<ParsedCertificate>,
    /// Its certificate in PEM, which every certificate that it signs comes with.
    pub(super) certificate_pem: Arc<str>,
    pub(super) usage: IssuerUsage,
    pub(super) outliving: Outliving,
    pub(super) manual_chain: Option<Vec<IssuerId>>,
    pub(super) urls: UrlSettings,
    /// Whether its own URLs were ever set; what is shown differs by it.
    pub(super) has_urls: bool,
    pub(super) crl_algorithm: Option<SignatureAlgorithm>,
    pub(super) revoked_at: Option<Timestamp>,
    pub(super) scope: ListScope,
    pub(super) hashes: Arc<IssuerHashes>,
    /// The id of its key, where its certificate says none.
    pub(super) own_key_id: [u8; 20],
}

impl Issuer {
    /// An issuer of a certificate, with nothing set.
    pub(super) fn new(
        id: IssuerId,
        name: String,
        key: Option<IssuerId>,
        certificate: ParsedCertificate,
    ) -> Self {
        let scope = ListScope::of(&certificate.subject, certificate.public.spki());
        let hashes = IssuerHashes::of(&certificate.subject_as_written, certificate.public.bits());
        let own_key_id = certificate.public.key_id();
        let pem = kallisto_pki::pem::write(kallisto_pki::pem::Label::Certificate, &certificate.der);
        Self {
            id,
            name,
            key,
            certificate: Arc::new(certificate),
            certificate_pem: pem.into(),
            usage: IssuerUsage::ALL,
            outliving: Outliving::Refuse,
            manual_chain: None,
            urls: UrlSettings::default(),
            has_urls: false,
            crl_algorithm: None,
            revoked_at: None,
            scope,
            hashes: Arc::new(hashes),
            own_key_id,
        }
    }

    /// The record's bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let ids = |ids: &Vec<IssuerId>| Json::strings(ids.iter().map(IssuerId::to_string));
        let mut map = object([
            ("id", self.id.to_string().into()),
            ("name", self.name.as_str().into()),
            ("key", self.key.map_or(Json::Null, |id| id.to_string().into())),
            ("certificate", BASE64.encode(&self.certificate.der).into()),
            ("usage", self.usage.text().into()),
            ("leaf_not_after_behavior", self.outliving.name().into()),
            ("manual_chain", self.manual_chain.as_ref().map_or(Json::Null, ids)),
            ("has_urls", self.has_urls.into()),
            ("enable_aia_url_templating", self.urls.are_templates.into()),
            ("crl_algorithm", self.crl_algorithm.map_or("", SignatureAlgorithm::name).into()),
            ("revoked_at", self.revoked_at.map_or_else(String::new, |at| at.to_string()).into()),
        ]);
        for (name, urls) in self.urls.lists() {
            map.insert(name.to_owned(), Json::strings(urls.iter().cloned()));
        }
        Json::Object(map).to_text()
    }

    /// Reads a record back; `None` when it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let given = GivenFields(Fields::new(&map));
        let text = |name: &str| given.text(name).ok();
        let certificate = BASE64.decode(text("certificate")?.as_bytes()).ok()?;
        let id = |text: String| {
            if text.is_empty() { Some(None) } else { IssuerId::parse(&text).map(Some) }
        };
        let key = id(text("key")?)?;
        let mut issuer = Self::new(
            IssuerId::parse(&text("id")?)?,
            text("name")?,
            key,
            ParsedCertificate::from_der(&certificate).ok()?,
        );
        issuer.usage = IssuerUsage::read(&given.list("usage").ok()?).ok()?;
        issuer.outliving = Outliving::named(&text("leaf_not_after_behavior")?).ok()?;
        if let Some(chain) = given.list_given("manual_chain").ok()? {
            issuer.manual_chain =
                Some(chain.iter().map(|id| IssuerId::parse(id)).collect::<Option<_>>()?);
        }
        issuer.urls.update(given, "enable_aia_url_templating").ok()?;
        issuer.has_urls = given.flag("has_urls", false).ok()?;
        issuer.crl_algorithm = SignatureAlgorithm::named(&text("crl_algorithm")?);
        issuer.revoked_at = match text("revoked_at")?.as_str() {
            "" => None,
            at => Some(at.parse().ok()?),
        };
        Some(issuer)
    }

    /// What it shows of itself, but for its chain.
    pub(super) fn shown(&self) -> Map {
        let urls_or_null = |urls: &Vec<String>| match urls.is_empty() && self.urls_are_given() {
            true => Json::Null,
            false => Json::strings(urls.iter().cloned()),
        };
        let mut map = object([
            ("certificate", self.pem().into()),
            ("issuer_id", self.id.to_string().into()),
            ("issuer_name", self.name.as_str().into()),
            ("key_id", self.key.map_or_else(String::new, |id| id.to_string()).into()),
            ("leaf_not_after_behavior", self.outliving.name().into()),
            (
                "manual_chain",
                self.manual_chain
                    .as_ref()
                    .map_or(Json::Null, |ids| Json::strings(ids.iter().map(IssuerId::to_string))),
            ),
            ("usage", self.usage.text().into()),
            (
                "revocation_signature_algorithm",
                self.crl_algorithm.map_or("", SignatureAlgorithm::name).into(),
            ),
            ("revoked", self.revoked_at.is_some().into()),
        ]);
        if let Some(at) = self.revoked_at {
            map.insert("revocation_time".to_owned(), at.as_second().into());
            map.insert("revocation_time_rfc3339".to_owned(), at.to_string().into());
        }
        if self.urls_are_given() {
            let are_templates = self.urls.are_templates.into();
            map.insert("enable_aia_url_templating".to_owned(), are_templates);
        }
        for (name, urls) in self.urls.lists() {
            map.insert(name.to_owned(), urls_or_null(urls));
        }
        map
    }

    fn urls_are_given(&self) -> bool {
        !self.urls.is_empty()
    }

    /// Its certificate in PEM.
    pub(super) fn pem(&self) -> String {
        self.certificate_pem.as_ref().to_owned()
    }

    /// It as who signs with a key.
    pub(super) fn signer<'a>(
        &'a self,
        key: &'a PkiKey,
        wish: SignatureWish,
    ) -> CertificateSigner<'a> {
        let algorithm = SignatureAlgorithm::choose(key.private.kind(), wish);
        CertificateSigner {
            name: &self.certificate.subject_as_written,
            key_id: self.key_id(),
            key: &key.private,
            algorithm,
        }
    }

    /// Whether it may sign revocation lists, where its key is here.
    pub(super) fn signs_lists(&self) -> bool {
        self.usage.signs_crls && self.certificate.may_sign_crls()
    }

    /// It as who signs revocation lists and answers of OCSP.
    pub(super) fn crl_signer<'a>(&'a self, key: &'a PkiKey) -> CertificateSigner<'a> {
        let signer = self.signer(key, SignatureWish::default());
        let fits = self.crl_algorithm.filter(|algorithm| algorithm.is_for(key.private.kind()));
        CertificateSigner { algorithm: fits.unwrap_or(signer.algorithm), ..signer }
    }

    fn key_id(&self) -> &[u8] {
        self.certificate.key_id.as_deref().unwrap_or(&self.own_key_id)
    }
}

/// A key.
#[derive(Clone, Debug)]
pub(super) struct PkiKey {
    pub(super) id: IssuerId,
    /// Empty for none.
    pub(super) name: String,
    /// Whether it came from elsewhere, where it may have signed what is not known here.
    pub(super) is_imported: bool,
    pub(super) private: Arc<PrivateKey>,
}

impl PkiKey {
    /// The record's bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let pkcs8 = Zeroizing::new(BASE64.encode(self.private.pkcs8()));
        let map = object([
            ("id", self.id.to_string().into()),
            ("name", self.name.as_str().into()),
            ("is_imported", self.is_imported.into()),
            ("pkcs8", pkcs8.as_str().into()),
        ]);
        Json::Object(map).to_text()
    }

    /// Reads a record back; `None` when it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let given = GivenFields(Fields::new(&map));
        let text = Zeroizing::new(given.text("pkcs8").ok()?);
        let pkcs8 = Zeroizing::new(BASE64.decode(text.as_bytes()).ok()?);
        Some(Self {
            id: IssuerId::parse(&given.text("id").ok()?)?,
            name: given.text("name").ok()?,
            is_imported: given.flag("is_imported", false).ok()?,
            private: Arc::new(PrivateKey::from_pkcs8(&pkcs8).ok()?),
        })
    }

    /// What it shows of itself.
    pub(super) fn shown(&self) -> Map {
        object([
            ("key_id", self.id.to_string().into()),
            ("key_name", self.name.as_str().into()),
            ("key_type", self.private.kind().type_name().into()),
        ])
    }

    /// Its public half.
    pub(super) fn public(&self) -> &PublicKey {
        self.private.public()
    }
}
