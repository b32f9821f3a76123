//! `-output-policy`: the policy that a request needs, in place of sending it.

use kallisto_auth::Operation;

use super::sudo::needs_sudo;
use super::{ClientRequest, Method};

/// The rule for `request`.
pub(super) fn rule(request: &ClientRequest) -> String {
    let (operation, capabilities): (Operation, &[&str]) = match request.method {
        Method::Get if request.asks("list") => (Operation::List, &["list"]),
        Method::Get if request.asks("scan") => (Operation::Scan, &["scan"]),
        Method::Get => (Operation::Read, &["read"]),
        Method::Put | Method::Post => (Operation::Update, &["create", "update"]),
        Method::Patch => (Operation::Patch, &["patch"]),
        Method::Delete => (Operation::Delete, &["delete"]),
    };
    let path = request.path.trim_end_matches('/');
    let sudo = needs_sudo(operation, path).then_some("sudo");
    let names: Vec<String> =
        capabilities.iter().copied().chain(sudo).map(|name| format!("\"{name}\"")).collect();
    format!("path \"{path}\" {{\n  capabilities = [{}]\n}}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_what_its_request_needs() {
        for (request, names) in [
            (ClientRequest::get("secret/data/a"), r#"["read"]"#),
            (ClientRequest::list("secret/metadata"), r#"["list"]"#),
            (ClientRequest::new(Method::Put, "secret/data/a"), r#"["create", "update"]"#),
            (ClientRequest::new(Method::Patch, "secret/data/a"), r#"["patch"]"#),
            (ClientRequest::new(Method::Put, "sys/rotate"), r#"["create", "update", "sudo"]"#),
            (ClientRequest::new(Method::Delete, "sys/audit/file"), r#"["delete", "sudo"]"#),
        ] {
            let rule = rule(&request);
            let expected = format!("path \"{}\" {{\n  capabilities = {names}\n}}", request.path);
            assert_eq!(rule, expected);
        }
    }
}
