//! Any event written and any stream read.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lyceum_fuzz::sse::check(data));
