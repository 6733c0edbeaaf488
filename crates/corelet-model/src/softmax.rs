//! Several classes: P(y = c) ∝ exp(ζ_c), each class but the base with a predictor of its own.

use super::built_in::{Card, NO_LINK, NONE};
use super::joint_jets::pairs;
use super::{Inputs, Joint, JointFamily, JointJets, ModelError, NearShifts, Predictive};
use crate::vector_math::{Kernel, LogParts, dispatch, exp_minus, expm1_minus_x as curved_part, log, log1p};
use corelet_data::Outcome;
use corelet_data::observations::Observations;
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "softmax",
    about: "Several classes without an order: multinomial logistic regression",
    outcome: Outcome::Several,
    settings: &[],
    sigma: None,
    dispersions: NONE,
    scaled_by_target: false,
    link: NO_LINK,
    bind: |observations, numbers| Ok(Arc::new(Softmax::model(observations, numbers.classes)?)),
    predictive: Predictive::Classes(|given, out| {
        let (base, others) = out.split_at_mut(1);
        base[0] = Softmax::probabilities(given.zeta, others);
    }),
};

/// Exponents up to which sums of exponentials keep clear of overflow.
const LARGE: f64 = 300.0;

/// A probability of the own class from which the kernel keeps its digits at any shift.
const RARE: f64 = 1e-6;

/// ℓ(ζ) = ζ_y − log Σ_c e^{ζ_c} with ζ₀ = 0 of the base and ζ₁ … ζ_{C−1} the predictors; targets are 0 … C − 1.
///
/// ∇ℓ = e_y − p and ∇²ℓ = ppᵀ − diag p over the classes but the base, p the probabilities, and
/// ℓ(ζ+δ) − ℓ(ζ) = −log(1 + Σ_{c≠y} p_c(e^{δ_c − δ_y} − 1)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Softmax {
    predictors: Vec<Inputs>,
}

impl Softmax {
    /// The family with this number of classes, including the base.
    ///
    /// # Errors
    /// [`ModelError::Classes`] where there are fewer than two.
    pub fn new(classes: usize) -> Result<Softmax, ModelError> {
        if classes < 2 {
            return Err(ModelError::Classes { classes });
        }
        Ok(Softmax { predictors: vec![Inputs::Features; classes - 1] })
    }

    /// The model of these observations; θ is (β₁, …, β_{C−1}).
    ///
    /// # Errors
    /// See [`ModelError`]; one number a row is no offset of several predictors.
    pub fn model(observations: Observations, classes: usize) -> Result<Joint<Softmax>, ModelError> {
        if observations.offset.is_some() {
            return Err(ModelError::NoPlace { model: CARD.name, what: "offset" });
        }
        Joint::new(observations, Softmax::new(classes)?)
    }

    /// The probabilities of the classes but the base into `p`, and that of the base.
    fn probabilities(zeta: &[f64], p: &mut [f64]) -> f64 {
        let largest = zeta.iter().copied().fold(0.0, f64::max);
        p.iter_mut().zip(zeta).for_each(|(p, z)| *p = (z - largest).exp());
        let base = (-largest).exp();
        let total = base + p.iter().sum::<f64>();
        p.iter_mut().for_each(|p| *p /= total);
        base / total
    }
}

/// Of the class c, where the base has 0 and the others theirs.
fn of_class(numbers: &[f64], class: usize) -> f64 {
    if class == 0 { 0.0 } else { numbers[class - 1] }
}

