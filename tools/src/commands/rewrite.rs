//! `dehub rewrite`: a copy of a collection with other vectors.

use std::collections::HashMap;

use anyhow::bail;
use dehub_index::{BankUpdate, Collection, EntryInput, Name, PointInput, Snapshot};
use dehub_normalize::{Rewrite, Rewriter};
use dehub_query::BankKind;
use dehub_vector::{Chunked, Metric, PointId};
use serde_json::json;

use super::fit::choose_bank;
use super::{Context, Outcome};
use crate::cli;
use crate::load::BATCH_ROWS;

/// Makes the copy. Queries are asked of it as of the source.
pub(crate) fn run(context: &Context, command: &cli::Rewrite) -> anyhow::Result<Outcome> {
    let method: Rewrite = command.method.parse()?;
    let snapshot = context.space(&command.collection)?.snapshot();
    if snapshot.config().metric != Metric::Cosine {
        bail!(
            "{method} gives vectors of length one: wanted a cosine collection, found {}",
            snapshot.config().metric
        );
    }
    let source = Source::read(command, &snapshot)?;
    let target: Name = command.target.parse()?;
    let collection = context.catalogue.create(&target, *snapshot.config())?;
    let copied = source.copy(context, method, &collection);
    // What is half a copy is none.
    let points = copied.inspect_err(|_| _ = context.catalogue.delete(&target))?;
    let banks: Vec<String> = snapshot.banks().map(|bank| bank.name.to_string()).collect();
    let result = json!({
        "source": command.collection,
        "target": target.as_str(),
        "method": method.to_string(),
        "points": points,
        "banks": banks,
        "query_bank": source.query_bank.as_str(),
        "gallery_bank": source.gallery_bank.as_str(),
    });
    context.output.result(&result, || {
        format!(
            "`{target}` has {points} points of `{}` rewritten by {method}, and its banks ({}); queries stay as they \
             are. Corrections are not copied: fit them again if you want both.",
            command.collection,
            banks.join(", ")
        )
    })?;
    Ok(Outcome::Done)
}

struct Source<'a> {
    snapshot: &'a Snapshot,
    query_bank: Name,
    gallery_bank: Name,
    /// The entry of each id of the gallery bank.
    own: HashMap<PointId, usize>,
}

impl<'a> Source<'a> {
    fn read(command: &cli::Rewrite, snapshot: &'a Snapshot) -> anyhow::Result<Source<'a>> {
        let bank = |named: &Option<String>, kind| -> anyhow::Result<Name> {
            let name = choose_bank(snapshot, named.as_deref(), kind)?;
            let name = name.ok_or_else(|| anyhow::anyhow!("a {kind} bank is needed"))?;
            match snapshot.bank(name.as_str()) {
                None => bail!("there is no bank `{name}` in `{}`", command.collection),
                Some(found) if found.kind != kind => {
                    bail!("bank `{name}` is a {} bank, wanted a {kind} bank", found.kind)
                }
                Some(_) => Ok(name),
            }
        };
        if snapshot.config().multi {
            bail!("rewriting is not for multi-vectors: it moves single vectors");
        }
        let query_bank = bank(&command.bank, BankKind::Query)?;
        let gallery_bank = bank(&command.gallery_bank, BankKind::Gallery)?;
        let entries = snapshot.bank_entries(&gallery_bank)?;
        let own = entries.into_iter().enumerate().filter_map(|(at, entry)| Some((entry.id?, at))).collect();
        Ok(Source { snapshot, query_bank, gallery_bank, own })
    }

    /// Copies points and banks; gives the number of points.
    fn copy(&self, context: &Context, method: Rewrite, into: &Collection) -> anyhow::Result<usize> {
        let vectors = |name: &Name| {
            let mut vectors = Chunked::new(self.snapshot.config().dim.get());
            self.snapshot.live_entries(name.as_str()).for_each(|(_, vector, _)| vectors.push(vector));
            vectors
        };
        let (query, gallery) = (vectors(&self.query_bank), vectors(&self.gallery_bank));
        let rewriter = Rewriter::new(method, &query, &gallery);
        let rows: Vec<u32> = self.snapshot.rows().collect();
        let bar = context.output.progress("rewriting", Some(rows.len() as u64));
        for rows in rows.chunks(BATCH_ROWS) {
            let points = self.snapshot.points(rows)?;
            let ids: Vec<Option<&PointId>> = points.iter().map(|point| Some(&point.id)).collect();
            let vectors = self.rewritten(&rewriter, rows.iter().map(|&row| self.snapshot.vector(row)), &ids);
            let point = |(point, vector): (dehub_index::Point, Vec<f32>)| PointInput {
                id: point.id,
                vector: vector.into(),
                named: Vec::new(),
                payload: point.payload,
                text: point.text,
            };
            into.upsert(&points.into_iter().zip(vectors).map(point).collect::<Vec<_>>())?;
            bar.inc(rows.len() as u64);
        }
        bar.finish_and_clear();
        for bank in self.snapshot.banks() {
            let mut entries = self.snapshot.bank_entries(&bank.name)?;
            if bank.kind == BankKind::Gallery {
                self.rewrite_entries(&rewriter, &mut entries);
            }
            into.add_to_bank(&BankUpdate {
                name: bank.name.clone(),
                kind: bank.kind,
                entries,
                defer: false,
            })?;
        }
        if let Some(fields) = self.snapshot.text_fields() {
            into.set_text_fields(fields)?;
        }
        context.tend(into)?;
        Ok(rows.len())
    }

    /// Entries of a gallery bank stand for points, so they move as points do.
    fn rewrite_entries(&self, rewriter: &Rewriter<'_>, entries: &mut [EntryInput]) {
        let ids: Vec<Option<&PointId>> = entries.iter().map(|entry| entry.id.as_ref()).collect();
        let vectors = self.rewritten(rewriter, entries.iter().map(|entry| &entry.vector[..]), &ids);
        entries.iter_mut().zip(vectors).for_each(|(entry, vector)| entry.vector = vector.into());
    }

    fn rewritten<'b>(
        &self,
        rewriter: &Rewriter<'_>,
        vectors: impl Iterator<Item = &'b [f32]>,
        ids: &[Option<&PointId>],
    ) -> Vec<Vec<f32>> {
        let mut stored = Chunked::new(self.snapshot.config().dim.get());
        vectors.for_each(|vector| stored.push(vector));
        let own: Vec<Option<usize>> = ids.iter().map(|id| self.own.get((*id)?).copied()).collect();
        let rewritten = rewriter.rewrite(&stored, &own);
        (0..rewritten.len()).map(|row| rewritten.row(row).to_vec()).collect()
    }
}
