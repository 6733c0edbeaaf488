//! The second look: rows encoded and standardised in double precision, stored in single precision.

use std::collections::HashMap;

use crate::design::collinear::{ScaledColumns, mirror_lower};
use crate::design::features::{Cells, Feature};
use crate::design::groups::{Grouping, NamedGroups};
use crate::design::options::{Beside, Single};
#[cfg(feature = "files")]
use crate::design::shares::ScratchRows;
use crate::design::shares::{Buffers, MemoryRows, Shape, Share};
use crate::design::standardise::Standardisation;
use crate::design::target::TargetCode;
use crate::error::DataError;
use crate::observations::Observations;
use crate::scan::blocks::{Batch, Block, Fault, Wanted, Watch, Worked, in_order};
use crate::scan::memory;
use crate::scan::source::{Reader, report};
use crate::scan::storage::Storage;
#[cfg(feature = "files")]
use crate::scan::storage::embedded;
use crate::scan::survey::mark_missing;
use crate::scan::text_cells::Markers;
use crate::scan::view::ValuesView;

/// Numbers of raw rows that are made at a time, and rows at most: they should still be in a cache when they are standardised.
const SCRATCH: usize = 1 << 18;
const SCRATCH_ROWS: usize = 2048;

/// How rows of the file become rows of the design.
pub(crate) struct Encoder<'a> {
    pub(crate) reader: &'a dyn Reader,
    pub(crate) file: &'a str,
    pub(crate) wanted: &'a [Wanted],
    pub(crate) markers: &'a Markers,
    /// Rows that each block of the file gives.
    pub(crate) kept: &'a [usize],
    pub(crate) features: &'a [Feature],
    pub(crate) storage: &'a Storage,
    pub(crate) target: TargetCode,
    /// What the numbers beside the target are.
    pub(crate) beside: Option<Beside>,
    /// Where the single numbers and the groups are among the wanted columns.
    pub(crate) singles: [Option<usize>; Single::ALL.len()],
    pub(crate) groupings: Vec<usize>,
}

/// All rows.
pub(crate) struct Filled {
    pub(crate) observations: Observations,
    /// ZᵀZ of their scaled raw features, by the weights of the rows.
    pub(crate) gram: Vec<f64>,
    /// By each column of groups.
    pub(crate) groups: Vec<NamedGroups>,
}

