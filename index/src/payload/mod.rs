//! A point's payload: a JSON object kept as text. Paths into it, changes to it, and columns of its fields.

mod change;
mod column;
mod moment;
mod path;
mod postings;
mod scalar;
mod serving;

use serde_json::{Map, Value};

use crate::record::{DamagedRecord, POINTS, damaged};

pub use change::{PayloadChange, PayloadChanged};
pub use column::{FieldKind, FieldKindError, PAYLOAD_INDEXES_MAX, PayloadColumn};
pub(crate) use column::{FieldRecord, PayloadColumns};
pub use moment::moment;
pub use path::{PATH_BYTES_MAX, PathError, PathStep, PayloadPath};
pub use postings::{Postings, words};
pub use scalar::{FieldValue, GeoPoint, Scalar};

/// The largest payload of a point, in bytes of JSON.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// A JSON object, as compact text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(Box<str>);

/// Text that is no payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// Not a JSON object.
    #[error("the payload is not a JSON object: {reason}")]
    NotAnObject {
        /// What the parser says.
        reason: String,
    },
    /// Larger than [`PAYLOAD_BYTES_MAX`].
    #[error("the payload has {found} bytes, wanted at most {PAYLOAD_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        found: usize,
    },
}

impl Payload {
    /// Reads a JSON object; kept without insignificant white space.
    pub fn parse(json: &str) -> Result<Payload, PayloadError> {
        let object: Map<String, Value> = serde_json::from_str(json)
            .map_err(|error| PayloadError::NotAnObject { reason: error.to_string() })?;
        Payload::of(object)
    }

    /// Keeps an object.
    pub fn of(object: Map<String, Value>) -> Result<Payload, PayloadError> {
        let compact = Value::Object(object).to_string();
        if compact.len() > PAYLOAD_BYTES_MAX {
            return Err(PayloadError::TooLarge { found: compact.len() });
        }
        Ok(Payload(compact.into()))
    }

    /// What the store kept; it was parsed when it was written.
    pub(crate) fn stored(json: &str) -> Payload {
        Payload(json.into())
    }

    /// The object. What is no JSON is not what was written.
    pub(crate) fn read(&self) -> Result<Map<String, Value>, DamagedRecord> {
        serde_json::from_str(&self.0).map_err(|error| damaged(POINTS, format!("a payload: {error}")))
    }

    /// The object as JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}
