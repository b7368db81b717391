//! `dehub export`: what comes out goes in again, and says what searches say.

use std::fs;

use serde_json::{Value, json};

use crate::{Dehub, testdata};

/// Ids, texts and payloads that are hard to keep, with vectors drawn by a seed.
fn points(ids: &str) -> (String, usize) {
    let mut random = fastrand::Rng::with_seed(7);
    let mut lines = String::new();
    for row in 0..40 {
        let vector: Vec<f32> = (0..9).map(|_| random.f32() - 0.5).collect();
        let id = match (ids, row % 2) {
            ("numbers", _) | ("mixed", 0) => json!(row * 1_000_000_007_u64),
            _ => json!(format!("{row} ü\"")),
        };
        let mut point = json!({ "id": id, "vector": vector });
        if row % 3 != 0 {
            point["text"] = json!(format!("line\n{row}"));
        }
        if row % 4 != 0 {
            point["payload"] =
                json!({ "id": 1, "text": "x", "payload": { "n": [row, null] }, "vector": "v" });
        }
        lines += &format!("{point}\n");
    }
    (lines, 40)
}

/// A collection `x` of these points, of 9 dimensions.
fn filled(ids: &str, metric: &str) -> Dehub {
    let dehub = Dehub::new();
    let file = dehub.file("points.jsonl", points(ids).0);
    dehub.ok(&["create", "x", "--dim", "9", "--metric", metric]);
    dehub.ok(&["import", "x", &file]);
    dehub
}

/// The bundled data as collection `x` with a bank, and corrections of each shape.
fn wordnet(metric: &str, methods: &[&str]) -> Dehub {
    let dehub = Dehub::new();
    let (gallery, meta) = (testdata("wordnet/gallery.npy"), testdata("wordnet/gallery.jsonl"));
    dehub.ok(&["create", "x", "--dim", "128", "--metric", metric]);
    dehub.ok(&["import", "x", &gallery, "--meta", &meta, "--limit", "300"]);
    dehub.ok(&["bank", "x", "asked", &testdata("wordnet/queries_bank.npy"), "--limit", "200"]);
    for (place, method) in methods.iter().enumerate() {
        dehub.ok(&["fit", "x", "-m", method, "--name", &format!("c{place}")]);
    }
    dehub
}

/// The lines of a file of JSON.
fn lines(dehub: &Dehub, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(dehub.path(name)).expect("the file is there");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("an array").iter().map(|it| it.as_f64().expect("a number")).collect()
}

#[test]
fn what_is_exported_and_imported_again_is_the_same_in_every_format() {
    for metric in ["cosine", "dot", "euclidean"] {
        for ids in ["numbers", "texts", "mixed"] {
            let dehub = filled(ids, metric);
            let out = |name: &str| dehub.path(name).to_str().expect("UTF-8").to_owned();
            dehub.ok(&["export", "x", "points", "-o", &out("first.jsonl")]);
            let first = lines(&dehub, "first.jsonl");
            assert_eq!(first.len(), points(ids).1);
            let names =
                ["a.npy", "a.fvecs", "a.fbin", "a.hdf5", "a.parquet", "a.arrow", "a.arrows", "a.jsonl"];
            for (place, name) in names.iter().enumerate() {
                let told = dehub.json(&["export", "x", "points", "-o", &out(name)]);
                assert_eq!((&told["rows"], &told["dim"]), (&json!(40), &json!(9)), "{name}");
                let hash = blake3::hash(&fs::read(dehub.path(name)).expect("there")).to_hex().to_string();
                assert_eq!(told["files"][0]["blake3"], json!(hash), "{name}");
                let other = format!("y{place}");
                dehub.ok(&["create", &other, "--dim", "9", "--metric", metric]);
                let beside = out(&format!("{name}.ids.jsonl"));
                let mut import = vec!["import", other.as_str()];
                let file = out(name);
                import.push(&file);
                if told["files"].as_array().expect("files").len() == 2 {
                    import.extend(["--meta", beside.as_str()]);
                }
                dehub.ok(&import);
                let again = format!("{name}.again.jsonl");
                dehub.ok(&["export", &other, "points", "-o", &out(&again)]);
                let (mut wanted, found) = (first.clone(), lines(&dehub, &again));
                let is_table = ["parquet", "arrow", "arrows"].iter().any(|ending| name.ends_with(ending));
                if is_table && ids == "mixed" {
                    wanted.iter_mut().for_each(|it| {
                        if let Some(number) = it["id"].as_u64() {
                            it["id"] = json!(number.to_string());
                        }
                    });
                }
                assert_eq!(found, wanted, "{metric} {ids} {name}");
            }
        }
    }
}

