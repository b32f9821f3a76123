//! From what a browser brought back to who it is: the code is exchanged, the ID token verified, and UserInfo added.
//!
//! Keys, issuer and endpoints are those of the discovery document. Nothing that a token says of itself chooses whom this server asks or which
//! key it believes, but the name of one key among those of the issuer.

use kallisto_api::{Error, Map};
use kallisto_engine::Call;
use secrecy::{ExposeSecret, SecretString};

use super::super::claims;
use super::super::config::JwtConfig;
use super::super::provider::{self, DiscoveredProvider};
use super::super::role::JwtRole;
use super::super::token::Jwt;
use super::exchange::{ExchangedTokens, TokenEndpoint, error_code};
use super::id_token::{self, IdTokenChecks};
use super::state::LoginUnderWay;
use super::{failed, parties};

/// The algorithms of ID tokens where the configuration names none: that which every provider has (OpenID Connect Discovery 1.0, section 3).
const ALGORITHMS: [&str; 1] = ["RS256"];
/// Stands for a code where there is none.
const NO_CODE: &str = "no_code";

/// What a browser brought back.
pub(super) struct CallbackParameters {
    pub(super) code: SecretString,
    pub(super) id_token: SecretString,
    /// What the provider says instead.
    pub(super) error: String,
    /// Who the provider says it is (RFC 9207).
    pub(super) issuer: String,
}

impl CallbackParameters {
    pub(super) fn has_code(&self) -> bool {
        !matches!(self.code.expose_secret(), "" | NO_CODE)
    }

    pub(super) fn id_token_text(&self) -> &str {
        self.id_token.expose_secret()
    }
}

/// How what was brought came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// By a client. Those of Vault hand on no `iss`.
    Relayed,
    /// By the browser itself, with all that the provider said.
    Browser,
}

/// What a provider vouches for.
pub(super) struct OidcProof {
    claims: Map,
    bounds: Result<(), String>,
}

impl OidcProof {
    /// The claims, if the role lets them in.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what the role wants.
    pub(super) fn judged(self) -> Result<Map, Error> {
        match self.bounds {
            Ok(()) => Ok(self.claims),
            Err(why) => Err(failed(&format!("error validating claims: {why}"))),
        }
    }
}

/// Finds out who it is.
///
/// # Errors
/// [`Error::Invalid`] when the provider vouches for nobody; [`Error::Unavailable`] when it does not say who it is or what its keys are.
pub(super) async fn prove(
    run: &Call<'_>,
    config: &JwtConfig,
    role: &JwtRole,
    state: &LoginUnderWay,
    brought: &CallbackParameters,
    strictness: Strictness,
) -> Result<OidcProof, Error> {
    if !brought.error.is_empty() {
        let code = error_code(&brought.error).unwrap_or("an error");
        return Err(failed(&format!("The provider answered {code}")));
    }
    let (client, (url, authorities)) = parties(config)?;
    let provider = provider::provider(&run.context, url, authorities).await?;
    check_issuer(&provider, &brought.issuer, strictness)?;
    let peer = TokenEndpoint { outbound: run.outbound, provider: &provider, client, authorities };
    let tokens = if brought.has_code() && config.asks_for("code") {
        let verifier = state.code_verifier(run.keyed_hash)?;
        let code = brought.code.expose_secret();
        let exchanged = peer.tokens_of_code(code, &state.redirect_uri, verifier).await;
        exchanged.map_err(|why| failed(&format!("Error exchanging oidc code: {:?}", why.text())))?
    } else if !brought.id_token_text().is_empty() && config.asks_for("id_token") {
        ExchangedTokens {
            id_token: brought.id_token.clone(),
            access_token: SecretString::default(),
        }
    } else {
        return Err(failed("OAuth code parameter not provided"));
    };
    let nonce = state.nonce(run.keyed_hash)?;
    vouched(run, config, role, peer, &tokens, Some(&nonce)).await
}

/// Another provider's answer is no answer of this one (RFC 9207, section 2.4).
fn check_issuer(
    provider: &DiscoveredProvider,
    said: &str,
    strictness: Strictness,
) -> Result<(), Error> {
    let must = provider.names_itself && strictness == Strictness::Browser;
    if said == provider.issuer || (said.is_empty() && !must) {
        return Ok(());
    }
    Err(failed("the answer (iss) is not of the provider that was asked"))
}

/// Verifies the tokens of a provider, and adds what it says besides.
///
/// # Errors
/// As [`prove`].
pub(super) async fn vouched(
    run: &Call<'_>,
    config: &JwtConfig,
    role: &JwtRole,
    peer: TokenEndpoint<'_>,
    tokens: &ExchangedTokens,
    nonce: Option<&str>,
) -> Result<OidcProof, Error> {
    let refuse = |why: String| failed(&format!("error validating token: {why}"));
    let text = tokens.id_token.expose_secret();
    let jwt = Jwt::parse(text).ok_or_else(|| refuse("it is no signed JWT".to_owned()))?;
    let taken = match config.algorithms.is_empty() {
        true => ALGORITHMS.contains(&jwt.algorithm.as_str()),
        false => config.algorithms.contains(&jwt.algorithm),
    };
    if !taken {
        return Err(refuse("its algorithm is not one of jwt_supported_algs".to_owned()));
    }
    if !provider::has_signed(&run.context, config, &jwt).await? {
        return Err(refuse("no known key successfully validated the token signature".to_owned()));
    }
    let wanted = IdTokenChecks {
        issuer: &peer.provider.issuer,
        client_id: &peer.client.id,
        nonce,
        access_token: tokens.access_token.expose_secret(),
        algorithm: &jwt.algorithm,
        role,
        now: run.now,
    };
    let mut claims = jwt.claims.clone();
    id_token::check(&claims, &wanted).map_err(refuse)?;
    if let Some(bound) = Some(&config.bound_issuer).filter(|bound| !bound.is_empty())
        && *bound != peer.provider.issuer
    {
        return Err(refuse("invalid issuer (iss) claim".to_owned()));
    }
    if let Some(said) = peer.user_info(&tokens.access_token).await.map_err(|why| failed(&why))? {
        id_token::merge(&mut claims, said).map_err(|why| failed(&why))?;
    }
    let bounds = claims::check_bounds(&claims, role);
    Ok(OidcProof { claims, bounds })
}
