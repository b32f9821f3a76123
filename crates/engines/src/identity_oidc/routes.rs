//! The routes of the provider, below `identity/`.

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts};
use kallisto_engine::route::{AFTER, Field, LIMIT, field, query};
use kallisto_engine::{Admits, Handler, RouteRows, RowGroup, RowIndex, ServedBy, handler, row};
use kallisto_identity_tokens::client::OauthClient;
use kallisto_identity_tokens::named_key::NamedKey;
use kallisto_identity_tokens::settings::{Assignment, ClaimsScope, OidcProvider, TokenRole};

use super::records::made;
use super::{
    assignments, authorize, clients, config, exchange, keys, providers, published, roles, scopes,
    tokens, userinfo,
};

pub(super) static ROUTES: RouteRows<Handler> = RouteRows {
    name: "identity-oidc",
    tag: "identity",
    about: "Tokens that say who an entity is, and logins of applications by OpenID Connect.",
    index: RowIndex::new(),
    groups: &[IDENTITY_TOKENS, PROVIDERS, PROVIDER_ENDPOINTS],
};

const NAME: Field = field("name", Text, "Its name.");
const KEY_FIELDS: &[Field] = &[
    NAME,
    field(
        "algorithm",
        Text,
        "`RS256` (the default), `RS384`, `RS512`, `ES256`, `ES384`, `ES512` or `EdDSA`.",
    ),
    field("rotation_period", Span, "How often it rotates: at least a minute."),
    field(
        "verification_ttl",
        Span,
        "How long tokens can be verified after the version that signed them was rotated.",
    ),
    field("allowed_client_ids", Texts, "Whose tokens it signs, by client id; `*` for everybody's."),
];
const ROLE_FIELDS: &[Field] = &[
    NAME,
    field("key", Text, "The key that signs its tokens."),
    field("template", Text, "A JSON object of further claims, as it stands or in base 64."),
    field("ttl", Span, "How long its tokens live: no longer than the key's `verification_ttl`."),
    field("client_id", Text, "Whom its tokens are for; drawn when absent."),
];
const IDENTITY_TOKENS: RowGroup<Handler> = &[
    row!("oidc/config", &[field("issuer", Text, "Scheme, host and port of the issuer; empty for the address of the server.")], {
        Read => "Read who makes identity tokens.", handler!(config::read);
        Update => "Say who makes identity tokens.", handler!(config::write);
    }),
    row!("oidc/key", &[AFTER, LIMIT], { List => "List the keys.", handler!(keys::list) }),
    row!("oidc/key/{name}", KEY_FIELDS, {
        Read => "Read a key, without what it signs by.", handler!(keys::read);
        Update => "Make or change a key.", handler!(keys::write);
        Delete => "Delete a key that nothing refers to. What it signed can be verified no more.", handler!(keys::delete);
    }.creating(made::<NamedKey>)),
    row!("oidc/key/{name}/rotate", &[
        NAME,
        field("verification_ttl", Span, "How long tokens of the version that signs now can be verified; the key's own when absent."),
    ], { Update => "Rotate a key.", handler!(keys::rotate) }),
    row!("oidc/role", &[AFTER, LIMIT], { List => "List the roles.", handler!(roles::list) }),
    row!("oidc/role/{name}", ROLE_FIELDS, {
        Read => "Read a role.", handler!(roles::read);
        Update => "Make or change a role.", handler!(roles::write);
        Delete => "Delete a role.", handler!(roles::delete);
    }.creating(made::<TokenRole>)),
    row!("oidc/token/{role}", &[field("role", Text, "The role.")], {
        Read => "Make a token that says who asks.", handler!(tokens::make);
    }),
    row!("oidc/introspect", &[
        field("token", Text, "An identity token."),
        field("client_id", Text, "Whom it has to be for; anybody when absent."),
    ], { Update => "Say whether an identity token is good.", handler!(tokens::introspect) }
    .served_by(ServedBy::LeaderOrRecentView)),
    row!("oidc/.well-known/openid-configuration", &[], {
        Read => "Read where the keys of identity tokens are.", handler!(published::discovery);
    }.admitting(Admits::Anyone)),
    row!("oidc/.well-known/keys", &[], {
        Read => "Read the keys that verify identity tokens.", handler!(published::keys);
    }.admitting(Admits::Anyone)),
];

