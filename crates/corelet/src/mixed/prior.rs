//! The prior of a mixed model: that of the rows' own parameters, of the standard deviations of random effects, and of their correlation.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::special::ln_gamma;
use crate::posterior::{Density, Prior};

/// The prior of a standard deviation σ > 0, in words `half_normal(scale)`, `half_student_t(degrees, scale)` or `exponential(rate)`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SdPrior {
    /// |x| of x ~ N(0, s²).
    HalfNormal {
        /// Scale s.
        scale: f64,
    },
    /// |x| of x ~ s·Student-t(ν).
    HalfStudentT {
        /// Degrees of freedom ν.
        degrees: f64,
        /// Scale s.
        scale: f64,
    },
    /// λe^{−λσ}.
    Exponential {
        /// Rate λ.
        rate: f64,
    },
}

impl SdPrior {
    /// log p(t) and its derivative, of t = log σ: the density of σ times σ.
    pub fn of_log(&self, t: f64) -> (f64, f64) {
        let sd = t.clamp(-300.0, 300.0).exp();
        match *self {
            Self::HalfNormal { scale } => {
                let half = Density::Normal { mean: 0.0, sd: scale }.at(sd);
                (half.value + std::f64::consts::LN_2 + t, half.slope * sd + 1.0)
            }
            Self::HalfStudentT { degrees, scale } => {
                let half = Density::StudentT { degrees, mean: 0.0, scale }.at(sd);
                (half.value + std::f64::consts::LN_2 + t, half.slope * sd + 1.0)
            }
            Self::Exponential { rate } => (rate.ln() - rate * sd + t, 1.0 - rate * sd),
        }
    }

    /// Its numbers, as they are written.
    fn numbers(&self) -> (&'static str, Vec<f64>) {
        match *self {
            Self::HalfNormal { scale } => ("half_normal", vec![scale]),
            Self::HalfStudentT { degrees, scale } => ("half_student_t", vec![degrees, scale]),
            Self::Exponential { rate } => ("exponential", vec![rate]),
        }
    }

    /// Name and numbers, these said by `number`.
    pub fn worded(&self, number: impl Fn(f64) -> String) -> String {
        let (name, numbers) = self.numbers();
        format!("{name}({})", numbers.into_iter().map(number).collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for SdPrior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(|x| x.to_string()))
    }
}

impl From<SdPrior> for String {
    fn from(prior: SdPrior) -> Self {
        prior.to_string()
    }
}

impl TryFrom<String> for SdPrior {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for SdPrior {
    type Err = String;

    /// The names of bambi and PyMC (`HalfNormal`) are read too.
    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |why: &str| {
            Err(format!(
                "'{text}' is no prior of a standard deviation: {why}; write half_normal(scale), half_student_t(degrees, scale) or \
                 exponential(rate)"
            ))
        };
        let Some((name, inside)) = text.trim().strip_suffix(')').and_then(|text| text.split_once('(')) else {
            return refused("it has no numbers in brackets");
        };
        let numbers: Result<Vec<f64>, _> =
            inside.split(',').map(|number| number.trim().parse::<f64>()).collect();
        let Ok(numbers) = numbers else { return refused("what is in brackets are no numbers") };
        if let Some(bad) = numbers.iter().find(|x| !(**x > 0.0 && x.is_finite())) {
            return refused(&format!("{bad} is not positive and finite"));
        }
        let name: String = name.trim().to_lowercase().chars().filter(|letter| *letter != '_').collect();
        match (name.as_str(), &numbers[..]) {
            ("halfnormal", &[scale]) => Ok(Self::HalfNormal { scale }),
            ("halfstudentt", &[degrees, scale]) => Ok(Self::HalfStudentT { degrees, scale }),
            ("exponential", &[rate]) => Ok(Self::Exponential { rate }),
            _ => refused("there is none of that name with so many numbers"),
        }
    }
}