#[test]
fn a_named_vector_is_exported_and_imported_under_its_name() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "c", "--vector", "image=2,dot", "--vector", "text=3,dot"]);
    let file = dehub.file(
        "p.jsonl",
        "{\"id\": 4, \"vector\": {\"image\": [1, 0.5]}, \"n\": 1}\n{\"id\": 5, \"vector\": {\"text\": [0, 9, 0]}}\n",
    );
    dehub.ok(&["import", "c", &file]);
    let refused = dehub.run(&["export", "c", "points", "-o", "a.jsonl"]);
    assert!(refused.code == 1 && refused.stderr.contains("name one by --using"), "{refused:?}");
    dehub.ok(&["export", "c", "points", "-o", "a.jsonl", "--using", "image"]);
    let wanted = [json!({ "id": 4, "vector.image": [1, 0.5], "payload": { "n": 1 } })];
    assert_eq!(lines(&dehub, "a.jsonl"), wanted);
    dehub.ok(&["create", "d", "--vector", "image=2,dot"]);
    dehub.ok(&["import", "d", dehub.path("a.jsonl").to_str().expect("UTF-8")]);
    dehub.ok(&["export", "d", "points", "-o", "b.jsonl", "--using", "image"]);
    assert_eq!(lines(&dehub, "b.jsonl"), wanted);
}

#[test]
fn augmented_vectors_give_corrected_scores_as_inner_products() {
    for metric in ["cosine", "dot", "euclidean"] {
        // Local scaling is of distances, and the inner product is none.
        let methods = ["IS(beta=20)", "CSLS(k=5)", "DIS(beta=20)", "LS(k=5)"];
        let methods = &methods[..if metric == "dot" { 3 } else { 4 }];
        let dehub = wordnet(metric, methods);
        let mut query: Vec<f64> = (0..128_u32).map(|i| f64::from(i * 37 % 101) / 500.0 - 0.1).collect();
        let asked = json!(query).to_string();
        let length = query.iter().map(|it| it * it).sum::<f64>().sqrt();
        if metric == "cosine" {
            query.iter_mut().for_each(|it| *it /= length);
        }
        for place in 0..methods.len() {
            let (name, file) = (format!("c{place}"), format!("c{place}.jsonl"));
            let export =
                ["export", "x", "augmented", "--correction", &name, "--pad", "8", "-o", &file, "--json"];
            let ended = dehub.run(&export);
            assert_eq!(ended.code, 0, "{metric} {name}: {ended:?}");
            assert!(ended.stderr.contains("ask with [q"), "{ended:?}");
            let told: Value = serde_json::from_str(&ended.stdout).expect("JSON");
            assert_eq!(told["dim"], json!(136));
            let search = ["search", "x", "--vector", &asked, "--correction", &name, "--exact", "-k", "300"];
            let answer = dehub.json(&search);
            let alpha = if answer["gate_open"] == json!(false) { 0.0 } else { 1.0 };
            let mut longer = query.clone();
            longer.push(alpha);
            longer.extend([1.0, length * length / 2.0]);
            longer.truncate(if metric == "euclidean" { 131 } else { 129 });
            longer.resize(136, 0.0);
            let products: Vec<(Value, f64)> = lines(&dehub, &file)
                .iter()
                .map(|line| {
                    let vector = numbers(&line["vector"]);
                    assert_eq!(vector.len(), 136);
                    (line["id"].clone(), vector.iter().zip(&longer).map(|(a, b)| a * b).sum())
                })
                .collect();
            let hits = answer["points"].as_array().expect("hits");
            assert_eq!(hits.len(), products.len());
            for hit in hits {
                let (_, product) = products.iter().find(|(id, _)| *id == hit["id"]).expect("a point");
                let score = hit["score"].as_f64().expect("a score");
                assert!((score - product).abs() < 1e-5, "{metric} {name}: {score} {product}");
            }
        }
    }
}

