//! Evaluations of a collection, by the path that serves it.

use std::collections::HashSet;

use anyhow::bail;
use dehub_index::{Collection, Correction, FitInput, Name, Snapshot};
use dehub_query::{
    BankKind, Judged, JudgedOptions, LabelledQuery, Method, MethodInput, Qrels, WordOptions, bank_order,
    leaks, rank_by_words, rank_judged,
};

use super::super::compare::note_several;
use super::super::fit::choose_bank;
use super::files::Inputs;
use super::schema::{CollectionRead, Leak, Named};
use super::summary::{self, Curves, LIMIT, Labelled, Sides, Telling, direction};
use super::{Context, Evaluated};
use crate::cli::Eval;
use crate::load;

/// What is measured, and by what.
struct Asked {
    queries: Vec<LabelledQuery>,
    qrels: Qrels,
    options: JudgedOptions,
}

/// Measures installed corrections, or methods that are fitted and forgotten.
pub(super) fn run(
    context: &Context,
    command: &Eval,
    methods: &[MethodInput],
    telling: &Telling,
    name: &str,
) -> anyhow::Result<Evaluated> {
    let (Some(queries_file), Some(qrels_file)) = (&command.queries, &command.qrels) else {
        bail!("a collection is measured by --queries and --qrels");
    };
    let collection = context.space(name)?;
    let first = collection.snapshot();
    let queries = load::labelled_queries(queries_file, &command.format, first.config())?;
    let options =
        JudgedOptions { limit: LIMIT, sample: summary::sample_size(queries.len()), seed: telling.seed };
    let asked = Asked { queries, qrels: load::qrels(qrels_file)?, options };
    let fits = fit_inputs(context, command, methods, &first)?;
    let bar = context.output.progress("fitting", None);
    let (snapshot, fitted) =
        if fits.is_empty() { (first, Vec::new()) } else { collection.rehearse(&fits)? };
    bar.finish_and_clear();
    let installed = installed(command, &snapshot)?;
    let corrections: Vec<&Correction> = installed.iter().copied().chain(&fitted).collect();
    let bar = context.output.progress("evaluating", None);
    let judged =
        rank_judged(&snapshot, (&asked.queries, &asked.qrels), &corrections, &telling.measures, options)?;
    bar.finish_and_clear();
    let unjudged: Vec<String> = asked
        .queries
        .iter()
        .filter(|query| !asked.qrels.contains(&query.id))
        .map(|query| query.id.clone())
        .collect();
    let given: HashSet<&str> = asked.queries.iter().map(|query| query.id.as_str()).collect();
    let not_given: Vec<String> =
        asked.qrels.queries().filter(|id| !given.contains(id)).map(str::to_owned).collect();
    let has_several = judged.relevant.relevant().any(|points| points.len() > 1);
    note_several(context, &telling.measures, has_several);
    super::note_gaps(context, &unjudged, &not_given, &judged.not_in_gallery);
    let words = by_words(context, command, &snapshot, &asked, telling, &corrections)?;
    let mut forward = tell(&snapshot, telling, &asked, &judged, (&installed, &fitted), words)?;
    forward.not_given = not_given.len();
    forward.not_in_gallery = judged.not_in_gallery.len();
    if !command.bank_sizes.is_empty() {
        forward.curves = curves(context, command, telling, &collection, &fits, &asked, &judged)?;
    }
    let vectors: Vec<_> = asked.queries.iter().map(|query| query.vector.clone()).collect();
    let leaks = leaks(&snapshot, &vectors);
    let leaks = leaks.into_iter().map(|(bank, queries)| Leak { bank: bank.to_string(), queries }).collect();
    let mut inputs = Inputs::default();
    inputs.add("queries", queries_file, Some([asked.queries.len(), snapshot.config().dim.get()]))?;
    inputs.add("qrels", qrels_file, None)?;
    if let Some(meta) = &command.format.meta {
        inputs.add("meta", meta, None)?;
    }
    let banks = snapshot.banks().map(|bank| (bank.name.to_string(), bank.entries)).collect();
    let collection = CollectionRead {
        name: name.to_owned(),
        sequence: snapshot.sequence(),
        points: snapshot.len(),
        banks: Named(banks),
    };
    Ok(Evaluated { inputs, collection: Some(collection), leaks, forward, reverse: None })
}

/// The methods to fit, with their banks.
fn fit_inputs(
    context: &Context,
    command: &Eval,
    methods: &[MethodInput],
    snapshot: &Snapshot,
) -> anyhow::Result<Vec<FitInput>> {
    let mut inputs: Vec<FitInput> = Vec::new();
    for asked in methods {
        let bank = |named: &Option<String>, kind| match asked.method().uses(kind) {
            true => choose_bank(snapshot, named.as_deref(), kind),
            false => Ok(None),
        };
        let query_bank = bank(&command.bank, BankKind::Query)?;
        let gallery_bank = bank(&command.gallery_bank, BankKind::Gallery)?;
        let method = snapshot.resolve(asked, query_bank.as_ref())?;
        if let Some(note) = asked.note(&method) {
            context.output.note(note);
        }
        let name: Name = method.to_string().parse()?;
        if inputs.iter().any(|input| input.name == name) {
            bail!("the method {method} is given twice");
        }
        inputs.push(FitInput { name, method, query_bank, gallery_bank });
    }
    Ok(inputs)
}