/// The prior of (β, dispersions, log sds, artanh of the correlation).
#[derive(Debug, Clone)]
pub struct MixedPrior {
    /// Prior of the parameters of the likelihood.
    pub fixed: Prior,
    /// Prior of each standard deviation.
    pub sds: Vec<SdPrior>,
    /// η of the LKJ prior of the correlation, ∝ (1 − ρ²)^{η−1}, where there is one.
    pub lkj: Option<f64>,
    /// Of the effects of each factor that is kept.
    pub kept: Vec<KeptPrior>,
}

/// The prior of (t, s₁ … s_J): t the log of a standard deviation, and s_h ~ N(0, e^{2(1 − a_h)t}), so that e^{a_h t}s_h ~ N(0, e^{2t}).
#[derive(Debug, Clone)]
pub struct KeptPrior {
    /// Prior of the standard deviation.
    pub sd: SdPrior,
    /// Powers a.
    pub powers: Vec<f64>,
}

impl KeptPrior {
    fn add_to(&self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let (own, effects) = theta.split_at(1);
        let (slope, slopes) = gradient.split_at_mut(1);
        let log_sd = own[0].clamp(-300.0, 300.0);
        let (mut value, by_log_sd) = self.sd.of_log(own[0]);
        slope[0] += by_log_sd;
        for ((power, s), out) in self.powers.iter().zip(effects).zip(slopes) {
            let scale = (1.0 - power) * log_sd;
            let precision = (-2.0 * scale).exp();
            value -= 0.5 * s * s * precision + scale + 0.5 * (2.0 * std::f64::consts::PI).ln();
            *out -= s * precision;
            slope[0] += (1.0 - power) * (s * s * precision - 1.0);
        }
        value
    }
}

impl MixedPrior {
    /// Number of parameters.
    pub fn dim(&self) -> usize {
        let kept: usize = self.kept.iter().map(|kept| 1 + kept.powers.len()).sum();
        self.fixed.dim() + self.sds.len() + usize::from(self.lkj.is_some()) + kept
    }

    /// Adds ∇log π₀ to `gradient`, and returns log π₀, constants included.
    pub fn add_to(&self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let fixed = self.fixed.dim();
        let mut value = self.fixed.gradient_and_log_density(&theta[..fixed], Some(&mut gradient[..fixed]));
        for (j, prior) in self.sds.iter().enumerate() {
            let (log, slope) = prior.of_log(theta[fixed + j]);
            value += log;
            gradient[fixed + j] += slope;
        }
        if let Some(eta) = self.lkj {
            let at = fixed + self.sds.len();
            let r = theta[at];
            // log(1 − ρ²) = −2 log cosh r, and dρ = (1 − ρ²)dr.
            let log_rest = -2.0 * (r.abs() + (-2.0 * r.abs()).exp().ln_1p() - std::f64::consts::LN_2);
            let log_beta = ln_gamma(0.5) + ln_gamma(eta) - ln_gamma(eta + 0.5);
            value += eta * log_rest - log_beta;
            gradient[at] -= 2.0 * eta * r.tanh();
        }
        let mut at = fixed + self.sds.len() + usize::from(self.lkj.is_some());
        for kept in &self.kept {
            let end = at + 1 + kept.powers.len();
            value += kept.add_to(&theta[at..end], &mut gradient[at..end]);
            at = end;
        }
        value
    }

