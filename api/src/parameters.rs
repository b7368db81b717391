//! The parameters of a query string: each is known, and given once.

use std::time::Duration;

use actix_web::web;

use crate::errors::{INVALID_VALUE, UNKNOWN_PARAMETER};
use crate::problem::Problem;

/// Allows the parameter `wait` to make the work a job.
pub(crate) const WAIT_OR_NOT: &str = "wait?";

/// The time that a request has, which every path takes.
pub(crate) const TIMEOUT: &str = "timeout";

/// Whether a write waits until what it changed is found by words.
const REFRESH: &str = "refresh";

/// What a write of points takes.
pub(crate) const WRITE: &[&str] = &["wait", REFRESH];

/// The parameters of one request.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads a query string that may have the parameters `allowed`, and `timeout`. Only where `wait` is allowed as
    /// [`WAIT_OR_NOT`] does `false` make a difference.
    pub(crate) fn parse(text: &str, allowed: &[&str]) -> Result<Parameters, Problem> {
        let pairs = web::Query::<Vec<(String, String)>>::from_query(text)
            .map_err(|error| Problem::new(INVALID_VALUE, format!("the query string: {error}")))?
            .into_inner();
        for (place, (name, _)) in pairs.iter().enumerate() {
            let names: Vec<&str> = allowed.iter().map(|name| name.trim_end_matches('?')).collect();
            let is_ordering = name == "ordering" && names.contains(&"wait");
            if name != TIMEOUT && !names.contains(&name.as_str()) && !is_ordering {
                let others = names.iter().filter(|known| **known != TIMEOUT);
                let known = others.copied().chain([TIMEOUT]).collect::<Vec<_>>().join(", ");
                let detail = format!("the parameter `{name}` is not known here, wanted {known}");
                return Err(Problem::new(UNKNOWN_PARAMETER, detail).in_parameter(name).wanted(known));
            }
            if pairs[..place].iter().any(|(earlier, _)| earlier == name) {
                let detail = format!("the parameter `{name}` is given twice");
                return Err(Problem::new(INVALID_VALUE, detail).in_parameter(name));
            }
        }
        let parameters = Parameters(pairs);
        // Whatever is asked for is given: the writes of a collection are made one after the other.
        if let Some(found) = parameters.text("ordering")
            && !["weak", "medium", "strong"].contains(&found)
        {
            return Err(parameters.refused("ordering", found, "weak, medium or strong"));
        }
        if let Some(found) = parameters.text(REFRESH)
            && !["true", "false"].contains(&found)
        {
            return Err(parameters.refused(REFRESH, found, "true or false"));
        }
        match parameters.text("wait") {
            None | Some("true") => Ok(parameters),
            Some("false") if allowed.contains(&WAIT_OR_NOT) => Ok(parameters),
            Some(found) if allowed.contains(&WAIT_OR_NOT) => {
                Err(parameters.refused("wait", found, "true or false"))
            }
            // More than is asked for: a write is answered when it is on disk, and says so.
            Some("false") => Ok(parameters),
            Some(found) => Err(parameters.refused("wait", found, "true or false")),
        }
    }

    /// Whether the client waits for the end of the work.
    pub(crate) fn waits(&self) -> bool {
        self.text("wait") != Some("false")
    }

    /// Whether the client waits until what it writes is found by words.
    pub(crate) fn refreshes(&self) -> bool {
        self.text(REFRESH) == Some("true")
    }

    /// A parameter as text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Problem> {
        let missing = || Problem::new(INVALID_VALUE, format!("the parameter `{name}` is missing"));
        self.text(name).ok_or_else(|| missing().in_parameter(name))
    }

    /// A parameter as a whole number.
    pub(crate) fn whole(&self, name: &str) -> Result<Option<usize>, Problem> {
        let read = |text: &str| text.parse().map_err(|_| self.refused(name, text, "a whole number from 0"));
        self.text(name).map(read).transpose()
    }

    /// A parameter as a time in seconds, which may have a fraction.
    pub(crate) fn seconds(&self, name: &str) -> Result<Option<Duration>, Problem> {
        let read = |text: &str| {
            let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let wanted = "a number of seconds above 0";
            time.filter(|time| !time.is_zero()).ok_or_else(|| self.refused(name, text, wanted))
        };
        self.text(name).map(read).transpose()
    }

    /// The refusal of a value.
    pub(crate) fn refused(&self, name: &str, found: &str, wanted: &str) -> Problem {
        let detail = format!("the parameter `{name}` is `{found}`, wanted {wanted}");
        Problem::new(INVALID_VALUE, detail).in_parameter(name).wanted(wanted).found(found)
    }
}
