//! A proximity graph over codes: built, frozen to one file, walked by corrected score; it knows no
//! collection.
//!
//! [`build`] links nodes by their raw geometry (HNSW, Malkov & Yashunin, TPAMI 2020) and freezes them to
//! a [`Segment`]. A [`Segment::walk`] orders its beam by what a [`Ranking`] makes of each similarity, so
//! a demoted hub is a worse answer and as good a road. Similarities are those of codes: what a walk finds
//! is scored again by the caller, who has the vectors. A [`Segment::scan`] compares all nodes instead, for
//! batches of queries.

#[cfg(target_endian = "big")]
compile_error!("a segment is little-endian and is read in place");

mod adjacency;
mod beam;
mod build;
mod bytes;
mod codes;
mod error;
mod freeze;
mod geometry;
mod insert;
mod reduce;
mod reference;
mod repair;
mod scan;
mod segment;
mod verify;
mod visited;
mod walk;

pub use build::{BuildOptions, Builder, M_MAX, M_MIN, NODES_MAX, Points, build, build_unless};
pub use codes::CodeKind;
pub use error::SegmentError;
pub use reduce::fit_projection;
pub use scan::Affine;
pub use segment::Segment;
pub use verify::Unlike;
pub use walk::{Found, LOOK_EVERY, Ranking, Raw, Width};
