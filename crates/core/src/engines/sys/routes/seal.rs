//! Initialising, unsealing, sealing, and the keys.

use kallisto_auth::Operation::{Delete, Read, Update};

use kallisto_engine::FieldKind::{Flag, Span, Text, Whole};
use kallisto_engine::route::{Admits, Field, Route, Scope, ServedBy, field, query};

const NONCE: Field = field("nonce", Text, "The attempt's nonce.");
const KEY: Field = field("key", Text, "A share, in hexadecimal or base64.");

/// What anyone may ask of a server, sealed or not.
pub(super) const STATUS: &[Route] = &[
    Route::new(
        "health",
        &[(
            Read,
            "Say by status code whether the server is active, standby, sealed or not initialised.",
        )],
        &[
            query("standbyok", Flag, "Answer as if active when standby."),
            query("perfstandbyok", Flag, "Answer as if active when performance standby."),
            query("activecode", Whole, "Status code when active."),
            query("standbycode", Whole, "Status code when standby."),
            query("sealedcode", Whole, "Status code when sealed."),
            query("uninitcode", Whole, "Status code when not initialised."),
        ],
    )
    .unaudited()
    .ignoring_view()
    .for_operators()
    .unlimited()
    .admitting(Admits::Anyone),
    Route::new(
        "init",
        &[
            (Read, "Say whether the server is initialised."),
            (Update, "Initialise the server: make its keys, their shares and a root token."),
        ],
        &[
            field("secret_shares", Whole, "Shares the unseal key is split into."),
            field("secret_threshold", Whole, "Shares it takes to unseal."),
            field(
                "recovery_shares",
                Whole,
                "The same for the recovery key of an auto-unsealed server.",
            ),
            field("recovery_threshold", Whole, "Shares it takes to recover."),
        ],
    )
    .unaudited()
    .ignoring_view()
    .for_operators()
    .served_by(ServedBy::AnyServer)
    .admitting(Admits::Anyone),
    Route::new("leader", &[(Read, "Name the active server.")], &[])
        .unaudited()
        .ignoring_view()
        .for_operators()
        .scope(Scope::Server)
        .admitting(Admits::Anyone),
    Route::new("seal-status", &[(Read, "Say how far unsealing has come.")], &[])
        .unaudited()
        .ignoring_view()
        .for_operators()
        .scope(Scope::Server)
        .unlimited()
        .admitting(Admits::Anyone),
    Route::new(
        "unseal",
        &[(Update, "Give a share of the unseal key.")],
        &[KEY, field("reset", Flag, "Forget the shares given so far.")],
    )
    .unaudited()
    .ignoring_view()
    .for_operators()
    .unlimited()
    .served_by(ServedBy::AnyServer)
    .admitting(Admits::Anyone),
];

const ROTATION: &[(kallisto_auth::Operation, &str)] = &[
    (Read, "Say when the key of new records is replaced by itself."),
    (Update, "Choose when the key of new records is replaced by itself."),
];
const ROTATION_FIELDS: &[Field] = &[
    field("enabled", Flag, "Whether it is."),
    field("interval", Span, "The age at which it is; a day at least, or 0 for none."),
    field("max_operations", Whole, "How many records it may encrypt before it is."),
];

/// What an operator does to the seal and to the keys under it.
pub(super) const KEYS: &[Route] = &[
    Route::new("seal", &[(Update, "Seal the server: forget its keys.")], &[])
        .admitting(Admits::AnyoneWhileSealed)
        .for_operators()
        .served_by(ServedBy::AnyServer)
        .with_sudo(),
    Route::new("step-down", &[(Update, "Give up being the active server.")], &[])
        .for_operators()
        .served_by(ServedBy::Leader)
        .with_sudo(),
    Route::new("key-status", &[(Read, "Describe the key that encrypts new records.")], &[]),
    Route::new("rotate", &[(Update, "Encrypt new records under a new key.")], &[])
        .served_by(ServedBy::Leader)
        .with_sudo()
        .alias_of("rotate/keyring"),
    Route::new("rotate/keyring", &[(Update, "Encrypt new records under a new key.")], &[])
        .served_by(ServedBy::Leader)
        .with_sudo(),
    Route::new("rotate/config", ROTATION, ROTATION_FIELDS)
        .served_by(ServedBy::Leader)
        .alias_of("rotate/keyring/config"),
    Route::new("rotate/keyring/config", ROTATION, ROTATION_FIELDS).served_by(ServedBy::Leader),
    Route::new("rotate/progress", &[(Read, "Say how far old records are encrypted anew.")], &[])
        .served_by(ServedBy::Leader)
        .with_sudo(),
    Route::new(
        "durability",
        &[
            (Read, "Say when writes are acknowledged."),
            (Update, "Choose when writes are acknowledged: on disk, or in memory and synced soon."),
        ],
        &[
            field("mode", Text, "`strict` or `batch`."),
            field("ops", Whole, "Writes a batch may acknowledge before they are on disk."),
            field("interval", Span, "Longest a batch waits for the disk."),
        ],
    )
    .served_by(ServedBy::AnyServer)
    .with_sudo(),
    Route::new("save", &[(Update, "Answer when everything acknowledged is on disk.")], &[])
        .served_by(ServedBy::AnyServer)
        .with_sudo(),
];

