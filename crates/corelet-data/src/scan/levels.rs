//! The distinct values of a text column: the rows of each and where it is first, and whether they are really numbers.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::scan::place::{Extent, Place};
use crate::scan::sums::Tally;

/// More indicators than this from one column are a key or a free text, not a category.
pub(crate) const MAX_LEVELS: usize = 1000;

/// A column of which this share are numbers is a column of numbers.
const NEARLY_ALL: f64 = 0.9;

/// Distinct values in order of appearance, no more of them than are of use.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Levels {
    levels: Vec<Level>,
    /// Where each is among them; levels that have travelled are only appended to others, and need none.
    #[serde(skip)]
    index: HashMap<String, usize>,
    /// Cells of the column, by what they look like.
    numbers: usize,
    commas: usize,
    #[serde(default)]
    units: usize,
    others: usize,
    /// The first cells that are no numbers, that are numbers with a comma in them, and that are numbers with a unit.
    first_other: Option<(Place, String)>,
    first_comma: Option<(Place, String)>,
    #[serde(default)]
    first_unit: Option<(Place, String)>,
    /// Whether every comma stands before three digits, as between thousands.
    #[serde(default)]
    decimal_commas: bool,
    /// Whether some value was not kept.
    overflown: bool,
}

/// One distinct value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Level {
    pub(crate) text: String,
    pub(crate) rows: Tally,
    pub(crate) first: Place,
}

/// What is wrong with a column that was taken for text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotText {
    /// Nearly all of its cells are numbers; the first that is not.
    Numbers { place: Place, value: String, others: usize },
    /// Nearly all of its cells are numbers, some with a decimal comma; the first of these.
    DecimalCommas { place: Place, value: String },
    /// Nearly all of its cells are numbers, some with commas between thousands; the first of these.
    Thousands { place: Place, value: String },
    /// Nearly all of its cells are numbers, some with a per cent sign or a currency; the first of these.
    Units { place: Place, value: String },
    /// All of its cells are numbers, and not all of them whole ones without a sign, which may be codes; the first that is not.
    Quantities { place: Place, value: String },
}

impl Levels {
    /// Adds rows with this text, the first of them at `first`.
    pub(crate) fn add(&mut self, text: &str, rows: &Tally, first: Place) {
        let look = Look::of(text);
        let (cells, earliest) = match look {
            Look::Number => (&mut self.numbers, None),
            Look::DecimalComma | Look::Thousands => (&mut self.commas, Some(&mut self.first_comma)),
            Look::Unit => (&mut self.units, Some(&mut self.first_unit)),
            Look::Other => (&mut self.others, Some(&mut self.first_other)),
        };
        self.decimal_commas |= matches!(look, Look::DecimalComma);
        *cells += rows.rows;
        if let Some(earliest) = earliest
            && earliest.as_ref().is_none_or(|(place, _)| first < *place)
        {
            *earliest = Some((first, text.to_owned()));
        }
        match self.index.get(text) {
            Some(&i) => self.levels[i].rows.merge(rows),
            None if self.levels.len() > MAX_LEVELS => self.overflown = true,
            None => {
                self.index.insert(text.to_owned(), self.levels.len());
                self.levels.push(Level { text: text.to_owned(), rows: *rows, first });
            }
        }
    }

    /// Adds those of a later part of the file, which begins after `before`.
    pub(crate) fn append(&mut self, next: &Self, before: Extent) {
        let counts = |levels: &Self| [levels.numbers, levels.commas, levels.units, levels.others];
        let (mine, theirs) = (counts(self), counts(next));
        for level in &next.levels {
            self.add(&level.text, &level.rows, level.first.after(before));
        }
        // Values that were not kept count as well.
        [self.numbers, self.commas, self.units, self.others] = std::array::from_fn(|i| mine[i] + theirs[i]);
        self.overflown |= next.overflown;
        self.decimal_commas |= next.decimal_commas;
        let earlier = |mine: &mut Option<(Place, String)>, theirs: &Option<(Place, String)>| {
            if mine.is_none() {
                *mine = theirs.as_ref().map(|(place, text)| (place.after(before), text.clone()));
            }
        };
        earlier(&mut self.first_comma, &next.first_comma);
        earlier(&mut self.first_unit, &next.first_unit);
        earlier(&mut self.first_other, &next.first_other);
    }

    /// The values, sorted; more than [`MAX_LEVELS`] of them only where there are too many.
    pub(crate) fn sorted(&self) -> Vec<&Level> {
        let mut sorted: Vec<&Level> = self.levels.iter().collect();
        sorted.sort_unstable_by(|a, b| a.text.cmp(&b.text));
        sorted
    }

