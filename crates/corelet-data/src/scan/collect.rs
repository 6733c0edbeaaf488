//! Whole columns in memory, for small files.

use crate::error::DataError;
use crate::scan::blocks::{Declared, Kind, Wanted, Worked, in_order};
use crate::scan::source::Source;
use crate::scan::survey::{Asked, Found, survey};
use crate::scan::table::{Column, Table, Values};
use crate::scan::text_cells::Markers;
use crate::scan::view::ValuesView;

impl Source<'_> {
    /// All columns that a model could use, in memory.
    ///
    /// # Errors
    /// Names the file, the column and the row; also an infinite number is one.
    pub fn table(&self) -> Result<Table, DataError> {
        let columns = self.reader().columns();
        let usable: Vec<usize> = (0..columns.len())
            .filter(|&column| !matches!(columns[column].declared, Declared::Unsupported(_)))
            .collect();
        let values = self.collect(&usable)?;
        let named = usable.iter().zip(values);
        let named = named.map(|(&column, values)| Column { name: columns[column].name.clone(), values });
        let mut table = Table::new(self.name(), named.collect())?;
        table.own_target = self.reader().own_target().map(|column| columns[column].name.clone());
        Ok(table)
    }

    /// The cells of one column.
    ///
    /// # Errors
    /// [`DataError::UnknownColumn`] where it is not there.
    pub fn column(&self, name: &str) -> Result<Values, DataError> {
        let column = self.reader().columns().iter().position(|column| column.name == name);
        let column = column.ok_or_else(|| self.unknown_column(name))?;
        Ok(self.collect(&[column])?.pop().unwrap_or(Values::Bool(Vec::new())))
    }

    /// The numbers of one column; none if it is of another kind.
    pub(crate) fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>, DataError> {
        Ok(match self.column(name)? {
            Values::Number { values, .. } => Some(values),
            _ => None,
        })
    }

    fn collect(&self, positions: &[usize]) -> Result<Vec<Values>, DataError> {
        self.collect_unlocated(positions).map_err(|error| self.located(error))
    }

    fn collect_unlocated(&self, positions: &[usize]) -> Result<Vec<Values>, DataError> {
        let reader = self.reader();
        let markers = Markers::default();
        let kind = |column: usize| match reader.columns()[column].declared {
            Declared::Kind(kind) => Some(kind),
            Declared::Categories => Some(Kind::Text),
            Declared::Nothing | Declared::Unsupported(_) => None,
        };
        let asked: Vec<Asked> = positions
            .iter()
            .map(|&column| Asked { column, kind: kind(column), values: false, weighs: false })
            .collect();
        let survey = survey(reader, &asked, &markers, &mut |_| std::ops::ControlFlow::Continue(()))?;
        let wanted: Vec<Wanted> = positions
            .iter()
            .zip(&survey.columns)
            .map(|(&column, found)| Wanted { column, kind: found.values.kind() })
            .collect();
        for (wanted, found) in wanted.iter().zip(&survey.columns) {
            if let Found::Numbers(numbers) = &found.values
                && let Some((place, value)) = numbers.infinite
            {
                let (file, column) = (self.name().to_owned(), reader.columns()[wanted.column].name.clone());
                return Err(DataError::NonFinite { file, column, place, value: value.to_string() });
            }
        }
        let mut columns: Vec<Gathered> = wanted.iter().map(|wanted| Gathered::new(wanted.kind)).collect();
        let work = |block: crate::scan::blocks::Block<'_>| {
            let upto = block.upto;
            let mut parts: Vec<Gathered> = wanted.iter().map(|wanted| Gathered::new(wanted.kind)).collect();
            let extent = block.read(&mut |batch| {
                parts.iter_mut().zip(&batch.columns).for_each(|(part, cells)| part.append(&cells.values));
                Ok(())
            })?;
            Ok(Worked { result: parts, extent, upto })
        };
        in_order(reader.blocks(&wanted, &markers)?, reader.first(), work, |_, worked| {
            columns
                .iter_mut()
                .zip(worked.result)
                .for_each(|(column, part)| column.append(&part.finish().view()));
            Ok(())
        })?;
        Ok(columns.into_iter().map(Gathered::finish).collect())
    }
}

/// Cells of one column so far.
enum Gathered {
    Numbers(Vec<f64>),
    Bools(Vec<Option<bool>>),
    Texts(Vec<Option<String>>),
}

impl Gathered {
    fn new(kind: Option<Kind>) -> Self {
        match kind {
            Some(Kind::Bool) => Self::Bools(Vec::new()),
            Some(Kind::Text) => Self::Texts(Vec::new()),
            Some(Kind::Number) | None => Self::Numbers(Vec::new()),
        }
    }

    fn append(&mut self, cells: &ValuesView<'_>) {
        match (self, cells) {
            (Self::Numbers(all), ValuesView::Number { values, .. }) => all.extend(values.iter()),
            (Self::Bools(all), ValuesView::Bool(values)) => all.extend(*values),
            (Self::Texts(all), ValuesView::Text { codes, levels }) => {
                all.extend(codes.iter().map(|&code| levels.get(code as usize).cloned()));
            }
            // A look brings what it was asked for.
            _ => {}
        }
    }

    fn finish(self) -> Values {
        match self {
            Self::Numbers(values) => {
                let integer = values.iter().all(|value| value.is_nan() || value.fract() == 0.0);
                Values::Number { values, integer }
            }
            Self::Bools(values) => Values::Bool(values),
            Self::Texts(texts) => Values::of_texts(texts.into_iter()),
        }
    }
}
