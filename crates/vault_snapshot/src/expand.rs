//! Values that were compressed: their first byte says how.

use std::io::Read;

use flate2::read::GzDecoder;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::limits::EXPANDED_BYTES_MAX;

/// A value as it was before it was compressed, if it was: neither JSON nor a message begins with such a byte.
///
/// # Errors
/// [`Error::Record`] for a form that is not read, damage, and what becomes too long.
pub fn expand(bytes: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>> {
    let Some((form, rest)) = bytes.split_first() else { return Ok(bytes) };
    match form {
        b'G' => read_all(GzDecoder::new(rest)),
        b'S' => read_all(snap::read::FrameDecoder::new(rest)),
        b'L' => Err(Error::record("a value compressed by LZW is not read")),
        b'4' => Err(Error::record("a value compressed by LZ4 is not read")),
        _ => Ok(bytes),
    }
}

fn read_all(from: impl Read) -> Result<Zeroizing<Vec<u8>>> {
    let mut out = Zeroizing::new(Vec::new());
    from.take(EXPANDED_BYTES_MAX + 1)
        .read_to_end(&mut out)
        .map_err(|_| Error::record("a compressed value is damaged"))?;
    if u64::try_from(out.len()).is_ok_and(|len| len > EXPANDED_BYTES_MAX) {
        return Err(Error::record(format!(
            "a compressed value becomes longer than {EXPANDED_BYTES_MAX} bytes"
        )));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn compressed_values_come_back_and_a_bomb_is_refused() {
        let owned = |bytes: &[u8]| Zeroizing::new(bytes.to_vec());
        let gzip = |bytes: &[u8]| {
            let mut encoder =
                flate2::write::GzEncoder::new(b"G".to_vec(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let snappy = |bytes: &[u8]| {
            let mut encoder = snap::write::FrameEncoder::new(b"S".to_vec());
            encoder.write_all(bytes).unwrap();
            encoder.into_inner().unwrap()
        };
        for text in [&b"{}"[..], &[b'x'; 100_000]] {
            assert_eq!(&*expand(owned(&gzip(text))).unwrap(), text);
            assert_eq!(&*expand(owned(&snappy(text))).unwrap(), text);
        }
        assert_eq!(&*expand(owned(b"{\"a\":1}")).unwrap(), b"{\"a\":1}");
        assert!(expand(owned(b"Gnothing")).is_err() && expand(owned(b"Snothing")).is_err());
        for (form, name) in [(b"L..", "LZW"), (b"4..", "LZ4")] {
            assert!(expand(owned(form)).unwrap_err().to_string().contains(name));
        }
        let bomb = gzip(&vec![0; usize::try_from(EXPANDED_BYTES_MAX + 1).unwrap()]);
        assert!(expand(owned(&bomb)).unwrap_err().to_string().contains("longer"));
    }
}
