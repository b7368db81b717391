//! The readable form of losses, for command lines and reports.
//!
//! A loss in this form is the JSON that serde has of it, written otherwise: so every parameter is read and printed, and
//! none is named twice in the code.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::Loss;
use crate::LossError;

/// What a loss may be called.
const NAMES: [&str; 10] = [
    "mw",
    "infonce",
    "decoupled",
    "soft_topk",
    "partial_ranking",
    "psl",
    "sl_at_k",
    "soft_infonce",
    "pick_some_label",
    "pairwise",
];

/// Why a text is no loss.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LossTextError {
    /// No loss has this name.
    #[error("loss, part {part}: wanted one of {}, found {found:?}", NAMES.join(", "))]
    Name {
        /// Which part of the sum, from 1.
        part: usize,
        /// The name given.
        found: String,
    },
    /// What stands before the `*` is no number.
    #[error("loss, part {part}: wanted a number before the *, found {found:?}")]
    Weight {
        /// Which part of the sum, from 1.
        part: usize,
        /// What stands there.
        found: String,
    },
    /// The loss has no such parameter, or has it twice.
    #[error(
        "loss, part {part}: wanted {loss} with each of {wanted} once at most, as name=value, found {found:?}"
    )]
    Parameter {
        /// Which part of the sum, from 1.
        part: usize,
        /// The loss's name.
        loss: String,
        /// The parameters it has.
        wanted: String,
        /// What was given.
        found: String,
    },
    /// The value is of another kind than the parameter.
    #[error("loss, part {part}: wanted another value of {loss}'s {parameter}: {reason}")]
    Value {
        /// Which part of the sum, from 1.
        part: usize,
        /// The loss's name.
        loss: String,
        /// The parameter's name.
        parameter: String,
        /// What was wanted and found.
        reason: String,
    },
    /// A number is one that the parameter cannot be.
    #[error(transparent)]
    Refused(#[from] LossError),
}

impl FromStr for Loss {
    type Err = LossTextError;

    fn from_str(text: &str) -> Result<Loss, LossTextError> {
        let parts = parts(text);
        let mut read = Vec::with_capacity(parts.len());
        for (number, part) in (1..).zip(&parts) {
            read.push(weighted(number, part)?);
        }
        let loss = match read.as_slice() {
            [(None, loss)] => loss.clone(),
            _ => Loss::Mixed(read.into_iter().map(|(weight, loss)| (weight.unwrap_or(1.0), loss)).collect()),
        };
        loss.check()?;
        Ok(loss)
    }
}

/// The terms of a sum. The plus of an exponent, as in `1e+3`, is none between terms.
fn parts(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let is_exponent = |plus: usize| {
        plus >= 2 && bytes[plus - 1].eq_ignore_ascii_case(&b'e') && bytes[plus - 2].is_ascii_digit()
    };
    let mut parts = Vec::new();
    let mut start = 0;
    for (plus, _) in text.match_indices('+').filter(|&(plus, _)| !is_exponent(plus)) {
        parts.push(text[start..plus].trim());
        start = plus + 1;
    }
    parts.push(text[start..].trim());
    parts
}

/// A loss with the weight before it, if there is one.
fn weighted(part: usize, text: &str) -> Result<(Option<f64>, Loss), LossTextError> {
    let Some((weight, loss)) = text.split_once('*') else { return Ok((None, single(part, text)?)) };
    let found = weight.trim();
    match found.parse() {
        Ok(weight) => Ok((Some(weight), single(part, loss.trim())?)),
        Err(_) => Err(LossTextError::Weight { part, found: found.to_owned() }),
    }
}

fn single(part: usize, text: &str) -> Result<Loss, LossTextError> {
    let (name, given) = match text.split_once(':') {
        Some((name, given)) => (name.trim(), Some(given)),
        None => (text, None),
    };
    if !NAMES.contains(&name) {
        return Err(LossTextError::Name { part, found: name.to_owned() });
    }
    let known = parameters(&read(part, name, Map::new(), "defaults")?);
    let mut values = Map::new();
    for item in given.into_iter().flat_map(|given| given.split(',')) {
        let refused = || LossTextError::Parameter {
            part,
            loss: name.to_owned(),
            wanted: known.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
            found: item.trim().to_owned(),
        };
        let (parameter, value) = item.split_once('=').ok_or_else(refused)?;
        let (parameter, value) = (parameter.trim(), value_of(value.trim()));
        if !known.contains_key(parameter) || values.contains_key(parameter) {
            return Err(refused());
        }
        // Alone first, so that the error is known to be about this one.
        read(part, name, Map::from_iter([(parameter.to_owned(), value.clone())]), parameter)?;
        values.insert(parameter.to_owned(), value);
    }
    read(part, name, values, "parameters")
}

/// The loss of this name with these parameters.
fn read(part: usize, name: &str, values: Map<String, Value>, parameter: &str) -> Result<Loss, LossTextError> {
    let named = Map::from_iter([(name.to_owned(), Value::Object(values))]);
    serde_json::from_value(Value::Object(named)).map_err(|error| LossTextError::Value {
        part,
        loss: name.to_owned(),
        parameter: parameter.to_owned(),
        reason: error.to_string(),
    })
}

/// A value as JSON has it.
fn value_of(text: &str) -> Value {
    if text == "none" {
        return Value::Null;
    }
    if let Ok(value) = text.parse::<bool>() {
        return Value::Bool(value);
    }
    if let Ok(value) = text.parse::<u64>() {
        return Value::from(value);
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Value::from(value),
        Ok(_) | Err(_) => Value::from(text),
    }
}

/// All parameters of a loss that is no mixture.
fn parameters(loss: &Loss) -> Map<String, Value> {
    let value = serde_json::to_value(loss).unwrap_or_default();
    value.get(loss.name()).and_then(Value::as_object).cloned().unwrap_or_default()
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loss::Mixed(parts) = self else { return f.write_str(&printed(self)) };
        let of_part = |(weight, loss): &(f64, Loss)| match *weight == 1.0 && parts.len() > 1 {
            true => loss.to_string(),
            false => format!("{weight}*{loss}"),
        };
        f.write_str(&parts.iter().map(of_part).collect::<Vec<_>>().join(" + "))
    }
}

/// The name, and what differs from the defaults.
fn printed(loss: &Loss) -> String {
    let defaults =
        read(1, loss.name(), Map::new(), "defaults").map(|loss| parameters(&loss)).unwrap_or_default();
    let mut items = Vec::new();
    for (name, value) in parameters(loss) {
        if defaults.get(&name) != Some(&value) {
            let value = match value {
                Value::String(text) => text,
                Value::Null => "none".to_owned(),
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
            };
            items.push(format!("{name}={value}"));
        }
    }
    match items.is_empty() {
        true => loss.name().to_owned(),
        false => format!("{}:{}", loss.name(), items.join(",")),
    }
}
