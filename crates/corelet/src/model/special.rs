//! Scalar functions the models share, each to full precision where the plain formula loses it.

use std::f64::consts::PI;

/// σ(x) = 1/(1 + e⁻ˣ), relatively precise also far below zero.
pub fn sigmoid(x: f64) -> f64 {
    let small = (-x.abs()).exp();
    (if x >= 0.0 { 1.0 } else { small }) / (1.0 + small)
}

/// log(1 + eˣ), relatively precise also far below zero.
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// log log(1 + eˣ), which tends to x far below zero.
pub fn log_softplus(x: f64) -> f64 {
    if x < -30.0 { x - 0.5 * x.exp() } else { softplus(x).ln() }
}

/// log σ(t + d) − log σ(t) to full relative precision, however small `d` and however large either is.
///
/// With p = σ(−t) and q = σ(t) it is −log1p(p·expm1(−d)), which is used where p ≤ ½. Where p > ½ that would cancel,
/// and it is d − log1p(q·expm1(d)) up to d = max(−t, 1) and log(1/q) − log1p(e^{−t−d}) beyond.
pub fn log_sigmoid_difference(t: f64, d: f64) -> f64 {
    // Beyond this expm1 could overflow, and the 1 in it no longer matters.
    const LARGE: f64 = 300.0;
    if t >= 0.0 {
        return if d > -LARGE { -(sigmoid(-t) * (-d).exp_m1()).ln_1p() } else { -softplus(-d - softplus(t)) };
    }
    let t = -t;
    if d > t.max(1.0) {
        softplus(t) - (t - d).exp().ln_1p()
    } else if d > LARGE {
        d - (d - softplus(t)).exp().ln_1p()
    } else {
        d - (sigmoid(-t) * d.exp_m1()).ln_1p()
    }
}

/// c₁ … c₇ with log σ(t + d) − log σ(t) = Σ cₖdᵏ; what follows is below 3·10⁻⁸ of the first term for |d| ≤ ¼.
///
/// With u = σ(t)σ(−t) and v = σ(t) − σ(−t), u′ = −uv and v′ = 2u, so that each derivative is a polynomial in them.
pub fn log_sigmoid_series(t: f64) -> [f64; 7] {
    let (p, q) = (sigmoid(-t), sigmoid(t));
    let (u, v) = (p * q, q - p);
    [
        p,
        -u / 2.0,
        u * v / 6.0,
        u * (6.0 * u - 1.0) / 24.0,
        u * v * (1.0 - 12.0 * u) / 120.0,
        u * (-1.0 + u * (30.0 - 120.0 * u)) / 720.0,
        u * v * (1.0 + u * (360.0 * u - 60.0)) / 5040.0,
    ]
}

/// c₁ … c_N with log σ(t + d) − log σ(t) = Σ cₖdᵏ, to any number of terms.
///
/// The coefficients aₖ of σ(t + d) follow from σ′ = σ(1 − σ): (k+1)aₖ₊₁ = (1 − 2a₀)aₖ − Σ_{0<j<k} aⱼaₖ₋ⱼ; and since
/// (log σ)′ = 1 − σ, (k+1)cₖ₊₁ = −aₖ.
pub fn log_sigmoid_long_series<const N: usize>(t: f64) -> [f64; N] {
    let (p, q) = (sigmoid(-t), sigmoid(t));
    // a[k] is a_{k+1}, so that the first, which is nearly 1 − p, is not among them.
    let mut a = [0.0; N];
    let mut c = [0.0; N];
    for k in 0..N {
        a[k] = if k == 0 {
            p * q
        } else {
            let products: f64 = (1..k).map(|j| a[j - 1] * a[k - j - 1]).sum();
            ((p - q) * a[k - 1] - products) / (k + 1) as f64
        };
        c[k] = if k == 0 { p } else { -a[k - 1] / (k + 1) as f64 };
    }
    c
}

/// l₁ … l_N with log(1 + Σ aₖdᵏ) = Σ lₖdᵏ: k·lₖ = k·aₖ − Σ_{j<k} j·lⱼ·aₖ₋ⱼ.
pub fn log_of_series<const N: usize>(a: [f64; N]) -> [f64; N] {
    let mut l = a;
    for k in 1..N {
        let sum: f64 = (0..k).map(|j| (j + 1) as f64 * l[j] * a[k - 1 - j]).sum();
        l[k] -= sum / (k + 1) as f64;
    }
    l
}

