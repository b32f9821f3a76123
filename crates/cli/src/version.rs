//! `version`: the version of the API, where clients look for it.
//!
//! Scripts made for Vault take the second word of the first line for the version and turn
//! features on by it, so the second word is the version of the API; our own follows in brackets.

use kallisto_command::VAULT_API_VERSION;
use kallisto_command::outcome::Outcome;

/// Prints the version.
pub fn run() -> Outcome {
    let own = env!("CARGO_PKG_VERSION");
    Outcome::line(format!("Kallisto v{VAULT_API_VERSION} (kallisto {own})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_word_is_a_semantic_version() {
        let outcome = run();
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        let word = text.split_whitespace().nth(1).unwrap();
        let numbers: Vec<u32> =
            word.trim_start_matches('v').split('.').map(|part| part.parse().unwrap()).collect();
        assert!(word.starts_with('v') && numbers.len() == 3 && numbers[0] == 1 && numbers[1] >= 15);
    }
}
