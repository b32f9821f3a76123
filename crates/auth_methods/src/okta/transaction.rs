//! How Okta is asked whether a password is good (its API of authentication, `/api/v1/authn`).

use kallisto_api::{Error, Json, Map, json};
use kallisto_engine::Payload;
use secrecy::{ExposeSecret, SecretString};

use crate::rest::{RestService, inner, text};

/// Longest id of a user or a factor, in bytes.
const ID_BYTES_MAX: usize = 64;
/// Factors of a user that are looked at.
const FACTORS_MAX: usize = 32;

/// Somebody whose password is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OktaUser {
    pub(super) id: String,
    /// What Okta calls them.
    pub(super) login: String,
}

/// What a password is tried with.
pub(super) struct SignIn<'a> {
    pub(super) service: &'a RestService<'a>,
    /// Whether a second factor that Okta asks for is left out.
    pub(super) bypasses_mfa: bool,
    /// The code of a second factor.
    pub(super) code: Option<SecretString>,
    /// Whose factor the code is of; empty for any.
    pub(super) provider: String,
}

/// Whether a text of an answer can stand in a path.
fn is_id(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !id.is_empty() && id.len() <= ID_BYTES_MAX && id.bytes().all(fits)
}

impl SignIn<'_> {
    /// Tries a password. What the user should know besides comes with who they are.
    ///
    /// # Errors
    /// What is wrong with name, password or code; [`Error::Unavailable`] for what is wrong with Okta.
    pub(super) async fn run(
        &self,
        name: &str,
        password: &SecretString,
    ) -> Result<(OktaUser, Vec<String>), Error> {
        let asked = Json::object([
            ("password", password.expose_secret().into()),
            ("username", name.into()),
        ]);
        let answer = self.post("api/v1/authn", &asked).await?;
        let answer = match text(&answer, "status") {
            "MFA_REQUIRED" if !self.bypasses_mfa => self.show_code(&answer).await?,
            _ => answer,
        };
        let mut warnings = Vec::new();
        match text(&answer, "status") {
            "SUCCESS" => {}
            "PASSWORD_WARN" => warnings.push(
                "Your Okta password is in warning state and needs to be changed soon.".to_owned(),
            ),
            "MFA_REQUIRED" | "MFA_ENROLL" | "MFA_ENROLL_ACTIVATE" if self.bypasses_mfa => {}
            status => return Err(self.refusal(status)),
        }
        Ok((self.user(&answer)?, warnings))
    }

    fn refusal(&self, status: &str) -> Error {
        Error::invalid(match status {
            "LOCKED_OUT" => "Okta has locked the user out",
            "PASSWORD_EXPIRED" => "the password has expired: it has to be changed at Okta",
            "MFA_ENROLL" | "MFA_ENROLL_ACTIVATE" => {
                "the user has to enroll for a second factor at Okta first"
            }
            "MFA_REQUIRED" | "MFA_CHALLENGE" => "Okta asks for another factor still",
            "" => return self.service.failed("does not say whether the password is good"),
            _ => "Okta does not let the user in: something has to be done there first",
        })
    }

    /// Brings the code of a second factor that Okta asks for.
    async fn show_code(&self, answer: &Map) -> Result<Map, Error> {
        let Some(code) = &self.code else {
            return Err(Error::invalid(
                "Okta asks for a second factor: bring the code of an authenticator app as totp; Okta Verify with push is not supported",
            ));
        };
        let factors = match inner(answer, "_embedded").and_then(|inside| inside.get("factors")) {
            Some(Json::Array(factors)) => factors.as_slice(),
            _ => &[],
        };
        let mut factors = factors.iter().take(FACTORS_MAX).filter_map(Json::as_object);
        let is_asked_for = |factor: &&Map| {
            let provider = text(factor, "provider");
            let is_providers =
                self.provider.is_empty() || provider.eq_ignore_ascii_case(&self.provider);
            text(factor, "factorType") == "token:software:totp" && is_providers
        };
        let id = factors.find(is_asked_for).map(|factor| text(factor, "id")).ok_or_else(|| {
            Error::invalid("Okta takes no code of an authenticator app of this user")
        })?;
        if !is_id(id) {
            return Err(self.service.failed("names a factor by no id"));
        }
        let asked = Json::object([
            ("passCode", code.expose_secret().into()),
            ("stateToken", text(answer, "stateToken").into()),
        ]);
        self.post(&format!("api/v1/authn/factors/{id}/verify"), &asked).await
    }

    async fn post(&self, path: &str, body: &Json) -> Result<Map, Error> {
        let url = format!("{}{path}", self.service.base);
        let answer = self.service.send(url, Payload::Json(body.to_text())).await?;
        match answer.status {
            200 => json::parse_object(&answer.body)
                .map_err(|_| self.service.failed("answered a login with no JSON object")),
            // Of a code: it is wrong, or was used.
            403 if path.ends_with("/verify") => {
                Err(Error::invalid("okta auth failed: wrong code of the second factor"))
            }
            status => Err(self.service.bad_status(status, "a login")),
        }
    }

    fn user(&self, answer: &Map) -> Result<OktaUser, Error> {
        let user = inner(answer, "_embedded").and_then(|inside| inner(inside, "user"));
        let login = user.and_then(|user| inner(user, "profile")).map(|all| text(all, "login"));
        let id = user.map(|user| text(user, "id"));
        match (id.filter(|id| is_id(id)), login.filter(|login| !login.is_empty())) {
            (Some(id), Some(login)) => Ok(OktaUser { id: id.to_owned(), login: login.to_owned() }),
            _ => Err(self.service.failed("does not say whose password it is")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::tests::{Script, run};
    use kallisto_engine::Authorization;

    const USER: &str = r#""user":{"id":"00u1","profile":{"login":"Ada@example.org"}}"#;
    const WRONG: &str = "wrong";

    fn tried(
        answers: Vec<(u16, &str, &str)>,
        code: Option<&str>,
        bypasses_mfa: bool,
    ) -> Result<(OktaUser, Vec<String>), Error> {
        let script = Script::new(answers);
        let service = RestService {
            outbound: &script,
            name: "Okta",
            base: "https://acme.okta.com/",
            authorization: Authorization::None,
            refused: Some(WRONG),
        };
        let code = code.map(|code| SecretString::from(code.to_owned()));
        let sign_in = SignIn { service: &service, bypasses_mfa, code, provider: String::new() };
        run(sign_in.run("ada", &"pw".to_owned().into()))
    }

    fn status(status: &str) -> String {
        format!(
            r#"{{"status":"{status}","stateToken":"s","_embedded":{{{USER},"factors":[{{"id":"push","factorType":"push"}},
            {{"id":"opf1","factorType":"token:software:totp","provider":"OKTA"}}]}}}}"#
        )
    }

    #[test]
    fn a_good_password_says_who_it_is() {
        for (state, warned) in [("SUCCESS", 0), ("PASSWORD_WARN", 1)] {
            let (user, warnings) = tried(vec![(200, "", &status(state))], None, false).unwrap();
            assert_eq!((user.id.as_str(), user.login.as_str()), ("00u1", "Ada@example.org"));
            assert_eq!(warnings.len(), warned);
        }
    }

    #[test]
    fn no_state_but_success_lets_anybody_in() {
        for state in [
            "LOCKED_OUT",
            "PASSWORD_EXPIRED",
            "PASSWORD_RESET",
            "RECOVERY",
            "MFA_ENROLL",
            "MFA_REQUIRED",
            "MFA_CHALLENGE",
            "success",
            "NEW",
        ] {
            let refused = tried(vec![(200, "", &status(state))], None, false);
            assert!(matches!(refused, Err(Error::Invalid(_))), "{state}");
            let bypassed = tried(vec![(200, "", &status(state))], None, true);
            let is_factor = matches!(state, "MFA_ENROLL" | "MFA_REQUIRED");
            assert_eq!(bypassed.is_ok(), is_factor, "{state}");
        }
    }

    #[test]
    fn a_code_is_shown_to_the_factor_that_takes_it() {
        let asked = status("MFA_REQUIRED");
        let good = tried(vec![(200, "", &asked), (200, "", &status("SUCCESS"))], Some("1"), false);
        assert_eq!(good.unwrap().0.id, "00u1");
        for (code, body) in [(403, ""), (200, status("MFA_CHALLENGE").as_str())] {
            let refused = tried(vec![(200, "", &asked), (code, "", body)], Some("1"), false);
            assert!(matches!(refused, Err(Error::Invalid(_))), "{code}");
        }
    }

    #[test]
    fn an_okta_that_is_half_there_lets_nobody_in() {
        for (code, body) in [
            (0, ""),
            (403, ""),
            (429, ""),
            (500, ""),
            (200, ""),
            (200, "{}"),
            (200, r#"{"status":"SUCCESS"}"#),
            (200, r#"{"status":"SUCCESS","_embedded":{"user":{"id":"00u1"}}}"#),
            (
                200,
                r#"{"status":"SUCCESS","_embedded":{"user":{"id":"../x","profile":{"login":"a"}}}}"#,
            ),
        ] {
            let refused = tried(vec![(code, "", body)], None, false);
            assert!(matches!(refused, Err(Error::Unavailable(_))), "{code} {body}");
        }
        assert_eq!(tried(vec![(401, "", "")], None, false), Err(Error::invalid(WRONG)));
    }
}
