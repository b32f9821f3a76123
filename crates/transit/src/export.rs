//! Key material in the forms others read: raw in base64, DER in base64, and PEM.

use zeroize::Zeroizing;

use crate::base64;
use crate::der;
use crate::ecdsa::Ecdsa;
use crate::ed25519::Ed25519;
use crate::error::{Error, Result};
use crate::key::TransitKey;
use crate::material::{KeyVersionMaterial, Material};
use crate::public::{PublicHalf, TransitPublicKey};
use crate::rsa::Rsa;
use crate::settings::Derivation;

/// Which key of a version is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportKind {
    /// What encrypts.
    Encryption,
    /// What signs.
    Signing,
    /// What makes HMACs.
    Hmac,
    /// What verifies.
    Public,
    /// A chain of certificates, of which no version here has one.
    CertificateChain,
}

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// The usual one of the type.
    Default,
    /// The bytes.
    Raw,
    /// PKCS#8 or SubjectPublicKeyInfo.
    Der,
    /// The same as text.
    Pem,
}

/// Versions and their keys as text.
type ExportedVersions = Vec<(u32, Zeroizing<String>)>;

impl ExportKind {
    /// The kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "encryption-key" => Some(Self::Encryption),
            "signing-key" => Some(Self::Signing),
            "hmac-key" => Some(Self::Hmac),
            "public-key" => Some(Self::Public),
            "certificate-chain" => Some(Self::CertificateChain),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Encryption => "encryption-key",
            Self::Signing => "signing-key",
            Self::Hmac => "hmac-key",
            Self::Public => "public-key",
            Self::CertificateChain => "certificate-chain",
        }
    }
}

impl ExportFormat {
    /// The format with this name; the empty one is the default.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "" => Some(Self::Default),
            "raw" => Some(Self::Raw),
            "der" => Some(Self::Der),
            "pem" => Some(Self::Pem),
            _ => None,
        }
    }
}

impl TransitKey {
    /// The keys of the versions in use, or of one: a number, `v` and a number, or `latest`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key must not leave, or has none of that kind and form.
    pub fn export(
        &self,
        kind: ExportKind,
        format: ExportFormat,
        version: Option<&str>,
    ) -> Result<ExportedVersions> {
        self.check_exportable(kind)?;
        let Some(version) = version else {
            let used = self.versions.range(self.settings.min_decryption_version..);
            return used
                .map(|(&number, version)| Ok((number, self.export_one(version, kind, format)?)))
                .collect();
        };
        let number = self.export_version(version)?;
        let found = self
            .version(number)
            .map_err(|_| Error::invalid("version does not exist or cannot be found"))?;
        Ok(vec![(number, self.export_one(found, kind, format)?)])
    }

    /// The private key of a version that signs, in PKCS #8, for what is signed here besides messages; 0 asks for the latest.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key does not sign, is derived, or has no such version or no private half of it.
    pub fn signing_pkcs8(&self, version: i64) -> Result<Zeroizing<Vec<u8>>> {
        self.check_usable()?;
        if !self.kind.signs() {
            let kind = self.kind.name();
            return Err(Error::invalid(format!("key type {kind} does not support signing")));
        }
        if self.derivation() != Derivation::None {
            return Err(Error::invalid("operation not supported for keys with derivation enabled"));
        }
        let number = self.writing_version(version, "signing")?;
        match &self.version(number)?.material {
            Material::Rsa(pair) => Ok(Zeroizing::new(pair.pkcs8().to_vec())),
            Material::Ecdsa(pair) => pair.pkcs8(),
            Material::Ed25519(pair) => pair.pkcs8(),
            Material::Bytes(_) | Material::Public(_) => {
                Err(Error::invalid("the key version has no private half"))
            }
        }
    }

    fn check_exportable(&self, kind: ExportKind) -> Result<()> {
        let public = matches!(kind, ExportKind::Public | ExportKind::CertificateChain);
        if !public && !self.settings.exportable {
            return Err(Error::invalid("private key material is not exportable"));
        }
        self.check_usable()?;
        match kind {
            ExportKind::Encryption if !self.kind.encrypts() => {
                Err(Error::invalid("encryption not supported for the key"))
            }
            ExportKind::Signing if !self.kind.signs() => {
                Err(Error::invalid("signing not supported for the key"))
            }
            ExportKind::CertificateChain if !self.kind.signs() => Err(Error::invalid(
                "certificate chain not supported for keys that do not support signing",
            )),
            _ => Ok(()),
        }
    }

    fn export_version(&self, asked: &str) -> Result<u32> {
        if asked == "latest" {
            return Ok(self.latest_version());
        }
        let digits = asked.strip_prefix('v').unwrap_or(asked);
        let number: u32 = digits.parse().map_err(|_| Error::invalid("invalid key version"))?;
        if number < self.settings.min_decryption_version {
            return Err(Error::invalid("version for export is below minimum decryption version"));
        }
        Ok(number)
    }

