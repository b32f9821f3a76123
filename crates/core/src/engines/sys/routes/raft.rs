//! The members of a cluster, and its backups. A server whose storage is not `raft` has none of these
//! routes: it answers them as paths that it does not know.

use kallisto_auth::Operation::{Read, Update};

use kallisto_engine::FieldKind::{Flag, Span, Text, Whole};
use kallisto_engine::route::{Admits, Field, Route, ServedBy, field};

/// What stands before each of their paths.
#[cfg(test)]
pub(crate) const BASE: &str = "storage/raft/";

const SERVER_ID: Field = field("server_id", Text, "The member's id.");

/// Who is a member, and how one becomes and ceases to be.
pub(super) const MEMBERS: &[Route] = &[
    Route::new(
        "storage/raft/join",
        &[(Update, "Make this server, which holds nothing yet, a member of another's cluster.")],
        &[
            field("leader_api_addr", Text, "The URL of a member's API."),
            field("leader_ca_cert", Text, "What the member's certificate is checked by, in PEM."),
            field("leader_client_cert", Text, "The certificate to show to it, in PEM."),
            field("leader_client_key", Text, "That certificate's key, in PEM."),
            field("leader_tls_servername", Text, "The name that its certificate has to have."),
            field("non_voter", Flag, "Follow without a vote."),
            field("token", Text, "A join token, where the cluster wants one."),
        ],
    )
    .served_by(ServedBy::AnyServer)
    .ignoring_view()
    .admitting(Admits::Anyone),
    Route::new(
        "storage/raft/bootstrap/challenge",
        &[(Update, "Give a server that joins something to open with the unseal key.")],
        &[],
    )
    .served_by(ServedBy::Leader)
    .admitting(Admits::Anyone),
    Route::new(
        "storage/raft/bootstrap/answer",
        &[(Update, "Let a server join that opened what it was given.")],
        &[],
    )
    .served_by(ServedBy::Leader)
    .admitting(Admits::Anyone),
    Route::new(
        "storage/raft/bootstrap/token",
        &[(Update, "Make a join token, which is good once.")],
        &[field("ttl", Span, "How long it is good.")],
    )
    .served_by(ServedBy::Leader)
    .with_sudo(),
    Route::new(
        "storage/raft/bootstrap/configuration",
        &[
            (Read, "Say whether servers that join have to show a join token."),
            (Update, "Choose whether servers that join have to show a join token."),
        ],
        &[field("require_token", Flag, "Whether they have to.")],
    )
    .served_by(ServedBy::Leader)
    .with_sudo(),
    Route::new("storage/raft/configuration", &[(Read, "List the members.")], &[])
        .served_by(ServedBy::LeaderIfAny),
    Route::new(
        "storage/raft/remove-peer",
        &[(Update, "Take a member out of the cluster.")],
        &[SERVER_ID],
    )
    .served_by(ServedBy::Leader)
    .with_sudo(),
    Route::new("storage/raft/promote", &[(Update, "Give a member a vote.")], &[SERVER_ID])
        .served_by(ServedBy::Leader)
        .with_sudo(),
    Route::new("storage/raft/demote", &[(Update, "Take a member's vote.")], &[SERVER_ID])
        .served_by(ServedBy::Leader)
        .with_sudo(),
    Route::new(
        "storage/raft/certificate/rotate",
        &[(Update, "Make a new key and certificate for this server's peers to know it by.")],
        &[],
    )
    .served_by(ServedBy::AnyServer)
    .with_sudo(),
];

/// How the members are.
pub(super) const AUTOPILOT: &[Route] = &[
    Route::new("storage/raft/autopilot/state", &[(Read, "Say how the members are.")], &[])
        .served_by(ServedBy::Leader),
    Route::new(
        "storage/raft/autopilot/configuration",
        &[
            (Read, "Say when a member is healthy, and when one that is gone is removed."),
            (Update, "Choose when a member is healthy, and when one that is gone is removed."),
        ],
        &[
            field("cleanup_dead_servers", Flag, "Remove members that are gone."),
            field("dead_server_last_contact_threshold", Span, "Silence after which one is gone."),
            field("last_contact_threshold", Span, "Silence after which one is not healthy."),
            field("max_trailing_logs", Whole, "Entries one may be behind and still be healthy."),
            field("min_quorum", Whole, "Members that are never removed."),
            field("server_stabilization_time", Span, "Kept, and without effect."),
        ],
    )
    .served_by(ServedBy::Leader),
];

/// Everything, as a file, and back.
pub(super) const SNAPSHOTS: &[Route] = &[
    Route::new(
        "storage/raft/snapshot",
        &[
            (Read, "Save everything that is committed, as a file."),
            (Update, "Put such a file, the body, in the place of everything."),
        ],
        &[],
    )
    .with_upload()
    .with_sudo_to_write(),
    Route::new(
        "storage/raft/snapshot-force",
        &[(Update, "Put a file of other unseal keys in the place of everything.")],
        &[],
    )
    .served_by(ServedBy::Leader)
    .with_upload()
    .with_sudo(),
];
