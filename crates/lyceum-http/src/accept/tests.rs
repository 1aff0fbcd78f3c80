//! Tests of `accept`.
