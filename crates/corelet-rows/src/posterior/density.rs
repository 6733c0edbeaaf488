//! The prior density of one parameter: normal, Student-t or Laplace.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI, SQRT_2};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::special::ln_gamma;

/// A density of one number. In words, here and in files, `normal(mean, sd)`, `student_t(degrees, mean, scale)` or
/// `laplace(mean, scale)`, which read back to the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Density {
    /// N(m, s²).
    Normal {
        /// Mean m.
        mean: f64,
        /// Standard deviation s.
        sd: f64,
    },
    /// m + s·T with T of Student's t distribution.
    StudentT {
        /// Degrees of freedom ν.
        degrees: f64,
        /// Centre m.
        mean: f64,
        /// Scale s.
        scale: f64,
    },
    /// exp(−|x − m|/b)/2b.
    Laplace {
        /// Centre m.
        mean: f64,
        /// b.
        scale: f64,
    },
}

/// A log density at one point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jet {
    /// log p.
    pub value: f64,
    /// First derivative.
    pub slope: f64,
    /// Less its second derivative.
    pub curvature: f64,
}

impl Density {
    /// From a name and its numbers.
    ///
    /// # Errors
    /// Says what is wrong with them.
    pub fn new(family: &str, numbers: &[f64]) -> Result<Self, String> {
        let density = match (family, numbers) {
            ("normal", &[mean, sd]) => Self::Normal { mean, sd },
            ("student_t", &[degrees, mean, scale]) => Self::StudentT { degrees, mean, scale },
            ("laplace", &[mean, scale]) => Self::Laplace { mean, scale },
            _ => {
                let known = "normal(mean, sd), student_t(degrees, mean, scale) or laplace(mean, scale)";
                return Err(format!("it must be {known}"));
            }
        };
        density.check().map(|()| density)
    }

    /// Refuses numbers that make no density.
    ///
    /// # Errors
    /// Says which.
    pub fn check(&self) -> Result<(), String> {
        let Self::StudentT { degrees, .. } = *self else { return self.check_scale() };
        if !(degrees > 0.0 && degrees.is_finite()) {
            return Err(format!("its degrees of freedom are {degrees}, but they must be finite and above 0"));
        }
        self.check_scale()
    }

    fn check_scale(&self) -> Result<(), String> {
        let (mean, scale) = (self.mean(), self.scale());
        if !mean.is_finite() {
            return Err(format!("its mean is {mean}, but it must be finite"));
        }
        let precision = scale.powi(-2);
        if !(scale > 0.0 && precision > 0.0 && precision.is_finite()) {
            return Err(format!("its scale is {scale}, but it must be positive and finite"));
        }
        Ok(())
    }

