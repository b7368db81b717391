//! Tuning by the pairs of a bank, and the choice `auto`.

use dehub_eval::{Qrels, Ranks, per_query};
use dehub_index::{BankUpdate, EntryInput, FitInput, WriteError};
use dehub_normalize::BankKind;
use dehub_query::{
    Evidence, Method, TuneError, TuneOptions, TuneReport, auto_methods, choose, tune_by_pairs, tune_methods,
};
use dehub_vector::{Dim, Metric, PointId, Vector};

use crate::{Bed, name, numbers};

const DIM: usize = 24;
const POINTS: usize = 300;

/// Points, each pulled by its own part towards where queries come from if there is a `pull`; entry `b{i}`
/// of the bank `p` is a noisy copy of point `i`.
fn paired(pull: f32) -> (Bed, Qrels) {
    let centre = numbers(1, DIM);
    let (free, parts) = (numbers(2, POINTS * DIM), numbers(3, POINTS));
    let towards = |vectors: &[f32], part: &dyn Fn(usize) -> f32| -> Vec<f32> {
        let place = |(place, it): (usize, &f32)| it + part(place / DIM) * centre[place % DIM];
        vectors.iter().enumerate().map(place).collect()
    };
    let points = towards(&free, &|point| pull * (parts[point] + 1.0));
    let noise = numbers(4, POINTS * DIM);
    let noisy: Vec<f32> = free.iter().zip(&noise).map(|(it, noise)| it + 1.2 * noise).collect();
    let entries = towards(&noisy, &|_| 2.0 * pull);
    let bed = Bed::new(Metric::Cosine, DIM, &points, &numbers(5, DIM), false);
    let entry = |(place, vector): (usize, &[f32])| EntryInput {
        id: Some(PointId::text(&format!("b{place}")).expect("short")),
        vector: vector.to_vec().into(),
        weight: 1.0,
    };
    let entries = entries.chunks_exact(DIM).enumerate().map(entry).collect();
    bed.collection
        .add_to_bank(&BankUpdate { name: name("p"), kind: BankKind::Query, entries, defer: false })
        .expect("good entries");
    let lines: String = (0..POINTS).map(|place| format!("b{place} 0 {place} 1\n")).collect();
    (bed, Qrels::parse("pairs", &lines).expect("well formed"))
}

fn inputs(methods: &[&str]) -> Vec<FitInput> {
    let input = |method: &&str| FitInput {
        name: name(method),
        method: method.parse().expect("a method"),
        query_bank: Some(name("p")),
        gallery_bank: None,
    };
    methods.iter().map(input).collect()
}

fn options() -> TuneOptions {
    TuneOptions { rounds: 200, ..TuneOptions::default() }
}

const METHODS: [&str; 3] = ["IS(beta=10)", "NNN(alpha=1.0,k=16)", "DIS(beta=10,k=5)"];

fn by_pairs(bed: &Bed, pairs: &Qrels) -> TuneReport {
    tune_by_pairs(&bed.collection, &inputs(&METHODS), &name("p"), pairs, &options()).expect("tuned")
}

/// The mean nDCG@10 when each entry is asked of scores less that of the nearest entry that `keep` lets.
fn ndcg_of_nearest(bed: &Bed, keep: impl Fn(usize, usize) -> bool) -> f64 {
    let snapshot = bed.collection.snapshot();
    let bank = snapshot.bank_queries(&name("p"), usize::MAX);
    let s: Vec<Vec<f64>> = bank
        .iter()
        .map(|entry| snapshot.rows().map(|row| f64::from(snapshot.similarity(entry, row))).collect())
        .collect();
    let ndcg = |asked: usize| {
        let score = |point: usize| {
            let others = (0..bank.len()).filter(|&other| keep(asked, other));
            s[asked][point] - others.map(|other| s[other][point]).fold(f64::NEG_INFINITY, f64::max)
        };
        let own = score(asked);
        let above = (0..POINTS).filter(|&point| score(point) > own).count();
        let rank = u32::try_from(above).expect("few");
        let ranks = Ranks::new(vec![(rank + 1, 1)], 300).expect("a rank");
        per_query(&ranks, "nDCG@10".parse().expect("a measure")).expect("judged")
    };
    (0..POINTS).map(ndcg).sum::<f64>() / POINTS as f64
}

#[test]
fn every_entry_is_asked_of_corrections_that_have_not_seen_it() {
    let (bed, pairs) = paired(1.0);
    let report = by_pairs(&bed, &pairs);
    assert_eq!((report.queries, report.judged), (POINTS, Some(POINTS)));
    assert_eq!(report, by_pairs(&bed, &pairs), "the seed decides every draw");
    // A point less its very nearest entry: where a fit has seen the query, its own answer gets nothing.
    let nearest = inputs(&["NNN(alpha=1.0,k=1)"]);
    let nearest = tune_by_pairs(&bed.collection, &nearest, &name("p"), &pairs, &options()).expect("tuned");
    let found = nearest.rows[0].ndcg.expect("judged");
    // Other fifths than those that were drawn, and the same with each entry in its own fit.
    let other_fold = |asked: usize, other: usize| asked % 5 != other % 5;
    let left_out = ndcg_of_nearest(&bed, other_fold);
    let leaked = ndcg_of_nearest(&bed, |asked, other| asked == other || other_fold(asked, other));
    assert!((found - left_out).abs() < (leaked - left_out).abs() / 3.0, "{found} {left_out} {leaked}");
}

