//! Everything a reader can see of a collection, to compare.

use std::collections::{BTreeMap, BTreeSet};

use dehub_index::{BankInfo, Correction, CorrectionInfo, DefaultCorrection, HeldPoint, Point, Snapshot};
use dehub_vector::PointId;

/// Bit for bit what a snapshot shows.
#[derive(Debug, PartialEq)]
pub(crate) struct Dump {
    pub(crate) sequence: u64,
    row_count: u32,
    /// Row, point and the bits of its vector.
    points: Vec<(u32, Point, Vec<u32>)>,
    banks: Vec<(BankInfo, Vec<Vec<u32>>)>,
    corrections: Vec<Fitted>,
    default: Option<DefaultCorrection>,
    held: Vec<HeldPoint>,
}

#[derive(Debug, PartialEq)]
struct Fitted {
    info: CorrectionInfo,
    /// Of each column, the center's bits and those of the values of live rows.
    columns: Vec<(u64, Vec<u32>)>,
    /// Of each column, the bits of the lists of live rows.
    lists: Vec<Vec<Vec<u32>>>,
    /// For each live row, which gates it opens.
    gates: Vec<Vec<bool>>,
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

pub(crate) fn dump(snapshot: &Snapshot) -> Dump {
    let rows: Vec<u32> = snapshot.rows().collect();
    let records = snapshot.points(&rows).expect("every row has a record");
    for (row, point) in rows.iter().zip(&records) {
        assert_eq!(snapshot.find(&point.id).expect("ids are whole"), Some(*row));
    }
    let point = |(&row, point)| (row, point, bits(snapshot.vector(row)));
    let bank = |info: &BankInfo| {
        let entries = snapshot.bank_queries(&info.name, usize::MAX);
        (info.clone(), entries.iter().map(|entry| bits(entry.as_slice())).collect())
    };
    let fitted = |correction: &Correction| Fitted {
        info: correction.info().clone(),
        columns: correction
            .columns()
            .iter()
            .chain(correction.scale())
            .map(|column| {
                (column.center().to_bits(), rows.iter().map(|&row| column.at(row).to_bits()).collect())
            })
            .collect(),
        lists: correction
            .columns()
            .iter()
            .map(|column| rows.iter().map(|&row| bits(column.list(row))).collect())
            .collect(),
        gates: rows.iter().map(|&row| correction.open(Some(row))).collect(),
    };
    Dump {
        sequence: snapshot.sequence(),
        row_count: snapshot.row_count(),
        points: rows.iter().zip(records).map(point).collect(),
        banks: snapshot.banks().map(bank).collect(),
        corrections: snapshot.corrections().map(fitted).collect(),
        default: snapshot.default_correction().cloned(),
        held: snapshot.quarantined().cloned().collect(),
    }
}

/// What corrections say of the points, whatever rows those have.
#[derive(Debug, PartialEq)]
pub(crate) struct Biases {
    /// Correction and term → id → the statistic.
    pub(crate) columns: BTreeMap<(String, usize), BTreeMap<PointId, f64>>,
    /// Correction and term → the activation set.
    pub(crate) gates: BTreeMap<(String, usize), BTreeSet<PointId>>,
}

pub(crate) fn biases(snapshot: &Snapshot) -> Biases {
    let rows: Vec<u32> = snapshot.rows().collect();
    let points = snapshot.points(&rows).expect("every row has a record");
    let ids = || rows.iter().copied().zip(points.iter().map(|point| point.id.clone()));
    let mut found = Biases { columns: BTreeMap::new(), gates: BTreeMap::new() };
    for correction in snapshot.corrections() {
        let key = |term| (correction.info().name.to_string(), term);
        for (term, column) in correction.columns().iter().chain(correction.scale()).enumerate() {
            let value = |row| f64::from(column.at(row)) + column.center();
            found.columns.insert(key(term), ids().map(|(row, id)| (id, value(row))).collect());
        }
        if correction.is_gated() {
            for term in 0..correction.columns().len() {
                let open: BTreeSet<_> =
                    ids().filter(|&(row, _)| correction.open(Some(row))[term]).map(|(_, id)| id).collect();
                assert_eq!(correction.info().activated[term], open.len(), "only live rows are activated");
                found.gates.insert(key(term), open);
            }
        }
    }
    found
}

/// The same columns up to `error`, and the same activation sets.
#[track_caller]
pub(crate) fn assert_same_biases(found: &Biases, wanted: &Biases, error: f64, what: &str) {
    assert_eq!(found.gates, wanted.gates, "gates: {what}");
    assert!(found.columns.keys().eq(wanted.columns.keys()));
    for (key, wanted) in &wanted.columns {
        let found = &found.columns[key];
        assert!(found.keys().eq(wanted.keys()), "{key:?}: {what}");
        for (id, value) in wanted {
            assert!(
                (found[id] - value).abs() <= error,
                "{key:?} of {id}: {} is not {value}: {what}",
                found[id]
            );
        }
    }
}
