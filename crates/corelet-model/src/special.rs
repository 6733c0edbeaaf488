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

/// Exponents from here on are held.
pub(super) const BOUND: f64 = 300.0;

/// eˣ, held between e⁻³⁰⁰ and e³⁰⁰: its square and what is multiplied with it stay finite.
pub fn bounded_exp(x: f64) -> f64 {
    x.clamp(-BOUND, BOUND).exp()
}

/// log y! = log Γ(y + 1), for y ≥ 0.
pub fn ln_factorial(y: f64) -> f64 {
    if y == 0.0 || y == 1.0 { 0.0 } else { ln_gamma(y + 1.0) }
}

/// log Γ(x), for x > 0, by Stirling's series above 15 and the recurrence below.
pub fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut product) = (x, 1.0);
    while x < 15.0 {
        product *= x;
        x += 1.0;
    }
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + stirling(x) - f64::ln(product)
}

/// What is left of log Γ(x) beside (x − ½) log x − x + ½ log 2π, for x ≥ 15.
pub(super) fn stirling(x: f64) -> f64 {
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    [-691.0 / 360_360.0, 1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0]
        .into_iter()
        .fold(0.0, |sum, c| sum * square + c)
        * inverse
}

/// What is left of ψ(x) beside log x − 1/(2x), for x ≥ 15.
pub(super) fn digamma_rest(x: f64) -> f64 {
    let square = (1.0 / x).powi(2);
    [691.0 / 32_760.0, -1.0 / 132.0, 1.0 / 240.0, -1.0 / 252.0, 1.0 / 120.0, -1.0 / 12.0]
        .into_iter()
        .fold(0.0, |sum, c| (sum + c) * square)
}

/// What is left of ψ′(x) beside 1/x + 1/(2x²), for x ≥ 15.
pub(super) fn trigamma_rest(x: f64) -> f64 {
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    [-691.0 / 2730.0, 5.0 / 66.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 1.0 / 6.0]
        .into_iter()
        .fold(0.0, |sum, c| (sum + c) * square)
        * inverse
}

/// ψ(x), the derivative of log Γ, for x > 0.
pub fn digamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 15.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    sum + x.ln() - 0.5 / x + digamma_rest(x)
}

/// ψ′(x), for x > 0.
pub fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 15.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    sum + 1.0 / x + 0.5 / (x * x) + trigamma_rest(x)
}

/// Splits Γ's rise by the count `y` from `x` into the steps below 15, which `step` sums, and the rest from there on.
fn steps(x: f64, y: f64, mut step: impl FnMut(f64)) -> (f64, f64) {
    let (mut x, mut left) = (x, y);
    while x < 15.0 && left > 0.0 {
        step(x);
        x += 1.0;
        left -= 1.0;
    }
    (x, left)
}

/// log Γ(x + y) − log Γ(x) for x > 0 and a count y, relatively precise also where x is large.
pub fn ln_gamma_rise(x: f64, y: f64) -> f64 {
    let mut product = 1.0;
    let (x, left) = steps(x, y, |x| product *= x);
    let below = f64::ln(product);
    if left == 0.0 {
        return below;
    }
    // (x + l − ½) log(1 + l/x) − l, where the two nearly cancel.
    let ratio = left / x;
    let curved = (x + left - 0.5) * log1p_minus_x(ratio) + (left - 0.5) * ratio;
    below + left * x.ln() + curved + stirling(x + left) - stirling(x)
}

/// ψ(x + y) − ψ(x) for x > 0 and a count y.
pub fn digamma_rise(x: f64, y: f64) -> f64 {
    let mut below = 0.0;
    let (x, left) = steps(x, y, |x| below += 1.0 / x);
    if left == 0.0 {
        return below;
    }
    let end = x + left;
    below + (left / x).ln_1p() + 0.5 * left / (x * end) + digamma_rest(end) - digamma_rest(x)
}

/// ψ′(x + y) − ψ′(x) for x > 0 and a count y.
pub fn trigamma_rise(x: f64, y: f64) -> f64 {
    let mut below = 0.0;
    let (x, left) = steps(x, y, |x| below -= 1.0 / (x * x));
    if left == 0.0 {
        return below;
    }
    let end = x + left;
    let squares = 0.5 * left * (x + end) / ((x * end) * (x * end));
    below - left / (x * end) - squares + trigamma_rest(end) - trigamma_rest(x)
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
    fn gamma_functions() {
        // Γ(½) = √π, ψ(1) = −γ, ψ(½) = −γ − 2 log 2, ψ′(1) = π²/6, ψ′(½) = π²/2.
        const EULER: f64 = 0.577_215_664_901_532_9;
        assert!(close(ln_gamma(0.5), 0.5 * PI.ln(), 1e-14));
        assert!(
            close(digamma(1.0), -EULER, 1e-14) && close(digamma(0.5), -EULER - 2.0 * 2.0_f64.ln(), 1e-14)
        );
        assert!(close(trigamma(1.0), PI * PI / 6.0, 1e-14) && close(trigamma(0.5), PI * PI / 2.0, 1e-14));
        for x in [1e-3, 0.7, 3.0, 14.5, 40.0, 1e4] {
            for y in [0.0, 1.0, 5.0, 30.0, 2000.0] {
                let noise = 1e-12;
                assert!(
                    (ln_gamma_rise(x, y) - (ln_gamma(x + y) - ln_gamma(x))).abs()
                        <= noise * (1.0 + ln_gamma(x + y).abs())
                );
                assert!(
                    (digamma_rise(x, y) - (digamma(x + y) - digamma(x))).abs()
                        <= noise * digamma(x).abs().max(1.0)
                );
                assert!(
                    (trigamma_rise(x, y) - (trigamma(x + y) - trigamma(x))).abs()
                        <= noise * trigamma(x).max(1.0)
                );
            }
        }
        // Far out Γ(x + y)/Γ(x) is xʸ, and its logarithm grows by y/x.
        assert!(close(ln_gamma_rise(1e60, 7.0), 7.0 * 1e60_f64.ln(), 1e-14));
        assert!(
            close(digamma_rise(1e60, 7.0), 7e-60, 1e-14) && close(trigamma_rise(1e60, 7.0), -7e-120, 1e-14)
        );
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
