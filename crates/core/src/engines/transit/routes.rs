//! The routes of the transit engine, below its mounts.

use kallisto_auth::Operation::{Delete, List, Read, Update};

use kallisto_engine::Family;
use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Field, LIMIT, Route, field, query};

/// Named keys.
pub(crate) static TRANSIT: Family = Family {
    name: "transit",
    tag: "secrets",
    about: "Encryption, signatures and HMACs for clients, under named keys that stay here.",
    groups: &[KEYS, USE, PORTABLE, TOOLS],
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

const KEYS: &[Route] = &[
    Route::new("keys", &[(List, "List the keys.")], &[AFTER, LIMIT]),
    Route::new(
        "keys/{name}",
        &[
            (Read, "Read what is told of a key: all but its material."),
            (Update, "Make a key, unless there is one of this name."),
            (Delete, "Delete a key whose settings allow it."),
        ],
        &[
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
        ],
    ),
    Route::new(
        "keys/{name}/rotate",
        &[(Update, "Add a version, which is used from now on.")],
        &[NAME],
    ),
    Route::new(
        "keys/{name}/config",
        &[(Update, "Change the settings of a key.")],
        &[
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
        ],
    ),
    Route::new(
        "keys/{name}/trim",
        &[(Update, "Remove old versions for good.")],
        &[NAME, field("min_available_version", Whole, "The oldest version to keep.")],
    ),
    Route::new(
        "keys/{name}/soft-delete",
        &[(Delete, "Set a key aside: it is kept, and refused for every use.")],
        &[NAME],
    ),
    Route::new(
        "keys/{name}/soft-delete-restore",
        &[(Update, "Take up a key that was set aside.")],
        &[NAME],
    ),
    Route::new(
        "keys/{name}/import",
        &[(Update, "Make a key of material from elsewhere.")],
        &[
            NAME,
            TYPE,
            WRAPPED,
            PUBLIC_HALF,
            OAEP_HASH,
            DERIVED,
            field("allow_rotation", Flag, "Whether this server may make further versions."),
            EXPORTABLE,
            BACKUPS,
            AUTO_ROTATE,
        ],
    ),
    Route::new(
        "keys/{name}/import_version",
        &[(Update, "Add a version from elsewhere to an imported key, or its private half to one.")],
        &[
            NAME,
            WRAPPED,
            PUBLIC_HALF,
            OAEP_HASH,
            field(
                "version",
                Whole,
                "The version that gets its private half; a new one without it.",
            ),
        ],
    ),
];

const USE: &[Route] = &[
    Route::new(
        "encrypt/{name}",
        &[(Update, "Encrypt. With the create capability the key is made if it is missing.")],
        &[
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
        ],
    )
    .creating(),
    Route::new(
        "decrypt/{name}",
        &[(Update, "Decrypt.")],
        &[NAME, CIPHERTEXT, CONTEXT, ASSOCIATED, BATCH, PARTIAL],
    ),
    Route::new(
        "rewrap/{name}",
        &[(Update, "Encrypt anew, under the latest version, without showing the plaintext.")],
        &[NAME, CIPHERTEXT, CONTEXT, ASSOCIATED, VERSION, BATCH],
    ),
    Route::new(
        "datakey/{plaintext}/{name}",
        &[(Update, "Make a data key: encrypted, and for `plaintext` in the clear besides.")],
        &[
            field("plaintext", Text, "`plaintext` or `wrapped`."),
            NAME,
            field("bits", Whole, "128, 256 (the default) or 512."),
            CONTEXT,
            ASSOCIATED,
            VERSION,
        ],
    ),
    Route::new("sign/{name}", &[(Update, "Sign.")], SIGN),
    Route::new("sign/{name}/{urlalgorithm}", &[(Update, "Sign, with this hash.")], SIGN),
    Route::new("verify/{name}", &[(Update, "Verify a signature or an HMAC.")], VERIFY),
    Route::new(
        "verify/{name}/{urlalgorithm}",
        &[(Update, "Verify a signature or an HMAC over this hash.")],
        VERIFY,
    ),
    Route::new("hmac/{name}", &[(Update, "Make an HMAC.")], HMAC),
    Route::new("hmac/{name}/{urlalgorithm}", &[(Update, "Make an HMAC over this hash.")], HMAC),
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

const PORTABLE: &[Route] = &[
    Route::new("export/{type}/{name}", &[(Read, "Export a key that may leave.")], EXPORT),
    Route::new(
        "export/{type}/{name}/{version}",
        &[(Read, "Export one version of a key that may leave.")],
        EXPORT,
    ),
    Route::new(
        "backup/{name}",
        &[(Read, "Read a backup in the clear of a key whose settings allow it.")],
        &[NAME],
    )
    .more("The form is that of Vault and OpenBao, so the key can be restored there as well."),
    Route::new("restore", &[(Update, "Restore a key under the name it had.")], RESTORE),
    Route::new("restore/{name}", &[(Update, "Restore a key under this name.")], RESTORE),
    Route::new("wrapping_key", &[(Read, "Read the public key that imports are wrapped for.")], &[]),
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

const TOOLS: &[Route] = &[
    Route::new("random", &[(Update, "Draw random bytes.")], RANDOM),
    Route::new("random/{source}", &[(Update, "Draw random bytes.")], RANDOM),
    Route::new("random/{source}/{urlbytes}", &[(Update, "Draw so many random bytes.")], RANDOM),
    Route::new("hash", &[(Update, "Hash an input.")], HASHED),
    Route::new("hash/{urlalgorithm}", &[(Update, "Hash an input with this algorithm.")], HASHED),
    Route::new(
        "config/keys",
        &[(Read, "Read the settings of the mount."), (Update, "Change the settings of the mount.")],
        &[field("disable_upsert", Flag, "Whether encrypting makes no keys.")],
    ),
    Route::new(
        "cache-config",
        &[(Read, "Read the size that was asked for."), (Update, "Ask for a size of the cache.")],
        &[field("size", Whole, "0, or 10 and more. Kept and shown; the server sizes its own.")],
    ),
];

const RANDOM: &[Field] = &[SOURCE, field("urlbytes", Whole, "How many."), BYTES, FORMAT];
const HASHED: &[Field] = &[INPUT, IN_PATH, OLD_HASH, FORMAT];
