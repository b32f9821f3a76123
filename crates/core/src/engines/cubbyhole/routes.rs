//! The routes of the cubbyhole.

use kallisto_engine::FieldKind::Text;
use kallisto_engine::route::{Field, field};
use kallisto_engine::{RowIndex, Table, row};

use super::{delete, list, read, write};
use crate::dispatch::route_handler::{RouteTable, runs};

/// What a token keeps for itself.
pub(crate) static CUBBYHOLE: RouteTable = Table {
    name: "cubbyhole",
    tag: "secrets",
    about: "What a token keeps for itself: no other token sees it, and it goes when the token does.",
    groups: &[&[row!("{path..}", &[PATH], {
        Read => "Read an entry.", runs!(|run| read(&run));
        Update => "Store an entry, replacing what was there.", runs!(async |run| write(&run).await);
        Delete => "Delete an entry.", runs!(async |run| delete(&run).await);
        List => "List the entries and folders in a folder.", runs!(|run| list(&run));
    } .with_root().more("The body of a write is the entry itself."))]],
    index: RowIndex::new(),
};

const PATH: Field = field("path", Text, "Path of the secret inside the mount.");
