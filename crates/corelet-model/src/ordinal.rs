//! Ordered levels: P(y ≤ j) = σ(c_j − η), the cumulative logit, with the gaps between cutpoints as parameters.

use super::built_in::{Card, Dispersion, NO_LINK};
use super::special::{log_sigmoid_difference, sigmoid, softplus};
use super::{Family, Given, Inputs, Joint, JointFamily, Logistic, ModelError, Predictive};
use corelet_data::Outcome;
use corelet_data::observations::Observations;
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "ordinal",
    about: "Ordered levels: cumulative logistic regression, cutpoints estimated",
    outcome: Outcome::Ordered,
    settings: &["levels", "offset"],
    sigma: None,
    dispersions: |numbers| &LOG_GAPS[..gaps(numbers.classes).min(MOST_GAPS)],
    scaled_by_target: false,
    link: NO_LINK,
    bind: |observations, numbers| Ok(Arc::new(Ordinal::model(observations, numbers.classes)?)),
    predictive: Predictive::Classes(probabilities),
};

/// Most gaps between cutpoints: those of 20 levels.
const MOST_GAPS: usize = 18;

/// A log-gap ~ N(0, 1): nine in ten of the gap between a fifth and five, on the scale of a logit.
const fn gap(name: &'static str) -> Dispersion {
    Dispersion { name, prior: |_| (0.0, 1.0) }
}

const LOG_GAPS: &[Dispersion; MOST_GAPS] = &[
    gap("log_gap_1"),
    gap("log_gap_2"),
    gap("log_gap_3"),
    gap("log_gap_4"),
    gap("log_gap_5"),
    gap("log_gap_6"),
    gap("log_gap_7"),
    gap("log_gap_8"),
    gap("log_gap_9"),
    gap("log_gap_10"),
    gap("log_gap_11"),
    gap("log_gap_12"),
    gap("log_gap_13"),
    gap("log_gap_14"),
    gap("log_gap_15"),
    gap("log_gap_16"),
    gap("log_gap_17"),
    gap("log_gap_18"),
];

/// The number of gaps between the cutpoints for this number of levels.
fn gaps(levels: usize) -> usize {
    levels.saturating_sub(2)
}

/// Beyond this a log-gap is no likelihood's: held there, so that products stay finite.
const FAR: f64 = 150.0;

/// ℓ(η, g) = log(σ(c_{y+1} − η) − σ(c_y − η)) for levels y = 0 … C − 1, with cutpoints c₁ < … < c_{C−1}, c₀ = −∞ and c_C = ∞.
///
/// The cutpoint in the middle is 0, since the intercept moves them all, and c_{i+1} − c_i = γ_i = e^{g_i}: every parameter may be
/// any number. With u = c_{y+1} − η, l = c_y − η and γ = u − l,
/// ℓ = log σ(u) + log σ(−l) + log(1 − e^{−γ}), in which nothing cancels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordinal {
    levels: usize,
    predictors: Vec<Inputs>,
}

impl Ordinal {
    /// The family with this number of levels.
    ///
    /// # Errors
    /// [`ModelError::Classes`] where there are fewer than two.
    pub fn new(levels: usize) -> Result<Ordinal, ModelError> {
        if levels < 2 {
            return Err(ModelError::Classes { classes: levels });
        }
        let gaps = std::iter::repeat_n(Inputs::Constant, gaps(levels));
        Ok(Ordinal { levels, predictors: std::iter::once(Inputs::Features).chain(gaps).collect() })
    }

    /// The model of these observations, whose targets are 0 … C − 1; θ is (β, g).
    pub fn model(observations: Observations, levels: usize) -> Result<Joint<Ordinal>, ModelError> {
        Joint::new(observations, Ordinal::new(levels)?)
    }

    /// The cutpoint that is 0, counted from 1.
    fn middle(&self) -> usize {
        self.levels / 2
    }

    /// ∂c_j/∂γ_i for the cutpoint j and the gap i, both counted from 1: whether the gap lies between the middle and the cutpoint.
    fn side(&self, cutpoint: usize, gap: usize) -> f64 {
        let middle = self.middle();
        if (middle..cutpoint).contains(&gap) {
            1.0
        } else if (cutpoint..middle).contains(&gap) {
            -1.0
        } else {
            0.0
        }
    }

