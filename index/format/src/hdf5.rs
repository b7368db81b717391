//! HDF5, in the layout of ann-benchmarks or with any dataset of two dimensions.
//!
//! Datasets are read by windows of rows. Beside a window a chunk is held, of at most [`HDF5_CHUNK_BYTES_MAX`] once
//! decompressed, and the index of the chunks.

use std::path::{Path, PathBuf};

use dehub_vector::Metric;
use hdf5_pure::{AttrValue, Dataset, Datatype, DatatypeByteOrder, File};

use crate::error::FormatError;
use crate::held::Held;
use crate::numbers::NumberType;
use crate::options::chosen;
use crate::table::{guarded, header_error};

/// The largest chunk of a dataset that is read; h5py makes them of at most 1 MiB by itself.
pub const HDF5_CHUNK_BYTES_MAX: u64 = 64 * 1024 * 1024;

const FORMAT: &str = "an HDF5 file";
const NUMBERS: &str = "a dataset of float16, float32, float64 or integers";

/// The dataset of vectors in the layout of ann-benchmarks.
const TRAIN: &str = "train";

/// One dataset of a file.
pub(crate) struct Hdf5 {
    path: PathBuf,
    name: String,
    dataset: Dataset,
    number: (NumberType, bool),
    rows: u64,
    columns: u64,
    metric: Option<Metric>,
}

impl Hdf5 {
    /// The dataset called `dataset`; otherwise `train`, or the only one.
    pub(crate) fn open(path: &Path, held: Held, dataset: Option<&str>) -> Result<Hdf5, FormatError> {
        let refused = |found| header_error(path, FORMAT, found);
        let file = guarded(|| File::from_source(held)).map_err(refused)?;
        let root = file.root();
        let names = guarded(|| root.datasets()).map_err(refused)?;
        let metric = metric(path, &file)?;
        let train = names.iter().any(|name| name == TRAIN).then_some(TRAIN);
        // A path into a group is looked up as it is; the list has those of the root.
        let name = match dataset
            .filter(|name| name.contains('/'))
            .or(dataset.is_none().then_some(train).flatten())
        {
            Some(name) => name,
            None => chosen(path, "dataset", &names.iter().map(String::as_str).collect::<Vec<_>>(), dataset)?,
        };
        let dataset = guarded(|| file.dataset(name)).map_err(refused)?;
        let shape = guarded(|| dataset.shape()).map_err(refused)?;
        let &[rows, columns] = shape.as_slice() else {
            let found = format!("dataset {name} of shape {shape:?}");
            return Err(header_error(path, "a dataset of two dimensions", found));
        };
        let number = number(&guarded(|| dataset.datatype()).map_err(refused)?);
        let number = number.ok_or_else(|| {
            let found = dataset.dtype().map_or_else(|error| error.to_string(), |kind| kind.to_string());
            header_error(path, NUMBERS, format!("dataset {name} of {found}"))
        })?;
        check_chunks(path, name, &dataset, number.0)?;
        let name = name.to_owned();
        Ok(Hdf5 { path: path.to_owned(), name, dataset, number, rows, columns, metric })
    }

