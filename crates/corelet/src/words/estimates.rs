//! Tables of estimates: as many digits as the standard deviation asks for, one format a row, no wider than there is room.

/// What is known of one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Name of the parameter.
    pub name: String,
    /// Mean, standard deviation, and the ends of the 90 % interval.
    pub figures: [f64; 4],
    /// R̂ and the effective sample size, where chains say it of this parameter.
    pub chains: Option<(f64, f64)>,
}

/// The heads of such a table.
pub const HEADS: [&str; 6] = ["", "mean", "sd", "90 % interval", "R-hat", "ESS"];

/// Numbers with more decimals than this, or larger ones, are written with an exponent.
const MOST_DECIMALS: i32 = 6;
const LARGE: f64 = 1e7;

/// The figures as text: two digits of the standard deviation, and as many decimals of the others. A row with a number that is too small
/// or too large for plain notation is written with exponents.
pub fn figures(rows: &[[f64; 4]]) -> Vec<[String; 4]> {
    let plain = |row: &[f64; 4]| {
        decimals(row) <= MOST_DECIMALS && row.iter().all(|x| !x.is_finite() || x.abs() < LARGE)
    };
    rows.iter().map(|row| row.map(|x| figure(x, decimals(row), plain(row)))).collect()
}

/// Decimals that show two digits of the standard deviation; of the mean, where there is none.
fn decimals([mean, sd, ..]: &[f64; 4]) -> i32 {
    let size = [sd, mean].into_iter().map(|x| x.abs()).find(|x| *x > 0.0 && x.is_finite());
    size.map_or(0, |size| {
        // 0.0996 is shown as 0.100, which has the digits of 0.1.
        let magnitude = (size * (1.0 + 5e-3)).log10().floor() as i32;
        1 - magnitude
    })
}

fn figure(x: f64, decimals: i32, plain: bool) -> String {
    if !x.is_finite() {
        return "-".to_owned();
    }
    if plain {
        return unsigned_zero(format!("{x:.*}", decimals.max(0) as usize));
    }
    let magnitude = if x == 0.0 { 0 } else { x.abs().log10().floor() as i32 };
    format!("{x:.*e}", (magnitude + decimals).clamp(0, 15) as usize)
}

/// −0.00 is 0.00.
fn unsigned_zero(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
        _ => text,
    }
}

/// A line of cells for each parameter, as [`HEADS`] names them.
pub fn cells(estimates: &[Estimate]) -> Vec<[String; 6]> {
    let rows: Vec<[f64; 4]> = estimates.iter().map(|estimate| estimate.figures).collect();
    let of = |(estimate, [mean, sd, low, high]): (&Estimate, [String; 4])| {
        let (r_hat, ess) = estimate.chains.map_or_else(Default::default, |(r_hat, ess)| {
            let ess = if ess.is_finite() { format!("{ess:.0}") } else { "-".to_owned() };
            (if r_hat.is_finite() { format!("{r_hat:.3}") } else { "-".to_owned() }, ess)
        });
        [estimate.name.clone(), mean, sd, format!("{low} to {high}"), r_hat, ess]
    };
    estimates.iter().zip(figures(&rows)).map(of).collect()
}

/// The table in lines, the heads first. Where `width` is too little the last columns go, and then the ends of long names.
pub fn table(estimates: &[Estimate], width: Option<usize>) -> Vec<String> {
    let lines: Vec<[String; 6]> = std::iter::once(HEADS.map(str::to_owned)).chain(cells(estimates)).collect();
    let widths: [usize; 6] =
        std::array::from_fn(|j| lines.iter().map(|line| line[j].chars().count()).max().unwrap_or(0));
    let width = width.unwrap_or(usize::MAX);
    let taken = |columns: usize| widths[1..columns].iter().map(|width| width + 2).sum::<usize>();
    let columns = [6, 5].into_iter().find(|&columns| widths[0] + taken(columns) <= width).unwrap_or(4);
    let name = widths[0].min(width.saturating_sub(taken(columns)).max(SHORTEST_NAME));
    let line = |cells: &[String; 6]| {
        let mut text = format!("{:name$}", shortened(&cells[0], name));
        for (cell, width) in cells[1..columns].iter().zip(&widths[1..]) {
            text += &format!("  {cell:>width$}");
        }
        text.trim_end().to_owned()
    };
    lines.iter().map(line).collect()
}

/// Names are not cut further than this.
const SHORTEST_NAME: usize = 8;

fn shortened(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    name.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(row: [f64; 4]) -> [String; 4] {
        figures(&[row]).remove(0)
    }

    #[test]
    fn digits_come_from_the_standard_deviation() {
        assert_eq!(
            texts([-0.033_812, 0.000_162, -0.034_08, -0.033_54]),
            ["-0.03381", "0.00016", "-0.03408", "-0.03354"]
        );
        assert_eq!(texts([5.64e-4, 7.7e-5, 4.37e-4, 6.9e-4])[..2], ["0.000564", "0.000077"]);
        assert_eq!(
            texts([-9.04e-6, 3.02e-6, -1.393e-5, -4.1e-6]),
            ["-9.0e-6", "3.0e-6", "-1.39e-5", "-4.1e-6"]
        );
        assert_eq!(texts([1631.2, 123.4, 1428.1, 1834.2]), ["1631", "123", "1428", "1834"]);
        assert_eq!(texts([0.5, 0.0996, 0.0, 1.0]), ["0.50", "0.10", "0.00", "1.00"]);
        assert_eq!(texts([-0.0001, 0.1, -0.2, 0.2]), ["0.00", "0.10", "-0.20", "0.20"]);
        assert_eq!(texts([1.0, 0.0, 1.0, f64::NAN]), ["1.0", "0.0", "1.0", "-"]);
    }

    #[test]
    fn a_row_has_one_format() {
        let both = figures(&[[1.5, 0.1, 1.3, 1.7], [2.5e-9, 1.2e-10, 2.3e-9, 2.7e-9]]);
        assert_eq!(both[0], ["1.50", "0.10", "1.30", "1.70"]);
        assert_eq!(both[1], ["2.50e-9", "1.2e-10", "2.30e-9", "2.70e-9"]);
    }

    #[test]
    fn tables_fit() {
        let estimate = |name: &str| Estimate {
            name: name.to_owned(),
            figures: [-0.5, 0.01, -0.52, -0.48],
            chains: Some((1.0012, 3999.7)),
        };
        let both = [estimate("(intercept)"), estimate("a rather long name of a column=level")];
        let whole = table(&both, None);
        assert!(whole[0].contains("90 % interval  R-hat   ESS"), "{whole:?}");
        assert!(whole[1].ends_with("-0.500  0.010  -0.520 to -0.480  1.001  4000"), "{whole:?}");
        for width in [70, 60, 50, 42] {
            let lines = table(&both, Some(width));
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:?}");
            assert!(lines[2].starts_with("a ") && lines[2].contains("-0.520 to -0.480"), "{lines:?}");
        }
        assert!(table(&both, Some(50))[2].contains('…'));
    }
}