impl Encoder<'_> {
    /// ZᵀZ of the scaled raw features, in a look of its own.
    pub(crate) fn gram(
        &self,
        scaled: &ScaledColumns,
        look: usize,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<f64>, DataError> {
        let shares = self.kept.iter().map(|_| Share::Nothing).collect();
        Ok(self.look(scaled, None, shares, look, watch)?.0)
    }

    /// All rows, ZᵀZ of their scaled raw features, and their groups.
    pub(crate) fn rows(
        &self,
        scaled: &ScaledColumns,
        standardisation: &Standardisation,
        look: usize,
        watch: &mut Watch<'_>,
    ) -> Result<Filled, DataError> {
        let (n, dim) = (self.kept.iter().sum::<usize>(), self.features.len());
        let mut singles = self.singles.map(|position| position.is_some());
        singles[Single::Target as usize] = self.target != TargetCode::None;
        let what = format!("{n} rows of {dim} features");
        let shape = Shape { n, dim, singles };
        #[cfg(feature = "files")]
        if self.storage.is_beyond(n, shape.bytes()) {
            memory::require_addresses(self.file, what, embedded(n, shape.bytes()))?;
            let scratch = ScratchRows::create(&self.storage.folder(), shape)?;
            let shares = scratch.shares(self.kept);
            let (gram, groups) = self.look(scaled, Some(standardisation), shares, look, watch)?;
            return Ok(self.filled(scratch.finish()?, gram, groups));
        }
        memory::require(self.file, &*what, shape.bytes())?;
        let mut rows = MemoryRows {
            features: memory::zeros(self.file, &what, n.saturating_mul(dim))?,
            singles: {
                let zeros = |count| memory::zeros(self.file, "the target and what stands beside it", count);
                let [target, exposure, weights, offset] = shape.lengths().map(zeros);
                [target?, exposure?, weights?, offset?]
            },
        };
        let shares = rows.shares(self.kept, dim);
        let (gram, groups) = self.look(scaled, Some(standardisation), shares, look, watch)?;
        Ok(self.filled(rows.finish(shape), gram, groups))
    }

    fn filled(&self, observations: Observations, gram: Vec<f64>, groups: Vec<Grouping>) -> Filled {
        Filled { observations, gram, groups: groups.into_iter().map(Grouping::finish).collect() }
    }

    fn look(
        &self,
        scaled: &ScaledColumns,
        standardisation: Option<&Standardisation>,
        shares: Vec<Share<'_>>,
        look: usize,
        watch: &mut Watch<'_>,
    ) -> Result<(Vec<f64>, Vec<Grouping>), DataError> {
        let p = scaled.columns.len();
        let none = || self.groupings.iter().map(|_| Grouping::default()).collect::<Vec<_>>();
        let (mut gram, mut groups) = (vec![0.0; p * p], none());
        let mut shares = shares.into_iter();
        let mut left = shares.len();
        let blocks = self.reader.blocks(self.wanted, self.markers)?;
        let changed = || DataError::Changed { file: self.file.to_owned() };
        let jobs = blocks.map(|block| {
            left = left.saturating_sub(1);
            Ok((block?, shares.next().ok_or_else(changed)?))
        });
        let work = |(block, share): (Block<'_>, Share<'_>)| {
            let (gram, groups) = (vec![0.0; p * p], none());
            let buffers = Buffers::default();
            let mut part =
                BlockFill { encoder: self, scaled, standardisation, share, done: 0, buffers, gram, groups };
            let upto = block.upto;
            let extent = block.read(&mut |batch| part.add(batch))?;
            part.check_full()?;
            Ok(Worked { result: (part.gram, part.groups), extent, upto })
        };
        in_order(jobs, self.reader.first(), work, |before, worked| {
            gram.iter_mut().zip(&worked.result.0).for_each(|(sum, value)| *sum += value);
            groups.iter_mut().zip(&worked.result.1).for_each(|(all, part)| all.append(part));
            report(self.reader, look, before.rows + worked.extent.rows, worked.upto, watch)
        })?;
        if left > 0 {
            return Err(changed());
        }
        if let Some(stored) = self.reader.stored() {
            stored.check_unchanged()?;
        }
        mirror_lower(&mut gram, p);
        Ok((gram, groups))
    }

    /// Refuses a count that is impossible with what stands beside it: any where nothing was exposed, more successes than trials.
    fn check_counts(&self, batch: &Batch<'_>, kept: &[usize]) -> Result<(), Fault> {
        let what = self.beside.filter(|what| matches!(what, Beside::Exposure | Beside::Trials));
        let [Some(target), Some(beside), ..] = self.singles else { return Ok(()) };
        let [ValuesView::Number { values: counts, .. }, ValuesView::Number { values: most, .. }] =
            [target, beside].map(|position| batch.columns[position].values)
        else {
            return Ok(());
        };
        let Some(what) = what else { return Ok(()) };
        let possible = |&&i: &&usize| match what {
            Beside::Trials => counts.get(i) <= most.get(i),
            _ => most.get(i) != 0.0 || counts.get(i) == 0.0,
        };
        let Some(&i) = kept.iter().find(|i| !possible(i)) else { return Ok(()) };
        let name = |position: usize| self.reader.columns()[self.wanted[position].column].name.clone();
        let (file, column, beside) = (self.file.to_owned(), name(target), name(beside).into());
        let (value, trials) = (counts.get(i), most.get(i));
        Err(Fault::at(batch.place(i), move |place| match what {
            Beside::Trials => DataError::MoreThanTrials { file, column, place, value, trials, beside },
            _ => DataError::CountedNothing { file, column, place, value, beside },
        }))
    }

    /// The raw features of `kept` rows of a batch, row-major.
    fn encode(&self, batch: &Batch<'_>, codes: &Codes, kept: &[usize], raw: &mut Vec<f64>) {
        let dim = self.features.len();
        raw.clear();
        raw.resize(kept.len() * dim, 0.0);
        for (j, feature) in self.features.iter().enumerate() {
            let cells = |position: usize| batch.columns[position].values;
            let rows = raw.iter_mut().skip(j).step_by(dim).zip(kept);
            match &feature.cells {
                Cells::Ones => rows.for_each(|(cell, _)| *cell = 1.0),
                Cells::Number(position) => {
                    if let ValuesView::Number { values, .. } = cells(*position) {
                        rows.for_each(|(cell, &i)| *cell = values.get(i));
                    }
                }
                Cells::Bool(position) => {
                    if let ValuesView::Bool(values) = cells(*position) {
                        rows.for_each(|(cell, &i)| *cell = f64::from(values[i] == Some(true)));
                    }
                }
                Cells::Level(..) => {}
            }
        }
        for (position, features) in &codes.0 {
            if let ValuesView::Text { codes, .. } = batch.columns[*position].values {
                for (row, &i) in raw.chunks_exact_mut(dim).zip(kept) {
                    if let Some(&Some(j)) = features.get(codes[i] as usize) {
                        row[j] = 1.0;
                    }
                }
            }
        }
    }
}

