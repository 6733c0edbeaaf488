//! Ranking for dictionaries: keeps the best `count` columns of each ranking as tiles of correlations come by.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::dictionary::{Batch, Candidate, Query, Ranking, Score};
use crate::random::{Purpose, clock, uniform};

/// A candidate ordered so that the *worst* of a heap is on top: by score, ties by the larger id.
#[derive(Debug, Clone, Copy)]
struct Worst(Candidate);

impl Ord for Worst {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.score.total_cmp(&self.0.score).then(self.0.id.cmp(&other.0.id))
    }
}

impl PartialOrd for Worst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Worst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Worst {}

/// The best `count` of one ranking so far.
#[derive(Debug, Default)]
struct Best {
    heap: BinaryHeap<Worst>,
    count: usize,
}

impl Best {
    /// A score below this cannot enter.
    fn threshold(&self) -> f64 {
        if self.heap.len() < self.count {
            f64::NEG_INFINITY
        } else {
            self.heap.peek().map_or(f64::INFINITY, |w| w.0.score)
        }
    }

    fn insert(&mut self, candidate: Candidate) {
        if self.heap.len() < self.count {
            self.heap.push(Worst(candidate));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && Worst(candidate) < *worst
        {
            *worst = Worst(candidate);
        }
    }
}

/// The state of one `top` over some of the columns; merges with the state over others, in any order, to the same bits.
#[derive(Debug, Default)]
pub struct TopK {
    best: Vec<Best>,
    scores: Vec<f64>,
}

/// The correlations of a tile of consecutive columns, as a dictionary hands them to [`TopK::offer`].
#[derive(Debug, Clone, Copy)]
pub struct Tile<'a> {
    /// Id of the first column.
    pub first: usize,
    /// ⟨φ, u⟩ for each column; NaN for a column that was skipped.
    pub u: &'a [f64],
    /// ⟨φ, v⟩, or empty where no ranking asks for it.
    pub v: &'a [f64],
    /// 1 / ‖φ‖, and 0 for a zero column.
    pub inverse_norms: &'a [f64],
}

impl TopK {
    /// Prepares for a query, keeping whatever memory it has.
    pub fn reset(&mut self, rankings: &[Ranking]) {
        self.best.resize_with(rankings.len(), Best::default);
        for (best, ranking) in self.best.iter_mut().zip(rankings) {
            best.heap.clear();
            best.heap.reserve(ranking.count);
            best.count = ranking.count;
        }
    }

    /// Offers a tile of columns to every ranking of the query.
    pub fn offer(&mut self, query: &Query<'_>, tile: Tile<'_>) {
        for (best, ranking) in self.best.iter_mut().zip(query.rankings) {
            if best.count == 0 {
                continue;
            }
            let scores: &[f64] = if ranking.score == Score::Raw {
                tile.u
            } else {
                self.scores.resize(tile.inverse_norms.len(), 0.0);
                fill_scores(ranking.score, tile, best.threshold(), &mut self.scores);
                &self.scores
            };
            offer_scores(best, scores, tile.first, query.exclude, query.batch);
        }
    }

    /// The columns that are among the best of some ranking so far, in no order, a column of two rankings twice.
    pub fn ids(&self) -> impl Iterator<Item = usize> {
        self.best.iter().flat_map(|best| best.heap.iter().map(|worst| worst.0.id))
    }

    /// Takes in what another state has seen.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.best.iter_mut().zip(&other.best) {
            for worst in &theirs.heap {
                mine.insert(worst.0);
            }
        }
    }

    /// Writes the rankings, best first.
    pub fn write(&mut self, answers: &mut [Vec<Candidate>]) {
        for (best, answer) in self.best.iter_mut().zip(answers) {
            answer.clear();
            answer.extend(best.heap.drain().map(|worst| worst.0));
            answer.sort_unstable_by_key(|candidate| Worst(*candidate));
        }
    }
}

