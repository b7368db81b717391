//! Temperatures found from the data.

use dehub_normalize::{BankKind, Method, MethodInput, PERPLEXITY_POINTS_MAX, beta_of_perplexity};

use crate::{Name, Snapshot, WriteError};

impl Snapshot {
    /// The method as it is fitted here: a perplexity becomes the inverse temperature that gives it over the
    /// query bank, taken over at most [`PERPLEXITY_POINTS_MAX`] points, evenly spread.
    pub fn resolve(&self, input: &MethodInput, query_bank: Option<&Name>) -> Result<Method, WriteError> {
        input.resolve(|perplexity| {
            let method = input.method().name();
            let kind = BankKind::Query;
            let Some(name) = query_bank else {
                return Err(WriteError::NoBank { method: method.to_owned(), kind });
            };
            let Some((info, vectors)) = self.banks.get(name) else {
                let found: Vec<_> = self.banks.keys().map(Name::as_str).collect();
                let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
                return Err(WriteError::UnknownBank { bank: name.clone(), found });
            };
            if info.kind != kind {
                return Err(WriteError::BankKind { bank: name.clone(), wanted: kind, found: info.kind });
            }
            let rows: Vec<u32> = self.live.iter().collect();
            let taken = rows.len().min(PERPLEXITY_POINTS_MAX);
            let mut points = self.vectors.empty_like();
            (0..taken).for_each(|place| points.push(self.vector(rows[place * rows.len() / taken])));
            let bank = vectors.fit(self.config.metric);
            beta_of_perplexity(&points, bank, perplexity)
                .map_err(|source| WriteError::Perplexity { method, source })
        })
    }
}
