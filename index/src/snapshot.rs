//! What a reader sees: one state of a collection that never changes under it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use dehub_graph::Segment;
use dehub_store::{OwnedView, Store};
use dehub_vector::{Chunked, Metric, PointId, Vector};

use crate::bank::Bank;
use crate::payload::PayloadColumns;
use crate::priors::Prior;
use crate::quarantine::Quarantine;
use crate::record::{
    ENTRIES, IDS, META, POINTS, damaged, id_key, pair_key, read_id, read_point, read_u32, row_key,
    split_entry,
};
use crate::row_set::RowSet;
use crate::segments::Segments;
use crate::spaces::{Role, Whole};
use crate::state::State;
use crate::texts::Texts;
use crate::{
    BankInfo, Calibration, CalibrationSubject, CollectionConfig, Column, Correction, DefaultCorrection,
    EntryInput, FormatInfo, HeldPoint, HubRule, LiveBank, Name, Point, ReadError, UnknownSpace, machine,
};

/// An immutable state of a collection, after some commit and before the next.
pub struct Snapshot {
    pub(crate) role: Role,
    /// The same of the named vectors.
    pub(crate) spaces: BTreeMap<Name, Arc<Snapshot>>,
    pub(crate) config: CollectionConfig,
    pub(crate) format: Arc<FormatInfo>,
    pub(crate) view: OwnedView,
    pub(crate) sequence: u64,
    pub(crate) vectors: Chunked,
    /// `‖p‖²/2` of each row, under the Euclidean metric.
    pub(crate) half_norms: Option<Chunked>,
    /// A bound on every vector's length.
    pub(crate) norm_max: f32,
    pub(crate) live: RowSet,
    pub(crate) columns: PayloadColumns,
    pub(crate) segments: Segments,
    /// What is to be frozen next, once it was asked for.
    pub(crate) freezes_next: OnceLock<Option<Range<u32>>>,
    pub(crate) banks: BTreeMap<Name, (BankInfo, Bank)>,
    pub(crate) corrections: BTreeMap<Name, Correction>,
    pub(crate) default: Option<DefaultCorrection>,
    pub(crate) quarantine: Quarantine,
    pub(crate) live_bank: Option<LiveBank>,
    pub(crate) priors: BTreeMap<Name, Prior>,
    /// Of the points, if they are found by words.
    pub(crate) texts: Option<Arc<Texts>>,
    pub(crate) calibration: Option<Arc<Calibration>>,
    /// Found when it is first asked for.
    pub(crate) calibration_is_due: OnceLock<bool>,
}

/// The number, the vector and the weight of a bank entry.
type Slot<'a> = (u32, &'a [f32], f32);

/// The gallery in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GalleryInfo {
    /// Points that can be found.
    pub points: usize,
    /// Nodes of the graph, if there is one; points with equal vectors share a node.
    pub graph_nodes: Option<usize>,
    /// The segments it consists of, which are walked one after the other.
    pub segments: usize,
    /// Points not in the graph yet, which every graph search scans exactly.
    pub delta: usize,
    /// Rows of the graph whose points are deleted: roads that are no answers.
    pub dead: usize,
}

impl Snapshot {
    /// The state as readers get it, with the store as it is now.
    pub(crate) fn of(store: &Store, whole: &Whole) -> Snapshot {
        let view = store.owned_view();
        let space = |(name, state): (&Name, &Arc<State>)| match &state.role {
            Role::Space(_, number) => {
                let view = view.within(META, *number);
                // Payloads, priors and texts are those of the points.
                let base = &whole.base;
                let space = Snapshot {
                    columns: base.columns.clone(),
                    priors: base.priors.clone(),
                    texts: base.texts.clone(),
                    ..Snapshot::of_one(view, state, BTreeMap::new())
                };
                Some((name.clone(), Arc::new(space)))
            }
            Role::Unnamed | Role::Points => None,
        };
        let spaces = whole.spaces.iter().filter_map(space).collect();
        Snapshot::of_one(view, &whole.base, spaces)
    }

