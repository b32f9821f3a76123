//! The list of faults: blocks of lines.
//!
//! ```text
//! = name: what is wrong
//! file: crates/lsm/src/wal/mod.rs
//! test: -p kallisto-lsm --lib wal::
//! -         self.sync()?;
//! -         Ok(self.segment.take())
//! +         Ok(self.segment.take())
//! ```
//!
//! The lines behind `- ` stand in the file exactly once, one behind the other; those behind `+ ` take their place. So a fault stays
//! where it is when lines move, and says so when its piece of code is gone. Empty lines and those that begin with `#` say nothing.

/// A fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PlantedBug {
    pub(super) name: String,
    pub(super) about: String,
    /// Below the workspace.
    pub(super) file: String,
    /// Arguments of `cargo test`.
    pub(super) tests: String,
    before: String,
    after: String,
}

impl PlantedBug {
    /// The text of its file with the fault in it.
    pub(super) fn plant(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.before).count() {
            1 => Ok(text.replacen(&self.before, &self.after, 1)),
            0 => Err("the piece to change is not there (any more)".to_owned()),
            count => Err(format!("the piece to change is there {count} times")),
        }
    }

    fn check(self) -> Result<Self, String> {
        let whole = [&self.file, &self.tests, &self.before].iter().all(|part| !part.is_empty());
        if !whole || self.before == self.after {
            return Err(format!("{}: a file, tests, lines and what takes their place", self.name));
        }
        Ok(self)
    }
}

/// Reads the list.
pub(super) fn parse(text: &str) -> Result<Vec<PlantedBug>, String> {
    let mut bugs: Vec<PlantedBug> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(head) = line.strip_prefix("= ") {
            let (name, about) =
                head.split_once(": ").ok_or_else(|| format!("line {number}: `= name: what`"))?;
            if bugs.iter().any(|bug| bug.name == name) {
                return Err(format!("line {number}: there is another {name}"));
            }
            let (name, about) = (name.to_owned(), about.to_owned());
            bugs.push(PlantedBug { name, about, ..PlantedBug::default() });
            continue;
        }
        let bug = bugs.last_mut().ok_or_else(|| format!("line {number}: of no fault"))?;
        if let Some(file) = line.strip_prefix("file: ") {
            bug.file = file.to_owned();
        } else if let Some(tests) = line.strip_prefix("test: ") {
            bug.tests = tests.to_owned();
        } else if let Some(code) = line.strip_prefix("- ") {
            bug.before.push_str(code);
            bug.before.push('\n');
        } else if let Some(code) = line.strip_prefix("+ ") {
            bug.after.push_str(code);
            bug.after.push('\n');
        } else {
            return Err(format!("line {number}: none of `= `, `file: `, `test: `, `- `, `+ `"));
        }
    }
    bugs.into_iter().map(PlantedBug::check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    const LIST: &str = "# a comment\n= one: what\nfile: a.rs\ntest: -p a\n- b\n- c\n+ d\n";

    #[test]
    fn faults_are_read_and_planted_where_they_fit_once() {
        let bugs = parse(LIST).unwrap();
        assert_eq!((bugs.len(), bugs[0].name.as_str(), bugs[0].tests.as_str()), (1, "one", "-p a"));
        assert_eq!(bugs[0].plant("a\nb\nc\ne\n").unwrap(), "a\nd\ne\n");
        assert!(bugs[0].plant("a\n").is_err());
        assert!(bugs[0].plant("b\nc\nb\nc\n").is_err());
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let twice = format!("{LIST}{LIST}");
        for bad in ["- a\n", "= one\n", "= one: what\n", "what\n", &twice, "= a: b\nfile: x\n"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    /// A fault whose piece of code is gone would never be planted again, and nobody would miss it.
    #[test]
    fn every_fault_of_the_list_fits_its_file_as_it_is() {
        let root = workspace::root();
        let text = std::fs::read_to_string(root.join(super::super::LIST)).unwrap();
        let bugs = parse(&text).unwrap();
        assert!(bugs.len() >= 25);
        for bug in bugs {
            let whole = std::fs::read_to_string(root.join(&bug.file)).unwrap_or_default();
            let planted = bug.plant(&whole);
            assert!(planted.is_ok(), "{} in {}: {planted:?}", bug.name, bug.file);
        }
    }
}
