//! The default correction: set with a verdict, cleared, and kept what it was judged as.

use dehub_normalize::BankKind;

use super::Draft;
use super::corrections::{FitInput, unknown_correction};
use crate::record::{DEFAULT_KEY, META, to_json};
use crate::{DefaultCorrection, DefaultEvidence, Name, WriteError};

impl Draft<'_> {
    pub(crate) fn set_default(&mut self, default: &DefaultCorrection) -> Result<(), WriteError> {
        let correction = default.correction.clone();
        let Some(record) = self.next.corrections.get(&correction) else {
            return Err(unknown_correction(&self.next, &correction));
        };
        let reason = match &default.evidence {
            _ if default.forced => None,
            None => Some("nothing was measured".to_owned()),
            Some(evidence) => (!evidence.approved).then(|| evidence.reason.clone()),
        };
        if let Some(reason) = reason {
            return Err(WriteError::Vetoed { correction, reason });
        }
        if record.version != default.version {
            let (judged, found) = (default.version, record.version);
            return Err(WriteError::CorrectionChanged { correction, judged, found });
        }
        self.visible.put(META, DEFAULT_KEY, &to_json(default));
        self.next.default = Some(default.clone());
        Ok(())
    }

    /// Fits a correction and makes it the default.
    pub(crate) fn fit_as_default(
        &mut self,
        input: &FitInput,
        evidence: Option<&DefaultEvidence>,
        forced: bool,
    ) -> Result<DefaultCorrection, WriteError> {
        // What was the default may become another method, as that is what is judged now.
        self.next.default = None;
        self.fit(std::slice::from_ref(input))?;
        let version = self.next.corrections.get(&input.name).map_or(0, |record| record.version);
        let default = DefaultCorrection {
            correction: input.name.clone(),
            version,
            evidence: evidence.cloned(),
            forced,
        };
        self.set_default(&default)?;
        Ok(default)
    }

    /// Tells whether there was a default.
    pub(crate) fn clear_default(&mut self) -> bool {
        self.visible.delete(META, DEFAULT_KEY);
        self.next.default.take().is_some()
    }

    /// Whether a correction may be dropped.
    pub(super) fn check_unused(&self, name: &Name) -> Result<(), WriteError> {
        let in_use =
            |used_as, remedy| WriteError::CorrectionInUse { correction: name.clone(), used_as, remedy };
        if self.next.default.as_ref().is_some_and(|default| default.correction == *name) {
            return Err(in_use(
                "the default of the collection",
                "clear the default first (dehub default COLLECTION --clear, or DELETE …/default)",
            ));
        }
        if self.next.quarantine.rule.as_ref().is_some_and(|rule| rule.correction == *name) {
            return Err(in_use(
                "what new points are tested by",
                "end the test first (dehub quarantine COLLECTION off, or DELETE …/quarantine)",
            ));
        }
        Ok(())
    }

    /// Whether a fit leaves the default what it was judged as, and what new points are tested by a method
    /// with biases.
    pub(super) fn check_kept(&self, input: &FitInput) -> Result<(), WriteError> {
        let is_tested_by =
            self.next.quarantine.rule.as_ref().is_some_and(|rule| rule.correction == input.name);
        if is_tested_by && input.method.scorer().is_some() {
            let method = input.method.to_string();
            return Err(WriteError::NoBiases { correction: input.name.clone(), method });
        }
        let is_default = self.next.default.as_ref().is_some_and(|default| default.correction == input.name);
        let Some(record) = self.next.corrections.get(&input.name).filter(|_| is_default) else {
            return Ok(());
        };
        let used = |bank: &Option<Name>, kind| bank.clone().filter(|_| input.method.uses(kind));
        let is_same = record.method == input.method.to_string()
            && record.query_bank == used(&input.query_bank, BankKind::Query)
            && record.gallery_bank == used(&input.gallery_bank, BankKind::Gallery);
        if is_same { Ok(()) } else { self.check_unused(&input.name) }
    }
}
