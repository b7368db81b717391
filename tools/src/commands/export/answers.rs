//! Answers to queries.

use std::fs::Permissions;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use dehub_format::{Column, Format, Kind, WriteOptions, Writer};
use dehub_index::{Point, Snapshot};
use dehub_query::{Query, Ranking, Response, Search, Settings, Source};
use dehub_vector::{PointId, Rows};
use serde_json::json;
use tempfile::NamedTempFile;

use super::destination::{Destination, Form};
use super::{Context, batches, points};
use crate::cli::{Asked, VectorFile};
use crate::load;

/// An answer with the name of its query and the points of its hits.
struct Answer {
    query: String,
    response: Response,
    points: Vec<Point>,
}

/// Writes a run.
pub(super) fn run(context: &Context, snapshot: &Snapshot, asked: &Asked) -> anyhow::Result<()> {
    let destination = Destination::new(context, &asked.file)?;
    let (rows, queries) = table(context, snapshot, asked, &destination)?;
    let told = json!({ "what": "run", "rows": rows, "queries": queries, "k": asked.k });
    destination.tell(context, snapshot, told, &[destination.path().to_owned()])
}

/// Writes the nearest points of each query.
pub(super) fn neighbours(context: &Context, snapshot: &Snapshot, asked: &Asked) -> anyhow::Result<()> {
    let destination = Destination::new(context, &asked.file)?;
    if destination.form == Form::Trec {
        bail!("{}: trec is a format of `export run` alone", asked.file.output.display());
    }
    if destination.form.is_matrix() {
        return matrix(context, snapshot, asked, &destination);
    }
    let (rows, queries) = table(context, snapshot, asked, &destination)?;
    let told = json!({ "what": "neighbours", "rows": rows, "queries": queries, "k": asked.k });
    destination.tell(context, snapshot, told, &[destination.path().to_owned()])
}

/// Answers the queries of the file, batch by batch; gives how many there are.
fn answer(
    context: &Context,
    snapshot: &Snapshot,
    asked: &Asked,
    mut each: impl FnMut(Vec<Answer>) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let (file, metric) = (&asked.queries, snapshot.config().metric);
    let format = VectorFile { meta: asked.meta.clone(), ..VectorFile::default() };
    let search = match (asked.exact, asked.ef, asked.recall) {
        (true, ..) => Search::Exact,
        (_, Some(effort), _) => Search::Graph { effort },
        (_, _, Some(target)) => Search::Recall { target },
        (false, None, None) => Search::Auto,
    };
    let ranking = Ranking::named(asked.correction.clone(), asked.alpha);
    if ranking == Ranking::Raw && (asked.alpha - 1.0).abs() > 0.0 {
        bail!("--alpha has no meaning without a correction to weigh");
    }
    let settings = Settings { limit: Some(asked.k), ranking, search, ..Settings::default() };
    let bar = context.output.progress("answering", None);
    let mut answered = 0;
    for batch in load::batches(file, &format, snapshot.config(), Some(metric))? {
        let rows = batch?;
        let mut names = Vec::with_capacity(rows.len());
        let mut queries = Vec::with_capacity(rows.len());
        for row in rows {
            row.query(file, snapshot.config())?;
            names.push(row.id.map_or_else(|| row.number.to_string(), |id| id.to_string()));
            queries.push(Query { source: Source::Vector(row.vector), settings: settings.clone() });
        }
        answered += names.len() as u64;
        let responses = dehub_query::run(snapshot, &queries)?;
        let with_points = |(query, response): (String, Response)| {
            let rows: Vec<u32> = response.hits.iter().map(|hit| hit.row).collect();
            anyhow::Ok(Answer { query, points: snapshot.points(&rows)?, response })
        };
        each(names.into_iter().zip(responses).map(with_points).collect::<anyhow::Result<_>>()?)?;
        bar.set_position(answered);
    }
    bar.finish_and_clear();
    Ok(answered)
}

/// Writes hits as lines of TREC or as a table; gives how many there are, and how many queries.
fn table(
    context: &Context,
    snapshot: &Snapshot,
    asked: &Asked,
    destination: &Destination,
) -> anyhow::Result<(u64, u64)> {
    if destination.form == Form::Trec {
        return trec(context, snapshot, asked, destination.path());
    }
    let kinds =
        [("q_id", Kind::Texts), ("doc_id", Kind::Texts), ("rank", Kind::Whole), ("score", Kind::Numbers)];
    let kinds = kinds.map(|(name, kind)| (name.to_owned(), kind)).to_vec();
    let mut writer = Writer::create(destination.path(), kinds, &destination.options()?)?;
    let queries = answer(context, snapshot, asked, |answers| {
        let (mut names, mut documents, mut ranks, mut scores) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for Answer { query, response, points } in answers {
            for ((rank, hit), point) in (1..).zip(&response.hits).zip(points) {
                names.push(Some(query.clone()));
                documents.push(Some(point.id.to_string()));
                ranks.push(rank);
                scores.push(Some(hit.score));
            }
        }
        let (names, documents) = (Column::Texts(names), Column::Texts(documents));
        Ok(writer.write(vec![names, documents, Column::Whole(ranks), Column::Numbers(scores)])?)
    })?;
    Ok((writer.finish()?, queries))
}

