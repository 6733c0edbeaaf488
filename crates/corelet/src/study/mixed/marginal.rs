//! The marginal model of the chosen groups for other tools: their rows, and nodes that integrate the random effects out.
//!
//! The nodes stay where they are at the mean of the draws, vₖ = mode + C⁻ᵀzₖ of each group, so that a tool needs no mode of its own: for
//! any parameters ∫f(v)N(v; 0, I)dv ≈ Σₖ aₖf(vₖ), log aₖ = log wₖ + ½|zₖ|² − ½|vₖ|² − log|C|. They are more than the fit takes, for being
//! a little off the mode elsewhere.

use std::fmt::Write as _;

use serde::Serialize;

use super::{MixedFit, MixedStudy, StudyError};
use crate::mixed::SdPrior;
use crate::model::mixed::Nodes;
use crate::model::{BuiltIn, Link};
use crate::posterior::Density;

/// Nodes along each effect, at least.
const NODES: usize = 15;
const NODES_OF_TWO: usize = 11;

/// The chosen groups, as another tool takes them; see the program of [`stan`](Self::stan) for what each letter is.
#[derive(Debug, Clone, Serialize)]
#[allow(
    non_snake_case,
    missing_docs,
    reason = "the names of the data of a Stan program, which says what they are"
)]
pub struct Marginal {
    pub D: usize,
    pub N: usize,
    pub K: usize,
    pub C: usize,
    pub G: usize,
    pub Q: usize,
    pub E: usize,
    pub X: Vec<Vec<f64>>,
    pub y: Vec<f64>,
    pub e: Vec<f64>,
    pub o: Vec<f64>,
    pub f: Vec<f64>,
    pub z: Vec<Vec<f64>>,
    pub start: Vec<usize>,
    pub w: Vec<f64>,
    pub v: Vec<Vec<Vec<f64>>>,
    pub log_a: Vec<Vec<f64>>,
    pub original: Vec<Vec<f64>>,
    pub kept: Vec<MarginalKept>,
    pub likelihood: &'static str,
    /// Degrees of freedom, or the noise where it is given; 0 where neither is.
    pub known: f64,
    pub correlated: bool,
    pub priors: Vec<Density>,
    pub sd_priors: Vec<SdPrior>,
    pub lkj: Option<f64>,
    pub names: Vec<String>,
    /// A draw to try it at.
    pub theta: Vec<f64>,
}

/// A factor whose effects are parameters.
#[derive(Debug, Clone, Serialize)]
pub struct MarginalKept {
    /// The level of each row, from 1.
    pub level: Vec<usize>,
    /// What stands between a parameter and an effect: r = exp(a·log sd)·s.
    pub a: Vec<f64>,
    /// The prior of the standard deviation.
    pub sd_prior: SdPrior,
}

/// The log-likelihood of a row in Stan, without terms that no parameter is in.
fn row_in_stan(marginal: &Marginal) -> &'static str {
    match marginal.likelihood {
        "logistic" => "log_inv_logit(y * eta)",
        "binomial" => "y * log_inv_logit(eta) + (e - y) * log1m_inv_logit(eta)",
        "poisson" => "y * eta - e * exp(eta)",
        "negative-binomial" => {
            "lgamma(y + exp(c[1])) - lgamma(exp(c[1])) + y * eta + exp(c[1]) * c[1] - (y + exp(c[1])) * log(e * exp(eta) + exp(c[1]))"
        }
        "linear" if marginal.C == 0 => "-0.5 * square((y - eta) / known)",
        "linear" => "-c[1] - 0.5 * square((y - eta) / exp(c[1]))",
        "student" => "-c[1] - 0.5 * (known + 1) * log1p(square((y - eta) / exp(c[1])) / known)",
        "gamma" => {
            "exp(c[1]) * c[1] - lgamma(exp(c[1])) - exp(c[1]) * (eta - log(y)) - exp(c[1]) * y * exp(-eta)"
        }
        "weibull" => "e * (c[1] + exp(c[1]) * (log(y) - eta)) - exp(exp(c[1]) * (log(y) - eta))",
        _ => "-e * eta - y * exp(-eta)",
    }
}

