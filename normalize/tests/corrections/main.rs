//! The mathematics of corrections against published numbers, plain f64 formulas and laws.

mod compress;
mod duplicates;
mod family;
mod golden;
mod hubness;
mod laws;
mod methods;
mod near;
mod oracle;
mod perplexity;
mod reference;
mod rewrite;
mod scorers;
mod weights;
