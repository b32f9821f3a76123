//! What other CAs and clients write, though DER or RFC 5280 has it otherwise.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use kallisto_pki::certificate::{
    AltNames, CaNameLimits, CertificateContents, CertificatePurpose, CertificateSigner,
    ParsedCertificate, Urls, Usages, sign_again, usage_named,
};
use kallisto_pki::crl::{CrlContents, ParsedList, RevokedEntry};
use kallisto_pki::request::{CertificateRequest, Wish};
use kallisto_pki::{PkiKeyKind, PrivateKey, Serial, SignatureAlgorithm, SignatureWish};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
/// The OIDs of attributes of names, encoded.
const COMMON_NAME: &[u8] = &[6, 3, 0x55, 4, 3];
const ORGANIZATIONAL_UNIT: &[u8] = &[6, 3, 0x55, 4, 11];

/// A value of at most 127 bytes, with its tag and length.
fn tagged(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    assert!(value.len() < 0x80);
    [&[tag, u8::try_from(value.len()).unwrap()], &value[..]].concat()
}

/// A part of a name: attributes with their values, in this order.
fn part(values: &[(&[u8], u8, &[u8])]) -> Vec<u8> {
    let value =
        |(id, tag, text): &(&[u8], u8, &[u8])| tagged(SEQUENCE, &[id, &tagged(*tag, &[text])]);
    let values: Vec<Vec<u8>> = values.iter().map(value).collect();
    tagged(SET, &values.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn signer<'a>(name: &'a [u8], key_id: &'a [u8], key: &'a PrivateKey) -> CertificateSigner<'a> {
    let algorithm = SignatureAlgorithm::choose(key.kind(), SignatureWish::default());
    CertificateSigner { name, key_id, key, algorithm }
}

/// A root of a name and a serial number.
fn root(key: &PrivateKey, name: &[u8], serial: Serial) -> Vec<u8> {
    let usages = ["CertSign", "CRLSign"].map(|name| Usages::from(usage_named(name).unwrap()));
    let contents = CertificateContents {
        serial,
        not_before: 1_700_000_000,
        not_after: 1_900_000_000,
        subject: name.to_vec(),
        public: key.public().clone(),
        purpose: CertificatePurpose::Ca {
            path_length: None,
            constraints: CaNameLimits::default(),
            key_id: None,
        },
        usages: usages[0] | usages[1],
        ext_usages: Vec::new(),
        alt_names: AltNames::Names(Vec::new()),
        urls: Urls::default(),
        policies: Vec::new(),
        extra: Vec::new(),
    };
    contents.sign(&signer(name, &key.public().key_id(), key)).unwrap()
}

/// Go before 1.15 did not sort the values of a part of a name, so CAs that Vault made then with several units have such names.
#[test]
fn a_name_stays_byte_for_byte_as_its_ca_wrote_it() {
    let units =
        part(&[(ORGANIZATIONAL_UNIT, PRINTABLE, b"Web"), (ORGANIZATIONAL_UNIT, PRINTABLE, b"Ops")]);
    let name = tagged(SEQUENCE, &[&units, &part(&[(COMMON_NAME, UTF8, b"Root")])]);
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let der = root(&key, &name, Serial::from_bytes(&[7]).unwrap());
    let parsed = ParsedCertificate::from_der(&der).unwrap();
    assert_eq!(parsed.subject_as_written, name);
    assert!(parsed.is_self_signed());
    // Names are compared in one order.
    assert_ne!(parsed.subject, name);
    let units =
        part(&[(ORGANIZATIONAL_UNIT, PRINTABLE, b"Ops"), (ORGANIZATIONAL_UNIT, PRINTABLE, b"Web")]);
    let sorted = tagged(SEQUENCE, &[&units, &part(&[(COMMON_NAME, UTF8, b"Root")])]);
    assert_eq!((parsed.subject, parsed.issuer), (sorted.clone(), sorted));
    let other = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let other_name = tagged(SEQUENCE, &[&part(&[(COMMON_NAME, UTF8, b"Other")])]);
    let signer = signer(&other_name, &[1; 20], &other);
    let again = sign_again(&der, &signer, &Urls::default()).unwrap();
    let again = ParsedCertificate::from_der(&again).unwrap();
    assert_eq!((again.subject_as_written, again.issuer), (name, other_name));
}

