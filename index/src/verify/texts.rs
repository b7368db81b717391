//! The index of texts against the texts of points.

use super::Verifier;
use crate::ReadError;
use crate::record::{META, POINTS, read_point, read_u32};
use crate::row_set::RowSet;
use crate::texts::{self, Texts};

impl Verifier<'_> {
    pub(super) fn texts(&mut self) -> Result<(), ReadError> {
        if self.state.role.name().is_some() {
            return Ok(());
        }
        let (state, folder) = (self.state, &self.collection.folder);
        let stored = texts::read(self.view, folder, state.identity)?;
        let fields = |texts: Option<&Texts>| texts.map(|texts| texts.fields().clone());
        if fields(stored.as_ref()) != fields(state.texts.as_deref()) {
            self.report.differ(META.name(), "texts", "the fields in memory", "others");
        }
        let Some(texts) = &state.texts else { return Ok(()) };
        // It may be behind: what it does not know of yet is no difference.
        let checked = self.collection.refresh_text().map_err(|error| error.to_string());
        let found = checked.and_then(|_| texts.check().map_err(|error| error.to_string()));
        let found: RowSet = match found {
            Ok(rows) => rows.into_iter().collect(),
            Err(error) => {
                self.report.differ("texts", texts.place(), "a whole index", error);
                self.report.repairs.texts = true;
                return Ok(());
            }
        };
        let before = self.report.own_differences();
        for item in self.view.scan(POINTS, &[], None) {
            let (key, value) = item?;
            let row = read_u32(POINTS, &key)?;
            let has_texts = !texts.texts_of(&read_point(&value)?)?.is_empty();
            self.report.looked_at(u64::from(has_texts));
            // One that was deleted meanwhile is not in the index, and is looked at by the next check.
            let is_live = state.live.contains(row) && self.collection.snapshot().is_live(row);
            if is_live && has_texts != found.contains(row) {
                let (wanted, found) = if has_texts { ("its texts", "none") } else { ("no texts", "some") };
                self.report.differ("texts", row, wanted, found);
            }
        }
        self.report.repairs.texts = self.report.own_differences() > before;
        Ok(())
    }
}
