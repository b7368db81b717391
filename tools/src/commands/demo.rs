//! `dehub demo`: the commands a new user would type, in their order, on the bundled data.

use std::path::{Path, PathBuf};

use anyhow::bail;
use dehub_index::{Catalogue, Collection, Durability, Name, Quantization};
use dehub_query::{Explanation, Query, Ranking, Settings, Source, explain, hubness};
use serde_json::json;

use super::search::{hits_table, points};
use super::{Context, Outcome, bank, create, eval, fit, import};
use crate::cli::{self, VectorFile};
use crate::load;
use crate::output::{Form, Output, table};

/// The collection the demonstration makes, and replaces if it made it before.
const COLLECTION: &str = "wordnet";

/// The corrections shown.
const METHODS: [&str; 7] = [
    "IS(beta=20)",
    "IS(beta=50)",
    "DIS(beta=20,k=1)",
    "CSLS(k=10)",
    "NNN(alpha=0.75,k=16)",
    "NNN(alpha=1.0,k=16)",
    "DualIS(b1=20,b2=20)",
];

/// The correction of the explained searches and the hubs.
const SHOWN: &str = "NNN(alpha=1.0,k=16)";

/// The methods of the page with plots.
const SWEPT: [&str; 4] = [
    "IS(beta=5|10|20|50|100)",
    "DIS(beta=20,k=1)",
    "CSLS(k=5|10|20|50)",
    "NNN(alpha=0.5|0.75|1.0,k=4|16|64)",
];

/// The parts of the bank that they are measured on, and how often each is drawn.
const BANK_SIZES: [&str; 4] = ["50", "200", "500", "all"];
const DRAWS: u32 = 3;

/// The page with plots, in the folder that the demonstration is run in.
const REPORT: &str = "dehub-demo.html";

/// The point whose neighbours the server is asked for: Ophioglossum, a fern.
const ASKED: &str = "n12960211";

/// How many of the queries that the correction rescued are explained.
const EXPLAINED: usize = 2;

/// Runs the demonstration; with `--json`, prints only the evaluation.
pub(crate) fn run(context: &Context, command: &cli::Demo) -> anyhow::Result<Outcome> {
    let files = Files::find(&command.from)?;
    context
        .output
        .line("A reverse dictionary: glosses of WordNet are the queries, its nouns the points.\n")?;
    let collection = prepare(context, command, &files)?;
    evaluate(context, &files)?;
    if context.output.form == Form::Text {
        show_searches(context, &files, &collection)?;
        show_hubs(context, &files, &collection)?;
        write_report(context, &files)?;
        show_server(context)?;
    }
    Ok(Outcome::Done)
}

/// The demonstration's files.
struct Files {
    gallery: PathBuf,
    gallery_meta: PathBuf,
    bank: PathBuf,
    queries: PathBuf,
    queries_meta: PathBuf,
    qrels: PathBuf,
}

impl Files {
    fn find(folder: &Path) -> anyhow::Result<Files> {
        let file = |name: &str| -> anyhow::Result<PathBuf> {
            let path = folder.join(name);
            if !path.is_file() {
                bail!(
                    "{}: the file is missing: run this in Dehub's folder, or name the data with --from",
                    path.display()
                );
            }
            Ok(path)
        };
        Ok(Files {
            gallery: file("gallery.npy")?,
            gallery_meta: file("gallery.jsonl")?,
            bank: file("queries_bank.npy")?,
            queries: file("queries_test.npy")?,
            queries_meta: file("queries_test.jsonl")?,
            qrels: file("qrels.txt")?,
        })
    }
}

fn format(meta: Option<&Path>, limit: Option<u64>) -> VectorFile {
    VectorFile {
        meta: meta.map(Path::to_owned),
        id_field: None,
        vector_field: None,
        text_field: None,
        leave_out: Vec::new(),
        format: None,
        dataset: None,
        any_distance: false,
        limit,
    }
}

/// Where the steps' own results go: they are part of the text, but not of the JSON object.
fn steps_output(context: &Context) -> Output {
    match context.output.form {
        Form::Text => context.output,
        Form::Json | Form::Nothing => Output { form: Form::Nothing, ..context.output },
    }
}

