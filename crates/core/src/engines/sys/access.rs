//! `sys/kallisto/access/who`: who may do something at a path, and by which line of which policy.
//!
//! For operators. Subjects come in this order, each kind by its name for itself: entities, groups (what being in one gives), roles and
//! users of login methods (what a login would give, without the identity of whoever logs in), tokens. Each is decided as a request of its
//! own would be, for a request that carries nothing but a path and a capability ([`explain`](super::explain)).
//!
//! Bounds: [`SUBJECTS_MAX`] subjects are looked at in a question, and `next` goes on. Sets of policies without templates are decided once
//! each. A token that is an entity's is a subject of its own, with what the entity adds. Disabled entities and what has expired are left
//! out, and so are batch tokens, which are kept nowhere.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use kallisto_auth::{AclSet, NoIdentity, TokenKind};

use super::explain::{ExplainQuestion, question};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json};
use crate::api::response::Response;
use crate::dispatch::route_handler::RouteCall;
use crate::identity::directory::Person;
use crate::identity::record::IdentityId;
use crate::storage::engine_storage::EngineStorage;
use crate::view::NamespaceContext;
use crate::view::{Mount, TokenSet};
use kallisto_engine::Class;
use kallisto_engine::pace::cooperative_yield;

/// Subjects that one question looks at.
const SUBJECTS_MAX: usize = 20_000;
/// Subjects that are taken in hand at once.
const SUBJECTS_AT_ONCE: usize = 256;
/// Where login methods keep what a login is judged by.
const ROLE_FOLDERS: [&str; 3] = ["cert/", "role/", "user/"];

/// A kind of subject, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SubjectKind {
    Entity,
    Group,
    Role,
    Token,
}

/// By what a subject is granted.
#[derive(Clone, Debug)]
struct Via {
    policy: String,
    line: u32,
}

/// A question under way.
struct Review<'a> {
    context: &'a NamespaceContext,
    question: ExplainQuestion,
    now: Timestamp,
    /// What sets of policies without templates come to.
    decided: HashMap<Vec<String>, Option<Via>>,
    left: usize,
    found: Vec<Json>,
}

/// Answers `POST sys/kallisto/access/who`.
///
/// # Errors
/// [`Error::Invalid`] for a path or capability that is none, or a `next` that is not ours.
pub(super) async fn who(run: &RouteCall<'_>) -> Result<Response, Error> {
    let body = run.call.object()?;
    let fields = Fields::new(&body);
    let text = |name: &str| Ok::<_, Error>(fields.string(name)?.unwrap_or_default());
    let capability = fields.string("capability")?.unwrap_or_else(|| "read".to_owned());
    let mut review = Review {
        context: &run.context,
        question: question(&run.context.view, &text("path")?, &capability)?,
        now: run.call.now,
        decided: HashMap::new(),
        left: SUBJECTS_MAX,
        found: Vec::new(),
    };
    let (mut kind, mut after) = match text("next")?.as_str() {
        "" => (SubjectKind::Entity, String::new()),
        next => place(next)?,
    };
    let next = loop {
        if let Some(at) = review.look_through(kind, after).await? {
            break Json::from(format!("{}:{at}", kind.name()));
        }
        match kind.next() {
            None => break Json::Null,
            Some(following) => (kind, after) = (following, String::new()),
        }
    };
    Ok(Response::data(&Json::object([("subjects", Json::Array(review.found)), ("next", next)])))
}

fn place(next: &str) -> Result<(SubjectKind, String), Error> {
    let wrong = || Error::invalid("'next' is not what this server gave; start over");
    let (kind, after) = next.split_once(':').ok_or_else(wrong)?;
    let kinds = [SubjectKind::Entity, SubjectKind::Group, SubjectKind::Role, SubjectKind::Token];
    let kind = kinds.into_iter().find(|known| known.name() == kind).ok_or_else(wrong)?;
    Ok((kind, after.to_owned()))
}

impl SubjectKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Entity => "entity",
            Self::Group => "group",
            Self::Role => "role",
            Self::Token => "token",
        }
    }

    const fn next(self) -> Option<Self> {
        match self {
            Self::Entity => Some(Self::Group),
            Self::Group => Some(Self::Role),
            Self::Role => Some(Self::Token),
            Self::Token => None,
        }
    }
}