    /// Σ of these changes of the gaps up to the cutpoint j.
    fn along(&self, cutpoint: usize, of_gap: impl Fn(usize) -> f64) -> f64 {
        let between = (1..=gaps(self.levels)).filter(|&gap| self.side(cutpoint, gap) != 0.0);
        between.map(|gap| self.side(cutpoint, gap) * of_gap(gap)).sum()
    }

    /// c₁ … c_{C−1} at the log-gaps g.
    pub fn cutpoints(&self, log_gaps: &[f64]) -> Vec<f64> {
        let at = |cutpoint| self.along(cutpoint, |gap| width(log_gaps[gap - 1]));
        (1..self.levels).map(at).collect()
    }

    /// The cutpoints above and below level y, where there are any: u and l.
    fn bounds(&self, zeta: &[f64], level: usize) -> [Option<f64>; 2] {
        let place = |cutpoint| self.along(cutpoint, |gap| width(zeta[gap])) - zeta[0];
        [self.upper(level).map(place), self.lower(level).map(place)]
    }

    fn upper(&self, level: usize) -> Option<usize> {
        (level + 1 < self.levels).then_some(level + 1)
    }

    fn lower(&self, level: usize) -> Option<usize> {
        (level > 0).then_some(level)
    }

    /// The gap of a level that has a cutpoint on either side.
    fn own_gap(&self, level: usize) -> Option<usize> {
        self.upper(level).and(self.lower(level))
    }
}

/// σ(c_{y+1} − η) − σ(c_y − η) of every level.
fn probabilities(given: &Given<'_>, out: &mut [f64]) {
    let Ok(family) = Ordinal::new(out.len()) else { return };
    out.iter_mut().enumerate().for_each(|(y, p)| *p = family.value(given.zeta, (y as f64, 1.0)).exp());
}

/// γ = e^g.
fn width(log_gap: f64) -> f64 {
    log_gap.clamp(-FAR, FAR).exp()
}

/// γ(e^ε − 1): by how much a gap grows as its logarithm does by ε.
fn growth(log_gap: f64, shift: f64) -> f64 {
    width(log_gap) * shift.clamp(-2.0 * FAR, 2.0 * FAR).exp_m1()
}

/// log(1 − e^{−γ′}) − log(1 − e^{−γ}), where γ′ is γ and this growth.
fn opening(gap: f64, growth: f64) -> f64 {
    let change = -(-growth).exp_m1() / gap.exp_m1();
    if change > -0.5 { change.ln_1p() } else { (-(-gap - growth).exp_m1()).ln() - (-(-gap).exp_m1()).ln() }
}