#[test]
fn columns_are_what_searches_serve() {
    let dehub = wordnet("cosine", &["IS(beta=20)", "DIS(beta=20)", "LS(k=5)", "GC(k=5)"]);
    let told = dehub.json(&["export", "x", "columns", "-o", "c.jsonl"]);
    let wanted = ["c0.scale", "c0.bias", "c1.scale", "c1.bias", "c1.gate", "c2.scale", "c2.bias"];
    assert_eq!(told["columns"], json!(wanted));
    let columns = lines(&dehub, "c.jsonl");
    let id = columns[0]["id"].clone();
    let id = id.as_str().map_or(id.to_string(), str::to_owned);
    for name in ["c0", "c2"] {
        let answer = dehub.json(&["search", "x", "--id", &id, "--correction", name, "--exact", "-k", "300"]);
        let hits = answer["points"].as_array().expect("hits");
        assert_eq!(hits.len(), 299);
        for hit in hits {
            let row = columns.iter().find(|row| row["id"] == hit["id"]).expect("a point");
            assert_eq!(row[format!("{name}.bias")].as_f64(), hit["bias"].as_f64());
            assert_eq!(row[format!("{name}.scale")].as_f64(), Some(hit["scale"].as_f64().unwrap_or(1.0)));
        }
    }
    let gates = columns.iter().filter(|row| row["c1.gate"] == json!(1)).count();
    let info = dehub.json(&["info", "x"]);
    let of = info["corrections"].as_array().expect("corrections").iter().find(|it| it["name"] == "c1");
    assert_eq!(json!([gates]), of.expect("c1")["activated"], "{info}");
    let told = dehub.json(&["export", "x", "columns", "--correction", "c2", "-o", "c.npy"]);
    assert_eq!(told["columns"], json!(["c2.scale", "c2.bias"]));
    for (arguments, part) in [
        (vec!["columns", "--correction", "c3", "-o", "d.npy"], "wanted a score that is a weighted sum"),
        (vec!["augmented", "--correction", "c3", "-o", "d.npy"], "wanted a score that is a weighted sum"),
        (vec!["augmented", "--correction", "c9", "-o", "d.npy"], "found c0, c1, c2, c3"),
    ] {
        let ended = dehub.run(&[&["export", "x"], &arguments[..]].concat());
        assert!(ended.code == 1 && ended.stderr.contains(part), "{ended:?}");
    }
}

