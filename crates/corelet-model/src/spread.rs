//! Means over Gaussian predictors: what a posterior π̂ = N(μ, LLᵀ) sees of a row, by quadrature.

use super::quadrature::{Rule, Rules};
use super::{Family, Jets, LinearPredictor};
use corelet_kernels::linalg::{dot, dot_features, write_product};
use corelet_kernels::parallel;
use std::ops::Range;

/// θ ~ N(μ, LLᵀ).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread<'a> {
    /// μ.
    pub mean: &'a [f64],
    /// L, lower triangular, row-major.
    pub factor: &'a [f64],
}

/// Turns features of one predictor a row into the standard deviations of their predictors, ‖Lᵀx‖.
#[derive(Debug, Default)]
pub(super) struct Widths {
    rows: Vec<f64>,
    whitened: Vec<f64>,
}

impl Widths {
    /// XL, of rows of as many features as L has lines.
    pub(super) fn whitened(&mut self, features: &[f32], factor: &[f64], dim: usize) -> &[f64] {
        self.rows.clear();
        self.rows.extend(features.iter().copied().map(f64::from));
        self.whitened.resize(self.rows.len(), 0.0);
        write_product(&self.rows, factor, dim, true, &mut self.whitened);
        &self.whitened
    }

    pub(super) fn of(&mut self, features: &[f32], factor: &[f64], dim: usize, out: &mut Vec<f64>) {
        let whitened = self.whitened(features, factor, dim);
        out.clear();
        out.extend(whitened.chunks_exact(dim.max(1)).map(|v| dot(v, v).sqrt()));
    }
}

/// Replaces ℓ, ℓ′ and ℓ″ of the rows by their means over η + sz, z ~ N(0, 1): rows on one rung of the ladder take a node together.
pub(super) fn mean_jets(family: &dyn Family, rules: &Rules, rows: &mut Jets, widths: &[f64]) {
    rows.asked();
    let rungs: Vec<Option<usize>> = widths.iter().map(|&s| Rules::rung(s)).collect();
    let mut asked = Jets::default();
    for (rung, rule) in rules.gauss().iter().enumerate() {
        let picked: Vec<usize> = (0..rungs.len()).filter(|&i| rungs[i] == Some(rung)).collect();
        take(family, rule, rows, widths, &picked, &mut asked);
    }
    for i in (0..rungs.len()).filter(|&i| rungs[i].is_none()) {
        take(family, &Rule::trapezoidal(widths[i]), rows, widths, &[i], &mut asked);
    }
}

/// The means of the rows that were picked, by one rule.
fn take(
    family: &dyn Family,
    rule: &Rule,
    rows: &mut Jets,
    widths: &[f64],
    picked: &[usize],
    asked: &mut Jets,
) {
    if picked.is_empty() {
        return;
    }
    let gather = |from: &[f64], to: &mut Vec<f64>| {
        to.clear();
        to.extend(picked.iter().map(|&i| from[i]));
    };
    gather(&rows.y, &mut asked.y);
    gather(&rows.exposure, &mut asked.exposure);
    for &i in picked {
        (rows.value[i], rows.first[i], rows.second[i]) = (0.0, 0.0, 0.0);
    }
    for &(z, weight) in &rule.nodes {
        asked.eta.clear();
        asked.eta.extend(picked.iter().map(|&i| rows.eta[i] + widths[i] * z));
        family.jets(asked.asked());
        for (at, &i) in picked.iter().enumerate() {
            rows.value[i] += weight * asked.value[at];
            rows.first[i] += weight * asked.first[at];
            rows.second[i] += weight * asked.second[at];
        }
    }
}

/// Rows that are one task.
const PART: usize = 256;

/// fᵢ·E[ℓ′] and fᵢ·E[ℓ″] of these rows of a model with a linear predictor, in their order; on all threads.
pub fn expected_slopes(model: &LinearPredictor, under: &Spread<'_>, rows: Range<usize>) -> Vec<[f64; 2]> {
    let LinearPredictor { observations, family } = model;
    let (rules, dim) = (Rules::default(), observations.dim);
    let of_part = |part: Range<usize>| {
        let part = rows.start + part.start..rows.start + part.end;
        let (mut jets, mut widths) = (Jets::default(), Vec::new());
        let features = &observations.features[part.start * dim..part.end * dim];
        Widths::default().of(features, under.factor, dim, &mut widths);
        for i in part.clone() {
            let (y, exposure) = observations.target(i);
            jets.eta.push(dot_features(observations.row(i), under.mean) + observations.offset(i));
            jets.y.push(y);
            jets.exposure.push(exposure);
        }
        mean_jets(&**family, &rules, &mut jets, &widths);
        let weighted = |(at, i)| [jets.first[at], jets.second[at]].map(|x| observations.weight(i) * x);
        part.enumerate().map(weighted).collect::<Vec<[f64; 2]>>()
    };
    parallel::map(parallel::parts(rows.len(), PART), of_part).concat()
}
