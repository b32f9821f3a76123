//! The routes of issuers: listing, reading, changing, taking in and taking out.

use std::collections::BTreeMap;
use std::sync::Arc;

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Response};
use kallisto_engine::Call;
use kallisto_pki::certificate::ParsedCertificate;
use kallisto_pki::pem::{self, Label};
use kallisto_pki::{PrivateKey, SignatureAlgorithm, SignatureWish};
use zeroize::Zeroizing;

use super::answer;
use super::generate::NO_URLS;
use super::given::{GivenFields, object, refuse};
use super::ids::{IssuerId, ListScope};
use super::issuer::{Issuer, IssuerUsage, Outliving, PkiKey};
use super::memory::{Pki, PkiState, is_default};
use super::settings::templates_fail;
use super::structure::{StructureChange, change};

/// Shortest text that may be a bundle.
const BUNDLE_BYTES_MIN: usize = 75;

const IS_DEFAULT: &str = "This issuer is currently configured as the default issuer for this mount; operations such as \
     certificate issuance may not work until a new default issuer is selected.";
const IS_SELF_SIGNED: &str = "This issuer is a self-signed (potentially root) certificate. This means it may not be considered \
     revoked if there is not an external, cross-signed variant of this certificate. This issuer's \
     serial number will not appear on its own CRL.";
const HAS_NO_PARENT: &str = "This issuer lacks another parent issuer within the mount. This means it will not appear on any \
     other CRLs and may not be considered revoked by clients. Consider adding this issuer to its \
     issuer's CRL as well if it is not self-signed.";
const ROOT_DELETED: &str = "DELETE /root deletes all keys and issuers; prefer the new DELETE /key/:key_ref and DELETE \
     /issuer/:issuer_ref for finer granularity, unless removal of all keys and issuers is desired.";

/// A page of ids: those after one, as many as are asked for.
pub(super) fn page<'a, T>(
    call: &Call<'_>,
    all: &'a BTreeMap<IssuerId, T>,
) -> Result<Vec<(&'a IssuerId, &'a T)>, Error> {
    let page = call.page()?;
    let later = all.iter().filter(|(id, _)| {
        page.after.as_ref().is_none_or(|after| id.to_string().as_str() > after.as_str())
    });
    Ok(later.take(page.limit.unwrap_or(usize::MAX)).collect())
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    let found = page(&call, &state.issuers)?;
    if found.is_empty() {
        return Err(Error::NotFound);
    }
    let info = found.iter().map(|(id, issuer)| {
        let info = object([
            ("is_default", (state.issuer_defaults.default == Some(**id)).into()),
            ("issuer_name", issuer.name.as_str().into()),
            ("key_id", issuer.key.map_or_else(String::new, |id| id.to_string()).into()),
            ("serial_number", issuer.certificate.serial.to_string().into()),
        ]);
        (id.to_string(), Json::Object(info))
    });
    let info: Map = info.collect();
    let keys = Json::strings(found.iter().map(|(id, _)| id.to_string()));
    Ok(answer::data(object([("key_info", info.into()), ("keys", keys)]), Vec::new()))
}

fn shown(state: &PkiState, issuer: &Arc<Issuer>) -> Map {
    let mut map = issuer.shown();
    let chain = state.chain(issuer);
    map.insert("ca_chain".to_owned(), Json::strings(chain.iter().map(|one| one.pem())));
    map
}

fn shown_by_id(call: &Call<'_>, id: IssuerId, warnings: Vec<String>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    let issuer = state.issuers.get(&id).ok_or(Error::NotFound)?;
    Ok(answer::data(shown(&state, issuer), warnings))
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    let issuer = state.issuer(call.params.get("ref"))?;
    Ok(answer::data(shown(&state, &issuer), Vec::new()))
}

