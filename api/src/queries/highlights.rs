//! The parts of texts that tell why points were found by words.

use dehub_index::{Point, Snapshot, TextHighlight, TextQuery};
use dehub_query::Request;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::words::all_words;
use crate::decode::{self, Fields, Place};
use crate::errors::{self, INVALID_VALUE};
use crate::problem::Problem;

/// Characters of a part unless a body says how many.
const CHARS_DEFAULT: usize = 160;

/// The most characters of a part.
const CHARS_MAX: usize = 10_000;

/// The longest mark before or after a word, in bytes.
const TAG_BYTES_MAX: usize = 256;

/// How to show the words that were looked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Highlighting {
    max_chars: usize,
    /// All fields that the query asks, if none are named.
    fields: Vec<String>,
    pre_tag: String,
    post_tag: String,
}

/// A part of a text with words that were looked for.
#[derive(Serialize, ToSchema)]
#[schema(as = Highlight)]
pub(crate) struct HighlightReply {
    field: String,
    /// HTML: the words between the tags, and all else escaped.
    fragment: String,
}

impl Highlighting {
    /// Reads `true`, `false` or an object.
    pub(crate) fn read(value: Value, place: Place<'_>) -> Result<Option<Highlighting>, Problem> {
        let plain = Highlighting {
            max_chars: CHARS_DEFAULT,
            fields: Vec::new(),
            pre_tag: "<em>".to_owned(),
            post_tag: "</em>".to_owned(),
        };
        if let Value::Bool(is_asked) = value {
            return Ok(is_asked.then_some(plain));
        }
        if !value.is_object() {
            return Err(decode::wrong(place, &value, "true, false or an object"));
        }
        let mut fields = Fields::new(value, place)?;
        let max_chars = fields.optional("max_chars", |value, place| {
            let found = decode::count(value, place)?;
            let is_within = (1..=CHARS_MAX).contains(&found);
            if is_within { Ok(found) } else { Err(decode::out_of_range(place, found, "1 to 10000")) }
        })?;
        let named = fields.optional("fields", |value, place| decode::list(value, place, decode::string))?;
        let pre_tag = fields.optional("pre_tag", tag)?;
        let post_tag = fields.optional("post_tag", tag)?;
        fields.finish()?;
        Ok(Some(Highlighting {
            max_chars: max_chars.unwrap_or(plain.max_chars),
            fields: named.unwrap_or(plain.fields),
            pre_tag: pre_tag.unwrap_or(plain.pre_tag),
            post_tag: post_tag.unwrap_or(plain.post_tag),
        }))
    }

    /// The words of a request, as far as they are to be shown.
    pub(crate) fn words(&self, request: &Request, base: &str) -> Result<TextQuery, Problem> {
        let words = all_words(request).ok_or_else(|| {
            let pointer = format!("{base}/highlight");
            let detail = format!("`{pointer}`: only words can be highlighted, and the query has none");
            Problem::new(INVALID_VALUE, detail).at(pointer)
        })?;
        if self.fields.is_empty() {
            return Ok(words);
        }
        Ok(TextQuery { fields: self.fields.iter().map(|name| (name.clone(), 1.0)).collect(), ..words })
    }

    /// The parts of a point's texts.
    pub(crate) fn of(
        &self,
        snapshot: &Snapshot,
        words: &TextQuery,
        point: &Point,
        base: &str,
    ) -> Result<Vec<HighlightReply>, Problem> {
        let found = snapshot.highlight(words, point, self.max_chars);
        let found = found.map_err(|error| errors::words(&error, &format!("{base}/highlight")))?;
        let reply = |part: TextHighlight| HighlightReply { fragment: self.html(&part), field: part.field };
        Ok(found.into_iter().map(reply).collect())
    }

    fn html(&self, TextHighlight { fragment, spans, .. }: &TextHighlight) -> String {
        let mut html = String::new();
        let mut from = 0;
        for span in spans {
            html.push_str(&escaped(fragment.get(from..span.start).unwrap_or_default()));
            html.push_str(&self.pre_tag);
            html.push_str(&escaped(fragment.get(span.clone()).unwrap_or_default()));
            html.push_str(&self.post_tag);
            from = span.end;
        }
        html.push_str(&escaped(fragment.get(from..).unwrap_or_default()));
        html
    }
}

fn tag(value: Value, place: Place<'_>) -> Result<String, Problem> {
    let found = decode::string(value, place)?;
    if found.len() <= TAG_BYTES_MAX {
        return Ok(found);
    }
    let detail = format!("`{place}` has {} bytes, wanted at most {TAG_BYTES_MAX}", found.len());
    Err(Problem::new(INVALID_VALUE, detail).at(place))
}

/// A text that HTML shows as it is, in quoted attributes too.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}
