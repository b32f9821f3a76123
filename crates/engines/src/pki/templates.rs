//! Roles whose domains and URIs are templates of identity.

use kallisto_api::Error;
use kallisto_engine::Call;
use kallisto_pki::names::Rules;

use super::role::Role;

/// The rules of a role for who asks.
pub(super) fn rules(call: &Call<'_>, role: &Role) -> Result<Rules, Error> {
    let mut rules = role.rules.clone();
    if role.allows_token_name {
        rules.display_name = call.caller.map(|caller| caller.display_name.clone());
    }
    Ok(rules)
}