/// Scores a tile into `out`; −∞ or NaN marks a column that does not qualify, or that the race has lost already.
fn fill_scores(score: Score, tile: Tile<'_>, threshold: f64, out: &mut [f64]) {
    let columns = out.iter_mut().zip(tile.inverse_norms);
    match score {
        Score::Raw => out.copy_from_slice(tile.u),
        Score::Absolute => out.iter_mut().zip(tile.u).for_each(|(out, u)| *out = u.abs()),
        Score::NormScaled => columns.zip(tile.u).for_each(|((out, &inverse), u)| {
            *out = if inverse > 0.0 { u * inverse } else { f64::NEG_INFINITY };
        }),
        Score::Geodesic => columns
            .zip(tile.u.iter().zip(tile.v))
            .for_each(|((out, &inverse), (u, v))| *out = geodesic(u * inverse, v * inverse, inverse)),
        Score::Acute { seed } => {
            columns.zip(tile.u).enumerate().for_each(|(offset, ((out, &inverse), u))| {
                let cosine = u * inverse;
                let clock = clock_in_time(cosine, seed, tile.first + offset, threshold);
                *out = clock.map_or(f64::NEG_INFINITY, |clock| cosine / clock);
            });
        }
        Score::Race { seed } => columns.enumerate().for_each(|(offset, (out, &inverse))| {
            let length = if inverse > 0.0 { inverse.recip() } else { 0.0 };
            let clock = clock_in_time(length, seed, tile.first + offset, threshold);
            *out = clock.map_or(f64::NEG_INFINITY, |clock| 1.0 / (inverse * clock));
        }),
    }
}

/// The clock −ln u of a column in a race to be among those above a threshold. None where it has surely lost, as −ln u ≥ 1 − u says
/// without a logarithm.
fn clock_in_time(speed: f64, seed: u64, id: usize, threshold: f64) -> Option<f64> {
    let u = uniform(seed, Purpose::Race, id);
    // NaN, a column that was skipped, is not above anything.
    (speed > 0.0 && speed * ROUNDING >= threshold * (1.0 - u)).then(|| clock(u))
}

/// What a quotient may be off by, and more.
const ROUNDING: f64 = 1.0 + 1e-12;

/// GIGA's score of a normalised column with correlations a to the direction and b to the current point.
fn geodesic(a: f64, b: f64, inverse_norm: f64) -> f64 {
    let sine_squared = 1.0 - b * b;
    if inverse_norm > 0.0 && b > -1.0 + 1e-14 && sine_squared > 0.0 {
        a / sine_squared.sqrt()
    } else {
        f64::NEG_INFINITY
    }
}

