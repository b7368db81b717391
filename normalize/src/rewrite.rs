//! Corrections that rewrite the vectors of points: inverse graph convolution (InvGC) and its local form,
//! LocalAdj (Jian & Wang, *InvGC: Robust Cross-Modal Retrieval by Inverse Graph Convolution*, Findings of EMNLP
//! 2023). A point moves away from what lies near it in a query bank and in a gallery bank; queries stay as
//! they are.
//!
//! ```text
//! g′ = |½·|g − rg·pull(g, gallery bank)| + ½·|g − rq·pull(g, query bank)||        |x| = x at length one
//! InvGC:     pull(g, B) = mean over b of (s(b,g) − s̄(g))·b,   s̄(g) the mean of g's own similarities to B
//! LocalAdj:  pull(g, B) = mean over the nearest of s(b,g)·b,   as many as the share `pool` of B, at least one
//! ```
//!
//! The published code of InvGC takes `s̄` over all points that happen to be rewritten together; here a point's
//! vector depends on the point and the banks alone. It takes no entry at all where the pool rounds to 0.

use std::fmt;
use std::str::FromStr;

use dehub_vector::{Candidate, Chunked, Metric, TopK};
use rayon::prelude::*;

use crate::fit::{Bank, similarities, spans};
use crate::method::parse_label;

/// A rewrite with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rewrite {
    /// Away from all entries, by how much nearer they are than the average.
    InvGc {
        /// How far, by the gallery bank.
        rg: f64,
        /// How far, by the query bank.
        rq: f64,
    },
    /// Away from the nearest entries.
    LocalAdj {
        /// How far, by the gallery bank.
        rg: f64,
        /// How far, by the query bank.
        rq: f64,
        /// The share of a bank's entries that counts as near.
        pool: f64,
    },
}

/// Why a description is no rewrite.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// A method that changes what queries are compared with.
    #[error("{method} would have to change every query as well: fit the correction {method} instead")]
    NeedsQueries {
        /// The method.
        method: &'static str,
    },
    /// No such rewrite.
    #[error("unknown rewrite `{found}`: wanted InvGC(rg=1,rq=1) or LocalAdj(rg=0.1,rq=0.1,pool=0.01)")]
    Unknown {
        /// What was given.
        found: String,
    },
    /// A parameter it does not have, or out of its range.
    #[error("parameter `{parameter}` of {method} is {found}, wanted {wanted}")]
    Parameter {
        /// The method.
        method: &'static str,
        /// The parameter.
        parameter: String,
        /// What was given.
        found: f64,
        /// What is taken.
        wanted: &'static str,
    },
}

impl FromStr for Rewrite {
    type Err = RewriteError;

    fn from_str(text: &str) -> Result<Rewrite, RewriteError> {
        let unknown = || RewriteError::Unknown { found: text.to_owned() };
        let (name, parameters) = parse_label(text).map_err(|_| unknown())?;
        let (method, local) = match name.to_ascii_lowercase().as_str() {
            "invgc" => ("InvGC", false),
            "localadj" => ("LocalAdj", true),
            "dn" => return Err(RewriteError::NeedsQueries { method: "DN" }),
            "centring" => return Err(RewriteError::NeedsQueries { method: "Centring" }),
            _ => return Err(unknown()),
        };
        let far = if local { 0.1 } else { 1.0 };
        let (mut rg, mut rq, mut pool) = (far, far, 0.01);
        for (parameter, found) in parameters {
            let (place, fits, wanted) = match (parameter.as_str(), local) {
                ("rg", _) => (&mut rg, (0.0..=1e3).contains(&found), "a number from 0 to 1000"),
                ("rq", _) => (&mut rq, (0.0..=1e3).contains(&found), "a number from 0 to 1000"),
                ("pool", true) => (&mut pool, found > 0.0 && found <= 1.0, "a share above 0 and at most 1"),
                (_, true) => (&mut pool, false, "one of rg, rq and pool"),
                (_, false) => (&mut pool, false, "one of rg and rq"),
            };
            if !fits {
                return Err(RewriteError::Parameter { method, parameter, found, wanted });
            }
            *place = found;
        }
        Ok(if local { Rewrite::LocalAdj { rg, rq, pool } } else { Rewrite::InvGc { rg, rq } })
    }
}

impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rewrite::InvGc { rg, rq } => write!(f, "InvGC(rg={rg},rq={rq})"),
            Rewrite::LocalAdj { rg, rq, pool } => write!(f, "LocalAdj(rg={rg},rq={rq},pool={pool})"),
        }
    }
}

/// A rewrite over two banks of vectors of length one.
pub struct Rewriter<'a> {
    gallery: Pull<'a>,
    query: Pull<'a>,
}

/// What one bank does to a point.
struct Pull<'a> {
    bank: &'a Chunked,
    far: f64,
    kind: PullKind,
}

enum PullKind {
    /// `Σ b·bᵀ` and `Σ b` of the bank: all that InvGC needs of it.
    All { products: Vec<f64>, sum: Vec<f64> },
    /// The nearest this many.
    Nearest(usize),
}

impl<'a> Rewriter<'a> {
    /// Makes ready what is the same for all points. An empty bank pulls at nothing.
    ///
    /// # Panics
    /// If the banks have different widths.
    pub fn new(method: Rewrite, query_bank: &'a Chunked, gallery_bank: &'a Chunked) -> Rewriter<'a> {
        assert_eq!(query_bank.width(), gallery_bank.width(), "vectors of one collection have one dimension");
        let (rg, rq) = match method {
            Rewrite::InvGc { rg, rq } | Rewrite::LocalAdj { rg, rq, .. } => (rg, rq),
        };
        let pull = |bank: &'a Chunked, far| Pull { bank, far, kind: PullKind::new(method, bank) };
        Rewriter { gallery: pull(gallery_bank, rg), query: pull(query_bank, rq) }
    }

    /// The points' new vectors. `own` has for each point the entry of the gallery bank that it is, which does
    /// not pull at it. A sum that vanishes leaves a point where it was.
    ///
    /// # Panics
    /// If the points have another width than the banks, or `own` another length than the points.
    pub fn rewrite(&self, points: &Chunked, own: &[Option<usize>]) -> Chunked {
        assert_eq!(points.len(), own.len(), "an entry or none for each point");
        assert_eq!(points.width(), self.query.bank.width(), "vectors of one collection have one dimension");
        let none = vec![None; points.len()];
        let moved: Vec<Vec<Vec<f32>>> = spans(0..points.len())
            .into_par_iter()
            .map(|span| {
                let by_gallery = self.gallery.moved(points, &span, own);
                let by_query = self.query.moved(points, &span, &none);
                let halves = span.clone().zip(by_gallery.iter().zip(&by_query));
                halves.map(|(row, (a, b))| joined(points.row(row), a, b)).collect()
            })
            .collect();
        let mut rewritten = Chunked::new(points.width());
        moved.iter().flatten().for_each(|vector| rewritten.push(vector));
        rewritten
    }
}

impl PullKind {
    fn new(method: Rewrite, bank: &Chunked) -> PullKind {
        let dim = bank.width();
        match method {
            Rewrite::LocalAdj { pool, .. } => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss,
                    reason = "a share of a count"
                )]
                let near = (pool * bank.len() as f64) as usize;
                PullKind::Nearest(near.max(1))
            }
            Rewrite::InvGc { .. } => {
                let (mut products, mut sum) = (vec![0.0_f64; dim * dim], vec![0.0_f64; dim]);
                for chunk in (0..bank.chunk_count()).map(|chunk| bank.chunk(chunk)) {
                    for entry in chunk.chunks_exact(dim) {
                        sum.iter_mut().zip(entry).for_each(|(sum, &x)| *sum += f64::from(x));
                    }
                    products.par_chunks_mut(dim).enumerate().for_each(|(at, line)| {
                        for entry in chunk.chunks_exact(dim) {
                            let factor = f64::from(entry[at]);
                            line.iter_mut().zip(entry).for_each(|(sum, &x)| *sum += factor * f64::from(x));
                        }
                    });
                }
                PullKind::All { products, sum }
            }
        }
    }
}

