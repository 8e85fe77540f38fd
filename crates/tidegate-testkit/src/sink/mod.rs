mod control;
mod probe;

pub use control::SinkControl;
pub use probe::ProbeSink;
