//! Copies and near-copies against a look at every pair.

use std::collections::BTreeMap;

use dehub_normalize::{Duplicates, Group, Representative, Sameness, group_duplicates};
use dehub_vector::{CHUNK_ROWS, dot};

use crate::reference::{Matrix, Numbers, chunked, unit};

/// The rule of the documentation, one pair at a time.
fn brute_force(bank: &Matrix, new: &Matrix, sameness: Sameness) -> Duplicates {
    let mut seen: Vec<(Representative, &Vec<f32>)> =
        bank.iter().enumerate().map(|(row, vector)| (Representative::Bank(row), vector)).collect();
    let (mut kept, mut groups) = (Vec::new(), BTreeMap::<Representative, Vec<usize>>::new());
    for (row, vector) in new.iter().enumerate() {
        let copy = seen.iter().find(|(_, other)| *other == vector).map(|it| it.0);
        let near = match sameness {
            Sameness::Copies => None,
            Sameness::Within(least) => {
                let mut best: Option<(f32, Representative)> = None;
                for (name, other) in &seen {
                    let score = dot(vector, other);
                    if score >= least && best.is_none_or(|best| score > best.0) {
                        best = Some((score, *name));
                    }
                }
                best.map(|best| best.1)
            }
        };
        match copy.or(near) {
            Some(name) => groups.entry(name).or_default().push(row),
            None => {
                kept.push(row);
                seen.push((Representative::New(row), vector));
            }
        }
    }
    let groups = groups.into_iter().map(|(representative, members)| Group { representative, members });
    Duplicates { kept, groups: groups.collect() }
}

/// Rows about a few centres, with copies among them.
fn crowded(count: usize, dim: usize, numbers: &mut Numbers) -> Matrix {
    let mut rows: Matrix = Vec::new();
    for _ in 0..count {
        let row: Vec<f32> = match (numbers.below(4), rows.len()) {
            (0, seen) if seen > 0 => rows[numbers.below(seen)].clone(),
            (1, seen) if seen > 0 => {
                let near = rows[numbers.below(seen)].clone();
                near.iter().map(|x| x + 0.1 * numbers.signed()).collect()
            }
            _ => (0..dim).map(|_| numbers.signed()).collect(),
        };
        rows.push(row);
    }
    rows
}

#[test]
fn duplicates_are_those_of_a_look_at_every_pair() {
    for (bank, new, dim, seed) in
        [(0, 40, 3, 1), (30, 0, 3, 2), (25, 90, 4, 3), (CHUNK_ROWS + 11, CHUNK_ROWS * 2 + 5, 8, 4)]
    {
        let mut numbers = Numbers(seed);
        let mut bank = unit(&crowded(bank, dim, &mut numbers));
        let new = unit(&[bank.clone(), crowded(new, dim, &mut numbers)].concat().split_off(bank.len() / 2));
        bank.extend(bank.first().cloned());
        for sameness in
            [Sameness::Copies, Sameness::Within(0.9), Sameness::Within(0.99), Sameness::Within(0.2)]
        {
            let found = group_duplicates(&chunked(dim, &bank), &chunked(dim, &new), sameness);
            let wanted = brute_force(&bank, &new, sameness);
            assert_eq!(found, wanted, "{} entries, {} new rows, {sameness:?}", bank.len(), new.len());
            assert_eq!(found.kept.len() + found.dropped(), new.len());
        }
    }
}

#[test]
fn a_copy_joins_the_first_of_its_kind_and_signs_of_zero_do_not_matter() {
    let bank = chunked(2, &[vec![1.0, 0.0], vec![0.5, 0.5], vec![1.0, 0.0]]);
    let new = chunked(2, &[vec![3.0, 4.0], vec![1.0, -0.0], vec![3.0, 4.0], vec![1.0, 0.0]]);
    let found = group_duplicates(&bank, &new, Sameness::Copies);
    assert_eq!(found.kept, [0]);
    let group = |representative, members: &[usize]| Group { representative, members: members.to_vec() };
    assert_eq!(found.groups, [group(Representative::Bank(0), &[1, 3]), group(Representative::New(0), &[2])]);
}

#[test]
fn a_second_look_at_what_was_kept_drops_nothing() {
    let rows = unit(&crowded(200, 5, &mut Numbers(9)));
    let empty = chunked(5, &[]);
    for sameness in [Sameness::Copies, Sameness::Within(0.95)] {
        let first = group_duplicates(&empty, &chunked(5, &rows), sameness);
        assert!(first.dropped() > 20);
        let kept: Matrix = first.kept.iter().map(|&row| rows[row].clone()).collect();
        assert_eq!(group_duplicates(&empty, &chunked(5, &kept), sameness).dropped(), 0);
        assert_eq!(group_duplicates(&chunked(5, &kept), &chunked(5, &rows), sameness).kept.len(), 0);
    }
}
