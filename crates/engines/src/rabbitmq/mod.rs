//! RabbitMQ: users that are made for a caller by the management interface, and deleted with its lease.
//!
//! In the mount's storage, a record each, as JSON:
//!
//! ```text
//! config/connection   where the management interface is, and as whom
//! config/lease        how long users live
//! role/NAME           what users may do
//! ```
//!
//! Invariants:
//! - What deletes a user is committed before the broker is asked to make it.
//! - No answer and no error has the password of the connection or of a user.

mod broker;
mod role;
#[cfg(test)]
mod tests;

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::FieldKind::{Flag, Span as Seconds, Text};
use kallisto_engine::route::{AFTER, Field, LIMIT, field};
use kallisto_engine::{
    Call, EngineLeases, EngineSpec, Handler, RoleTtl, RouteRows, RowIndex, Storage, handler, row,
};

const LEASE: &str = "config/lease";

const NAME: Field = field("name", Text, "The name.");

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "rabbitmq",
    tag: "secrets",
    about: "Users of RabbitMQ that end with their leases.",
    index: RowIndex::new(),
    groups: &[&[
        row!("config/connection", &[
            field("connection_uri", Text, "Where the management interface is: `http` or `https`, host and port."),
            field("username", Text, "Who asks there: a user with the tag `administrator`."),
            field("password", Text, "With which password; never shown."),
            field("ca_cert", Text, "The authorities to believe, as PEM."),
            field("verify_connection", Flag, "Whether the broker is asked before the connection is stored; it is unless this says no."),
            field("password_policy", Text, "The policy that passwords are made by."),
            field("username_template", Text, "How names of users are made."),
        ], { Update => "Set how the broker is asked.", handler!(broker::write) }),
        row!("config/lease", &[
            field("ttl", Seconds, "How long a user lives; 0 for what the mount says."),
            field("max_ttl", Seconds, "How long at the most; 0 for what the mount says."),
        ], {
            Read => "Read how long users live.", handler!(read_lease);
            Update => "Set how long users live.", handler!(write_lease);
        }),
        row!("roles", &[AFTER, LIMIT], { List => "List the roles.", handler!(role::list) }),
        row!("roles/{name}", &[
            NAME,
            field("tags", Text, "Tags of users, with commas between."),
            field("vhosts", Text, "JSON: what users may configure, write and read in each virtual host."),
            field("vhost_topics", Text, "JSON: what they may write and read of topics, by virtual host and exchange."),
        ], {
            Read => "Read a role.", handler!(role::read);
            Update => "Make or change a role.", handler!(role::write);
            Delete => "Delete a role.", handler!(role::delete);
        }),
        row!("creds/{name}", &[NAME], { Read => "Make a user, with a lease.", handler!(role::make) }),
    ]],
};

/// The engine.
pub(crate) static ENGINE: EngineSpec = EngineSpec {
    leases: Some(EngineLeases {
        revoke: |call| Box::pin(role::end_lease(call)),
        // The broker knows of no end.
        renew: |_, _| Box::pin(std::future::ready(Ok(()))),
        role_ttl: |call| lease_secs(&call.storage),
    }),
    ..EngineSpec::secret("rabbitmq", &ROUTES)
};

/// How long users live, in seconds: at first, and at the most.
fn lease_secs(storage: &Storage<'_>) -> Result<RoleTtl, Error> {
    let Some(found) = storage.get(LEASE)? else { return Ok(RoleTtl::default()) };
    found.decode_object(|map| {
        let secs = |name: &str| span_secs(Fields::new(map), name);
        Ok(RoleTtl { default_secs: secs("ttl")?, max_secs: secs("max_ttl")? })
    })
}

fn span_secs(fields: Fields<'_>, name: &str) -> Result<u64, Error> {
    let secs = fields.span(name)?.map_or(0, |span| span.secs());
    u64::try_from(secs).map_err(|_| Error::invalid(format!("{name} is negative")))
}

async fn read_lease(call: Call<'_>) -> Result<Response, Error> {
    call.storage.get(LEASE)?.ok_or(Error::NotFound)?;
    let lives = lease_secs(&call.storage)?;
    let shown = [("max_ttl", lives.max_secs.into()), ("ttl", lives.default_secs.into())];
    Ok(Response::data(&Json::object(shown)))
}

async fn write_lease(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let (ttl, max_ttl) = (span_secs(fields, "ttl")?, span_secs(fields, "max_ttl")?);
    if max_ttl > 0 && ttl > max_ttl {
        return Err(Error::invalid("ttl is longer than max_ttl"));
    }
    let map = Map::from([("ttl".to_owned(), ttl.into()), ("max_ttl".to_owned(), max_ttl.into())]);
    call.storage.put(LEASE, Json::Object(map).to_text()).await?;
    Ok(Response::Empty)
}
