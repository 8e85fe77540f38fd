//! Runs Tidegate pipelines: builder, coordinator, tasks, back-pressure, commits and drain, on tokio.
