//! One pass over all units at some draws: their total log-likelihood at each, and a pool of candidates with their columns.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rand::RngExt;

use super::{Rows, Sample, Target, TargetError, Units};
use crate::random::Stream;

/// Log-likelihoods that are asked for at once: 8 MB of them.
const AT_ONCE: usize = 1 << 20;
/// Draws that tell well enough how much the log-likelihood of a row varies, to sample by it.
const NORM_DRAWS: usize = 64;
/// How often a caller that waits for threads is polled.
const POLL: Duration = Duration::from_millis(50);

/// How many rows are asked for at once, at so many draws.
pub fn block_size(draws: usize) -> usize {
    (AT_ONCE / draws.max(1)).max(1)
}

/// What one pass at S draws found.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The draws.
    pub sample: Sample,
    /// The log-likelihood of all units at each draw; not finite where that of some unit is not.
    pub totals: Vec<f64>,
    /// Candidates, ascending.
    pub pool: Vec<usize>,
    /// Their log-likelihoods, candidates × draws.
    pub columns: Vec<f64>,
    /// A unit and a draw at which the log-likelihood is not finite, and what it is there.
    pub not_finite: Option<(usize, usize, f64)>,
}

impl Seen {
    /// L_w at each draw, of units in the pool.
    pub(super) fn weighted(&self, units: &[usize], weights: &[f64]) -> Vec<f64> {
        let draws = self.totals.len();
        let mut sum = vec![0.0; draws];
        for (unit, weight) in units.iter().zip(weights) {
            let at = self.pool.partition_point(|candidate| candidate < unit);
            let column = &self.columns[at * draws..][..draws];
            sum.iter_mut().zip(column).for_each(|(sum, x)| *sum += weight * x);
        }
        sum
    }
}

/// Which units are candidates.
#[derive(Debug, Clone, Copy)]
pub struct Pool<'a> {
    /// How many are drawn.
    pub size: usize,
    /// Units that are among them for certain, ascending.
    pub keep: &'a [usize],
    /// The seed of the others.
    pub seed: u64,
    /// Which pass it is.
    pub index: u64,
    /// Whether there are no candidates where some log-likelihood is not finite.
    pub strict: bool,
}

/// Totals over all units at the draws of `sample`, and the columns of a pool: a unit is in it with a chance that grows with the
/// standard deviation of its log-likelihood over the draws, of which every unit has at least half the average.
///
/// # Errors
/// Errors of the target.
pub fn pass<T: Target + ?Sized>(
    target: &T,
    units: &Units,
    sample: Sample,
    pool: &Pool<'_>,
) -> Result<Seen, TargetError> {
    let draws = sample.len();
    let blocks = units.blocks(block_size(draws));
    let place = target.place(&sample)?;
    let answers = each_block(target, units, &place, &blocks)?;
    let mut totals = vec![0.0; draws];
    let mut norms = Vec::with_capacity(units.len());
    let mut not_finite = None;
    for (block, Answer { sums, deviations, bad }) in blocks.iter().zip(answers) {
        totals.iter_mut().zip(&sums).for_each(|(total, sum)| *total += sum);
        norms.extend(deviations);
        not_finite = not_finite.or(bad.map(|(unit, draw, value)| (block.start + unit, draw, value)));
    }
    if pool.strict && not_finite.is_some() {
        return Ok(Seen { sample, totals, pool: Vec::new(), columns: Vec::new(), not_finite });
    }
    let pool = candidates(&norms, pool);
    let mut columns = vec![0.0; pool.len() * draws];
    for (ids, out) in pool.chunks(block_size(draws)).scan(&mut columns[..], |left, ids| {
        let (own, others) = std::mem::take(left).split_at_mut(ids.len() * draws);
        *left = others;
        Some((ids, own))
    }) {
        let chosen = Rows::Some(ids.to_vec());
        target.log_likelihoods(&place, &units.rows_of(&chosen), &mut |values| {
            let values = units.add(values, &chosen);
            for (draw, row) in values.chunks_exact(ids.len()).enumerate() {
                row.iter().enumerate().for_each(|(unit, x)| out[unit * draws + draw] = *x);
            }
        })?;
    }
    Ok(Seen { sample, totals, pool, columns, not_finite })
}

/// What is kept of one block.
#[derive(Debug, Clone, Default)]
struct Answer {
    /// The sum over its units at each draw.
    sums: Vec<f64>,
    /// The standard deviation of each unit.
    deviations: Vec<f64>,
    /// A unit and a draw at which it is not finite.
    bad: Option<(usize, usize, f64)>,
}

