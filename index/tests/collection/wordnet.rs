//! The bundled vectors of testdata/wordnet: 1,500 nouns, 400 definitions asked, 1,000 for a bank.

use std::fs;
use std::path::Path;

/// The rows of a little-endian float32 matrix in C order.
fn read(file: &str) -> Vec<Vec<f32>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/wordnet").join(file);
    let bytes = fs::read(&path).expect("testdata is part of the repository");
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let text = String::from_utf8_lossy(&bytes[10..header]);
    assert!(bytes.starts_with(b"\x93NUMPY\x01") && text.contains("<f4") && text.contains(", 128)"), "{text}");
    let numbers: Vec<f32> =
        bytes[header..].as_chunks::<4>().0.iter().map(|&it| f32::from_le_bytes(it)).collect();
    numbers.chunks_exact(128).map(<[f32]>::to_vec).collect()
}

pub(crate) const DIM: usize = 128;

pub(crate) fn gallery() -> Vec<Vec<f32>> {
    read("gallery.npy")
}

pub(crate) fn bank() -> Vec<Vec<f32>> {
    read("queries_bank.npy")
}

pub(crate) fn queries() -> Vec<Vec<f32>> {
    read("queries_test.npy")
}