impl Review<'_> {
    /// Looks at the subjects of one kind that come after one. Returns after which to go on, or `None` at their end.
    async fn look_through(
        &mut self,
        kind: SubjectKind,
        mut after: String,
    ) -> Result<Option<String>, Error> {
        loop {
            if self.left == 0 {
                return Ok(Some(after));
            }
            let count = SUBJECTS_AT_ONCE.min(self.left);
            let last = match kind {
                SubjectKind::Entity => self.entities(&after, count),
                SubjectKind::Group => self.groups(&after, count),
                SubjectKind::Role => self.roles(&after, count)?,
                SubjectKind::Token => self.tokens(&after, self.left),
            };
            cooperative_yield().await;
            match last {
                Some(last) => after = last,
                None => return Ok(None),
            }
        }
    }

    fn entities(&mut self, after: &str, count: usize) -> Option<String> {
        let after = IdentityId::parse(after);
        let directory = &self.context.view;
        let entities = directory.ask_directory(|all| all.entities_after(after, count))?;
        for entity in &entities {
            self.left -= 1;
            if entity.disabled {
                continue;
            }
            let person = directory.ask_directory(|all| all.person(entity.id)).flatten();
            let Some(person) = person else { continue };
            let policies = person.policies().into_iter().collect();
            if let Some(via) = self.decide(policies, Some(&person)) {
                self.add(SubjectKind::Entity, &entity.id.to_string(), &entity.name, Some(via));
            }
        }
        entities.last().map(|entity| entity.id.to_string())
    }

    fn groups(&mut self, after: &str, count: usize) -> Option<String> {
        let after = IdentityId::parse(after);
        let groups = self.context.view.ask_directory(|all| all.groups_after(after, count))?;
        for (group, policies) in &groups {
            self.left -= 1;
            if let Some(via) = self.decide(policies.clone(), None) {
                self.add(SubjectKind::Group, &group.id.to_string(), &group.name, Some(via));
            }
        }
        groups.last().map(|(group, _)| group.id.to_string())
    }

    /// Roles and users, by mount and record: the place of one is both.
    fn roles(&mut self, after: &str, count: usize) -> Result<Option<String>, Error> {
        let mut mounts = self.context.view.mounts.all();
        mounts.retain(|mount| mount.entry.kind.class() == Class::Auth);
        for mount in mounts {
            for folder in ROLE_FOLDERS {
                let base = format!("{}\0{folder}", mount.entry.path);
                let inside = match after.strip_prefix(&base) {
                    Some(name) => Some(name),
                    None if base.as_str() < after => continue,
                    None => None,
                };
                let storage = EngineStorage::of(self.context, &mount);
                let names = storage.list_page(folder, inside, count);
                for name in &names {
                    self.left = self.left.saturating_sub(1);
                    if let Some(record) = storage.get(&format!("{folder}{name}"))? {
                        self.role(&mount, name, &record.value);
                    }
                }
                if let Some(last) = names.last() {
                    return Ok(Some(format!("{base}{last}")));
                }
            }
        }
        Ok(None)
    }

    /// A record of a login method, if it says which policies a login gives.
    fn role(&mut self, mount: &Mount, name: &str, record: &[u8]) {
        let Ok(role) = json::parse_object(record) else { return };
        let Ok(Some(policies)) = Fields::new(&role).strings("token_policies") else { return };
        let mut policies: BTreeSet<String> = policies.into_iter().collect();
        if role.get("token_no_default_policy") != Some(&true.into()) {
            policies.insert(kallisto_auth::policy::DEFAULT_NAME.to_owned());
        }
        if let Some(via) = self.decide(policies, None) {
            self.add(SubjectKind::Role, name, name, Some(via));
            self.note("mount", mount.entry.path.as_str().into());
        }
    }

    fn tokens(&mut self, after: &str, count: usize) -> Option<String> {
        let page = self.context.view.tokens.page(TokenSet::All, after, count);
        for (_, entry) in &page {
            self.left -= 1;
            let auth = &entry.auth;
            if auth.is_expired(self.now) {
                continue;
            }
            let is_root = auth.kind == TokenKind::Root;
            let via = match is_root {
                true => None,
                false => {
                    let person = self.context.view.person(entry);
                    let is_barred = match &person {
                        Some(person) => person.entity.disabled,
                        None => entry.entity_id.is_some(),
                    };
                    if is_barred {
                        continue;
                    }
                    let of_person = person.as_ref().map(Person::policies).unwrap_or_default();
                    let policies = auth.policies.iter().cloned().chain(of_person).collect();
                    match self.decide(policies, person.as_ref()) {
                        Some(via) => Some(via),
                        None => continue,
                    }
                }
            };
            self.add(SubjectKind::Token, &auth.accessor, &auth.display_name, via);
            let mounts = &self.context.view.mounts;
            let mount = mounts.route(&auth.path).map(|(mount, _)| mount.entry.path.clone());
            self.note("mount", mount.map_or(Json::Null, Json::from));
            let end = auth.expires_at.map_or(Json::Null, |end| end.to_string().into());
            self.note("expires", end);
            if is_root {
                self.note("root", true.into());
            }
        }
        page.last().map(|(_, entry)| entry.auth.accessor.clone())
    }

    /// What grants it to those who have these policies; `None` when nothing does.
    fn decide(&mut self, policies: BTreeSet<String>, person: Option<&Person>) -> Option<Via> {
        let names: Vec<String> = policies.into_iter().collect();
        if let Some(decided) = self.decided.get(&names) {
            return decided.clone();
        }
        let stored = self.context.view.policies.named(names.iter())?;
        let hangs_on_person =
            person.is_some() && stored.iter().any(|policy| policy.has_templates());
        let acl = match person.filter(|_| hangs_on_person) {
            Some(person) => AclSet::compile(&stored, person, self.now),
            None => AclSet::compile(&stored, &NoIdentity, self.now),
        };
        let via = acl.decide(&self.question).is_ok().then(|| self.via(&acl)).flatten();
        // Without a person a template grants nothing; with one it may.
        if !stored.iter().any(|policy| policy.has_templates()) {
            self.decided.insert(names, via.clone());
        }
        via
    }

    fn via(&self, acl: &AclSet) -> Option<Via> {
        let explanation = acl.explain(&self.question);
        let rule = explanation.decided_by?;
        let capability = self.question.capability();
        let grants = rule.sources.iter().find(|source| source.capabilities.has(capability));
        let source = grants.or_else(|| rule.sources.first())?;
        Some(Via { policy: source.policy.clone(), line: source.line })
    }

    fn add(&mut self, kind: SubjectKind, id: &str, name: &str, via: Option<Via>) {
        let via = via.map_or(Json::Null, |via| {
            let line = u64::from(via.line).into();
            Json::object([("policy", via.policy.as_str().into()), ("line", line)])
        });
        self.found.push(Json::object([
            ("kind", kind.name().into()),
            ("id", id.into()),
            ("name", name.into()),
            ("mount", Json::Null),
            ("via", via),
            ("expires", Json::Null),
        ]));
    }

    /// Adds to the subject that was found last.
    fn note(&mut self, name: &str, value: Json) {
        if let Some(Json::Object(subject)) = self.found.last_mut() {
            subject.insert(name.into(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::Update;

    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};

    /// A question may look at fewer subjects than there are, and goes on behind the last.
    #[test]
    fn each_kind_is_looked_at_as_far_as_a_question_may_and_from_there_on() {
        let core = open_core(RouteAccess::Token);
        let write = |path: &str, body: &str| ask(&core, Some(ROOT), Update, path, body).unwrap();
        let rule = r#"{"policy":"path \"a\" { capabilities = [\"read\"] }"}"#;
        write("sys/policies/acl/p", rule);
        for number in 0..5 {
            let body = format!(r#"{{"name":"n{number}","policies":["p"]}}"#);
            write("identity/entity", &body);
            write("identity/group", &body);
            let user = r#"{"password":"pw","token_policies":["p"]}"#;
            write(&format!("auth/userpass/users/n{number}"), user);
        }
        (0..4).for_each(|_| drop(write("auth/token/create", r#"{"policies":["p"]}"#)));
        let context = core.context.load_full().unwrap();
        let kinds =
            [SubjectKind::Entity, SubjectKind::Group, SubjectKind::Role, SubjectKind::Token];
        for kind in kinds {
            let (mut after, mut found) = (String::new(), Vec::new());
            loop {
                let mut review = Review {
                    context: &context,
                    question: question(&context.view, "a", "read").unwrap(),
                    now: Timestamp::UNIX_EPOCH,
                    decided: HashMap::new(),
                    left: 2,
                    found: Vec::new(),
                };
                let next = pollster::block_on(review.look_through(kind, after)).unwrap();
                found.push(review.found.len());
                match next {
                    Some(next) => after = next,
                    None => break,
                }
            }
            assert_eq!(found, [2, 2, 1], "{}", kind.name());
        }
    }
}
