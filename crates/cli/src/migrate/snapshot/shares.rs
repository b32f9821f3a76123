//! Unseal shares: from a file, a line each, or asked for where nobody reads along. Never from the command line, which others on the machine can see.

use std::io::IsTerminal;
use std::path::Path;

use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER_PERMISSIVE};
use kallisto_barrier::shamir::{SHARE_BYTES, Share};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_vault_snapshot::SnapshotSeal;
use zeroize::Zeroizing;

/// Most shares that there can be.
const SHARES_MAX: usize = 255;
/// Length of the one share of a server that has one: it is the key itself, without a point behind it.
const LONE_SHARE_BYTES: usize = SHARE_BYTES - 1;
/// The point that it is given here. At which one it is says nothing, since there is no other.
const LONE_SHARE_POINT: u8 = 1;

/// As many shares as it takes, or all that a file has.
pub(super) fn read(
    file: Option<&Path>,
    facts: SnapshotSeal,
    config: &Config,
) -> Result<Vec<Share>, Error> {
    let Some(file) = file else { return ask(facts, config) };
    let unreadable = |error| Error::usage(format!("{}: {error}", file.display()));
    files::warn_if_exposed(file, "the unseal shares");
    let bytes = Zeroizing::new(files::read(file).map_err(unreadable)?);
    let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let lines = lines.filter(|line| !line.is_empty()).take(SHARES_MAX + 1);
    lines.map(|line| parse(line, facts.threshold)).collect()
}

fn ask(facts: SnapshotSeal, config: &Config) -> Result<Vec<Share>, Error> {
    if !config.may_ask || !std::io::stdin().is_terminal() {
        return Err(Error::usage(
            "the unseal shares cannot be asked for: no terminal, or -non-interactive; give -source-shares-file",
        ));
    }
    let mut shares = Vec::new();
    let threshold = facts.threshold;
    for number in 1..=threshold {
        let question = format!("Unseal share {number} of {threshold} (will be hidden): ");
        let answer = rpassword::prompt_password(question).map(Zeroizing::new);
        let answer = answer.map_err(|error| Error::usage(format!("cannot ask: {error}")))?;
        shares.push(parse(answer.trim().as_bytes(), threshold)?);
    }
    Ok(shares)
}

/// A share from its text. Hexadecimal digits are base64 too: what they are is told by how many there are.
fn parse(text: &[u8], threshold: u64) -> Result<Share, Error> {
    let encodings = [HEXLOWER_PERMISSIVE, BASE64, BASE64_NOPAD];
    let mut decoded =
        encodings.iter().filter_map(|code| code.decode(text).ok().map(Zeroizing::new));
    let given = decoded.find(|bytes| match bytes.len() {
        SHARE_BYTES => true,
        LONE_SHARE_BYTES => threshold == 1,
        _ => false,
    });
    let given = given.ok_or_else(|| {
        Error::usage("an unseal share is 33 bytes in hex or base64, or 32 where it takes one alone")
    })?;
    let mut share = Zeroizing::new([LONE_SHARE_POINT; SHARE_BYTES]);
    share[..given.len()].copy_from_slice(&given);
    Share::from_bytes(&share[..]).map_err(|error| Error::usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_in_hex_and_in_base64() {
        let bytes: Vec<u8> = (1..=33).collect();
        let hex = data_encoding::HEXUPPER.encode(&bytes);
        for text in [hex, BASE64.encode(&bytes), BASE64_NOPAD.encode(&bytes)] {
            assert_eq!(parse(text.as_bytes(), 2).unwrap().expose()[..], bytes[..]);
        }
        for bad in [BASE64.encode(&bytes[1..]), "x".to_owned(), BASE64.encode(&[0; 33])] {
            assert!(parse(bad.as_bytes(), 2).is_err(), "{bad}");
        }
    }

    /// As `operator init` of a server prints it that is given one share.
    #[test]
    fn the_one_share_of_a_server_is_its_key() {
        let key: Vec<u8> = (1..=32).collect();
        for text in [data_encoding::HEXLOWER.encode(&key), BASE64.encode(&key)] {
            let share = parse(text.as_bytes(), 1).unwrap();
            let combined = kallisto_barrier::shamir::combine(&[share]).unwrap();
            assert_eq!(combined.expose()[..], key[..]);
            assert!(parse(text.as_bytes(), 2).is_err(), "of several shares it is none");
        }
    }
}
