//! Tests of `cors`.
