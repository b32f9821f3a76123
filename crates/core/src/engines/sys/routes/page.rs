//! What the web page asks that no other client does: its settings, who may do what, tokens by their parents.

use kallisto_engine::FieldKind::{Flag, Map, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, LIMIT, Scope, ServedBy, field, query};
use kallisto_engine::{Row, row};

use crate::dispatch::route_handler::{RouteHandler, anyone, runs};
use crate::engines::sys::{access, cluster_state, far_ends, ui_settings};
use crate::tokens::tree;

pub(super) const PAGE: &[Row<RouteHandler>] = &[
    row!("config/ui/settings", &[
        field("banner", Map, "`text`, `level` (`info`, `warn`, `bad`) and `until`, a time."),
        field("logins", Texts, "Login methods in the order in which they are offered."),
        field("idle_secs", Whole, "When the page locks itself; 900 when absent."),
        field("reveal_secs", Whole, "How long a value is shown; 30 when absent."),
        field("clipboard_secs", Whole, "When a copied value is taken back; 45 when absent."),
        field("session", Text, "Where a token is kept: `tab` or `memory`."),
        field("private_titles", Flag, "Whether titles of pages name no secret."),
    ], {
        Read => "Read the settings of the web page.",
            runs!(|run| ui_settings::read(&run.context));
        Update => "Change settings of the web page; null takes one back.",
            runs!(async |run| ui_settings::write(&run.context, run.call).await);
        Delete => "Take all settings of the web page back.",
            runs!(async |run| ui_settings::delete(&run.context).await);
    } .with_sudo()),
    row!("internal/ui/config", &[], {
        Read => "Tell the page what it shows before a login.",
            anyone!(|run| ui_settings::public(run.core, run.request));
    } .scope(Scope::Namespace).admitting(Admits::Anyone)),
    row!("kallisto/access/who", &[
        field("path", Text, "The path asked about."),
        field("capability", Text, "The capability; `read` when absent."),
        field("next", Text, "What the answer before said to go on with."),
    ], {
        Update => "List who may do something at a path, and by which line of which policy.",
            runs!(async |run| access::who(&run).await);
    } .served_by(ServedBy::AnyServer).scope(Scope::Namespace).with_sudo()),
    row!("kallisto/cluster", &[], {
        Read => "Say how every member is: each is asked.",
            runs!(async |run| cluster_state::read(&run).await);
    } .served_by(ServedBy::LeaderIfAny).with_sudo()),
    row!("kallisto/far-ends", &[
        query("try", Flag, "Whether each is asked now whether it is there."),
    ], {
        Read => "List the databases, directories, brokers and clusters that engines asked, and how each is doing.",
            runs!(async |run| far_ends::read(&run).await);
    } .served_by(ServedBy::LeaderIfAny).with_sudo()),
    row!("kallisto/metrics", &[
        query("minutes", Whole, "How far back, from 1 to 60; 60 when absent."),
    ], {
        Read => "Give the figures of the last hour that this server remembers.",
            runs!(|run| cluster_state::history(&run));
    } .served_by(ServedBy::AnyServer).with_sudo()),
    row!("kallisto/tokens", &[
        query("parent", Text, "The accessor of a token; those that hang on none when absent."),
        AFTER,
        LIMIT,
    ], {
        List => "List tokens by the token that made them.", runs!(|run| tree::list(&run));
    } .scope(Scope::Namespace).with_sudo()),
];
