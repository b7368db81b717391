//! One module a command.

pub(crate) mod adapt;
pub(crate) mod backup;
pub(crate) mod bank;
pub(crate) mod bench;
mod calibration;
pub(crate) mod compact;
mod compare;
pub(crate) mod compress;
pub(crate) mod create;
pub(crate) mod default;
pub(crate) mod delete;
pub(crate) mod demo;
pub(crate) mod drift;
pub(crate) mod durability;
pub(crate) mod eval;
pub(crate) mod export;
mod exposure;
pub(crate) mod fit;
pub(crate) mod freeze;
pub(crate) mod hubs;
pub(crate) mod import;
mod import_named;
pub(crate) mod info;
pub(crate) mod key;
pub(crate) mod live;
pub(crate) mod measure;
pub(crate) mod openapi;
pub(crate) mod ping;
pub(crate) mod prior;
pub(crate) mod quarantine;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod rewrite;
pub(crate) mod search;
pub(crate) mod serve;
mod sources;
pub(crate) mod texts;
pub(crate) mod train;
pub(crate) mod trial;
pub(crate) mod tune;
pub(crate) mod verify;
mod words;

use std::sync::Arc;

use dehub_index::{Catalogue, CatalogueError, Collection, GraphBuild, Name};
use dehub_query::calibrate_if_due;

use crate::output::Output;
use crate::settings::Settings;

/// What every command works with.
pub(crate) struct Context {
    /// Settings after flags.
    pub settings: Settings,
    /// The data directory's collections.
    pub catalogue: Arc<Catalogue>,
    /// Where results go.
    pub output: Output,
    /// The vector that is meant, in collections with named ones.
    pub using: Option<String>,
}

/// How a command ended, when it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All was done.
    Done,
    /// All was done but for rows that were refused and listed.
    SomeRefused,
    /// Something is not as it should be, and was listed.
    NotWhole,
    /// The settings are wrong, and it was told how.
    WrongSettings,
}

impl Context {
    /// The same, with results going elsewhere.
    pub(crate) fn with_output(&self, output: Output) -> Context {
        let (catalogue, using) = (Arc::clone(&self.catalogue), self.using.clone());
        Context { settings: self.settings.clone(), catalogue, output, using }
    }

    /// The collection of this name, or of this alias. One that is damaged is told with what helps it.
    pub(crate) fn collection(&self, name: &str) -> anyhow::Result<Arc<Collection>> {
        let name = self.catalogue.resolve(name.parse()?)?;
        self.catalogue.get(&name).map_err(|error| {
            let is_damage = matches!(&error, CatalogueError::Open(open) if open.is_damage());
            if is_damage { anyhow::anyhow!("{error}\n{}", self.remedy(&name)) } else { error.into() }
        })
    }

    /// The vector of a collection that is meant: the one without a name, or the one that `--using` names.
    pub(crate) fn space(&self, name: &str) -> anyhow::Result<Arc<Collection>> {
        let space = self.collection(name)?.space(self.using.as_deref());
        space.map_err(|error| match &self.using {
            Some(_) => anyhow::anyhow!("--using: {error}"),
            None if error.found.is_empty() => error.into(),
            None => anyhow::anyhow!("{error}: name one by --using"),
        })
    }

    /// What helps a collection whose records are damaged.
    pub(crate) fn remedy(&self, name: &Name) -> String {
        let folder = self.catalogue.folder().display();
        format!(
            "restore it from its backups: `dehub --data-dir {folder} restore {name} REPOSITORY --replace`"
        )
    }

    /// This collection's name, or without one those of all.
    pub(crate) fn names(&self, name: Option<&str>) -> anyhow::Result<Vec<Name>> {
        match name {
            Some(name) => Ok(vec![name.parse()?]),
            None => Ok(self.catalogue.names()?),
        }
    }

    /// Brings the graph of a collection up to date, and the calibration of its searches.
    pub(crate) fn tend(&self, collection: &Collection) -> anyhow::Result<()> {
        if collection.is_graph_due() {
            let bar = self.output.progress("building the graph", None);
            let built = collection.build_graph_if_due();
            bar.finish_and_clear();
            if let GraphBuild::Built { nodes } = built? {
                self.output.note(format!("built the graph: {nodes} nodes"));
            }
        }
        let bar = self.output.progress("calibrating searches", None);
        let calibrated = calibrate_if_due(collection);
        bar.finish_and_clear();
        calibrated?;
        Ok(())
    }
}
