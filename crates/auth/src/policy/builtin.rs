//! The policies that a cluster has from the start.

/// The policy that tokens get unless they ask not to.
pub const DEFAULT_NAME: &str = "default";
/// The policy of wrapping tokens.
pub const RESPONSE_WRAPPING_NAME: &str = "response-wrapping";

/// What [`DEFAULT_NAME`] says until an operator changes it: what a token may do about itself.
pub const DEFAULT_TEXT: &str = r#"# What every token may do about itself, unless it was made without this policy.

# Look at, renew and revoke itself.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
path "auth/token/renew-self" {
  capabilities = ["update"]
}
path "auth/token/revoke-self" {
  capabilities = ["update"]
}

# Ask what it may do.
path "sys/capabilities-self" {
  capabilities = ["update"]
}
path "sys/internal/ui/resultant-acl" {
  capabilities = ["read"]
}

# Read its own entity.
path "identity/entity/id/{{identity.entity.id}}" {
  capabilities = ["read"]
}
path "identity/entity/name/{{identity.entity.name}}" {
  capabilities = ["read"]
}

# Renew and look at a lease whose id it knows.
path "sys/leases/renew" {
  capabilities = ["update"]
}
path "sys/leases/lookup" {
  capabilities = ["update"]
}

# Keep things in its own cubbyhole, which ends with it.
path "cubbyhole/*" {
  capabilities = ["create", "read", "update", "delete", "list"]
}

# Wrap values, look at a wrapping, unwrap.
path "sys/wrapping/wrap" {
  capabilities = ["update"]
}
path "sys/wrapping/lookup" {
  capabilities = ["update"]
}
path "sys/wrapping/unwrap" {
  capabilities = ["update"]
}

# Hash what it sends.
path "sys/tools/hash" {
  capabilities = ["update"]
}
path "sys/tools/hash/*" {
  capabilities = ["update"]
}

# Answer the authorization request of an OIDC provider.
path "identity/oidc/provider/+/authorize" {
  capabilities = ["read", "update"]
}
"#;

/// What [`RESPONSE_WRAPPING_NAME`] says, always: fetch the one wrapped answer.
pub const RESPONSE_WRAPPING_TEXT: &str = r#"path "cubbyhole/response" {
  capabilities = ["create", "read"]
}
path "sys/wrapping/unwrap" {
  capabilities = ["update"]
}
"#;
