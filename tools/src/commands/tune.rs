//! `dehub tune`.

use anyhow::bail;
use dehub_index::{Collection, FitInput, Name, Snapshot};
use dehub_query::{
    BankKind, Estimate, Evidence, LabelledQuery, Method, MethodInput, Reason, TuneMethods, TuneOptions,
    TuneReport, TuneRow, leaks, score_deviation, tune, tune_methods,
};
use dehub_vector::Vector;
use serde_json::{Value, json};

use super::fit::choose_bank;
use super::{Context, Outcome};
use crate::cli::Tune;
use crate::load;
use crate::output::table;

/// Chooses a correction, says why, and installs it if that was asked for.
pub(crate) fn run(context: &Context, command: &Tune) -> anyhow::Result<Outcome> {
    let install: Option<Name> = command.install.as_deref().map(str::parse).transpose()?;
    let collection = context.collection(&command.collection)?;
    let asked = Asked::read(command, &collection.snapshot())?;
    let deviation = score_deviation(&collection.snapshot(), &asked.vectors)?;
    let (inputs, left_out, notes) = inputs(command, &collection.snapshot(), deviation)?;
    notes.iter().for_each(|note| context.output.note(note));
    note_leaks(context, &collection.snapshot(), &inputs, &asked.vectors);
    let bar = context.output.progress("fitting", None);
    let (snapshot, corrections) = collection.rehearse(&inputs)?;
    bar.finish_and_clear();
    let bar = context.output.progress("measuring", None);
    let options = TuneOptions { seed: command.seed, rounds: command.rounds, ..TuneOptions::default() };
    let report = tune(&snapshot, &corrections, asked.evidence(), &options)?;
    bar.finish_and_clear();
    let installed = install.map(|name| install_choice(&collection, command, name, &inputs, &report));
    let installed = installed.transpose()?.flatten();
    let told = Told { command, inputs: &inputs, left_out: &left_out, deviation, report: &report, installed };
    context.output.result(&told.to_json(), || told.describe())?;
    Ok(Outcome::Done)
}

/// What the choice is made by, as read from files.
struct Asked {
    vectors: Vec<Vector>,
    labelled: Option<(Vec<LabelledQuery>, dehub_eval::Qrels)>,
}

impl Asked {
    fn read(command: &Tune, snapshot: &Snapshot) -> anyhow::Result<Asked> {
        let Some(file) = &command.queries else {
            bail!(
                "there is nothing to choose by: name a file of recent queries, judged or not, with --queries. \
                 The bank's own entries do not do: what lowers their hubness may raise that of the queries \
                 users ask"
            );
        };
        let Some(qrels) = &command.qrels else {
            let vectors = load::chosen_queries(file, &command.format, snapshot.config())?;
            return Ok(Asked { vectors, labelled: None });
        };
        let queries = load::labelled_queries(file, &command.format, snapshot.config())?;
        let vectors = queries.iter().map(|query| query.vector.clone()).collect();
        Ok(Asked { vectors, labelled: Some((queries, load::qrels(qrels)?)) })
    }

    fn evidence(&self) -> Evidence<'_> {
        match &self.labelled {
            None => Evidence::Unlabelled(&self.vectors),
            Some((queries, qrels)) => Evidence::Labelled { queries, qrels },
        }
    }
}

/// The corrections to choose from, under the names of their methods, the methods left out, and what was
/// found for perplexities.
fn inputs(
    command: &Tune,
    snapshot: &Snapshot,
    deviation: f64,
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
        tune_methods(info.map_or(usize::MAX, |info| info.entries), deviation)
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

/// What a correction does to the queries it is fitted from says little of what it does to others.
fn note_leaks(context: &Context, snapshot: &Snapshot, inputs: &[FitInput], queries: &[Vector]) {
    let is_used = |bank: &Name| inputs.iter().any(|input| input.query_bank.as_ref() == Some(bank));
    for (bank, held) in leaks(snapshot, queries).into_iter().filter(|(bank, _)| is_used(bank)) {
        context.output.note(format!(
            "warning: bank `{bank}` holds {held} of the queries: corrections fitted from it look better than \
             they are"
        ));
    }
}

/// A correction that was installed.
struct Installed {
    name: Name,
    method: String,
    /// Against the verdict.
    forced: bool,
}

fn install_choice(
    collection: &Collection,
    command: &Tune,
    name: Name,
    inputs: &[FitInput],
    report: &TuneReport,
) -> anyhow::Result<Option<Installed>> {
    let verdict = report.verdict;
    let Some(row) = verdict.pick.or(command.force.then_some(verdict.best)) else { return Ok(None) };
    let input = FitInput { name: name.clone(), ..inputs[row].clone() };
    collection.fit(&[input])?;
    Ok(Some(Installed { name, method: inputs[row].method.to_string(), forced: verdict.pick.is_none() }))
}

/// Everything there is to tell.
struct Told<'a> {
    command: &'a Tune,
    inputs: &'a [FitInput],
    left_out: &'a [Method],
    deviation: f64,
    report: &'a TuneReport,
    installed: Option<Installed>,
}