    fn of_one(view: OwnedView, state: &State, spaces: BTreeMap<Name, Arc<Snapshot>>) -> Snapshot {
        let corrections = state.corrections.iter().filter_map(|(name, record)| {
            let served = state.serve(name, record);
            debug_assert!(served.is_some(), "a committed correction is whole");
            Some((name.clone(), served?))
        });
        let bank = |(name, bank): (&Name, &Bank)| (name.clone(), (bank.info(name), bank.clone()));
        Snapshot {
            role: state.role.clone(),
            spaces,
            config: state.config,
            format: Arc::clone(&state.format),
            view,
            sequence: state.counters.sequence,
            vectors: state.vectors.clone(),
            half_norms: state.half_norms.clone(),
            norm_max: state.norm_max,
            live: state.live.clone(),
            columns: state.columns.clone(),
            segments: state.segments.clone(),
            freezes_next: OnceLock::new(),
            banks: state.banks.iter().map(bank).collect(),
            corrections: corrections.collect(),
            default: state.default.clone(),
            quarantine: state.quarantine.clone(),
            live_bank: state.live_bank.clone(),
            priors: state.priors.clone(),
            texts: state.texts.clone(),
            calibration: state.calibration.clone(),
            calibration_is_due: OnceLock::new(),
        }
    }

    /// The state of one of the collection's vectors, which is what searches are about; `None` and the empty name mean
    /// the unnamed one. Rows are the same in all, and those without a vector there are not among its
    /// [`Snapshot::rows`].
    ///
    /// # Errors
    /// [`UnknownSpace`] if the collection has no such vector.
    pub fn space(self: &Arc<Snapshot>, name: Option<&str>) -> Result<Arc<Snapshot>, UnknownSpace> {
        let asked = name.filter(|name| !name.is_empty());
        let found = match asked {
            None => (self.role != Role::Points).then_some(self),
            Some(name) => self.spaces.iter().find(|(own, _)| own.as_str() == name).map(|(_, space)| space),
        };
        let unknown =
            || UnknownSpace { asked: asked.map(str::to_owned), found: self.spaces.keys().cloned().collect() };
        found.cloned().ok_or_else(unknown)
    }

    /// The named vectors; none of a collection with an unnamed one, and of the state of one vector.
    pub fn spaces(&self) -> impl ExactSizeIterator<Item = (&Name, &Arc<Snapshot>)> {
        self.spaces.iter()
    }

    /// The name of the vector that this is the state of, if it has one.
    pub fn space_name(&self) -> Option<&Name> {
        self.role.name()
    }

    /// Refuses what is about vectors where points have none.
    ///
    /// # Errors
    /// [`UnknownSpace`] where [`Snapshot::has_vectors`] says no.
    pub fn check_vectors(&self) -> Result<(), UnknownSpace> {
        let unknown = || UnknownSpace { asked: None, found: self.spaces.keys().cloned().collect() };
        if self.has_vectors() { Ok(()) } else { Err(unknown()) }
    }

    /// Whether points have vectors here: not in the state of a collection with named ones, which knows of their ids and
    /// payloads alone.
    pub fn has_vectors(&self) -> bool {
        self.role != Role::Points
    }

    /// Whether anybody but this has the state of a space.
    pub(crate) fn is_a_space_read(&self) -> bool {
        self.spaces.values().any(|space| Arc::strong_count(space) > 1)
    }

    /// What the collection was made with.
    pub fn config(&self) -> &CollectionConfig {
        &self.config
    }

    /// In what format it is stored, and by which versions.
    pub fn format(&self) -> &FormatInfo {
        &self.format
    }

    /// The number of the newest commit in this state.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How many points there are.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// One more than the largest row a point may have.
    pub fn row_count(&self) -> u32 {
        u32::try_from(self.vectors.len()).expect("rows are numbered by u32; the writer refuses more")
    }

    /// How many chunks of [`dehub_vector::CHUNK_ROWS`] rows its vectors, its priors and the columns of its corrections
    /// take memory for. Rows of deleted points take none once their chunk has no other.
    pub fn resident_chunks(&self) -> usize {
        let fitted = self.corrections.values().flat_map(|it| it.columns.iter().chain(&it.scale));
        let columns = fitted.chain(self.priors.values().map(Prior::column));
        let halves = self.half_norms.as_ref().map_or(0, Chunked::resident_chunks);
        self.vectors.resident_chunks() + halves + columns.map(Column::resident_chunks).sum::<usize>()
    }

    /// Whether `row` holds a point.
    pub fn is_live(&self, row: u32) -> bool {
        self.live.contains(row)
    }

