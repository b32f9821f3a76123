//! `cargo x ui`: builds the web page of `ui/` into `crates/ui`, and `cargo x ui-test`, which drives it in a browser.
//!
//! The sources are formatted first, by prettier. `--check` writes nothing: it checks the format, builds beside and compares every byte with what is
//! committed. `--watch` writes to `target/ui`, which a debug server reads when `KALLISTO_UI_DIR` names it. Node.js is needed here and nowhere else: `cargo build` takes the committed bytes.
//!
//! `dist/SOURCES` is the digest of what the page was made of ([`sources_digest`]); `cargo x tidy` compares it on every machine, without Node.js.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::process::Program;
use crate::sha256;
use crate::steps::{StepOutcome, UsageMistake, VerbStep};
use crate::tidy::page::PACKAGES;
use crate::workspace;

/// Folders of `ui/` that are not what the page is made of.
const NOT_SOURCES: [&str; 2] = ["node_modules", "test"];
/// The formatter, and what it formats (but for `ui/.prettierignore`).
const PRETTIER: &str = "node_modules/prettier/bin/prettier.cjs";
const FORMATTED: &str = "src/**/*.{ts,tsx}";
/// Where the digest of the sources is kept, below the crate.
pub(crate) const SOURCES: &str = "crates/ui/dist/SOURCES";

/// The verb.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    let mode = match args {
        [] => "",
        [one] if one == "--check" || one == "--watch" => one.as_str(),
        _ => return Err(UsageMistake("takes nothing, --check or --watch".to_owned())),
    };
    if let Err(step) = packages() {
        return Ok(vec![step]);
    }
    if mode == "--watch" {
        return Ok(vec![node("watch", &["build.mjs", "../target/ui", "--watch"])]);
    }
    let out = workspace::root().join("target/ui-dist");
    let is_check = mode == "--check";
    let verb = if is_check { "--check" } else { "--write" };
    let format = node("format", &[PRETTIER, verb, "--log-level=warn", FORMATTED]);
    let types = node("tsc", &["node_modules/typescript/bin/tsc", "--noEmit"]);
    let build = node("build", &["build.mjs", "../target/ui-dist"]);
    let mut steps = vec![format, types, build];
    if steps.iter().all(|step| step.outcome == StepOutcome::Passed) {
        let name = if is_check { "compare" } else { "install" };
        steps.push(VerbStep::run(name, || {
            let done = if is_check { compare(&out) } else { install(&out) };
            done.unwrap_or_else(|error| {
                eprintln!("{name}: {error}");
                StepOutcome::Failed(1)
            })
        }));
        if is_check {
            steps.push(node("unpack", &["build.mjs", "../crates/ui/dist", "--unpack"]));
        }
    }
    Ok(steps)
}

/// The variable that names a binary to drive; without it one is built.
const BINARY: &str = "KALLISTO_BINARY";

/// The verb `ui-test`: its arguments are names of flows.
pub(crate) fn test(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    if let Err(step) = packages() {
        return Ok(vec![step]);
    }
    let mut steps = Vec::new();
    if std::env::var_os(BINARY).is_none() {
        steps.push(Program::cargo(["build", "--locked", "--package", "kallisto"]).step("build"));
    }
    if steps.iter().any(|build| build.outcome != StepOutcome::Passed) {
        return Ok(steps);
    }
    let browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
    let Some(browser) = browsers.iter().find(|path| Path::new(path).exists()) else {
        let why = "Chromium is not installed: apt-get install chromium".to_owned();
        steps.push(VerbStep::run("ui-test", || StepOutcome::Skipped(why)));
        return Ok(steps);
    };
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let flows = [["test/run.mjs", browser].as_slice(), &args].concat();
    steps.push(node("ui-test", &flows));
    Ok(steps)
}

