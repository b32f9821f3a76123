//! `assignment/NAME`: who may log in to a client.

use kallisto_api::{Error, Fields, Response};
use kallisto_engine::Call;
use kallisto_identity_tokens::client::OauthClient;
use kallisto_identity_tokens::settings::{ALLOW_ALL, ASSIGNED_MAX, Assignment};

use super::records::{self, ASSIGNMENTS, RecordOrDefault, USES};

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    records::list(&call, ASSIGNMENTS, Some(ALLOW_ALL))
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let found = Assignment::find(&call.context, records::name_of(&call)?)?;
    Ok(Response::data(&found.ok_or(Error::NotFound)?.shown()))
}

/// Ids in lower case, as they are kept.
fn ids(fields: Fields<'_>, name: &str) -> Result<Option<Vec<String>>, Error> {
    let ids = records::texts(fields, name)?;
    if ids.as_ref().is_some_and(|ids| ids.len() > ASSIGNED_MAX) {
        return Err(Error::invalid(format!("{name} has more than {ASSIGNED_MAX} entries")));
    }
    Ok(ids.map(|ids| ids.into_iter().map(|id| id.to_ascii_lowercase()).collect()))
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    if name == ALLOW_ALL {
        return Err(Error::invalid(format!("modification of assignment {name:?} not allowed")));
    }
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let (entities, groups) = (ids(fields, "entity_ids")?, ids(fields, "group_ids")?);
    if Assignment::find(&call.context, name)?.is_none() {
        records::admit(call.storage, ASSIGNMENTS)?;
    }
    let now = records::now(&call.context);
    let record = format!("{ASSIGNMENTS}{name}");
    let written = call.storage.transact(&record, |transaction| {
        let mut found = Assignment::find_in(transaction, name, now)?.unwrap_or_default();
        found.entity_ids = entities.clone().unwrap_or(found.entity_ids);
        found.group_ids = groups.clone().unwrap_or(found.group_ids);
        transaction.put(&record, found.shown().to_text())
    });
    written.await?;
    Ok(Response::Empty)
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    if name == ALLOW_ALL {
        return Err(Error::invalid(format!("deletion of assignment {name:?} not allowed")));
    }
    let record = format!("{ASSIGNMENTS}{name}");
    let deleted = call.storage.transact(&record, |transaction| {
        transaction.get(USES)?;
        let all = OauthClient::all(&call.context)?.into_iter();
        let users = all.filter(|(_, client)| client.assignments.iter().any(|one| one == name));
        let users: Vec<String> = users.map(|(name, _)| name).collect();
        if !users.is_empty() {
            return Err(Error::invalid(format!(
                "unable to delete assignment {name:?} because it is currently referenced by these \
                 clients: {}",
                users.join(", ")
            )));
        }
        transaction.delete(&record)
    });
    deleted.await?;
    Ok(Response::Empty)
}
