//! Bringing the index of texts up to date.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use dehub_store::FailPoint;
use dehub_text::{Index, Mark, TextError, Writing};

use super::{TextSearchError, Texts};
use crate::record::{META, TEXT_CHANGED_PREFIX, read_text_changed, text_changed_key};
use crate::{Collection, ReadError, Snapshot};

/// Rows whose texts are read at a time.
const PIECE: usize = 1024;

/// New rows that are committed together, so that an index of many is not begun anew when it is interrupted.
const COMMIT_ROWS: usize = 65_536;

impl Collection {
    /// Brings the index of texts up to date with every acknowledged write, and gives the number of the newest commit
    /// that is in it; `None` where there are no fields of texts. One that is missing or damaged is made anew.
    pub fn refresh_text(&self) -> Result<Option<u64>, TextSearchError> {
        let snapshot = self.writer.published();
        snapshot.texts.as_ref().map(|texts| texts.catch_up(&snapshot)).transpose()
    }

    /// Whether a write is acknowledged that the index of texts does not know of.
    pub fn is_text_behind(&self) -> bool {
        let snapshot = self.writer.published();
        snapshot.text_sequence().is_some_and(|known| known < snapshot.sequence())
    }

    /// Makes the index of texts anew.
    pub(crate) fn rebuild_text(&self) -> Result<Option<u64>, TextSearchError> {
        let snapshot = self.writer.published();
        let Some(texts) = &snapshot.texts else { return Ok(None) };
        let mut held = texts.index.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Some(Index::create(&texts.folder, &texts.fields)?);
        drop(held);
        texts.known.store(0, Ordering::Release);
        texts.catch_up(&snapshot).map(Some)
    }
}

impl Texts {
    /// Compares every file of the index with its checksum, and gives the rows in it.
    pub(crate) fn check(&self) -> Result<Vec<u32>, TextSearchError> {
        let _nobody_writes = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        // Opened again: what is open already is mapped, whatever became of the files.
        let index = Index::open(&self.folder, &self.fields)?.ok_or(TextSearchError::NotReady)?;
        Ok(index.read()?.rows().collect())
    }

    /// Takes in all that a snapshot of the whole collection has. An index that is damaged is made anew.
    pub(super) fn catch_up(&self, snapshot: &Snapshot) -> Result<u64, TextSearchError> {
        let mut held = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        match self.catch_up_held(&mut held, snapshot) {
            Err(TextSearchError::Text(error @ TextError::Damaged { .. })) => {
                tracing::warn!(%error, "made anew");
                *held = Some(Index::create(&self.folder, &self.fields)?);
                self.catch_up_held(&mut held, snapshot)
            }
            outcome => outcome,
        }
    }

    fn catch_up_held(&self, held: &mut Option<Index>, snapshot: &Snapshot) -> Result<u64, TextSearchError> {
        let known = self.known.load(Ordering::Acquire);
        if self.reader.load().is_some() && known >= snapshot.sequence() {
            return Ok(known);
        }
        // What fails leaves no index behind, so that the next one looks at the folder again.
        let index = match held.take() {
            Some(index) => index,
            None => self.open()?,
        };
        let (index, mark) = match index.mark()? {
            Some(mark) if self.is_before(&mark, snapshot) => (index, mark),
            // Of no commit, or of commits that were lost: their numbers and rows are given again.
            Some(_) | None => {
                let mark = Mark { identity: self.identity, sequence: 0, next_row: 0 };
                (Index::create(&self.folder, &self.fields)?, mark)
            }
        };
        self.take_in(&index, mark, snapshot)?;
        self.known.store(snapshot.sequence(), Ordering::Release);
        *held = Some(index);
        Ok(snapshot.sequence())
    }

    fn open(&self) -> Result<Index, TextSearchError> {
        self.sweep();
        let found = Index::open(&self.folder, &self.fields)?;
        Ok(found.map_or_else(|| Index::create(&self.folder, &self.fields), Ok)?)
    }

    fn is_before(&self, mark: &Mark, snapshot: &Snapshot) -> bool {
        mark.identity == self.identity
            && mark.sequence <= snapshot.sequence()
            && mark.next_row <= snapshot.row_count()
    }

    fn take_in(&self, index: &Index, mark: Mark, snapshot: &Snapshot) -> Result<(), TextSearchError> {
        let reader = index.read()?;
        let gone: Vec<u32> = reader.rows().filter(|&row| !snapshot.is_live(row)).collect();
        let changed = changed_rows(snapshot, mark)?;
        let new: Vec<u32> =
            (mark.next_row..snapshot.row_count()).filter(|&row| snapshot.is_live(row)).collect();
        if gone.is_empty() && changed.is_empty() && new.is_empty() && mark.sequence > 0 {
            self.reader.store(Some(Arc::new(reader)));
            self.kept.store(mark.sequence, Ordering::Release);
            return Ok(());
        }
        drop(reader);
        let mut writing = index.write()?;
        gone.iter().for_each(|&row| writing.remove(row));
        self.put(&mut writing, snapshot, &changed, true)?;
        for rows in new.chunks(COMMIT_ROWS) {
            self.put(&mut writing, snapshot, rows, false)?;
            if let Some(last) = rows.last().filter(|_| rows.len() == COMMIT_ROWS) {
                writing.commit(Mark { next_row: last + 1, ..mark })?;
            }
        }
        FailPoint::TextsWritten.reach();
        let (sequence, next_row) = (snapshot.sequence(), snapshot.row_count());
        writing.commit(Mark { sequence, next_row, ..mark })?;
        FailPoint::TextsCommitted.reach();
        self.reader.store(Some(Arc::new(index.read()?)));
        self.kept.store(sequence, Ordering::Release);
        Ok(writing.finish()?)
    }

    /// Takes in the texts of rows, in place of those they had or as the first of theirs.
    fn put(
        &self,
        writing: &mut Writing<'_>,
        snapshot: &Snapshot,
        rows: &[u32],
        is_change: bool,
    ) -> Result<(), TextSearchError> {
        for rows in rows.chunks(PIECE) {
            for (&row, point) in rows.iter().zip(snapshot.points(rows)?) {
                let texts = self.texts_of(&point)?;
                let texts = texts.iter().map(|(name, text)| (*name, text.as_str()));
                if is_change {
                    writing.put(row, texts)?;
                } else {
                    writing.add(row, texts)?;
                }
            }
        }
        Ok(())
    }
}

/// The rows that an index has whose payloads changed since.
fn changed_rows(snapshot: &Snapshot, mark: Mark) -> Result<Vec<u32>, ReadError> {
    let from = text_changed_key(mark.sequence + 1, 0);
    let mut rows = Vec::new();
    for item in snapshot.view.scan(META, &from, None) {
        let (key, _) = item?;
        if !key.starts_with(TEXT_CHANGED_PREFIX) {
            break;
        }
        let (_, row) = read_text_changed(&key)?;
        rows.extend((row < mark.next_row && snapshot.is_live(row)).then_some(row));
    }
    rows.sort_unstable();
    rows.dedup();
    Ok(rows)
}
