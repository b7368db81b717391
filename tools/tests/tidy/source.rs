//! Rust text without its strings and comments, so that rules look at code only.

use std::ops::RangeInclusive;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// One Rust file. All views have the lines of the original text.
pub(crate) struct Source {
    chars: Vec<char>,
    kinds: Vec<Kind>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let mut reader = Reader { chars: text.chars().collect(), kinds: Vec::new() };
        reader.read();
        Self { chars: reader.chars, kinds: reader.kinds }
    }

    /// The code: strings, chars and comments are blank.
    pub(crate) fn code(&self) -> String {
        self.view(|kind| kind == Kind::Code)
    }

    /// Code and comments: strings and chars are blank.
    pub(crate) fn code_and_comments(&self) -> String {
        self.view(|kind| kind != Kind::Literal)
    }

    fn view(&self, keep: impl Fn(Kind) -> bool) -> String {
        let kept = |(&letter, &kind): (&char, &Kind)| if letter == '\n' || keep(kind) { letter } else { ' ' };
        self.chars.iter().zip(&self.kinds).map(kept).collect()
    }
}

struct Reader {
    chars: Vec<char>,
    kinds: Vec<Kind>,
}

impl Reader {
    fn read(&mut self) {
        while self.at() < self.chars.len() {
            match self.here() {
                '/' if self.ahead(1) == Some('/') => self.line_comment(),
                '/' if self.ahead(1) == Some('*') => self.block_comment(),
                '"' => self.string(),
                'r' if self.raw_hashes().is_some() => self.raw_string(),
                '\'' => self.char_or_lifetime(),
                _ => self.take(Kind::Code, 1),
            }
        }
    }

    fn at(&self) -> usize {
        self.kinds.len()
    }

    fn here(&self) -> char {
        self.chars[self.at()]
    }

    fn ahead(&self, by: usize) -> Option<char> {
        self.chars.get(self.at() + by).copied()
    }

    fn take(&mut self, kind: Kind, count: usize) {
        let end = (self.at() + count).min(self.chars.len());
        self.kinds.resize(end, kind);
    }

    fn line_comment(&mut self) {
        while self.at() < self.chars.len() && self.here() != '\n' {
            self.take(Kind::Comment, 1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at() < self.chars.len() {
            match (self.here(), self.ahead(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.take(Kind::Comment, 1);
                    continue;
                }
            }
            self.take(Kind::Comment, 2);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.take(Kind::Literal, 1);
        while self.at() < self.chars.len() {
            match self.here() {
                '\\' => self.take(Kind::Literal, 2),
                '"' => return self.take(Kind::Literal, 1),
                _ => self.take(Kind::Literal, 1),
            }
        }
    }

    /// The number of `#` when a raw string starts at this `r`.
    fn raw_hashes(&self) -> Option<usize> {
        let before = |by: usize| self.at().checked_sub(by).map(|index| self.chars[index]);
        let prefixed = matches!(before(1), Some('b' | 'c'));
        let last = if prefixed { before(2) } else { before(1) };
        if last.is_some_and(is_word) {
            return None;
        }
        let hashes = (1..).take_while(|&by| self.ahead(by) == Some('#')).count();
        (self.ahead(hashes + 1) == Some('"')).then_some(hashes)
    }

    fn raw_string(&mut self) {
        let hashes = self.raw_hashes().unwrap_or(0);
        self.take(Kind::Literal, hashes + 2);
        while self.at() < self.chars.len() {
            let closed = self.here() == '"' && (1..=hashes).all(|by| self.ahead(by) == Some('#'));
            if closed {
                return self.take(Kind::Literal, hashes + 1);
            }
            self.take(Kind::Literal, 1);
        }
    }

    fn char_or_lifetime(&mut self) {
        match (self.ahead(1), self.ahead(2)) {
            (Some('\\'), _) => {
                self.take(Kind::Literal, 3);
                while self.at() < self.chars.len() && self.here() != '\'' {
                    self.take(Kind::Literal, 1);
                }
                self.take(Kind::Literal, 1);
            }
            (_, Some('\'')) => self.take(Kind::Literal, 3),
            _ => self.take(Kind::Code, 1),
        }
    }
}

pub(crate) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Byte positions where `word` stands in `text` as a whole word.
pub(crate) fn whole_words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(start, _)| start).filter(move |&start| {
        let before = text[..start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The line of a byte position, counted from 1.
pub(crate) fn line_of(text: &str, position: usize) -> usize {
    text[..position].matches('\n').count() + 1
}

/// A function with a body, in lines counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) first_line: usize,
    pub(crate) lines: usize,
}

/// Every function with a body in `code`, which is the `code` view of a source.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    whole_words(code, "fn").filter_map(|start| function_at(code, start)).collect()
}

fn function_at(code: &str, start: usize) -> Option<Function> {
    let rest = code[start + 2..].trim_start();
    let name: String = rest.chars().take_while(|&letter| is_word(letter)).collect();
    if name.is_empty() {
        return None;
    }
    let end = item_end(code, start, Only::Braced)?;
    let first_line = line_of(code, start);
    Some(Function { name, first_line, lines: line_of(code, end) - first_line + 1 })
}

/// Which items `item_end` finds the end of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Only {
    Braced,
    Any,
}

/// The byte position of the `}` or `;` that ends the item whose head starts at `start`.
fn item_end(code: &str, start: usize, only: Only) -> Option<usize> {
    let mut nesting = 0_i32;
    for (offset, letter) in code[start..].char_indices() {
        match letter {
            '(' | '[' => nesting += 1,
            ')' | ']' => nesting -= 1,
            ';' if nesting == 0 => return (only == Only::Any).then_some(start + offset),
            '{' if nesting == 0 => return closing_brace(code, start + offset),
            _ => {}
        }
    }
    None
}

fn closing_brace(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (offset, letter) in code[open..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + offset);
        }
    }
    None
}

