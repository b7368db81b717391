//! Dehub as a library: a collection, a bank, a correction and a corrected search, without a server.

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use dehub_index::{BankUpdate, Catalogue, CollectionConfig, EntryInput, FitInput, GraphConfig, PointInput};
use dehub_query::{BankKind, Query, Ranking, Settings, Source, run};
use dehub_vector::{Metric, PointId};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let config = CollectionConfig::new(3, Metric::Cosine, GraphConfig::default())?;
    let collection = Catalogue::new(folder.path()).create(&"colours".parse()?, config)?;

    let point = |id: &str, vector: [f32; 3]| -> Result<PointInput, Box<dyn std::error::Error>> {
        Ok(PointInput {
            id: PointId::text(id)?,
            vector: vector.to_vec().into(),
            named: Vec::new(),
            payload: None,
            text: None,
        })
    };
    collection.upsert(&[
        point("red", [1.0, 0.0, 0.0])?,
        point("green", [0.0, 1.0, 0.0])?,
        point("grey", [1.0, 1.0, 1.0])?,
    ])?;

    let asked = [[0.9, 0.5, 0.4], [0.5, 0.9, 0.4], [0.6, 0.6, 0.5]];
    let entries = asked.map(|vector| EntryInput::new(None, vector.to_vec())).to_vec();
    let bank: dehub_index::Name = "asked".parse()?;
    collection.add_to_bank(&BankUpdate {
        name: bank.clone(),
        kind: BankKind::Query,
        entries,
        defer: false,
    })?;
    let method = "IS(beta=10)".parse()?;
    collection.fit(&[FitInput {
        name: "is".parse()?,
        method,
        query_bank: Some(bank),
        gallery_bank: None,
    }])?;

    let snapshot = collection.snapshot();
    for ranking in [Ranking::Raw, Ranking::corrected("is")] {
        let settings = Settings { ranking, ..Settings::default() };
        let query = Query { source: Source::Vector(vec![0.8, 0.5, 0.4].into()), settings };
        let response = run(&snapshot, &[query])?.swap_remove(0);
        let rows: Vec<u32> = response.hits.iter().map(|hit| hit.row).collect();
        let names = snapshot.points(&rows)?.into_iter().map(|point| point.id.to_string()).collect::<Vec<_>>();
        println!("{}\n  {}", response.plan, names.join(", "));
    }
    Ok(())
}
