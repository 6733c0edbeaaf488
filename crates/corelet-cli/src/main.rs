//! The `corelet` command.
fn main() {}
