//! What others hand over as files and in forms of their own: certificates and their kin, backups, audit files, frames of peers.

use kallisto_audit::Verifier;
use kallisto_backup::{Examiner, KeyGiven};
use kallisto_pki::{acme, certificate, crl, ocsp, pem, request};

/// What structures of ASN.1 are made of. The first byte of an input says which reader has the rest.
pub(crate) const ASN1_WORDS: &[&[u8]] = &[
    b"\x30\x82\x01\x00",
    b"\x30\x80",
    b"\x31\x0b\x30\x09",
    b"\x06\x03\x55\x04\x03",
    b"\x06\x03\x55\x1d\x11",
    b"\x06\x03\x55\x1d\x13\x01\x01\xff\x04\x08",
    b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02",
    b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01",
    b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x09\x0e",
    b"\xa0\x03\x02\x01\x02",
    b"\x17\x0d260101000000Z",
    b"\x18\x0f20260101000000Z",
    b"\x82\x0bexample.com",
    b"\x03\x42\x00\x04",
    b"\x04\x20",
    b"\x02\x01\x00",
    b"\x05\x00",
    b"-----BEGIN CERTIFICATE-----\n",
    b"-----END CERTIFICATE-----\n",
    b"-----BEGIN PRIVATE KEY-----\n",
];

/// What backups are made of: gzip without compression, tar, records.
pub(crate) const BACKUP_WORDS: &[&[u8]] = &[
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff",
    b"\x00\x00\x02\xff\xfd",
    b"\x01\x00\x00\xff\xff",
    b"meta.json",
    b"state.bin",
    b"SHA256SUMS",
    b"SHA256SUMS.sealed",
    b"ustar\x0000",
    b"0000644\x00",
    b"00000000200\x00",
    b"{\"Version\":1}",
    &[0; 64],
];

/// What snapshots of Vault and OpenBao are made of. The first byte of an input says which reader has the rest.
pub(crate) const VAULT_SNAPSHOT_WORDS: &[&[u8]] = &[
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff",
    b"state.bin",
    b"SHA256SUMS.sealed",
    b"\x0a\x04core\x12\x05",
    b"\x0a\x03app\x12\x12\x08\x01\x12\x0e\x0a\x0c\x08\x85\x88\xa2\xd8\x06\x10\xde\x9d\x8a\x85\x03",
    b"\x88\x19\x01",
    b"\x52\x0c\x0a\x05owner\x12\x03ada",
    b"\x12\x2a\x0a\x23type.googleapis.com/identity.Entity\x12\x03",
    b"\x0a\x22type.googleapis.com/identity.Group",
    b"S\xff\x06\x00\x00sNaPpY",
    b"G\x1f\x8b\x08",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
];

/// What lines of audit files are made of.
pub(crate) const AUDIT_WORDS: &[&[u8]] = &[
    b"{\"time\":\"2026-11-22T10:00:00Z\",\"type\":\"request\"",
    b",\"chain\":{\"seq\":1",
    b",\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000",
    b"\",\"hash\":\"",
    b"\"}}",
    b"\n",
    b"18446744073709551615",
    b"\"type\":\"checkpoint\"",
];

/// What frames between servers are made of.
pub(crate) const PEER_WORDS: &[&[u8]] = &[
    b"\x01\x00\x00\x00\x04",
    b"\x3a\x00\x00\x00\x01KPEER\x01\x01",
    b"\x02\x00\x00\x00\x02",
    b"\xff\xff\xff\xff",
    b"\x06\x00node-7",
    b"\x0e\x00127.0.0.1:8201",
    &[7; 16],
];

/// What headers of the PROXY protocol are made of.
pub(crate) const PROXY_WORDS: &[&[u8]] = &[
    b"\r\n\r\n\0\r\nQUIT\n",
    b"\x21\x11\x00\x0c",
    b"\x21\x21\x00\x24",
    b"\x20\x00\x00\x00",
    b"\x0a\x01\x02\x03\x7f\x00\x00\x01\x1f\x90\x20\x08",
    b"\xe0\x00\x02\x07\x07",
    b"PROXY ",
    b"TCP4 ",
    b"TCP6 ",
    b"UNKNOWN",
    b"10.1.2.3 ",
    b"::ffff:10.1.2.3 ",
    b"::1 ",
    b"65535",
    b"+1",
    b"00",
    b" ",
    b"\r\n",
];

/// What answers of collectors are made of.
pub(crate) const OTLP_WORDS: &[&[u8]] = &[
    b"\x0a\x02\x08\x05",
    b"\x0a\x00",
    b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x12\x03why",
    b"\x0a\x07\x08\x01\x12\x03why",
    b"\x1d\x01\x02\x03\x04",
    b"\x19\x01\x02\x03\x04\x05\x06\x07\x08",
    b"\x01\xad",
    b"\x01\xf7",
    b"18446744073709551616",
    b"30",
];

/// A certificate, a request, a list, a question, or a text with any of them: read or refused.
pub(crate) fn asn1(bytes: &[u8]) {
    let Some((which, der)) = bytes.split_first() else { return };
    match which % 6 {
        0 => {
            let _ = certificate::ParsedCertificate::from_der(der);
        }
        1 => {
            let _ = request::CertificateRequest::from_der(der);
        }
        2 => {
            let _ = crl::ParsedList::from_der(der);
        }
        3 => {
            let _ = ocsp::OcspQuestion::from_der(der);
        }
        4 => {
            let _ = acme::AcmeCertificate::from_der(der);
        }
        _ => {
            let Ok(text) = std::str::from_utf8(der) else { return };
            let Ok(blocks) = pem::read(text) else { return };
            for (label, der) in blocks {
                let again = pem::read(&pem::write(label, &der));
                assert_eq!(
                    again.ok().map(|blocks| blocks.len()),
                    Some(1),
                    "what is read is written"
                );
            }
        }
    }
}

/// A backup as it comes, whole and in pieces: both say the same of it.
pub(crate) fn backup_file(bytes: &[u8]) {
    let examine = |piece: usize| {
        let mut examiner = Examiner::new(KeyGiven::Nothing);
        for part in bytes.chunks(piece) {
            if examiner.take(part).is_err() {
                return None;
            }
        }
        examiner.finish().ok().map(|report| (report.records, report.bytes))
    };
    let whole = examine(bytes.len().max(1));
    assert_eq!(examine(7), whole, "in pieces");
    assert!(whole.is_none_or(|(_, read)| read == bytes.len() as u64));
}

/// Lines of an audit file: sound, or with a fault that has a place.
pub(crate) fn audit_lines(bytes: &[u8]) {
    let mut verifier = Verifier::default();
    let taken = verifier.take_file(&mut &bytes[..]);
    if let (Ok(lines), Some(verified)) = (&taken, verifier.verified()) {
        assert!(*lines > verified.head.seq - verified.first, "a record is a line");
    }
}