#[test]
fn runs_and_neighbours_are_what_searches_answer_and_are_measured() {
    let dehub = wordnet("cosine", &["IS(beta=20)"]);
    let (queries, meta) = (testdata("wordnet/queries_test.npy"), testdata("wordnet/queries_test.jsonl"));
    let asked = ["--queries", &queries, "--correction", "c0", "--exact", "-k", "7"];
    let with_ids = ["--meta", meta.as_str()];
    for name in ["r.trec", "r.parquet", "r.jsonl"] {
        dehub.ok(&[&["export", "x", "run", "-o", name], &asked[..], &with_ids[..]].concat());
    }
    let rows = lines(&dehub, "r.jsonl");
    let trec = fs::read_to_string(dehub.path("r.trec")).expect("there");
    assert_eq!(trec.lines().count(), rows.len());
    let answer = dehub.json(&[
        "search",
        "x",
        "--queries",
        &queries,
        "--row",
        "3",
        "--correction",
        "c0",
        "--exact",
        "-k",
        "7",
    ]);
    for (place, hit) in answer["points"].as_array().expect("hits").iter().enumerate() {
        let row = &rows[3 * 7 + place];
        let id = hit["id"].as_str().map_or(hit["id"].to_string(), str::to_owned);
        assert_eq!(
            (&row["doc_id"], &row["score"], &row["rank"]),
            (&json!(id), &hit["score"], &json!(place + 1))
        );
        let line = trec.lines().nth(3 * 7 + place).expect("a line");
        let query = row["q_id"].as_str().expect("an id");
        assert_eq!(line, format!("{query} Q0 {id} {} {} c0", place + 1, hit["score"]));
    }
    let measured = dehub.json(&["measure", "--run", "r.trec", "--truth", "r.parquet", "-m", "ann_recall@7"]);
    assert_eq!(measured["rows"][0]["measures"]["ann_recall@7"], json!(1.0));

    dehub.ok(&["create", "n", "--dim", "7", "--metric", "dot"]);
    for name in ["n.ivecs", "n.npy", "n.ibin"] {
        let told = dehub.json(&[&["export", "x", "neighbours", "-o", name], &asked[..]].concat());
        assert_eq!(told["files"].as_array().map(Vec::len), Some(3));
        let ids = lines(&dehub, &format!("{name}.ids.jsonl"));
        assert_eq!(ids.len(), 300);
        if name == "n.npy" {
            // Whole numbers of 32 bits, which are no vectors to import.
            let (npy, ivecs) = (dehub.path(name), dehub.path("n.ivecs"));
            let (npy, ivecs) = (fs::read(npy).expect("there"), fs::read(ivecs).expect("there"));
            assert!(String::from_utf8_lossy(&npy[..128]).contains("<i4"));
            let rows: Vec<u8> = ivecs.chunks(4 * 8).flat_map(|row| row[4..].to_vec()).collect();
            assert_eq!(npy[npy.len() - rows.len()..], rows);
            continue;
        }
        dehub.ok(&["import", "n", dehub.path(name).to_str().expect("UTF-8")]);
        dehub.ok(&["export", "n", "points", "-o", "n.jsonl", "--force"]);
        let first: Vec<Value> = rows.iter().map(|row| row["doc_id"].clone()).collect();
        let found = lines(&dehub, "n.jsonl").into_iter().flat_map(|line| numbers(&line["vector"]));
        let found: Vec<Value> = found
            .map(|row| {
                let id = &ids[row as usize]["id"];
                json!(id.as_str().map_or(id.to_string(), str::to_owned))
            })
            .collect();
        assert_eq!(found, first, "{name}");
    }
}

#[test]
fn files_that_are_there_stay_unless_told_and_wrong_wishes_leave_nothing() {
    let dehub = filled("texts", "dot");
    let there = dehub.file("a.npy.ids.jsonl", "mine");
    let queries = dehub.file("q.jsonl", "{\"vector\": [1, 0, 0, 0, 0, 0, 0, 0, 1]}\n");
    for (arguments, part) in [
        (vec!["points", "-o", "a.npy"], "a.npy.ids.jsonl: the file exists; --force replaces it"),
        (vec!["points", "-o", "a"], "no ending tells the format"),
        (vec!["points", "-o", "a.csv"], "ending .csv"),
        (vec!["points", "-o", "a.trec"], "trec is a format of `export run` alone"),
        (vec!["points", "-o", "a.npz"], "read and not written"),
        (vec!["points", "-o", "a.ivecs"], "row 0"),
        (vec!["points", "-o", "data", "--format", "jsonl", "--force"], "no regular file"),
        (vec!["points", "-o", "-", "--format", "npy"], "wanted a format that is one file"),
        (vec!["points", "-o", "-", "--format", "jsonl", "--json"], "both want standard output"),
        (vec!["columns", "-o", "a.jsonl"], "there are no columns"),
        (vec!["run", "--queries", &queries, "-o", "a.trec"], "no ids with white space"),
        (vec!["neighbours", "--queries", &queries, "-o", "a.fvecs"], "row numbers are written as"),
    ] {
        let ended = dehub.run(&[&["export", "x"], &arguments[..]].concat());
        assert!(ended.code == 1 && ended.stderr.contains(part), "{arguments:?}: {ended:?}");
    }
    assert_eq!(fs::read_to_string(&there).expect("there"), "mine");
    let names = fs::read_dir(dehub.path(".")).expect("a folder").map(|it| it.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names, ["a.npy.ids.jsonl", "data", "points.jsonl", "q.jsonl"]);
    dehub.ok(&["export", "x", "points", "-o", "a.npy", "--force"]);
    assert_ne!(fs::read_to_string(&there).expect("there"), "mine");
    let ended = dehub.ok(&["export", "x", "points", "-o", "-", "--format", "jsonl"]);
    assert_eq!(ended.stdout.lines().count(), 40);
}
