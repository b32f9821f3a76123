//! The routes of the transit engine, below its mounts.

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Field, LIMIT, ServedBy, field, query};
use kallisto_engine::{Handler, RouteRows, RowGroup, RowIndex, handler, row};

use super::store::record_name;
use super::{TransitHandler, config, crypt, key_name, manage, portable, request, sign, tools};

/// Named keys.
pub(super) static TRANSIT: RouteRows<Handler> = RouteRows {
    name: "transit",
    tag: "secrets",
    about: "Encryption, signatures and HMACs for clients, under named keys that stay here.",
    groups: &[KEYS, USE, PORTABLE, TOOLS],
    index: RowIndex::new(),
};

const NAME: Field =
    field("name", Text, "Name of the key: letters, digits, `_`, and `.` `-` inside.");
const BATCH: Field =
    field("batch_input", Texts, "Objects to work off in one request, each with its own fields.");
const CONTEXT: Field = field("context", Text, "What a derived key is derived by, in base64.");
const ASSOCIATED: Field =
    field("associated_data", Text, "What the ciphertext vouches for besides, in base64.");
const VERSION: Field = field("key_version", Whole, "The version to use; 0 for the latest.");
const PARTIAL: Field = field(
    "partial_failure_response_code",
    Whole,
    "The status of a batch of which some failed, in place of 400.",
);
const EXPORTABLE: Field = field("exportable", Flag, "Whether its material may leave; for good.");
const BACKUPS: Field =
    field("allow_plaintext_backup", Flag, "Whether backups in the clear may be made; for good.");
const AUTO_ROTATE: Field = field(
    "auto_rotate_period",
    Span,
    "After how long it should be rotated, an hour or more; 0 for never.",
);
const TYPE: Field = field(
    "type",
    Text,
    "aes128-gcm96, aes256-gcm96 (the default), chacha20-poly1305, xchacha20-poly1305, ed25519, \
     ecdsa-p256, ecdsa-p384, ecdsa-p521, rsa-2048, rsa-3072, rsa-4096 or hmac.",
);
const DERIVED: Field = field("derived", Flag, "Whether each context has a key of its own.");
const INPUT: Field = field("input", Text, "The bytes, in base64.");
const IN_PATH: Field = field("urlalgorithm", Text, "The hash algorithm.");
const HASH: Field =
    field("hash_algorithm", Text, "sha2-256 (the default), sha1, or another of sha2 and sha3.");
const OLD_HASH: Field = field("algorithm", Text, "The same by its old name.");
const PREHASHED: Field = field("prehashed", Flag, "Whether the input is a digest already.");
const PADDING: Field =
    field("signature_algorithm", Text, "For RSA: pss (the default) or pkcs1v15.");
const MARSHALING: Field = field("marshaling_algorithm", Text, "asn1 (the default) or jws.");
const SALT: Field = field("salt_length", Text, "For pss: auto (the default) or hash.");
const CIPHERTEXT: Field = field("ciphertext", Text, "What an encryption returned.");
const WRAPPED: Field =
    field("ciphertext", Text, "The key, wrapped for the wrapping key, in base64.");
const PUBLIC_HALF: Field = field("public_key", Text, "The public half alone, in PEM, of a pair.");
const OAEP_HASH: Field = field(
    "hash_function",
    Text,
    "The hash of the wrapping: SHA256 (the default), SHA1, SHA384 or SHA512.",
);
const BYTES: Field = field("bytes", Whole, "How many; 32 by default, 131072 at the most.");
const FORMAT: Field = field("format", Text, "hex or base64.");
const SOURCE: Field =
    field("source", Text, "platform, seal or all, which are one here; or how many bytes.");

