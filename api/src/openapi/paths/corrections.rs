//! Banks, corrections, and what is learned from queries.

use serde_json::json;
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, Type};

use super::{delete, get, post, put};
use crate::banks::{BankReply, Listed as BankList};
use crate::corrections::{ChosenReply, CorrectionReply, FittedReply, Listed as CorrectionList};
use crate::defaults::DefaultReply;
use crate::evaluation::EvaluationReply;
use crate::hubness::Measured;
use crate::live::handlers::{Described, DriftReply, FlushReply, HubnessReply};
use crate::neighbours::NeighboursReply;
use crate::openapi::bodies::corrections::{
    AddToBank, DecayBank, DeleteEntries, DriftQueries, Evaluate, FitCorrection, LivePolicyParams, PriorIds,
    ReleasePoints, SetDefault, SetPrior, Tune,
};
use crate::openapi::bodies::points::HubRule;
use crate::openapi::operation::Operation;
use crate::openapi::schema::{boolean, nullable, one};
use crate::points::WriteReply;
use crate::priors::{Listed as PriorList, PriorReply, Values as PriorValues, WriteReply as PriorWrite};
use crate::quarantine::{Listed as QuarantineList, QuarantineReply};

const BANKS: &str = "Banks";
const CORRECTIONS: &str = "Corrections";

pub(super) fn operations() -> Vec<Operation> {
    let topics =
        [banks(), entries(), corrections(), default(), quarantine(), live(), measured(), priors(), judged()];
    topics.into_iter().flatten().collect()
}

fn banks() -> Vec<Operation> {
    let about = |id, summary| (id, BANKS, summary);
    let kind = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["query", "gallery"])).build();
    let rows = "JSON lines have an entry each, `{\"id\", \"vector\", \"weight\"}`; a table has these columns. \
                `kind` is given in the query string then.";
    vec![
        get("/collections/{collection}/banks", about("listBanks", "The banks of a collection"))
            .timed()
            .gives(one::<BankList>()),
        get("/collections/{collection}/banks/{bank}", about("getBank", "A bank")).timed().gives(one::<BankReply>()),
        put("/collections/{collection}/banks/{bank}", about("addToBank", "Adds entries to a bank, which is made if it \
            is not there"))
            .timed()
            .may_be_job()
            .takes::<AddToBank>([("queries", json!({
                "kind": "query",
                "vectors": [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.9, 0.1, 0.0, 0.2], [0.2, 0.2, 0.6, 0.1]],
                "ids": [1, 2, 3, "four"],
                "weights": [1.0, 1.0, 0.5, 2.0],
            }))])
            .takes_rows(rows)
            .parameter("kind", kind, "The kind of the bank, for rows.")
            .parameter("defer", Object::with_type(Type::Boolean), "For rows, as the field `defer`.")
            .gives(one::<WriteReply>()),
        delete("/collections/{collection}/banks/{bank}", about("deleteBank", "Drops a bank"))
            .timed()
            .writes()
            .gives(boolean()),
    ]
}

fn entries() -> Vec<Operation> {
    let about = |id, summary| (id, BANKS, summary);
    vec![
        post(
            "/collections/{collection}/banks/{bank}/absorb",
            about(
                "absorbBank",
                "Lets corrections take in what they \
            have not",
            ),
        )
        .timed()
        .may_be_job()
        .gives(one::<WriteReply>()),
        post(
            "/collections/{collection}/banks/{bank}/decay",
            about("decayBank", "Weakens the entries of a bank"),
        )
        .timed()
        .writes()
        .takes::<DecayBank>([("a_tenth", json!({ "factor": 0.9, "drop_below": 0.01 }))])
        .gives(one::<WriteReply>()),
        post(
            "/collections/{collection}/banks/{bank}/delete",
            about("deleteEntries", "Takes entries out of a bank"),
        )
        .timed()
        .writes()
        .takes::<DeleteEntries>([("one", json!({ "ids": ["four"] }))])
        .takes_rows("JSON lines have an id each; a table has the column `id`.")
        .gives(one::<WriteReply>()),
        get(
            "/collections/{collection}/banks/{bank}/drift",
            about("bankDrift", "Whether another bank is like this one"),
        )
        .timed()
        .must_have("against", text(), ("The other bank.", "recent"))
        .gives(one::<DriftReply>()),
        post(
            "/collections/{collection}/banks/{bank}/drift",
            about("queryDrift", "Whether queries are like a bank"),
        )
        .timed()
        .takes::<DriftQueries>([("some", json!({ "vectors": spread(32) }))])
        .gives(one::<DriftReply>()),
    ]
}

