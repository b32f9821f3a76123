//! Paths whose names have no case: the rule that would speak if no rule had case has to grant the request, too.

use super::{Ask, set};
use crate::acl::Reason;
use crate::{AclSet, Capability};

const READ: Capability = Capability::Read;
const UPDATE: Capability = Capability::Update;

/// A rule for all users, and one that says another thing of a single one.
fn users(all: &str, admin: &str) -> AclSet {
    let rule =
        |pattern, held| format!("path \"auth/x/users/{pattern}\" {{ capabilities = [{held}] }}");
    set(&[rule("*", all), rule("Admin", admin)])
}

/// A request for `auth/x/users/admin`, which names the same user as `auth/x/users/Admin`.
fn ask(capability: Capability) -> Ask {
    let path = "auth/x/users/admin";
    Ask { caseless: Some(path), ..Ask::new(capability, path) }
}

#[test]
fn a_narrower_rule_is_not_passed_by_in_another_case() {
    let acl = users("\"read\", \"update\"", "\"read\"");
    assert!(acl.decide(&ask(READ)).is_ok(), "both rules grant it");
    assert_eq!(acl.explain(&ask(UPDATE)).reason, Reason::Lacks(UPDATE));
    // Where another case is another name the narrower rule speaks of somebody else.
    assert!(acl.decide(&Ask { caseless: None, ..ask(UPDATE) }).is_ok());
    // Spelled as the rule is, there is but one rule to ask.
    let path = "auth/x/users/Admin";
    let spelled = Ask { caseless: Some("auth/x/users/admin"), ..Ask::new(UPDATE, path) };
    assert_eq!(acl.explain(&spelled).reason, Reason::Lacks(UPDATE));
}

#[test]
fn a_rule_of_another_case_takes_away_and_never_gives() {
    let acl = users("\"read\"", "\"read\", \"update\"");
    assert!(acl.decide(&ask(READ)).is_ok());
    assert_eq!(acl.explain(&ask(UPDATE)).reason, Reason::Lacks(UPDATE));
    let without_own = set(&["path \"auth/x/users/Admin\" { capabilities = [\"read\"] }"]);
    assert_eq!(without_own.explain(&ask(READ)).reason, Reason::NoRule);
}

#[test]
fn a_name_without_a_rule_of_its_own_is_asked_of_the_rule_for_all() {
    let acl = users("\"read\", \"update\"", "\"read\"");
    let path = "auth/x/users/bob";
    let bob = Ask { caseless: Some(path), ..Ask::new(UPDATE, path) };
    assert!(acl.decide(&bob).is_ok());
    assert_eq!(acl.capabilities_caseless(path, path).names(), ["read", "update"]);
}

#[test]
fn capabilities_are_those_that_both_rules_grant() {
    let held = |all, admin| {
        let path = "auth/x/users/admin";
        users(all, admin).capabilities_caseless(path, path).names().join(" ")
    };
    assert_eq!(held("\"read\", \"update\"", "\"read\", \"delete\""), "read");
    assert_eq!(held("\"read\"", "\"read\", \"update\""), "read");
    assert_eq!(held("\"read\", \"update\"", "\"deny\""), "deny");
}

/// Only rules that reach a folder with names without case are kept without case. A broad one among them says nothing of a
/// secret for which a narrower one speaks.
#[test]
fn a_less_specific_rule_is_not_asked_again() {
    let acl = set(&["path \"*\" { capabilities = [\"read\"] }
         path \"secret/a\" { capabilities = [\"update\"] }"]);
    let secret = Ask { caseless: Some("secret/a"), ..Ask::new(UPDATE, "secret/a") };
    assert!(acl.decide(&secret).is_ok());
    assert_eq!(acl.capabilities_caseless("secret/a", "secret/a").names(), ["update"]);
}
