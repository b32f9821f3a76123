//! Answers inside tokens that open once.

use kallisto_engine::FieldKind::Text;
use kallisto_engine::route::{Admits, Field, Scope, ServedBy, field};
use kallisto_engine::{Row, row};

use crate::dispatch::route_handler::{RouteHandler, anyone, runs};
use crate::wrapping::{self, receipts};

const TOKEN: Field = field("token", Text, "The wrapping token; without it, the one that asks.");

const ACCESSOR: Field =
    field("accessor", Text, "Instead of the token, for whoever made it: its accessor.");

pub(super) const WRAPPING: &[Row<RouteHandler>] = &[
    row!("wrapping/wrap", &[], {
        Update => "Give the body back inside a wrapping token.",
            runs!(|run| wrapping::echo(run.call));
    }
    .scope(Scope::Namespace)
    .more("Takes any fields. The header X-Vault-Wrap-TTL says for how long the token lives.")),
    row!("wrapping/lookup", &[TOKEN, ACCESSOR], {
        Update => "Say how and when a wrapping token was made, without opening it.",
            anyone!(|run| wrapping::look_up(run.core, run.request));
        Read => "Say the same of the wrapping token that asks.",
            anyone!(|run| wrapping::look_up(run.core, run.request));
    }
    .served_by(ServedBy::LeaderOrRecentView)
    .scope(Scope::Namespace)
    .admitting(Admits::Anyone)),
    row!("wrapping/revoke", &[ACCESSOR], {
        Update => "Take a wrapping token back that nobody has opened.",
            anyone!(async |run| receipts::revoke(run.core, run.request).await);
    }
    .scope(Scope::Namespace)
    .admitting(Admits::Anyone)
    .more("For the bearer of the token, or the entity, that made it; nobody else hears that there is one.")),
    row!("wrapping/unwrap", &[TOKEN], {
        Update => "Give the answer inside a wrapping token, once.",
            runs!(async |run| wrapping::unwrap_given(&run.context, run.call).await)
                .or_anyone(|run| Box::pin(wrapping::unwrap_itself(run.core, run.request)));
    }
    .scope(Scope::Namespace)
    .admitting(Admits::WrappingToken)
    .more("A wrapping token opens itself, in the header or alone in the body. To open another one than the token that asks takes a policy.")),
    row!("wrapping/rewrap", &[TOKEN], {
        Update => "Move the answer inside a wrapping token to a fresh one.",
            runs!(async |run| wrapping::rewrap(&run.context, run.call).await);
    } .scope(Scope::Namespace)),
];
