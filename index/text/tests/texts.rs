//! Texts that are found, by the formula in 64 bits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use dehub_text::{Analyzer, Index, Mark, Reader, TextError, TextField, TextHit, TextQuery};
use proptest::prelude::*;
use tantivy::fieldnorm::FieldNormReader;

/// The texts of a row, each with its field.
type Own = Vec<(String, String)>;

/// Texts by row.
type Texts = BTreeMap<u32, Own>;

fn fields(list: &[(&str, &str, f32, f32)]) -> BTreeMap<String, TextField> {
    let field = |&(name, analyzer, k1, b): &(&str, &str, f32, f32)| {
        (name.to_owned(), TextField { analyzer: analyzer.parse().expect("an analyzer"), k1, b })
    };
    list.iter().map(field).collect()
}

fn mark(sequence: u64, next_row: u32) -> Mark {
    Mark { identity: 7, sequence, next_row }
}

fn put(index: &Index, sequence: u64, changes: &[(u32, Option<&Own>)]) {
    let mut writing = index.write().expect("a writable folder");
    for (row, texts) in changes {
        match texts {
            Some(texts) => {
                let texts = texts.iter().map(|(field, text)| (field.as_str(), text.as_str()));
                writing.put(*row, texts).expect("taken in");
            }
            None => writing.remove(*row),
        }
    }
    writing.commit(mark(sequence, 1000)).expect("committed");
    writing.finish().expect("merged");
}

/// The length of a text as postings keep it, in one byte.
fn kept(length: usize) -> f64 {
    let id = FieldNormReader::fieldnorm_to_id(u32::try_from(length).expect("short"));
    f64::from(FieldNormReader::id_to_fieldnorm(id))
}

/// BM25 by the formula, over all texts.
fn oracle(
    fields: &BTreeMap<String, TextField>,
    texts: &Texts,
    query: &TextQuery,
    allowed: &dyn Fn(u32) -> bool,
) -> Vec<(u32, f64)> {
    let asked = if query.fields.is_empty() {
        fields.keys().map(|name| (name.clone(), 1.0)).collect()
    } else {
        query.fields.clone()
    };
    let mut scores: BTreeMap<u32, f64> = BTreeMap::new();
    for (name, weight) in asked {
        let field = fields[&name];
        let terms_of = |own: &[(String, String)]| -> Vec<String> {
            own.iter()
                .filter(|(at, _)| *at == name)
                .flat_map(|(_, text)| field.analyzer.terms(text))
                .collect()
        };
        let bags: BTreeMap<u32, Vec<String>> = texts.iter().map(|(&row, own)| (row, terms_of(own))).collect();
        let count = bags.values().filter(|bag| !bag.is_empty()).count() as f64;
        let mean = bags.values().map(|bag| kept(bag.len())).sum::<f64>() / count.max(1.0);
        let wanted = field.analyzer.terms(&query.text);
        let distinct: BTreeSet<&String> = wanted.iter().collect();
        for (&row, bag) in &bags {
            if query.all_words && !distinct.iter().all(|term| bag.contains(term)) {
                continue;
            }
            for term in &wanted {
                let frequency = bag.iter().filter(|own| *own == term).count() as f64;
                if frequency == 0.0 || !allowed(row) {
                    continue;
                }
                let with = bags.values().filter(|bag| bag.contains(term)).count() as f64;
                let idf = (1.0 + (count - with + 0.5) / (with + 0.5)).ln();
                let (k1, b) = (f64::from(field.k1), f64::from(field.b));
                let norm = k1 * (1.0 - b + b * kept(bag.len()) / mean);
                *scores.entry(row).or_default() += f64::from(weight) * idf * frequency / (frequency + norm);
            }
        }
    }
    let mut ranked: Vec<(u32, f64)> = scores.into_iter().collect();
    ranked.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    ranked
}

fn search(reader: &Reader, query: &TextQuery, limit: usize) -> Vec<TextHit> {
    reader.search(query, &|_| true, limit, &|| false).expect("a valid query")
}

