//! Collections, aliases, snapshots and backups.

use serde_json::json;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::{delete, get, patch, post, put};
use crate::aliases::Listed as AliasList;
use crate::backups::{Listed as BackupList, Removed};
use crate::collections::{Described, Exists, Listed as CollectionList};
use crate::openapi::bodies::collections::{
    BuildGraph, ChangeAliases, CompactCollection, CreateBackup, CreateCollection, RecoverSnapshot,
    RestoreBackup, SnapshotForm, UpdateCollection, VerifyCollection,
};
use crate::openapi::operation::Operation;
use crate::openapi::schema::{boolean, list, one};
use crate::snapshots::SnapshotReply;

const COLLECTIONS: &str = "Collections";
const ALIASES: &str = "Aliases";
const COPIES: &str = "Snapshots and backups";

pub(super) fn operations() -> Vec<Operation> {
    [collections(), upkeep(), aliases(), snapshots(), backups()].into_iter().flatten().collect()
}

fn collections() -> Vec<Operation> {
    let about = |id, summary| (id, COLLECTIONS, summary);
    vec![
        get("/collections", about("listCollections", "All collections"))
            .timed()
            .gives(one::<CollectionList>()),
        put("/collections/{collection}", about("createCollection", "Makes a collection"))
            .timed()
            .writes()
            .takes::<CreateCollection>([
                ("small", json!({ "vectors": { "size": 4, "distance": "Cosine" } })),
                (
                    "full",
                    json!({
                        "vectors": { "size": 4, "distance": "Dot", "on_disk": false },
                        "hnsw_config": { "m": 16, "ef_construct": 100, "full_scan_threshold": 10_000 },
                        "quantization_config": { "scalar": { "type": "int8", "always_ram": false } },
                        "optimizers_config": { "default_segment_number": 0 },
                        "strict_mode_config": { "enabled": false },
                        "durability": "strict",
                        "text_fields": { "text": { "analyzer": "english" }, "title": { "k1": 0.9, "b": 0.4 } },
                    }),
                ),
            ])
            .gives(boolean()),
        get("/collections/{collection}", about("getCollection", "What a collection is like"))
            .timed()
            .gives(one::<Described>()),
        patch("/collections/{collection}", about("updateCollection", "Changes settings of a collection"))
            .timed()
            .writes()
            .takes::<UpdateCollection>([
                ("durability", json!({ "durability": "relaxed" })),
                ("text_fields", json!({ "text_fields": { "text": { "analyzer": "german" }, "title": {} } })),
                ("quantization", json!({ "hnsw_config": { "quantization": "int8" } })),
                (
                    "params",
                    json!({ "params": { "replication_factor": 1 }, "vectors": { "": { "on_disk": false } } }),
                ),
            ])
            .gives(boolean()),
        delete(
            "/collections/{collection}",
            about("deleteCollection", "Drops a collection; `false` if there is none"),
        )
        .timed()
        .writes()
        .gives(boolean()),
        get("/collections/{collection}/exists", about("collectionExists", "Whether there is a collection"))
            .timed()
            .gives(one::<Exists>()),
    ]
}

fn upkeep() -> Vec<Operation> {
    let about = |id, summary| (id, COLLECTIONS, summary);
    vec![
        post("/collections/{collection}/build", about("buildGraph", "Freezes points, as a job"))
            .timed()
            .takes::<BuildGraph>([("whole", json!({ "whole": true }))])
            .optionally()
            .may_refuse(&[409, 507])
            .begins_job(),
        post(
            "/collections/{collection}/verify",
            about("verifyCollection", "Derives everything again and compares, as a job"),
        )
        .timed()
        .takes::<VerifyCollection>([("look", json!({ "rebuild": false }))])
        .optionally()
        .may_refuse(&[409, 507])
        .begins_job(),
        post("/collections/{collection}/compact", about("compactCollection", "Gives back disk, as a job"))
            .timed()
            .takes::<CompactCollection>([("plain", json!({}))])
            .optionally()
            .may_refuse(&[409, 507])
            .begins_job(),
    ]
}

