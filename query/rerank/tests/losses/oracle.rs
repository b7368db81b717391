//! Every loss from its formula, as plainly as it can be written.

use dehub_rerank::{
    Activation, InfoNce, Label, Loss, MannWhitney, Pairwise, PartialRanking, Psl, SlAtK, SoftInfoNce,
    SoftTopK, Surrogate, Weighting,
};

use crate::Case;

/// The value of a loss at `scores`; what the loss takes as constant is taken from the scores of the case. `None` if
/// there is nothing to compare. Scores must be small, as exponentials are taken as they are.
pub(crate) fn value(loss: &Loss, case: &Case, scores: &[f64]) -> Option<f64> {
    let rows: Vec<Row> = (0..case.rows()).map(|row| Row::of_row(case, row)).collect();
    let both = rows.iter().filter(|row| !row.positives.is_empty() && !row.negatives.is_empty());
    let over_rows = |of_row: &dyn Fn(&Row) -> f64| mean(both.clone().map(of_row));
    match loss {
        Loss::MannWhitney(loss) => mann_whitney(loss, case, &rows, scores),
        Loss::InfoNce(loss) => info_nce(loss, case, scores),
        Loss::DecoupledSoftmax(loss) => over_rows(&|row| decoupled(row, scores, loss.temperature, 0.0)),
        Loss::SoftTopK(loss) => {
            let is_open = |row: &&Row| row.all().len() > loss.k;
            both.clone().find(is_open)?;
            over_rows(&|row| if is_open(&row) { soft_top_k(loss, row, scores) } else { 0.0 })
        }
        Loss::PartialRanking(loss) => {
            mean(rows.iter().filter_map(|row| partial_ranking(loss, case, row, scores)))
        }
        Loss::Psl(loss) => over_rows(&|row| psl(loss, row, scores)),
        Loss::SlAtK(loss) => over_rows(&|row| sl_at_k(loss, case, row, scores)),
        Loss::SoftInfoNce(loss) => over_rows(&|row| soft_info_nce(loss, case, row, scores)),
        // All positives are drawn, so all columns are in the pool.
        Loss::PickSomeLabel(loss) => over_rows(&|row| full_softmax(row, scores, loss.temperature, 0.0)),
        Loss::Pairwise(loss) => over_rows(&|row| pairwise(loss, row, scores)),
        Loss::Mixed(parts) => {
            parts.iter().map(|(weight, part)| Some(weight * value(part, case, scores)?)).sum::<Option<f64>>()
        }
        other => panic!("{} has no oracle", other.name()),
    }
}

#[derive(Debug, Clone)]
struct Row {
    positives: Vec<usize>,
    negatives: Vec<usize>,
}

impl Row {
    fn of(case: &Case, places: impl Iterator<Item = usize> + Clone) -> Row {
        let of_kind = |kind| places.clone().filter(|&place| case.labels[place] == kind).collect();
        Row { positives: of_kind(Label::Positive), negatives: of_kind(Label::Negative) }
    }

    fn of_row(case: &Case, row: usize) -> Row {
        Row::of(case, row * case.columns..(row + 1) * case.columns)
    }

