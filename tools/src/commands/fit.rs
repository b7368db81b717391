//! `dehub fit`.

use anyhow::{Context as _, bail};
use dehub_api::when_interrupted;
use dehub_index::{Collection, FitInput, FitProgress, FitReport, Fitted, Name, Snapshot, WriteError};
use dehub_query::{BankKind, Comparison, Method, MethodInput, choose, compare};
use dehub_vector::Vector;
use serde_json::{Value, json};

use super::default::{judge, veto};
use super::trial::{Asked, describe_report, describe_verdict, extend, note_leaks, options, report_json};
use super::{Context, Outcome};
use crate::cli::Fit;
use crate::load;
use crate::output::table;

/// Queries the change is shown on, at most.
const SHOWN_QUERIES_MAX: usize = 2000;

/// Fits corrections and shows what each changes.
pub(crate) fn run(context: &Context, command: &Fit) -> anyhow::Result<Outcome> {
    let collection = context.space(&command.collection)?;
    if command.discard {
        return discard(context, command, &collection);
    }
    if command.method.iter().any(|method| method.eq_ignore_ascii_case("auto")) {
        return auto(context, command, &collection);
    }
    if command.force && !command.default {
        bail!("--force has no meaning here: it goes with -m auto or with --default");
    }
    let (inputs, notes) = inputs(command, &collection.snapshot())?;
    let fitted = if command.default {
        let bar = context.output.progress("fitting", None);
        let fitted = fit_as_default(context, command, &collection, &inputs)?;
        bar.finish_and_clear();
        fitted
    } else {
        fit_watched(context, command, &collection, &inputs)?
    };
    context.tend(&collection)?;
    let snapshot = collection.snapshot();
    let changes = changes(command, &snapshot, &fitted)?;
    let result: Vec<Value> =
        fitted.iter().zip(&changes).map(|(fitted, change)| to_json(fitted, change.as_ref())).collect();
    let result = result.into_iter().zip(&notes).map(with_note).collect::<Vec<_>>();
    context.output.result(&json!({ "collection": command.collection, "corrections": result }), || {
        let notes: String = notes.iter().flatten().map(|note| format!("{note}\n")).collect();
        notes + &describe(command, &fitted, &changes)
    })?;
    Ok(Outcome::Done)
}

/// Fits with a bar, and lets an interrupt end the fit so that the same command goes on from there.
fn fit_watched(
    context: &Context,
    command: &Fit,
    collection: &Collection,
    inputs: &[FitInput],
) -> anyhow::Result<Vec<Fitted>> {
    let bar = context.output.progress("fitting", Some(0));
    let shown = bar.clone();
    let progress = FitProgress::with_watch(move |progress| {
        shown.set_length(progress.total());
        shown.set_position(progress.done());
    });
    let interrupted = progress.clone();
    when_interrupted(move || interrupted.interrupt()).context("the interrupt signal cannot be received")?;
    let outcome = collection.fit_with(inputs, &progress);
    bar.finish_and_clear();
    match outcome {
        Err(WriteError::Interrupted) => bail!(interruption(&command.collection, inputs, collection)),
        outcome => Ok(outcome?),
    }
}

/// What an interrupted fit has come to.
fn interruption(name: &str, inputs: &[FitInput], collection: &Collection) -> String {
    match collection.pending_fits().iter().find(|fit| fit.inputs == inputs) {
        Some(fit) => format!(
            "interrupted at {:.0} %; nothing was changed, and the same command goes on from there (dehub fit \
             {name} --discard drops what is kept for it)",
            100.0 * fit.share
        ),
        None => "interrupted; nothing was changed".to_owned(),
    }
}

/// `--discard`: drops every pending fit.
fn discard(context: &Context, command: &Fit, collection: &Collection) -> anyhow::Result<Outcome> {
    let fits = collection.pending_fits();
    let dropped: Vec<&str> =
        fits.iter().flat_map(|fit| &fit.inputs).map(|input| input.name.as_str()).collect();
    for input in fits.iter().flat_map(|fit| &fit.inputs) {
        collection.drop_pending(&input.name)?;
    }
    context.output.result(&json!({ "collection": command.collection, "discarded": dropped }), || {
        if dropped.is_empty() {
            "no fit is pending".to_owned()
        } else {
            format!("dropped {}", dropped.join(", "))
        }
    })?;
    Ok(Outcome::Done)
}

