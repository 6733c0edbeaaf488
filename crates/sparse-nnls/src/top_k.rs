//! Ranking for dictionaries: keeps the best `count` columns of each ranking as tiles of correlations come by.

use std::cmp::Ordering;

use crate::dictionary::{Candidate, Query, Ranking, Score};
use crate::scores::{BLOCK, fill, maxima, race};

/// The better of two candidates first: by score, ties by the smaller id.
fn better_first(a: &Candidate, b: &Candidate) -> Ordering {
    b.score.total_cmp(&a.score).then(a.id.cmp(&b.id))
}

/// The best `count` of one ranking so far, among others that are thrown out when there are twice as many: each is then moved a few
/// times, where a heap would move it at every level.
#[derive(Debug, Default)]
struct Best {
    kept: Vec<Candidate>,
    count: usize,
    /// A score below this cannot enter: `count` have come by that are not below.
    threshold: f64,
}

impl Best {
    fn reset(&mut self, count: usize) {
        self.kept.clear();
        self.kept.reserve(count);
        self.count = count;
        self.threshold = if count == 0 { f64::INFINITY } else { f64::NEG_INFINITY };
    }

    fn insert(&mut self, candidate: Candidate) {
        if candidate.score >= self.threshold {
            self.kept.push(candidate);
            if self.kept.len() >= 2 * self.count {
                self.shrink();
            }
        }
    }

    /// Throws out all but the best `count`.
    fn shrink(&mut self) {
        if self.count > 0 && self.kept.len() >= self.count {
            let (_, worst, _) = self.kept.select_nth_unstable_by(self.count - 1, better_first);
            self.threshold = worst.score;
        }
        self.kept.truncate(self.count);
    }
}

/// The state of one `top` over some of the columns; merges with the state over others, in any order, to the same bits.
#[derive(Debug, Default)]
pub struct TopK {
    best: Vec<Best>,
    scores: Vec<f64>,
    maxima: Vec<f64>,
}

/// The correlations of a tile of consecutive columns, as a dictionary hands them to [`TopK::offer`].
#[derive(Debug, Clone, Copy)]
pub struct Tile<'a> {
    /// Id of the first column.
    pub first: usize,
    /// ⟨φ, u⟩ for each column; NaN for a column that was skipped.
    pub u: &'a [f64],
    /// ⟨φ, v⟩, or empty if no ranking asks for it.
    pub v: &'a [f64],
    /// 1 / ‖φ‖, and 0 for a zero column.
    pub inverse_norms: &'a [f64],
}

impl TopK {
    /// Prepares for a query, keeping whatever memory it has.
    pub fn reset(&mut self, rankings: &[Ranking]) {
        self.best.resize_with(rankings.len(), Best::default);
        self.best.iter_mut().zip(rankings).for_each(|(best, ranking)| best.reset(ranking.count));
    }

    /// Offers a tile of columns to every ranking of the query.
    pub fn offer(&mut self, query: &Query<'_>, tile: Tile<'_>) {
        let Self { best, scores, maxima: highest } = self;
        for (best, &Ranking { score, count }) in best.iter_mut().zip(query.rankings) {
            if count == 0 {
                continue;
            }
            let columns = Columns { query, first: tile.first };
            if score == Score::Raw {
                maxima(tile.u, highest);
                columns.offer_blocks(best, (tile.u, highest), |best| best.threshold, |offset| tile.u[offset]);
                continue;
            }
            scores.resize(tile.inverse_norms.len(), 0.0);
            fill(score, tile, best.threshold, scores);
            maxima(scores, highest);
            if matches!(score, Score::Acute { .. } | Score::Race { .. }) {
                columns.offer_blocks(best, (scores, highest), |_| 0.0, |offset| race(score, tile, offset));
            } else {
                columns.offer_blocks(best, (scores, highest), |best| best.threshold, |offset| scores[offset]);
            }
        }
    }

    /// Offers consecutive columns to rankings that are all [`Score::Raw`], by their correlations divided by `length` in f32: the same as widening
    /// them and offering a tile, of which only blocks that could enter are looked at.
    pub fn offer_raw(&mut self, query: &Query<'_>, first: usize, narrow: &[f32], length: f64) {
        let Self { best, scores, maxima: highest } = self;
        maxima(narrow, highest);
        for (block, (narrow, highest)) in narrow.chunks(BLOCK).zip(highest).enumerate() {
            let limit = best.iter().fold(f64::INFINITY, |limit, best| limit.min(best.threshold));
            if *highest * length >= limit {
                scores.clear();
                scores.extend(narrow.iter().map(|&narrow| f64::from(narrow) * length));
                for best in &mut *best {
                    let columns = Columns { query, first: first + block * BLOCK };
                    columns.offer(best, scores, |best| best.threshold, |offset| scores[offset]);
                }
            }
        }
    }

