//! How many nodes: so many that what they leave over, summed over all groups, moves the posterior by less than a tenth of its sd.

use rand::seq::index;

use super::model::{MixedModel, moves};
use crate::model::mixed::{Effect, Mixed, Nodes, Place, Scratch};
use crate::parallel;
use crate::posterior::Gaussian;
use crate::random::Stream;
use crate::trust::Reason;
use crate::trust::policy::{TOLERATED_BIAS, USELESS_BIAS};

/// Nodes along each effect, in the order in which they are tried.
const LADDER: [usize; 10] = [3, 5, 7, 9, 11, 15, 21, 29, 41, 61];
/// The most for two effects, whose rule has the square of it.
const MOST_OF_TWO: usize = 29;
/// Groups on which rules are compared.
const COMPARED: usize = 2000;
/// The rule that these leave is then compared on one in so many of all groups, since a kind of group that is rare among them may matter
/// among a million; on all of them where an integrand may have several modes, of which a rule sees one.
const ONE_IN: usize = 10;
/// How much more a rule may be off two standard deviations of log σ away from the mode, which is where few groups leave it.
const OUT_THERE: f64 = 3.0;
/// What is aimed at when the rule is chosen, in the units of [`TOLERATED_BIAS`].
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
    /// What the bias says against the posterior: nothing below a tenth of its standard deviation.
    pub fn against(&self) -> Option<Reason> {
        match self.bias {
            bias if bias < TOLERATED_BIAS => None,
            bias if bias < USELESS_BIAS => Some(Reason::Quadrature),
            _ => Some(Reason::Integrals),
        }
    }
}

/// The groups that rules are compared on.
fn sample_of(groups: usize, count: usize, seed: u64) -> Vec<usize> {
    if count >= groups {
        return (0..groups).collect();
    }
    let mut rng = Stream::Subsample.rng(seed, 0x6d69_7865);
    let mut chosen = index::sample(&mut rng, groups, count).into_vec();
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
    let groups = model.mixed.groups();
    let many =
        if model.mixed.may_have_modes() { groups } else { (groups / ONE_IN).max(COMPARED).min(groups) };
    let mut chosen = sample_of(groups, COMPARED, seed);
    let mut found = None;
    for &nodes in &ladder {
        let finer = if effects > 1 { (nodes + 8).max(2 * nodes).min(MOST_OF_TWO + 8) } else { 2 * nodes + 5 };
        let mut off = bias(model, posterior, &chosen, (nodes, finer));
        if (off < AIMED || given.is_some()) && chosen.len() < many {
            chosen = sample_of(groups, many, seed);
            off = bias(model, posterior, &chosen, (nodes, finer));
        }
        let this = Quadrature {
            nodes,
            compared_with: finer,
            groups: chosen.len(),
            bias: off,
            given: given.is_some(),
        };
        // Where a finer rule is no better, what is off is not the number of nodes.
        let better =
            found.as_ref().is_none_or(|found: &Quadrature| off < found.bias || found.groups < this.groups);
        if better {
            found = Some(this);
        }
        if off < AIMED {
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

/// By how much the slopes of two rules, summed over all groups, would move the posterior: at its mode and, where the groups are so few
/// that it is wide, away from it.
fn bias(model: &MixedModel, posterior: &Gaussian, chosen: &[usize], (nodes, finer): (usize, usize)) -> f64 {
    let mixed = &model.mixed;
    let effects = mixed.effects().len();
    let rules = (Nodes::new(nodes, effects), Nodes::new(finer, effects));
    let at = |theta: &[f64]| bias_at(mixed, posterior, theta, chosen, (&rules.0, &rules.1));
    let off = at(&posterior.mean);
    if mixed.groups() > COMPARED {
        return off;
    }
    let sds: Vec<f64> = posterior.sds().collect();
    let away = [-2.0, 2.0].map(|by| {
        let mut theta = posterior.mean.clone();
        (mixed.fixed()..mixed.fixed() + effects).for_each(|j| theta[j] += (by * sds[j]).clamp(-3.0, 3.0));
        at(&theta) / OUT_THERE
    });
    away.into_iter().fold(off, f64::max)
}

fn bias_at(
    mixed: &Mixed,
    posterior: &Gaussian,
    theta: &[f64],
    chosen: &[usize],
    rules: (&Nodes, &Nodes),
) -> f64 {
    let (dim, count, all) = (posterior.dim(), chosen.len().max(1) as f64, mixed.groups() as f64);
    let place = mixed.place(theta);
    let parts = parallel::map(chosen.chunks(64), |groups| {
        let (mut scratch, mut sum, mut squares) = (mixed.scratch(), vec![0.0; dim], 0.0);
        for &group in groups {
            let off = difference(mixed, group, &place, rules, &mut scratch);
            sum.iter_mut().zip(&off).for_each(|(sum, x)| *sum += x);
            squares += moves(posterior, &off).powi(2);
        }
        (sum, squares)
    });
    let (mut sum, mut squares) = (vec![0.0; dim], 0.0);
    for (part, square) in parts {
        sum.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
        squares += square;
    }
    let total: Vec<f64> = sum.iter().map(|x| all * x / count).collect();
    // The standard error of the total, of groups that were not all compared, in the same norm.
    let mean: Vec<f64> = sum.iter().map(|x| x / count).collect();
    let spread = (squares - count * moves(posterior, &mean).powi(2)).max(0.0);
    let left = (1.0 - count / all).max(0.0);
    let se = all * (left * spread / (count * (count - 1.0).max(1.0))).sqrt();
    let bias = moves(posterior, &total) + 2.0 * se;
    if bias.is_finite() { bias } else { f64::INFINITY }
}

/// ∇ℓ_g by the coarse rule, less that by the fine one: about every mode of the integrand, each as much as it has of the integral.
fn difference(
    mixed: &Mixed,
    group: usize,
    place: &Place,
    (coarse, fine): (&Nodes, &Nodes),
    scratch: &mut Scratch,
) -> Vec<f64> {
    let modes: Vec<Effect> = match mixed.may_have_modes() {
        true => mixed.modes(group, place, scratch).into_iter().map(|(mode, _)| mode).collect(),
        false => vec![[0.0; 2]],
    };
    let mut gradient = |nodes: &Nodes, mut mode: Effect, weight: f64, out: &mut [f64]| {
        mixed.value_and_gradient((group, weight), place, nodes, &mut mode, scratch, out)
    };
    let mut off = vec![0.0; mixed.dim()];
    gradient(coarse, modes.first().copied().unwrap_or_default(), 1.0, &mut off);
    if let [mode] = modes[..] {
        gradient(fine, mode, -1.0, &mut off);
        return off;
    }
    let each: Vec<(f64, Vec<f64>)> = modes
        .iter()
        .map(|mode| {
            let mut slope = vec![0.0; mixed.dim()];
            (gradient(fine, *mode, 1.0, &mut slope), slope)
        })
        .collect();
    let most = each.iter().map(|(value, _)| *value).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = each.iter().map(|(value, _)| (value - most).exp()).sum();
    for (value, slope) in &each {
        let share = (value - most).exp() / total;
        off.iter_mut().zip(slope).for_each(|(off, x)| *off -= share * x);
    }
    off
}
