//! `dehub search` by words, alone or beside a query by a vector.

use std::io::{IsTerminal as _, stdout};
use std::sync::Arc;

use anyhow::bail;
use dehub_index::{Point, Scope, Snapshot, TextHighlight, TextQuery};
use dehub_query::{
    Answered, FieldScore, FusedSource, Kind, LIMIT_DEFAULT, Part, Request, Settings, Source, answer,
    field_scores,
};
use serde_json::{Value, json};

use super::search::{shortened, shortest};
use super::{Context, Outcome};
use crate::cli::{FusionArgs, Search};
use crate::output::table;

/// Characters of a part of a text that has the words.
const HIGHLIGHT_CHARS: usize = 160;

/// What is known of the answer to a search by words.
struct Told {
    answered: Answered,
    points: Vec<Point>,
    /// For each hit, what each source of a fusion gave it; nothing unless asked for.
    parts: Vec<Vec<Part>>,
    /// For each hit, what each text field gave it; nothing unless asked for.
    fields: Vec<Vec<FieldScore>>,
    /// For each hit, where the words are; nothing unless asked for.
    highlights: Vec<Vec<TextHighlight>>,
}

/// Finds points by words; with a source by that too.
pub(super) fn run(
    context: &Context,
    command: &Search,
    (base, scope): (&Arc<Snapshot>, &Scope),
    words: &str,
    (source, settings): (Option<Source>, Settings),
) -> anyhow::Result<Outcome> {
    let words = TextQuery {
        text: words.to_owned(),
        fields: command.words.field.clone(),
        all_words: command.words.all_words,
    };
    let request = request(context, command, &words, source, settings)?;
    let answered = answer(base, scope, std::slice::from_ref(&request))?.swap_remove(0);
    let rows: Vec<u32> = answered.hits.iter().map(|hit| hit.row).collect();
    let points = base.points(&rows)?;
    let mut told = Told { answered, points, parts: Vec::new(), fields: Vec::new(), highlights: Vec::new() };
    if command.explain {
        told.parts = told.answered.fused.as_ref().map(|fused| fused.parts(&rows)).unwrap_or_default();
        told.fields = field_scores(base, scope, &words, &rows)?;
    }
    if command.words.highlight {
        let of = |point| base.highlight(&words, point, HIGHLIGHT_CHARS);
        told.highlights = told.points.iter().map(of).collect::<Result<_, _>>()?;
    }
    context.output.result(&told.to_json(), || told.to_text(stdout().is_terminal()))?;
    Ok(Outcome::Done)
}

fn request(
    context: &Context,
    command: &Search,
    words: &TextQuery,
    source: Option<Source>,
    settings: Settings,
) -> anyhow::Result<Request> {
    let Some(source) = source else {
        if command.words.fusing != FusionArgs::default() {
            bail!("--fusion, --fusion-k, --weights and --depth have no meaning without --hybrid");
        }
        return Ok(Request::new(Kind::Text(words.clone()), settings));
    };
    if !command.words.hybrid {
        bail!("--text beside --vector, --id or --queries: add --hybrid to fuse what the two find");
    }
    let kind = command.words.feedback(&source).map_or(Kind::Nearest(source), Kind::Feedback);
    let using = context.using.clone();
    let depth = settings.limit.unwrap_or(LIMIT_DEFAULT).max(command.words.fusing.depth as usize);
    let request = Request { using, ..Request::new(kind, settings) };
    Ok(request.with_words(words.clone(), command.words.fusing.fusion()?, Some(depth)))
}

impl Told {
    fn sources(&self) -> &[FusedSource] {
        self.answered.fused.as_ref().map(|fused| fused.sources()).unwrap_or_default()
    }

    /// How the points were found.
    fn plan(&self) -> String {
        self.answered.fused.as_ref().map_or_else(|| "BM25".to_owned(), ToString::to_string)
    }

