//! Which column does what.

use std::collections::HashMap;

use crate::design::options::{Columns, DesignOptions, Outcome, Single};
use crate::error::DataError;
use crate::scan::blocks::{Declared, Kind};
use crate::scan::source::Source;
use crate::scan::survey::Asked;

/// The columns in use, by their positions in the file.
pub(crate) struct Roles {
    pub(crate) features: Vec<usize>,
    /// Of the single numbers, as [`Single`] orders them.
    pub(crate) singles: [Option<usize>; Single::ALL.len()],
    pub(crate) groups: Option<usize>,
    /// Further columns of groups.
    pub(crate) factors: Vec<usize>,
    /// Columns that are taken as text whatever they look like.
    categories: Vec<usize>,
}

impl Roles {
    /// Finds every column that is named, and takes all others as features where none is named.
    pub(crate) fn assign(source: &Source<'_>, options: &DesignOptions) -> Result<Self, DataError> {
        let named = &options.columns;
        let columns = source.reader().columns();
        let index: HashMap<&str, usize> =
            columns.iter().enumerate().map(|(j, column)| (column.name.as_str(), j)).collect();
        let find =
            |name: &String| index.get(name.as_str()).copied().ok_or_else(|| source.unknown_column(name));
        let find_all = |names: &[String]| names.iter().map(find).collect::<Result<Vec<_>, _>>();
        let target = match (options.outcome, named.target.as_ref(), source.reader().own_target()) {
            (_, Some(name), _) => Some(find(name)?),
            (_, None, Some(own)) => Some(own),
            (Outcome::None, None, None) => None,
            (_, None, None) => {
                let (file, known) = (source.name().to_owned(), source.known_columns());
                return Err(DataError::NoTarget { file, known });
            }
        };
        let beside = named.beside().map(|(name, _)| find(name)).transpose()?;
        let weights = named.weights.as_ref().map(find).transpose()?;
        let offset = named.offset.as_ref().map(find).transpose()?;
        let singles = [target, beside, weights, offset];
        let groups = named.groups.as_ref().map(find).transpose()?;
        let factors = find_all(&named.factors)?;
        let excluded = find_all(&named.exclude)?;
        let categories = find_all(&options.categories)?;
        let mut taken = vec![false; columns.len()];
        let others = singles.iter().flatten().chain(&groups).chain(&factors).chain(&excluded);
        others.for_each(|&column| taken[column] = true);
        let features = match &named.features {
            Some(names) => find_all(names)?,
            None => (0..columns.len()).filter(|&j| !taken[j] && !columns[j].index).collect(),
        };
        let roles = Self { features, singles, groups, factors, categories };
        roles.check(source, &excluded, named)?;
        Ok(roles)
    }

    fn check(&self, source: &Source<'_>, excluded: &[usize], names: &Columns) -> Result<(), DataError> {
        let columns = source.reader().columns();
        let singles = Single::ALL.into_iter().zip(self.singles);
        let named = singles.filter_map(|(single, column)| Some((column?, names.role(single))));
        let named = named.chain(self.features.iter().map(|&column| (column, "a feature")));
        let named = named.chain(self.groupings().map(|column| (column, "the group")));
        // What tells groups apart is no feature, and may be left out of them by name as well.
        let excluded = excluded.iter().filter(|&&column| !self.is_grouping(column));
        let mut seen: HashMap<usize, &'static str> = excluded.map(|&column| (column, "left out")).collect();
        for (column, second) in named {
            let (file, info) = (source.name().to_owned(), &columns[column]);
            if let Some(first) = seen.insert(column, second) {
                return Err(DataError::TwoRoles { file, column: info.name.clone(), first, second });
            }
            if let Declared::Unsupported(kind) = &info.declared {
                let (column, kind) = (info.name.clone(), kind.clone());
                return Err(DataError::UnsupportedType { file, column, kind });
            }
        }
        if self.features.is_empty() {
            return Err(DataError::NoFeatures { file: source.name().to_owned() });
        }
        Ok(())
    }

    /// All columns of groups.
    pub(crate) fn groupings(&self) -> impl Iterator<Item = usize> {
        self.groups.into_iter().chain(self.factors.iter().copied())
    }

    fn is_grouping(&self, column: usize) -> bool {
        self.groupings().any(|known| known == column)
    }

    /// What the first look is asked: features in order, then the single numbers and the groups.
    pub(crate) fn asked(&self, source: &Source<'_>) -> Vec<Asked> {
        let columns = source.reader().columns();
        let kind = |column: usize| match columns[column].declared {
            _ if self.categories.contains(&column) || self.is_grouping(column) => Some(Kind::Text),
            Declared::Kind(kind) => Some(kind),
            Declared::Categories => Some(Kind::Text),
            Declared::Nothing | Declared::Unsupported(_) => None,
        };
        let asked = |column: usize| Asked { column, kind: kind(column), values: false, weighs: false };
        let features = self.features.iter().map(|&column| asked(column));
        let others = Single::ALL.into_iter().zip(self.singles).filter_map(|(single, column)| {
            Some(Asked { values: true, weighs: single == Single::Weights, ..asked(column?) })
        });
        features.chain(others).chain(self.groupings().map(asked)).collect()
    }

    /// Whether a column is text because someone says so, and not by its looks.
    pub(crate) fn is_declared_text(&self, source: &Source<'_>, column: usize) -> bool {
        let declared = &source.reader().columns()[column].declared;
        self.categories.contains(&column) || self.is_grouping(column) || *declared == Declared::Categories
    }

    /// The target, where there is one.
    pub(crate) fn target(&self) -> Option<usize> {
        self.singles[Single::Target as usize]
    }

    /// Where the single numbers are among what was asked.
    pub(crate) fn single_positions(&self) -> [Option<usize>; Single::ALL.len()] {
        let mut next = self.features.len();
        self.singles.map(|column| {
            column.map(|_| {
                next += 1;
                next - 1
            })
        })
    }

    /// Where the groups are among what was asked.
    pub(crate) fn grouping_positions(&self) -> Vec<usize> {
        let first = self.features.len() + self.singles.iter().flatten().count();
        (first..first + self.groupings().count()).collect()
    }
}
