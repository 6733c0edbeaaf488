//! Adam with weights kept at or above zero.

/// Decay of the mean of the gradients, and of their squares, and what keeps a division by zero away: the authors' own.
const FIRST: f64 = 0.9;
const SECOND: f64 = 0.99;
const EPSILON: f64 = 1e-8;

/// w ← max(0, w − γ·m̂/(ε + √v̂)), with m̂ and v̂ the bias-corrected running means of g and g².
pub(super) struct Adam {
    first: Vec<f64>,
    second: Vec<f64>,
    taken: i32,
}

impl Adam {
    pub(super) fn new(len: usize) -> Self {
        Self { first: vec![0.0; len], second: vec![0.0; len], taken: 0 }
    }

    pub(super) fn step(&mut self, length: f64, gradient: &[f64], weights: &mut [f64]) {
        self.taken += 1;
        let (first_share, second_share) = (1.0 - FIRST.powi(self.taken), 1.0 - SECOND.powi(self.taken));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((weight, &g), (first, second)) in weights.iter_mut().zip(gradient).zip(moments) {
            *first = FIRST * *first + (1.0 - FIRST) * g;
            *second = SECOND * *second + (1.0 - SECOND) * g * g;
            let scale = EPSILON + (*second / second_share).sqrt();
            *weight = (*weight - length * (*first / first_share) / scale).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_has_its_full_length_whatever_the_gradient() {
        let mut weights = [1.0, 1.0, 0.1];
        Adam::new(3).step(0.5, &[1e3, -1e-3, 4.0], &mut weights);
        for (got, want) in weights.iter().zip([0.5, 1.5, 0.0]) {
            assert!((got - want).abs() < 1e-4, "{got} {want}");
        }
    }

    #[test]
    fn it_finds_the_constrained_minimum() {
        // ½‖w − c‖² with c = (2, −1): the minimum over w ≥ 0 is (2, 0).
        let mut weights = [0.0, 0.7];
        let mut adam = Adam::new(2);
        for t in 0..4000 {
            let gradient = [weights[0] - 2.0, weights[1] + 1.0];
            adam.step(1.0 / (1.0 + t as f64), &gradient, &mut weights);
        }
        assert!((weights[0] - 2.0).abs() < 1e-2 && weights[1] == 0.0, "{weights:?}");
    }
}
