//! SSH: a CA that signs keys of users and hosts, and one-time passwords.
//!
//! What keys and certificates are is `kallisto_ssh`'s matter, which is pure; here is what is kept, and who may have what. A role is of
//! one of two types: `ca` signs public keys ([`sign`]), `otp` hands out passwords that the helper on the host asks about ([`otp`]).
//!
//! In the mount's storage, a record each:
//!
//! ```text
//! issuer/ID            a CA's private key, and its name
//! role/NAME            what may be signed, or who may log in where
//! otp/HASH             a one-time password by its keyed hash: address, user, role and end
//! config/issuers       which issuer is the default; every change of issuers writes it
//! config/zeroaddress   the roles that are good for any address
//! ```
//!
//! Invariants:
//! - A certificate has principals, but where its role allows it to have none.
//! - What a role is given of identity never allows more than the literal text would.
//! - A one-time password is deleted by the transaction that finds it: of any number who show it at once, one is told that it was good.
//! - No answer holds a private key but that to its making, and no record holds a one-time password.

mod issuer;
mod issuers;
mod memory;
mod otp;
#[cfg(test)]
mod otp_tests;
mod principals;
mod role;
mod roles;
mod sign;
#[cfg(test)]
mod tests;

use std::any::Any;

use kallisto_api::Error;
use kallisto_engine::FieldKind::{Flag, Map, Span as Seconds, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Field, LIMIT, ServedBy, field};
use kallisto_engine::{
    Admits, EngineLeases, EngineSpec, Handler, Memory, RoleTtl, RouteRows, RowIndex, handler, row,
};

const ROLE: Field = field("role", Text, "The name of the role.");
const REF: Field = field("ref", Text, "An issuer: its id, its name, or `default`.");
const ISSUER_NAME: Field = field("issuer_name", Text, "A name for the issuer.");
const IP: Field = field("ip", Text, "The address of the host.");

const SUBMIT: &[Field] = &[
    ISSUER_NAME,
    field("private_key", Text, "The private key of the CA, in PEM and without a passphrase."),
    field("public_key", Text, "Its public key."),
    field("generate_signing_key", Flag, "Whether the server makes the key."),
    field(
        "key_type",
        Text,
        "`ssh-rsa`, `ecdsa-sha2-nistp256`, `-nistp384`, `-nistp521` or `ssh-ed25519`.",
    ),
    field("key_bits", Whole, "Bits of a key of `rsa` or `ec`; 0 for the usual ones."),
    field("set_default", Flag, "Whether it becomes the default issuer."),
];

