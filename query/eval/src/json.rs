//! JSON of the form `{"query": {"document": number}}`, as ranx writes runs and judgements.

use std::fmt;
use std::io::Read;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

/// What takes the entries of a file.
pub(crate) trait Sink<N> {
    /// A query begins.
    fn query(&mut self, query: &str);
    /// It has a document with a number.
    fn entry(&mut self, query: &str, document: &str, number: N);
}

/// Reads the object and hands over each number with its query and document. Keys that are written twice come twice.
pub(crate) fn read<N: for<'de> Deserialize<'de>>(
    input: impl Read,
    sink: &mut impl Sink<N>,
) -> Result<(), serde_json::Error> {
    let mut input = serde_json::Deserializer::from_reader(input);
    input.deserialize_map(Queries { sink, number: PhantomData })?;
    input.end()
}

struct Queries<'a, S, N> {
    sink: &'a mut S,
    number: PhantomData<N>,
}

impl<'de, S: Sink<N>, N: Deserialize<'de>> Visitor<'de> for Queries<'_, S, N> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of queries")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(query) = map.next_key::<String>()? {
            if query.is_empty() {
                return Err(M::Error::custom("the id of a query is empty"));
            }
            self.sink.query(&query);
            map.next_value_seed(Documents { query: &query, sink: &mut *self.sink, number: PhantomData })?;
        }
        Ok(())
    }
}

struct Documents<'a, S, N> {
    query: &'a str,
    sink: &'a mut S,
    number: PhantomData<N>,
}

impl<'de, S: Sink<N>, N: Deserialize<'de>> DeserializeSeed<'de> for Documents<'_, S, N> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de, S: Sink<N>, N: Deserialize<'de>> Visitor<'de> for Documents<'_, S, N> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object of the documents of query {:?}", self.query)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(document) = map.next_key::<String>()? {
            if document.is_empty() {
                return Err(M::Error::custom(format!(
                    "query {:?}: the id of a document is empty",
                    self.query
                )));
            }
            self.sink.entry(self.query, &document, map.next_value()?);
        }
        Ok(())
    }
}
