//! The second factor of a login: what the server asks for is asked of the person, and sent.
//!
//! A code is given with `-mfa`, or asked for on the terminal, one for each rule that holds for the login. Without either the answer of
//! the server is shown as it is: its `mfa_request_id` is good for `write sys/mfa/validate`.

use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};
use kallisto_command::secret::Secret;
use secrecy::ExposeSecret;

use super::login::{AUTHENTICATING, ask, can_ask};

/// Most rules of a login that codes are asked for.
const RULES_MAX: usize = 64;

/// What a login needs besides.
struct Requirement<'s> {
    id: &'s str,
    /// By rule: the methods of which one has to be satisfied, by id and what people call it.
    rules: Vec<Vec<(&'s str, String)>>,
}

impl<'s> Requirement<'s> {
    fn of(secret: &'s Secret) -> Option<Self> {
        let needs = secret.auth.as_ref()?.get("mfa_requirement")?.as_object()?;
        let rules =
            needs.get("mfa_constraints")?.as_object()?.values().take(RULES_MAX).map(|rule| {
                let any = rule.as_object().and_then(|rule| rule.get("any"));
                let methods = match any {
                    Some(Json::Array(methods)) => methods.as_slice(),
                    _ => &[],
                };
                let named = methods.iter().filter_map(Json::as_object).filter_map(|method| {
                    let text =
                        |name: &str| method.get(name).and_then(Json::as_str).unwrap_or_default();
                    let id = text("id");
                    let known_as = if text("name").is_empty() { id } else { text("name") };
                    (!id.is_empty()).then(|| (id, format!("{} {known_as}", text("type"))))
                });
                named.collect()
            });
        Some(Self { id: needs.get("mfa_request_id")?.as_str()?, rules: rules.collect() })
    }
}

/// Shows the second factor of a login, if it needs one and there is one to show; else gives the answer back as it is.
pub(crate) fn complete(config: &Config, secret: Secret, given: &[String]) -> Result<Secret, Error> {
    let Some(requirement) = Requirement::of(&secret) else { return Ok(secret) };
    let mut payload = Map::new();
    for one in given {
        let (method, code) = one.split_once(':').unwrap_or(("", one));
        // A code alone is for the one method that there is.
        let method = match (method, requirement.rules.as_slice()) {
            ("", [rule]) => rule.first().map_or("", |(id, _)| *id),
            ("", _) => return Err(Error::usage("-mfa takes METHOD:CODE where several rules hold")),
            (method, _) => method,
        };
        payload.insert(method.to_owned(), Json::strings([code]));
    }
    if payload.is_empty() {
        if !can_ask(config) {
            return Ok(secret);
        }
        for rule in &requirement.rules {
            let asked = rule.iter().find(|(id, _)| payload.contains_key(*id)).is_some();
            if let (false, Some((id, about))) = (asked, rule.first()) {
                let code = ask(&format!("Code of {about}"), config)?;
                payload.insert((*id).to_owned(), Json::strings([code.expose_secret().trim()]));
            }
        }
    }
    let body = Map::from([
        ("mfa_request_id".to_owned(), Json::from(requirement.id)),
        ("mfa_payload".to_owned(), Json::Object(payload)),
    ]);
    let client = Client::new(config)?.without_token();
    let sent = client.send(&ClientRequest::put("sys/mfa/validate", body).wrappable());
    let shown = sent.map_err(Error::doing(AUTHENTICATING))?;
    shown
        .filter(|shown| shown.auth.is_some() || shown.wrap_info.is_some())
        .ok_or_else(|| Error::Absent(format!("{AUTHENTICATING}: the server gave no token")))
}
