//! Audit devices and what they write.

use kallisto_engine::FieldKind::{Flag, Map, Text, Whole};
use kallisto_engine::route::{Field, ServedBy, field, query};
use kallisto_engine::{Row, row};

use crate::dispatch::route_handler::{RouteHandler, runs};
use crate::engines::sys::{audit, audit_records};

const PATH: Field = field("path", Text, "The path of the device.");
const HEADER: Field = field("header", Text, "The name of the header.");

pub(super) const DEVICES: &[Row<RouteHandler>] = &[
    row!("audit", &[], {
        Read => "List the audit devices.", runs!(|run| Ok(audit::read_all(&run.core.audit)));
    } .with_sudo()),
    row!("audit/{path..}", &[
        PATH,
        field("type", Text, "`file`, `socket` or `syslog`."),
        field("description", Text, "For people."),
        field("options", Map, "What the device is told, such as `file_path`."),
        field("local", Flag, "Shown back."),
    ], {
        Update => "Enable an audit device.",
            runs!(async |run| {
                audit::enable(&run.core.audit, &run.context, run.call, run.params.get("path")).await
            });
        Delete => "Disable an audit device.",
            runs!(async |run| {
                audit::disable(&run.core.audit, &run.context, run.params.get("path")).await
            });
    } .with_sudo()),
    row!("audit-hash/{path..}", &[PATH, field("input", Text, "The value.")], {
        Update => "Mask a value as a device does, to search for it.",
            runs!(|run| audit::hash(&run.core.audit, run.call, run.params.get("path")));
    } .served_by(ServedBy::AnyServer)),
    row!("audit-head/{path..}", &[PATH], {
        Read => "Tell the last record that a device wrote, and whether it works.",
            runs!(|run| audit::head(&run.core.audit, run.params.get("path")));
    } .with_sudo()),
];

pub(super) const RECORDS: &[Row<RouteHandler>] = &[row!("kallisto/audit/{device..}/records", &[
        field("device", Text, "The path of the device."),
        query("from_seq", Whole, "No record before this number."),
        query("since", Text, "No record before this time."),
        query("until", Text, "No record after this time."),
        query("path", Text, "Of requests at this path, or below it with a final `*`."),
        query("entity", Text, "Of this entity's id, or this display name."),
        query("operation", Text, "`read`, `update`, `delete` or another."),
        query("outcome", Text, "`ok`, `denied` or `error`."),
        query("address", Text, "Of requests from this address."),
        query("intent", Text, "Of requests that said so in `X-Kallisto-Intent`: `reveal`, `copy`, `edit`, `diff` or `export`."),
        query("contains", Text, "With this text in its line, such as what `sys/audit-hash` made of a value."),
        query("limit", Whole, "Most records in the answer; 100 when absent, 1,000 at most."),
        query("next", Text, "What the answer before said to go on with."),
        query("raw", Flag, "The lines as they are, in the order of the file."),
        query("follow", Flag, "As they are written, in the order of the file, without an end; from `from_seq` or `since` on, else from now on."),
    ], {
        Read => "Read what a file device of this server has written, the newest first.",
            runs!(|run| audit_records::read(&run));
    } .served_by(ServedBy::AnyServer).with_streams().with_sudo())];

pub(super) const HEADERS: &[Row<RouteHandler>] = &[
    row!("config/auditing/request-headers", &[], {
        Read => "List the request headers that are audited.",
            runs!(|run| Ok(audit::read_headers(&run.core.audit)));
    } .with_sudo()),
    row!("config/auditing/request-headers/{header}", &[
        HEADER,
        field("hmac", Flag, "Mask its values."),
    ], {
        Read => "Tell how a request header is audited.",
            runs!(|run| audit::read_header(&run.core.audit, run.params.get("header")));
        Update => "Audit a request header.",
            runs!(async |run| {
                audit::put_header(&run.core.audit, &run.context, run.call, run.params.get("header")).await
            });
        Delete => "Audit a request header no more.",
            runs!(async |run| audit::delete_header(&run.context, run.params.get("header")).await);
    } .with_sudo()),
];
