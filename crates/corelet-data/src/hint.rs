//! Advice that comes with an error, in terms of settings: how a setting is spelled belongs to each front end.

/// The words to add where a name is not known and one that is resembles it: ` (did you mean 'poisson'?)`, or none.
pub fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let plain = |text: &str| text.to_lowercase().replace(['_', ' '], "-");
    let name = plain(name);
    let near = known.min_by_key(|known| distance(&name, &plain(known)));
    let near = near.filter(|near| distance(&name, &plain(near)) <= 1 + name.chars().count() / 4);
    near.map_or_else(String::new, |near| format!(" (did you mean '{near}'?)"))
}

/// Letters to add, to leave out or to replace on the way from one name to another.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut line: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut before = std::mem::replace(&mut line[0], i + 1);
        for (j, other) in to.iter().enumerate() {
            let replaced = before + usize::from(letter != *other);
            before = line[j + 1];
            line[j + 1] = replaced.min(before + 1).min(line[j] + 1);
        }
    }
    line[to.len()]
}

/// A setting that may help, and what it would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The name of the setting, in snake case.
    pub setting: &'static str,
    /// The value to give it; a switch has none.
    pub value: Option<String>,
    /// The effect of the setting, as the rest of a sentence: `leaves those rows out`.
    pub effect: &'static str,
}

impl Hint {
    /// A switch.
    pub fn switch(setting: &'static str, effect: &'static str) -> Self {
        Self { setting, value: None, effect }
    }

    /// A setting with a value.
    pub fn value(setting: &'static str, value: impl Into<String>, effect: &'static str) -> Self {
        Self { setting, value: Some(value.into()), effect }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_where_it_is_near() {
        let models = ["logistic", "poisson", "negative-binomial"];
        let near = |name: &str| did_you_mean(name, models.into_iter());
        assert_eq!(near("poison"), " (did you mean 'poisson'?)");
        assert_eq!(near("Negative_Binomal"), " (did you mean 'negative-binomial'?)");
        assert_eq!(near("probit"), "");
        assert_eq!(did_you_mean("x", std::iter::empty()), "");
    }
}
