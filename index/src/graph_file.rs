//! The graph on disk: derived data that saves rebuilding it. Little-endian, checksummed, and never
//! trusted: a file that is not whole is set aside and the graph built anew.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::graph::{Graph, Layer, Lists};
use crate::row_set::RowSet;

const MAGIC: &[u8; 8] = b"dehubgr1";

/// Why a graph file was not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GraphFileError {
    /// It could not be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not what was written.
    #[error("{0}")]
    Damaged(&'static str),
}

/// Writes the graph beside its place, syncs it, and moves it there.
pub(crate) fn write(path: &Path, identity: u64, graph: &Graph) -> io::Result<()> {
    let [low, high] = halves(identity);
    let mut words = vec![low, high, graph.covered, graph.entry.map_or(u32::MAX, |entry| entry)];
    put_list(&mut words, &graph.rows.starts);
    put_list(&mut words, &graph.rows.numbers);
    words.push(length(graph.layers.len()));
    for layer in &graph.layers {
        put_list(&mut words, &layer.nodes);
        put_list(&mut words, &layer.links.starts);
        put_list(&mut words, &layer.links.numbers);
    }
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(MAGIC)?;
    file.write_all(&crc32fast::hash(&body).to_le_bytes())?;
    file.write_all(&body)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Reads a graph of the collection `identity` with `rows` rows, of which these are `live`; `None` if there is no
/// file. Rows whose vectors are not `kept` cannot be walked over.
pub(crate) fn read(
    path: &Path,
    identity: u64,
    rows: u32,
    live: &RowSet,
    kept: &RowSet,
) -> Result<Option<Graph>, GraphFileError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let damaged = GraphFileError::Damaged;
    let rest = bytes.strip_prefix(MAGIC).ok_or(damaged("it does not start as a graph file"))?;
    let (sum, body) = rest.split_first_chunk::<4>().ok_or(damaged("it is cut short"))?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return Err(damaged("its checksum does not match"));
    }
    let (words, tail) = body.as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
    let words = words.strip_prefix(&halves(identity)).ok_or(damaged("it is of another collection"))?;
    let graph = parse(words).filter(|_| tail.is_empty()).ok_or(damaged("its lists are not whole"))?;
    if graph.covered > rows || !is_consistent(&graph) || !is_of(&graph, live, kept) {
        return Err(damaged("it is not a graph of this collection"));
    }
    Ok(Some(graph))
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of 64 bits")]
fn halves(identity: u64) -> [u32; 2] {
    [identity as u32, (identity >> 32) as u32]
}

fn length(len: usize) -> u32 {
    u32::try_from(len).expect("no list of a graph of u32 nodes is longer")
}

fn put_list(words: &mut Vec<u32>, list: &[u32]) {
    words.push(length(list.len()));
    words.extend_from_slice(list);
}

fn parse(words: &[u32]) -> Option<Graph> {
    let mut rest = words;
    let covered = take(&mut rest)?;
    let entry = take(&mut rest)?;
    let rows = Lists { starts: take_list(&mut rest)?, numbers: take_list(&mut rest)? };
    let layers = (0..take(&mut rest)?)
        .map(|_| {
            let nodes = take_list(&mut rest)?;
            let links = Lists { starts: take_list(&mut rest)?, numbers: take_list(&mut rest)? };
            Some(Layer { nodes, links })
        })
        .collect::<Option<Vec<_>>>()?;
    let entry = (entry != u32::MAX).then_some(entry);
    rest.is_empty().then_some(Graph { covered, entry, rows, layers })
}

fn take(words: &mut &[u32]) -> Option<u32> {
    let (&first, rest) = words.split_first()?;
    *words = rest;
    Some(first)
}

fn take_list(words: &mut &[u32]) -> Option<Vec<u32>> {
    let len = take(words)? as usize;
    let (list, rest) = words.split_at_checked(len)?;
    *words = rest;
    Some(list.to_vec())
}

/// Whether each node can be walked over and each point is in a node or was added later.
fn is_of(graph: &Graph, live: &RowSet, kept: &RowSet) -> bool {
    let mut rows = RowSet::default();
    let once = graph.rows.numbers.iter().all(|&row| kept.contains(row) && rows.insert(row));
    once && live.iter().take_while(|&row| row < graph.covered).all(|row| rows.contains(row))
}

/// Whether every number is in the range that a walk will index with.
fn is_consistent(graph: &Graph) -> bool {
    let nodes = graph.len();
    let lists = |lists: &Lists, places: usize, below: u32| {
        lists.starts.len() == places + 1
            && lists.starts.first() == Some(&0)
            && lists.starts.is_sorted()
            && lists.starts.last().is_some_and(|&end| end as usize == lists.numbers.len())
            && lists.numbers.iter().all(|&number| number < below)
    };
    let Ok(below) = u32::try_from(nodes) else { return false };
    let rows = lists(&graph.rows, nodes, graph.covered)
        && graph.rows.starts.is_sorted_by(|a, b| a < b)
        && graph.entry.is_some() == (nodes > 0)
        && graph.entry.is_none_or(|entry| entry < below);
    let layers = graph.layers.iter().enumerate().all(|(place, layer)| {
        let places = if place == 0 { nodes } else { layer.nodes.len() };
        lists(&layer.links, places, below)
            && (place > 0 || layer.nodes.is_empty())
            && (place == 0 || !layer.nodes.is_empty())
            && layer.nodes.is_sorted_by(|a, b| a < b)
            && layer.nodes.iter().all(|&node| node < below)
    });
    rows && layers && !graph.layers.is_empty()
}