impl JointFamily for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn predictors(&self) -> &[Inputs] {
        &self.predictors
    }

    fn check_target(&self, (y, _): (f64, f64)) -> Result<(), &'static str> {
        let possible = y >= 0.0 && y <= self.predictors.len() as f64 && y.fract() == 0.0;
        if possible { Ok(()) } else { Err("the number of a class: 0, 1, …") }
    }

    /// Linear less log Σ exp, which is convex.
    fn is_log_concave(&self) -> bool {
        true
    }

    fn value(&self, zeta: &[f64], (y, _): (f64, f64)) -> f64 {
        let own = of_class(zeta, y as usize);
        let apart = || (0..=zeta.len()).filter(|&c| c != y as usize).map(|c| of_class(zeta, c) - own);
        let largest = apart().fold(0.0, f64::max);
        // Without the largest taken out nothing is lost of a small sum.
        if largest < LARGE {
            return -apart().map(f64::exp).sum::<f64>().ln_1p();
        }
        -largest - ((-largest).exp() + apart().map(|d| (d - largest).exp()).sum::<f64>()).ln()
    }

    fn derivatives(&self, zeta: &[f64], (y, _): (f64, f64), gradient: &mut [f64], hessian: &mut [f64]) {
        let r = zeta.len();
        let base = Self::probabilities(zeta, gradient);
        for a in 0..r {
            for b in 0..a {
                let product = gradient[a] * gradient[b];
                (hessian[a * r + b], hessian[b * r + a]) = (product, product);
            }
            // 1 − p by the others, so that it keeps its digits near 1.
            let others = base + (0..r).filter(|&c| c != a).map(|c| gradient[c]).sum::<f64>();
            hessian[a * r + a] = -gradient[a] * others;
        }
        let own = (y as usize).checked_sub(1);
        let rest = base + (0..r).filter(|&c| Some(c) != own).map(|c| gradient[c]).sum::<f64>();
        gradient.iter_mut().for_each(|p| *p = -*p);
        if let Some(own) = own {
            gradient[own] = rest;
        }
    }

    fn jets(&self, rows: &mut JointJets) {
        dispatch(SoftmaxJets(rows));
    }

    fn difference(&self, zeta: &[f64], delta: &[f64], (y, _): (f64, f64)) -> f64 {
        let mut p = vec![0.0; zeta.len()];
        let base = Self::probabilities(zeta, &mut p);
        let probability = |class: usize| if class == 0 { base } else { p[class - 1] };
        let own = of_class(delta, y as usize);
        let others = || {
            let others = (0..=zeta.len()).filter(|&c| c != y as usize);
            others.map(|c| (probability(c), of_class(delta, c) - own))
        };
        if others().any(|(_, apart)| apart > LARGE) {
            let moved: Vec<f64> = zeta.iter().zip(delta).map(|(z, d)| z + d).collect();
            return self.value(&moved, (y, 1.0)) - self.value(zeta, (y, 1.0));
        }
        let growth = others().map(|(p, apart)| p * apart.exp_m1()).sum::<f64>();
        if growth > -0.5 {
            -growth.ln_1p()
        } else {
            -(probability(y as usize) + others().map(|(p, apart)| p * apart.exp()).sum::<f64>()).ln()
        }
    }

    fn differences_row(
        &self,
        zeta: &[f64],
        (y, _): (f64, f64),
        deltas: &[f64],
        _table: &[f64],
        out: &mut [f64],
    ) {
        let (r, count) = (zeta.len(), out.len());
        let mut p = vec![0.0; r];
        let base = Self::probabilities(zeta, &mut p);
        let own = y as usize;
        let probability = |class: usize| if class == 0 { base } else { p[class - 1] };
        if probability(own) < RARE {
            let mut delta = vec![0.0; r];
            for (s, out) in out.iter_mut().enumerate() {
                delta.iter_mut().zip(deltas[s..].iter().step_by(count)).for_each(|(to, from)| *to = *from);
                *out = self.difference(zeta, &delta, (y, 1.0));
            }
            return;
        }
        let shifts = |class: usize| (class > 0).then(|| &deltas[(class - 1) * count..][..count]);
        out.fill(0.0);
        for class in (0..=r).filter(|&class| class != own) {
            let apart = Apart { probability: probability(class), of: [shifts(class), shifts(own)] };
            dispatch(Growth { apart, out });
        }
        dispatch(Logarithm(out));
    }

    fn curved_table(&self, _constants: &[(f64, &[f64])]) -> Option<Vec<f32>> {
        Some(Vec::new())
    }

    fn add_curved(
        &self,
        _zeta: &[f64],
        (y, _): (f64, f64),
        shifts: &NearShifts<'_>,
        sum: &mut [f32],
    ) -> bool {
        let (own, classes) = (y as usize, shifts.gradient.len() + 1);
        if shifts.reach.iter().any(|reach| *reach > NEAR) || classes > MOST {
            return false;
        }
        // ∇ℓ = e_y − p, of which the own class is not asked for; what is left for the base loses digits that f32 does not have.
        let mut p = [0.0; MOST];
        p[0] = shifts.gradient.iter().sum::<f64>().max(0.0) as f32;
        p[1..].iter_mut().zip(shifts.gradient).for_each(|(p, slope)| *p = -slope as f32);
        dispatch(AddCurves { p: &p[..classes], own, shifts, sum });
        true
    }
}

