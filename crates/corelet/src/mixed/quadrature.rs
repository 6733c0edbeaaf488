//! How many nodes: so many that what they leave over, summed over all groups, moves the posterior by less than a tenth of its sd.

use rand::seq::index;

use super::model::{MixedModel, WeightedGroups, moves};
use crate::model::mixed::Nodes;
use crate::posterior::Gaussian;
use crate::random::Stream;

/// Nodes along each effect, in the order in which they are tried.
const LADDER: [usize; 10] = [3, 5, 7, 9, 11, 15, 21, 29, 41, 61];
/// The most for two effects, whose rule has the square of it.
const MOST_OF_TWO: usize = 29;
/// Groups on which rules are compared.
const COMPARED: usize = 2000;
/// A rule is fine enough where what it leaves over moves the posterior by less, in its standard deviations.
pub const TOLERATED_BIAS: f64 = 0.1;
/// What is aimed at when the rule is chosen.
const AIMED: f64 = 0.03;

/// The rule that integrates random effects out, and by how much it is off.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Quadrature {
    /// Nodes along each effect.
    pub nodes: usize,
    /// Nodes of the finer rule that it was compared with.
    pub compared_with: usize,
    /// Groups on which the two were compared.
    pub groups: usize,
    /// By how much the rule moves the posterior of all groups, in its standard deviations, in the worst direction: an upper bound,
    /// two standard errors of the comparison above what was found.
    pub bias: f64,
    /// Whether somebody asked for so many nodes.
    pub given: bool,
}

impl Quadrature {
    /// Whether the bias is below a tenth of a posterior standard deviation.
    pub fn is_fine(&self) -> bool {
        self.bias < TOLERATED_BIAS
    }
}

/// The groups that rules are compared on.
fn sample_of(groups: usize, seed: u64) -> Vec<usize> {
    let mut rng = Stream::Subsample.rng(seed, 0x6d69_7865);
    let mut chosen = index::sample(&mut rng, groups, groups.min(COMPARED)).into_vec();
    chosen.sort_unstable();
    chosen
}

/// The coarsest rule that is fine enough at this posterior, or as many nodes as are `given`. The model's own rule is replaced by it.
pub(super) fn choose(
    model: &mut MixedModel,
    posterior: &Gaussian,
    given: Option<usize>,
    seed: u64,
) -> Quadrature {
    let effects = model.mixed.effects().len();
    if model.mixed.is_gaussian() {
        // The integrand is a Gaussian, and its moments are exact.
        model.nodes = Nodes::new(3, effects);
        return Quadrature { nodes: 3, compared_with: 3, groups: 0, bias: 0.0, given: false };
    }
    let most = if effects > 1 { MOST_OF_TWO } else { usize::MAX };
    let ladder: Vec<usize> = match given {
        Some(nodes) => vec![nodes],
        None => LADDER.into_iter().filter(|&nodes| nodes <= most).collect(),
    };
    let chosen = sample_of(model.mixed.groups(), seed);
    let mut found = None;
    for &nodes in &ladder {
        let finer = if effects > 1 { (nodes + 8).max(2 * nodes).min(MOST_OF_TWO + 8) } else { 2 * nodes + 5 };
        let bias = bias(model, posterior, &chosen, (nodes, finer));
        let this =
            Quadrature { nodes, compared_with: finer, groups: chosen.len(), bias, given: given.is_some() };
        found = Some(this);
        if bias < AIMED {
            break;
        }
    }
    let found = found.unwrap_or(Quadrature {
        nodes: 7,
        compared_with: 7,
        groups: 0,
        bias: f64::INFINITY,
        given: false,
    });
    model.nodes = Nodes::new(found.nodes, effects);
    found
}

/// By how much the slopes of two rules, summed over all groups, would move the posterior.
fn bias(
    model: &mut MixedModel,
    posterior: &Gaussian,
    chosen: &[usize],
    (nodes, finer): (usize, usize),
) -> f64 {
    let effects = model.mixed.effects().len();
    let mut slopes = |nodes: usize| {
        model.nodes = Nodes::new(nodes, effects);
        let each = |group: &usize| {
            let weighted = WeightedGroups::new(model, std::slice::from_ref(group), &[1.0], false);
            weighted.likelihood_gradient(&posterior.mean)
        };
        crate::parallel::map(chosen.chunks(64), |part| part.iter().map(each).collect::<Vec<_>>()).concat()
    };
    let (coarse, fine) = (slopes(nodes), slopes(finer));
    let (dim, count) = (posterior.dim(), chosen.len().max(1) as f64);
    let differences: Vec<Vec<f64>> =
        coarse.iter().zip(&fine).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a - b).collect()).collect();
    let all = model.mixed.groups() as f64;
    let mean: Vec<f64> =
        (0..dim).map(|j| differences.iter().map(|line| line[j]).sum::<f64>() / count).collect();
    let total: Vec<f64> = mean.iter().map(|x| all * x).collect();
    // The standard error of the total, of groups that were not all compared, in the same norm.
    let spread: f64 = differences
        .iter()
        .map(|line| {
            let off: Vec<f64> = line.iter().zip(&mean).map(|(x, m)| x - m).collect();
            moves(posterior, &off).powi(2)
        })
        .sum::<f64>();
    let left = (1.0 - count / all).max(0.0);
    let se = all * (left * spread / (count * (count - 1.0).max(1.0))).sqrt();
    let bias = moves(posterior, &total) + 2.0 * se;
    if bias.is_finite() { bias } else { f64::INFINITY }
}