impl JointFamily for Ordinal {
    fn name(&self) -> &'static str {
        "ordinal"
    }

    fn predictors(&self) -> &[Inputs] {
        &self.predictors
    }

    fn check_target(&self, (y, _): (f64, f64)) -> Result<(), &'static str> {
        let possible = y >= 0.0 && y < self.levels as f64 && y.fract() == 0.0;
        if possible { Ok(()) } else { Err("the number of a level: 0, 1, …") }
    }

    /// In η and the cutpoints it is, but not in the logarithms of the gaps between them: it is where there is no gap.
    fn is_log_concave(&self) -> bool {
        self.levels == 2
    }

    fn is_concave_in_first(&self) -> bool {
        true
    }

    fn value(&self, zeta: &[f64], (y, _): (f64, f64)) -> f64 {
        let [upper, lower] = self.bounds(zeta, y as usize);
        let between = self.own_gap(y as usize).map_or(0.0, |gap| (-(-width(zeta[gap])).exp_m1()).ln());
        between - upper.map_or(0.0, |u| softplus(-u)) - lower.map_or(0.0, softplus)
    }

    fn derivatives(&self, zeta: &[f64], (y, _): (f64, f64), gradient: &mut [f64], hessian: &mut [f64]) {
        let (r, level) = (zeta.len(), y as usize);
        let [upper, lower] = self.bounds(zeta, level);
        // ∂/∂u log σ(u) = a, ∂/∂l log σ(−l) = −b, and their own slopes −A and −B.
        let [a, b] = [upper.map_or(0.0, |u| sigmoid(-u)), lower.map_or(0.0, sigmoid)];
        let bend = |t: Option<f64>| t.map_or(0.0, |t| sigmoid(t) * sigmoid(-t));
        let ends = [(self.upper(level), a, bend(upper)), (self.lower(level), -b, bend(lower))];
        gradient[0] = b - a;
        hessian.fill(0.0);
        hessian[0] = -ends[0].2 - ends[1].2;
        gradient[1..].fill(0.0);
        for (cutpoint, slope, bend) in ends.into_iter().filter_map(|(at, a, b)| Some((at?, a, b))) {
            for i in 1..r {
                let step = self.side(cutpoint, i) * width(zeta[i]);
                gradient[i] += slope * step;
                hessian[i] += bend * step;
                hessian[i * r + i] += slope * step;
                for j in 1..=i {
                    hessian[i * r + j] -= bend * step * (self.side(cutpoint, j) * width(zeta[j]));
                }
            }
        }
        if let Some(gap) = self.own_gap(level) {
            // Of log(1 − e^{−γ}): γ/(e^γ − 1), and with γ/(1 − e^{−γ}) its slope.
            let width = width(zeta[gap]);
            let [slope, other] = [width / width.exp_m1(), width / -(-width).exp_m1()];
            gradient[gap] += slope;
            hessian[gap * r + gap] += slope * (1.0 - other);
        }
        for i in 0..r {
            for j in 0..i {
                let entry = if j == 0 { hessian[i] } else { hessian[i * r + j] };
                (hessian[i * r + j], hessian[j * r + i]) = (entry, entry);
            }
        }
    }

    fn difference(&self, zeta: &[f64], delta: &[f64], (y, _): (f64, f64)) -> f64 {
        let level = y as usize;
        let [upper, lower] = self.bounds(zeta, level);
        let moved = |cutpoint| self.along(cutpoint, |gap| growth(zeta[gap], delta[gap])) - delta[0];
        let rise = upper.zip(self.upper(level)).map(|(u, at)| log_sigmoid_difference(u, moved(at)));
        let fall = lower.zip(self.lower(level)).map(|(l, at)| log_sigmoid_difference(-l, -moved(at)));
        let between = self.own_gap(level).map(|gap| opening(width(zeta[gap]), growth(zeta[gap], delta[gap])));
        [rise, fall, between].into_iter().flatten().sum()
    }

    /// At each shift, by how much every cutpoint moves, and how log(1 − e^{−γ}) of every gap changes.
    fn table(&self, constants: &[(f64, &[f64])]) -> Vec<f64> {
        let count = constants.first().map_or(0, |(_, shifts)| shifts.len());
        let growths = |gap: usize, s: usize| growth(constants[gap - 1].0, constants[gap - 1].1[s]);
        let moved = |cutpoint, s| self.along(cutpoint, |gap| growths(gap, s));
        let cutpoints = (1..self.levels).flat_map(|at| (0..count).map(move |s| (at, s)));
        let mut table: Vec<f64> = cutpoints.map(|(at, s)| moved(at, s)).collect();
        for (gap, (zeta, _)) in constants.iter().enumerate() {
            table.extend((0..count).map(|s| opening(width(*zeta), growths(gap + 1, s))));
        }
        table
    }

    fn differences_row(
        &self,
        zeta: &[f64],
        (y, _): (f64, f64),
        deltas: &[f64],
        table: &[f64],
        out: &mut [f64],
    ) {
        let (level, count) = (y as usize, out.len());
        let [upper, lower] = self.bounds(zeta, level);
        let of_eta = &deltas[..count];
        let mut moved = vec![0.0; count];
        out.fill(0.0);
        let ends = [(upper.zip(self.upper(level)), 1.0), (lower.zip(self.lower(level)), -1.0)];
        for ((bound, cutpoint), sign) in ends.into_iter().filter_map(|(end, sign)| Some((end?, sign))) {
            // Two levels have one cutpoint, which never moves, and no table.
            match table.get((cutpoint - 1) * count..cutpoint * count) {
                Some(steps) => {
                    moved.iter_mut().zip(steps.iter().zip(of_eta)).for_each(|(d, (c, e))| *d = c - e);
                }
                None => moved.iter_mut().zip(of_eta).for_each(|(d, e)| *d = -e),
            }
            Logistic.differences_row_f64(bound, sign, 1.0, &mut moved);
            out.iter_mut().zip(&moved).for_each(|(out, d)| *out += d);
        }
        if let Some(gap) = self.own_gap(level) {
            let openings = &table[(self.levels - 2 + gap) * count..][..count];
            out.iter_mut().zip(openings).for_each(|(out, d)| *out += d);
        }
    }
}
