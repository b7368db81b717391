//! `.npz`: a zip archive of npy arrays.
//!
//! An array that is stored as it is is read where it lies; a compressed one is unpacked to a temporary file first, and
//! no further than its entry says.

use std::io::{Read, Seek};
use std::path::Path;

use zip::{CompressionMethod, ZipArchive};

use crate::error::FormatError;
use crate::flat::Flat;
use crate::held::Held;
use crate::options::chosen;
use crate::table::{guarded, header_error};

const FORMAT: &str = "an npz archive, which is a zip of npy files";
const ENDING: &str = ".npy";

/// The array called `dataset`, or the only one.
pub(crate) fn open(path: &Path, held: Held, dataset: Option<&str>) -> Result<Flat, FormatError> {
    let refused = |found| header_error(path, FORMAT, found);
    let mut archive = guarded(|| ZipArchive::new(held.clone())).map_err(refused)?;
    let names: Vec<String> = archive.file_names().map(str::to_owned).collect();
    let arrays: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(ENDING)).collect();
    let name = chosen(path, "array", &arrays, dataset)?;
    let array = guarded(|| member(&mut archive, &held, &format!("{name}{ENDING}"))).map_err(refused)?;
    Flat::npy(&path.join(name), array)
}

fn member<R: Read + Seek>(archive: &mut ZipArchive<R>, held: &Held, name: &str) -> Result<Held, String> {
    let entry = archive.by_name(name).map_err(|error| error.to_string())?;
    let size = entry.size();
    if entry.compression() == CompressionMethod::Stored {
        let start = entry.data_start().ok_or_else(|| format!("no place of the array {name}"))?;
        return held.part(start, size).ok_or_else(|| format!("an array {name} that is outside the file"));
    }
    let held = Held::spooled(&mut entry.take(size + 1)).map_err(|error| format!("{name}: {error}"))?;
    if held.size() == size {
        Ok(held)
    } else {
        Err(format!("an array {name} of {} bytes or more, whose entry says {size}", held.size()))
    }
}
