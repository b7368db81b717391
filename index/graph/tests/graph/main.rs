//! The graph: what it finds, what it must not lose, and what its file must survive.

mod builders;
mod files;
mod made;
mod reduced;
mod scans;
mod shapes;
mod together;
mod walks;
