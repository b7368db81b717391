//! Banks and vectors made ready before a fit, and temperatures found by one.

use crate::{Dehub, npy, testdata};

/// The bundled data as collection `x` with the bank `glosses`.
fn wordnet(rows: &str, entries: &str) -> Dehub {
    let dehub = Dehub::new();
    let (gallery, meta) = (testdata("wordnet/gallery.npy"), testdata("wordnet/gallery.jsonl"));
    dehub.ok(&["create", "x", "--dim", "128"]);
    dehub.ok(&["import", "x", &gallery, "--meta", &meta, "--limit", rows]);
    dehub.ok(&["bank", "x", "glosses", &testdata("wordnet/queries_bank.npy"), "--limit", entries]);
    dehub
}

#[test]
fn a_perplexity_becomes_the_beta_that_is_fitted_and_named() {
    let dehub = wordnet("300", "200");
    let fitted = dehub.json(&["fit", "x", "-m", "IS(perplexity=20)", "-m", "SN(perplexity=20,n=3)"]);
    let is = &fitted["corrections"][0];
    let beta = is["method"].as_str().and_then(|label| label.strip_prefix("IS(beta=")?.strip_suffix(')'));
    let beta = beta.expect("a concrete beta").to_owned();
    assert_eq!(is["note"], format!("perplexity 20 is beta {beta} here"));
    assert_eq!(is["correction"], format!("IS(beta={beta})"));
    let tau = fitted["corrections"][1]["note"]
        .as_str()
        .and_then(|note| note.rsplit(' ').nth(1)?.parse::<f64>().ok());
    let product = tau.expect("a tau") * beta.parse::<f64>().expect("a number");
    assert!((product - 1.0).abs() < 0.02, "tau is one over beta: {product}");
    let text = dehub.ok(&["fit", "x", "-m", "IS(perplexity=20)"]).stdout;
    assert!(text.starts_with(&format!("perplexity 20 is beta {beta} here\n")), "{text}");

    let queries = testdata("wordnet/queries_test.npy");
    let tuned =
        dehub.json(&["tune", "x", "--queries", &queries, "-m", "IS(perplexity=20)", "--rounds", "100"]);
    assert_eq!(tuned["rows"][0]["method"], format!("IS(beta={beta})"));
}

#[test]
fn a_perplexity_that_the_bank_cannot_give_changes_nothing() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2"]);
    let rows = dehub.file("rows.npy", npy(&[&[1.0, 0.0], &[0.0, 1.0], &[0.6, 0.8]]));
    dehub.ok(&["import", "x", &rows]);
    dehub.ok(&["bank", "x", "b", &rows]);
    for (method, part) in [
        ("IS(perplexity=3)", "above 1 and below the 3 entries of the bank"),
        ("IS(perplexity=2,beta=7)", "`beta` or `perplexity`, not both"),
        ("NNN(perplexity=2)", "no parameter `perplexity`"),
    ] {
        let before = dehub.state();
        let ended = dehub.run(&["fit", "x", "-m", method]);
        assert_eq!(ended.code, 1, "{method}");
        assert!(ended.stderr.contains(part), "{method}: {}", ended.stderr);
        assert_eq!(dehub.state(), before);
    }
}