    fn export_one(
        &self,
        version: &KeyVersionMaterial,
        kind: ExportKind,
        format: ExportFormat,
    ) -> Result<Zeroizing<String>> {
        match (kind, &version.material) {
            (ExportKind::Hmac, _) => symmetric(version.hmac_key(self.kind), format),
            (ExportKind::CertificateChain, _) => Err(Error::invalid(
                "selected key version does not have a certificate chain imported",
            )),
            (ExportKind::Encryption, Material::Bytes(key)) => symmetric(key, format),
            (ExportKind::Signing | ExportKind::Encryption, Material::Rsa(pair)) => {
                rsa_private(pair, format)
            }
            (ExportKind::Signing, Material::Ecdsa(pair)) => ecdsa_private(pair, format),
            (ExportKind::Signing, Material::Ed25519(pair)) => ed25519_private(pair, format),
            // As OpenBao has it: there is none, and that is no reason to keep back those of other versions.
            (ExportKind::Signing | ExportKind::Encryption, Material::Public(_)) => {
                Ok(Zeroizing::default())
            }
            (ExportKind::Public, Material::Public(half)) => public_half(half, format),
            (ExportKind::Public, Material::Rsa(pair)) => {
                refuse_raw("rsa", format)?;
                Ok(der_or_pem("PUBLIC KEY", &pair.public_der()?, format))
            }
            (ExportKind::Public, Material::Ecdsa(pair)) => {
                refuse_raw("ec", format)?;
                Ok(trimmed(der_or_pem("PUBLIC KEY", &pair.public_der()?, format)))
            }
            (ExportKind::Public, Material::Ed25519(pair)) => match format {
                ExportFormat::Default | ExportFormat::Raw => Ok(encode(pair.public())),
                _ => Ok(trimmed(der_or_pem("PUBLIC KEY", &pair.public_der()?, format))),
            },
            _ => Err(Error::invalid(format!(
                "unknown key type {} for export type {}",
                self.kind.name(),
                kind.name()
            ))),
        }
    }
}

fn public_half(half: &PublicHalf, format: ExportFormat) -> Result<Zeroizing<String>> {
    let written = der_or_pem("PUBLIC KEY", half.spki(), format);
    match (half.key(), format) {
        (TransitPublicKey::Ed25519(bytes), ExportFormat::Default | ExportFormat::Raw) => {
            Ok(encode(bytes))
        }
        (TransitPublicKey::Ed25519(_), _) => Ok(trimmed(written)),
        (TransitPublicKey::Ecdsa(..), _) => refuse_raw("ec", format).map(|()| trimmed(written)),
        (TransitPublicKey::Rsa(..), _) => refuse_raw("rsa", format).map(|()| written),
    }
}

fn encode(bytes: &[u8]) -> Zeroizing<String> {
    Zeroizing::new(base64::encode(bytes))
}

fn symmetric(key: &[u8], format: ExportFormat) -> Result<Zeroizing<String>> {
    match format {
        ExportFormat::Default | ExportFormat::Raw => Ok(encode(key)),
        ExportFormat::Der | ExportFormat::Pem => Err(Error::invalid(
            "unknown format for symmetric key; supported values are `` or `raw`",
        )),
    }
}

fn rsa_private(pair: &Rsa, format: ExportFormat) -> Result<Zeroizing<String>> {
    refuse_raw("rsa", format)?;
    match format {
        ExportFormat::Default => Ok(der::pem("RSA PRIVATE KEY", pair.pkcs1()?)),
        _ => Ok(der_or_pem("PRIVATE KEY", pair.pkcs8(), format)),
    }
}

fn ecdsa_private(pair: &Ecdsa, format: ExportFormat) -> Result<Zeroizing<String>> {
    refuse_raw("ec", format)?;
    Ok(trimmed(match format {
        ExportFormat::Default => der::pem("EC PRIVATE KEY", &pair.sec1()?),
        _ => der_or_pem("PRIVATE KEY", &pair.pkcs8()?, format),
    }))
}

fn ed25519_private(pair: &Ed25519, format: ExportFormat) -> Result<Zeroizing<String>> {
    match format {
        ExportFormat::Default | ExportFormat::Raw => Ok(encode(&pair.private())),
        _ => Ok(trimmed(der_or_pem("PRIVATE KEY", &pair.pkcs8()?, format))),
    }
}

fn refuse_raw(family: &str, format: ExportFormat) -> Result<()> {
    if format != ExportFormat::Raw {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "unknown key format for {family} key; supported values are ``, `der`, or `pem`"
    )))
}

fn der_or_pem(label: &str, der: &[u8], format: ExportFormat) -> Zeroizing<String> {
    match format {
        ExportFormat::Der => encode(der),
        _ => der::pem(label, der),
    }
}

