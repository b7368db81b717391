//! Analysers: how a text becomes terms.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tantivy::tokenizer::{
    LowerCaser, NgramTokenizer, RawTokenizer, RemoveLongFilter, Stemmer, StopWordFilter, TextAnalyzer,
};

pub use tantivy::tokenizer::Language;

use crate::tokens::{Bigrams, Compose, Possessives, Words};

/// The longest gram.
const GRAM_MAX: usize = 20;

/// Terms of more bytes are no words, and are passed over.
const TERM_BYTES_MAX: usize = 255;

/// How a text becomes terms. Words are those of Unicode Standard Annex 29, in the compatibility composition NFKC and in
/// lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Analyzer {
    /// Words as they are.
    #[default]
    Standard,
    /// Words without the stop words of a language, if there is a list, each reduced to its stem (Snowball). In English
    /// a possessive `'s` is no part of a word.
    Stemmed(Language),
    /// Words, and of runs of Han, kana and Hangul each two characters that stand together, a single one by itself.
    Cjk,
    /// Runs of characters of each length from `least` to `most`, blanks and punctuation included, in lower case.
    Ngram {
        /// The shortest, at least 1.
        least: usize,
        /// The longest, at most 20.
        most: usize,
    },
    /// The whole text as one term, as it is.
    Raw,
}

/// Text that names no analyser.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} is no analyzer, wanted standard, cjk, raw, ngram(least,most) with 1 <= least <= most <= 20, or a \
     language: {}",
    names()
)]
pub struct AnalyzerError {
    /// What was given, cut to 100 characters.
    pub found: String,
}

/// Every language with a stemmer.
const LANGUAGES: [(&str, Language); 18] = [
    ("arabic", Language::Arabic),
    ("danish", Language::Danish),
    ("dutch", Language::Dutch),
    ("english", Language::English),
    ("finnish", Language::Finnish),
    ("french", Language::French),
    ("german", Language::German),
    ("greek", Language::Greek),
    ("hungarian", Language::Hungarian),
    ("italian", Language::Italian),
    ("norwegian", Language::Norwegian),
    ("portuguese", Language::Portuguese),
    ("romanian", Language::Romanian),
    ("russian", Language::Russian),
    ("spanish", Language::Spanish),
    ("swedish", Language::Swedish),
    ("tamil", Language::Tamil),
    ("turkish", Language::Turkish),
];

fn names() -> String {
    LANGUAGES.map(|(name, _)| name).join(", ")
}

impl Analyzer {
    /// What makes terms of texts.
    pub(crate) fn build(self) -> TextAnalyzer {
        let words = || TextAnalyzer::builder(Words).filter(RemoveLongFilter::limit(TERM_BYTES_MAX + 1));
        match self {
            Analyzer::Standard => words().filter(Compose).build(),
            Analyzer::Stemmed(language) => {
                let mut builder = words().filter(Compose).dynamic();
                if language == Language::English {
                    builder = builder.filter_dynamic(Possessives);
                }
                if let Some(stop) = StopWordFilter::new(language) {
                    builder = builder.filter_dynamic(stop);
                }
                builder.filter_dynamic(Stemmer::new(language)).build()
            }
            Analyzer::Cjk => words().filter(Compose).filter(Bigrams).build(),
            Analyzer::Ngram { least, most } => match NgramTokenizer::new(least, most, false) {
                Ok(grams) => TextAnalyzer::builder(grams).filter(LowerCaser).build(),
                // INVARIANT: an analyser is made by reading its name, which has valid lengths.
                Err(_) => TextAnalyzer::builder(RawTokenizer::default()).build(),
            },
            Analyzer::Raw => TextAnalyzer::builder(RawTokenizer::default()).build(),
        }
    }

    /// The terms of a text, in their order.
    pub fn terms(self, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        let mut analyzer = self.build();
        let mut stream = analyzer.token_stream(text);
        stream.process(&mut |token| terms.push(token.text.clone()));
        terms
    }
}

