//! The data types of SSH: RFC 4251, section 5.
//!
//! [`SshReader`] takes them from bytes of others, [`SshWriter`] writes them. A number of any length (`mpint`) is read in its shortest form
//! only, as the RFC wants it.

use kallisto_pki::{Error, Result};

/// Takes values from bytes.
#[derive(Clone, Copy, Debug)]
pub struct SshReader<'a>(&'a [u8]);

fn short() -> Error {
    Error::invalid("ssh: short read")
}

impl<'a> SshReader<'a> {
    /// Reads from the first byte on.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What is left.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// So many bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number of 32 bits.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn uint32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Bytes with their length before them.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn string(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.uint32()?).map_err(|_| short())?;
        self.take(length)
    }

    /// Bytes with their length before them, that are text.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no UTF-8.
    pub fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.string()?).map_err(|_| Error::invalid("ssh: a name is no text"))
    }

    /// A positive number of any length, without leading zeros.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a negative number, zero, and one that is written longer than it has to be.
    pub fn positive(&mut self) -> Result<&'a [u8]> {
        let bytes = self.string()?;
        match bytes {
            [0, second, ..] if *second >= 0x80 => Ok(&bytes[1..]),
            [first, ..] if (1..0x80).contains(first) => Ok(bytes),
            _ => Err(Error::invalid("ssh: a number is not written as a positive mpint")),
        }
    }

    /// Ends reading.
    ///
    /// # Errors
    /// [`Error::Invalid`] when something is left.
    pub fn finish(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::invalid("ssh: trailing junk in a key")) }
    }
}

/// Writes values.
#[derive(Clone, Debug, Default)]
pub struct SshWriter(Vec<u8>);

impl SshWriter {
    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A number of 32 bits.
    pub fn uint32(&mut self, number: u32) -> &mut Self {
        self.raw(&number.to_be_bytes())
    }

    /// A number of 64 bits.
    pub fn uint64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_be_bytes())
    }

    /// Bytes with their length before them.
    ///
    /// # Panics
    /// When there are more than a length of 32 bits counts; all that is written has a limit far below.
    pub fn string(&mut self, bytes: &[u8]) -> &mut Self {
        let length = u32::try_from(bytes.len());
        assert!(length.is_ok(), "a string of SSH is longer than its limit");
        self.uint32(length.unwrap_or_default()).raw(bytes)
    }

    /// A positive number, of bytes with or without leading zeros.
    pub fn positive(&mut self, bytes: &[u8]) -> &mut Self {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let bare = &bytes[zeros..];
        if bare.first().is_some_and(|first| *first >= 0x80) {
            return self.string(&[&[0], bare].concat());
        }
        self.string(bare)
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4251, section 5.
    #[test]
    fn numbers_are_written_as_the_rfc_shows_and_read_in_that_form_only() {
        for (number, form) in [
            (&[0x09_u8, 0xa3, 0x78, 0xf9, 0xb2, 0xe3, 0x32, 0xa7][..], "0000000809a378f9b2e332a7"),
            (&[0x80], "000000020080"),
            (&[0x7f], "000000017f"),
            (&[0, 0, 0x80], "000000020080"),
            (&[0], "00000000"),
        ] {
            let mut writer = SshWriter::default();
            writer.positive(number);
            assert_eq!(data_encoding::HEXLOWER.encode(&writer.into_bytes()), form);
        }
        for form in
            ["00000000", "0000000100", "0000000180", "00000002007f", "000000030000ff", "0000"]
        {
            let bytes = data_encoding::HEXLOWER.decode(form.as_bytes()).unwrap();
            assert!(SshReader::new(&bytes).positive().is_err(), "{form}");
        }
        assert_eq!(SshReader::new(&[0, 0, 0, 2, 0, 0x80]).positive(), Ok(&[0x80][..]));
    }

    #[test]
    fn a_length_past_the_end_is_refused_and_so_is_what_is_left() {
        assert!(SshReader::new(&[0, 0, 0, 5, 1, 2, 3, 4]).string().is_err());
        assert!(SshReader::new(&[0xff, 0xff, 0xff, 0xff]).string().is_err());
        let mut reader = SshReader::new(&[0, 0, 0, 1, 1, 9]);
        assert_eq!(reader.string(), Ok(&[1][..]));
        assert!(reader.finish().is_err());
    }
}