/// RFC 5280, 4.1.2.2: there are CAs with the serial number 0, and they are to be met gracefully.
#[test]
fn a_root_may_have_the_serial_number_0() {
    let zero = Serial::from_bytes(&[0, 0]).unwrap();
    assert_eq!((zero.as_bytes(), zero.to_string().as_str()), (&[0][..], "00"));
    assert_eq!(Serial::parse("00"), Some(zero));
    assert!(Serial::from_bytes(&[]).is_err());
    assert_eq!(Serial::from_bytes(&[0, 0x80]).unwrap().as_bytes(), [0x80]);
    assert!(zero < Serial::from_bytes(&[1]).unwrap());
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let name = tagged(SEQUENCE, &[&part(&[(COMMON_NAME, UTF8, b"Root")])]);
    let parsed = ParsedCertificate::from_der(&root(&key, &name, zero)).unwrap();
    assert_eq!(parsed.serial, zero);
    // A list of revoked certificates with one.
    let list =
        CrlContents { number: 1, this_update: 9, next_update: 10, base: None, freshest: &[] };
    let entry = RevokedEntry { serial: zero, at: 8 };
    let list = list.sign([entry], &signer(&name, &[1; 20], &key)).unwrap();
    assert_eq!(ParsedList::from_der(&list).unwrap().revoked, [entry]);
}

/// A name of one common name, of a kind of text.
fn named(tag: u8, text: &[u8]) -> Vec<u8> {
    tagged(SEQUENCE, &[&part(&[(COMMON_NAME, tag, text)])])
}

/// There are encoders that write `*` and `&` as PrintableString, which does not have them, and Latin-1 as TeletexString.
#[test]
fn the_common_name_of_a_request_is_read_as_its_maker_meant_it() {
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let read = |tag, text| {
        let wish = Wish { subject: named(tag, text), alt_names: Vec::new(), says_ca: false };
        let algorithm = SignatureAlgorithm::choose(key.kind(), SignatureWish::default());
        let request = CertificateRequest::from_der(&wish.sign(&key, algorithm).unwrap());
        request.map(|request| request.subject.common_name)
    };
    const NUMERIC: u8 = 0x12;
    const TELETEX: u8 = 0x14;
    const IA5: u8 = 0x16;
    const BMP: u8 = 0x1e;
    for (tag, text, expected) in [
        (PRINTABLE, &b"*.example.com"[..], "*.example.com"),
        (PRINTABLE, b"R&D_1@example.com", "R&D_1@example.com"),
        (NUMERIC, b"123 4", "123 4"),
        (TELETEX, b"M\xfcller", "Müller"),
        (IA5, b"a@example.com", "a@example.com"),
        (BMP, b"\0a\x20\xac", "a€"),
        (UTF8, "Müller".as_bytes(), "Müller"),
    ] {
        assert_eq!(read(tag, text).as_deref(), Ok(expected));
    }
    for (tag, text) in [
        (PRINTABLE, &b"a\0b"[..]),
        (PRINTABLE, "ü".as_bytes()),
        (TELETEX, b"a\nb"),
        (UTF8, b"\xff"),
        (BMP, b"\0"),
    ] {
        assert!(read(tag, text).is_err(), "{tag:#x} {text:?}");
    }
}

/// RFC 5280, 5.2.3: verifiers handle numbers of up to 20 bytes.
#[test]
fn a_list_may_have_a_number_of_more_than_64_bits() {
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let name = named(UTF8, b"Root");
    let list = CrlContents {
        number: u64::MAX,
        this_update: 9,
        next_update: 10,
        base: None,
        freshest: &[],
    };
    let mut list = list.sign([], &signer(&name, &[1; 20], &key)).unwrap();
    assert_eq!(ParsedList::from_der(&list).unwrap().number, Some(u64::MAX));
    let longest = [&[2, 9, 0][..], &[0xff; 8]].concat();
    let at = list.windows(longest.len()).position(|part| part == longest).unwrap();
    list[at + 2] = 0x7f;
    assert_eq!(ParsedList::from_der(&list).unwrap().number, None);
    list[at + 2] = 0x80;
    assert!(ParsedList::from_der(&list).is_err(), "a negative one");
}
