//! Developer commands behind `cargo x`.
fn main() {}
