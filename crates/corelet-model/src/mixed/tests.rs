//! The integral against a fine grid, closed forms and finite differences, for every family.

use std::sync::Arc;

use corelet_data::observations::Observations;

use super::{Effects, Mixed, MixedError, Nodes, Term};
use crate::{BuiltIn, Model, Numbers};

/// Numbers that look random, in (−1, 1).
fn noise(at: usize) -> f64 {
    let x = (at as f64 * 12.9898 + 4.1).sin() * 43_758.545_3;
    2.0 * (x - x.floor()) - 1.0
}

/// Rows with an intercept and a feature, and targets, trials or events that suit the model.
fn rows(model: BuiltIn, count: usize) -> Observations {
    let features: Vec<f64> = (0..count).flat_map(|i| [1.0, noise(3 * i)]).collect();
    let eta = |i: usize| 0.3 + 0.5 * noise(3 * i) + 0.6 * noise(i / 7 + 1000);
    let uniform = |i: usize| 0.5 + 0.5 * noise(3 * i + 1);
    let target = |i: usize| match model {
        BuiltIn::Logistic => {
            if uniform(i) < 0.6 {
                1.0
            } else {
                -1.0
            }
        }
        BuiltIn::Binomial => (4.0 * uniform(i)).floor(),
        BuiltIn::Poisson | BuiltIn::NegativeBinomial => (eta(i).exp() * 2.0 * uniform(i)).floor(),
        BuiltIn::Gamma | BuiltIn::Weibull | BuiltIn::Exponential => eta(i).exp() * (0.2 + uniform(i)),
        BuiltIn::Ordinal => (3.999 * uniform(i)).floor(),
        _ => eta(i) + 0.7 * noise(3 * i + 1),
    };
    let observations = Observations::new(&features, 2, (0..count).map(target).collect());
    let observations = match model {
        BuiltIn::Binomial => observations.with_exposure(vec![4.0; count]),
        BuiltIn::Poisson => observations.with_exposure((0..count).map(|i| 0.5 + uniform(i + 5)).collect()),
        BuiltIn::Weibull | BuiltIn::Exponential => {
            observations.with_exposure((0..count).map(|i| if i % 3 == 0 { 0.0 } else { 1.0 }).collect())
        }
        _ => observations,
    };
    observations
        .with_offset((0..count).map(|i| 0.1 * noise(i + 77)).collect())
        .with_weights((0..count).map(|i| 0.5 + uniform(i + 9)).collect())
}

const FAMILIES: [BuiltIn; 10] = [
    BuiltIn::Binomial,
    BuiltIn::Exponential,
    BuiltIn::Gamma,
    BuiltIn::Linear,
    BuiltIn::Logistic,
    BuiltIn::NegativeBinomial,
    BuiltIn::Ordinal,
    BuiltIn::Poisson,
    BuiltIn::Student,
    BuiltIn::Weibull,
];

fn numbers(model: BuiltIn) -> Numbers {
    Numbers { classes: if model == BuiltIn::Ordinal { 4 } else { 0 }, ..Numbers::default() }
}

/// Groups of 1, 7, 20, … rows.
fn mixed(model: BuiltIn, effects: Effects) -> (Arc<dyn Model>, Mixed) {
    let starts = vec![0, 1, 8, 28, 60];
    let model = model.bind(rows(model, 60), numbers(model)).unwrap();
    let mixed = Mixed::new(&*model, effects, starts).unwrap();
    (model, mixed)
}

fn both(correlated: bool) -> Effects {
    Effects { terms: vec![Term::Intercept, Term::Slope { feature: 1, shift: 0.2 }], correlated }
}

fn theta(mixed: &Mixed) -> Vec<f64> {
    (0..mixed.dim()).map(|j| [0.2, 0.4, -0.3, 0.1, -0.4, 0.3, 0.2][j % 7]).collect()
}