/// What a request says of an issuer. Fields that it leaves out are as they were in a patch, and as they are in a new one else; so are those
/// that are null in a patch.
fn changed(
    change: &StructureChange<'_, '_>,
    issuer: &Issuer,
    given: GivenFields<'_>,
    patches: bool,
) -> Result<Issuer, Error> {
    let mut new = issuer.clone();
    let takes = |name: &str| !patches || given.names(name);
    if takes("issuer_name") {
        let name = given.text("issuer_name")?;
        if !name.is_empty() {
            change.check_issuer_name(&name, Some(issuer.id))?;
        } else if !patches && given.has("issuer_name") {
            return Err(Error::invalid("expected non-empty issuer name"));
        }
        new.name = name;
    }
    if takes("leaf_not_after_behavior") {
        new.outliving = Outliving::named(&given.text("leaf_not_after_behavior")?)?;
    }
    if takes("usage") {
        new.usage = match given.list_given("usage")? {
            Some(names) => IssuerUsage::read(&names)?,
            None => IssuerUsage::ALL,
        };
        if new.usage.issues && issuer.revoked_at.is_some() {
            return Err(Error::invalid(
                "This issuer was revoked; unable to modify its usage to include certificate \
                 signing again. Reissue this certificate (preferably with a new key) and modify \
                 that entry instead.",
            ));
        }
    }
    if takes("manual_chain") {
        let references = given.list("manual_chain")?;
        new.manual_chain = match references.is_empty() {
            true => None,
            false => Some(manual_chain(change.state, issuer, &references)?),
        };
    }
    if takes("revocation_signature_algorithm") {
        let name = given.text("revocation_signature_algorithm")?;
        new.crl_algorithm = match name.as_str() {
            "" => None,
            name => Some(crl_algorithm(issuer, name)?),
        };
    }
    new.urls.reset(|name| takes(name) && !given.has(name), "enable_aia_url_templating");
    new.urls.update(given, "enable_aia_url_templating")?;
    Ok(new)
}

/// The algorithm of a name, if the issuer's key signs by it.
fn crl_algorithm(issuer: &Issuer, name: &str) -> Result<SignatureAlgorithm, Error> {
    let found = SignatureAlgorithm::named(name).ok_or_else(|| {
        Error::invalid(format!("unknown value for revocation_signature_algorithm: {name}"))
    })?;
    match issuer.certificate.public.kind() {
        Some(kind) if !found.is_for(kind) => Err(Error::invalid(format!(
            "revocation_signature_algorithm {name} does not go with the key of the issuer: one of \
             a curve signs by the hash of its curve alone, {}",
            SignatureAlgorithm::choose(kind, SignatureWish::default()).name()
        ))),
        _ => Ok(found),
    }
}

fn manual_chain(
    state: &PkiState,
    issuer: &Issuer,
    refs: &[String],
) -> Result<Vec<IssuerId>, Error> {
    let mut chain = Vec::new();
    for reference in refs {
        let id = match reference.as_str() {
            "self" => issuer.id,
            other => state.issuer(other)?.id,
        };
        if !chain.contains(&id) {
            chain.push(id);
        }
    }
    if chain.first() != Some(&issuer.id) {
        return Err(Error::invalid(
            "expected first reference in manual_chain to be a self-reference: \"self\" or the \
             issuer itself",
        ));
    }
    Ok(chain)
}

/// What is said of roles that name an issuer so, when it is named so no more.
fn roles_referring(state: &PkiState, name: &str) -> Option<String> {
    let count = state.roles.values().filter(|role| role.issuer_ref == name).count();
    (count > 0 && !name.is_empty()).then(|| format!("{count} roles reference {name}"))
}

async fn update(call: &Call<'_>, body: &Map, patches: bool) -> Result<Response, Error> {
    let given = GivenFields::of(body);
    let updated = change(call, |change| {
        let issuer = change.state.issuer(call.params.get("ref"))?;
        let new = changed(change, &issuer, given, patches)?;
        change.put_issuer(&new)?;
        let mut warnings = Vec::new();
        if new.name != issuer.name {
            warnings.extend(roles_referring(change.state, &issuer.name));
        }
        if !new.urls.is_empty() {
            warnings.extend(templates_fail(change.state, new.id, &new.urls));
        }
        Ok((new.id, warnings))
    });
    let (id, warnings) = updated.await?;
    shown_by_id(call, id, warnings)
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    update(&call, &call.request.object()?, false).await
}

