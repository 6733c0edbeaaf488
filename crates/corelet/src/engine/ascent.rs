//! A climb to a mode that sees gradients alone, one point at a time, so that many of them may be asked about together.

use super::gaussian::uphill;
use crate::linalg::dot;

/// Points at which one climb looks, at most.
pub(super) const STEPS: usize = 120;
/// What a step may promise, in nats, where the climb has arrived.
const ARRIVED: f64 = 1e-3;
/// A step has gone too far where the slope along it has turned round, and is this much as steep as before.
const TURNED: f64 = 0.5;
/// Halvings of one step.
const HALVINGS: usize = 30;
/// Pairs of steps and changes of the gradient that are remembered.
const MEMORY: usize = 10;

/// Limited-memory BFGS, whose steps are halved until the slope along them has not turned round.
pub(super) struct Ascent {
    point: Vec<f64>,
    gradient: Vec<f64>,
    trial: Vec<f64>,
    direction: Vec<f64>,
    length: f64,
    halvings: usize,
    pairs: Vec<(Vec<f64>, Vec<f64>)>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begun,
    Climbing,
    Arrived,
    Lost,
}

impl Ascent {
    pub(super) fn from(start: Vec<f64>) -> Self {
        Self {
            trial: start.clone(),
            point: start,
            gradient: Vec::new(),
            direction: Vec::new(),
            length: 1.0,
            halvings: 0,
            pairs: Vec::new(),
            state: State::Begun,
        }
    }

    /// The point whose gradient it waits for; none if it has ended.
    pub(super) fn wants(&self) -> Option<&[f64]> {
        matches!(self.state, State::Begun | State::Climbing).then_some(&self.trial)
    }

    /// Where it arrived.
    pub(super) fn top(self) -> Option<Vec<f64>> {
        (self.state == State::Arrived).then_some(self.point)
    }

    pub(super) fn take(&mut self, gradient: &[f64]) {
        let finite = gradient.iter().all(|x| x.is_finite());
        if self.state == State::Begun {
            self.state = if finite { State::Climbing } else { State::Lost };
            self.gradient = gradient.to_vec();
            self.turn();
            return;
        }
        let before = dot(&self.gradient, &self.direction);
        if !finite || dot(gradient, &self.direction) < -TURNED * before {
            self.halvings += 1;
            self.length *= 0.5;
            if self.halvings > HALVINGS {
                self.state = State::Lost;
            }
            self.step();
            return;
        }
        let step: Vec<f64> = self.trial.iter().zip(&self.point).map(|(a, b)| a - b).collect();
        let change: Vec<f64> =
            self.gradient.iter().zip(gradient).map(|(before, after)| before - after).collect();
        if dot(&step, &change) > 1e-12 * dot(&change, &change).sqrt() * dot(&step, &step).sqrt() {
            self.pairs.push((step, change));
            if self.pairs.len() > MEMORY {
                self.pairs.remove(0);
            }
        }
        self.point.clone_from(&self.trial);
        self.gradient = gradient.to_vec();
        self.turn();
    }

    /// A new direction, and a first step along it.
    fn turn(&mut self) {
        if self.state != State::Climbing {
            return;
        }
        self.direction = uphill(&self.gradient, &self.pairs);
        let mut promised = dot(&self.direction, &self.gradient);
        if promised.is_nan() || promised <= 0.0 {
            self.pairs.clear();
            self.direction.clone_from(&self.gradient);
            promised = dot(&self.direction, &self.gradient);
        }
        if promised < ARRIVED * ARRIVED || (!self.pairs.is_empty() && promised < ARRIVED) {
            self.state = State::Arrived;
            return;
        }
        // Nothing is known of the scale at first: a step of one standard deviation.
        self.length = if self.pairs.is_empty() { promised.sqrt().recip() } else { 1.0 };
        self.halvings = 0;
        self.step();
    }

    fn step(&mut self) {
        self.trial = self.point.iter().zip(&self.direction).map(|(x, d)| x + self.length * d).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn climbed(start: &[f64], slope: impl Fn(&[f64]) -> Vec<f64>) -> Option<Vec<f64>> {
        let mut climb = Ascent::from(start.to_vec());
        for _ in 0..STEPS {
            let Some(at) = climb.wants() else { break };
            let gradient = slope(at);
            climb.take(&gradient);
        }
        climb.top()
    }

    #[test]
    fn it_reaches_the_top_of_a_curved_ridge() {
        let slope = |x: &[f64]| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            vec![2.0 * a + 40.0 * x[0] * b, -20.0 * b]
        };
        let Some(top) = climbed(&[-1.2, 1.0], slope) else { panic!("no top") };
        assert!((top[0] - 1.0).abs() < 0.1 && (top[1] - 1.0).abs() < 0.2, "{top:?}");
    }

    /// −(x² − 1)²: either top, by the side from which it begins; and a slope without end has none.
    #[test]
    fn it_finds_the_top_of_its_own_side_and_none_where_there_is_none() {
        let two = |x: &[f64]| vec![-4.0 * x[0] * (x[0] * x[0] - 1.0)];
        for (start, wanted) in [(0.2, 1.0), (-30.0, -1.0)] {
            let Some(top) = climbed(&[start], two) else { panic!("no top") };
            assert!((top[0] - wanted).abs() < 0.05, "{start}: {top:?}");
        }
        assert_eq!(climbed(&[0.0], |_| vec![1.0]), None);
        assert_eq!(climbed(&[0.0], |_| vec![f64::NAN]), None);
    }
}
