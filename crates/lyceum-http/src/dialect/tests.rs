//! Tests of `dialect`.
