//! A notebook that nobody can read without its key: `cargo run -p kallisto-securedb --example notebook`.
//!
//! It makes a store in a temporary directory, writes, reads in order, changes keys and shows that the old one is refused.

use kallisto_securedb::{Error, SecureDb, WriteBatch, WriteDurability};

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Error> {
    let dir = std::env::temp_dir().join(format!("kallisto-notebook-{}", std::process::id()));
    // A real key comes from a keeper of keys or a file that only its owner can read.
    let (key, new_key) = ([1, 2].repeat(16), [3, 4].repeat(16));

    let db = SecureDb::open(&dir, &key)?;
    db.insert("diary/2026-11-22", b"snow")?;
    db.insert("shopping/milk", b"2")?;

    // Many at once, together or not at all; and faster, if a power cut may take the last tenth of a second.
    db.set_durability(WriteDurability::Batch)?;
    let mut batch = WriteBatch::new();
    for day in 1..=5 {
        batch.insert(&format!("diary/2026-12-{day:02}"), b"more snow")?;
    }
    batch.remove("shopping/milk");
    db.write(&batch)?;
    db.flush()?;

    for entry in db.scan("diary/") {
        let (name, value) = entry?;
        println!("{name}: {}", String::from_utf8_lossy(&value));
    }

    println!("records are sealed under key version {} from now on", db.rotate()?);
    let done = db.reencrypt(|_| ())?;
    println!("{} of {} records were sealed anew", done.rewritten, done.seen);
    db.change_key(&new_key)?;
    db.close()?;
    drop(db);

    println!("the old key: {:?}", SecureDb::open(&dir, &key).err());
    println!("the new key: {} names", SecureDb::open(&dir, &new_key)?.len());
    // What is left in the directory for temporary files is nobody's loss.
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}