/// The rows of a rekey below `$base`; those of an alias name their canonical twins below `$twin`.
macro_rules! rekey {
    ($base:literal, $what:literal $(, $admits:ident, $twin:literal)?) => {
        &[
            Route::new(
                concat!($base, "/init"),
                &[
                    (Read, concat!("Say how far new shares of ", $what, " have come.")),
                    (Update, concat!("Begin making new shares of ", $what, ".")),
                    (Delete, "Give the attempt up."),
                ],
                &[
                    field("secret_shares", Whole, "Shares the key is split into."),
                    field("secret_threshold", Whole, "Shares it takes."),
                    field("require_verification", Flag, "Keep the old shares until the new ones are proved."),
                    NONCE,
                ],
            )
            .with_sudo()
            .served_by(ServedBy::Leader)
            $(.admitting(Admits::$admits).alias_of(concat!($twin, "/init")))?,
            Route::new(
                concat!($base, "/update"),
                &[(Update, concat!("Give a present share of ", $what, "."))],
                &[KEY, NONCE],
            )
            .with_sudo()
            .served_by(ServedBy::Leader)
            $(.admitting(Admits::$admits).alias_of(concat!($twin, "/update")))?,
            Route::new(
                concat!($base, "/verify"),
                &[
                    (Read, "Say how many new shares were proved."),
                    (Update, "Prove a new share."),
                    (Delete, "Begin proving again, under a new nonce."),
                ],
                &[KEY, NONCE],
            )
            .with_sudo()
            .served_by(ServedBy::Leader)
            $(.admitting(Admits::$admits).alias_of(concat!($twin, "/verify")))?,
            Route::new(
                concat!($base, "/backup"),
                KEPT_SHARES,
                &[],
            )
            .with_sudo()
            .served_by(ServedBy::Leader)
            $(.admitting(Admits::$admits).alias_of(concat!($twin, "/backup")))?,
        ]
    };
}

pub(super) const REKEY: &[Route] =
    rekey!("rekey", "the unseal key", AnyoneIfConfigured, "rotate/root");
pub(super) const REKEY_RECOVERY: &[Route] =
    rekey!("rekey-recovery-key", "the recovery key", AnyoneIfConfigured, "rotate/recovery");
const KEPT_SHARES: &[(kallisto_auth::Operation, &str)] =
    &[(Read, "Encrypted shares that were kept; there never are any."), (Delete, "Remove them.")];
pub(super) const RECOVERY_BACKUP: &[Route] =
    &[Route::new("rekey/recovery-key-backup", KEPT_SHARES, &[])
        .served_by(ServedBy::Leader)
        .with_sudo()
        .admitting(Admits::AnyoneIfConfigured)
        .alias_of("rotate/recovery/backup")];
pub(super) const ROTATE_ROOT: &[Route] = rekey!("rotate/root", "the unseal key");
pub(super) const ROTATE_RECOVERY: &[Route] = rekey!("rotate/recovery", "the recovery key");

const ATTEMPT: &[(kallisto_auth::Operation, &str)] = &[
    (Read, "Say how far making a root token has come."),
    (Update, "Begin making a root token by consent of the share holders."),
    (Delete, "Give the attempt up."),
];
const ATTEMPT_FIELDS: &[Field] =
    &[field("otp", Text, "What the token is hidden with; drawn when absent."), NONCE];
const SHARE: &[(kallisto_auth::Operation, &str)] =
    &[(Update, "Give a share; the last one brings the hidden token.")];

pub(super) const GENERATE_ROOT: &[Route] = &[
    Route::new("generate-root/attempt", ATTEMPT, ATTEMPT_FIELDS)
        .unlimited()
        .for_operators()
        .served_by(ServedBy::Leader)
        .admitting(Admits::AnyoneIfConfigured),
    Route::new("generate-root/update", SHARE, &[KEY, NONCE])
        .unlimited()
        .for_operators()
        .served_by(ServedBy::Leader)
        .admitting(Admits::AnyoneIfConfigured),
    Route::new("generate-root-token/attempt", ATTEMPT, ATTEMPT_FIELDS)
        .served_by(ServedBy::Leader)
        .alias_of("generate-root/attempt"),
    Route::new("generate-root-token/update", SHARE, &[KEY, NONCE])
        .served_by(ServedBy::Leader)
        .alias_of("generate-root/update"),
    Route::new(
        "decode-token",
        &[(Update, "Decode a hidden root token.")],
        &[
            field("encoded_token", Text, "What the last share brought."),
            field("otp", Text, "What the token was hidden with."),
        ],
    )
    .served_by(ServedBy::Leader),
];
