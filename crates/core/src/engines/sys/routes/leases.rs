//! Leases: those of tokens and those of dynamic secrets.

use kallisto_engine::FieldKind::{Flag, Span, Text, Whole};
use kallisto_engine::route::{Field, Scope, ServedBy, field, query};
use kallisto_engine::{Row, row};

use crate::dispatch::route_handler::{RouteHandler, runs};
use crate::tokens::leases;

const ID: Field = field("lease_id", Text, "The lease, as `LIST sys/leases/lookup` shows it.");
const PREFIX: Field = field("prefix", Text, "Whole segments that lease ids start with.");
const SYNC: Field =
    field("sync", Flag, "Whether to wait, and to hear of failures; tokens end at once.");
const TYPE: Field = query("type", Text, "`irrevocable`, the only one there is.");

pub(super) const LEASES: &[Row<RouteHandler>] = &[
    row!("leases", &[TYPE, query("limit", Whole, "Most leases in the answer.")], {
        Read => "List the leases that could not be revoked.",
            runs!(|run| leases::list_irrevocable(&run.context, run.call));
    } .scope(Scope::Namespace).with_sudo()),
    row!("leases/count", &[TYPE], {
        Read => "Count the leases that could not be revoked.",
            runs!(|run| leases::count_irrevocable(&run.context, run.call));
    } .scope(Scope::Namespace)),
    row!("leases/lookup", &[ID], {
        Update => "Describe a lease.", runs!(|run| leases::look_up(&run.context, run.call));
        List => "List the first segments of lease ids.",
            runs!(|run| leases::list(&run.context, ""));
    }
    .served_by(ServedBy::LeaderOrRecentView)
    .scope(Scope::Namespace)
    .with_sudo_to_list()),
    row!("leases/lookup/{prefix..}", &[PREFIX], {
        List => "List the lease ids below a prefix.",
            runs!(|run| leases::list(&run.context, run.params.get("prefix")));
    } .scope(Scope::Namespace).with_sudo()),
    row!("leases/renew", &[ID, field("increment", Span, "How much time is asked for.")], {
        Update => "Renew a lease of a dynamic secret; tokens are renewed as tokens.",
            runs!(async |run| leases::renew(&run.context, run.call, "").await);
    } .scope(Scope::Namespace)),
    row!("leases/renew/{lease_id..}", &[
        ID,
        field("increment", Span, "How much time is asked for."),
    ], {
        Update => "Renew a lease of a dynamic secret; tokens are renewed as tokens.",
            runs!(async |run| {
                leases::renew(&run.context, run.call, run.params.get("lease_id")).await
            });
    } .scope(Scope::Namespace).alias_of("leases/renew")),
    row!("leases/revoke", &[ID, SYNC], {
        Update => "End a lease and what hangs on it.",
            runs!(async |run| leases::revoke(&run.context, run.call, "").await);
    } .scope(Scope::Namespace)),
    row!("leases/revoke/{lease_id..}", &[ID, SYNC], {
        Update => "End a lease and what hangs on it.",
            runs!(async |run| {
                leases::revoke(&run.context, run.call, run.params.get("lease_id")).await
            });
    } .scope(Scope::Namespace).alias_of("leases/revoke")),
    row!("leases/revoke-prefix/{prefix..}", &[PREFIX, SYNC], {
        Update => "End every lease below a prefix.",
            runs!(async |run| {
                leases::revoke_prefix(&run.context, run.call, run.params.get("prefix")).await
            });
    } .scope(Scope::Namespace).with_sudo()),
    row!("leases/revoke-force/{prefix..}", &[PREFIX], {
        Update => "Forget every lease below a prefix, whatever the engine says.",
            runs!(async |run| {
                leases::revoke_force(&run.context, run.call, run.params.get("prefix")).await
            });
    } .scope(Scope::Namespace).with_sudo()),
    row!("leases/tidy", &[
        field(
            "after_restore",
            Flag,
            "Says besides that leases end by themselves again after a restore.",
        ),
    ], {
        Update => "Clear what a crash left of ended leases, and try irrevocable ones again.",
            runs!(async |run| leases::tidy(&run.context, run.call).await);
    } .scope(Scope::Namespace).with_sudo()),
];
