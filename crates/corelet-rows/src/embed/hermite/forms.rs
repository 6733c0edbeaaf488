//! A query vector as a linear, a quadratic and a cubic form of the unit directions, in tables for the kernel.

use super::tensor::{coordinates, first_pair, multiplicities, pairs};

/// Rows of a table that the kernel multiplies at once.
pub(super) const HEIGHT: usize = 4;

/// ⟨φ, u⟩/‖u‖ = c₁·T₁(v) + c₂·T₂(v, v) + c₃·T₃(v, v, v), with u's coordinates as coefficients.
///
/// The highest form is nested, T(v, …) = Σᵢ vᵢ Σ_{p≥i} tᵢₚbₚ, where b is v itself (order 2) or its products vⱼvₖ, j ≤ k
/// (order 3), so that nothing symmetric is computed twice. The form one order lower uses the same b and is the
/// zeroth row of the table: each order is then one product of a table with b.
#[derive(Debug, Default)]
pub(super) struct Forms {
    /// ‖u‖.
    pub(super) length: f64,
    /// T₁, at order 1 and 3.
    pub(super) linear: Vec<f32>,
    /// The table in bands of four rows, each from the first b that one of its rows needs, column by column.
    pub(super) bands: Vec<Band>,
    /// The entries of all bands.
    pub(super) entries: Vec<[f32; HEIGHT]>,
}

/// The vectors of a query: as forms for the kernel, and as they are for what is computed again in f64.
pub struct Directions {
    pub(super) forms: Vec<Forms>,
    pub(super) vectors: Vec<Vec<f64>>,
}

impl Directions {
    pub(super) fn new(vectors: &[&[f64]], dim: usize, order: usize) -> Self {
        let prepare = |vector: &&[f64]| {
            let mut forms = Forms::default();
            forms.prepare(vector, dim, order);
            forms
        };
        Self {
            forms: vectors.iter().map(prepare).collect(),
            vectors: vectors.iter().map(|vector| vector.to_vec()).collect(),
        }
    }
}

/// Four rows of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Band {
    /// The i of its first row; the zeroth row of the table has none, and counts as −1.
    pub(super) first: isize,
    /// Where the b of each of its rows start, ascending; past the last b for a row that is not there.
    pub(super) starts: [usize; HEIGHT],
}

impl Forms {
    /// Prepares u, scaled to unit length so that f32 neither overflows nor underflows; keeps whatever memory there is.
    pub(super) fn prepare(&mut self, u: &[f64], dim: usize, order: usize) {
        let largest = u.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
        self.length = if largest > 0.0 {
            largest * u.iter().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt()
        } else {
            0.0
        };
        let scale = if self.length > 0.0 { 1.0 / self.length } else { 0.0 };
        let multiplicities = multiplicities(dim, order);
        let entry = |at: usize| (u[at] * scale * multiplicities[at]) as f32;
        self.linear.clear();
        self.bands.clear();
        self.entries.clear();
        if order != 2 {
            self.linear.extend((0..dim).map(entry));
        }
        if order == 1 {
            return;
        }
        let width = if order == 2 { dim } else { pairs(dim) };
        let first_of = |row: usize| match (row.checked_sub(1), order) {
            (None, _) => 0,
            (Some(i), 2) => i,
            (Some(i), _) => first_pair(dim, i),
        };
        // The zeroth row lies one order below the highest, whose rows stand one after the other without their gaps.
        let below = coordinates(dim, order - 2);
        let mut offsets = Vec::with_capacity(dim + 1);
        offsets.push(below);
        let mut at = below + width;
        for row in 1..=dim {
            offsets.push(at);
            at += width - first_of(row);
        }
        for band in (0..=dim).step_by(HEIGHT) {
            let starts = std::array::from_fn(|r| if band + r > dim { width } else { first_of(band + r) });
            self.bands.push(Band { first: band as isize - 1, starts });
            self.entries.extend((starts[0]..width).map(|p| {
                std::array::from_fn(|r| {
                    if p < starts[r] { 0.0 } else { entry(offsets[band + r] + p - starts[r]) }
                })
            }));
        }
    }
}
