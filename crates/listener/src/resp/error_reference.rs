//! The page of errors, held to what both protocols answer.

use kallisto_core::admission::Crowd;
use kallisto_core::{Denial, Error, Expected, OverQuota, Stale};
use kallisto_reference::{hold, page, table};

use super::session::CommandFailure;
use crate::http::error::status_and_messages;

/// What stands for a text that says what was wrong.
const WHY: &str = "(what is wrong, and where)";

/// What somebody does who hears an error. Exhaustive: a new error needs its words here, and an example in [`examples`].
const fn remedy(error: &Error) -> &'static str {
    match error {
        Error::Invalid(_) => "Mend the request: the text names the field.",
        Error::InvalidSilently => {
            "Mend the request; clients of Vault know this answer without a text."
        }
        Error::Expected(_) => "As the text says. Clients look for this status.",
        Error::CasMismatch => "Read the secret, and write with its current version as `cas`.",
        Error::TooLarge(_) => "Send less, or raise the limit that the text names.",
        Error::UnsupportedMedia(_) => "Send the kind of body that the text names.",
        Error::NotFound => {
            "Nothing is there, or was deleted. The metadata tell which (`kv metadata get`)."
        }
        Error::NoNamespace => "Check `X-Vault-Namespace`, or the path.",
        Error::NoRoute(_) => "Mount an engine there, or mend the path (`kallisto secrets list`).",
        Error::UnsupportedPath => "Look for the path among the [routes](routes.md).",
        Error::UnsupportedOperation => {
            "Look for the methods of the path among the [routes](routes.md)."
        }
        Error::Denied(Denial::BadToken) => {
            "Log in again: the token is missing, unknown or expired."
        }
        Error::Denied(Denial::UnknownToken) => "There is no such token to look up.",
        Error::Denied(Denial::NoWrappingToken) => "Name the wrapping token.",
        Error::Denied(Denial::Policy) => {
            "`kallisto policy explain` says which rule decides, and what is missing."
        }
        Error::Denied(Denial::At(_)) => "The same, for the path that the text names.",
        Error::Denied(Denial::SecondFactor(_)) => "Show the second factor that the text asks for.",
        Error::Denied(Denial::Preflight(_)) => {
            "The command asks first whether the path may be reached: grant it, or mend the path."
        }
        Error::Sealed => "Unseal the server.",
        Error::Conflict => "Send the same request again.",
        Error::Stale(_) => "Ask another server. This one hears nothing of the cluster.",
        Error::NotLeader => "Nothing happened. Send it again: a server is being elected.",
        Error::OverQuota(_) => "Wait as long as `Retry-After` says, or raise the quota.",
        Error::TooManyTries { .. } => "Wait as long as the text says.",
        Error::Busy(Crowd::Own) => "Send fewer requests at once.",
        Error::Busy(Crowd::All) => "Send it again; see the metrics of admission.",
        Error::Unavailable(_) => {
            "As the text says: a full disk, a far end, or a write that may have happened."
        }
        Error::Unaudited => "No audit device works: the server's log says why.",
        Error::Internal(_) => "A mistake of the server: its log has the detail under the id.",
    }
}

/// One of each error, and of each wording that clients tell apart.
fn examples() -> Vec<Error> {
    let why = || WHY.to_owned();
    let over = |counts_leases| {
        Error::OverQuota(Box::new(OverQuota {
            counts_leases,
            path: "PATH".to_owned(),
            retry_after_secs: 1,
            limit: 1,
            is_told: true,
        }))
    };
    let stale = |age_secs| Error::Stale(Stale { age_secs, max_secs: 30, reached: None });
    vec![
        Error::Invalid(why()),
        Error::InvalidSilently,
        Error::CasMismatch,
        Error::Expected(Expected::NoRole("NAME".to_owned())),
        Error::Expected(Expected::NoRoleOfSecretId("NAME".to_owned())),
        Error::Expected(Expected::NoBackup(why())),
        Error::Expected(Expected::KeyExists("NAME".to_owned())),
        Error::Expected(Expected::NotInOrganization),
        Error::Denied(Denial::BadToken),
        Error::Denied(Denial::Policy),
        Error::Denied(Denial::At("PATH".to_owned())),
        Error::Denied(Denial::UnknownToken),
        Error::Denied(Denial::NoWrappingToken),
        Error::Denied(Denial::SecondFactor(why())),
        Error::Denied(Denial::Preflight("PATH".to_owned())),
        Error::NotFound,
        Error::NoNamespace,
        Error::NoRoute("PATH".to_owned()),
        Error::UnsupportedPath,
        Error::UnsupportedOperation,
        Error::TooLarge(why()),
        Error::UnsupportedMedia(why()),
        over(false),
        over(true),
        Error::TooManyTries { retry_after_secs: 60 },
        Error::Busy(Crowd::Own),
        Error::Busy(Crowd::All),
        Error::Sealed,
        Error::NotLeader,
        Error::Conflict,
        stale(Some(40)),
        stale(None),
        Error::Unavailable(why()),
        Error::Unaudited,
        Error::Internal(0),
    ]
}

#[test]
fn the_page_of_errors_is_what_both_protocols_answer() {
    let about = "How a request can fail, in both protocols. Over HTTP the text stands in `errors`, where *counted* is `1 error occurred:` before \
        it, as Vault words some; over RESP the word and the text are the error. Texts that say what is wrong in a request are not listed. What a \
        command's exit codes say is in [Exit codes](exit-codes.md); what health checks answer, in [the API](../api.md).";
    let mut text = page("Errors", about, "the errors of the core and their forms on the wire");
    let rows = examples().into_iter().map(|error| {
        let (status, messages) = status_and_messages(&error);
        let said = match messages.first() {
            None => "none (HTTP)".to_owned(),
            Some(message) if message.starts_with("1 error") => format!("`{error}`, counted"),
            Some(message) if message.contains(WHY) => message.clone(),
            Some(message) => format!("`{message}`"),
        };
        let remedy = remedy(&error).to_owned();
        let text = error.to_string();
        let over_resp = CommandFailure::from(error);
        let said = if over_resp.text == text {
            said
        } else {
            format!("{said}; over RESP `{}`", over_resp.text)
        };
        vec![status.as_u16().to_string(), format!("`{}`", over_resp.word), said, remedy]
    });
    table(&mut text, &["HTTP", "RESP", "Text", "What to do"], rows);
    hold("errors.md", &text);
}