/// Compares all scores, and that hits are in order.
fn assert_is(found: &[TextHit], wanted: &[(u32, f64)]) {
    let scores: BTreeMap<u32, f64> = wanted.iter().copied().collect();
    assert_eq!(found.len(), wanted.len());
    for hit in found {
        let wanted = scores[&hit.row];
        assert!((f64::from(hit.score) - wanted).abs() < 1e-5 * wanted.max(1.0), "{hit:?}: {wanted}");
    }
    assert!(found.is_sorted_by(|a, b| a.score > b.score || (a.score == b.score && a.row < b.row)));
}

const WORDS: [&str; 12] =
    ["cat", "cats", "sat", "the", "on", "mat", "東京", "京都", "naïve", "Runs", "running", "x"];

fn sentence() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&WORDS[..]), 0..12).prop_map(|words| words.join(" "))
}

fn change() -> impl Strategy<Value = (u32, Option<Own>)> {
    let text = (prop::sample::select(vec!["title", "body", "unknown"]), sentence());
    let texts = prop::collection::vec(text.prop_map(|(name, text)| (name.to_owned(), text)), 0..4);
    (0_u32..30, prop::option::weighted(0.8, texts))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scores_are_those_of_the_formula_after_any_changes_in_any_number_of_commits(
        commits in prop::collection::vec(prop::collection::vec(change(), 1..30), 1..5),
        query in sentence(),
        weight in prop::option::of(0.1_f32..5.0),
        all_words in any::<bool>(),
        limit in 1_usize..40,
        analyzers in (0_usize..5, 0_usize..5),
    ) {
        const ANALYZERS: [&str; 5] = ["standard", "english", "cjk", "ngram(1,2)", "raw"];
        let fields = fields(&[
            ("title", ANALYZERS[analyzers.0], 1.2, 0.75),
            ("body", ANALYZERS[analyzers.1], 0.9, 0.4),
        ]);
        let folder = tempfile::tempdir().expect("a folder");
        let index = Index::create(folder.path(), &fields).expect("a writable folder");
        let mut texts = Texts::new();
        for (sequence, changes) in (1..).zip(&commits) {
            let list: Vec<_> = changes.iter().map(|(row, texts)| (*row, texts.as_ref())).collect();
            put(&index, sequence, &list);
            for (row, own) in changes {
                match own {
                    Some(own) => {
                        texts.insert(*row, own.clone());
                    }
                    None => _ = texts.remove(row),
                }
            }
        }
        let names = weight.map(|weight| vec![("body".to_owned(), weight)]).unwrap_or_default();
        let query = TextQuery { text: query, fields: names, all_words };
        let reader = index.read().expect("readable");
        let wanted = oracle(&fields, &texts, &query, &|_| true);
        assert_is(&search(&reader, &query, 1000), &wanted);
        // The best few are the first of all.
        prop_assert_eq!(&search(&reader, &query, limit)[..], &search(&reader, &query, 1000)[..limit.min(wanted.len())]);
        // A scope takes answers out and changes no score.
        let is_odd = |row: u32| row % 2 == 1;
        let odd = reader.search(&query, &is_odd, 1000, &|| false).expect("valid");
        assert_is(&odd, &oracle(&fields, &texts, &query, &is_odd));
        // An index made at once of what there is answers the same, bit for bit.
        let fresh = tempfile::tempdir().expect("a folder");
        let anew = Index::create(fresh.path(), &fields).expect("a writable folder");
        put(&anew, 1, &texts.iter().map(|(&row, own)| (row, Some(own))).collect::<Vec<_>>());
        prop_assert_eq!(search(&anew.read().expect("readable"), &query, 1000), search(&reader, &query, 1000));
    }
}

fn some_texts(count: u32) -> Texts {
    let text = |row: u32| format!("common word{} word{}", row % 7, row % 11);
    (0..count).map(|row| (row, vec![("title".to_owned(), text(row))])).collect()
}

