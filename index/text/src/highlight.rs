//! The part of a text that tells best why it was found.

use std::ops::Range;

use tantivy::schema::Field;
use tantivy::snippet::{SnippetGenerator, collapse_overlapped_ranges};

use crate::{Analyzer, TextQuery};

/// A part of a text with words of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Highlight {
    /// The part.
    pub fragment: String,
    /// Where in it the words are, in bytes, ascending and apart.
    pub spans: Vec<Range<usize>>,
}

/// The part of a text, of about so many characters, that has most of the terms of a query; `None` if it has none.
pub fn highlight(analyzer: Analyzer, query: &TextQuery, text: &str, max_chars: usize) -> Option<Highlight> {
    let terms = analyzer.terms(&query.text).into_iter().map(|term| (term.to_lowercase(), 1.0)).collect();
    let field = Field::from_field_id(0);
    let snippet = SnippetGenerator::new(terms, analyzer.build(), field, max_chars).snippet(text);
    let spans = collapse_overlapped_ranges(snippet.highlighted());
    (!spans.is_empty()).then(|| Highlight { fragment: snippet.fragment().to_owned(), spans })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_marks_the_words_that_were_found_in_whatever_form() {
        for (analyzer, query, text, marked) in [
            ("english", "running dogs", "A dog that runs. Cats sleep.", "dog|runs"),
            ("standard", "naïve", "How NAI\u{308}VE it was", "NAI\u{308}VE"),
            ("cjk", "京都", "東京都の天気", "京都"),
            ("cjk", "東京都", "東京都の天気", "東京都"),
            ("ngram(2,2)", "bcd", "abcde", "bcd"),
            ("raw", "As Is", "As Is", "As Is"),
            ("standard", "absent", "nothing here", ""),
            ("standard", "", "nothing here", ""),
            ("standard", "x", "", ""),
        ] {
            let analyzer: Analyzer = analyzer.parse().expect("an analyzer");
            let found = highlight(analyzer, &TextQuery::new(query), text, 200);
            let words: Vec<&str> = found
                .iter()
                .flat_map(|found| found.spans.iter().map(|span| &found.fragment[span.clone()]))
                .collect();
            assert_eq!(words.join("|"), marked, "{query}: {text}");
        }
    }

    #[test]
    fn of_a_long_text_the_part_is_shown_that_has_most_words() {
        let text = format!("one {} one two three {}", "filler ".repeat(100), "filler ".repeat(100));
        let found = highlight(Analyzer::Standard, &TextQuery::new("one two three"), &text, 60);
        let found = found.expect("the words are there");
        assert!(found.fragment.contains("one two three") && found.fragment.len() < 100, "{found:?}");
    }
}
