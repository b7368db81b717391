//! Where in its body the parts of a write are.

use dehub_index::{FitInput, Name, WriteError};
use dehub_query::BankKind;

use crate::errors::kind_field;

/// What a write was made of, and so where in its body the parts are.
pub(crate) enum Written<'a> {
    /// Nothing but what the path names.
    Path,
    /// `{"points": [{"id", "vector", …}]}`
    Points,
    /// `{"batch": {"ids", "vectors", …}}`
    Batch,
    /// `{"points": [ids]}`
    Ids,
    /// Rows of JSON lines or of a table, with the numbers they have in the body.
    Rows(&'a [u64]),
    /// `{"points": [ids]}` or `{"filter": …}`, with what to make of payloads.
    Payloads,
    /// `{"vectors": […], "ids": […]}` of a bank.
    Bank,
    /// `{"from_gallery": true}` of a bank.
    FromGallery,
    /// `{"correction", …}` of the default or of the quarantine.
    Choice,
    /// A correction, and where the parameter in question is.
    Fit(&'a FitInput, &'static str),
}

impl Written<'_> {
    /// What the engine says. It counts within what it was given, so of a later batch it is said where that begins.
    pub(crate) fn detail(&self, error: &WriteError) -> String {
        match self {
            Written::Rows([first, ..]) if *first > 0 => format!("of the rows from {first} on, {error}"),
            Written::Rows(_)
            | Written::Path
            | Written::Points
            | Written::Batch
            | Written::Ids
            | Written::Payloads
            | Written::Bank
            | Written::FromGallery
            | Written::Choice
            | Written::Fit(..) => error.to_string(),
        }
    }

    pub(crate) fn weight(&self, place: usize) -> String {
        match self {
            Written::Rows(rows) => row_field(rows, place, "weight"),
            Written::Bank
            | Written::Path
            | Written::Points
            | Written::Batch
            | Written::Ids
            | Written::Payloads
            | Written::FromGallery
            | Written::Choice
            | Written::Fit(..) => format!("/weights/{place}"),
        }
    }

    pub(crate) fn vector(&self, place: usize) -> String {
        match self {
            Written::Points => format!("/points/{place}/vector"),
            Written::Batch => format!("/batch/vectors/{place}"),
            Written::Rows(rows) => row_field(rows, place, "vector"),
            Written::Bank => format!("/vectors/{place}"),
            Written::Path
            | Written::Ids
            | Written::Payloads
            | Written::FromGallery
            | Written::Choice
            | Written::Fit(..) => self.list().to_owned(),
        }
    }

    /// A vector of a name.
    pub(crate) fn named(&self, place: usize, name: Option<&Name>) -> String {
        let Some(name) = name else { return self.vector(place) };
        match self {
            Written::Points => format!("/points/{place}/vector/{name}"),
            Written::Batch => format!("/batch/vectors/{name}/{place}"),
            Written::Rows(rows) => row_field(rows, place, &format!("vector/{name}")),
            Written::Path
            | Written::Ids
            | Written::Payloads
            | Written::Bank
            | Written::FromGallery
            | Written::Choice
            | Written::Fit(..) => self.list().to_owned(),
        }
    }

    pub(crate) fn id(&self, place: usize) -> String {
        match self {
            Written::Points => format!("/points/{place}/id"),
            Written::Batch => format!("/batch/ids/{place}"),
            Written::Ids | Written::Payloads => format!("/points/{place}"),
            Written::Bank => format!("/ids/{place}"),
            Written::Rows(rows) => row_field(rows, place, "id"),
            Written::Path | Written::FromGallery | Written::Choice | Written::Fit(..) => {
                self.list().to_owned()
            }
        }
    }

    pub(crate) fn text(&self, place: usize) -> String {
        match self {
            Written::Batch => format!("/batch/texts/{place}"),
            Written::Points => format!("/points/{place}/text"),
            Written::Rows(rows) => row_field(rows, place, "text"),
            Written::Path
            | Written::Ids
            | Written::Payloads
            | Written::Bank
            | Written::FromGallery
            | Written::Choice
            | Written::Fit(..) => self.list().to_owned(),
        }
    }

    /// The list that the write is made of, or the whole body.
    pub(crate) fn list(&self) -> &'static str {
        match self {
            Written::Points | Written::Ids | Written::Payloads => "/points",
            Written::Batch => "/batch",
            Written::Bank => "/vectors",
            Written::FromGallery => "/from_gallery",
            Written::Rows(_) => "/rows",
            Written::Path | Written::Choice | Written::Fit(..) => "",
        }
    }

    /// The field of a correction that names this bank.
    pub(crate) fn bank_field(&self, bank: &Name) -> Option<&'static str> {
        match self {
            Written::Fit(input, _) if input.query_bank.as_ref() == Some(bank) => Some("/query_bank"),
            Written::Fit(..) => Some("/gallery_bank"),
            Written::Path
            | Written::Points
            | Written::Batch
            | Written::Ids
            | Written::Rows(_)
            | Written::Payloads
            | Written::Bank
            | Written::Choice
            | Written::FromGallery => None,
        }
    }

    /// The field that says of which kind a bank is.
    pub(crate) fn kind(&self, wanted: BankKind) -> &'static str {
        match self {
            Written::Fit(..) => kind_field(wanted),
            Written::Path
            | Written::Points
            | Written::Batch
            | Written::Ids
            | Written::Rows(_)
            | Written::Payloads
            | Written::Bank
            | Written::FromGallery
            | Written::Choice => "/kind",
        }
    }

    /// The field that names a correction, if it is not in the path.
    pub(crate) fn correction(&self) -> Option<&'static str> {
        match self {
            Written::Points | Written::Batch => Some("/alarm/correction"),
            Written::Choice => Some("/correction"),
            Written::Path
            | Written::Ids
            | Written::Rows(_)
            | Written::Payloads
            | Written::Bank
            | Written::FromGallery
            | Written::Fit(..) => None,
        }
    }

    /// The field of a rate of false alarms.
    pub(crate) fn rate(&self) -> &'static str {
        match self {
            Written::Points | Written::Batch => "/alarm/rate",
            Written::Choice => "/rate",
            Written::Path
            | Written::Ids
            | Written::Rows(_)
            | Written::Payloads
            | Written::Bank
            | Written::FromGallery
            | Written::Fit(..) => "",
        }
    }

    pub(crate) fn k_field(&self) -> &'static str {
        match self {
            Written::Fit(_, pointer) => pointer,
            Written::Path
            | Written::Points
            | Written::Batch
            | Written::Ids
            | Written::Rows(_)
            | Written::Payloads
            | Written::Bank
            | Written::Choice
            | Written::FromGallery => "",
        }
    }
}

fn row_field(rows: &[u64], place: usize, field: &str) -> String {
    rows.get(place).map_or_else(|| "/rows".to_owned(), |row| format!("/rows/{row}/{field}"))
}
