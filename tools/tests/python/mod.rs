//! The Python that tests run scripts with.

use std::env;
use std::path::PathBuf;

/// The interpreter that `make setup-test` prepares: where the Makefile says, or where it is without being told.
pub(crate) fn interpreter() -> PathBuf {
    let told = env::var_os("DEHUB_TEST_PYTHON").map(PathBuf::from);
    let cache = || {
        let own = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
        own.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
    };
    let path = told.or_else(|| Some(cache()?.join("dehub/python/bin/python")));
    let path = path.expect("there is a home directory, or DEHUB_TEST_PYTHON names the interpreter");
    assert!(
        path.is_file(),
        "there is no Python with the libraries of clients/requirements.txt at {}: run `make setup-test`, which installs it",
        path.display()
    );
    path
}
