//! Directories: entries that are made for a caller and deleted with its lease, passwords of entries that change by themselves, and a library
//! of entries that are lent.
//!
//! In the mount's storage, a record each, as JSON:
//!
//! ```text
//! config             which directory, as whom; a pending password while it is changed
//! role/NAME          how entries are made and deleted
//! static-role/NAME   an entry that is there: its password, a pending one, when it is rotated next
//! library/NAME       a set of entries that are lent
//! account/NAME       one of them: its password, a pending one, who has it
//! managed/NAME       what an entry belongs to
//! ```
//!
//! ```text
//! directory    the configuration, asking, and changing its own password
//! rotation     entries whose passwords change, and the job
//! static_role  entries whose passwords change by the clock
//! role         dynamic roles, and `creds`: their entries and leases
//! library      sets, lending and taking back
//! memory       what is due
//! ```
//!
//! Invariants:
//! - What deletes an entry is committed before the directory is asked to make it.
//! - A password is written down before the directory is told it, and the one before it stays until the directory took the new one.
//! - An entry belongs to one static role or one set, however its name is spelled; that of `binddn` belongs to none.
//! - An account is lent to one borrower; it is lent again after its password was changed.

mod directory;
mod library;
mod memory;
mod role;
mod rotation;
mod static_role;
#[cfg(test)]
mod tests;

use kallisto_api::Error;
use kallisto_engine::FieldKind::{Flag, Span as Seconds, Text, Texts};
use kallisto_engine::route::{AFTER, Field, LIMIT, ServedBy, field, query};
use kallisto_engine::{
    EngineJob, EngineLeases, EngineSpec, Handler, LeaseCall, RoleTtl, RouteRows, RowIndex, handler,
    row,
};

use crate::leased;

const NAME: Field = field("name", Text, "The name.");
const ACCOUNTS: Field = field("service_account_names", Texts, "The accounts, by `userattr`.");
const CONFIG: &[Field] = &[
    field(
        "url",
        Text,
        "`ldap://HOST:PORT` or `ldaps://HOST:PORT`, several with commas between, tried in order.",
    ),
    field("starttls", Flag, "Whether TLS begins on an open connection."),
    field("insecure_tls", Flag, "Whether no certificate is checked."),
    field("certificate", Text, "The authorities to believe, as PEM."),
    field("client_tls_cert", Text, "A certificate for us, as PEM."),
    field("client_tls_key", Text, "Its key, as PEM; never shown."),
    field("tls_min_version", Text, "`tls12` or `tls13`."),
    field("tls_max_version", Text, "`tls12` or `tls13`."),
    field("binddn", Text, "The entry that makes, changes and deletes others."),
    field("bindpass", Text, "Its password; never shown."),
    field("userdn", Text, "Below which entry accounts are looked for."),
    field(
        "userattr",
        Text,
        "The attribute that accounts are called by; what fits the schema when nobody says.",
    ),
    field("upndomain", Text, "Kept and shown."),
    field("schema", Text, "How passwords are set: `openldap`, `ad` or `racf`."),
    field("password_policy", Text, "The policy that passwords are made by."),
    field(
        "skip_static_role_import_rotation",
        Flag,
        "Whether static roles keep the password of their entry until the first rotation.",
    ),
    field("request_timeout", Seconds, "How long a request to the directory takes at the most."),
    field("connection_timeout", Seconds, "How long a connection is tried for."),
    query("force", Flag, leased::FORCE),
];
const ROLE: &[Field] = &[
    NAME,
    field(
        "creation_ldif",
        Text,
        "What makes an entry: LDIF with `{{.Username}}` and `{{.Password}}`.",
    ),
    field("deletion_ldif", Text, "What deletes it."),
    field("rollback_ldif", Text, "What takes back a creation that failed half-way."),
    field("username_template", Text, "How names of entries are made."),
    field("default_ttl", Seconds, "How long an entry lives; 0 for what the mount says."),
    field("max_ttl", Seconds, "How long at the most; 0 for what the mount says."),
];
const STATIC_ROLE: &[Field] = &[
    NAME,
    field("username", Text, "What the entry is called by."),
    field("dn", Text, "The name of the entry; it is searched for when nobody says."),
    field("rotation_period", Seconds, "How often its password changes."),
    field(
        "skip_import_rotation",
        Flag,
        "Whether the password is left as it is until the first rotation.",
    ),
];
const SET: &[Field] = &[
    NAME,
    ACCOUNTS,
    field("ttl", Seconds, "How long an account is lent; 24 hours when nobody says."),
    field("max_ttl", Seconds, "How long with all renewals; 24 hours when nobody says."),
    field("disable_check_in_enforcement", Flag, "Whether anybody may give an account back."),
];

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "ldap",
    tag: "secrets",
    about: "Entries of directories that end with their leases, passwords that change by themselves, accounts that are lent.",
    index: RowIndex::new(),
    groups: &[
        &[
            row!("config", CONFIG, {
                Read => "Read which directory it is, without secrets.", handler!(directory::read);
                Update => "Change which directory it is.", handler!(directory::write);
                Delete => "Forget the directory.", handler!(directory::delete);
            }.creating(|_| Some(directory::RECORD.to_owned()))),
            row!("rotate-root", &[], {
                Update => "Change the password of `binddn` to one that nobody else knows.", handler!(directory::rotate_root);
            }),
        ],
        &[
            row!("static-role", &[AFTER, LIMIT], { List => "List the static roles.", handler!(static_role::list) }),
            row!("static-role/{name}", STATIC_ROLE, {
                Read => "Read a static role.", handler!(static_role::read);
                Update => "Make or change a static role; one that is new is rotated.", handler!(static_role::write);
                Delete => "Delete a static role; its entry stays.", handler!(static_role::delete);
            }.creating(|to| Some(static_role::record_name(to.name("name")?)))),
            row!("static-cred/{name}", &[NAME], {
                Read => "Read the password of a static role.", handler!(static_role::creds);
            }.served_by(ServedBy::Leader)),
            row!("rotate-role/{name}", &[NAME], {
                Update => "Change the password of a static role now.", handler!(static_role::rotate);
            }),
        ],
        &[
            row!("role", &[AFTER, LIMIT], { List => "List the roles.", handler!(role::list) }),
            row!("role/{name}", ROLE, {
                Read => "Read a role.", handler!(role::read);
                Update => "Make or change a role.", handler!(role::write);
                Delete => "Delete a role.", handler!(role::delete);
            }.creating(|to| Some(role::record_name(to.name("name")?)))),
            row!("creds/{name}", &[NAME], { Read => "Make an entry, with a lease.", handler!(role::make) }),
        ],
        &[
            row!("library", &[AFTER, LIMIT], { List => "List the sets.", handler!(library::list) }),
            row!("library/{name}", SET, {
                Read => "Read a set.", handler!(library::read);
                Update => "Make or change a set; accounts that are new in it get other passwords.", handler!(library::write);
                Delete => "Delete a set whose accounts are all there.", handler!(library::delete);
            }.creating(|to| Some(library::record_name(to.name("name")?)))),
            row!("library/{name}/status", &[NAME], { Read => "Tell which accounts are lent.", handler!(library::status) }),
            row!("library/{name}/check-out", &[NAME, field("ttl", Seconds, "How long; at most the set's.")], {
                Update => "Borrow an account, with a lease.", handler!(library::check_out);
            }),
            row!("library/{name}/check-in", &[NAME, ACCOUNTS], {
                Update => "Give back what the caller borrowed.", handler!(library::check_in);
            }),
            row!("library/manage/{name}/check-in", &[NAME, ACCOUNTS], {
                Update => "Take back what anybody borrowed.", handler!(library::force_check_in);
            }),
        ],
    ],
};

