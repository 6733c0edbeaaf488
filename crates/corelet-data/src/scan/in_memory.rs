//! Tables in memory, cut into blocks of rows without a copy.

use std::sync::Arc;

use crate::error::DataError;
#[cfg(feature = "files")]
use crate::files::cells::{CellColumn, check_range, of_values};
use crate::scan::blocks::{Batch, BatchColumn, Block, Blocks, ColumnInfo, Declared, Kind, Wanted};
use crate::scan::place::Extent;
use crate::scan::source::Reader;
use crate::scan::table::{Table, Values};
use crate::scan::text_cells::Markers;
use crate::scan::view::{TableView, ValuesView};

const BLOCK_ROWS: usize = 1 << 15;

/// A table, or columns that belong to someone else.
pub(crate) struct InMemory<'v> {
    held: Held<'v>,
    columns: Vec<ColumnInfo>,
}

enum Held<'v> {
    View(TableView<'v>),
    Table(Table),
}

impl Held<'_> {
    fn view(&self) -> TableView<'_> {
        match self {
            Self::View(view) => view.clone(),
            Self::Table(table) => table.view(),
        }
    }
}

impl<'v> InMemory<'v> {
    /// Columns that belong to someone else.
    pub(crate) fn of_view(view: TableView<'v>) -> Self {
        Self::new(Held::View(view))
    }

    /// A table of its own.
    pub(crate) fn of_table(table: Table) -> Self {
        Self::new(Held::Table(table))
    }

    fn new(held: Held<'v>) -> Self {
        let view = held.view();
        let columns = view
            .columns
            .iter()
            .map(|column| ColumnInfo::new(column.name.to_owned(), Declared::Kind(kind_of(&column.values))));
        let columns = columns.collect();
        Self { held, columns }
    }
}

fn kind_of(values: &ValuesView<'_>) -> Kind {
    match values {
        ValuesView::Number { .. } => Kind::Number,
        ValuesView::Bool(_) => Kind::Bool,
        ValuesView::Text { .. } => Kind::Text,
    }
}

impl Reader for InMemory<'_> {
    fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    fn own_target(&self) -> Option<usize> {
        let view = self.held.view();
        let name = view.own_target?;
        self.columns.iter().position(|column| column.name == name)
    }

    fn blocks<'a>(&'a self, wanted: &'a [Wanted], markers: &'a Markers) -> Result<Blocks<'a>, DataError> {
        let view = Arc::new(self.held.view());
        let rows = view.rows;
        Ok(Box::new((0..rows).step_by(BLOCK_ROWS).map(move |start| {
            let count = BLOCK_ROWS.min(rows - start);
            let view = Arc::clone(&view);
            Ok(Block::new(0, move |visit| {
                let cells = wanted.iter().map(|wanted| {
                    let cells = view.columns[wanted.column].values.slice(start..start + count);
                    marked(cells, wanted.kind, markers)
                });
                let cells: Vec<Cells<'_>> = cells.collect();
                let columns = cells.iter().zip(wanted);
                let columns =
                    columns.map(|(cells, wanted)| BatchColumn { kind: wanted.kind, values: cells.view() });
                visit(&Batch { start: 0, rows: count, columns: columns.collect(), lines: None })?;
                Ok(Extent { rows: count, lines: 0 })
            }))
        })))
    }

    #[cfg(feature = "files")]
    fn cells(&self, rows: &[usize]) -> Result<Vec<CellColumn>, DataError> {
        let view = self.held.view();
        check_range(view.source, rows, view.rows)?;
        let columns = view.columns.iter().map(|column| CellColumn {
            name: column.name.to_owned(),
            values: of_values(&column.values, rows),
            spelling: None,
        });
        Ok(columns.collect())
    }
}

/// Cells as they are, or copied where some stand for nothing or are to be taken as text.
enum Cells<'a> {
    Borrowed(ValuesView<'a>),
    Changed(Values),
}

impl Cells<'_> {
    fn view(&self) -> ValuesView<'_> {
        match self {
            Self::Borrowed(view) => *view,
            Self::Changed(values) => values.view(),
        }
    }
}

fn marked<'a>(cells: ValuesView<'a>, kind: Option<Kind>, markers: &Markers) -> Cells<'a> {
    match cells {
        // A partition in which every cell is missing may have them in any type.
        _ if kind.is_some_and(|kind| kind != Kind::Text && kind != kind_of(&cells)) => {
            Cells::Changed(Values::missing(kind == Some(Kind::Bool), cells.len()))
        }
        ValuesView::Number { values, .. } if kind == Some(Kind::Text) => Cells::Changed(Values::of_texts(
            (0..values.len())
                .map(|row| (!markers.number(values.get(row)).is_nan()).then(|| values.text(row))),
        )),
        ValuesView::Bool(values) if kind == Some(Kind::Text) => {
            Cells::Changed(Values::of_texts(values.iter().map(|value| value.map(|value| value.to_string()))))
        }
        _ if markers.is_empty() => Cells::Borrowed(cells),
        ValuesView::Number { values, integer } => {
            let values = values.iter().map(|value| markers.number(value)).collect();
            Cells::Changed(Values::Number { values, integer })
        }
        ValuesView::Text { codes, levels } => {
            let texts = codes.iter().map(|&code| levels.get(code as usize).cloned());
            let texts = texts.map(|text| text.filter(|text| !markers.has_text(text.trim().as_bytes())));
            Cells::Changed(Values::of_texts(texts))
        }
        ValuesView::Bool(_) => Cells::Borrowed(cells),
    }
}
