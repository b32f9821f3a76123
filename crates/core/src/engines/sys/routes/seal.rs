//! Initialising, unsealing, sealing, and the keys.

use std::convert::identity;

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{Admits, Field, Scope, ServedBy, field, query};
use kallisto_engine::{Row, row};

use crate::api::response::Response;
use crate::dispatch::route_handler::{RouteHandler, anyone, at_once, runs};
use crate::engines::sys::rekey::Asker;
use crate::engines::sys::{durability, health, init, raft, rekey, root, rotate, rotation, status};
use crate::state::seal::progress::ShareTarget;

const NONCE: Field = field("nonce", Text, "The attempt's nonce.");
const KEY: Field = field("key", Text, "A share, in hexadecimal or base64.");

/// What anyone may ask of a server, sealed or not.
pub(super) const STATUS: &[Row<RouteHandler>] = &[
    row!("health", &[
        query("standbyok", Flag, "Answer as if active when standby."),
        query("perfstandbyok", Flag, "Answer as if active when performance standby."),
        query("activecode", Whole, "Status code when active."),
        query("standbycode", Whole, "Status code when standby."),
        query("sealedcode", Whole, "Status code when sealed."),
        query("uninitcode", Whole, "Status code when not initialised."),
    ], {
        Read => "Say by status code whether the server is active, standby, sealed or not initialised.",
            anyone!(|run| health::read(run.core, run.request));
    } .unaudited().ignoring_view().for_operators().unlimited().admitting(Admits::Anyone).light()),
    row!("init", &[
        field("secret_shares", Whole, "Shares the unseal key is split into."),
        field("secret_threshold", Whole, "Shares it takes to unseal."),
        field(
            "recovery_shares",
            Whole,
            "The same for the recovery key of an auto-unsealed server.",
        ),
        field("recovery_threshold", Whole, "Shares it takes to recover."),
        field("pgp_keys", Texts, "OpenPGP public keys that the shares are encrypted to, in base64."),
        field("recovery_pgp_keys", Texts, "The same for the shares of the recovery key."),
        field("root_token_pgp_key", Text, "The same for the root token."),
    ], {
        Read => "Say whether the server is initialised.", anyone!(|run| init::read(run.core));
        Update => "Initialise the server: make its keys, their shares and a root token.",
            anyone!(async |run| init::write(run.core, run.request).await);
    }
    .unaudited()
    .ignoring_view()
    .for_operators()
    .served_by(ServedBy::AnyServer)
    .admitting(Admits::Anyone)
    .light()),
    row!("leader", &[], {
        Read => "Name the active server.", anyone!(|run| status::leader(run.core, run.request.now));
    }
    .unaudited()
    .ignoring_view()
    .for_operators()
    .scope(Scope::Server)
    .admitting(Admits::Anyone)
    .light()),
    row!("seal-status", &[], {
        Read => "Say how far unsealing has come.", anyone!(|run| status::seal_status(run.core));
    }
    .unaudited()
    .ignoring_view()
    .for_operators()
    .scope(Scope::Server)
    .unlimited()
    .admitting(Admits::Anyone)
    .light()),
    row!("unseal", &[KEY, field("reset", Flag, "Forget the shares given so far.")], {
        Update => "Give a share of the unseal key.",
            anyone!(async |run| status::unseal(run.core, run.request).await);
    }
    .unaudited()
    .ignoring_view()
    .for_operators()
    .unlimited()
    .served_by(ServedBy::AnyServer)
    .admitting(Admits::Anyone)
    .light()),
];

const ROTATION_FIELDS: &[Field] = &[
    field("enabled", Flag, "Whether it is."),
    field("interval", Span, "The age at which it is; a day at least, or 0 for none."),
    field("max_operations", Whole, "How many records it may encrypt before it is."),
];