pub(super) async fn patch(call: Call<'_>) -> Result<Response, Error> {
    update(&call, &call.request.merge_patch()?, true).await
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let warnings = change(&call, |change| {
        let Ok(issuer) = change.state.issuer(call.params.get("ref")) else {
            return Ok(Vec::new());
        };
        let is_default = change.state.issuer_defaults.default == Some(issuer.id);
        change.delete_issuer(issuer.id)?;
        let names = [issuer.name.clone(), issuer.id.to_string()];
        let referring = names.iter().filter_map(|name| roles_referring(change.state, name));
        let mut warnings: Vec<String> = referring.collect();
        if is_default {
            warnings.push(format!(
                "Deleted issuer {} (via issuer_ref {}); this was configured as the default issuer. \
                 Operations without an explicit issuer will not work until a new default is \
                 configured.",
                issuer.id,
                call.params.get("ref")
            ));
            warnings.extend(roles_referring(change.state, "default"));
        }
        Ok(warnings)
    });
    Ok(answer::nothing(warnings.await?))
}

/// Deletes all issuers and keys.
pub(super) async fn delete_root(call: Call<'_>) -> Result<Response, Error> {
    change(&call, |change| {
        let issuers: Vec<IssuerId> = change.state.issuers.keys().copied().collect();
        let keys: Vec<IssuerId> = change.state.keys.keys().copied().collect();
        for id in issuers {
            change.delete_issuer(id)?;
        }
        for id in keys {
            change.delete_key(id)?;
        }
        Ok(())
    })
    .await?;
    Ok(answer::nothing(vec![ROOT_DELETED.to_owned()]))
}

/// Takes the right to issue from an issuer; its certificate is revoked by who signed it, if that is here.
pub(super) async fn revoke(call: Call<'_>) -> Result<Response, Error> {
    let now = call.now;
    let (id, warnings, certificate) = change(&call, |change| {
        let issuer = change.state.issuer(call.params.get("ref"))?;
        let certificate = Arc::clone(&issuer.certificate);
        if issuer.revoked_at.is_some() {
            return Ok((issuer.id, Vec::new(), certificate));
        }
        let mut new = (*issuer).clone();
        new.revoked_at = Some(now);
        new.usage.issues = false;
        change.put_issuer(&new)?;
        Ok((issuer.id, revocation_warnings(change.state, issuer.id), certificate))
    })
    .await?;
    super::revoke::revoke_issuer(&call, &certificate).await?;
    shown_by_id(&call, id, warnings)
}

/// What whoever revokes an issuer may not expect.
fn revocation_warnings(state: &PkiState, id: IssuerId) -> Vec<String> {
    let warnings = [
        (state.signers(id).any(|signer| signer == id), IS_SELF_SIGNED),
        (!state.signers(id).any(|signer| signer != id), HAS_NO_PARENT),
        (state.issuer_defaults.default == Some(id), IS_DEFAULT),
    ];
    warnings.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text.to_owned()).collect()
}

/// What is in a bundle.
struct Bundle {
    certificates: Vec<ParsedCertificate>,
    keys: Vec<PrivateKey>,
}

fn bundle(text: &str) -> Result<Bundle, Error> {
    if text.len() < BUNDLE_BYTES_MIN {
        return Err(Error::invalid(
            "provided data for import was too short; perhaps a path was passed to the API rather \
             than the contents of a PEM file",
        ));
    }
    let mut bundle = Bundle { certificates: Vec::new(), keys: Vec::new() };
    for (label, der) in pem::read_bundle(text).map_err(refuse)? {
        match label {
            Label::Certificate => {
                let parsed = ParsedCertificate::from_der(&der).map_err(refuse)?;
                if !bundle.certificates.contains(&parsed) {
                    bundle.certificates.push(parsed);
                }
            }
            label if label.is_private() => {
                bundle.keys.push(PrivateKey::from_pem(label, &der).map_err(refuse)?);
            }
            Label::Request => {
                return Err(Error::invalid("a certificate request is no certificate to import"));
            }
            _ => {}
        }
    }
    if bundle.certificates.is_empty() && bundle.keys.is_empty() {
        return Err(Error::invalid("no certificate and no key was found in the provided data"));
    }
    Ok(bundle)
}

