//! The scores of a tile of columns, a register at a time, and how high they come in each block of it.

use pulp::{Simd, WithSimd};

use crate::dictionary::Score;
use crate::kernel::{Element, dispatched};
use crate::random::{Purpose, clock, stream, uniform_in};
use crate::top_k::Tile;
use corelet_kernels::simd::instruction_set;

/// Columns of a block: one whose highest score cannot enter a ranking is passed over whole.
pub(crate) const BLOCK: usize = 32;

/// What a quotient may be off by, and more.
const ROUNDING: f64 = 1.0 + 1e-12;

/// Scores a tile into `out`; −∞ or NaN marks a column that does not qualify. Of a race it is not the score that is filled in but what
/// the column has [in hand](in_hand) of this threshold: below 0 it has lost, and else [`race`] is its score.
pub(crate) fn fill(score: Score, tile: Tile<'_>, threshold: f64, out: &mut [f64]) {
    let Tile { first, u, v, inverse_norms } = tile;
    match score {
        Score::Raw => out.copy_from_slice(u),
        Score::Absolute => absolute(u, out),
        Score::NormScaled => norm_scaled(u, inverse_norms, out),
        Score::Geodesic => geodesic(u, v, inverse_norms, out),
        Score::Acute { seed } => {
            norm_scaled(u, inverse_norms, out);
            in_hand(stream(seed, Purpose::Race), first, threshold, out);
        }
        Score::Race { seed } => {
            lengths(inverse_norms, out);
            in_hand(stream(seed, Purpose::Race), first, threshold, out);
        }
    }
}

/// The score of one column of a race, −∞ where it does not run.
pub(crate) fn race(score: Score, tile: Tile<'_>, offset: usize) -> f64 {
    let (inverse, id) = (tile.inverse_norms[offset], tile.first + offset);
    let clock_of = |seed| clock(uniform_in(stream(seed, Purpose::Race), id));
    match score {
        Score::Acute { seed } => {
            let cosine = tile.u[offset] * inverse;
            if cosine > 0.0 { cosine / clock_of(seed) } else { f64::NEG_INFINITY }
        }
        Score::Race { seed } if inverse > 0.0 => 1.0 / (inverse * clock_of(seed)),
        _ => f64::NEG_INFINITY,
    }
}

dispatched! {
    /// |⟨φ, u⟩|.
    fn absolute<'a>(u: &'a [f64], out: &'a mut [f64]) |_simd| {
        out.iter_mut().zip(u).for_each(|(out, u)| *out = u.abs());
    }
}

dispatched! {
    /// ⟨φ, u⟩/‖φ‖.
    fn norm_scaled<'a>(u: &'a [f64], inverse_norms: &'a [f64], out: &'a mut [f64]) |_simd| {
        for ((out, &inverse), u) in out.iter_mut().zip(inverse_norms).zip(u) {
            *out = if inverse > 0.0 { u * inverse } else { f64::NEG_INFINITY };
        }
    }
}

dispatched! {
    /// GIGA's score of normalised columns with correlations a to the direction and b to the current point.
    fn geodesic<'a>(u: &'a [f64], v: &'a [f64], inverse_norms: &'a [f64], out: &'a mut [f64]) |_simd| {
        for ((out, &inverse), (u, v)) in out.iter_mut().zip(inverse_norms).zip(u.iter().zip(v)) {
            let (a, b) = (u * inverse, v * inverse);
            let sine_squared = 1.0 - b * b;
            let qualifies = inverse > 0.0 && b > -1.0 + 1e-14 && sine_squared > 0.0;
            *out = if qualifies { a / sine_squared.sqrt() } else { f64::NEG_INFINITY };
        }
    }
}

dispatched! {
    /// ‖φ‖.
    fn lengths<'a>(inverse_norms: &'a [f64], out: &'a mut [f64]) |_simd| {
        for (out, &inverse) in out.iter_mut().zip(inverse_norms) {
            *out = if inverse > 0.0 { inverse.recip() } else { f64::NEG_INFINITY };
        }
    }
}

dispatched! {
    /// What columns of these speeds have in hand, as −ln u ≥ 1 − u says without a logarithm: speed − threshold·(1 − u), in place of the
    /// speed. Below 0 the column has surely lost a race to be among those above the threshold; NaN, a column that was skipped, stays.
    fn in_hand<'a>(stream: u64, first: usize, threshold: f64, speeds: &'a mut [f64]) |_simd| {
        for (offset, speed) in speeds.iter_mut().enumerate() {
            let u = uniform_in(stream, first + offset);
            *speed = *speed * ROUNDING - threshold * (1.0 - u);
        }
    }
}

