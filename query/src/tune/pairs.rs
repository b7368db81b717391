//! The self-test of a bank whose entries have known answers.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;

use dehub_eval::{Gain, Kind, Measure, Qrels};
use dehub_index::{Collection, FitInput, Name, Snapshot};
use dehub_vector::Vector;

use super::resample::Draws;
use super::{QUERIES_MIN, Ranked, TuneError, TuneOptions, TuneReport, check_rounds, report};
use crate::evaluate::query_values;
use crate::hubness::Found;
use crate::query::BATCH_QUERIES_MAX;
use crate::{LabelledQuery, QueryError};

/// Parts the pairs are cut in. Each is asked of corrections that are fitted without it.
const FOLDS: usize = 5;

/// Chooses among corrections by pairs: judgements of a bank's entries, under their ids.
///
/// The entries are cut in five parts. Those of a part are asked as judged queries of corrections fitted from
/// the other four, so that every entry is asked once. They must be left out of the fit: an entry raises the
/// biases of the points near it, that of its answer above all. So a correction that has seen it ranks it as
/// it ranks no new query: too well where the bias is nearly that one entry (no point can score above 0, and
/// the answer does score 0), and too badly where it is one of many. An entry that is bit for bit another one
/// is left out with it.
///
/// What is chosen is a method for the bank less a fifth; it is as good for all of the bank if its entries
/// are like the queries to come.
pub fn tune_by_pairs(
    collection: &Collection,
    inputs: &[FitInput],
    bank: &Name,
    pairs: &Qrels,
    options: &TuneOptions,
) -> Result<TuneReport, TuneError> {
    if inputs.is_empty() {
        return Err(TuneError::NoCorrections);
    }
    check_rounds(options)?;
    let folds = Folds::new(&collection.snapshot(), bank, pairs, options.seed)?;
    let (snapshot, fitted) = collection.rehearse_without(inputs, bank, &folds.excluded)?;
    if snapshot.is_empty() {
        return Err(QueryError::NoPoints.into());
    }
    let k = options.k.min(snapshot.len());
    let depth = u32::try_from(k).ok().and_then(NonZeroU32::new);
    let measure = Measure::at(Kind::Ndcg(Gain::Linear), depth.ok_or(QueryError::Limit { found: k })?);
    let mut lists = vec![Vec::new(); inputs.len() + 1];
    let mut values = vec![Vec::new(); inputs.len() + 1];
    for (queries, corrections) in folds.queries.iter().zip(&fitted) {
        let fitted = corrections.iter().map(|correction| Some((correction, 1.0)));
        let found: Vec<Found<'_>> = std::iter::once(None).chain(fitted).collect();
        let measured = query_values(&snapshot, queries, pairs, &found, measure, k)?;
        for (ranking, measured) in measured.into_iter().enumerate() {
            lists[ranking].extend(measured.lists);
            values[ranking].extend(measured.values);
        }
    }
    let methods = inputs.iter().map(|input| input.method.to_string()).collect();
    let ranked: Ranked = (lists, Some(values));
    report(snapshot.len(), methods, ranked, k, options)
}

struct Folds {
    queries: Vec<Vec<LabelledQuery>>,
    excluded: Vec<HashSet<u32>>,
}

impl Folds {
    fn new(snapshot: &Snapshot, bank: &Name, pairs: &Qrels, seed: u64) -> Result<Folds, TuneError> {
        let entries = snapshot.entries_spread(bank, usize::MAX);
        let ids = snapshot.bank_ids(bank);
        let judged = |((_, vector), id): (&(u32, Vector), &Option<dehub_vector::PointId>)| {
            let id = id.as_ref()?.to_string();
            pairs.contains(&id).then(|| LabelledQuery { id, vector: vector.clone(), text: None })
        };
        let paired: Vec<LabelledQuery> = entries.iter().zip(&ids).filter_map(judged).collect();
        let found = paired.len();
        if found < QUERIES_MIN {
            return Err(TuneError::TooFewPairs { bank: bank.clone(), found });
        }
        if found > BATCH_QUERIES_MAX {
            return Err(QueryError::BatchTooLarge { found }.into());
        }
        let bits = |vector: &Vector| vector.as_slice().iter().map(|it| it.to_bits()).collect::<Vec<_>>();
        let mut equal: HashMap<Vec<u32>, Vec<u32>> = HashMap::new();
        for (entry, vector) in &entries {
            equal.entry(bits(vector)).or_default().push(*entry);
        }
        let mut order: Vec<u32> = (0..).take(found).collect();
        Draws::new(seed, 4, 0).shuffle(&mut order, found);
        let mut folds = Folds { queries: vec![Vec::new(); FOLDS], excluded: vec![HashSet::new(); FOLDS] };
        for (place, &pair) in order.iter().enumerate() {
            let query = paired[pair as usize].clone();
            folds.excluded[place % FOLDS].extend(equal.get(&bits(&query.vector)).into_iter().flatten());
            folds.queries[place % FOLDS].push(query);
        }
        Ok(folds)
    }
}
