//! Tables: whatever the bytes, rows or a refusal.

#![no_main]

use dehub_format::{ReadOptions, TableFormat, open_table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let table = open_table(TableFormat::Parquet, bytes.to_vec(), &ReadOptions::default(), 16 * 1024 * 1024);
    for batch in table.into_iter().flatten() {
        if let Err(error) = batch {
            assert!(!error.to_string().is_empty());
        }
    }
});