    /// Whether there are more than can be told apart.
    pub(crate) fn too_many(&self) -> bool {
        self.overflown || self.levels.len() > MAX_LEVELS
    }

    /// Whether every cell is a number.
    pub(crate) fn are_numbers(&self) -> bool {
        self.numbers > 0 && self.commas + self.units + self.others == 0
    }

    /// Whether every value begins with a date, such as 2020-01-31 or 31.1.2020.
    pub(crate) fn are_dates(&self) -> bool {
        !self.levels.is_empty() && self.levels.iter().all(|level| is_date(&level.text))
    }

    /// Whether this is a column of numbers: with some cells that are none, or with quantities in every cell.
    pub(crate) fn check_text(&self) -> Result<(), NotText> {
        let total = (self.numbers + self.commas + self.units + self.others) as f64;
        let nearly = |cells: usize| cells as f64 >= NEARLY_ALL * total;
        let quantities = self.numbers + self.commas + self.units;
        if let Some((place, value)) = self.first_unit.clone().filter(|_| nearly(quantities)) {
            return Err(NotText::Units { place, value });
        }
        if let Some((place, value)) = self.first_comma.clone().filter(|_| nearly(self.numbers + self.commas))
        {
            return Err(match self.decimal_commas {
                true => NotText::DecimalCommas { place, value },
                false => NotText::Thousands { place, value },
            });
        }
        if self.are_numbers()
            && let Some(level) =
                self.levels.iter().filter(|level| !is_code(&level.text)).min_by_key(|level| level.first)
        {
            return Err(NotText::Quantities { place: level.first, value: level.text.clone() });
        }
        match self.first_other.clone() {
            Some((place, value)) if nearly(self.numbers) => {
                Err(NotText::Numbers { place, value, others: self.others })
            }
            _ => Ok(()),
        }
    }
}

/// What a cell looks like.
enum Look {
    Number,
    DecimalComma,
    Thousands,
    Unit,
    Other,
}

impl Look {
    fn of(text: &str) -> Self {
        let text = text.trim();
        if text.parse::<f64>().is_ok() {
            return Self::Number;
        }
        if without_unit(text).is_some() {
            return Self::Unit;
        }
        let text = text.trim_start_matches(['-', '+']);
        match text.split_once(',') {
            Some(_) if has_thousands(text) => Self::Thousands,
            Some((whole, part)) if is_digits(whole) && is_digits(part) => Self::DecimalComma,
            _ => Self::Other,
        }
    }
}

