//! A file of the storage that was damaged while the server was stopped.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use data_encoding::HEXLOWER;

use crate::support::{Directory, Server};

#[test]
fn a_server_whose_records_are_damaged_ends_and_names_the_file() {
    let directory = Directory::new("damaged");
    let seal = HEXLOWER.encode(&(7..39).collect::<Vec<u8>>());
    let config = directory.config(&format!(
        "seal \"static\" {{\n  current_key_id = \"a\"\n  current_key = \"{seal}\"\n}}"
    ));
    let server = Server::start(&directory, &config);
    let keys = server.initialize(1, 1);
    let mut client = server.client(&keys.root);
    client.put("sys/mounts/kv", r#"{"type":"kv"}"#);
    for n in 0..200 {
        client.put(&format!("kv/{n}"), &format!(r#"{{"a":"{}"}}"#, "v".repeat(500)));
    }
    drop(client);
    server.stop();
    let files = std::fs::read_dir(directory.join("data/engine")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|end| end == "sst"));
    let largest = tables.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let file = OpenOptions::new().write(true).open(&largest).unwrap();
    file.write_all_at(&[0; 64], file.metadata().unwrap().len() / 4).unwrap();
    let server = Server::start(&directory, &config);
    let log = directory.join("log");
    assert_eq!(server.ended().code(), Some(1));
    let log = std::fs::read_to_string(log).unwrap();
    let ended = log.lines().rev().find(|line| line.contains("the storage failed")).unwrap();
    assert!(ended.contains(largest.to_str().unwrap()), "{ended}");
}
