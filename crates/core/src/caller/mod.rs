//! Who asks: the token that is shown, the policies it stands for, and the one spelling of the path that it asks for.
//!
//! `authz` decides with what is here, and handlers ask it who called them ([`policies::CallerPolicies`]).

pub(crate) mod call;
pub(crate) mod find;
pub(crate) mod policies;
pub(crate) mod spelling;
