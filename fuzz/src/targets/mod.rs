//! The registry: every target is a function that takes any bytes and panics when a promise breaks.
//!
//! Targets of the structures live with them (their feature `fuzz`, or the engine's `internals`);
//! those of the public API are here. A new one is a line in [`TARGETS`] and a folder in `corpus/`.

mod acme;
mod foreign;
mod hcl;
mod http_head;
mod http_route;
mod json;
mod lsm;
mod lsm_ops;
mod openpgp;
mod policy;
mod resp;
mod ssh_key;
mod trace;

/// A fuzz target.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&[u8]),
    /// What the target's language is made of.
    pub(crate) words: &'static [&'static [u8]],
}

/// What heads of the barrier's records are made of.
const ENVELOPE_WORDS: &[&[u8]] =
    &[b"\x01", b"\x01\x00\x00\x00", b"\x02\x00\x00\x00", b"\xff\xff\xff\xff", &[0; 16], &[7; 32]];

/// What batches and records of the replicated log are made of.
const STORE_WORDS: &[&[u8]] = &[
    b"\x01\x00\x01",
    b"\x01\x01k\x01v",
    b"\x00\x01k\x00",
    b"\x03\x00\x05\x00\x00\x00\x00\x00\x00\x00",
    b"\x02\x00\x00\x00\x00\x00\x00\x00",
    b"\xff\xff\x03",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
];

/// What ciphertexts, signatures and records of named keys are made of.
const TRANSIT_WORDS: &[&[u8]] = &[
    b"vault:v",
    b"vault:v1:",
    b"1",
    b":",
    b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    b"=",
    b"\x01\x00\x00\x00",
    b"{\"policy\":{\"keys\":{\"1\":{\"key\":\"",
    b"\"latest_version\":1,\"min_decryption_version\":1}}",
];

/// What records and ids of leases are made of.
const LEASE_WORDS: &[&[u8]] = &[
    b"\x01\x01\x14\x00\x00\x00",
    b"\x01\x03\x14\x00\x00\x00",
    b"\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\x03\x04\x00down",
    b"database/creds/r/unJMmnBWSUfWch79qSsTpiu9",
    b"/unJMmnBWSUfWch79qSsTpiu9",
    b".aB3dE",
    b"\x0f\x00\x00\x00",
];

/// What discovery documents, tokens, states and redirect URIs are made of.
const OIDC_WORDS: &[&[u8]] = &[
    b"{\"issuer\":\"https://idp.example/a\",\"jwks_uri\":\"https://idp.example/k\"}",
    b"\"token_endpoint\":\"",
    b"{\"iss\":\"https://idp.example/a\",\"sub\":\"ann\",\"aud\":[\"client\"],\"azp\":\"client\"",
    b",\"exp\":1000300,\"iat\":1000000,\"nonce\":\"nonce\"}",
    b"http://localhost:8250/oidc/callback",
    b"https://vault.example/cb",
    b":65536",
    b"@evil.example",
    b"[\"id\",7,\"role\",\"u\",\"h\",\"f\"]",
    b"{\"keys\":[{\"kty\":\"EC\",\"kid\":\"",
    b"eyJhbGciOiJub25lIn0.e30.",
    b"\n",
];

/// What templates of claims are made of; 0xff divides one from what its values say.
const TEMPLATE_WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"{{",
    b"}}",
    b"[",
    b"]",
    b"\"x\":",
    b"\"sub\":",
    b"\"s\\u0075b\":",
    b"\"\\u00000\\u0000\"",
    b",",
    b"\xff",
    b"{{identity.entity.name}}",
    b"{{identity.entity.metadata}}",
    b"{{identity.entity.metadata.k}}",
    b"{{identity.entity.groups.names}}",
    b"{{identity.entity.aliases.a.metadata.k}}",
    b"{{identity.groups.names.a.id}}",
    b"{{time.now.plus.1h}}",
    b"\", \"sub\": \"root",
];