/// The corrections named; all of them if neither a correction nor a method is.
fn installed<'a>(command: &Eval, snapshot: &'a Snapshot) -> anyhow::Result<Vec<&'a Correction>> {
    if command.correction.is_empty() && command.method.is_empty() {
        return Ok(snapshot.corrections().collect());
    }
    let find = |name: &String| {
        let by_label = || snapshot.correction(&name.parse::<Method>().ok()?.to_string());
        snapshot.correction(name).or_else(by_label).ok_or_else(|| {
            let names: Vec<_> = snapshot.corrections().map(|it| it.info().name.as_str()).collect();
            anyhow::anyhow!("there is no correction `{name}`; the collection has: {}", names.join(", "))
        })
    };
    command.correction.iter().map(find).collect()
}

/// BM25, and its fusion with raw and with each correction; nothing if that was not asked for.
fn by_words(
    context: &Context,
    command: &Eval,
    snapshot: &Snapshot,
    asked: &Asked,
    telling: &Telling,
    corrections: &[&Correction],
) -> anyhow::Result<Vec<Labelled>> {
    if !command.text {
        return Ok(Vec::new());
    }
    if asked.queries.iter().all(|query| query.text.is_none()) {
        bail!(
            "--text: no query has a text: name the field or column of texts with --text-field, or a file with --meta"
        );
    }
    let options = WordOptions {
        fields: command.field.clone(),
        fusion: command.fusing.fusion()?,
        depth: command.fusing.depth as usize,
        limit: LIMIT,
    };
    let bar = context.output.progress("evaluating words", None);
    let judged = (&asked.queries[..], &asked.qrels);
    let ranked = rank_by_words(snapshot, judged, corrections, &telling.measures, &options);
    bar.finish_and_clear();
    let methods = corrections.iter().map(|it| {
        let info = it.info();
        (format!("BM25 + {}", info.method), Some(format!("{}@{}", info.name, info.version)))
    });
    let names = [("BM25".to_owned(), None), ("BM25 + raw".to_owned(), None)].into_iter().chain(methods);
    Ok(names
        .zip(ranked?)
        .map(|((method, correction), ranked)| Labelled { method, correction, ranked })
        .collect())
}

fn tell(
    snapshot: &Snapshot,
    telling: &Telling,
    asked: &Asked,
    judged: &Judged,
    (installed, fitted): (&[&Correction], &[Correction]),
    words: Vec<Labelled>,
) -> anyhow::Result<super::schema::Direction> {
    let named = |it: &Correction| Some(format!("{}@{}", it.info().name, it.info().version));
    let names = std::iter::once(("raw".to_owned(), None))
        .chain(installed.iter().map(|it| (it.info().method.to_string(), named(it))))
        .chain(fitted.iter().map(|it| (it.info().method.to_string(), None)));
    let labelled = names.zip(&judged.ranked).map(|((method, correction), ranked)| Labelled {
        method,
        correction,
        ranked: ranked.clone(),
    });
    let ids: Vec<String> = asked.queries.iter().map(|query| query.id.clone()).collect();
    let point = |point: u32| -> anyhow::Result<(String, Option<String>)> {
        let found = snapshot.points(&[judged.rows[point as usize]])?;
        let found = found.into_iter().next();
        Ok(found.map_or_else(Default::default, |point| (point.id.to_string(), point.text)))
    };
    let points = judged.rows.len();
    let sides = Sides { relevant: &judged.relevant, points, query_ids: &ids, point: &point };
    direction(telling, &sides, &labelled.chain(words).collect::<Vec<_>>())
}

/// Each method over parts of its query bank, which must be one.
fn curves(
    context: &Context,
    command: &Eval,
    telling: &Telling,
    collection: &Collection,
    fits: &[FitInput],
    asked: &Asked,
    judged: &Judged,
) -> anyhow::Result<Vec<super::schema::Curve>> {
    let snapshot = collection.snapshot();
    let Some(bank) = fits.iter().find_map(|fit| fit.query_bank.clone()) else {
        bail!("--bank-sizes: no method given is fitted from a query bank");
    };
    let fits: Vec<FitInput> = fits.iter().filter(|fit| fit.query_bank.is_some()).cloned().collect();
    let entries: Vec<u32> = snapshot.live_entries(bank.as_str()).map(|(number, ..)| number).collect();
    let sizes = summary::sizes(&command.bank_sizes, entries.len())?;
    let enough = |fit: &FitInput, size: usize| {
        let wanted = fit.method.banks(snapshot.config().metric);
        wanted.iter().all(|&(kind, wanted)| kind != BankKind::Query || wanted <= size)
    };
    let options = JudgedOptions { sample: 0, ..asked.options };
    let bar = context.output.progress("drawing banks", Some(u64::from(command.draws)));
    let mut curves = Curves::new(telling, &judged.relevant, judged.rows.len());
    for draw in 0..command.draws as usize {
        let order = bank_order(entries.len(), telling.seed, draw);
        let mut drawn = Vec::new();
        for &size in &sizes {
            let left_out: HashSet<u32> = order[size..].iter().map(|&place| entries[place as usize]).collect();
            let fitting: Vec<FitInput> = fits.iter().filter(|fit| enough(fit, size)).cloned().collect();
            let (seen, mut fitted) = collection.rehearse_without(&fitting, &bank, &[left_out])?;
            let fitted = fitted.pop().unwrap_or_default();
            let corrections: Vec<&Correction> = fitted.iter().collect();
            let ranked =
                rank_judged(&seen, (&asked.queries, &asked.qrels), &corrections, &telling.measures, options)?
                    .ranked;
            let mut ranked = ranked.into_iter().skip(1);
            drawn.push(fits.iter().map(|fit| if enough(fit, size) { ranked.next() } else { None }).collect());
        }
        curves.add(drawn);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let labels: Vec<String> = fits.iter().map(|fit| fit.method.to_string()).collect();
    Ok(curves.tell(&labels, &sizes))
}
