//! A certificate that a server makes for itself, so that it need not begin without TLS: for `-dev-tls`, and by `operator make-certificate`.
//!
//! The authority signs this one certificate. Its key is never written, so nobody can make another that those who believe it believe.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Zoned;
use jiff::tz::TimeZone;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::outcome::Outcome;
use kallisto_listener::WallClock as _;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use super::SystemClock;

/// What every machine calls itself.
pub(super) const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// How long a certificate of `make-certificate` is good when nobody says, in days: ten years, as those are that Debian's `ssl-cert` makes.
const DAYS_DEFAULT: u16 = 3650;
/// Most names in a certificate.
const NAMES_MAX: usize = 100;

/// A certificate, its key, and who signed it, as PEM.
pub(super) struct OwnCertificate {
    /// The certificate of the authority, for clients to believe.
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

/// From one day to another.
pub(super) struct CertificateDays {
    pub(super) first: jiff::civil::Date,
    pub(super) last: jiff::civil::Date,
}

/// Makes an authority and a certificate of it for these names, valid from 1975 to 4096 where nothing else is said.
pub(super) fn make(
    authority_name: &str,
    subject: &str,
    names: Vec<String>,
    validity: Option<CertificateDays>,
) -> Result<OwnCertificate, rcgen::Error> {
    let limit = |params: &mut CertificateParams| {
        if let Some(CertificateDays { first, last }) = &validity {
            let date = |date: &jiff::civil::Date| {
                let [month, day] = [date.month(), date.day()].map(|part| part.unsigned_abs());
                rcgen::date_time_ymd(date.year().into(), month, day)
            };
            (params.not_before, params.not_after) = (date(first), date(last));
        }
    };
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.distinguished_name = named(authority_name);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    limit(&mut authority);
    let authority_key = KeyPair::generate()?;
    let ca = authority.self_signed(&authority_key)?.pem();

    let mut server = CertificateParams::new(names)?;
    server.distinguished_name = named(subject);
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    limit(&mut server);
    let key = KeyPair::generate()?;
    let issuer = Issuer::new(authority, authority_key);
    let certificate = server.signed_by(&key, &issuer)?.pem();
    Ok(OwnCertificate { authority: ca, certificate, key: key.serialize_pem() })
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Make a certificate for this server, unless it has one
///
/// Writes ca.pem (for clients to believe), cert.pem and key.pem into a folder. A key that is there already is left as it is, with its certificate,
/// so that a service may run this before every start. The authority's key is written nowhere. Use a certificate of your own authority once there is one.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    kallisto operator make-certificate -dir=/var/lib/kallisto/tls\n  \
    kallisto operator make-certificate -dir=tls -name=vault.example.com -name=10.0.0.5 -days=90\n\n\
    Exit codes: 0 there is a certificate, 1 it could not be made")]
pub struct MakeCertificate {
    /// The folder of the files; made if it is not there
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// A name or address of this server, besides localhost and the machine's own name; may be repeated
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// How long it is good, in days
    #[arg(long, default_value_t = DAYS_DEFAULT, value_parser = clap::value_parser!(u16).range(1..))]
    days: u16,
}

impl MakeCertificate {
    /// Makes the files.
    ///
    /// # Errors
    /// What could not be made or written, and where.
    pub fn run(self) -> Result<Outcome, Error> {
        let Self { dir, names: given, days } = self;
        let [ca, certificate, key] = ["ca.pem", "cert.pem", "key.pem"].map(|name| dir.join(name));
        if key.exists() {
            if !certificate.exists() {
                let (key, certificate) = (key.display(), certificate.display());
                return Err(Error::usage(format!("{key} is there, and {certificate} is not")));
            }
            let text = format!("There is a certificate already: {}\n", certificate.display());
            return Ok(Outcome::print(text));
        }
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut names: Vec<String> = Vec::new();
        let all = LOCAL_NAMES.iter().map(ToString::to_string).chain([machine.clone()]).chain(given);
        for name in all.filter(|name| !name.is_empty()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.len() > NAMES_MAX {
            return Err(Error::usage(format!("more than {NAMES_MAX} names")));
        }
        let today = Zoned::new(SystemClock.now(), TimeZone::UTC).date();
        let unable = |error: String| Error::usage(format!("cannot make a certificate: {error}"));
        let last = today.checked_add(jiff::Span::new().days(i64::from(days)));
        // A day before, for those whose clocks are behind.
        let first = today.yesterday().map_err(|error| unable(error.to_string()))?;
        let last = last.map_err(|error| unable(error.to_string()))?;
        let authority = format!("Kallisto at {machine}");
        let shown = names.join(", ");
        let made = make(&authority, &machine, names, Some(CertificateDays { first, last }));
        let made = made.map_err(|error| unable(error.to_string()))?;
        make_folder(&dir)?;
        // The key comes last: where it is, everything is.
        for (path, text) in
            [(&ca, &made.authority), (&certificate, &made.certificate), (&key, &made.key)]
        {
            files::write_private(path, text.as_bytes())
                .map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
        }
        Ok(Outcome::print(format!(
            "Made {} for {shown}, good until {last}.\nClients believe it with VAULT_CACERT={}\n",
            certificate.display(),
            ca.display()
        )))
    }
}

/// Makes a folder that only its owner may read; one that is there stays as it is.
fn make_folder(dir: &Path) -> Result<(), Error> {
    if dir.is_dir() {
        return Ok(());
    }
    let made = DirBuilder::new().mode(0o700).recursive(true).create(dir);
    // What a umask took away is given back.
    let made = made.and_then(|()| std::fs::set_permissions(dir, PermissionsExt::from_mode(0o700)));
    made.map_err(|error| Error::usage(format!("{}: {error}", dir.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(dir: &Path, names: &[&str]) -> MakeCertificate {
        let names = names.iter().map(ToString::to_string).collect();
        MakeCertificate { dir: dir.to_owned(), names, days: 90 }
    }

    #[test]
    fn a_certificate_is_made_once_for_the_names_and_days_and_is_the_owners() {
        let dir = std::env::temp_dir().join(format!("kallisto-make-{}", std::process::id()));
        let told = asked(&dir, &["vault.example.com", "10.0.0.5"]).run().unwrap();
        let told = String::from_utf8(told.stdout.clone()).unwrap();
        assert!(told.contains("localhost, 127.0.0.1, ::1, "), "{told}");
        assert!(told.contains("vault.example.com, 10.0.0.5, good until "), "{told}");
        let mode =
            |name: &str| std::fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(""), mode("key.pem"), mode("cert.pem")), (0o700, 0o600, 0o600));
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        let before = (read("key.pem"), read("cert.pem"));
        let again = asked(&dir, &[]).run().unwrap();
        assert!(String::from_utf8_lossy(&again.stdout).starts_with("There is a certificate"));
        assert_eq!(before, (read("key.pem"), read("cert.pem")));
        assert!(!read("ca.pem").contains("PRIVATE"));
        std::fs::remove_file(dir.join("cert.pem")).unwrap();
        let refused = asked(&dir, &[]).run().err().unwrap().to_string();
        assert!(refused.contains("key.pem is there, and"), "{refused}");
        assert_eq!(before.0, read("key.pem"));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let refused = asked(Path::new("/proc/no/such"), &[]).run().err().unwrap();
        assert!(refused.to_string().contains("/proc/no/such"), "{refused}");
    }
}
