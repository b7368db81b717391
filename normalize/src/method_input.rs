//! A method as it is asked for: its temperature may be left to the data.

use std::str::FromStr;

use crate::method::parse_label;
use crate::{Method, MethodError};

/// The parameter that stands for a temperature.
const PERPLEXITY: &str = "perplexity";

/// A method whose inverse temperature is given, or to be found from a perplexity: see
/// [`crate::beta_of_perplexity`]. `IS(perplexity=64)` takes the β at which 64 bank entries make a point's bias.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MethodInput {
    /// With its default temperature if there is a perplexity.
    method: Method,
    perplexity: Option<f64>,
}

impl MethodInput {
    /// A method by `name` (any case) with the parameters given; the others take their defaults.
    pub fn new(name: &str, parameters: &[(String, f64)]) -> Result<MethodInput, MethodError> {
        let mut others = parameters.to_vec();
        others.retain(|(parameter, _)| parameter != PERPLEXITY);
        let method = Method::new(name, &others)?;
        let mut input = MethodInput { method, perplexity: None };
        let mut given = parameters.iter().filter(|(parameter, _)| parameter == PERPLEXITY);
        let Some(&(_, perplexity)) = given.next() else { return Ok(input) };
        let name = method.name();
        // Refused as any parameter is that the method does not have.
        let Some(temperature) = method.temperature() else {
            return Method::new(name, parameters).map(Into::into);
        };
        if given.next().is_some() || others.iter().any(|(own, _)| temperature.is_called(own)) {
            return Err(MethodError::TwoTemperatures { method: name, parameter: temperature.name });
        }
        if !(perplexity > 1.0 && perplexity.is_finite()) {
            let (found, wanted) =
                (perplexity.to_string(), "a number above 1 and below the number of bank entries");
            return Err(MethodError::BadValue { method: name, parameter: PERPLEXITY, found, wanted });
        }
        input.perplexity = Some(perplexity);
        Ok(input)
    }

    /// The perplexity its temperature is to be found from.
    pub fn perplexity(&self) -> Option<f64> {
        self.perplexity
    }

    /// The method, with the temperature that `beta` finds for the perplexity, to three digits.
    pub fn resolve<E>(&self, beta: impl FnOnce(f64) -> Result<f64, E>) -> Result<Method, E> {
        match self.perplexity {
            None => Ok(self.method),
            Some(perplexity) => Ok(self.method.with_inverse_temperature(beta(perplexity)?)),
        }
    }

    /// What was found, for people: `perplexity 64 is beta 17.3 here`. `None` if nothing was to be found.
    pub fn note(&self, resolved: &Method) -> Option<String> {
        let (name, value) = resolved.parameters().next()?;
        self.perplexity.map(|perplexity| format!("perplexity {perplexity} is {name} {value} here"))
    }

    /// The method with its default temperature if that is still to be found; what else it is made of is so
    /// already.
    pub fn method(&self) -> Method {
        self.method
    }
}

impl From<Method> for MethodInput {
    fn from(method: Method) -> MethodInput {
        MethodInput { method, perplexity: None }
    }
}

impl FromStr for MethodInput {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<MethodInput, MethodError> {
        let (name, parameters) = parse_label(text)?;
        MethodInput::new(name, &parameters)
    }
}
