//! The members of a cluster, and its backups. A server whose storage is not `raft` has none of these
//! routes: it answers them as paths that it does not know.

use kallisto_engine::FieldKind::{Flag, Span, Text, Whole};
use kallisto_engine::route::{Admits, Field, ServedBy, field, query};
use kallisto_engine::{Row, row};
use kallisto_store::MemberRole;

use crate::backup::{Check, schedule};
use crate::cluster;
use crate::dispatch::route_handler::{RouteHandler, anyone, runs};
use crate::engines::sys::raft;

/// What stands before each of their paths.
#[cfg(test)]
pub(crate) const BASE: &str = "storage/raft/";

const SERVER_ID: Field = field("server_id", Text, "The member's id.");

/// Who is a member, and how one becomes and ceases to be.
pub(super) const MEMBERS: &[Row<RouteHandler>] = &[
    row!("storage/raft/join", &[
        field("leader_api_addr", Text, "The URL of a member's API."),
        field("leader_ca_cert", Text, "What the member's certificate is checked by, in PEM."),
        field("leader_client_cert", Text, "The certificate to show to it, in PEM."),
        field("leader_client_key", Text, "That certificate's key, in PEM."),
        field("leader_tls_servername", Text, "The name that its certificate has to have."),
        field("non_voter", Flag, "Follow without a vote."),
        field("token", Text, "A join token, where the cluster wants one."),
    ], {
        Update => "Make this server, which holds nothing yet, a member of another's cluster.",
            anyone!(async |run| raft::join(run.core, run.request).await);
    } .served_by(ServedBy::AnyServer).ignoring_view().admitting(Admits::Anyone)),
    row!("storage/raft/bootstrap/challenge", &[], {
        Update => "Give a server that joins something to open with the unseal key.",
            anyone!(|run| cluster::challenge(run.core, run.request));
    } .served_by(ServedBy::Leader).admitting(Admits::Anyone)),
    row!("storage/raft/bootstrap/answer", &[], {
        Update => "Let a server join that opened what it was given.",
            anyone!(async |run| cluster::admit(run.core, run.request).await);
    } .served_by(ServedBy::Leader).admitting(Admits::Anyone)),
    row!("storage/raft/bootstrap/token", &[field("ttl", Span, "How long it is good.")], {
        Update => "Make a join token, which is good once.",
            runs!(async |run| raft::make_join_token(&run).await);
    } .served_by(ServedBy::Leader).with_sudo()),
    row!("storage/raft/bootstrap/configuration", &[
        field("require_token", Flag, "Whether they have to."),
    ], {
        Read => "Say whether servers that join have to show a join token.",
            runs!(|run| raft::read_admission(&run));
        Update => "Choose whether servers that join have to show a join token.",
            runs!(async |run| raft::write_admission(&run).await);
    } .served_by(ServedBy::Leader).with_sudo()),
    row!("storage/raft/configuration", &[], {
        Read => "List the members.", runs!(|run| raft::configuration(&run));
    } .served_by(ServedBy::LeaderIfAny)),
    row!("storage/raft/remove-peer", &[SERVER_ID], {
        Update => "Take a member out of the cluster.", runs!(async |run| raft::remove(&run).await);
    } .served_by(ServedBy::Leader).with_sudo()),
    row!("storage/raft/promote", &[SERVER_ID], {
        Update => "Give a member a vote.",
            runs!(async |run| raft::set_role(&run, MemberRole::Voter).await);
    } .served_by(ServedBy::Leader).with_sudo()),
    row!("storage/raft/demote", &[SERVER_ID], {
        Update => "Take a member's vote.",
            runs!(async |run| raft::set_role(&run, MemberRole::Learner).await);
    } .served_by(ServedBy::Leader).with_sudo()),
    row!("storage/raft/certificate/rotate", &[], {
        Update => "Make a new key and certificate for this server's peers to know it by.",
            runs!(|run| raft::rotate_certificate(&run));
    } .served_by(ServedBy::AnyServer).with_sudo()),
];

/// How the members are.
pub(super) const AUTOPILOT: &[Row<RouteHandler>] = &[
    row!("storage/raft/autopilot/state", &[], {
        Read => "Say how the members are.",
            runs!(async |run| raft::autopilot_state(&run).await);
    } .served_by(ServedBy::Leader)),
    row!("storage/raft/autopilot/configuration", &[
        field("cleanup_dead_servers", Flag, "Remove members that are gone."),
        field("dead_server_last_contact_threshold", Span, "Silence after which one is gone."),
        field("last_contact_threshold", Span, "Silence after which one is not healthy."),
        field("max_trailing_logs", Whole, "Entries one may be behind and still be healthy."),
        field("min_quorum", Whole, "Members that are never removed."),
        field("server_stabilization_time", Span, "Kept, and without effect."),
    ], {
        Read => "Say when a member is healthy, and when one that is gone is removed.",
            runs!(|run| raft::read_autopilot(&run));
        Update => "Choose when a member is healthy, and when one that is gone is removed.",
            runs!(async |run| raft::write_autopilot(&run).await);
    } .served_by(ServedBy::Leader)),
];