    /// Centre of symmetry.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Normal { mean, .. } | Self::StudentT { mean, .. } | Self::Laplace { mean, .. } => mean,
        }
    }

    /// Its width: the last of its numbers.
    pub fn scale(&self) -> f64 {
        match *self {
            Self::Normal { sd, .. } => sd,
            Self::StudentT { scale, .. } | Self::Laplace { scale, .. } => scale,
        }
    }

    /// The density of shift + factor·x.
    #[must_use]
    pub fn moved(self, shift: f64, factor: f64) -> Self {
        let (to, width) = (shift + factor * self.mean(), factor.abs() * self.scale());
        match self {
            Self::Normal { .. } => Self::Normal { mean: to, sd: width },
            Self::StudentT { degrees, .. } => Self::StudentT { degrees, mean: to, scale: width },
            Self::Laplace { .. } => Self::Laplace { mean: to, scale: width },
        }
    }

    /// log p(x) and its derivatives; at the kink of a Laplace density, where there are none, the slope is 0, and its curvature is 0
    /// everywhere.
    pub fn at(&self, x: f64) -> Jet {
        let scale = self.scale();
        let z = (x - self.mean()) / scale;
        match *self {
            Self::Normal { .. } => Jet {
                value: -0.5 * (z * z + (2.0 * PI).ln()) - scale.ln(),
                slope: -z / scale,
                curvature: scale.powi(-2),
            },
            Self::StudentT { degrees, .. } => {
                let half = 0.5 * (degrees + 1.0);
                let constant = ln_gamma(half) - ln_gamma(0.5 * degrees) - 0.5 * (degrees * PI).ln();
                let spread = degrees + z * z;
                Jet {
                    value: constant - scale.ln() - half * (z * z / degrees).ln_1p(),
                    slope: -(degrees + 1.0) * z / (spread * scale),
                    curvature: (degrees + 1.0) * (degrees - z * z) / (spread * scale).powi(2),
                }
            }
            Self::Laplace { .. } => {
                let sign = if z == 0.0 { 0.0 } else { z.signum() };
                Jet { value: -z.abs() - (2.0 * scale).ln(), slope: -sign / scale, curvature: 0.0 }
            }
        }
    }

    /// What a Gaussian fit of spread s sees of it. Of a Laplace density that is E log p(x + u) over u ~ N(0, s²), which has no kink:
    ///
    /// > E|d + u| = d·erf(d/√2s) + 2s·φ(d/s),   its slope erf(d/√2s),   its curvature 2φ(d/s)/s,   d = x − m;
    ///
    /// some s away from m it is the density itself. The others are smooth as they are.
    pub fn seen(&self, x: f64, spread: f64) -> Jet {
        let Self::Laplace { mean, scale } = *self else { return self.at(x) };
        let (distance, z) = (x - mean, (x - mean) / spread);
        let erf = libm::erf(z * FRAC_1_SQRT_2);
        // φ(z) = e^{−z²/2}/√(2π), and 1/√(2π) = (2/√π)/(2√2).
        let phi = (-0.5 * z * z).exp() * FRAC_2_SQRT_PI / (2.0 * SQRT_2);
        Jet {
            value: -(distance * erf + 2.0 * spread * phi) / scale - (2.0 * scale).ln(),
            slope: -erf / scale,
            curvature: 2.0 * phi / (spread * scale),
        }
    }

    /// Its name and its numbers.
    pub fn parts(&self) -> (&'static str, Vec<f64>) {
        match *self {
            Self::Normal { mean, sd } => ("normal", vec![mean, sd]),
            Self::StudentT { degrees, mean, scale } => ("student_t", vec![degrees, mean, scale]),
            Self::Laplace { mean, scale } => ("laplace", vec![mean, scale]),
        }
    }

    /// Name and numbers, these said by `number`.
    pub fn worded(&self, number: impl Fn(f64) -> String) -> String {
        let (family, numbers) = self.parts();
        let numbers: Vec<String> = numbers.into_iter().map(number).collect();
        format!("{family}({})", numbers.join(", "))
    }
}

impl fmt::Display for Density {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(|x| x.to_string()))
    }
}

impl From<Density> for String {
    fn from(density: Density) -> Self {
        density.to_string()
    }
}

