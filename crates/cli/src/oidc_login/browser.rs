//! The user's browser.
//!
//! It is started with the address as one argument, never by a shell, and only for addresses of the web: whoever answers as the server must not
//! have other programs started here.

use std::process::{Command, Stdio};

/// Whether a text is an address of the web, of characters that stand in one.
pub(super) fn is_web_address(text: &str) -> bool {
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    is_web && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'<>\\`|^{}".contains(&byte))
}

/// Opens an address; whether somebody took it.
pub(super) fn open(address: &str) -> bool {
    let (program, first): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("rundll32", &["url.dll,FileProtocolHandler"])
    } else {
        ("xdg-open", &[])
    };
    let mut command = Command::new(program);
    command.args(first).arg(address);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It goes on by itself.
    command.spawn().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_web_are_opened() {
        assert!(is_web_address("https://idp.example/authorize?client_id=a%20b&state=x"));
        assert!(is_web_address("http://127.0.0.1:8200/ui"));
        for other in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "-version",
            "https://a b",
            "https://a\"&calc",
            "https://a\n",
            "",
        ] {
            assert!(!is_web_address(other), "{other}");
        }
    }
}