fn density_in_stan(prior: &Density, of: &str) -> String {
    match *prior {
        Density::Normal { mean, sd } => format!("normal_lpdf({of} | {mean}, {sd})"),
        Density::StudentT { degrees, mean, scale } => {
            format!("student_t_lpdf({of} | {degrees}, {mean}, {scale})")
        }
        Density::Laplace { mean, scale } => format!("double_exponential_lpdf({of} | {mean}, {scale})"),
    }
}

fn sd_in_stan(prior: &SdPrior, of: &str) -> String {
    let density = match *prior {
        SdPrior::HalfNormal { scale } => format!("normal_lpdf(exp({of}) | 0, {scale})"),
        SdPrior::HalfStudentT { degrees, scale } => {
            format!("student_t_lpdf(exp({of}) | {degrees}, 0, {scale})")
        }
        SdPrior::Exponential { rate } => format!("exponential_lpdf(exp({of}) | {rate})"),
    };
    format!("{density} + {of}")
}

impl MixedStudy {
    /// Refuses likelihoods that are not written out for other tools. Degrees of freedom or noise, where they are given; else 0.
    ///
    /// # Errors
    /// Names the likelihoods that are.
    pub fn check_written_out(&self) -> Result<f64, StudyError> {
        let numbers = self.resolved.numbers;
        Ok(match self.resolved.model {
            BuiltIn::Ordinal => return Err(not_written("the ordinal model")),
            BuiltIn::Poisson if numbers.link != Link::default() => {
                return Err(not_written("a softplus link"));
            }
            BuiltIn::Student => match numbers.degrees {
                Some(degrees) => degrees,
                None => return Err(not_written("Student-t noise with estimated degrees of freedom")),
            },
            BuiltIn::Linear => numbers.sigma.unwrap_or(0.0),
            _ => 0.0,
        })
    }

    /// The marginal model of the chosen groups of a fit.
    ///
    /// # Errors
    /// If the likelihood is not among those that are written out.
    pub fn marginal(&self, fit: &MixedFit) -> Result<Marginal, StudyError> {
        let (mixed, known) = (&self.model.mixed, self.check_written_out()?);
        let (rows, effects) = (mixed.observations(), mixed.effects());
        let least = if effects.len() > 1 { NODES_OF_TWO } else { NODES };
        let nodes = Nodes::new(self.model.nodes.per_effect.max(least), effects.len());
        let mean = fit.sample.draws.mean();
        let (place, mut scratch) = (mixed.place(&mean), mixed.scratch());
        let mut start = vec![1];
        let mut own: Vec<usize> = Vec::new();
        let mut v = vec![Vec::new(); effects.len()];
        let mut log_a = Vec::new();
        for &group in &fit.groups {
            own.extend(mixed.rows_of(group));
            start.push(own.len() + 1);
            let (points, logs) = mixed.nodes_of(group, &place, &nodes, &mut scratch);
            for (a, v) in v.iter_mut().enumerate() {
                v.push(points.iter().map(|point| point[a]).collect());
            }
            log_a.push(logs);
        }
        let dim = rows.dim;
        let unit = |j: Option<usize>| {
            let mut theta = vec![0.0; mixed.fixed()];
            if let Some(j) = j {
                theta[j] = 1.0;
            }
            self.resolved.to_original(&self.frame.standardisation, &theta)
        };
        let zero = unit(None);
        let columns: Vec<Vec<f64>> = (0..dim).map(|j| unit(Some(j))).collect();
        let of_rows = |of: &dyn Fn(usize) -> f64| own.iter().map(|&i| of(i)).collect::<Vec<f64>>();
        let kept = mixed.kept().iter().zip(&self.model.prior.kept).map(|(kept, prior)| MarginalKept {
            level: own.iter().map(|&i| kept.levels[i] as usize + 1).collect(),
            a: kept.powers.clone(),
            sd_prior: prior.sd,
        });
        Ok(Marginal {
            D: mixed.dim(),
            N: own.len(),
            K: dim,
            C: mixed.fixed() - dim,
            G: fit.groups.len(),
            Q: nodes.len(),
            E: effects.len(),
            X: own.iter().map(|&i| rows.row(i).iter().map(|&x| f64::from(x)).collect()).collect(),
            y: of_rows(&|i| rows.target(i).0),
            e: of_rows(&|i| rows.target(i).1),
            o: of_rows(&|i| rows.offset(i)),
            f: of_rows(&|i| rows.weight(i)),
            z: own.iter().map(|&i| effects.terms.iter().map(|term| term.of(rows.row(i))).collect()).collect(),
            start,
            w: fit.weights.clone(),
            v,
            log_a,
            original: (0..dim).map(|i| columns.iter().map(|column| column[i] - zero[i]).collect()).collect(),
            kept: kept.collect(),
            likelihood: self.resolved.model.name(),
            known,
            correlated: effects.has_correlation(),
            priors: self.resolved.priors.clone(),
            sd_priors: self.model.prior.sds.clone(),
            lkj: self.model.prior.lkj,
            names: self.names(),
            theta: mean,
        })
    }

