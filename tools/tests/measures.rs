//! `dehub measure` against ir-measures, trec_eval, ranx and scipy, on runs and judgements made up from seeds.
//!
//! What is compared is in `measures/compare.py`; docs/measures.md lists where the tools differ by definition.

mod python;

use std::path::Path;
use std::process::Command;

use python::interpreter;

/// Pairs of a run and judgements.
const PAIRS: &str = "200";

/// Runs a section of the script, which must end well.
fn compare(section: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/measures/compare.py");
    let mut command = Command::new(interpreter());
    // A cache of bytecode would be left among the sources.
    command.arg("-B").arg(script).arg(section).arg(env!("CARGO_BIN_EXE_dehub")).arg(folder.path()).arg(PAIRS);
    // ranx would compile for minutes what runs for seconds.
    command.env("NUMBA_DISABLE_JIT", "1");
    let ended = command.output().expect("the interpreter runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ended.status.success(), "{}\n{}", text(&ended.stdout), text(&ended.stderr));
    text(&ended.stdout)
}

#[test]
fn measures_are_those_of_ir_measures_and_trec_eval() {
    assert!(compare("ir_measures").contains("200 pairs"));
}

#[test]
fn measures_are_those_of_ranx_on_lists_without_ties() {
    assert!(compare("ranx").contains("200 pairs"));
}

#[test]
fn areas_tests_and_hubness_are_those_of_scipy() {
    assert!(compare("scipy").contains("200 pairs"));
}

#[test]
fn files_that_ranx_writes_are_read() {
    assert!(compare("files").contains("2 forms"));
}
