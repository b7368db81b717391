//! The readable form of losses, and JSON.

use dehub_rerank::{
    Activation, DecoupledSoftmax, InfoNce, Loss, MannWhitney, Pairwise, PartialRanking, PickSomeLabel, Psl,
    SlAtK, SoftInfoNce, SoftTopK, Surrogate, Weighting,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::config;

fn factor() -> impl Strategy<Value = f64> {
    prop_oneof![1e-6..1e6f64, Just(0.05), Just(1.0), (1..1000u32).prop_map(|n| f64::from(n) / 1000.0)]
}

fn amount() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..1e6f64]
}

fn count() -> impl Strategy<Value = usize> {
    prop_oneof![Just(2), Just(5), Just(20), 1..=usize::MAX]
}

fn single() -> impl Strategy<Value = Loss> {
    let hardest = || prop::option::of(count());
    let weighting = select(vec![Weighting::Pairs, Weighting::Queries]);
    let surrogate = select(vec![Surrogate::Hinge, Surrogate::Logistic]);
    let activation = select(vec![Activation::Tanh, Activation::Atan, Activation::Relu, Activation::Linear]);
    let adaptive = prop::option::of(1e-6..0.999_999f64);
    prop_oneof![
        (factor(), hardest(), weighting).prop_map(|(temperature, hardest, weighting)| {
            Loss::MannWhitney(MannWhitney { temperature, hardest, weighting })
        }),
        (factor(), any::<bool>(), amount(), adaptive).prop_map(
            |(temperature, both_ways, margin, adaptive)| {
                Loss::InfoNce(InfoNce { temperature, both_ways, margin, adaptive })
            }
        ),
        factor().prop_map(|temperature| Loss::DecoupledSoftmax(DecoupledSoftmax { temperature })),
        (count(), factor()).prop_map(|(k, alpha)| Loss::SoftTopK(SoftTopK { k, alpha })),
        (factor(), amount(), hardest()).prop_map(|(temperature, margin, hardest)| {
            Loss::PartialRanking(PartialRanking { temperature, margin, hardest })
        }),
        (activation, factor(), factor()).prop_map(|(activation, temperature, outer_temperature)| {
            Loss::Psl(Psl { activation, temperature, outer_temperature })
        }),
        (count(), factor(), factor()).prop_map(|(k, temperature, weight_temperature)| {
            Loss::SlAtK(SlAtK { k, temperature, weight_temperature })
        }),
        (factor(), amount(), factor(), factor()).prop_map(
            |(temperature, alpha, beta, weight_temperature)| {
                Loss::SoftInfoNce(SoftInfoNce { temperature, alpha, beta, weight_temperature })
            }
        ),
        (factor(), count(), any::<u64>()).prop_map(|(temperature, positives, seed)| {
            Loss::PickSomeLabel(PickSomeLabel { temperature, positives, seed })
        }),
        (surrogate, amount(), factor()).prop_map(|(surrogate, margin, temperature)| {
            Loss::Pairwise(Pairwise { surrogate, margin, temperature })
        }),
    ]
}

fn any_loss() -> impl Strategy<Value = Loss> {
    let parts = prop::collection::vec((factor(), single()), 1..4);
    prop_oneof![3 => single(), 1 => parts.prop_map(Loss::Mixed)]
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn what_is_printed_is_read_as_the_same_loss(loss in any_loss()) {
        let text = loss.to_string();
        prop_assert_eq!(text.parse::<Loss>(), Ok(loss), "{}", text);
    }

    #[test]
    fn what_is_written_as_json_is_read_as_the_same_loss(loss in any_loss()) {
        let json = serde_json::to_string(&loss).unwrap();
        prop_assert_eq!(serde_json::from_str::<Loss>(&json).unwrap(), loss);
    }

    #[test]
    fn no_text_makes_the_reader_fall_over(text in "[a-z_0-9=,:*+. -]{0,40}") {
        if let Ok(loss) = text.parse::<Loss>() {
            prop_assert_eq!(loss.to_string().parse::<Loss>(), Ok(loss));
        }
    }
}

