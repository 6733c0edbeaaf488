//! Are outcomes as the model predicts them? Observed ones against outcomes drawn at draws of the posterior, summed over rows.

use serde::{Deserialize, Serialize};

/// Bins of the probability integral transform.
const PIT_BINS: usize = 20;

/// Bins of predicted probabilities.
const PROBABILITY_BINS: usize = 10;

/// What an outcome is, and so what can be checked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcomes {
    /// Two classes, as 0 and 1.
    Binary,
    /// Counts.
    Counts,
    /// Other numbers.
    Numbers,
    /// Classes.
    Classes,
}

/// Sums over rows so far, at T draws.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checks {
    kind: Outcomes,
    /// Whether moments are those of the outcomes that were drawn, and not of the model.
    estimated: bool,
    rows: usize,
    /// Rows that were not censored.
    seen: usize,
    /// Σ (y − μ)²/σ² of what was observed and of what was drawn, at each draw.
    observed: Vec<f64>,
    drawn: Vec<f64>,
    zeros: usize,
    zeros_drawn: Vec<f64>,
    /// Σy, Σμ over draws, and Σ of what was drawn at each.
    total: f64,
    predicted: f64,
    totals_drawn: Vec<f64>,
    /// Rows below and above all that was drawn for them.
    outside: [usize; 2],
    pit: Vec<usize>,
    bins: Vec<Bin>,
}

/// Rows of about the same predicted probability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Rows, or rows by classes.
    pub rows: usize,
    /// The mean of the probabilities that were predicted.
    pub predicted: f64,
    /// The share that was observed.
    pub observed: f64,
    /// The standard error of that share, were the probabilities right.
    pub error: f64,
}

/// What there is to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// What outcomes are.
    pub kind: Outcomes,
    /// Rows.
    pub rows: usize,
    /// Draws at which outcomes were drawn.
    pub draws: usize,
    /// The mean outcome, that which is expected, and the standard deviation of the mean of those drawn; of numbers, counts and two
    /// classes, where none is censored.
    pub mean: Option<(f64, f64, f64)>,
    /// Pearson's Σ (y − μ)²/σ² a row, 1 where the variance is that of the model, and between what it lies for drawn outcomes; none
    /// where there is no variance.
    pub dispersion: Option<(f64, (f64, f64))>,
    /// Zeros that there are, that are expected, and the standard deviation of those drawn; of counts.
    pub zeros: Option<(usize, f64, f64)>,
    /// Rows below and above all outcomes drawn for them, and how many of either are expected; of numbers and counts.
    pub outside: Option<([usize; 2], f64)>,
    /// Rows by the place of the outcome among those drawn for it, in 20 bins of equal width: level where the model is right; of numbers
    /// and counts.
    pub pit: Vec<usize>,
    /// Predicted and observed shares; of classes.
    pub calibration: Vec<Bin>,
}

/// A row whose outcome is a number, with what was predicted at each of T draws.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The outcome.
    pub y: f64,
    /// Whether it is only known to be larger.
    pub censored: bool,
    /// E\[y\] and Var\[y\].
    pub moments: &'a [(f64, f64)],
    /// One outcome.
    pub drawn: &'a [f64],
    /// A uniform number, which decides among ties.
    pub uniform: f64,
}

impl Checks {
    /// No row so far, of so many draws.
    pub fn new(kind: Outcomes, draws: usize) -> Self {
        Self {
            kind,
            estimated: false,
            rows: 0,
            seen: 0,
            observed: vec![0.0; draws],
            drawn: vec![0.0; draws],
            zeros: 0,
            zeros_drawn: vec![0.0; draws],
            total: 0.0,
            predicted: 0.0,
            totals_drawn: vec![0.0; draws],
            outside: [0; 2],
            pit: vec![0; PIT_BINS],
            bins: vec![Bin::default(); PROBABILITY_BINS],
        }
    }

    /// The same where moments are only known by the outcomes that were drawn: variances up to a factor, the same for observed ones.
    pub fn estimated(kind: Outcomes, draws: usize) -> Self {
        Self { estimated: true, ..Self::new(kind, draws) }
    }

    /// The same without a row.
    pub fn empty(&self) -> Self {
        Self { estimated: self.estimated, ..Self::new(self.kind, self.drawn.len()) }
    }

    /// A row whose outcome is a number.
    pub fn add(&mut self, row: &Row<'_>) {
        self.rows += 1;
        let Row { y, censored, moments, drawn, uniform } = *row;
        let draws = drawn.len() as f64;
        if self.kind == Outcomes::Binary {
            let p = moments.iter().map(|(mean, _)| mean).sum::<f64>() / draws;
            self.bin(p, y == 1.0);
            self.seen += 1;
            self.add_totals(y, moments, drawn);
            return;
        }
        let below = drawn.iter().filter(|x| **x < y).count() as f64;
        let ties = drawn.iter().filter(|x| **x == y).count() as f64;
        let place = if censored {
            // Anywhere above.
            (below + uniform * (draws + 1.0 - below)) / (draws + 1.0)
        } else {
            (below + uniform * (ties + 1.0)) / (draws + 1.0)
        };
        self.pit[((place * PIT_BINS as f64) as usize).min(PIT_BINS - 1)] += 1;
        if censored {
            return;
        }
        self.seen += 1;
        self.add_totals(y, moments, drawn);
        self.outside[0] += usize::from(below == 0.0 && ties == 0.0);
        self.outside[1] += usize::from(below == draws);
        self.zeros += usize::from(y == 0.0);
        for (t, (&(mean, variance), x)) in moments.iter().zip(drawn).enumerate() {
            self.observed[t] += (y - mean).powi(2) / variance;
            self.drawn[t] += (x - mean).powi(2) / variance;
            self.zeros_drawn[t] += f64::from(u8::from(*x == 0.0));
        }
    }

