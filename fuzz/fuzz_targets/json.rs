//! JSON bodies of every route that has one of its own, and filters in words.

#![no_main]

use dehub_api::fuzzing::DECODERS;
use libfuzzer_sys::fuzz_target;

/// The decoders that the first byte chooses from.
const NAMES: &[&str] = &[
    "collection", "points", "ids", "bank", "correction", "live", "rule", "query", "search", "recommend", "discover",
    "batch", "filter", "filter_text",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let name = NAMES[usize::from(first) % NAMES.len()];
    let (_, decode) = DECODERS.iter().find(|(own, _)| *own == name).expect("a decoder of this name");
    if let Err(refusal) = decode(rest) {
        let status = refusal["status"].as_u64().expect("a status");
        assert!((400..500).contains(&status), "{refusal}");
    }
});
