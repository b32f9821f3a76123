//! What whoever asks for a certificate wants kept with its serial number, such as a ticket or an owner: bytes that say nothing to the server.
//!
//! A record of its own, written with the certificate and also where the role keeps no certificates. It stays when the certificate is deleted, until tidying of
//! metadata finds that the certificate has ended.

use data_encoding::BASE64;
use kallisto_api::json::{self, Json};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::Call;
use kallisto_pki::Serial;

use super::answer;
use super::given::{GivenFields, object, write_time};
use super::ids::IssuerId;
use super::role::PkiRole;

/// Longest metadata of a certificate, in bytes.
const METADATA_BYTES_MAX: usize = 16 << 10;

/// The folder of its records.
pub(super) const FOLDER: &str = "metadata/";

/// The name of the record of a certificate's metadata.
pub(super) fn metadata_record(serial: &Serial) -> String {
    format!("{FOLDER}{}", serial.dashed())
}

/// What a request wants kept, as it came: base 64.
#[derive(Clone, Debug)]
pub(super) struct WantedMetadata {
    text: String,
    role: String,
}

impl WantedMetadata {
    /// # Errors
    /// [`Error::Invalid`] for what is no base 64, is too long, or what the role does not keep.
    pub(super) fn read(
        call: &Call<'_>,
        role: &PkiRole,
        given: GivenFields<'_>,
    ) -> Result<Option<Self>, Error> {
        let text = given.text("cert_metadata")?;
        if text.is_empty() {
            return Ok(None);
        }
        if role.stores_no_metadata {
            return Err(Error::invalid(
                "cert_metadata was given, but the role keeps none (no_store_metadata)",
            ));
        }
        if text.len() > BASE64.encode_len(METADATA_BYTES_MAX) {
            return Err(Error::invalid(format!(
                "cert_metadata has more than {METADATA_BYTES_MAX} bytes"
            )));
        }
        BASE64
            .decode(text.as_bytes())
            .map_err(|_| Error::invalid("cert_metadata is not in base 64"))?;
        let role = call.params.get("role").to_owned();
        Ok(Some(Self { text, role }))
    }

    /// The record's bytes.
    pub(super) fn encode(&self, issuer: IssuerId, not_after: i64) -> Vec<u8> {
        let map = object([
            ("cert_metadata", self.text.as_str().into()),
            ("role", self.role.as_str().into()),
            ("issuer_id", issuer.to_string().into()),
            ("not_after", not_after.into()),
        ]);
        Json::Object(map).to_text()
    }
}

/// The last second of the certificate of a record; `None` when it is damaged.
pub(super) fn not_after(record: &[u8]) -> Option<i64> {
    let map = json::parse_object(record).ok()?;
    GivenFields(Fields::new(&map)).whole("not_after", -1).ok().filter(|at| *at >= 0)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let serial = Serial::parse(call.params.get("serial")).ok_or(Error::NotFound)?;
    let record = call.storage.get(&metadata_record(&serial))?.ok_or(Error::NotFound)?;
    let mut data = record.object()?;
    let ends = record.decode(not_after)?;
    data.remove("not_after");
    data.insert("expiration".to_owned(), write_time(ends).into());
    data.insert("serial_number".to_owned(), serial.to_string().into());
    Ok(answer::data(data, Vec::new()))
}