impl fmt::Display for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Analyzer::Standard => f.write_str("standard"),
            Analyzer::Stemmed(language) => {
                let name = LANGUAGES.iter().find(|(_, own)| own == language).map_or("", |(name, _)| name);
                f.write_str(name)
            }
            Analyzer::Cjk => f.write_str("cjk"),
            Analyzer::Ngram { least, most } => write!(f, "ngram({least},{most})"),
            Analyzer::Raw => f.write_str("raw"),
        }
    }
}

impl FromStr for Analyzer {
    type Err = AnalyzerError;

    fn from_str(text: &str) -> Result<Analyzer, AnalyzerError> {
        let grams = || {
            let (least, most) = text.strip_prefix("ngram(")?.strip_suffix(')')?.split_once(',')?;
            let (least, most) = (least.trim().parse().ok()?, most.trim().parse().ok()?);
            (1 <= least && least <= most && most <= GRAM_MAX).then_some(Analyzer::Ngram { least, most })
        };
        let found = match text {
            "standard" => Some(Analyzer::Standard),
            "cjk" => Some(Analyzer::Cjk),
            "raw" => Some(Analyzer::Raw),
            _ => {
                let language = LANGUAGES.iter().find(|(name, _)| *name == text);
                language.map(|&(_, language)| Analyzer::Stemmed(language)).or_else(grams)
            }
        };
        found.ok_or_else(|| AnalyzerError { found: text.chars().take(100).collect() })
    }
}

impl TryFrom<String> for Analyzer {
    type Error = AnalyzerError;

    fn try_from(text: String) -> Result<Analyzer, AnalyzerError> {
        text.parse()
    }
}

impl From<Analyzer> for String {
    fn from(analyzer: Analyzer) -> String {
        analyzer.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(analyzer: &str, text: &str) -> Vec<String> {
        analyzer.parse::<Analyzer>().expect("an analyzer").terms(text)
    }

    #[test]
    fn an_analyzer_prints_as_it_is_read() {
        let languages = LANGUAGES.map(|(name, _)| name);
        for name in ["standard", "cjk", "raw", "ngram(2,3)", "ngram(1,20)"].iter().chain(&languages) {
            assert_eq!(name.parse::<Analyzer>().expect("an analyzer").to_string(), *name);
        }
        for bad in
            ["", "English", "ngram", "ngram(0,2)", "ngram(3,2)", "ngram(2,21)", "ngram(a,b)", "klingon"]
        {
            assert!(bad.parse::<Analyzer>().is_err(), "{bad}");
        }
    }

    #[test]
    fn each_analyzer_makes_the_terms_that_it_promises() {
        for (analyzer, text, wanted) in [
            ("standard", "The Dog's 3.14 e-mails, naïve ﬁle!", "the|dog's|3.14|e|mails|naïve|file"),
            ("english", "The Dog's running dogs are in the houses", "dog|run|dog|hous"),
            ("german", "Die Häuser der Städte", "haus|stadt"),
            ("cjk", "東京都 hello 一", "東京|京都|hello|一"),
            ("cjk", "カタカナとabc漢字", "カタ|タカ|カナ|ナと|abc|漢字"),
            ("cjk", "한국어 검색", "한국|국어|검색"),
            ("ngram(2,3)", "Abcd", "ab|abc|bc|bcd|cd"),
            ("raw", "As it IS", "As it IS"),
            // A letter and its accent, composed or not, are one word.
            ("standard", "cafe\u{301} café", "café|café"),
            ("standard", "", ""),
            ("english", "… !?", ""),
        ] {
            let wanted: Vec<&str> = wanted.split('|').filter(|term| !term.is_empty()).collect();
            assert_eq!(terms(analyzer, text), wanted, "{analyzer}: {text}");
        }
    }

    #[test]
    fn a_word_too_long_to_be_one_is_passed_over() {
        let longest = "a".repeat(TERM_BYTES_MAX);
        let text = format!("{longest} {longest}a b");
        assert_eq!(terms("standard", &text), [longest, "b".to_owned()]);
    }
}
