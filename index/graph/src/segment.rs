//! The finished graph: one run of bytes, which is also its file.
//!
//! A header of [`HEADER_WORDS`] words of 32 bits: a magic word of 8 bytes, the version, the checksum of
//! what follows in the header, the numbers of [`Header`], and for each section its first byte, its length
//! (64 bits each) and its checksum (CRC-32). Sections follow in the order of [`SECTIONS`], each from a
//! cache line's border on; a checksum covers the zeros up to the next. Everything is little-endian.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use dehub_vector::{DIM_MAX, Metric, Projection, dot};

use crate::bytes::{Bytes, LINE};
use crate::codes::Codes;
use crate::geometry::less;
use crate::scan::NodesOfRows;
use crate::walk::Scratch;
use crate::{CodeKind, M_MAX, NODES_MAX, SegmentError};

const MAGIC: &[u8; 8] = b"dehubseg";
const VERSION: u32 = 3;
pub(crate) const HEADER_WORDS: usize = 128;
/// Words before the numbers of the header, and before the table of sections.
const NUMBERS_AT: usize = 4;
const TABLE_AT: usize = 16;
const TABLE_WORDS: usize = 5;
/// Scratch spaces kept for later walks; more only for as many at once.
const SCRATCH_MAX: usize = 64;
/// No node.
pub(crate) const NONE: u32 = u32::MAX;

/// The parts of a segment, as errors name them.
pub(crate) const SECTIONS: [&str; 11] = [
    "starts of rows",
    "rows",
    "ground links",
    "starts of layers",
    "nodes of layers",
    "links of layers",
    "center",
    "projection",
    "scales",
    "terms",
    "codes",
];

/// Places in [`SECTIONS`].
pub(crate) mod section {
    pub(crate) const ROW_STARTS: usize = 0;
    pub(crate) const ROWS: usize = 1;
    pub(crate) const GROUND: usize = 2;
    pub(crate) const LAYER_STARTS: usize = 3;
    pub(crate) const LAYER_NODES: usize = 4;
    pub(crate) const LAYER_LINKS: usize = 5;
    pub(crate) const CENTER: usize = 6;
    pub(crate) const PROJECTION: usize = 7;
    pub(crate) const SCALES: usize = 8;
    pub(crate) const TERMS: usize = 9;
    pub(crate) const CODES: usize = 10;
}

/// The numbers of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) identity: u64,
    pub(crate) covered: u32,
    pub(crate) nodes: u32,
    /// The node every walk starts from, or [`NONE`].
    pub(crate) entry: u32,
    pub(crate) metric: Metric,
    pub(crate) code: CodeKind,
    pub(crate) dim: u32,
    /// The numbers in a code.
    pub(crate) width: u32,
    /// Links a new node asked for: its list has twice as many places on the ground, as many above.
    pub(crate) m: u32,
    /// The caller's number of the state that the segment reflects.
    pub(crate) sequence: u64,
}

/// A graph that is ready to be walked, in memory or in a file.
pub struct Segment {
    header: Header,
    bytes: Bytes,
    sections: [std::ops::Range<usize>; SECTIONS.len()],
    projection: Option<Projection>,
    pub(crate) scratch: Mutex<Vec<Scratch>>,
    /// Made when it is first asked for.
    nodes_of_rows: OnceLock<NodesOfRows>,
}

/// A segment's sections as numbers.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// Where the rows of each node start in `rows`, and the end of the last.
    pub(crate) row_starts: &'a [u32],
    pub(crate) rows: &'a [u32],
    /// `2m` nodes a node; behind the last, [`NONE`].
    pub(crate) ground: &'a [u32],
    /// Where each layer above the ground starts in `layer_nodes`, the lowest first, and the end of the last.
    pub(crate) layer_starts: &'a [u32],
    /// The nodes of each layer, ascending.
    pub(crate) layer_nodes: &'a [u32],
    /// `m` places in their layer for each of those; behind the last, [`NONE`].
    pub(crate) layer_links: &'a [u32],
    /// What is taken from a query before it is projected and coded; none under cosine and dot.
    pub(crate) center: &'a [f32],
    pub(crate) codes: Codes<'a>,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("header", &self.header).field("bytes", &self.byte_len()).finish()
    }
}