/// What requests of browsers and clients of the provider are made of.
const PROVIDER_WORDS: &[&[u8]] = &[
    b"client_id=app&",
    b"redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcb&",
    b"redirect_uri=https%3A%2F%2Fapp.example%2Fcb&",
    b"scope=openid&",
    b"response_type=code&",
    b"state=s&",
    b"max_age=10&",
    b"request=x&",
    b"code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&",
    b"code_challenge_method=S256&",
    b"code_challenge_method=plain&",
    b"code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk&",
    b"Basic YXBwOnNlY3JldA==\n",
    b"eyJhbGciOiJub25lIn0.e30.\n",
    b"hvo_access_",
    b"%2f",
    b"@",
    b"localhost",
];

/// What messages of directories are made of.
const LDAP_MESSAGE_WORDS: &[&[u8]] = &[
    b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00",
    b"\x02\x01\x01",
    b"\x65\x07\x0a\x01\x00\x04\x00\x04\x00",
    b"\x64\x13\x04\x04cn=a\x30\x0b\x30\x09\x04\x02Cn\x31\x03\x04\x01a",
    b"\xa0\x26\x30\x24\x04\x161.2.840.113556.1.4.319\x04\x0a\x30\x08\x02\x01\x00\x04\x03abc",
    b"\x30\x84\x00\x00\x00\x10",
    b"\x01\x01\xff",
    b"\xa3\x05\x04\x03url",
    b"\x8a\x031.3",
];
/// What filters, names of entries and LDIF are made of; the first byte says which, 0xff divides a text from a value.
const LDAP_TEXT_WORDS: &[&[u8]] = &[
    b"\x00(&(cn={{.Username}})(member={{.UserDN}}))",
    b"\x01cn=a,dc=x",
    b"\x02dn: cn={{.Username}},dc=x\n",
    b"\xff",
    b"{{.Password | utf16le | base64}}",
    b"changetype: modify\nadd: member\nmember: x\n-\n",
    b"changetype: modrdn\nnewrdn: cn=b\n",
    b"\\2a",
    b"\\,",
    b"(|(!(a=b*)))",
    b"\xc2\xa0",
    b"+",
    b":: ",
    b"\n ",
];
/// What statements with places are made of; 0xff divides a statement from a value.
const KUBERNETES_WORDS: &[&[u8]] = &[
    b"rules:\n",
    b"- ",
    b"verbs: [get]\n",
    b"  resources: ['a', \"b\"]\n",
    b"matchLabels:\n",
    b"matchExpressions:\n",
    b"{key: a, operator: In, values: [b]}",
    b": ",
    b"\n  ",
    b"#",
    b"''",
    b"\x00{\"kind\":\"Role\",\"metadata\":{\"name\":\"name\",\"namespace\":\"ns\",\"uid\":\"u\"}}",
    b"\x00{\"status\":{\"token\":\"a.eyJleHAiOjIsImlhdCI6MX0.b\"}}",
    b"\x46{\"kind\":\"Status\",\"reason\":\"NotFound\"}",
    b"{\"namespace\":\"a\",\"name\":\"b\",\"objects\":[\"Role\"],\"asked_at\":1}",
];
const SQL_WORDS: &[&[u8]] = &[
    b"{{name}}",
    b"'{{name}}'",
    b"\"{{name}}\"",
    b"E'",
    b"'",
    b"\"",
    b"`",
    b"\\",
    b"--",
    b"\n",
    b"#",
    b"/*",
    b"*/",
    b"$$",
    b"$a$",
    b"/*!",
    b"/*M!100100 ",
    b"1",
    b"e",
    b"/",
    b"'; DROP ROLE x; --",
    b"\xff",
    b"CREATE ROLE ",
];

