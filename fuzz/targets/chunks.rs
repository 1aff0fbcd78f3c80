//! Any chunked body.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lyceum_fuzz::chunks::check(data));
