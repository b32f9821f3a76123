//! The files of a configuration: which there are, and their trees.
//!
//! `-config` names files and directories. Of a directory the `.hcl` and `.json` files count, by
//! name, except hidden ones; a file named by itself may be called anything. What
//! `VAULT_LOCAL_CONFIG` holds is read last, as a file of that name would be.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use kallisto_hcl::{BlockBody, HclValue, ValueKind};
use zeroize::{Zeroize, Zeroizing};

use super::error::{Error, FilePosition};
use kallisto_command::config::Environment;
use kallisto_command::files;

/// One file. What it says may be secret, so it is wiped on drop.
pub(super) struct ConfigFile {
    /// What messages call it.
    pub(super) name: Rc<str>,
    /// What it says.
    pub(super) body: BlockBody,
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        wipe(&mut self.body);
    }
}

/// Nesting is bounded by the reader of the file.
fn wipe(body: &mut BlockBody) {
    body.items.iter_mut().for_each(|item| wipe_value(&mut item.value));
}

fn wipe_value(value: &mut HclValue) {
    match &mut value.kind {
        ValueKind::Text(text) | ValueKind::Number(text) => text.zeroize(),
        ValueKind::List(values) => values.iter_mut().for_each(wipe_value),
        ValueKind::Object(body) => wipe(body),
        ValueKind::Null | ValueKind::Bool(_) => {}
    }
}

/// Reads everything that `paths` and the environment name.
pub(super) fn read(
    paths: &[PathBuf],
    environment: &Environment<'_>,
) -> Result<Vec<ConfigFile>, Error> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => files.extend(files_of(path)?),
            false => files.push(path.clone()),
        }
    }
    let mut sources = Vec::new();
    for (at, file) in files.iter().enumerate() {
        // One that is named again counts where it is named last.
        if !files[at + 1..].iter().any(|later| is_same_file(file, later)) {
            sources.push(read_file(file)?);
        }
    }
    if let Some((spelling, text)) = environment.setting("LOCAL_CONFIG") {
        sources.push(parse(&spelling, Zeroizing::new(text).as_bytes())?);
    }
    Ok(sources)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        // What cannot be found is told by whoever reads it.
        _ => false,
    }
}

fn files_of(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |error| Error::Unreadable(directory.to_owned(), error);
    let mut found = files::files_of(directory).map_err(unreadable)?;
    found.retain(|path| is_configuration(path));
    if found.is_empty() {
        let shown = directory.display();
        return Err(Error::Missing(format!("{shown}: no .hcl or .json file in this directory")));
    }
    Ok(found)
}

fn is_configuration(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let known = path.extension().is_some_and(|end| end == "hcl" || end == "json");
    known && !hidden
}

fn read_file(path: &Path) -> Result<ConfigFile, Error> {
    let bytes = files::read(path).map_err(|error| Error::Unreadable(path.to_owned(), error))?;
    parse(&path.display().to_string(), &Zeroizing::new(bytes))
}

fn parse(name: &str, bytes: &[u8]) -> Result<ConfigFile, Error> {
    let name: Rc<str> = Rc::from(name);
    match kallisto_hcl::parse(bytes) {
        Ok(body) => Ok(ConfigFile { name, body }),
        Err(error) => {
            Err(Error::Form(FilePosition { file: name, line: error.at.line }, error.what))
        }
    }
}
