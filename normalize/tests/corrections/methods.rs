//! Labels of methods: what is printed is read back, and what cannot be read is named.

use dehub_normalize::{BankKind, Method, ParameterKind, Statistic};
use dehub_vector::Metric;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::reference::cases;

/// Values over their whole range, the small and the round ones often.
fn beta() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-6_i32..=6, 1.0_f64..10.0).prop_map(|(power, digits)| (10_f64.powi(power) * digits).min(1e6)),
        (1_u32..=200).prop_map(f64::from),
        Just(1e6),
        Just(1e-6),
    ]
}

fn k() -> impl Strategy<Value = usize> {
    prop_oneof![1_usize..=65_536, 1_usize..20]
}

fn alpha() -> impl Strategy<Value = f64> {
    prop_oneof![0.0_f64..=1000.0, (0_u32..=1000).prop_map(f64::from), Just(1e-300)]
}

fn share() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0_f64..=0.5, Just(0.5), Just(0.25)]
}

fn any_method() -> impl Strategy<Value = Method> {
    let value = |kind| match kind {
        ParameterKind::InverseTemperature | ParameterKind::Temperature => beta().boxed(),
        ParameterKind::Depth => (0_usize..=65_536).prop_map(|depth| depth as f64).boxed(),
        ParameterKind::Count => k().prop_map(|k| k as f64).boxed(),
        ParameterKind::Weight => alpha().boxed(),
        ParameterKind::Share => share().boxed(),
    };
    let all: Vec<Method> = Method::all().collect();
    (prop::sample::select(all), any::<bool>(), (share(), share())).prop_flat_map(
        move |(method, equal, guard)| {
            let names: Vec<&'static str> = method.parameters().map(|(name, _)| name).collect();
            let values: Vec<_> = method.kinds().map(value).collect();
            values.prop_map(move |values| {
                let first = values.first().copied();
                let value = |(&name, value): (&&'static str, f64)| {
                    // Two inverse temperatures are often the same, and then printed as one.
                    let value = if equal && name == "b2" { first.unwrap_or(value) } else { value };
                    (name.to_owned(), value)
                };
                let mut parameters: Vec<(String, f64)> = names.iter().zip(values).map(value).collect();
                let (floor, shrink) = if method.scorer().is_some() { (0.0, 0.0) } else { guard };
                parameters.extend([("floor".to_owned(), floor), ("shrink".to_owned(), shrink)]);
                Method::new(method.name(), &parameters).expect("values in range")
            })
        },
    )
}

#[test]
fn a_label_is_read_back_as_the_method_it_was_made_from() {
    TestRunner::new(cases(1024, 21))
        .run(&any_method(), |method| {
            let label = method.to_string();
            prop_assert_eq!(label.parse::<Method>(), Ok(method), "{}", label);
            prop_assert_eq!(label.to_lowercase().parse::<Method>(), Ok(method));
            let guard = [("floor", method.guard().floor), ("shrink", method.guard().shrink)];
            let parameters: Vec<(String, f64)> =
                method.parameters().chain(guard).map(|(name, value)| (name.to_owned(), value)).collect();
            prop_assert_eq!(Method::new(method.name(), &parameters), Ok(method));
            Ok(())
        })
        .expect("every label is read back");
}

#[test]
fn arbitrary_text_is_a_method_or_an_error() {
    let text = "[a-zA-Z]{0,8}[(]?([a-z0-9]{0,5}=){0,3}[-0-9.einfaN]{0,6},?[ )(=,]{0,3}";
    TestRunner::new(cases(2048, 22))
        .run(&(text, any::<String>()), |(text, other)| {
            for text in [text, other] {
                if let Ok(method) = text.parse::<Method>() {
                    prop_assert_eq!(method.to_string().parse::<Method>(), Ok(method));
                }
            }
            Ok(())
        })
        .expect("nothing panics");
}

#[test]
fn labels_as_people_write_them() {
    let cases = [
        ("IS", "IS(beta=20)"),
        ("is()", "IS(beta=20)"),
        ("IS( beta = 5 )", "IS(beta=5)"),
        ("is(BETA=0.5)", "IS(beta=0.5)"),
        ("DIS(k=3)", "DIS(beta=20,k=3)"),
        ("csls", "CSLS(k=10)"),
        ("NNN(alpha=1)", "NNN(alpha=1.0,k=16)"),
        ("NNN(k=4,alpha=0.25)", "NNN(alpha=0.25,k=4)"),
        ("dualis(b1=b2=7)", "DualIS(b1=b2=7)"),
        ("DualIS(b1=20,b2=3)", "DualIS(b1=20,b2=3)"),
        ("DualIS(beta_query=2, beta_gallery=3)", "DualIS(b1=2,b2=3)"),
        ("DUALDIS(b1=50)", "DualDIS(b1=50,b2=20,k=1)"),
        ("gc", "GC(k=64)"),
        ("ratiomargin", "RatioMargin(k=4)"),
        ("mp2", "MP2"),
        ("MP2(depth=0)", "MP2"),
        ("mp2(depth=500)", "MP2(depth=500)"),
        ("DualSoftmax", "DualSoftmax(beta=20)"),
        ("GC(floor=0)", "GC(k=64)"),
    ];
    for (text, label) in cases {
        assert_eq!(text.parse::<Method>().map(|method| method.to_string()), Ok(label.to_owned()), "{text}");
    }
}

