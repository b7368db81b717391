//! How keys and values of the store are laid out. Numbers in keys are big-endian, so that the
//! store's order is theirs; numbers in values are little-endian.

use dehub_normalize::{Gap, Statistic};
use dehub_store::Family;
use dehub_vector::{Candidate, MULTI_MAX, PointId};
use serde::{Deserialize, Serialize};

use crate::{CollectionConfig, Name, Payload, PayloadPath, Point};

/// One record each: the configuration, counters, the default correction, the rule of the quarantine, every
/// point in it, every index of a payload field, the names of priors, every value of one, and every fit that is not
/// complete.
pub(crate) const META: Family = Family::new("meta");
/// Id → row.
pub(crate) const IDS: Family = Family::new("ids");
/// Row → id, text and payload.
pub(crate) const POINTS: Family = Family::new("points");
/// Row → vector, or several one after the other.
pub(crate) const VECTORS: Family = Family::new("vectors");
/// Bank name → [`BankRecord`].
pub(crate) const BANKS: Family = Family::new("banks");
/// Bank number, entry → vector, then id: see [`entry_bytes`].
pub(crate) const ENTRIES: Family = Family::new("entries");
/// Weight table, entry → weight, where it is not 1.
pub(crate) const WEIGHTS: Family = Family::new("weights");
/// Correction name → [`CorrectionRecord`].
pub(crate) const CORRECTIONS: Family = Family::new("corrections");
/// Set number → [`SetRecord`].
pub(crate) const SETS: Family = Family::new("sets");
/// Set number, entry → potential, for sets that have potentials.
pub(crate) const POTENTIALS: Family = Family::new("potentials");
/// Set number, row or entry → state or list.
pub(crate) const STATES: Family = Family::new("states");

pub(crate) const FAMILIES: [Family; 11] =
    [META, IDS, POINTS, VECTORS, BANKS, ENTRIES, CORRECTIONS, SETS, STATES, POTENTIALS, WEIGHTS];

pub(crate) const CONFIG_KEY: &[u8] = b"config";
pub(crate) const COUNTERS_KEY: &[u8] = b"counters";
/// → `DefaultCorrection`, if there is one.
pub(crate) const DEFAULT_KEY: &[u8] = b"default";
/// → `HubRule`, if new points are tested.
pub(crate) const RULE_KEY: &[u8] = b"quarantine";
/// → `LiveBank`, if queries are kept.
pub(crate) const LIVE_KEY: &[u8] = b"live";
pub(crate) const CALIBRATION_KEY: &[u8] = b"calibration";
/// → the names of the priors, if there are some.
pub(crate) const PRIORS_KEY: &[u8] = b"priors";
/// Before the name of a prior, `/` and the key of an id → the point's value, 32 bits.
const PRIOR_PREFIX: &[u8] = b"prior/";
/// Before the key of an id → `HeldRecord`.
pub(crate) const HELD_PREFIX: &[u8] = b"held/";

/// Before the first set number reserved for a fit → `PendingRecord`.
pub(crate) const PENDING_PREFIX: &[u8] = b"fit/";

/// The key of a fit that is not complete.
pub(crate) fn pending_key(first: u32) -> Vec<u8> {
    [PENDING_PREFIX, &first.to_be_bytes()].concat()
}

/// → `TextRecord`, if points are found by words.
pub(crate) const TEXTS_KEY: &[u8] = b"texts";

/// Before the number of a commit and a row whose payload it changed → nothing.
pub(crate) const TEXT_CHANGED_PREFIX: &[u8] = b"text-changed/";

/// The key of the note that a commit changed the payload of a row.
pub(crate) fn text_changed_key(sequence: u64, row: u32) -> Vec<u8> {
    [TEXT_CHANGED_PREFIX, &sequence.to_be_bytes(), &row.to_be_bytes()].concat()
}

