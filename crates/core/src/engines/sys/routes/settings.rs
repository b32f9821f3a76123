//! What operators set besides mounts and policies, and small tools.

use kallisto_engine::FieldKind::{Flag, Number, Span, Text, Texts, Whole};
use kallisto_engine::route::{Field, Scope, ServedBy, field, query};
use kallisto_engine::{Row, row};

use crate::dispatch::route_handler::{RouteHandler, runs};
use crate::engines::sys::{passwords, quotas, tools, web};

const QUOTA: Field = field("name", Text, "Name of the rule.");
const PASSWORD: Field = field("name", Text, "Name of the policy.");
const FORMAT: Field = field("format", Text, "`hex` or `base64`.");
const BYTES: Field = field("bytes", Whole, "How many bytes; 32 when absent.");

pub(super) const QUOTAS: &[Row<RouteHandler>] = &[
    row!("quotas/config", &[
        field("enable_rate_limit_response_headers", Flag, "Say in headers what is left."),
        field("enable_rate_limit_audit_logging", Flag, "Audit what a rule refuses."),
        field("rate_limit_exempt_paths", Texts, "Paths that no rule counts."),
    ], {
        Read => "Read the settings of all quotas.",
            runs!(|run| Ok(quotas::read_config(&run.context)));
        Update => "Replace them: what is not given is off or empty.",
            runs!(async |run| quotas::configure(&run.context, run.call).await);
    }),
    row!("quotas/rate-limit", &[], {
        List => "List the rate limits.", runs!(|run| quotas::list(&run.context));
    }),
    row!("quotas/rate-limit/{name..}", &[
        QUOTA,
        field("rate", Number, "Requests an address may make in each interval."),
        field("interval", Span, "The interval; 1s when absent."),
        field("block_interval", Span, "For how long an address is refused that went over."),
        field("path", Text, "A mount, or a path that may end in `*`; everything when absent."),
        field("role", Text, "The role of a login method; the path is its mount then."),
        field("inheritable", Flag, "Hold in the namespaces below too."),
    ], {
        Read => "Read a rate limit.",
            runs!(|run| quotas::read(&run.context, run.params.get("name")));
        Update => "Write a rate limit.",
            runs!(async |run| quotas::write(&run.context, run.call, run.params.get("name")).await);
        Delete => "Delete a rate limit.",
            runs!(async |run| quotas::delete(&run.context, run.params.get("name")).await);
    }),
    row!("quotas/lease-count", &[], {
        List => "List the lease counts.", runs!(|run| quotas::list_lease_counts(&run.context));
    }),
    row!("quotas/lease-count/{name..}", &[
        QUOTA,
        field("max_leases", Whole, "The most leases there may be: credentials' and service tokens'."),
        field("path", Text, "A mount, or a path that may end in `*`; everything when absent."),
        field("role", Text, "Refused: the leases of one role are not counted apart."),
        field("inheritable", Flag, "Hold in the namespaces below too."),
    ], {
        Read => "Read a lease count, and how many leases there are.",
            runs!(|run| quotas::read_lease_count(&run.context, run.params.get("name")));
        Update => "Write a lease count.", runs!(async |run| {
            quotas::write_lease_count(&run.context, run.call, run.params.get("name")).await
        });
        Delete => "Delete a lease count.", runs!(async |run| {
            quotas::delete_lease_count(&run.context, run.params.get("name")).await
        });
    }),
];