    /// The log posterior of the chosen groups, up to a constant, by the nodes of the fit about the mode at these parameters.
    pub fn log_posterior(&self, fit: &MixedFit, theta: &[f64]) -> f64 {
        let place = self.model.mixed.place(theta);
        let mut scratch = self.model.mixed.scratch();
        let each = fit.groups.iter().zip(&fit.weights).map(|(&group, weight)| {
            weight * self.model.mixed.value(group, &place, &self.model.nodes, &mut [0.0; 2], &mut scratch)
        });
        each.sum::<f64>() + self.model.prior.add_to(theta, &mut vec![0.0; theta.len()])
    }
}

fn not_written(what: &str) -> StudyError {
    StudyError::Random(format!(
        "{what} is not among the likelihoods that are written out for other tools: logistic, binomial, poisson with a log link, \
         negative-binomial, linear, student with given degrees, gamma, weibull and exponential; sample it here"
    ))
}

impl Marginal {
    /// A Stan program; its data are this, as JSON.
    pub fn stan(&self) -> String {
        let (k, c, effects) = (self.K, self.C, self.E);
        let mut declared = String::new();
        let mut unpacked =
            format!("  vector[K] beta = theta[1:{k}];\n  vector[C] c = theta[{}:{}];\n", k + 1, k + c);
        let mut priors = String::new();
        for (j, prior) in self.priors.iter().enumerate() {
            let _ = writeln!(priors, "  target += {};", density_in_stan(prior, &format!("theta[{}]", j + 1)));
        }
        let at = k + c + 1;
        for (j, prior) in self.sd_priors.iter().enumerate() {
            let _ = writeln!(priors, "  target += {};", sd_in_stan(prior, &format!("theta[{}]", at + j)));
        }
        let first = if effects == 1 {
            format!("  matrix[G, Q] u1 = exp(theta[{at}]) * v[1];\n")
        } else if self.correlated {
            let r = at + 2;
            if let Some(eta) = self.lkj {
                let _ = writeln!(priors, "  target += {eta} * log1m(square(tanh(theta[{r}])));");
            }
            format!(
                "  matrix[G, Q] u1 = exp(theta[{at}]) * v[1];\n  matrix[G, Q] u2 = exp(theta[{}]) * (tanh(theta[{r}]) * v[1] + v[2] / cosh(theta[{r}]));\n",
                at + 1
            )
        } else {
            format!(
                "  matrix[G, Q] u1 = exp(theta[{at}]) * v[1];\n  matrix[G, Q] u2 = exp(theta[{}]) * v[2];\n",
                at + 1
            )
        };
        let mut next = at + effects + usize::from(self.correlated);
        let mut eta = "X * beta + o".to_owned();
        for (i, kept) in self.kept.iter().enumerate() {
            let (i, levels) = (i + 1, kept.a.len());
            let _ = write!(
                declared,
                "  array[N] int level{i};  // of factor {i}, whose effects r are parameters: r = exp(a * log sd) * s\n  vector[{levels}] a{i};\n"
            );
            let (from, to) = (next + 1, next + levels);
            let _ = writeln!(
                unpacked,
                "  vector[{levels}] r{i} = exp(a{i} * theta[{next}]) .* theta[{from}:{to}];"
            );
            let _ =
                writeln!(priors, "  target += {};", sd_in_stan(&kept.sd_prior, &format!("theta[{next}]")));
            let _ = writeln!(
                priors,
                "  target += normal_lpdf(theta[{from}:{to}] | 0, exp((1 - a{i}) * theta[{next}]));"
            );
            let _ = write!(eta, " + r{i}[level{i}]");
            next = to + 1;
        }
        let second = if effects == 1 { "" } else { " + z[i, 2] * u2[g, k]" };
        let row = row_in_stan(self);
        format!(
            "// The marginal model of {} groups with weights, which stand for all. The random effects are integrated out, and a weight is a\n\
             // factor of a group's integral: as weights of rows, in a model with random effects, these numbers would mean something else.\n\
             functions {{\n  real row_log_likelihood(real eta, real y, real e, vector c, real known) {{\n    return {row};\n  }}\n}}\n\
             data {{\n  int<lower=1> D;  // parameters\n  int<lower=1> N;  // rows, group by group\n  int<lower=1> K;  // features\n  \
             int<lower=0> C;  // parameters of the likelihood beside the predictor\n  int<lower=1> G;  // groups\n  int<lower=1> Q;  // nodes\n  \
             int<lower=1, upper=2> E;  // random effects of a group\n  matrix[N, K] X;  // standardised features\n  vector[N] y;\n  \
             vector[N] e;  // exposure, trials, or whether the event was seen\n  vector[N] o;  // offset\n  vector<lower=0>[N] f;  // weights of rows, inside \
             of the integral\n  matrix[N, E] z;  // what the effects are multiplied by\n  array[G + 1] int start;\n  vector<lower=0>[G] w;  // weights of \
             groups\n  array[E] matrix[G, Q] v;  // nodes, in standard deviations of the effects\n  matrix[G, Q] log_a;  // their log weights\n  \
             matrix[K, K] original;  // coefficients on the scale of the data\n  real known;\n{declared}}}\n\
             parameters {{\n  vector[D] theta;\n}}\ntransformed parameters {{\n{unpacked}}}\n\
             model {{\n{first}  vector[N] eta = {eta};\n{priors}  for (g in 1:G) {{\n    vector[Q] lp = log_a[g]';\n    for (k in 1:Q) {{\n      \
             for (i in start[g]:(start[g + 1] - 1)) {{\n        lp[k] += f[i] * row_log_likelihood(eta[i] + z[i, 1] * u1[g, k]{second}, y[i], e[i], c, known);\n      \
             }}\n    }}\n    target += w[g] * log_sum_exp(lp);\n  }}\n}}\n\
             generated quantities {{\n  vector[K] coefficients = original * beta;\n}}\n",
            self.G
        )
    }

    /// The data of that program.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn data(&self) -> serde_json::Result<serde_json::Value> {
        let mut data = serde_json::to_value(self)?;
        if let Some(fields) = data.as_object_mut() {
            for other in ["kept", "likelihood", "correlated", "priors", "sd_priors", "lkj", "names", "theta"]
            {
                fields.remove(other);
            }
            for (i, kept) in self.kept.iter().enumerate() {
                fields.insert(format!("level{}", i + 1), serde_json::to_value(&kept.level)?);
                fields.insert(format!("a{}", i + 1), serde_json::to_value(&kept.a)?);
            }
        }
        Ok(data)
    }
}