/// The commit and the row of such a key.
pub(crate) fn read_text_changed(key: &[u8]) -> Result<(u64, u32), DamagedRecord> {
    let parts = key.strip_prefix(TEXT_CHANGED_PREFIX).and_then(<[u8]>::split_first_chunk::<8>);
    let parts = parts.and_then(|(sequence, row)| Some((sequence, <&[u8; 4]>::try_from(row).ok()?)));
    let (sequence, row) =
        parts.ok_or_else(|| damaged(META, "a note of a changed payload of the wrong length"))?;
    Ok((u64::from_be_bytes(*sequence), u32::from_be_bytes(*row)))
}

/// Before the path of a payload field → `FieldRecord`.
pub(crate) const FIELD_PREFIX: &[u8] = b"index/";

/// The key of the index of a payload field.
pub(crate) fn field_key(path: &PayloadPath) -> Vec<u8> {
    [FIELD_PREFIX, path.to_string().as_bytes()].concat()
}

/// What the keys of a prior's values begin with. No name has the character that ends it.
pub(crate) fn prior_prefix(name: &Name) -> Vec<u8> {
    [PRIOR_PREFIX, name.as_str().as_bytes(), b"/"].concat()
}

/// The key of a point's value of a prior.
pub(crate) fn prior_key(name: &Name, id: &PointId) -> Vec<u8> {
    [prior_prefix(name), id_key(id)].concat()
}

/// The key of a point in quarantine.
pub(crate) fn held_key(id: &PointId) -> Vec<u8> {
    [HELD_PREFIX, &id_key(id)].concat()
}

/// The numbers that only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// The number of the newest commit.
    pub sequence: u64,
    /// The row the next point gets.
    pub next_row: u32,
    /// The number the next bank or weight table gets.
    pub next_bank: u32,
    /// The number the next set of states gets.
    pub next_set: u32,
}

/// A bank's head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BankRecord {
    pub number: u32,
    pub gallery: bool,
    /// Numbers given to entries; those of removed entries have no record.
    pub slots: u32,
    pub entries: u32,
    /// Where the weights are that are not 1.
    pub table: Option<u32>,
    /// Chain of hashes over the entries, in hexadecimal.
    pub hash: String,
}

/// A set: the states of every point for one statistic over one bank, or the lists of a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SetRecord {
    pub bank: Name,
    /// A second bank that the potentials depend on.
    #[serde(deserialize_with = "Option::deserialize")]
    pub beside: Option<Name>,
    pub kind: SetKind,
    /// The mean over the gallery when the set was made; columns are served less this.
    pub center: f64,
    /// The slots of the bank it has taken in.
    pub absorbed: u32,
}

/// What is in a set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum SetKind {
    LogSumExp { beta: f64 },
    TopMean { k: usize },
    TopMeanPower { k: usize, gamma: f64 },
    KthUnit { k: usize, euclidean: bool },
    MeanUnit { k: usize, euclidean: bool },
    Mean,
    MeanByDeviation,
    InverseDeviation,
    Sinkhorn { tau: f64, iterations: usize, with_gallery: bool },
    CentroidPull { k: usize, euclidean: bool },
    Largest { k: usize },
    Activation { k: usize },
}

impl SetKind {
    /// The set of a statistic's states.
    pub(crate) fn of(statistic: Statistic) -> SetKind {
        match statistic {
            Statistic::LogSumExp { beta } => SetKind::LogSumExp { beta },
            Statistic::TopMean { k } => SetKind::TopMean { k },
            Statistic::TopMeanPower { k, gamma } => SetKind::TopMeanPower { k, gamma },
            Statistic::KthUnit { k, gap } => SetKind::KthUnit { k, euclidean: gap == Gap::Euclidean },
            Statistic::MeanUnit { k, gap } => SetKind::MeanUnit { k, euclidean: gap == Gap::Euclidean },
            Statistic::Mean => SetKind::Mean,
            Statistic::MeanByDeviation => SetKind::MeanByDeviation,
            Statistic::InverseDeviation => SetKind::InverseDeviation,
            Statistic::Sinkhorn { tau, iterations, with_gallery } => {
                SetKind::Sinkhorn { tau, iterations, with_gallery }
            }
            Statistic::CentroidPull { k, gap } => {
                SetKind::CentroidPull { k, euclidean: gap == Gap::Euclidean }
            }
            Statistic::Largest { k } => SetKind::Largest { k },
        }
    }

