//! `.safetensors`: a header in JSON, and tensors one after the other.

use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::Metadata;

use crate::error::FormatError;
use crate::flat::{Flat, Layout};
use crate::held::Held;
use crate::numbers::NumberType;
use crate::options::chosen;
use crate::table::header_error;

/// The longest header that is read: a model of ten thousand tensors has one of a megabyte.
pub const TENSORS_HEADER_BYTES_MAX: u64 = 16 * 1024 * 1024;

const FORMAT: &str = "a safetensors file";

/// The tensor called `dataset`, or the only one.
pub(crate) fn open(path: &Path, held: Held, dataset: Option<&str>) -> Result<Flat, FormatError> {
    let refused = |found: String| header_error(path, FORMAT, found);
    let start = held.beginning(8).map_err(FormatError::io(path))?;
    let length = start.first_chunk::<8>().map(|&length| u64::from_le_bytes(length));
    let length = length.ok_or_else(|| refused(format!("a file of {} bytes", start.len())))?;
    if length > TENSORS_HEADER_BYTES_MAX {
        return Err(refused(format!("a header of {length} bytes, more than {TENSORS_HEADER_BYTES_MAX}")));
    }
    let header =
        held.part(8, length).ok_or_else(|| refused("a file that ends within its header".to_owned()))?;
    let length_in_memory = usize::try_from(length).expect("it is below the limit");
    let header = header.beginning(length_in_memory).map_err(FormatError::io(path))?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| refused(format!("a header that cannot be read ({error})")))?;
    let names = metadata.offset_keys();
    // INVARIANT: the header was checked when it was decoded, so tensors lie one after the other.
    let end =
        names.last().and_then(|name| metadata.info(name)).map_or(0, |tensor| tensor.data_offsets.1 as u64);
    let found = held.size() - 8 - length;
    if found != end {
        return Err(header_error(path, &format!("{end} bytes of tensors"), format!("{found} bytes")));
    }
    let name = chosen(path, "tensor", &names.iter().map(String::as_str).collect::<Vec<_>>(), dataset)?;
    let tensor = metadata.info(name).expect("a name of the header");
    let number = number(tensor.dtype).ok_or_else(|| {
        let found = format!("tensor {name} of {:?}", tensor.dtype);
        header_error(path, "a tensor of F16, BF16, F32, F64 or integers", found)
    })?;
    let &[rows, columns] = tensor.shape.as_slice() else {
        let found = format!("tensor {name} of shape {:?}", tensor.shape);
        return Err(header_error(path, "a tensor of two dimensions", found));
    };
    let (start, end) = tensor.data_offsets;
    let part =
        held.part(8 + length + start as u64, (end - start) as u64).expect("all tensors are in the file");
    let layout = Layout {
        number,
        big_endian: false,
        fortran_order: false,
        rows: rows as u64,
        columns: columns as u64,
        start: 0,
        row_head: 0,
    };
    Flat::new(path, part, layout)
}

fn number(dtype: Dtype) -> Option<NumberType> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the types of other crates that no vector has")]
    match dtype {
        Dtype::F16 => Some(NumberType::F16),
        Dtype::BF16 => Some(NumberType::Bf16),
        Dtype::F32 => Some(NumberType::F32),
        Dtype::F64 => Some(NumberType::F64),
        Dtype::I8 => Some(NumberType::I8),
        Dtype::U8 => Some(NumberType::U8),
        Dtype::I16 => Some(NumberType::I16),
        Dtype::U16 => Some(NumberType::U16),
        Dtype::I32 => Some(NumberType::I32),
        Dtype::U32 => Some(NumberType::U32),
        Dtype::I64 => Some(NumberType::I64),
        Dtype::U64 => Some(NumberType::U64),
        _ => None,
    }
}
