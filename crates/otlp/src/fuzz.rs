//! What a collector answers, as any bytes: the body of a target of the fuzzers, with a second reader of the message.

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER};

use crate::delivery::{DeliveryFailure, RETRY_AFTER_MAX, of_status};
use crate::message::rejected;

/// A message, or a status with the header that says when to come back, as the first byte says.
pub fn answer(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else { return };
    match which % 2 {
        0 => message(rest),
        _ => status(rest),
    }
}

fn message(bytes: &[u8]) {
    let count = rejected(bytes);
    match partial_success(bytes) {
        MessageRead::Rejected(said) => assert_eq!(count, u64::try_from(said).unwrap_or(0)),
        MessageRead::Malformed => assert_eq!(count, 0),
        MessageRead::HasGroups => {}
    }
}

fn status(bytes: &[u8]) {
    let Some((code, header)) = bytes.split_first_chunk::<2>() else { return };
    let Ok(code) = StatusCode::from_u16(u16::from_be_bytes(*code)) else { return };
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(header) {
        headers.insert(RETRY_AFTER, value);
    }
    match of_status(code, &headers) {
        DeliveryFailure::Later(_, pause) => {
            assert!(pause.is_none_or(|pause| pause <= RETRY_AFTER_MAX))
        }
        DeliveryFailure::Refused(why) => assert!(!why.is_empty()),
        other => panic!("an answer is one: {other:?}"),
    }
}

/// What the second reader makes of a message.
enum MessageRead {
    Rejected(i64),
    Malformed,
    /// It has groups, which nobody writes since 2008 and this reader does not know.
    HasGroups,
}

/// Field 1 of field 1, of which the last counts; what else is there is passed over.
fn partial_success(bytes: &[u8]) -> MessageRead {
    let mut said = 0;
    for field in ProtobufFields(bytes) {
        let partial = match field {
            Ok((1, FieldValue::Bytes(partial))) => partial,
            Ok((1, _)) | Err(()) => return MessageRead::Malformed,
            Ok((_, FieldValue::Group)) => return MessageRead::HasGroups,
            Ok(_) => continue,
        };
        for field in ProtobufFields(partial) {
            match field {
                Ok((1, FieldValue::Varint(number))) => said = number.cast_signed(),
                Ok((1, _)) | Err(()) => return MessageRead::Malformed,
                Ok((_, FieldValue::Group)) => return MessageRead::HasGroups,
                Ok(_) => {}
            }
        }
    }
    MessageRead::Rejected(said)
}

enum FieldValue<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
    Group,
}

struct ProtobufFields<'a>(&'a [u8]);

impl<'a> ProtobufFields<'a> {
    fn varint(&mut self) -> Result<u64, ()> {
        let mut number = 0_u64;
        for at in 0..10 {
            let (byte, rest) = self.0.split_first().ok_or(())?;
            self.0 = rest;
            // Of the tenth byte there is room for one bit.
            if at == 9 && *byte > 1 {
                return Err(());
            }
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(())
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], ()> {
        let length = usize::try_from(length).map_err(drop)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(())?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u32, FieldValue<'a>), ()> {
        let key = u32::try_from(self.varint()?).map_err(drop)?;
        let value = match key & 7 {
            0 => FieldValue::Varint(self.varint()?),
            1 => self.take(8).map(|_| FieldValue::Fixed)?,
            2 => {
                let length = self.varint()?;
                FieldValue::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| FieldValue::Fixed)?,
            3 | 4 => FieldValue::Group,
            _ => return Err(()),
        };
        match key >> 3 {
            0 => Err(()),
            number => Ok((number, value)),
        }
    }
}

impl<'a> Iterator for ProtobufFields<'a> {
    type Item = Result<(u32, FieldValue<'a>), ()>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.field())
    }
}
