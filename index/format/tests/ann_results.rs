//! Files of results, read back by the reader of HDF5 that others of this package use too.

use dehub_format::{AnnResult, FormatError, write_ann_result};
use hdf5_pure::{AttrValue, File};

fn result() -> AnnResult<'static> {
    AnnResult {
        algo: "dehub",
        name: "dehub graph 64",
        dataset: "words",
        distance: "angular",
        count: 3,
        build_time: None,
        index_size: 12.5,
        best_search_time: 0.25,
        run_count: 2,
        texts: vec![("ranking", "ä".to_owned())],
        numbers: vec![("recall", 0.75)],
        times: vec![0.5, 0.125],
        found: vec![vec![(7, 0.0), (2, 0.5), (1, 0.75)], vec![(4, 0.25)]],
        truth: vec![vec![(7, 0.0), (2, 0.5), (3, 0.625)], vec![(4, 0.25)]],
    }
}

#[test]
fn a_result_has_the_fields_of_ann_benchmarks_and_fills_short_lists() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results/words/3/dehub/a.hdf5");
    write_ann_result(&path, &result()).expect("folders are made");
    // A second one takes its place.
    write_ann_result(&path, &result()).expect("replaced");
    let file = File::open(&path).expect("HDF5");
    let dataset = |name: &str| file.dataset(name).expect("a dataset");
    for (name, shape) in
        [("times", &[2][..]), ("neighbors", &[2, 3]), ("distances", &[2, 3]), ("true_neighbors", &[2, 3])]
    {
        assert_eq!(dataset(name).shape().expect("a shape"), shape, "{name}");
    }
    assert_eq!(dataset("times").read_f32().expect("floats"), [0.5, 0.125]);
    assert_eq!(dataset("neighbors").read_i32().expect("integers"), [7, 2, 1, 4, -1, -1]);
    let distances = [0.0, 0.5, 0.75, 0.25, f32::INFINITY, f32::INFINITY];
    assert_eq!(dataset("distances").read_f32().expect("floats"), distances);
    assert_eq!(dataset("true_neighbors").read_i32().expect("integers"), [7, 2, 3, 4, -1, -1]);
    let attrs = file.root().attrs().expect("attributes");
    let number = |name: &str| match attrs.get(name) {
        Some(AttrValue::F64(number)) => *number,
        other => panic!("{name}: {other:?}"),
    };
    assert!(number("build_time").is_nan());
    for (name, wanted) in
        [("best_search_time", 0.25), ("index_size", 12.5), ("candidates", 2.0), ("recall", 0.75)]
    {
        assert!((number(name) - wanted).abs() < 1e-12, "{name}");
    }
    for (name, wanted) in [("algo", "dehub"), ("dataset", "words"), ("distance", "angular"), ("ranking", "ä")]
    {
        assert!(format!("{:?}", attrs.get(name)).contains(wanted), "{name}: {:?}", attrs.get(name));
    }
    assert!(format!("{:?}", attrs.get("count")).contains("(3)"), "{:?}", attrs.get("count"));
}

#[test]
fn lists_that_do_not_fit_are_refused_with_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.hdf5");
    let longer = AnnResult { found: vec![vec![(1, 0.5); 4], vec![]], ..result() };
    let fewer = AnnResult { truth: vec![vec![]], ..result() };
    for (result, wanted) in [
        (longer, "wanted 3 neighbours of a query at most, found 4"),
        (fewer, "wanted 2 queries in `truth`, found 1"),
    ] {
        let error = write_ann_result(&path, &result).expect_err("refused");
        assert!(matches!(error, FormatError::Options { .. }), "{error:?}");
        assert!(error.to_string().contains(wanted) && error.to_string().contains("a.hdf5"), "{error}");
        assert!(!path.exists());
    }
}
