//! Signing: keys that are handed in, and keys that are made here.

use std::sync::Arc;

use kallisto_api::json::{Json, Map};
use kallisto_api::response::Logical;
use kallisto_api::{Error, Fields, Response, Span};
use kallisto_engine::Call;
use kallisto_ssh::{CertificateKind, OptionMap, RsaHash, SshContents, SshPublicKey, SshSigningKey};

use super::issuer::{SshIssuer, issued_kind};
use super::memory::SshMemory;
use super::role::{CaRole, SshRole, options};
use super::{principals, refuse, roles};
use crate::identity_template::{fill, is_template};

const SKIPPED: &str = "default_extension templating enabled with at least one extension requiring identity templating. \
     However, this request lacked identity entity information, causing one or more extensions to be \
     skipped from the generated certificate.";

/// What a certificate will say of everything but its key.
struct CertificateDraft {
    issuer: Arc<SshIssuer>,
    kind: CertificateKind,
    principals: Vec<String>,
    /// `None` for that of the role.
    key_id: Option<String>,
    lives_secs: u64,
    critical_options: OptionMap,
    extensions: OptionMap,
    rsa_hash: RsaHash,
    warnings: Vec<String>,
}

fn kind(role: &CaRole, fields: Fields<'_>) -> Result<CertificateKind, Error> {
    let name = fields.string("cert_type")?;
    match name.as_deref().unwrap_or("user") {
        "user" if role.allows_users => Ok(CertificateKind::User),
        "host" if role.allows_hosts => Ok(CertificateKind::Host),
        name @ ("user" | "host") => {
            Err(Error::invalid(format!("cert_type '{name}' is not allowed by role")))
        }
        _ => Err(Error::invalid("cert_type must be either 'user' or 'host'")),
    }
}

/// How long a certificate is good: as long as is asked for, or as long as the role or the mount says, but no longer than either allows.
fn lives_secs(call: &Call<'_>, role: &CaRole, fields: Fields<'_>) -> Result<u64, Error> {
    let asked = fields.span("ttl")?;
    if asked.is_some_and(Span::is_negative) {
        return Err(Error::invalid("ttl cannot be negative"));
    }
    let asked = asked.map_or(0, |span| span.secs().unsigned_abs());
    let first = |choices: [u64; 2]| choices.into_iter().find(|secs| *secs > 0).unwrap_or(0);
    let max = first([role.max_ttl_secs, call.mount.max_lease_secs]);
    if asked > max {
        return Err(Error::invalid(format!("ttl is larger than maximum allowed {max}")));
    }
    let default = first([role.ttl_secs, call.mount.default_lease_secs]).min(max);
    Ok(first([asked, default]))
}

/// The names of a list that are not allowed, as clients know them.
fn unlisted(options: &OptionMap, allowed: &[String]) -> Option<String> {
    let unlisted: Vec<&str> =
        options.keys().filter(|name| !allowed.contains(name)).map(String::as_str).collect();
    (!unlisted.is_empty()).then(|| unlisted.join(" "))
}

fn critical_options(role: &CaRole, fields: Fields<'_>) -> Result<OptionMap, Error> {
    let given = options(fields, "critical_options")?;
    if given.is_empty() {
        return Ok(role.default_critical_options.clone());
    }
    match unlisted(&given, &role.critical_options) {
        Some(names) if !role.critical_options.is_empty() => {
            Err(Error::invalid(format!("critical options not on allowed list: [{names}]")))
        }
        _ => Ok(given),
    }
}

/// The extensions, and whether one was left out because who asks has not what it stands for.
fn extensions(
    call: &Call<'_>,
    role: &CaRole,
    fields: Fields<'_>,
) -> Result<(OptionMap, bool), Error> {
    let given = options(fields, "extensions")?;
    if !given.is_empty() {
        let allows_any = matches!(role.extensions.as_slice(), [only] if only == "*");
        return match unlisted(&given, &role.extensions) {
            Some(names) if !allows_any => {
                Err(Error::invalid(format!("extensions [{names}] are not on allowed list")))
            }
            _ => Ok((given, false)),
        };
    }
    if !role.extensions_are_templates {
        return Ok((role.default_extensions.clone(), false));
    }
    let mut filled = OptionMap::new();
    for (name, value) in &role.default_extensions {
        let text = match is_template(value) {
            true => fill(value, call.identity, |value| !value.chars().any(char::is_control)),
            false => Some(value.clone()),
        };
        if let Some(text) = text {
            filled.insert(name.clone(), text);
        }
    }
    let is_short = filled.len() < role.default_extensions.len();
    Ok((filled, is_short))
}

/// The key id that a role gives: its format, with each place filled in once.
fn key_id(call: &Call<'_>, format: &str, public: &SshPublicKey) -> String {
    let display_name = call.caller.map_or("", |caller| caller.display_name.as_str());
    let format = match (format, display_name) {
        ("", "") => "vault-{{public_key_hash}}",
        ("", _) => "vault-{{token_display_name}}-{{public_key_hash}}",
        (format, _) => format,
    };
    let mut id = String::new();
    let mut left = format;
    while let Some((before, rest)) = left.split_once("{{") {
        id.push_str(before);
        let place = rest.split_once("}}");
        let (value, after) = match place {
            Some(("token_display_name", after)) => (display_name.to_owned(), after),
            Some(("role_name", after)) => (call.params.get("role").to_owned(), after),
            Some(("public_key_hash", after)) => (public.hash(), after),
            _ => ("{{".to_owned(), rest),
        };
        id.push_str(&value);
        left = after;
    }
    id.push_str(left);
    id
}

