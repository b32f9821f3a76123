//! Running `ssh`: its options, the files that it reads, and its exit code.

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use secrecy::{ExposeSecret, SecretString};

use super::{Ssh, SshDestination};
use kallisto_command::config::Environment;
use kallisto_command::error::{EXIT_SERVER, Error};
use kallisto_command::files;
use kallisto_command::outcome::Outcome;

/// How often another name is tried for the directory.
const NAMES_MAX: u32 = 64;

/// A directory of the user's alone, which is gone when it is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn make(environment: &Environment<'_>) -> Result<Self, Error> {
        let parent = environment.plain("TMPDIR").unwrap_or_else(|| "/tmp".to_owned());
        for number in 0..NAMES_MAX {
            let name = format!("kallisto-ssh-{}-{number}", std::process::id());
            let path = Path::new(&parent).join(name);
            match files::create_private_directory(&path) {
                Ok(()) => return Ok(Self(path)),
                // Of a process that is gone, or of somebody who wants us to write there.
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                Err(why) => return Err(Error::Unusable(format!("{}: {why}", path.display()))),
            }
        }
        Err(Error::Unusable(format!("there is no place for a directory in {parent}")))
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
        let path = self.0.join(name);
        files::write_private(&path, bytes)
            .map_err(|why| Error::Unusable(format!("{}: {why}", path.display())))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is in it is no secret: a certificate without its key, and the key of a CA.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A run of `ssh`.
pub(super) struct SshSession {
    program: String,
    options: Vec<OsString>,
    destination: String,
    arguments: Vec<String>,
}

impl SshSession {
    pub(super) fn new(ssh: &Ssh, destination: &SshDestination) -> Self {
        let mut session = Self {
            program: ssh.ssh_executable.clone().unwrap_or_else(|| "ssh".to_owned()),
            options: Vec::new(),
            destination: destination.text(),
            arguments: ssh.arguments.clone(),
        };
        if let Some(word) = &ssh.strict_host_key_checking {
            session.option("StrictHostKeyChecking", word);
        }
        if let Some(file) = &ssh.user_known_hosts_file {
            session.option("UserKnownHostsFile", file);
        }
        session
    }

    /// Sets an option of `ssh`. Of two values it takes the first.
    pub(super) fn option(&mut self, name: &str, value: &str) {
        self.options.extend(["-o".into(), format!("{name}={value}").into()]);
    }

    /// The private key.
    pub(super) fn identity(&mut self, path: &Path) {
        self.options.extend(["-i".into(), path.into()]);
    }

    /// Trusts the hosts of a file of known hosts, and no others, whatever else was said.
    pub(super) fn trust(&mut self, file: &Path) {
        let mut first = Vec::new();
        std::mem::swap(&mut first, &mut self.options);
        self.option("UserKnownHostsFile", &file.display().to_string());
        self.option("GlobalKnownHostsFile", "none");
        self.option("StrictHostKeyChecking", "yes");
        self.options.append(&mut first);
    }

    fn fill(&self, command: &mut Command) {
        command.args(&self.options);
        // Options that the user gives stand before the destination, where `ssh` reads them; the rest is a command for the host.
        let (options, words) = split(&self.arguments);
        command.args(options).arg(&self.destination).args(words);
    }

    pub(super) fn run(self) -> Result<Outcome, Error> {
        let mut command = Command::new(&self.program);
        self.fill(&mut command);
        let status = command.status().map_err(|why| self.unrunnable(&why))?;
        Ok(Outcome::default().with_code(code(status)))
    }

    /// Runs it under `sshpass`, or where there is none shows the password first.
    pub(super) fn run_with_password(self, password: &SecretString) -> Result<Outcome, Error> {
        let mut command = Command::new("sshpass");
        command.env("SSHPASS", password.expose_secret()).arg("-e").arg(&self.program);
        self.fill(&mut command);
        match command.status() {
            Ok(status) => return Ok(Outcome::default().with_code(code(status))),
            Err(why) if why.kind() == ErrorKind::NotFound => {}
            Err(why) => return Err(self.unrunnable(&why)),
        }
        // Here and not in the outcome: `ssh` asks for it while this process waits.
        let told = writeln!(
            std::io::stderr(),
            "sshpass was not found, which would type the one-time password. Type it where ssh asks for \
             the password:\n{}",
            password.expose_secret()
        );
        told.map_err(|why| Error::Unusable(format!("the password cannot be shown: {why}")))?;
        self.run()
    }

    fn unrunnable(&self, why: &std::io::Error) -> Error {
        Error::Unusable(format!("{} cannot be run: {why}", self.program))
    }
}

/// The options among the arguments, and what comes after them. Which options of `ssh` take a value is in its manual.
fn split(arguments: &[String]) -> (&[String], &[String]) {
    const WITH_VALUE: &str = "BbcDEeFIiJLlmOoPpQRSWw";
    let mut at = 0;
    while let Some(option) = arguments.get(at).filter(|word| word.starts_with('-')) {
        if option == "--" {
            return (&arguments[..at], &arguments[at + 1..]);
        }
        let takes_next = option.len() == 2 && option.ends_with(|c| WITH_VALUE.contains(c));
        at += if takes_next { 2 } else { 1 };
    }
    arguments.split_at(at.min(arguments.len()))
}

/// The exit code of `ssh`; that of a refusal where a signal ended it.
fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_SERVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_ssh_are_told_from_the_command_for_the_host() {
        for (given, options) in [
            (&["-p", "22", "uptime", "-p"][..], 2),
            (&["-v"], 1),
            (&["-oBatchMode=yes", "-o", "X=y", "ls", "-la"], 3),
            (&["ls", "-p", "22"], 0),
            (&["-vv", "-p22", "true"], 2),
            (&["-p"], 1),
            (&[], 0),
        ] {
            let given: Vec<String> = given.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(split(&given).0.len(), options, "{given:?}");
            assert_eq!(split(&given).0.len() + split(&given).1.len(), given.len());
        }
        let given = ["-v", "--", "-x"].map(str::to_owned);
        assert_eq!(split(&given), (&given[..1], &given[2..]));
    }
}