fn made(folder: &Path, texts: &Texts) -> BTreeMap<String, TextField> {
    let fields = fields(&[("title", "standard", 0.9, 0.4)]);
    let index = Index::create(folder, &fields).expect("a writable folder");
    put(&index, 3, &texts.iter().map(|(&row, own)| (row, Some(own))).collect::<Vec<_>>());
    fields
}

#[test]
fn an_index_opens_as_it_was_committed_and_says_what_it_has_taken_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let fields = made(folder.path(), &some_texts(50));
    let index = Index::open(folder.path(), &fields).expect("whole").expect("there");
    let mut writing = index.write().expect("writable");
    writing.remove(3);
    drop(writing);
    let reader = index.read().expect("readable");
    assert_eq!(reader.mark(), Some(mark(3, 1000)), "what was not committed is gone");
    assert_eq!(reader.rows().collect::<BTreeSet<_>>(), (0..50).collect());
    assert_eq!(search(&reader, &TextQuery::new("word3"), 100).len(), 7 + 5 - 1);
    let others = self::fields(&[("title", "english", 0.9, 0.4)]);
    assert!(Index::open(folder.path(), &others).expect("readable").is_none(), "it is of other fields");
    let absent = folder.path().join("absent");
    assert!(Index::open(&absent, &fields).expect("readable").is_none());
}

#[test]
fn a_changed_byte_of_any_file_is_refused_or_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let fields = made(folder.path(), &some_texts(40));
    let query = TextQuery::new("word3 common");
    let wanted = {
        let index = Index::open(folder.path(), &fields).expect("whole").expect("there");
        search(&index.read().expect("readable"), &query, 100)
    };
    let mut refused = 0;
    for entry in fs::read_dir(folder.path()).expect("readable") {
        let path = entry.expect("readable").path();
        let whole = fs::read(&path).expect("readable");
        let cut = |length: usize| whole[..length].to_vec();
        let flipped = |place: usize| {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x15;
            bytes
        };
        let step = (whole.len() / 40).max(1);
        let places = (0..whole.len()).step_by(step);
        for bytes in places.clone().map(flipped).chain(places.map(cut)) {
            fs::write(&path, bytes).expect("writable");
            let found = Index::open(folder.path(), &fields).and_then(|index| match index {
                Some(index) if index.mark()?.is_some() => Ok(Some(search(&index.read()?, &query, 100))),
                Some(_) | None => Ok(None),
            });
            match found {
                Ok(Some(found)) => assert_eq!(found, wanted, "{}", path.display()),
                Ok(None) | Err(_) => refused += 1,
            }
        }
        fs::write(&path, &whole).expect("writable");
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn what_cannot_be_asked_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let fields = made(folder.path(), &some_texts(10));
    let reader =
        Index::open(folder.path(), &fields).expect("whole").expect("there").read().expect("readable");
    let asked = |text: &str, fields: &[(&str, f32)]| {
        let fields = fields.iter().map(|&(name, weight)| (name.to_owned(), weight)).collect();
        let query = TextQuery { text: text.to_owned(), fields, all_words: false };
        reader.search(&query, &|_| true, 10, &|| false).expect_err("refused").to_string()
    };
    assert_eq!(asked("word", &[("body", 1.0)]), "there is no text field `body`; there are: title");
    for weight in [0.0, -1.0, f32::NAN, 1001.0] {
        assert!(asked("word", &[("title", weight)]).contains("wanted a number above 0"), "{weight}");
    }
    let many: Vec<String> = (0..1025).map(|number| format!("w{number}")).collect();
    assert!(
        asked(&many.join(" "), &[])
            .contains("1025 different terms in the field `title`, wanted 1024 at most")
    );
    let stopped = reader.search(&TextQuery::new("common"), &|_| true, 10, &|| true);
    assert!(matches!(stopped, Err(TextError::Stopped)));
    assert_eq!(search(&reader, &TextQuery::new(""), 10), []);
    assert_eq!(search(&reader, &TextQuery::new("absent"), 10), []);
    assert_eq!(Analyzer::default().to_string(), "standard");
}
