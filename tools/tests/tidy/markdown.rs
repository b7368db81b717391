//! What the rules need from Markdown: fenced lists, links and code spans.

use std::collections::{BTreeMap, BTreeSet};

/// The lines of the first fenced block opened by three or more backticks and `name`.
pub(crate) fn block<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let mut lines = text.lines();
    let opened = |line: &str| fence(line).is_some_and(|info| info == name);
    lines.find(|line| opened(line))?;
    let inside = lines.take_while(|line| fence(line).is_none());
    Some(inside.map(str::trim).filter(|line| !line.is_empty()).collect())
}

/// The info string when the line is a fence.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim();
    line.starts_with("```").then(|| line.trim_start_matches('`').trim())
}

/// `name: word word`, with `–` for no words, as a map. Fails on a line of another form.
pub(crate) fn lists(lines: &[&str]) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
    let mut lists = BTreeMap::new();
    for line in lines {
        let Some((name, words)) = line.split_once(':') else {
            return Err(format!("`{line}` is not of the form `name: word word`"));
        };
        let words = words.split_whitespace().filter(|&word| word != "–" && word != "-").map(str::to_owned);
        if lists.insert(name.trim().to_owned(), words.collect()).is_some() {
            return Err(format!("`{}` is listed twice", name.trim()));
        }
    }
    Ok(lists)
}

/// Targets of `[text](target)` outside code, with their lines.
pub(crate) fn links(text: &str) -> Vec<(usize, &str)> {
    prose_lines(text).flat_map(|(number, line)| links_of(line).map(move |target| (number, target))).collect()
}

fn links_of(line: &str) -> impl Iterator<Item = &str> {
    let targets = prose_of(line).flat_map(|prose| prose.split("](").skip(1));
    targets.filter_map(|rest| rest.split([')', ' ']).next())
}

/// The parts of a line between its code spans.
fn prose_of(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').step_by(2)
}

/// Code spans, with their lines.
pub(crate) fn code_spans(text: &str) -> Vec<(usize, &str)> {
    prose_lines(text).flat_map(|(number, line)| spans_of(line).map(move |span| (number, span))).collect()
}

fn spans_of(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The lines outside fenced blocks, counted from 1.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    let outside = move |(index, line)| {
        let is_fence = fence(line).is_some();
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    };
    text.lines().enumerate().filter_map(outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "See [a](a.md) and [`b`](b/c.rs#L1).\n\n````lists\nx: y z\n\ny: –\n````\n`q/r` [`](no) s` `t`\n";

    #[test]
    fn a_named_block_gives_its_lines() {
        assert_eq!(block(PAGE, "lists"), Some(vec!["x: y z", "y: –"]));
        assert_eq!(block(PAGE, "list"), None);
    }

    #[test]
    fn lists_are_read_and_other_lines_refused() {
        let read = lists(&["x: y z", "y: –"]).expect("both lines have the form");
        assert_eq!(read["x"], BTreeSet::from(["y".to_owned(), "z".to_owned()]));
        assert!(read["y"].is_empty());
        assert!(lists(&["x y"]).is_err());
        assert!(lists(&["x: y", "x: z"]).is_err());
    }

    #[test]
    fn links_and_spans_are_found_outside_blocks() {
        assert_eq!(links(PAGE), [(1, "a.md"), (1, "b/c.rs#L1")]);
        assert_eq!(code_spans(PAGE), [(1, "b"), (8, "q/r"), (8, "](no) s"), (8, "t")]);
    }
}
