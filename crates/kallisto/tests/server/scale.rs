//! `bench scale`, small: that it fills, starts, counts and cleans up; how fast is no matter here.

use crate::support::{Directory, run};

#[test]
fn a_small_run_counts_what_it_put_in_and_what_it_revoked() {
    let directory = Directory::new("scale");
    let work = directory.join("work");
    let work = format!("-directory={}", work.display());
    let sizes = ["-secrets=40", "-tokens=20", "-children=10", "-mounts=3", "-json", &work];
    let exit = run(&directory.join(""), &[], &[&["bench", "scale"], &sizes[..]].concat());
    assert_eq!(exit.code, Some(0), "{exit:?}");
    // The parent and its ten children.
    assert!(exit.stdout.contains("\"revoked\":11,"), "{exit:?}");
    for stage in ["nothing", "secrets", "tokens", "mounts"] {
        assert!(exit.stdout.contains(&format!("{{\"after\":\"{stage}\",")), "{exit:?}");
    }
    let again = run(&directory.join(""), &[], &["bench", "scale", &work]);
    assert_eq!(again.code, Some(2), "a directory that is there cannot be used: {again:?}");
    assert!(again.stderr.contains("cannot make"), "{again:?}");
}