/// The first block here, since what it compiles serves the others; these by as many threads as the target allows. In their order.
fn each_block<T: Target + ?Sized>(
    target: &T,
    units: &Units,
    place: &T::Place,
    blocks: &[Range<usize>],
) -> Result<Vec<Answer>, TargetError> {
    let of = |block: &Range<usize>| -> Result<Answer, TargetError> {
        let chosen = Rows::Range(block.clone());
        let mut answer = Answer::default();
        target.log_likelihoods(place, &units.rows_of(&chosen), &mut |values| {
            answer = summarise(&units.add(values, &chosen), block.len());
        })?;
        Ok(answer)
    };
    let Some((first, others)) = blocks.split_first() else { return Ok(Vec::new()) };
    let first = of(first)?;
    let threads = target.at_once().min(others.len());
    if threads <= 1 {
        let rest = others.iter().map(of);
        return std::iter::once(Ok(first)).chain(rest).collect();
    }
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let mut answers: Vec<Option<Answer>> = vec![None; others.len()];
    let work = |sender: mpsc::Sender<_>| {
        while !stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = others.get(at) else { break };
            let _ = sender.send((at, of(block)));
        }
    };
    std::thread::scope(|scope| {
        let start = |_: &usize| {
            let (sender, work) = (sender.clone(), &work);
            std::thread::Builder::new().spawn_scoped(scope, move || work(sender)).is_ok()
        };
        // As many as the system has threads for; without any the blocks are worked off here.
        if (0..threads).take_while(start).count() == 0 {
            work(sender.clone());
        }
        drop(sender);
        let mut collect = || -> Result<(), TargetError> {
            loop {
                match receiver.recv_timeout(POLL) {
                    Ok((at, answer)) => answers[at] = Some(answer?),
                    Err(mpsc::RecvTimeoutError::Timeout) => target.poll()?,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
        };
        let collected = collect();
        stop.store(true, Ordering::Relaxed);
        collected
    })?;
    Ok(std::iter::once(first).chain(answers.into_iter().flatten()).collect())
}

/// Sums over units at each draw, and over some draws the standard deviation of each unit, of draws × units.
fn summarise(values: &[f64], width: usize) -> Answer {
    let draws: Vec<&[f64]> = values.chunks_exact(width.max(1)).collect();
    let sums: Vec<f64> = draws.iter().map(|row| row.iter().sum()).collect();
    let first = |draw: usize| {
        let at = draws[draw].iter().position(|x| !x.is_finite())?;
        Some((at, draw, draws[draw][at]))
    };
    let bad = sums.iter().position(|sum| !sum.is_finite()).and_then(first);
    let some: Vec<&[f64]> = draws.iter().step_by((draws.len() / NORM_DRAWS).max(1)).copied().collect();
    let count = some.len().max(1) as f64;
    let mut mean = vec![0.0; width];
    some.iter().for_each(|row| mean.iter_mut().zip(*row).for_each(|(mean, x)| *mean += x / count));
    let mut squares = vec![0.0; width];
    for row in &some {
        squares.iter_mut().zip(row.iter().zip(&mean)).for_each(|(sum, (x, mean))| *sum += (x - mean).powi(2));
    }
    Answer { sums, deviations: squares.iter().map(|sum| (sum / count).sqrt()).collect(), bad }
}

/// Weighted sampling without replacement, ∝ norm + half their mean: the first of exponential clocks to ring. Ascending.
fn candidates(norms: &[f64], Pool { size, keep, seed, index, .. }: &Pool<'_>) -> Vec<usize> {
    if *size >= norms.len() {
        return (0..norms.len()).collect();
    }
    let known = |norm: f64| if norm.is_finite() { norm } else { 0.0 };
    let mean = norms.iter().copied().map(known).sum::<f64>() / norms.len() as f64;
    let mut rng = Stream::Pool.rng(*seed, *index);
    let ring = |(unit, &norm): (usize, &f64)| {
        let clock = -(1.0 - rng.random::<f64>()).ln();
        (clock / (known(norm) + 0.5 * mean + f64::MIN_POSITIVE), unit)
    };
    let mut rings: Vec<(f64, usize)> = norms.iter().enumerate().map(ring).collect();
    if *size > 0 {
        rings.select_nth_unstable_by(size - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }
    let mut chosen: Vec<usize> =
        rings[..*size].iter().map(|&(_, unit)| unit).chain(keep.iter().copied()).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units are drawn in proportion to their norm plus half the average, those to be kept always.
    #[test]
    fn a_pool_follows_the_norms() {
        let norms: Vec<f64> = (0..1000).map(|i| if i < 100 { 9.0 } else { 1.0 }).collect();
        let pool =
            |index| candidates(&norms, &Pool { size: 50, keep: &[999], seed: 1, index, strict: false });
        let (mut large, mut all) = (0, 0);
        for index in 0..200 {
            let chosen = pool(index);
            assert!(chosen.is_sorted() && chosen.contains(&999) && (50..=51).contains(&chosen.len()));
            large += chosen.iter().filter(|&&unit| unit < 100).count();
            all += chosen.len();
        }
        // 9.9 : 1.9 each, 100 : 900 of them: 0.367, a little less without replacement.
        let share = f64::from(large as u32) / f64::from(all as u32);
        assert!((0.33..0.38).contains(&share), "{share}");
        assert_eq!(pool(3), pool(3));
        assert_eq!(
            candidates(&norms, &Pool { size: 2000, keep: &[], seed: 1, index: 0, strict: false }).len(),
            1000
        );
    }
}
