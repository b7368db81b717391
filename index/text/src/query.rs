//! What is asked of texts.

use std::collections::BTreeMap;

use crate::{TextError, TextField};

/// Different terms of a query in one field.
pub const QUERY_TERMS_MAX: usize = 1024;

/// The largest weight of a field.
const WEIGHT_MAX: f32 = 1000.0;

/// Words to find.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextQuery {
    /// The words, which each field analyses as it does its texts.
    pub text: String,
    /// The fields to look in, each with the weight of its score; none means every field, with weight 1.
    pub fields: Vec<(String, f32)>,
    /// Whether a field's texts have to hold all of the query's terms, rather than any, to count.
    pub all_words: bool,
}

/// The terms of a query in one field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldTerms<'a> {
    pub(crate) name: &'a str,
    pub(crate) field: TextField,
    pub(crate) weight: f32,
    /// Each once, with how often the query has it, in the order of first appearance.
    pub(crate) terms: Vec<(String, f32)>,
}

impl TextQuery {
    /// A query for any of some words in every field.
    pub fn new(text: impl Into<String>) -> TextQuery {
        TextQuery { text: text.into(), ..TextQuery::default() }
    }

    /// Its terms in each of the fields that it asks, of those there are.
    ///
    /// # Errors
    /// [`TextError::UnknownField`], [`TextError::Weight`] and [`TextError::TooManyTerms`].
    pub(crate) fn terms<'a>(
        &self,
        fields: &'a BTreeMap<String, TextField>,
    ) -> Result<Vec<FieldTerms<'a>>, TextError> {
        let all = || fields.keys().map(|name| (name.clone(), 1.0)).collect::<Vec<_>>();
        let asked = if self.fields.is_empty() { all() } else { self.fields.clone() };
        let mut found: Vec<FieldTerms<'_>> = Vec::new();
        for (name, weight) in asked {
            let Some((own, field)) = fields.get_key_value(&name) else {
                let names: Vec<&str> = fields.keys().map(String::as_str).collect();
                let list = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(TextError::UnknownField { asked: name, found: list });
            };
            // Not a number is not within the bound either.
            let is_within = weight > 0.0 && weight <= WEIGHT_MAX;
            if !is_within {
                return Err(TextError::Weight { field: name, found: weight });
            }
            let terms = counted(field.analyzer.terms(&self.text));
            if terms.len() > QUERY_TERMS_MAX {
                let found = terms.len();
                return Err(TextError::TooManyTerms { field: name, found, most: QUERY_TERMS_MAX });
            }
            match found.iter_mut().find(|earlier| earlier.name == own) {
                Some(earlier) => earlier.weight += weight,
                None => found.push(FieldTerms { name: own, field: *field, weight, terms }),
            }
        }
        Ok(found)
    }

    /// Whether it can be asked of these fields.
    ///
    /// # Errors
    /// [`TextError::UnknownField`], [`TextError::Weight`] and [`TextError::TooManyTerms`].
    pub fn check(&self, fields: &BTreeMap<String, TextField>) -> Result<(), TextError> {
        self.terms(fields).map(|_| ())
    }
}

fn counted(terms: Vec<String>) -> Vec<(String, f32)> {
    let mut counted: Vec<(String, f32)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for term in terms {
        match places.get(&term).and_then(|&place| counted.get_mut(place)) {
            Some((_, count)) => *count += 1.0,
            None => {
                places.insert(term.clone(), counted.len());
                counted.push((term, 1.0));
            }
        }
    }
    counted
}