/// log p(rows of a group | u), row by row.
fn conditional(model: &dyn Model, mixed: &Mixed, group: usize, theta: &[f64], u: [f64; 2]) -> f64 {
    let observations = model.observations();
    let row = |i: usize| {
        let x = observations.row(i);
        let terms = &mixed.effects().terms;
        let added: f64 = terms.iter().zip(u).map(|(term, u)| term.of(x) * u).sum();
        let eta = observations.predictor(i, &theta[..observations.dim]) + added;
        let (y, e) = observations.target(i);
        let value = match (model.linear(), model.joint()) {
            (Some(linear), _) => linear.family.value(eta, y, e),
            (_, Some(joint)) => {
                let zeta = [&[eta], &theta[observations.dim..mixed.fixed()]].concat();
                joint.family.value(&zeta, (y, e))
            }
            _ => unreachable!(),
        };
        observations.weight(i) * value
    };
    mixed.rows_of(group).map(row).sum()
}

/// The integral by the trapezoidal rule over u, from its prior in the plain form.
fn by_grid(model: &dyn Model, mixed: &Mixed, group: usize, theta: &[f64]) -> f64 {
    let covariance = &theta[mixed.fixed()..];
    let sds: Vec<f64> = covariance[..mixed.effects().len()].iter().map(|t| t.exp()).collect();
    let rho = covariance.get(2).map_or(0.0, |r| r.tanh());
    let two = sds.len() == 2;
    let (half, reach) = if two { (150, 8.0) } else { (3000, 12.0) };
    let step = reach / f64::from(half);
    let mut logs = Vec::new();
    for i in -half..=half {
        for j in if two { -half..=half } else { 0..=0 } {
            let (a, b) = (f64::from(i) * step, f64::from(j) * step);
            // a and b in units of sd; the density of the pair with correlation ρ.
            let (u, prior) = if two {
                let quadratic = (a * a - 2.0 * rho * a * b + b * b) / (1.0 - rho * rho);
                let log_norm = (2.0 * std::f64::consts::PI).ln() + 0.5 * (1.0 - rho * rho).ln();
                ([a * sds[0], b * sds[1]], -0.5 * quadratic - log_norm + 2.0 * step.ln())
            } else {
                ([a * sds[0], 0.0], -0.5 * (a * a + (2.0 * std::f64::consts::PI).ln()) + step.ln())
            };
            logs.push(prior + conditional(model, mixed, group, theta, u));
        }
    }
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
}

fn value(mixed: &Mixed, group: usize, theta: &[f64], nodes: &Nodes) -> f64 {
    mixed.value(group, &mixed.place(theta), nodes, &mut [0.0; 2], &mut mixed.scratch())
}

#[test]
fn an_integral_is_that_over_a_fine_grid() {
    for family in FAMILIES {
        for (effects, nodes, limit) in
            [(Effects::intercepts(), 25, 1e-7), (both(true), 25, 1e-6), (both(false), 25, 1e-6)]
        {
            let (model, mixed) = mixed(family, effects);
            let (theta, nodes) = (theta(&mixed), Nodes::new(nodes, mixed.effects().len()));
            for group in 0..mixed.groups() {
                let (got, want) =
                    (value(&mixed, group, &theta, &nodes), by_grid(&*model, &mixed, group, &theta));
                assert!(
                    (got - want).abs() < limit * (1.0 + want.abs()),
                    "{family} group {group}: {got} {want}"
                );
            }
        }
    }
}

#[test]
fn gradients_are_finite_differences() {
    for family in FAMILIES {
        for effects in [Effects::intercepts(), both(true), both(false)] {
            let (_, mixed) = mixed(family, effects);
            let (theta, nodes) = (theta(&mixed), Nodes::new(21, mixed.effects().len()));
            for group in 0..mixed.groups() {
                let mut gradient = vec![0.0; mixed.dim()];
                let place = mixed.place(&theta);
                let at = mixed.value_and_gradient(
                    (group, 1.0),
                    &place,
                    &nodes,
                    &mut [0.3, -0.2],
                    &mut mixed.scratch(),
                    &mut gradient,
                );
                assert!((at - value(&mixed, group, &theta, &nodes)).abs() < 1e-9);
                for j in 0..mixed.dim() {
                    let moved = |by: f64| {
                        let mut there = theta.clone();
                        there[j] += by;
                        value(&mixed, group, &there, &nodes)
                    };
                    let step = 1e-4;
                    let slope = (8.0 * (moved(step) - moved(-step)) - moved(2.0 * step) + moved(-2.0 * step))
                        / (12.0 * step);
                    let near = (gradient[j] - slope).abs() < 2e-6 * (1.0 + slope.abs());
                    assert!(near, "{family} group {group} parameter {j}: {} {slope}", gradient[j]);
                }
            }
        }
    }
}