fn corrections() -> Vec<Operation> {
    let about = |id, summary| (id, CORRECTIONS, summary);
    let path = "/collections/{collection}/corrections/{correction}";
    vec![
        get(
            "/collections/{collection}/corrections",
            about("listCorrections", "The corrections of a collection"),
        )
        .timed()
        .gives(one::<CorrectionList>()),
        get(path, about("getCorrection", "A correction")).timed().gives(one::<CorrectionReply>()),
        put(path, about("fitCorrection", "Fits a correction, or chooses one"))
            .timed()
            .may_be_job()
            .takes::<FitCorrection>([
                (
                    "a_method",
                    json!({ "method": "IS", "parameters": { "beta": 20.0 }, "query_bank": "queries" }),
                ),
                ("a_label", json!({ "method": "IS(beta=20)", "query_bank": "queries" })),
            ])
            .gives_any([one::<FittedReply>(), one::<ChosenReply>()]),
        delete(path, about("deleteCorrection", "Drops a correction")).timed().writes().gives(boolean()),
    ]
}

fn default() -> Vec<Operation> {
    let about = |id, summary| (id, CORRECTIONS, summary);
    let path = "/collections/{collection}/default";
    vec![
        get(path, about("getDefault", "The correction that ranks queries which name none"))
            .timed()
            .gives(nullable::<DefaultReply>()),
        put(path, about("setDefault", "Sets it, if it passes"))
            .timed()
            .writes()
            .takes::<SetDefault>([("forced", json!({ "correction": "is", "force": true }))])
            .gives(one::<DefaultReply>()),
        delete(path, about("clearDefault", "Clears it; `false` if there was none"))
            .timed()
            .writes()
            .gives(boolean()),
    ]
}

fn quarantine() -> Vec<Operation> {
    let about = |id, summary| (id, CORRECTIONS, summary);
    let path = "/collections/{collection}/quarantine";
    vec![
        get(path, about("getQuarantine", "The rule that new points are tested by, and those that are held"))
            .timed()
            .gives(one::<QuarantineList>()),
        put(path, about("beginQuarantine", "Tests every new point from now on"))
            .timed()
            .writes()
            .takes::<HubRule>([("one_in_a_hundred", json!({ "correction": "is", "rate": 0.01 }))])
            .gives(one::<QuarantineReply>()),
        delete(path, about("endQuarantine", "Tests no more; what is held stays so"))
            .timed()
            .writes()
            .gives(boolean()),
        post(
            "/collections/{collection}/quarantine/release",
            about("releasePoints", "Releases points that are held"),
        )
        .timed()
        .writes()
        .takes::<ReleasePoints>([("one", json!({ "points": [99] }))])
        .gives(one::<WriteReply>()),
    ]
}

fn live() -> Vec<Operation> {
    let about = |id, summary| (id, BANKS, summary);
    let path = "/collections/{collection}/live";
    vec![
        get(path, about("getLive", "By what policy queries are kept, and how many are"))
            .timed()
            .gives(one::<Described>()),
        put(path, about("beginLive", "Keeps a sample of the queries served in a bank"))
            .timed()
            .writes()
            .takes::<LivePolicyParams>([(
                "all_of_a_week",
                json!({ "bank": "recent", "rate": 1.0, "capacity": 1000 }),
            )])
            .gives(one::<Described>()),
        delete(path, about("endLive", "Keeps no more; what the bank has stays"))
            .timed()
            .writes()
            .gives(boolean()),
        post("/collections/{collection}/live/flush", about("flushLive", "Brings the bank up to date"))
            .timed()
            .writes()
            .gives(one::<FlushReply>()),
    ]
}

