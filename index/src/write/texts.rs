//! Fields of texts, and notes of what changed in them.

use std::sync::Arc;

use super::Draft;
use crate::record::{META, TEXT_CHANGED_PREFIX, TEXTS_KEY, read_text_changed, text_changed_key, to_json};
use crate::texts::{TextRecord, Texts, check, sweep};
use crate::{Collection, ReadError, Receipt, TextFields, WriteError};

/// Notes that one write takes back, so that none takes long.
const NOTES_MAX: usize = 4096;

impl Collection {
    /// Makes points found by the words of these fields, in place of those there were; none ends it. Returns when the
    /// index of them is made. Writes do not wait for that, and searches by words are refused meanwhile.
    pub fn set_text_fields(&self, fields: &TextFields) -> Result<Receipt, WriteError> {
        check(fields)?;
        let receipt = self.write(|draft| draft.set_text_fields(fields, self))?;
        if fields.is_empty() {
            sweep(&self.folder, None);
        }
        self.refresh_text()?;
        Ok(receipt)
    }
}

impl Draft<'_> {
    fn set_text_fields(
        &mut self,
        fields: &TextFields,
        collection: &Collection,
    ) -> Result<Receipt, WriteError> {
        let sequence = self.next.counters.sequence;
        let receipt = Receipt { sequence, added: fields.len(), replaced: 0, deleted: 0 };
        if fields.is_empty() {
            self.next.texts = None;
            self.visible.delete(META, TEXTS_KEY);
            self.take_back_notes(u64::MAX, usize::MAX)?;
            return Ok(receipt);
        }
        // Fields that are as they were keep their index.
        if self.next.texts.as_ref().is_none_or(|texts| texts.fields() != fields) {
            let texts = Texts::new(fields.clone(), &collection.folder, self.next.identity);
            self.next.texts = Some(Arc::new(texts.map_err(crate::TextFieldsError::from)?));
            self.visible.put(META, TEXTS_KEY, &to_json(&TextRecord { fields: fields.clone() }));
        }
        Ok(receipt)
    }

    /// Notes that the texts of a row may have changed, if anybody wants to know.
    pub(super) fn note_text_change(&mut self, row: u32) {
        if self.next.texts.is_some() {
            self.visible.put(META, &text_changed_key(self.next.counters.sequence, row), &[]);
        }
    }

    /// Takes back notes that the index of texts has heeded.
    pub(super) fn take_back_heeded_notes(&mut self) -> Result<(), ReadError> {
        match self.next.texts.as_ref().map(|texts| texts.kept()) {
            Some(kept) => self.take_back_notes(kept, NOTES_MAX),
            None => Ok(()),
        }
    }

    fn take_back_notes(&mut self, up_to: u64, at_most: usize) -> Result<(), ReadError> {
        let view = self.store.view();
        for item in view.scan_prefix(META, TEXT_CHANGED_PREFIX).take(at_most) {
            let (key, _) = item?;
            if read_text_changed(&key)?.0 > up_to {
                break;
            }
            self.visible.delete(META, &key);
        }
        Ok(())
    }
}