    /// The `k` of a gate; `None` for the states of a statistic.
    pub(crate) fn gate(self) -> Option<usize> {
        if let SetKind::Activation { k } = self { Some(k) } else { None }
    }

    /// The statistic whose states are in the set; `None` for the lists of a gate.
    pub(crate) fn statistic(self) -> Option<Statistic> {
        let gap = |euclidean| if euclidean { Gap::Euclidean } else { Gap::Cosine };
        Some(match self {
            SetKind::LogSumExp { beta } => Statistic::LogSumExp { beta },
            SetKind::TopMean { k } => Statistic::TopMean { k },
            SetKind::TopMeanPower { k, gamma } => Statistic::TopMeanPower { k, gamma },
            SetKind::KthUnit { k, euclidean } => Statistic::KthUnit { k, gap: gap(euclidean) },
            SetKind::MeanUnit { k, euclidean } => Statistic::MeanUnit { k, gap: gap(euclidean) },
            SetKind::Mean => Statistic::Mean,
            SetKind::MeanByDeviation => Statistic::MeanByDeviation,
            SetKind::InverseDeviation => Statistic::InverseDeviation,
            SetKind::Sinkhorn { tau, iterations, with_gallery } => {
                Statistic::Sinkhorn { tau, iterations, with_gallery }
            }
            SetKind::CentroidPull { k, euclidean } => Statistic::CentroidPull { k, gap: gap(euclidean) },
            SetKind::Largest { k } => Statistic::Largest { k },
            SetKind::Activation { .. } => return None,
        })
    }
}

/// A fitted correction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CorrectionRecord {
    /// The method's label, as `Method` prints and parses it.
    pub method: String,
    pub version: u32,
    pub query_bank: Option<Name>,
    pub gallery_bank: Option<Name>,
    /// The commit that made this version.
    pub sequence: u64,
    /// For a method with a guard, the lowest value served of each column, centred.
    pub floors: Vec<f32>,
}

/// A record that cannot be what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a record of `{family}` is damaged: {reason}")]
pub struct DamagedRecord {
    /// The family of the store it is in.
    pub family: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

pub(crate) fn damaged(family: Family, reason: impl ToString) -> DamagedRecord {
    DamagedRecord { family: family.name(), reason: reason.to_string() }
}

pub(crate) fn to_json(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("records have string keys and finite numbers")
}

pub(crate) fn from_json<T: for<'a> Deserialize<'a>>(
    family: Family,
    bytes: &[u8],
) -> Result<T, DamagedRecord> {
    serde_json::from_slice(bytes).map_err(|error| damaged(family, error))
}

pub(crate) fn row_key(row: u32) -> [u8; 4] {
    row.to_be_bytes()
}

pub(crate) fn pair_key(number: u32, index: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&number.to_be_bytes());
    key[4..].copy_from_slice(&index.to_be_bytes());
    key
}

pub(crate) fn read_u32(family: Family, bytes: &[u8]) -> Result<u32, DamagedRecord> {
    let bytes =
        bytes.try_into().map_err(|_| damaged(family, format!("{} bytes for a number", bytes.len())))?;
    Ok(u32::from_be_bytes(bytes))
}