impl CertificateDraft {
    /// Decides on everything but the key.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what the role does not allow.
    fn of(call: &Call<'_>, role: &CaRole, fields: Fields<'_>) -> Result<Self, Error> {
        let key_id = fields.string("key_id")?.filter(|id| !id.is_empty());
        if key_id.is_some() && !role.allows_key_ids {
            return Err(Error::invalid("setting key_id is not allowed by role"));
        }
        let kind = kind(role, fields)?;
        let principals = principals::decide(call, role, kind, fields)?;
        let lives_secs = lives_secs(call, role, fields)?;
        let critical_options = critical_options(role, fields)?;
        let (extensions, is_short) = extensions(call, role, fields)?;
        let issuer = call.memory::<SshMemory>()?.read().issuer(&role.issuer_ref)?;
        let warnings = if is_short { vec![SKIPPED.to_owned()] } else { Vec::new() };
        let rsa_hash = role.rsa_hash;
        Ok(Self {
            issuer,
            kind,
            principals,
            key_id,
            lives_secs,
            critical_options,
            extensions,
            rsa_hash,
            warnings,
        })
    }

    /// Signs it for a key: the data of the answer, and what is to be warned of.
    async fn sign(
        self,
        call: &Call<'_>,
        role: &CaRole,
        public: SshPublicKey,
    ) -> Result<(Map, Vec<String>), Error> {
        let key_id = self.key_id.unwrap_or_else(|| key_id(call, &role.key_id_format, &public));
        let mut drawn = [0; 40];
        call.random.fill(&mut drawn)?;
        let (mut serial, mut nonce) = ([0; 8], [0; 32]);
        serial.copy_from_slice(&drawn[..8]);
        nonce.copy_from_slice(&drawn[8..]);
        let now = u64::try_from(call.now.as_second()).unwrap_or(0);
        let contents = SshContents {
            public,
            serial: u64::from_be_bytes(serial),
            kind: self.kind,
            key_id,
            principals: self.principals,
            valid_after: now.saturating_sub(role.not_before_secs),
            valid_before: now.saturating_add(self.lives_secs),
            critical_options: self.critical_options,
            extensions: self.extensions,
            nonce,
        };
        let number = format!("{:x}", contents.serial);
        let (issuer, rsa_hash) = (Arc::clone(&self.issuer), self.rsa_hash);
        let work = move || contents.sign(&issuer.key, rsa_hash);
        let signed = match self.issuer.key.signs_slowly() {
            true => call.run_heavy(work).await?,
            false => work(),
        };
        let line = signed.map_err(refuse)?.line();
        let fields = [
            ("issuer_id", self.issuer.id.as_str()),
            ("serial_number", &number),
            ("signed_key", &line),
        ];
        let data = fields.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
        Ok((data.collect(), self.warnings))
    }
}

fn answer((data, warnings): (Map, Vec<String>)) -> Response {
    let data = Json::Object(data).to_text();
    Response::Logical(Logical { data, warnings, ..Logical::default() })
}

/// What a role allows to be signed; `does` is what it is asked to do.
fn ca<'r>(role: &'r SshRole, does: &str) -> Result<&'r CaRole, Error> {
    role.ca().ok_or_else(|| {
        Error::invalid(format!("role key type '{}' not allowed to {does}", role.key_type()))
    })
}

pub(super) async fn sign(call: Call<'_>) -> Result<Response, Error> {
    let role = roles::find(&call)?;
    let role =
        role.ok_or_else(|| Error::invalid(format!("Unknown role: {}", call.params.get("role"))))?;
    let role = ca(&role, "sign public keys")?;
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let text = fields.string("public_key")?.unwrap_or_default();
    if text.is_empty() {
        return Err(Error::invalid("missing public_key"));
    }
    let public = SshPublicKey::parse(&text).map_err(|error| match refuse(error) {
        Error::Invalid(why) => {
            Error::invalid(format!("failed to parse public_key as SSH key: {why}"))
        }
        other => other,
    })?;
    role.check_key(&public)?;
    let draft = CertificateDraft::of(&call, role, fields)?;
    draft.sign(&call, role, public).await.map(answer)
}

pub(super) async fn issue(call: Call<'_>) -> Result<Response, Error> {
    let role = roles::find(&call)?;
    let role =
        role.ok_or_else(|| Error::invalid(format!("unknown role: {}", call.params.get("role"))))?;
    let role = ca(&role, "issue key pairs")?;
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let kind = issued_kind(fields)?;
    role.check_kind(kind)?;
    let draft = CertificateDraft::of(&call, role, fields)?;
    let made = call.run_heavy(move || SshSigningKey::make(kind)).await?.map_err(refuse)?;
    let (mut data, warnings) = draft.sign(&call, role, made.public().clone()).await?;
    let private = made.to_pem().map_err(refuse)?;
    data.insert("private_key".to_owned(), private.as_str().into());
    data.insert("private_key_type".to_owned(), kind.type_name().into());
    Ok(answer((data, warnings)))
}
