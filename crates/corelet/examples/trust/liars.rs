//! Samplers that lie: draws that are shifted, too wide, too narrow, correlated otherwise, stuck, or of other weights, judged with the
//! gradient of the density and without. The truth is the closed form of Gaussians.

use std::fmt::Write;

use corelet::trust::{Draws, Evidence, Grade, Scores, judge};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// An A or B is wrong where the true symmetrised KL is above this.
pub(crate) const WRONG: f64 = 0.2;

/// What a sampler does to draws z of N(0, I) in the principal axes of the posterior: z ↦ scale·z + shift, by axis.
struct Lie {
    name: &'static str,
    scale: fn(usize, usize) -> f64,
    shift: fn(usize, usize) -> f64,
    /// Each draw is repeated so often.
    still: usize,
    /// The correlation of a draw with the one before it in its chain.
    memory: f64,
}

const fn lie(name: &'static str, scale: fn(usize, usize) -> f64, shift: fn(usize, usize) -> f64) -> Lie {
    Lie { name, scale, shift, still: 1, memory: 0.0 }
}

const ONE: fn(usize, usize) -> f64 = |_, _| 1.0;
const NONE: fn(usize, usize) -> f64 = |_, _| 0.0;

const LIES: [Lie; 16] = [
    lie("honest", ONE, NONE),
    Lie { name: "honest, draws correlated by 0.6", scale: ONE, shift: NONE, still: 1, memory: 0.6 },
    Lie { name: "the same, all 0.75 times as wide", scale: |_, _| 0.75, shift: NONE, still: 1, memory: 0.6 },
    lie("one mean 12 sd off", ONE, |j, _| if j == 0 { 12.0 } else { 0.0 }),
    lie("one mean 2 sd off", ONE, |j, dim| if j == dim - 1 { 2.0 } else { 0.0 }),
    lie("one mean 0.8 sd off", ONE, |j, _| if j == 0 { 0.8 } else { 0.0 }),
    lie("all means 0.3 sd off", ONE, |_, _| 0.3),
    lie("all 0.75 times as wide", |_, _| 0.75, NONE),
    lie("a fifth 0.6 times as wide", |j, _| if j % 5 == 0 { 0.6 } else { 1.0 }, NONE),
    lie("one 0.3 times as wide", |j, _| if j == 0 { 0.3 } else { 1.0 }, NONE),
    lie("all 1.4 times as wide", |_, _| 1.4, NONE),
    lie("one twice as wide", |j, _| if j == 0 { 2.0 } else { 1.0 }, NONE),
    lie("weights ignored: all 10 times as wide", |_, _| 10.0, NONE),
    lie("other rows: all means 5 sd off", ONE, |_, _| 5.0),
    lie("stuck near one point", |_, _| 1e-3, |_, _| 0.2),
    Lie { name: "crawling chains", scale: ONE, shift: NONE, still: 100, memory: 0.0 },
];

/// Grades of one lie, with the gradient and without.
#[derive(Default)]
struct Count {
    cases: usize,
    grades: [[usize; 3]; 2],
    wrong_a: usize,
    wrong_b: usize,
    largest: f64,
}