/// A mixed model with a factor of three levels that crosses its groups.
fn crossed(model: BuiltIn, effects: Effects) -> Mixed {
    let levels: Vec<u32> = (0..60).map(|i| (i * 7 % 3) as u32).collect();
    let mut kept = super::Kept::new(levels, 3);
    kept.powers = vec![0.0, 1.0, 0.4];
    mixed(model, effects).1.with_kept(vec![kept])
}

/// The effects of a kept factor are offsets of the rows of their levels, gradients differences, and draws near a centre as any.
#[test]
fn kept_effects_are_offsets_of_their_rows() {
    for family in FAMILIES {
        for effects in [Effects::intercepts(), both(true)] {
            let crossed = crossed(family, effects.clone());
            let (model, plain) = mixed(family, effects);
            let (theta, nodes) = (theta(&crossed), Nodes::new(21, plain.effects().len()));
            let (own, rest) = theta.split_at(plain.dim());
            let t: f64 = rest[0];
            let r = [rest[1], t.exp() * rest[2], (0.4 * t).exp() * rest[3]];
            let moved = model.observations().clone();
            let offset = (0..60).map(|i| 0.1 * noise(i + 77) + r[i * 7 % 3]).collect();
            let model = family.bind(moved.with_offset(offset), numbers(family)).unwrap();
            let shifted = Mixed::new(&*model, plain.effects().clone(), vec![0, 1, 8, 28, 60]).unwrap();
            for group in 0..plain.groups() {
                let want = value(&shifted, group, own, &nodes);
                let mut gradient = vec![0.0; crossed.dim()];
                let place = crossed.place(&theta);
                let mut scratch = crossed.scratch();
                let mode = &mut [0.0; 2];
                let got = crossed.value_and_gradient(
                    (group, 1.0),
                    &place,
                    &nodes,
                    mode,
                    &mut scratch,
                    &mut gradient,
                );
                assert!((got - want).abs() < 1e-9, "{family} group {group}: {got} {want}");
                for j in 0..crossed.dim() {
                    let moved = |by: f64| {
                        let mut there = theta.clone();
                        there[j] += by;
                        value(&crossed, group, &there, &nodes)
                    };
                    let step = 1e-4;
                    let slope = (8.0 * (moved(step) - moved(-step)) - moved(2.0 * step) + moved(-2.0 * step))
                        / (12.0 * step);
                    let near = (gradient[j] - slope).abs() < 2e-6 * (1.0 + slope.abs());
                    assert!(near, "{family} group {group} parameter {j}: {} {slope}", gradient[j]);
                }
            }
        }
    }
}

