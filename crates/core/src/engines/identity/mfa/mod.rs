//! A second factor for logins: which methods there are, whom they are asked of, and who has which key.
//!
//! Called by the routes at `identity/mfa/` and by [`crate::logins`], which asks [`requirement`] of every good login and [`satisfy()`] of the
//! codes that came for it. What a code is, and how often one may be tried, is said by `kallisto_totp`.
//!
//! In the engine storage of the identity mount: `mfa/method/ID`, `mfa/method-name/NAME` (which names which), `mfa/enforcement/NAME`,
//! `mfa/secret/METHOD/ENTITY` and `mfa/tries/METHOD/ENTITY`; in `mfa/rules` the id of the rule that was written last, in `mfa/methods` of the method that was made last. Methods and rules of a namespace hold in those inside it too; keys are kept
//! beside their method.
//!
//! Invariants:
//! - Every rule is asked, and one that cannot be read refuses the login: nothing here fails open.
//! - A code is good once in the cluster, and so many wrong ones are looked at in a period: both are decided in one transaction.
//! - No answer holds a key but that to its making.

mod enforcements;
mod methods;
mod records;
mod satisfy;
mod secrets;

use kallisto_engine::FieldKind::{Span, Text, Texts, Whole};
use kallisto_engine::route::{Field, field};
use kallisto_engine::{RowGroup, row};

use crate::dispatch::route_handler::{RouteHandler, runs};

pub(crate) use satisfy::{FactorCodes, MfaConstraint, requirement, satisfy};

const METHOD_ID: Field = field("method_id", Text, "The id of the method.");
const OF_A_METHOD: &[Field] = &[
    METHOD_ID,
    field("method_name", Text, "A name for it."),
    field("issuer", Text, "Who the codes are for, as apps show it."),
    field("period", Span, "How long a code is good."),
    field("key_size", Whole, "Bytes of a key."),
    field("qr_size", Whole, "Pixels of a side of the QR code; 0 for none."),
    field("algorithm", Text, "`SHA1`, `SHA256` or `SHA512`."),
    field("digits", Whole, "Digits of a code: 6 or 8."),
    field("skew", Whole, "How many periods before and after now are good too: 0 or 1."),
    field(
        "max_validation_attempts",
        Whole,
        "Wrong codes of somebody that are looked at in a period.",
    ),
];
const OF_A_PERSON: &[Field] = &[METHOD_ID, field("entity_id", Text, "Whose key.")];
const OF_A_RULE: &[Field] = &[
    field("name", Text, "Name of the rule."),
    field("mfa_method_ids", Texts, "Methods of which one has to be satisfied."),
    field("auth_method_accessors", Texts, "Logins at these mounts."),
    field("auth_method_types", Texts, "Logins at mounts of these types."),
    field("identity_group_ids", Texts, "Logins of members of these groups."),
    field("identity_entity_ids", Texts, "Logins of these entities."),
];

/// The routes, at `identity/mfa/`.
pub(super) const MFA: RowGroup<RouteHandler> = &[
    row!("mfa/method", &[], {
        List => "List the methods of a second factor.", runs!(|run| methods::list(&run));
    }),
    row!("mfa/method/{method_id}", &[METHOD_ID], {
        Read => "Read a method, whatever its type.", runs!(|run| methods::read(&run));
    }),
    row!("mfa/method/totp", OF_A_METHOD, {
        List => "List the methods that take codes of apps.", runs!(|run| methods::list(&run));
        Update => "Make a method that takes codes of apps.",
            runs!(async |run| methods::write(&run, None).await);
    }),
    row!("mfa/method/totp/{method_id}", OF_A_METHOD, {
        Read => "Read a method.", runs!(|run| methods::read(&run));
        Update => "Change a method; keys that were made stay as they are.",
            runs!(async |run| methods::write(&run, Some(run.params.get("method_id"))).await);
        Delete => "Delete a method, and every key with it.",
            runs!(async |run| methods::delete(&run).await);
    }),
    row!("mfa/method/totp/generate", &[METHOD_ID], {
        Update => "Make a key for whoever asks, once; it is shown in this answer alone.",
            runs!(async |run| secrets::generate_own(&run).await);
    }),
    row!("mfa/method/totp/admin-generate", OF_A_PERSON, {
        Update => "Make a key for somebody, once; it is shown in this answer alone.",
            runs!(async |run| secrets::generate_for(&run).await);
    }),
    row!("mfa/method/totp/admin-destroy", OF_A_PERSON, {
        Update => "Delete somebody's key, so that another can be made.",
            runs!(async |run| secrets::destroy(&run).await);
    }),
    row!("mfa/login-enforcement", &[], {
        List => "List the rules of which logins need a second factor.",
            runs!(|run| enforcements::list(&run));
    }),
    row!("mfa/login-enforcement/{name}", OF_A_RULE, {
        Read => "Read a rule.", runs!(|run| enforcements::read(&run));
        Update => "Make a rule, or replace it.", runs!(async |run| enforcements::write(&run).await);
        Delete => "Delete a rule.", runs!(async |run| enforcements::delete(&run).await);
    }),
];

#[cfg(test)]
mod tests;
