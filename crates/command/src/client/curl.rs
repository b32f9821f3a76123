//! `-output-curl-string`: a request as a command line one can run.
//!
//! The token is not in it; the shell asks for it when the line is run.

use super::ClientRequest;

/// The command line for `request` to `url`.
pub(crate) fn command(request: &ClientRequest, url: &str, headers: &[(String, String)]) -> String {
    let mut words = vec!["curl".to_owned()];
    if request.method != super::Method::Get {
        words.push(format!("-X {}", request.method.name()));
    }
    for (name, value) in headers {
        words.push(format!("-H {}", double_quoted(&format!("{name}: {value}"))));
    }
    words.push("-H \"X-Vault-Token: $(kallisto print token)\"".to_owned());
    if let Some(body) = &request.body {
        let text = String::from_utf8_lossy(body);
        words.push(format!("-d '{}'", text.replace('\'', "'\"'\"'")));
    }
    words.push(double_quoted(url));
    words.join(" ")
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\' | '$' | '`') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::super::{ClientRequest, Method};
    use super::*;

    #[test]
    fn quotes_survive_a_shell() {
        let request = ClientRequest {
            body: Some(b"{\"a\":\"it's\"}".to_vec()),
            ..ClientRequest::new(Method::Put, "x")
        };
        let headers = [("X-Vault-Request".to_owned(), "true".to_owned())];
        assert_eq!(
            command(&request, "http://h/v1/x$y", &headers),
            "curl -X PUT -H \"X-Vault-Request: true\" -H \"X-Vault-Token: $(kallisto print token)\" \
             -d '{\"a\":\"it'\"'\"'s\"}' \"http://h/v1/x\\$y\""
        );
    }
}
