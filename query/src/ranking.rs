//! What the points are ranked by, and the exact ranking itself: the one path that searches, hubness,
//! evaluation and tuning share.

use dehub_index::{
    Answer, Column, Correction, Question, Scope, Scored, ScoredAnswer, Snapshot, TimeUp, Variant, Walked,
};
use dehub_vector::Candidate;

/// The rankings a query may turn out to need. Without a gate there is one. With gates the first is
/// the raw one, to look at the gates with, and there is one more for each way of being open that
/// differs from raw. A correction whose score is no weighted sum has none of these and ranks itself.
pub(crate) struct Rankings<'a> {
    pub(crate) variants: Vec<Variant<'a>>,
    /// Such a correction.
    pub(crate) scored: Option<&'a Correction>,
    /// For gated corrections.
    gated: Option<Gated<'a>>,
}

struct Gated<'a> {
    correction: &'a Correction,
    /// The variant of each way of being open, gate 0 in the lowest bit.
    variant_of: Vec<usize>,
}

impl<'a> Rankings<'a> {
    pub(crate) fn new(found: Option<(&'a Correction, f32)>) -> Rankings<'a> {
        Rankings::boosted(found, &[])
    }

    /// The same with priors, which a correction with a scorer of its own takes none of. A gate looks at the raw best
    /// without them.
    pub(crate) fn boosted(
        found: Option<(&'a Correction, f32)>,
        priors: &[(&'a Column, f32)],
    ) -> Rankings<'a> {
        let Some((correction, weight)) = found else {
            return Rankings { variants: vec![Variant::raw().boosted(priors)], gated: None, scored: None };
        };
        if correction.scorer().is_some() {
            return Rankings { variants: Vec::new(), gated: None, scored: Some(correction) };
        }
        let variant = |open: Vec<bool>| correction.variant(&open, weight).boosted(priors);
        let openings = correction.openings().into_iter().map(variant);
        if !correction.is_gated() {
            return Rankings { variants: openings.collect(), gated: None, scored: None };
        }
        let mut variants = vec![Variant::raw()];
        let mut variant_of = Vec::new();
        for variant in openings {
            if variant.is_raw() {
                variant_of.push(0);
            } else {
                variant_of.push(variants.len());
                variants.push(variant);
            }
        }
        Rankings { variants, gated: Some(Gated { correction, variant_of }), scored: None }
    }

    /// Which of the variants a query is ranked by, given its best point under the first of them, and
    /// whether any gate is open, if there are gates.
    pub(crate) fn choose(&self, first_best: Option<u32>) -> (usize, Option<bool>) {
        let Some(Gated { correction, variant_of }) = &self.gated else { return (0, None) };
        let open = correction.open(first_best);
        let bits = open.iter().enumerate().map(|(gate, &open)| usize::from(open) << gate).sum::<usize>();
        (variant_of[bits], Some(open.contains(&true)))
    }

    /// What a query is ranked by, of the answers to all variants.
    pub(crate) fn of_answers(&self, mut answers: Vec<Answer>) -> Ranked {
        let (variant, gate_open) = self.choose(answers[0].best.first().map(|best| best.row));
        let Answer { best, ranks } = answers.swap_remove(variant);
        Ranked { variant: Some(variant), best, ranks, gate_open }
    }

    /// The best points of a query by `walk`, of which an argument says how wide it is, and whether any gate is
    /// open, if there are gates.
    ///
    /// A narrow raw walk tells as a rule which variant to walk by, and that walk, as it meets the same part of
    /// the graph, what the raw best is. Where the two disagree on the gates, there is one more walk.
    pub(crate) fn walk(&self, walk: impl Fn(&Variant<'a>, Beam) -> Walked) -> Ranked {
        let is_gated = self.gated.is_some();
        let mut nearest = if is_gated { walk(&self.variants[0], Beam::Narrow).raw_best } else { None };
        loop {
            let (variant, gate_open) = self.choose(nearest.map(|nearest| nearest.row));
            let Walked { best, raw_best, .. } = walk(&self.variants[variant], Beam::Whole);
            let before = nearest;
            nearest = nearest.max(raw_best);
            // What is met twice is no news, so this ends.
            if nearest == before || self.choose(nearest.map(|nearest| nearest.row)).0 == variant {
                return Ranked { variant: Some(variant), best, ranks: Vec::new(), gate_open };
            }
        }
    }
}

/// How wide a walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beam {
    /// Wide enough to tell the raw best as a rule.
    Narrow,
    /// As planned.
    Whole,
}

/// The best points of one query by one ranking.
pub(crate) struct Ranked {
    /// Which variant it was ranked by; `None` if by none.
    pub(crate) variant: Option<usize>,
    /// Best first.
    pub(crate) best: Vec<Candidate>,
    /// The rank of each target, from 1.
    pub(crate) ranks: Vec<u32>,
    /// Whether any gate was open, if there are gates.
    pub(crate) gate_open: Option<bool>,
}

impl Ranked {
    pub(crate) fn scored(best: &[Scored], ranks: Vec<u32>) -> Ranked {
        let best = best.iter().map(|scored| Candidate::new(scored.served(), scored.row)).collect();
        Ranked { variant: None, best, ranks, gate_open: None }
    }
}

/// Ranks every live point for every query under each of `tables`: a list of those for each query. The
/// affine ones are found in one pass. `left_out` is as for [`Snapshot::scan_scored`].
pub(crate) fn rank_exactly(
    snapshot: &Snapshot,
    question: &Question<'_>,
    left_out: &[Option<u32>],
    tables: &[Rankings<'_>],
) -> Vec<Vec<Ranked>> {
    let ranked = rank_within(snapshot, &snapshot.scope(), question, left_out, tables);
    ranked.expect("the scope has no deadline")
}

/// The same for the points of a scope. A gate looks at the raw best of them.
pub(crate) fn rank_within(
    snapshot: &Snapshot,
    scope: &Scope,
    question: &Question<'_>,
    left_out: &[Option<u32>],
    tables: &[Rankings<'_>],
) -> Result<Vec<Vec<Ranked>>, TimeUp> {
    let variants: Vec<_> = tables.iter().flat_map(|table| table.variants.iter().cloned()).collect();
    let affine = if variants.is_empty() {
        vec![Vec::new(); question.vectors.len()]
    } else {
        snapshot.scan_within(scope, question, &variants)?
    };
    let scan = |table: &Rankings<'_>| {
        let scan = |correction| snapshot.scan_scored(scope, question, correction, left_out);
        Ok(table.scored.map(scan).transpose()?.map(Vec::into_iter))
    };
    let mut scored = tables.iter().map(scan).collect::<Result<Vec<_>, TimeUp>>()?;
    let rank = |mut answers: Vec<Answer>| {
        let rank = |(table, scored): (&Rankings<'_>, &mut Option<std::vec::IntoIter<ScoredAnswer>>)| {
            if let Some(scored) = scored {
                let ScoredAnswer { best, ranks } = scored.next().unwrap_or_default();
                return Ranked::scored(&best, ranks);
            }
            let rest = answers.split_off(table.variants.len());
            table.of_answers(std::mem::replace(&mut answers, rest))
        };
        tables.iter().zip(&mut scored).map(rank).collect()
    };
    Ok(affine.into_iter().map(rank).collect())
}