impl Pull<'_> {
    /// Each point of a span less what pulls at it, at length one.
    fn moved(&self, points: &Chunked, span: &std::ops::Range<usize>, own: &[Option<usize>]) -> Vec<Vec<f64>> {
        let pulls: Vec<Vec<f64>> = match &self.kind {
            PullKind::All { products, sum } => {
                span.clone().map(|row| self.all(points.row(row), own[row], products, sum)).collect()
            }
            PullKind::Nearest(near) => self.nearest(points, span, own, *near),
        };
        let away = |(row, pull): (usize, &Vec<f64>)| {
            let point = points.row(row).iter().map(|&x| f64::from(x));
            let moved = point.clone().zip(pull).map(|(x, pull)| x - self.far * pull).collect();
            unit(moved).unwrap_or_else(|| point.collect())
        };
        span.clone().zip(&pulls).map(away).collect()
    }

    /// `Σ s·b / n − s̄·Σ b / n`, from the sums over the bank: `Σ s·b = (Σ b·bᵀ)·g` and `s̄ = ⟨Σ b, g⟩/n`.
    #[expect(clippy::cast_precision_loss, reason = "a count of entries is far below 2^53")]
    fn all(&self, point: &[f32], own: Option<usize>, products: &[f64], sum: &[f64]) -> Vec<f64> {
        let product = |line: &[f64]| -> f64 { line.iter().zip(point).map(|(x, &y)| x * f64::from(y)).sum() };
        let mut weighted: Vec<f64> = products.chunks_exact(point.len()).map(product).collect();
        let mut sum = sum.to_vec();
        if let Some(own) = own {
            let entry: Vec<f64> = self.bank.row(own).iter().map(|&x| f64::from(x)).collect();
            let similarity = product(&entry);
            weighted.iter_mut().zip(&entry).for_each(|(sum, x)| *sum -= similarity * x);
            sum.iter_mut().zip(&entry).for_each(|(sum, x)| *sum -= x);
        }
        let count = (self.bank.len() - usize::from(own.is_some())) as f64;
        if count == 0.0 {
            return vec![0.0; point.len()];
        }
        let mean = product(&sum) / count;
        weighted.iter().zip(&sum).map(|(weighted, sum)| (weighted - mean * sum) / count).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of entries is far below 2^53")]
    fn nearest(
        &self,
        points: &Chunked,
        span: &std::ops::Range<usize>,
        own: &[Option<usize>],
        near: usize,
    ) -> Vec<Vec<f64>> {
        let mut tops = vec![TopK::new(near); span.len()];
        let mut block = Vec::new();
        let bank = Bank::new(self.bank, Metric::Cosine);
        for entries in spans(0..self.bank.len()) {
            similarities(span, points, &entries, bank, &mut block);
            for ((top, line), row) in tops.iter_mut().zip(block.chunks_exact(entries.len())).zip(span.clone())
            {
                for (entry, &score) in entries.clone().zip(line).filter(|(entry, _)| own[row] != Some(*entry))
                {
                    let entry = u32::try_from(entry).expect("banks are numbered by u32");
                    top.push(Candidate::new(score, entry));
                }
            }
        }
        let pull = |top: TopK| {
            let best = top.into_sorted();
            let mut pull = vec![0.0; points.width()];
            for near in &best {
                let share = f64::from(near.score) / best.len() as f64;
                let entry = self.bank.row(near.row as usize);
                pull.iter_mut().zip(entry).for_each(|(sum, &x)| *sum += share * f64::from(x));
            }
            pull
        };
        tops.into_iter().map(pull).collect()
    }
}

/// The middle of two vectors, at length one in 32 bits; the point itself if they cancel out.
fn joined(point: &[f32], a: &[f64], b: &[f64]) -> Vec<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "vectors are 32-bit")]
    let rounded = |vector: Vec<f64>| vector.into_iter().map(|x| x as f32).collect();
    unit(a.iter().zip(b).map(|(a, b)| (a + b) / 2.0).collect()).map_or_else(|| point.to_vec(), rounded)
}

/// A vector at length one, if it has a length.
fn unit(vector: Vec<f64>) -> Option<Vec<f64>> {
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    (length > 1e-9).then(|| vector.iter().map(|x| x / length).collect())
}