impl TryFrom<String> for Density {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for Density {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.trim().strip_suffix(')').and_then(|text| text.split_once('('));
        let (family, numbers) = parts.unwrap_or((text, ""));
        let numbers: Vec<f64> = numbers.split(',').filter_map(|number| number.trim().parse().ok()).collect();
        let whole = parts.is_some_and(|(_, inside)| inside.split(',').count() == numbers.len());
        let numbers = if whole { &numbers[..] } else { &[] };
        Self::new(family.trim(), numbers).map_err(|reason| format!("'{text}' is no prior: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Density; 3] {
        ["normal(0.3, 0.7)", "student_t(4, -0.2, 1.3)", "laplace(0.1, 0.4)"].map(|text| text.parse().unwrap())
    }

    /// ∫ p = 1 by the midpoint rule, in u with x = sinh u, where even a t density is all but confined.
    #[test]
    fn densities_integrate_to_one() {
        for density in all() {
            let (steps, reach) = (200_000, 14.0);
            let width = 2.0 * reach / f64::from(steps);
            let term = |i: i32| {
                let u = -reach + (f64::from(i) + 0.5) * width;
                (density.at(u.sinh()).value + u.cosh().ln()).exp() * width
            };
            let total: f64 = (0..steps).map(term).sum();
            assert!((total - 1.0).abs() < 1e-7, "{density}: {total}");
        }
    }

    #[test]
    fn slopes_and_curvatures_are_derivatives() {
        let step = 1e-5;
        for density in all() {
            for x in [-3.0, -0.4, 0.05, 0.2, 2.5] {
                let mut views: Vec<Box<dyn Fn(f64) -> Jet>> = vec![Box::new(move |x| density.at(x))];
                views.extend(
                    [0.05, 0.5, 3.0]
                        .map(|s| -> Box<dyn Fn(f64) -> Jet> { Box::new(move |x| density.seen(x, s)) }),
                );
                for view in views {
                    let (below, here, above) = (view(x - step), view(x), view(x + step));
                    let slope = (above.value - below.value) / (2.0 * step);
                    let curvature = (below.slope - above.slope) / (2.0 * step);
                    assert!((slope - here.slope).abs() < 1e-7, "{density} at {x}: {slope} {}", here.slope);
                    assert!((curvature - here.curvature).abs() < 1e-6, "{density} at {x}");
                }
            }
        }
    }

    /// E log p(x + u) by the midpoint rule.
    #[test]
    fn a_fit_sees_the_expectation_of_a_laplace_density() {
        let density = Density::Laplace { mean: 0.1, scale: 0.4 };
        for (x, spread) in [(0.1, 0.3), (0.5, 0.3), (-2.0, 0.3), (0.0, 5.0)] {
            let (steps, reach) = (100_000, 12.0);
            let width = 2.0 * reach / f64::from(steps);
            let term = |i: i32| {
                let z = -reach + (f64::from(i) + 0.5) * width;
                (-0.5 * z * z).exp() / (2.0 * PI).sqrt() * density.at(x + spread * z).value * width
            };
            let expected: f64 = (0..steps).map(term).sum();
            assert!((expected - density.seen(x, spread).value).abs() < 1e-7, "{x} {spread}");
        }
        let (far, itself) = (density.seen(9.0, 0.3), density.at(9.0));
        assert!((far.value - itself.value).abs() < 1e-12 && (far.slope - itself.slope).abs() < 1e-12);
    }

    #[test]
    fn words_read_back_to_the_same_bits_and_nonsense_is_refused() {
        for density in all().into_iter().chain([Density::Normal { mean: 0.1 + 0.2, sd: 1.0 / 3.0 }]) {
            assert_eq!(density.to_string().parse(), Ok(density));
            assert_eq!(density.moved(1.0, -2.0).scale(), 2.0 * density.scale());
            let there = density.moved(1.0, -2.0).at(1.0 - 2.0 * 0.7).value + 2.0f64.ln();
            assert!((there - density.at(0.7).value).abs() < 1e-14);
        }
        assert_eq!("normal( 0,2.5 )".parse(), Ok(Density::Normal { mean: 0.0, sd: 2.5 }));
        for (text, why) in [
            ("normal(0)", "it must be normal(mean, sd)"),
            ("normal(0, x)", "it must be normal(mean, sd)"),
            ("cauchy(0, 1)", "it must be normal(mean, sd)"),
            ("normal", "it must be normal(mean, sd)"),
            ("normal(0, -1)", "its scale is -1"),
            ("normal(nan, 1)", "its mean is NaN"),
            ("student_t(0, 0, 1)", "degrees of freedom are 0"),
            ("laplace(0, inf)", "its scale is inf"),
        ] {
            let refused = text.parse::<Density>().unwrap_err();
            assert!(refused.contains(why) && refused.contains(text), "{refused}");
        }
    }
}
