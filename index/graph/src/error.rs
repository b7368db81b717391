//! Why a file is no segment.

use std::io;

/// Why a segment could not be opened. The file is derived data: it is set aside and built anew.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// It could not be read or mapped.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It does not start as a segment does.
    #[error("it does not start as a graph segment")]
    NotASegment,
    /// It was written in a form this version does not know.
    #[error("it is a graph segment of version {found}, wanted {wanted}")]
    Version {
        /// What this version reads.
        wanted: u32,
        /// What the file says.
        found: u32,
    },
    /// It ends early, or goes on after its end.
    #[error("it has {found} bytes, its {section} ends at {wanted}")]
    Length {
        /// The part of the file.
        section: &'static str,
        /// Where that part should end.
        wanted: u64,
        /// The bytes there are.
        found: u64,
    },
    /// A part is not what was written.
    #[error("the checksum of its {section} does not match")]
    Checksum {
        /// The part of the file.
        section: &'static str,
    },
    /// A part holds numbers that no graph has.
    #[error("its {section} is not that of a graph: {what}")]
    Inconsistent {
        /// The part of the file.
        section: &'static str,
        /// What is wrong.
        what: &'static str,
    },
}
