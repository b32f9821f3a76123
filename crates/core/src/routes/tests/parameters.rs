//! Every row under policies that say which parameters a request may have.

use super::{OPERATIONS, ROOT, ask, is_for_anyone, open_core, request, rows, sample};
use crate::api::error::{Denial, Error};
use crate::api::json::{Json, Map};
use crate::platform::server_info::RouteAccess;
use crate::state::Core;
use kallisto_auth::{Capability, Operation};
use kallisto_engine::Admits;

/// What a rule says of parameters, each of which refuses a request with [`GIVEN`] and nothing else.
const RULES: [(&str, &str); 4] = [
    ("allowed", r#"allowed_parameters = { "known" = [] }"#),
    ("values", r#"allowed_parameters = { "given" = ["other"] "*" = [] }"#),
    ("denied", r#"denied_parameters = { "given" = [] }"#),
    ("required", r#"required_parameters = ["known"]"#),
];
const GIVEN: &str = r#"{"given":"value"}"#;

/// A token that may do everything everywhere, under this rule.
fn token_under(core: &Core, name: &str, rule: &str) -> String {
    let capabilities = r#"["create", "read", "update", "patch", "delete", "list", "scan", "sudo"]"#;
    let text = format!("path \"*\" {{ capabilities = {capabilities} {rule} }}");
    let body = Json::Object(Map::from_iter([("policy".to_owned(), text.into())])).to_text();
    let body = String::from_utf8(body.to_vec()).unwrap();
    ask(core, Some(ROOT), Operation::Update, &format!("sys/policies/acl/{name}"), &body).unwrap();
    let body = format!(r#"{{"id":"{name}","policies":["{name}"],"no_default_policy":true}}"#);
    ask(core, Some(ROOT), Operation::Update, "auth/token/create", &body).unwrap();
    name.to_owned()
}

/// Nothing that such a rule refuses is answered in any other way, and nothing is opened that ends at once.
#[test]
fn what_a_rule_on_parameters_refuses_is_denied_at_every_row() {
    let core = open_core(RouteAccess::Token);
    for (name, rule) in RULES {
        let token = token_under(&core, name, rule);
        for (base, route) in rows().filter(|(_, row)| !is_for_anyone(row)) {
            let for_any = matches!(
                route.admits,
                Admits::AnyToken | Admits::AnyTokenOrNone | Admits::AnyoneWhileSealed
            );
            let path = sample(base, route);
            let judged = |operation: &Operation| {
                let judged =
                    [Capability::Read, Capability::Update, Capability::Patch, Capability::Create];
                judged.contains(&operation.capability()) && route.takes(*operation)
            };
            for operation in OPERATIONS.into_iter().filter(judged) {
                let asked = match operation {
                    Operation::Read => {
                        let query = vec![("given".to_owned(), "value".to_owned())];
                        crate::Request { query, ..request(Some(&token), operation, &path, "") }
                    }
                    _ => request(Some(&token), operation, &path, GIVEN),
                };
                let answer = pollster::block_on(core.handle(&asked));
                let denied = matches!(answer, Err(Error::Denied(Denial::Policy)));
                assert!(denied || for_any, "{name}: {operation:?} {path}: {answer:?}");
            }
        }
    }
}
