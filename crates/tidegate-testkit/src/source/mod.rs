mod control;
mod log;
mod script;
mod scripted;
mod state;

pub use control::SourceControl;
pub use scripted::ScriptedSource;
