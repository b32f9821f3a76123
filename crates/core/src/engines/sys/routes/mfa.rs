//! The second half of logins that need a second factor.

use kallisto_engine::FieldKind::{Map, Text};
use kallisto_engine::route::{Admits, Field, Scope, field};
use kallisto_engine::{Row, row};

use crate::dispatch::route_handler::{RouteHandler, anyone};
use crate::logins;

const OF_A_VALIDATION: &[Field] = &[
    field("mfa_request_id", Text, "The id that the login was answered with."),
    field(
        "mfa_payload",
        Map,
        "Codes by the ids or names of their methods, each a text or a list of one.",
    ),
];

pub(super) const MFA: &[Row<RouteHandler>] = &[row!("mfa/validate", OF_A_VALIDATION, {
    Update => "Show the second factor of a login, and have its token.",
        anyone!(async |run| logins::validate(run.core, run.request).await);
}
.scope(Scope::Namespace)
.admitting(Admits::Anyone)
.more("In the namespace of the login, within five minutes of it. A request id is good for one token."))];
