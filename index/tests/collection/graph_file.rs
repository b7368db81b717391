//! A graph file that is not whole, or not of this collection, is set aside; the points are the truth.

use std::fs;
use std::path::PathBuf;

use dehub_index::{GraphBuild, Question, Variant, WriteError};
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
fn check(home: &mut Home, what: &str, change: impl FnOnce()) {
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
    let file = home.graph_file();
    let whole = fs::read(&file).expect("it is there");
    for len in (0..whole.len()).step_by(64).chain([1, 8, 12, whole.len() - 1]) {
        check(&mut home, &format!("cut to {len} of {}", whole.len()), || {
            fs::write(&file, &whole[..len]).expect("writable");
        });
    }
    check(&mut home, "one byte too many", || {
        fs::write(&file, [&whole[..], &[0]].concat()).expect("writable");
    });
    rebuilds(&mut home);
}

#[test]
fn a_flipped_bit_anywhere_is_seen() {
    let mut home = home(40, 2);
    let file = home.graph_file();
    let whole = fs::read(&file).expect("it is there");
    let mut numbers = Numbers(3);
    for step in 0..64 {
        let place = if step < 24 { step } else { numbers.below(whole.len()) };
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << numbers.below(8);
        check(&mut home, &format!("bit of byte {place}"), || {
            fs::write(&file, &damaged).expect("writable");
        });
    }
    rebuilds(&mut home);
}

/// The store has lost commits that a graph reflects: its rows may be given again to other points.
#[test]
fn a_graph_of_a_later_commit_than_the_store_has_is_never_read() {
    let mut home = home(40, 18);
    let file = home.graph_file();
    let whole = fs::read(&file).expect("it is there");
    let sequence = home.snapshot().sequence();
    for (found, is_used) in [(sequence, true), (sequence + 1, false), (u64::MAX, false), (0, true)] {
        let mut stamped = whole.clone();
        stamped[56..64].copy_from_slice(&found.to_le_bytes());
        sum_anew(&mut stamped);
        home.reopen_after(|| fs::write(&file, &stamped).expect("writable"));
        assert_eq!(home.snapshot().has_graph(), is_used, "commit {found} of {sequence}");
        assert_eq!(home.broken_files().len(), usize::from(!is_used), "commit {found} of {sequence}");
        home.broken_files().iter().for_each(|broken| fs::remove_file(broken).expect("it is there"));
    }
}

#[test]
fn a_file_of_an_earlier_version_is_set_aside_and_frozen_anew() {
    let mut home = home(40, 19);
    let file = home.graph_file();
    let mut whole = fs::read(&file).expect("it is there");
    assert_eq!(whole[8], 3);
    whole[8] = 2;
    check(&mut home, "version 2", || fs::write(&file, &whole).expect("writable"));
    assert_eq!(home.broken_files(), [file.with_extension("bin.broken")]);
    rebuilds(&mut home);
    finds_all(&home);
}

#[test]
fn the_newest_two_files_that_were_set_aside_are_kept() {
    let mut home = home(40, 20);
    for count in 1..5_u32 {
        let wrong = home.path().join(format!("graph-0-{}-f32.bin", 100 + count));
        home.reopen_after(|| fs::write(wrong, b"no graph").expect("writable"));
        assert_eq!(home.broken_files().len(), count.min(2) as usize);
        assert!(home.snapshot().has_graph());
    }
}

