//! Whether a user may log in to a client: the request of the browser against what is registered (OpenID Connect Core, 3.1.2).

use kallisto_api::Map;

use crate::client::{ClientType, OauthClient};
use crate::grant::{ChallengeMethod, CodeChallenge};
use crate::oauth::{Code, OauthError};
use crate::redirect;
use crate::settings::{Assignment, OPENID, OidcProvider};
use crate::subject::TokenSubject;

/// Longest `state` and `nonce`, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Most scopes of a request.
const SCOPES_MAX: usize = 64;

/// What the browser brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizeRequest {
    /// Who the user logs in to.
    pub client_id: String,
    /// Where the browser is sent with the code.
    pub redirect_uri: String,
    /// The scopes, divided by blanks.
    pub scope: String,
    /// What the browser is sent back with.
    pub response_type: String,
    /// What the client knows its own request by; it is handed back.
    pub state: String,
    /// The same, in the ID token.
    pub nonce: String,
    /// For who knows the verifier only (RFC 7636); `None` where the request has none, which an empty one is not.
    pub code_challenge: Option<String>,
    /// How the challenge is made of the verifier.
    pub code_challenge_method: String,
    /// How long ago the user may have proven who they are, in seconds.
    pub max_age: Option<String>,
    /// Whether there is a request object, which is not taken.
    pub has_request: bool,
    /// Whether there is a reference to one.
    pub has_request_uri: bool,
}

impl AuthorizeRequest {
    /// Reads the parameters of a request.
    pub fn read(fields: &Map) -> Self {
        let given = |name: &str| fields.get(name).and_then(kallisto_api::fields::scalar_text);
        let text = |name: &str| given(name).unwrap_or_default();
        Self {
            client_id: text("client_id"),
            redirect_uri: text("redirect_uri"),
            scope: text("scope"),
            response_type: text("response_type"),
            state: text("state"),
            nonce: text("nonce"),
            code_challenge: given("code_challenge"),
            code_challenge_method: text("code_challenge_method"),
            max_age: fields.contains_key("max_age").then(|| text("max_age")),
            has_request: fields.contains_key("request"),
            has_request_uri: fields.contains_key("request_uri"),
        }
    }
}

/// The user at the browser.
#[derive(Clone, Debug)]
pub struct BrowserUser<'a> {
    /// Their entity; `None` for a token without one.
    pub subject: Option<&'a TokenSubject>,
    /// Whether the entity may do anything.
    pub is_disabled: bool,
    /// When they proved who they are.
    pub proven_at: Option<i64>,
}

/// What is registered.
#[derive(Clone, Copy, Debug)]
pub struct Registered<'a> {
    /// The client that the request names; `None` when there is none.
    pub client: Option<&'a OauthClient>,
    /// The provider; `None` when there is none.
    pub provider: Option<&'a OidcProvider>,
    /// The client's assignments.
    pub assignments: &'a [Assignment],
}

/// What the user agreed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// The scopes that the provider knows, `openid` not among them.
    pub scopes: Vec<String>,
    /// What the code is bound to.
    pub challenge: Option<CodeChallenge>,
    /// When the user proved who they are, if the client asked.
    pub auth_time: Option<i64>,
    /// What goes into the ID token.
    pub nonce: Option<String>,
}

fn refuse<T>(code: Code, why: &str) -> Result<T, OauthError> {
    Err(OauthError::new(code, why))
}

/// Decides.
///
/// # Errors
/// The refusal, for the browser.
pub fn decide(
    request: &AuthorizeRequest,
    registered: Registered<'_>,
    user: &BrowserUser<'_>,
    now: i64,
) -> Result<Consent, OauthError> {
    let client = check_client(request, registered)?;
    let provider = registered
        .provider
        .ok_or_else(|| OauthError::new(Code::InvalidRequest, "provider not found"))?;
    if !provider.allows(&client.client_id) {
        return refuse(Code::UnauthorizedClient, "client is not authorized to use the provider");
    }
    if request.has_request {
        return refuse(Code::RequestNotSupported, "request parameter is not supported");
    }
    if request.has_request_uri {
        return refuse(Code::RequestUriNotSupported, "request_uri parameter is not supported");
    }
    if request.state.len().max(request.nonce.len()) > TEXT_BYTES_MAX {
        return Err(OauthError::new(
            Code::InvalidRequest,
            format!("state or nonce is longer than {TEXT_BYTES_MAX} bytes"),
        ));
    }
    let scopes = scopes(&request.scope, provider)?;
    match request.response_type.as_str() {
        "code" => {}
        "" => return refuse(Code::InvalidRequest, "response_type parameter is required"),
        _ => return refuse(Code::UnsupportedResponseType, "unsupported response_type value"),
    }
    check_user(client, registered.assignments, user)?;
    let challenge = challenge(request, client)?;
    let auth_time = auth_time(request.max_age.as_deref(), user.proven_at, now)?;
    let nonce = Some(request.nonce.clone()).filter(|nonce| !nonce.is_empty());
    Ok(Consent { scopes, challenge, auth_time, nonce })
}

