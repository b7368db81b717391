//! What is read from files when there is no collection.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, bail};
use dehub_format::{ReadOptions, open_fields};
use dehub_query::{Qrels, QueryTruth, Relevant, Similarities, SourceError};
use dehub_vector::{Chunked, Dim, Metric, PointId, Vector};

use super::schema::Input;
use crate::cli::VectorFile;
use crate::load;

/// Numbers of a matrix that are kept while it is read by columns: 256 MiB.
const TURNED_NUMBERS_MAX: usize = 64 << 20;

/// A file's hash, as results have it.
pub(crate) fn hash(path: &Path) -> anyhow::Result<String> {
    let mut file = File::open(path).with_context(|| path.display().to_string())?;
    let (mut hasher, mut part) = (blake3::Hasher::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut part).with_context(|| path.display().to_string())? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            read => hasher.update(&part[..read]),
        };
    }
}

/// The files an evaluation has read.
#[derive(Default)]
pub(super) struct Inputs(pub(super) Vec<Input>);

impl Inputs {
    pub(super) fn add(&mut self, role: &str, path: &Path, shape: Option<[usize; 2]>) -> anyhow::Result<()> {
        let shape = shape.map(|shape| shape.map(|length| length as u64));
        self.0.push(Input { role: role.to_owned(), path: path.to_owned(), blake3: hash(path)?, shape });
        Ok(())
    }
}

/// Vectors with what they are called.
pub(in crate::commands) struct Vectors {
    pub(in crate::commands) rows: Chunked,
    pub(in crate::commands) names: Names,
}

/// Ids and texts of rows.
#[derive(Default)]
pub(in crate::commands) struct Names {
    pub(in crate::commands) ids: Vec<String>,
    pub(super) texts: Vec<Option<String>>,
}

impl Names {
    /// Row numbers.
    fn numbers(rows: usize) -> Names {
        Names { ids: (0..rows).map(|row| row.to_string()).collect(), texts: vec![None; rows] }
    }

    /// From a JSON lines file that goes with `rows` rows of `file`; without one row numbers.
    pub(in crate::commands) fn read(format: &VectorFile, file: &Path, rows: usize) -> anyhow::Result<Names> {
        let Some(meta) = &format.meta else { return Ok(Names::numbers(rows)) };
        let options = ReadOptions {
            id_field: format.id_field.clone(),
            text_field: format.text_field.clone(),
            ..ReadOptions::default()
        };
        let mut names = Names::default();
        for batch in open_fields(meta, options)? {
            let batch = batch?;
            let Some(ids) = batch.ids else { bail!("{}: the rows have no ids", meta.display()) };
            names.ids.extend(ids.iter().map(PointId::to_string));
            names.texts.extend(batch.texts.unwrap_or_else(|| vec![None; batch.rows]));
        }
        if names.ids.len() != rows {
            let (meta, file, found) = (meta.display(), file.display(), names.ids.len());
            bail!("{meta}: wanted {rows} lines, one for each row of {file}, found {found}");
        }
        names.check(meta)?;
        Ok(names)
    }

    fn check(&self, file: &Path) -> anyhow::Result<()> {
        let mut seen = HashSet::new();
        match self.ids.iter().enumerate().find(|(_, id)| !seen.insert(*id)) {
            Some((row, id)) => bail!("{}: row {row}: the id {id} is given twice", file.display()),
            None => Ok(()),
        }
    }
}

/// Reads vectors, of one dimension if it is given.
pub(in crate::commands) fn vectors(
    file: &Path,
    format: &VectorFile,
    metric: Metric,
    dim: Option<usize>,
) -> anyhow::Result<Vectors> {
    let mut read: Option<Chunked> = None;
    let (mut names, mut has_ids) = (Names::default(), true);
    for batch in load::open(file, format, Some(metric))? {
        let batch = batch?;
        let wanted =
            Dim::new(dim.unwrap_or(batch.vectors.dim())).with_context(|| file.display().to_string())?;
        let rows = read.get_or_insert_with(|| Chunked::new(wanted.get()));
        for row in load::rows(file, batch)? {
            let vector = Vector::new(&row.vector, wanted, metric);
            rows.push(vector.with_context(|| format!("{}: row {}", file.display(), row.number))?.as_slice());
            has_ids &= row.id.is_some();
            names.ids.push(row.id.map_or_else(|| row.number.to_string(), |id| id.to_string()));
            names.texts.push(row.text);
        }
    }
    let Some(rows) = read else { bail!("{}: wanted at least one row, found none", file.display()) };
    if has_ids {
        names.check(file)?;
    }
    Ok(Vectors { rows, names })
}

