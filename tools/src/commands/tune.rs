//! `dehub tune`.

use std::path::Path;

use anyhow::bail;
use dehub_index::{Collection, FitInput, Name, Snapshot};
use dehub_query::{
    BankKind, Method, MethodInput, TuneMethods, TuneOptions, TuneReport, score_deviation, tune,
    tune_by_pairs, tune_methods,
};
use serde_json::{Value, json};

use super::fit::choose_bank;
use super::trial::{Asked, describe_report, describe_verdict, extend, note_leaks, options, report_json};
use super::{Context, Outcome};
use crate::cli::Tune;
use crate::load;

/// Chooses a correction, says why, and installs it if that was asked for.
pub(crate) fn run(context: &Context, command: &Tune) -> anyhow::Result<Outcome> {
    let install: Option<Name> = command.install.as_deref().map(str::parse).transpose()?;
    let collection = context.space(&command.collection)?;
    let options = options(&command.trial);
    let tuned = match &command.pairs {
        Some(pairs) => by_pairs(context, command, &collection, pairs, &options)?,
        None => by_queries(context, command, &collection, &options)?,
    };
    let installed = install.map(|name| install_choice(&collection, command, name, &tuned, &options));
    let installed = installed.transpose()?.flatten();
    let told = Told { command, tuned: &tuned, installed };
    context.output.result(&told.to_json(), || told.describe())?;
    Ok(Outcome::Done)
}

/// A choice, and what it was made from.
struct Tuned {
    inputs: Vec<FitInput>,
    left_out: Vec<Method>,
    deviation: f64,
    report: TuneReport,
}

fn by_queries(
    context: &Context,
    command: &Tune,
    collection: &Collection,
    options: &TuneOptions,
) -> anyhow::Result<Tuned> {
    let snapshot = collection.snapshot();
    let asked =
        Asked::read(command.queries.as_deref(), &command.format, command.trial.qrels.as_deref(), &snapshot)?;
    let deviation = score_deviation(&snapshot, &asked.vectors)?;
    let (inputs, left_out, notes) = inputs(command, &snapshot, deviation, false)?;
    notes.iter().for_each(|note| context.output.note(note));
    note_leaks(context, &snapshot, &inputs, &asked.vectors);
    let bar = context.output.progress("fitting", None);
    let (snapshot, corrections) = collection.rehearse(&inputs)?;
    bar.finish_and_clear();
    let bar = context.output.progress("measuring", None);
    let report = tune(&snapshot, &corrections, asked.evidence(), options)?;
    bar.finish_and_clear();
    Ok(Tuned { inputs, left_out, deviation, report })
}

/// The parts of a bank, one of which is asked and the others fitted from.
const FOLDS: usize = 5;

fn by_pairs(
    context: &Context,
    command: &Tune,
    collection: &Collection,
    pairs: &Path,
    options: &TuneOptions,
) -> anyhow::Result<Tuned> {
    let snapshot = collection.snapshot();
    let Some(bank) = choose_bank(&snapshot, command.bank.as_deref(), BankKind::Query)? else {
        bail!("the collection has no query bank to choose by");
    };
    if snapshot.bank(bank.as_str()).is_none() {
        let banks: Vec<_> = snapshot.banks().map(|bank| bank.name.as_str()).collect();
        bail!("there is no bank `{bank}`; the collection has: {}", banks.join(", "));
    }
    let qrels = load::qrels(pairs)?;
    let deviation = score_deviation(&snapshot, &snapshot.bank_queries(&bank, usize::MAX))?;
    let (inputs, left_out, notes) = inputs(command, &snapshot, deviation, true)?;
    notes.iter().for_each(|note| context.output.note(note));
    let bar = context.output.progress("fitting and measuring", None);
    let report = tune_by_pairs(collection, &inputs, &bank, &qrels, options)?;
    bar.finish_and_clear();
    Ok(Tuned { inputs, left_out, deviation, report })
}

