//! `cargo x package`: the Debian package, with the list of what is in the program (CycloneDX 1.5) and checksums.
//!
//! `contrib/debian/build.sh` puts the package together; here are the binary it is made of and the list of parts, which `cargo tree` knows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::Program;
use crate::steps::{StepOutcome, UsageMistake, VerbStep};
use crate::workspace;

/// What the arguments say.
#[derive(Debug, Default, PartialEq, Eq)]
struct PackageArguments {
    /// A binary that is there; one is built where none is named.
    binary: Option<PathBuf>,
    /// Whether the package is made twice and compared.
    is_checked: bool,
}

impl PackageArguments {
    fn read(args: &[String]) -> Result<Self, UsageMistake> {
        let mut found = Self::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            match arg.as_str() {
                "--binary" => {
                    let path = rest.next().ok_or(UsageMistake("--binary needs a path".into()))?;
                    found.binary = Some(PathBuf::from(path));
                }
                "--check" => found.is_checked = true,
                other => return Err(UsageMistake(format!("does not know {other}"))),
            }
        }
        Ok(found)
    }
}

/// The verb.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    let PackageArguments { binary, is_checked } = PackageArguments::read(args)?;
    let mut steps = Vec::new();
    let binary = match binary {
        Some(binary) => binary,
        None => {
            let build = ["build", "--release", "--locked", "--package", "kallisto"];
            steps.push(Program::cargo(build).step("build"));
            workspace::target_folder("release").join("kallisto")
        }
    };
    if steps.iter().any(|step| step.outcome != StepOutcome::Passed) {
        return Ok(steps);
    }
    let folder = workspace::target_folder("package");
    let parts = folder.join("parts.cdx.json");
    steps.push(VerbStep::run("parts", || match write_parts(&parts) {
        Ok(count) => {
            eprintln!("{count} parts in {}", parts.display());
            StepOutcome::Passed
        }
        Err(error) => {
            eprintln!("cannot list the parts: {error}");
            StepOutcome::Failed(1)
        }
    }));
    steps.push(pack("package", &binary, &parts, &folder));
    if is_checked {
        let again = workspace::target_folder("package-again");
        steps.push(pack("again", &binary, &parts, &again));
        steps.push(VerbStep::run("equal", || compare(&folder, &again)));
    }
    Ok(steps)
}

fn pack(name: &str, binary: &Path, parts: &Path, out: &Path) -> VerbStep {
    let script = workspace::root().join("contrib/debian/build.sh");
    let words = [script.as_path(), binary, parts, out].map(|path| path.display().to_string());
    Program::new("bash", words).step(name)
}

/// Whether two makings have the same checksums.
fn compare(one: &Path, other: &Path) -> StepOutcome {
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS"));
    match (sums(one), sums(other)) {
        (Ok(one), Ok(other)) if one == other => {
            eprint!("twice the same bytes:\n{one}");
            StepOutcome::Passed
        }
        (Ok(one), Ok(other)) => {
            eprint!("the bytes differ:\n{one}{other}");
            StepOutcome::Failed(1)
        }
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("SHA256SUMS: {error}");
            StepOutcome::Failed(1)
        }
    }
}

/// A crate in the program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    version: String,
    license: String,
}

/// Writes the list of what is in the program; how many parts it has.
fn write_parts(path: &Path) -> Result<usize, String> {
    // What the lines of `cargo tree` look like is said here, and what a license may hold has no tab in it.
    let tree = Program::cargo([
        "tree",
        "--locked",
        "--package",
        "kallisto",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}\t{l}",
    ]);
    let parts = read_tree(&tree.output()?);
    let lock = workspace::root().join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    let text = write_list(&parts, &read_checksums(&lock));
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder).and_then(|()| write(path, &text));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(parts.len())
}

#[expect(clippy::disallowed_methods, reason = "a developer command makes a file of the build")]
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    fs::write(path, text)
}

