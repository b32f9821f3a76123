//! PKI: certificates of CAs that are kept here, and what revokes them.
//!
//! What certificates say is `kallisto_pki`'s matter, which is pure; here is what is kept, who may have what, and what is told.
//!
//! In the mount's storage, a record each:
//!
//! ```text
//! issuer/ID  key/ID     a CA's certificate with its settings; a private key
//! role/NAME             what may be issued
//! cert/SERIAL           a certificate
//! metadata/SERIAL       what whoever asked for it wants kept with it
//! revoked/SERIAL        that one is revoked, since when, and after which list
//! crl/SCOPE             which lists there are of one who signs: numbers and times
//! acme/…                accounts, orders and what they need: see [`acme`]
//! config/…              settings; config/generation is written by every change of issuers and keys,
//!                       and config/modified says when the last one was
//! ```
//!
//! Invariants:
//! - Names are decided by [`kallisto_pki::names::grant`], wherever they come from.
//! - A revocation writes what it says and no more: no list is stored. Lists are made of what is in memory, by whoever is asked for one,
//!   and the same on every server ([`lists`]).
//! - Numbers of lists rise, complete ones and deltas together; a list of a number never says anything else.
//! - Keys that are made ahead ([`pool`]) are in memory alone, and handed out once.
//! - No answer holds a private key but that to its making, where it was asked for.

mod acme;
mod answer;
#[cfg(test)]
mod attacks;
mod authority;
mod ca_sign;
mod certs;
mod chain;
mod config;
mod generate;
mod given;
mod ids;
mod issue;
mod issuer;
mod issuers;
mod keys;
mod lists;
mod memory;
mod metadata;
mod modified;
mod ocsp;
mod ocsp_cache;
mod pool;
mod read;
mod revoke;
mod revoked;
mod role;
mod roles;
mod settings;
mod structure;
mod templates;
#[cfg(test)]
mod tests;
mod tidy;
mod tidy_settings;
mod wanted;
mod weight;

use kallisto_api::Error;
use kallisto_engine::FieldKind::{self, Flag, Span as Seconds, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Field, LIMIT, field, query};
use kallisto_engine::{
    Admits, EngineJob, EngineLeases, EngineSpec, Handler, RoleTtl, RouteRows, RowIndex, ServedBy,
    handler, row,
};

#[cfg(any(test, feature = "fuzz"))]
pub use acme::read_hostile as read_hostile_acme;
use wanted::{
    ALT_NAMES, COMMON_NAME, EXCLUDE_CN, FORMAT, IP_SANS, KEY_BITS, KEY_FORMAT, KEY_TYPE, NOT_AFTER,
    NOT_BEFORE, NOT_BEFORE_DURATION, OTHER_SANS, REMOVE_ROOTS, SERIAL, SIGNATURE_BITS, TTL,
    URI_SANS, USE_PSS, USER_IDS,
};

const REF: Field = field("ref", Text, "An issuer: its id, its name, or `default`.");
const ISSUER_REF: Field =
    field("issuer_ref", Text, "The issuer that signs: its id, its name, or `default`.");
const ROLE: Field = field("role", Text, "The name of the role.");
const KIND: Field = field("kind", Text, "`internal`, `exported` or `existing`.");
const SERIAL_PATH: Field =
    field("serial", Text, "A serial number; or `ca`, `ca_chain`, `crl`, `delta-crl`.");

/// Fields with those among them that say who a certificate is for, and when.
macro_rules! with_subject_fields {
    ([$($before:expr),*], [$($after:expr),* $(,)?]) => {
        &[
            $($before,)*
            COMMON_NAME,
            ALT_NAMES,
            IP_SANS,
            URI_SANS,
            OTHER_SANS,
            EXCLUDE_CN,
            TTL,
            NOT_AFTER,
            NOT_BEFORE,
            $($after),*
        ]
    };
}

