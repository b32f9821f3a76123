//! `crls/NAME`: certificates that their authorities took back.
//!
//! ```text
//! crl/NAME     the serial numbers, 20 bytes each, big-endian, sorted, each once
//! crls         the name of the list that was made last
//! ```
//! A login is refused when any certificate of the chain that it shows has a number on any of the lists,
//! whoever issued it: as Vault does, and wrong on the safe side. The list's signature and its next
//! update are the operator's to judge; what is stored here holds until it is replaced or deleted.

use std::ops::ControlFlow;

use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::num_bigint::BigUint;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::revocation_list::CertificateRevocationList;

use crate::names::role_name;
use kallisto_api::error::Error;
use kallisto_api::fields::Fields;
use kallisto_api::json::{Json, Map};
use kallisto_api::response::Response;
use kallisto_engine::Call;
use kallisto_engine::Storage;
use kallisto_engine::limits::ENTRY_BYTES_MAX;

/// Where the lists are, in the engine storage.
const FOLDER: &str = "crl/";
/// The record that every list changes that is made.
const LAST_LIST: &str = "crls";
/// Most lists that one mount is given. A login looks into all that are there, whatever their number.
const LISTS_MAX: usize = 64;
/// Bytes of a serial number at the most (RFC 5280, 4.1.2.2).
const SERIAL_BYTES: usize = 20;
/// Most numbers in one list.
const SERIALS_MAX: usize = ENTRY_BYTES_MAX / SERIAL_BYTES;

/// A serial number with zeros in front.
type PaddedSerial = [u8; SERIAL_BYTES];

/// Lists the names of the lists.
pub(super) fn list(run: &Call<'_>) -> Result<Response, Error> {
    run.list(FOLDER)
}

/// Shows the list that the path names.
pub(super) fn read(run: &Call<'_>) -> Result<Response, Error> {
    let name = name_in(run)?;
    let found = run.storage.get(&record(&name))?;
    Ok(show(&found.ok_or_else(|| absent(&name))?.value))
}

/// Takes in the list that the path names.
pub(super) async fn write(run: &Call<'_>) -> Result<Response, Error> {
    let name = name_in(run)?;
    let serials = given(Fields::new(&run.request.object()?))?;
    keep(run.storage, &name, &serials.concat()).await.map(|()| Response::Empty)
}

/// Keeps a list under its name, in place of the one of that name, or as one more.
async fn keep(storage: Storage<'_>, name: &str, serials: &[u8]) -> Result<(), Error> {
    let key = record(name);
    let keeping = storage.transact(LAST_LIST, |transaction| {
        if transaction.get(&key)?.is_none() {
            // Every list that is made changes this record: none comes between the count and the commit.
            transaction.get(LAST_LIST)?;
            if storage.list_some(FOLDER, LISTS_MAX).len() >= LISTS_MAX {
                return Err(Error::invalid(format!("more than {LISTS_MAX} lists")));
            }
            transaction.put(LAST_LIST, name.as_bytes().to_vec())?;
        }
        transaction.put(&key, serials.to_vec())
    });
    keeping.await
}

/// Forgets the list that the path names.
pub(super) async fn delete(run: &Call<'_>) -> Result<Response, Error> {
    let (name, storage) = (name_in(run)?, run.storage);
    if storage.get(&record(&name))?.is_none() {
        return Err(absent(&name));
    }
    storage.delete(&record(&name)).await.map(|()| Response::Empty)
}

fn name_in(run: &Call<'_>) -> Result<String, Error> {
    role_name(run.params.get("name"))
}

fn record(name: &str) -> String {
    format!("{FOLDER}{name}")
}

fn absent(name: &str) -> Error {
    Error::invalid(format!("no such CRL {name}"))
}