/// What came of an import.
#[derive(Clone, Default)]
struct Imported {
    issuers: Vec<IssuerId>,
    keys: Vec<IssuerId>,
    known_issuers: Vec<IssuerId>,
    known_keys: Vec<IssuerId>,
    mapping: BTreeMap<IssuerId, Option<IssuerId>>,
}

/// Takes in what is in a text; the issuer in it is named, if a name is given.
async fn import(
    call: &Call<'_>,
    text: &str,
    name: &str,
    takes_keys: bool,
) -> Result<Response, Error> {
    let bundle = bundle(text)?;
    if !bundle.keys.is_empty() && !takes_keys {
        return Err(Error::invalid(
            "private keys found in the PEM bundle but not allowed by the path; use \
             /issuers/import/bundle",
        ));
    }
    if let Some(leaf) = bundle.certificates.iter().find(|one| !one.may_sign_certificates()) {
        return Err(Error::invalid(format!(
            "the certificate with serial number {} is no CA's: only CAs can be imported as issuers",
            leaf.serial
        )));
    }
    let mut keys = Vec::new();
    for private in bundle.keys {
        let key = PkiKey {
            id: IssuerId::make(call.random)?,
            name: String::new(),
            is_imported: true,
            private: Arc::new(private),
        };
        keys.push(key);
    }
    let mut certificates = Vec::new();
    for certificate in bundle.certificates {
        certificates.push((IssuerId::make(call.random)?, certificate));
    }
    let imported = change(call, |change| enter(change, &keys, &certificates, name)).await?;
    let ids = |ids: &[IssuerId]| match ids.is_empty() {
        true => Json::Null,
        false => Json::strings(ids.iter().map(IssuerId::to_string)),
    };
    let mapping = imported.mapping.iter().map(|(issuer, key)| {
        let key = key.map_or_else(String::new, |key| key.to_string());
        (issuer.to_string(), Json::from(key))
    });
    let mapping: Map = mapping.collect();
    let data = object([
        ("imported_issuers", ids(&imported.issuers)),
        ("imported_keys", ids(&imported.keys)),
        ("existing_issuers", ids(&imported.known_issuers)),
        ("existing_keys", ids(&imported.known_keys)),
        ("mapping", mapping.into()),
    ]);
    let memory: &Pki = call.memory()?;
    let has_urls = !memory.read().urls.is_empty();
    let warnings = if has_urls { Vec::new() } else { vec![NO_URLS.to_owned()] };
    Ok(answer::data(data, warnings))
}

fn enter(
    change: &mut StructureChange<'_, '_>,
    keys: &[PkiKey],
    certificates: &[(IssuerId, ParsedCertificate)],
    name: &str,
) -> Result<Imported, Error> {
    let mut imported = Imported::default();
    let mut ids_by_spki: BTreeMap<Vec<u8>, IssuerId> = BTreeMap::new();
    for key in keys {
        let spki = key.private.spki().to_vec();
        match change.state.key_of(&spki) {
            Some(known) => imported.known_keys.push(known.id),
            None if ids_by_spki.contains_key(&spki) => {}
            None => {
                change.put_key(key)?;
                imported.keys.push(key.id);
                ids_by_spki.insert(spki, key.id);
            }
        }
    }
    // Issuers that were here without their key have it from now on.
    for issuer in change.state.issuers.values().filter(|issuer| issuer.key.is_none()) {
        if let Some(key) = ids_by_spki.get(issuer.certificate.public.spki()) {
            change.put_issuer(&Issuer { key: Some(*key), ..(**issuer).clone() })?;
            imported.mapping.insert(issuer.id, Some(*key));
        }
    }
    let mut issuers = Vec::new();
    for (id, certificate) in certificates {
        let scope = ListScope::of(&certificate.subject, certificate.public.spki());
        let known = change.state.issuers_of(scope).find(|one| *one.certificate == *certificate);
        let spki = certificate.public.spki();
        let key = ids_by_spki.get(spki).copied();
        let key = key.or_else(|| change.state.key_of(spki).map(|key| key.id));
        if let Some(known) = known {
            imported.known_issuers.push(known.id);
            imported.mapping.insert(known.id, known.key.or(key));
            continue;
        }
        issuers.push(Issuer::new(*id, String::new(), key, certificate.clone()));
        imported.issuers.push(*id);
        imported.mapping.insert(*id, key);
    }
    name_issuer(change, &mut issuers, name)?;
    for issuer in &issuers {
        change.put_new_issuer(issuer)?;
        let certificate = &issuer.certificate;
        change.put_certificate(certificate, signer_scope(change.state, certificate))?;
    }
    Ok(imported)
}