pub(super) const WEB: &[Row<RouteHandler>] = &[
    row!("config/cors", &[
        field("allowed_origins", Texts, "The origins, or `*` alone for all."),
        field("allowed_headers", Texts, "Headers that pages may send besides the usual ones."),
    ], {
        Read => "Tell which origins' pages may ask.",
            runs!(|run| Ok(web::read_origins(&run.context)));
        Update => "Say which origins' pages may ask, and what they may send.",
            runs!(async |run| web::write_origins(&run.context, run.call).await);
        Delete => "Let no pages of other origins ask.",
            runs!(async |run| web::delete_origins(&run.context).await);
    } .with_sudo()),
    row!("config/ui/headers", &[], {
        List => "List the headers of the server's pages.",
            runs!(|run| web::list_headers(&run.context));
    } .with_sudo()),
    row!("config/ui/headers/{header}", &[
        field("header", Text, "The name of the header."),
        field("values", Texts, "Its values."),
        query("multivalue", Flag, "Read all values, not the first alone."),
    ], {
        Read => "Read a header of the server's pages.",
            runs!(|run| web::read_header(&run.context, run.call, run.params.get("header")));
        Update => "Give the server's pages a header.",
            runs!(async |run| {
                web::write_header(&run.context, run.call, run.params.get("header")).await
            });
        Delete => "Give the server's pages a header no more.",
            runs!(async |run| web::delete_header(&run.context, run.params.get("header")).await);
    } .with_sudo()),
];

pub(super) const PASSWORDS: &[Row<RouteHandler>] = &[
    row!("policies/password", &[], {
        List => "List the password policies.", runs!(|run| passwords::list(&run.context));
    } .scope(Scope::Namespace)),
    row!("policies/password/{name}", &[
        PASSWORD,
        field("policy", Text, "The policy in HCL or JSON, or either in base64."),
    ], {
        Read => "Read a password policy.",
            runs!(|run| passwords::read(&run.context, run.params.get("name")));
        Update => "Write a password policy.",
            runs!(async |run| {
                passwords::write(&run.context, run.call, run.params.get("name")).await
            });
        Delete => "Delete a password policy.",
            runs!(async |run| passwords::delete(&run.context, run.params.get("name")).await);
    } .scope(Scope::Namespace)),
    row!("policies/password/{name}/generate", &[PASSWORD], {
        Read => "Make a password by a policy.",
            runs!(|run| passwords::generate(&run.context, run.params.get("name")));
    } .scope(Scope::Namespace)),
];

pub(super) const TOOLS: &[Row<RouteHandler>] = &[
    row!("tools/random", &[BYTES, FORMAT], {
        Update => "Draw random bytes.",
            runs!(|run| run.call.object().and_then(|body| tools::random_bytes(&body, None, None)));
    } .served_by(ServedBy::AnyServer).scope(Scope::Namespace)),
    row!("tools/random/{source}", &[
        field("source", Text, "How many bytes, or `platform`, `seal` or `all`."),
        BYTES,
        FORMAT,
    ], {
        Update => "Draw random bytes.",
            runs!(|run| {
                let source = Some(run.params.get("source"));
                run.call.object().and_then(|body| tools::random_bytes(&body, source, None))
            });
    } .served_by(ServedBy::AnyServer).scope(Scope::Namespace)),
    row!("tools/random/{source}/{bytes}", &[
        field("source", Text, "`platform`, `seal` or `all`."),
        BYTES,
        FORMAT,
    ], {
        Update => "Draw random bytes.",
            runs!(|run| {
                let (source, count) = (run.params.get("source"), run.params.get("bytes"));
                run.call
                    .object()
                    .and_then(|body| tools::random_bytes(&body, Some(source), Some(count)))
            });
    } .served_by(ServedBy::AnyServer).scope(Scope::Namespace)),
    row!("tools/hash", &[
        field("input", Text, "The input in base64."),
        field("algorithm", Text, "Such as `sha2-256`, which it is when absent."),
        FORMAT,
    ], {
        Update => "Hash an input.",
            runs!(|run| run.call.object().and_then(|body| tools::hash(&body, None)));
    } .served_by(ServedBy::AnyServer).scope(Scope::Namespace)),
    row!("tools/hash/{algorithm}", &[
        field("input", Text, "The input in base64."),
        field("algorithm", Text, "Such as `sha2-256`."),
        FORMAT,
    ], {
        Update => "Hash an input.",
            runs!(|run| {
                run.call.object().and_then(|body| tools::hash(&body, Some(run.params.get("algorithm"))))
            });
    } .served_by(ServedBy::AnyServer).scope(Scope::Namespace)),
];
