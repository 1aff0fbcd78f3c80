//! Any bytes as a body.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lyceum_fuzz::envelope::check(data));
