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
//! revoked/SERIAL        that one is revoked, since when, and after which list
//! crl/SCOPE             which lists there are of one who signs: numbers and times
//! config/…              settings; config/generation is written by every change of issuers and keys
//! ```
//!
//! Invariants:
//! - Names are decided by [`kallisto_pki::names::grant`], wherever they come from.
//! - A revocation writes what it says and no more: no list is stored. Lists are made of what is in memory, by whoever is asked for one,
//!   and the same on every server ([`lists`]).
//! - Numbers of lists rise, complete ones and deltas together; a list of a number never says anything else.
//! - No answer holds a private key but that to its making, where it was asked for.

mod answer;
mod config;
mod generate;
mod given;
mod ids;
mod issue;
mod issuer;
mod lists;
mod memory;
mod read;
mod revoke;
mod revoked;
mod role;
mod roles;
mod structure;
mod templates;
#[cfg(test)]
mod tests;
mod wanted;

use kallisto_api::Error;
use kallisto_engine::FieldKind::{Flag, Span as Seconds, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Field, LIMIT, field};
use kallisto_engine::{
    Admits, EngineLeases, EngineSpec, Handler, RowIndex, ServedBy, Table, handler, row,
};

use wanted::{
    ALT_NAMES, COMMON_NAME, EXCLUDE_CN, FORMAT, IP_SANS, KEY_BITS, KEY_FORMAT, KEY_TYPE, NOT_AFTER,
    NOT_BEFORE, NOT_BEFORE_DURATION, OTHER_SANS, REMOVE_ROOTS, SERIAL, SIGNATURE_BITS, TTL,
    URI_SANS, USE_PSS, USER_IDS,
};

const REF: Field = field("ref", Text, "An issuer: its id, its name, or `default`.");
const ROLE: Field = field("role", Text, "The name of the role.");
const NAME: Field = field("name", Text, "The name of the role.");
const KIND: Field = field("kind", Text, "`internal`, `exported` or `existing`.");
const SERIAL_PATH: Field =
    field("serial", Text, "A serial number; or `ca`, `ca_chain`, `crl`, `delta-crl`.");

/// What every request for a CA takes.
const GENERATE: &[Field] = &[
    KIND,
    COMMON_NAME,
    ALT_NAMES,
    IP_SANS,
    URI_SANS,
    OTHER_SANS,
    EXCLUDE_CN,
    TTL,
    NOT_AFTER,
    NOT_BEFORE,
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
    field("organization", Texts, "O of the subject."),
    field("ou", Texts, "OU of the subject."),
    field("country", Texts, "C of the subject."),
    field("locality", Texts, "L of the subject."),
    field("province", Texts, "ST of the subject."),
    field("street_address", Texts, "The street of the subject."),
    field("postal_code", Texts, "The postal code of the subject."),
];

const ISSUE: &[Field] = &[
    ROLE,
    REF,
    COMMON_NAME,
    ALT_NAMES,
    IP_SANS,
    URI_SANS,
    OTHER_SANS,
    EXCLUDE_CN,
    TTL,
    NOT_AFTER,
    NOT_BEFORE,
    FORMAT,
    KEY_FORMAT,
    KEY_TYPE,
    KEY_BITS,
    SERIAL,
    USER_IDS,
    REMOVE_ROOTS,
    field("csr", Text, "The certificate request, in PEM."),
    field("key_usage", Texts, "Key usages, by name."),
    field("ext_key_usage", Texts, "Extended key usages, by name."),
    field("ext_key_usage_oids", Texts, "Extended key usages, by number."),
];