    fn all(&self) -> Vec<usize> {
        [self.positives.clone(), self.negatives.clone()].concat()
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn logistic(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

fn over_positives(row: &Row, of_positive: impl Fn(usize) -> f64) -> f64 {
    mean(row.positives.iter().map(|&positive| of_positive(positive))).expect("a positive")
}

fn mann_whitney(loss: &MannWhitney, case: &Case, rows: &[Row], scores: &[f64]) -> Option<f64> {
    let chosen = |row: &Row| {
        let mut negatives = row.negatives.clone();
        negatives.sort_by(|&a, &b| case.scores[b].total_cmp(&case.scores[a]).then(a.cmp(&b)));
        negatives.truncate(loss.hardest.unwrap_or(usize::MAX));
        negatives
    };
    let (mut sum, mut weights) = (0.0, 0.0);
    for of_positives in rows {
        for of_negatives in rows {
            let negatives = chosen(of_negatives);
            for &positive in &of_positives.positives {
                for &negative in &negatives {
                    let weight = match loss.weighting {
                        Weighting::Pairs => 1.0,
                        Weighting::Queries => 1.0 / (of_positives.positives.len() * negatives.len()) as f64,
                    };
                    let z = (scores[negative] - scores[positive]) / loss.temperature;
                    sum += weight * (1.0 + z.exp()).ln();
                    weights += weight;
                }
            }
        }
    }
    (weights > 0.0).then_some(sum / weights)
}

fn info_nce(loss: &InfoNce, case: &Case, scores: &[f64]) -> Option<f64> {
    let is_full = |row: &Row| !row.positives.is_empty() && !row.negatives.is_empty();
    let rows = (0..case.rows()).map(|row| Row::of_row(case, row)).filter(is_full);
    let (temperature, margin) = match loss.adaptive {
        None => (loss.temperature, loss.margin),
        Some(probability) => mada_cos(loss, case, &rows.clone().collect::<Vec<_>>(), probability),
    };
    let over_rows = mean(rows.map(|row| full_softmax(&row, scores, temperature, margin)))?;
    if !loss.both_ways {
        return Some(over_rows);
    }
    let columns = (0..case.columns).map(|column| Row::of(case, (column..scores.len()).step_by(case.columns)));
    let over_columns =
        mean(columns.filter(is_full).map(|column| decoupled(&column, scores, temperature, margin)))?;
    Some((over_rows + over_columns) / 2.0)
}

/// The temperature and the margin of CFCD's code, with floors of our own.
fn mada_cos(loss: &InfoNce, case: &Case, rows: &[Row], probability: f64) -> (f64, f64) {
    let mut of_positives: Vec<(f64, f64)> = Vec::new();
    let all: Vec<f64> = rows.iter().flat_map(|row| &row.positives).map(|&at| case.scores[at]).collect();
    let Some(median) = median(all) else { return (loss.temperature, loss.margin) };
    let scale = (9_999_999.0 * (1.0 - probability) / probability).ln() / (1.0 - median);
    let scale = if median < 1.0 { scale.min(1000.0) } else { 1000.0 }.max(1.0 / loss.temperature);
    for row in rows {
        let b: f64 = row.negatives.iter().map(|&at| (case.scores[at] * scale).exp()).sum();
        of_positives.extend(row.positives.iter().map(|&at| (case.scores[at], b)));
    }
    let tied = of_positives.iter().filter(|(score, _)| *score == median).map(|(_, b)| *b);
    let b = tied.reduce(f64::max).expect("the median is a score");
    let margin = median - (b * probability / (1.0 - probability)).ln() / scale;
    (1.0 / scale, margin.max(loss.margin))
}

fn median(mut scores: Vec<f64>) -> Option<f64> {
    scores.sort_by(f64::total_cmp);
    scores.get(scores.len().checked_sub(1)? / 2).copied()
}

fn full_softmax(row: &Row, scores: &[f64], temperature: f64, margin: f64) -> f64 {
    let positive = |at: usize| ((scores[at] - margin) / temperature).exp();
    let negatives: f64 = row.negatives.iter().map(|&at| (scores[at] / temperature).exp()).sum();
    let sum: f64 = negatives + row.positives.iter().map(|&at| positive(at)).sum::<f64>();
    over_positives(row, |at| -(positive(at) / sum).ln())
}

fn decoupled(row: &Row, scores: &[f64], temperature: f64, margin: f64) -> f64 {
    let negatives: f64 = row.negatives.iter().map(|&at| (scores[at] / temperature).exp()).sum();
    over_positives(row, |at| {
        let own = ((scores[at] - margin) / temperature).exp();
        -(own / (own + negatives)).ln()
    })
}

/// The border by halving, of the plain sum.
fn soft_top_k(loss: &SoftTopK, row: &Row, scores: &[f64]) -> f64 {
    let above = |at: usize, t: f64| logistic(loss.alpha * (scores[at] + t));
    let (mut low, mut high) = (-50.0, 50.0);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        let sum: f64 = row.all().iter().map(|&at| above(at, middle)).sum();
        if sum > loss.k as f64 { high = middle } else { low = middle }
    }
    over_positives(row, |at| -above(at, low).ln())
}

fn partial_ranking(loss: &PartialRanking, case: &Case, row: &Row, scores: &[f64]) -> Option<f64> {
    let known = |at: &usize| case.teacher[*at].is_finite();
    let bar = row.positives.iter().filter(|at| known(at)).map(|&at| case.teacher[at]).reduce(f64::min)?;
    let mut valid: Vec<usize> = row.negatives.clone();
    valid.retain(|at| known(at) && case.teacher[*at] + loss.margin < bar);
    valid.sort_by(|&a, &b| case.scores[b].total_cmp(&case.scores[a]).then(a.cmp(&b)));
    let easier = valid.split_off(loss.hardest.unwrap_or(usize::MAX).min(valid.len()));
    let easy = row.negatives.iter().copied().filter(|at| !known(at)).chain(easier);
    // The group of a score is the highest score whose group reaches it.
    let mut marks: Vec<f64> = valid.iter().map(|&at| case.teacher[at]).collect();
    marks.sort_by(|a, b| b.total_cmp(a));
    let mut heads: Vec<f64> = Vec::new();
    for mark in marks {
        if heads.last().is_none_or(|head| head - mark > loss.margin) {
            heads.push(mark);
        }
    }
    let group = |at: usize| heads.iter().filter(|head| **head >= case.teacher[at]).count();
    let own = |at: usize| (scores[at] / loss.temperature).exp();
    let of_easy: f64 = easy.map(own).sum();
    let term = |&at: &usize| {
        let lower = valid.iter().filter(|&&other| group(other) > group(at)).map(|&other| own(other));
        let below = of_easy + lower.sum::<f64>();
        (below > 0.0).then(|| -(own(at) / (own(at) + below)).ln())
    };
    mean(valid.iter().filter_map(term))
}

fn psl(loss: &Psl, row: &Row, scores: &[f64]) -> f64 {
    let activation = |x: f64| match loss.activation {
        Activation::Tanh => (1.0 + x.tanh()).ln(),
        Activation::Atan => (1.0 + x.atan()).max(1e-3).ln(),
        Activation::Relu => (1.0 + x).max(1e-3).ln(),
        Activation::Linear => x,
    };
    over_positives(row, |positive| {
        let term = |&at: &usize| {
            (activation((scores[at] - scores[positive]) / loss.temperature) / loss.outer_temperature).exp()
        };
        row.negatives.iter().map(term).sum::<f64>().ln()
    })
}

fn sl_at_k(loss: &SlAtK, case: &Case, row: &Row, scores: &[f64]) -> f64 {
    let mut all: Vec<f64> = row.all().iter().map(|&at| case.scores[at]).collect();
    all.sort_by(|a, b| b.total_cmp(a));
    let quantile = all[loss.k.min(all.len()) - 1];
    over_positives(row, |positive| {
        let weight = logistic((case.scores[positive] - quantile) / loss.weight_temperature);
        let term = |&at: &usize| ((scores[at] - scores[positive]) / loss.temperature).exp();
        weight * row.negatives.iter().map(term).sum::<f64>().ln()
    })
}

fn soft_info_nce(loss: &SoftInfoNce, case: &Case, row: &Row, scores: &[f64]) -> f64 {
    let similarities = case.similarities.as_ref().unwrap_or(&case.scores);
    let likeness = |at: usize| (similarities[at] / loss.weight_temperature).exp();
    let all: f64 = row.negatives.iter().map(|&at| likeness(at)).sum();
    let count = row.negatives.len() as f64;
    let weight = |at: usize| {
        ((loss.beta - loss.alpha * likeness(at) / all) / (loss.beta - loss.alpha / count)).max(0.1)
    };
    let own = |at: usize| (scores[at] / loss.temperature).exp();
    let negatives: f64 = row.negatives.iter().map(|&at| weight(at) * own(at)).sum();
    over_positives(row, |at| -(own(at) / (own(at) + negatives)).ln())
}

fn pairwise(loss: &Pairwise, row: &Row, scores: &[f64]) -> f64 {
    over_positives(row, |positive| {
        let of_pair = |&negative: &usize| {
            let z = (loss.margin - scores[positive] + scores[negative]) / loss.temperature;
            match loss.surrogate {
                Surrogate::Hinge => z.max(0.0),
                Surrogate::Logistic => (1.0 + z.exp()).ln(),
            }
        };
        mean(row.negatives.iter().map(of_pair)).expect("a negative")
    })
}