fn trec(context: &Context, snapshot: &Snapshot, asked: &Asked, path: &Path) -> anyhow::Result<(u64, u64)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".writing-").permissions(Permissions::from_mode(0o666));
    let file = builder.tempfile_in(folder).with_context(|| path.display().to_string())?;
    let (mut file, mut lines): (BufWriter<NamedTempFile>, u64) = (BufWriter::new(file), 0);
    let tag = asked.correction.as_deref().unwrap_or("default");
    let tag: String = tag.split_whitespace().collect::<Vec<_>>().join("_");
    let word = |what: &str, id: &str| {
        if id.contains(char::is_whitespace) {
            bail!("{what} {id:?}: a TREC run has no ids with white space; write .parquet or .jsonl");
        }
        Ok(())
    };
    let queries = answer(context, snapshot, asked, |answers| {
        for Answer { query, response, points } in answers {
            word("query", &query)?;
            for ((rank, hit), point) in (1_usize..).zip(&response.hits).zip(points) {
                let id = point.id.to_string();
                word("point", &id)?;
                writeln!(file, "{query} Q0 {id} {rank} {} {tag}", hit.score)
                    .with_context(|| path.display().to_string())?;
                lines += 1;
            }
        }
        Ok(())
    })?;
    let file = file.into_inner().map_err(|error| error.into_error());
    let file = file.with_context(|| path.display().to_string())?;
    file.as_file().sync_all().with_context(|| path.display().to_string())?;
    file.persist(path).with_context(|| path.display().to_string())?;
    Ok((lines, queries))
}

/// Writes row numbers, scores and the ids of rows.
fn matrix(
    context: &Context,
    snapshot: &Snapshot,
    asked: &Asked,
    destination: &Destination,
) -> anyhow::Result<()> {
    let rows: Vec<u32> = snapshot.rows().collect();
    let k = asked.k.min(rows.len());
    if k == 0 {
        bail!("the collection has no points, so queries have no neighbours");
    }
    let scores = match destination.form {
        Form::Rows(Format::Ivecs) => Format::Fvecs,
        Form::Rows(Format::Ibin) => Format::Fbin,
        Form::Rows(Format::Npy) => Format::Npy,
        Form::Rows(_) | Form::Trec => {
            let file = asked.file.output.display();
            bail!("{file}: row numbers are written as ivecs, ibin or npy, and ids as parquet, arrow or jsonl")
        }
    };
    let (mut ids, ids_path) = points::ids_writer(destination)?;
    let scores_path = destination.beside(&format!(".scores.{scores}"))?;
    let kinds = vec![("rows".to_owned(), Kind::WholeLists(k))];
    let mut writer = Writer::create(destination.path(), kinds, &destination.options()?)?;
    let options = WriteOptions { format: Some(scores), metric: None };
    let kinds = vec![("scores".to_owned(), Kind::Vectors(k))];
    let mut scores_writer = Writer::create(&scores_path, kinds, &options)?;
    let queries = answer(context, snapshot, asked, |answers| {
        let (mut found, mut scores) = (Vec::new(), Vec::new());
        for Answer { query, response, .. } in answers {
            if response.hits.len() != k {
                bail!(
                    "query {query}: wanted {k} neighbours, found {}; --exact finds all",
                    response.hits.len()
                );
            }
            for hit in &response.hits {
                let place =
                    rows.binary_search(&hit.row).map_err(|_| anyhow::anyhow!("row {} is gone", hit.row))?;
                found.push(u32::try_from(place)?);
                scores.push(hit.score);
            }
        }
        writer.write(vec![Column::WholeLists(found, k)])?;
        Ok(scores_writer.write(vec![Column::Vectors(Rows::new(k, scores)?)])?)
    })?;
    batches(context, &rows, |batch| {
        let found = snapshot.points(batch)?;
        let (texts, payloads) = points::rest(&found);
        let names = found.iter().map(|point| &point.id).collect::<Vec<&PointId>>();
        Ok(ids.write(vec![points::json_ids(names.into_iter()), texts, payloads])?)
    })?;
    ids.finish()?;
    scores_writer.finish()?;
    writer.finish()?;
    let files: [PathBuf; 3] = [destination.path().to_owned(), scores_path, ids_path];
    let told = json!({ "what": "neighbours", "rows": queries, "queries": queries, "k": k });
    destination.tell(context, snapshot, told, &files)
}
