//! Random effects as they are asked for: by which column, of what, and under which priors.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::SdPrior;
use crate::model::mixed::MOST_EFFECTS;

/// The random effects of one grouping column: `customer`, `customer: 1 + price`, or as lme4 writes it `1 + price | customer`; with
/// `||` the effects are independent. `school:class` are the groups of those who share both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RandomEffects {
    /// The column whose values tell the groups apart, or several of them with colons between.
    pub group: String,
    /// Whether every group has an intercept of its own.
    pub intercept: bool,
    /// The features of which every group has a slope of its own.
    pub slopes: Vec<String>,
    /// Whether the effects of a group may be correlated.
    pub correlated: bool,
}

impl RandomEffects {
    /// Number of effects of a group.
    pub fn len(&self) -> usize {
        usize::from(self.intercept) + self.slopes.len()
    }

    /// The columns that tell the groups apart.
    pub fn columns(&self) -> Vec<&str> {
        self.group.split(':').map(str::trim).collect()
    }

    /// Whether it is an intercept and nothing else.
    pub fn is_intercept(&self) -> bool {
        self.intercept && self.slopes.is_empty()
    }

    /// True if there is none, which no text says.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What each effect is of: `1`, and the features.
    pub fn terms(&self) -> Vec<&str> {
        self.intercept.then_some("1").into_iter().chain(self.slopes.iter().map(String::as_str)).collect()
    }

    /// Whether there is a correlation to be estimated.
    pub fn has_correlation(&self) -> bool {
        self.correlated && self.len() > 1
    }

    /// The names of the standard deviations, and of the correlation where there is one.
    pub fn names(&self) -> Vec<String> {
        let sds = self.terms().into_iter().map(|term| format!("{term}|{}_sigma", self.group));
        sds.chain(self.has_correlation().then(|| format!("{}_corr", self.group))).collect()
    }
}

impl fmt::Display for RandomEffects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bar = if self.correlated || self.len() < 2 { "|" } else { "||" };
        let zero = if self.intercept { "" } else { "0 + " };
        write!(f, "{zero}{} {bar} {}", self.terms().join(" + "), self.group)
    }
}

impl From<RandomEffects> for String {
    fn from(effects: RandomEffects) -> Self {
        effects.to_string()
    }
}

impl TryFrom<String> for RandomEffects {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for RandomEffects {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |why: &str| {
            Err(format!(
                "'{}' does not say which random effects are meant: {why}; write 'customer', 'customer: 1 + price' or \
                 '1 + price | customer', and || for independent effects",
                text.trim()
            ))
        };
        let inner = text.trim();
        let inner = inner.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(inner);
        let (terms, group, correlated) = if let Some((terms, group)) = inner.split_once("||") {
            (terms, group, false)
        } else if let Some((terms, group)) = inner.split_once('|') {
            (terms, group, true)
        } else if let Some((group, terms)) = inner.split_once(": ") {
            (terms, group, true)
        } else {
            ("1", inner, true)
        };
        let group = group.trim();
        if group.is_empty() {
            return refused("no column of groups is named");
        }
        if group.contains('/') {
            return refused("nested groups are several factors");
        }
        if group.contains('|') {
            return refused("it has a bar too many; several terms stand in brackets with + between");
        }
        if group.split(':').any(|column| column.trim().is_empty()) {
            return refused("a column beside the colon is not named");
        }
        let (mut intercept, mut slopes) = (true, Vec::new());
        for term in terms.split('+').map(str::trim) {
            match term {
                "1" => intercept = true,
                "0" | "-1" => intercept = false,
                "" => return refused("a term is empty"),
                name if name.contains([':', '*']) => {
                    return refused("a random slope is of one feature; give the product a column of its own");
                }
                name if slopes.iter().any(|known| known == name) => return refused("a slope is named twice"),
                name => slopes.push(name.to_owned()),
            }
        }
        let effects = Self { group: group.to_owned(), intercept, slopes, correlated };
        match effects.len() {
            0 => refused("there is neither an intercept nor a slope"),
            count if count > MOST_EFFECTS => refused(&format!(
                "a group has {count} effects, of which at most {MOST_EFFECTS} can be integrated out"
            )),
            _ => Ok(effects),
        }
    }
}

/// The random effects of one or several factors: `(1 + price | customer) + (1 | product)`, or nested ones, where
/// `1 | school/class` is `(1 | school) + (1 | school:class)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RandomTerms(Vec<RandomEffects>);

impl RandomTerms {
    /// The terms in their order, each of another factor.
    pub fn terms(&self) -> &[RandomEffects] {
        &self.0
    }

    /// All terms of several.
    ///
    /// # Errors
    /// If a factor stands in two of them.
    pub fn joined(all: &[Self]) -> Result<Option<Self>, String> {
        if all.is_empty() {
            Ok(None)
        } else {
            Self::of(all.iter().flat_map(|terms| terms.0.clone()).collect()).map(Some)
        }
    }

    /// The columns of all factors, each once.
    pub fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = Vec::new();
        for column in self.0.iter().flat_map(RandomEffects::columns) {
            if !columns.iter().any(|known| known == column) {
                columns.push(column.to_owned());
            }
        }
        columns
    }

    fn of(terms: Vec<RandomEffects>) -> Result<Self, String> {
        let twice = terms
            .iter()
            .enumerate()
            .find(|(at, term)| terms[..*at].iter().any(|known| known.group == term.group));
        match twice {
            Some((_, RandomEffects { group, .. })) => Err(format!(
                "the random effects of '{group}' stand in several terms: write one, '1 + x | {group}', or with || for independent effects"
            )),
            None => Ok(Self(terms)),
        }
    }
}

