//! ℓ_g at many draws near one place, by the nodes of that place: no search for modes, and a few operations a row, node and draw.

use super::covariance::apply;
use super::jets::RowFamily;
use super::{Mixed, Nodes, Place, Scratch};
use crate::Shifts;

/// Rows whose predictors are moved at a time.
const ROWS: usize = 32;

/// Draws about a centre.
pub struct NearDraws {
    centre: Place,
    /// βₛ − β̂.
    shifts: Shifts,
    /// Λₛ − Λ̂.
    turns: Vec<[f64; 4]>,
    /// rₛ − r̂ of each factor that is kept, levels × draws.
    kept: Vec<Vec<f32>>,
}

/// Buffers of one thread.
pub struct NearScratch {
    group: Scratch,
    /// xⱼᵀ(βₛ − β̂), rows × draws.
    moved: Vec<f32>,
    deltas: Vec<f32>,
    /// (Λₛ − Λ̂)v of one node, an entry a draw.
    turned: [Vec<f32>; 2],
    /// Σⱼ fⱼ(ℓ(ηⱼ + δ) − ℓ(ηⱼ)), nodes × draws.
    sums: Vec<f64>,
}

impl Mixed {
    /// Draws, one after the other, near `centre`; none if the rows have parameters beside their predictor.
    pub fn near(&self, centre: &[f64], draws: &[f64]) -> Option<NearDraws> {
        let RowFamily::One(_) = &self.family else { return None };
        let place = self.place(centre);
        let each = || draws.chunks_exact(self.dim());
        let shifts = each().flat_map(|draw| draw.iter().zip(centre).take(self.fixed).map(|(x, c)| x - c));
        let turn = |draw: &[f64]| {
            let lambda = self.effects.factor(&draw[self.fixed..]).lambda;
            std::array::from_fn(|at| lambda[at] - place.factor.lambda[at])
        };
        let (shifts, turns) = (Shifts::new(shifts.collect(), self.fixed), each().map(turn).collect());
        let count = draws.len() / self.dim();
        let moved = |(at, (kept, start)): (usize, (&super::Kept, usize))| {
            let mut moves = vec![0.0; kept.powers.len() * count];
            for (s, draw) in each().enumerate() {
                let effects = kept.effects(&draw[start..]);
                for (h, (r, centre)) in effects.iter().zip(&place.kept[at].effects).enumerate() {
                    moves[h * count + s] = (r - centre) as f32;
                }
            }
            moves
        };
        let kept = self.kept.iter().zip(self.kept_starts()).enumerate().map(moved).collect();
        Some(NearDraws { centre: place, shifts, turns, kept })
    }

    /// Buffers for one thread.
    pub fn near_scratch(&self) -> NearScratch {
        NearScratch {
            group: self.scratch(),
            moved: Vec::new(),
            deltas: Vec::new(),
            turned: Default::default(),
            sums: Vec::new(),
        }
    }

    /// ℓ_g(φ̂) + log Σₖ pₖ exp(Σⱼ fⱼ(ℓ(ηⱼₖ(φₛ)) − ℓ(ηⱼₖ(φ̂)))) at every draw, with nodes and their shares pₖ at φ̂. The differences
    /// are f32 to full relative precision.
    pub fn values_near(
        &self,
        group: usize,
        draws: &NearDraws,
        nodes: &Nodes,
        scratch: &mut NearScratch,
        out: &mut [f64],
    ) {
        let RowFamily::One(family) = &self.family else { return };
        let (rows, count) = (self.rows_of(group), out.len());
        let value = self.value(group, &draws.centre, nodes, &mut [0.0; 2], &mut scratch.group);
        let NearScratch { group: own, moved, deltas, turned, sums } = scratch;
        sums.clear();
        sums.resize(nodes.len() * count, 0.0);
        deltas.resize(count, 0.0);
        let dim = self.observations.dim;
        for start in (0..rows.len()).step_by(ROWS) {
            let here = rows.start + start..rows.end.min(rows.start + start + ROWS);
            moved.resize(here.len() * count, 0.0);
            draws.shifts.products(&self.observations.features[here.start * dim..here.end * dim], moved);
            for (kept, moves) in self.kept.iter().zip(&draws.kept) {
                for (line, &level) in moved.chunks_exact_mut(count).zip(&kept.levels[here.clone()]) {
                    let moves = &moves[level as usize * count..][..count];
                    line.iter_mut().zip(moves).for_each(|(sum, x)| *sum += x);
                }
            }
            for (k, v) in own.effects.iter().enumerate() {
                let u = apply(&draws.centre.factor.lambda, v);
                turned.iter_mut().for_each(Vec::clear);
                for turn in &draws.turns {
                    let w = apply(turn, v);
                    turned.iter_mut().zip(w).for_each(|(column, w)| column.push(w as f32));
                }
                let sum = &mut sums[k * count..(k + 1) * count];
                for (i, moved) in here.clone().zip(moved.chunks_exact(count)) {
                    let at = i - rows.start;
                    let (z, (y, exposure)) = (own.z[at], self.observations.target(i));
                    let slopes = z.map(|z| z as f32);
                    let each = deltas.iter_mut().zip(moved).zip(turned[0].iter().zip(&turned[1]));
                    each.for_each(|((delta, moved), (a, b))| *delta = moved + slopes[0] * a + slopes[1] * b);
                    let eta = own.base[at] + z[0] * u[0] + z[1] * u[1];
                    family.differences_row(eta, y, exposure, deltas);
                    let weight = self.observations.weight(i);
                    sum.iter_mut().zip(&*deltas).for_each(|(sum, x)| *sum += weight * f64::from(*x));
                }
            }
        }
        out.fill(0.0);
        for (share, sum) in own.shares.iter().zip(sums.chunks_exact(count.max(1))) {
            out.iter_mut().zip(sum).for_each(|(out, x)| *out += share * x.exp());
        }
        out.iter_mut().for_each(|out| *out = value + out.ln());
    }
}
