//! The recipes: one for each method. A new affine method is a recipe here and an oracle in the tests.

mod centring;
mod dissimilarity;
mod dual;
mod dual_softmax;
mod global;
mod inverted_softmax;
mod margin;
mod moments;
mod neighbours;
mod scaling;
mod sinkhorn;

use crate::method::Recipe;

/// Every method, in the order they are listed in.
pub(crate) static RECIPES: [&dyn Recipe; 20] = [
    &inverted_softmax::InvertedSoftmax,
    &inverted_softmax::DynamicInvertedSoftmax,
    &neighbours::Csls,
    &neighbours::Nnn,
    &dual::DualInvertedSoftmax,
    &dual::DualDynamicInvertedSoftmax,
    &centring::DistributionShift,
    &centring::Centring,
    &centring::LocalCentring,
    &scaling::LocalScaling,
    &scaling::MeanScaling,
    &moments::ZScore,
    &moments::MutualProximity,
    &dissimilarity::DisSimLocal,
    &sinkhorn::SinkhornNormalisation,
    &sinkhorn::DualBankSinkhorn,
    &global::GloballyCorrected,
    &margin::RatioMargin,
    &moments::TwoSidedProximity,
    &dual_softmax::DualSoftmax,
];