#[test]
fn only_what_differs_from_the_defaults_is_printed() {
    for (text, printed) in [
        ("mw", "mw"),
        ("mw:temperature=0.05", "mw"),
        (" mw : temperature = 1 , hardest = 32 ", "mw:temperature=1.0,hardest=32"),
        ("mw:hardest=none", "mw"),
        ("mw:temperature=1e-3,weighting=queries", "mw:temperature=0.001,weighting=queries"),
        ("infonce:both_ways=true,adaptive=0.1", "infonce:both_ways=true,adaptive=0.1"),
        ("psl:activation=relu", "psl:activation=relu"),
        ("pick_some_label:seed=18446744073709551615", "pick_some_label:seed=18446744073709551615"),
        ("mw+infonce", "mw + infonce"),
        ("0.5*mw + 2 * infonce:both_ways=true", "0.5*mw + 2*infonce:both_ways=true"),
        ("1*mw", "1*mw"),
        ("1e+1*mw + soft_topk:alpha=1e+2", "10*mw + soft_topk:alpha=100.0"),
    ] {
        assert_eq!(text.parse::<Loss>().unwrap_or_else(|error| panic!("{error}")).to_string(), printed);
    }
}

#[test]
fn a_text_that_is_none_is_refused_with_its_part_and_what_was_wanted() {
    let names = "mw, infonce, decoupled, soft_topk, partial_ranking, psl, sl_at_k, soft_infonce, pick_some_label, \
                 pairwise";
    let parameter = |part, loss, wanted, found| {
        format!(
            "loss, part {part}: wanted {loss} with each of {wanted} once at most, as name=value, found {found:?}"
        )
    };
    let mw = "temperature, hardest, weighting";
    for (text, message) in [
        ("", format!("loss, part 1: wanted one of {names}, found \"\"")),
        ("mw + mv", format!("loss, part 2: wanted one of {names}, found \"mv\"")),
        ("mixed", format!("loss, part 1: wanted one of {names}, found \"mixed\"")),
        ("half*mw", "loss, part 1: wanted a number before the *, found \"half\"".to_owned()),
        ("mw:tau=1", parameter(1, "mw", mw, "tau=1")),
        ("mw:", parameter(1, "mw", mw, "")),
        ("mw:temperature", parameter(1, "mw", mw, "temperature")),
        ("psl + mw:hardest=1,hardest=2", parameter(2, "mw", mw, "hardest=2")),
        (
            "mw:hardest=1.5",
            "loss, part 1: wanted another value of mw's hardest: invalid type: floating point `1.5`, expected usize"
                .to_owned(),
        ),
        (
            "psl + mw:weighting=rows",
            "loss, part 2: wanted another value of mw's weighting: unknown variant `rows`, expected `pairs` or \
             `queries`"
                .to_owned(),
        ),
        ("mw:hardest=0", "mw: wanted hardest to be 1 or more, found 0".to_owned()),
        (
            "-1*mw + psl",
            "mw: wanted the weight to be a number from 0.000001 to 1000000, found -1".to_owned(),
        ),
        (
            "infonce:adaptive=1",
            "infonce: wanted adaptive to be a number from 0.000001 to 0.999999, found 1".to_owned(),
        ),
    ] {
        assert_eq!(text.parse::<Loss>().expect_err(text).to_string(), message);
    }
}

#[test]
fn json_takes_defaults_for_what_it_leaves_out_and_nothing_unknown() {
    let read = |json: &str| serde_json::from_str::<Loss>(json);
    assert_eq!(read(r#"{"mw": {}}"#).unwrap(), Loss::MannWhitney(MannWhitney::default()));
    assert_eq!(
        read(r#"{"mixed": [[0.5, {"mw": {}}], [1, {"infonce": {"both_ways": true}}]]}"#).unwrap(),
        "0.5*mw + infonce:both_ways=true".parse().unwrap()
    );
    for unknown in [r#"{"mw": {"tau": 1}}"#, r#"{"mv": {}}"#, r#"{"psl": {"activation": "exp"}}"#] {
        assert!(read(unknown).is_err(), "{unknown}");
    }
}