/// What an operator does to the seal and to the keys under it.
pub(super) const KEYS: &[Row<RouteHandler>] = &[
    row!("seal", &[], {
        Update => "Seal the server: forget its keys.", runs!(async |run| {
            let core = run.core;
            // The request's own hold on the keys ends here.
            drop(run);
            core.seal().await.map(|()| Response::Empty)
        }).or_anyone(|_run| at_once(|| Ok(Response::Empty)));
    }
    .admitting(Admits::AnyoneWhileSealed)
    .for_operators()
    .served_by(ServedBy::AnyServer)
    .with_sudo()
    .light()),
    row!("step-down", &[], {
        Update => "Give up being the active server.",
            runs!(async |run| raft::step_down(run.core).await);
    } .for_operators().served_by(ServedBy::Leader).with_sudo().light()),
    row!("key-status", &[], {
        Read => "Describe the key that encrypts new records.",
            runs!(|run| Ok(rotate::key_status(&run.context)));
    }),
    row!("rotate", &[], {
        Update => "Encrypt new records under a new key.",
            runs!(async |run| rotate::rotate(run.core, &run.context, run.call).await);
    } .served_by(ServedBy::Leader).with_sudo().alias_of("rotate/keyring")),
    row!("rotate/keyring", &[], {
        Update => "Encrypt new records under a new key.",
            runs!(async |run| rotate::rotate(run.core, &run.context, run.call).await);
    } .served_by(ServedBy::Leader).with_sudo()),
    row!("rotate/config", ROTATION_FIELDS, {
        Read => "Say when the key of new records is replaced by itself.",
            runs!(|run| rotation::read(&run.context));
        Update => "Choose when the key of new records is replaced by itself.",
            runs!(async |run| rotation::write(&run.context, run.call).await);
    } .served_by(ServedBy::Leader).alias_of("rotate/keyring/config")),
    row!("rotate/keyring/config", ROTATION_FIELDS, {
        Read => "Say when the key of new records is replaced by itself.",
            runs!(|run| rotation::read(&run.context));
        Update => "Choose when the key of new records is replaced by itself.",
            runs!(async |run| rotation::write(&run.context, run.call).await);
    } .served_by(ServedBy::Leader)),
    row!("rotate/progress", &[], {
        Read => "Say how far old records are encrypted anew.",
            runs!(|run| Ok(rotate::progress(&run.context)));
    } .served_by(ServedBy::Leader).with_sudo()),
    row!("durability", &[
        field("mode", Text, "`strict` or `batch`."),
        field("ops", Whole, "Writes a batch may acknowledge before they are on disk."),
        field("interval", Span, "Longest a batch waits for the disk."),
    ], {
        Read => "Say when writes are acknowledged.", runs!(|run| Ok(durability::read(run.core)));
        Update => "Choose when writes are acknowledged: on disk, or in memory and synced soon.",
            runs!(async |run| durability::write(run.core, run.call).await);
    } .served_by(ServedBy::AnyServer).with_sudo()),
    row!("save", &[], {
        Update => "Answer when everything acknowledged is on disk.",
            runs!(async |run| durability::save(run.core).await);
    } .served_by(ServedBy::AnyServer).with_sudo()),
];

/// The rows of a rekey of `$target` below `$base`. Those of an alias name their canonical twins below `$twin`, and admit others besides; the
/// answers of the others have an envelope.
macro_rules! rekey {
    ($base:literal, $target:ident, $what:literal, $form:path $(, $admits:ident, $twin:literal)?) => {
        &[
            row!(concat!($base, "/init"), &[
                field("secret_shares", Whole, "Shares the key is split into."),
                field("secret_threshold", Whole, "Shares it takes."),
                field("require_verification", Flag, "Keep the old shares until the new ones are proved."),
                field("pgp_keys", Texts, "OpenPGP public keys that the new shares are encrypted to, in base64."),
                field("backup", Flag, "Whether the encrypted shares are kept."),
                NONCE,
            ], {
                Read => concat!("Say how far new shares of ", $what, " have come."),
                    runs!(|run| rekey::read(run.core).map($form))
                        $(.or_anyone(for_anyone!($admits, |run| rekey::read(run.core))))?;
                Update => concat!("Begin making new shares of ", $what, "."),
                    runs!(async |run| rekey::start(run.core, run.call, ShareTarget::$target).await.map($form))
                        $(.or_anyone(for_anyone!($admits, async |run| rekey::start(run.core, run.request, ShareTarget::$target).await)))?;
                Delete => "Give the attempt up.",
                    runs!(|run| rekey::cancel(run.core, run.call, Asker::Known).map($form))
                        $(.or_anyone(for_anyone!($admits, |run| rekey::cancel(run.core, run.request, Asker::Anyone))))?;
            } .with_sudo().served_by(ServedBy::Leader)
            $(.admitting(Admits::$admits).alias_of(concat!($twin, "/init")))?),
            row!(concat!($base, "/update"), &[KEY, NONCE], {
                Update => concat!("Give a present share of ", $what, "."),
                    runs!(async |run| rekey::update(run.core, run.call).await.map($form))
                        $(.or_anyone(for_anyone!($admits, async |run| rekey::update(run.core, run.request).await)))?;
            } .with_sudo().served_by(ServedBy::Leader)
            $(.admitting(Admits::$admits).alias_of(concat!($twin, "/update")))?),
            row!(concat!($base, "/verify"), &[KEY, NONCE], {
                Read => "Say how many new shares were proved.",
                    runs!(|run| rekey::verification_status(run.core).map($form))
                        $(.or_anyone(for_anyone!($admits, |run| rekey::verification_status(run.core))))?;
                Update => "Prove a new share.",
                    runs!(async |run| rekey::verify(run.core, run.call).await.map($form))
                        $(.or_anyone(for_anyone!($admits, async |run| rekey::verify(run.core, run.request).await)))?;
                Delete => "Begin proving again, under a new nonce.",
                    runs!(|run| rekey::restart(run.core).map($form))
                        $(.or_anyone(for_anyone!($admits, |run| rekey::restart(run.core))))?;
            } .with_sudo().served_by(ServedBy::Leader)
            $(.admitting(Admits::$admits).alias_of(concat!($twin, "/verify")))?),
            kept_shares!(concat!($base, "/backup"), $target, $form $(, concat!($twin, "/backup"))?),
        ]
    };
}