fn measured() -> Vec<Operation> {
    let about = |id, summary| (id, CORRECTIONS, summary);
    let live = "/collections/{collection}/hubness/live";
    vec![
        get("/collections/{collection}/hubness", about("getHubness", "Hubness under the queries of a bank"))
            .timed()
            .must_have("bank", text(), ("The bank.", "queries"))
            .parameter("k", count(1, 65_536), "Neighbours counted; 10 unless given.")
            .parameter("top", count(0, 10_000), "Hubs listed; 10 unless given.")
            .parameter("correction", text(), "Measures this one as well.")
            .gives(one::<Measured>()),
        get(live, about("getLiveHubness", "How often points were answers to the queries served"))
            .timed()
            .parameter("top", count(0, 10_000), "Hubs listed; 10 unless given.")
            .gives(one::<HubnessReply>()),
        delete(live, about("resetLiveHubness", "Counts from 0 again")).timed().gives(boolean()),
    ]
}

fn priors() -> Vec<Operation> {
    let about = |id, summary| (id, CORRECTIONS, summary);
    let path = "/collections/{collection}/priors/{prior}";
    vec![
        get("/collections/{collection}/priors", about("listPriors", "The priors of a collection"))
            .timed()
            .gives(one::<PriorList>()),
        get(path, about("getPrior", "A prior in numbers")).timed().gives(one::<PriorReply>()),
        post(path, about("getPriorValues", "The values of points"))
            .timed()
            .takes::<PriorIds>([("two", json!({ "ids": [1, "three"] }))])
            .gives(one::<PriorValues>()),
        put(path, about("setPrior", "Gives points values, which queries may add to scores"))
            .timed()
            .writes()
            .takes::<SetPrior>([("two", json!({ "ids": [1, 2], "values": [0.5, -0.25] }))])
            .gives(one::<PriorWrite>()),
        delete(path, about("deletePrior", "Drops a prior")).timed().writes().gives(boolean()),
        post(
            "/collections/{collection}/priors/{prior}/delete",
            about("unsetPrior", "Takes values of points away"),
        )
        .timed()
        .writes()
        .takes::<PriorIds>([("one", json!({ "ids": [2] }))])
        .gives(one::<PriorWrite>()),
    ]
}

fn judged() -> Vec<Operation> {
    let about = |id, summary| (id, CORRECTIONS, summary);
    let alpha = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).maximum(Some(100)).build();
    let string = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["string"])).build();
    vec![
        get(
            "/collections/{collection}/points/{id}/neighbours",
            about(
                "getNeighbours",
                "What is near a point, and \
            whether it is a hub",
            ),
        )
        .timed()
        .parameter("k", count(1, 65_536), "Neighbours at most; 10 unless given.")
        .parameter("correction", text(), "What to rank them by; raw unless given.")
        .parameter("alpha", alpha, "The factor on its bias; 1 unless given.")
        .parameter("exact", Object::with_type(Type::Boolean), "Whether to score every point.")
        .parameter("id_type", string, "Digits are a string.")
        .may_refuse(&[408])
        .gives(one::<NeighboursReply>()),
        post(
            "/collections/{collection}/evaluate",
            about("evaluate", "Measures rankings and ways of searching"),
        )
        .timed()
        .may_be_job()
        .takes::<Evaluate>([
            ("stored_points", json!({ "sample": 3, "limit": 2, "searches": [{ "exact": true }] })),
            (
                "judged",
                json!({
                    "queries": [[0.1, 0.2, 0.3, 0.4], { "id": "whale", "vector": [0.9, 0.1, 0.1, 0.3] }],
                    "qrels": { "0": { "three": 1 }, "whale": { "1": 2, "2": 1 } },
                    "measures": ["nDCG@10"],
                    "corrections": ["is"],
                    "limit": 3,
                }),
            ),
        ])
        .gives(one::<EvaluationReply>()),
        post("/collections/{collection}/tune", about("tune", "Chooses a correction, as a job"))
            .timed()
            .takes::<Tune>([(
                "two_methods",
                json!({
                    "query_bank": "queries",
                    "bank": "recent",
                    "methods": ["IS(beta=20)", "CSLS(k=2)"],
                    "correction": "chosen",
                    "force": true,
                    "rounds": 200,
                }),
            )])
            .may_refuse(&[409, 507])
            .begins_job(),
    ]
}

/// Vectors in many directions.
fn spread(count: u32) -> Vec<[f64; 4]> {
    let vector = |turn: u32| [1, 2, 3, 5].map(|step| f64::from(turn * step % 8) / 8.0 - 0.4);
    (1..=count).map(vector).collect()
}

fn text() -> Schema {
    Object::with_type(Type::String).into()
}

fn count(least: usize, most: usize) -> Schema {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(least as f64))
        .maximum(Some(most as f64))
        .into()
}