/// Names the new issuer; of several the one that has a key here, which the others are the chain of.
fn name_issuer(
    change: &StructureChange<'_, '_>,
    issuers: &mut [Issuer],
    name: &str,
) -> Result<(), Error> {
    if name.is_empty() || issuers.is_empty() {
        return Ok(());
    }
    change.check_issuer_name(name, None)?;
    let is_one = issuers.len() == 1;
    let mut named = issuers.iter_mut().filter(|issuer| is_one || issuer.key.is_some());
    match (named.next(), named.next()) {
        (Some(issuer), None) => {
            name.clone_into(&mut issuer.name);
            Ok(())
        }
        _ => Err(Error::invalid(
            "issuer_name is the name of one issuer: there are several new ones, and not one that \
             has a key",
        )),
    }
}

/// The scope of who signed a certificate, as far as it is known; its own if it is not.
fn signer_scope(state: &PkiState, certificate: &ParsedCertificate) -> ListScope {
    let mut signers = state.issuers_named(&certificate.issuer).filter(|issuer| {
        certificate.names_as_issuer(&issuer.certificate)
            && certificate.is_signed_by(&issuer.certificate.public)
    });
    let own = ListScope::of(&certificate.subject, certificate.public.spki());
    signers.next().map_or(own, |issuer| issuer.scope)
}

pub(super) async fn set_signed(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let text = given.text("certificate")?;
    if text.is_empty() {
        return Err(Error::invalid("no certificate provided in the \"certificate\" parameter"));
    }
    import(&call, &text, given.text("issuer_name")?.trim(), false).await
}

pub(super) async fn import_bundle(call: Call<'_>) -> Result<Response, Error> {
    import_given(&call, true).await
}

pub(super) async fn import_certificates(call: Call<'_>) -> Result<Response, Error> {
    import_given(&call, false).await
}

async fn import_given(call: &Call<'_>, takes_keys: bool) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let text = Zeroizing::new(given.text("pem_bundle")?);
    import(call, &text, given.text("issuer_name")?.trim(), takes_keys).await
}

// The issuer that is meant when none is named.

fn defaults_shown(state: &PkiState) -> Map {
    object([
        ("default", state.issuer_defaults.default_text().into()),
        ("default_follows_latest_issuer", state.issuer_defaults.follows_latest.into()),
    ])
}

pub(super) async fn read_defaults(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    Ok(answer::data(defaults_shown(&memory.read()), Vec::new()))
}

async fn set_defaults(call: &Call<'_>, usual: &str) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let reference = given.text_or("default", usual)?;
    if reference.is_empty() || is_default(&reference) {
        return Err(Error::invalid(
            "Invalid issuer specification; must be non-empty and can't be 'default'.",
        ));
    }
    let warnings = change(call, |change| {
        let issuer = change.state.issuer(&reference)?;
        let follows = change.state.issuer_defaults.follows_latest;
        let defaults = change.issuer_defaults();
        defaults.default = Some(issuer.id);
        defaults.follows_latest = given.flag("default_follows_latest_issuer", follows)?;
        Ok(match issuer.key {
            Some(_) => Vec::new(),
            None => vec![
                "This selected default issuer has no key associated with it. Some operations like \
                 issuing certificates and signing CRLs will be unavailable with the requested \
                 default issuer until a key is imported or the default issuer is changed."
                    .to_owned(),
            ],
        })
    });
    let warnings = warnings.await?;
    let memory: &Pki = call.memory()?;
    Ok(answer::data(defaults_shown(&memory.read()), warnings))
}

pub(super) async fn write_defaults(call: Call<'_>) -> Result<Response, Error> {
    set_defaults(&call, "").await
}

pub(super) async fn replace_root(call: Call<'_>) -> Result<Response, Error> {
    set_defaults(&call, "next").await
}
