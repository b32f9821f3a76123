//! Passwords that engines make for users of far ends.

use kallisto_api::Error;
use kallisto_engine::EngineContext;
use secrecy::SecretString;

use crate::username::random_text;

/// Length of a password that no policy makes.
const PASSWORD_CHARS: usize = 20;
/// How often a password is drawn until it has each kind of character.
const DRAWS_MAX: usize = 64;

/// A password by a policy; without one, letters, digits and dashes, each kind of them at least once and a letter at both ends.
pub(crate) fn make_password(
    context: &EngineContext<'_>,
    policy: &str,
) -> Result<SecretString, Error> {
    if !policy.is_empty() {
        return context.passwords.make(policy).map(SecretString::from);
    }
    for _ in 0..DRAWS_MAX {
        let mut text = random_text(context.random, PASSWORD_CHARS)?;
        let at = 4 + text.bytes().map(usize::from).sum::<usize>() % (PASSWORD_CHARS - 8);
        text.replace_range(at..=at, "-");
        let ends = [text.bytes().next(), text.bytes().next_back()];
        let has = |is: fn(&u8) -> bool| text.bytes().any(|byte| is(&byte));
        if has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_lowercase)
            && has(u8::is_ascii_digit)
            && ends.iter().flatten().all(u8::is_ascii_alphabetic)
        {
            return Ok(SecretString::from(text));
        }
    }
    Err(Error::Unavailable("the randomness of this machine makes no passwords".into()))
}
