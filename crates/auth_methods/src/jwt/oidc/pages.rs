//! The pages that a browser shows whose login this server hears of itself.
//!
//! A page has nothing in it that came with the request, but what this server signed or stored: no error of a provider, no code, no state.
//! It has no script and loads nothing; the server sends it under a policy that allows neither (`Response::Page`).

use kallisto_api::Response;

/// What is asked before a login by direct callback is granted.
pub(super) struct ConsentQuestion<'a> {
    pub(super) mount: &'a str,
    pub(super) role: &'a str,
    /// The address of who asked for the login; empty if that is not known.
    pub(super) from: &'a str,
    /// How long ago, in seconds.
    pub(super) secs: i64,
    /// Shown again by the button.
    pub(super) confirm: &'a str,
}

/// Asks whether the login is wanted.
pub(super) fn question(asked: &ConsentQuestion<'_>) -> Response {
    let from = match asked.from {
        "" => String::new(),
        from => format!(" from the address <b>{}</b>", escape(from)),
    };
    page(
        200,
        "Confirm the login",
        &format!(
            "<p>A client{from} asked {} seconds ago to log in by the role <b>{}</b> of <b>{}</b>, and will \
             act in your name.</p>\n<p>Did you start this login yourself, just now? If somebody sent you here, \
             close this page.</p>\n<form method=\"post\" action=\"callback\">\n\
             <input type=\"hidden\" name=\"confirm\" value=\"{}\">\n\
             <button type=\"submit\">Confirm the login</button>\n</form>",
            asked.secs.max(0),
            escape(asked.role),
            escape(asked.mount),
            escape(asked.confirm)
        ),
    )
}

/// The login goes on elsewhere.
pub(super) fn done() -> Response {
    page(200, "Login confirmed", "<p>You may close this page and go back to your client.</p>")
}

/// A form was taken, and its client goes on by itself.
pub(super) fn taken() -> Response {
    page(200, "Login goes on", "<p>You may close this page.</p>")
}

/// There is no such login.
pub(super) fn expired() -> Response {
    page(
        400,
        "Login failed",
        "<p>The login took too long, or was finished already. Start it again.</p>",
    )
}

/// The login is refused.
pub(super) fn refused() -> Response {
    page(
        400,
        "Login failed",
        "<p>The identity provider did not confirm who you are, or the role does not let you in. Your client \
         and the audit log say more.</p>",
    )
}

fn page(code: u16, title: &str, body: &str) -> Response {
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
         <body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    );
    Response::Page { code, body: page.into_bytes() }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_on_a_page_is_text() {
        let named = ConsentQuestion {
            mount: "auth/<b>/",
            role: "\"><script>alert(1)</script>",
            from: "'&",
            secs: -3,
            confirm: "a.b",
        };
        let Response::Page { code: 200, body } = question(&named) else { panic!("no page") };
        let page = String::from_utf8(body).unwrap();
        assert!(page.contains("auth/&lt;b&gt;/") && page.contains("&#39;&amp;"), "{page}");
        assert!(!page.contains("<script") && page.contains(" 0 seconds ago"), "{page}");
    }
}
