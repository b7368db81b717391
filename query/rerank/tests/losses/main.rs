//! Losses against values worked out elsewhere, against oracles written apart, and their laws.

mod golden;
mod gradients;
mod laws;
mod oracle;
mod refusals;
mod texts;

use dehub_rerank::{
    Activation, Batch, DecoupledSoftmax, InfoNce, Label, Loss, MannWhitney, Pairwise, PartialRanking,
    PickSomeLabel, Psl, SlAtK, SoftInfoNce, SoftTopK, Surrogate, Weighting,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

/// What a batch is made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    pub(crate) scores: Vec<f64>,
    pub(crate) columns: usize,
    pub(crate) labels: Vec<Label>,
    pub(crate) teacher: Vec<f64>,
    pub(crate) similarities: Option<Vec<f64>>,
    pub(crate) shared: bool,
}

impl Case {
    /// Reads rows of cells: `p.8 n.3 i.5 | n.2 p.6 n.1` are two queries, p a positive, n a negative, i ignored.
    pub(crate) fn read(text: &str) -> Case {
        let rows: Vec<Vec<&str>> = text.split('|').map(|row| row.split_whitespace().collect()).collect();
        let label = |cell: &str| match &cell[..1] {
            "p" => Label::Positive,
            "n" => Label::Negative,
            "i" => Label::Ignored,
            other => panic!("{other} is no label"),
        };
        let cells: Vec<&str> = rows.concat();
        Case {
            scores: cells.iter().map(|cell| cell[1..].parse().expect("a number")).collect(),
            columns: rows[0].len(),
            labels: cells.iter().map(|cell| label(cell)).collect(),
            teacher: vec![f64::NEG_INFINITY; cells.len()],
            similarities: None,
            shared: true,
        }
    }

    pub(crate) fn with_teacher(self, teacher: &[f64]) -> Case {
        Case { teacher: teacher.to_vec(), ..self }
    }

    pub(crate) fn batch(&self) -> Batch<'_> {
        let batch =
            Batch::new(&self.scores, self.columns, &self.labels).expect("a batch").sharing(self.shared);
        let batch = batch.with_teacher(&self.teacher).expect("a teacher");
        match &self.similarities {
            Some(similarities) => batch.with_similarities(similarities).expect("similarities"),
            None => batch,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.scores.len() / self.columns
    }

    /// The same with the cells of this new order: place by place where each comes from.
    pub(crate) fn reordered(&self, from: &[usize]) -> Case {
        let taken = |all: &[f64]| from.iter().map(|&place| all[place]).collect::<Vec<f64>>();
        Case {
            scores: taken(&self.scores),
            labels: from.iter().map(|&place| self.labels[place]).collect(),
            teacher: taken(&self.teacher),
            similarities: self.similarities.as_deref().map(taken),
            ..self.clone()
        }
    }
}

pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(20_261_201),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Batches of up to 5 by 8 with ignored cells and ties, rows that lack a kind among them.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    (1..=5usize, 2..=8usize).prop_flat_map(|(rows, columns)| cases_of(rows, columns))
}

pub(crate) fn cases_of(rows: usize, columns: usize) -> impl Strategy<Value = Case> {
    let cells = rows * columns;
    let score = (-20i32..=20).prop_map(|step| f64::from(step) * 0.05);
    let label = prop_oneof![
        2 => Just(Label::Positive),
        4 => Just(Label::Negative),
        1 => Just(Label::Ignored),
    ];
    let teacher = prop_oneof![
        1 => Just(f64::NEG_INFINITY),
        3 => (-8i32..=8).prop_map(|step| f64::from(step) * 0.25),
    ];
    let similarities = prop::option::of(prop::collection::vec(-1.0..1.0f64, cells));
    (
        prop::collection::vec(score, cells),
        prop::collection::vec(label, cells),
        prop::collection::vec(teacher, cells),
        similarities,
    )
        .prop_map(move |(scores, labels, teacher, similarities)| Case {
            scores,
            columns,
            labels,
            teacher,
            similarities,
            shared: true,
        })
}

/// Every loss, with parameters that reach every branch.
pub(crate) fn losses() -> Vec<Loss> {
    let mw = MannWhitney { temperature: 0.3, ..MannWhitney::default() };
    let info_nce = InfoNce { temperature: 0.4, ..InfoNce::default() };
    let psl = |activation, temperature| Psl { activation, temperature, outer_temperature: 0.4 };
    let ranking = PartialRanking { temperature: 0.3, ..PartialRanking::default() };
    let pairwise = |surrogate, margin| Pairwise { surrogate, margin, temperature: 0.3 };
    vec![
        Loss::MannWhitney(mw),
        Loss::MannWhitney(MannWhitney { hardest: Some(2), weighting: Weighting::Queries, ..mw }),
        Loss::InfoNce(info_nce),
        Loss::InfoNce(InfoNce { both_ways: true, margin: 0.1, ..info_nce }),
        Loss::InfoNce(InfoNce { adaptive: Some(0.1), temperature: 0.2, both_ways: true, ..info_nce }),
        Loss::DecoupledSoftmax(DecoupledSoftmax { temperature: 0.3 }),
        Loss::SoftTopK(SoftTopK { k: 2, alpha: 3.0 }),
        Loss::PartialRanking(ranking),
        Loss::PartialRanking(PartialRanking { margin: 0.3, hardest: Some(2), ..ranking }),
        Loss::Psl(psl(Activation::Tanh, 0.5)),
        Loss::Psl(psl(Activation::Atan, 1.0)),
        Loss::Psl(psl(Activation::Relu, 1.0)),
        Loss::Psl(psl(Activation::Linear, 0.7)),
        Loss::SlAtK(SlAtK { k: 2, temperature: 0.3, weight_temperature: 0.8 }),
        Loss::SoftInfoNce(SoftInfoNce { temperature: 0.5, alpha: 1.0, beta: 1.2, weight_temperature: 0.5 }),
        Loss::PickSomeLabel(PickSomeLabel { temperature: 0.3, positives: 9, seed: 7 }),
        Loss::Pairwise(pairwise(Surrogate::Hinge, 0.137)),
        Loss::Pairwise(pairwise(Surrogate::Logistic, 0.1)),
        Loss::Mixed(vec![(0.5, Loss::MannWhitney(mw)), (2.0, Loss::InfoNce(info_nce))]),
    ]
}

/// Any of them.
pub(crate) fn any_loss() -> impl Strategy<Value = Loss> {
    select(losses())
}
