//! Models as files: weights in `NAME.safetensors`, and what they are in the card `NAME.json`.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use candle_core::safetensors::{load_buffer, save as save_tensors};
use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::{Adapter, AdapterSize, ModelError};

/// The number of the card's form that this version writes and reads.
const FORM: u32 = 1;

/// The most bytes of a file of weights.
const WEIGHTS_BYTES_MAX: u64 = 1 << 30;

/// The most bytes of a card.
const CARD_BYTES_MAX: u64 = 1 << 20;

/// What a model is, how it was made and what it was measured to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The form of the card.
    pub form: u32,
    /// The kind of model: `adapter`.
    pub kind: String,
    /// Dimensions of queries.
    pub dim: usize,
    /// Units of the hidden layer.
    pub hidden: usize,
    /// How much of what it adds is added.
    pub mix: f32,
    /// The loss it was trained with, in words.
    pub loss: String,
    /// Of all draws.
    pub seed: u64,
    /// The epoch it is of.
    pub epochs: u32,
    /// BLAKE3 of the queries, points and answers it was trained from.
    pub data: String,
    /// On queries that were held out, by the names of measures: without it, and with it.
    pub measures: HashMap<String, [f64; 2]>,
    /// The version of dehub that made it.
    pub made_by: String,
    /// BLAKE3 of the weights.
    pub weights: String,
}

/// Why a model could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is too large to be one of a model.
    #[error("{path}: {found} bytes, wanted at most {most}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        found: u64,
        /// The most it may have.
        most: u64,
    },
    /// A card that is none.
    #[error("{path}: {reason}")]
    Card {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Weights that are not those that the card is of.
    #[error(
        "{path}: the weights have the BLAKE3 {found}, and the card is of {wanted}: the file was changed or cut off"
    )]
    Hash {
        /// The file.
        path: PathBuf,
        /// Of the file.
        found: String,
        /// Of the card.
        wanted: String,
    },
    /// Weights that cannot be read, or do not fit the card.
    #[error("{path}: tensor `{tensor}`: {reason}")]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What is wrong.
        reason: String,
    },
    /// Weights that make no model.
    #[error("{path}: {source}")]
    Model {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ModelError,
    },
    /// The library of weights failed.
    #[error("{path}: {source}")]
    Weights {
        /// The file.
        path: PathBuf,
        /// Why.
        source: candle_core::Error,
    },
}

/// The files of a model: its weights, and its card.
pub fn files(folder: &Path, name: &str) -> [PathBuf; 2] {
    [folder.join(format!("{name}.safetensors")), folder.join(format!("{name}.json"))]
}

/// Writes an adapter, the card last; each file has its name once it is whole. `card` needs not tell what the adapter
/// does: sizes, mix, form and hash.
pub fn save(adapter: &Adapter, card: &Card, folder: &Path, name: &str) -> Result<Card, FileError> {
    let [weights, json] = files(folder, name);
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| FileError::Io { path, source }
    };
    fs::create_dir_all(folder).map_err(io(folder))?;
    let AdapterSize { dim, hidden } = adapter.size();
    let wrap = |source| FileError::Weights { path: weights.clone(), source };
    let tensor = |numbers: &[f32], rows, columns| {
        Tensor::from_slice(numbers, (rows, columns), &Device::Cpu).map_err(wrap)
    };
    let tensors = HashMap::from([
        ("inner", tensor(adapter.inner(), hidden, dim)?),
        ("outer", tensor(adapter.outer(), dim, hidden)?),
    ]);
    let beside = |path: &Path| path.with_extension("part");
    save_tensors(&tensors, beside(&weights)).map_err(wrap)?;
    let bytes = fs::read(beside(&weights)).map_err(io(&weights))?;
    let hash = blake3::hash(&bytes).to_hex().to_string();
    let card = Card {
        form: FORM,
        kind: "adapter".to_owned(),
        dim,
        hidden,
        mix: adapter.mix(),
        weights: hash,
        ..card.clone()
    };
    fs::rename(beside(&weights), &weights).map_err(io(&weights))?;
    let text = serde_json::to_string_pretty(&card).unwrap_or_default();
    let mut file = fs::File::create(beside(&json)).map_err(io(&json))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io(&json))?;
    fs::rename(beside(&json), &json).map_err(io(&json))?;
    Ok(card)
}

/// Reads an adapter and its card.
///
/// # Errors
/// [`FileError`] with the file for one that is missing, too large, changed, cut off, of another form, or whose weights
/// do not fit what the card says.
pub fn load(folder: &Path, name: &str) -> Result<(Adapter, Card), FileError> {
    let [weights, json] = files(folder, name);
    let text = read(&json, CARD_BYTES_MAX)?;
    let wrong = |reason: String| FileError::Card { path: json.clone(), reason };
    let card: Card = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if card.form != FORM {
        return Err(wrong(format!("the card has form {}, wanted {FORM}", card.form)));
    }
    if card.kind != "adapter" {
        return Err(wrong(format!("the model is of the kind `{}`, wanted adapter", card.kind)));
    }
    let size = AdapterSize::new(card.dim, card.hidden);
    let size = size.map_err(|source| FileError::Model { path: json.clone(), source })?;
    let bytes = read(&weights, WEIGHTS_BYTES_MAX)?;
    let found = blake3::hash(&bytes).to_hex().to_string();
    if found != card.weights {
        return Err(FileError::Hash { path: weights, found, wanted: card.weights });
    }
    let wrap = |source| FileError::Weights { path: weights.clone(), source };
    let tensors = load_buffer(&bytes, &Device::Cpu).map_err(wrap)?;
    let AdapterSize { dim, hidden } = size;
    let numbers = |name: &str, shape: [usize; 2]| {
        let wrong = |reason: String| {
            let (path, tensor) = (weights.clone(), name.to_owned());
            FileError::Tensor { path, tensor, reason }
        };
        let tensor = tensors.get(name).ok_or_else(|| wrong("it is not there".to_owned()))?;
        if tensor.dtype() != DType::F32 || tensor.dims() != shape {
            let (kind, dims) = (tensor.dtype(), tensor.dims());
            return Err(wrong(format!("it is {kind:?} of {dims:?}, wanted F32 of {shape:?}")));
        }
        tensor.flatten_all().and_then(|flat| flat.to_vec1()).map_err(wrap)
    };
    let (inner, outer) = (numbers("inner", [hidden, dim])?, numbers("outer", [dim, hidden])?);
    let adapter = Adapter::new(size, card.mix, inner, outer);
    Ok((adapter.map_err(|source| FileError::Model { path: weights.clone(), source })?, card))
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
    let io = |source| FileError::Io { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(io)?.len();
    if found > most {
        return Err(FileError::TooLarge { path: path.to_owned(), found, most });
    }
    fs::read(path).map_err(io)
}