    /// −∇²log π₀ by differences of the gradient, row-major; the prior has no two parameters together but those of a Gaussian.
    pub fn precision(&self, theta: &[f64]) -> Vec<f64> {
        let mut gradient_at = |theta: &[f64], gradient: &mut [f64]| {
            self.add_to(theta, gradient);
        };
        super::climb::negative_hessian(theta, &mut gradient_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ∫ p = 1 and slopes are differences, for every prior of a standard deviation and of a correlation.
    #[test]
    fn priors_are_densities_of_what_is_sampled() {
        let fixed = Prior::isotropic(1, 1.0).unwrap();
        for text in ["half_normal(0.7)", "half_student_t(3, 2)", "exponential(1.5)"] {
            for eta in [1.0, 2.5] {
                let prior: SdPrior = text.parse().unwrap();
                assert_eq!(prior.to_string().parse(), Ok(prior));
                let prior =
                    MixedPrior { fixed: fixed.clone(), sds: vec![prior], lkj: Some(eta), kept: Vec::new() };
                let at = |t: f64, r: f64| {
                    prior.add_to(&[0.0, t, r], &mut [0.0; 3]) - prior.fixed.log_density(&[0.0])
                };
                let step = 0.02;
                let mut total = 0.0;
                for i in -1500..1500 {
                    for j in -500..500 {
                        total += at(f64::from(i) * step, f64::from(j) * step).exp() * step * step;
                    }
                }
                assert!((total - 1.0).abs() < 1e-5, "{text} {eta}: {total}");
                let (theta, h) = ([0.3, -0.4, 0.6], 1e-6);
                let mut gradient = vec![0.0; 3];
                prior.add_to(&theta, &mut gradient);
                for j in 0..3 {
                    let moved = |by: f64| {
                        let mut there = theta;
                        there[j] += by;
                        prior.add_to(&there, &mut [0.0; 3])
                    };
                    let slope = (moved(h) - moved(-h)) / (2.0 * h);
                    assert!((gradient[j] - slope).abs() < 1e-7, "{text} {j}: {} {slope}", gradient[j]);
                }
            }
        }
    }

    /// ∫ p = 1 over (t, s), and slopes are differences, wherever between the effect and its multiple of σ the parameter stands.
    #[test]
    fn priors_of_kept_effects_are_densities() {
        for power in [0.0, 0.3, 1.0] {
            let kept = KeptPrior { sd: SdPrior::HalfNormal { scale: 0.8 }, powers: vec![power, 1.0] };
            let at = |theta: &[f64]| kept.add_to(theta, &mut [0.0; 3]);
            let (mut total, steps) = (0.0, 400);
            for i in -200..60 {
                let t = f64::from(i) * 0.05;
                let scale = ((1.0 - power) * t).exp();
                for j in -steps..=steps {
                    let s = f64::from(j) * 0.02;
                    // Less the density of the second effect, which is N(0, 1).
                    let value = at(&[t, s * scale, 0.3]) + 0.5 * (0.09 + (2.0 * std::f64::consts::PI).ln());
                    total += value.exp() * 0.05 * 0.02 * scale;
                }
            }
            assert!((total - 1.0).abs() < 1e-4, "{power}: {total}");
            let (theta, mut gradient) = ([-0.4, 0.7, -0.3], [0.0; 3]);
            kept.add_to(&theta, &mut gradient);
            for j in 0..3 {
                let moved = |by: f64| {
                    let mut there = theta;
                    there[j] += by;
                    at(&there)
                };
                let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((gradient[j] - slope).abs() < 1e-7, "{power} {j}: {} {slope}", gradient[j]);
            }
        }
    }

    #[test]
    fn words_of_other_tools_are_read_and_nonsense_is_refused() {
        assert_eq!("HalfNormal(2.5)".parse(), Ok(SdPrior::HalfNormal { scale: 2.5 }));
        assert_eq!("HalfStudentT(4, 1)".parse(), Ok(SdPrior::HalfStudentT { degrees: 4.0, scale: 1.0 }));
        for (text, why) in [
            ("half_normal", "no numbers in brackets"),
            ("half_normal(x)", "are no numbers"),
            ("half_normal(-1)", "-1 is not positive"),
            ("half_cauchy(1)", "none of that name"),
            ("half_normal(1, 2)", "none of that name"),
        ] {
            let refused = text.parse::<SdPrior>().unwrap_err();
            assert!(refused.contains(why) && refused.contains("exponential(rate)"), "{refused}");
        }
    }
}