fn prepare(
    context: &Context,
    command: &cli::Demo,
    files: &Files,
) -> anyhow::Result<std::sync::Arc<Collection>> {
    let name: Name = COLLECTION.parse()?;
    if context.catalogue.names()?.contains(&name) {
        forget_earlier(&context.catalogue, &name)?;
    }
    let step = Steps { context, output: steps_output(context) };
    step.say("dehub create wordnet --dim 128")?;
    step.run(|context| {
        let (collection, metric) = (COLLECTION.to_owned(), "cosine".to_owned());
        let create = cli::Create {
            collection,
            dim: Some(128),
            vector: Vec::new(),
            multi: false,
            metric,
            m: 16,
            ef_construction: 200,
            full_scan_threshold: 10_000,
            quantization: Quantization::DEFAULT,
            durability: Durability::Strict,
        };
        create::run(context, &create)
    })?;
    let limit = command.limit.map_or(String::new(), |limit| format!(" --limit {limit}"));
    let shown = (files.gallery.display(), files.gallery_meta.display());
    step.say(&format!("dehub import wordnet {} --meta {}{limit}", shown.0, shown.1))?;
    step.run(|context| {
        let format = format(Some(&files.gallery_meta), command.limit);
        let (collection, file) = (COLLECTION.to_owned(), files.gallery.clone());
        let import = cli::Import {
            collection,
            file,
            format,
            skip_bad: false,
            alarm: None,
            alarm_rate: 0.01,
            dry_run: false,
        };
        import::run(context, &import)
    })?;
    step.say(&format!("dehub bank wordnet glosses {}", files.bank.display()))?;
    step.run(|context| add_bank(context, "glosses", Some(files.bank.clone())))?;
    step.say("dehub bank wordnet nouns --from-gallery")?;
    step.run(|context| add_bank(context, "nouns", None))?;
    let methods: String = METHODS.iter().map(|method| format!(" -m '{method}'")).collect();
    step.say(&format!("dehub fit wordnet{methods}"))?;
    step.run(|context| {
        let fit = cli::Fit {
            discard: false,
            collection: COLLECTION.to_owned(),
            method: METHODS.map(str::to_owned).to_vec(),
            bank: None,
            gallery_bank: None,
            name: None,
            default: false,
            force: false,
            queries: None,
            format: format(None, None),
            trial: cli::Trial { qrels: None, seed: 0, rounds: 1000 },
        };
        fit::run(context, &fit)
    })?;
    context.collection(COLLECTION)
}

/// Deletes the collection an earlier demonstration left, and no other of the same name.
fn forget_earlier(catalogue: &Catalogue, name: &Name) -> anyhow::Result<()> {
    let collection = catalogue.get(name)?;
    let snapshot = collection.snapshot();
    let ours = snapshot.is_empty() || snapshot.bank("glosses").is_some();
    drop(snapshot);
    drop(collection);
    if !ours {
        bail!("there is a collection `{name}` that no demonstration made: choose another --data-dir");
    }
    Ok(catalogue.delete(name)?)
}

fn add_bank(context: &Context, bank: &str, file: Option<PathBuf>) -> anyhow::Result<Outcome> {
    let from_gallery = file.is_none();
    let command = cli::Bank {
        collection: COLLECTION.to_owned(),
        bank: bank.to_owned(),
        file,
        format: format(None, None),
        kind: cli::Kind::Query,
        weight_field: None,
        from_gallery,
        defer: false,
        absorb: false,
        remove: Vec::new(),
        decay: None,
        drop_below: 0.0,
        drop: false,
        dedupe: None,
        compress: cli::Compress {
            compress_from: None,
            to: None,
            by: cli::By::Kmeans,
            beta: 20.0,
            seed: 0,
            dry_run: false,
        },
    };
    bank::run(context, &command)
}

/// Runs commands as if typed, each after its line.
struct Steps<'a> {
    context: &'a Context,
    output: Output,
}

impl Steps<'_> {
    fn say(&self, command: &str) -> anyhow::Result<()> {
        Ok(self.context.output.line(format!("$ {command}"))?)
    }

    fn run(&self, step: impl FnOnce(&Context) -> anyhow::Result<Outcome>) -> anyhow::Result<()> {
        let context = self.context.with_output(self.output);
        step(&context)?;
        self.context.output.line("")?;
        Ok(())
    }
}

fn evaluate(context: &Context, files: &Files) -> anyhow::Result<()> {
    let (shown, command) = judged(files);
    context.output.line(format!("$ {shown}"))?;
    eval::run(context, &command)?;
    Ok(context.output.line("")?)
}

/// An evaluation of the judged queries, as it is typed and as it is run.
fn judged(files: &Files) -> (String, cli::Eval) {
    let (queries, qrels) = (files.queries.display(), files.qrels.display());
    let meta = files.queries_meta.display();
    let command = cli::Eval {
        collection: Some(COLLECTION.to_owned()),
        queries: Some(files.queries.clone()),
        format: format(Some(&files.queries_meta), None),
        qrels: Some(files.qrels.clone()),
        ..cli::Eval::default()
    };
    (format!("dehub eval wordnet --queries {queries} --meta {meta} --qrels {qrels}"), command)
}