/// Fits one correction and makes it the default, if the veto lets it.
fn fit_as_default(
    context: &Context,
    command: &Fit,
    collection: &Collection,
    inputs: &[FitInput],
) -> anyhow::Result<Vec<Fitted>> {
    let [input] = inputs else {
        bail!("--default makes one correction the default, but {} methods are given", inputs.len());
    };
    let (snapshot, corrections) = collection.rehearse(inputs)?;
    let evidence = match (&command.queries, corrections.first()) {
        (None, _) if command.force => None,
        (queries, Some(correction)) => {
            let qrels = command.trial.qrels.as_deref();
            let asked = Asked::read(queries.as_deref(), &command.format, qrels, &snapshot)?;
            note_leaks(context, &snapshot, inputs, &asked.vectors);
            let options = options(&command.trial);
            let (report, evidence) = judge(&snapshot, correction, &asked, &options)?;
            if !evidence.approved && !command.force {
                return Err(veto(&input.name, &report, &options));
            }
            Some(evidence)
        }
        (_, None) => bail!("the correction was not fitted"),
    };
    let forced = !evidence.as_ref().is_some_and(|evidence| evidence.approved);
    collection.fit_as_default(input, evidence.as_ref(), forced)?;
    let snapshot = collection.snapshot();
    let info = snapshot.correction(input.name.as_str()).map(|correction| correction.info().clone());
    let fitted = |info| Fitted { info, sequence: snapshot.sequence(), report: FitReport::default() };
    Ok(info.map(fitted).into_iter().collect())
}

/// `-m auto`: fits the choice, if there is one.
fn auto(context: &Context, command: &Fit, collection: &Collection) -> anyhow::Result<Outcome> {
    if command.method.len() > 1 {
        bail!("auto chooses one method, but {} are given", command.method.len());
    }
    if command.gallery_bank.is_some() {
        bail!("--gallery-bank has no meaning here: none of the methods auto chooses from uses one");
    }
    let name: Name = command.name.as_deref().unwrap_or("auto").parse()?;
    let snapshot = collection.snapshot();
    let Some(bank) = choose_bank(&snapshot, command.bank.as_deref(), BankKind::Query)? else {
        bail!("the collection has no query bank");
    };
    let qrels = command.trial.qrels.as_deref();
    let asked = Asked::read(command.queries.as_deref(), &command.format, qrels, &snapshot)?;
    let options = options(&command.trial);
    let bar = context.output.progress("fitting and measuring", None);
    let choice = choose(collection, &bank, asked.evidence(), &options)?;
    bar.finish_and_clear();
    note_leaks(context, &snapshot, &choice.inputs, &asked.vectors);
    let report = &choice.report;
    let forced = report.verdict.pick.is_none();
    let row = choice.row(command.force);
    if let Some(row) = row {
        let input = choice.input(row, &name);
        if command.default {
            collection.fit_as_default(&input, Some(&report.evidence(row, &options)), forced)?;
        } else {
            collection.fit(&[input])?;
        }
        context.tend(collection)?;
    }
    let installed = row.map(|row| {
        let method = &report.rows[row].method;
        json!({ "correction": name.as_str(), "method": method, "forced": forced, "is_default": command.default })
    });
    let mut result = json!({ "collection": command.collection, "bank": bank.as_str() });
    extend(&mut result, report_json(report, &options));
    result["left_out"] = json!(choice.left_out.iter().map(Method::to_string).collect::<Vec<_>>());
    result["installed"] = json!(installed);
    context.output.result(&result, || {
        let mut text = describe_report(report, &options) + &describe_verdict(report);
        text += &match row {
            None => "Nothing was installed.\n".to_owned(),
            Some(row) => {
                let how = if forced { " all the same, as --force was given" } else { "" };
                let default = if command.default { " It is the default now." } else { "" };
                format!("Installed {} as `{name}`{how}.{default}\n", report.rows[row].method)
            }
        };
        text
    })?;
    Ok(Outcome::Done)
}

/// What to fit, and for each what was found for a perplexity.
fn inputs(command: &Fit, snapshot: &Snapshot) -> anyhow::Result<(Vec<FitInput>, Vec<Option<String>>)> {
    if command.name.is_some() && command.method.len() > 1 {
        bail!("--name names one correction, but {} methods are given", command.method.len());
    }
    let (mut inputs, mut notes): (Vec<FitInput>, Vec<Option<String>>) = Default::default();
    for method in &command.method {
        let asked: MethodInput = method.parse()?;
        let bank = |named: &Option<String>, kind| -> anyhow::Result<Option<Name>> {
            if asked.method().uses(kind) { choose_bank(snapshot, named.as_deref(), kind) } else { Ok(None) }
        };
        let query_bank = bank(&command.bank, BankKind::Query)?;
        let gallery_bank = bank(&command.gallery_bank, BankKind::Gallery)?;
        let method: Method = snapshot.resolve(&asked, query_bank.as_ref())?;
        notes.push(asked.note(&method));
        let name: Name = command.name.clone().unwrap_or_else(|| method.to_string()).parse()?;
        if inputs.iter().any(|input| input.name == name) {
            bail!("the method {method} is given twice");
        }
        inputs.push(FitInput { name, method, query_bank, gallery_bank });
    }
    Ok((inputs, notes))
}

