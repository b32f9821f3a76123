//! The rows of ACME: the same for each kind of directory, and those of its settings.
//!
//! What a client of ACME asks takes no token: requests are signed. Handing out keys for external account bindings, and the settings, take a policy.

use kallisto_engine::FieldKind::{Flag, Span as Seconds, Text, Texts};
use kallisto_engine::route::{AFTER, Field, LIMIT, field};
use kallisto_engine::{Admits, Handler, Row, handler, row};

use super::exchange::{SignedBy, directory, new_nonce, open, refuse_get, signed};
use super::{accounts, challenges, config, eab, finalize, orders, revoke};

const REF: Field = field("ref", Text, "An issuer: its id, its name, or `default`.");
const ROLE: Field = field("role", Text, "The name of the role.");
const KID: Field = field("kid", Text, "The id of the account.");
const ID: Field = field("id", Text, "The id.");
const TYPE: Field = field("type", Text, "`http-01`, `dns-01` or `tls-alpn-01`.");
const WHICH: Field = field("chain", Text, "The number of the chain, from 1.");
const PROTECTED: Field = field("protected", Text, "The protected header of the JWS.");
const PAYLOAD: Field = field("payload", Text, "The payload of the JWS; empty to read.");
const SIGNATURE: Field = field("signature", Text, "The signature of the JWS.");

/// A row of signed requests.
macro_rules! signed_row {
    ($pattern:expr, [$($field:expr),*], $about:expr, $by:expr, $serve:path) => {
        row!($pattern, &[$($field,)* PROTECTED, PAYLOAD, SIGNATURE], {
            Update => $about, handler!(async |call| {
                signed(call, $by, |acme, request| Box::pin($serve(acme, request))).await
            });
            Read => "Refused: what ACME keeps is read by POST-as-GET.", handler!(async |call| {
                open(call, refuse_get).await
            });
        } .admitting(Admits::Anyone))
    };
}

/// The rows of a kind of directory.
macro_rules! directory_rows {
    ($prefix:literal, [$($field:expr),*]) => {
        &[
            row!(concat!($prefix, "acme/directory"), &[$($field),*], {
                Read => "Read the directory of ACME.", handler!(async |call| open(call, directory).await);
            } .admitting(Admits::Anyone).light()),
            row!(concat!($prefix, "acme/new-nonce"), &[$($field),*], {
                Read => "Have a fresh nonce, in a header.", handler!(async |call| open(call, new_nonce).await);
            } .admitting(Admits::Anyone).light()),
            signed_row!(concat!($prefix, "acme/new-account"), [$($field),*],
                "Make an account, or find it.", SignedBy::Key, accounts::new),
            signed_row!(concat!($prefix, "acme/account/{kid}"), [$($field,)* KID],
                "Read, change or deactivate an account.", SignedBy::Account, accounts::update),
            signed_row!(concat!($prefix, "acme/account/{kid}/orders"), [$($field,)* KID],
                "List the orders of an account.", SignedBy::Account, orders::list),
            signed_row!(concat!($prefix, "acme/key-change"), [$($field),*],
                "Give an account another key.", SignedBy::Account, accounts::change_key),
            signed_row!(concat!($prefix, "acme/new-order"), [$($field),*],
                "Make an order.", SignedBy::Account, orders::new),
            signed_row!(concat!($prefix, "acme/orders"), [$($field),*],
                "List the orders of the account that asks.", SignedBy::Account, orders::list),
            signed_row!(concat!($prefix, "acme/order/{id}"), [$($field,)* ID],
                "Read an order.", SignedBy::Account, orders::read),
            signed_row!(concat!($prefix, "acme/order/{id}/finalize"), [$($field,)* ID],
                "Have the certificate of an order issued.", SignedBy::Account, finalize::finalize),
            signed_row!(concat!($prefix, "acme/order/{id}/cert"), [$($field,)* ID],
                "Read the certificate of an order, with its chain.", SignedBy::Account, finalize::certificate),
            signed_row!(concat!($prefix, "acme/order/{id}/cert/{chain}"), [$($field,)* ID, WHICH],
                "Read the certificate of an order, with another chain.", SignedBy::Account, finalize::certificate),
            signed_row!(concat!($prefix, "acme/authorization/{id}"), [$($field,)* ID],
                "Read or deactivate an authorization.", SignedBy::Account, orders::authorization),
            signed_row!(concat!($prefix, "acme/challenge/{id}/{type}"), [$($field,)* ID, TYPE],
                "Say that a challenge is ready, or read it.", SignedBy::Account, challenges::respond),
            signed_row!(concat!($prefix, "acme/revoke-cert"), [$($field),*],
                "Revoke a certificate.", SignedBy::AccountOrKey, revoke::revoke),
            row!(concat!($prefix, "acme/new-eab"), &[$($field),*], {
                Update => "Hand out a key for an external account binding.", handler!(eab::make);
            }),
        ]
    };
}

/// Those of the mount's default policy.
pub(in crate::pki) const AT_MOUNT: &[Row<Handler>] = directory_rows!("", []);
/// Those of a role.
pub(in crate::pki) const AT_ROLE: &[Row<Handler>] = directory_rows!("roles/{role}/", [ROLE]);
/// Those of an issuer.
pub(in crate::pki) const AT_ISSUER: &[Row<Handler>] = directory_rows!("issuer/{ref}/", [REF]);
/// Those of an issuer and a role.
pub(in crate::pki) const AT_ISSUER_ROLE: &[Row<Handler>] =
    directory_rows!("issuer/{ref}/roles/{role}/", [REF, ROLE]);

/// Settings and keys.
pub(in crate::pki) const SETTINGS: &[Row<Handler>] = &[
    row!("config/acme", &[
        field("enabled", Flag, "Whether there is ACME; it takes `path` in `config/cluster`."),
        field("default_directory_policy", Text, "`sign-verbatim`, `forbid` or `role:NAME`."),
        field("allowed_roles", Texts, "The roles that have directories; `*` for all."),
        field("allowed_issuers", Texts, "The issuers that sign; `*` for all."),
        field("allow_role_ext_key_usage", Flag, "Whether the role says what keys are for, instead of serverAuth."),
        field("eab_policy", Text, "`not-required`, `new-account-required` or `always-required`."),
        field("dns_resolver", Text, "The address and port that resolves names; empty for the machine's."),
        field("challenge_permitted_ip_ranges", Texts, "The only ranges that challenges are looked at in."),
        field("challenge_excluded_ip_ranges", Texts, "Ranges that they are never looked at in."),
        field("max_ttl", Seconds, "How long certificates are good at the most."),
    ], {
        Read => "Read the settings of ACME.", handler!(config::read);
        Update => "Change the settings of ACME.", handler!(config::write);
    }),
    row!("eab", &[AFTER, LIMIT], {
        List => "List the keys for external account bindings that no account has yet.", handler!(eab::list);
    }),
    row!("eab/{id}", &[ID], {
        Delete => "Delete a key for an external account binding.", handler!(eab::delete);
    }),
];