/// Offers scores of consecutive columns. A block whose best score cannot enter is passed over whole, which makes
/// the ranking cost next to nothing beside the correlations.
fn offer_scores(best: &mut Best, scores: &[f64], first: usize, exclude: &[usize], batch: Option<Batch>) {
    const BLOCK: usize = 32;
    let mut threshold = best.threshold();
    for (block, scores) in scores.chunks(BLOCK).enumerate() {
        let largest = scores.iter().fold(f64::NEG_INFINITY, |m, &s| if s > m { s } else { m });
        if largest < threshold || largest == f64::NEG_INFINITY {
            continue;
        }
        for (offset, &score) in scores.iter().enumerate() {
            let id = first + block * BLOCK + offset;
            let qualifies = score >= threshold && score > f64::NEG_INFINITY;
            if qualifies && exclude.binary_search(&id).is_err() && batch.is_none_or(|b| b.contains(id)) {
                best.insert(Candidate { id, score });
                threshold = best.threshold();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::race_clock;
    use proptest::prelude::*;

    fn plain(scores: &[f64], count: usize, exclude: &[usize], batch: Option<Batch>) -> Vec<usize> {
        let mut ids: Vec<usize> = (0..scores.len())
            .filter(|id| !exclude.contains(id) && batch.is_none_or(|b| b.contains(*id)))
            .collect();
        ids.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        ids.truncate(count);
        ids
    }

    proptest! {
        #[test]
        fn finds_what_sorting_finds_however_the_tiles_are_split(
            scores in prop::collection::vec((-20..20_i32).prop_map(|x| f64::from(x) / 4.0), 1..300),
            count in 0..40_usize,
            cut in 0.0..1.0_f64,
            exclude in prop::collection::btree_set(0..300_usize, 0..30),
            seed in any::<u64>(),
            stochastic in any::<bool>(),
        ) {
            let exclude: Vec<usize> = exclude.into_iter().collect();
            let batch = stochastic.then_some(Batch { seed, fraction: 0.5 });
            let rankings = [Ranking { score: Score::Raw, count }];
            let query = Query { vectors: &[], rankings: &rankings, exclude: &exclude, batch };
            let cut = (cut * scores.len() as f64) as usize;
            let ones = vec![1.0; scores.len()];
            let part = |range: std::ops::Range<usize>| {
                let mut top = TopK::default();
                top.reset(&rankings);
                let tile = Tile { first: range.start, u: &scores[range.clone()], v: &[], inverse_norms: &ones[range] };
                top.offer(&query, tile);
                top
            };
            let (mut left, right) = (part(0..cut), part(cut..scores.len()));
            left.merge(&right);
            let mut answers = vec![vec![]];
            left.write(&mut answers);
            let found: Vec<usize> = answers[0].iter().map(|c| c.id).collect();
            prop_assert_eq!(found, plain(&scores, count, &exclude, batch));
        }
    }

    #[test]
    fn scores_follow_their_definitions() {
        let tile =
            Tile { first: 0, u: &[2.0, -3.0, 1.0], v: &[1.2, 0.0, 0.0], inverse_norms: &[0.5, 0.25, 0.0] };
        let mut out = [0.0; 3];
        fill_scores(Score::Absolute, tile, f64::NEG_INFINITY, &mut out);
        assert_eq!(out, [2.0, 3.0, 1.0]);
        fill_scores(Score::NormScaled, tile, f64::NEG_INFINITY, &mut out);
        assert_eq!(out, [1.0, -0.75, f64::NEG_INFINITY]);
        fill_scores(Score::Geodesic, tile, f64::NEG_INFINITY, &mut out);
        assert!((out[0] - 1.0 / 0.8).abs() < 1e-15 && out[1] == -0.75 && out[2] == f64::NEG_INFINITY);
    }

    #[test]
    fn a_race_is_won_in_proportion_to_the_norm() {
        let inverse_norms = [1.0, 0.5, 0.25, 0.0];
        let mut wins = [0; 4];
        for seed in 0..20_000 {
            let mut out = [0.0; 4];
            let tile = Tile { first: 0, u: &[0.0; 4], v: &[], inverse_norms: &inverse_norms };
            fill_scores(Score::Race { seed }, tile, f64::NEG_INFINITY, &mut out);
            let winner = (0..4).max_by(|a, b| out[*a].total_cmp(&out[*b])).unwrap();
            wins[winner] += 1;
        }
        assert_eq!(wins[3], 0);
        for (id, share) in [(0, 1.0 / 7.0), (1, 2.0 / 7.0), (2, 4.0 / 7.0)] {
            assert!((f64::from(wins[id]) / 20_000.0 - share).abs() < 0.015, "{wins:?}");
        }
    }

    /// Logarithms that were not taken would have changed nothing: tile by tile the same as all scores, sorted.
    #[test]
    fn a_race_that_is_given_up_was_lost() {
        let inverse_norms: Vec<f64> = (0..5000).map(|i| f64::from(i % 7) * 0.3).collect();
        let cosines: Vec<f64> = (0..5000).map(|i| (0.7 * f64::from(i)).sin()).collect();
        for (seed, score) in
            (0..40).flat_map(|seed| [(seed, Score::Race { seed }), (seed, Score::Acute { seed })])
        {
            let rankings = [Ranking { score, count: 100 }];
            let query = Query { vectors: &[], rankings: &rankings, exclude: &[], batch: None };
            let mut top = TopK::default();
            top.reset(&rankings);
            for (at, (u, inverse_norms)) in cosines.chunks(64).zip(inverse_norms.chunks(64)).enumerate() {
                top.offer(&query, Tile { first: 64 * at, u, v: &[], inverse_norms });
            }
            let mut answers = vec![vec![]];
            top.write(&mut answers);
            let plainly = |id: usize| {
                let (clock, inverse) = (race_clock(seed, id), inverse_norms[id]);
                let speed =
                    if matches!(score, Score::Race { .. }) { 1.0 / inverse } else { cosines[id] * inverse };
                if inverse > 0.0 && speed > 0.0 { speed / clock } else { f64::NEG_INFINITY }
            };
            let scores: Vec<f64> = (0..5000).map(plainly).collect();
            let found: Vec<usize> = answers[0].iter().map(|candidate| candidate.id).collect();
            assert_eq!(found, plain(&scores, 100, &[], None));
        }
    }
}