fn trimmed(mut text: Zeroizing<String>) -> Zeroizing<String> {
    let length = text.trim_end().len();
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeySpec;
    use crate::key_change::KeyChange;
    use crate::kind::KeyKind;

    fn exportable(kind: KeyKind) -> TransitKey {
        TransitKey::make(kind, &KeySpec { exportable: true, ..KeySpec::default() }, 0).unwrap()
    }

    fn one(key: &TransitKey, kind: ExportKind, format: ExportFormat) -> Result<String> {
        key.export(kind, format, Some("latest")).map(|all| all[0].1.to_string())
    }

    #[test]
    fn nothing_private_leaves_a_key_that_may_not() {
        let key = TransitKey::make(KeyKind::EcdsaP256, &KeySpec::default(), 0).unwrap();
        for kind in [ExportKind::Signing, ExportKind::Hmac, ExportKind::Encryption] {
            let refused = key.export(kind, ExportFormat::Default, None).unwrap_err();
            assert_eq!(refused.to_string(), "private key material is not exportable");
        }
        assert!(key.export(ExportKind::Public, ExportFormat::Default, None).is_ok());
    }

    #[test]
    fn what_leaves_can_be_brought_back() {
        for kind in [KeyKind::EcdsaP256, KeyKind::EcdsaP521, KeyKind::Rsa2048] {
            let key = exportable(kind);
            let der = one(&key, ExportKind::Signing, ExportFormat::Der).unwrap();
            let bytes = base64::decode(&der).unwrap();
            let again = Material::from_bytes(kind, &bytes).unwrap();
            assert_eq!(
                again.to_bytes().unwrap(),
                key.version(1).unwrap().material.to_bytes().unwrap()
            );
        }
        let key = exportable(KeyKind::Ed25519);
        let der = base64::decode(&one(&key, ExportKind::Signing, ExportFormat::Der).unwrap());
        let again = Ed25519::from_pkcs8(&der.unwrap()).unwrap();
        let raw = one(&key, ExportKind::Signing, ExportFormat::Default).unwrap();
        assert_eq!(*again.private(), base64::decode(&raw).unwrap());
    }

    #[test]
    fn forms_have_their_labels() {
        for (kind, export, format, label) in [
            (KeyKind::EcdsaP384, ExportKind::Signing, ExportFormat::Default, "EC PRIVATE KEY"),
            (KeyKind::EcdsaP384, ExportKind::Signing, ExportFormat::Pem, "PRIVATE KEY"),
            (KeyKind::EcdsaP384, ExportKind::Public, ExportFormat::Default, "PUBLIC KEY"),
            (KeyKind::Ed25519, ExportKind::Signing, ExportFormat::Pem, "PRIVATE KEY"),
            (KeyKind::Rsa2048, ExportKind::Encryption, ExportFormat::Default, "RSA PRIVATE KEY"),
            (KeyKind::Rsa2048, ExportKind::Public, ExportFormat::Pem, "PUBLIC KEY"),
        ] {
            let text = one(&exportable(kind), export, format).unwrap();
            assert!(text.starts_with(&format!("-----BEGIN {label}-----\n")), "{label}");
        }
        let refused = one(&exportable(KeyKind::EcdsaP256), ExportKind::Public, ExportFormat::Raw);
        assert!(refused.unwrap_err().to_string().contains("for ec key"));
        let aes = exportable(KeyKind::Aes256Gcm96);
        assert!(one(&aes, ExportKind::Encryption, ExportFormat::Pem).is_err());
        assert!(one(&aes, ExportKind::Public, ExportFormat::Default).is_err());
        assert!(one(&aes, ExportKind::Signing, ExportFormat::Default).is_err());
        assert!(one(&aes, ExportKind::CertificateChain, ExportFormat::Default).is_err());
        assert_eq!(one(&aes, ExportKind::Encryption, ExportFormat::Raw).unwrap().len(), 44);
    }

    #[test]
    fn versions_are_named_by_number_or_latest() {
        let key = exportable(KeyKind::Hmac).rotated(0).unwrap().rotated(0).unwrap();
        let change = KeyChange { min_decryption_version: Some(2), ..KeyChange::default() };
        let key = key.configured(&change).unwrap().0.unwrap();
        let export = |version| {
            let all = key.export(ExportKind::Hmac, ExportFormat::Default, version)?;
            Ok(all.into_iter().map(|(number, _)| number).collect::<Vec<_>>())
        };
        assert_eq!(export(None), Ok(vec![2, 3]));
        assert_eq!(export(Some("latest")), Ok(vec![3]));
        assert_eq!(export(Some("v2")), Ok(vec![2]));
        let refused =
            |version| export(Some(version)).map_err(|e: Error| e.to_string()).unwrap_err();
        assert!(refused("1").contains("below minimum decryption version"));
        assert!(refused("4").contains("version does not exist"));
        assert!(refused("x").contains("invalid key version"));
    }
}
