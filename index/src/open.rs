//! Reading a collection's state back from its store.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use dehub_normalize::{Activation, BankKind, Statistic};
use dehub_store::{Store, View};
use rayon::prelude::*;

use crate::bank::Bank;
use crate::collection::space_folder;
use crate::config::StoredConfig;
use crate::correction::Column;
use crate::graph_file::Owner;
use crate::payload::{FieldRecord, PayloadColumns};
use crate::priors::{Prior, read_prior};
use crate::quarantine::HeldRecord;
use crate::record::{
    BANKS, BankRecord, CALIBRATION_KEY, CONFIG_KEY, CORRECTIONS, COUNTERS_KEY, CorrectionRecord, Counters,
    DEFAULT_KEY, ENTRIES, FIELD_PREFIX, HELD_PREFIX, IDS, LIVE_KEY, META, POINTS, POTENTIALS, PRIORS_KEY,
    RULE_KEY, SETS, STATES, SetKind, SetRecord, VECTORS, WEIGHTS, damaged, from_json, pair_key, prior_prefix,
    read_id, read_list, read_pair, read_point, read_u32, read_vector, read_vector_to, read_vectors, row_key,
    split_entry,
};
use crate::row_set::RowSet;
use crate::spaces::{Role, Whole};
use crate::state::{Fitting, Set, State};
use crate::{
    Calibration, CollectionConfig, DefaultCorrection, HubRule, LiveBank, Name, OpenError, OpenPhase,
    OpenProgress, ReadError, WEIGHT_MAX, graph_file, texts,
};

/// Rows whose vectors one thread reads at once, of 4,096 dimensions at most 64 MiB.
const PIECE: u32 = 4096;
const PIECE_ROWS: usize = PIECE as usize;

/// Reads everything but ids, texts and payloads without an index, and checks that it fits together.
pub(crate) fn load(path: &Path, store: &Store, progress: &OpenProgress) -> Result<Whole, OpenError> {
    progress.begin(OpenPhase::Points, 0);
    let view = &store.view();
    let read = |source| OpenError::Read { path: path.to_owned(), source };
    let stored = read_config(view).map_err(read)?;
    let config = stored.config().map_err(|error| read(error.into()))?;
    let numbers = stored.spaces();
    let role = if numbers.is_empty() { Role::Unnamed } else { Role::Points };
    let mut base = State::new(role, config, stored.identity(), Arc::new(stored.format()));
    fill(&mut base, view, None, progress).map_err(read)?;
    base.texts = texts::read(view, path, base.identity).map_err(read)?.map(Arc::new);
    read_graph(&mut base, path, progress);
    let mut whole = Whole::of(base);
    for (name, &number) in numbers {
        let view = &view.within(META, number);
        let stored = read_config(view).map_err(read)?;
        let config = stored.config().map_err(|error| read(error.into()))?;
        let role = Role::Space(name.clone(), number);
        let format = Arc::clone(&whole.base.format);
        let mut space = State::new(role, config, stored.identity(), format);
        fill(&mut space, view, Some(&whole.base), progress).map_err(read)?;
        // It knows of the commits that changed it; its graph may be of a later one.
        space.counters.sequence = whole.base.counters.sequence;
        read_graph(&mut space, &space_folder(path, number), progress);
        whole.spaces.insert(name.clone(), Arc::new(space));
    }
    let sequence = whole.base.counters.sequence;
    Ok(whole.at(sequence))
}

fn read_graph(state: &mut State, folder: &Path, progress: &OpenProgress) {
    let owner = Owner {
        identity: state.identity,
        sequence: state.counters.sequence,
        config: &state.config,
        rows: state.row_count(),
        live: &state.live,
    };
    state.segments = graph_file::read_all(folder, &owner, progress);
}

fn read_config(store: &View<'_>) -> Result<StoredConfig, ReadError> {
    let bytes = store.get(META, CONFIG_KEY)?.ok_or_else(|| damaged(META, "there is no configuration"))?;
    Ok(from_json(META, &bytes)?)
}

/// Reads a state; of a named space with that of the points.
fn fill(
    state: &mut State,
    store: &View<'_>,
    points: Option<&State>,
    progress: &OpenProgress,
) -> Result<(), ReadError> {
    let counters = store.get(META, COUNTERS_KEY)?;
    state.counters = counters.map_or(Ok(Counters::default()), |bytes| from_json(META, &bytes))?;
    progress.begin(OpenPhase::Points, u64::from(state.counters.next_row));
    match points {
        None => {
            read_points(state, store, progress)?;
            read_columns(state, store)?;
        }
        Some(points) => read_space(state, store, points, progress)?,
    }
    progress.begin(OpenPhase::Banks, 0);
    read_banks(state, store, progress)?;
    progress.begin(OpenPhase::Corrections, 0);
    read_corrections(state, store)?;
    read_sets(state, store, progress)?;
    read_priors(state, store)?;
    read_choices(state, store)
}

