//! What operators set besides mounts and policies, and small tools.

use kallisto_auth::Operation::{Delete, List, Read, Update};

use kallisto_engine::FieldKind::{Flag, Number, Span, Text, Texts, Whole};
use kallisto_engine::route::{Field, Route, Scope, ServedBy, field, query};

const QUOTA: Field = field("name", Text, "Name of the rule.");
const PASSWORD: Field = field("name", Text, "Name of the policy.");
const FORMAT: Field = field("format", Text, "`hex` or `base64`.");
const BYTES: Field = field("bytes", Whole, "How many bytes; 32 when absent.");

pub(super) const QUOTAS: &[Route] = &[
    Route::new(
        "quotas/config",
        &[(Read, "Read the settings of all quotas."), (Update, "Change some of them.")],
        &[
            field("enable_rate_limit_response_headers", Flag, "Say in headers what is left."),
            field("enable_rate_limit_audit_logging", Flag, "Audit what a rule refuses."),
            field("rate_limit_exempt_paths", Texts, "Paths that no rule counts."),
        ],
    ),
    Route::new("quotas/rate-limit", &[(List, "List the rate limits.")], &[]),
    Route::new(
        "quotas/rate-limit/{name}",
        &[
            (Read, "Read a rate limit."),
            (Update, "Write a rate limit."),
            (Delete, "Delete a rate limit."),
        ],
        &[
            QUOTA,
            field("rate", Number, "Requests an address may make in each interval."),
            field("interval", Span, "The interval; 1s when absent."),
            field("block_interval", Span, "For how long an address is refused that went over."),
            field("path", Text, "A mount, or a path that may end in `*`; everything when absent."),
            field("role", Text, "The role of a login method; the path is its mount then."),
            field("inheritable", Flag, "Hold in the namespaces below too."),
        ],
    ),
];

pub(super) const WEB: &[Route] = &[
    Route::new(
        "config/cors",
        &[
            (Read, "Tell which origins' pages may ask."),
            (Update, "Say which origins' pages may ask, and what they may send."),
            (Delete, "Let no pages of other origins ask."),
        ],
        &[
            field("allowed_origins", Texts, "The origins, or `*` alone for all."),
            field("allowed_headers", Texts, "Headers that pages may send besides the usual ones."),
        ],
    )
    .with_sudo(),
    Route::new("config/ui/headers", &[(List, "List the headers of the server's pages.")], &[])
        .with_sudo(),
    Route::new(
        "config/ui/headers/{header}",
        &[
            (Read, "Read a header of the server's pages."),
            (Update, "Give the server's pages a header."),
            (Delete, "Give the server's pages a header no more."),
        ],
        &[
            field("header", Text, "The name of the header."),
            field("values", Texts, "Its values."),
            query("multivalue", Flag, "Read all values, not the first alone."),
        ],
    )
    .with_sudo(),
];

pub(super) const PASSWORDS: &[Route] = &[
    Route::new("policies/password", &[(List, "List the password policies.")], &[])
        .scope(Scope::Namespace),
    Route::new(
        "policies/password/{name}",
        &[
            (Read, "Read a password policy."),
            (Update, "Write a password policy."),
            (Delete, "Delete a password policy."),
        ],
        &[PASSWORD, field("policy", Text, "The policy in HCL or JSON, or either in base64.")],
    )
    .scope(Scope::Namespace),
    Route::new(
        "policies/password/{name}/generate",
        &[(Read, "Make a password by a policy.")],
        &[PASSWORD],
    )
    .scope(Scope::Namespace),
];

pub(super) const TOOLS: &[Route] = &[
    Route::new("tools/random", &[(Update, "Draw random bytes.")], &[BYTES, FORMAT])
        .served_by(ServedBy::AnyServer)
        .scope(Scope::Namespace),
    Route::new(
        "tools/random/{source}",
        &[(Update, "Draw random bytes.")],
        &[field("source", Text, "How many bytes, or `platform`, `seal` or `all`."), BYTES, FORMAT],
    )
    .served_by(ServedBy::AnyServer)
    .scope(Scope::Namespace),
    Route::new(
        "tools/random/{source}/{bytes}",
        &[(Update, "Draw random bytes.")],
        &[field("source", Text, "`platform`, `seal` or `all`."), BYTES, FORMAT],
    )
    .served_by(ServedBy::AnyServer)
    .scope(Scope::Namespace),
    Route::new(
        "tools/hash",
        &[(Update, "Hash an input.")],
        &[
            field("input", Text, "The input in base64."),
            field("algorithm", Text, "Such as `sha2-256`, which it is when absent."),
            FORMAT,
        ],
    )
    .served_by(ServedBy::AnyServer)
    .scope(Scope::Namespace),
    Route::new(
        "tools/hash/{algorithm}",
        &[(Update, "Hash an input.")],
        &[
            field("input", Text, "The input in base64."),
            field("algorithm", Text, "Such as `sha2-256`."),
            FORMAT,
        ],
    )
    .served_by(ServedBy::AnyServer)
    .scope(Scope::Namespace),
];
