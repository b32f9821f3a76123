//! The process: `kallisto server` with a configuration, its output, its end.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;

use rustix::process::{Pid, Signal, kill_process};

use super::{Client, Directory, PATIENCE, share_of, until};

/// A running server; it is killed with the value.
pub(crate) struct Server {
    process: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    log: PathBuf,
    log_start: usize,
}

/// What initialisation handed out.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Shares of the unseal key, hexadecimal.
    pub(crate) shares: Vec<String>,
    /// Shares of the recovery key.
    pub(crate) recovery: Vec<String>,
    /// The root token.
    pub(crate) root: String,
}

/// How a server that did not stay ended.
#[derive(Debug)]
pub(crate) struct Exit {
    /// The exit code; `None` after a signal.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// `kallisto` in a directory, with nothing of the tester's environment.
fn command(home: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kallisto"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .envs(environment.iter().copied())
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// Runs `kallisto` to its end.
pub(crate) fn run(home: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> Exit {
    let mut process = command(home, environment, arguments).stderr(Stdio::piped()).spawn().unwrap();
    let status = wait(&mut process);
    let mut exit = Exit { code: status.code(), stdout: String::new(), stderr: String::new() };
    process.stdout.take().unwrap().read_to_string(&mut exit.stdout).unwrap();
    process.stderr.take().unwrap().read_to_string(&mut exit.stderr).unwrap();
    exit
}

/// Starts a server that must refuse to, and returns what it said.
#[track_caller]
pub(crate) fn refuse(directory: &Directory, config: &str, environment: &[(&str, &str)]) -> String {
    let path = directory.write("refused.hcl", config);
    let argument = format!("-config={}", path.display());
    let exit = run(&directory.join(""), environment, &["server", &argument]);
    assert_eq!(exit.code, Some(1), "{exit:?}");
    exit.stderr
}

/// Starts a server whose standard output is `stdout`, stops it once its log says `told`, and returns the code with which it ended.
#[track_caller]
pub(crate) fn stop_once_told(
    directory: &Directory,
    config: &str,
    stdout: std::fs::File,
    told: &str,
) -> Option<i32> {
    let (path, log) = (directory.write("server.hcl", config), directory.join("log"));
    let argument = format!("-config={}", path.display());
    let mut process = command(&directory.join(""), &[], &["server", &argument])
        .stdout(stdout)
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut said = String::new();
    until(told, || {
        said = std::fs::read_to_string(&log).unwrap();
        said.contains(told) || process.try_wait().unwrap().is_some()
    });
    let pid = Pid::from_child(&process);
    let _ = kill_process(pid, Signal::TERM);
    let ended = wait(&mut process);
    assert!(said.contains(told), "{said}");
    ended.code()
}

fn wait(process: &mut Child) -> ExitStatus {
    let mut ended = None;
    until("a process to end", || {
        ended = process.try_wait().unwrap();
        ended.is_some()
    });
    ended.unwrap()
}

impl Server {
    /// Starts one with this configuration and waits until it listens.
    #[track_caller]
    pub(crate) fn start(directory: &Directory, config: &str) -> Self {
        Self::start_with(directory, config, &[])
    }

    /// The same with an environment.
    #[track_caller]
    pub(crate) fn start_with(
        directory: &Directory,
        config: &str,
        environment: &[(&str, &str)],
    ) -> Self {
        let path = directory.write("server.hcl", config);
        Self::spawn(directory, environment, &[&format!("-config={}", path.display())])
    }

    /// Starts one with these arguments and waits until it listens.
    #[track_caller]
    pub(crate) fn spawn(
        directory: &Directory,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let log = directory.join("log");
        let out = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let log_start = std::fs::read(&log).unwrap().len();
        let mut all = vec!["server", "-workers=2"];
        all.extend_from_slice(arguments);
        let mut process =
            command(&directory.join(""), environment, &all).stderr(out).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // Whoever listened has heard enough; the pipe must not fill all the same.
                let _ = tell.send(line);
            }
        });
        let address = loop {
            let line = told.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| {
                let _ = process.kill();
                panic!("no server: {}", std::fs::read_to_string(&log).unwrap())
            });
            if let Some(address) = announced(&line) {
                break address;
            }
        };
        Self { process, address, log, log_start }
    }

    /// A client without a token.
    pub(crate) fn anyone(&self) -> Client {
        Client::new(self.address, "")
    }

    /// A client with a token.
    pub(crate) fn client(&self, token: &str) -> Client {
        Client::new(self.address, token)
    }

    /// Initialises it, with `shares` of which `threshold` are enough.
    #[track_caller]
    pub(crate) fn initialize(&self, shares: u8, threshold: u8) -> Keys {
        let is_recovery = self.anyone().get("sys/seal-status").at("recovery_seal") == "true";
        let of = if is_recovery { "recovery" } else { "secret" };
        let body = format!(r#"{{"{of}_shares":{shares},"{of}_threshold":{threshold}}}"#);
        let reply = self.anyone().put("sys/init", &body);
        Keys {
            shares: reply.strings("keys"),
            recovery: reply.strings("recovery_keys"),
            root: reply.at("root_token"),
        }
    }

    /// Gives as many shares as it takes.
    #[track_caller]
    pub(crate) fn unseal(&self, keys: &Keys) {
        let mut client = self.anyone();
        let opened = keys
            .shares
            .iter()
            .any(|key| client.put("sys/unseal", &share_of(key)).at("sealed") == "false");
        assert!(opened, "still sealed after {} shares", keys.shares.len());
    }

    /// Whether it is sealed.
    pub(crate) fn is_sealed(&self) -> bool {
        self.anyone().get("sys/seal-status").at("sealed") == "true"
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()[self.log_start..]).into_owned()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        wait(&mut self.process)
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(mut self) -> ExitStatus {
        wait(&mut self.process)
    }

    /// Asks it to stop; it must do so with success.
    #[track_caller]
    pub(crate) fn stop(self) {
        let log = self.log.clone();
        let status = self.end(Signal::TERM);
        let said = || std::fs::read_to_string(&log).unwrap();
        assert_eq!(status.code(), Some(0), "{status}: {}", said());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then the test has failed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The address in a line that announces a listener.
fn announced(line: &str) -> Option<SocketAddr> {
    let line = line.trim_start();
    let text = line.strip_prefix("Listener: ").or_else(|| line.strip_prefix("Api Address: "))?;
    let text = text.trim_start_matches("https://").trim_start_matches("http://");
    text.split(' ').next()?.parse().ok()
}