const KEYS: RowGroup<Handler> = &[
    row!("keys", &[AFTER, LIMIT], {
        List => "List the keys.", handler!(|call| manage::list(&TransitHandler { call: &call }));
    }),
    row!("keys/{name}", &[
        NAME,
        TYPE,
        DERIVED,
        field(
            "convergent_encryption",
            Flag,
            "Whether equal plaintexts in a context look equal.",
        ),
        field("key_size", Whole, "Bytes of an hmac key: 32 to 512."),
        EXPORTABLE,
        BACKUPS,
        AUTO_ROTATE,
        query("context", Text, "Of which context to show the public key, in base64."),
    ], {
        Read => "Read what is told of a key: all but its material.",
            handler!(|call| manage::read(&TransitHandler { call: &call }, key_name(&call)?));
        Update => "Make a key, unless there is one of this name.",
            handler!(async |call| manage::create(&TransitHandler { call: &call }, key_name(&call)?).await);
        Delete => "Delete a key whose settings allow it.",
            handler!(async |call| manage::delete(&TransitHandler { call: &call }, key_name(&call)?).await);
    }),
    row!("keys/{name}/rotate", &[NAME], {
        Update => "Add a version, which is used from now on.",
            handler!(async |call| manage::rotate(&TransitHandler { call: &call }, key_name(&call)?).await);
    }),
    row!("keys/{name}/csr", &[
        NAME,
        field("version", Whole, "The version whose key it is for; 0 (the default) for the latest."),
        field("csr", Text, "A request in PEM, whose name and extensions it gets; without one it has none."),
    ], {
        Update => "Make a certificate request for a key that signs.",
            handler!(async |call| request::make(&TransitHandler { call: &call }, key_name(&call)?).await);
    }),
    row!("keys/{name}/config", &[
        NAME,
        field(
            "min_decryption_version",
            Whole,
            "The oldest version that decrypts and verifies.",
        ),
        field(
            "min_encryption_version",
            Whole,
            "The oldest version that encrypts and signs; 0 for any.",
        ),
        field("deletion_allowed", Flag, "Whether it may be deleted."),
        EXPORTABLE,
        BACKUPS,
        AUTO_ROTATE,
    ], {
        Update => "Change the settings of a key.",
            handler!(async |call| manage::configure(&TransitHandler { call: &call }, key_name(&call)?).await);
    }),
    row!("keys/{name}/trim", &[NAME, field("min_available_version", Whole, "The oldest version to keep.")], {
        Update => "Remove old versions for good.",
            handler!(async |call| manage::trim(&TransitHandler { call: &call }, key_name(&call)?).await);
    }),
    row!("keys/{name}/soft-delete", &[NAME], {
        Delete => "Set a key aside: it is kept, and refused for every use.",
            handler!(async |call| manage::set_aside(&TransitHandler { call: &call }, key_name(&call)?).await);
    }),
    row!("keys/{name}/soft-delete-restore", &[NAME], {
        Update => "Take up a key that was set aside.",
            handler!(async |call| manage::take_up(&TransitHandler { call: &call }, key_name(&call)?).await);
    }),
    row!("keys/{name}/import", &[
        NAME,
        TYPE,
        WRAPPED,
        PUBLIC_HALF,
        OAEP_HASH,
        DERIVED,
        field(
            "kdf",
            Text,
            "How a derived key derives: hmac-sha256-counter (the default) or hkdf_sha256, as of keys made by a server.",
        ),
        field("allow_rotation", Flag, "Whether this server may make further versions."),
        EXPORTABLE,
        BACKUPS,
        AUTO_ROTATE,
    ], {
        Update => "Make a key of material from elsewhere.",
            handler!(async |call| portable::import(&TransitHandler { call: &call }, key_name(&call)?).await);
    }),
    row!("keys/{name}/import_version", &[
        NAME,
        WRAPPED,
        PUBLIC_HALF,
        OAEP_HASH,
        field(
            "version",
            Whole,
            "The version that gets its private half; a new one without it.",
        ),
    ], {
        Update => "Add a version from elsewhere to an imported key, or its private half to one.",
            handler!(async |call| portable::import_version(&TransitHandler { call: &call }, key_name(&call)?).await);
    }),
];