fn check_client<'a>(
    request: &AuthorizeRequest,
    registered: Registered<'a>,
) -> Result<&'a OauthClient, OauthError> {
    if request.client_id.is_empty() {
        return refuse(Code::InvalidClientId, "client_id parameter is required");
    }
    let Some(client) = registered.client else {
        return refuse(Code::InvalidClientId, "client with client_id not found");
    };
    if !client.authorization_code {
        return refuse(
            Code::InvalidGrant,
            "client not allowed to perform authorization code credential flow",
        );
    }
    if request.redirect_uri.is_empty() {
        return refuse(Code::InvalidRequest, "redirect_uri parameter is required");
    }
    if !redirect::is_allowed(&request.redirect_uri, &client.redirect_uris) {
        return refuse(Code::InvalidRedirectUri, "redirect_uri is not allowed for the client");
    }
    Ok(client)
}

/// The scopes that are asked for and that the provider knows.
///
/// # Errors
/// [`Code::InvalidRequest`] unless `openid` is among those that are asked for.
pub fn scopes(asked: &str, provider: &OidcProvider) -> Result<Vec<String>, OauthError> {
    let mut known: Vec<String> = Vec::new();
    let mut has_openid = false;
    for scope in asked.split_ascii_whitespace() {
        has_openid |= scope == OPENID;
        let is_new = !known.iter().any(|known| known == scope);
        if is_new && provider.scopes_supported.iter().any(|supported| supported == scope) {
            known.push(scope.to_owned());
        }
        if known.len() > SCOPES_MAX {
            return Err(OauthError::new(
                Code::InvalidRequest,
                format!("more than {SCOPES_MAX} scopes"),
            ));
        }
    }
    if has_openid {
        return Ok(known);
    }
    refuse(Code::InvalidRequest, "scope parameter must contain the \"openid\" value")
}

fn check_user(
    client: &OauthClient,
    assignments: &[Assignment],
    user: &BrowserUser<'_>,
) -> Result<(), OauthError> {
    let Some(subject) = user.subject else {
        return refuse(Code::AccessDenied, "identity entity must be associated with the request");
    };
    if user.is_disabled || !is_assigned(client, assignments, subject) {
        return refuse(Code::AccessDenied, "identity entity not authorized by client assignment");
    }
    Ok(())
}

/// Whether a subject may log in to a client, whose assignments these are.
pub fn is_assigned(
    client: &OauthClient,
    assignments: &[Assignment],
    subject: &TokenSubject,
) -> bool {
    client.assignments.iter().any(|name| name == crate::settings::ALLOW_ALL)
        || assignments.iter().any(|assignment| assignment.has(subject))
}

fn challenge(
    request: &AuthorizeRequest,
    client: &OauthClient,
) -> Result<Option<CodeChallenge>, OauthError> {
    let Some(given) = &request.code_challenge else {
        if client.kind == ClientType::Public {
            return refuse(Code::InvalidRequest, "PKCE is required for public clients");
        }
        return Ok(None);
    };
    let method = match request.code_challenge_method.as_str() {
        "" | "plain" => ChallengeMethod::Plain,
        "S256" => ChallengeMethod::S256,
        _ => return refuse(Code::InvalidRequest, "invalid code_challenge_method"),
    };
    let Some(challenge) = CodeChallenge::new(given, method) else {
        return refuse(Code::InvalidRequest, "invalid code_challenge");
    };
    Ok(Some(challenge))
}

