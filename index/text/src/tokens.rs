//! What tantivy's own tokenizers do not do.

use tantivy::tokenizer::{Token, TokenFilter, TokenStream, Tokenizer};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::{UnicodeSegmentation, UnicodeWordIndices};

/// Words by Unicode Standard Annex 29.
#[derive(Clone, Default)]
pub(crate) struct Words;

pub(crate) struct WordStream<'a> {
    words: UnicodeWordIndices<'a>,
    token: Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        WordStream { words: text.unicode_word_indices(), token: Token::default() }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let Some((start, word)) = self.words.next() else { return false };
        self.token.text.clear();
        self.token.text.push_str(word);
        self.token.offset_from = start;
        self.token.offset_to = start + word.len();
        self.token.position = self.token.position.wrapping_add(1);
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

/// Makes a filter that changes the text of each token.
macro_rules! text_filter {
    ($(#[$about:meta])* $filter:ident, $tokenizer:ident, $stream:ident, $change:expr) => {
        $(#[$about])*
        #[derive(Clone)]
        pub(crate) struct $filter;

        #[derive(Clone)]
        pub(crate) struct $tokenizer<T>(T);

        pub(crate) struct $stream<T>(T);

        impl TokenFilter for $filter {
            type Tokenizer<T: Tokenizer> = $tokenizer<T>;

            fn transform<T: Tokenizer>(self, inner: T) -> $tokenizer<T> {
                $tokenizer(inner)
            }
        }

        impl<T: Tokenizer> Tokenizer for $tokenizer<T> {
            type TokenStream<'a> = $stream<T::TokenStream<'a>>;

            fn token_stream<'a>(&'a mut self, text: &'a str) -> Self::TokenStream<'a> {
                $stream(self.0.token_stream(text))
            }
        }

        impl<T: TokenStream> TokenStream for $stream<T> {
            fn advance(&mut self) -> bool {
                let is_there = self.0.advance();
                if is_there {
                    let change: fn(&mut String) = $change;
                    change(&mut self.0.token_mut().text);
                }
                is_there
            }

            fn token(&self) -> &Token {
                self.0.token()
            }

            fn token_mut(&mut self) -> &mut Token {
                self.0.token_mut()
            }
        }
    };
}

text_filter!(
    /// NFKC and lower case, so that words that look alike are alike.
    Compose,
    ComposeTokenizer,
    ComposeStream,
    |text| {
        if text.is_ascii() {
            text.make_ascii_lowercase();
        } else {
            *text = text.nfkc().collect::<String>().to_lowercase();
        }
    }
);

text_filter!(
    /// Takes the `'s` of an English possessive.
    Possessives,
    PossessiveTokenizer,
    PossessiveStream,
    |text| {
        let stem = ["'s", "\u{2019}s"].iter().find_map(|end| text.strip_suffix(end)).map(str::len);
        if let Some(length) = stem.filter(|&length| length > 0) {
            text.truncate(length);
        }
    }
);

/// Each two characters of runs in scripts that do not part words, as words by themselves; one alone stays.
#[derive(Clone)]
pub(crate) struct Bigrams;

#[derive(Clone)]
pub(crate) struct BigramTokenizer<T>(T);

pub(crate) struct BigramStream<T> {
    inner: T,
    /// Tokens that are still to be shown, the next last.
    waiting: Vec<Token>,
    /// A token of the inner stream that was looked at and not used.
    ahead: Option<Token>,
    token: Token,
}

impl TokenFilter for Bigrams {
    type Tokenizer<T: Tokenizer> = BigramTokenizer<T>;

    fn transform<T: Tokenizer>(self, inner: T) -> BigramTokenizer<T> {
        BigramTokenizer(inner)
    }
}

impl<T: Tokenizer> Tokenizer for BigramTokenizer<T> {
    type TokenStream<'a> = BigramStream<T::TokenStream<'a>>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Self::TokenStream<'a> {
        BigramStream {
            inner: self.0.token_stream(text),
            waiting: Vec::new(),
            ahead: None,
            token: Token::default(),
        }
    }
}

impl<T: TokenStream> BigramStream<T> {
    fn next_inner(&mut self) -> Option<Token> {
        let ahead = self.ahead.take();
        ahead.or_else(|| self.inner.advance().then(|| self.inner.token().clone()))
    }

    /// The characters of the run that begins with a token; what ends the run is kept.
    fn run(&mut self, first: Token) -> Vec<Token> {
        let mut characters = characters_of(&first);
        let mut end = first.offset_to;
        while let Some(next) = self.next_inner() {
            if next.offset_from != end || !is_unparted(&next.text) {
                self.ahead = Some(next);
                break;
            }
            end = next.offset_to;
            characters.extend(characters_of(&next));
        }
        characters
    }
}

impl<T: TokenStream> TokenStream for BigramStream<T> {
    fn advance(&mut self) -> bool {
        if self.waiting.is_empty() {
            let Some(first) = self.next_inner() else { return false };
            if is_unparted(&first.text) {
                let run = self.run(first);
                self.waiting = match run.as_slice() {
                    [_] => run,
                    _ => run.windows(2).map(|pair| joined(&pair[0], &pair[1])).rev().collect(),
                };
            } else {
                self.waiting.push(first);
            }
        }
        match self.waiting.pop() {
            Some(token) => {
                self.token = Token { position: self.token.position.wrapping_add(1), ..token };
                true
            }
            None => false,
        }
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

/// A token for each character. Where composing changed how many bytes there are, each has the place of the whole.
fn characters_of(token: &Token) -> Vec<Token> {
    let is_as_it_was = token.offset_to - token.offset_from == token.text.len();
    let character = |(start, character): (usize, char)| {
        let (offset_from, offset_to) = if is_as_it_was {
            (token.offset_from + start, token.offset_from + start + character.len_utf8())
        } else {
            (token.offset_from, token.offset_to)
        };
        Token { text: character.to_string(), offset_from, offset_to, ..token.clone() }
    };
    token.text.char_indices().map(character).collect()
}

fn joined(left: &Token, right: &Token) -> Token {
    let text = format!("{}{}", left.text, right.text);
    Token { text, offset_to: right.offset_to, ..left.clone() }
}

/// Whether a word is of Han, kana or Hangul.
fn is_unparted(word: &str) -> bool {
    !word.is_empty()
        && word.chars().all(|character| {
            matches!(u32::from(character),
                0x1100..=0x11FF | 0x2E80..=0x2FDF | 0x3005..=0x3007 | 0x3040..=0x30FF | 0x3130..=0x318F
                | 0x31F0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xA960..=0xA97F | 0xAC00..=0xD7FF
                | 0xF900..=0xFAFF | 0xFF66..=0xFF9F | 0x2_0000..=0x3_FFFF)
        })
}