/// For each text column of a batch: which feature is 1 where a cell has a code.
struct Codes(Vec<(usize, Vec<Option<usize>>)>);

impl Codes {
    fn new(features: &[Feature], batch: &Batch<'_>) -> Self {
        let mut by_column: HashMap<usize, HashMap<&str, usize>> = HashMap::new();
        for (j, feature) in features.iter().enumerate() {
            if let Cells::Level(position, text) = &feature.cells {
                by_column.entry(*position).or_default().insert(text, j);
            }
        }
        let codes =
            by_column.into_iter().filter_map(|(position, known)| match batch.columns[position].values {
                ValuesView::Text { levels, .. } => {
                    Some((position, levels.iter().map(|level| known.get(level.as_str()).copied()).collect()))
                }
                _ => None,
            });
        Self(codes.collect())
    }
}

struct BlockFill<'a, 'o> {
    encoder: &'a Encoder<'a>,
    scaled: &'a ScaledColumns,
    standardisation: Option<&'a Standardisation>,
    share: Share<'o>,
    /// Rows of the share that are filled.
    done: usize,
    buffers: Buffers,
    gram: Vec<f64>,
    groups: Vec<Grouping>,
}

impl BlockFill<'_, '_> {
    fn add(&mut self, batch: &Batch<'_>) -> Result<(), Fault> {
        let mut complete = vec![true; batch.rows];
        for column in &batch.columns {
            mark_missing(&column.values, &mut complete);
        }
        let kept: Vec<usize> = (0..batch.rows).filter(|&i| complete[i]).collect();
        let codes = Codes::new(self.encoder.features, batch);
        let step = (SCRATCH / self.encoder.features.len().max(1)).clamp(16, SCRATCH_ROWS);
        let mut raw = Vec::new();
        for kept in kept.chunks(step) {
            self.encoder.encode(batch, &codes, kept, &mut raw);
            let weights = self.encoder.singles[Single::Weights as usize];
            let weights = weights.and_then(|position| batch.columns[position].values.numbers_of(kept));
            self.scaled.add_gram(&raw, weights.as_deref(), &mut self.gram);
            if let Some(standardisation) = self.standardisation {
                self.store(batch, kept, &mut raw, standardisation)?;
            }
        }
        Ok(())
    }

    fn store(
        &mut self,
        batch: &Batch<'_>,
        kept: &[usize],
        raw: &mut [f64],
        standardisation: &Standardisation,
    ) -> Result<(), Fault> {
        let Encoder { features, target, singles, groupings, .. } = self.encoder;
        let dim = features.len();
        let rows = self.done..self.done + kept.len();
        if rows.end > self.share.rows(dim) {
            return Err(self.changed());
        }
        self.encoder.check_counts(batch, kept)?;
        standardisation.apply_to_rows(raw, dim);
        let out = self.share.room(rows.clone(), dim, &mut self.buffers);
        out.features.iter_mut().zip(&*raw).for_each(|(out, &value)| *out = value as f32);
        let column = |position: &Option<usize>| position.map(|position| batch.columns[position].values);
        for ((single, position), out) in Single::ALL.into_iter().zip(singles).zip(out.singles) {
            let code = if single == Single::Target { target } else { &TargetCode::Number };
            if let Some(cells) = column(position) {
                code.code(&cells, kept, out);
            }
        }
        for (groups, &position) in self.groups.iter_mut().zip(groupings) {
            groups.add(&batch.columns[position].values, kept);
        }
        self.share.store(rows.start, &self.buffers).map_err(DataError::from)?;
        self.done = rows.end;
        Ok(())
    }

    fn check_full(&self) -> Result<(), Fault> {
        let dim = self.encoder.features.len();
        if self.standardisation.is_some() && self.done != self.share.rows(dim) {
            return Err(self.changed());
        }
        Ok(())
    }

    fn changed(&self) -> Fault {
        DataError::Changed { file: self.encoder.file.to_owned() }.into()
    }
}
