//! Evaluations of vectors and of similarities that are in no collection.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::bail;
use dehub_query::{
    MatrixBank, MatrixBanks, MatrixQuestion, Measure, Method, MethodInput, NestedSizes, Similarities,
    VectorSimilarities, bank_order, fit_matrix, fit_nested, rank_matrix,
};
use dehub_vector::{Chunked, Metric};

use super::super::compare::note_several;
use super::files::{self, Inputs, MatrixFile, Names, Truth, Turned, Vectors};
use super::schema::{Curve, Direction, Leak};
use super::summary::{self, Curves, LIMIT, Labelled, Sides, Telling, direction};
use super::{Context, Evaluated};
use crate::cli::{Eval, VectorFile};
use crate::load;

/// What a direction is ranked from.
struct Given<'a> {
    similarities: &'a dyn Similarities,
    banks: MatrixBanks<'a>,
    truth: &'a Truth,
    queries: &'a Names,
    points: &'a Names,
}

/// Whether a direction is the second one, where a method that lacks a bank is left out and said so.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    Forward,
    Reverse,
}

/// Evaluates vectors in files.
pub(super) fn vectors(
    context: &Context,
    command: &Eval,
    methods: &[MethodInput],
    telling: &Telling,
    gallery: &Path,
) -> anyhow::Result<Evaluated> {
    let metric: Metric = command.metric.parse()?;
    let Some(queries) = &command.queries else { bail!("--queries: a file of vectors is missing") };
    let mut inputs = Inputs::default();
    let mut read = |role: &str, file: &Path, format: &VectorFile, dim| -> anyhow::Result<Vectors> {
        let vectors = files::vectors(file, format, metric, dim)?;
        inputs.add(role, file, Some([vectors.rows.len(), vectors.rows.width()]))?;
        Ok(vectors)
    };
    let points = read("gallery", gallery, &named(command.gallery_meta.as_ref()), None)?;
    let dim = Some(points.rows.width());
    let asked = read("queries", queries, &command.format, dim)?;
    let bank = |file: &Option<String>| file.as_ref().map(PathBuf::from);
    let (query_file, gallery_file) = (bank(&command.bank), bank(&command.gallery_bank));
    let query_bank = query_file.as_ref().map(|file| read("bank", file, &named(None), dim)).transpose()?;
    let gallery_bank =
        gallery_file.as_ref().map(|file| read("gallery_bank", file, &named(None), dim)).transpose()?;
    let truth = truth(command, &mut inputs, &asked.names, &points.names, (queries, gallery))?;
    let leaks = [(&query_file, &query_bank)].into_iter().filter_map(|(file, bank)| {
        let queries = shared(&asked.rows, &bank.as_ref()?.rows);
        (queries > 0).then(|| Leak {
            bank: file.as_ref().map_or(String::new(), |it| it.display().to_string()),
            queries,
        })
    });
    let leaks: Vec<Leak> = leaks.collect();
    let asking = Asking { context, command, methods, telling };
    let banks = [query_bank.as_ref(), gallery_bank.as_ref()];
    let forward = asking.vectors(metric, [&asked, &points], banks, &truth, Turn::Forward)?;
    let reverse = command.both_directions.then(|| {
        let relevant = files::turned(&truth.relevant, points.rows.len());
        let turned = Truth { relevant, ..Truth::default() };
        let banks = [gallery_bank.as_ref(), query_bank.as_ref()];
        asking.vectors(metric, [&points, &asked], banks, &turned, Turn::Reverse)
    });
    Ok(Evaluated { inputs, collection: None, leaks, forward, reverse: reverse.transpose()? })
}

/// What both directions have in common.
#[derive(Clone, Copy)]
struct Asking<'a> {
    context: &'a Context,
    command: &'a Eval,
    methods: &'a [MethodInput],
    telling: &'a Telling,
}

