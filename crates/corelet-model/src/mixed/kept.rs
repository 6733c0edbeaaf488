//! A second factor whose levels keep an effect each as a parameter, beside the effects that are integrated out.

/// The effects of a factor's levels: parameters t = log σ and s₁ … s_J, of which level h has the effect r_h = e^{a_h t}s_h.
///
/// With r_h ~ N(0, σ²) the s_h are N(0, e^{2(1 − a_h)t}). a = 0 samples the effect itself, which suits levels with many rows, and a = 1
/// the effect in units of σ, which suits levels that the rows say little of.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The level of each row.
    pub levels: Vec<u32>,
    /// a of each level.
    pub powers: Vec<f64>,
}

/// The effects at some parameters, and what they change by.
#[derive(Debug, Clone)]
pub(super) struct KeptPlace {
    /// r_h.
    pub(super) effects: Vec<f64>,
    /// ∂r_h/∂s_h and ∂r_h/∂t.
    slopes: Vec<[f64; 2]>,
}

impl Kept {
    /// Levels of rows, of which there are so many; the effects themselves are parameters.
    pub fn new(levels: Vec<u32>, count: usize) -> Self {
        Self { levels, powers: vec![0.0; count] }
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        1 + self.powers.len()
    }

    /// r of every level.
    pub fn effects(&self, parameters: &[f64]) -> Vec<f64> {
        self.place(parameters).effects
    }

    pub(super) fn place(&self, parameters: &[f64]) -> KeptPlace {
        let log_sd = parameters[0].clamp(-300.0, 300.0);
        let each = || self.powers.iter().zip(&parameters[1..]);
        let effects: Vec<f64> = each().map(|(a, s)| (a * log_sd).exp() * s).collect();
        let slopes = each().zip(&effects).map(|((a, _), r)| [(a * log_sd).exp(), a * r]).collect();
        KeptPlace { effects, slopes }
    }
}

impl KeptPlace {
    /// Adds what a slope of the effect of this level comes to.
    #[inline]
    pub(super) fn add(&self, level: usize, slope: f64, gradient: &mut [f64]) {
        let [by_own, by_log_sd] = self.slopes[level];
        gradient[0] += slope * by_log_sd;
        gradient[1 + level] += slope * by_own;
    }
}
