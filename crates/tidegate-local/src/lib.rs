//! The embedded log of Tidegate: topics, consumer groups and dead letters in one SQLite file.