const EXT_KEY_USAGE: Field = field("ext_key_usage", Texts, "Extended key usages, by name.");
const EXT_KEY_USAGE_OIDS: Field =
    field("ext_key_usage_oids", Texts, "Extended key usages, by number.");

/// What every request for a CA takes, and what stands before it.
macro_rules! ca_fields {
    ($($before:expr),*) => { with_subject_fields!(
    [$($before),*],
    [
        NOT_BEFORE_DURATION,
        FORMAT,
        KEY_FORMAT,
        KEY_TYPE,
        KEY_BITS,
        SIGNATURE_BITS,
        USE_PSS,
        SERIAL,
        USER_IDS,
        field("key_ref", Text, "The key that there is: its id, its name, or `default`."),
        field("key_name", Text, "A name for the key."),
        field("issuer_name", Text, "A name for the issuer."),
        field("key_usage", Texts, "Key usages of the CA besides CertSign and CRLSign."),
        EXT_KEY_USAGE,
        EXT_KEY_USAGE_OIDS,
        field("max_path_length", Whole, "How many CAs may follow; -1 for any."),
        field("permitted_dns_domains", Texts, "Domains that may be signed for."),
        field("excluded_dns_domains", Texts, "Domains that may not."),
        field("permitted_ip_ranges", Texts, "Networks that may be signed for."),
        field("excluded_ip_ranges", Texts, "Networks that may not."),
        field("permitted_email_addresses", Texts, "E-mail addresses that may be signed for."),
        field("excluded_email_addresses", Texts, "E-mail addresses that may not."),
        field("permitted_uri_domains", Texts, "Hosts of URIs that may be signed for."),
        field("excluded_uri_domains", Texts, "Hosts of URIs that may not."),
        field("add_basic_constraints", Flag, "Whether a request says that it is for a CA."),
        field("csr", Text, "The certificate request that is signed, in PEM."),
        field(
            "skid",
            Text,
            "The id of the key of the CA that is signed, in hexadecimal digits; SHA-1 of the key if empty."
        ),
        field("use_csr_values", Flag, "Whether subject, names, usages and extensions are those of the request."),
        field(
            "enforce_leaf_not_after_behavior",
            Flag,
            "Whether a CA is refused that would outlive an issuer whose `leaf_not_after_behavior` is `err`.",
        ),
        field("organization", Texts, "O of the subject."),
        field("ou", Texts, "OU of the subject."),
        field("country", Texts, "C of the subject."),
        field("locality", Texts, "L of the subject."),
        field("province", Texts, "ST of the subject."),
        field("street_address", Texts, "The street of the subject."),
        field("postal_code", Texts, "The postal code of the subject."),
    ]
)};
}

const GENERATE: &[Field] = ca_fields![KIND];
const CROSS_SIGN: &[Field] = ca_fields![];
const SIGN_CA: &[Field] = ca_fields![ISSUER_REF];
const SIGN_CA_BY_ISSUER: &[Field] = ca_fields![REF];

const ISSUER: &[Field] = &[
    REF,
    field("issuer_name", Text, "A name."),
    field(
        "leaf_not_after_behavior",
        Text,
        "`err`, `always_enforce_err`, `truncate` or `permit` what would outlive it.",
    ),
    field("manual_chain", Texts, "The chain, as issuers; `self` first."),
    field("usage", Texts, "`read-only`, `issuing-certificates`, `crl-signing`, `ocsp-signing`."),
    field("revocation_signature_algorithm", Text, "How it signs revocation lists."),
    field("issuing_certificates", Texts, "URLs of its certificate."),
    field("crl_distribution_points", Texts, "URLs of its revocation list."),
    field("delta_crl_distribution_points", Texts, "URLs of what changed since."),
    field("ocsp_servers", Texts, "URLs of OCSP."),
    field("enable_aia_url_templating", Flag, "Whether URLs are templates."),
];

