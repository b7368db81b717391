//! Where a point's bias comes from, and whether a bank knows the answers.

use std::collections::HashSet;

use dehub_index::{Name, Snapshot, Variant};
use dehub_vector::{Candidate, TopK, Vector};

use crate::hubness::label;

/// A point's bias under one correction.
#[derive(Debug, Clone, PartialEq)]
pub struct PointBias {
    /// The correction's name.
    pub correction: Name,
    /// The method's label.
    pub label: String,
    /// What is subtracted from the point's similarities when every gate is open.
    pub bias: f32,
    /// How many points have a larger bias, plus one: 1 is the largest hub.
    pub rank: usize,
}

/// The bias of a point under every correction, ranked among all points. Corrections whose score is no
/// similarity less a bias are left out.
pub fn point_biases(snapshot: &Snapshot, row: u32) -> Vec<PointBias> {
    let of_correction = |correction: &dehub_index::Correction| {
        let open = vec![true; correction.columns().len()];
        let variant: Variant<'_> = correction.variant(&open, 1.0);
        let bias = variant.bias(row);
        let larger = snapshot.rows().filter(|&other| variant.bias(other) > bias).count();
        let correction_name = correction.info().name.clone();
        PointBias {
            correction: correction_name,
            label: label(Some((correction, 1.0))),
            bias,
            rank: larger + 1,
        }
    };
    snapshot.corrections().filter(|it| it.scorer().is_none()).map(of_correction).collect()
}

/// A bank entry and its similarity to a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Influence {
    /// The entry's number in the bank, from 0.
    pub entry: u32,
    /// Its similarity to the point.
    pub similarity: f32,
}

/// The bank entries most similar to a point, nearest first: what makes it a hub.
pub fn influences(snapshot: &Snapshot, row: u32, bank: &Name, most: usize) -> Vec<Influence> {
    let mut top = TopK::new(most);
    for (entry, query) in snapshot.entries_spread(bank, usize::MAX) {
        top.push(Candidate::new(snapshot.similarity(&query, row), entry));
    }
    let influence = |candidate: Candidate| Influence { entry: candidate.row, similarity: candidate.score };
    top.into_sorted().into_iter().map(influence).collect()
}

/// For each bank that holds some of these queries, bit for bit, how many it holds. A correction fitted
/// from the very queries it is measured on looks better than it is.
pub fn leaks(snapshot: &Snapshot, queries: &[Vector]) -> Vec<(Name, usize)> {
    let bits = |vector: &Vector| vector.as_slice().iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    let asked: HashSet<Vec<u32>> = queries.iter().map(bits).collect();
    let held = |name: &Name| {
        let entries: HashSet<Vec<u32>> = snapshot.bank_queries(name, usize::MAX).iter().map(bits).collect();
        asked.intersection(&entries).count()
    };
    let counted = snapshot.banks().map(|bank| (bank.name.clone(), held(&bank.name)));
    counted.filter(|&(_, held)| held > 0).collect()
}