impl Told<'_> {
    fn bank(&self) -> Option<&str> {
        self.inputs.iter().find_map(|input| input.query_bank.as_ref()).map(Name::as_str)
    }

    fn to_json(&self) -> Value {
        let Told { command, report, .. } = self;
        let raw = &report.raw;
        let installed = self
            .installed
            .as_ref()
            .map(|it| json!({ "correction": it.name.as_str(), "method": it.method, "forced": it.forced }));
        json!({
            "collection": command.collection,
            "bank": self.bank(),
            "points": report.points,
            "queries": report.queries,
            "judged": report.judged,
            "k": report.k,
            "seed": command.seed,
            "rounds": command.rounds,
            "score_deviation": self.deviation,
            "raw": {
                "robin_hood": raw.robin_hood,
                "robin_hood_at_random": raw.at_random,
                "excess": estimate(raw.excess),
                "ndcg": raw.ndcg,
            },
            "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
            "left_out": self.left_out.iter().map(Method::to_string).collect::<Vec<_>>(),
            "verdict": {
                "pick": report.verdict.pick.map(|row| &report.rows[row].method),
                "best": report.rows[report.verdict.best].method,
                "reason": report.verdict.reason.to_string(),
                "queries_wanted": queries_wanted(report.verdict.reason),
            },
            "installed": installed,
        })
    }

    fn describe(&self) -> String {
        let Told { command, report, .. } = self;
        let judged = report.judged.map_or(String::new(), |judged| format!(", {judged} of them judged"));
        let mut text = format!(
            "{} queries{judged}, {} points, the best {} of each query; 95 % intervals of {} rounds, seed {}\n\n",
            report.queries, report.points, report.k, command.rounds, command.seed
        );
        text += &self.rows();
        text += &format!(
            "\nAnswers drawn at random would have a Robin Hood index of {:.3}; what raw has above that is the \
             hubness to remove.\n",
            report.raw.at_random
        );
        if !self.left_out.is_empty() {
            let methods: Vec<String> = self.left_out.iter().map(Method::to_string).collect();
            text += &format!("Left out, as the bank is smaller than their k: {}.\n", methods.join(", "));
        }
        let pick = report.verdict.pick.map_or("none", |row| &report.rows[row].method);
        text += &format!("\nVerdict: {pick}: {}.\n", report.verdict.reason);
        text + &self.advice()
    }

    fn rows(&self) -> String {
        let report = self.report;
        let is_judged = report.judged.is_some();
        let mut head = vec!["correction", "Robin Hood", "removed", "95 %"];
        if is_judged {
            head.extend(["nDCG", "gain", "95 %"]);
        }
        head.push("finding");
        let raw = &report.raw;
        let mut first =
            vec!["raw".to_owned(), format!("{:.3}", raw.robin_hood), String::new(), String::new()];
        if let Some(ndcg) = raw.ndcg {
            first.extend([format!("{ndcg:.4}"), String::new(), String::new()]);
        }
        first.push(String::new());
        let line = |row: &TuneRow| {
            let percent = |part: f64| format!("{:.0} %", 100.0 * part);
            let ends = |it: Estimate| format!("{:.0} to {:.0} %", 100.0 * it.low, 100.0 * it.high);
            let mut cells = vec![row.method.clone(), format!("{:.3}", row.robin_hood)];
            cells.push(row.share.map_or("–".to_owned(), |share| percent(share.value)));
            cells.push(row.share.map_or(String::new(), ends));
            if let (Some(ndcg), Some(gain)) = (row.ndcg, row.gain) {
                cells.extend([format!("{ndcg:.4}"), format!("{:+.4}", gain.value)]);
                cells.push(format!("{:+.4} to {:+.4}", gain.low, gain.high));
            }
            cells.push(row.finding.to_string());
            cells
        };
        table(&head, 1, std::iter::once(first).chain(report.rows.iter().map(line)))
    }

    fn advice(&self) -> String {
        let collection = &self.command.collection;
        match (&self.installed, self.report.verdict.pick) {
            (Some(Installed { name, method, forced: true }), _) => {
                format!("Installed {method} as `{name}` all the same, as --force was given.\n")
            }
            (Some(Installed { name, method, forced: false }), _) => format!(
                "Installed {method} as `{name}`. It is off until a query asks for it: dehub search {collection} \
                 --correction '{name}'\n"
            ),
            (None, None) if self.command.install.is_some() => "Nothing was installed.\n".to_owned(),
            (None, None) => String::new(),
            (None, Some(row)) => {
                let bank = self.bank().map_or(String::new(), |bank| format!(" --bank {bank}"));
                format!("Fit it: dehub fit {collection}{bank} -m '{}'\n", self.report.rows[row].method)
            }
        }
    }
}

fn estimate(it: Estimate) -> Value {
    json!({ "value": it.value, "low": it.low, "high": it.high })
}

fn row(row: &TuneRow) -> Value {
    json!({
        "method": row.method,
        "robin_hood": row.robin_hood,
        "removed": row.share.map(estimate),
        "ndcg": row.ndcg,
        "gain": row.gain.map(estimate),
        "finding": row.finding.to_string(),
    })
}

/// How many queries would settle an open choice.
fn queries_wanted(reason: Reason) -> Option<usize> {
    match reason {
        Reason::MayRemove { queries, .. } => Some(queries),
        Reason::MayGain { queries, .. } => queries,
        Reason::NoHubs { .. }
        | Reason::RemovesTooLittle { .. }
        | Reason::Removes { .. }
        | Reason::RawIsBest
        | Reason::Gains { .. } => None,
    }
}