impl Segment {
    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.header.nodes as usize
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.header.nodes == 0
    }

    /// The rows of all nodes.
    pub fn rows(&self) -> &[u32] {
        self.numbers(section::ROWS)
    }

    /// Rows from this one on are not covered.
    pub fn covered(&self) -> u32 {
        self.header.covered
    }

    /// The number its maker knows it by.
    pub fn identity(&self) -> u64 {
        self.header.identity
    }

    /// Its maker's number of the state it reflects.
    pub fn sequence(&self) -> u64 {
        self.header.sequence
    }

    /// How vectors compare.
    pub fn metric(&self) -> Metric {
        self.header.metric
    }

    /// The numbers in a vector.
    pub fn dim(&self) -> usize {
        self.header.dim as usize
    }

    /// How vectors are kept.
    pub fn code(&self) -> CodeKind {
        self.header.code
    }

    /// The bytes a node's vector takes; 0 without nodes.
    pub fn vector_bytes(&self) -> usize {
        self.sections[section::CODES].len().checked_div(self.node_count()).unwrap_or(0)
    }

    /// What vectors and queries are projected by before they are coded, if they are.
    pub fn projection(&self) -> Option<&Projection> {
        self.projection.as_ref()
    }

    /// The numbers in a code: [`Segment::dim`], or the width of the projection.
    pub fn width(&self) -> usize {
        self.header.width as usize
    }

    /// The query as it is compared with codes, and what is added to every product: less the center, then
    /// projected.
    ///
    /// # Panics
    /// If the query does not have [`Segment::dim`] numbers.
    pub(crate) fn prepare<'a>(&self, query: &'a [f32]) -> (Cow<'a, [f32]>, f32) {
        assert_eq!(query.len(), self.dim(), "the query has the dimension of the segment");
        let (moved, shift) = match self.parts().center {
            [] => (Cow::Borrowed(query), 0.0),
            center => {
                let moved = less(query, center);
                let shift = -dot(&moved, &moved) / 2.0;
                (Cow::Owned(moved), shift)
            }
        };
        match &self.projection {
            Some(projection) => (Cow::Owned(projection.apply(&moved)), shift),
            None => (moved, shift),
        }
    }

    /// The size of its file.
    pub fn byte_len(&self) -> usize {
        self.bytes.as_slice().len()
    }

    pub(crate) fn header(&self) -> Header {
        self.header
    }

    fn numbers<T: bytemuck::AnyBitPattern>(&self, section: usize) -> &[T] {
        bytemuck::cast_slice(&self.bytes.as_slice()[self.sections[section].clone()])
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            row_starts: self.numbers(section::ROW_STARTS),
            rows: self.numbers(section::ROWS),
            ground: self.numbers(section::GROUND),
            layer_starts: self.numbers(section::LAYER_STARTS),
            layer_nodes: self.numbers(section::LAYER_NODES),
            layer_links: self.numbers(section::LAYER_LINKS),
            center: self.numbers(section::CENTER),
            codes: Codes {
                kind: self.header.code,
                bytes: self.numbers(section::CODES),
                scales: self.numbers(section::SCALES),
                terms: self.numbers(section::TERMS),
            },
        }
    }

    /// Writes the segment beside `path`, syncs it and moves it there.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        self.write_and(path, || ())
    }

    /// The same, and tells when the file is whole beside its place.
    pub fn write_and(&self, path: &Path, written: impl FnOnce()) -> io::Result<()> {
        let beside = path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(self.bytes.as_slice())?;
        file.sync_all()?;
        written();
        fs::rename(&beside, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }

    /// Opens a segment's file and maps it into memory. Every checksum and every number that a walk indexes
    /// with is checked, which reads the file once.
    ///
    /// The file must not be written to or cut short while the segment lives; [`Segment::write`] moves a new
    /// one into its place, which is fine.
    pub fn open(path: &Path) -> Result<Segment, SegmentError> {
        let file = File::open(path)?;
        if file.metadata()?.len() < header_bytes() as u64 {
            return Err(SegmentError::NotASegment);
        }
        Segment::from_bytes(Bytes::map(&file)?)
    }

    /// The segment whose file has these bytes.
    pub fn read(bytes: &[u8]) -> Result<Segment, SegmentError> {
        Segment::from_bytes(Bytes::from(bytes))
    }

    /// The bytes of its file.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    pub(crate) fn from_bytes(bytes: Bytes) -> Result<Segment, SegmentError> {
        let (header, sections) = parse(bytes.as_slice())?;
        let mut segment = Segment {
            header,
            bytes,
            sections,
            projection: None,
            scratch: Mutex::default(),
            nodes_of_rows: OnceLock::new(),
        };
        check(&segment)?;
        let directions = segment.numbers::<f32>(section::PROJECTION);
        if !directions.is_empty() {
            segment.projection = Some(Projection::from_directions(directions.to_vec(), segment.dim()));
        }
        Ok(segment)
    }

    pub(crate) fn nodes_of_rows(&self) -> &NodesOfRows {
        self.nodes_of_rows.get_or_init(|| NodesOfRows::new(self.parts()))
    }

    /// Lends what a walk works with, and keeps it for the next.
    pub(crate) fn with_scratch<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        let lock = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = lock().pop().unwrap_or_default();
        let outcome = work(&mut scratch);
        let mut kept = lock();
        if kept.len() < SCRATCH_MAX {
            kept.push(scratch);
        }
        outcome
    }
}

