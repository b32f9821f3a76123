//! Names of namespaces and objects of a cluster.

use kallisto_api::Error;

/// Longest name of an object, in bytes.
const OBJECT_NAME_BYTES_MAX: usize = 253;
/// Longest name of a namespace, in bytes.
const NAMESPACE_BYTES_MAX: usize = 63;

/// Refuses what is no name of a namespace: a label of RFC 1123.
pub(super) fn check_namespace(name: &str) -> Result<(), Error> {
    if name.len() <= NAMESPACE_BYTES_MAX && is_label(name) {
        return Ok(());
    }
    Err(Error::invalid(format!("{name:?} is no name of a Kubernetes namespace")))
}

/// Whether a text is a name of an object: labels of RFC 1123 with dots between.
pub(super) fn is_object_name(name: &str) -> bool {
    name.len() <= OBJECT_NAME_BYTES_MAX && name.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(fits) && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether a text can be the name of a role, which is a part of a path.
pub(super) fn is_role_name(name: &str) -> bool {
    let is_bad = |c: char| c.is_control() || matches!(c, '/' | '%');
    name.len() <= OBJECT_NAME_BYTES_MAX && !matches!(name, "." | "..") && !name.contains(is_bad)
}