const ISSUER_URLS: &[Field] = &[
    field("issuing_certificates", Texts, "URLs of the issuer's certificate."),
    field("crl_distribution_points", Texts, "URLs of the revocation list."),
    field("delta_crl_distribution_points", Texts, "URLs of what changed since."),
    field("ocsp_servers", Texts, "URLs of OCSP."),
    field("enable_templating", Flag, "Whether URLs are templates."),
];

/// What signing a CA that signed itself takes, and who signs.
macro_rules! self_issued_fields {
    ($issuer:expr) => {
        &[
            $issuer,
            field("certificate", Text, "The certificate, in PEM."),
            SIGNATURE_BITS,
            USE_PSS,
            field(
                "require_matching_certificate_algorithms",
                Flag,
                "Whether both keys are of one type.",
            ),
        ]
    };
}

const CRL_CONFIG: &[Field] = &[
    field("expiry", Seconds, "How long a list is good."),
    field("disable", Flag, "Whether lists are empty."),
    field("ocsp_disable", Flag, "Whether OCSP answers nobody."),
    field("ocsp_expiry", Seconds, "How long an answer of OCSP is good."),
    field("auto_rebuild", Flag, "Whether lists are made by the clock."),
    field("auto_rebuild_grace_period", Seconds, "How long before a list ends there is another."),
    field("enable_delta", Flag, "Whether there are lists of what changed."),
    field("delta_rebuild_interval", Seconds, "How often those are made."),
    field("allow_expired_cert_revocation", Flag, "Whether what has ended can be revoked."),
];

const KEY: Field = field("ref", Text, "A key: its id, its name, or `default`.");
const KEY_NAME: Field = field("key_name", Text, "A name for the key.");
const BUNDLE: Field = field("pem_bundle", Text, "Certificates and keys, in PEM.");
const NAME_OF_NEW: Field = field("issuer_name", Text, "A name for the issuer that is new.");

const SIGN_LIST: &[Field] = &[
    REF,
    field("crl_number", Whole, "The number of the list."),
    field(
        "delta_crl_base_number",
        Whole,
        "The number of the list that it goes on from; -1 for none.",
    ),
    field("next_update", Seconds, "When there will be another."),
    field("format", Text, "`pem` or `der`."),
    field("crls", Texts, "Lists of the issuer."),
    field(
        "revoked_certs",
        FieldKind::Map,
        "Objects with `serial_number`, `revocation_time` and `extensions`.",
    ),
    field("extensions", FieldKind::Map, "Objects with `id`, `critical` and `value`."),
];

const CSR: Field = field("csr", Text, "The certificate request, in PEM.");
const METADATA: Field =
    field("cert_metadata", Text, "What is kept with the certificate, in base 64.");

/// What every request for a certificate by a role takes, with what the path names before it, and fields of one's own.
macro_rules! leaf_fields {
    ([$($in_path:expr),*], [$($own:expr),*]) => {
        with_subject_fields!(
            [$($in_path),*],
            [FORMAT, SERIAL, USER_IDS, REMOVE_ROOTS, METADATA, $($own),*]
        )
    };
}

const ISSUE: &[Field] = leaf_fields!([ROLE], [KEY_FORMAT, KEY_TYPE, KEY_BITS]);
const ISSUE_BY_ISSUER: &[Field] = leaf_fields!([ROLE, REF], [KEY_FORMAT, KEY_TYPE, KEY_BITS]);
const SIGN: &[Field] = leaf_fields!([ROLE], [CSR]);
const SIGN_BY_ISSUER: &[Field] = leaf_fields!([ROLE, REF], [CSR]);

