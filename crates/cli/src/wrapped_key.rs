//! Keys on their way into a transit mount: under the mount's public key, so that nobody between sees them.

use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrapPadded};
use aws_lc_rs::rsa::{OAEP_SHA256_MGF1SHA256, OaepPublicEncryptingKey, PublicEncryptingKey};
use data_encoding::BASE64;
use kallisto_command::error::Error;
use zeroize::Zeroizing;

/// Bytes of the key of the moment.
const AES_KEY_BYTES: usize = 32;

/// Key material under a key of the moment (RFC 5649), behind that under the wrapping key (RFC 8017, 7.1), as `import` of transit takes it; `None`
/// where that is no RSA key.
pub(crate) fn wrap(material: &[u8], wrapping_pem: &str) -> Option<String> {
    let wrapping = pem::parse(wrapping_pem).ok()?;
    let public = PublicEncryptingKey::from_der(wrapping.contents()).ok()?;
    let public = OaepPublicEncryptingKey::new(public).ok()?;
    let moment = Zeroizing::new(random::<AES_KEY_BYTES>().ok()?);
    let mut wrapped = vec![0; public.ciphertext_size()];
    public.encrypt(&OAEP_SHA256_MGF1SHA256, &*moment, &mut wrapped, None).ok()?;
    let kek = AesKek::new(&AES_256, &*moment).ok()?;
    let mut key = vec![0; material.len() + 16];
    let key = kek.wrap_with_padding(material, &mut key).ok()?;
    wrapped.extend_from_slice(key);
    Some(BASE64.encode(&wrapped))
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    match random.fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(Error::Unusable("this machine gives no randomness".to_owned())),
    }
}