impl Asking<'_> {
    /// Queries for points, both vectors, with a bank of either kind.
    fn vectors(
        &self,
        metric: Metric,
        [queries, points]: [&Vectors; 2],
        [query_bank, gallery_bank]: [Option<&Vectors>; 2],
        truth: &Truth,
        turn: Turn,
    ) -> anyhow::Result<Direction> {
        let points_of = &points.rows;
        let of_bank = |name: &'static str, bank: &Vectors| (name, bank.rows.clone());
        let banks = [
            query_bank.map(|it| of_bank("--bank", it)),
            gallery_bank.map(|it| of_bank("--gallery-bank", it)),
        ];
        let sources = banks.each_ref().map(|bank| {
            let (name, rows) = bank.as_ref()?;
            Some(VectorSimilarities { name, rows, points: points_of, metric, is_exact: false })
        });
        let own = gallery_bank.map_or(Vec::new(), |bank| own_entries(points_of, &bank.rows));
        let [query, gallery] =
            sources.each_ref().map(|source| source.as_ref().map(|it| it as &dyn Similarities));
        let bank = |own_entries| move |similarities| MatrixBank { similarities, own_entries };
        let rows = &queries.rows;
        let given = Given {
            similarities: &VectorSimilarities {
                name: "--queries",
                rows,
                points: points_of,
                metric,
                is_exact: true,
            },
            banks: MatrixBanks { query: query.map(bank(&[])), gallery: gallery.map(bank(&own)), metric },
            truth,
            queries: &queries.names,
            points: &points.names,
        };
        self.evaluate(&given, turn)
    }

    /// Fits, ranks and tells.
    fn evaluate(&self, given: &Given<'_>, turn: Turn) -> anyhow::Result<Direction> {
        let Asking { context, command, methods, telling } = *self;
        let methods = servable(context, methods, given, turn)?;
        let (similarities, relevant) = (given.similarities, &given.truth.relevant);
        let points = similarities.columns();
        let bar = context.output.progress("fitting", None);
        let fitted = fit_matrix(&given.banks, &methods)?;
        bar.finish_and_clear();
        let bar = context.output.progress("ranking", None);
        let sample = relevant.sample(points, summary::sample_size(similarities.rows()), telling.seed);
        let question =
            MatrixQuestion { similarities, targets: &relevant.points, sample: &sample, limit: LIMIT };
        let ranked = rank_matrix(&question, &fitted.iter().collect::<Vec<_>>())?;
        bar.finish_and_clear();
        let labels = std::iter::once("raw".to_owned()).chain(methods.iter().map(Method::to_string));
        let labelled =
            labels.zip(ranked).map(|(method, ranked)| Labelled { method, correction: None, ranked });
        let point = |point: u32| {
            let point = point as usize;
            Ok((given.points.ids[point].clone(), given.points.texts[point].clone()))
        };
        let sides = Sides { relevant, points, query_ids: &given.queries.ids, point: &point };
        let mut told = direction(telling, &sides, &labelled.collect::<Vec<_>>())?;
        if turn == Turn::Forward {
            let has_several = given.truth.relevant.relevant().any(|points| points.len() > 1);
            note_several(context, &telling.measures, has_several);
            super::note_gaps(context, &[], &given.truth.not_given, &given.truth.not_in_gallery);
        }
        told.not_given = given.truth.not_given.len();
        told.not_in_gallery = given.truth.not_in_gallery.len();
        if let (false, Some(bank)) = (command.bank_sizes.is_empty(), given.banks.query) {
            told.curves = self.curves(given, &methods, bank.similarities.rows())?;
        }
        Ok(told)
    }

    /// Each method over parts of the query bank.
    fn curves(&self, given: &Given<'_>, methods: &[Method], entries: usize) -> anyhow::Result<Vec<Curve>> {
        let Asking { context, command, telling, .. } = *self;
        let (similarities, relevant) = (given.similarities, &given.truth.relevant);
        let points = similarities.columns();
        let sizes = summary::sizes(&command.bank_sizes, entries)?;
        let bar = context.output.progress("drawing banks", Some(u64::from(command.draws)));
        let mut curves = Curves::new(telling, relevant, points);
        let none = vec![Vec::new(); similarities.rows()];
        let question =
            MatrixQuestion { similarities, targets: &relevant.points, sample: &none, limit: LIMIT };
        for draw in 0..command.draws as usize {
            let order = bank_order(entries, telling.seed, draw);
            let fitted = fit_nested(&given.banks, methods, NestedSizes { order: &order, sizes: &sizes })?;
            let all: Vec<_> = fitted.iter().flatten().flatten().collect();
            let mut ranked = rank_matrix(&question, &all)?.into_iter().skip(1);
            let of_size = |size: &Vec<Option<_>>| {
                size.iter().map(|it| it.as_ref().and_then(|_| ranked.next())).collect()
            };
            curves.add(fitted.iter().map(of_size).collect());
            bar.inc(1);
        }
        bar.finish_and_clear();
        let labels: Vec<String> = methods.iter().map(Method::to_string).collect();
        Ok(curves.tell(&labels, &sizes))
    }
}