#[test]
fn a_bad_label_is_answered_by_name() {
    let unknown = "wanted IS, DIS, CSLS, NNN, DualIS, DualDIS, DN,";
    let form = "is not of the form NAME(parameter=value,...)";
    let range = "wanted a number from 0.000001 to 1000000";
    let whole = "wanted a whole number from 1 to 65536";
    let cases = [
        ("", unknown),
        ("ISS", "unknown correction method `ISS`"),
        ("I S(beta=2)", unknown),
        ("IS(beta=20", form),
        ("IS(beta)", form),
        ("IS(beta=)", form),
        ("IS(beta=two)", form),
        ("IS(k=1)", "IS has no parameter `k`: wanted beta"),
        ("CSLS(beta=1)", "CSLS has no parameter `beta`: wanted k"),
        ("NNN(b1=1)", "NNN has no parameter `b1`: wanted alpha, k"),
        ("DualIS(beta=1)", "DualIS has no parameter `beta`: wanted b1, b2"),
        ("IS(beta=0)", range),
        ("IS(beta=-1)", range),
        ("IS(beta=1e-7)", range),
        ("IS(beta=1000001)", range),
        ("IS(beta=NaN)", range),
        ("IS(beta=inf)", range),
        ("DIS(k=0)", whole),
        ("DIS(k=1.5)", whole),
        ("CSLS(k=65537)", whole),
        ("CSLS(k=-3)", whole),
        ("CSLS(k=NaN)", whole),
        ("NNN(alpha=-0.1)", "wanted a number from 0 to 1000"),
        ("NNN(alpha=inf)", "wanted a number from 0 to 1000"),
        ("DualIS(b1=b2=0)", range),
        ("GC(k=0)", whole),
        ("MP2(depth=-1)", "wanted a whole number from 0 to 65536"),
        ("MP2(depth=1.5)", "wanted a whole number from 0 to 65536"),
        ("MP2(k=1)", "MP2 has no parameter `k`: wanted depth"),
        ("GC(floor=0.1)", "GC ranks by a score of its own and has no biases to guard: `floor` is 0.1"),
        ("DualSoftmax(shrink=0.5)", "has no biases to guard: `shrink` is 0.5, wanted 0"),
    ];
    for (label, says) in cases {
        let error = label.parse::<Method>().expect_err(label).to_string();
        assert!(error.contains(says), "{label}: {error}");
    }
}

#[test]
fn a_method_says_what_it_is_fitted_from() {
    let terms = |label: &str| {
        let method: Method = label.parse().expect("a label");
        method.terms(Metric::Cosine).into_iter().map(|term| (term.bank, term.statistic)).collect::<Vec<_>>()
    };
    let sum = |bank, beta| (bank, Statistic::LogSumExp { beta });
    assert_eq!(terms("IS(beta=3)"), [sum(BankKind::Query, 3.0)]);
    assert_eq!(terms("DIS(beta=3,k=2)"), [sum(BankKind::Query, 3.0)]);
    assert_eq!(terms("CSLS(k=4)"), [(BankKind::Query, Statistic::TopMean { k: 4 })]);
    assert_eq!(terms("NNN(k=4)"), terms("CSLS(k=4)"));
    let dual = [sum(BankKind::Query, 3.0), sum(BankKind::Gallery, 4.0)];
    assert_eq!(terms("DualIS(b1=3,b2=4)"), dual);
    assert_eq!(terms("DualDIS(b1=3,b2=4)"), dual);
}

#[test]
fn weights_follow_the_gates() {
    let weights = |label: &str, open: &[bool]| label.parse::<Method>().expect("a label").weights(open);
    assert_eq!(weights("IS", &[false]), [1.0]);
    assert_eq!(weights("CSLS", &[false]), [0.5]);
    assert_eq!(weights("NNN(alpha=0.3)", &[true]), [0.3]);
    assert_eq!(weights("DIS", &[true]), [1.0]);
    assert_eq!(weights("DIS", &[false]), [0.0]);
    assert_eq!(weights("DualIS(b1=30,b2=10)", &[false, false]), [0.75, 0.25]);
    assert_eq!(weights("DualDIS(b1=30,b2=10)", &[true, true]), [0.75, 0.25]);
    assert_eq!(weights("DualDIS(b1=30,b2=10)", &[true, false]), [1.0, 0.0]);
    assert_eq!(weights("DualDIS(b1=30,b2=10)", &[false, true]), [0.0, 1.0]);
    assert_eq!(weights("DualDIS(b1=30,b2=10)", &[false, false]), [0.0, 0.0]);
}

#[test]
fn candidates_are_ten_for_an_answer_and_a_hundred_at_least_unless_the_depth_says_otherwise() {
    let depth = |label: &str, limit| label.parse::<Method>().expect("a label").depth(limit);
    for label in ["MP2", "GC", "RatioMargin", "DualSoftmax"] {
        assert_eq!([1, 10, 11, 500].map(|limit| depth(label, limit)), [100, 100, 110, 5000], "{label}");
    }
    assert_eq!([1, 10, 11].map(|limit| depth("MP2(depth=10)", limit)), [10, 10, 11]);
    assert_eq!(depth("DualSoftmax(depth=700)", 10), 700);
}