fn auth_time(
    max_age: Option<&str>,
    proven_at: Option<i64>,
    now: i64,
) -> Result<Option<i64>, OauthError> {
    let Some(max_age) = max_age else { return Ok(None) };
    let Some(max_age) = max_age.parse::<i64>().ok().filter(|secs| *secs > 0) else {
        return refuse(Code::InvalidRequest, "max_age must be greater than zero");
    };
    match proven_at {
        Some(at) if now.saturating_sub(at) <= max_age => Ok(Some(at)),
        _ => refuse(Code::MaxAgeViolation, "active re-authentication is required by max_age"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLBACK: &str = "https://app.example/cb";

    fn client() -> OauthClient {
        OauthClient {
            client_id: "app".to_owned(),
            redirect_uris: vec![CALLBACK.to_owned()],
            assignments: vec!["team".to_owned()],
            ..OauthClient::new("app")
        }
    }

    fn provider() -> OidcProvider {
        OidcProvider { scopes_supported: vec!["groups".to_owned()], ..OidcProvider::of_default() }
    }

    fn request() -> AuthorizeRequest {
        let text = str::to_owned;
        AuthorizeRequest {
            client_id: text("app"),
            redirect_uri: text(CALLBACK),
            scope: text("openid groups other groups"),
            response_type: text("code"),
            state: text("st"),
            nonce: text("no"),
            ..AuthorizeRequest::default()
        }
    }

    fn ann() -> TokenSubject {
        TokenSubject { id: "ann".to_owned(), ..TokenSubject::default() }
    }

    fn team() -> Assignment {
        Assignment { entity_ids: vec!["ann".to_owned()], group_ids: vec!["g".to_owned()] }
    }

    fn decide_after(
        request: &AuthorizeRequest,
        change: impl FnOnce(&mut OauthClient, &mut OidcProvider, &mut BrowserUser<'_>),
    ) -> Result<Consent, (&'static str, String)> {
        let ann = ann();
        let (mut client, mut provider) = (client(), provider());
        let mut user =
            BrowserUser { subject: Some(&ann), is_disabled: false, proven_at: Some(100) };
        change(&mut client, &mut provider, &mut user);
        let registered = Registered {
            client: (request.client_id == client.client_id).then_some(&client),
            provider: Some(&provider),
            assignments: &[team()],
        };
        decide(request, registered, &user, 160)
            .map_err(|error| (error.code.name(), error.description))
    }

    fn with(change: impl FnOnce(&mut AuthorizeRequest)) -> AuthorizeRequest {
        let mut request = request();
        change(&mut request);
        request
    }

    #[test]
    fn who_is_assigned_is_allowed_with_the_scopes_that_the_provider_knows() {
        let allowed = decide_after(&request(), |_, _, _| {}).unwrap();
        assert_eq!(allowed.scopes, ["groups"]);
        assert_eq!((allowed.challenge, allowed.auth_time), (None, None));
        assert_eq!(allowed.nonce.as_deref(), Some("no"));
    }

    #[test]
    fn every_refusal_says_which_check_did_not_pass() {
        let cases: Vec<(AuthorizeRequest, &str)> = vec![
            (with(|r| r.client_id.clear()), "invalid_client_id"),
            (with(|r| r.client_id = "x".into()), "invalid_client_id"),
            (with(|r| r.redirect_uri.clear()), "invalid_request"),
            (with(|r| r.redirect_uri.push('/')), "invalid_redirect_uri"),
            (with(|r| r.scope = "groups".into()), "invalid_request"),
            (with(|r| r.scope = "OpenID".into()), "invalid_request"),
            (with(|r| r.response_type.clear()), "invalid_request"),
            (with(|r| r.response_type = "token".into()), "unsupported_response_type"),
            (with(|r| r.response_type = "code id_token".into()), "unsupported_response_type"),
            (with(|r| r.has_request = true), "request_not_supported"),
            (with(|r| r.has_request_uri = true), "request_uri_not_supported"),
            (with(|r| r.state = "x".repeat(TEXT_BYTES_MAX + 1)), "invalid_request"),
            (with(|r| r.code_challenge = Some(String::new())), "invalid_request"),
            (with(|r| r.code_challenge = Some("short".into())), "invalid_request"),
            (with(|r| r.code_challenge = Some("+".repeat(43))), "invalid_request"),
            (with(|r| r.max_age = Some("0".into())), "invalid_request"),
            (with(|r| r.max_age = Some("x".into())), "invalid_request"),
            (with(|r| r.max_age = Some("59".into())), "max_age_violation"),
        ];
        for (request, code) in cases {
            assert_eq!(decide_after(&request, |_, _, _| {}).unwrap_err().0, code, "{request:?}");
        }
        let request = request();
        let refused = |change: fn(&mut OauthClient, &mut OidcProvider, &mut BrowserUser<'_>)| {
            decide_after(&request, change).unwrap_err().0
        };
        assert_eq!(refused(|_, p, _| p.allowed_client_ids.clear()), "unauthorized_client");
        assert_eq!(refused(|c, _, _| c.authorization_code = false), "invalid_grant");
        assert_eq!(refused(|c, _, _| c.kind = ClientType::Public), "invalid_request");
        assert_eq!(refused(|_, _, u| u.subject = None), "access_denied");
        assert_eq!(refused(|_, _, u| u.is_disabled = true), "access_denied");
    }

    #[test]
    fn an_assignment_is_of_entities_and_of_whoever_is_in_its_groups() {
        let eve = TokenSubject { id: "eve".to_owned(), ..TokenSubject::default() };
        assert!(!is_assigned(&client(), &[team()], &eve));
        let group = crate::subject::SubjectGroup { id: "g".to_owned(), ..Default::default() };
        let member = TokenSubject { groups: vec![group], ..eve.clone() };
        assert!(is_assigned(&client(), &[team()], &member));
        assert!(!is_assigned(&client(), &[], &ann()));
        let mut open = client();
        open.assignments = vec![crate::settings::ALLOW_ALL.to_owned()];
        assert!(is_assigned(&open, &[], &eve));
        // A star names everybody in `allow_all` only.
        let star = Assignment { entity_ids: vec!["*".to_owned()], group_ids: Vec::new() };
        assert!(!is_assigned(&client(), &[star], &eve));
    }

    #[test]
    fn who_proved_themselves_lately_enough_is_told_when() {
        let allowed = decide_after(&with(|r| r.max_age = Some("60".into())), |_, _, _| {}).unwrap();
        assert_eq!(allowed.auth_time, Some(100));
        let request = with(|r| r.max_age = Some("60".into()));
        let refused = decide_after(&request, |_, _, user| user.proven_at = None).unwrap_err();
        assert_eq!(refused.0, "max_age_violation");
    }

    #[test]
    fn the_parameters_of_a_request_are_read_by_their_names() {
        let given = Map::from(
            [
                ("client_id", "app"),
                ("redirect_uri", CALLBACK),
                ("scope", "openid"),
                ("response_type", "code"),
                ("state", "st"),
                ("nonce", "no"),
                ("code_challenge", "c"),
                ("code_challenge_method", "S256"),
                ("max_age", "5"),
                ("request", ""),
            ]
            .map(|(name, value)| (name.to_owned(), value.into())),
        );
        let text = str::to_owned;
        let expected = AuthorizeRequest {
            scope: text("openid"),
            code_challenge: Some(text("c")),
            code_challenge_method: text("S256"),
            max_age: Some(text("5")),
            has_request: true,
            ..request()
        };
        assert_eq!(AuthorizeRequest::read(&given), expected);
        assert_eq!(AuthorizeRequest::read(&Map::new()), AuthorizeRequest::default());
    }

    #[test]
    fn texts_and_scopes_are_as_many_as_they_may() {
        let longest = with(|r| (r.state, r.nonce) = ("x".repeat(4096), "y".repeat(4096)));
        assert!(decide_after(&longest, |_, _, _| {}).is_ok());
        let asked = |count: usize| {
            let names: Vec<String> = (0..count).map(|at| format!("s{at}")).collect();
            let request = with(|r| r.scope = format!("openid {}", names.join(" ")));
            decide_after(&request, |_, provider, _| provider.scopes_supported = names)
        };
        assert_eq!(asked(SCOPES_MAX).unwrap().scopes.len(), SCOPES_MAX);
        assert_eq!(asked(SCOPES_MAX + 1).unwrap_err().1, format!("more than {SCOPES_MAX} scopes"));
        let twice = with(|r| r.scope = "openid groups openid".to_owned());
        assert!(decide_after(&twice, |_, _, _| {}).is_ok());
    }

    #[test]
    fn a_challenge_is_the_verifier_or_its_sum_and_plain_where_nobody_says() {
        let text = "a".repeat(43);
        let challenge = |method: &str| {
            let request = with(|r| {
                (r.code_challenge, r.code_challenge_method) =
                    (Some(text.clone()), method.to_owned());
            });
            decide_after(&request, |_, _, _| {}).map(|consent| consent.challenge)
        };
        let made = |method| Ok(CodeChallenge::new(&text, method));
        assert_eq!(challenge(""), made(ChallengeMethod::Plain));
        assert_eq!(challenge("plain"), made(ChallengeMethod::Plain));
        assert_eq!(challenge("S256"), made(ChallengeMethod::S256));
        assert_eq!(challenge("s256").unwrap_err().1, "invalid code_challenge_method");
    }
}