/// The default correction, the quarantine and the policy of the live bank.
pub(crate) fn read_choices(state: &mut State, store: &View<'_>) -> Result<(), ReadError> {
    let default = store.get(META, DEFAULT_KEY)?;
    state.default = default.map(|bytes| from_json::<DefaultCorrection>(META, &bytes)).transpose()?;
    let rule = store.get(META, RULE_KEY)?;
    state.quarantine.rule = rule.map(|bytes| from_json::<HubRule>(META, &bytes)).transpose()?;
    let default = state.default.as_ref().map(|default| &default.correction);
    let rule = state.quarantine.rule.as_ref().map(|rule| &rule.correction);
    for name in [default, rule].into_iter().flatten() {
        if !state.corrections.contains_key(name) {
            return Err(damaged(META, format!("the correction `{name}` is chosen, and is not there")).into());
        }
    }
    let live = store.get(META, LIVE_KEY)?;
    state.live_bank = live.map(|bytes| from_json::<LiveBank>(META, &bytes)).transpose()?;
    if let Some(policy) = state.live_bank.as_ref().filter(|policy| !state.banks.contains_key(&policy.bank)) {
        return Err(damaged(META, format!("the live bank `{}` is not there", policy.bank)).into());
    }
    // Derived: one that cannot be read is measured again.
    let calibration = store.get(META, CALIBRATION_KEY)?;
    state.calibration =
        calibration.and_then(|bytes| from_json::<Calibration>(META, &bytes).ok()).map(Arc::new);
    let mut held = BTreeMap::new();
    for item in store.scan_prefix(META, HELD_PREFIX) {
        let (key, value) = item?;
        let id = read_id(META, &key[HELD_PREFIX.len()..])?;
        held.insert(id.clone(), from_json::<HeldRecord>(META, &value)?.into_point(id));
    }
    state.quarantine.held = Arc::new(held);
    Ok(())
}

/// The columns of payload fields.
fn read_columns(state: &mut State, store: &View<'_>) -> Result<(), ReadError> {
    state.columns = read_fields(store)?;
    if state.columns.is_empty() {
        return Ok(());
    }
    for item in store.scan(POINTS, &[], None) {
        let (key, value) = item?;
        state.columns.set(read_u32(POINTS, &key)?, read_point(&value)?.payload.as_ref())?;
    }
    Ok(())
}

/// The columns there are, without values yet.
pub(crate) fn read_fields(store: &View<'_>) -> Result<PayloadColumns, ReadError> {
    let mut columns = PayloadColumns::default();
    for item in store.scan_prefix(META, FIELD_PREFIX) {
        let (key, value) = item?;
        let path = std::str::from_utf8(&key[FIELD_PREFIX.len()..]).ok().and_then(|text| text.parse().ok());
        let path = path.ok_or_else(|| damaged(META, "an index of a payload field whose path is none"))?;
        columns.insert(path, from_json::<FieldRecord>(META, &value)?.kind);
    }
    Ok(columns)
}

/// The priors. Says how many values there are of ids that no point has, which a program leaves that knows no priors.
pub(crate) fn read_priors(state: &mut State, store: &View<'_>) -> Result<u64, ReadError> {
    let names = store.get(META, PRIORS_KEY)?;
    let names = names.map(|bytes| from_json::<Vec<Name>>(META, &bytes)).transpose()?;
    let mut strays = 0;
    for name in names.unwrap_or_default() {
        let mut prior = Prior::new(state.row_count());
        let prefix = prior_prefix(&name);
        // Both are in the order of ids.
        let mut ids = store.scan(IDS, &[], None);
        let mut next = ids.next().transpose()?;
        for item in store.scan_prefix(META, &prefix) {
            let (key, value) = item?;
            let id = &key[prefix.len()..];
            while next.as_ref().is_some_and(|(own, _)| **own < *id) {
                next = ids.next().transpose()?;
            }
            let value = read_prior(&value)?;
            match next.as_ref().filter(|(own, _)| **own == *id) {
                Some((_, row)) => _ = prior.set(read_u32(IDS, row)?, value),
                None => strays += 1,
            }
        }
        state.priors.insert(name, prior);
    }
    Ok(strays)
}

