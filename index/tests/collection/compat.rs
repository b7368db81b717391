//! Stores of an older format are brought to the present one when they are opened, or are as they were.

use std::fs;
use std::path::{Path, PathBuf};

use dehub_index::{Collection, Durability, OpenError, Quantization};
use dehub_store::{Batch, Durability as Synced, Family, Fault, Faults, Store};
use dehub_vector::Metric;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::dump::dump;
use crate::made::{Home, config, name, point, store_folder};

const META: Family = Family::new("meta");
const CORRECTIONS: Family = Family::new("corrections");
const SETS: Family = Family::new("sets");
const CONFIG_KEY: &[u8] = b"config";
/// Of a fit that is not complete.
const FIT_KEY: &[u8] = b"fit/\0\0\x03\x84";
/// The oldest format that is read.
const OLDEST: u32 = 2;

fn fixture(format: u32) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the workspace");
    root.join(format!("testdata/compat/format-{format}"))
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the temporary folder is writable");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() { copy_folder(&from, &to) } else { _ = fs::copy(&from, &to).expect("a copy") }
    }
}

/// A data directory of format 2, with one collection.
struct Old {
    folder: TempDir,
}

impl Old {
    fn new() -> Old {
        let folder = tempfile::tempdir().expect("a folder for the test");
        copy_folder(&fixture(2).join("data"), folder.path());
        Old { folder }
    }

    fn collection(&self) -> PathBuf {
        self.folder.path().join("collections/kept")
    }

    fn store(&self) -> Store {
        Store::open(&store_folder(&self.collection()), Collection::families()).expect("it opens")
    }

    /// The same with a store whose calls are counted and made to fail.
    fn open_with(&self, faults: &Faults) -> Result<Collection, OpenError> {
        Collection::open_with(&self.collection(), self.store().with_faults(faults))
    }

    fn open(&self) -> Collection {
        self.open_with(&Faults::none()).expect("it opens")
    }
}

fn read(store: &Store, family: Family, key: &[u8]) -> Map<String, Value> {
    let bytes = store.get(family, key).expect("readable").expect("there");
    serde_json::from_slice(&bytes).expect("an object")
}

fn write(store: &Store, family: Family, key: &[u8], record: &Map<String, Value>) {
    let mut batch = Batch::default();
    batch.put(family, key, &serde_json::to_vec(record).expect("JSON"));
    store.commit(batch, Synced::Strict).expect("writable");
}

/// Changes every record of a family whose key starts so.
fn change(store: &Store, family: Family, prefix: &[u8], change: impl Fn(&mut Map<String, Value>)) -> usize {
    let rows = store.scan_prefix(family, prefix);
    let keys: Vec<_> = rows.map(|item| item.expect("readable").0).collect();
    for key in &keys {
        let mut record = read(store, family, key);
        change(&mut record);
        write(store, family, key, &record);
    }
    keys.len()
}

#[test]
fn every_format_that_is_read_has_a_fixture() {
    let present = Home::new(config(4, Metric::Dot)).snapshot().format().number;
    for format in OLDEST..=present {
        for part in ["data/collections/kept", "backup", "expected.json"] {
            let path = fixture(format).join(part);
            assert!(
                path.exists(),
                "{} is missing: before the format is raised, and after, run testdata/compat/make.sh",
                path.display()
            );
        }
    }
}

/// As the first program that wrote format 2 left them, without what came later.
#[test]
fn records_that_lack_what_came_later_are_made_whole() {
    let old = Old::new();
    let wanted = dump(&old.open().snapshot());
    let old = Old::new();
    let store = old.store();
    change(&store, META, CONFIG_KEY, |record| {
        assert!(record.remove("durability").is_some() && record.remove("quantization").is_some());
    });
    let sets = change(&store, SETS, b"", |record| {
        // One that is balanced with a gallery bank has not been without saying so.
        if record["beside"].is_null() {
            record.remove("beside");
            if let Some(Value::Object(sinkhorn)) = record["kind"].get_mut("Sinkhorn") {
                assert_eq!(sinkhorn.remove("with_gallery"), Some(json!(false)));
            }
        }
    });
    let corrections = change(&store, CORRECTIONS, b"", |record| {
        if record["floors"] == json!([]) {
            record.remove("floors");
        }
    });
    assert!(sets > 5 && corrections > 5, "{sets} sets, {corrections} corrections");
    // A fit that is not complete, as it was kept then.
    let fit = json!({
        "inputs": [{"name": "cut", "method": "SN(tau=0.5,n=3)", "query_bank": "others", "gallery_bank": null}],
        "numbers": [900, 901],
        "columns": [{
            "number": 900, "kind": {"Sinkhorn": {"tau": 0.5, "iterations": 3}}, "bank": 1, "slots": 5, "hash": "",
            "rows": 0,
        }],
        "total": 34,
    });
    write(&store, META, FIT_KEY, fit.as_object().expect("an object"));
    drop(store);

    let collection = old.open();
    assert_eq!(dump(&collection.snapshot()), wanted);
    assert_eq!(collection.snapshot().config().graph.quantization, Quantization::Bf16);
    assert_eq!(collection.snapshot().config().durability, Durability::Strict);
    assert_eq!(collection.pending_fits().len(), 1);
    assert!(collection.drop_pending(&name("cut")).expect("writable"));
    assert!(collection.verify(&mut |_| ()).is_whole());
    drop(collection);
    let store = old.store();
    let whole = |family, prefix: &[u8], field: &str| {
        assert!(change(&store, family, prefix, |record| assert!(record.contains_key(field), "{field}")) > 0);
    };
    for field in ["quantization", "durability", "made_by", "written_by"] {
        whole(META, CONFIG_KEY, field);
    }
    whole(SETS, b"", "beside");
    whole(CORRECTIONS, b"", "floors");
}

