//! Files for Tidegate: a source for JSON lines, CSV and plain lines, and a sink.