/// Writes a page with plots of more methods than are installed.
fn write_report(context: &Context, files: &Files) -> anyhow::Result<()> {
    let (shown, command) = judged(files);
    let methods: String = SWEPT.iter().map(|method| format!(" -m '{method}'")).collect();
    let sizes = BANK_SIZES.join(",");
    let command = cli::Eval {
        method: SWEPT.map(str::to_owned).to_vec(),
        bank_sizes: BANK_SIZES.map(str::to_owned).to_vec(),
        draws: DRAWS,
        bank: Some("glosses".to_owned()),
        report: Some(PathBuf::from(REPORT)),
        ..command
    };
    context.output.line(
        "A page with plots of the distribution of answers, of parameters and of parts of the bank:\n",
    )?;
    context.output.line(format!(
        "$ {shown}{methods} --bank glosses --bank-sizes {sizes} --draws {DRAWS} --report {REPORT} > /dev/null"
    ))?;
    eval::run(&context.with_output(Output { form: Form::Nothing, ..context.output }), &command)?;
    let path = std::path::absolute(REPORT)?;
    Ok(context.output.line(format!("wrote {}\n", path.display()))?)
}

/// Explains the first queries whose answer the correction brought to the top.
fn show_searches(context: &Context, files: &Files, collection: &Collection) -> anyhow::Result<()> {
    let snapshot = collection.snapshot();
    let mut shown = 0;
    let format = format(Some(&files.queries_meta), None);
    for batch in load::open(&files.queries, &format, Some(snapshot.config().metric))? {
        for row in load::rows(&files.queries, batch?)? {
            let settings =
                Settings { limit: Some(5), ranking: Ranking::corrected(SHOWN), ..Settings::default() };
            let query = Query { source: Source::Vector(row.vector.clone()), settings };
            let explanation = explain(&snapshot, &query)?;
            // Row i of the gallery answers query i.
            let rescued =
                explanation.corrected.hits.first().is_some_and(|hit| u64::from(hit.row) == row.number)
                    && explanation.raw_ranks.first().is_some_and(|&rank| rank > 3);
            if rescued && shown < EXPLAINED {
                shown += 1;
                show_search(context, files, &row, &explanation, collection)?;
            }
        }
    }
    Ok(())
}

fn show_search(
    context: &Context,
    files: &Files,
    row: &load::Row,
    explanation: &Explanation,
    collection: &Collection,
) -> anyhow::Result<()> {
    let snapshot = collection.snapshot();
    let Explanation { raw, corrected, raw_ranks, .. } = explanation;
    let text = row.text.as_deref().unwrap_or("");
    let file = files.queries.display();
    context.output.line(format!(
        "$ dehub search wordnet --queries {file} --row {} -k 5 --correction '{SHOWN}' --explain",
        row.number
    ))?;
    context.output.line(format!("\"{text}\"\n\nraw"))?;
    context.output.line(hits_table(&raw.hits, &points(&snapshot, &raw.hits)?, None))?;
    context.output.line("corrected")?;
    Ok(context.output.line(hits_table(
        &corrected.hits,
        &points(&snapshot, &corrected.hits)?,
        Some(raw_ranks),
    ))?)
}

/// The largest hubs by name, and what becomes of them.
fn show_hubs(context: &Context, files: &Files, collection: &Collection) -> anyhow::Result<()> {
    let snapshot = collection.snapshot();
    let queries = load::queries(&files.queries, snapshot.config())?;
    let k = 10;
    let rankings = [Ranking::Raw, Ranking::corrected(SHOWN)];
    let rows = hubness(&snapshot, &queries, &rankings, k, 8)?;
    let counts: Vec<u32> = snapshot.rows().collect();
    let hubs: Vec<u32> = rows[0].hubs.iter().map(|&(hub, _)| hub).collect();
    let named = snapshot.points(&hubs)?;
    let lines = rows[0].hubs.iter().zip(named).map(|(&(hub, before), point)| {
        let place = counts.binary_search(&hub).unwrap_or(0);
        let after = rows[1].occurrence.counts()[place];
        vec![point.text.unwrap_or_default(), before.to_string(), after.to_string()]
    });
    context.output.line(format!(
        "The largest hubs in the answers to {}, raw and under {SHOWN}:\n",
        files.queries.display()
    ))?;
    let head = ["the largest hubs", "N10 raw", "N10 corrected"];
    Ok(context.output.line(table(&head, 1, lines))?)
}

fn show_server(context: &Context) -> anyhow::Result<()> {
    let body = json!({ "query": ASKED, "limit": 3, "hubness": { "correction": SHOWN } });
    let (folder, serve) = (context.catalogue.folder().display(), &context.settings.service);
    context
        .output
        .line("Serve it, and from another terminal ask for the neighbours of a point over HTTP:\n")?;
    // The command may not be on the path; this one surely exists.
    let command = std::env::current_exe().map_or("dehub".to_owned(), |path| path.display().to_string());
    context.output.line(format!("$ {command} serve --data-dir {folder}\n"))?;
    let url = format!("http://{}:{}/collections/{COLLECTION}/points/query", serve.host, serve.port);
    let header = "-H 'content-type: application/json'";
    Ok(context.output.line(format!("$ curl -s {url} \\\n    {header} -d '{body}'"))?)
}