/// What is not whole in the present format is damage, and not an older record.
#[test]
fn a_record_of_the_present_format_that_is_not_whole_is_refused() {
    for (family, prefix, field) in [
        (META, CONFIG_KEY, "quantization"),
        (META, CONFIG_KEY, "durability"),
        (META, CONFIG_KEY, "made_by"),
        (META, CONFIG_KEY, "written_by"),
        (SETS, b"", "beside"),
        (CORRECTIONS, b"", "floors"),
    ] {
        let old = Old::new();
        drop(old.open());
        change(&old.store(), family, prefix, |record| assert!(record.remove(field).is_some(), "{field}"));
        let error = old.open_with(&Faults::none()).map(drop).expect_err(field);
        assert!(error.to_string().contains(&format!("missing field `{field}`")), "{error}");
    }
}

#[test]
fn a_store_that_fails_at_any_call_of_the_upgrade_opens_right_afterwards() {
    let old = Old::new();
    let calls = || {
        let counted = Faults::none();
        let collection = old.open_with(&counted).expect("it opens");
        (counted.calls(), dump(&collection.snapshot()))
    };
    let ((upgrading, wanted), (reading, _)) = (calls(), calls());
    // The second time there was nothing to do but to look at the format, as after an upgrade.
    let commit = upgrading - reading;
    assert!(commit > 20, "{commit}");
    // The last step looks at the format, reads the configuration and commits; the one before takes a view too.
    let second = commit - 3;
    let first = second - 4;
    let before = |call| {
        if call <= first {
            2
        } else if call <= second {
            3
        } else {
            4
        }
    };
    let refused = (1..=commit).map(|call| (call, Fault::Refused, before(call)));
    let commits = [first, second, commit];
    let unacknowledged = commits.map(|call| (call, Fault::Unacknowledged, before(call) + 1));
    for (call, fault, format) in refused.chain(unacknowledged) {
        let old = Old::new();
        let error = old.open_with(&Faults::at(call, fault)).map(drop).expect_err("the store failed");
        let is_right = match &error {
            OpenError::Upgrade { from, .. } => commits.contains(&call) && *from == before(call),
            OpenError::Read { .. } => !commits.contains(&call),
            OpenError::Store(_) | OpenError::Format { .. } | OpenError::Create { .. } | _ => false,
        };
        assert!(is_right, "{fault:?} at call {call} of {commit}: {error}");
        assert_eq!(read(&old.store(), META, CONFIG_KEY)["format"], json!(format), "{fault:?} at call {call}");
        assert_eq!(dump(&old.open().snapshot()), wanted, "{fault:?} at call {call}");
    }
}

#[test]
fn formats_that_are_not_read_are_refused_by_name() {
    let old = Old::new();
    drop(old.open());
    let refused = |change_config: &dyn Fn(&mut Map<String, Value>)| {
        change(&old.store(), META, CONFIG_KEY, change_config);
        old.open_with(&Faults::none()).map(drop).expect_err("refused").to_string()
    };
    // Nothing of a later record is known but its head.
    let error = refused(&|record| {
        *record = Map::new();
        record.insert("format".to_owned(), json!(6));
        record.insert("written_by".to_owned(), json!("0.9.0"));
        record.insert("shards".to_owned(), json!([{"dim": "many"}]));
    });
    assert!(error.contains("format 6, written by dehub 0.9.0"), "{error}");
    assert!(error.contains("reads formats 2 to 5: update dehub"), "{error}");
    let error = refused(&|record| *record = Map::from_iter([("format".to_owned(), json!(1))]));
    assert!(error.contains("the collection has format 1, and"), "{error}");
    assert!(error.ends_with("reads formats 2 to 5: make the collection anew from its data"), "{error}");
    let error = refused(&|record| *record = Map::from_iter([("written_by".to_owned(), json!("0.9.0"))]));
    assert!(error.contains("missing field `format`"), "{error}");
}

/// Every later version of dehub goes by this head.
#[test]
fn the_head_of_the_configuration_is_what_every_version_reads() {
    let mut home = Home::new(config(4, Metric::Dot));
    let version = env!("CARGO_PKG_VERSION");
    let folder = home.path();
    home.reopen_after(|| {
        let store = Store::open(&store_folder(&folder), Collection::families()).expect("free");
        let record = read(&store, META, CONFIG_KEY);
        assert_eq!(record["format"], json!(5));
        assert_eq!(record["written_by"], json!(version));
        assert_eq!(record["made_by"], json!(version));
        // Another version that writes the same format had it last.
        change(&store, META, CONFIG_KEY, |record| {
            record.insert("written_by".to_owned(), json!("0.0.9"));
            record.insert("made_by".to_owned(), json!("0.0.8"));
        });
    });
    let versions = |home: &Home| {
        let format = home.snapshot().format().clone();
        (format.made_by, format.written_by)
    };
    assert_eq!(versions(&home), ("0.0.8".to_owned(), "0.0.9".to_owned()));
    home.collection().upsert(&[point(1, &[1.0; 4])]).expect("a good point");
    for _ in 0..2 {
        assert_eq!(versions(&home), ("0.0.8".to_owned(), version.to_owned()));
        home.reopen();
    }
}
