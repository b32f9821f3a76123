//! Any bytes are policies or are refused; a compiled set decides as it explains, and what it says of
//! a path's capabilities is what it decides.
//!
//! The input is policies and then one list of paths, divided by NUL; the paths by line ends.

use std::borrow::Cow;
use std::sync::Arc;

use kallisto_auth::acl::Reason;
use kallisto_auth::{
    AclSet, Capability, NoIdentity, Operation, Path, Policy, PolicyName, Subject, TemplateSubject,
    Timestamp, Variable,
};

/// What policies are made of.
pub(crate) const WORDS: &[&[u8]] = &[
    b"path \"a/b\" { policy = \"read\" }",
    b"path \"a/+\" { policy = \"deny\" }",
    b"path \"A/*\" { capabilities = [\"deny\"] }",
    b"path \"+/b/c*\" { capabilities = [\"read\", \"list\"] }",
    b"path \"{{identity.entity.id}}/x\" { policy = \"write\" }",
    b"{\"path\":{\"a\":{\"policy\":\"read\"}}}",
    b"path \"",
    b"\" {",
    b"}",
    b"capabilities = [",
    b"\"read\"",
    b"\"deny\"",
    b"\"sudo\"",
    b"]",
    b"allowed_parameters = { \"*\" = [] }",
    b"denied_parameters = { a = [\"x*\"] }",
    b"required_parameters = [\"a\"]",
    b"min_wrapping_ttl = \"1h\"",
    b"expiration = \"2030-01-01T00:00:00Z\"",
    b"pagination_limit = 5",
    b"+",
    b"*",
    b"/",
    b"+*",
    b"{{",
    b"}}",
    b"\0",
    b"\0a/b\nA/B\na/b/c/\na",
    b"\n",
    b"\xc3\xa9",
];

/// Most policies of one input.
const POLICIES_MAX: usize = 4;
/// Most paths of one input.
const PATHS_MAX: usize = 8;

struct PolicyAsk<'a>(Capability, &'a Path<'a>);

impl Subject for PolicyAsk<'_> {
    fn operation(&self) -> Operation {
        match self.0 {
            Capability::List => Operation::List,
            Capability::Scan => Operation::Scan,
            _ => Operation::Read,
        }
    }

    fn path(&self) -> &Path<'_> {
        self.1
    }

    fn capability(&self) -> Capability {
        self.0
    }

    fn needs_sudo(&self) -> bool {
        false
    }
}

struct Everyone;

impl TemplateSubject for Everyone {
    fn value(&self, _: &Variable) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed("a"))
    }
}

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let mut parts: Vec<&[u8]> = bytes.split(|&byte| byte == 0).take(POLICIES_MAX + 1).collect();
    let paths = if parts.len() > 1 { parts.pop().unwrap_or_default() } else { b"a/b\na/B/" };
    let policies: Vec<Arc<Policy>> =
        parts.iter().filter_map(|part| read(part)).map(Arc::new).collect();
    let paths = std::str::from_utf8(paths).unwrap_or("a");
    for identity in [&NoIdentity as &dyn TemplateSubject, &Everyone] {
        let acl = AclSet::compile(&policies, identity, Timestamp::UNIX_EPOCH);
        for path in paths.lines().take(PATHS_MAX) {
            if let Ok(path) = Path::decode(path) {
                check(&acl, &path);
            }
        }
    }
}

fn read(text: &[u8]) -> Option<Policy> {
    let name = PolicyName::parse("p").ok()?;
    match Policy::parse(name, std::str::from_utf8(text).ok()?) {
        Ok(policy) => Some(policy),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

fn check(acl: &AclSet, path: &Path<'_>) {
    let held = acl.capabilities(path.as_str());
    for capability in Capability::ALL {
        let ask = PolicyAsk(capability, path);
        let granted = acl.decide(&ask).is_ok();
        let explanation = acl.explain(&ask);
        assert_eq!(explanation.is_granted(), granted);
        assert_eq!(explanation.decided_by.is_none(), explanation.reason == Reason::NoRule);
        let is_listing = matches!(capability, Capability::List | Capability::Scan);
        if granted && (is_listing == path.is_folder()) {
            assert!(held.has(capability), "{capability:?} is decided and not held");
        }
        assert!(!(granted && capability == Capability::Deny));
    }
}
