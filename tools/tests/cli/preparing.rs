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

#[test]
fn duplicates_are_left_out_of_a_bank_and_told_with_their_rows() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2"]);
    let rows: [&[f32]; 6] = [&[3.0, 4.0], &[0.6, 0.8], &[0.0, 1.0], &[0.0, 2.0], &[0.05, 1.0], &[1.0, 0.0]];
    let first = dehub.file("first.npy", npy(&rows[..1]));
    dehub.ok(&["bank", "x", "b", &first]);
    let file = dehub.file("rows.npy", npy(&rows));
    let added = dehub.json(&["bank", "x", "b", &file, "--dedupe"]);
    assert_eq!((&added["added"], &added["entries"]), (&3.into(), &4.into()), "{added}");
    let found = serde_json::json!({
        "dropped": 3,
        "groups": 2,
        "largest": [
            {"entry": 0, "row": null, "size": 2, "rows": [0, 1]},
            {"entry": null, "row": 2, "size": 1, "rows": [3]},
        ],
    });
    assert_eq!(added["duplicates"], found);
    let near = dehub.ok(&["bank", "x", "near", &file, "--dedupe=0.99"]).stdout;
    for part in ["3 entries added, 3 in all", "left out 3 rows", "row 2: rows 3, 4\n", "row 0: rows 1\n"] {
        assert!(near.contains(part), "`{part}` is missing in: {near}");
    }
    let again = dehub.json(&["bank", "x", "near", &file, "--dedupe=0.99"]);
    assert_eq!((&again["added"], &again["duplicates"]["dropped"]), (&0.into(), &6.into()));

    dehub.ok(&["create", "y", "--dim", "2", "--metric", "dot"]);
    assert_eq!(dehub.json(&["bank", "y", "b", &file, "--dedupe"])["added"], 6, "lengths differ");
    for (arguments, part) in [
        (vec!["bank", "y", "b", &file, "--dedupe=0.9"], "under cosine only"),
        (vec!["bank", "x", "b", &file, "--dedupe=1.5"], "--dedupe is 1.5, wanted a cosine above 0"),
        (vec!["bank", "x", "b", &file, "--dedupe=much"], "--dedupe is much"),
        (vec!["bank", "x", "g", &file, "--kind", "gallery", "--dedupe"], "for query banks"),
    ] {
        let ended = dehub.run(&arguments);
        assert_eq!(ended.code, 1, "{arguments:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn a_compressed_bank_is_measured_and_nothing_is_stored() {
    let dehub = wordnet("400", "600");
    let before = dehub.state();
    for by in ["kmeans", "herding"] {
        let command =
            ["bank", "x", "small", "--compress-from", "glosses", "--to", "60", "--by", by, "--dry-run"];
        let report = dehub.json(&command);
        assert_eq!(
            (&report["entries"], &report["to"], &report["points"]),
            (&600.into(), &60.into(), &200.into())
        );
        let mean = |of: &str| report[of]["mean"].as_f64().expect("a number");
        assert!(mean("error") < mean("error_of_evenly_spread"), "{report}");
        assert_eq!(dehub.json(&command), report, "the same seed gives the same bank");
        assert!(dehub.ok(&command).stdout.contains("Nothing was stored"));
    }
    assert_eq!(dehub.state(), before);
    for (from, to, part) in [
        ("nothing", "5", "no bank `nothing`"),
        ("glosses", "600", "--to is 600, wanted 1 to 599"),
        ("glosses", "0", "--to is 0"),
    ] {
        let ended = dehub.run(&["bank", "x", "small", "--compress-from", from, "--to", to, "--dry-run"]);
        assert_eq!(ended.code, 1);
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}

#[test]
fn a_compressed_bank_weighs_what_the_whole_does_and_replaces_none() {
    let dehub = wordnet("400", "600");
    let made = dehub.json(&["bank", "x", "small", "--compress-from", "glosses", "--to", "60"]);
    assert_eq!((&made["to"], &made["dry_run"]), (&60.into(), &false.into()));
    let banks = dehub.json(&["info", "x"])["banks"].as_array().expect("banks").clone();
    let small = banks.iter().find(|bank| bank["name"] == "small").expect("it was stored");
    assert_eq!(small["entries"], 60);
    assert!((small["weight"].as_f64().expect("a number") - 600.0).abs() < 1e-3, "{small}");
    dehub.ok(&["fit", "x", "--bank", "small", "-m", "IS(beta=20)"]);
    let before = dehub.state();
    for bank in ["small", "glosses"] {
        let again = dehub.run(&["bank", "x", bank, "--compress-from", "glosses", "--to", "60"]);
        assert_eq!(again.code, 1);
        assert!(again.stderr.contains(&format!("there is a bank `{bank}` already")), "{}", again.stderr);
    }
    assert_eq!(dehub.state(), before);
}

#[test]
fn a_rewritten_copy_keeps_everything_but_the_vectors_of_points() {
    let dehub = wordnet("300", "200");
    dehub.ok(&["bank", "x", "nouns", "--from-gallery"]);
    let before = dehub.state();
    let made = dehub.json(&["rewrite", "x", "moved", "-m", "InvGC(rg=1,rq=4)"]);
    assert_eq!((&made["points"], &made["method"]), (&300.into(), &"InvGC(rg=1,rq=4)".into()));
    assert_eq!(dehub.state(), before);
    let (old, new) = (dehub.json(&["info", "x"]), dehub.json(&["info", "moved"]));
    let banks = |info: &serde_json::Value| {
        let banks = info["banks"].as_array().expect("banks").clone();
        banks
            .iter()
            .map(|bank| format!("{} {} {}", bank["name"], bank["kind"], bank["entries"]))
            .collect::<Vec<_>>()
    };
    assert_eq!((banks(&old), banks(&new)), (banks(&new), banks(&old)));
    assert_eq!(banks(&new).len(), 2);
    // The entries have moved as their points have: with each left out of its own sum, a fit over the bank that
    // was copied changes the top answer of as many queries as one over a bank of the moved points.
    dehub.ok(&["bank", "moved", "again", "--from-gallery"]);
    let changed = |bank: &str| {
        let fitted = dehub.json(&["fit", "moved", "-m", "DualIS(b1=20,b2=20)", "--gallery-bank", bank]);
        fitted["corrections"][0]["change"]["top1_changed"].as_f64().expect("a share")
    };
    assert!(changed("again") > 0.0);
    assert!((changed("nouns") - changed("again")).abs() < 1e-9);
    let search = |collection: &str| {
        let queries = testdata("wordnet/queries_test.npy");
        dehub.json(&["search", collection, "--queries", &queries, "--row", "3", "-k", "300"])
    };
    let ids = |answer: &serde_json::Value| {
        let hits = answer["points"].as_array().or(answer["hits"].as_array()).expect("hits").clone();
        let mut ids: Vec<String> = hits.iter().map(|hit| format!("{} {}", hit["id"], hit["text"])).collect();
        ids.sort_unstable();
        ids
    };
    let (still, moved) = (search("x"), search("moved"));
    assert_eq!(ids(&still), ids(&moved));
    assert_ne!(still, moved, "the scores are others");

    for (arguments, part) in [
        (["rewrite", "x", "moved", "-m", "LocalAdj"], "there is a collection `moved`"),
        (["rewrite", "x", "other", "-m", "DN(lambda=0.5)"], "fit the correction DN instead"),
        (["rewrite", "x", "other", "-m", "Centring"], "fit the correction Centring instead"),
        (["rewrite", "x", "other", "-m", "InvGC(rg=-1)"], "parameter `rg`"),
    ] {
        let ended = dehub.run(&arguments);
        assert_eq!(ended.code, 1, "{arguments:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
    assert_eq!(dehub.run(&["info", "other"]).code, 1, "nothing was made");
}
