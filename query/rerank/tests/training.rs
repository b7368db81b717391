//! Training on made data, whose queries are their answers turned by a fixed rotation and pushed towards a hub.

use dehub_rerank::{
    Dataset, DatasetError, ExactMiner, Goal, Measured, Miner, Negatives, Settings, TrainError, Trained,
    train_adapter,
};

const DIM: usize = 24;

fn unit(vector: &mut [f32]) {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|x| *x /= length);
}

/// `count` queries over twice as many points. A query has the coordinates of its answer in another order, in part, so
/// that an adapter can learn to put them back.
fn made(count: usize, seed: u64) -> Dataset {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut vector = || (0..DIM).map(|_| random.f32() - 0.5).collect::<Vec<f32>>();
    let hub = vector();
    let (mut queries, mut points) = (Vec::new(), Vec::new());
    for row in 0..2 * count {
        let mut point = vector();
        unit(&mut point);
        if row < count {
            let noise = vector();
            let turned = (0..DIM).map(|i| if i < DIM / 2 { point[DIM / 2 - 1 - i] } else { point[i] });
            let mut query: Vec<f32> =
                turned.zip(&noise).zip(&hub).map(|((x, noise), hub)| x + 0.2 * noise + 0.3 * hub).collect();
            unit(&mut query);
            queries.extend(query);
        }
        points.extend(point);
    }
    let answers = (0..u32::try_from(count).expect("few")).map(|row| vec![row]).collect();
    Dataset::new(DIM, queries, points, answers).expect("good")
}

fn settings(loss: &str) -> Settings {
    let loss = loss.parse().expect("a loss");
    Settings { hidden: 48, batch: 64, epochs: 15, held_out: 0.25, ..Settings::new(loss) }
}

fn train(dataset: &Dataset, settings: &Settings) -> Trained {
    train_adapter(dataset, settings, &mut ExactMiner::new(dataset), &mut |_| true).expect("trained")
}

#[test]
fn an_adapter_finds_more_for_queries_that_it_was_not_trained_with() {
    let dataset = made(600, 1);
    for loss in [
        "mw",
        "infonce",
        "infonce:both_ways=true",
        "decoupled",
        "0.5*mw + infonce:both_ways=true",
        "pairwise",
    ] {
        let trained = train(&dataset, &settings(loss));
        let (before, after) = (Measured::mean(&trained.before.ndcg), Measured::mean(&trained.after.ndcg));
        assert!(after > before + 0.1, "{loss}: {before} to {after}");
        assert!(trained.after.pooled_auc > trained.before.pooled_auc, "{loss}");
        assert_eq!(trained.after.ndcg.len(), trained.held_out.len());
    }
}

#[test]
fn mined_negatives_and_random_ones_are_learned_from() {
    let dataset = made(400, 2);
    for negatives in [Negatives::Random { each: 2 }, Negatives::Mined { each: 2, depth: 20, every: 2 }] {
        let trained = train(&dataset, &Settings { negatives, ..settings("infonce") });
        assert!(
            Measured::mean(&trained.after.ndcg) > Measured::mean(&trained.before.ndcg) + 0.1,
            "{negatives:?}"
        );
    }
}

#[test]
fn what_is_mined_is_the_best_of_all_points_without_answers() {
    let dataset = made(50, 3);
    let found = ExactMiner::new(&dataset).mine(dataset.query(7), 100).expect("found").remove(0);
    let score = |row: &u32| dehub_vector::dot(dataset.query(7), dataset.point(*row));
    assert_eq!(found.len(), 100);
    assert!(found.is_sorted_by(|a, b| score(a) > score(b) || (score(a) == score(b) && a < b)));
}

#[test]
fn equal_seeds_give_equal_weights_to_the_bit_and_others_others() {
    let dataset = made(200, 4);
    let negatives = Negatives::Mined { each: 1, depth: 8, every: 3 };
    let with = |seed| train(&dataset, &Settings { seed, negatives, epochs: 4, ..settings("mw") });
    let (one, same, other) = (with(5), with(5), with(6));
    assert_eq!(one.adapter, same.adapter);
    assert_eq!(one.rounds[1..], same.rounds[1..]);
    assert_ne!(one.adapter.inner(), other.adapter.inner());
}

#[test]
fn queries_that_find_all_as_they_are_are_left_so() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut points: Vec<f32> = (0..300 * DIM).map(|_| random.f32() - 0.5).collect();
    points.chunks_mut(DIM).for_each(unit);
    let answers = (0..300).map(|row| vec![row]).collect();
    let dataset = Dataset::new(DIM, points.clone(), points, answers).expect("good");
    let trained = train(&dataset, &Settings { goal: Goal::First, ..settings("mw") });
    assert_eq!((trained.adapter.mix(), trained.rounds.len()), (0.0, 4));
    assert_eq!(trained.after, trained.before);
}

#[test]
fn mistakes_are_told() {
    let dataset = made(60, 8);
    let mut miner = ExactMiner::new(&dataset);
    let mut told = |settings: Settings| {
        train_adapter(&dataset, &settings, &mut miner, &mut |_| true).expect_err("refused").to_string()
    };
    let base = || settings("mw");
    assert_eq!(told(Settings { epochs: 0, ..base() }), "epochs is 0, wanted 1 to 10,000");
    assert_eq!(told(Settings { batch: 1, ..base() }), "batch is 1, wanted 2 to 16,384");
    assert_eq!(told(Settings { mixes: vec![2.0], ..base() }), "mixes is [2.0], wanted numbers from 0 to 1");
    assert_eq!(told(Settings { hidden: 0, ..base() }), "the hidden layer is 0, wanted 1 to 16,384");
    assert!(told(settings("partial_ranking")).contains("partial_ranking"));
    let mut stopped = ExactMiner::new(&dataset);
    let ended = train_adapter(&dataset, &base(), &mut stopped, &mut |round| round.epoch < 2);
    assert!(matches!(ended, Err(TrainError::Interrupted)));
    let new = |queries, answers: Vec<Vec<u32>>| Dataset::new(2, vec![0.5; queries], vec![0.5; 4], answers);
    assert_eq!(
        new(3, vec![]).expect_err("odd").to_string(),
        "the queries are 3 numbers, which is not a multiple of 2 dimensions"
    );
    assert!(matches!(new(4, vec![vec![]]), Err(DatasetError::Answers { found: 1, wanted: 2 })));
    assert!(matches!(
        new(4, vec![vec![], vec![2]]),
        Err(DatasetError::Answer { query: 1, found: 2, points: 2 })
    ));
    assert!(matches!(new(4, vec![vec![], vec![1]]), Err(DatasetError::TooFew { found: 1, .. })));
}
