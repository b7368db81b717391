//! The parser of judgements: what it accepts, and what it says about what it refuses.

use std::collections::BTreeMap;

use dehub_eval::{FOUND_CHARS_MAX, Qrels};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const SAMPLE: &str =
    "\u{feff}# judged by hand\r\nq1 0 d1 1\r\nq1\t0\td2\t0\r\n\r\nq2 0 schlüssel 3\nq1 0 d3 -2\nq1 Q0 d1 1\n";

fn parse(text: &str) -> Qrels {
    Qrels::parse("qrels.txt", text).expect("valid judgements")
}

/// Prints `q1: d1=1 d2=0 | q2: d3=2`, the relevant documents first.
fn print(qrels: &Qrels) -> String {
    let query = |query: &str| {
        let relevant = qrels.relevant(query).iter().map(|(document, gain)| format!(" {document}={gain}"));
        let others =
            qrels.not_relevant(query).iter().map(|(document, relevance)| format!(" {document}={relevance}"));
        format!("{query}:{}", relevant.chain(others).collect::<String>())
    };
    qrels.queries().map(query).collect::<Vec<_>>().join(" | ")
}

#[test]
fn spaces_tabs_marks_comments_blanks_and_repeats_are_accepted() {
    for (text, wanted) in [
        (SAMPLE, "q1: d1=1 d2=0 d3=-2 | q2: schlüssel=3"),
        ("q1 0 d1 1", "q1: d1=1"),
        ("  q1 \t 0  d1\t\t1 \t\n", "q1: d1=1"),
        ("\n \t\n# q9 0 d9 1\n  # too\n#\nq1 0 d1 1\n\n", "q1: d1=1"),
        ("\u{feff}q1 0 d1 1\n\u{feff}q1 0 d2 1\n", "q1: d1=1 d2=1"),
        ("q1 0 d1 1\r\nq1 0 d2 1\r", "q1: d1=1 d2=1"),
        ("q1 0 d1 +1\nq1 iter d1 1\nq1 0 d1 01\n", "q1: d1=1"),
        ("q2 0 d1 0\nq1 0 d1 -1\nq2 0 d2 1\n", "q2: d2=1 d1=0 | q1: d1=-1"),
        ("q1 0 #d 2147483647\nq1 0 d\u{a0}1 -2147483648\n", "q1: #d=2147483647 d\u{a0}1=-2147483648"),
    ] {
        assert_eq!(print(&parse(text)), wanted, "{text:?}");
    }
}

#[test]
fn a_byte_order_mark_makes_no_third_query() {
    let plain = "q1 0 d1 1\nq2 0 d2 1\n";
    assert_eq!(parse(&format!("\u{feff}{plain}")), parse(plain));
    assert_eq!(parse(plain).queries().len(), 2);
}

#[test]
fn a_query_that_is_not_judged_has_no_documents_and_is_told_from_one_without_relevant_ones() {
    let qrels = parse("q1 0 d1 0\n");
    assert!(qrels.contains("q1") && !qrels.contains("q2"));
    assert!(qrels.relevant("q1").is_empty() && qrels.relevant("q2").is_empty());
    assert!(qrels.not_relevant("q2").is_empty());
    assert_eq!(qrels.not_relevant("q1"), [("d1".to_owned(), 0)]);
}

