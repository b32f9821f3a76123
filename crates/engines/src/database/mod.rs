//! Databases: users that are made for a caller and dropped with its lease, and users whose passwords change by themselves.
//!
//! In the mount's storage, a record each, as JSON:
//!
//! ```text
//! config/NAME        a connection: what an operator gave, its password, and a pending one while it is changed
//! role/NAME          how users are made
//! static-role/NAME   a user that is there: its password, a pending one, when it is rotated next
//! ```
//!
//! ```text
//! connection   which database, as whom; changing its own password
//! url          connection URLs
//! tls          TLS with databases
//! role         roles, and `creds`: their users and leases
//! static_role  static roles, and what is done by the clock
//! schedule     cron
//! scram        passwords that PostgreSQL is not told
//! statements   how statements are given
//! sql          quoting, in one place
//! work         what a database is asked for, by kind of database
//! memory       what is due
//! ```
//!
//! Invariants:
//! - What drops a user is committed before the database is asked for it.
//! - A password is written down before the database is told it, and the one before it stays until the database took the new one.
//! - No value reaches a statement but by `sql::fill`.
//! - No answer has a password of a connection, and no error any password.

mod connection;
mod credential;
mod creds;
mod memory;
mod role;
mod root;
mod schedule;
mod scram;
mod sql;
mod statements;
mod static_role;
#[cfg(test)]
mod tests;
mod tls;
mod url;

mod work;

#[cfg(any(test, feature = "fuzz"))]
pub use sql::fill_hostile;

use kallisto_engine::FieldKind::{Flag, Map, Span as Seconds, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Field, LIMIT, ServedBy, field, query};
use kallisto_engine::{
    EngineJob, EngineLeases, EngineSpec, Handler, RouteRows, RowIndex, handler, row,
};

use crate::leased;

/// Most bytes of the statements of a kind: those of revocation are kept with each lease.
const STATEMENTS_BYTES_MAX: usize = 32 << 10;