/// y ~ N(Xβ + o, σ²F⁻¹ + ZTZᵀ): the density by the Cholesky factor of its covariance.
#[test]
fn a_linear_model_has_its_closed_form_with_three_nodes() {
    use corelet_kernels::linalg::{Cholesky, row_major};
    let (model, mixed) = mixed(BuiltIn::Linear, both(true));
    let (theta, nodes) = (theta(&mixed), Nodes::new(3, 2));
    let observations = model.observations();
    let variance = (2.0 * theta[2]).exp();
    let (sds, rho) = ([theta[3].exp(), theta[4].exp()], theta[5].tanh());
    let t = [sds[0] * sds[0], rho * sds[0] * sds[1], sds[1] * sds[1]];
    for group in 0..mixed.groups() {
        let rows = mixed.rows_of(group);
        let (first, n) = (rows.start, rows.len());
        let z = |i: usize| [1.0, f64::from(observations.row(first + i)[1]) + 0.2];
        let covariance = row_major(n, |i, j| {
            let (a, b) = (z(i), z(j));
            let shared = t[0] * a[0] * b[0] + t[1] * (a[0] * b[1] + a[1] * b[0]) + t[2] * a[1] * b[1];
            shared + if i == j { variance / observations.weight(first + i) } else { 0.0 }
        });
        let cholesky = Cholesky::new(&covariance, n).unwrap();
        let residual: Vec<f64> =
            rows.map(|i| observations.target(i).0 - observations.predictor(i, &theta[..2])).collect();
        let mut solved = residual.clone();
        cholesky.solve(&mut solved);
        let quadratic: f64 = residual.iter().zip(&solved).map(|(a, b)| a * b).sum();
        let two_pi = (2.0 * std::f64::consts::PI).ln();
        // A row of weight f has the density of y to the power of f: that of variance σ²/f, times what its constant is off.
        let constant: f64 = (0..n)
            .map(|i| {
                let f = observations.weight(first + i);
                -0.5 * f * (two_pi + variance.ln()) + 0.5 * (two_pi + (variance / f).ln())
            })
            .sum();
        let want = constant - 0.5 * (quadratic + cholesky.log_determinant() + n as f64 * two_pi);
        let got = value(&mixed, group, &theta, &nodes);
        assert!((got - want).abs() < 1e-10 * (1.0 + want.abs()), "{group}: {got} {want}");
    }
}

#[test]
fn large_groups_sure_groups_and_no_effect_work() {
    // All successes: the integrand has its mode where the prior stops it.
    let n = 100_000;
    let observations = Observations::new(&vec![1.0; n + 9], 1, vec![1.0; n + 9]);
    let model = BuiltIn::Logistic.bind(observations, Numbers::default()).unwrap();
    let mixed = Mixed::new(&*model, Effects::intercepts(), vec![0, n, n + 8, n + 9]).unwrap();
    let nodes = Nodes::new(31, 1);
    for group in 0..3 {
        let (theta, rows) = ([1.0, 0.7f64], mixed.rows_of(group).len() as f64);
        // Every row is the same, so that the integrand is known without going through them.
        let log = |v: f64| {
            rows * -(-(theta[0] + theta[1].exp() * v)).exp().ln_1p()
                - 0.5 * (v * v + (2.0 * std::f64::consts::PI).ln())
        };
        let logs: Vec<f64> = (-120_000..=120_000).map(|i| log(f64::from(i) * 1e-4) + 1e-4f64.ln()).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let want = most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln();
        let got = value(&mixed, group, &theta, &nodes);
        assert!(got.is_finite() && (got - want).abs() < 1e-5, "{group}: {got} {want}");
        // Without random effects the rows are independent.
        let plain: f64 = mixed.rows_of(group).map(|i| model.log_likelihood(i, &theta[..1])).sum();
        let alone = value(&mixed, group, &[1.0, -40.0], &nodes);
        assert!((alone - plain).abs() < 1e-11 * rows.max(1.0), "{group}: {alone} {plain}");
    }
}

#[test]
fn effects_have_their_moments() {
    let (model, mixed) = mixed(BuiltIn::Poisson, Effects::intercepts());
    let (theta, nodes) = (theta(&mixed), Nodes::new(21, 1));
    let (sd, group) = (theta[mixed.fixed()].exp(), 2);
    let (mut mean, mut total) = (0.0, 0.0);
    for i in -4000..=4000 {
        let u = f64::from(i) * 0.002 * sd;
        let density =
            (conditional(&*model, &mixed, group, &theta, [u, 0.0]) + 40.0 - 0.5 * (u / sd).powi(2)).exp();
        (mean, total) = (mean + u * density, total + density);
    }
    let mut got = 0.0;
    let place = mixed.place(&theta);
    mixed.effects_of(group, &place, &nodes, &mut [0.0; 2], &mut mixed.scratch(), &mut |share, u| {
        got += share * u[0];
    });
    assert!((got - mean / total).abs() < 1e-8, "{got} {}", mean / total);
}

