//! The mathematics of corrections against published numbers, plain f64 formulas and laws.

mod family;
mod golden;
mod hubness;
mod laws;
mod methods;
mod oracle;
mod reference;
mod scorers;
