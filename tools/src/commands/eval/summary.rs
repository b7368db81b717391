//! From rankings to rows of results.

use dehub_query::{Measure, Measured, Ranked, Relevant, lorenz, measured, roc, spread, values};

use super::schema::{Curve, CurveStep, Direction, Hub, HubnessAt, Interval, Named, RocCurve, Row, Spread};

/// The depths at which hubness is measured.
const HUB_DEPTHS: [usize; 3] = [1, 5, 10];

/// How many of the best points of a query are kept: all that hubness looks at.
pub(super) const LIMIT: usize = 10;

/// Hubs told of each ranking.
const HUBS: usize = 20;

/// Steps of curves.
const STEPS: usize = 64;

/// The most scores of points that are not relevant, for each query and in all.
const SAMPLE_MAX: usize = 200;
const SAMPLES_MAX: usize = 1_000_000;

/// How many such scores of each query.
pub(super) fn sample_size(queries: usize) -> usize {
    (SAMPLES_MAX / queries.max(1)).clamp(1, SAMPLE_MAX)
}

/// What is told of rankings.
#[derive(Debug, Clone)]
pub(super) struct Telling {
    pub(super) measures: Vec<Measure>,
    pub(super) seed: u64,
    pub(super) rounds: usize,
    pub(super) by_query: bool,
}

/// A ranking with its names.
pub(super) struct Labelled {
    pub(super) method: String,
    pub(super) correction: Option<String>,
    pub(super) ranked: Ranked,
}

/// Who is who in one direction.
pub(super) struct Sides<'a> {
    pub(super) relevant: &'a Relevant,
    pub(super) points: usize,
    /// The ids of all queries.
    pub(super) query_ids: &'a [String],
    /// The id and the text of a point.
    pub(super) point: &'a dyn Fn(u32) -> anyhow::Result<(String, Option<String>)>,
}

/// Tells of rankings, of which the first is raw.
pub(super) fn direction(
    telling: &Telling,
    sides: &Sides<'_>,
    rankings: &[Labelled],
) -> anyhow::Result<Direction> {
    let of_ranking = |it: &Labelled| sides.relevant.ranks(&it.ranked.ranks, sides.points);
    let ranks: Vec<_> = rankings.iter().map(of_ranking).collect();
    let mut rows: Vec<Row> =
        rankings.iter().map(|ranking| row(sides, ranking)).collect::<anyhow::Result<_>>()?;
    let mut relevance: Vec<Named<f64>> = rows.iter().map(|_| Named::default()).collect();
    for &measure in &telling.measures {
        let name = measure.to_string();
        let lists: Vec<Vec<Option<f64>>> = ranks.iter().map(|ranks| values(ranks, measure)).collect();
        let found = measured(&lists, measure, telling.seed, telling.rounds);
        for (place, (found, list)) in found.into_iter().zip(lists).enumerate() {
            if let Some(found) = found {
                relevance[place].0.push((name.clone(), found.value));
                rows[place].intervals.0.push((name.clone(), interval(&found)));
            }
            if telling.by_query {
                rows[place].by_query.get_or_insert_default().0.push((name.clone(), list));
            }
        }
    }
    for (row, relevance) in rows.iter_mut().zip(relevance) {
        row.measures.0.splice(0..0, relevance.0);
    }
    let judged: Vec<&String> = sides
        .query_ids
        .iter()
        .zip(&sides.relevant.is_judged)
        .filter(|(_, judged)| **judged)
        .map(|it| it.0)
        .collect();
    Ok(Direction {
        view: sides.points.to_string(),
        points: sides.points,
        queries: judged.len(),
        unjudged: sides.query_ids.len() - judged.len(),
        query_ids: telling.by_query.then(|| judged.into_iter().cloned().collect()),
        rows,
        ..Direction::default()
    })
}

fn interval(found: &Measured) -> Interval {
    Interval { low: found.low, high: found.high, gain_low: found.gain.0, gain_high: found.gain.1 }
}