const USE: RowGroup<Handler> = &[
    row!("encrypt/{name}", &[
        NAME,
        field("plaintext", Text, "The bytes, in base64."),
        CONTEXT,
        ASSOCIATED,
        VERSION,
        BATCH,
        PARTIAL,
        TYPE,
        field(
            "convergent_encryption",
            Flag,
            "Of a key that is made: whether it is convergent.",
        ),
    ], {
        Update => "Encrypt. With the create capability the key is made if it is missing.",
            handler!(async |call| crypt::encrypt(&TransitHandler { call: &call }, key_name(&call)?).await);
    } .creating(|to| Some(record_name(to.params.get("name")))).served_by(ServedBy::LeaderOrRecentView)),
    row!("decrypt/{name}", &[NAME, CIPHERTEXT, CONTEXT, ASSOCIATED, BATCH, PARTIAL], {
        Update => "Decrypt.", handler!(async |call| crypt::decrypt(&TransitHandler { call: &call }, key_name(&call)?).await);
    }.served_by(ServedBy::LeaderOrRecentView)),
    row!("rewrap/{name}", &[NAME, CIPHERTEXT, CONTEXT, ASSOCIATED, VERSION, BATCH], {
        Update => "Encrypt anew, under the latest version, without showing the plaintext.",
            handler!(async |call| crypt::rewrap(&TransitHandler { call: &call }, key_name(&call)?).await);
    }.served_by(ServedBy::LeaderOrRecentView)),
    row!("datakey/{plaintext}/{name}", &[
        field("plaintext", Text, "`plaintext` or `wrapped`."),
        NAME,
        field("bits", Whole, "128, 256 (the default) or 512."),
        CONTEXT,
        ASSOCIATED,
        VERSION,
    ], {
        Update => "Make a data key: encrypted, and for `plaintext` in the clear besides.",
            handler!(|call| crypt::datakey(&TransitHandler { call: &call }, call.params.get("plaintext"), key_name(&call)?));
    }.served_by(ServedBy::LeaderOrRecentView)),
    row!("sign/{name}", SIGN, {
        Update => "Sign.", handler!(async |call| sign::sign(&TransitHandler { call: &call }, key_name(&call)?, None).await);
    }.served_by(ServedBy::LeaderOrRecentView)),
    row!("sign/{name}/{urlalgorithm}", SIGN, {
        Update => "Sign, with this hash.",
            handler!(async |call| sign::sign(&TransitHandler { call: &call }, key_name(&call)?, Some(call.params.get("urlalgorithm"))).await);
    }.served_by(ServedBy::LeaderOrRecentView)),
    row!("verify/{name}", VERIFY, {
        Update => "Verify a signature or an HMAC.",
            handler!(async |call| sign::verify(&TransitHandler { call: &call }, key_name(&call)?, None).await);
    }.served_by(ServedBy::LeaderOrRecentView)),
    row!("verify/{name}/{urlalgorithm}", VERIFY, {
        Update => "Verify a signature or an HMAC over this hash.",
            handler!(async |call| sign::verify(&TransitHandler { call: &call }, key_name(&call)?, Some(call.params.get("urlalgorithm"))).await);
    }.served_by(ServedBy::LeaderOrRecentView)),
    row!("hmac/{name}", HMAC, {
        Update => "Make an HMAC.", handler!(async |call| sign::hmac(&TransitHandler { call: &call }, key_name(&call)?, None).await);
    }.served_by(ServedBy::LeaderOrRecentView)),
    row!("hmac/{name}/{urlalgorithm}", HMAC, {
        Update => "Make an HMAC over this hash.",
            handler!(async |call| sign::hmac(&TransitHandler { call: &call }, key_name(&call)?, Some(call.params.get("urlalgorithm"))).await);
    }.served_by(ServedBy::LeaderOrRecentView)),
];

const SIGN: &[Field] = &[
    NAME, IN_PATH, INPUT, CONTEXT, VERSION, HASH, OLD_HASH, PREHASHED, PADDING, MARSHALING, SALT,
    BATCH,
];

const VERIFY: &[Field] = &[
    NAME,
    IN_PATH,
    INPUT,
    field("signature", Text, "The signature to verify."),
    field("hmac", Text, "Or the HMAC."),
    CONTEXT,
    HASH,
    OLD_HASH,
    PREHASHED,
    PADDING,
    MARSHALING,
    SALT,
    BATCH,
];

const HMAC: &[Field] = &[NAME, IN_PATH, INPUT, VERSION, OLD_HASH, BATCH];

