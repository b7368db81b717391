//! The residual adapter of queries.

use dehub_vector::matrix_product;

use super::{ModelError, check};

/// The largest hidden layer.
const HIDDEN_MAX: usize = 16_384;

/// Queries that are adapted together.
const BLOCK: usize = 64;

/// The sizes of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterSize {
    /// Dimensions of queries.
    pub dim: usize,
    /// Units of the hidden layer, 1 to 16,384.
    pub hidden: usize,
}

/// `q' = normalise(q + mix·W₂ relu(W₁ q))`: queries are moved, points stay as they are, so nothing is indexed anew.
/// With `W₂ = 0`, and with `mix = 0`, it is the query itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    size: AdapterSize,
    mix: f32,
    /// `hidden × dim`, row by row.
    inner: Vec<f32>,
    /// `dim × hidden`, row by row.
    outer: Vec<f32>,
}

impl AdapterSize {
    /// Checked sizes.
    pub fn new(dim: usize, hidden: usize) -> Result<AdapterSize, ModelError> {
        let size = |what, found: usize, most, wanted| {
            let found_text = found.to_string();
            if (1..=most).contains(&found) {
                Ok(())
            } else {
                Err(ModelError::Size { what, found: found_text, wanted })
            }
        };
        size("the dimension", dim, dehub_vector::DIM_MAX, "1 to 65,535")?;
        size("the hidden layer", hidden, HIDDEN_MAX, "1 to 16,384")?;
        Ok(AdapterSize { dim, hidden })
    }

    /// Numbers of each of the two matrices.
    pub fn weights(self) -> usize {
        self.dim * self.hidden
    }
}

impl Adapter {
    /// Of its weights: `inner` is W₁, `hidden × dim`, and `outer` W₂, `dim × hidden`, both row by row.
    pub fn new(size: AdapterSize, mix: f32, inner: Vec<f32>, outer: Vec<f32>) -> Result<Adapter, ModelError> {
        check("inner", &inner, size.weights())?;
        check("outer", &outer, size.weights())?;
        if !(0.0..=1.0).contains(&mix) {
            return Err(ModelError::Size { what: "mix", found: mix.to_string(), wanted: "0 to 1" });
        }
        Ok(Adapter { size, mix, inner, outer })
    }

    /// Its sizes.
    pub fn size(&self) -> AdapterSize {
        self.size
    }

    /// How much of what it adds is added, 0 to 1.
    pub fn mix(&self) -> f32 {
        self.mix
    }

    /// W₁.
    pub fn inner(&self) -> &[f32] {
        &self.inner
    }

    /// W₂.
    pub fn outer(&self) -> &[f32] {
        &self.outer
    }

    /// The same with another mix.
    pub fn mixed(self, mix: f32) -> Result<Adapter, ModelError> {
        Adapter::new(self.size, mix, self.inner, self.outer)
    }

    /// Moves queries, one after the other, in place; each is then of length 1. One that would be of length 0 stays.
    ///
    /// # Panics
    /// If they are no whole queries.
    pub fn apply(&self, queries: &mut [f32]) {
        let AdapterSize { dim, hidden } = self.size;
        assert!(queries.len().is_multiple_of(dim), "whole queries");
        if self.mix == 0.0 {
            return;
        }
        for block in queries.chunks_mut(BLOCK * dim) {
            let rows = block.len() / dim;
            let mut units = vec![0.0; rows * hidden];
            matrix_product(block, &self.inner, dim, &mut units);
            units.iter_mut().for_each(|unit| *unit = unit.max(0.0));
            let mut added = vec![0.0; block.len()];
            matrix_product(&units, &self.outer, hidden, &mut added);
            for (query, added) in block.chunks_exact_mut(dim).zip(added.chunks_exact(dim)) {
                move_by(query, added, self.mix);
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "queries have 32 bits")]
fn move_by(query: &mut [f32], added: &[f32], mix: f32) {
    let moved = || query.iter().zip(added).map(|(&q, &a)| f64::from(q) + f64::from(mix) * f64::from(a));
    let length = moved().map(|x| x * x).sum::<f64>().sqrt();
    if length > 0.0 && length.is_finite() {
        let moved: Vec<f32> = moved().map(|x| (x / length) as f32).collect();
        query.copy_from_slice(&moved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(mix: f32) -> Adapter {
        let size = AdapterSize::new(2, 3).expect("in range");
        Adapter::new(size, mix, vec![1.0, 0.0, 0.0, 1.0, -1.0, -1.0], vec![0.5, 0.0, 1.0, 0.0, -2.0, 1.0])
            .expect("good")
    }

    #[test]
    fn a_query_is_moved_by_what_the_hidden_units_add() {
        // The units of (0.6, 0.8) are 0.6, 0.8 and 0; they add (0.3, −1.6).
        let mut query = [0.6, 0.8];
        adapter(1.0).apply(&mut query);
        let length = (0.9_f32.powi(2) + 0.8_f32.powi(2)).sqrt();
        assert!(
            (query[0] - 0.9 / length).abs() < 1e-6 && (query[1] + 0.8 / length).abs() < 1e-6,
            "{query:?}"
        );
    }

    #[test]
    fn without_mix_it_is_the_query_bit_for_bit() {
        let mut query = [0.123, -4.5, 6.0, 7.0];
        adapter(0.0).apply(&mut query);
        assert_eq!(query, [0.123, -4.5, 6.0, 7.0]);
    }

    #[test]
    fn queries_are_moved_alike_alone_and_together() {
        let mut random = fastrand::Rng::with_seed(1);
        let queries: Vec<f32> = (0..2 * 150).map(|_| random.f32() - 0.5).collect();
        let mut together = queries.clone();
        adapter(0.7).apply(&mut together);
        for (query, wanted) in queries.chunks(2).zip(together.chunks(2)) {
            let mut alone = query.to_vec();
            adapter(0.7).apply(&mut alone);
            assert!(alone.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-6));
        }
    }

    #[test]
    fn weights_that_do_not_fit_are_refused() {
        let size = AdapterSize::new(2, 3).expect("in range");
        let new = |mix, inner: usize, outer: f32| Adapter::new(size, mix, vec![0.0; inner], vec![outer; 6]);
        assert!(matches!(new(0.5, 5, 0.0), Err(ModelError::Shape { tensor: "inner", found: 5, wanted: 6 })));
        assert!(matches!(
            new(0.5, 6, f32::NAN),
            Err(ModelError::NotFinite { tensor: "outer", place: 0, .. })
        ));
        assert!(matches!(new(1.5, 6, 0.0), Err(ModelError::Size { what: "mix", .. })));
        assert!(AdapterSize::new(0, 3).is_err() && AdapterSize::new(3, 0).is_err());
    }
}