/// ℓ, ∇ℓ and ∇²ℓ of many rows: class after class, each over all rows.
struct SoftmaxJets<'a>(&'a mut JointJets);

/// Rows at a time.
const ROWS: usize = 64;

impl Kernel for SoftmaxJets<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let JointJets { zeta, y, value, values, gradient, hessian, .. } = self.0;
        for start in (0..y.len()).step_by(ROWS) {
            let rows = start..y.len().min(start + ROWS);
            let y = &y[rows.clone()];
            let (mut largest, mut own, mut base) = ([0.0; ROWS], [0.0; ROWS], [0.0; ROWS]);
            for (class, zeta) in (1..).map(f64::from).zip(&*zeta) {
                let numbers = zeta[rows.clone()].iter().zip(y).zip(largest.iter_mut().zip(&mut own));
                for ((zeta, y), (largest, own)) in numbers {
                    *largest = if zeta > largest { *zeta } else { *largest };
                    *own = if *y == class { *zeta } else { *own };
                }
            }
            // Beside a class so far ahead that exponentials would overflow, the base is nothing.
            let mut total = [0.0; ROWS];
            for ((base, total), largest) in base.iter_mut().zip(&mut total).zip(&mut largest) {
                (*base, *largest) = if *largest < LARGE { (1.0, 0.0) } else { (0.0, *largest) };
                *total = *base;
            }
            for (zeta, p) in zeta.iter().zip(&mut *gradient) {
                let numbers = zeta[rows.clone()].iter().zip(&mut p[rows.clone()]);
                for ((zeta, p), (largest, total)) in numbers.zip(largest.iter().zip(&mut total)) {
                    *p = exp_minus::<f64, FMA>(zeta - largest, 0.0);
                    *total += *p;
                }
            }
            if *values {
                for (at, value) in value[rows.clone()].iter_mut().enumerate() {
                    *value = own[at] - largest[at] - log::<FMA>(total[at]);
                }
            }
            for (base, total) in base.iter_mut().zip(&mut total) {
                *total = 1.0 / *total;
                *base *= *total;
            }
            for p in &mut *gradient {
                p[rows.clone()].iter_mut().zip(&total).for_each(|(p, inverse)| *p *= inverse);
            }
            // 1 − p by the others, so that it keeps its digits near 1.
            let mut others = [0.0; ROWS];
            for ((a, b), product) in pairs(gradient.len()).zip(&mut *hessian) {
                let product = &mut product[rows.clone()];
                if b == 0 {
                    others = base;
                    for (_, p) in gradient.iter().enumerate().filter(|(c, _)| *c != a) {
                        others.iter_mut().zip(&p[rows.clone()]).for_each(|(sum, p)| *sum += p);
                    }
                }
                let numbers = gradient[a][rows.clone()].iter().zip(&gradient[b][rows.clone()]).zip(&others);
                for (product, ((p, q), others)) in product.iter_mut().zip(numbers) {
                    *product = if a == b { -p * others } else { p * q };
                }
            }
            Slopes { base: &base, y, rows }.fill(gradient);
        }
    }
}

/// From probabilities to the gradient.
struct Slopes<'a> {
    base: &'a [f64; ROWS],
    y: &'a [f64],
    rows: std::ops::Range<usize>,
}