    fn add_totals(&mut self, y: f64, moments: &[(f64, f64)], drawn: &[f64]) {
        self.total += y;
        self.predicted += moments.iter().map(|(mean, _)| mean).sum::<f64>() / moments.len() as f64;
        self.totals_drawn.iter_mut().zip(drawn).for_each(|(sum, x)| *sum += x);
    }

    /// A row whose outcome is one of several classes, with the probability of each.
    pub fn add_class(&mut self, observed: usize, probabilities: &[f64]) {
        self.rows += 1;
        probabilities.iter().enumerate().for_each(|(class, &p)| self.bin(p, class == observed));
    }

    fn bin(&mut self, p: f64, happened: bool) {
        let bin = &mut self.bins[((p * PROBABILITY_BINS as f64) as usize).min(PROBABILITY_BINS - 1)];
        bin.rows += 1;
        bin.predicted += p;
        bin.observed += f64::from(u8::from(happened));
        bin.error += p * (1.0 - p);
    }

    /// The sums of further rows.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.seen += other.seen;
        self.zeros += other.zeros;
        self.total += other.total;
        self.predicted += other.predicted;
        let add = |sum: &mut Vec<f64>, x: &[f64]| sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
        add(&mut self.observed, &other.observed);
        add(&mut self.drawn, &other.drawn);
        add(&mut self.zeros_drawn, &other.zeros_drawn);
        add(&mut self.totals_drawn, &other.totals_drawn);
        (0..2).for_each(|side| self.outside[side] += other.outside[side]);
        self.pit.iter_mut().zip(&other.pit).for_each(|(sum, x)| *sum += x);
        for (bin, other) in self.bins.iter_mut().zip(&other.bins) {
            bin.rows += other.rows;
            bin.predicted += other.predicted;
            bin.observed += other.observed;
            bin.error += other.error;
        }
    }

    /// All rows have been; so many parameters were fitted to them.
    pub fn finish(self, parameters: usize) -> Checked {
        let draws = self.observed.len();
        let is_classes = matches!(self.kind, Outcomes::Binary | Outcomes::Classes);
        let numbers = !is_classes && self.seen > 0;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / draws.max(1) as f64;
        let sd = |values: &[f64]| {
            let centre = mean(values);
            (values.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / draws.max(1) as f64).sqrt()
        };
        let free = (self.seen.saturating_sub(parameters)).max(1) as f64;
        let (low, high) =
            self.drawn.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &x| (low.min(x), high.max(x)));
        let each = self.seen.max(1) as f64;
        // The mean of what was drawn is nearer to that than to what was observed: (1 − 1/T)σ² beside (1 + 1/T)σ².
        let count = draws as f64;
        let near = if self.estimated { (count - 1.0) / (count + 1.0) } else { 1.0 };
        let unit = if self.estimated { mean(&self.drawn) / each } else { 1.0 };
        let dispersion = (near * mean(&self.observed) / free / unit, (low / each / unit, high / each / unit));
        let has_variance = numbers && self.seen == self.rows && dispersion.0.is_finite() && high.is_finite();
        let outside = each / (draws + 1) as f64;
        let bin = |bin: &Bin| {
            let rows = bin.rows as f64;
            Bin {
                rows: bin.rows,
                predicted: bin.predicted / rows,
                observed: bin.observed / rows,
                error: bin.error.sqrt() / rows,
            }
        };
        let totals = (self.total / each, self.predicted / each, sd(&self.totals_drawn) / each);
        let is_known = self.kind != Outcomes::Classes && self.seen == self.rows && self.rows > 0;
        let finite = totals.1.is_finite() && totals.2.is_finite();
        Checked {
            kind: self.kind,
            rows: self.rows,
            draws,
            mean: (is_known && finite).then_some(totals),
            dispersion: (has_variance && mean(&self.drawn) > 0.0).then_some(dispersion),
            zeros: (numbers && self.kind == Outcomes::Counts)
                .then(|| (self.zeros, mean(&self.zeros_drawn), sd(&self.zeros_drawn))),
            outside: numbers.then_some((self.outside, outside)),
            pit: if is_classes { Vec::new() } else { self.pit },
            calibration: if is_classes {
                self.bins.iter().filter(|bin| bin.rows > 0).map(bin).collect()
            } else {
                Vec::new()
            },
        }
    }
}

impl Checked {
    /// The largest distance between the distribution of the transforms and the uniform one, at the edges of bins; 0 where there is none.
    pub fn pit_distance(&self) -> f64 {
        let total = self.pit.iter().sum::<usize>().max(1) as f64;
        let mut reached = 0;
        let distances = self.pit.iter().enumerate().map(|(at, count)| {
            reached += count;
            (reached as f64 / total - (at + 1) as f64 / self.pit.len() as f64).abs()
        });
        distances.fold(0.0, f64::max)
    }
}