/// The parts by name and version, from lines such as `der v0.8.3\tApache-2.0 OR MIT`.
fn read_tree(tree: &str) -> BTreeMap<(String, String), Part> {
    let mut parts = BTreeMap::new();
    for line in tree.lines() {
        let Some((package, license)) = line.split_once('\t') else { continue };
        let mut words = package.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        let version = version.trim_start_matches('v').to_owned();
        // What was shown before is marked.
        let license = license.trim_end_matches(" (*)").to_owned();
        parts.insert((name.to_owned(), version.clone()), Part { version, license });
    }
    parts
}

/// The SHA-256 that `Cargo.lock` has of the packages that come from the registry.
fn read_checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |name: &str| {
            let start = format!("{name} = \"");
            let line = package.lines().find_map(|line| line.strip_prefix(start.as_str()))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(sum)) =
            (value("name"), value("version"), value("checksum"))
        {
            found.insert((name, version), sum);
        }
    }
    found
}

/// The list, in the form of CycloneDX 1.5 (ECMA-424), without a time: the same program has the same list.
fn write_list(
    parts: &BTreeMap<(String, String), Part>,
    checksums: &BTreeMap<(String, String), String>,
) -> String {
    let mut text = String::from(
        "{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n  \"metadata\": {\"component\": {\"type\": \"application\", \"name\": \"kallisto\"}},\n  \"components\": [",
    );
    for (at, ((name, _), part)) in parts.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let Part { version, license } = part;
        // Names and versions are of letters, digits and `-_.+`; a license is an expression of SPDX.
        let _ = write!(
            text,
            "{comma}\n    {{\"type\": \"library\", \"name\": \"{name}\", \"version\": \"{version}\""
        );
        if !license.is_empty() {
            let license = license.replace('/', " OR ").replace('"', "'");
            let _ = write!(text, ", \"licenses\": [{{\"expression\": \"{license}\"}}]");
        }
        if let Some(sum) = checksums.get(&(name.clone(), version.clone())) {
            let _ = write!(
                text,
                ", \"purl\": \"pkg:cargo/{name}@{version}\", \"hashes\": [{{\"alg\": \"SHA-256\", \"content\": \"{sum}\"}}]"
            );
        }
        text.push('}');
    }
    text.push_str("\n  ]\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_listed_once_with_license_and_checksum() {
        let tree = "kallisto v0.1.0 (/x/crates/kallisto)\tApache-2.0\nder v0.8.3\tApache-2.0 OR MIT\nder v0.8.3\tApache-2.0 OR MIT (*)\nder v0.7.10\tMIT/Apache-2.0\nno line\n";
        let parts = read_tree(tree);
        assert_eq!(parts.len(), 3);
        let lock = "[[package]]\nname = \"der\"\nversion = \"0.8.3\"\nsource = \"x\"\nchecksum = \"abc\"\n\n[[package]]\nname = \"kallisto\"\nversion = \"0.1.0\"\n";
        let sums = read_checksums(lock);
        assert_eq!(sums.len(), 1);
        let text = write_list(&parts, &sums);
        assert!(text.contains("\"purl\": \"pkg:cargo/der@0.8.3\", \"hashes\": [{\"alg\": \"SHA-256\", \"content\": \"abc\"}]}"), "{text}");
        assert!(
            text.contains(
                "\"version\": \"0.7.10\", \"licenses\": [{\"expression\": \"MIT OR Apache-2.0\"}]}"
            ),
            "{text}"
        );
        assert_eq!(text.matches("\"type\": \"library\"").count(), 3);
    }

    #[test]
    fn arguments_are_known_or_refused() {
        let read = |words: &[&str]| {
            PackageArguments::read(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let found = read(&["--check", "--binary", "x"]).ok().unwrap();
        assert_eq!(found, PackageArguments { binary: Some("x".into()), is_checked: true });
        assert!(read(&["--binary"]).is_err() && read(&["--bogus"]).is_err());
    }
}