    fn to_json(&self) -> Value {
        let point = |(place, (hit, point)): (usize, (&dehub_query::Found, &Point))| {
            let payload = point.payload.as_ref();
            let payload: Option<Value> =
                payload.and_then(|payload| serde_json::from_str(payload.as_json()).ok());
            let mut value = json!({
                "id": point.id, "score": shortest(hit.score), "text": point.text, "payload": payload,
            });
            if let Some(parts) = self.parts.get(place) {
                value["parts"] = parts.iter().map(|part| self.part_json(part)).collect();
            }
            if let Some(fields) = self.fields.get(place) {
                let score = |part: &FieldScore| (part.field.clone(), json!(shortest(part.score)));
                value["fields"] = Value::Object(fields.iter().map(score).collect());
            }
            if let Some(highlights) = self.highlights.get(place) {
                value["highlights"] = highlights.iter().map(highlight_json).collect();
            }
            value
        };
        let points = self.answered.hits.iter().zip(&self.points).enumerate().map(point);
        json!({
            "points": points.collect::<Vec<_>>(),
            "exact": self.answered.is_exact,
            "sequence": self.answered.sequence,
            "plan": self.plan(),
        })
    }

    fn part_json(&self, part: &Part) -> Value {
        let source = self.sources().get(part.source);
        json!({
            "source": part.source,
            "kind": source.map(|source| source.kind),
            "correction": source.and_then(|source| source.correction.as_deref()),
            "rank": part.rank,
            "score": shortest(part.score),
            "normalized": part.normalized,
            "weight": source.map(|source| source.weight),
            "contribution": part.contribution,
        })
    }

    /// A table, with columns for each source and field if these are told of; then the parts of texts.
    fn to_text(&self, is_terminal: bool) -> String {
        let mut head: Vec<String> = ["", "id", "text", "score"].map(str::to_owned).to_vec();
        let told = if self.parts.is_empty() { &[][..] } else { self.sources() };
        for source in told {
            head.extend(["rank", "score", "part"].map(|column| format!("{} {column}", source.kind)));
        }
        let mut names: Vec<&str> = self.fields.iter().flatten().map(|part| part.field.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        head.extend(names.iter().map(|name| format!("BM25 {name}")));
        let row = |(place, (hit, point)): (usize, (&dehub_query::Found, &Point))| {
            let text = shortened(point.text.as_deref().unwrap_or(""));
            let mut cells =
                vec![(place + 1).to_string(), point.id.to_string(), text, format!("{:.4}", hit.score)];
            for number in 0..told.len() {
                let part = self.parts[place].iter().find(|part| part.source == number);
                cells.extend(part.map_or_else(Default::default, part_cells));
            }
            let score = |name: &&str| self.fields[place].iter().find(|part| part.field == **name);
            let cell =
                |part: Option<&FieldScore>| part.map_or(String::new(), |part| format!("{:.4}", part.score));
            cells.extend(names.iter().map(|name| cell(score(name))));
            cells
        };
        let rows = self.answered.hits.iter().zip(&self.points).enumerate().map(row);
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let mut text = format!("{}{}\n", table(&head, 3, rows), self.plan());
        for (point, highlights) in self.points.iter().zip(&self.highlights) {
            for part in highlights {
                text.push_str(&format!(
                    "\n{} {}: {}",
                    visible(&point.id.to_string()),
                    part.field,
                    marked(part, is_terminal)
                ));
            }
        }
        text
    }
}

fn part_cells(part: &Part) -> [String; 3] {
    [part.rank.to_string(), format!("{:.4}", part.score), format!("{:.4}", part.contribution)]
}

fn highlight_json(part: &TextHighlight) -> Value {
    let spans: Vec<[usize; 2]> = part.spans.iter().map(|span| [span.start, span.end]).collect();
    json!({ "field": part.field, "fragment": part.fragment, "spans": spans })
}

/// A part of a text on one line, its words in bold on a terminal and between asterisks elsewhere.
fn marked(part: &TextHighlight, is_terminal: bool) -> String {
    let (before, after) = if is_terminal { ("\u{1b}[1m", "\u{1b}[0m") } else { ("**", "**") };
    let slice = |from: usize, to: usize| visible(part.fragment.get(from..to).unwrap_or_default());
    let mut line = String::new();
    let mut from = 0;
    for span in &part.spans {
        line.push_str(&format!("{}{before}{}{after}", slice(from, span.start), slice(span.start, span.end)));
        from = span.end;
    }
    line + &slice(from, part.fragment.len())
}

/// What a stored text could do to a terminal is shown, not done; a line break is a space.
fn visible(text: &str) -> String {
    text.replace(|letter: char| letter.is_whitespace(), " ").replace(char::is_control, "\u{fffd}")
}