fn aliases() -> Vec<Operation> {
    let about = |id, summary| (id, ALIASES, summary);
    vec![
        get("/aliases", about("listAliases", "All aliases")).timed().gives(one::<AliasList>()),
        get("/collections/{collection}/aliases", about("collectionAliases", "The aliases of a collection"))
            .timed()
            .gives(one::<AliasList>()),
        post(
            "/collections/aliases",
            about("changeAliases", "Makes, renames and takes away aliases, all or none"),
        )
        .timed()
        .writes()
        .takes::<ChangeAliases>([
            (
                "create",
                json!({ "actions": [
                    { "create_alias": { "collection_name": "books", "alias_name": "novels" } },
                ] }),
            ),
            (
                "rename",
                json!({ "actions": [
                    { "rename_alias": { "old_alias_name": "novels", "new_alias_name": "fiction" } },
                ] }),
            ),
            ("take_away", json!({ "actions": [{ "delete_alias": { "alias_name": "fiction" } }] })),
        ])
        .gives(boolean()),
    ]
}

fn snapshots() -> Vec<Operation> {
    let about = |id, summary| (id, COPIES, summary);
    let text = || Object::with_type(Type::String);
    let priority = ObjectBuilder::new().schema_type(Type::String);
    let priority = priority.enum_values(Some(["no_sync", "snapshot", "replica"])).build();
    vec![
        get("/collections/{collection}/snapshots", about("listSnapshots", "The snapshots of a collection"))
            .timed()
            .gives(list::<SnapshotReply>()),
        post("/collections/{collection}/snapshots", about("createSnapshot", "Makes a snapshot"))
            .timed()
            .writes()
            .gives(one::<SnapshotReply>()),
        get(
            "/collections/{collection}/snapshots/{snapshot}",
            about("downloadSnapshot", "The file of a snapshot"),
        )
        .timed()
        .gives_media("application/octet-stream", "A tar archive."),
        delete(
            "/collections/{collection}/snapshots/{snapshot}",
            about("deleteSnapshot", "Removes a snapshot"),
        )
        .timed()
        .writes()
        .gives(boolean()),
        put(
            "/collections/{collection}/snapshots/recover",
            about(
                "recoverSnapshot",
                "Puts a snapshot of this server \
            in the place of a collection",
            ),
        )
        .timed()
        .writes()
        .takes::<RecoverSnapshot>([(
            "of_this_server",
            json!({
                "location": "file:///snapshots/books/books-1.snapshot",
                "priority": "snapshot",
            }),
        )])
        .gives(boolean()),
        post(
            "/collections/{collection}/snapshots/upload",
            about(
                "uploadSnapshot",
                "Puts a snapshot that is sent in \
            the place of a collection",
            ),
        )
        .timed()
        .writes()
        .parameter("priority", priority, "Of one node each means the same.")
        .parameter("checksum", text(), "SHA-256 of the file in hexadecimal digits.")
        .takes_form::<SnapshotForm>()
        .gives(boolean()),
    ]
}

fn backups() -> Vec<Operation> {
    let about = |id, summary| (id, COPIES, summary);
    vec![
        get("/collections/{collection}/backups", about("listBackups", "The backups of a collection"))
            .timed()
            .may_refuse(&[409])
            .gives(one::<BackupList>()),
        post("/collections/{collection}/backups", about("createBackup", "Backs a collection up, as a job"))
            .timed()
            .takes::<CreateBackup>([("plain", json!({}))])
            .optionally()
            .may_refuse(&[409, 507])
            .begins_job(),
        delete("/collections/{collection}/backups/{backup}", about("deleteBackup", "Removes a backup"))
            .timed()
            .may_refuse(&[409])
            .gives(one::<Removed>()),
        post("/collections/{collection}/restore", about("restoreBackup", "Restores a backup, as a job"))
            .timed()
            .takes::<RestoreBackup>([("newest", json!({ "replace": true }))])
            .optionally()
            .may_refuse(&[409, 507])
            .begins_job(),
    ]
}
