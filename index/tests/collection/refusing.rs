//! What cannot be written is refused by name, and nothing of it is stored.

use dehub_index::{
    BANK_ENTRIES_MAX, BATCH_POINTS_MAX, BankUpdate, Blame, EntryInput, EntrySelector, FitInput, NameError,
    Payload, PayloadError, PointInput, TEXT_BYTES_MAX, WriteError,
};
use dehub_normalize::BankKind;
use dehub_vector::{Metric, PointId};

use crate::dump::dump;
use crate::made::{Home, Numbers, config, fit, gallery, name, point, points, queries};

const DIM: usize = 3;

/// Points 0 to 4, banks `queries` (6 entries), `gallery` (ids 0 to 2), `unused` and `empty`, and two
/// corrections.
fn home(metric: Metric) -> Home {
    let mut numbers = Numbers(1);
    let home = Home::new(config(DIM, metric));
    home.upsert(&points(0, &numbers.vectors(5, DIM)));
    home.add(&queries("queries", &numbers.vectors(6, DIM)));
    home.add(&gallery("gallery", 0, &numbers.vectors(3, DIM)));
    home.add(&queries("unused", &numbers.vectors(2, DIM)));
    home.add(&queries("empty", &[]));
    home.fit(&["IS(beta=20)", "DualDIS(b1=b2=20,k=2)"]);
    home
}

type Write = Box<dyn Fn(&Home) -> Result<(), WriteError>>;

fn upsert(points: Vec<PointInput>) -> Write {
    Box::new(move |home| home.collection().upsert(&points).map(drop))
}

fn add(update: BankUpdate) -> Write {
    Box::new(move |home| home.collection().add_to_bank(&update).map(drop))
}

fn fitting(inputs: Vec<FitInput>) -> Write {
    Box::new(move |home| home.collection().fit(&inputs).map(drop))
}

fn drop_bank(bank: &str) -> Write {
    let bank = name(bank);
    Box::new(move |home| home.collection().drop_bank(&bank))
}

/// Each is refused with this message, blames the caller, and changes nothing, also after reopening.
#[track_caller]
fn check(metric: Metric, cases: Vec<(Write, &str)>) {
    let mut home = home(metric);
    let before = dump(&home.snapshot());
    for (write, message) in cases {
        let error = write(&home).expect_err(message);
        assert_eq!(error.to_string(), message);
        assert_eq!(error.blame(), Blame::Caller, "{message}");
        assert_eq!(dump(&home.snapshot()), before, "{message}");
    }
    home.reopen();
    assert_eq!(dump(&home.snapshot()), before);
    home.upsert(&[point(77, &[1.0, 2.0, 3.0])]);
    assert_eq!(home.snapshot().sequence(), before.sequence + 1, "the writer goes on");
}

fn scale(bank: &'static str, factor: f32, drop_below: f32) -> Write {
    Box::new(move |home| home.collection().scale_bank(&name(bank), factor, drop_below).map(drop))
}

fn entry(id: impl Into<PointId>, vector: &[f32]) -> EntryInput {
    EntryInput::new(Some(id.into()), vector.to_vec())
}

fn reference(entries: Vec<EntryInput>) -> BankUpdate {
    BankUpdate { name: name("gallery"), kind: BankKind::Gallery, entries, defer: false }
}

const GOOD: [f32; DIM] = [1.0, 2.0, 3.0];

#[test]
fn bad_points_are_refused_whole() {
    let with = |bad: PointInput| upsert(vec![point(100, &GOOD), point(101, &GOOD), bad]);
    let text = |len: usize| PointInput { text: Some("x".repeat(len)), ..point(9, &GOOD) };
    let named = |id: &str| PointInput { id: PointId::text(id).expect("short"), ..point(0, &[1.0]) };
    let many: Vec<PointInput> = (0..=BATCH_POINTS_MAX as u64).map(|id| point(id, &GOOD)).collect();
    check(
        Metric::Cosine,
        vec![
            (with(point(9, &[1.0, 2.0])), "point 2 (id 9): the vector has 2 dimensions, wanted 3"),
            (with(named("a b")), "point 2 (id a b): the vector has 1 dimensions, wanted 3"),
            (with(point(9, &[])), "point 2 (id 9): the vector has 0 dimensions, wanted 3"),
            (
                with(point(9, &[1.0, f32::NAN, 3.0])),
                "point 2 (id 9): coordinate 1 is NaN, wanted a finite 32-bit number",
            ),
            (
                with(point(9, &[1.0, 2.0, f32::NEG_INFINITY])),
                "point 2 (id 9): coordinate 2 is -inf, wanted a finite 32-bit number",
            ),
            (
                with(point(9, &[0.0, -0.0, 0.0])),
                "point 2 (id 9): the vector has length 0, which has no direction: wanted a nonzero vector under cosine",
            ),
            (
                with(point(100, &GOOD)),
                "point 2 has the id 100, which point 0 of the same batch has: wanted each id once",
            ),
            (
                with(text(TEXT_BYTES_MAX + 1)),
                "point 2 (id 9): the text has 1048577 bytes, wanted at most 1048576",
            ),
            (upsert(many), "the batch has 16385 points, wanted at most 16384"),
        ],
    );
    let long = "point 0 (id 9): the vector's squared length is more than a 32-bit number can hold";
    for metric in [Metric::Dot, Metric::Euclidean] {
        check(metric, vec![(upsert(vec![point(9, &[1e19, 0.0, 0.0])]), long)]);
    }
}