/// The bank named, or the only one of its kind.
pub(crate) fn choose_bank(
    snapshot: &Snapshot,
    named: Option<&str>,
    kind: BankKind,
) -> anyhow::Result<Option<Name>> {
    if let Some(name) = named {
        return Ok(Some(name.parse()?));
    }
    let banks: Vec<&Name> =
        snapshot.banks().filter(|bank| bank.kind == kind).map(|bank| &bank.name).collect();
    match banks[..] {
        [only] => Ok(Some(only.clone())),
        [] => bail!("the collection has no {kind} bank: add one with `dehub bank`"),
        _ => {
            let flag = match kind {
                BankKind::Query => "--bank",
                BankKind::Gallery => "--gallery-bank",
            };
            let names: Vec<_> = banks.iter().map(|name| name.as_str()).collect();
            bail!("the collection has several {kind} banks ({}): choose one with {flag}", names.join(", "))
        }
    }
}

/// What each correction changes, on the queries given or on those of its own bank.
fn changes(command: &Fit, snapshot: &Snapshot, fitted: &[Fitted]) -> anyhow::Result<Vec<Option<Comparison>>> {
    let read = |file| load::chosen_queries(file, &command.format, snapshot.config());
    let given = command.queries.as_deref().map(read).transpose()?;
    // One fit takes one query bank.
    let bank = fitted.iter().find_map(|fitted| fitted.info.query_bank.as_ref());
    let own = || bank.map_or(Vec::new(), |bank| snapshot.bank_queries(bank, SHOWN_QUERIES_MAX));
    let queries: Vec<Vector> = given.unwrap_or_else(own);
    if queries.is_empty() || snapshot.is_empty() {
        return Ok(vec![None; fitted.len()]);
    }
    let names: Vec<&str> = fitted.iter().map(|fitted| fitted.info.name.as_str()).collect();
    Ok(compare(snapshot, &queries, &names, 10)?.into_iter().map(Some).collect())
}

fn with_note((mut fitted, note): (Value, &Option<String>)) -> Value {
    if let Some(note) = note {
        fitted["note"] = note.as_str().into();
    }
    fitted
}

fn to_json(fitted: &Fitted, change: Option<&Comparison>) -> Value {
    let info = &fitted.info;
    let side = |row: &dehub_query::HubnessRow| {
        json!({
            "skew10": row.occurrence.skewness(),
            "RH10": row.occurrence.robin_hood(),
            "anti10": row.occurrence.antihub_share(),
            "max10": row.occurrence.max(),
        })
    };
    json!({
        "correction": info.name.as_str(),
        "version": info.version,
        "method": info.method.to_string(),
        "query_bank": info.query_bank.as_ref().map(Name::as_str),
        "gallery_bank": info.gallery_bank.as_ref().map(Name::as_str),
        "activated": info.activated,
        "change": change.map(|change| json!({
            "queries": change.before.occurrence.queries(),
            "top1_changed": change.top1_changed,
            "before": side(&change.before),
            "after": side(&change.after),
        })),
    })
}

fn describe(command: &Fit, fitted: &[Fitted], changes: &[Option<Comparison>]) -> String {
    let rows = fitted.iter().zip(changes).map(|(fitted, change)| {
        let mut row = vec![format!("{}@{}", fitted.info.name, fitted.info.version)];
        if let Some(Comparison { top1_changed, before, after }) = change {
            let (before, after) = (&before.occurrence, &after.occurrence);
            row.push(format!("{:.1} %", 100.0 * top1_changed));
            row.push(format!("{:.3} → {:.3}", before.skewness(), after.skewness()));
            row.push(format!("{:.3} → {:.3}", before.robin_hood(), after.robin_hood()));
            row.push(format!(
                "{:.1} % → {:.1} %",
                100.0 * before.antihub_share(),
                100.0 * after.antihub_share()
            ));
            row.push(format!("{} → {}", before.max(), after.max()));
        }
        row
    });
    let head = ["correction", "top-1 changed", "skewness N10", "Robin Hood", "antihubs", "largest N10"];
    let counted = changes.iter().flatten().map(|change| change.before.occurrence.queries()).next();
    let on = match (&command.queries, counted) {
        (_, None) => "nothing to show a change on yet: the collection has no points".to_owned(),
        (Some(file), Some(n)) => format!("measured on {n} queries of {}", file.display()),
        (None, Some(n)) => {
            format!("measured on {n} queries of the bank itself, which flatters; --queries FILE takes others")
        }
    };
    let name = fitted.first().map_or("", |fitted| fitted.info.name.as_str());
    let serves = if command.default {
        format!("`{name}` is the default now: it ranks every query that names no correction.")
    } else {
        let collection = &command.collection;
        format!(
            "A correction is off until a query asks for it: dehub search {collection} --correction '{name}'"
        )
    };
    format!("{}\n{on}\n{serves}", table(&head, 1, rows))
}