    /// The rows of all points, in the order they were written.
    pub fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.live.iter()
    }

    /// The gallery in numbers.
    pub fn gallery(&self) -> GalleryInfo {
        let points = self.len();
        if self.segments.is_empty() {
            return GalleryInfo { points, graph_nodes: None, segments: 0, delta: 0, dead: 0 };
        }
        let inside: usize = self.segments.iter().map(|frozen| self.live.count(frozen.rows.clone())).sum();
        let frozen: usize = self.segments().map(|graph| graph.rows().len()).sum();
        GalleryInfo {
            points,
            graph_nodes: Some(self.segments().map(Segment::node_count).sum()),
            segments: self.segments.iter().len(),
            delta: points - inside,
            dead: frozen - inside,
        }
    }

    /// Whether a walk is possible.
    pub fn has_graph(&self) -> bool {
        !self.segments.is_empty()
    }

    /// The vector of a row, as stored.
    pub fn vector(&self, row: u32) -> &[f32] {
        self.vectors.row(row as usize)
    }

    /// A stored vector as a query.
    pub fn query_of(&self, row: u32) -> Vector {
        // Rescaling a unit vector would change its last bits; what is stored is valid as it is.
        Vector::stored(self.vector(row))
    }

    /// The raw similarity of a query and a row; of several vectors each, the mean form of MaxSim.
    pub fn similarity(&self, query: &Vector, row: u32) -> f32 {
        let product = self.vectors.product(query.as_slice(), row as usize);
        match (self.config.metric, &self.half_norms) {
            (Metric::Euclidean, Some(halves)) => {
                product - (halves.at(row as usize) + query.half_squared_norm())
            }
            (Metric::Cosine | Metric::Dot | Metric::Euclidean, _) => product,
        }
    }

    /// The row of the point with this id. Of a named vector: if it has that vector.
    pub fn find(&self, id: &PointId) -> Result<Option<u32>, ReadError> {
        let Some(bytes) = self.view.whole().get(IDS, &id_key(id))? else { return Ok(None) };
        self.live_row(id, &bytes)
    }

    /// Whether the collection has a point with this id, whether or not it has this vector.
    pub fn has_point(&self, id: &PointId) -> Result<bool, ReadError> {
        Ok(self.view.whole().get(IDS, &id_key(id))?.is_some())
    }

    /// The row that the record of an id names.
    pub(crate) fn live_row(&self, id: &PointId, bytes: &[u8]) -> Result<Option<u32>, ReadError> {
        let row = read_u32(IDS, bytes)?;
        match &self.role {
            _ if self.is_live(row) => Ok(Some(row)),
            Role::Space(..) => Ok(None),
            Role::Unnamed | Role::Points => {
                Err(damaged(IDS, format!("id {id} leads to row {row}, which holds no point")).into())
            }
        }
    }

    /// The rows of the points with these ids, in that order, those that exist.
    pub fn find_all(&self, ids: &[PointId]) -> Result<Vec<u32>, ReadError> {
        let keys: Vec<_> = ids.iter().map(id_key).collect();
        let mut rows = Vec::with_capacity(ids.len());
        for (bytes, id) in self.view.whole().get_many(IDS, &keys)?.into_iter().zip(ids) {
            let Some(bytes) = bytes else { continue };
            rows.extend(self.live_row(id, &bytes)?);
        }
        Ok(rows)
    }

    /// The points of some rows, in that order.
    pub fn points(&self, rows: &[u32]) -> Result<Vec<Point>, ReadError> {
        let keys: Vec<_> = rows.iter().map(|&row| row_key(row)).collect();
        let values = self.view.whole().get_many(POINTS, &keys)?;
        let read = |(value, row): (Option<Vec<u8>>, &u32)| {
            let bytes = value.ok_or_else(|| damaged(POINTS, format!("row {row} has no record")))?;
            Ok(read_point(&bytes)?)
        };
        values.into_iter().zip(rows).map(read).collect()
    }

    /// The banks, by name.
    pub fn banks(&self) -> impl ExactSizeIterator<Item = &BankInfo> {
        self.banks.values().map(|(info, _)| info)
    }

    /// The bank with this name.
    pub fn bank(&self, name: &str) -> Option<&BankInfo> {
        self.banks().find(|info| info.name.as_str() == name)
    }

    /// The number, the vector and the weight of each entry of a bank; none if it does not exist.
    pub fn live_entries(&self, name: &str) -> impl Iterator<Item = (u32, &[f32], f32)> {
        let bank = self.banks.iter().find(|(own, _)| own.as_str() == name).map(|(_, (_, bank))| bank);
        bank.into_iter().flat_map(|bank| {
            bank.live_from(0).map(|slot| (slot, bank.vectors.row(slot as usize), bank.weight(slot)))
        })
    }

    /// The entries of a bank with their ids; none if it does not exist.
    pub fn bank_entries(&self, name: &Name) -> Result<Vec<EntryInput>, ReadError> {
        let entries: Vec<Slot<'_>> = self.live_entries(name.as_str()).collect();
        let Some((_, bank)) = self.banks.get(name) else { return Ok(Vec::new()) };
        let keys: Vec<_> = entries.iter().map(|&(slot, ..)| pair_key(bank.number, slot)).collect();
        let values = self.view.get_many(ENTRIES, &keys)?;
        let read = |(slot, vector, weight): (u32, &[f32], f32), value: Option<Vec<u8>>| {
            let gone = || damaged(ENTRIES, format!("entry {slot} of bank `{name}` is not whole"));
            let value = value.ok_or_else(gone)?;
            let (_, id) = split_entry(&value, &self.config).ok_or_else(gone)?;
            let id = if id.is_empty() { None } else { Some(read_id(ENTRIES, id)?) };
            Ok(EntryInput { id, vector: self.config.numbers(vector), weight })
        };
        entries.into_iter().zip(values).map(|(entry, value)| read(entry, value)).collect()
    }

    /// At most `most` entries of a bank as queries, evenly spread over it; none if it does not exist.
    pub fn bank_queries(&self, name: &Name, most: usize) -> Vec<Vector> {
        self.entries_spread(name, most).into_iter().map(|(_, vector)| vector).collect()
    }

    /// The same with the numbers of the entries.
    pub fn entries_spread(&self, name: &Name, most: usize) -> Vec<(u32, Vector)> {
        let Some((_, bank)) = self.banks.get(name) else { return Vec::new() };
        let (len, taken) = (bank.len(), bank.len().min(most));
        let live: Vec<u32> = bank.live_from(0).collect();
        let entry = |slot: u32| (slot, Vector::stored(bank.vectors.row(slot as usize)));
        (0..taken).map(|place| entry(live[place * len / taken])).collect()
    }

    /// The id of each entry of a bank, of those that have one, in the order of [`Snapshot::live_entries`];
    /// none if the bank does not exist.
    pub fn bank_ids(&self, name: &Name) -> Vec<Option<PointId>> {
        let Some((_, bank)) = self.banks.get(name) else { return Vec::new() };
        let ids = bank.ids();
        bank.live_from(0).map(|slot| ids.get(&slot).copied().cloned()).collect()
    }

    /// The correction with this name.
    pub fn correction(&self, name: &str) -> Option<&Correction> {
        self.corrections.iter().find(|(own, _)| own.as_str() == name).map(|(_, correction)| correction)
    }

    /// The corrections, by name.
    pub fn corrections(&self) -> impl ExactSizeIterator<Item = &Correction> {
        self.corrections.values()
    }

    /// What queries that name no correction are ranked by; `None` for raw.
    pub fn default_correction(&self) -> Option<&DefaultCorrection> {
        self.default.as_ref()
    }

    /// The rule by which new points are put in quarantine, if there is one.
    pub fn quarantine_rule(&self) -> Option<&HubRule> {
        self.quarantine.rule.as_ref()
    }

    /// By what policy queries are kept; `None` if they are not.
    pub fn live_bank(&self) -> Option<&LiveBank> {
        self.live_bank.as_ref()
    }

    /// The priors, by name.
    pub fn priors(&self) -> impl ExactSizeIterator<Item = (&Name, &Prior)> {
        self.priors.iter()
    }

    /// The prior with this name.
    pub fn prior(&self, name: &str) -> Option<&Prior> {
        self.priors().find(|(own, _)| own.as_str() == name).map(|(_, prior)| prior)
    }

    /// What the ways of searching were measured to find and to cost, if they were.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_deref()
    }

    /// Whether there is a graph, of any of the vectors, and its ways of searching were not measured as it is, with the
    /// corrections there are, and on this machine.
    pub fn is_calibration_due(&self) -> bool {
        let holds = |calibration: &Calibration| {
            calibration.subject == CalibrationSubject::of(self) && calibration.machine == machine()
        };
        let own = self
            .calibration_is_due
            .get_or_init(|| self.has_graph() && !self.calibration().is_some_and(holds));
        *own || self.spaces.values().any(|space| space.is_calibration_due())
    }

    /// The points in quarantine, in the order of their ids. They are not among [`Snapshot::rows`].
    pub fn quarantined(&self) -> impl ExactSizeIterator<Item = &HeldPoint> {
        self.quarantine.held.values()
    }
}