/// The lines of items marked `#[test]`, `#[x::test]` or `#[cfg(test)]`.
pub(crate) fn test_lines(code: &str) -> Vec<RangeInclusive<usize>> {
    let region = |(start, attribute): (usize, &str)| {
        let end = item_end(code, start + attribute.len(), Only::Any)?;
        is_test_attribute(attribute).then(|| line_of(code, start)..=line_of(code, end))
    };
    attributes(code).into_iter().filter_map(region).collect()
}

/// True when the whole file is compiled for tests only.
pub(crate) fn is_test_only(code: &str) -> bool {
    code.contains("#![cfg(test)]")
}

/// Names of the modules declared as `#[cfg(test)] mod name;`.
pub(crate) fn test_modules(code: &str) -> Vec<String> {
    let module = |(start, attribute): (usize, &str)| {
        let item = code[start + attribute.len()..].split(';').next()?;
        let name = item.trim().rsplit_once("mod ").map(|(_, name)| name.trim())?;
        (is_test_attribute(attribute) && name.chars().all(is_word)).then(|| name.to_owned())
    };
    attributes(code).into_iter().filter_map(module).collect()
}

/// The tests whose names start with `prefix`, with their lines.
pub(crate) fn tests_named(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let test = |(start, attribute): (usize, &str)| {
        let rest = &code[start + attribute.len()..];
        let body = rest.find('{').unwrap_or(rest.len());
        let name = rest[..body].split("fn ").nth(1)?.split('(').next()?.trim();
        let is_test = is_test_attribute(attribute) && !attribute.contains("cfg");
        (is_test && name.starts_with(prefix)).then(|| (line_of(code, start), name.to_owned()))
    };
    attributes(code).into_iter().filter_map(test).collect()
}

fn is_test_attribute(attribute: &str) -> bool {
    let inside = attribute.trim_start_matches("#[").trim_end_matches(']').trim();
    let named = inside.split('(').next().is_some_and(|path| path == "test" || path.ends_with("::test"));
    named || inside.starts_with("cfg(test)") || inside.starts_with("cfg(all(test,")
}

/// Every outer attribute with the byte position of its `#`.
fn attributes(code: &str) -> Vec<(usize, &str)> {
    let attribute = |(start, _): (usize, &str)| {
        let length = code[start..].char_indices().scan(0_i32, nesting_of_brackets).last()? + 1;
        Some((start, &code[start..start + length]))
    };
    code.match_indices("#[").filter_map(attribute).collect()
}

/// Scans up to the bracket that closes the first one.
fn nesting_of_brackets(depth: &mut i32, (offset, letter): (usize, char)) -> Option<usize> {
    if *depth < 0 {
        return None;
    }
    match letter {
        '[' => *depth += 1,
        ']' if *depth == 1 => *depth = -1,
        ']' => *depth -= 1,
        _ => {}
    }
    Some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new(text).code()
    }

    #[test]
    fn strings_chars_and_comments_are_blank_and_lines_stay() {
        assert_eq!(code("a(\"x\\\"{\", '{', b'}') // {\nb"), "a(      ,    , b   )     \nb");
        assert_eq!(code("a /* { /* } */ */ b"), "a                 b");
        assert_eq!(code("r#\"{\" \"# br\"{\" c"), "         b     c");
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_code() {
        for text in ["fn f<'a>(x: &'a str) {}", "'outer: loop {}", "let r#fn = for_r;"] {
            assert_eq!(code(text), text);
        }
    }

    #[test]
    fn escaped_quotes_end_where_rust_ends_them() {
        assert_eq!(code(r"['\'', '\\', '\u{7b}', x]"), "[    ,     ,         , x]");
        assert_eq!(code("\"\\\\\" x"), "     x");
    }

    #[test]
    fn comments_are_kept_when_asked_for() {
        assert_eq!(Source::new("a(\"b\") // c").code_and_comments(), "a(   ) // c");
    }

    #[test]
    fn functions_are_measured_from_head_to_closing_brace() {
        let declared = "trait T { fn declared(&self, x: [u8; 3]); }\n";
        let text = format!("{declared}fn short() {{}}\nfn long(\n    f: fn(u8) -> u8,\n) {{\n{{}}\n}}\n");
        let found = functions(&code(&text));
        let expected = |name: &str, first_line, lines| Function { name: name.to_owned(), first_line, lines };
        assert_eq!(found, [expected("short", 2, 1), expected("long", 3, 5)]);
    }

    #[test]
    fn regions_of_tests_cover_modules_and_functions() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n}\n#[test]\nfn b() {\n}\nfn c() {}\n";
        assert_eq!(test_lines(&code(text)), [2..=4, 5..=7]);
        assert!(test_lines(&code("#[cfg(not(test))]\nfn a() {}")).is_empty());
    }

    #[test]
    fn modules_for_tests_in_other_files_are_named() {
        assert_eq!(test_modules("#[cfg(test)]\nmod oracle;\nmod rows;\n"), ["oracle"]);
    }

    #[test]
    fn only_tests_count_as_badly_named() {
        let text = "fn test_queries() {}\n#[test]\nfn test_x() {}\n#[rt::test]\nasync fn test_y() {}\n";
        let names: Vec<_> = tests_named(text, "test_").into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["test_x", "test_y"]);
    }

    #[test]
    fn words_are_matched_whole() {
        assert_eq!(whole_words("fn fn_x xfn fn", "fn").collect::<Vec<_>>(), [0, 12]);
    }
}
