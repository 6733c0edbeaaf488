//! Symmetric tensors as vectors: the coordinates √(m!/α!)·v^α, |α| = m, of v⊗…⊗v, for the orders 1, 2 and 3.
//!
//! Within an order the coordinates stand by i, then j ≥ i, then k ≥ j; the orders stand one after the other.

use std::f64::consts::SQRT_2;

/// Number of coordinates of the orders 1 … `order` in `dim` dimensions: Σ C(D+m−1, m).
pub(in crate::embed) fn coordinates(dim: usize, order: usize) -> usize {
    let pairs = pairs(dim);
    let triples = pairs * (dim + 2) / 3;
    [dim, pairs, triples].iter().take(order).sum()
}

/// D(D+1)/2 pairs i ≤ j.
pub(super) fn pairs(dim: usize) -> usize {
    dim * (dim + 1) / 2
}

/// Where the pairs (i, ·) start among the pairs.
pub(super) fn first_pair(dim: usize, i: usize) -> usize {
    pairs(dim) - pairs(dim - i)
}

/// Adds c₁v, c₂·(vᵢvⱼ) and c₃·(vᵢvⱼvₖ), without the multiplicities, to `out`; as many orders as `c` is long.
#[inline(always)]
pub(super) fn add_powers(c: &[f64], v: &[f64], out: &mut [f64]) {
    let (linear, rest) = out.split_at_mut(v.len());
    add_scaled(linear, v, c[0]);
    let Some(&second) = c.get(1) else { return };
    let (quadratic, mut cubic) = rest.split_at_mut(pairs(v.len()));
    let mut left = quadratic;
    for (i, x) in v.iter().enumerate() {
        let (row, after) = left.split_at_mut(v.len() - i);
        add_scaled(row, &v[i..], second * x);
        left = after;
    }
    let Some(&third) = c.get(2) else { return };
    for (i, x) in v.iter().enumerate() {
        for (j, y) in v.iter().enumerate().skip(i) {
            let (row, after) = cubic.split_at_mut(v.len() - j);
            add_scaled(row, &v[j..], third * x * y);
            cubic = after;
        }
    }
}

#[inline(always)]
fn add_scaled(out: &mut [f64], v: &[f64], scale: f64) {
    out.iter_mut().zip(v).for_each(|(out, v)| *out += scale * v);
}

/// √(m!/α!) for every coordinate: 1, √2, √3 or √6.
pub(super) fn multiplicities(dim: usize, order: usize) -> Vec<f64> {
    let mut out = vec![1.0; dim];
    if order >= 2 {
        for i in 0..dim {
            out.extend((i..dim).map(|j| if i == j { 1.0 } else { SQRT_2 }));
        }
    }
    if order >= 3 {
        for i in 0..dim {
            for j in i..dim {
                out.extend((j..dim).map(|k| match (i == j, j == k) {
                    (true, true) => 1.0,
                    (false, false) => 6.0_f64.sqrt(),
                    _ => 3.0_f64.sqrt(),
                }));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_products_are_powers() {
        for dim in [1, 2, 5, 8] {
            let v: Vec<f64> = (0..dim).map(|i| (1.3 * i as f64).sin() - 0.2).collect();
            let w: Vec<f64> = (0..dim).map(|i| (0.7 * i as f64).cos()).collect();
            let cosine: f64 = v.iter().zip(&w).map(|(a, b)| a * b).sum();
            for order in 1..=3 {
                let c: Vec<f64> = (0..order).map(|m| if m + 1 == order { 1.0 } else { 0.0 }).collect();
                let (mut a, mut b) = (vec![0.0; coordinates(dim, order)], vec![0.0; coordinates(dim, order)]);
                add_powers(&c, &v, &mut a);
                add_powers(&c, &w, &mut b);
                let multiplicities = multiplicities(dim, order);
                assert_eq!(multiplicities.len(), a.len());
                let product: f64 =
                    a.iter().zip(&b).zip(&multiplicities).map(|((a, b), m)| a * b * m * m).sum();
                assert!((product - cosine.powi(order as i32)).abs() < 1e-12);
            }
            assert_eq!(first_pair(dim, 0), 0);
            assert_eq!(first_pair(dim, dim - 1), pairs(dim) - 1);
        }
        assert_eq!([2, 3].map(|order| coordinates(10, order)), [65, 285]);
        assert_eq!([2, 3].map(|order| coordinates(27, order)), [405, 4059]);
    }
}