pub(crate) fn read_pair(family: Family, bytes: &[u8]) -> Result<(u32, u32), DamagedRecord> {
    let pair: [u8; 8] =
        bytes.try_into().map_err(|_| damaged(family, format!("{} bytes for two numbers", bytes.len())))?;
    let value = u64::from_be_bytes(pair);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of 64 bits")]
    Ok(((value >> 32) as u32, value as u32))
}

/// An id as a key: a tag, then the number or the text.
pub(crate) fn id_key(id: &PointId) -> Vec<u8> {
    match id {
        PointId::Number(number) => [&[0][..], &number.to_be_bytes()].concat(),
        PointId::Text(text) => [&[1][..], text.as_bytes()].concat(),
    }
}

pub(crate) fn read_id(family: Family, key: &[u8]) -> Result<PointId, DamagedRecord> {
    match key {
        [0, number @ ..] => {
            let number = number.try_into().map_err(|_| damaged(family, "an id of the wrong length"))?;
            Ok(PointId::Number(u64::from_be_bytes(number)))
        }
        [1, text @ ..] => {
            let text = std::str::from_utf8(text).map_err(|error| damaged(family, error))?;
            PointId::text(text).map_err(|error| damaged(family, error))
        }
        _ => Err(damaged(family, "an id without a tag")),
    }
}

pub(crate) fn vector_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub(crate) fn read_vector(family: Family, bytes: &[u8], dim: usize) -> Result<Vec<f32>, DamagedRecord> {
    let mut vector = vec![0.0; dim];
    read_vector_to(family, bytes, &mut vector)?;
    Ok(vector)
}

/// What an entry of a bank is stored as: of one with several vectors how many these are, then the numbers, then the
/// key of its id.
pub(crate) fn entry_bytes(id: Option<&PointId>, vector: &[f32], config: &CollectionConfig) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 * vector.len() + 16);
    if config.multi {
        let count = u32::try_from(vector.len() / config.dim.get()).expect("at most MULTI_MAX");
        bytes.extend(count.to_le_bytes());
    }
    bytes.extend(vector_bytes(vector));
    bytes.extend(id.map(id_key).unwrap_or_default());
    bytes
}

/// The numbers and the id's key of a stored entry; `None` if it is too short.
pub(crate) fn split_entry<'a>(bytes: &'a [u8], config: &CollectionConfig) -> Option<(&'a [u8], &'a [u8])> {
    let (count, rest) = if config.multi {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        (u32::from_le_bytes(*count) as usize, rest)
    } else {
        (1, bytes)
    };
    rest.split_at_checked(count.checked_mul(4 * config.dim.get())?)
}

/// The numbers of a stored vector, or of several, one after the other.
pub(crate) fn read_vectors(
    family: Family,
    bytes: &[u8],
    config: &CollectionConfig,
) -> Result<Vec<f32>, DamagedRecord> {
    let dim = config.dim.get();
    let count = if config.multi { bytes.len() / (4 * dim) } else { 1 };
    if count == 0 || count > MULTI_MAX {
        return Err(damaged(family, format!("{} bytes for vectors of {dim} dimensions", bytes.len())));
    }
    read_vector(family, bytes, count * dim)
}

/// Reads a vector to its place.
pub(crate) fn read_vector_to(family: Family, bytes: &[u8], place: &mut [f32]) -> Result<(), DamagedRecord> {
    let (numbers, rest) = bytes.as_chunks::<4>();
    let is_whole = rest.is_empty() && numbers.len() == place.len();
    place.iter_mut().zip(numbers).for_each(|(place, &number)| *place = f32::from_le_bytes(number));
    if is_whole && place.iter().all(|number| number.is_finite()) {
        return Ok(());
    }
    Err(damaged(family, format!("{} bytes for a vector of {} dimensions", bytes.len(), place.len())))
}