/// Vectors and ids, which are the larger part of most collections, are read side by side.
fn read_points(state: &mut State, store: &View<'_>, progress: &OpenProgress) -> Result<(), ReadError> {
    let (kept, ids) = rayon::join(|| read_rows(state, store, progress), || read_ids(store));
    let kept = kept?;
    let is_without = state.role == Role::Points;
    for row in ids? {
        let is_kept = if is_without { row < state.row_count() } else { kept.contains(row) };
        if !is_kept || !state.live.insert(row) {
            return Err(damaged(IDS, format!("row {row} has no vector or two ids")).into());
        }
    }
    state.clear_dead_chunks(0..state.vectors.chunk_count());
    Ok(())
}

/// The vectors of a name, each of a point there is.
fn read_space(
    state: &mut State,
    store: &View<'_>,
    points: &State,
    progress: &OpenProgress,
) -> Result<(), ReadError> {
    if state.counters.next_row != points.counters.next_row {
        let (found, wanted) = (state.counters.next_row, points.counters.next_row);
        return Err(damaged(META, format!("a named vector has {found} rows, and the points {wanted}")).into());
    }
    let kept = read_rows(state, store, progress)?;
    if let Some(row) = kept.iter().find(|&row| !points.live.contains(row)) {
        return Err(damaged(VECTORS, format!("row {row} has a vector and holds no point")).into());
    }
    state.live = kept;
    state.clear_dead_chunks(0..state.vectors.chunk_count());
    Ok(())
}

/// The rows of all ids, in the order of ids.
fn read_ids(store: &View<'_>) -> Result<Vec<u32>, ReadError> {
    store.scan(IDS, &[], None).map(|item| Ok(read_u32(IDS, &item?.1)?)).collect()
}

/// Fills in the vectors of all rows, zeros where there is none; gives the rows that have one.
fn read_rows(state: &mut State, store: &View<'_>, progress: &OpenProgress) -> Result<RowSet, ReadError> {
    let (config, end) = (state.config, state.counters.next_row);
    if let Some(item) = store.scan(VECTORS, &row_key(end), None).next() {
        let row = read_u32(VECTORS, &item?.0)?;
        return Err(damaged(VECTORS, format!("row {row} was never given")).into());
    }
    let pieces: Vec<Range<u32>> =
        (0..end).step_by(PIECE_ROWS).map(|first| first..end.min(first.saturating_add(PIECE))).collect();
    let mut kept = RowSet::default();
    for pieces in pieces.chunks(rayon::current_num_threads()) {
        let read = pieces.par_iter().map(|rows| read_piece(store, rows.clone(), &config));
        for (numbers, rows) in read.collect::<Result<Vec<_>, ReadError>>()? {
            let mut rest = &numbers[..];
            for (row, len) in rows {
                let (vector, after) = rest.split_at(len);
                rest = after;
                state.push_gone((row - state.row_count()) as usize);
                state.push_stored(vector);
                kept.insert(row);
            }
        }
        progress.add(pieces.iter().map(|rows| rows.len() as u64).sum());
    }
    state.push_gone((end - state.row_count()) as usize);
    Ok(kept)
}

/// Numbers of vectors, one vector after the other, and the row of each with how many numbers it has.
type Piece = (Vec<f32>, Vec<(u32, usize)>);

/// The vectors of those of some rows that have one.
fn read_piece(store: &View<'_>, rows: Range<u32>, config: &CollectionConfig) -> Result<Piece, ReadError> {
    let (mut numbers, mut found) = (Vec::new(), Vec::new());
    for item in store.scan(VECTORS, &row_key(rows.start), Some(&row_key(rows.end))) {
        let (key, value) = item?;
        let row = read_u32(VECTORS, &key)?;
        let place = numbers.len();
        if config.multi {
            numbers.extend(read_vectors(VECTORS, &value, config)?);
        } else {
            numbers.resize(place + config.dim.get(), 0.0);
            read_vector_to(VECTORS, &value, &mut numbers[place..])?;
        }
        found.push((row, numbers.len() - place));
    }
    Ok((numbers, found))
}

