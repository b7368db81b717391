//! Reductions of a line of scores, compiled for the widest registers the machine has.
//!
//! The loops are plain; the compiler vectorises each version. Lanes are summed in a fixed order that
//! does not depend on the machine, so every version gives the same bits.

use multiversion::multiversion;

/// Partial results kept side by side, enough for two of the widest registers.
const LANES: usize = 32;

/// The largest number of a line; `-∞` for an empty one.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+fma", "x86_64+avx2+fma"))]
pub fn largest(line: &[f32]) -> f32 {
    let (blocks, rest) = line.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for block in blocks {
        for (lane, &number) in lanes.iter_mut().zip(block) {
            *lane = if number > *lane { number } else { *lane };
        }
    }
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}

/// `Σ (s − shift)` and `Σ (s − shift)²` over a line, summed in 64 bits.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+fma", "x86_64+avx2+fma"))]
pub fn shifted_sums(line: &[f32], shift: f32) -> (f64, f64) {
    let (blocks, rest) = line.as_chunks::<LANES>();
    let mut sums = [0.0_f64; LANES];
    let mut squares = [0.0_f64; LANES];
    let add = |number: f32, sum: &mut f64, square: &mut f64| {
        let apart = f64::from(number) - f64::from(shift);
        *sum += apart;
        *square += apart * apart;
    };
    for block in blocks {
        for ((&number, sum), square) in block.iter().zip(&mut sums).zip(&mut squares) {
            add(number, sum, square);
        }
    }
    for ((&number, sum), square) in rest.iter().zip(&mut sums).zip(&mut squares) {
        add(number, sum, square);
    }
    (sums.iter().sum(), squares.iter().sum())
}

/// `Σ e^{beta·(s − top)}` over a line of numbers that are at most `top`, for `beta` above 0.
///
/// Each exponential is within 2 units in the last place of 32 bits; exponents below −87 count as −87.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+fma", "x86_64+avx2+fma"))]
pub fn exp_sum(line: &[f32], beta: f32, top: f32) -> f64 {
    let (blocks, rest) = line.as_chunks::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for block in blocks {
        for (lane, &number) in lanes.iter_mut().zip(block) {
            *lane += exp_below_zero(beta * (number - top));
        }
    }
    let rest: f64 = rest.iter().map(|&number| f64::from(exp_below_zero(beta * (number - top)))).sum();
    lanes.iter().copied().map(f64::from).sum::<f64>() + rest
}

/// `e^x` for `x ≤ 0`: a power of two times a polynomial on [−ln 2/2, ln 2/2], coefficients as in
/// Cephes' `expf`.
#[inline(always)]
fn exp_below_zero(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding and subtracting 1.5·2²³ rounds to the nearest whole number.
    const ROUNDER: f32 = 12_582_912.0;
    let x = if x > -87.0 { x } else { -87.0 };
    let shifted = x * std::f32::consts::LOG2_E + ROUNDER;
    let whole = shifted - ROUNDER;
    let r = x - whole * LN2_HIGH - whole * LN2_LOW;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_6e-1;
    let p = p * r + 0.5;
    let series = p * (r * r) + r + 1.0;
    // The whole number stands in the low bits of `shifted`; in an exponent field it is 2^whole.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    series * power
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reductions_are_what_plain_loops_in_64_bits_say(
            line in prop::collection::vec(-3.0_f32..3.0, 0..200),
            beta in prop::sample::select(vec![0.01_f32, 1.0, 20.0, 1000.0]),
        ) {
            let top = largest(&line);
            prop_assert_eq!(top, line.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let wide: Vec<f64> = line.iter().copied().map(f64::from).collect();
            let sum = wide.iter().map(|x| (f64::from(beta) * (x - f64::from(top))).exp()).sum::<f64>();
            prop_assert!((exp_sum(&line, beta, top) - sum).abs() <= 3e-7 * sum);
            let (first, second) = shifted_sums(&line, 0.75);
            prop_assert!((first - wide.iter().map(|x| x - 0.75).sum::<f64>()).abs() < 1e-10);
            prop_assert!((second - wide.iter().map(|x| (x - 0.75).powi(2)).sum::<f64>()).abs() < 1e-9);
        }
    }

    #[test]
    fn an_exponential_is_right_to_two_units_over_its_whole_range() {
        let mut x = -87.0_f32;
        while x <= 0.0 {
            let (found, wanted) = (f64::from(exp_below_zero(x)), f64::from(x).exp());
            assert!((found - wanted).abs() <= 2.0 * f64::from(f32::EPSILON) * wanted, "e^{x}");
            x += 0.003;
        }
        assert!(exp_below_zero(f32::NEG_INFINITY) < 1e-37);
        assert_eq!(exp_below_zero(0.0), 1.0);
    }
}