dispatched! {
    /// The highest score of each block, −∞ where all are NaN.
    fn maxima<'a, E>(scores: &'a [E], out: &'a mut Vec<f64>) |_simd| {
        const LANES: usize = 8;
        out.clear();
        let higher = |m: f64, score: f64| if score > m { score } else { m };
        let (blocks, rest) = scores.as_chunks::<BLOCK>();
        for block in blocks {
            let mut lanes = [f64::NEG_INFINITY; LANES];
            for part in block.as_chunks::<LANES>().0 {
                for (lane, &score) in lanes.iter_mut().zip(part) {
                    *lane = higher(*lane, score.wide());
                }
            }
            out.push(lanes.into_iter().fold(f64::NEG_INFINITY, higher));
        }
        if !rest.is_empty() {
            out.push(rest.iter().map(|score| score.wide()).fold(f64::NEG_INFINITY, higher));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONE: f64 = f64::NEG_INFINITY;

    #[test]
    fn scores_follow_their_definitions() {
        let tile =
            Tile { first: 0, u: &[2.0, -3.0, 1.0], v: &[1.2, 0.0, 0.0], inverse_norms: &[0.5, 0.25, 0.0] };
        let mut out = [0.0; 3];
        fill(Score::Raw, tile, NONE, &mut out);
        assert_eq!(out, [2.0, -3.0, 1.0]);
        fill(Score::Absolute, tile, NONE, &mut out);
        assert_eq!(out, [2.0, 3.0, 1.0]);
        fill(Score::NormScaled, tile, NONE, &mut out);
        assert_eq!(out, [1.0, -0.75, NONE]);
        fill(Score::Geodesic, tile, NONE, &mut out);
        assert!((out[0] - 1.0 / 0.8).abs() < 1e-15 && out[1] == -0.75 && out[2] == NONE);
        let clock = |id| crate::random::race_clock(9, id);
        let scores = |score| [0, 1, 2].map(|offset| race(score, tile, offset));
        assert_eq!(scores(Score::Acute { seed: 9 }), [1.0 / clock(0), NONE, NONE]);
        assert_eq!(scores(Score::Race { seed: 9 }), [2.0 / clock(0), 1.0 / (0.25 * clock(1)), NONE]);
    }

    #[test]
    fn a_race_is_won_in_proportion_to_the_norm() {
        let tile = Tile { first: 0, u: &[0.0; 4], v: &[], inverse_norms: &[1.0, 0.5, 0.25, 0.0] };
        let mut wins = [0; 4];
        for seed in 0..20_000 {
            let scores: Vec<f64> = (0..4).map(|offset| race(Score::Race { seed }, tile, offset)).collect();
            let winner = (0..4).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
            wins[winner] += 1;
        }
        assert_eq!(wins[3], 0);
        for (id, share) in [(0, 1.0 / 7.0), (1, 2.0 / 7.0), (2, 4.0 / 7.0)] {
            assert!((f64::from(wins[id]) / 20_000.0 - share).abs() < 0.015, "{wins:?}");
        }
    }

    proptest! {
        #[test]
        fn who_has_lost_a_race_has_nothing_in_hand_and_nobody_else(
            columns in prop::collection::vec((-1.0..1.0_f64, 0.0..3.0_f64), 1..100),
            threshold in 0.01..50.0_f64,
            first in 0..1000_usize,
            seed in any::<u64>(),
        ) {
            let (mut u, mut inverse_norms): (Vec<f64>, Vec<f64>) = columns.into_iter().unzip();
            (u[0], inverse_norms[0]) = (f64::NAN, 1.0);
            inverse_norms.last_mut().into_iter().for_each(|inverse| *inverse = 0.0);
            let tile = Tile { first, u: &u, v: &[], inverse_norms: &inverse_norms };
            for score in [Score::Acute { seed }, Score::Race { seed }] {
                let mut hand = vec![0.0; u.len()];
                fill(score, tile, threshold, &mut hand);
                for (offset, &hand) in hand.iter().enumerate() {
                    let score = race(score, tile, offset);
                    prop_assert!(score < threshold || hand >= 0.0, "{score} {hand}");
                    // The bound is not far off where the clock is fast.
                    prop_assert!(hand.is_nan() || hand < 0.0 || score > threshold / 40.0, "{score} {hand}");
                }
            }
        }

        #[test]
        fn maxima_are_those_of_the_blocks(mut scores in prop::collection::vec(-5.0..5.0_f64, 0..200), nan in 0..200_usize) {
            scores.iter_mut().skip(nan).step_by(3).for_each(|score| *score = f64::NAN);
            let mut found = Vec::new();
            maxima(&scores, &mut found);
            let plain: Vec<f64> = scores.chunks(BLOCK).map(|block| block.iter().copied().fold(NONE, f64::max)).collect();
            prop_assert_eq!(&found, &plain);
            let narrow: Vec<f32> = scores.iter().map(|score| *score as f32).collect();
            maxima(&narrow, &mut found);
            prop_assert_eq!(found, plain.iter().map(|&highest| f64::from(highest as f32)).collect::<Vec<f64>>());
        }
    }
}