/// Evaluates matrices of similarities in files.
pub(super) fn matrices(
    context: &Context,
    command: &Eval,
    methods: &[MethodInput],
    telling: &Telling,
    similarities: &Path,
) -> anyhow::Result<Evaluated> {
    let metric: Metric = command.metric.parse()?;
    let mut inputs = Inputs::default();
    let mut open = |role: &str, path: &Path| -> anyhow::Result<MatrixFile> {
        let file = MatrixFile::open(path)?;
        inputs.add(role, path, Some(file.shape()))?;
        Ok(file)
    };
    let asked = open("similarities", similarities)?;
    let mut bank =
        |role: &str, path: &Option<PathBuf>, wanted: usize| -> anyhow::Result<Option<MatrixFile>> {
            let Some(path) = path else { return Ok(None) };
            let file = open(role, path)?;
            let (own, found) = (path.display(), file.shape()[1]);
            if found != wanted {
                let other = similarities.display();
                bail!("{own}: wanted {wanted} columns to go with {other}, found {found}");
            }
            Ok(Some(file))
        };
    let [rows, columns] = asked.shape();
    let query_bank = bank("bank_similarities", &command.bank_similarities, columns)?;
    let gallery_bank = bank("gallery_bank_similarities", &command.gallery_bank_similarities, columns)?;
    let reverse_bank = bank("reverse_bank_similarities", &command.reverse_bank_similarities, rows)?;
    let query_names = Names::read(&command.format, similarities, rows)?;
    let point_names = Names::read(&named(command.gallery_meta.as_ref()), similarities, columns)?;
    let truth = truth(command, &mut inputs, &query_names, &point_names, (similarities, similarities))?;
    let asking = Asking { context, command, methods, telling };
    let given = Given {
        similarities: &asked,
        banks: MatrixBanks { query: whole(&query_bank), gallery: whole(&gallery_bank), metric },
        truth: &truth,
        queries: &query_names,
        points: &point_names,
    };
    let forward = asking.evaluate(&given, Turn::Forward)?;
    let reverse = command.both_directions.then(|| {
        let relevant = files::turned(&truth.relevant, columns);
        let given = Given {
            similarities: &Turned::new(&asked),
            banks: MatrixBanks { query: whole(&reverse_bank), gallery: None, metric },
            truth: &Truth { relevant, ..Truth::default() },
            queries: &point_names,
            points: &query_names,
        };
        asking.evaluate(&given, Turn::Reverse)
    });
    let reverse = reverse.transpose()?;
    let leak = |bank: &MatrixFile| {
        let queries = bank.shared_rows(&asked);
        (queries > 0).then(|| Leak { bank: bank.path().display().to_string(), queries })
    };
    let leaks = query_bank.iter().filter_map(leak).collect();
    Ok(Evaluated { inputs, collection: None, leaks, forward, reverse })
}

/// A bank none of whose entries is a point.
fn whole(file: &Option<MatrixFile>) -> Option<MatrixBank<'_>> {
    file.as_ref().map(|similarities| MatrixBank { similarities, own_entries: &[] })
}

/// How a file is read that has no options of its own.
fn named(meta: Option<&PathBuf>) -> VectorFile {
    VectorFile { meta: meta.cloned(), ..VectorFile::default() }
}

