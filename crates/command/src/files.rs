//! The one place where the client commands touch disk and standard input.
//!
//! Everything read is bounded by [`INPUT_BYTES_MAX`]. The token file is written so that only its
//! owner can ever read it: the mode is set when the file is made, not afterwards.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Most bytes taken from a file or from standard input: what a server takes as one request.
pub const INPUT_BYTES_MAX: u64 = 32 << 20;
/// Most files read from a directory of certificates.
const DIRECTORY_FILES_MAX: usize = 4096;

/// Reads a whole file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    #[expect(clippy::disallowed_methods, reason = "this is the disk seam of the command line")]
    let file = File::open(path)?;
    bounded(file)
}

/// Says on stderr that others may read a file which holds a secret, if they may. It is read all the same: what its mode is need not be up to who calls.
pub fn warn_if_exposed(path: &Path, what: &str) {
    if let Some(mode) = exposed_mode(path) {
        let text = format!(
            "WARNING! {}: others on this machine may read {what} (mode {mode:04o}): chmod 600 it, or keep it elsewhere\n",
            path.display()
        );
        // Nobody is left to hear that stderr is gone.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// The mode of a plain file that its group or others may read. A pipe has no mode that means something.
#[cfg(unix)]
fn exposed_mode(path: &Path) -> Option<u32> {
    let about = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mode = std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o7777;
    (mode & 0o044 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn exposed_mode(_: &Path) -> Option<u32> {
    None
}

/// Opens a file that is read line by line, however long it is: an audit file outgrows any bound.
pub fn open_lines(path: &Path) -> io::Result<io::BufReader<File>> {
    #[expect(clippy::disallowed_methods, reason = "this is the disk seam of the command line")]
    let file = File::open(path)?;
    Ok(io::BufReader::with_capacity(1 << 20, file))
}

/// Reads `from` to its end, or fails past [`INPUT_BYTES_MAX`].
pub fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        let text = format!("more than {INPUT_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// The plain files of a directory, sorted, so that errors are the same on every run.
pub fn files_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)?.take(DIRECTORY_FILES_MAX) {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Replaces `path` with a file that only its owner can read.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let fresh = PathBuf::from(name);
    let written = create_private(&fresh).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let done = written.and_then(|()| put_in_place(&fresh, path));
    if done.is_err() {
        // The error that matters is the one above.
        let _ = std::fs::remove_file(&fresh);
    }
    done
}

/// Replaces `path` with a file that only its owner can read and that `write` fills; a failure leaves nothing behind. A link stays, and
/// the file that it leads to is replaced. A pipe or a device, such as `/dev/stdout`, is written to: no file may take its place.
pub fn fill_private<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    if !is_replaceable(path) {
        let mut options = OpenOptions::new();
        // What others have written before stays.
        options.append(true);
        #[expect(clippy::disallowed_methods, reason = "this is the disk seam of the command line")]
        let mut file = options.open(path)?;
        return write(&mut file);
    }
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let fresh = PathBuf::from(name);
    let mut file = create_private(&fresh)?;
    let done = write(&mut file).and_then(|value| {
        file.sync_all()?;
        put_in_place(&fresh, path)?;
        Ok(value)
    });
    if done.is_err() {
        // The error that matters is the one above.
        let _ = std::fs::remove_file(&fresh);
    }
    done
}

/// Gives a file that is complete and synced the name of another, durably. The rename makes the change whole: a reader finds the old file or
/// the new one.
fn put_in_place(fresh: &Path, path: &Path) -> io::Result<()> {
    std::fs::rename(fresh, path)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    #[expect(clippy::disallowed_methods, reason = "this is the disk seam of the command line")]
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    match synced {
        // Some directories may be written to and not read, and some file systems do not sync any: the file is there.
        Err(error) if is_unsyncable(&error) => Ok(()),
        synced => synced,
    }
}

fn is_unsyncable(error: &io::Error) -> bool {
    use ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), PermissionDenied | InvalidInput | Unsupported)
}

/// Whether a file can take the place of what is at `path`: a file, or nothing. Names of streams of this process, such as `/dev/stdout`, are no place for one,
/// even if they lead to a file.
pub fn is_replaceable(path: &Path) -> bool {
    let is_stream =
        path.starts_with("/proc") || (path.starts_with("/dev") && !path.starts_with("/dev/shm"));
    !is_stream && std::fs::metadata(path).map_or(true, |about| about.is_file())
}

/// Replaces what is in a file that is there, and leaves whose it is and who may read it.
pub fn rewrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    #[expect(clippy::disallowed_methods, reason = "this is the disk seam of the command line")]
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes a directory that only its owner can enter.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// The same with what is missing above it; one that is there is left as it is.
pub fn create_private_directories(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    #[expect(clippy::disallowed_methods, reason = "this is the disk seam of the command line")]
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn fill(path: &Path) -> io::Result<()> {
        fill_private(path, |file| file.write_all(b"all"))
    }

    #[test]
    fn what_is_no_file_is_written_to_and_stays() {
        let directory =
            std::env::temp_dir().join(format!("kallisto-command-{}", std::process::id()));
        create_private_directory(&directory).unwrap();
        let link = directory.join("device");
        symlink("/dev/null", &link).unwrap();
        fill(&link).unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("/dev/null"));
        let (file, link) = (directory.join("file"), directory.join("link"));
        fill(&file).unwrap();
        write_private(&file, b"before").unwrap();
        symlink(&file, &link).unwrap();
        fill(&link).unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), file);
        assert_eq!(read(&file).unwrap(), b"all");
        assert!(fill(&directory).is_err());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
