//! How rankings by vectors and by words become one.

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use dehub_query::{Fusion, Normalization};
use serde::{Deserialize, Serialize};

/// What fuses the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FusionName {
    /// Reciprocal ranks: 1 / (k + rank − 1).
    Rrf,
    /// Where scores lie within three deviations of their list's mean, added.
    Dbsf,
    /// A convex combination of scores, each list's stretched to 0…1.
    #[default]
    Minmax,
    /// A convex combination of scores, each list's by where they lie within three deviations of its mean.
    Distribution,
}

/// How rankings by vectors and by words become one.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FusionArgs {
    /// How the rankings by vectors and by words become one.
    #[arg(long, value_enum, default_value_t, value_name = "NAME")]
    pub fusion: FusionName,
    /// The k of reciprocal ranks: how little the first places count more than the others.
    #[arg(long, value_name = "K", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub fusion_k: u32,
    /// The weights of vectors and words [default: the same].
    #[arg(long, value_name = "VECTORS,WORDS")]
    pub weights: Option<String>,
    /// How many of the best of each are fused.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub depth: u32,
}

impl Default for FusionArgs {
    fn default() -> FusionArgs {
        FusionArgs { fusion: FusionName::default(), fusion_k: 60, weights: None, depth: 100 }
    }
}

impl FusionArgs {
    /// As it is asked for.
    pub(crate) fn fusion(&self) -> anyhow::Result<Fusion> {
        let weights = self.weights.as_deref().map(two_weights).transpose()?;
        let convex = |normalization| Fusion::Convex { normalization, weights: weights.clone() };
        Ok(match self.fusion {
            FusionName::Rrf => Fusion::Rrf { k: self.fusion_k, weights },
            FusionName::Dbsf if weights.is_some() => {
                bail!("--weights has no meaning for dbsf, which has none")
            }
            FusionName::Dbsf => Fusion::Dbsf,
            FusionName::Minmax => convex(Normalization::MinMax),
            FusionName::Distribution => convex(Normalization::Distribution),
        })
    }
}

fn two_weights(text: &str) -> anyhow::Result<Vec<f32>> {
    let wanted = || format!("--weights: wanted two numbers from 0, not both 0, such as 1,2, found {text:?}");
    let (vectors, words) = text.split_once(',').with_context(wanted)?;
    let read = |part: &str| part.trim().parse::<f32>().ok().filter(|it| it.is_finite() && *it >= 0.0);
    match (read(vectors), read(words)) {
        (Some(vectors), Some(words)) if vectors + words > 0.0 => Ok(vec![vectors, words]),
        (_, _) => bail!(wanted()),
    }
}

/// Reads `NAME[=WEIGHT]`.
pub(crate) fn weighted_field(text: &str) -> anyhow::Result<(String, f32)> {
    match text.rsplit_once('=') {
        Some((name, weight)) => {
            let weight =
                weight.parse().with_context(|| format!("wanted NAME or NAME=WEIGHT, found {text:?}"))?;
            Ok((name.to_owned(), weight))
        }
        None => Ok((text.to_owned(), 1.0)),
    }
}