/// Everything, as a file, and back.
pub(super) const SNAPSHOTS: &[Row<RouteHandler>] = &[
    row!("storage/raft/snapshot", &[
        query("check", Flag, "Only say what the file, the body, holds and whether it would be taken."),
    ], {
        Read => "Save everything that is committed, as a file.",
            runs!(async |run| raft::save(&run).await);
        Update => "Put such a file, the body, in the place of everything.",
            runs!(async |run| raft::restore(&run, Check::Keys).await);
    } .with_upload().with_streams().with_sudo_to_write()),
    row!("storage/raft/snapshot-auto/config", &[], {
        List => "List the schedules of snapshots.", runs!(|run| schedule::list(run.core, &run.context));
    } .with_sudo()),
    row!("storage/raft/snapshot-auto/config/{name}", &[
        field("name", Text, "Name of the schedule."),
        field("interval", Span, "Time between the starts of two snapshots."),
        field("retain", Whole, "How many are kept; 1 when absent."),
        field("storage_type", Text, "`local` or `aws-s3`."),
        field("path_prefix", Text, "The directory, or what stands before the names of objects."),
        field("file_prefix", Text, "What names begin with; `kallisto-snapshot` when absent."),
        field("local_max_space", Whole, "Bytes that the files of a directory may take."),
        field("aws_s3_bucket", Text, "The bucket."),
        field("aws_s3_region", Text, "Its region."),
        field("aws_s3_endpoint", Text, "URL of the service; Amazon's when absent."),
        field("aws_s3_disable_tls", Flag, "Take an endpoint without a scheme for one without TLS."),
        field("aws_s3_force_path_style", Flag, "Name the bucket in the path."),
        field("aws_access_key_id", Text, "Who asks the service."),
        field("aws_secret_access_key", Text, "What proves it; never shown, and kept when absent."),
        field("aws_session_token", Text, "What goes with keys that end."),
    ], {
        Read => "Read a schedule of snapshots, without its secrets.",
            runs!(|run| schedule::read(run.core, &run.context, run.params.get("name")));
        Update => "Write a schedule: snapshots by the clock, each verified after it was written.",
            runs!(async |run| {
                let body = run.call.object()?;
                schedule::write(run.core, &run.context, &body, run.params.get("name")).await
            });
        Delete => "Delete a schedule. The files stay.",
            runs!(async |run| schedule::delete(run.core, &run.context, run.params.get("name")).await);
    } .with_sudo()),
    row!("storage/raft/snapshot-auto/status/{name}", &[
        field("name", Text, "Name of the schedule."),
    ], {
        Read => "Say how a schedule of snapshots fares.", runs!(|run| {
            schedule::status(run.core, &run.context, run.params.get("name"))
        });
    } .served_by(ServedBy::LeaderIfAny)),
    row!("storage/raft/snapshot-auto/snapshot-load/{name}", &[
        field("name", Text, "Name of the schedule."),
        field("url", Text, "The file, as `last_snapshot_url` of the status says it; the last that was verified when absent."),
    ], {
        Update => "Load a snapshot from where a schedule puts them, to read and recover secrets from it; one at a time.",
            runs!(async |run| raft::load_scheduled(&run).await);
    } .served_by(ServedBy::Leader)),
    row!("storage/raft/snapshot-load", &[], {
        Update => "Load such a file, the body, to read and recover secrets from it; one at a time.",
            runs!(|run| raft::load(&run));
        Read => "List the loaded snapshots.", runs!(|run| raft::list_loaded(&run));
        List => "List the loaded snapshots.", runs!(|run| raft::list_loaded(&run));
    } .served_by(ServedBy::Leader).with_upload().more(
        "It is in the memory of the server that leads, and gone when that is sealed or leads no more, and after 72 hours. \
           `read_snapshot_id` at the paths of KV reads from it, `recover_snapshot_id` recovers.",
    )),
    row!("storage/raft/snapshot-load/{snapshot_id}", &[
        field("snapshot_id", Text, "The id that loading gave it."),
    ], {
        Read => "Say what a loaded snapshot holds and until when.", runs!(|run| raft::read_loaded(&run));
        Delete => "Unload a snapshot.", runs!(|run| raft::unload(&run));
    } .served_by(ServedBy::Leader)),
    row!("storage/raft/snapshot-force", &[], {
        Update => "Put a file of other unseal keys in the place of everything.",
            runs!(async |run| raft::restore(&run, Check::Nothing).await);
    } .served_by(ServedBy::Leader).with_upload().with_sudo()),
];
