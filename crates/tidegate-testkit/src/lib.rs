//! Test kit for Tidegate: scripted sources, probe sinks, fault points, checkers and the conformance suites.