/// Corrects the checksums of the sections and of the header.
pub(crate) fn sum_anew(file: &mut [u8]) {
    const HEADER: usize = 512;
    const TABLE: usize = 64;
    let number = |file: &[u8], at: usize| {
        let bytes: [u8; 8] = file[at..at + 8].try_into().expect("8 bytes");
        usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(usize::MAX)
    };
    for line in (TABLE..TABLE + 220).step_by(20) {
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
    let file = home.graph_file();
    let whole = fs::read(&file).expect("it is there");
    let mut numbers = Numbers(5);
    let words = whole.len() / 4 - 4;
    for step in 0..60 {
        let mut damaged = whole.clone();
        let at = 16 + 4 * if step < 8 { step } else { numbers.below(words) };
        let value = [0, 1, 29, 30, 31, 1000, u32::MAX - 1, u32::MAX][numbers.below(8)];
        damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
        sum_anew(&mut damaged);
        home.reopen_after(|| fs::write(&file, &damaged).expect("writable"));
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
    let other = home(60, 6);
    let mut home = home(40, 8);
    let file = home.graph_file();
    let copy = |from: PathBuf| _ = fs::copy(from, &file).expect("writable");
    check(&mut home, "more rows", || copy(other.graph_file()));
    let twin = crate::graph_file::home(40, 8);
    check(&mut home, "the same points", || copy(twin.graph_file()));
    rebuilds(&mut home);
}

/// What a name says is checked against what is inside.
#[test]
fn a_file_under_a_wrong_name_is_set_aside() {
    for wrong in [
        "graph-1-40-reduced",
        "graph-0-41-reduced",
        "graph-0-39-reduced",
        "graph-0-4000000000-reduced",
        "graph-0-40-f32",
    ] {
        let mut home = home(40, 14);
        let (file, renamed) = (home.graph_file(), home.path().join(wrong).with_extension("bin"));
        check(&mut home, wrong, || fs::rename(&file, &renamed).expect("writable"));
        assert!(home.graph_files().is_empty(), "it is never read again");
        assert_eq!(home.broken_files(), [renamed.with_extension("bin.broken")]);
        rebuilds(&mut home);
        assert_eq!(home.graph_files(), [file], "and removed with the next build");
    }
}

#[test]
fn a_graph_with_many_deleted_points_is_built_anew() {
    let home = home(100, 10);
    home.delete(0..20);
    assert!(!home.collection().is_graph_due(), "most of it still answers");
    home.delete(20..21);
    assert_eq!(home.snapshot().gallery().dead, 21);
    assert_eq!(home.collection().build_graph_if_due().expect("a graph"), GraphBuild::Built { nodes: 79 });
    assert_eq!(home.snapshot().gallery().dead, 0);
}

#[test]
fn a_missing_file_or_a_folder_in_its_place_is_no_graph() {
    let mut home = home(40, 9);
    let file = home.graph_file();
    check(&mut home, "missing", || fs::remove_file(&file).expect("it is there"));
    check(&mut home, "a folder", || fs::create_dir(&file).expect("writable"));
    let error = home.collection().build_graph_if_due().expect_err("a folder is in the way");
    assert!(error.to_string().contains("graph file"), "{error}");
    check(&mut home, "gone again", || fs::remove_dir(&file).expect("it is empty"));
    rebuilds(&mut home);
}

/// Every point finds itself first and nothing deleted is found, whatever is in segments.
fn finds_all(home: &Home) {
    let snapshot = home.snapshot();
    for row in snapshot.rows() {
        let found = snapshot.walk(&snapshot.query_of(row), &Variant::raw(), 1, 64).expect("a graph");
        assert_eq!(found[0].row, row);
    }
}

/// An older graph of the same collection is still a good one: what came later is scanned.
#[test]
fn an_older_graph_of_the_same_collection_is_used() {
    let mut home = home(40, 10);
    let (file, older) = (home.graph_file(), fs::read(home.graph_file()).expect("it is there"));
    home.upsert(&points(100, &Numbers(11).vectors(1100, DIM)));
    home.build_graph();
    let newer = home.graph_file();
    home.delete((0..1200).filter(|id| id % 7 == 0));
    home.reopen_after(|| {
        fs::write(&file, &older).expect("writable");
        fs::remove_file(&newer).expect("it is there");
    });
    assert_eq!(home.snapshot().gallery().graph_nodes, Some(40));
    finds_all(&home);
}

/// A freeze stopped anywhere leaves files of before, of after, or both, and what is not finished.
#[test]
fn a_freeze_that_stopped_anywhere_leaves_a_right_graph() {
    let mut home = home(40, 15);
    let (old, before) = (home.graph_file(), fs::read(home.graph_file()).expect("it is there"));
    home.upsert(&points(100, &Numbers(16).vectors(1100, DIM)));
    home.build_graph();
    let (new, after) = (home.graph_file(), fs::read(home.graph_file()).expect("it is there"));
    home.delete([3, 5, 104]);
    let unfinished = new.with_extension("new");
    for written in [0, 1, after.len() / 2, after.len()] {
        home.reopen_after(|| {
            fs::remove_file(&new).expect("it is there");
            fs::write(&old, &before).expect("writable");
            fs::write(&unfinished, &after[..written]).expect("writable");
        });
        assert_eq!(home.snapshot().gallery().graph_nodes, Some(40), "stopped before it was moved");
        assert_eq!(home.graph_files(), std::slice::from_ref(&old), "what is unfinished is removed");
        finds_all(&home);
        home.build_graph();
        assert_eq!(home.graph_files(), std::slice::from_ref(&new));
        finds_all(&home);
    }
    home.reopen_after(|| fs::write(&old, &before).expect("writable"));
    assert_eq!(
        home.snapshot().gallery().graph_nodes,
        Some(1137),
        "stopped before what it replaces was removed"
    );
    assert_eq!(home.graph_files(), std::slice::from_ref(&new));
    finds_all(&home);
    home.reopen_after(|| {
        fs::write(&old, &before).expect("writable");
        fs::write(&new, &after[..after.len() - 64]).expect("writable");
    });
    assert_eq!(home.snapshot().gallery().graph_nodes, Some(40), "a broken file hides no whole one");
    finds_all(&home);
    home.build_graph();
    finds_all(&home);
}

#[test]
fn the_one_file_of_an_earlier_version_is_removed() {
    let mut home = home(40, 17);
    let (file, earlier) = (home.graph_file(), home.path().join("graph.bin"));
    home.reopen_after(|| _ = fs::copy(&file, &earlier).expect("writable"));
    assert_eq!(home.graph_files(), [file]);
}

#[test]
fn a_freeze_that_is_stopped_changes_nothing_and_is_made_when_the_collection_is_opened_again() {
    let mut home = Home::new(config_with_graph(DIM, Metric::Cosine));
    home.upsert(&points(0, &Numbers(9).vectors(440, DIM)));
    assert!(home.collection().is_graph_due());
    let before = (home.snapshot().sequence(), home.snapshot().gallery().graph_nodes);
    home.collection().stop_freezing();
    for outcome in [home.collection().freeze(), home.collection().build_graph_if_due()] {
        assert!(matches!(outcome, Err(WriteError::Interrupted)), "{outcome:?}");
    }
    let snapshot = home.snapshot();
    assert_eq!((snapshot.sequence(), snapshot.gallery().graph_nodes), before);
    let query = home.query(&[1.0, 0.5, 0.25, 0.0]);
    let question = Question { vectors: std::slice::from_ref(&query), limit: 5, targets: &[] };
    let found = snapshot.scan(&question, &[Variant::raw()]);
    assert_eq!(bits(&found[0][0].best), bits(&full_sort(&snapshot, &query, &Variant::raw())[..5]));
    home.upsert(&points(440, &Numbers(11).vectors(1, DIM)));
    drop(snapshot);
    home.reopen();
    assert_eq!(home.collection().freeze().expect("a graph"), GraphBuild::Built { nodes: 441 });
}
