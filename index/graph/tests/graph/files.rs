//! A segment's file: read as written, or refused.

use std::fs;

use dehub_graph::{BuildOptions, CodeKind, Segment, SegmentError, Width};
use dehub_vector::Metric;

use crate::made::{CODES, METRICS, Numbers, Rows, coded, graph};

#[test]
fn a_mapped_segment_answers_as_the_one_that_was_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("graph.seg");
    for (metric, code) in METRICS.iter().flat_map(|&metric| CODES.map(|code| (metric, code))) {
        let vectors = Numbers(50).cone(700, 20, metric);
        let (identity, sequence) = (0xfeed_0123_4567_89ab, 0x0123_4567_89ab_cdef);
        let options = BuildOptions { identity, sequence, ..coded(code) };
        let built = graph(&vectors, metric, options.clone());
        // Over the file that the last one still maps.
        built.write(&path).expect("writable");
        let opened = Segment::open(&path).expect("whole");
        assert_eq!(opened.as_bytes(), built.as_bytes());
        assert_eq!((opened.metric(), opened.code(), opened.dim()), (metric, code, 20));
        assert_eq!((opened.identity(), opened.covered(), opened.sequence()), (identity, 700, sequence));
        let rows = Rows::new(&vectors, metric);
        for query in Numbers(51).cone(20, 20, metric) {
            let width = Width { effort: 20, keep: 20 };
            assert_eq!(opened.walk(&query, &rows, width), built.walk(&query, &rows, width));
        }
    }
    let left: Vec<_> = fs::read_dir(folder.path()).expect("readable").collect();
    assert_eq!(left.len(), 1, "nothing is left beside it");
}

fn small() -> Segment {
    small_of(CodeKind::default())
}

fn small_of(code: CodeKind) -> Segment {
    let vectors = Numbers(52).cone(60, 5, Metric::Euclidean);
    graph(&vectors, Metric::Euclidean, BuildOptions { m: 2, ..coded(code) })
}

#[test]
fn a_file_with_any_byte_changed_is_refused() {
    CODES.into_iter().for_each(|code| check_any_byte_changed(small_of(code).as_bytes()));
}

/// Whether a file is read, and not with any byte changed.
pub(crate) fn check_any_byte_changed(file: &[u8]) {
    let mut bytes = file.to_vec();
    for place in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            bytes[place] ^= change;
            assert!(Segment::read(&bytes).is_err(), "byte {place} ^ {change}");
            bytes[place] ^= change;
        }
    }
    assert!(Segment::read(&bytes).is_ok());
}

#[test]
fn a_file_cut_short_or_too_long_is_refused() {
    for code in CODES {
        let mut bytes = small_of(code).as_bytes().to_vec();
        for len in 0..bytes.len() {
            assert!(Segment::read(&bytes[..len]).is_err(), "{len} bytes");
        }
        bytes.push(0);
        assert!(matches!(Segment::read(&bytes), Err(SegmentError::Length { .. })));
    }
}

#[test]
fn an_error_names_the_part_and_what_is_wrong() {
    let whole = small().as_bytes().to_vec();
    let message = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        Segment::read(&bytes).expect_err("damaged").to_string()
    };
    let last = whole.len() - 1;
    assert_eq!(message(&|bytes| bytes[last] ^= 1), "the checksum of its codes does not match");
    assert_eq!(message(&|bytes| bytes[40] ^= 1), "the checksum of its header does not match");
    assert_eq!(message(&|bytes| bytes[0] = b'D'), "it does not start as a graph segment");
    assert_eq!(message(&|bytes| bytes[8] = 9), "it is a graph segment of version 9, wanted 3");
    let cut = message(&|bytes| bytes.truncate(last));
    assert_eq!(cut, format!("it has {last} bytes, its codes ends at {}", last + 1));
}

#[test]
fn what_is_no_file_of_ours_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("graph.seg");
    let refused = |path| Segment::open(path).expect_err("no segment");
    assert!(
        matches!(refused(&path), SegmentError::Io(error) if error.kind() == std::io::ErrorKind::NotFound)
    );
    assert!(matches!(refused(folder.path()), SegmentError::Io(_) | SegmentError::NotASegment));
    for content in [&b""[..], b"dehubseg", &[0; 4096]] {
        fs::write(&path, content).expect("writable");
        assert!(matches!(refused(&path), SegmentError::NotASegment));
    }
}
