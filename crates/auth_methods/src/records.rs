//! What most login methods keep: one configuration, and roles by name, edited alike.

use crate::names::role_name;
use kallisto_api::error::Error;
use kallisto_api::fields::Fields;
use kallisto_api::json::{self, Json, Map};
use kallisto_api::response::Response;
use kallisto_engine::Call;
use kallisto_engine::Storage;
use kallisto_engine::TokenParams;
use kallisto_engine::pattern::Params;

/// The name of the record of a configuration.
const CONFIG: &str = "config";

/// A record that is written by fields and shown as a map.
pub(super) trait FieldsRecord: Sized {
    /// Reads the stored bytes; `None` when they are damaged.
    fn decode(bytes: &[u8]) -> Option<Self>;

    /// The bytes to store.
    fn encode(&self) -> Vec<u8>;

    /// What is shown of it.
    fn shown(&self) -> Map;

    /// Tells it what it is called, before it is shown.
    fn named(self, _name: &str) -> Self {
        self
    }

    /// The record as these fields make it of the one before.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the field that cannot be taken.
    fn written(before: Option<Self>, fields: Fields<'_>) -> Result<Self, Error>;
}

/// A role: whom a method lets in, and what tokens they get. It is stored as it is shown.
pub(super) trait RoleFields: Default {
    /// Applies the method's own fields that are there.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the field that cannot be taken.
    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error>;

    /// Whether the role may be stored as it is.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what is wrong with it.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The role as it is shown.
    fn to_map(&self) -> Map;

    /// What its tokens get.
    fn params_mut(&mut self) -> &mut TokenParams;

    /// Tells it what it is called, for what it takes from that.
    fn call(&mut self, _name: &str) {}
}

impl<R: RoleFields> FieldsRecord for R {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let mut role = Self::default();
        role.take(Fields::new(&map)).ok()?;
        *role.params_mut() = TokenParams::decode(&map).ok()?;
        Some(role)
    }

    fn encode(&self) -> Vec<u8> {
        Json::Object(self.to_map()).to_text()
    }

    fn shown(&self) -> Map {
        self.to_map()
    }

    fn named(mut self, name: &str) -> Self {
        self.call(name);
        self
    }

    fn written(before: Option<Self>, fields: Fields<'_>) -> Result<Self, Error> {
        let mut role = before.unwrap_or_default();
        role.take(fields)?;
        role.params_mut().update(fields)?;
        role.check()?;
        Ok(role)
    }
}

/// The configuration of a method, if it has one.
pub(super) fn config<R: FieldsRecord>(storage: &Storage<'_>) -> Result<Option<R>, Error> {
    load(storage, CONFIG)
}

/// Shows the configuration.
pub(super) fn read_config<R: FieldsRecord>(run: &Call<'_>) -> Result<Response, Error> {
    show::<R>(&run.storage, CONFIG)
}

/// Writes the configuration.
pub(super) async fn write_config<R: FieldsRecord>(run: &Call<'_>) -> Result<Response, Error> {
    write::<R>(run, CONFIG).await
}

/// Writes the configuration that `after` makes of the one before.
pub(super) async fn write_config_as<R: FieldsRecord>(
    run: &Call<'_>,
    after: impl Fn(Option<R>) -> Result<R, Error> + Sync,
) -> Result<Response, Error> {
    write_as(run, CONFIG, after).await
}

/// Where the roles of a method are in its engine storage.
#[derive(Clone, Copy)]
pub(super) struct Roles {
    /// With its ending slash.
    pub(super) folder: &'static str,
}

impl Roles {
    /// The role called `name`; `None` too for what is no name.
    pub(super) fn load<R: FieldsRecord>(
        self,
        storage: &Storage<'_>,
        name: &str,
    ) -> Result<Option<R>, Error> {
        match role_name(name) {
            Ok(name) => load(storage, &format!("{}{name}", self.folder)),
            Err(_) => Ok(None),
        }
    }

    /// Lists the names of the roles.
    pub(super) fn list(self, run: &Call<'_>) -> Result<Response, Error> {
        run.list(self.folder)
    }

    /// Shows the role that the path names.
    pub(super) fn read<R: FieldsRecord>(self, run: &Call<'_>) -> Result<Response, Error> {
        show::<R>(&run.storage, &self.record(run.params)?)
    }

    /// Writes the role that the path names.
    pub(super) async fn write<R: FieldsRecord>(self, run: &Call<'_>) -> Result<Response, Error> {
        write::<R>(run, &self.record(run.params)?).await
    }

    /// Deletes the role that the path names.
    pub(super) async fn delete(self, run: &Call<'_>) -> Result<Response, Error> {
        run.storage.delete(&self.record(run.params)?).await.map(|()| Response::Empty)
    }

    /// The record of the role that a path names.
    pub(super) fn record(self, params: Params<'_>) -> Result<String, Error> {
        Ok(format!("{}{}", self.folder, role_name(params.get("role"))?))
    }
}

fn load<R: FieldsRecord>(storage: &Storage<'_>, record: &str) -> Result<Option<R>, Error> {
    storage.get(record)?.map(|found| found.decode(R::decode)).transpose()
}

fn show<R: FieldsRecord>(storage: &Storage<'_>, record: &str) -> Result<Response, Error> {
    let found: R = load(storage, record)?.ok_or(Error::NotFound)?;
    let name = record.rsplit('/').next().unwrap_or_default();
    Ok(Response::data(&found.named(name).shown().into()))
}

async fn write<R: FieldsRecord>(run: &Call<'_>, record: &str) -> Result<Response, Error> {
    let body = run.request.object()?;
    write_as(run, record, |before| R::written(before, Fields::new(&body))).await
}

async fn write_as<R: FieldsRecord>(
    run: &Call<'_>,
    record: &str,
    after: impl Fn(Option<R>) -> Result<R, Error> + Sync,
) -> Result<Response, Error> {
    let changing = run.storage.transact(record, |transaction| {
        let before = transaction.get(record)?;
        let before = before.map(|found| found.decode(R::decode)).transpose()?;
        transaction.put(record, after(before)?.encode())
    });
    changing.await.map(|()| Response::Empty)
}
