//! The tidegate command: runs and checks declared pipelines.
fn main() {}
