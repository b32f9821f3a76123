//! What kind of tokens a role or a mount makes: its own word, or what the request asks for.

use kallisto_auth::TokenKind;

use kallisto_api::Error;

/// The `token_type` of a role or a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenType {
    /// Nothing is said.
    #[default]
    Default,
    /// Service tokens, unless another kind is asked for.
    DefaultService,
    /// Batch tokens, unless another kind is asked for.
    DefaultBatch,
    /// Service tokens, whatever is asked for.
    Service,
    /// Batch tokens, whatever is asked for.
    Batch,
}

impl TokenType {
    /// Reads the field as it is on the wire.
    ///
    /// # Errors
    /// [`Error::Invalid`] in the words of the contract.
    pub fn parse(name: &str) -> Result<Self, Error> {
        Ok(match name {
            "" | "default" => Self::Default,
            "default-service" => Self::DefaultService,
            "default-batch" => Self::DefaultBatch,
            "service" => Self::Service,
            "batch" => Self::Batch,
            other => {
                return Err(Error::invalid(format!("invalid 'token_type' value \"{other}\"")));
            }
        })
    }

    /// The field on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::DefaultService => "default-service",
            Self::DefaultBatch => "default-batch",
            Self::Service => "service",
            Self::Batch => "batch",
        }
    }

    /// Whether it yields to what is asked for, as only the word of a mount can.
    pub const fn is_default_of_mount(self) -> bool {
        matches!(self, Self::DefaultService | Self::DefaultBatch)
    }

    /// The kind of a token, when `asked` was asked for.
    pub fn choose(self, asked: Option<TokenKind>) -> TokenKind {
        match self {
            Self::Service => TokenKind::Service,
            Self::Batch => TokenKind::Batch,
            Self::Default | Self::DefaultService => asked.unwrap_or(TokenKind::Service),
            Self::DefaultBatch => asked.unwrap_or(TokenKind::Batch),
        }
    }

    /// The kind of token that a login makes: the mount's word, then the role's, then the mount's
    /// default.
    pub fn of_login(mount: Self, role: Self) -> TokenKind {
        let asked = match role {
            Self::Default => None,
            Self::DefaultBatch | Self::Batch => Some(TokenKind::Batch),
            Self::DefaultService | Self::Service => Some(TokenKind::Service),
        };
        mount.choose(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forced_type_wins_over_what_is_asked_and_a_default_yields() {
        use TokenKind::{Batch, Service};
        for (name, none, service, batch) in [
            ("default", Service, Service, Batch),
            ("default-service", Service, Service, Batch),
            ("default-batch", Batch, Service, Batch),
            ("service", Service, Service, Service),
            ("batch", Batch, Batch, Batch),
        ] {
            let kind = TokenType::parse(name).unwrap();
            assert_eq!(kind.name(), name);
            let chosen = [None, Some(Service), Some(Batch)].map(|asked| kind.choose(asked));
            assert_eq!(chosen, [none, service, batch], "{name}");
        }
        assert!(TokenType::parse("bogus").is_err());
    }
}
