//! SQLite for Tidegate: a table sink and the position store.
