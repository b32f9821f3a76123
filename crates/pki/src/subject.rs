//! Subjects: distinguished names, made of the fields of a request and read back from certificates.

use der::asn1::{AnyRef, ObjectIdentifier, PrintableStringRef};
use der::{Any, Decode as _, Encode as _, Sequence, Tag, Tagged as _};
use x509_cert::ext::pkix::name::DirectoryString;
use x509_cert::name::Name;

use crate::error::{Error, Result};
use crate::oid;

/// Most values of an attribute.
const VALUES_MAX: usize = 64;

/// The fields of a subject. The values of an attribute stand one after the other, each in a part of the name by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateSubject {
    /// CN; empty for none.
    pub common_name: String,
    /// The attribute serialNumber; empty for none.
    pub serial_number: String,
    /// C.
    pub country: Vec<String>,
    /// ST.
    pub province: Vec<String>,
    /// L.
    pub locality: Vec<String>,
    /// STREET.
    pub street_address: Vec<String>,
    /// postalCode.
    pub postal_code: Vec<String>,
    /// O.
    pub organization: Vec<String>,
    /// OU.
    pub ou: Vec<String>,
    /// UID.
    pub user_ids: Vec<String>,
}

/// Most characters of an attribute (X.520, upper bounds).
fn chars_max(attribute: ObjectIdentifier) -> usize {
    match attribute {
        oid::COUNTRY => 2,
        oid::LOCALITY | oid::PROVINCE | oid::STREET => 128,
        oid::POSTAL_CODE => 40,
        oid::USER_ID => 256,
        _ => 64,
    }
}

fn check(name: &str, attribute: ObjectIdentifier, value: &str) -> Result<()> {
    let most = chars_max(attribute);
    if value.chars().count() > most {
        return Err(Error::invalid(format!("{name} has more than {most} characters")));
    }
    if value.chars().any(char::is_control) {
        return Err(Error::invalid(format!("{name} has control characters")));
    }
    if attribute == oid::SERIAL_NUMBER && PrintableStringRef::new(value).is_err() {
        return Err(Error::invalid(format!(
            "{name} has characters other than letters, digits, spaces and '()+,-./:=?"
        )));
    }
    if attribute == oid::COUNTRY
        && (value.len() != 2 || !value.bytes().all(|byte| byte.is_ascii_alphabetic()))
    {
        return Err(Error::invalid(format!("{name} is not a country code of two letters")));
    }
    Ok(())
}

#[derive(Sequence)]
struct AttributeRef<'a> {
    id: ObjectIdentifier,
    value: AnyRef<'a>,
}

/// Appends the parts of a name that the values of an attribute are: one each, since a part may not have an attribute twice (X.501, 9.3).
fn push_parts(
    name: &mut Vec<u8>,
    field: &str,
    attribute: ObjectIdentifier,
    values: &[String],
) -> Result<()> {
    if values.len() > VALUES_MAX {
        return Err(Error::invalid(format!("{field} has more than {VALUES_MAX} values")));
    }
    let mut pair = Vec::new();
    for (at, value) in values.iter().enumerate() {
        if value.is_empty() || values[..at].contains(value) {
            continue;
        }
        check(field, attribute, value)?;
        let is_printable = PrintableStringRef::new(value).is_ok();
        let tag = if is_printable { Tag::PrintableString } else { Tag::Utf8String };
        pair.clear();
        let value = AnyRef::new(tag, value.as_bytes())?;
        AttributeRef { id: attribute, value }.encode_to_vec(&mut pair)?;
        AnyRef::new(Tag::Set, &pair)?.encode_to_vec(name)?;
    }
    Ok(())
}

impl CertificateSubject {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The Name, in DER.
    ///
    /// # Errors
    /// [`Error::Invalid`] for values over the limits of X.520.
    pub fn to_der(&self) -> Result<Vec<u8>> {
        let one = std::slice::from_ref;
        let mut name = Vec::new();
        for (field, attribute, values) in [
            ("country", oid::COUNTRY, self.country.as_slice()),
            ("province", oid::PROVINCE, self.province.as_slice()),
            ("locality", oid::LOCALITY, self.locality.as_slice()),
            ("street_address", oid::STREET, self.street_address.as_slice()),
            ("postal_code", oid::POSTAL_CODE, self.postal_code.as_slice()),
            ("organization", oid::ORGANIZATION, self.organization.as_slice()),
            ("ou", oid::ORGANIZATIONAL_UNIT, self.ou.as_slice()),
            ("common_name", oid::COMMON_NAME, one(&self.common_name)),
            ("serial_number", oid::SERIAL_NUMBER, one(&self.serial_number)),
            ("user_ids", oid::USER_ID, self.user_ids.as_slice()),
        ] {
            push_parts(&mut name, field, attribute, values)?;
        }
        Ok(AnyRef::new(Tag::Sequence, &name)?.to_der()?)
    }

    /// The fields of a Name. What has no field is not told; what is no text is left out.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no Name.
    pub fn from_der(bytes: &[u8]) -> Result<Self> {
        Ok(Self::of_name(&read(bytes)?))
    }

    fn of_name(name: &Name) -> Self {
        let mut subject = Self::default();
        for pair in name.iter() {
            let Some(text) = text(&pair.value) else { continue };
            match pair.oid {
                oid::COMMON_NAME => subject.common_name = text,
                oid::SERIAL_NUMBER => subject.serial_number = text,
                oid::COUNTRY => subject.country.push(text),
                oid::PROVINCE => subject.province.push(text),
                oid::LOCALITY => subject.locality.push(text),
                oid::STREET => subject.street_address.push(text),
                oid::POSTAL_CODE => subject.postal_code.push(text),
                oid::ORGANIZATION => subject.organization.push(text),
                oid::ORGANIZATIONAL_UNIT => subject.ou.push(text),
                oid::USER_ID => subject.user_ids.push(text),
                _ => {}
            }
        }
        subject
    }

    /// Every CN and e-mail address of a Name, in order.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no Name.
    pub fn names_of(bytes: &[u8]) -> Result<Vec<String>> {
        names(&read(bytes)?)
    }

    /// Both of a Name that is read once: its fields, and every CN and e-mail address.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no Name.
    pub(crate) fn with_names(bytes: &[u8]) -> Result<(Self, Vec<String>)> {
        let name = read(bytes)?;
        Ok((Self::of_name(&name), names(&name)?))
    }
}

fn read(bytes: &[u8]) -> Result<Name> {
    Name::from_der(bytes).map_err(|_| Error::invalid("the name cannot be read"))
}

fn names(name: &Name) -> Result<Vec<String>> {
    let named =
        name.iter().filter(|pair| pair.oid == oid::COMMON_NAME || pair.oid == oid::EMAIL_ADDRESS);
    named.map(|pair| text(&pair.value).ok_or_else(|| Error::invalid("a name is no text"))).collect()
}

/// The text of a value. Others write more than what is printable to X.680 as PrintableString, such as `*` and `&`, and Latin-1 as TeletexString.
fn text(value: &Any) -> Option<String> {
    let bytes = value.value();
    match value.tag() {
        Tag::Ia5String => Some(String::from_utf8_lossy(bytes).into_owned()),
        Tag::PrintableString | Tag::NumericString => {
            let is_text = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
            is_text.then(|| bytes.iter().copied().map(char::from).collect())
        }
        Tag::TeletexString => {
            let text: String = bytes.iter().copied().map(char::from).collect();
            (!text.contains(char::is_control)).then_some(text)
        }
        _ => DirectoryString::try_from(value).ok().map(|text| text.value().to_string()),
    }
}
