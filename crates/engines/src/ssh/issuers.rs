//! The routes of issuers: making and taking in CAs, naming, reading and deleting them.

use std::sync::Arc;

use kallisto_api::json::{Json, Map};
use kallisto_api::response::Logical;
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::{Call, Transaction};
use kallisto_ssh::SshSigningKey;

use super::issuer::{IssuersConfig, SshIssuer, SshKeySource, check_name};
use super::memory::{ISSUERS, SshMemory, SshState};
use super::refuse;

/// Most issuers of a mount.
const ISSUERS_MAX: usize = 1024;

pub(super) fn record(id: &str) -> String {
    format!("issuer/{id}")
}

fn data(data: Map, warnings: Vec<String>) -> Response {
    let data = Json::Object(data).to_text();
    Response::Logical(Logical { data, warnings, ..Logical::default() })
}

/// An answer that says nothing but warnings.
fn nothing(warnings: Vec<String>) -> Response {
    if warnings.is_empty() {
        return Response::Empty;
    }
    Response::Logical(Logical { warnings, ..Logical::default() })
}

/// Changes issuers, as `decide` wants it of what there is; it decides again when another change was faster.
async fn change<T: Send>(
    call: &Call<'_>,
    mut decide: impl FnMut(&SshState, &mut IssuersConfig, &mut Transaction<'_>) -> Result<T, Error>
    + Send,
) -> Result<T, Error> {
    let memory: &SshMemory = call.memory()?;
    let decided = call.storage.transact(ISSUERS, |transaction| {
        // Read before what is decoded: that is as of this generation or later, and if later, this does not commit.
        let mut config = match transaction.get(ISSUERS)? {
            Some(record) => record.decode(IssuersConfig::decode)?,
            None => IssuersConfig::default(),
        };
        let decided = decide(&memory.read(), &mut config, transaction)?;
        config.generation += 1;
        transaction.put(ISSUERS, config.encode())?;
        Ok(decided)
    });
    decided.await
}

/// How many roles name an issuer by a text.
fn referring(state: &SshState, reference: &str) -> Option<String> {
    let roles = state.roles.values().filter_map(|role| role.ca());
    let count = roles.filter(|ca| ca.issuer_ref == reference).count();
    (count > 0 && !reference.is_empty()).then(|| format!("{count} roles reference '{reference}'"))
}

fn check_free(state: &SshState, name: &str, own: &str) -> Result<(), Error> {
    check_name(name)?;
    let taken = state.issuers.values().any(|issuer| issuer.name == name && issuer.id != own);
    if taken { Err(Error::invalid("issuer name already in use")) } else { Ok(()) }
}

async fn add(call: &Call<'_>, name: &str, sets_default: bool) -> Result<Response, Error> {
    let body = call.request.object()?;
    let source = SshKeySource::read(Fields::new(&body))?;
    if !name.is_empty() {
        // Before the key is made, which may take seconds.
        check_free(&call.memory::<SshMemory>()?.read(), name, "")?;
    }
    let key = match source {
        SshKeySource::Given(key) => *key,
        SshKeySource::Made(kind) => {
            call.run_heavy(move || SshSigningKey::make(kind)).await?.map_err(refuse)?
        }
    };
    let issuer = SshIssuer { id: call.random.make_uuid()?, name: name.to_owned(), key };
    change(call, |state, config, transaction| {
        if state.issuers.len() >= ISSUERS_MAX {
            return Err(Error::invalid(format!("more than {ISSUERS_MAX} issuers")));
        }
        if !name.is_empty() {
            check_free(state, name, "")?;
        }
        if sets_default {
            config.default.clone_from(&issuer.id);
        }
        transaction.put(&record(&issuer.id), issuer.encode(name))
    })
    .await?;
    Ok(data(issuer.shown(), Vec::new()))
}

pub(super) async fn configure(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let name = Fields::new(&body).string("issuer_name")?.unwrap_or_default();
    add(&call, name.trim(), true).await
}

pub(super) async fn submit(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let said = fields.string("issuer_name")?.unwrap_or_default();
    let name = match call.params.get("issuer_name") {
        "" => said.trim(),
        name => name,
    };
    add(&call, name, fields.boolean("set_default")?.unwrap_or(false)).await
}

/// The issuer that a text names.
fn find(call: &Call<'_>, reference: &str) -> Result<Arc<SshIssuer>, Error> {
    call.memory::<SshMemory>()?.read().issuer(reference)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    Ok(data(find(&call, call.params.get("ref"))?.shown(), Vec::new()))
}

pub(super) async fn read_default(call: Call<'_>) -> Result<Response, Error> {
    Ok(data(find(&call, "default")?.shown(), Vec::new()))
}

fn line(issuer: &SshIssuer) -> Response {
    let body = issuer.key.public().line().into_bytes();
    Response::Text { code: 200, content_type: "text/plain", body }
}

pub(super) async fn public_key(call: Call<'_>) -> Result<Response, Error> {
    find(&call, call.params.get("ref")).map(|issuer| line(&issuer))
}

pub(super) async fn default_public_key(call: Call<'_>) -> Result<Response, Error> {
    find(&call, "default").map(|issuer| line(&issuer))
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    let page = call.page()?;
    let memory: &SshMemory = call.memory()?;
    let state = memory.read();
    let later = state.issuers.iter().filter(|(id, _)| page.after.as_ref() < Some(*id));
    let found: Vec<_> = later.take(page.limit.unwrap_or(usize::MAX)).collect();
    if found.is_empty() {
        return Err(Error::NotFound);
    }
    let info = found.iter().map(|(id, issuer)| {
        let mut shown = issuer.shown();
        shown.remove("issuer_id");
        shown.insert("is_default".to_owned(), (state.config.default == **id).into());
        ((*id).clone(), Json::Object(shown))
    });
    let info: Map = info.collect();
    let keys = Json::strings(found.iter().map(|(id, _)| id.as_str()));
    Ok(Response::data(&Json::object([("key_info", info.into()), ("keys", keys)])))
}

pub(super) async fn rename(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = Fields::new(&body).string("issuer_name")?;
    let name = given.as_deref().map(str::trim);
    if name == Some("") {
        return Err(Error::invalid("expected non-empty issuer name"));
    }
    // What is not said is replaced too: an issuer without a name.
    let name = name.unwrap_or_default();
    let (id, warnings) = change(&call, |state, _, transaction| {
        let issuer = state.issuer(call.params.get("ref"))?;
        if !name.is_empty() {
            check_free(state, name, &issuer.id)?;
        }
        transaction.put(&record(&issuer.id), issuer.encode(name))?;
        let warning = referring(state, &issuer.name).filter(|_| issuer.name != name);
        Ok((issuer.id.clone(), warning.into_iter().collect()))
    })
    .await?;
    Ok(data(find(&call, &id)?.shown(), warnings))
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let reference = call.params.get("ref");
    let warnings = change(&call, |state, config, transaction| {
        let Ok(issuer) = state.issuer(reference) else { return Ok(Vec::new()) };
        let mut warnings: Vec<String> = [&issuer.name, &issuer.id]
            .into_iter()
            .filter_map(|text| referring(state, text))
            .collect();
        if config.default == issuer.id {
            config.default.clear();
            warnings.push(format!(
                "Deleted issuer {} (via issuer_ref {reference}); this was configured as the default \
                 issuer. Operations without an explicit issuer will not work until a new default is \
                 configured.",
                issuer.id
            ));
            warnings.extend(referring(state, "default"));
        }
        transaction.delete(&record(&issuer.id))?;
        Ok(warnings)
    });
    Ok(nothing(warnings.await?))
}

/// Deletes every issuer. It says nothing: clients that know Vault take no other answer than 204 for done.
pub(super) async fn purge(call: Call<'_>) -> Result<Response, Error> {
    change(&call, |state, config, transaction| {
        config.default.clear();
        state.issuers.keys().try_for_each(|id| transaction.delete(&record(id)))
    })
    .await?;
    Ok(Response::Empty)
}

pub(super) async fn read_config(call: Call<'_>) -> Result<Response, Error> {
    let default = call.memory::<SshMemory>()?.read().config.default.clone();
    if default.is_empty() {
        return Err(Error::invalid("no default issuer currently configured"));
    }
    Ok(Response::data(&Json::object([("default", default.into())])))
}

pub(super) async fn write_config(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = Fields::new(&body).string("default")?.unwrap_or_default();
    let reference = given.trim();
    if reference.is_empty() || reference.eq_ignore_ascii_case("default") {
        return Err(Error::invalid(
            "Invalid issuer specification; must be non-empty and can't be 'default'.",
        ));
    }
    let id = change(&call, |state, config, _| {
        config.default.clone_from(&state.issuer(reference)?.id);
        Ok(config.default.clone())
    });
    Ok(Response::data(&Json::object([("default", id.await?.into())])))
}
