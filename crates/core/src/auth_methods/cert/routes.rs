//! The routes of logins with a certificate.

use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_engine::Family;
use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, LIMIT, Route, field};

use crate::auth_methods::routes::ROLE;
use crate::auth_methods::routes::with_token_fields;

/// `auth/cert/`.
pub(crate) static CERT: Family = Family {
    name: "cert",
    tag: "auth",
    about: "Clients log in with the certificate of their connection.",
    groups: &[&[
        Route::new(
            "config",
            &[
                (Read, "Read what holds for all logins."),
                (Update, "Set what holds for all logins."),
            ],
            &[field("disable_binding", Flag, "Renew tokens without their certificate.")],
        ),
        Route::new(
            "crls",
            &[(List, "List the lists of certificates that were taken back.")],
            &[AFTER, LIMIT],
        ),
        Route::new(
            "crls/{name}",
            &[
                (Read, "Read the serial numbers of a list."),
                (Update, "Bring a list; a login with a certificate on it is refused."),
                (Delete, "Forget a list."),
            ],
            &[field("name", Text, "Name of the list."), field("crl", Text, "The list as PEM.")],
        ),
        Route::new("certs", &[(List, "List whose certificates log in.")], &[AFTER, LIMIT]),
        Route::new(
            "certs/{role}",
            &[
                (Read, "Read whose certificates log in."),
                (Update, "Set whose certificates log in."),
                (Delete, "Let them log in no more."),
            ],
            with_token_fields![
                ROLE,
                field("certificate", Text, "Authorities, or clients' own certificates, as PEM."),
                field("display_name", Text, "What people see of a login."),
                field("allowed_names", Texts, "Common names, DNS names or mail addresses."),
                field("allowed_common_names", Texts, "Common names; `*` stands for any text."),
                field("allowed_dns_sans", Texts, "DNS names."),
                field("allowed_email_sans", Texts, "Mail addresses."),
                field("allowed_uri_sans", Texts, "URIs."),
                field("allowed_organizational_units", Texts, "Units."),
                field("required_extensions", Texts, "`oid:pattern`, or `hex:oid:pattern`."),
                field("allowed_metadata_extensions", Texts, "Extensions noted with a login."),
            ],
        ),
        Route::new(
            "login",
            &[(Update, "Log in.")],
            &[field("name", Text, "Whose certificate it is; found when absent.")],
        )
        .admitting(Admits::Anyone),
    ]],
};