#[test]
fn bad_bank_entries_are_refused_whole() {
    let mixed = |second: EntryInput| add(reference(vec![entry(50, &GOOD), second]));
    let as_query = BankUpdate { kind: BankKind::Query, ..reference(vec![entry(50, &GOOD)]) };
    check(
        Metric::Cosine,
        vec![
            (mixed(entry(51, &[1.0])), "bank entry 1 (id 51): the vector has 1 dimensions, wanted 3"),
            (add(queries("new", &[vec![1.0; 4]])), "bank entry 0: the vector has 4 dimensions, wanted 3"),
            (
                add(queries("queries", &[GOOD.into(), vec![f32::INFINITY; 3]])),
                "bank entry 1: coordinate 0 is inf, wanted a finite 32-bit number",
            ),
            (
                mixed(entry(51, &[0.0; 3])),
                "bank entry 1 (id 51): the vector has length 0, which has no direction: wanted a nonzero vector under \
                 cosine",
            ),
            (
                mixed(entry(50, &GOOD)),
                "bank entry 1 has the id 50, which bank entry 0 of the same batch has: wanted each id once",
            ),
            (mixed(entry(2, &GOOD)), "bank entry 1 has the id 2, which bank `gallery` has already"),
            (add(as_query), "bank `gallery` is a gallery bank, wanted a query bank"),
            (
                add(gallery("queries", 70, &[GOOD.into()])),
                "bank `queries` is a query bank, wanted a gallery bank",
            ),
            (
                Box::new(|home| home.collection().bank_from_gallery(&name("queries")).map(drop)),
                "bank `queries` is a query bank, wanted a gallery bank",
            ),
            (
                Box::new(|home| home.collection().bank_from_gallery(&name("gallery")).map(drop)),
                "bank entry 0 has the id 0, which bank `gallery` has already",
            ),
            (
                mixed(EntryInput { weight: 0.0, ..entry(51, &GOOD) }),
                "bank entry 1 has the weight 0, wanted a number above 0, at most 1000000",
            ),
            (
                mixed(EntryInput { weight: f32::NAN, ..entry(51, &GOOD) }),
                "bank entry 1 has the weight NaN, wanted a number above 0, at most 1000000",
            ),
            (
                mixed(EntryInput { weight: 1.1e6, ..entry(51, &GOOD) }),
                "bank entry 1 has the weight 1100000, wanted a number above 0, at most 1000000",
            ),
            (scale("queries", 0.0, 0.0), "factor is 0, wanted a number above 0, at most 1"),
            (scale("queries", 1.5, 0.0), "factor is 1.5, wanted a number above 0, at most 1"),
            (scale("queries", f32::NAN, 0.0), "factor is NaN, wanted a number above 0, at most 1"),
            (scale("queries", 0.5, -1.0), "drop_below is -1, wanted a number from 0 to 1000000"),
            (
                scale("none", 0.5, 0.0),
                "there is no bank `none`; the collection has: empty, gallery, queries, unused",
            ),
            (
                Box::new(|home| home.collection().absorb(&name("none")).map(drop)),
                "there is no bank `none`; the collection has: empty, gallery, queries, unused",
            ),
            (
                Box::new(|home| {
                    home.collection().remove_from_bank(&name("none"), &EntrySelector::Ids(vec![])).map(drop)
                }),
                "there is no bank `none`; the collection has: empty, gallery, queries, unused",
            ),
            (
                drop_bank("queries"),
                "bank `queries` is used by DualDIS(b1=b2=20,k=2), IS(beta=20): drop the correction first",
            ),
            (
                drop_bank("gallery"),
                "bank `gallery` is used by DualDIS(b1=b2=20,k=2): drop the correction first",
            ),
            (
                drop_bank("none"),
                "there is no bank `none`; the collection has: empty, gallery, queries, unused",
            ),
        ],
    );
    assert_eq!(BANK_ENTRIES_MAX, 4_000_000);
}