/// What signing a request as it is takes; before it who signs, and by what role.
macro_rules! verbatim_fields {
    ($($before:expr),*) => {
        &[
            $($before,)*
            CSR,
            TTL,
            NOT_AFTER,
            NOT_BEFORE,
            NOT_BEFORE_DURATION,
            FORMAT,
            SIGNATURE_BITS,
            USE_PSS,
            REMOVE_ROOTS,
            METADATA,
            field("key_usage", Texts, "Key usages, by name."),
            EXT_KEY_USAGE,
            EXT_KEY_USAGE_OIDS,
            field(
                "basic_constraints_valid_for_non_ca",
                Flag,
                "Whether it says that it is no CA's.",
            ),
        ]
    };
}

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "pki",
    tag: "secrets",
    about: "Certificates of CAs that are kept here.",
    index: RowIndex::new(),
    groups: &[
        &[
            row!("root/generate/{kind}", GENERATE, {
                Update => "Make a root CA.", handler!(generate::generate_root);
            }),
            row!("issuers/generate/root/{kind}", GENERATE, {
                Update => "Make a root CA.", handler!(generate::generate_root);
            }),
            row!("root/rotate/{kind}", GENERATE, {
                Update => "Make a root CA that is next.", handler!(generate::rotate_root);
            }),
            row!("intermediate/generate/{kind}", GENERATE, {
                Update => "Make a request for a CA elsewhere.", handler!(generate::generate_intermediate);
            }),
            row!("issuers/generate/intermediate/{kind}", GENERATE, {
                Update => "Make a request for a CA elsewhere.", handler!(generate::generate_intermediate);
            }),
            row!("intermediate/cross-sign", CROSS_SIGN, {
                Update => "Make a request for a key that there is.", handler!(generate::cross_sign);
            }),
            row!("keys/generate/{kind}", GENERATE, {
                Update => "Make a key.", handler!(generate::generate_key);
            }),
        ],
        &[
            row!("roles", &[AFTER, LIMIT], { List => "List the roles.", handler!(roles::list) }),
            row!("roles/{name}", role::FIELDS, {
                Read => "Read a role.", handler!(roles::read);
                Update => "Make or replace a role.", handler!(roles::write);
                Patch => "Change fields of a role.", handler!(roles::patch);
                Delete => "Delete a role.", handler!(roles::delete);
            }),
        ],
        &[
            row!("issue/{role}", ISSUE, {
                Update => "Issue a certificate with a new key.", handler!(issue::issue);
            }),
            row!("issuer/{ref}/issue/{role}", ISSUE_BY_ISSUER, {
                Update => "Issue a certificate with a new key.", handler!(issue::issue);
            }),
            row!("sign/{role}", SIGN, {
                Update => "Sign a certificate request.", handler!(issue::sign);
            }),
            row!("issuer/{ref}/sign/{role}", SIGN_BY_ISSUER, {
                Update => "Sign a certificate request.", handler!(issue::sign);
            }),
            row!("sign-verbatim", verbatim_fields![ISSUER_REF], {
                Update => "Sign a certificate request as it is.", handler!(issue::sign_verbatim);
            }),
            row!("sign-verbatim/{role}", verbatim_fields![ROLE], {
                Update => "Sign a certificate request as it is.", handler!(issue::sign_verbatim);
            }),
            row!("issuer/{ref}/sign-verbatim", verbatim_fields![REF], {
                Update => "Sign a certificate request as it is.", handler!(issue::sign_verbatim);
            }),
            row!("issuer/{ref}/sign-verbatim/{role}", verbatim_fields![ROLE, REF], {
                Update => "Sign a certificate request as it is.", handler!(issue::sign_verbatim);
            }),
        ],
        &[
            row!("ca", &[], { Read => "Read the certificate of the default issuer.", handler!(read::ca) }
                .admitting(Admits::Anyone).read_at_once(read::der_at_once)),
            row!("ca/pem", &[], { Read => "Read it in PEM.", handler!(read::ca_pem) }
                .admitting(Admits::Anyone).read_at_once(read::pem_at_once)),
            row!("ca_chain", &[], { Read => "Read its chain.", handler!(read::ca_chain) }
                .admitting(Admits::Anyone)),
            row!("crl", &[], { Read => "Read its revocation list.", handler!(read::crl) }
                .admitting(Admits::Anyone).read_at_once(read::crl_at_once)),
            row!("crl/pem", &[], { Read => "Read it in PEM.", handler!(read::crl_pem) }
                .admitting(Admits::Anyone).read_at_once(read::crl_pem_at_once)),
            row!("crl/delta", &[], { Read => "Read what changed since.", handler!(read::delta) }
                .admitting(Admits::Anyone).read_at_once(read::delta_at_once)),
            row!("crl/delta/pem", &[], { Read => "Read it in PEM.", handler!(read::delta_pem) }
                .admitting(Admits::Anyone).read_at_once(read::delta_pem_at_once)),
            row!("issuer/{ref}/json", &[REF], {
                Read => "Read the certificate of an issuer.", handler!(read::issuer_json);
            } .admitting(Admits::Anyone)),
            row!("issuer/{ref}/pem", &[REF], {
                Read => "Read it in PEM.", handler!(read::issuer_pem);
            } .admitting(Admits::Anyone).read_at_once(read::issuer_pem_at_once)),
            row!("issuer/{ref}/der", &[REF], {
                Read => "Read it in DER.", handler!(read::issuer_der);
            } .admitting(Admits::Anyone).read_at_once(read::der_at_once)),
            row!("issuer/{ref}/crl", &[REF], {
                Read => "Read the revocation list of an issuer.", handler!(read::issuer_crl);
            } .admitting(Admits::Anyone)),
            row!("issuer/{ref}/crl/pem", &[REF], {
                Read => "Read it in PEM.", handler!(read::issuer_crl_pem);
            } .admitting(Admits::Anyone).read_at_once(read::issuer_crl_pem_at_once)),
            row!("issuer/{ref}/crl/der", &[REF], {
                Read => "Read it in DER.", handler!(read::issuer_crl_der);
            } .admitting(Admits::Anyone).read_at_once(read::crl_at_once)),
            row!("issuer/{ref}/crl/delta", &[REF], {
                Read => "Read what changed since.", handler!(read::issuer_delta);
            } .admitting(Admits::Anyone)),
            row!("issuer/{ref}/crl/delta/pem", &[REF], {
                Read => "Read it in PEM.", handler!(read::issuer_delta_pem);
            } .admitting(Admits::Anyone).read_at_once(read::issuer_delta_pem_at_once)),
            row!("issuer/{ref}/crl/delta/der", &[REF], {
                Read => "Read it in DER.", handler!(read::issuer_delta_der);
            } .admitting(Admits::Anyone).read_at_once(read::delta_at_once)),
            row!("cert/{serial}", &[SERIAL_PATH], {
                Read => "Read a certificate.", handler!(read::certificate);
            } .admitting(Admits::Anyone)),
            row!("cert/{serial}/raw", &[SERIAL_PATH], {
                Read => "Read it in DER.", handler!(read::certificate_raw);
            } .admitting(Admits::Anyone)),
            row!("cert/{serial}/raw/pem", &[SERIAL_PATH], {
                Read => "Read it in PEM.", handler!(read::certificate_raw_pem);
            } .admitting(Admits::Anyone)),
            row!("certs", &[AFTER, LIMIT], {
                List => "List the certificates.", handler!(read::list_certificates);
            }),
            row!("certs/detailed", &[AFTER, LIMIT], {
                List => "List the certificates with what they say.", handler!(certs::list_detailed);
            }),
            row!("certs/revoked", &[AFTER, LIMIT], {
                List => "List what is revoked.", handler!(read::list_revoked);
            }),
        ],
        &[
            row!("cert-metadata/{serial}", &[SERIAL_PATH], {
                Read => "Read what is kept with a certificate.", handler!(metadata::read);
            }),
            row!("revoke", &[
                field("serial_number", Text, "The serial number of a certificate."),
                field("certificate", Text, "The certificate, in PEM."),
            ], { Update => "Revoke a certificate.", handler!(revoke::revoke) }),
            row!("revoke-with-key", &[
                field("serial_number", Text, "The serial number of a certificate."),
                field("certificate", Text, "The certificate, in PEM."),
                field("private_key", Text, "Its private key, in PEM."),
            ], { Update => "Revoke a certificate by its key.", handler!(revoke::revoke_with_key) }),
            row!("issuer/{ref}/revoke", &[REF], {
                Update => "Take the right to issue from an issuer.", handler!(issuers::revoke);
            }),
            row!("ocsp", &[], { Update => "Ask whether a certificate is revoked.", handler!(ocsp::post) }
                .admitting(Admits::Anyone).served_by(ServedBy::AnyServer)),
            row!("ocsp/{request..}", &[field("request", Text, "The request, in base 64.")], {
                Read => "Ask whether a certificate is revoked.", handler!(ocsp::get);
            } .admitting(Admits::Anyone).read_at_once(ocsp::get_at_once)),
            row!("crl/rotate", &[], {
                Read => "Let there be new revocation lists.", handler!(settings::rotate_crl);
            } .served_by(ServedBy::Leader)),
            row!("crl/rotate-delta", &[], {
                Read => "Let there be new lists of what changed.", handler!(settings::rotate_delta);
            } .served_by(ServedBy::Leader)),
        ],
        &[
            row!("issuers", &[AFTER, LIMIT], { List => "List the issuers.", handler!(issuers::list) }
                .admitting(Admits::Anyone)),
            row!("issuer/{ref}", ISSUER, {
                Read => "Read an issuer.", handler!(issuers::read);
                Update => "Replace the settings of an issuer.", handler!(issuers::write);
                Patch => "Change settings of an issuer.", handler!(issuers::patch);
                Delete => "Delete an issuer.", handler!(issuers::delete);
            }),
            row!("issuers/import/bundle", &[BUNDLE, NAME_OF_NEW], {
                Update => "Take in certificates and keys.", handler!(issuers::import_bundle);
            }),
            row!("issuers/import/cert", &[BUNDLE, NAME_OF_NEW], {
                Update => "Take in certificates.", handler!(issuers::import_certificates);
            }),
            row!("intermediate/set-signed", &[
                field("certificate", Text, "Certificates, in PEM."),
                NAME_OF_NEW,
            ], {
                Update => "Take in what a CA elsewhere signed.", handler!(issuers::set_signed);
            }),
            row!("config/ca", &[BUNDLE, NAME_OF_NEW], {
                Update => "Take in certificates and keys.", handler!(issuers::import_bundle);
            }),
            row!("root", &[], {
                Delete => "Delete all issuers and keys.", handler!(issuers::delete_root);
            } .with_sudo()),
            row!("root/replace", &[field("default", Text, "The issuer.")], {
                Update => "Make another issuer the default.", handler!(issuers::replace_root);
            }),
            row!("config/issuers", &[
                field("default", Text, "The issuer."),
                field("default_follows_latest_issuer", Flag, "Whether the next one will be it."),
            ], {
                Read => "Read which issuer is the default.", handler!(issuers::read_defaults);
                Update => "Set which issuer is the default.", handler!(issuers::write_defaults);
            }),
            row!("config/keys", &[field("default", Text, "The key.")], {
                Read => "Read which key is the default.", handler!(keys::read_defaults);
                Update => "Set which key is the default.", handler!(keys::write_defaults);
            }),
            row!("keys", &[AFTER, LIMIT], { List => "List the keys.", handler!(keys::list) }),
            row!("key/{ref}", &[
                KEY,
                KEY_NAME,
                query("force", Flag, "Whether it is deleted though issuers use it."),
            ], {
                Read => "Read a key, without its secret.", handler!(keys::read);
                Update => "Name a key.", handler!(keys::write);
                Delete => "Delete a key.", handler!(keys::delete);
            }),
            row!("keys/import", &[BUNDLE, KEY_NAME], {
                Update => "Take in a key.", handler!(keys::import);
            }),
        ],
        &[
            row!("root/sign-intermediate", SIGN_CA, {
                Update => "Sign a CA.", handler!(ca_sign::sign_intermediate);
            }),
            row!("issuer/{ref}/sign-intermediate", SIGN_CA_BY_ISSUER, {
                Update => "Sign a CA.", handler!(ca_sign::sign_intermediate);
            }),
            row!("root/sign-self-issued", self_issued_fields!(ISSUER_REF), {
                Update => "Sign a CA that signed itself.", handler!(ca_sign::sign_self_issued);
            } .with_sudo()),
            row!("issuer/{ref}/sign-self-issued", self_issued_fields!(REF), {
                Update => "Sign a CA that signed itself.", handler!(ca_sign::sign_self_issued);
            } .with_sudo()),
            row!("issuer/{ref}/sign-revocation-list", SIGN_LIST, {
                Update => "Sign a revocation list that is kept elsewhere.", handler!(ca_sign::sign_revocation_list);
            } .with_sudo()),
            row!("issuer/{ref}/resign-crls", SIGN_LIST, {
                Update => "Sign one revocation list of several.", handler!(ca_sign::resign_crls);
            } .with_sudo()),
        ],
        &[
            row!("config/urls", ISSUER_URLS, {
                Read => "Read where more is to be found.", handler!(settings::read_urls);
                Update => "Set where more is to be found.", handler!(settings::write_urls);
            }),
            row!("config/cluster", &[
                field("path", Text, "The URL of the mount."),
                field("aia_path", Text, "The same, for who reads certificates and lists."),
            ], {
                Read => "Read where the mount is found.", handler!(settings::read_cluster);
                Update => "Set where the mount is found.", handler!(settings::write_cluster);
            }),
            row!("config/crl", CRL_CONFIG, {
                Read => "Read how revocation is told.", handler!(settings::read_crl);
                Update => "Set how revocation is told.", handler!(settings::write_crl);
            }),
            row!("tidy", tidy_settings::FIELDS, { Update => "Delete what has ended.", handler!(tidy::start) }),
            row!("tidy-status", &[], { Read => "Read how far that is.", handler!(tidy::status) }),
            row!("tidy-cancel", &[], { Update => "End it.", handler!(tidy::cancel) }),
            row!("config/auto-tidy", tidy_settings::FIELDS, {
                Read => "Read what is deleted by the clock.", handler!(tidy_settings::read_auto);
                Update => "Set what is deleted by the clock.", handler!(tidy_settings::write_auto);
            }),
        ],
        acme::SETTINGS,
        acme::AT_MOUNT,
        acme::AT_ROLE,
        acme::AT_ISSUER,
        acme::AT_ISSUER_ROLE,
    ],
};

/// The engine.
pub(crate) static ENGINE: EngineSpec = EngineSpec {
    memory: Some(|| Box::new(memory::Pki::default())),
    light: Some(weight::is_light),
    jobs: &[
        EngineJob {
            name: "lists",
            about: "Lets there be new revocation lists before the old ones end.",
            period_secs: 1,
            run: |call| Box::pin(lists::run(call)),
        },
        EngineJob {
            name: "keys",
            about: "Makes keys of RSA ahead, as many as were taken lately.",
            period_secs: 1,
            run: |call| Box::pin(pool::run(call)),
        },
        EngineJob {
            name: "tidy",
            about: "Deletes certificates that ended, a page at a time.",
            period_secs: 1,
            run: |call| Box::pin(tidy::run(call)),
        },
        acme::PROBE_JOB,
        acme::EXPIRY_JOB,
    ],
    leases: Some(EngineLeases {
        revoke: |call| Box::pin(revoke::end_lease(call)),
        renew: |_, _| {
            let refused = Error::invalid("lease is not renewable");
            Box::pin(std::future::ready(Err(refused)))
        },
        role_ttl: |_| Ok(RoleTtl::default()),
    }),
    ..EngineSpec::secret("pki", &ROUTES)
};
