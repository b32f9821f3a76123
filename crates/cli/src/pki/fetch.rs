//! Reading issuers of PKI mounts: where they are, their certificates and chains.
//!
//! A path of an issuer is `MOUNT/issuer/REF`, with or without `/json` at its end. A mount may have slashes in its path, so the
//! last `/issuer/` divides.

use kallisto_command::client::{Client, ClientRequest, url};
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};
use kallisto_command::secret::Secret;
use kallisto_pki::certificate::ParsedCertificate;
use kallisto_pki::pem::{self, Label};

/// Most certificates of a chain that are looked at.
const CHAIN_MAX: usize = 64;

/// Where an issuer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IssuerPath {
    /// The mount, without a slash at its end.
    pub(super) mount: String,
    /// Its id, name, or `default`.
    pub(super) reference: String,
}

impl IssuerPath {
    /// Reads `MOUNT/issuer/REF`.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let clean = url::clean(text)?;
        let clean = clean.trim_matches('/');
        let clean = clean.strip_suffix("/json").unwrap_or(clean);
        match clean.rsplit_once("/issuer/") {
            Some((mount, reference)) if !mount.is_empty() && is_reference(reference) => {
                Ok(Self { mount: mount.to_owned(), reference: reference.to_owned() })
            }
            _ => Err(Error::usage(format!(
                "{text} is not the path of an issuer: MOUNT/issuer/REF is, e.g. pki/issuer/default"
            ))),
        }
    }

    /// The path below `/v1/`.
    pub(super) fn path(&self) -> String {
        format!("{}/issuer/{}", self.mount, self.reference)
    }
}

fn is_reference(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

/// The certificate of an issuer, and what its mount knows to be above it.
pub(super) struct FetchedIssuer {
    /// Its certificate.
    pub(super) certificate: ParsedCertificate,
    /// The same as text.
    pub(super) pem: String,
    /// Its chain, itself first where the mount has it.
    pub(super) chain: Vec<ParsedCertificate>,
    /// The chain as texts.
    pub(super) chain_pems: Vec<String>,
}

/// Reads an issuer.
pub(super) fn issuer(client: &Client<'_>, at: &IssuerPath) -> Result<FetchedIssuer, Error> {
    let path = at.path();
    let doing = Error::doing(format!("Unable to read issuer {path}"));
    let answer = client.send(&ClientRequest::get(&path)).map_err(doing)?;
    let answer = answer.ok_or_else(|| Error::Absent(format!("There is no issuer at {path}")))?;
    let data = answer.data.unwrap_or_default();
    let Some(text) = data.get("certificate").and_then(Json::as_str) else {
        return Err(Error::Absent(format!("What is at {path} has no certificate")));
    };
    let chain_pems = strings(&data, "ca_chain");
    if chain_pems.len() > CHAIN_MAX {
        return Err(Error::Absent(format!(
            "The chain of {path} has over {CHAIN_MAX} certificates"
        )));
    }
    let read = |pem: &str| certificate(pem).map_err(|why| Error::Absent(format!("{path}: {why}")));
    let chain = chain_pems.iter().map(|pem| read(pem)).collect::<Result<_, _>>()?;
    Ok(FetchedIssuer { certificate: read(text)?, pem: text.trim().to_owned(), chain, chain_pems })
}

/// The references of a mount's issuers: ids, or names where they have one and `by_name` asks for them.
pub(super) fn issuers_of(
    client: &Client<'_>,
    mount: &str,
    by_name: bool,
) -> Result<Vec<IssuerPath>, Error> {
    let path = format!("{mount}/issuers");
    let doing = format!("Unable to list the issuers of {mount}");
    let answer = client.send(&ClientRequest::list(&path)).map_err(Error::doing(doing.clone()))?;
    let Some(answer) = answer else { return Ok(Vec::new()) };
    let data = Secret::data_of(Some(answer), &doing)?;
    let info = data.get("key_info").and_then(Json::as_object);
    let name_of = |id: &str| {
        let name = info?.get(id)?.as_object()?.get("issuer_name")?.as_str()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    let reference = |id: String| match by_name.then(|| name_of(&id)).flatten() {
        Some(name) => name,
        None => id,
    };
    let issuers = strings(&data, "keys")
        .into_iter()
        .map(|id| IssuerPath { mount: mount.to_owned(), reference: reference(id) });
    Ok(issuers.collect())
}

/// The paths of all PKI mounts that may be seen.
pub(super) fn mounts(client: &Client<'_>) -> Result<Vec<String>, Error> {
    let doing = "Unable to list the mounts";
    let answer = client.send(&ClientRequest::get("sys/mounts")).map_err(Error::doing(doing))?;
    let data = Secret::data_of(answer, doing)?;
    let is_pki = |entry: &Json| {
        let kind = entry.as_object().and_then(|entry| entry.get("type"));
        kind.and_then(Json::as_str) == Some("pki")
    };
    let found = data.iter().filter(|(_, entry)| is_pki(entry));
    Ok(found.map(|(path, _)| path.trim_end_matches('/').to_owned()).collect())
}

/// Reads a certificate from PEM.
pub(super) fn certificate(text: &str) -> Result<ParsedCertificate, String> {
    let blocks = pem::read(text).map_err(|why| why.to_string())?;
    let found = blocks.into_iter().find(|(label, _)| *label == Label::Certificate);
    let (_, der) = found.ok_or_else(|| "there is no certificate in the text".to_owned())?;
    ParsedCertificate::from_der(&der).map_err(|why| why.to_string())
}

/// The texts of a list among the data.
pub(super) fn strings(data: &Map, name: &str) -> Vec<String> {
    let Some(Json::Array(items)) = data.get(name) else { return Vec::new() };
    items.iter().filter_map(Json::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuers_path_has_a_mount_and_a_reference() {
        for (text, mount, reference) in [
            ("pki/issuer/default", "pki", "default"),
            ("/pki/issuer/default/", "pki", "default"),
            ("team/pki/issuer/root/json", "team/pki", "root"),
            ("issuer/issuer/issuer", "issuer", "issuer"),
        ] {
            let path = IssuerPath::parse(text).expect(text);
            assert_eq!((&*path.mount, &*path.reference), (mount, reference), "{text}");
        }
        for text in ["", "pki", "pki/issuer", "pki/issuer/", "issuer/x", "pki/issuer/a/b"] {
            assert!(IssuerPath::parse(text).is_err(), "{text}");
        }
    }
}
