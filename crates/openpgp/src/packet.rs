//! Packets (RFC 4880, section 4) and the integers in them.

use crate::Error;

/// Most packets of a key.
const PACKETS_MAX: usize = 1_000;

pub(crate) const SIGNATURE: u8 = 2;
pub(crate) const SECRET_KEY: u8 = 5;
pub(crate) const PUBLIC_KEY: u8 = 6;
pub(crate) const SECRET_SUBKEY: u8 = 7;
pub(crate) const USER_ID: u8 = 13;
pub(crate) const PUBLIC_SUBKEY: u8 = 14;
pub(crate) const USER_ATTRIBUTE: u8 = 17;

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) tag: u8,
    pub(crate) body: &'a [u8],
}

/// Bytes that are read from their front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Error::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        let (byte, rest) = self.0.split_first().ok_or(Error::Malformed)?;
        self.0 = rest;
        Ok(*byte)
    }

    /// An integer of so many bytes, four at most.
    pub(crate) fn number(&mut self, bytes: usize) -> Result<usize, Error> {
        let taken = self.take(bytes)?;
        let number = taken.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        usize::try_from(number).map_err(|_| Error::Malformed)
    }

    /// A multiprecision integer, without zeros in front.
    pub(crate) fn integer(&mut self) -> Result<&'a [u8], Error> {
        let bits = self.number(2)?;
        let bytes = self.take(bits.div_ceil(8))?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        bytes.get(zeros..).ok_or(Error::Malformed)
    }

    /// A part whose length stands in front of it, in so many bytes.
    pub(crate) fn counted(&mut self, bytes: usize) -> Result<&'a [u8], Error> {
        let count = self.number(bytes)?;
        self.take(count)
    }
}

/// The packets in `bytes`. Lengths that are not known in front, which no key has, are refused.
pub(crate) fn all(bytes: &[u8]) -> Result<Vec<Packet<'_>>, Error> {
    let (mut input, mut packets) = (Input(bytes), Vec::new());
    while !input.0.is_empty() {
        if packets.len() == PACKETS_MAX {
            return Err(Error::Malformed);
        }
        let first = input.byte()?;
        let packet = match (first & 0x80, first & 0x40) {
            (0, _) => return Err(Error::Malformed),
            (_, 0) => {
                let length = match first & 3 {
                    0 => input.number(1)?,
                    1 => input.number(2)?,
                    2 => input.number(4)?,
                    _ => return Err(Error::Malformed),
                };
                Packet { tag: (first >> 2) & 15, body: input.take(length)? }
            }
            _ => {
                let length = length(&mut input)?;
                Packet { tag: first & 63, body: input.take(length)? }
            }
        };
        packets.push(packet);
    }
    Ok(packets)
}

/// A length as new packets and subpackets have it.
pub(crate) fn length(input: &mut Input<'_>) -> Result<usize, Error> {
    match input.byte()? {
        first @ 0..192 => Ok(usize::from(first)),
        first @ 192..224 => Ok(((usize::from(first) - 192) << 8) + input.number(1)? + 192),
        255 => input.number(4),
        _ => Err(Error::Malformed),
    }
}

/// The same of a subpacket, whose two-byte lengths go further.
pub(crate) fn subpacket_length(input: &mut Input<'_>) -> Result<usize, Error> {
    match input.byte()? {
        first @ 0..192 => Ok(usize::from(first)),
        first @ 192..255 => Ok(((usize::from(first) - 192) << 8) + input.number(1)? + 192),
        255 => input.number(4),
    }
}

/// Writes a packet in the new form.
pub(crate) fn write(tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    out.push(0xc0 | tag);
    out.push(0xff);
    out.extend_from_slice(&u32::try_from(body.len()).map_err(|_| Error::TooLong)?.to_be_bytes());
    out.extend_from_slice(body);
    Ok(())
}

/// Writes a multiprecision integer.
pub(crate) fn write_integer(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = bytes.get(zeros..).unwrap_or_default();
    let unused = bytes.first().map_or(0, |byte| byte.leading_zeros() as usize);
    let bits = u16::try_from(bytes.len() * 8 - unused).map_err(|_| Error::TooLong)?;
    out.extend_from_slice(&bits.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]

    use super::*;

    #[test]
    fn packets_of_both_forms_are_read_and_cut_ones_refused() {
        let mut bytes = vec![0x99, 0, 2, 1, 2, 0xb4, 1, 9];
        write(14, &[7; 300], &mut bytes).unwrap();
        let read = all(&bytes).unwrap();
        let tags: Vec<_> = read.iter().map(|packet| (packet.tag, packet.body.len())).collect();
        assert_eq!(tags, [(6, 2), (13, 1), (14, 300)]);
        for cut in [1, 2, 4, 6, 10, bytes.len() - 1] {
            assert!(all(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(all(&[0x9b, 1]).is_err(), "a length that is not known");
        assert!(all(&[0xc6, 0xe0]).is_err(), "a partial length");
        assert!(all(b"-----BEGIN").is_err());
    }

    #[test]
    fn integers_have_as_many_bits_as_they_need() {
        let mut out = Vec::new();
        write_integer(&[0, 0, 1, 255], &mut out).unwrap();
        assert_eq!(out, [0, 9, 1, 255]);
        assert_eq!(Input(&out).integer().unwrap(), [1, 255]);
    }
}