/// Every target.
pub(crate) const TARGETS: [Target; 46] = [
    Target {
        name: "asn1",
        about: "certificates, requests, lists, questions of OCSP, and PEM: read or refused",
        run: foreign::asn1,
        words: foreign::ASN1_WORDS,
    },
    Target {
        name: "backup_file",
        about: "backups: whole or refused, in whatever pieces they come",
        run: foreign::backup_file,
        words: foreign::BACKUP_WORDS,
    },
    Target {
        name: "vault_snapshot",
        about: "raft snapshots of Vault and OpenBao: read or refused, within bounds",
        run: kallisto_vault_snapshot::fuzz::snapshot,
        words: foreign::VAULT_SNAPSHOT_WORDS,
    },
    Target {
        name: "audit_lines",
        about: "audit files: a sound chain, or a fault with its place",
        run: foreign::audit_lines,
        words: foreign::AUDIT_WORDS,
    },
    Target {
        name: "peer_frame",
        about: "frames between servers, and their hello: one encoding, or refused",
        run: kallisto_peers::fuzz::frames,
        words: foreign::PEER_WORDS,
    },
    Target {
        name: "relayed",
        about: "requests and answers that servers hand each other: what decodes, encodes to the same",
        run: kallisto_listener::http::hostile::relay,
        words: http_head::WORDS,
    },
    Target {
        name: "sql_template",
        about: "statements with places: no value changes where literals, names and comments end",
        run: kallisto_engines::fuzz::sql,
        words: SQL_WORDS,
    },
    Target {
        name: "kubernetes",
        about: "documents and answers of Kubernetes: they say what their JSON says, and no other object is taken",
        run: kallisto_engines::fuzz::kubernetes,
        words: KUBERNETES_WORDS,
    },
    Target {
        name: "ldap_message",
        about: "messages of directories: what is let through is taken apart by its reader",
        run: kallisto_outbound::fuzz::ldap,
        words: LDAP_MESSAGE_WORDS,
    },
    Target {
        name: "ldap_text",
        about: "filters, names of entries and LDIF: no value changes what they mean",
        run: kallisto_ldap::fuzz::directory,
        words: LDAP_TEXT_WORDS,
    },
    Target {
        name: "claim_template",
        about: "templates of claims and what their values say: `sub` is always the entity",
        run: kallisto_identity_tokens::fuzz::template,
        words: TEMPLATE_WORDS,
    },
    Target {
        name: "oidc_requests",
        about: "requests to the provider: no code without a challenge, no tokens without its verifier",
        run: kallisto_identity_tokens::fuzz::requests,
        words: PROVIDER_WORDS,
    },
    Target {
        name: "http_head",
        about: "requests of a connection: within their bytes, whole or a part, and read as hyper would",
        run: kallisto_listener::http::hostile::direct,
        words: http_head::WORDS,
    },
    Target {
        name: "http_hyper",
        about: "requests that are taken from a connection before hyper: hyper reads the same ones",
        run: kallisto_listener::http::hostile::beside_hyper,
        words: http_head::WORDS,
    },
    Target {
        name: "http_heads",
        about: "streams of requests before hyper: as much passes in whatever parts they come",
        run: kallisto_listener::http::hostile::heads,
        words: http_head::WORDS,
    },
    Target {
        name: "proxy_header",
        about: "headers of the PROXY protocol: what the specification reads, and nothing behind them",
        run: kallisto_listener::hostile::proxy_header,
        words: foreign::PROXY_WORDS,
    },
    Target {
        name: "trace_context",
        about: "headers of traces: no context, or one that is written as it was read",
        run: trace::run,
        words: trace::WORDS,
    },
    Target {
        name: "otlp_answer",
        about: "answers of collectors of traces: what a second reader reads, and no long pause",
        run: kallisto_otlp::fuzz::answer,
        words: foreign::OTLP_WORDS,
    },
    Target {
        name: "http_route",
        about: "request paths and queries: one spelling, in bounds, decoded once",
        run: http_route::run,
        words: http_route::WORDS,
    },
    Target {
        name: "resp",
        about: "commands of Redis clients: whole, in part or refused, and the same however they arrive",
        run: resp::run,
        words: resp::WORDS,
    },
    Target {
        name: "redis_text",
        about: "patterns of Redis clients and strings without a tree: as plain readers read them",
        run: kallisto_listener::hostile::redis_text,
        words: resp::TEXT_WORDS,
    },
    Target {
        name: "json",
        about: "JSON bodies: a tree whose text is a fixed point, or an error",
        run: json::run,
        words: json::WORDS,
    },
    Target {
        name: "hcl",
        about: "HCL and JSON files: a tree that can be written and read again, or an error",
        run: hcl::run,
        words: hcl::WORDS,
    },
    Target {
        name: "policy",
        about: "policies and paths: a set decides as it explains",
        run: policy::run,
        words: policy::WORDS,
    },
    Target {
        name: "ssh_key",
        about: "keys and options of SSH: one spelling or refused, and certificates say what they were told",
        run: ssh_key::run,
        words: ssh_key::WORDS,
    },
    Target {
        name: "openpgp",
        about: "public keys of operators, in armor or not: refused, or a text is encrypted to them",
        run: openpgp::run,
        words: openpgp::WORDS,
    },
    Target {
        name: "acme",
        about: "signed requests, keys and names of ACME: refused, or one spelling",
        run: kallisto_engines::fuzz::acme,
        words: acme::WORDS,
    },
    Target {
        name: "cuckoo_ops",
        about: "operations on the cuckoo table beside a HashMap",
        run: kallisto_cuckoo::fuzz::cuckoo_ops,
        words: &[],
    },
    Target {
        name: "index_ops",
        about: "operations on the path index beside a BTreeSet",
        run: kallisto_index::index_ops,
        words: &[],
    },
    Target {
        name: "envelope",
        about: "sealed records: refused, or exactly what was sealed there",
        run: kallisto_barrier::fuzz::envelope,
        words: ENVELOPE_WORDS,
    },
    Target {
        name: "keyring",
        about: "keyrings, sealed and opened: an error, or these bytes again",
        run: kallisto_barrier::fuzz::keyring,
        words: ENVELOPE_WORDS,
    },
    Target {
        name: "lsm_ops",
        about: "operations on the storage engine beside a BTreeMap",
        run: lsm_ops::run,
        words: &[],
    },
    Target {
        name: "sst_block",
        about: "data blocks of an SST: searched and walked",
        run: lsm::sst_block,
        words: lsm::WORDS,
    },
    Target {
        name: "sst_filter",
        about: "Bloom filters of an SST",
        run: lsm::sst_filter,
        words: lsm::WORDS,
    },
    Target {
        name: "sst_index",
        about: "block index, properties and footer of an SST",
        run: lsm::sst_index,
        words: lsm::WORDS,
    },
    Target {
        name: "batch",
        about: "encoded operations, as the WAL carries them",
        run: lsm::batch,
        words: lsm::WORDS,
    },
    Target {
        name: "wal_record",
        about: "frames of the WAL; most die at the checksum, as they should",
        run: lsm::wal_record,
        words: lsm::WORDS,
    },
    Target {
        name: "store_batch",
        about: "batches as the replicated log carries them: what decodes, encodes to the same",
        run: kallisto_store::fuzz::batch_codec,
        words: STORE_WORDS,
    },
    Target {
        name: "raft_log",
        about: "records in a frame of the replicated log",
        run: kallisto_store::fuzz::raft_log_payload,
        words: STORE_WORDS,
    },
    Target {
        name: "transit_text",
        about: "ciphertexts, signatures and HMACs of named keys: refused, or what was encrypted",
        run: kallisto_transit::fuzz::ciphertext,
        words: TRANSIT_WORDS,
    },
    Target {
        name: "transit_record",
        about: "records and backups of named keys: an error, or a key that can be stored",
        run: kallisto_transit::fuzz::record,
        words: TRANSIT_WORDS,
    },
    Target {
        name: "lease_record",
        about: "records and ids of leases: refused, or written as they were read",
        run: kallisto_leases::fuzz::record,
        words: LEASE_WORDS,
    },
    Target {
        name: "oidc",
        about: "what providers, browsers and clients hand a login: refused, or what its rules say",
        run: kallisto_auth_methods::fuzz::oidc,
        words: OIDC_WORDS,
    },
    Target {
        name: "raft_message",
        about: "messages between peers: what decodes, encodes to the same",
        run: kallisto_store::fuzz::raft_message,
        words: STORE_WORDS,
    },
    Target {
        name: "raft_snapshot",
        about: "chunks of a snapshot, behind a checksum",
        run: kallisto_store::fuzz::raft_snapshot_chunk,
        words: STORE_WORDS,
    },
    Target {
        name: "manifest",
        about: "the log of live files",
        run: lsm::manifest,
        words: lsm::WORDS,
    },
];

/// The targets, one a line.
pub(crate) fn list() -> String {
    TARGETS.iter().map(|target| format!("  {:<12} {}\n", target.name, target.about)).collect()
}
