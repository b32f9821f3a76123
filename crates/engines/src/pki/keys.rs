//! The routes of keys: listing, reading, naming, taking in and deleting, and which is the default.

use std::sync::Arc;

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Response};
use kallisto_engine::Call;
use kallisto_pki::PrivateKey;
use kallisto_pki::pem;
use zeroize::Zeroizing;

use super::answer;
use super::given::{GivenFields, object, refuse};
use super::ids::IssuerId;
use super::issuer::{Issuer, PkiKey};
use super::issuers::page;
use super::memory::{Pki, is_default};
use super::structure::change;

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    let found = page(&call, &state.keys)?;
    if found.is_empty() {
        return Err(Error::NotFound);
    }
    let info = found.iter().map(|(id, key)| {
        let info = object([
            ("is_default", (state.key_defaults.default == Some(**id)).into()),
            ("key_name", key.name.as_str().into()),
            ("key_type", key.private.kind().type_name().into()),
        ]);
        (id.to_string(), Json::Object(info))
    });
    let info: Map = info.collect();
    let keys = Json::strings(found.iter().map(|(id, _)| id.to_string()));
    Ok(answer::data(object([("key_info", info.into()), ("keys", keys)]), Vec::new()))
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let key = memory.read().key(call.params.get("ref"))?;
    let mut data = key.shown();
    let id = key.public().key_id();
    let id: Vec<String> = id.iter().map(|byte| format!("{byte:02x}")).collect();
    data.insert("subject_key_id".to_owned(), id.join(":").into());
    Ok(answer::data(data, Vec::new()))
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let name = given.text("key_name")?;
    let key = change(&call, |change| {
        let known = change.state.key(call.params.get("ref"))?;
        if !name.is_empty() {
            change.check_key_name(&name, Some(known.id))?;
        }
        let key = PkiKey { name: name.clone(), ..(*known).clone() };
        change.put_key(&key)?;
        Ok(key)
    });
    Ok(answer::data(key.await?.shown(), Vec::new()))
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.query_fields();
    let forces = GivenFields::of(&body).flag("force", false)?;
    let warnings = change(&call, |change| {
        let Ok(key) = change.state.key(call.params.get("ref")) else { return Ok(Vec::new()) };
        let users = change.state.issuers.values().filter(|issuer| issuer.key == Some(key.id));
        let users: Vec<Arc<Issuer>> = users.cloned().collect();
        if !users.is_empty() && !forces {
            let names: Vec<String> = users.iter().map(|one| one.id.to_string()).collect();
            return Err(Error::invalid(format!(
                "the key is in use by issuers, which could sign nothing without it: {}; delete \
                 them first, or say force=true",
                names.join(", ")
            )));
        }
        for issuer in users {
            change.put_issuer(&Issuer { key: None, ..(*issuer).clone() })?;
        }
        let is_default = change.state.key_defaults.default == Some(key.id);
        change.delete_key(key.id)?;
        Ok(if is_default {
            vec![format!(
                "Deleted key {} (via key_ref {}); this was configured as the default key. \
                 Operations without an explicit key will not work until a new default is \
                 configured.",
                key.id,
                call.params.get("ref")
            )]
        } else {
            Vec::new()
        })
    });
    match warnings.await? {
        none if none.is_empty() => Ok(Response::Empty),
        warnings => Ok(answer::nothing(warnings)),
    }
}

pub(super) async fn import(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let text = Zeroizing::new(given.text("pem_bundle")?);
    let name = given.text("key_name")?;
    let blocks = pem::read_bundle(&text).map_err(refuse)?;
    let [(label, der)] = &blocks[..] else {
        return Err(Error::invalid(
            "only a single key can be present within the bundle for importing",
        ));
    };
    if !label.is_private() {
        return Err(Error::invalid("the pem_bundle for a key import has a key, and nothing else"));
    }
    let private = Arc::new(PrivateKey::from_pem(*label, der).map_err(refuse)?);
    let id = IssuerId::make(call.random)?;
    let (key, is_new) = change(&call, |change| {
        if let Some(known) = change.state.key_of(private.spki()) {
            return Ok(((*known).clone(), false));
        }
        if !name.is_empty() {
            change.check_key_name(&name, None)?;
        }
        let private = Arc::clone(&private);
        let key = PkiKey { id, name: name.clone(), is_imported: true, private };
        let bare: Vec<Arc<Issuer>> = change
            .state
            .issuers
            .values()
            .filter(|one| one.key.is_none())
            .filter(|one| one.certificate.public.spki() == key.private.spki())
            .cloned()
            .collect();
        for issuer in bare {
            change.put_issuer(&Issuer { key: Some(id), ..(*issuer).clone() })?;
        }
        change.put_key(&key)?;
        Ok((key, true))
    })
    .await?;
    let warnings = match is_new {
        true => Vec::new(),
        false => vec!["Key already imported, use key/ endpoint to update name.".to_owned()],
    };
    Ok(answer::data(key.shown(), warnings))
}

pub(super) async fn read_defaults(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let default = memory.read().key_defaults.default_text();
    Ok(answer::data(object([("default", default.into())]), Vec::new()))
}

pub(super) async fn write_defaults(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let reference = GivenFields::of(&body).text("default")?;
    if reference.is_empty() || is_default(&reference) {
        return Err(Error::invalid(
            "Invalid key specification; must be non-empty and can't be 'default'.",
        ));
    }
    change(&call, |change| {
        let key = change.state.key(&reference)?;
        change.key_defaults().default = Some(key.id);
        Ok(())
    })
    .await?;
    read_defaults(call).await
}
