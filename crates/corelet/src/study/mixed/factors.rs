//! The factors of a mixed model: the one whose effects are integrated out, and those whose effects are parameters.

use serde::{Deserialize, Serialize};

use super::StudyError;
use crate::data::NamedGroups;
use crate::mixed::{RandomEffects, RandomTerms};
use crate::model::BuiltIn;
use crate::model::mixed::{Kept, Mixed, Term};
use crate::words::count;

/// Levels, of all factors that are kept together, whose effects may be parameters.
pub const MOST_KEPT: usize = 300;

/// Which factor is integrated out, and which are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factors {
    /// The effects that are integrated out, of the factor with the most groups.
    pub integrated: RandomEffects,
    /// The others.
    pub kept: Vec<KeptFactor>,
}

/// A factor whose levels have an intercept each as a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFactor {
    /// What tells its levels apart.
    pub effects: RandomEffects,
    /// What these are called.
    pub labels: Vec<String>,
}

/// The factors, and which group and levels each observation has.
pub(super) struct Assigned {
    pub(super) factors: Factors,
    pub(super) groups: NamedGroups,
    /// Levels of each kept factor.
    pub(super) levels: Vec<Vec<u32>>,
}

/// The groups of a factor, given those by each column.
pub(super) fn groups_of(
    effects: &RandomEffects,
    columns: &[String],
    named: &[NamedGroups],
) -> Option<NamedGroups> {
    let by = |name: &str| columns.iter().position(|known| known == name).and_then(|at| named.get(at));
    let mut each = effects.columns().into_iter().map(by);
    let first = each.next()??.clone();
    each.try_fold(first, |all, next| Some(all.and(next?)))
}

impl Factors {
    /// The names of the standard deviations of the factors that are kept, and then of their effects.
    pub fn kept_names(&self) -> Vec<String> {
        let sds = self.kept.iter().flat_map(|kept| kept.effects.names());
        let effects = self.kept.iter().flat_map(|kept| {
            kept.labels.iter().map(move |label| format!("1|{}[{label}]", kept.effects.group))
        });
        sds.chain(effects).collect()
    }

    /// All terms as they are written.
    pub fn worded(&self) -> String {
        if self.kept.is_empty() {
            return self.integrated.to_string();
        }
        let all = std::iter::once(&self.integrated).chain(self.kept.iter().map(|kept| &kept.effects));
        all.map(|effects| format!("({effects})")).collect::<Vec<_>>().join(" + ")
    }

    /// Integrates the factor with the most groups.
    pub(super) fn assign(
        random: &RandomTerms,
        columns: &[String],
        named: Vec<NamedGroups>,
    ) -> Result<Assigned, StudyError> {
        let unread = || StudyError::Random("the data have no groups".to_owned());
        let of = |effects: &RandomEffects| groups_of(effects, columns, &named).ok_or_else(unread);
        let mut all = match (random.terms(), &named[..]) {
            // Of many groups there should be no second copy.
            ([_], [_]) => named,
            (terms, _) => terms.iter().map(of).collect::<Result<Vec<_>, _>>()?,
        };
        let mut most = 0;
        for (at, groups) in all.iter().enumerate() {
            if groups.groups.len() > all[most].groups.len() {
                most = at;
            }
        }
        let mut terms = random.terms().to_vec();
        let (integrated, groups) = (terms.remove(most), all.remove(most));
        check_kept(&integrated, &groups, terms.iter().zip(&all))?;
        let levels = all.iter().map(|kept| kept.groups.codes()).collect();
        let kept = terms.into_iter().zip(all);
        let kept = kept.map(|(effects, groups)| KeptFactor { effects, labels: groups.names }).collect();
        Ok(Assigned { factors: Self { integrated, kept }, groups, levels })
    }
}