/// The corrections to choose from, under the names of their methods, the methods left out, and what was
/// found for perplexities.
fn inputs(
    command: &Tune,
    snapshot: &Snapshot,
    deviation: f64,
    by_pairs: bool,
) -> anyhow::Result<(Vec<FitInput>, Vec<Method>, Vec<String>)> {
    let named: Vec<MethodInput> = command.method.iter().map(|it| it.parse()).collect::<Result<_, _>>()?;
    let bank = |named: &Option<String>, kind| choose_bank(snapshot, named.as_deref(), kind);
    let uses =
        |kind| named.is_empty() && kind == BankKind::Query || named.iter().any(|it| it.method().uses(kind));
    let query_bank = if uses(BankKind::Query) { bank(&command.bank, BankKind::Query)? } else { None };
    let gallery_bank =
        if uses(BankKind::Gallery) { bank(&command.gallery_bank, BankKind::Gallery)? } else { None };
    let mut notes = Vec::new();
    let TuneMethods { methods, left_out } = if named.is_empty() {
        // An unknown bank is refused by the fit, by name.
        let info = query_bank.as_ref().and_then(|name| snapshot.bank(name.as_str()));
        let fitted = |entries: usize| entries - entries.div_ceil(FOLDS) * usize::from(by_pairs);
        tune_methods(info.map_or(usize::MAX, |info| fitted(info.entries)), deviation)
    } else {
        let mut methods = Vec::new();
        for asked in &named {
            let method = snapshot.resolve(asked, query_bank.as_ref())?;
            notes.extend(asked.note(&method));
            methods.push(method);
        }
        TuneMethods { methods, left_out: Vec::new() }
    };
    let mut inputs: Vec<FitInput> = Vec::new();
    for method in methods {
        let name: Name = method.to_string().parse()?;
        if inputs.iter().any(|input| input.name == name) {
            bail!("the method {method} is given twice");
        }
        let (query_bank, gallery_bank) = (query_bank.clone(), gallery_bank.clone());
        inputs.push(FitInput { name, method, query_bank, gallery_bank });
    }
    Ok((inputs, left_out, notes))
}

/// A correction that was installed.
struct Installed {
    name: Name,
    method: String,
    /// Against the verdict.
    forced: bool,
    /// Whether it is the default now.
    is_default: bool,
}

fn install_choice(
    collection: &Collection,
    command: &Tune,
    name: Name,
    tuned: &Tuned,
    options: &TuneOptions,
) -> anyhow::Result<Option<Installed>> {
    let Tuned { inputs, report, .. } = tuned;
    let verdict = report.verdict;
    let Some(row) = verdict.pick.or(command.force.then_some(verdict.best)) else { return Ok(None) };
    let input = FitInput { name: name.clone(), ..inputs[row].clone() };
    let forced = verdict.pick.is_none();
    if command.default {
        collection.fit_as_default(&input, Some(&report.evidence(row, options)), forced)?;
    } else {
        collection.fit(&[input])?;
    }
    let method = inputs[row].method.to_string();
    Ok(Some(Installed { name, method, forced, is_default: command.default }))
}

/// Everything there is to tell.
struct Told<'a> {
    command: &'a Tune,
    tuned: &'a Tuned,
    installed: Option<Installed>,
}

impl Told<'_> {
    fn bank(&self) -> Option<&str> {
        self.tuned.inputs.iter().find_map(|input| input.query_bank.as_ref()).map(Name::as_str)
    }

    fn to_json(&self) -> Value {
        let Told { command, tuned, .. } = self;
        let installed = self.installed.as_ref().map(|it| {
            json!({
                "correction": it.name.as_str(),
                "method": it.method,
                "forced": it.forced,
                "is_default": it.is_default,
            })
        });
        let mut value = json!({ "collection": command.collection, "bank": self.bank() });
        extend(&mut value, report_json(&tuned.report, &options(&command.trial)));
        value["score_deviation"] = json!(tuned.deviation);
        value["left_out"] = json!(tuned.left_out.iter().map(Method::to_string).collect::<Vec<_>>());
        value["installed"] = json!(installed);
        value
    }

    fn describe(&self) -> String {
        let Told { command, tuned, .. } = self;
        let mut text = describe_report(&tuned.report, &options(&command.trial));
        if !tuned.left_out.is_empty() {
            let methods: Vec<String> = tuned.left_out.iter().map(Method::to_string).collect();
            text += &format!("Left out, as the bank is smaller than their k: {}.\n", methods.join(", "));
        }
        text += &describe_verdict(&tuned.report);
        text + &self.advice()
    }

    fn advice(&self) -> String {
        let collection = &self.command.collection;
        let report = &self.tuned.report;
        match (&self.installed, report.verdict.pick) {
            (Some(installed), _) => {
                let Installed { name, method, forced, is_default } = installed;
                let how = if *forced { " all the same, as --force was given" } else { "" };
                let serves = if *is_default {
                    "It ranks every query that names no correction.".to_owned()
                } else {
                    format!(
                        "It is off until a query asks for it: dehub search {collection} --correction '{name}'"
                    )
                };
                format!("Installed {method} as `{name}`{how}. {serves}\n")
            }
            (None, None) if self.command.install.is_some() => "Nothing was installed.\n".to_owned(),
            (None, None) => String::new(),
            (None, Some(row)) => {
                let bank = self.bank().map_or(String::new(), |bank| format!(" --bank {bank}"));
                format!("Fit it: dehub fit {collection}{bank} -m '{}'\n", report.rows[row].method)
            }
        }
    }
}
