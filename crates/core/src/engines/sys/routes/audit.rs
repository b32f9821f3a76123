//! Audit devices and what they write.

use kallisto_auth::Operation::{Delete, Read, Update};

use kallisto_engine::FieldKind::{Flag, Map, Text};
use kallisto_engine::route::{Field, Route, ServedBy, field};

const PATH: Field = field("path", Text, "The path of the device.");
const HEADER: Field = field("header", Text, "The name of the header.");

pub(super) const DEVICES: &[Route] = &[
    Route::new("audit", &[(Read, "List the audit devices.")], &[]).with_sudo(),
    Route::new(
        "audit/{path..}",
        &[(Update, "Enable an audit device."), (Delete, "Disable an audit device.")],
        &[
            PATH,
            field("type", Text, "`file`, `socket` or `syslog`."),
            field("description", Text, "For people."),
            field("options", Map, "What the device is told, such as `file_path`."),
            field("local", Flag, "Shown back."),
        ],
    )
    .with_sudo(),
    Route::new(
        "audit-hash/{path..}",
        &[(Update, "Mask a value as a device does, to search for it.")],
        &[PATH, field("input", Text, "The value.")],
    )
    .served_by(ServedBy::AnyServer),
    Route::new(
        "audit-head/{path..}",
        &[(Read, "Tell the last record that a device wrote, and whether it works.")],
        &[PATH],
    )
    .with_sudo(),
];

pub(super) const HEADERS: &[Route] = &[
    Route::new(
        "config/auditing/request-headers",
        &[(Read, "List the request headers that are audited.")],
        &[],
    )
    .with_sudo(),
    Route::new(
        "config/auditing/request-headers/{header}",
        &[
            (Read, "Tell how a request header is audited."),
            (Update, "Audit a request header."),
            (Delete, "Audit a request header no more."),
        ],
        &[HEADER, field("hmac", Flag, "Mask its values.")],
    )
    .with_sudo(),
];