const PORTABLE: RowGroup<Handler> = &[
    row!("export/{type}/{name}", EXPORT, {
        Read => "Export a key that may leave.",
            handler!(|call| portable::export(&TransitHandler { call: &call }, call.params.get("type"), key_name(&call)?, None));
    }),
    row!("export/{type}/{name}/{version}", EXPORT, {
        Read => "Export one version of a key that may leave.",
            handler!(|call| portable::export(&TransitHandler { call: &call }, call.params.get("type"), key_name(&call)?, Some(call.params.get("version"))));
    }),
    row!("backup/{name}", &[NAME], {
        Read => "Read a backup in the clear of a key whose settings allow it.",
            handler!(async |call| portable::backup(&TransitHandler { call: &call }, key_name(&call)?).await);
    } .more("The form is that of Vault and OpenBao, so the key can be restored there as well.")),
    row!("restore", RESTORE, {
        Update => "Restore a key under the name it had.",
            handler!(async |call| portable::restore(&TransitHandler { call: &call }, None).await);
    }),
    row!("restore/{name}", RESTORE, {
        Update => "Restore a key under this name.",
            handler!(async |call| portable::restore(&TransitHandler { call: &call }, Some(key_name(&call)?)).await);
    }),
    row!("wrapping_key", &[], {
        Read => "Read the public key that imports are wrapped for.",
            handler!(async |call| portable::wrapping_key(&TransitHandler { call: &call }).await);
    }),
];

const EXPORT: &[Field] = &[
    field("type", Text, "encryption-key, signing-key, hmac-key or public-key."),
    NAME,
    field("version", Text, "A number, or `latest`."),
    query("format", Text, "raw, der or pem, where the type has it; empty for the usual one."),
];

const RESTORE: &[Field] = &[
    NAME,
    field("backup", Text, "What a backup returned, here or elsewhere."),
    field("force", Flag, "Whether a key of this name is replaced."),
];

const TOOLS: RowGroup<Handler> = &[
    row!("random", RANDOM, {
        Update => "Draw random bytes.", handler!(|call| tools::random(&TransitHandler { call: &call }, None, None));
    } .served_by(ServedBy::AnyServer).light()),
    row!("random/{source}", RANDOM, {
        Update => "Draw random bytes.",
            handler!(|call| tools::random(&TransitHandler { call: &call }, Some(call.params.get("source")), None));
    } .served_by(ServedBy::AnyServer).light()),
    row!("random/{source}/{urlbytes}", RANDOM, {
        Update => "Draw so many random bytes.",
            handler!(|call| tools::random(&TransitHandler { call: &call }, Some(call.params.get("source")), Some(call.params.get("urlbytes"))));
    } .served_by(ServedBy::AnyServer).light()),
    row!("hash", HASHED, {
        Update => "Hash an input.", handler!(|call| tools::hash(&TransitHandler { call: &call }, None));
    } .served_by(ServedBy::AnyServer).light()),
    row!("hash/{urlalgorithm}", HASHED, {
        Update => "Hash an input with this algorithm.",
            handler!(|call| tools::hash(&TransitHandler { call: &call }, Some(call.params.get("urlalgorithm"))));
    } .served_by(ServedBy::AnyServer).light()),
    row!("config/keys", &[field("disable_upsert", Flag, "Whether encrypting makes no keys.")], {
        Read => "Read the settings of the mount.", handler!(|call| config::read_keys(&TransitHandler { call: &call }));
        Update => "Change the settings of the mount.",
            handler!(async |call| config::write_keys(&TransitHandler { call: &call }).await);
    }),
    row!("cache-config", &[field("size", Whole, "0, or 10 and more. Kept and shown; the server sizes its own.")], {
        Read => "Read the size that was asked for.", handler!(|call| config::read_cache(&TransitHandler { call: &call }));
        Update => "Ask for a size of the cache.", handler!(async |call| config::write_cache(&TransitHandler { call: &call }).await);
    }),
];

const RANDOM: &[Field] = &[SOURCE, field("urlbytes", Whole, "How many."), BYTES, FORMAT];
const HASHED: &[Field] = &[INPUT, IN_PATH, OLD_HASH, FORMAT];
