//! Files of runs, judgements and ids.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use dehub_eval::{Qrels, Run};
use dehub_format::{ScoredRow, is_parquet, open_unpacked, read_scored_rows};

/// Reads a run of whatever form.
pub(crate) fn run(file: &Path) -> anyhow::Result<Run> {
    let name = file.display().to_string();
    Ok(match open(file)? {
        Some(input) => Run::read(&name, input)?,
        None => {
            let rows = read_scored_rows(file)?;
            Run::of(&name, rows.iter().map(|row| (row.query.as_str(), row.document.as_str(), row.score)))?
        }
    })
}

/// Reads judgements of whatever form.
pub(crate) fn qrels(file: &Path) -> anyhow::Result<Qrels> {
    let name = file.display().to_string();
    let Some(input) = open(file)? else {
        let rows = read_scored_rows(file)?.into_iter().enumerate();
        let rows = rows.map(|(number, ScoredRow { query, document, score })| {
            #[expect(clippy::cast_possible_truncation, reason = "compared with what it was")]
            let relevance = score as i32;
            if f64::from(relevance) != score {
                bail!(
                    "{name}: row {number}, field score: wanted an integer from {} to {}, found {score}",
                    i32::MIN,
                    i32::MAX
                );
            }
            Ok((query, document, relevance))
        });
        return Ok(Qrels::of(&name, &rows.collect::<anyhow::Result<Vec<_>>>()?)?);
    };
    Ok(Qrels::read(&name, input)?)
}

/// Reads a file of ids of documents, one a line, as text. Empty lines are passed over.
pub(crate) fn document_ids(file: &Path) -> anyhow::Result<HashSet<String>> {
    let named = || file.display().to_string();
    let mut ids = HashSet::new();
    for line in BufReader::new(open_unpacked(file)?).lines() {
        let line = line.with_context(named)?;
        let id = line.trim_start_matches('\u{feff}').trim();
        if !id.is_empty() {
            ids.insert(id.to_owned());
        }
    }
    if ids.is_empty() {
        bail!("{}: wanted at least one id, found none", named());
    }
    Ok(ids)
}

/// The bytes of a file of text, which may be compressed; nothing for one of Parquet.
fn open(file: &Path) -> anyhow::Result<Option<Box<dyn Read>>> {
    let named = || file.display().to_string();
    let mut input = BufReader::new(open_unpacked(file)?);
    let is_parquet = is_parquet(input.fill_buf().with_context(named)?);
    Ok(if is_parquet { None } else { Some(Box::new(input)) })
}