#[test]
fn bad_fits_are_refused_whole() {
    let after_good = |bad: FitInput| fitting(vec![fit("IS(beta=3)"), bad]);
    let of = |label: &str, query: Option<&str>, gallery: Option<&str>| FitInput {
        query_bank: query.map(name),
        gallery_bank: gallery.map(name),
        ..fit(label)
    };
    check(
        Metric::Dot,
        vec![
            (
                after_good(of("IS(beta=20)", Some("none"), None)),
                "there is no bank `none`; the collection has: empty, gallery, queries, unused",
            ),
            (
                after_good(of("NNN(k=2)", None, Some("gallery"))),
                "NNN(alpha=0.75,k=2) needs a query bank, and none was named",
            ),
            (
                after_good(of("DualIS(b1=1,b2=2)", Some("queries"), None)),
                "DualIS(b1=1,b2=2) needs a gallery bank, and none was named",
            ),
            (
                after_good(of("CSLS(k=2)", Some("gallery"), None)),
                "bank `gallery` is a gallery bank, wanted a query bank",
            ),
            (
                after_good(of("DualIS(b1=1,b2=2)", Some("queries"), Some("unused"))),
                "bank `unused` is a query bank, wanted a gallery bank",
            ),
            (
                after_good(of("IS(beta=20)", Some("empty"), None)),
                "bank `empty` is empty: a correction is fitted from at least one entry",
            ),
            (
                after_good(of("NNN(k=7)", Some("queries"), None)),
                "NNN(alpha=0.75,k=7) looks at the 7 nearest bank entries, but bank `queries` has 6 entries",
            ),
            (
                after_good(of("DIS(k=6)", Some("queries"), None)),
                "DIS(beta=20,k=6) activates 6 points for each bank query, but the collection has 5 points",
            ),
            (
                Box::new(|home| home.collection().drop_correction(&name("none"))),
                "there is no correction `none`; the collection has: DualDIS(b1=b2=20,k=2), IS(beta=20)",
            ),
        ],
    );
}

#[test]
fn what_is_just_allowed_is_taken() {
    let home = home(Metric::Euclidean);
    home.fit(&["NNN(alpha=0.75,k=6)", "DIS(beta=20,k=5)"]);
    home.upsert(&[
        point(9, &[0.0; 3]),
        PointInput { text: Some("x".repeat(TEXT_BYTES_MAX)), ..point(10, &GOOD) },
    ]);
    home.upsert(&[]);
    home.delete([4040]);
    home.collection().drop_bank(&name("empty")).expect("nobody uses it");
    home.collection().drop_bank(&name("unused")).expect("nobody uses it");
    let names: Vec<_> = home.snapshot().corrections().map(|it| it.info().name.to_string()).collect();
    names.iter().for_each(|it| home.collection().drop_correction(&name(it)).expect("it exists"));
    home.collection().drop_bank(&name("queries")).expect("nobody uses it any more");
    home.collection().drop_bank(&name("gallery")).expect("nobody uses it any more");
    assert_eq!((home.snapshot().banks().len(), home.snapshot().corrections().len()), (0, 0));
    // A bank of the same name starts anew.
    home.add(&queries("queries", &[GOOD.into()]));
    assert_eq!(home.snapshot().bank("queries").map(|bank| bank.entries), Some(1));
}

#[test]
fn bad_names_and_payloads_are_refused() {
    for bad in ["", "a/b", "..", "-a", "a b", "ü", &"x".repeat(129)] {
        let error = bad.parse::<dehub_index::Name>().expect_err("a bad name");
        assert_eq!(error, NameError { found: bad.to_owned() });
    }
    for bad in ["", "[1]", "null", "{", r#"{"a": NaN}"#, r#"{"a": 1} x"#] {
        assert!(matches!(Payload::parse(bad), Err(PayloadError::NotAnObject { .. })), "{bad}");
    }
    let large = format!(r#"{{"a": "{}"}}"#, "x".repeat(1024 * 1024));
    assert!(matches!(Payload::parse(&large), Err(PayloadError::TooLarge { found: 1_048_584 })));
    let compact = Payload::parse(" { \"b\" : 1.0 , \"a\" : [ ] } ").expect("an object");
    assert!(compact.as_json().len() < 20, "{}", compact.as_json());
}