/// eˣ − 1 − x, which is x²/2 near zero.
pub fn expm1_minus_x(x: f64) -> f64 {
    if x.abs() > 0.5 {
        return x.exp_m1() - x;
    }
    let (mut term, mut sum) = (0.5 * x * x, 0.0);
    for k in 3..20 {
        sum += term;
        term *= x / k as f64;
    }
    sum
}

/// log(1 + x) − x, which is −x²/2 near zero.
pub fn log1p_minus_x(x: f64) -> f64 {
    if !(-0.3..=0.4).contains(&x) {
        return x.ln_1p() - x;
    }
    // log(1+x) = 2·atanh(s) with s = x/(2+x), and 2s − x = −x·s.
    let s = x / (2.0 + x);
    let square = s * s;
    let tail = (1..14).rev().fold(0.0, |sum, k| square * (sum + 1.0 / (2 * k + 1) as f64));
    2.0 * s * tail - x * s
}

/// log y! = log Γ(y + 1), for y ≥ 0, by Stirling's series above 15 and the recurrence below.
pub fn ln_factorial(y: f64) -> f64 {
    if y == 0.0 || y == 1.0 {
        return 0.0;
    }
    let (mut x, mut product) = (y + 1.0, 1.0);
    while x < 15.0 {
        product *= x;
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = [-691.0 / 360_360.0, 1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0]
        .into_iter()
        .fold(0.0, |sum, c| sum * square + c)
        * inverse;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series - f64::ln(product)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64, tolerance: f64) -> bool {
        got == want || (got - want).abs() <= tolerance * want.abs()
    }

    #[test]
    fn factorials() {
        let mut sum = 0.0;
        for y in 1..200_000 {
            sum += f64::ln(y as f64);
            assert!(close(ln_factorial(y as f64), sum, 1e-12), "{y}");
        }
        // log(1e6!), to all digits.
        assert!(close(ln_factorial(1e6), 12_815_518.384_658_169, 1e-15));
        // Γ(3/2) = √π/2.
        assert!(close(ln_factorial(0.5), (0.5 * PI.sqrt()).ln(), 1e-13));
    }

    #[test]
    fn remainders() {
        for x in [0.4999, -0.4999, 0.39, -0.29, 0.1, -0.1, 1e-3] {
            assert!(close(expm1_minus_x(x), x.exp_m1() - x, 1e-12), "{x}");
            assert!(close(log1p_minus_x(x), x.ln_1p() - x, 1e-12), "{x}");
        }
        assert!(close(expm1_minus_x(1e-9), 0.5e-18, 1e-8));
        assert!(close(log1p_minus_x(1e-9), -0.5e-18, 1e-8));
    }

    #[test]
    fn series() {
        let sum = |c: [f64; 7], d: f64| d * c.into_iter().rev().fold(0.0, |sum, c| sum * d + c);
        for t in [-50.0, -3.0, -0.4, 0.0, 0.7, 2.0, 50.0, 700.0] {
            for d in [-0.25, -1e-3, 1e-9, 0.1, 0.25] {
                let want = log_sigmoid_difference(t, d);
                assert!(close(sum(log_sigmoid_series(t), d), want, 3e-8), "{t} {d}");
            }
        }
        let factorials = [1.0, 2.0, 6.0, 24.0, 120.0, 720.0, 5040.0];
        let logarithm = log_of_series(factorials.map(|f| 1.0 / f));
        assert!(logarithm[1..].iter().all(|l| l.abs() < 1e-16) && logarithm[0] == 1.0);
    }

    #[test]
    fn differences_of_log_sigmoid() {
        for t in [-1e3, -700.0, -50.0, -3.0, -0.1, 0.0, 0.1, 3.0, 50.0, 700.0, 1e3] {
            for d in [1e-9, 1e-3, 0.9, 1.1, 40.0, 290.0, 310.0, 999.0, 1001.0, 5e3] {
                for d in [d, -d] {
                    let got = log_sigmoid_difference(t, d);
                    let plain = softplus(-t) - softplus(-t - d);
                    // The plain form also rounds t + d.
                    let noise =
                        1e-15 * (1.0 + t.abs()) * softplus(-t).max(softplus(-t - d)).min(1.0 + t.abs());
                    assert!(
                        (got - plain).abs() <= 1e-13 * plain.abs() + noise + 1e-300,
                        "{t} {d}: {got} {plain}"
                    );
                }
            }
            // The derivative is σ(−t).
            assert!(close(log_sigmoid_difference(t, 1e-9), 1e-9 * sigmoid(-t), 1e-8), "{t}");
        }
    }
}
