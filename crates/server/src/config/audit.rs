//! `audit "kind" "path"`: devices that the configuration declares, as OpenBao has them; and
//! `audit_directories`, which is ours: where files may lie that are enabled through the API.
//!
//! A declared device is checked here, so that a server with one that cannot be does not start. Its
//! file may lie anywhere: who writes the configuration could start another server as well.

use std::path::PathBuf;

use kallisto_audit::{DeviceOptions, DeviceSpec, file_of};
use kallisto_core::DeclaredDevice;

use super::error::Error;
use super::section::ConfigSection;

/// Where files may lie that are enabled through the API, when the configuration does not say.
pub(crate) const DIRECTORIES_DEFAULT: [&str; 1] = ["/var/log"];

/// The directories that devices of the API may write in, if the configuration says which.
pub(super) fn directories(top: &mut ConfigSection<'_>) -> Result<Option<Vec<PathBuf>>, Error> {
    let raw = top.list("audit_directories")?;
    if raw.is_empty() {
        return Ok(None);
    }
    let absolute = |raw: super::raw_value::RawValue| match raw.path()? {
        path if path.is_absolute() => Ok(path),
        _ => Err(raw.refuse("expected absolute paths of directories")),
    };
    raw.into_iter().map(absolute).collect::<Result<_, _>>().map(Some)
}

/// Every declared device of every file.
pub(super) fn read(
    top: &mut ConfigSection<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<DeclaredDevice>, Error> {
    let (mut devices, mut files): (Vec<DeclaredDevice>, Vec<PathBuf>) = Default::default();
    for (kind, path, mut stanza) in top.labelled_twice("audit")? {
        let path = path.trim_matches('/');
        if path.is_empty() || devices.iter().any(|device| device.path == path) {
            return Err(stanza.refuse("every audit device needs a path of its own"));
        }
        let description = stanza.raw_value("description")?.map(|raw| raw.text()).transpose()?;
        stanza.switch("local")?;
        let mut options = DeviceOptions::new();
        for inner in stanza.stanzas("options")? {
            let every = inner.every()?.into_iter();
            options.extend(every.map(|(name, raw)| (name, raw.as_written().to_owned())));
        }
        let spec = DeviceSpec::parse(kind, &options).map_err(|why| stanza.refuse(&why))?;
        DeviceSpec::check_served(&options).map_err(|why| stanza.refuse(&why))?;
        let place = stanza.place().clone();
        let unknown = DeviceSpec::unknown_options(kind, &options).into_iter();
        warnings.extend(unknown.map(|why| format!("{place}: audit {kind:?} {path:?}: {why}")));
        if let Some(file) = file_of(&spec) {
            if files.contains(&file) {
                return Err(stanza.refuse("another audit device writes this file already"));
            }
            files.push(file);
        }
        devices.push(DeclaredDevice {
            path: path.to_owned(),
            kind: kind.to_owned(),
            description: description.unwrap_or_default(),
            options,
        });
        stanza.finish(&[], warnings)?;
    }
    Ok(devices)
}
