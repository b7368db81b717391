//! `dehub backup`.

use std::ops::ControlFlow;

use anyhow::bail;
use dehub_api::{back_up, backup_value, stored_value};
use dehub_backup::{BackupError, BackupId, Progress, Repository, StoreOptions, Swept};
use dehub_index::Name;
use indicatif::{HumanBytes, ProgressBar};
use serde_json::{Value, json};

use super::{Context, Outcome};
use crate::cli::Backup;
use crate::output::table;

/// Stores collections, or looks after what is stored.
pub(crate) fn run(context: &Context, command: &Backup) -> anyhow::Result<Outcome> {
    let repository = Repository::open(&command.repository)?;
    let Some(collection) = &command.collection else { return all(context, command, &repository) };
    let name: Name = collection.parse()?;
    if command.list {
        list(context, &name, &repository)
    } else if let Some(backup) = &command.check {
        check(context, &name, &repository, backup.as_ref())
    } else if let Some(backup) = &command.remove {
        remove(context, &name, &repository, backup)
    } else {
        let (value, text) = store(context, command, &name, &repository)?;
        context.output.result(&value, || text)?;
        Ok(Outcome::Done)
    }
}

/// Backs up every collection. One that cannot be does not keep the others from it.
fn all(context: &Context, command: &Backup, repository: &Repository) -> anyhow::Result<Outcome> {
    let (mut values, mut texts, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for name in context.catalogue.names()? {
        match store(context, command, &name, repository) {
            Ok((value, text)) => {
                values.push(value);
                texts.push(text);
            }
            Err(error) => failures.push(format!("`{name}`: {error:#}")),
        }
    }
    let result = json!({ "repository": repository.location(), "collections": values });
    context.output.result(&result, || match texts.as_slice() {
        [] => format!("nothing was backed up: no collections in {}", context.catalogue.folder().display()),
        texts => texts.join("\n"),
    })?;
    if !failures.is_empty() {
        bail!("{} of the collections not backed up: {}", failures.len(), failures.join("; "));
    }
    Ok(Outcome::Done)
}

fn store(
    context: &Context,
    command: &Backup,
    name: &Name,
    repository: &Repository,
) -> anyhow::Result<(Value, String)> {
    let bar = bytes_bar(context, "backing up");
    let options = StoreOptions { link: command.link };
    let stored = back_up(&context.catalogue, name, repository, options, &mut show(&bar));
    bar.finish_and_clear();
    let stored = stored?;
    let mut value = json!({ "collection": name.as_str(), "repository": repository.location() });
    let info = &stored.info;
    let about = &info.about;
    let whole = format!("{} points at sequence {}", about.points, about.sequence);
    let parts = [stored.bytes_copied, stored.bytes_linked, stored.bytes_shared].map(HumanBytes);
    let [copied, linked, shared] = &parts;
    let mut text = format!(
        "backed up `{name}`, {whole}, to {} as {}\n\
         {} files, {}: {copied} copied, {linked} linked, {shared} there before",
        repository.location(),
        info.id,
        info.files,
        HumanBytes(info.bytes),
    );
    let mut pruned = Value::Null;
    if let Some(keep) = command.keep {
        match repository.prune(name.as_str(), usize::try_from(keep).unwrap_or(usize::MAX)) {
            Ok(swept) => {
                pruned = swept_value(&swept);
                text = format!("{text}\n{}", swept_text(&swept));
            }
            // The backup is there; the next one prunes.
            Err(error @ BackupError::Busy { .. }) => {
                context.output.note(format!("nothing was removed: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let (Value::Object(value), Value::Object(stored)) = (&mut value, stored_value(&stored)) {
        value.extend(stored);
        value.insert("removed".to_owned(), pruned);
    }
    Ok((value, text))
}

fn list(context: &Context, name: &Name, repository: &Repository) -> anyhow::Result<Outcome> {
    let listing = repository.list(name.as_str())?;
    let damaged: Vec<String> = listing.damaged.iter().map(ToString::to_string).collect();
    let result = json!({
        "collection": name.as_str(),
        "repository": repository.location(),
        "backups": listing.backups.iter().map(backup_value).collect::<Vec<_>>(),
        "damaged": damaged,
    });
    context.output.result(&result, || {
        if listing.backups.is_empty() && damaged.is_empty() {
            return format!("no backups of `{name}` in {}", repository.location());
        }
        let rows = listing.backups.iter().map(|info| {
            let bytes = HumanBytes(info.bytes).to_string();
            let about = &info.about;
            let numbers = [about.sequence, about.points, info.files as u64].map(|number| number.to_string());
            [vec![info.id.to_string(), about.version.clone()], numbers.to_vec(), vec![bytes]].concat()
        });
        let head = ["backup", "dehub", "sequence", "points", "files", "bytes"];
        [table(&head, 2, rows), damaged.join("\n")].concat()
    })?;
    Ok(Outcome::Done)
}

fn check(
    context: &Context,
    name: &Name,
    repository: &Repository,
    backup: Option<&BackupId>,
) -> anyhow::Result<Outcome> {
    let bar = bytes_bar(context, "checking");
    let checked = repository.check(name.as_str(), backup, &mut show(&bar));
    bar.finish_and_clear();
    let checked = checked?;
    let damage: Vec<String> = checked.damage.iter().map(ToString::to_string).collect();
    if !damage.is_empty() {
        bail!("{}", damage.join("\n"));
    }
    let info = &checked.info;
    let result = json!({ "collection": name.as_str(), "backup": backup_value(info), "right": true });
    context.output.result(&result, || {
        let bytes = HumanBytes(info.bytes);
        format!("backup {} of `{name}` is right: {} files, {bytes}, all as stored", info.id, info.files)
    })?;
    Ok(Outcome::Done)
}

fn remove(
    context: &Context,
    name: &Name,
    repository: &Repository,
    backup: &BackupId,
) -> anyhow::Result<Outcome> {
    let swept = repository.remove(name.as_str(), backup)?;
    let result = json!({ "collection": name.as_str(), "removed": swept_value(&swept) });
    context.output.result(&result, || swept_text(&swept))?;
    Ok(Outcome::Done)
}

fn swept_value(swept: &Swept) -> Value {
    let backups: Vec<&str> = swept.backups.iter().map(BackupId::as_str).collect();
    json!({ "backups": backups, "objects": swept.objects, "bytes": swept.bytes })
}

fn swept_text(swept: &Swept) -> String {
    let backups = match swept.backups.as_slice() {
        [] => "no backup".to_owned(),
        [one] => format!("backup {one}"),
        more => format!("{} backups", more.len()),
    };
    format!("removed {backups} and {} files that no other needs, {}", swept.objects, HumanBytes(swept.bytes))
}

/// A bar for bytes.
pub(super) fn bytes_bar(context: &Context, what: &'static str) -> ProgressBar {
    context.output.progress(what, Some(0))
}

/// Shows on a bar how far the work is.
pub(super) fn show(bar: &ProgressBar) -> impl FnMut(Progress) -> ControlFlow<()> {
    |now| {
        bar.set_length(now.total);
        bar.set_position(now.done);
        ControlFlow::Continue(())
    }
}
