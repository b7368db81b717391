//! Checking a request before anything of it is answered.

use std::sync::Arc;

use dehub_index::Snapshot;

use super::execute::{Fault, space};
use super::{Kind, Request, Strategy, texts};
use crate::QueryError;

impl Request {
    /// Whether it and its prefetches can be answered; points that are named may still be missing.
    pub(crate) fn check(&self, base: &Arc<Snapshot>) -> Result<(), Fault> {
        if self.kind.compares() {
            let space = space(base, self.using.as_deref())?;
            self.settings.check(&space)?;
            if space.config().multi && !matches!(self.kind, Kind::Nearest(_)) {
                return Err(QueryError::MultiVectors { what: self.kind.name() }.into());
            }
        } else {
            self.settings.check(base)?;
        }
        if let Kind::Text(words) = &self.kind {
            texts::check(base, words, &self.settings)?;
        }
        self.kind.check(self.prefetch.len())?;
        for (place, prefetch) in self.prefetch.iter().enumerate() {
            prefetch.check(base).map_err(|fault| fault.within(place))?;
        }
        Ok(())
    }
}

impl Kind {
    /// Whether it is about vectors.
    fn compares(&self) -> bool {
        match self {
            Kind::ById | Kind::OrderBy(_) | Kind::Sample { .. } | Kind::Text(_) | Kind::Fusion(_) => false,
            Kind::Nearest(_)
            | Kind::Recommend { .. }
            | Kind::Discover { .. }
            | Kind::Context(_)
            | Kind::Feedback(_) => true,
        }
    }

    fn check(&self, prefetches: usize) -> Result<(), QueryError> {
        let malformed = |reason| Err(QueryError::Malformed { reason });
        match self {
            Kind::Fusion(fusion) => fusion.check(prefetches),
            Kind::Feedback(feedback) => feedback.check(),
            Kind::Recommend { positive, strategy: Strategy::AverageVector, .. } if positive.is_empty() => {
                malformed("an average needs an example to be like")
            }
            Kind::Recommend { positive, negative, .. } if positive.is_empty() && negative.is_empty() => {
                malformed("a recommendation needs an example")
            }
            Kind::Context(pairs) if pairs.is_empty() => malformed("a context needs a pair"),
            Kind::ById
            | Kind::OrderBy(_)
            | Kind::Sample { .. }
            | Kind::Nearest(_)
            | Kind::Recommend { .. }
            | Kind::Discover { .. }
            | Kind::Context(_)
            | Kind::Text(_) => Ok(()),
        }
    }
}