/// Every lie × parameters × draws × seeds.
pub(crate) fn run(seeds: u64) -> String {
    let mut table =
        "| sampler | true KL | cases | with gradient A, B, C | without A, B, C | A wrong | B wrong |\n"
            .to_owned();
    table += "| --- | --- | --- | --- | --- | --- | --- |\n";
    let mut all = Count::default();
    for lie in &LIES {
        let mut count = Count::default();
        let mut smallest = f64::INFINITY;
        for dim in [1, 3, 10, 40, 120] {
            for draws in [1000, 2000, 4000] {
                let truth = divergence(lie, dim);
                smallest = smallest.min(truth);
                count.largest = count.largest.max(truth);
                for seed in 0..seeds {
                    for (at, gradient) in [true, false].into_iter().enumerate() {
                        let grade = graded(lie, dim, draws, seed, gradient);
                        count.cases += 1;
                        count.grades[at][grade as usize] += 1;
                        count.wrong_a += usize::from(grade == Grade::A && truth > WRONG);
                        count.wrong_b += usize::from(grade == Grade::B && truth > WRONG);
                    }
                }
            }
        }
        let [with, without] = count.grades.map(|[a, b, c]| format!("{a}, {b}, {c}"));
        let Count { cases, wrong_a, wrong_b, largest, .. } = count;
        writeln!(
            table,
            "| {} | {smallest:.2} to {largest:.3e} | {cases} | {with} | {without} | {wrong_a} | {wrong_b} |",
            lie.name
        )
        .unwrap();
        all.cases += cases;
        all.wrong_a += wrong_a;
        all.wrong_b += wrong_b;
    }
    writeln!(table, "| all | | {} | | | {} | {} |", all.cases, all.wrong_a, all.wrong_b).unwrap();
    table
}

/// The symmetrised KL between N(0, 1) and N(shift, scale²) on each axis: ½(s² + s⁻² − 2) + ½ shift²(1 + s⁻²).
fn divergence(lie: &Lie, dim: usize) -> f64 {
    let of = |j: usize| {
        let (s, d) = ((lie.scale)(j, dim).powi(2), (lie.shift)(j, dim).powi(2));
        0.5 * (s + s.recip() - 2.0) + 0.5 * d * (1.0 + s.recip())
    };
    (0..dim).map(of).sum()
}

/// The posterior is N(0, RΛRᵀ), R a product of random reflections and Λ from 10⁻³ to 10³; Δ is 0 everywhere, so that only the sampler is
/// judged.
fn graded(lie: &Lie, dim: usize, count: usize, seed: u64, gradient: bool) -> Grade {
    let mut rng = ChaCha8Rng::seed_from_u64(seed << 8 | dim as u64);
    let mut normal = |n: usize| -> Vec<f64> { StandardNormal.sample_iter(&mut rng).take(n).collect() };
    let mirrors: Vec<Vec<f64>> = (0..3).map(|_| normal(dim)).collect();
    let turned = |mut x: Vec<f64>| {
        for mirror in &mirrors {
            let (along, size): (f64, f64) =
                x.iter().zip(mirror).fold((0.0, 0.0), |(a, s), (x, m)| (a + x * m, s + m * m));
            x.iter_mut().zip(mirror).for_each(|(x, m)| *x -= 2.0 * along / size * m);
        }
        x
    };
    let sd = |j: usize| 10f64.powf(if dim > 1 { 3.0 * (j as f64 / (dim - 1) as f64) - 1.5 } else { 0.0 });
    let (mut theta, mut slopes, mut weighted) = (Vec::new(), Vec::new(), Vec::new());
    let (mut z, mut honest) = (Vec::new(), vec![0.0; dim]);
    for s in 0..count {
        if s % lie.still == 0 {
            // A chain begins anywhere.
            let memory = if s % (count / 4) == 0 { 0.0 } else { lie.memory };
            let fresh = (1.0 - memory * memory).sqrt();
            honest.iter_mut().zip(normal(dim)).for_each(|(z, plain)| *z = memory * *z + fresh * plain);
            z = honest
                .iter()
                .enumerate()
                .map(|(j, z)| (lie.scale)(j, dim) * z + (lie.shift)(j, dim))
                .collect();
        }
        theta.extend(turned(z.iter().enumerate().map(|(j, z)| z * sd(j)).collect()));
        slopes.extend(turned(z.iter().enumerate().map(|(j, z)| -z / sd(j)).collect()));
        weighted.push(-0.5 * z.iter().map(|z| z * z).sum::<f64>());
    }
    let draws = Draws { theta, dim, chains: Some(4), log_weights: None };
    let scores = gradient.then(|| Scores { draws: draws.clone(), gradient: slopes });
    let evidence = Evidence { errors: vec![0.0; count], weighted, scores, ..Evidence::of(&draws) };
    judge(evidence).unwrap().grade
}
