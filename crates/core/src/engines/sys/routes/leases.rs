//! Leases: those of tokens and those of dynamic secrets.

use kallisto_auth::Operation::{List, Read, Update};

use kallisto_engine::FieldKind::{Flag, Span, Text, Whole};
use kallisto_engine::route::{Field, Route, Scope, field, query};

const ID: Field = field("lease_id", Text, "The lease, as `LIST sys/leases/lookup` shows it.");
const PREFIX: Field = field("prefix", Text, "Whole segments that lease ids start with.");
const SYNC: Field =
    field("sync", Flag, "Whether to wait, and to hear of failures; tokens end at once.");
const TYPE: Field = query("type", Text, "`irrevocable`, the only one there is.");

pub(super) const LEASES: &[Route] = &[
    Route::new(
        "leases",
        &[(Read, "List the leases that could not be revoked.")],
        &[TYPE, query("limit", Whole, "Most leases in the answer.")],
    )
    .scope(Scope::Namespace)
    .with_sudo(),
    Route::new("leases/count", &[(Read, "Count the leases that could not be revoked.")], &[TYPE])
        .scope(Scope::Namespace),
    Route::new(
        "leases/lookup",
        &[(Update, "Describe a lease."), (List, "List the first segments of lease ids.")],
        &[ID],
    )
    .scope(Scope::Namespace)
    .with_sudo_to_list(),
    Route::new(
        "leases/lookup/{prefix..}",
        &[(List, "List the lease ids below a prefix.")],
        &[PREFIX],
    )
    .scope(Scope::Namespace)
    .with_sudo(),
    Route::new(
        "leases/renew",
        &[(Update, "Renew a lease of a dynamic secret; tokens are renewed as tokens.")],
        &[ID, field("increment", Span, "How much time is asked for.")],
    )
    .scope(Scope::Namespace),
    Route::new(
        "leases/renew/{lease_id..}",
        &[(Update, "Renew a lease of a dynamic secret; tokens are renewed as tokens.")],
        &[ID, field("increment", Span, "How much time is asked for.")],
    )
    .scope(Scope::Namespace)
    .alias_of("leases/renew"),
    Route::new("leases/revoke", &[(Update, "End a lease and what hangs on it.")], &[ID, SYNC])
        .scope(Scope::Namespace),
    Route::new(
        "leases/revoke/{lease_id..}",
        &[(Update, "End a lease and what hangs on it.")],
        &[ID, SYNC],
    )
    .scope(Scope::Namespace)
    .alias_of("leases/revoke"),
    Route::new(
        "leases/revoke-prefix/{prefix..}",
        &[(Update, "End every lease below a prefix.")],
        &[PREFIX, SYNC],
    )
    .scope(Scope::Namespace)
    .with_sudo(),
    Route::new(
        "leases/revoke-force/{prefix..}",
        &[(Update, "Forget every lease below a prefix, whatever the engine says.")],
        &[PREFIX],
    )
    .scope(Scope::Namespace)
    .with_sudo(),
    Route::new(
        "leases/tidy",
        &[(Update, "Clear what a crash left of ended leases, and try irrevocable ones again.")],
        &[field(
            "after_restore",
            Flag,
            "Says besides that leases end by themselves again after a restore.",
        )],
    )
    .scope(Scope::Namespace)
    .with_sudo(),
];