/// What runs for anyone at a route that admits some besides those whose policies allow it.
macro_rules! for_anyone {
    ($admits:ident, async |$run:ident| $body:expr) => {
        |$run| Box::pin(async move { $body })
    };
    ($admits:ident, |$run:ident| $body:expr) => {
        |$run| at_once(move || $body)
    };
}

/// The row of shares that were encrypted to OpenPGP keys and kept. Whoever may rekey without a token still needs one here: who
/// deletes what is kept takes it from its holders, and no share is asked for.
macro_rules! kept_shares {
    ($pattern:expr, $target:ident, $form:path $(, $canonical:expr)?) => {
        row!($pattern, &[], {
            Read => "Encrypted shares that were kept.",
                runs!(|run| rekey::kept_shares(run.core, ShareTarget::$target));
            Delete => "Remove them.",
                runs!(async |run| rekey::forget_kept_shares(run.core, ShareTarget::$target).await.map($form));
        } .with_sudo().served_by(ServedBy::Leader)
        $(.alias_of($canonical))?)
    };
}

pub(super) const REKEY: &[Row<RouteHandler>] =
    rekey!("rekey", Unseal, "the unseal key", identity, AnyoneIfConfigured, "rotate/root");
pub(super) const REKEY_RECOVERY: &[Row<RouteHandler>] = rekey!(
    "rekey-recovery-key",
    Recovery,
    "the recovery key",
    identity,
    AnyoneIfConfigured,
    "rotate/recovery"
);
/// What clients of Vault call `rekey-recovery-key/backup`.
pub(super) const RECOVERY_BACKUP: &[Row<RouteHandler>] =
    &[kept_shares!("rekey/recovery-key-backup", Recovery, identity, "rotate/recovery/backup")];
pub(super) const ROTATE_ROOT: &[Row<RouteHandler>] =
    rekey!("rotate/root", Unseal, "the unseal key", Response::enveloped);
pub(super) const ROTATE_RECOVERY: &[Row<RouteHandler>] =
    rekey!("rotate/recovery", Recovery, "the recovery key", Response::enveloped);

const ATTEMPT_FIELDS: &[Field] = &[
    field("otp", Text, "What the token is hidden with; drawn when absent."),
    field("pgp_key", Text, "An OpenPGP public key that it is encrypted to instead, in base64."),
    NONCE,
];

/// The rows of making a root token below `$base`; those of an alias have an envelope around their answers.
macro_rules! generate_root {
    ($base:literal, $form:path $(, admits $admits:ident)? $(, twin $twin:literal)?) => {
        &[
            row!(concat!($base, "/attempt"), ATTEMPT_FIELDS, {
                Read => "Say how far making a root token has come.",
                    runs!(|run| root::read(run.core).map($form))
                        $(.or_anyone(for_anyone!($admits, |run| root::read(run.core))))?;
                Update => "Begin making a root token by consent of the share holders.",
                    runs!(async |run| root::start(run.core, run.call).await.map($form))
                        $(.or_anyone(for_anyone!($admits, async |run| root::start(run.core, run.request).await)))?;
                Delete => "Give the attempt up.",
                    runs!(|run| root::cancel(run.core, run.call, Asker::Known).map($form))
                        $(.or_anyone(for_anyone!($admits, |run| root::cancel(run.core, run.request, Asker::Anyone))))?;
            } .served_by(ServedBy::Leader)
            $(.admitting(Admits::$admits).unlimited().for_operators())?
            $(.alias_of(concat!($twin, "/attempt")))?),
            row!(concat!($base, "/update"), &[KEY, NONCE], {
                Update => "Give a share; the last one brings the hidden token.",
                    runs!(async |run| root::update(run.core, run.call).await.map($form))
                        $(.or_anyone(for_anyone!($admits, async |run| root::update(run.core, run.request).await)))?;
            } .served_by(ServedBy::Leader)
            $(.admitting(Admits::$admits).unlimited().for_operators())?
            $(.alias_of(concat!($twin, "/update")))?),
        ]
    };
}

pub(super) const GENERATE_ROOT: &[Row<RouteHandler>] =
    generate_root!("generate-root", identity, admits AnyoneIfConfigured);
pub(super) const GENERATE_ROOT_TOKEN: &[Row<RouteHandler>] =
    generate_root!("generate-root-token", Response::enveloped, twin "generate-root");
pub(super) const DECODE_TOKEN: &[Row<RouteHandler>] = &[row!("decode-token", &[
    field("encoded_token", Text, "What the last share brought."),
    field("otp", Text, "What the token was hidden with."),
], {
    Update => "Decode a hidden root token.", runs!(|run| root::decode(run.call));
} .served_by(ServedBy::Leader))];