#[test]
fn draws_near_a_centre_need_no_modes_of_their_own() {
    for family in [BuiltIn::Logistic, BuiltIn::Binomial, BuiltIn::Poisson] {
        for effects in [Effects::intercepts(), both(true)] {
            let mixed = crossed(family, effects);
            let (centre, nodes) = (theta(&mixed), Nodes::new(15, mixed.effects().len()));
            let draw = |s: usize| centre.iter().enumerate().map(move |(j, x)| x + 0.02 * noise(31 * s + j));
            let draws: Vec<f64> = (0..9).flat_map(draw).collect();
            let near = mixed.near(&centre, &draws).unwrap();
            let (mut scratch, mut out) = (mixed.near_scratch(), vec![0.0; 9]);
            for group in 0..mixed.groups() {
                mixed.values_near(group, &near, &nodes, &mut scratch, &mut out);
                for (draw, got) in draws.chunks_exact(mixed.dim()).zip(&out) {
                    let want = value(&mixed, group, draw, &nodes);
                    assert!((got - want).abs() < 2e-6, "{family} group {group}: {got} {want}");
                }
            }
        }
    }
    let (_, joint) = mixed(BuiltIn::Gamma, Effects::intercepts());
    let centre = theta(&joint);
    assert!(joint.near(&centre, &centre).is_none());
}

#[test]
fn what_has_no_random_effects_is_refused() {
    let target = vec![0.0, 1.0, 2.0, 1.0];
    let observations = Observations::new(&[1.0, 0.1, 1.0, 0.4, 1.0, -0.3, 1.0, 0.2], 2, target);
    let model = BuiltIn::Softmax.bind(observations, Numbers { classes: 3, ..Numbers::default() }).unwrap();
    let refused = Mixed::new(&*model, Effects::intercepts(), vec![0, 2, 4]).map(|_| ()).unwrap_err();
    assert!(matches!(refused, MixedError::Model { model: "softmax", .. }));
    let (model, _) = mixed(BuiltIn::Poisson, Effects::intercepts());
    let refused = Mixed::new(&*model, Effects::intercepts(), vec![0, 2]).map(|_| ()).unwrap_err();
    assert_eq!(refused, MixedError::Rows { end: 2, rows: 60 });
}

/// Groups under a Student-t whose integrands have two modes: a row far out by itself, and two clusters of rows.
#[test]
fn several_modes_of_an_effect_are_found() {
    let target = vec![14.0, -6.0, -6.1, -5.9, 6.0, 6.1, 5.9];
    let observations = Observations::new(&[1.0; 7], 1, target);
    let model = BuiltIn::Student.bind(observations, numbers(BuiltIn::Student)).unwrap();
    let mixed = Mixed::new(&*model, Effects::intercepts(), vec![0, 1, 7]).unwrap();
    assert!(mixed.may_have_modes());
    // β, log σ, log sd of the effects.
    let theta = [0.0, 0.05_f64.ln(), 3.0_f64.ln()];
    let (place, nodes, mut scratch) = (mixed.place(&theta), Nodes::new(61, 1), mixed.scratch());
    // The row far out is explained by its effect; a climb from 0 would end at the mode near 0.
    let modes = mixed.modes(0, &place, &mut scratch);
    assert!(modes.len() == 2 && (3.0 * modes[0].0[0] - 14.0).abs() < 0.5, "{modes:?}");
    let mut best = mixed.best_mode(0, &place, &mut scratch);
    let got = mixed.value(0, &place, &nodes, &mut best, &mut scratch);
    let want = by_grid(&*model, &mixed, 0, &theta);
    assert!((got - want).abs() < 0.05, "{got} {want}");
    let from_zero = mixed.value(0, &place, &nodes, &mut [0.0; 2], &mut scratch);
    assert!((from_zero - want).abs() > 1.0, "{from_zero} {want}");
    // Of the clusters either has half of the integral.
    let modes = mixed.modes(1, &place, &mut scratch);
    let mut sides: Vec<f64> = modes.iter().take(2).map(|(mode, _)| 3.0 * mode[0]).collect();
    sides.sort_by(f64::total_cmp);
    assert!((sides[0] + 6.0).abs() < 0.5 && (sides[1] - 6.0).abs() < 0.5, "{modes:?}");
    assert!((modes[0].1 - modes[1].1).abs() < 1e-3, "{modes:?}");
    let half = mixed.value(1, &place, &nodes, &mut modes[0].0.clone(), &mut scratch);
    let want = by_grid(&*model, &mixed, 1, &theta);
    assert!((half + std::f64::consts::LN_2 - want).abs() < 0.05, "{half} {want}");
}

