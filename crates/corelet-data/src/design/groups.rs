//! Which group each observation belongs to.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::scan::view::ValuesView;

/// Observations in groups (all visits of a patient), numbered from 0 in the order in which they first come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// The observations, group by group, ascending within each.
    members: Vec<usize>,
    /// Where each group begins among them, and where the last one ends.
    starts: Vec<usize>,
}

impl Groups {
    /// From the name of each observation's group.
    pub fn of_names<S: AsRef<str>>(names: &[S]) -> Self {
        let mut grouping = Grouping::default();
        names.iter().for_each(|name| grouping.add_name(name.as_ref()));
        grouping.finish().groups
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// True if there is no group, since there is no observation.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The group of each observation.
    pub fn codes(&self) -> Vec<u32> {
        let mut codes = vec![0; self.members.len()];
        for group in 0..self.len() {
            self.members(group).iter().for_each(|&observation| codes[observation] = group as u32);
        }
        codes
    }

    /// The observations, group by group, and where each group begins among them and the last one ends.
    pub fn into_order(self) -> (Vec<usize>, Vec<usize>) {
        (self.members, self.starts)
    }

    /// The observations of a group, ascending.
    pub fn members(&self, group: usize) -> &[usize] {
        &self.members[self.starts[group]..self.starts[group + 1]]
    }
}

/// Groups, and what they are called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedGroups {
    /// The groups.
    pub groups: Groups,
    /// The name of each.
    pub names: Vec<String>,
}

impl NamedGroups {
    /// The groups of those that are in one group of each, `a:b` by name.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut pairs: HashMap<(u32, u32), usize> = HashMap::new();
        let mut grouping = Grouping::default();
        for pair in self.groups.codes().into_iter().zip(other.groups.codes()) {
            let next = pairs.len();
            let number = *pairs.entry(pair).or_insert(next);
            if number == next {
                grouping
                    .names
                    .push(format!("{}:{}", self.names[pair.0 as usize], other.names[pair.1 as usize]));
            }
            grouping.of.push(number);
        }
        grouping.finish()
    }

    /// The groups of some observations, given the group of each of them, see [`Groups::codes`].
    #[must_use]
    pub fn of_some(&self, codes: &[u32]) -> Self {
        let mut known: HashMap<u32, usize> = HashMap::new();
        let mut grouping = Grouping::default();
        for &code in codes {
            let next = known.len();
            let number = *known.entry(code).or_insert(next);
            if number == next {
                grouping.names.push(self.names[code as usize].clone());
            }
            grouping.of.push(number);
        }
        grouping.finish()
    }
}

/// Groups in the making, by what their cells say.
#[derive(Debug, Default)]
pub(crate) struct Grouping {
    of: Vec<usize>,
    names: Vec<String>,
    known: HashMap<String, usize>,
}

impl Grouping {
    /// Adds these rows of a batch.
    pub(crate) fn add(&mut self, cells: &ValuesView<'_>, rows: &[usize]) {
        rows.iter().for_each(|&row| self.add_name(&cell_text(cells, row)));
    }

    /// Adds a later part of the same rows.
    pub(crate) fn append(&mut self, next: &Self) {
        let numbers: Vec<usize> = next.names.iter().map(|name| self.number(name)).collect();
        self.of.extend(next.of.iter().map(|&group| numbers[group]));
    }

    fn add_name(&mut self, name: &str) {
        let group = self.number(name);
        self.of.push(group);
    }

    fn number(&mut self, name: &str) -> usize {
        if let Some(&group) = self.known.get(name) {
            return group;
        }
        let group = self.names.len();
        self.names.push(name.to_owned());
        self.known.insert(name.to_owned(), group);
        group
    }

    /// The groups, by counting.
    pub(crate) fn finish(self) -> NamedGroups {
        let mut starts = vec![0; self.names.len() + 1];
        self.of.iter().for_each(|&group| starts[group + 1] += 1);
        (0..self.names.len()).for_each(|group| starts[group + 1] += starts[group]);
        let mut next = starts.clone();
        let mut members = vec![0; self.of.len()];
        for (observation, &group) in self.of.iter().enumerate() {
            members[next[group]] = observation;
            next[group] += 1;
        }
        NamedGroups { groups: Groups { members, starts }, names: self.names }
    }
}

/// A cell that is not missing, as text: the same text is the same group. Formats that know nothing but numbers give numbers.
fn cell_text<'a>(cells: &ValuesView<'a>, row: usize) -> Cow<'a, str> {
    match *cells {
        ValuesView::Text { codes, levels } => {
            levels.get(codes[row] as usize).map_or(Cow::Borrowed(""), |level| Cow::Borrowed(level.as_str()))
        }
        ValuesView::Number { values, .. } => Cow::Owned(values.text(row)),
        ValuesView::Bool(values) => Cow::Borrowed(if values[row] == Some(true) { "true" } else { "false" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_numbered_as_they_come_and_parts_add_up() {
        let names = ["b", "a", "b", "c", "a"];
        let groups = Groups::of_names(&names);
        assert_eq!((groups.len(), groups.is_empty()), (3, false));
        assert_eq!(
            (groups.members(0), groups.members(1), groups.members(2)),
            (&[0, 2][..], &[1, 4][..], &[3][..])
        );
        for cut in 0..=names.len() {
            let mut all = Grouping::default();
            for part in [&names[..cut], &names[cut..]] {
                let mut next = Grouping::default();
                part.iter().for_each(|name| next.add_name(name));
                all.append(&next);
            }
            let named = all.finish();
            assert_eq!(
                (named.groups, &named.names[..]),
                (groups.clone(), &["b", "a", "c"].map(String::from)[..]),
                "{cut}"
            );
        }
        assert!(Groups::of_names::<&str>(&[]).is_empty());
        assert_eq!(groups.codes(), [0, 1, 0, 2, 1]);
        let named = |names: &[&str]| {
            let mut grouping = Grouping::default();
            names.iter().for_each(|name| grouping.add_name(name));
            grouping.finish()
        };
        let both = named(&names).and(&named(&["x", "x", "y", "x", "x"]));
        assert_eq!(
            (&both.names[..], both.groups.codes()),
            (&["b:x", "a:x", "b:y", "c:x"].map(String::from)[..], vec![0, 1, 2, 3, 1])
        );
    }
}
