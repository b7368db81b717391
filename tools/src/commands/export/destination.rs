//! Where an export goes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use dehub_format::{Format, WriteOptions};
use dehub_index::Snapshot;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Context, told_file};
use crate::cli::ExportFile;
use crate::output::Form as Shown;

/// The endings of TREC runs; the first is the name of the format.
const TREC: [&str; 2] = ["trec", "run"];

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Lines of a TREC run.
    Trec,
    /// One of the formats that are read too.
    Rows(Format),
}

impl Form {
    /// Whether it holds one matrix and no ids.
    pub(super) fn is_matrix(self) -> bool {
        match self {
            Form::Trec => false,
            Form::Rows(format) => format.is_matrix(),
        }
    }

    fn of(file: &ExportFile) -> anyhow::Result<Form> {
        let ending = file.output.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let (told, by) = match (&file.format, ending) {
            (Some(format), _) => (format.to_ascii_lowercase(), format!("--format {format}")),
            (None, Some(ending)) => (ending.clone(), format!("{}: ending .{ending}", file.output.display())),
            (None, None) => {
                bail!("{}: no ending tells the format: name it by --format", file.output.display())
            }
        };
        if TREC.contains(&told.as_str()) {
            return Ok(Form::Trec);
        }
        let format = told.parse::<Format>().map_err(|error| anyhow::anyhow!("{by}: {error}, or trec"))?;
        Ok(Form::Rows(format))
    }
}

/// A file to be written, and those beside it.
pub(super) struct Destination {
    pub(super) form: Form,
    asked: PathBuf,
    force: bool,
    /// Where standard output is made ready, and the file in it.
    ready: Option<(TempDir, PathBuf)>,
}

impl Destination {
    /// Checks that the file may be written, before anything is.
    pub(super) fn new(context: &Context, file: &ExportFile) -> anyhow::Result<Destination> {
        let form = Form::of(file)?;
        let ready = if file.output == Path::new("-") {
            if context.output.form == Shown::Json {
                bail!("--json and --output - both want standard output");
            }
            let folder = tempfile::tempdir().context("a folder for standard output")?;
            // This ending is that of a stream of Arrow.
            let path = folder.path().join("output.arrows");
            Some((folder, path))
        } else {
            check(&file.output, file.force)?;
            None
        };
        Ok(Destination { form, asked: file.output.clone(), force: file.force, ready })
    }

    /// The file to write.
    pub(super) fn path(&self) -> &Path {
        self.ready.as_ref().map_or(&self.asked, |(_, path)| path)
    }

    /// A file beside it, of its name and this ending.
    pub(super) fn beside(&self, ending: &str) -> anyhow::Result<PathBuf> {
        if self.ready.is_some() {
            bail!(
                "-: wanted a format that is one file (parquet, arrow, jsonl, trec), as standard output is one"
            );
        }
        let mut name = self.asked.clone().into_os_string();
        name.push(ending);
        let path = PathBuf::from(name);
        check(&path, self.force)?;
        Ok(path)
    }

    /// The format, for a writer.
    pub(super) fn options(&self) -> anyhow::Result<WriteOptions> {
        match self.form {
            Form::Rows(format) => Ok(WriteOptions { format: Some(format), metric: None }),
            Form::Trec => bail!("{}: trec is a format of `export run` alone", self.asked.display()),
        }
    }

    /// Whether ids are written as JSON, which tells numbers from texts.
    pub(super) fn is_json(&self) -> bool {
        self.form == Form::Rows(Format::Jsonl)
    }

    /// Tells what was written, or gives it to standard output.
    pub(super) fn tell(
        &self,
        context: &Context,
        snapshot: &Snapshot,
        mut told: Value,
        files: &[PathBuf],
    ) -> anyhow::Result<()> {
        if let Some((_, path)) = &self.ready {
            let mut file = File::open(path).with_context(|| path.display().to_string())?;
            io::copy(&mut file, &mut io::stdout().lock())?;
            return Ok(());
        }
        let files = files.iter().map(|path| told_file(path)).collect::<anyhow::Result<Vec<_>>>()?;
        let names: Vec<&str> = files.iter().filter_map(|file| file["path"].as_str()).collect();
        let text =
            format!("{}: {} rows in {}", told["what"].as_str().unwrap_or(""), told["rows"], names.join(", "));
        told["sequence"] = json!(snapshot.sequence());
        told["files"] = json!(files);
        Ok(context.output.result(&told, || text)?)
    }
}

fn check(path: &Path, force: bool) -> anyhow::Result<()> {
    let name = path.display();
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            bail!("{name}: wanted a file to write, found what is no regular file")
        }
        Ok(_) if !force => bail!("{name}: the file exists; --force replaces it"),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| name.to_string()),
    }
}