/// Signs and codes of currencies that tables have beside their numbers.
const CURRENCIES: [&str; 15] =
    ["$", "€", "£", "¥", "₹", "USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "CNY", "INR", "%"];

/// The plain number of a cell that is a percentage or an amount of money: 12.5 of `12.5%`, 1200.50 of `$1,200.50`.
pub(crate) fn without_unit(text: &str) -> Option<String> {
    let text = text.trim();
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let amount = CURRENCIES.iter().find_map(|unit| {
        let before = rest.strip_prefix(unit).filter(|_| *unit != "%");
        before.or_else(|| rest.strip_suffix(unit)).map(str::trim)
    })?;
    let (inner, digits) = amount.strip_prefix('-').map_or(("", amount), |rest| ("-", rest));
    let plain = match digits.rsplit_once(',') {
        None => digits.to_owned(),
        Some(_) if has_thousands(digits) => digits.replace(',', ""),
        Some((whole, part)) => format!("{}.{part}", whole.replace('.', "")),
    };
    let (whole, part) = plain.split_once('.').unwrap_or((&plain, "0"));
    (is_digits(whole) && is_digits(part) && (sign.is_empty() || inner.is_empty()))
        .then(|| format!("{sign}{inner}{plain}"))
}

/// 1,234,567 and 1,234.5: groups of three digits between commas.
fn has_thousands(text: &str) -> bool {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let mut groups = whole.split(',');
    let first = groups.next().is_some_and(|first| is_digits(first) && first.len() <= 3);
    first && is_digits(decimals) && groups.all(|group| is_digits(group) && group.len() == 3)
}

/// Whether a number may be the name of something: digits alone.
fn is_code(text: &str) -> bool {
    is_digits(text.trim())
}

/// Three groups of digits with the same sign between them, and perhaps a time of day after them.
fn is_date(text: &str) -> bool {
    let text = text.trim();
    let Some(sign) = text.chars().find(|c| !c.is_ascii_digit()).filter(|c| "-/.".contains(*c)) else {
        return false;
    };
    let mut parts = text.splitn(3, sign);
    let (Some(first), Some(second), Some(third)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let day = third.split([' ', 'T']).next().unwrap_or_default();
    let digits = |part: &str, most: usize| is_digits(part) && part.len() <= most;
    digits(first, 4) && digits(second, 2) && digits(day, 4)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(row: usize) -> Place {
        Place { row, line: None }
    }

    fn some(rows: usize) -> Tally {
        Tally::of_rows(rows)
    }

    #[test]
    fn dates_are_known() {
        for text in ["2020-01-31", "31.1.2020", "1/31/20", "2020-01-31 12:30:00", "2020-01-31T12:30Z"] {
            assert!(is_date(text), "{text}");
        }
        for text in ["2020", "1.5", "1-2", "a-1-2020", "1.2.3.4", "20200131-1-1", "192.168.0.1", ""] {
            assert!(!is_date(text), "{text}");
        }
    }

    #[test]
    fn parts_add_up() {
        let mut first = Levels::default();
        first.add("b", &some(2), at(0));
        first.add("a", &some(1), at(1));
        let mut second = Levels::default();
        second.add("c", &some(3), at(0));
        second.add("b", &some(1), at(4));
        first.append(&second, Extent { rows: 5, lines: 0 });
        let found: Vec<(&str, usize, usize)> = first
            .sorted()
            .iter()
            .map(|level| (level.text.as_str(), level.rows.rows, level.first.row))
            .collect();
        assert_eq!(found, [("a", 1, 1), ("b", 3, 0), ("c", 3, 5)]);
    }

    #[test]
    fn numbers_with_a_few_other_cells_are_no_text() {
        let mut levels = Levels::default();
        (0..499).for_each(|i| levels.add(&i.to_string(), &some(1), at(i)));
        assert_eq!(levels.check_text(), Ok(()));
        let mut next = Levels::default();
        next.add("N/A", &some(1), at(0));
        levels.append(&next, Extent { rows: 499, lines: 0 });
        let expected = NotText::Numbers { place: at(499), value: "N/A".to_owned(), others: 1 };
        assert_eq!(levels.check_text(), Err(expected));
        levels.add("x", &some(400), at(500));
        assert_eq!(levels.check_text(), Ok(()));
        let found = |cells: &[&str]| {
            let mut levels = Levels::default();
            cells.iter().enumerate().for_each(|(i, text)| levels.add(text, &some(1), at(i)));
            levels.check_text()
        };
        assert!(matches!(found(&["1,5", "-2,25", "3"]), Err(NotText::DecimalCommas { .. })));
        assert!(matches!(found(&["1,500", "2,25", "3"]), Err(NotText::DecimalCommas { .. })));
        for cells in [&["1,000", "12,345", "3"][..], &["999", "-1,234,567", "1,000.25"]] {
            assert!(matches!(found(cells), Err(NotText::Thousands { .. })), "{cells:?}");
        }
        for cells in [&["5%", "12.5 %", "0"][..], &["$1,200.50", "-$3", "€5"], &["12,5 EUR", "7 EUR"]] {
            let first = NotText::Units { place: at(0), value: cells[0].to_owned() };
            assert_eq!(found(cells), Err(first), "{cells:?}");
        }
        assert_eq!(found(&["5%", "half", "third", "7%"]), Ok(()));
        let quantities = NotText::Quantities { place: at(1), value: "-0.130".to_owned() };
        assert_eq!(found(&["1", "-0.130", "2.5"]), Err(quantities));
        assert_eq!(found(&["1", "007", "2"]), Ok(()));
    }

    #[test]
    fn a_number_is_known_beside_its_unit() {
        let known = [
            ("12.5%", "12.5"),
            ("-3 %", "-3"),
            ("$1,200.50", "1200.50"),
            ("$-4", "-4"),
            ("-€4", "-4"),
            ("1.200,50 €", "1200.50"),
            ("12,5%", "12.5"),
            ("CHF 7", "7"),
        ];
        for (text, number) in known {
            assert_eq!(without_unit(text).as_deref(), Some(number), "{text}");
        }
        for text in ["%", "$", "%5", "5", "a%", "5%%", "-$-5", "$1.2.3", "US5", "5 apples", "$1,2,3.4,5"] {
            assert_eq!(without_unit(text), None, "{text}");
        }
    }

    #[test]
    fn keys_are_counted_but_not_kept() {
        let mut levels = Levels::default();
        (0..5000).for_each(|i| levels.add(&format!("k{i}"), &some(1), at(i)));
        levels.add("k1", &some(1), at(6000));
        assert!(levels.too_many());
        assert_eq!((levels.levels.len(), levels.others), (MAX_LEVELS + 1, 5001));
    }
}