impl Factors {
    /// Of each factor that is kept, its `levels` by row, for rows that stand group by group.
    pub(super) fn levels_in(&self, order: &[usize], levels: &[Vec<u32>]) -> Vec<Kept> {
        let each = levels.iter().zip(&self.kept);
        each.map(|(levels, kept)| Kept::new(order.iter().map(|&i| levels[i]).collect(), kept.labels.len()))
            .collect()
    }
}

/// Refuses factors whose effects cannot be parameters.
fn check_kept<'a>(
    integrated: &RandomEffects,
    groups: &NamedGroups,
    mut kept: impl Iterator<Item = (&'a RandomEffects, &'a NamedGroups)> + Clone,
) -> Result<(), StudyError> {
    let refused = |text: String| Err(StudyError::Random(text));
    let (large, many) = (&integrated.group, count(groups.groups.len()));
    let total: usize = kept.clone().map(|(_, levels)| levels.groups.len()).sum();
    if total > MOST_KEPT {
        let said: Vec<String> = kept
            .clone()
            .map(|(effects, levels)| format!("{} of '{}'", count(levels.groups.len()), effects.group))
            .collect();
        let nested = kept.find(|(effects, _)| large.starts_with(&format!("{}:", effects.group)));
        let instead = match nested {
            Some((effects, _)) => format!(
                "write '1 | {large}' alone, whose groups then differ by the effects of '{}' too, or take groups of '{}' together",
                effects.group, effects.group
            ),
            None => {
                "take levels together (products by their kind), or leave out the factor that matters least"
                    .to_owned()
            }
        };
        return refused(format!(
            "the effects of one factor, '{large}' with {many} groups, are integrated out; those of the others are parameters, and {} are more \
             than the {MOST_KEPT} levels that can be: {instead}",
            said.join(" and ")
        ));
    }
    for (effects, levels) in kept {
        let (name, number) = (&effects.group, levels.groups.len());
        if !effects.is_intercept() {
            return refused(format!(
                "({effects}): '{name}' has fewer groups than '{large}', whose effects are integrated out, so that its own are parameters, and \
                 these can be intercepts alone; write (1 | {name}), or make the slopes fixed ones by a product of the two columns"
            ));
        }
        if number < 2 {
            return refused(format!(
                "column '{name}' has one group only, of which no spread between groups can be learnt; leave it out"
            ));
        }
        let both = groups.and(levels).groups.len();
        if both == groups.groups.len() && both == number {
            return refused(format!(
                "'{name}' and '{large}' tell the same rows apart, so that their effects cannot be told from each other; leave one of them out"
            ));
        }
    }
    Ok(())
}

/// Refuses groups that say nothing of the random effects.
pub(super) fn check_groups(mixed: &Mixed, random: &RandomEffects, model: BuiltIn) -> Result<(), StudyError> {
    let (groups, rows) = (mixed.groups(), mixed.observations().len());
    let refused = |text: String| Err(StudyError::Random(text));
    let column = &random.group;
    if groups < 2 {
        return refused(format!(
            "column '{column}' has one group only, of which no spread between groups can be learnt; leave the random effects out"
        ));
    }
    // A count may vary more between rows than its distribution says; anything else has its own noise already, or shows none.
    let counts = matches!(model, BuiltIn::Poisson | BuiltIn::Binomial);
    if groups == rows && !counts {
        return refused(format!(
            "column '{column}' has another value in each of {} rows: with one row a group, random effects cannot be told from the noise \
             of a {model} model; name a column whose values come more than once",
            count(rows)
        ));
    }
    let slopes = mixed.effects().terms.iter().filter(|term| !matches!(term, Term::Intercept));
    for (term, name) in slopes.zip(&random.slopes) {
        let varies = |group: usize| {
            let mut values = mixed.rows_of(group).map(|i| term.of(mixed.observations().row(i)));
            let first = values.next();
            values.any(|z| Some(z) != first)
        };
        if random.intercept && !(0..groups).any(varies) {
            return refused(format!(
                "feature '{name}' is the same in all rows of every group of '{column}', so that its random slope cannot be told from the \
                 random intercept; leave one of the two out"
            ));
        }
    }
    Ok(())
}
