//! Deriving again what is not as it should be.

use std::sync::PoisonError;

use super::VerifyReport;
use crate::orphans::Orphans;
use crate::{Collection, GraphBuild, Name, WriteError, graph_file};

/// What [`Collection::rebuild`] did.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuilt {
    /// Files of the graph that were set aside.
    pub set_aside: Vec<String>,
    /// What became of the graph after.
    pub graph: GraphBuild,
    /// Banks whose statistics and gates were fitted anew.
    pub refitted: Vec<Name>,
    /// What no record named and is gone.
    pub orphans: Orphans,
}

impl Collection {
    /// Derives again what `report` found to differ and can be: sets aside files of the graph and freezes their
    /// points, indexes texts, fits over the banks whose statistics or gates differ, and drops what no record names.
    /// What is not derived is left as it is.
    pub fn rebuild(&self, report: &VerifyReport) -> Result<Rebuilt, WriteError> {
        let mut rebuilt = self.rebuild_own(report)?;
        for (name, report) in &report.spaces {
            let Some(space) = self.spaces.get(name) else { continue };
            let Rebuilt { set_aside, graph, refitted, orphans } = space.rebuild_own(report)?;
            if rebuilt.graph == GraphBuild::NotDue {
                rebuilt.graph = graph;
            }
            rebuilt.set_aside.extend(set_aside);
            rebuilt.refitted.extend(refitted);
            rebuilt.orphans.add(&orphans);
        }
        Ok(rebuilt)
    }

    fn rebuild_own(&self, report: &VerifyReport) -> Result<Rebuilt, WriteError> {
        if report.repairs.texts {
            self.rebuild_text()?;
        }
        let mut set_aside = Vec::new();
        {
            let _one_at_a_time = self.freezing.lock().unwrap_or_else(PoisonError::into_inner);
            for rows in &report.repairs.segments {
                let snapshot = self.snapshot();
                let Some(frozen) = snapshot.segments.iter().find(|frozen| frozen.rows == *rows) else {
                    continue;
                };
                let path = graph_file::path(&self.folder, rows, frozen.quantization);
                self.swap_segments(rows, None)?;
                graph_file::set_aside(&path);
                set_aside.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
            }
        }
        let graph = self.build_graph_if_due()?;
        for bank in &report.repairs.banks {
            self.write_space(|draft| draft.fit_anew(bank))?;
        }
        let orphans = self.drop_orphans()?;
        let refitted = report.repairs.banks.iter().cloned().collect();
        Ok(Rebuilt { set_aside, graph, refitted, orphans })
    }
}