/// A matrix in a file, read where it is asked for.
pub(super) struct MatrixFile {
    path: PathBuf,
    rows: usize,
    columns: usize,
    /// A number for what each row holds, once it was read: equal rows have equal numbers.
    seen: Mutex<Vec<u64>>,
}

impl MatrixFile {
    pub(super) fn open(path: &Path) -> anyhow::Result<MatrixFile> {
        let reader = load::open(path, &VectorFile::default(), None)?;
        let rows = reader.rows_total().and_then(|rows| usize::try_from(rows).ok());
        let is_npy = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("npy"));
        let (true, Some(rows), Some(columns)) = (is_npy, rows, reader.dim()) else {
            bail!("{}: wanted a matrix of similarities in a .npy file", path.display());
        };
        if rows == 0 || u32::try_from(rows).is_err() {
            bail!("{}: wanted 1 to {} rows, found {rows}", path.display(), u32::MAX);
        }
        Ok(MatrixFile { path: path.to_owned(), rows, columns, seen: Mutex::new(vec![0; rows]) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn shape(&self) -> [usize; 2] {
        [self.rows, self.columns]
    }

    /// Reads a run of rows, and shows each with its number.
    fn run(&self, first: u64, end: u64, look: &mut dyn FnMut(usize, &[f32])) -> Result<(), SourceError> {
        let options =
            ReadOptions { batch_rows: load::BATCH_ROWS, rows: Some(first..end), ..ReadOptions::default() };
        for batch in dehub_format::open(&self.path, options)? {
            let batch = batch?;
            let number = |row: u64| usize::try_from(row).unwrap_or(usize::MAX);
            (batch.first_row..).zip(batch.vectors.iter()).for_each(|(row, line)| look(number(row), line));
        }
        Ok(())
    }

    /// How many different rows of this matrix the other has too, of those that were read.
    pub(super) fn shared_rows(&self, other: &MatrixFile) -> usize {
        let marks = |file: &MatrixFile| -> HashSet<u64> {
            let seen = file.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.iter().copied().filter(|&mark| mark != 0).collect()
        };
        marks(self).intersection(&marks(other)).count()
    }
}

/// A number for what a line holds; 0 for none.
fn mark(line: &[f32]) -> u64 {
    let step = |mark: u64, bits: u64| (mark.rotate_left(29) ^ bits).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (pairs, rest) = line.as_chunks::<2>();
    let pairs = pairs.iter().map(|&[a, b]| u64::from(a.to_bits()) << 32 | u64::from(b.to_bits()));
    let rest = rest.iter().map(|a| u64::from(a.to_bits()));
    pairs.chain(rest).fold(line.len() as u64, step).max(1)
}

impl Similarities for MatrixFile {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn read(&self, rows: &[u32], out: &mut [f32]) -> Result<(), SourceError> {
        let mut lines = out.chunks_exact_mut(self.columns);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for run in rows.chunk_by(|&a, &b| a.checked_add(1) == Some(b)) {
            let (Some(&first), Some(&last)) = (run.first(), run.last()) else { continue };
            self.run(u64::from(first), u64::from(last) + 1, &mut |row, line| {
                if let Some(out) = lines.next() {
                    out.copy_from_slice(line);
                    seen[row] = mark(line);
                }
            })?;
        }
        match lines.next() {
            None => Ok(()),
            Some(_) => Err("the file has fewer rows than when it was opened".into()),
        }
    }
}

/// The same matrix by its columns: points are the rows.
pub(super) struct Turned<'a> {
    file: &'a MatrixFile,
    kept: Mutex<Kept>,
}

/// Columns of the file, one after the other.
#[derive(Default)]
struct Kept {
    first: usize,
    numbers: Vec<f32>,
}

impl<'a> Turned<'a> {
    pub(super) fn new(file: &'a MatrixFile) -> Turned<'a> {
        Turned { file, kept: Mutex::default() }
    }
}

impl Similarities for Turned<'_> {
    fn name(&self) -> String {
        self.file.name()
    }

    fn rows(&self) -> usize {
        self.file.shape()[1]
    }

    fn columns(&self) -> usize {
        self.file.shape()[0]
    }