#[test]
fn one_mode_where_the_likelihood_is_concave_in_the_predictor() {
    for family in FAMILIES {
        let (_, mixed) = mixed(family, both(true));
        assert_eq!(mixed.may_have_modes(), family == BuiltIn::Student, "{family}");
        if mixed.may_have_modes() {
            continue;
        }
        let place = mixed.place(&theta(&mixed));
        for group in 0..mixed.groups() {
            let modes = mixed.modes(group, &place, &mut mixed.scratch());
            assert_eq!(modes.len(), 1, "{family} group {group}: {modes:?}");
        }
    }
}

#[test]
fn a_row_that_was_not_exposed_says_nothing() {
    let softplus = Numbers { link: crate::Link::Softplus, ..Numbers::default() };
    let plain = Numbers::default();
    for (family, numbers) in [
        (BuiltIn::Poisson, plain),
        (BuiltIn::Poisson, softplus),
        (BuiltIn::NegativeBinomial, plain),
        (BuiltIn::Binomial, plain),
    ] {
        // The first group was not exposed, nor was the last row of the second.
        let exposure: Vec<f64> = (0..9).map(|i| if i < 4 || i == 8 { 0.0 } else { 2.0 }).collect();
        let target = exposure.iter().map(|e| e / 2.0).collect();
        let features: Vec<f64> = (0..9).flat_map(|i| [1.0, noise(i)]).collect();
        let whole = Observations::new(&features, 2, target).with_exposure(exposure);
        let mixed = |rows: Observations, starts: Vec<usize>| {
            Mixed::new(&*family.bind(rows, numbers).unwrap(), Effects::intercepts(), starts).unwrap()
        };
        let without = mixed(whole.select(&[0, 1, 2, 3, 4, 5, 6, 7]), vec![0, 4, 8]);
        let whole = mixed(whole, vec![0, 4, 9]);
        let (theta, nodes) = (theta(&whole), Nodes::new(9, 1));
        let of = |mixed: &Mixed, group: usize| {
            let mut gradient = vec![0.0; mixed.dim()];
            let (place, mut mode, mut scratch) = (mixed.place(&theta), [0.0; 2], mixed.scratch());
            let value = mixed.value_and_gradient(
                (group, 1.0),
                &place,
                &nodes,
                &mut mode,
                &mut scratch,
                &mut gradient,
            );
            [&[value], &gradient[..]].concat()
        };
        assert!(of(&whole, 0).iter().all(|x| x.abs() < 1e-12), "{family}: {:?}", of(&whole, 0));
        let same = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12 * (1.0 + b.abs());
        assert!(of(&whole, 1).iter().zip(&of(&without, 1)).all(same), "{family}");
        let bound = family.bind(whole.observations().clone(), numbers).unwrap();
        for delta in [-3.0, -0.01, 0.2, 5.0] {
            if let Some(linear) = bound.linear() {
                let mut row = [delta as f32];
                linear.family.differences_row(0.7, 0.0, 0.0, &mut row);
                assert!(linear.family.difference(0.7, delta, 0.0, 0.0) == 0.0 && row[0] == 0.0, "{family}");
            }
            if let Some(joint) = bound.joint() {
                let (zeta, deltas, mut row) = ([0.7, 0.1], [delta, 0.3], [1.0]);
                let table = joint.family.table(&[(0.1, &deltas[1..])]);
                joint.family.differences_row(&zeta, (0.0, 0.0), &deltas, &table, &mut row);
                assert!(joint.family.difference(&zeta, &deltas, (0.0, 0.0)).abs() < 1e-300);
                assert!(row[0].abs() < 1e-300, "{family}: {row:?}");
            }
        }
        let counted = Observations::new(&[1.0, 1.0], 1, vec![0.0, 1.0]).with_exposure(vec![1.0, 0.0]);
        assert!(family.bind(counted, numbers).err().unwrap().to_string().contains("row 1"), "{family}");
    }
}