    /// Columns among which are the best of every ranking so far, at most twice as many, in no order, a column of two rankings twice.
    pub fn ids(&self) -> impl Iterator<Item = usize> {
        self.best.iter().flat_map(|best| best.kept.iter().map(|candidate| candidate.id))
    }

    /// Takes in what another state has seen.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.best.iter_mut().zip(&other.best) {
            theirs.kept.iter().for_each(|candidate| mine.insert(*candidate));
        }
    }

    /// Writes the rankings, best first.
    pub fn write(&mut self, answers: &mut [Vec<Candidate>]) {
        for (best, answer) in self.best.iter_mut().zip(answers) {
            best.shrink();
            answer.clear();
            answer.append(&mut best.kept);
            answer.sort_unstable_by(better_first);
        }
    }
}

/// Consecutive columns that are offered to a ranking.
#[derive(Clone, Copy)]
struct Columns<'a> {
    query: &'a Query<'a>,
    first: usize,
}

impl Columns<'_> {
    /// Offers the columns whose bound is at least the limit, by their scores. A block whose bounds are all below, by the highest of each, is
    /// passed over whole, which makes the ranking cost next to nothing beside the correlations.
    fn offer_blocks(
        self,
        best: &mut Best,
        (bounds, highest): (&[f64], &[f64]),
        limit: impl Fn(&Best) -> f64,
        score: impl Fn(usize) -> f64,
    ) {
        for (block, (bounds, &highest)) in bounds.chunks(BLOCK).zip(highest).enumerate() {
            if highest >= limit(best) && highest > f64::NEG_INFINITY {
                let first = block * BLOCK;
                let columns = Self { first: self.first + first, ..self };
                columns.offer(best, bounds, &limit, |offset| score(first + offset));
            }
        }
    }

    /// The same of one block.
    fn offer(
        self,
        best: &mut Best,
        bounds: &[f64],
        limit: impl Fn(&Best) -> f64,
        score: impl Fn(usize) -> f64,
    ) {
        let Self { query, first } = self;
        for (offset, &bound) in bounds.iter().enumerate() {
            // NaN, a column that was skipped, is not above anything.
            if bound >= limit(best) {
                let (id, score) = (first + offset, score(offset));
                let open = || query.exclude.binary_search(&id).is_err();
                let seen = || query.batch.is_none_or(|batch| batch.contains(id));
                if score >= best.threshold && score > f64::NEG_INFINITY && open() && seen() {
                    best.insert(Candidate { id, score });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary::Batch;
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
    fn cosines_that_are_not_widened_would_not_have_entered() {
        let cosines: Vec<f32> = (0..5000).map(|i| (0.7 * i as f32).sin()).collect();
        let wide: Vec<f64> = cosines.iter().map(|cosine| f64::from(*cosine) * 3.5).collect();
        let rankings = [100, 0, 7].map(|count| Ranking { score: Score::Raw, count });
        let query = Query { vectors: &[], rankings: &rankings, exclude: &[4, 700], batch: None };
        let written = |offer: &dyn Fn(&mut TopK, std::ops::Range<usize>)| {
            let mut top = TopK::default();
            top.reset(&rankings);
            (0..5000).step_by(70).for_each(|at| offer(&mut top, at..5000.min(at + 70)));
            let mut answers = vec![vec![]; 3];
            top.write(&mut answers);
            answers
        };
        let narrow = written(&|top, rows| top.offer_raw(&query, rows.start, &cosines[rows], 3.5));
        let inverse_norms = &[1.0; 70];
        let plain = written(&|top, rows| {
            let (first, u) = (rows.start, &wide[rows]);
            top.offer(&query, Tile { first, u, v: &[], inverse_norms: &inverse_norms[..u.len()] });
        });
        assert_eq!(narrow, plain);
        assert_eq!(narrow.iter().map(Vec::len).collect::<Vec<_>>(), [100, 0, 7]);
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
