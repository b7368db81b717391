//! Other names of collections. Wherever a path names a collection, an alias does as well.

use actix_web::HttpResponse;
use dehub_index::{AliasChange, Name};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::call::Call;
use crate::decode::{self, Fields, Place};
use crate::errors::{self, AliasName};
use crate::problem::Problem;

#[derive(Serialize, ToSchema)]
#[schema(as = AliasList)]
pub(crate) struct Listed {
    aliases: Vec<AliasReply>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Alias)]
struct AliasReply {
    alias_name: String,
    collection_name: String,
}

/// A change, and the field of the body it was written in.
struct Action {
    change: AliasChange,
    field: &'static str,
}

/// `GET /aliases`
pub(crate) async fn list(call: Call) -> HttpResponse {
    call.answer(&[], |task| {
        let aliases = task.edge().catalogue().aliases().map_err(|error| errors::catalogue(&error))?;
        task.reply(&listed(aliases.into_iter().filter(|(_, collection)| task.may_read(collection))))
    })
    .await
}

/// `GET /collections/{collection}/aliases`
pub(crate) async fn of_collection(call: Call) -> HttpResponse {
    call.answer(&[], |task| {
        let name = task.name("collection")?;
        // One that is not there has no aliases, and is an error.
        drop(task.collection()?);
        let aliases = task.edge().catalogue().aliases().map_err(|error| errors::catalogue(&error))?;
        task.reply(&listed(aliases.into_iter().filter(|(_, collection)| *collection == name)))
    })
    .await
}

/// `POST /collections/aliases`: all of the actions, one after the other, or none.
pub(crate) async fn change(call: Call) -> HttpResponse {
    call.answer_body(&["wait", "timeout"], |task, body| {
        let mut fields = Fields::new(body, Place::Body)?;
        let actions = fields.required("actions", |value, place| decode::list(value, place, action))?;
        fields.finish()?;
        let changes: Vec<AliasChange> = actions.iter().map(|action| action.change.clone()).collect();
        let changed = task.edge().catalogue().change_aliases(&changes);
        changed.map_err(|error| errors::aliases(&error, |place, name| pointer(&actions, place, name)))?;
        task.reply(&true)
    })
    .await
}

fn listed(aliases: impl IntoIterator<Item = (Name, Name)>) -> Listed {
    let reply = |(alias, collection): (Name, Name)| AliasReply {
        alias_name: alias.into(),
        collection_name: collection.into(),
    };
    Listed { aliases: aliases.into_iter().map(reply).collect() }
}

fn action(value: Value, place: Place<'_>) -> Result<Action, Problem> {
    let mut fields = Fields::new(value, place)?;
    let set = fields.optional("create_alias", |value, place| {
        let mut fields = Fields::new(value, place)?;
        let collection = fields.required("collection_name", decode::name)?;
        let alias = fields.required("alias_name", decode::name)?;
        fields.finish()?;
        Ok(Action { change: AliasChange::Set { alias, collection }, field: "create_alias" })
    })?;
    let remove = fields.optional("delete_alias", |value, place| {
        let mut fields = Fields::new(value, place)?;
        let alias = fields.required("alias_name", decode::name)?;
        fields.finish()?;
        Ok(Action { change: AliasChange::Remove { alias }, field: "delete_alias" })
    })?;
    let rename = fields.optional("rename_alias", |value, place| {
        let mut fields = Fields::new(value, place)?;
        let from = fields.required("old_alias_name", decode::name)?;
        let to = fields.required("new_alias_name", decode::name)?;
        fields.finish()?;
        Ok(Action { change: AliasChange::Rename { from, to }, field: "rename_alias" })
    })?;
    let mut given = [set, remove, rename].into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(action), None) => fields.finish().map(|()| action),
        (None, _) => Err(fields.missing("create_alias, delete_alias or rename_alias")),
        (Some(_), Some(second)) => {
            let wanted = "one of create_alias, delete_alias and rename_alias";
            Err(decode::out_of_range(place.field(second.field), "a second change", wanted))
        }
    }
}

/// Where in the body a name of a change is.
fn pointer(actions: &[Action], place: usize, name: AliasName) -> String {
    let field = actions.get(place).map_or("", |action| action.field);
    let name = match (field, name) {
        ("rename_alias", AliasName::Old) => "old_alias_name",
        ("rename_alias", AliasName::New) => "new_alias_name",
        (_, AliasName::Collection) => "collection_name",
        (_, AliasName::Old | AliasName::New) => "alias_name",
    };
    format!("/actions/{place}/{field}/{name}")
}
