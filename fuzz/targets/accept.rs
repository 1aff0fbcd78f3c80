//! Any bytes as Accept lines.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lyceum_fuzz::accept::check(data));
