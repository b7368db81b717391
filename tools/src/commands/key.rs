//! `dehub key`.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use dehub_api::{Grant, Key, Rights};
use dehub_index::Name;
use serde_json::json;

use super::{Context, Outcome};
use crate::cli::{KeyArgs, KeyCommand, NewKey, Role};

/// A collection, and what a key may do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    name: String,
    grant: Grant,
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Scope, String> {
        let (name, grant) = match text.rsplit_once(':') {
            Some((name, grant)) => (name, grant.parse()?),
            None => (text, Grant::Read),
        };
        if name != "*" {
            name.parse::<Name>().map_err(|error| error.to_string())?;
        }
        Ok(Scope { name: name.to_owned(), grant })
    }
}

/// Makes keys.
pub(crate) fn run(context: &Context, command: &KeyArgs) -> anyhow::Result<Outcome> {
    let KeyCommand::New(new) = &command.what;
    make(context, new)
}

fn make(context: &Context, new: &NewKey) -> anyhow::Result<Outcome> {
    let scopes: BTreeMap<String, Grant> =
        new.collection.iter().map(|scope| (scope.name.clone(), scope.grant)).collect();
    let rights = match new.role {
        Some(Role::Admin) => Rights::Admin,
        Some(Role::ReadOnly) => Rights::ReadOnly,
        None if scopes.is_empty() => Rights::ReadOnly,
        None => Rights::Collections(scopes),
    };
    let taken = new.into.as_deref().map(Key::names_in).transpose()?.unwrap_or_default();
    let (key, secret) = Key::fresh(&name(new.name.as_deref(), &taken)?, rights)?;
    let entry = key.to_toml();
    if let Some(path) = &new.into {
        add(path, &entry).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    context.output.result(&json!({ "key": secret, "entry": entry }), || match &new.into {
        Some(path) => {
            let (name, path) = (key.name(), path.display());
            format!("{secret}\n\nThis is shown once. Its entry, `{name}`, is in {path}.")
        }
        None => format!("{secret}\n\nThis is shown once. Its entry for a key file:\n\n{entry}"),
    })?;
    Ok(Outcome::Done)
}

/// The name of a new key: the one that is given, or the first of `key`, `key-2`, … that no key of the file has.
fn name(given: Option<&str>, taken: &[String]) -> anyhow::Result<String> {
    let is_free = |name: &String| !taken.contains(name);
    if let Some(given) = given {
        if !is_free(&given.to_owned()) {
            bail!("the file has a key `{given}`, wanted another name (--name)");
        }
        return Ok(given.to_owned());
    }
    let numbered = (2_usize..).map(|number| format!("key-{number}"));
    let name = std::iter::once("key".to_owned()).chain(numbered).find(is_free);
    name.context("there is a free number")
}

fn add(path: &Path, entry: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let gap = if file.metadata()?.len() == 0 { "" } else { "\n" };
    file.write_all(format!("{gap}{entry}").as_bytes())?;
    file.sync_all()
}