/// The engine.
pub(crate) static ENGINE: EngineSpec = engine("ldap");
/// The same under its older name.
pub(crate) static OPENLDAP_ENGINE: EngineSpec = engine("openldap");

const fn engine(name: &'static str) -> EngineSpec {
    EngineSpec {
        memory: Some(|| Box::new(memory::LdapMemory::default())),
        jobs: &[EngineJob {
            name: "rotate",
            about: "Changes passwords that are due, and settles those whose change a crash left open.",
            period_secs: 1,
            run: |context| Box::pin(rotation::work_off(context)),
        }],
        leases: Some(EngineLeases {
            revoke: |call| Box::pin(end_lease(call)),
            renew: |call, _| Box::pin(renew_lease(call)),
            role_ttl: |call| role_ttl(&call),
        }),
        ..EngineSpec::secret(name, &ROUTES)
    }
}

async fn end_lease(call: LeaseCall<'_>) -> Result<(), Error> {
    match library::Loan::decode(call.revocation) {
        Some(loan) => library::end_loan(&call, &loan).await,
        None => role::end_lease(&call).await,
    }
}

async fn renew_lease(call: LeaseCall<'_>) -> Result<(), Error> {
    match library::Loan::decode(call.revocation) {
        Some(loan) => library::renew_loan(&call, &loan),
        None => role::renew_lease(&call),
    }
}

fn role_ttl(call: &LeaseCall<'_>) -> Result<RoleTtl, Error> {
    match library::Loan::decode(call.revocation) {
        Some(loan) => library::loan_ttl(call, &loan),
        None => role::lease_ttl(call),
    }
}

/// Names of accounts, which have any characters, as names of records.
fn encoded(name: &str) -> String {
    data_encoding::HEXLOWER.encode(name.to_lowercase().as_bytes())
}
