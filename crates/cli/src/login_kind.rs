//! The kinds of login methods that the command line knows: what each is called.
//!
//! How a kind is logged in to is in `login`, its help in `auth_help`, and what it keeps in `migrate::login_methods`, each in a `match`
//! that a new kind does not pass by. This crate does not know the login methods of the server: a test of `kallisto` compares the names.

/// A kind of login method, or logging in with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginKind {
    Token,
    Userpass,
    Ldap,
    Okta,
    Radius,
    Approle,
    Cert,
    Github,
    Jwt,
    Kubernetes,
    Oidc,
}

impl LoginKind {
    /// All of them, in the order in which they are told.
    pub(crate) const ALL: [Self; 11] = [
        Self::Token,
        Self::Userpass,
        Self::Ldap,
        Self::Okta,
        Self::Radius,
        Self::Approle,
        Self::Cert,
        Self::Github,
        Self::Jwt,
        Self::Kubernetes,
        Self::Oidc,
    ];

    /// What it is called, in requests too.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Userpass => "userpass",
            Self::Ldap => "ldap",
            Self::Okta => "okta",
            Self::Radius => "radius",
            Self::Approle => "approle",
            Self::Cert => "cert",
            Self::Github => "github",
            Self::Jwt => "jwt",
            Self::Kubernetes => "kubernetes",
            Self::Oidc => "oidc",
        }
    }

    /// The kind of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