const NAME: Field = field("name", Text, "The name.");
const CONFIG: &[Field] = &[
    NAME,
    field(
        "plugin_name",
        Text,
        "Which kind of database: `postgresql-database-plugin`, `mysql-database-plugin`, `mariadb-database-plugin`, `redis-database-plugin` or `valkey-database-plugin`.",
    ),
    field("plugin_version", Text, "Kept and shown; what speaks with a database is built in."),
    field(
        "verify_connection",
        Flag,
        "Whether the database is logged in to before the connection is stored; it is unless this says no.",
    ),
    field("allowed_roles", Texts, "The roles that may use it, with `*` for anything."),
    field("root_rotation_statements", Texts, "What changes the password of the connection."),
    field("password_policy", Text, "The policy that passwords are made by."),
    field("connection_url", Text, "Where it is, with `{{username}}` and `{{password}}`."),
    field("username", Text, "Who logs in."),
    field("password", Text, "With which password; never shown."),
    field("username_template", Text, "How names of users are made."),
    field("max_open_connections", Whole, "Most sessions at once; 8 when nobody says."),
    field(
        "max_idle_connections",
        Whole,
        "Most sessions that wait for work; as many as there may be when nobody says.",
    ),
    field(
        "max_connection_lifetime",
        Seconds,
        "How long a session is used; 0 for as long as it lasts.",
    ),
    field("connect_timeout", Seconds, "How long a host is tried; 5 seconds when nobody says."),
    field("disable_escaping", Flag, "Kept and shown; no password is ever put into a URL."),
    field("host", Text, "The host of Redis or Valkey."),
    field("port", Whole, "Its port; 6379 when nobody says."),
    field("tls", Flag, "Whether TLS is spoken with Redis, Valkey or MySQL."),
    field("insecure_tls", Flag, "Whether no certificate is checked then."),
    field("tls_skip_verify", Flag, "The same."),
    field("ca_cert", Text, "The authorities to believe, in PEM."),
    field("tls_ca", Text, "The same."),
    field("tls_certificate", Text, "A certificate for us, in PEM."),
    field("tls_certificate_key", Text, "Its key, and the certificate if it is in the same text."),
    field("private_key", Text, "Its key."),
    field("tls_server_name", Text, "The name that the certificate of the database is for."),
    field(
        "persistence_mode",
        Text,
        "How users of Redis outlive its restart: `NONE`, `REWRITE` or `ACLFILE`.",
    ),
    field(
        "password_authentication",
        Text,
        "`scram-sha-256` tells PostgreSQL verifiers of passwords; `password`, the passwords.",
    ),
    query("force", Flag, leased::FORCE),
];
const ROLE: &[Field] = &[
    NAME,
    field("db_name", Text, "The connection."),
    field(
        "creation_statements",
        Texts,
        "What makes a user: SQL with `{{name}}`, `{{password}}`, `{{expiration}}`, or a JSON list of ACL rules.",
    ),
    field(
        "revocation_statements",
        Texts,
        "What drops a user; what fits the database when nobody says.",
    ),
    field("rollback_statements", Texts, "What takes back a failed creation."),
    field("renew_statements", Texts, "What lets a user live longer."),
    field("default_ttl", Seconds, "How long a user lives; 0 for what the mount says."),
    field("max_ttl", Seconds, "How long at the most; 0 for what the mount says."),
    field("credential_type", Text, "`password`, `rsa_private_key` or `client_certificate`."),
    field(
        "credential_config",
        Map,
        "`password_policy`; `key_bits` and `format` of keys; `ca_cert`, `ca_private_key`, `key_type`, `key_bits`, `signature_bits`, `common_name_template` of certificates.",
    ),
];
const STATIC_ROLE: &[Field] = &[
    NAME,
    field("db_name", Text, "The connection."),
    field("username", Text, "The user, which is there already."),
    field("rotation_period", Seconds, "How often its password changes."),
    field(
        "rotation_schedule",
        Text,
        "When its password changes: `minute hour day month weekday`, in UTC.",
    ),
    field("rotation_window", Seconds, "How long after a time of the schedule it may still begin."),
    field(
        "rotation_statements",
        Texts,
        "What sets a password; what fits the database when nobody says.",
    ),
    field(
        "skip_import_rotation",
        Flag,
        "Whether the password is left as it is until the first rotation.",
    ),
    field("credential_type", Text, "`password`."),
    field("credential_config", Map, "`password_policy`."),
];

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "database",
    tag: "secrets",
    about: "Users of databases that end with their leases, and passwords that change by themselves.",
    index: RowIndex::new(),
    groups: &[
        &[
            row!("config", &[AFTER, LIMIT], { List => "List the connections.", handler!(connection::list) }),
            row!("config/{name}", CONFIG, {
                Read => "Read a connection, without its password.", handler!(connection::read);
                Update => "Make or change a connection.", handler!(connection::write);
                Delete => "Delete a connection.", handler!(creds::delete_connection);
            }.creating(|to| Some(connection::record_name(to.name("name")?)))),
            row!("reset/{name}", &[NAME], {
                Update => "Close the sessions of a connection.", handler!(connection::reset);
            }),
            row!("reload/{plugin_name}", &[field("plugin_name", Text, "The kind of database.")], {
                Update => "Close the sessions of all connections of a kind.", handler!(connection::reload);
            }),
            row!("rotate-root/{name}", &[NAME], {
                Update => "Change the password of a connection to one that nobody else knows.", handler!(root::rotate_root);
            }),
        ],
        &[
            row!("roles", &[AFTER, LIMIT], { List => "List the roles.", handler!(role::list) }),
            row!("roles/{name}", ROLE, {
                Read => "Read a role.", handler!(role::read);
                Update => "Make or change a role.", handler!(role::write);
                Delete => "Delete a role.", handler!(role::delete);
            }.creating(|to| Some(role::record_name(to.name("name")?)))),
            row!("creds/{name}", &[NAME], {
                Read => "Make a user, with a lease.", handler!(creds::make);
            }),
        ],
        &[
            row!("static-roles", &[AFTER, LIMIT], { List => "List the static roles.", handler!(static_role::list) }),
            row!("static-roles/{name}", STATIC_ROLE, {
                Read => "Read a static role.", handler!(static_role::read);
                Update => "Make or change a static role; one that is new is rotated.", handler!(static_role::write);
                Delete => "Delete a static role; its user stays.", handler!(static_role::delete);
            }.creating(|to| Some(static_role::record_name(to.name("name")?)))),
            row!("static-creds/{name}", &[NAME], {
                Read => "Read the password of a static role.", handler!(static_role::creds);
            }.served_by(ServedBy::Leader)),
            row!("rotate-role/{name}", &[NAME], {
                Update => "Change the password of a static role now.", handler!(static_role::rotate);
            }),
        ],
    ],
};

/// The engine.
pub(crate) static ENGINE: EngineSpec = EngineSpec {
    memory: Some(|| Box::new(memory::Database::default())),
    jobs: &[EngineJob {
        name: "rotate",
        about: "Changes passwords of static roles that are due, and settles changes of root passwords that a crash left open.",
        period_secs: 1,
        run: |context| Box::pin(static_role::work_off(context)),
    }],
    leases: Some(EngineLeases {
        revoke: |call| Box::pin(creds::end_lease(call)),
        renew: |call, ends| Box::pin(creds::renew_lease(call, ends)),
        role_ttl: |call| creds::role_ttl(&call),
    }),
    ..EngineSpec::secret("database", &ROUTES)
};