/// Whether a certificate of a chain was taken back, by any list.
///
/// # Errors
/// When a list cannot be read, or there are more than a list of names may have: then nobody is let in.
pub(super) fn any(storage: &Storage<'_>, chain: &[Vec<u8>]) -> Result<bool, Error> {
    let names = storage.list(FOLDER)?;
    if names.is_empty() {
        return Ok(false);
    }
    // What cannot be read is on every list.
    let serials: Option<Vec<PaddedSerial>> = chain.iter().map(|der| serial_of(der)).collect();
    let Some(serials) = serials else { return Ok(true) };
    for name in names {
        let Some(record) = storage.get(&format!("{FOLDER}{name}"))? else { continue };
        let (list, _) = record.value.as_chunks::<SERIAL_BYTES>();
        if serials.iter().any(|serial| list.binary_search(serial).is_ok()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn serial_of(der: &[u8]) -> Option<PaddedSerial> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    padded(certificate.raw_serial())
}

/// The number with zeros in front; `None` when it is too long to be one.
fn padded(bytes: &[u8]) -> Option<PaddedSerial> {
    let digits = &bytes[bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len())..];
    let mut serial = [0; SERIAL_BYTES];
    let start = SERIAL_BYTES.checked_sub(digits.len())?;
    serial[start..].copy_from_slice(digits);
    Some(serial)
}

/// The numbers of the list that a request brings, sorted.
fn given(fields: Fields<'_>) -> Result<Vec<PaddedSerial>, Error> {
    if fields.string("url")?.is_some_and(|url| !url.is_empty()) {
        return Err(Error::invalid("url is not available: bring the list itself as 'crl'"));
    }
    let text = fields.string("crl")?.filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Error::invalid("one of 'crl' or 'url' must be provided"))?;
    let refuse = |why: &str| Error::invalid(format!("failed to parse CRL: {why}"));
    let der = CertificateRevocationListDer::from_pem_slice(text.as_bytes());
    let der = der.map_err(|_| refuse("it is no PEM of a list"))?;
    let (rest, list) =
        CertificateRevocationList::from_der(&der).map_err(|_| refuse("it is no list"))?;
    if !rest.is_empty() {
        return Err(refuse("something follows the list"));
    }
    let mut serials = Vec::new();
    let taken = list.iter_revoked_certificates().try_for_each(|revoked| {
        match padded(revoked.raw_serial()) {
            Some(serial) if serials.len() < SERIALS_MAX => serials.push(serial),
            _ => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    });
    if taken.is_break() {
        return Err(refuse(&format!(
            "a list has at most {SERIALS_MAX} numbers of {SERIAL_BYTES} bytes"
        )));
    }
    serials.sort_unstable();
    serials.dedup();
    Ok(serials)
}

fn show(record: &[u8]) -> Response {
    let (list, _) = record.as_chunks::<SERIAL_BYTES>();
    let decimal = |serial: &PaddedSerial| BigUint::from_bytes_be(serial).to_string();
    let serials: Map = list.iter().map(|serial| (decimal(serial), Map::new().into())).collect();
    Response::data(&Json::object([("serials", serials.into())]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::future::ready;
    use std::pin::pin;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
        KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
    };

    use super::*;
    use kallisto_api::json::parse_object;
    use kallisto_engine::storage::Latch;
    use kallisto_engine::{Backend, BoxFuture, Stored, Version, WriteOutcome, Writes};

    /// Records in memory, and what another server writes just before the next commit.
    #[derive(Default)]
    struct Records {
        kept: Mutex<BTreeMap<String, (u64, Vec<u8>)>>,
        rival: Mutex<Writes>,
    }

    impl Records {
        fn write(&self, writes: Writes) {
            let mut kept = self.kept.lock().unwrap();
            for (name, value) in writes.puts {
                let version = kept.get(&name).map_or(0, |(version, _)| *version);
                kept.insert(name, (version + 1, value));
            }
        }
    }

    impl Backend for Records {
        fn get(&self, name: &str) -> Result<Option<Stored>, Error> {
            let kept = self.kept.lock().unwrap();
            let found = kept.get(name);
            Ok(found.map(|(version, value)| Stored::new(value.clone().into(), Version(*version))))
        }

        fn list(&self, folder: &str, _: Option<&str>, limit: usize) -> Vec<String> {
            let kept = self.kept.lock().unwrap();
            let names = kept.keys().filter_map(|name| name.strip_prefix(folder));
            names.take(limit).map(str::to_owned).collect()
        }

        fn scan(&self, folder: &str, limit: usize) -> Vec<String> {
            self.list(folder, None, limit)
        }

        fn commit(&self, writes: Writes) -> BoxFuture<'_, Result<WriteOutcome, Error>> {
            self.write(std::mem::take(&mut *self.rival.lock().unwrap()));
            let version = |name: &str| self.get(name).unwrap().map_or(0, |found| found.version.0);
            let is_same = writes.reads.iter().all(|(name, read)| version(name) == read.0);
            if is_same {
                self.write(writes);
            }
            let outcome = if is_same { WriteOutcome::Committed } else { WriteOutcome::Conflict };
            Box::pin(ready(Ok(outcome)))
        }

        fn latch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Latch<'a>> {
            Box::pin(ready(Box::new(()) as Latch<'a>))
        }
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    /// Records with so many lists that have no numbers.
    fn with_lists(count: usize) -> Records {
        let records = Records::default();
        let puts = (0..count).map(|n| (record(&format!("a{n:03}")), Vec::new())).collect();
        records.write(Writes { puts, ..Writes::default() });
        records
    }

    #[test]
    fn a_number_is_found_on_the_last_list_however_many_there_are() {
        let records = with_lists(LISTS_MAX);
        let storage = Storage::new(&records, "cert/");
        let mut params = CertificateParams::default();
        params.serial_number = Some(SerialNumber::from(7));
        let shown = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let chain = [shown.der().to_vec()];
        assert_eq!(any(&storage, &chain), Ok(false));
        let puts = vec![(record("z"), padded(&[7]).unwrap().to_vec())];
        records.write(Writes { puts, ..Writes::default() });
        assert_eq!(any(&storage, &chain), Ok(true));
    }

    #[test]
    fn of_two_lists_at_once_one_is_over_the_limit() {
        let records = with_lists(LISTS_MAX - 1);
        let storage = Storage::new(&records, "cert/");
        let puts = vec![(record("rival"), Vec::new()), (LAST_LIST.to_owned(), b"rival".to_vec())];
        *records.rival.lock().unwrap() = Writes { puts, ..Writes::default() };
        assert!(matches!(now(keep(storage, "mine", &[])), Err(Error::Invalid(_))));
        assert_eq!(storage.list(FOLDER).unwrap().len(), LISTS_MAX);
        assert_eq!(now(keep(storage, "rival", &[1; SERIAL_BYTES])), Ok(()), "it is replaced");
        let records = with_lists(LISTS_MAX - 1);
        assert_eq!(
            now(keep(Storage::new(&records, "cert/"), "mine", &[])),
            Ok(()),
            "it is the last one"
        );
    }

    /// A list of these serial numbers as PEM.
    fn list(serials: &[&[u8]]) -> String {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::CrlSign];
        let revoked = |serial: &&[u8]| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let crl = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2036, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        crl.signed_by(&Issuer::new(params, key)).unwrap().pem().unwrap()
    }

    fn read(crl: &str) -> Result<Vec<PaddedSerial>, Error> {
        let body = Json::object([("crl", crl.into())]).to_text();
        given(Fields::new(&parse_object(&body).unwrap()))
    }

    #[test]
    fn a_list_becomes_sorted_numbers() {
        let long = [0x7f; SERIAL_BYTES];
        let serials = read(&list(&[&[2, 0], &[1], &long, &[1]])).unwrap();
        assert_eq!(serials, [padded(&[1]).unwrap(), padded(&[2, 0]).unwrap(), long]);
        assert_eq!(padded(&[0, 0, 1]), padded(&[1]));
        assert_eq!(padded(&[1; SERIAL_BYTES + 1]), None);
        assert_eq!(read(&list(&[])), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bad in ["", "bogus", "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let url = parse_object(br#"{"url":"http://127.0.0.1/crl"}"#).unwrap();
        assert!(given(Fields::new(&url)).is_err());
    }
}