pub(crate) fn read_banks(
    state: &mut State,
    store: &View<'_>,
    progress: &OpenProgress,
) -> Result<(), ReadError> {
    let banks = store.scan(BANKS, &[], None).collect::<Result<Vec<_>, _>>()?;
    progress.begin(OpenPhase::Banks, banks.len() as u64);
    for (key, value) in banks {
        progress.add(1);
        let name = read_name(BANKS.name(), &key)?;
        let record: BankRecord = from_json(BANKS, &value)?;
        let kind = if record.gallery { BankKind::Gallery } else { BankKind::Query };
        let mut weights = read_weights(store, &record)?;
        let mut bank = Bank::new(record.number, kind, state.config.rows());
        bank.table = record.table;
        let end = pair_key(record.number, record.slots);
        for item in store.scan(ENTRIES, &pair_key(record.number, 0), Some(&end)) {
            let (key, value) = item?;
            let (_, slot) = read_pair(ENTRIES, &key)?;
            // Slots without a record are those of removed entries.
            while bank.slots() < slot {
                bank.push_dead();
            }
            let (vector, id) = split_entry(&value, &state.config)
                .ok_or_else(|| damaged(ENTRIES, format!("entry {slot} of bank `{name}` is not whole")))?;
            let id = if id.is_empty() { None } else { Some(read_id(ENTRIES, id)?) };
            let weight = weights.remove(&slot).unwrap_or(1.0);
            bank.push(id.as_ref(), &read_vectors(ENTRIES, vector, &state.config)?, weight);
        }
        while bank.slots() < record.slots {
            bank.push_dead();
        }
        if bank.record() != record {
            let reason = format!("bank `{name}` has {} entries and another hash than written", bank.len());
            return Err(damaged(ENTRIES, reason).into());
        }
        state.banks.insert(name, bank);
    }
    Ok(())
}

/// The weights of a bank that are not 1, by slot.
fn read_weights(store: &View<'_>, bank: &BankRecord) -> Result<HashMap<u32, f32>, ReadError> {
    let Some(table) = bank.table else { return Ok(HashMap::new()) };
    let mut weights = HashMap::new();
    let end = pair_key(table, bank.slots);
    for item in store.scan(WEIGHTS, &pair_key(table, 0), Some(&end)) {
        let (key, value) = item?;
        let (_, slot) = read_pair(WEIGHTS, &key)?;
        let weight = read_vector(WEIGHTS, &value, 1)?[0];
        if !(weight > 0.0 && weight <= WEIGHT_MAX) {
            return Err(damaged(WEIGHTS, format!("the weight of entry {slot} is {weight}")).into());
        }
        weights.insert(slot, weight);
    }
    Ok(weights)
}

pub(crate) fn read_corrections(state: &mut State, store: &View<'_>) -> Result<(), ReadError> {
    for item in store.scan(CORRECTIONS, &[], None) {
        let (key, value) = item?;
        let record: CorrectionRecord = from_json(CORRECTIONS, &value)?;
        state.corrections.insert(read_name(CORRECTIONS.name(), &key)?, record);
    }
    Ok(())
}

pub(crate) fn read_sets(
    state: &mut State,
    store: &View<'_>,
    progress: &OpenProgress,
) -> Result<(), ReadError> {
    let sets = store.scan(SETS, &[], None).collect::<Result<Vec<_>, _>>()?;
    progress.begin(OpenPhase::Corrections, sets.len() as u64);
    for (key, value) in sets {
        progress.add(1);
        let number = read_u32(SETS, &key)?;
        let record: SetRecord = from_json(SETS, &value)?;
        let banks = std::iter::once(&record.bank).chain(&record.beside);
        if let Some(gone) = banks.into_iter().find(|bank| !state.banks.contains_key(bank)) {
            let reason = format!("set {number} is over bank `{gone}`, which is not there");
            return Err(damaged(SETS, reason).into());
        }
        check_absorbed(state, number, &record)?;
        let set = match (record.kind, record.kind.statistic()) {
            (SetKind::Activation { k }, _) => read_gate(state, store, number, record, k)?,
            (_, Some(statistic)) => read_column(state, store, number, record, statistic)?,
            (_, None) => return Err(damaged(SETS, format!("set {number} is of no kind")).into()),
        };
        state.sets.insert(number, set);
    }
    let serves = |(name, record): (&Name, &CorrectionRecord)| match state.serve(name, record) {
        Some(_) => Ok(()),
        None => Err(damaged(CORRECTIONS, format!("correction `{name}` lacks a part"))),
    };
    state.corrections.iter().try_for_each(serves)?;
    Ok(())
}