const CLIENT_FIELDS: &[Field] = &[
    NAME,
    field("key", Text, "The key that signs its ID tokens; `default` when absent, and for good."),
    field("redirect_uris", Texts, "Where browsers are sent with codes."),
    field("assignments", Texts, "Who may log in to it."),
    field(
        "client_type",
        Text,
        "`confidential`, or `public` for one that can keep no secret; for good.",
    ),
    field(
        "id_token_ttl",
        Span,
        "How long its ID tokens live: no longer than the key's `verification_ttl`.",
    ),
    field("access_token_ttl", Span, "How long its access tokens live."),
    field("authorization_code", Flag, "Whether users log in to it."),
    field("client_credentials", Flag, "Whether it gets tokens for itself."),
];
const PROVIDER_FIELDS: &[Field] = &[
    NAME,
    field(
        "issuer",
        Text,
        "Scheme, host and port of the issuer; empty for the address of the server.",
    ),
    field("allowed_client_ids", Texts, "Who may use it, by client id; `*` for every client."),
    field("scopes_supported", Texts, "The scopes that it knows besides `openid`."),
];
const PROVIDERS: RowGroup<Handler> = &[
    row!("oidc/assignment", &[AFTER, LIMIT], { List => "List the assignments.", handler!(assignments::list) }),
    row!("oidc/assignment/{name}", &[
        NAME,
        field("entity_ids", Texts, "Entities that may log in, by id."),
        field("group_ids", Texts, "Groups whose members may log in, by id."),
    ], {
        Read => "Read an assignment.", handler!(assignments::read);
        Update => "Make or change an assignment.", handler!(assignments::write);
        Delete => "Delete an assignment that no client has.", handler!(assignments::delete);
    }.creating(made::<Assignment>)),
    row!("oidc/scope", &[AFTER, LIMIT], { List => "List the scopes.", handler!(scopes::list) }),
    row!("oidc/scope/{name}", &[
        NAME,
        field("template", Text, "A JSON object of claims, as it stands or in base 64."),
        field("description", Text, "For people."),
    ], {
        Read => "Read a scope.", handler!(scopes::read);
        Update => "Make or change a scope.", handler!(scopes::write);
        Delete => "Delete a scope that no provider has.", handler!(scopes::delete);
    }.creating(made::<ClaimsScope>)),
    row!("oidc/client", &[AFTER, LIMIT], { List => "List the clients.", handler!(clients::list) }),
    row!("oidc/client/{name}", CLIENT_FIELDS, {
        Read => "Read a client, with its secret.", handler!(clients::read);
        Update => "Make or change a client.", handler!(clients::write);
        Delete => "Delete a client.", handler!(clients::delete);
    }.creating(made::<OauthClient>)),
    row!("oidc/provider", &[
        AFTER,
        LIMIT,
        query("allowed_client_id", Text, "Only those that this client may use."),
    ], { List => "List the providers.", handler!(providers::list) }),
    row!("oidc/provider/{name}", PROVIDER_FIELDS, {
        Read => "Read a provider.", handler!(providers::read);
        Update => "Make or change a provider.", handler!(providers::write);
        Delete => "Delete a provider.", handler!(providers::delete);
    }.creating(made::<OidcProvider>)),
];

const AUTHORIZE_FIELDS: &[Field] = &[
    NAME,
    query("client_id", Text, "Who the user logs in to."),
    query("redirect_uri", Text, "Where the browser is sent with the code."),
    query("response_type", Text, "`code`."),
    query("scope", Text, "`openid`, and other scopes of the provider, divided by blanks."),
    query("state", Text, "Handed back as it is."),
    query("nonce", Text, "What the ID token is to say."),
    query("code_challenge", Text, "For who knows its verifier only; a public client has to."),
    query("code_challenge_method", Text, "`S256` or `plain`."),
    query("max_age", Text, "How long ago the user may have proven who they are, in seconds."),
];
const TOKEN_FIELDS: &[Field] = &[
    NAME,
    field("grant_type", Text, "`authorization_code`, or `client_credentials`."),
    field("code", Text, "The code."),
    field("redirect_uri", Text, "Where the browser was sent with it."),
    field("code_verifier", Text, "What the challenge was made of."),
    field("client_id", Text, "Who asks, where no `Basic` header says it."),
    field("client_secret", Text, "Proves who asks, where no `Basic` header does."),
    field("scope", Text, "Of `client_credentials`: `openid`, and other scopes of the provider."),
];
const PROVIDER_ENDPOINTS: RowGroup<Handler> = &[
    row!("oidc/provider/{name}/.well-known/openid-configuration", &[NAME], {
        Read => "Read where the endpoints of a provider are, and what it does.", handler!(published::provider_discovery);
    }.admitting(Admits::Anyone)),
    row!("oidc/provider/{name}/.well-known/keys", &[NAME], {
        Read => "Read the keys that verify the ID tokens of a provider.", handler!(published::provider_keys);
    }.admitting(Admits::Anyone)),
    row!("oidc/provider/{name}/authorize", AUTHORIZE_FIELDS, {
        Read => "Let a client know who asks.", handler!(authorize::authorize);
        Update => "Let a client know who asks.", handler!(authorize::authorize);
    }.served_by(ServedBy::Leader)),
    row!("oidc/provider/{name}/token", TOKEN_FIELDS, {
        Update => "Turn a code into tokens.", handler!(exchange::token);
    }.admitting(Admits::Anyone)),
    row!("oidc/provider/{name}/userinfo", &[NAME], {
        Read => "Read the claims of an access token.", handler!(userinfo::userinfo);
        Update => "Read the claims of an access token.", handler!(userinfo::userinfo);
    }.admitting(Admits::Anyone).served_by(ServedBy::Leader)),
];
