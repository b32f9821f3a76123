//! The routes of logins with a certificate.

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, LIMIT, field};
use kallisto_engine::{Handler, RouteRows, RowIndex, handler, row};

use super::{CertConfig, CertRole, ROLES, log_in, read_config, revoked};
use crate::records;
use crate::routes::ROLE;
use crate::routes::with_token_fields;

/// `auth/cert/`.
pub(super) static CERT: RouteRows<Handler> = RouteRows {
    index: RowIndex::new(),
    name: "cert",
    tag: "auth",
    about: "Clients log in with the certificate of their connection.",
    groups: &[&[
        row!("config", &[
            field("disable_binding", Flag, "Renew tokens without their certificate."),
        ], {
            Read => "Read what holds for all logins.", handler!(|run| read_config(&run));
            Update => "Set what holds for all logins.",
                handler!(async |run| records::write_config::<CertConfig>(&run).await);
        }),
        row!("crls", &[AFTER, LIMIT], {
            List => "List the lists of certificates that were taken back.",
                handler!(|run| revoked::list(&run));
        }),
        row!("crls/{name}", &[
            field("name", Text, "Name of the list."),
            field("crl", Text, "The list as PEM."),
        ], {
            Read => "Read the serial numbers of a list.", handler!(|run| revoked::read(&run));
            Update => "Bring a list; a login with a certificate on it is refused.",
                handler!(async |run| revoked::write(&run).await);
            Delete => "Forget a list.", handler!(async |run| revoked::delete(&run).await);
        }),
        row!("certs", &[AFTER, LIMIT], {
            List => "List whose certificates log in.", handler!(|run| ROLES.list(&run));
        }),
        row!("certs/{role}", with_token_fields![
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
        ], {
            Read => "Read whose certificates log in.", handler!(|run| ROLES.read::<CertRole>(&run));
            Update => "Set whose certificates log in.",
                handler!(async |run| ROLES.write::<CertRole>(&run).await);
            Delete => "Let them log in no more.", handler!(async |run| ROLES.delete(&run).await);
        }),
        row!("login", &[field("name", Text, "Whose certificate it is; found when absent.")], {
            Update => "Log in.",
                handler!(log_in);
        } .admitting(Admits::Anyone)),
    ]],
};