/// The sets of a bank have taken in the same slots, of those there are.
fn check_absorbed(state: &State, number: u32, record: &SetRecord) -> Result<(), ReadError> {
    let slots = state.banks.get(&record.bank).map_or(0, Bank::slots);
    let others = state.sets.values().find(|set| set.bank == record.bank).map(|set| set.absorbed);
    if record.absorbed > slots || others.is_some_and(|others| others != record.absorbed) {
        let reason = format!("set {number} has taken in {} of {slots} entries", record.absorbed);
        return Err(damaged(SETS, reason).into());
    }
    Ok(())
}

fn read_column(
    state: &State,
    store: &View<'_>,
    number: u32,
    record: SetRecord,
    statistic: Statistic,
) -> Result<Set, ReadError> {
    let Some(bank) = state.banks.get(&record.bank) else {
        return Err(
            damaged(SETS, format!("set {number} is over the bank `{}`, which is gone", record.bank)).into()
        );
    };
    let mut column = Column::new(statistic, record.center, bank.vectors.len());
    let mut next = 0;
    let end = pair_key(number, u32::MAX);
    for item in store.scan(STATES, &pair_key(number, 0), Some(&end)) {
        let (key, value) = item?;
        let (_, row) = read_pair(STATES, &key)?;
        if row >= state.row_count() {
            return Err(damaged(STATES, format!("set {number} has a state for row {row}")).into());
        }
        // Rows of deleted points have no state.
        column.push_gone(row.saturating_sub(next) as usize);
        let point = statistic.decode(&value)?;
        if !point.is_within(record.absorbed as usize) {
            return Err(
                damaged(STATES, format!("set {number} names an entry that its bank does not have")).into()
            );
        }
        column.push(statistic.value(&point, &bank.vectors), point.largest());
        next = row + 1;
    }
    column.push_gone((state.row_count() - next) as usize);
    let potentials =
        statistic.has_potentials().then(|| read_potentials(store, number, record.absorbed as usize));
    let potentials = potentials.transpose()?.map(Arc::new);
    Ok(Set {
        bank: record.bank,
        absorbed: record.absorbed,
        beside: record.beside,
        fitted: Fitting::Column { statistic, column, potentials },
    })
}

fn read_potentials(store: &View<'_>, number: u32, entries: usize) -> Result<Vec<f32>, ReadError> {
    let mut potentials = Vec::with_capacity(entries);
    for item in store.scan(POTENTIALS, &pair_key(number, 0), Some(&pair_key(number, u32::MAX))) {
        let (key, value) = item?;
        let (_, entry) = read_pair(POTENTIALS, &key)?;
        let numbers = read_vector(POTENTIALS, &value, 1)?;
        if entry as usize != potentials.len() {
            return Err(
                damaged(POTENTIALS, format!("set {number} lacks a potential before entry {entry}")).into()
            );
        }
        potentials.extend(numbers);
    }
    if potentials.len() != entries {
        let reason = format!("set {number} has {} potentials for {entries} entries", potentials.len());
        return Err(damaged(POTENTIALS, reason).into());
    }
    Ok(potentials)
}

fn read_gate(
    state: &State,
    store: &View<'_>,
    number: u32,
    record: SetRecord,
    k: usize,
) -> Result<Set, ReadError> {
    let SetRecord { bank, absorbed: entries, .. } = record;
    let mut lists = BTreeMap::new();
    for item in store.scan(STATES, &pair_key(number, 0), Some(&pair_key(number, u32::MAX))) {
        let (key, value) = item?;
        let (_, entry) = read_pair(STATES, &key)?;
        lists.insert(entry, read_list(&value, k, state.row_count())?);
    }
    let lists: Vec<_> =
        (0..entries).map(|entry| lists.remove(&entry)).collect::<Option<_>>().ok_or_else(|| {
            damaged(
                STATES,
                format!("set {number} does not have a list for each of the {entries} entries of `{bank}`"),
            )
        })?;
    Ok(Set::gate(bank, Activation::from_lists(k, lists)))
}

fn read_name(family: &'static str, key: &[u8]) -> Result<Name, ReadError> {
    let name = std::str::from_utf8(key).ok().and_then(|text| text.parse().ok());
    let reason = "a key is no name".to_owned();
    Ok(name.ok_or(crate::record::DamagedRecord { family, reason })?)
}

/// Reads the ids of some rows straight from the store.
pub(crate) fn row_of(store: &Store, key: &[u8]) -> Result<Option<u32>, ReadError> {
    Ok(store.whole().get(IDS, key)?.map(|bytes| read_u32(IDS, &bytes)).transpose()?)
}
