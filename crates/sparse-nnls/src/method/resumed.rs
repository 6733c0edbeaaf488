//! A pursuit that goes on from a support at hand.

use crate::driver::{Algorithm, Problem, Start, Weights};
use crate::error::Error;
use crate::method::pursuit::{Engine, Pursuit};

/// A [`Pursuit`] from a support that is good already, chosen from the same columns by one that saw less of them, say: those of its columns
/// that the first pool has enter with their weights before any other, and the search ends sooner.
#[derive(Debug, Clone, PartialEq)]
pub struct Resumed {
    settings: Pursuit,
    from: Weights,
}

impl Pursuit {
    /// The same, going on from a support.
    pub fn resume(self, from: Weights) -> Resumed {
        Resumed { settings: self, from }
    }
}

impl Start for Resumed {
    fn name(&self) -> &'static str {
        "pursuit"
    }

    fn check(&self) -> Result<(), Error> {
        self.settings.check()
    }

    fn sample(&self, k: usize) -> usize {
        self.settings.first_pool(k)
    }

    fn start(&self, problem: &Problem) -> Box<dyn Algorithm> {
        Box::new(Engine::resumed(problem, self.settings, self.from.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, uniform};
    use crate::{Dense, Dictionary, Method, Oracle, Settings, Solver, nnls_on_support};

    #[test]
    fn a_support_is_never_made_worse() {
        let (n, dim, k) = (300, 40, 15);
        let values = (0..n * dim).map(|i| uniform(3, Purpose::Batch, i) - 0.3).collect();
        let dictionary = Dense::<f64>::new(values, dim).unwrap();
        let y = dictionary.sum().unwrap().vector;
        let solve = |method: &dyn Start| Solver::new(&dictionary, Settings::from(k)).run(method).unwrap();
        let alone = solve(&Method::Pursuit(Pursuit::default()));
        let any = Weights::from_pairs((0..k).map(|i| (7 * i, 0.5)));
        for from in [&any, &alone.weights] {
            let before = nnls_on_support(&Oracle::new(&dictionary), &y, &from.ids, None).unwrap();
            let after = solve(&Pursuit::default().resume(from.clone()));
            assert!(after.weights.len() <= k && after.residual <= before.residual * (1.0 + 1e-9));
        }
        let nothing = solve(&Pursuit::default().resume(Weights::default()));
        assert_eq!(nothing.weights, alone.weights);
        let elsewhere = solve(&Pursuit::default().resume(Weights::from_pairs([(n + 3, 1.0)])));
        assert!(elsewhere.weights.len() <= k && elsewhere.residual < 2.0 * alone.residual);
    }
}
