//! Certificates: given draws, tested against the posterior of all rows.

use super::{GivenDraws, Listener, Progress, Study, StudyError};
use crate::posterior::{Chain, Chains, Phase, SampleError, has_one_mode};
use crate::rows::Rows;
use crate::trust::policy::{FEWEST_SCORED, scored_draws};
use crate::trust::{Certificate, Claim, Draws, Grade, Scores, certify};

/// Standard deviations of the posterior by which the mean of draws on another scale is off, and those of draws on the right one.
const FAR: f64 = 10.0;
const NEAR: f64 = 3.0;

/// Draws at which all rows are asked between two looks at whether to go on, and where each time is a way to other machines.
const AT_ONCE: usize = 16;
const AT_ONCE_ELSEWHERE: usize = 250;

/// Parameters as the model has them, of those that somebody may mean.
type Reading<'a> = &'a dyn Fn(&[f64]) -> Vec<f64>;

impl Study {
    /// Whether the posterior certainly has one mode.
    ///
    /// # Errors
    /// If the rows did not answer.
    pub fn has_one_mode(&self) -> Result<bool, StudyError> {
        Ok(has_one_mode(&self.rows, &self.prior)?)
    }

    /// Judges draws by the gradient of the log posterior of all rows at 1000 of them, or 100 a parameter up to 4000.
    ///
    /// # Errors
    /// See [`StudyError`]; [`SampleError::Stopped`] if the listener stopped it.
    pub fn certify(
        &self,
        given: &GivenDraws,
        listener: &mut Listener<'_>,
    ) -> Result<Certificate, StudyError> {
        let GivenDraws { draws, log_density, diverged } = given;
        let expected = self.rows.dim();
        if draws.dim != expected {
            return Err(StudyError::OtherDraws { got: draws.dim, expected });
        }
        let mut found = self.known.clone();
        if !self.has_one_mode()? {
            self.full(listener)?;
            found.extend(self.against_draws(None, &chains_of(draws)));
        }
        let most = scored_draws(draws.dim).max(FEWEST_SCORED);
        let places = draws.places(most);
        let looked = draws.thinned(most);
        let (log_posterior, gradient) = self.log_posterior_at(&looked, listener)?;
        let at_places = |values: &Vec<f64>| places.iter().map(|&s| values[s]).collect();
        let claim = Claim {
            draws,
            scores: Scores { draws: looked, gradient },
            log_posterior,
            log_density: log_density.as_ref().map(at_places),
            diverged: *diverged,
            found,
        };
        let mut certificate = certify(claim)?;
        if certificate.verdict.grade == Grade::C {
            certificate.seems_of = self.seems_of(draws, listener)?;
        }
        Ok(certificate)
    }

    /// On which other scale these draws would be near the posterior, where they are far from it as they are.
    fn seems_of(
        &self,
        draws: &Draws,
        listener: &mut Listener<'_>,
    ) -> Result<Option<&'static str>, StudyError> {
        let first = self.model.coefficients();
        let (fit, others) = (&self.full(listener)?.posterior, first..draws.dim);
        let sds: Vec<f64> = fit.sds().collect();
        let far = |read: Reading<'_>| -> f64 {
            let mut mean = vec![0.0; draws.dim];
            for s in 0..draws.len() {
                mean.iter_mut().zip(read(draws.row(s))).for_each(|(sum, x)| *sum += x / draws.len() as f64);
            }
            let off = mean.iter().zip(&fit.mean).zip(&sds).map(|((mean, m), sd)| ((mean - m) / sd).abs());
            // One that is no number, as a logarithm below 0, is no reading.
            off.fold(0.0, |most: f64, x| if x.is_nan() { f64::INFINITY } else { most.max(x) })
        };
        let with = |theta: &[f64], of: fn(f64) -> f64| -> Vec<f64> {
            let mut theta = theta.to_vec();
            theta[others.clone()].iter_mut().for_each(|x| *x = of(*x));
            theta
        };
        if far(&<[f64]>::to_vec) < FAR {
            return Ok(None);
        }
        let readings: [(&str, Reading<'_>); 4] = [
            ("the standardised features, and not of those of the data,", &|theta| self.to_original(theta)),
            ("the features of the data, and not of standardised ones,", &|theta| self.to_standardised(theta)),
            ("what logarithms were taken of, and not of the logarithms,", &|theta| with(theta, f64::ln)),
            ("logarithms, and not of what they are taken of,", &|theta| with(theta, f64::exp)),
        ];
        Ok(readings.into_iter().find(|(_, read)| far(*read) < NEAR).map(|(of, _)| of))
    }

    /// The log posterior of all rows at these draws, up to a constant, and its gradient, row-major.
    fn log_posterior_at(
        &self,
        draws: &Draws,
        listener: &mut Listener<'_>,
    ) -> Result<(Vec<f64>, Vec<f64>), StudyError> {
        let (mut values, mut gradients) = (Vec::new(), Vec::new());
        let at_once = if self.elsewhere.is_some() { AT_ONCE_ELSEWHERE } else { AT_ONCE };
        for some in draws.theta.chunks(at_once * draws.dim.max(1)) {
            if listener(Progress::Asking { done: values.len(), total: draws.len() }).is_break() {
                return Err(SampleError::Stopped.into());
            }
            let some: Vec<&[f64]> = some.chunks_exact(draws.dim.max(1)).collect();
            for (theta, mut newton) in some.iter().zip(self.rows.scores(&some)?) {
                let prior = self.prior.gradient_and_log_density(theta, Some(&mut newton.gradient));
                values.push(newton.value + prior);
                gradients.extend(newton.gradient);
            }
        }
        Ok((values, gradients))
    }
}

/// The same draws as chains without statistics, for whoever asks where they have been.
fn chains_of(draws: &Draws) -> Chains {
    let length = draws.theta.len() / draws.chains.unwrap_or(1).max(1);
    let chain = |theta: &[f64]| Chain {
        draws: Phase { theta: theta.to_vec(), ..Phase::default() },
        ..Chain::default()
    };
    Chains { dim: draws.dim, chains: draws.theta.chunks_exact(length.max(1)).map(chain).collect() }
}
