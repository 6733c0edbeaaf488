//! Random effects on the scale of the data: from those of standardised features, and back to the names that people know.

use serde::{Deserialize, Serialize};

use super::RandomEffects;
use crate::data::{Standardisation, Standardise};
use crate::model::mixed::{Effect, Effects, Term};

/// What the random effects of a group are multiplied by in the standardised rows, and their way back.
///
/// An effect of a feature x is sampled for one standard deviation s of it. Where an intercept and a slope may be correlated, x is
/// centred at its mean m, which changes nothing of the model: u₀ + u₁x = (u₀ + u₁m) + u₁(x − m). Independent effects are so for x as
/// it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EffectScale {
    /// In the standardised rows.
    pub effects: Effects,
    /// A with u = Aũ on the scale of the data, 2 × 2 row-major.
    back: [f64; 4],
}

impl EffectScale {
    /// Of features with these names.
    ///
    /// # Errors
    /// Names the slope whose feature is not there, or has no scale of its own.
    pub fn new(
        random: &RandomEffects,
        features: &[String],
        standardisation: &Standardisation,
    ) -> Result<Self, String> {
        let mut terms: Vec<Term> = random.intercept.then_some(Term::Intercept).into_iter().collect();
        let centred = random.intercept && random.correlated;
        let mut back = [1.0, 0.0, 0.0, 1.0];
        for name in &random.slopes {
            let Some(feature) = features.iter().position(|known| known == name) else {
                let known = features.iter().map(|known| format!("'{known}'")).collect::<Vec<_>>().join(", ");
                return Err(format!(
                    "the random slope of '{name}' needs a feature of that name; there are {known}"
                ));
            };
            if standardisation.kind == Standardise::Whiten {
                return Err(format!(
                    "the random slope of '{name}' needs features of their own scale, not whitened ones"
                ));
            }
            let place = standardisation.columns.iter().position(|&column| column == feature);
            let (mean, sd) =
                place.map_or((0.0, 1.0), |at| (standardisation.means[at], standardisation.scale[at]));
            let at = terms.len();
            back[3 * at] = sd.recip();
            if centred {
                back[1] = -mean / sd;
            }
            terms.push(Term::Slope { feature, shift: if centred { 0.0 } else { mean / sd } });
        }
        Ok(Self { effects: Effects { terms, correlated: random.correlated }, back })
    }

    /// The effects of a group on the scale of the data.
    pub fn original(&self, effect: &Effect) -> Effect {
        let [a, b, c, d] = self.back;
        [a * effect[0] + b * effect[1], c * effect[0] + d * effect[1]]
    }

    /// The standard deviations, and the correlation where there is one, on the scale of the data.
    pub fn covariance(&self, parameters: &[f64]) -> Vec<f64> {
        let lambda = self.effects.factor(parameters).lambda;
        // AΛ, of which the covariance is the product with itself.
        let first = self.original(&[lambda[0], lambda[2]]);
        let second = self.original(&[lambda[1], lambda[3]]);
        let sds = [first[0].hypot(second[0]), first[1].hypot(second[1])];
        let mut values = sds[..self.effects.len()].to_vec();
        if self.effects.has_correlation() {
            let product = sds[0] * sds[1];
            let shared = first[0] * first[1] + second[0] * second[1];
            values.push(if product > 0.0 { (shared / product).clamp(-1.0, 1.0) } else { 0.0 });
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// zᵀu is the same on both scales, and the covariance of u that of draws.
    #[test]
    fn both_scales_are_one_model() {
        let standardisation = Standardisation {
            kind: Standardise::Scale,
            columns: vec![0],
            intercept: Some((1, 1.0)),
            means: vec![3.0],
            scale: vec![2.0],
            factor: Vec::new(),
        };
        let features = ["x".to_owned(), "(intercept)".to_owned()];
        for text in ["x | g", "x || g", "0 + x | g", "g"] {
            let random: RandomEffects = text.parse().unwrap();
            let scale = EffectScale::new(&random, &features, &standardisation).unwrap();
            let u = [0.7, if random.len() > 1 { -0.4 } else { 0.0 }];
            let original = scale.original(&u);
            for x in [-1.0, 0.0, 5.5_f32] {
                let row = [(x - 3.0) / 2.0, 1.0];
                let inner: f64 = scale.effects.terms.iter().zip(u).map(|(term, u)| term.of(&row) * u).sum();
                let raw = random.terms().into_iter().zip(original);
                let outer: f64 = raw.map(|(term, u)| if term == "1" { u } else { f64::from(x) * u }).sum();
                assert!((inner - outer).abs() < 1e-6, "{text} at {x}: {inner} {outer}");
            }
            let covariance = scale.covariance(&[0.2, -0.3, 0.5]);
            assert_eq!(covariance.len(), random.names().len());
            let factor = scale.effects.factor(&[0.2, -0.3, 0.5]).lambda;
            let (a, b) = (scale.original(&[factor[0], factor[2]]), scale.original(&[factor[1], factor[3]]));
            assert!((covariance[0].powi(2) - a[0].powi(2) - b[0].powi(2)).abs() < 1e-12);
        }
        let refused = EffectScale::new(&"z | g".parse().unwrap(), &features, &standardisation).unwrap_err();
        assert!(refused.contains("'z'") && refused.contains("'x'"), "{refused}");
    }
}