#[test]
fn pairs_choose_a_correction_where_there_are_hubs_even_if_a_leaky_one_is_fitted() {
    let (bed, pairs) = paired(1.0);
    let before = by_pairs(&bed, &pairs);
    let pick = before.verdict.pick.expect("there are hubs");
    assert!(before.rows[pick].ndcg > before.raw.ndcg);
    // What is fitted from the whole bank is not taken for what is fitted from its parts.
    bed.collection.fit(&inputs(&METHODS)).expect("fitted");
    assert_eq!(by_pairs(&bed, &pairs), before);
}

#[test]
fn an_entry_that_is_another_one_bit_for_bit_is_left_out_with_it() {
    let (bed, pairs) = paired(1.0);
    let before = by_pairs(&bed, &pairs);
    let copies = bed.collection.snapshot().bank_queries(&name("p"), usize::MAX);
    let entry = |(place, vector): (usize, &Vector)| EntryInput {
        id: Some(PointId::text(&format!("copy{place}")).expect("short")),
        vector: vector.as_slice().to_vec().into(),
        weight: 1.0,
    };
    let entries = copies.iter().enumerate().map(entry).collect();
    bed.collection
        .add_to_bank(&BankUpdate { name: name("p"), kind: BankKind::Query, entries, defer: false })
        .expect("good entries");
    // A sum over a bank that has everything twice ranks as the sum over it once.
    let after = by_pairs(&bed, &pairs);
    let (was, is) = (before.rows[0].ndcg.expect("judged"), after.rows[0].ndcg.expect("judged"));
    assert!((was - is).abs() < 0.005, "{was} {is}");
}

#[test]
fn pairs_that_cannot_be_chosen_by_are_refused() {
    let (bed, pairs) = paired(1.0);
    let tune = |methods: &[&str], bank: &str, pairs: &Qrels| {
        tune_by_pairs(&bed.collection, &inputs(methods), &name(bank), pairs, &options())
    };
    let few = Qrels::of("pairs", &[("b1".to_owned(), "1".to_owned(), 1)]).expect("one");
    assert!(matches!(tune(&METHODS, "p", &few), Err(TuneError::TooFewPairs { found: 1, .. })));
    assert!(matches!(tune(&METHODS, "other", &pairs), Err(TuneError::TooFewPairs { found: 0, .. })));
    assert!(matches!(tune(&[], "p", &pairs), Err(TuneError::NoCorrections)));
    let all = tune(&["NNN(alpha=1.0,k=300)"], "p", &pairs);
    assert!(matches!(all, Err(TuneError::Fit(WriteError::MoreThanBank { found: 240, .. }))), "{all:?}");
}

#[test]
fn auto_chooses_among_the_default_methods_with_a_floor() {
    let (plain, floored) = (tune_methods(64, 0.05), auto_methods(64, 0.05));
    assert_eq!(plain.methods.len(), floored.methods.len());
    assert_eq!(plain.left_out.len(), floored.left_out.len());
    for (plain, floored) in plain.methods.iter().zip(&floored.methods) {
        let with: Method =
            format!("{},floor=0.1)", plain.to_string().trim_end_matches(')')).parse().expect("a label");
        assert_eq!(*floored, with);
    }
    let queries = |seed| -> Vec<Vector> {
        let centre = numbers(1, DIM);
        let vectors = numbers(seed, 400 * DIM);
        let pulled =
            vectors.chunks_exact(DIM).map(|it| it.iter().zip(&centre).map(|(it, c)| it + 2.0 * c).collect());
        let dim = Dim::new(DIM).expect("in range");
        pulled.map(|it: Vec<f32>| Vector::new(&it, dim, Metric::Cosine).expect("not zero")).collect()
    };
    let (bed, _) = paired(1.0);
    let asked = queries(9);
    let choice =
        choose(&bed.collection, &name("p"), Evidence::Unlabelled(&asked), &options()).expect("chosen");
    let row = choice.row(false).expect("there are hubs");
    let input = choice.input(row, &name("best"));
    assert_eq!(input.method.guard().floor, 0.1);
    assert_eq!((input.name, input.query_bank), (name("best"), Some(name("p"))));
    assert_eq!(bed.collection.snapshot().corrections().len(), 0, "nothing is installed");
    let few = choose(&bed.collection, &name("p"), Evidence::Unlabelled(&asked[..5]), &options());
    assert!(matches!(few, Err(TuneError::TooFewQueries { found: 5 })));
    let unknown = choose(&bed.collection, &name("other"), Evidence::Unlabelled(&asked), &options());
    assert!(matches!(unknown, Err(TuneError::Fit(WriteError::UnknownBank { .. }))));
}
