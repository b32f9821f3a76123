//! How Okta is asked whether a password is good (its API of authentication, `/api/v1/authn`).

use std::time::Duration;

use kallisto_api::{Error, Json, Map, json};
use kallisto_engine::{FarEnds, Payload};
use secrecy::{ExposeSecret, SecretString};

use crate::rest::{RestService, inner, text};

/// Longest id of a user or a factor, in bytes.
const ID_BYTES_MAX: usize = 64;
/// Factors of a user that are looked at.
const FACTORS_MAX: usize = 32;
/// How often Okta is asked whether a push was answered.
const PUSH_POLLS_MAX: usize = 18;
/// The pause before each: Okta lets a user ask about once a second. All of them, and the calls of a login, end before a follower gives up
/// the answer of its leader (60 s).
const PUSH_PAUSE: Duration = Duration::from_secs(2);

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
    /// What waits between two questions.
    pub(super) far_ends: &'a dyn FarEnds,
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

fn verify_path(id: &str) -> String {
    format!("api/v1/authn/factors/{id}/verify")
}

/// Whether the user is to tap the number that the page of a login shows.
fn asks_for_number(answer: &Map) -> bool {
    let path = ["_embedded", "factor", "_embedded", "challenge"];
    let challenge = path.iter().try_fold(answer, |map, name| inner(map, name));
    challenge.is_some_and(|challenge| challenge.contains_key("correctAnswer"))
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
            "MFA_REQUIRED" if !self.bypasses_mfa => self.second_factor(&answer).await?,
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

    /// Brings the second factor that Okta asks for: the code where there is one, and a push otherwise.
    async fn second_factor(&self, answer: &Map) -> Result<Map, Error> {
        let factor = |kind: &str, provider: &str| self.factor(answer, kind, provider);
        let Some(code) = &self.code else {
            return match factor("push", "OKTA")? {
                Some(id) => self.push(answer, &id).await,
                None => Err(Error::invalid(
                    "Okta asks for a second factor: bring the code of an authenticator app as totp",
                )),
            };
        };
        let id = factor("token:software:totp", "")?.ok_or_else(|| {
            Error::invalid("Okta takes no code of an authenticator app of this user")
        })?;
        let asked = Json::object([
            ("passCode", code.expose_secret().into()),
            ("stateToken", text(answer, "stateToken").into()),
        ]);
        self.post(&verify_path(&id), &asked).await
    }

    /// The id of a factor of the user, by its type, its provider (empty for any), and the one that was asked for.
    fn factor(&self, answer: &Map, kind: &str, provider: &str) -> Result<Option<String>, Error> {
        let factors = match inner(answer, "_embedded").and_then(|inside| inside.get("factors")) {
            Some(Json::Array(factors)) => factors.as_slice(),
            _ => &[],
        };
        let is_of = |factor: &&Map, wanted: &str| {
            wanted.is_empty() || text(factor, "provider").eq_ignore_ascii_case(wanted)
        };
        let mut factors = factors.iter().take(FACTORS_MAX).filter_map(Json::as_object);
        let found = factors.find(|factor| {
            text(factor, "factorType") == kind
                && is_of(factor, provider)
                && is_of(factor, &self.provider)
        });
        match found.map(|factor| text(factor, "id")) {
            None => Ok(None),
            Some(id) if is_id(id) => Ok(Some(id.to_owned())),
            Some(_) => Err(self.service.failed("names a factor by no id")),
        }
    }

    /// Has Okta ask on the user's phone, and waits until that is answered.
    async fn push(&self, answer: &Map, id: &str) -> Result<Map, Error> {
        let asked = Json::object([("stateToken", text(answer, "stateToken").into())]);
        for poll in 0..=PUSH_POLLS_MAX {
            if poll > 0 {
                self.far_ends.pause(PUSH_PAUSE).await;
            }
            let told = self.post(&verify_path(id), &asked).await?;
            if text(&told, "status") != "MFA_CHALLENGE" {
                return Ok(told);
            }
            if asks_for_number(&told) {
                return Err(Error::invalid(
                    "Okta Verify asks for a number, which is not supported: bring the code of an authenticator app as totp",
                ));
            }
            match text(&told, "factorResult") {
                "WAITING" => {}
                "REJECTED" => {
                    return Err(Error::invalid("the second factor was denied in Okta Verify"));
                }
                "TIMEOUT" => return Err(Error::invalid("nobody answered in Okta Verify in time")),
                _ => return Err(Error::invalid("Okta Verify let nobody in")),
            }
        }
        Err(Error::invalid(format!(
            "nobody answered in Okta Verify in {} seconds",
            PUSH_POLLS_MAX as u64 * PUSH_PAUSE.as_secs()
        )))
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
    use kallisto_engine::{Authorization, NoFarEnds};

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
        let sign_in = SignIn {
            service: &service,
            far_ends: &NoFarEnds,
            bypasses_mfa,
            code,
            provider: String::new(),
        };
        run(sign_in.run("ada", &"pw".to_owned().into()))
    }

    fn status(status: &str) -> String {
        format!(
            r#"{{"status":"{status}","stateToken":"s","_embedded":{{{USER},"factors":[{{"id":"push","factorType":"push","provider":"DUO"}},
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
    fn a_push_is_waited_for_until_somebody_answers_it_and_no_longer_than_the_limit() {
        let asked = status("MFA_REQUIRED").replace("DUO", "OKTA");
        let told = |result: &str| {
            format!(r#"{{"status":"MFA_CHALLENGE","stateToken":"s","factorResult":"{result}"}}"#)
        };
        let (waiting, success) = (told("WAITING"), status("SUCCESS"));
        let with = |answers: &[&str]| {
            let all = std::iter::once(asked.as_str()).chain(answers.iter().copied());
            tried(all.map(|body| (200, "", body)).collect(), None, false)
        };
        assert_eq!(with(&[&waiting, &waiting, &success]).unwrap().0.id, "00u1");
        for (result, why) in
            [("REJECTED", "denied"), ("TIMEOUT", "in time"), ("ERROR", "nobody in")]
        {
            let Err(Error::Invalid(text)) = with(&[&waiting, &told(result)]) else {
                panic!("{result}")
            };
            assert!(text.contains(why), "{text}");
        }
        let long = vec![waiting.as_str(); PUSH_POLLS_MAX + 1];
        let Err(Error::Invalid(text)) = with(&long) else { panic!("it waits on") };
        assert!(text.contains("36 seconds"), "{text}");
        let number = r#"{"status":"MFA_CHALLENGE","factorResult":"WAITING",
            "_embedded":{"factor":{"_embedded":{"challenge":{"correctAnswer":92}}}}}"#;
        let Err(Error::Invalid(text)) = with(&[number]) else { panic!("a number") };
        assert!(text.contains("number"), "{text}");
        // Nobody is let in by what says nothing of a success, or of another factor.
        assert!(with(&[r#"{"status":"MFA_CHALLENGE"}"#]).is_err());
        assert!(tried(vec![(200, "", &status("MFA_REQUIRED"))], None, false).is_err());
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