impl fmt::Display for RandomTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = &self.0[..] {
            return one.fmt(f);
        }
        let terms: Vec<String> = self.0.iter().map(|term| format!("({term})")).collect();
        f.write_str(&terms.join(" + "))
    }
}

impl From<RandomTerms> for String {
    fn from(terms: RandomTerms) -> Self {
        terms.to_string()
    }
}

impl TryFrom<String> for RandomTerms {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for RandomTerms {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        let mut left = text.trim();
        while let Some((inside, after)) = left.strip_prefix('(').and_then(|left| left.split_once(')')) {
            terms.extend(expanded(inside)?);
            left = after.trim_start();
            match left.strip_prefix('+') {
                Some(next) => left = next.trim_start(),
                None => break,
            }
        }
        if terms.is_empty() {
            return Self::of(expanded(text)?);
        }
        if !left.is_empty() {
            return Err(format!(
                "'{}' does not say which random effects are meant: '{left}' stands outside of brackets; write \
                 '(1 | customer) + (1 | product)'",
                text.trim()
            ));
        }
        Self::of(terms)
    }
}

/// A term, or of nested groups `a/b` those of `a` and of `a:b`.
fn expanded(text: &str) -> Result<Vec<RandomEffects>, String> {
    let bar = text.rfind('|').map_or(0, |at| at + 1);
    // Without a bar the group comes first, 'school/class: 1 + x'.
    let end = if bar == 0 { text.find(": ").unwrap_or(text.len()) } else { text.len() };
    let (before, group, after) = (&text[..bar], &text[bar..end], &text[end..]);
    let mut inner = String::new();
    let mut terms = Vec::new();
    for part in group.split('/') {
        inner = if inner.is_empty() { part.trim().to_owned() } else { format!("{inner}:{}", part.trim()) };
        terms.push(format!("{before} {inner}{after}").parse()?);
    }
    Ok(terms)
}

/// A mixed model as it is asked for.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `random` | none | the random effects: see [`RandomTerms`] | |
/// | `sd_prior` | `half_normal(2.5)`, times the standard deviation of the target where the model has its scale | the prior of each standard deviation, of a slope for one standard deviation of its feature | see [`SdPrior`] |
/// | `lkj` | 1 | η of the LKJ prior of the correlation, uniform for 1 | > 0 |
/// | `nodes` | chosen by a comparison of two rules | nodes of the quadrature along each random effect; below 3 the gradient is not that of the integral | 3 … 61 |
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MixedSpecification {
    /// The random effects.
    pub random: Option<RandomTerms>,
    /// The prior of their standard deviations.
    pub sd_prior: Option<SdPrior>,
    /// η of the prior of their correlation.
    pub lkj: Option<f64>,
    /// Nodes along each effect.
    pub nodes: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_read_as_they_are_written() {
        for (text, said, names) in [
            ("customer", "1 | customer", vec!["1|customer_sigma"]),
            (
                "customer: 1 + price",
                "1 + price | customer",
                vec!["1|customer_sigma", "price|customer_sigma", "customer_corr"],
            ),
            (
                "(1 + price || customer)",
                "1 + price || customer",
                vec!["1|customer_sigma", "price|customer_sigma"],
            ),
            (
                "price | customer",
                "1 + price | customer",
                vec!["1|customer_sigma", "price|customer_sigma", "customer_corr"],
            ),
            ("0 + price | g", "0 + price | g", vec!["price|g_sigma"]),
            (" 1 | my group ", "1 | my group", vec!["1|my group_sigma"]),
        ] {
            let effects: RandomEffects = text.parse().unwrap();
            assert_eq!(
                (effects.to_string().as_str(), effects.names()),
                (said, names.into_iter().map(String::from).collect())
            );
            assert_eq!(effects.to_string().parse(), Ok(effects));
        }
        for (text, why) in [
            ("", "no column of groups"),
            ("1 |", "no column of groups"),
            ("0 | g", "neither an intercept nor a slope"),
            ("g: 1 + a + b", "at most 2"),
            ("1 | school/class", "several factors"),
            ("1 | a | b", "a bar too many"),
            ("1 | a:", "beside the colon"),
            ("1 + a:b | g", "a column of its own"),
            ("g: a + a", "named twice"),
            ("g: 1 +", "a term is empty"),
        ] {
            let refused = text.parse::<RandomEffects>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn several_factors_are_read_and_nested_ones_are_several() {
        for (text, said) in [
            ("customer", "1 | customer"),
            ("(1 | customer) + (1 | product)", "(1 | customer) + (1 | product)"),
            ("(1 + x || a)+( 1|b )", "(1 + x || a) + (1 | b)"),
            ("1 | school/class", "(1 | school) + (1 | school:class)"),
            ("school/class: 1 + x", "(1 + x | school) + (1 + x | school:class)"),
            ("(1 | a/b/c) + (1 | d)", "(1 | a) + (1 | a:b) + (1 | a:b:c) + (1 | d)"),
            ("(1 + x | school:class)", "1 + x | school:class"),
        ] {
            let terms: RandomTerms = text.parse().unwrap();
            assert_eq!(terms.to_string(), said);
            assert_eq!(terms.to_string().parse(), Ok(terms));
        }
        let nested: RandomTerms = "1 | school/class".parse().unwrap();
        assert_eq!(nested.columns(), ["school", "class"]);
        for (text, why) in [
            ("(1 | a) + (0 + x | a)", "stand in several terms"),
            ("(1 | a) + 1 | b", "outside of brackets"),
            ("(1 | a) (1 | b)", "outside of brackets"),
            ("(1 | a/)", "beside the colon"),
        ] {
            let refused = text.parse::<RandomTerms>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
