//! Any routing headers with any body.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lyceum_fuzz::routing::check(data));
