//! A graph file that is not whole, or not of this collection, is set aside; the points are the truth.

use std::fs;
use std::path::PathBuf;

use dehub_index::{GraphBuild, Question, Variant};
use dehub_vector::Metric;

use crate::made::{Home, Numbers, config_with_graph, points};
use crate::reference::{bits, full_sort};

const DIM: usize = 4;

fn home(count: usize, seed: u64) -> Home {
    let home = Home::new(config_with_graph(DIM, Metric::Cosine));
    home.upsert(&points(0, &Numbers(seed).vectors(count, DIM)));
    home.build_graph();
    home
}

/// Searching is right whether or not the file was used, and the next build puts things straight.
fn check(home: &mut Home, what: &str, change: impl FnOnce(&PathBuf)) {
    home.reopen_after(change);
    assert!(!home.snapshot().has_graph(), "{what}: the file is set aside");
    let query = home.query(&[1.0, 0.5, 0.25, 0.0]);
    let snapshot = home.snapshot();
    assert!(snapshot.walk(&query, &Variant::raw(), 5, 50).is_none());
    let question = Question { vectors: std::slice::from_ref(&query), limit: 5, targets: &[] };
    let found = snapshot.scan(&question, &[Variant::raw()]);
    assert_eq!(bits(&found[0][0].best), bits(&full_sort(&snapshot, &query, &Variant::raw())[..5]), "{what}");
    assert!(home.collection().is_graph_due(), "{what}");
}

fn rebuilds(home: &mut Home) {
    let nodes = home.snapshot().len();
    assert_eq!(home.collection().build_graph_if_due().expect("a graph"), GraphBuild::Built { nodes });
    home.reopen();
    assert_eq!(home.snapshot().gallery().graph_nodes, Some(nodes));
}

#[test]
fn a_file_cut_anywhere_is_set_aside() {
    let mut home = home(40, 1);
    let whole = fs::read(home.graph_file()).expect("it is there");
    for len in (0..whole.len()).step_by(64).chain([1, 8, 12, whole.len() - 1]) {
        check(&mut home, &format!("cut to {len} of {}", whole.len()), |file| {
            fs::write(file, &whole[..len]).expect("writable");
        });
    }
    check(&mut home, "one byte too many", |file| {
        fs::write(file, [&whole[..], &[0]].concat()).expect("writable");
    });
    rebuilds(&mut home);
}

#[test]
fn a_flipped_bit_anywhere_is_seen() {
    let mut home = home(40, 2);
    let whole = fs::read(home.graph_file()).expect("it is there");
    let mut numbers = Numbers(3);
    for step in 0..64 {
        let place = if step < 24 { step } else { numbers.below(whole.len()) };
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << numbers.below(8);
        check(&mut home, &format!("bit of byte {place}"), |file| {
            fs::write(file, &damaged).expect("writable");
        });
    }
    rebuilds(&mut home);
}

/// Corrects the checksums of the sections and of the header.
fn sum_anew(file: &mut [u8]) {
    const HEADER: usize = 512;
    const TABLE: usize = 64;
    let number = |file: &[u8], at: usize| {
        let bytes: [u8; 8] = file[at..at + 8].try_into().expect("8 bytes");
        usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(usize::MAX)
    };
    for line in (TABLE..TABLE + 200).step_by(20) {
        let (start, len) = (number(file, line), number(file, line + 8));
        let end = len.checked_next_multiple_of(64).and_then(|len| start.checked_add(len));
        if let Some(section) = end.and_then(|end| file.get(start..end)) {
            let sum = crc32fast::hash(section);
            file[line + 16..line + 20].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let sum = crc32fast::hash(&file[16..HEADER]);
    file[12..16].copy_from_slice(&sum.to_le_bytes());
}

/// A right checksum over wrong numbers: nothing a walk indexes with is taken on trust.
#[test]
fn wrong_numbers_under_a_right_checksum_never_panic() {
    let mut home = home(30, 4);
    let whole = fs::read(home.graph_file()).expect("it is there");
    let mut numbers = Numbers(5);
    let words = whole.len() / 4 - 4;
    for step in 0..60 {
        let mut damaged = whole.clone();
        let at = 16 + 4 * if step < 8 { step } else { numbers.below(words) };
        let value = [0, 1, 29, 30, 31, 1000, u32::MAX - 1, u32::MAX][numbers.below(8)];
        damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
        sum_anew(&mut damaged);
        home.reopen_after(|file| fs::write(file, &damaged).expect("writable"));
        let snapshot = home.snapshot();
        for row in snapshot.rows() {
            if let Some(found) = snapshot.walk(&snapshot.query_of(row), &Variant::raw(), 10, 30) {
                assert!(found.iter().all(|candidate| snapshot.is_live(candidate.row)));
                assert!(found.is_sorted_by(|a, b| a > b), "word {at} is {value}: no row twice");
            }
        }
    }
}

#[test]
fn the_graph_of_another_collection_is_refused() {
    let larger = home(60, 6);
    let mut home = home(40, 8);
    check(&mut home, "more rows", |file| _ = fs::copy(larger.graph_file(), file).expect("writable"));
    let twin = crate::graph_file::home(40, 8);
    check(&mut home, "the same points", |file| _ = fs::copy(twin.graph_file(), file).expect("writable"));
    // As many rows in all, but not the ones that live here.
    larger.delete(0..30);
    larger.upsert(&points(100, &Numbers(12).vectors(1100, DIM)));
    larger.build_graph();
    home.upsert(&points(100, &Numbers(13).vectors(1120, DIM)));
    check(&mut home, "other rows", |file| _ = fs::copy(larger.graph_file(), file).expect("writable"));
    rebuilds(&mut home);
}

#[test]
fn a_graph_that_is_mostly_of_deleted_points_is_built_anew() {
    let home = home(100, 10);
    home.delete(0..50);
    assert!(!home.collection().is_graph_due(), "half of it still answers");
    home.delete(50..51);
    assert_eq!(home.snapshot().gallery().dead, 51);
    assert_eq!(home.collection().build_graph_if_due().expect("a graph"), GraphBuild::Built { nodes: 49 });
    assert_eq!(home.snapshot().gallery().dead, 0);
}

#[test]
fn a_missing_file_or_a_folder_in_its_place_is_no_graph() {
    let mut home = home(40, 9);
    check(&mut home, "missing", |file| fs::remove_file(file).expect("it is there"));
    check(&mut home, "a folder", |file| fs::create_dir(file).expect("writable"));
    let error = home.collection().build_graph_if_due().expect_err("a folder is in the way");
    assert!(error.to_string().contains("graph file"), "{error}");
    check(&mut home, "gone again", |file| fs::remove_dir(file).expect("it is empty"));
    rebuilds(&mut home);
}

/// An older graph of the same collection is still a good one: what came later is scanned.
#[test]
fn an_older_graph_of_the_same_collection_is_used() {
    let mut home = home(40, 10);
    let older = fs::read(home.graph_file()).expect("it is there");
    home.upsert(&points(100, &Numbers(11).vectors(1100, DIM)));
    home.build_graph();
    home.delete((0..1200).filter(|id| id % 7 == 0));
    home.reopen_after(|file| fs::write(file, &older).expect("writable"));
    let snapshot = home.snapshot();
    assert_eq!(snapshot.gallery().graph_nodes, Some(40));
    for row in snapshot.rows() {
        let found = snapshot.walk(&snapshot.query_of(row), &Variant::raw(), 1, 64).expect("a graph");
        assert_eq!(found[0].row, row);
    }
}