impl Slopes<'_> {
    #[inline(always)]
    fn fill(self, p: &mut [Vec<f64>]) {
        let mut rest = *self.base;
        for (class, p) in (1..).map(f64::from).zip(&*p) {
            for ((rest, y), p) in rest.iter_mut().zip(self.y).zip(&p[self.rows.clone()]) {
                *rest += if *y == class { 0.0 } else { *p };
            }
        }
        for (class, p) in (1..).map(f64::from).zip(p) {
            for ((rest, y), p) in rest.iter().zip(self.y).zip(&mut p[self.rows.clone()]) {
                *p = if *y == class { *rest } else { -*p };
            }
        }
    }
}

/// Shifts for which f32 keeps the digits of a logarithm.
const NEAR: f64 = 2.0;

/// Classes that [`AddCurves`] has room for.
const MOST: usize = 32;

/// Adds what of ℓ(ζ+δ) − ℓ(ζ) is curved: −(log(1 + x) − x) − Σ_{c≠y} p_cE(δ_c − δ_y), with x = Σ_{c≠y} p_c(e^{δ_c − δ_y} − 1) and
/// E(d) = e^d − 1 − d.
struct AddCurves<'a> {
    /// Of all classes but the own one.
    p: &'a [f32],
    own: usize,
    shifts: &'a NearShifts<'a>,
    sum: &'a mut [f32],
}

impl Kernel for AddCurves<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let AddCurves { p, own, shifts, sum } = self;
        let zeros = [0.0; ROWS];
        for (part, sum) in sum.chunks_mut(ROWS).enumerate() {
            let of = |class: usize| match class.checked_sub(1) {
                Some(predictor) => &shifts.of(predictor)[part * ROWS..][..sum.len()],
                None => &zeros[..sum.len()],
            };
            let (mut growth, mut curved) = ([0.0; ROWS], [0.0; ROWS]);
            for (class, &p) in p.iter().enumerate().filter(|(class, _)| *class != own) {
                let apart = of(class).iter().zip(of(own));
                for ((class, own), (growth, curved)) in apart.zip(growth.iter_mut().zip(&mut curved)) {
                    let apart = class - own;
                    let bent = curved_part::<f32, FMA>(apart);
                    *growth += p * (bent + apart);
                    *curved += p * bent;
                }
            }
            for (sum, (x, curved)) in sum.iter_mut().zip(growth.iter().zip(&curved)) {
                let log_rest = LogParts::new::<FMA>(*x, 1.0).log_minus_x::<FMA>(*x);
                *sum -= shifts.weight * (log_rest + curved);
            }
        }
    }
}

/// The probability of a class, and its shifts and those of the own class; none if they are those of the base, zeros.
struct Apart<'a> {
    probability: f64,
    of: [Option<&'a [f64]>; 2],
}

/// Adds p_c(e^{δ_c − δ_y} − 1) at each shift.
struct Growth<'a> {
    apart: Apart<'a>,
    out: &'a mut [f64],
}

impl Kernel for Growth<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Apart { probability, of } = self.apart;
        match of {
            [Some(class), Some(own)] => {
                for (out, (class, own)) in self.out.iter_mut().zip(class.iter().zip(own)) {
                    *out += probability * exp_minus::<f64, FMA>(class - own, 1.0);
                }
            }
            [Some(class), None] => {
                for (out, class) in self.out.iter_mut().zip(class) {
                    *out += probability * exp_minus::<f64, FMA>(*class, 1.0);
                }
            }
            [None, Some(own)] => {
                for (out, own) in self.out.iter_mut().zip(own) {
                    *out += probability * exp_minus::<f64, FMA>(-own, 1.0);
                }
            }
            [None, None] => {}
        }
    }
}

/// Each x becomes −log(1 + x).
struct Logarithm<'a>(&'a mut [f64]);

impl Kernel for Logarithm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.0.iter_mut().for_each(|x| *x = -log1p::<f64, FMA>(*x));
    }
}