fn header_bytes() -> usize {
    HEADER_WORDS * size_of::<u32>()
}

/// Numbers, in a file's order, and the bytes of each section.
pub(crate) fn assemble(header: Header, sections: [&[u8]; SECTIONS.len()]) -> Bytes {
    let mut end = header_bytes();
    let places = sections.map(|section| {
        let start = end;
        end = (start + section.len()).next_multiple_of(LINE);
        start
    });
    let mut bytes = Bytes::zeros(end);
    let all = bytes.as_mut_slice();
    for (section, start) in sections.iter().zip(places) {
        all[start..][..section.len()].copy_from_slice(section);
    }
    seal(all, header, std::array::from_fn(|place| (places[place], sections[place].len())));
    bytes
}

/// Writes the header over the start of `all`, whose sections begin and measure as `places` says.
pub(crate) fn seal(all: &mut [u8], header: Header, places: [(usize, usize); SECTIONS.len()]) {
    let mut words = [0_u32; HEADER_WORDS];
    let metric = match header.metric {
        Metric::Cosine => 0,
        Metric::Dot => 1,
        Metric::Euclidean => 2,
    };
    let [low, high] = halves(header.identity);
    let Header { covered, nodes, entry, code, dim, width, m, .. } = header;
    let [early, late] = halves(header.sequence);
    let numbers = [low, high, covered, nodes, entry, metric, code.number(), dim, width, m, early, late];
    words[NUMBERS_AT..][..numbers.len()].copy_from_slice(&numbers);
    for (place, line) in words[TABLE_AT..].chunks_exact_mut(TABLE_WORDS).take(SECTIONS.len()).enumerate() {
        let (start, len) = places[place];
        let sum = crc32fast::hash(&all[start..(start + len).next_multiple_of(LINE)]);
        line[..2].copy_from_slice(&halves(start as u64));
        line[2..4].copy_from_slice(&halves(len as u64));
        line[4] = sum;
    }
    words[3] = crc32fast::hash(bytemuck::cast_slice(&words[NUMBERS_AT..]));
    words[2] = VERSION;
    let bytes = &mut all[..header_bytes()];
    bytes.copy_from_slice(bytemuck::cast_slice(&words));
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of 64 bits")]
fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

type Places = [std::ops::Range<usize>; SECTIONS.len()];

/// The header and the places of the sections, whose checksums match.
fn parse(bytes: &[u8]) -> Result<(Header, Places), SegmentError> {
    let inconsistent = |what| SegmentError::Inconsistent { section: "header", what };
    let words: &[u32] = match bytes.get(..header_bytes()) {
        Some(header) if header.starts_with(MAGIC) => bytemuck::cast_slice(header),
        _ => return Err(SegmentError::NotASegment),
    };
    if words[2] != VERSION {
        return Err(SegmentError::Version { wanted: VERSION, found: words[2] });
    }
    if words[3] != crc32fast::hash(bytemuck::cast_slice(&words[NUMBERS_AT..])) {
        return Err(SegmentError::Checksum { section: "header" });
    }
    let [low, high, covered, nodes, entry, metric, code, dim, width, m, early, late] =
        std::array::from_fn(|place| words[NUMBERS_AT + place]);
    let metrics = [Metric::Cosine, Metric::Dot, Metric::Euclidean];
    let metric = metrics.get(metric as usize).copied().ok_or(inconsistent("an unknown metric"))?;
    let code = CodeKind::numbered(code).ok_or(inconsistent("an unknown kind of code"))?;
    let (identity, sequence) = (whole([low, high]), whole([early, late]));
    let header = Header { identity, covered, nodes, entry, metric, code, dim, width, m, sequence };
    let mut end = header_bytes();
    let mut places: Places = std::array::from_fn(|_| 0..0);
    let table = words[TABLE_AT..].chunks_exact(TABLE_WORDS);
    for ((place, line), section) in places.iter_mut().zip(table).zip(SECTIONS) {
        let (start, len) = (whole([line[0], line[1]]), whole([line[2], line[3]]));
        let wanted = start.saturating_add(len);
        let short = SegmentError::Length { section, wanted, found: bytes.len() as u64 };
        let (Ok(start), Ok(len)) = (usize::try_from(start), usize::try_from(len)) else { return Err(short) };
        let padded = len.checked_next_multiple_of(LINE).and_then(|len| start.checked_add(len));
        let Some(covered) = padded.and_then(|padded| bytes.get(start..padded)) else { return Err(short) };
        if start != end {
            return Err(SegmentError::Inconsistent { section, what: "it does not follow the one before" });
        }
        if crc32fast::hash(covered) != line[4] {
            return Err(SegmentError::Checksum { section });
        }
        *place = start..start + len;
        end = start + covered.len();
    }
    if end != bytes.len() {
        let (wanted, found) = (end as u64, bytes.len() as u64);
        return Err(SegmentError::Length { section: SECTIONS[SECTIONS.len() - 1], wanted, found });
    }
    Ok((header, places))
}

/// Whether every number is in the range that a walk will index with.
fn check(segment: &Segment) -> Result<(), SegmentError> {
    check_lengths(segment)?;
    let (header, parts) = (segment.header, segment.parts());
    ensure(
        ascends(parts.row_starts, parts.rows.len()),
        section::ROW_STARTS,
        "they do not ascend to the end",
    )?;
    let is_node = |&node: &u32| node < header.nodes || node == NONE;
    ensure(parts.rows.iter().all(|&row| row < header.covered), section::ROWS, "a row is not covered")?;
    ensure(parts.ground.iter().all(is_node), section::GROUND, "no such node")?;
    let directions = segment.numbers::<f32>(section::PROJECTION);
    let are_numbers = directions.iter().all(|number| number.is_finite());
    ensure(are_numbers, section::PROJECTION, "a direction is not finite")?;
    check_layers(header, parts)
}

fn ensure(holds: bool, section: usize, what: &'static str) -> Result<(), SegmentError> {
    if holds { Ok(()) } else { Err(SegmentError::Inconsistent { section: SECTIONS[section], what }) }
}

/// Whether starts ascend from 0 to the end of what they divide.
fn ascends(starts: &[u32], end: usize) -> bool {
    starts.first() == Some(&0)
        && starts.is_sorted_by(|a, b| a < b)
        && starts.last().is_some_and(|&last| last as usize == end)
}

fn check_lengths(segment: &Segment) -> Result<(), SegmentError> {
    use section::*;
    let Header { nodes, entry, metric, code, dim, width, m, .. } = segment.header;
    let has_entry = if nodes == 0 { entry == NONE } else { entry < nodes };
    let (nodes, dim, width, m) = (nodes as usize, dim as usize, width as usize, m as usize);
    let in_range = nodes <= NODES_MAX
        && (1..=M_MAX).contains(&m)
        && (1..=DIM_MAX).contains(&dim)
        && (1..=dim).contains(&width)
        && has_entry;
    if !in_range {
        return Err(SegmentError::Inconsistent { section: "header", what: "a number is out of range" });
    }
    let when = |wanted: bool, count: usize| if wanted { count } else { 0 };
    let is_euclidean = metric == Metric::Euclidean;
    let lens = [
        (ROW_STARTS, nodes + 1, size_of::<u32>()),
        (GROUND, nodes * 2 * m, size_of::<u32>()),
        (CENTER, when(is_euclidean, dim), size_of::<f32>()),
        (PROJECTION, when(width < dim, width * dim), size_of::<f32>()),
        (SCALES, when(code == CodeKind::Int8, nodes), size_of::<f32>()),
        (TERMS, when(is_euclidean, nodes), size_of::<f32>()),
        (CODES, nodes, code.row_bytes(width)),
    ];
    for (place, count, size) in lens {
        let holds = segment.sections[place].len() == count * size;
        ensure(holds, place, "its length is not that of its nodes")?;
    }
    for place in [ROWS, LAYER_STARTS, LAYER_NODES, LAYER_LINKS] {
        ensure(
            segment.sections[place].len().is_multiple_of(size_of::<u32>()),
            place,
            "a number is not whole",
        )?;
    }
    let [links, nodes] = [LAYER_LINKS, LAYER_NODES].map(|place| segment.sections[place].len());
    ensure(links == nodes * m, LAYER_LINKS, "its length is not that of its nodes")
}

fn check_layers(header: Header, parts: Parts<'_>) -> Result<(), SegmentError> {
    use section::*;
    ensure(
        ascends(parts.layer_starts, parts.layer_nodes.len()),
        LAYER_STARTS,
        "they do not ascend to the end",
    )?;
    for layer in 0..parts.layer_count() {
        let (here, links) = parts.layer(layer);
        let ascend = here.is_sorted_by(|a, b| a < b) && here.last().is_none_or(|&last| last < header.nodes);
        ensure(ascend, LAYER_NODES, "they do not ascend below the number of nodes")?;
        let is_place = |&place: &u32| place == NONE || (place as usize) < here.len();
        ensure(links.iter().all(is_place), LAYER_LINKS, "no such place")?;
        // A walk goes from a node of a layer to the same node on the layer below.
        let below = layer.checked_sub(1).map(|below| parts.layer(below).0);
        let stands = below.is_none_or(|below| here.iter().all(|node| below.binary_search(node).is_ok()));
        ensure(stands, LAYER_NODES, "one is not on the layer below")?;
    }
    let top = parts.layer_count().checked_sub(1).map(|top| parts.layer(top).0);
    let is_on_top = top.is_none_or(|top| top.binary_search(&header.entry).is_ok());
    ensure(is_on_top, LAYER_NODES, "the entry is not on top")
}

impl<'a> Parts<'a> {
    /// The rows of a node.
    #[inline]
    pub(crate) fn rows_of(&self, node: u32) -> &'a [u32] {
        let starts = &self.row_starts[node as usize..][..2];
        &self.rows[starts[0] as usize..starts[1] as usize]
    }

    /// How many layers are above the ground.
    pub(crate) fn layer_count(&self) -> usize {
        self.layer_starts.len().saturating_sub(1)
    }

    /// The nodes of a layer above the ground, counted from 0, and their links.
    pub(crate) fn layer(&self, layer: usize) -> (&'a [u32], &'a [u32]) {
        let range = self.layer_starts[layer] as usize..self.layer_starts[layer + 1] as usize;
        let m = if self.layer_nodes.is_empty() { 0 } else { self.layer_links.len() / self.layer_nodes.len() };
        (&self.layer_nodes[range.clone()], &self.layer_links[range.start * m..range.end * m])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuildOptions, Points, Raw, Width, build};

    /// Checksums prove nothing to somebody who writes their own: whatever the numbers say, a segment is
    /// refused or can be walked.
    #[test]
    fn numbers_that_no_graph_has_are_refused_or_harmless() {
        let vectors: Vec<[f32; 3]> =
            (0_u8..40).map(|x| [f32::from(x), f32::from(x % 7), f32::from(x % 3)]).collect();
        let groups: Vec<Vec<u32>> = (0..20).map(|node| vec![node, node + 20]).collect();
        let vector = |row: u32| vectors[row as usize].as_slice();
        for (metric, code) in [(Metric::Euclidean, CodeKind::Int8), (Metric::Dot, CodeKind::F32)] {
            let points = Points { metric, dim: 3, groups: &groups, vector: &vector };
            let segment =
                build(&points, &BuildOptions { m: 2, code, covered: 40, ..BuildOptions::default() });
            let places = segment.sections.each_ref().map(|range| (range.start, range.len()));
            let mut refused = 0;
            for (start, len) in places[..=section::LAYER_LINKS].iter().copied() {
                for place in (start..start + len).step_by(4) {
                    for number in [0, 1, 19, 20, 39, 40, NONE - 1, NONE] {
                        let mut bytes = segment.as_bytes().to_vec();
                        bytes[place..place + 4].copy_from_slice(&u32::to_le_bytes(number));
                        seal(&mut bytes, segment.header, places);
                        match Segment::read(&bytes) {
                            Ok(changed) => {
                                let width = Width { effort: 9, keep: 9 };
                                assert!(changed.walk(&[1.0, 2.0, 3.0], &Raw, width).candidates.len() <= 9);
                            }
                            Err(_) => refused += 1,
                        }
                    }
                }
            }
            assert!(refused > 100, "{refused} were refused");
        }
    }

    #[test]
    fn a_header_that_contradicts_its_sections_is_refused() {
        let vectors: Vec<[f32; 3]> = (0_u8..40).map(|x| [f32::from(x), 1.0, 2.0]).collect();
        let groups: Vec<Vec<u32>> = (0..40).map(|node| vec![node]).collect();
        let vector = |row: u32| vectors[row as usize].as_slice();
        let points = Points { metric: Metric::Euclidean, dim: 3, groups: &groups, vector: &vector };
        let segment = build(&points, &BuildOptions { covered: 40, ..BuildOptions::default() });
        let places = segment.sections.each_ref().map(|range| (range.start, range.len()));
        let whole = segment.header;
        let headers = [
            Header { nodes: 39, ..whole },
            Header { nodes: NONE, ..whole },
            Header { entry: 40, ..whole },
            Header { entry: NONE, ..whole },
            Header { metric: Metric::Dot, ..whole },
            Header { code: CodeKind::Int8, ..whole },
            Header { dim: 0, ..whole },
            Header { dim: 500, ..whole },
            Header { dim: NONE, ..whole },
            Header { width: 0, ..whole },
            Header { width: 2, ..whole },
            Header { width: 4, ..whole },
            Header { width: NONE, ..whole },
            Header { m: 0, ..whole },
            Header { m: 15, ..whole },
            Header { m: NONE, ..whole },
            Header { covered: 39, ..whole },
        ];
        for header in headers {
            let mut bytes = segment.as_bytes().to_vec();
            seal(&mut bytes, header, places);
            let error = Segment::read(&bytes).expect_err("a contradiction");
            assert!(matches!(error, SegmentError::Inconsistent { .. }), "{header:?}: {error}");
        }
    }
}
