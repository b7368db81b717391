//! What RocksDB's MANIFEST says about its files, as far as a check of the logs needs it.
//!
//! Each record of it is an *edit*: fields, each a tag and what the tag makes of the bytes after it (RocksDB,
//! `db/version_edit.h`). The edits add up to what belongs to the database.

use std::collections::{BTreeMap, BTreeSet};

const LOG_NUMBER: u64 = 2;
const NEXT_FILE: u64 = 3;
const LAST_SEQUENCE: u64 = 4;
const DELETED_FILE: u64 = 6;
const MIN_LOG_TO_KEEP: u64 = 10;
const NEW_FILE: u64 = 103;
const FAMILY: u64 = 200;
const FAMILY_ADDED: u64 = 201;
const FAMILY_DROPPED: u64 = 202;
/// Tags of one number that does not matter here: the previous log, the most families, an atomic group.
const NUMBERS: [u64; 3] = [9, 203, 300];
/// The comparator's name.
const COMPARATOR: u64 = 1;
/// Tags from here on are followed by a length, so that who does not know them can skip them.
const SKIPPABLE: u64 = 1 << 13;
/// Ends the fields of a new file.
const FILE_END: u64 = 1;

/// The state that the edits lead to.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    families: BTreeMap<u64, Contents>,
    min_log: u64,
    /// Every file has a number below it.
    pub(crate) next_file: u64,
    /// No change in a table file has a greater number; the first change in the logs may be the next one.
    pub(crate) last_sequence: u64,
    /// For each edit that says so: the next file then, and the last change then.
    history: Vec<(u64, u64)>,
    /// An edit was not understood, so what is known here is not all.
    pub(crate) is_partial: bool,
}

/// What belongs to a family.
#[derive(Debug, Default)]
struct Contents {
    /// What older logs hold of the family is in its tables.
    log: u64,
    /// The numbers of its table files.
    tables: BTreeSet<u64>,
    /// The greatest number of a change that ever came into a table; a compaction may forget it.
    flushed: u64,
}

impl Manifest {
    /// Applies the next edit.
    pub(crate) fn apply(&mut self, edit: &[u8]) {
        if self.apply_fields(&mut Fields(edit)).is_none() {
            self.is_partial = true;
        }
    }

    /// Older logs hold nothing that is not in tables.
    pub(crate) fn first_log(&self) -> u64 {
        let needed = self.families.values().map(|family| family.log).min().unwrap_or(0);
        needed.max(self.min_log)
    }

    /// The newest log that it names; 0 if it names none.
    pub(crate) fn last_log(&self) -> u64 {
        self.families.values().map(|family| family.log).max().unwrap_or(0).max(self.min_log)
    }

    /// The greatest number of a change that is older than the log `log`, as far as it is known.
    pub(crate) fn before_log(&self, log: u64) -> u64 {
        // What a family has in tables came from older logs than the one it names.
        let older = self.families.values().filter(|family| family.log <= log);
        let in_tables = older.map(|family| family.flushed).max().unwrap_or(0);
        // What was the last change when the log was not there is not in it. A MANIFEST begins with what the one before
        // it said, which may be of a time with other logs, and tells no next file for that.
        let earlier = self.history.iter().filter(|(next_file, _)| (1..=log).contains(next_file));
        let at_edits = earlier.map(|(_, last)| *last).max().unwrap_or(0);
        in_tables.max(at_edits)
    }

    /// Whether a table file is part of the database.
    pub(crate) fn has_table(&self, number: u64) -> bool {
        self.families.values().any(|family| family.tables.contains(&number))
    }

    fn apply_fields(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        let mut family = 0;
        let (mut log, mut deleted, mut added) = (None, Vec::new(), Vec::new());
        let (mut is_dropped, mut is_dated) = (false, false);
        while !fields.0.is_empty() {
            match fields.number()? {
                LOG_NUMBER => log = Some(fields.number()?),
                NEXT_FILE => self.next_file = fields.number()?,
                LAST_SEQUENCE => {
                    self.last_sequence = fields.number()?;
                    is_dated = true;
                }
                MIN_LOG_TO_KEEP => self.min_log = self.min_log.max(fields.number()?),
                DELETED_FILE => {
                    let _level = fields.number()?;
                    deleted.push(fields.number()?);
                }
                NEW_FILE => added.push(fields.file()?),
                FAMILY => family = fields.number()?,
                FAMILY_DROPPED => is_dropped = true,
                tag if NUMBERS.contains(&tag) => {
                    fields.number()?;
                }
                tag if [COMPARATOR, FAMILY_ADDED].contains(&tag) || tag >= SKIPPABLE => {
                    fields.bytes()?;
                }
                _ => return None,
            }
        }
        if is_dated {
            self.history.push((self.next_file, self.last_sequence));
        }
        if is_dropped {
            self.families.remove(&family);
            return Some(());
        }
        let contents = self.families.entry(family).or_default();
        contents.log = log.unwrap_or(contents.log);
        deleted.iter().for_each(|number| {
            contents.tables.remove(number);
        });
        for (number, last_change) in added {
            contents.tables.insert(number);
            contents.flushed = contents.flushed.max(last_change);
        }
        Some(())
    }
}

/// The rest of an edit.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// A number in groups of seven bits, the lowest first.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Bytes after their length.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A new table file: its number, and the greatest number of a change in it.
    fn file(&mut self) -> Option<(u64, u64)> {
        let _level = self.number()?;
        let number = self.number()?;
        let _size = self.number()?;
        let _smallest = self.bytes()?;
        let _largest = self.bytes()?;
        let _first_change = self.number()?;
        let last_change = self.number()?;
        while self.number()? != FILE_END {
            self.bytes()?;
        }
        Some((number, last_change))
    }
}