#[test]
fn what_is_refused_is_named_by_file_line_field_wanted_and_found() {
    let ended = |at, field| {
        format!("{at}: field {field}: wanted `query iter document relevance`, found the end of the line")
    };
    let number = |at, found| {
        format!("{at}: field relevance: wanted an integer from -2147483648 to 2147483647, found {found:?}")
    };
    let none = "qrels.txt: wanted at least one line `query iter document relevance`, found none".to_owned();
    let long = "x".repeat(FOUND_CHARS_MAX + 1);
    for (text, message) in [
        ("", none.clone()),
        ("\u{feff}\n# only a comment\n \r\n", none.clone()),
        ("q1\n", ended("qrels.txt:1", "iter")),
        ("# c\n\nq1 0\n", ended("qrels.txt:3", "document")),
        // BEIR's header with nothing after it, its lines without it, and a file separated by commas.
        ("query-id\tcorpus-id\tscore\n", none.clone()),
        ("q1\td1\t1\n", ended("qrels.txt:1", "relevance")),
        ("q1,0,d1,1\n", ended("qrels.txt:1", "iter")),
        (
            "q1 0 d1 1 tag more\n",
            "qrels.txt:1: after field relevance: wanted the end of the line, found \"tag\"".to_owned(),
        ),
        ("q1 0 d1 1\r\nq1 0 d2 high\r\n", number("qrels.txt:2", "high")),
        ("q1 0 d1 1.0\n", number("qrels.txt:1", "1.0")),
        ("q1 0 d1 −1\n", number("qrels.txt:1", "−1")),
        ("q1 0 d1 2147483648\n", number("qrels.txt:1", "2147483648")),
        ("q1 0 d1 1\rq1\n", number("qrels.txt:1", "1\rq1")),
        (&format!("q1 0 d1 {long}\n"), number("qrels.txt:1", &format!("{}…", &long[1..]))),
        (
            "q1 0 d1 1\nq2 0 d1 0\n\nq1 0 d1 0\n",
            "qrels.txt:4: field relevance: query \"q1\", document \"d1\": wanted 1 as in line 1, found 0"
                .to_owned(),
        ),
    ] {
        assert_eq!(Qrels::parse("qrels.txt", text).expect_err(text).to_string(), message);
    }
}

#[test]
fn a_repeat_after_a_repeat_is_still_compared() {
    let error = Qrels::parse("f", "q 0 d 1\nq 0 d 1\nq 0 d 2\n").expect_err("a conflict");
    assert!(error.to_string().starts_with("f:3: "), "{error}");
}

#[test]
fn every_prefix_of_a_file_parses_or_is_refused() {
    let ends = SAMPLE.char_indices().map(|(start, _)| start).chain([SAMPLE.len()]);
    let parsed = ends.filter_map(|end| Qrels::parse("f", &SAMPLE[..end]).ok());
    let queries: Vec<usize> = parsed.map(|qrels| qrels.queries().len()).collect();
    assert!(queries.is_sorted() && queries.last() == Some(&2), "{queries:?}");
}

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(20_240_301),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Qrels::parse("f", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_words_never_panic(text in "([q#d0-9\u{feff}-]{0,3}[ \t\r\n]){0,40}") {
        let _ = Qrels::parse("f", &text);
    }

    #[test]
    fn a_sample_with_one_byte_changed_never_panics(at in 0..SAMPLE.len(), byte in any::<u8>()) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = Qrels::parse("f", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn every_judgement_written_is_read_back(
        judgements in prop::collection::btree_map((0u8..6, 0u8..9), any::<i32>(), 1..30),
        separator in prop_oneof![Just(" "), Just("\t"), Just("  \t")],
        end in prop_oneof![Just("\n"), Just("\r\n"), Just("\n\n# comment\n")],
    ) {
        let line = |(&(query, document), relevance): (&(u8, u8), &i32)| {
            format!("q{query}{separator}0{separator}d{document}{separator}{relevance}{end}")
        };
        let qrels = parse(&judgements.iter().map(line).collect::<String>());
        let mut read = BTreeMap::new();
        for query in qrels.queries() {
            for (document, gain) in qrels.relevant(query) {
                read.insert((query.to_owned(), document.clone()), i64::from(*gain));
            }
            for (document, relevance) in qrels.not_relevant(query) {
                read.insert((query.to_owned(), document.clone()), i64::from(*relevance));
            }
        }
        let id = |(&(query, document), &relevance): (&(u8, u8), &i32)| {
            ((format!("q{query}"), format!("d{document}")), i64::from(relevance))
        };
        prop_assert_eq!(read, judgements.iter().map(id).collect());
    }
}