/// Two lengths, then the id's key, the text and the payload.
pub(crate) fn point_bytes(id: &PointId, text: Option<&str>, payload: Option<&Payload>) -> Vec<u8> {
    let id = id_key(id);
    let length =
        |bytes: usize| u32::try_from(bytes).expect("ids and texts have limits far below 4 GiB").to_le_bytes();
    // A missing text is not an empty one.
    let text_length = text.map_or([0xff; 4], |text| length(text.len()));
    let mut bytes = [length(id.len()), text_length].concat();
    bytes.extend_from_slice(&id);
    bytes.extend_from_slice(text.unwrap_or_default().as_bytes());
    bytes.extend_from_slice(payload.map_or("", Payload::as_json).as_bytes());
    bytes
}

pub(crate) fn read_point(bytes: &[u8]) -> Result<Point, DamagedRecord> {
    let short = || damaged(POINTS, format!("{} bytes are too few", bytes.len()));
    let utf8 = |bytes| std::str::from_utf8(bytes).map_err(|error| damaged(POINTS, error));
    let (id_length, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    let (text_length, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let (id, rest) = rest.split_at_checked(u32::from_le_bytes(*id_length) as usize).ok_or_else(short)?;
    let (text, payload) = match text_length {
        [0xff, 0xff, 0xff, 0xff] => (None, rest),
        length => {
            let (text, rest) =
                rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(short)?;
            (Some(utf8(text)?.to_owned()), rest)
        }
    };
    let payload = if payload.is_empty() { None } else { Some(Payload::stored(utf8(payload)?)) };
    Ok(Point { id: read_id(POINTS, id)?, payload, text })
}

pub(crate) fn list_bytes(list: &[Candidate]) -> Vec<u8> {
    let entry = |candidate: &Candidate| [candidate.score.to_le_bytes(), candidate.row.to_le_bytes()].concat();
    list.iter().flat_map(entry).collect()
}

pub(crate) fn read_list(bytes: &[u8], k: usize, rows: u32) -> Result<Vec<Candidate>, DamagedRecord> {
    let (entries, rest) = bytes.as_chunks::<8>();
    let read = |&[a, b, c, d, e, f, g, h]: &[u8; 8]| {
        (f32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
    };
    let whole = entries.iter().map(read).all(|(score, row)| score.is_finite() && row < rows);
    let list: Vec<_> = entries.iter().map(read).map(|(score, row)| Candidate { score, row }).collect();
    if !rest.is_empty() || !whole || list.len() > k || !list.is_sorted_by(|a, b| a > b) {
        return Err(damaged(STATES, format!("{} bytes are no list of {k} points", bytes.len())));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_id() -> impl Strategy<Value = PointId> {
        prop_oneof![
            any::<u64>().prop_map(PointId::Number),
            "\\PC{1,20}".prop_map(|text| PointId::text(&text).expect("short")),
        ]
    }

    proptest! {
        #[test]
        fn a_point_is_read_back_as_it_was_written(
            id in any_id(), text in prop::option::of("\\PC{0,20}"), with_payload in any::<bool>()
        ) {
            let payload = with_payload.then(|| Payload::parse(r#"{"a": [1, "é"]}"#).expect("an object"));
            let bytes = point_bytes(&id, text.as_deref(), payload.as_ref());
            prop_assert_eq!(read_point(&bytes), Ok(Point { id, payload, text }));
        }

        #[test]
        fn damaged_bytes_are_an_error_and_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            _ = read_point(&bytes);
            _ = read_id(IDS, &bytes);
            _ = read_list(&bytes, 3, 10);
            _ = read_vector(VECTORS, &bytes, 3);
            _ = read_pair(STATES, &bytes);
        }

        #[test]
        fn keys_sort_as_their_numbers_do(a in any::<(u32, u32)>(), b in any::<(u32, u32)>()) {
            prop_assert_eq!(a.cmp(&b), pair_key(a.0, a.1).cmp(&pair_key(b.0, b.1)));
            prop_assert_eq!(read_pair(STATES, &pair_key(a.0, a.1)), Ok(a));
        }
    }
}
