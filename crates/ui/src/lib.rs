//! The web page as bytes: what `cargo x ui` made of `ui/`, committed in `dist/`.
//!
//! The listener asks [`asset`] for each path below `/ui/`; this crate knows nothing of HTTP beyond the names of content types, nor of any other
//! crate. `cargo build` needs no Node.js and no network: `dist/` is in the repository, and `table.rs` includes each of its files.
//!
//! Invariants:
//! - `dist/SOURCES` is the SHA-256 over `ui/` without its tests and packages. `cargo x tidy` compares it with what lies there, and
//!   `cargo x ui --check` builds the page anew and compares every byte.
//! - The name of a file below `assets/` contains a digest of its content, so it never changes and may be kept for ever.
//! - There is a shell, `index.html`, which answers every path that is not a file.
#![forbid(unsafe_code)]

use std::borrow::Cow;

mod table;

/// A file of the page.
#[derive(Clone, Debug)]
pub struct Asset {
    /// Its content type.
    pub content_type: &'static str,
    /// Its bytes.
    pub plain: Cow<'static, [u8]>,
    /// The same by gzip, for a file that gets smaller by it.
    pub gzip: Option<&'static [u8]>,
    /// The same by Brotli.
    pub brotli: Option<&'static [u8]>,
    /// A digest of its bytes, in hexadecimal; empty for one that is not from the table.
    pub digest: &'static str,
    /// Whether its name says what it holds, so that it never changes.
    pub is_immutable: bool,
}

/// A row of the table.
struct PageRow {
    path: &'static str,
    content_type: &'static str,
    plain: &'static [u8],
    gzip: Option<&'static [u8]>,
    brotli: Option<&'static [u8]>,
    digest: &'static str,
}

/// The shell, which starts the page at any of its routes.
const SHELL: &str = "index.html";
/// Where files have names that say what they hold.
const HASHED: &str = "assets/";

/// The file at `path` below `/ui/`, `None` where there is none.
#[must_use]
pub fn asset(path: &str) -> Option<Asset> {
    if let Some(folder) = working_folder() {
        return read_working(&folder, path);
    }
    let row = table::ROWS.iter().find(|row| row.path == path)?;
    Some(Asset {
        content_type: row.content_type,
        plain: Cow::Borrowed(row.plain),
        gzip: row.gzip,
        brotli: row.brotli,
        digest: row.digest,
        is_immutable: path.starts_with(HASHED),
    })
}

/// The shell, which answers every other path.
#[must_use]
pub fn shell() -> Option<Asset> {
    asset(SHELL)
}

/// Where `cargo x ui --watch` writes, for a debug build that was told to read from there.
fn working_folder() -> Option<String> {
    if cfg!(debug_assertions) { std::env::var("KALLISTO_UI_DIR").ok() } else { None }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a debug build reads the page that is being worked on"
)]
/// Reads a file of a page that is being worked on. Only names of the build are read, so no path leads out of the folder.
fn read_working(folder: &str, path: &str) -> Option<Asset> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if path.contains("..") || path.starts_with('/') || !path.bytes().all(is_name) {
        return None;
    }
    let content_type = match path.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        _ => return None,
    };
    let plain = std::fs::read(format!("{folder}/{path}")).ok()?;
    Some(Asset {
        content_type,
        plain: plain.into(),
        gzip: None,
        brotli: None,
        digest: "",
        is_immutable: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_is_there_and_names_only_files_that_are() {
        let shell = shell().unwrap();
        let text = String::from_utf8(shell.plain.into_owned()).unwrap();
        let mut named = 0;
        for part in text.split("/ui/").skip(1) {
            let path = part.split('"').next().unwrap();
            assert!(asset(path).is_some(), "{path}");
            named += 1;
        }
        assert!(named >= 3, "{text}");
        assert!(!shell.is_immutable);
    }

    #[test]
    fn what_is_kept_for_ever_has_its_digest_in_its_name() {
        for row in table::ROWS {
            let asset = asset(row.path).unwrap();
            assert!(!row.plain.is_empty() && row.digest.len() == 64, "{}", row.path);
            assert_eq!(asset.is_immutable, row.path.starts_with("assets/"));
            if asset.is_immutable {
                let stem = row.path.rsplit_once('.').unwrap().0;
                assert!(stem.rsplit_once('-').unwrap().1.len() >= 8, "{}", row.path);
            }
            for packed in [row.gzip, row.brotli].into_iter().flatten() {
                assert!(packed.len() < row.plain.len(), "{}", row.path);
            }
        }
        assert!(asset("nothing").is_none() && asset("../Cargo.toml").is_none());
    }

    #[test]
    fn a_working_folder_is_not_left() {
        let folder = env!("CARGO_MANIFEST_DIR");
        for path in
            ["../ui/Cargo.toml", "/etc/passwd", "src/lib.rs", "dist/index.html/../index.html"]
        {
            assert!(read_working(folder, path).is_none(), "{path}");
        }
        assert!(read_working(folder, "dist/index.html").is_some());
    }
}