static ROUTES: Table<Handler> = Table {
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
            row!("intermediate/cross-sign", GENERATE, {
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
            row!("issuer/{ref}/issue/{role}", ISSUE, {
                Update => "Issue a certificate with a new key.", handler!(issue::issue);
            }),
            row!("sign/{role}", ISSUE, {
                Update => "Sign a certificate request.", handler!(issue::sign);
            }),
            row!("issuer/{ref}/sign/{role}", ISSUE, {
                Update => "Sign a certificate request.", handler!(issue::sign);
            }),
            row!("sign-verbatim", ISSUE, {
                Update => "Sign a certificate request as it is.", handler!(issue::sign_verbatim);
            }),
            row!("sign-verbatim/{role}", ISSUE, {
                Update => "Sign a certificate request as it is.", handler!(issue::sign_verbatim);
            }),
            row!("issuer/{ref}/sign-verbatim", ISSUE, {
                Update => "Sign a certificate request as it is.", handler!(issue::sign_verbatim);
            }),
            row!("issuer/{ref}/sign-verbatim/{role}", ISSUE, {
                Update => "Sign a certificate request as it is.", handler!(issue::sign_verbatim);
            }),
        ],
        &[
            row!("ca", &[], { Read => "Read the certificate of the default issuer.", handler!(read::ca) }
                .admitting(Admits::Anyone)),
            row!("ca/pem", &[], { Read => "Read it in PEM.", handler!(read::ca_pem) }
                .admitting(Admits::Anyone)),
            row!("ca_chain", &[], { Read => "Read its chain.", handler!(read::ca_chain) }
                .admitting(Admits::Anyone)),
            row!("crl", &[], { Read => "Read its revocation list.", handler!(read::crl) }
                .admitting(Admits::Anyone)),
            row!("crl/pem", &[], { Read => "Read it in PEM.", handler!(read::crl_pem) }
                .admitting(Admits::Anyone)),
            row!("crl/delta", &[], { Read => "Read what changed since.", handler!(read::delta) }
                .admitting(Admits::Anyone)),
            row!("crl/delta/pem", &[], { Read => "Read it in PEM.", handler!(read::delta_pem) }
                .admitting(Admits::Anyone)),
            row!("issuer/{ref}/json", &[REF], {
                Read => "Read the certificate of an issuer.", handler!(read::issuer_json);
            } .admitting(Admits::Anyone)),
            row!("issuer/{ref}/pem", &[REF], {
                Read => "Read it in PEM.", handler!(read::issuer_pem);
            } .admitting(Admits::Anyone)),
            row!("issuer/{ref}/der", &[REF], {
                Read => "Read it in DER.", handler!(read::issuer_der);
            } .admitting(Admits::Anyone)),
            row!("issuer/{ref}/crl", &[REF], {
                Read => "Read the revocation list of an issuer.", handler!(read::issuer_crl);
            } .admitting(Admits::Anyone)),
            row!("issuer/{ref}/crl/pem", &[REF], {
                Read => "Read it in PEM.", handler!(read::issuer_crl_pem);
            } .admitting(Admits::Anyone)),
            row!("issuer/{ref}/crl/der", &[REF], {
                Read => "Read it in DER.", handler!(read::issuer_crl_der);
            } .admitting(Admits::Anyone)),
            row!("issuer/{ref}/crl/delta", &[REF], {
                Read => "Read what changed since.", handler!(read::issuer_delta);
            } .admitting(Admits::Anyone)),
            row!("issuer/{ref}/crl/delta/pem", &[REF], {
                Read => "Read it in PEM.", handler!(read::issuer_delta_pem);
            } .admitting(Admits::Anyone)),
            row!("issuer/{ref}/crl/delta/der", &[REF], {
                Read => "Read it in DER.", handler!(read::issuer_delta_der);
            } .admitting(Admits::Anyone)),
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
            row!("certs/revoked", &[AFTER, LIMIT], {
                List => "List what is revoked.", handler!(read::list_revoked);
            }),
        ],
        &[
            row!("revoke", &[
                field("serial_number", Text, "The serial number of a certificate."),
                field("certificate", Text, "The certificate, in PEM."),
            ], { Update => "Revoke a certificate.", handler!(revoke::revoke) }),
            row!("revoke-with-key", &[
                field("serial_number", Text, "The serial number of a certificate."),
                field("certificate", Text, "The certificate, in PEM."),
                field("private_key", Text, "Its private key, in PEM."),
            ], { Update => "Revoke a certificate by its key.", handler!(revoke::revoke_with_key) }),
        ],
    ],
};

/// The engine.
pub(crate) static ENGINE: EngineSpec = EngineSpec {
    caseless_folders: &["role/"],
    memory: Some(|| Box::new(memory::Pki::default())),
    leases: Some(EngineLeases {
        revoke: |call| Box::pin(revoke::end_lease(call)),
        renew: |_, _| {
            let refused = Error::invalid("lease is not renewable");
            Box::pin(std::future::ready(Err(refused)))
        },
    }),
    ..EngineSpec::secret("pki", &ROUTES)
};
