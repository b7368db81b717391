//! Losses in words: `0.5*mw:temperature=0.1 + infonce:both_ways=true`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::Loss;

/// Words that are no loss.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LossNameError {
    /// No such loss.
    #[error(
        "there is no loss `{found}`: wanted mw, infonce, decoupled, soft-top-k, cprd, psl, sl@k, soft-infonce, \
         pick-some, pairwise, or a sum of such with weights, as `0.5*mw + infonce`"
    )]
    Unknown {
        /// What was given.
        found: String,
    },
    /// A parameter that the loss has not, or that is of another kind.
    #[error("{loss}: {reason}")]
    Parameter {
        /// The loss.
        loss: String,
        /// What is wrong.
        reason: String,
    },
    /// Words of another form.
    #[error("`{found}` is no loss: wanted NAME, NAME:PARAMETER=VALUE,…, or WEIGHT*NAME + …")]
    Form {
        /// What was given.
        found: String,
    },
}

impl FromStr for Loss {
    type Err = LossNameError;

    fn from_str(text: &str) -> Result<Loss, LossNameError> {
        let parts: Vec<&str> = text.split('+').map(str::trim).collect();
        if let [only] = parts[..]
            && !only.contains('*')
        {
            return one(only);
        }
        let part = |text: &&str| {
            let (weight, name) = text.split_once('*').unwrap_or(("1", text));
            let form = || LossNameError::Form { found: (*text).to_owned() };
            let weight: f64 = weight.trim().parse().map_err(|_| form())?;
            if !(weight > 0.0 && weight.is_finite()) {
                return Err(form());
            }
            Ok((weight, one(name.trim())?))
        };
        Ok(Loss::Mixed(parts.iter().map(part).collect::<Result<_, _>>()?))
    }
}

fn one(text: &str) -> Result<Loss, LossNameError> {
    let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
    let mut given = Map::new();
    for pair in parameters.split(',').filter(|pair| !pair.trim().is_empty()) {
        let form = || LossNameError::Form { found: text.to_owned() };
        let (key, value) = pair.split_once('=').ok_or_else(form)?;
        let value = value.trim();
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        if given.insert(key.trim().to_owned(), value).is_some() {
            let reason = format!("`{}` is given twice", key.trim());
            return Err(LossNameError::Parameter { loss: name.to_owned(), reason });
        }
    }
    let loss = match name {
        "mw" => Loss::MannWhitney(read(name, given)?),
        "infonce" => Loss::InfoNce(read(name, given)?),
        "decoupled" => Loss::DecoupledSoftmax(read(name, given)?),
        "soft-top-k" => Loss::SoftTopK(read(name, given)?),
        "cprd" => Loss::PartialRanking(read(name, given)?),
        "psl" => Loss::Psl(read(name, given)?),
        "sl@k" => Loss::SlAtK(read(name, given)?),
        "soft-infonce" => Loss::SoftInfoNce(read(name, given)?),
        "pick-some" => Loss::PickSomeLabel(read(name, given)?),
        "pairwise" => Loss::Pairwise(read(name, given)?),
        found => return Err(LossNameError::Unknown { found: found.to_owned() }),
    };
    Ok(loss)
}

/// Parameters that are to be above 0.
const POSITIVE: [&str; 7] =
    ["temperature", "outer", "weight_temperature", "likeness_temperature", "alpha", "k", "positives"];

/// Reads parameters. Numbers are finite as JSON has no others, and from 0; some are above it.
fn read<T: DeserializeOwned>(loss: &str, given: Map<String, Value>) -> Result<T, LossNameError> {
    let wrong = |reason: String| LossNameError::Parameter { loss: loss.to_owned(), reason };
    for (key, value) in &given {
        let Some(number) = value.as_f64() else { continue };
        let is_above = number > 0.0 || (number == 0.0 && !POSITIVE.contains(&key.as_str()));
        if !is_above {
            let wanted = if POSITIVE.contains(&key.as_str()) { "above 0" } else { "from 0" };
            return Err(wrong(format!("{key} is {number}, wanted a number {wanted}")));
        }
    }
    serde_json::from_value(Value::Object(given)).map_err(|error| wrong(error.to_string()))
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::MannWhitney(loss) => spell(f, "mw", loss),
            Loss::InfoNce(loss) => spell(f, "infonce", loss),
            Loss::DecoupledSoftmax(loss) => spell(f, "decoupled", loss),
            Loss::SoftTopK(loss) => spell(f, "soft-top-k", loss),
            Loss::PartialRanking(loss) => spell(f, "cprd", loss),
            Loss::Psl(loss) => spell(f, "psl", loss),
            Loss::SlAtK(loss) => spell(f, "sl@k", loss),
            Loss::SoftInfoNce(loss) => spell(f, "soft-infonce", loss),
            Loss::PickSomeLabel(loss) => spell(f, "pick-some", loss),
            Loss::Pairwise(loss) => spell(f, "pairwise", loss),
            Loss::Mixed(parts) => {
                for (place, (weight, part)) in parts.iter().enumerate() {
                    write!(f, "{}{weight}*{part}", if place > 0 { " + " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

/// The name, and the parameters that are not what they are by default.
fn spell<T: Serialize + Default>(f: &mut fmt::Formatter<'_>, name: &str, loss: &T) -> fmt::Result {
    f.write_str(name)?;
    let fields = |loss: &T| match serde_json::to_value(loss) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Map::new(),
    };
    let default = fields(&T::default());
    let given = fields(loss).into_iter().filter(|(key, value)| default.get(key) != Some(value));
    for (place, (key, value)) in given.enumerate() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        write!(f, "{}{key}={value}", if place == 0 { ":" } else { "," })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{InfoNce, MannWhitney};

    #[test]
    fn a_loss_is_read_as_it_is_printed() {
        for text in [
            "mw",
            "mw:temperature=0.1,per_query=true",
            "mw:hardest=32",
            "infonce:both_ways=true",
            "infonce:adaptive=true,margin=0.2",
            "decoupled:temperature=1.0",
            "soft-top-k:k=3",
            "cprd:hard=4",
            "psl:activation=atan",
            "sl@k:k=10",
            "soft-infonce:beta=2.0",
            "pick-some:positives=2",
            "pairwise:kind=hinge,margin=1.0",
            "0.5*mw + 1*infonce:both_ways=true",
        ] {
            let loss: Loss = text.parse().expect(text);
            let again: Loss = loss.to_string().parse().expect("as printed");
            assert_eq!(again, loss, "{text} is printed as {loss}");
        }
        let mixed: Loss = "0.5*mw + infonce".parse().expect("a sum");
        let parts =
            vec![(0.5, Loss::MannWhitney(MannWhitney::default())), (1.0, Loss::InfoNce(InfoNce::default()))];
        assert_eq!(mixed, Loss::Mixed(parts));
    }

    #[test]
    fn what_is_no_loss_is_told() {
        for (text, wanted) in [
            ("triplet", "there is no loss `triplet`"),
            ("mw:tau=1", "unknown field `tau`"),
            ("mw:temperature=0", "temperature is 0, wanted a number above 0"),
            ("infonce:margin=-1", "margin is -1, wanted a number from 0"),
            ("mw:temperature=1e999", "invalid type"),
            ("mw:temperature", "wanted NAME"),
            ("mw:temperature=1,temperature=2", "`temperature` is given twice"),
            ("-1*mw", "wanted NAME"),
            ("psl:activation=sin", "unknown variant"),
            ("", "there is no loss ``"),
            ("mw +", "there is no loss ``"),
        ] {
            let error = text.parse::<Loss>().expect_err(text).to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
