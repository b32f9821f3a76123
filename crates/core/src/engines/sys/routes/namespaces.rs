//! Namespaces.

use kallisto_engine::FieldKind::{Map, Text};
use kallisto_engine::route::{Field, Scope, field};
use kallisto_engine::{Row, row};

use crate::dispatch::route_handler::{RouteHandler, runs};
use crate::engines::sys::namespaces::{self, NamespaceDepth};

const NAME: Field = field("name", Text, "Name of the namespace, directly below this one.");
const CUSTOM: Field = field("custom_metadata", Map, "Texts by name, for people.");
const PATH: Field = field("path", Text, "Path of a namespace below this one.");
const KEY: Field = field("unlock_key", Text, "What locking it answered; `sudo` does without.");

pub(super) const NAMESPACES: &[Row<RouteHandler>] = &[
    row!("namespaces", &[], {
        List => "List the namespaces directly below this one.",
            runs!(|run| namespaces::list(&run, NamespaceDepth::One));
        Scan => "List the namespaces below this one, at any depth.",
            runs!(|run| namespaces::list(&run, NamespaceDepth::All));
    } .scope(Scope::Namespace)),
    row!("namespaces/{name..}", &[NAME, CUSTOM], {
        Read => "Read a namespace.", runs!(|run| namespaces::read(&run));
        Update => "Make a namespace, or write its metadata.",
            runs!(async |run| namespaces::write(&run).await);
        Patch => "Change metadata of a namespace; null takes a name away.",
            runs!(async |run| namespaces::patch(&run).await);
        Delete => "Delete a namespace and everything in it.",
            runs!(async |run| namespaces::delete(&run).await);
    } .scope(Scope::Namespace)),
    row!("namespaces/api-lock/lock", &[], {
        Update => "Lock this namespace.", runs!(async |run| namespaces::lock(&run).await);
    } .scope(Scope::Namespace)),
    row!("namespaces/api-lock/lock/{path..}", &[PATH], {
        Update => "Lock a namespace below this one.",
            runs!(async |run| namespaces::lock(&run).await);
    } .scope(Scope::Namespace)),
    row!("namespaces/api-lock/unlock", &[KEY], {
        Update => "Unlock this namespace.", runs!(async |run| namespaces::unlock(&run).await);
    } .while_locked().scope(Scope::Namespace)),
    row!("namespaces/api-lock/unlock/{path..}", &[PATH, KEY], {
        Update => "Unlock a namespace below this one.",
            runs!(async |run| namespaces::unlock(&run).await);
    } .scope(Scope::Namespace)),
];