    fn read(&self, rows: &[u32], out: &mut [f32]) -> Result<(), SourceError> {
        let height = self.file.rows;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for (&row, out) in rows.iter().zip(out.chunks_exact_mut(height)) {
            let row = row as usize;
            let held = kept.numbers.len() / height;
            if !(kept.first..kept.first + held).contains(&row) {
                let width = (TURNED_NUMBERS_MAX / height).clamp(1, self.file.columns - row);
                let mut numbers = vec![0.0; width * height];
                self.file.run(0, height as u64, &mut |line, values| {
                    let values = values[row..row + width].iter().enumerate();
                    values.for_each(|(column, &value)| numbers[column * height + line] = value);
                })?;
                *kept = Kept { first: row, numbers };
            }
            out.copy_from_slice(&kept.numbers[(row - kept.first) * height..][..height]);
        }
        Ok(())
    }
}

/// Who answers what, and what was left over.
#[derive(Default)]
pub(super) struct Truth {
    pub(super) relevant: Relevant,
    pub(super) not_given: Vec<String>,
    pub(super) not_in_gallery: Vec<String>,
}

/// From judgements by ids.
pub(super) fn by_qrels(qrels: &Qrels, queries: &[String], points: &[String]) -> Truth {
    let numbers: HashMap<&str, u32> = points.iter().map(String::as_str).zip(0..).collect();
    let mut truth = Truth::default();
    for id in queries {
        let (mut found, mut judged) = (Vec::new(), QueryTruth::default());
        for (document, gain) in qrels.relevant(id) {
            match numbers.get(document.as_str()) {
                Some(&point) => {
                    found.push(point);
                    judged.gains.push(*gain);
                }
                None => {
                    judged.missing_gains.push(*gain);
                    truth.not_in_gallery.push(document.clone());
                }
            }
        }
        truth.relevant.is_judged.push(qrels.contains(id));
        truth.relevant.points.push(found);
        truth.relevant.truths.push(judged);
    }
    let given: HashSet<&str> = queries.iter().map(String::as_str).collect();
    truth.not_given = qrels.queries().filter(|id| !given.contains(id)).map(str::to_owned).collect();
    truth
}

fn unjudged(queries: usize) -> Relevant {
    let truths = vec![QueryTruth::default(); queries];
    Relevant { is_judged: vec![false; queries], points: vec![Vec::new(); queries], truths }
}

/// From pairs of row numbers.
pub(super) fn by_pairs(pairs: &[(u32, u32)], queries: usize) -> Truth {
    let mut relevant = unjudged(queries);
    for &(query, point) in pairs {
        let query = query as usize;
        if !relevant.points[query].contains(&point) {
            relevant.is_judged[query] = true;
            relevant.points[query].push(point);
            relevant.truths[query].gains.push(1);
        }
    }
    Truth { relevant, ..Truth::default() }
}

/// The same judgements for points as queries. Points that nothing asks for are not judged.
pub(super) fn turned(relevant: &Relevant, points: usize) -> Relevant {
    let mut turned = unjudged(points);
    for (query, (found, truth)) in (0..).zip(relevant.points.iter().zip(&relevant.truths)) {
        for (&point, &gain) in found.iter().zip(&truth.gains) {
            turned.is_judged[point as usize] = true;
            turned.points[point as usize].push(query);
            turned.truths[point as usize].gains.push(gain);
        }
    }
    turned
}

/// Pairs of a query's and a point's row: two numbers a line, or a matrix of two columns.
pub(super) fn pairs(file: &Path, queries: usize, points: usize) -> anyhow::Result<Vec<(u32, u32)>> {
    let check =
        |place: &dyn Fn() -> String, number: Option<u32>, found: &str, side: &str, rows: usize| match number
            .filter(|&number| (number as usize) < rows)
        {
            Some(number) => Ok(number),
            None => {
                let (file, most) = (file.display(), rows - 1);
                bail!("{file}: {}, {side}: wanted a row number from 0 to {most}, found {found}", place())
            }
        };
    let mut found = Vec::new();
    if file.extension().is_some_and(|it| it.eq_ignore_ascii_case("npy")) {
        let mut row = 0_u64;
        for batch in load::open(file, &VectorFile::default(), None)? {
            for line in batch?.vectors.iter() {
                let &[query, point] = line else {
                    bail!("{}: wanted 2 columns, query and point, found {}", file.display(), line.len());
                };
                let place = || format!("row {row}");
                let whole = |it: f32| it.to_string().parse::<u32>().ok();
                let query = check(&place, whole(query), &query.to_string(), "query", queries)?;
                found.push((query, check(&place, whole(point), &point.to_string(), "point", points)?));
                row += 1;
            }
        }
        return Ok(found);
    }
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split([' ', '\t', ',']).filter(|field| !field.is_empty()).collect();
        let &[query, point] = &fields[..] else {
            bail!(
                "{}: line {number}: wanted 2 numbers, query and point, found {}",
                file.display(),
                fields.len()
            );
        };
        let place = || format!("line {number}");
        let query = check(&place, query.parse().ok(), query, "query", queries)?;
        found.push((query, check(&place, point.parse().ok(), point, "point", points)?));
    }
    match found.is_empty() {
        true => bail!("{}: wanted at least one pair, found none", file.display()),
        false => Ok(found),
    }
}