fn needs_not_relevant(name: &str) -> bool {
    name.parse::<Measure>().is_ok_and(|measure| measure.needs_not_relevant())
}

fn truth(
    command: &Eval,
    inputs: &mut Inputs,
    queries: &Names,
    points: &Names,
    (query_file, point_file): (&Path, &Path),
) -> anyhow::Result<Truth> {
    let metas = [("meta", &command.format.meta), ("gallery_meta", &command.gallery_meta)];
    for (role, file) in metas.into_iter().filter_map(|(role, file)| Some((role, file.as_ref()?))) {
        inputs.add(role, file, None)?;
    }
    let (asked, ranked) = (queries.ids.len(), points.ids.len());
    if let Some(file) = &command.qrels {
        inputs.add("qrels", file, None)?;
        if let Some(name) = command.measure.iter().find(|name| needs_not_relevant(name)) {
            bail!(
                "measure {name}: looks at points judged not relevant, which are read for a collection or a run only"
            );
        }
        let truth = files::by_qrels(&load::qrels(file)?, &queries.ids, &points.ids);
        if !truth.relevant.is_judged.contains(&true) {
            bail!("{}: judges none of the queries: are the ids of both the same?", file.display());
        }
        return Ok(truth);
    }
    if let Some(file) = &command.truth {
        inputs.add("truth", file, None)?;
        return Ok(files::by_pairs(&files::pairs(file, asked, ranked)?, asked));
    }
    if asked > ranked {
        let (query_file, point_file) = (query_file.display(), point_file.display());
        bail!(
            "there are {asked} queries ({query_file}) and {ranked} points ({point_file}), so row i does not answer \
             row i: name who answers what with --qrels or --truth"
        );
    }
    let pairs: Vec<(u32, u32)> = (0..).take(asked).map(|row| (row, row)).collect();
    Ok(files::by_pairs(&pairs, asked))
}

/// How many different rows are in both, bit for bit.
fn shared(queries: &Chunked, bank: &Chunked) -> usize {
    let bits = |rows: &Chunked, row: usize| rows.row(row).iter().map(|it| it.to_bits()).collect::<Vec<u32>>();
    let asked: HashSet<Vec<u32>> = (0..queries.len()).map(|row| bits(queries, row)).collect();
    let held: HashSet<Vec<u32>> = (0..bank.len()).map(|row| bits(bank, row)).collect();
    asked.intersection(&held).count()
}

/// The entry of a bank of points that has a point's own vector, the first of several; for each point.
fn own_entries(points: &Chunked, bank: &Chunked) -> Vec<Option<u32>> {
    let bits = |rows: &Chunked, row: usize| rows.row(row).iter().map(|it| it.to_bits()).collect::<Vec<u32>>();
    let mut entries: HashMap<Vec<u32>, u32> = HashMap::new();
    for (entry, row) in (0..bank.len()).zip(0..) {
        entries.entry(bits(bank, entry)).or_insert(row);
    }
    (0..points.len()).map(|row| entries.get(&bits(points, row)).copied()).collect()
}

/// The methods that can be fitted here. In reverse those without their banks are left out, with a note.
fn servable(
    context: &Context,
    methods: &[MethodInput],
    given: &Given<'_>,
    turn: Turn,
) -> anyhow::Result<Vec<Method>> {
    let mut servable = Vec::new();
    for input in methods {
        if input.perplexity().is_some() {
            bail!(
                "{} is asked for by a perplexity, which is found over a collection: give its temperature",
                input.method().name()
            );
        }
        let method = input.method();
        let banks = [
            (dehub_query::BankKind::Query, given.banks.query),
            (dehub_query::BankKind::Gallery, given.banks.gallery),
        ];
        let missing = banks.into_iter().find(|(kind, bank)| method.uses(*kind) && bank.is_none());
        match missing {
            Some((kind, _)) if turn == Turn::Reverse => {
                let note = format!("{method} is left out from points to queries: there is no {kind} bank");
                context.output.note(note);
            }
            _ => servable.push(method),
        }
    }
    Ok(servable)
}
