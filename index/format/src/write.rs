//! Vectors written as `.npy`, for other tools to read.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use dehub_vector::Rows;
use npyz::WriterBuilder;

use crate::error::FormatError;

/// Writes `rows` as an npy file of version 1: little-endian float32 in C order. A file of that name is
/// replaced.
pub fn write_npy(path: &Path, rows: &Rows) -> Result<(), FormatError> {
    let write = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        let mut writer = npyz::WriteOptions::new()
            .dtype(npyz::DType::new_scalar("<f4".parse().expect("a type numpy knows")))
            .shape(&[rows.len() as u64, rows.dim() as u64])
            .writer(&mut file)
            .begin_nd()?;
        writer.extend(rows.as_slice().iter().copied())?;
        writer.finish()?;
        file.flush()
    };
    write().map_err(FormatError::io(path))
}
