//! Files: whatever the bytes, rows or a refusal.

#![no_main]

use dehub_format::fuzz_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzz_file("bvecs", bytes));