const WANTED: &[Field] = &[
    ROLE,
    field("public_key", Text, "The key that is signed, as a line of its file."),
    field("key_type", Text, "The type of a key that is made: `rsa`, `ec` or `ed25519`."),
    field("key_bits", Whole, "Its bits; 0 for the usual ones."),
    field("valid_principals", Texts, "The users or hosts that it is good for."),
    field("cert_type", Text, "`user` or `host`."),
    field("ttl", Seconds, "How long it is good."),
    field("key_id", Text, "What servers write in their logs."),
    field("critical_options", Map, "Critical options, with their values."),
    field("extensions", Map, "Extensions, with their values."),
];

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "ssh",
    tag: "secrets",
    about: "Signs keys of users and hosts, and hands out one-time passwords.",
    index: RowIndex::new(),
    groups: &[
        &[
            row!("config/ca", SUBMIT, {
                Read => "Read the default issuer.", handler!(issuers::read_default);
                Update => "Make or take in a CA, and let it be the default.", handler!(issuers::configure);
                Delete => "Delete every issuer.", handler!(issuers::purge);
            }),
            row!("config/issuers", &[field("default", Text, "The issuer.")], {
                Read => "Read which issuer is the default.", handler!(issuers::read_config);
                Update => "Set which issuer is the default.", handler!(issuers::write_config);
            }),
            row!("issuers", &[AFTER, LIMIT], { List => "List the issuers.", handler!(issuers::list) }),
            row!("issuers/import", SUBMIT, {
                Update => "Make or take in a CA.", handler!(issuers::submit);
            }),
            row!("issuers/import/{issuer_name}", SUBMIT, {
                Update => "Make or take in a CA of this name.", handler!(issuers::submit);
            }),
            row!("issuer/{ref}", &[REF, ISSUER_NAME], {
                Read => "Read an issuer.", handler!(issuers::read);
                Update => "Name an issuer.", handler!(issuers::rename);
                Delete => "Delete an issuer with its key.", handler!(issuers::delete);
            }),
            row!("public_key", &[], {
                Read => "Read the public key of the default issuer.", handler!(issuers::default_public_key);
            } .admitting(Admits::Anyone).light()),
            row!("issuer/{ref}/public_key", &[REF], {
                Read => "Read the public key of an issuer.", handler!(issuers::public_key);
            } .admitting(Admits::Anyone).light()),
        ],
        &[
            row!("roles", &[AFTER, LIMIT], { List => "List the roles.", handler!(roles::list) }),
            row!("roles/{role}", role::FIELDS, {
                Read => "Read a role.", handler!(roles::read);
                Update => "Make or replace a role.", handler!(roles::write);
                Delete => "Delete a role.", handler!(roles::delete);
            }),
            row!("config/zeroaddress", &[field("roles", Texts, "Roles of type `otp`.")], {
                Read => "Read which roles are good for any address.", handler!(roles::read_zero_address);
                Update => "Set which roles are good for any address.", handler!(roles::write_zero_address);
                Delete => "Let no role be good for any address.", handler!(roles::delete_zero_address);
            }),
        ],
        &[
            row!("sign/{role}", WANTED, { Update => "Sign a public key.", handler!(sign::sign) }),
            row!("issue/{role}", WANTED, {
                Update => "Make a key and sign it.", handler!(sign::issue);
            }),
        ],
        &[
            row!("creds/{role}", &[ROLE, IP, field("username", Text, "The user on the host.")], {
                Update => "Make a one-time password.", handler!(otp::make);
            } .light()),
            row!("lookup", &[IP], {
                Update => "List the roles that are good for an address.", handler!(otp::look_up);
            } .served_by(ServedBy::LeaderOrRecentView)),
            row!("verify", &[field("otp", Text, "The one-time password.")], {
                Update => "Take a one-time password: the helper on the host asks this.", handler!(otp::verify);
            } .admitting(Admits::Anyone).light()),
            row!("tidy/dynamic-keys", &[], {
                Delete => "Remove host keys of a type of role that there is no more: none are kept.", handler!(otp::tidy);
            }),
        ],
    ],
};

/// Whether a signature takes a moment only: not with a key of RSA.
fn is_light(memory: &dyn Memory, path: &str) -> bool {
    let Some(name) = path.strip_prefix("sign/") else { return false };
    let memory: Option<&memory::SshMemory> = (memory as &dyn Any).downcast_ref();
    memory.is_some_and(|memory| {
        let state = memory.read();
        let role = state.roles.get(name.trim_end_matches('/'));
        let issuer = role.and_then(|role| role.ca()).map(|ca| state.issuer(&ca.issuer_ref));
        matches!(issuer, Some(Ok(issuer)) if !issuer.key.signs_slowly())
    })
}

/// What the pure part says, as an answer to a client.
fn refuse(error: kallisto_ssh::Error) -> Error {
    match error {
        kallisto_ssh::Error::Invalid(why) => Error::Invalid(why),
        kallisto_ssh::Error::Machine(what) => Error::internal(&what),
    }
}

/// The engine.
pub(crate) static ENGINE: EngineSpec = EngineSpec {
    memory: Some(|| Box::new(memory::SshMemory::default())),
    light: Some(is_light),
    leases: Some(EngineLeases {
        revoke: |call| Box::pin(otp::end_lease(call)),
        renew: |_, _| {
            let refused = Error::invalid("lease is not renewable");
            Box::pin(std::future::ready(Err(refused)))
        },
        role_ttl: |_| Ok(RoleTtl::default()),
    }),
    ..EngineSpec::secret("ssh", &ROUTES)
};
