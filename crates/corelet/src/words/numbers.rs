//! Numbers and judgements as people read them.

/// Three digits, in plain notation where that is short.
pub fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".to_owned(),
        a if !a.is_finite() => "-".to_owned(),
        a if !(0.01..1e5).contains(&a) => format!("{x:.1e}"),
        a if a < 1.0 => trimmed(&format!("{x:.3}")),
        a if a < 100.0 => trimmed(&format!("{x:.2}")),
        _ => format!("{x:.0}"),
    }
}

fn trimmed(text: &str) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A share as a percentage with three digits: 97.7 %.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        p if !p.is_finite() => "-".to_owned(),
        p if p >= 99.95 => "100 %".to_owned(),
        p if p >= 10.0 => format!("{p:.1} %"),
        p => format!("{} %", number(p)),
    }
}

/// A number, or a dash where there is none.
pub fn optional(x: Option<f64>) -> String {
    x.map_or_else(|| "-".to_owned(), number)
}

/// 1234567 as 1 234 567.
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// So many of something: `1 row`, `1 200 rows`.
pub fn plural(n: usize, thing: &str) -> String {
    format!("{} {thing}{}", count(n), if n == 1 { "" } else { "s" })
}

/// So many points.
pub(super) fn points(n: usize) -> String {
    plural(n, "point")
}

/// Seconds as people say them.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.0995 => format!("{:.0} ms", 1e3 * s),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// What a divergence of so many nats means. A Gaussian moved by δ of its standard deviations diverges by δ²/2.
pub fn judgement(nats: f64) -> String {
    let moved = (2.0 * nats.max(0.0)).sqrt();
    let verdict = match nats {
        x if x < 1e-2 => "practically the same posterior",
        x if x < 0.1 => "a close posterior",
        x if x < 1.0 => "a rough posterior; more points would help",
        _ => "a different posterior; more points are needed",
    };
    format!("{verdict}, like moving one parameter by {} of its standard deviation", number(moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (x, text) in
            [(0.0, "0"), (3.71e-4, "3.7e-4"), (0.5, "0.5"), (12.0, "12"), (31.25, "31.25"), (450.4, "450")]
        {
            assert_eq!(number(x), text);
        }
        assert_eq!(number(f64::NAN), "-");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(count(12), "12");
        assert_eq!((plural(1, "row"), plural(1200, "row")), ("1 row".to_owned(), "1 200 rows".to_owned()));
        assert_eq!(duration(0.012), "12 ms");
        assert_eq!(duration(75.0), "75 s");
    }

    #[test]
    fn judgements_grow_worse() {
        assert!(judgement(1e-4).starts_with("practically the same"));
        assert!(judgement(0.5).contains("by 1 of its standard deviation"));
        assert!(judgement(3.0).contains("different"));
    }
}