/// Has the packages of `package-lock.json`, or says why not. They are fetched again when one is missing, as after a package was added.
fn packages() -> Result<(), VerbStep> {
    let skip = |why: &str| Err(VerbStep::run("ui", || StepOutcome::Skipped(why.to_owned())));
    if Program::new("node", ["--version"]).output().is_err() {
        return skip("Node.js is not installed");
    }
    let installed = workspace::root().join("ui/node_modules");
    if PACKAGES.iter().all(|(name, _)| installed.join(name).is_dir()) {
        return Ok(());
    }
    let args = ["--prefix", "ui", "ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    let step = Program::new("npm", args).step("npm ci");
    if step.outcome == StepOutcome::Passed { Ok(()) } else { Err(step) }
}

/// Runs Node.js in `ui/`.
fn node(name: &str, args: &[&str]) -> VerbStep {
    Program::new("node", args.iter().copied()).within("ui").step(name)
}

/// The digest of every file of `ui/` that the page is made of: path, length and bytes of each, sorted by path.
pub(crate) fn sources_digest(root: &Path) -> io::Result<String> {
    let ui = root.join("ui");
    let mut input = Vec::new();
    for path in files(&ui)? {
        let name = path.strip_prefix(&ui).map_err(io::Error::other)?.to_string_lossy().into_owned();
        if NOT_SOURCES.contains(&name.split('/').next().unwrap_or_default()) {
            continue;
        }
        let bytes = read(&path)?;
        input.extend_from_slice(format!("{name}\n{}\n", bytes.len()).as_bytes());
        input.extend_from_slice(&bytes);
    }
    Ok(sha256::hex(&input))
}

#[expect(clippy::disallowed_methods, reason = "a developer command works on the tree")]
fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

#[expect(clippy::disallowed_methods, reason = "a developer command works on the tree")]
fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}

/// Every file below `folder`, sorted; packages are not looked into.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "node_modules" {
                found.extend(files(&entry.path())?);
            }
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Puts what was built where the crate includes it.
fn install(out: &Path) -> io::Result<StepOutcome> {
    let root = workspace::root();
    let dist = root.join("crates/ui/dist");
    if dist.exists() {
        fs::remove_dir_all(&dist)?;
    }
    for path in files(out)? {
        let name = path.strip_prefix(out).map_err(io::Error::other)?;
        if name == Path::new("table.rs") {
            fs::copy(&path, root.join("crates/ui/src/table.rs"))?;
            continue;
        }
        let target = dist.join(name);
        fs::create_dir_all(target.parent().unwrap_or(&dist))?;
        fs::copy(&path, target)?;
    }
    write(&root.join(SOURCES), &format!("{}\n", sources_digest(&root)?))?;
    Ok(StepOutcome::Passed)
}

/// Compares what was built with what is committed. Packed files may differ between versions of zlib, so they are unpacked by another step.
fn compare(out: &Path) -> io::Result<StepOutcome> {
    let root = workspace::root();
    let dist = root.join("crates/ui/dist");
    let names = |folder: &Path| -> io::Result<Vec<PathBuf>> {
        let names = files(folder)?.into_iter();
        Ok(names.filter_map(|path| path.strip_prefix(folder).ok().map(Path::to_owned)).collect())
    };
    let built: Vec<PathBuf> =
        names(out)?.into_iter().filter(|name| name != Path::new("table.rs")).collect();
    let kept: Vec<PathBuf> =
        names(&dist)?.into_iter().filter(|name| name != Path::new("SOURCES")).collect();
    let mut is_same = built == kept;
    for name in &built {
        let is_packed = name.extension().is_some_and(|ending| ending == "gz" || ending == "br");
        if !is_packed && read(&out.join(name))? != read(&dist.join(name)).unwrap_or_default() {
            eprintln!("crates/ui/dist/{}: is not what ui/ makes; run: cargo x ui", name.display());
            is_same = false;
        }
    }
    is_same &= read(&out.join("table.rs"))? == read(&root.join("crates/ui/src/table.rs"))?;
    if !is_same {
        eprintln!("crates/ui is not what ui/ makes; run: cargo x ui");
    }
    Ok(if is_same { StepOutcome::Passed } else { StepOutcome::Failed(1) })
}