/// All that is told of a ranking but measures of relevance.
fn row(sides: &Sides<'_>, ranking: &Labelled) -> anyhow::Result<Row> {
    let Labelled { method, correction, ranked } = ranking;
    let mut measures = Vec::new();
    let mut hubness = Vec::new();
    for k in HUB_DEPTHS {
        let occurrence = ranked.occurrence(sides.points, k);
        let at = HubnessAt {
            k,
            skewness: occurrence.skewness(),
            robin_hood: occurrence.robin_hood(),
            robin_hood_at_random: occurrence.robin_hood_at_random(),
            antihub_share: occurrence.antihub_share(),
            max: occurrence.max(),
            histogram: occurrence.histogram(),
            lorenz: lorenz(&occurrence, STEPS),
        };
        measures.extend([
            (format!("skew{k}"), at.skewness),
            (format!("max{k}"), f64::from(at.max)),
            (format!("anti{k}"), at.antihub_share),
            (format!("RH{k}"), at.robin_hood),
        ]);
        hubness.push(at);
    }
    measures.extend(ranked.active().map(|active| ("active".to_owned(), active)));
    let hub = |(point, count): (u32, u32)| {
        let (id, text) = (sides.point)(point)?;
        Ok(Hub { id, text, count })
    };
    let hubs = ranked.occurrence(sides.points, LIMIT).hubs(HUBS);
    let curve = ranked.pooled.as_ref().and_then(|pooled| roc(pooled, STEPS));
    Ok(Row {
        method: method.clone(),
        correction: correction.clone(),
        measures: Named(measures),
        intervals: Named::default(),
        hubness,
        hubs: hubs.into_iter().map(hub).collect::<anyhow::Result<_>>()?,
        roc: curve.map(|curve| RocCurve { auc: curve.auc, points: curve.points }),
        by_query: None,
    })
}

/// One draw of the parts of a bank: for each size and method a ranking, or none.
pub(super) type Draw = Vec<Vec<Option<Ranked>>>;

/// What draws come to: measures of each of them, kept instead of the rankings.
pub(super) struct Curves<'a> {
    pub(super) telling: &'a Telling,
    pub(super) relevant: &'a Relevant,
    pub(super) points: usize,
    values: Vec<Vec<Vec<Named<f64>>>>,
}

impl<'a> Curves<'a> {
    pub(super) fn new(telling: &'a Telling, relevant: &'a Relevant, points: usize) -> Curves<'a> {
        Curves { telling, relevant, points, values: Vec::new() }
    }

    pub(super) fn add(&mut self, draw: Draw) {
        let of_ranking = |ranked: Option<Ranked>| ranked.map_or(Named::default(), |it| self.measure(&it));
        let of_size = |size: Vec<Option<Ranked>>| size.into_iter().map(of_ranking).collect();
        self.values.push(draw.into_iter().map(of_size).collect());
    }

    fn measure(&self, ranked: &Ranked) -> Named<f64> {
        let ranks = self.relevant.ranks(&ranked.ranks, self.points);
        let occurrence = ranked.occurrence(self.points, LIMIT);
        let mut found = Vec::new();
        for &measure in &self.telling.measures {
            let value = measured(&[values(&ranks, measure)], measure, 0, 0).remove(0);
            found.extend(value.map(|value| (measure.to_string(), value.value)));
        }
        found.push(("skew10".to_owned(), occurrence.skewness()));
        found.push(("RH10".to_owned(), occurrence.robin_hood()));
        Named(found)
    }

    /// A curve for each method.
    pub(super) fn tell(&self, methods: &[String], sizes: &[usize]) -> Vec<Curve> {
        let step = |method: usize, size: usize| {
            let draws: Vec<&Named<f64>> =
                self.values.iter().map(|draw| &draw[size][method]).filter(|it| !it.0.is_empty()).collect();
            let names = draws.first().map_or(&[][..], |first| &first.0[..]);
            let of_name = |(name, _): &(String, f64)| {
                let values: Vec<f64> = draws.iter().filter_map(|draw| draw.get(name).copied()).collect();
                let (mean, deviation) = spread(&values)?;
                Some((name.clone(), Spread { mean, deviation }))
            };
            let measures = Named(names.iter().filter_map(of_name).collect());
            CurveStep { entries: sizes[size], draws: draws.len(), measures }
        };
        let curve = |(place, method): (usize, &String)| Curve {
            method: method.clone(),
            steps: (0..sizes.len()).map(|size| step(place, size)).collect(),
        };
        methods.iter().enumerate().map(curve).collect()
    }
}

/// The sizes of `--bank-sizes`, ascending.
pub(super) fn sizes(asked: &[String], entries: usize) -> anyhow::Result<Vec<usize>> {
    let size = |text: &String| match text.trim() {
        "all" => Ok(entries),
        number => match number.parse::<usize>() {
            Ok(size) if (1..=entries).contains(&size) => Ok(size),
            _ => Err(anyhow::anyhow!(
                "--bank-sizes: wanted whole numbers from 1 to {entries}, the entries of the query bank, or all; \
                 found {text:?}"
            )),
        },
    };
    let mut sizes = asked.iter().map(size).collect::<anyhow::Result<Vec<_>>>()?;
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}