    pub(crate) fn number(&self) -> (NumberType, bool) {
        self.number
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn columns(&self) -> u64 {
        self.columns
    }

    pub(crate) fn metric(&self) -> Option<Metric> {
        self.metric
    }

    /// The numbers of `rows` rows from `first` on as they are stored, row after row.
    pub(crate) fn bytes(&self, first: u64, rows: usize) -> Result<Vec<u8>, FormatError> {
        let damaged = |reason| FormatError::Damaged { path: self.path.clone(), row: first, reason };
        let bytes = guarded(|| self.dataset.read_raw_rows(first, rows as u64))
            .map_err(|reason| damaged(format!("dataset {}: {reason}", self.name)))?;
        let wanted = rows as u128 * u128::from(self.columns) * self.number.0.bytes() as u128;
        if bytes.len() as u128 == wanted {
            Ok(bytes)
        } else {
            Err(damaged(format!("dataset {}: {} bytes instead of {wanted}", self.name, bytes.len())))
        }
    }
}

/// Refuses chunks that would take more memory than they may.
fn check_chunks(path: &Path, name: &str, dataset: &Dataset, number: NumberType) -> Result<(), FormatError> {
    let refused = |found| header_error(path, FORMAT, found);
    let Some(chunk) = guarded(|| dataset.chunk_shape()).map_err(refused)? else { return Ok(()) };
    let numbers = chunk.iter().try_fold(1u64, |product, &length| product.checked_mul(length));
    let bytes = numbers.and_then(|numbers| numbers.checked_mul(number.bytes() as u64)).unwrap_or(u64::MAX);
    if bytes <= HDF5_CHUNK_BYTES_MAX {
        return Ok(());
    }
    let wanted = format!("chunks of at most {HDF5_CHUNK_BYTES_MAX} bytes");
    Err(header_error(path, &wanted, format!("dataset {name} in chunks of {bytes}")))
}

/// What the attribute `distance` says, if there is one. Distances of sets and of bits are refused, and so are files of
/// sparse vectors, whose rows are no vectors here.
fn metric(path: &Path, file: &File) -> Result<Option<Metric>, FormatError> {
    let attributes = guarded(|| file.root().attrs()).map_err(|found| header_error(path, FORMAT, found))?;
    let text = |name: &str| attributes.get(name).and_then(attribute_text);
    if text("type").as_deref() == Some("sparse") {
        let found = "sparse ones, which the attribute type says".to_owned();
        return Err(header_error(path, "dense vectors", found));
    }
    if !attributes.contains_key("distance") {
        return Ok(None);
    }
    let distance = text("distance").unwrap_or_else(|| "no text".to_owned());
    match distance.as_str() {
        "angular" | "cosine" => Ok(Some(Metric::Cosine)),
        "euclidean" | "l2" => Ok(Some(Metric::Euclidean)),
        "dot" | "ip" | "inner_product" | "innerproduct" => Ok(Some(Metric::Dot)),
        _ => Err(header_error(
            path,
            "an attribute distance of angular, euclidean or dot",
            format!("{:?}", crate::error::excerpt(&distance)),
        )),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the types of other crates that are no text")]
fn attribute_text(value: &AttrValue) -> Option<String> {
    let text = match value {
        AttrValue::String(text) | AttrValue::AsciiString(text) => text,
        AttrValue::VarLenString(text) | AttrValue::VarLenAsciiString(text) => text,
        AttrValue::StringSized { value, .. } | AttrValue::AsciiStringSized { value, .. } => value,
        _ => return None,
    };
    Some(text.to_lowercase())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the types of other crates that are no numbers")]
fn number(datatype: &Datatype) -> Option<(NumberType, bool)> {
    let (number, order) = match datatype {
        Datatype::FloatingPoint { size, byte_order, layout } => {
            let parts = (
                layout.bit_offset,
                layout.mantissa_location,
                layout.mantissa_size,
                layout.exponent_location,
                layout.exponent_size,
                layout.exponent_bias,
            );
            let number = match (size, parts) {
                (2, (0, 0, 10, 10, 5, 15)) => NumberType::F16,
                (2, (0, 0, 7, 7, 8, 127)) => NumberType::Bf16,
                (4, (0, 0, 23, 23, 8, 127)) => NumberType::F32,
                (8, (0, 0, 52, 52, 11, 1023)) => NumberType::F64,
                _ => return None,
            };
            (number, byte_order)
        }
        Datatype::FixedPoint { size, byte_order, layout } => {
            if layout.bit_offset != 0 || u32::from(layout.bit_precision) != size.checked_mul(8)? {
                return None;
            }
            let number = match (size, layout.signed) {
                (1, true) => NumberType::I8,
                (1, false) => NumberType::U8,
                (2, true) => NumberType::I16,
                (2, false) => NumberType::U16,
                (4, true) => NumberType::I32,
                (4, false) => NumberType::U32,
                (8, true) => NumberType::I64,
                (8, false) => NumberType::U64,
                _ => return None,
            };
            (number, byte_order)
        }
        _ => return None,
    };
    match order {
        DatatypeByteOrder::LittleEndian => Some((number, false)),
        DatatypeByteOrder::BigEndian => Some((number, true)),
        DatatypeByteOrder::Vax => None,
    }
}
