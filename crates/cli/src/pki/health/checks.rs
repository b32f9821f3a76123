//! The checks: a row each, in the order in which they are shown.

use super::mount::PkiMount;
use super::{CheckParameters, HealthFinding, authorities, roles, tidying};
use kallisto_command::error::Error;

/// A check.
pub(super) struct PkiCheck {
    /// Its name, as files and answers have it.
    pub(super) name: &'static str,
    /// Its parameters, as JSON.
    pub(super) parameters: &'static [(&'static str, &'static str)],
    /// Looks.
    pub(super) run: fn(&PkiMount<'_>, &CheckParameters<'_>) -> Result<Vec<HealthFinding>, Error>,
}

/// All of them.
pub(super) const CHECKS: &[PkiCheck] = &[
    PkiCheck {
        name: "ca_validity_period",
        parameters: &[
            ("root_expiry_critical", r#""180d""#),
            ("root_expiry_warning", r#""365d""#),
            ("root_expiry_informational", r#""730d""#),
            ("intermediate_expiry_critical", r#""30d""#),
            ("intermediate_expiry_warning", r#""60d""#),
            ("intermediate_expiry_informational", r#""180d""#),
        ],
        run: authorities::validity,
    },
    PkiCheck {
        name: "crl_validity_period",
        parameters: &[
            ("crl_expiry_pct_critical", r#""95""#),
            ("delta_crl_expiry_pct_critical", r#""95""#),
        ],
        run: authorities::revocation_lists,
    },
    PkiCheck {
        name: "hardware_backed_root",
        parameters: &[("enabled", "false")],
        run: authorities::hardware,
    },
    PkiCheck {
        name: "root_issued_leaves",
        parameters: &[("certs_to_fetch", "100")],
        run: authorities::leaves_of_roots,
    },
    PkiCheck { name: "role_allows_localhost", parameters: &[], run: roles::localhost },
    PkiCheck { name: "role_allows_glob_wildcards", parameters: &[], run: roles::glob_wildcards },
    PkiCheck {
        name: "role_no_store_false",
        parameters: &[("allowed_roles", "[]")],
        run: roles::stored,
    },
    PkiCheck {
        name: "audit_visibility",
        parameters: &[("ignored_parameters", "[]")],
        run: tidying::audit_visibility,
    },
    PkiCheck { name: "allow_if_modified_since", parameters: &[], run: tidying::if_modified_since },
    PkiCheck {
        name: "enable_auto_tidy",
        parameters: &[
            ("interval_duration_critical", r#""7d""#),
            ("interval_duration_warning", r#""2d""#),
            ("pause_duration_critical", r#""1s""#),
            ("pause_duration_warning", r#""200ms""#),
        ],
        run: tidying::auto_tidy,
    },
    PkiCheck {
        name: "tidy_last_run",
        parameters: &[("last_run_critical", r#""7d""#), ("last_run_warning", r#""2d""#)],
        run: tidying::last_run,
    },
    PkiCheck {
        name: "too_many_certs",
        parameters: &[("count_critical", "250000"), ("count_warning", "50000")],
        run: tidying::stored_certificates,
    },
    PkiCheck { name: "enable_acme_issuance", parameters: &[], run: tidying::acme },
    PkiCheck { name: "allow_acme_headers", parameters: &[], run: tidying::acme_headers },
];
