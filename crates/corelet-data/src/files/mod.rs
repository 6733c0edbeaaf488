//! Files: every format that tables are read from and rows are written to.

use std::fs::File;
use std::path::Path;

use crate::error::DataError;
use crate::scan::source::{Reader, Source};
use crate::scan::storage::Storage;

pub(crate) mod arrow_columns;
pub(crate) mod arrow_ipc;
pub(crate) mod cell_text;
pub(crate) mod cells;
pub(crate) mod content;
pub(crate) mod coreset;
pub(crate) mod csv;
pub(crate) mod format;
pub(crate) mod guard;
pub(crate) mod inputs;
pub(crate) mod libsvm;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod output;
pub(crate) mod parquet;
pub(crate) mod parquet_pages;
pub(crate) mod parts;
pub(crate) mod text_file;
pub(crate) mod write;

use cells::{RowCells, in_order};
use content::{Content, is_standard_input, source_name};
use format::Format;
use inputs::input_files;
use parts::{Part, Parts};

impl Source<'static> {
    /// Opens a file, or standard input where the path is `-`; what a pattern or a folder stands for is opened as
    /// [`open_all`](Self::open_all) does.
    ///
    /// The format is that of the file's extension unless given; standard input is CSV unless given. Missing are: an
    /// empty field, `NA`, `NaN` or `null` in a text file, a null in Parquet or Arrow, and a NaN in a binary file; a
    /// [design](crate::DesignOptions) may name more.
    ///
    /// # Errors
    /// Names the file and what is wrong with it. Rows are not read yet.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Self, DataError> {
        Self::open_all(&[path], format, &Storage::default())
    }

    /// Opens [all files](crate::input_files) that `paths` stand for as one table: the rows of one follow those of the one before.
    /// They must have the same columns. What can be read only once is kept in the folder of scratch files.
    ///
    /// # Errors
    /// As [`open`](Self::open); also the file whose columns differ.
    pub fn open_all<P: AsRef<Path>>(
        paths: &[P],
        format: Option<Format>,
        storage: &Storage,
    ) -> Result<Self, DataError> {
        let (files, folder) = (input_files(paths, format)?, storage.folder());
        if let [file] = &files[..] {
            let Part { name, reader } = open_file(file, format, &folder)?;
            return Ok(Self::of_reader(name, reader));
        }
        let name = name_of(paths, files.len());
        let parts =
            files.iter().map(|file| open_file(file, format, &folder)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::of_reader(name.clone(), Box::new(Parts::new(name, parts)?)))
    }

    /// A file that has been opened, perhaps one without a name; messages call it `name`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn of_file(name: &str, file: File, format: Format) -> Result<Self, DataError> {
        let failed = |e: std::io::Error| DataError::read(name, &e);
        let content = Content::of_file(name.to_owned(), file).map_err(failed)?;
        let Part { name, reader } = read_as(format, content, &Storage::default().folder())?;
        Ok(Self::of_reader(name, reader))
    }
}

/// How messages name several files.
fn name_of<P: AsRef<Path>>(paths: &[P], files: usize) -> String {
    let first = paths.first().map_or_else(|| "no file".to_owned(), |path| source_name(path.as_ref()));
    match (paths.len(), files) {
        (0 | 1, _) => first,
        (_, 2) => format!("{first} and another file"),
        _ => format!("{first} and {} other files", files - 1),
    }
}

fn open_file(path: &Path, format: Option<Format>, folder: &Path) -> Result<Part, DataError> {
    let format = match format {
        Some(format) => format,
        None if is_standard_input(path) => Format::Csv,
        None => Format::from_path(path)?,
    };
    read_as(format, Content::open(path, folder)?, folder)
}

fn read_as(format: Format, content: Content, folder: &Path) -> Result<Part, DataError> {
    let name = content.name.clone();
    let reader: Box<dyn Reader> = match format {
        Format::Csv => Box::new(csv::DelimitedText::open(content, csv::SEPARATORS)?),
        Format::Tsv => Box::new(csv::DelimitedText::open(content, b"\t")?),
        Format::Parquet => Box::new(parquet::ParquetFile::open(content)?),
        Format::Arrow => Box::new(arrow_ipc::ArrowFile::open(content)?),
        Format::Libsvm => Box::new(libsvm::LibsvmText::open(content)?),
        Format::Npz => Box::new(npz::open(&content, folder)?),
        Format::Npy => Box::new(npy::NumpyArrays::open(content)?),
    };
    Ok(Part { name, reader })
}

impl Source<'_> {
    /// The cells of chosen rows of the file, as they are there.
    ///
    /// # Errors
    /// If there is no such row, or the file cannot be read any more.
    pub fn cells(&self, rows: &[usize]) -> Result<RowCells, DataError> {
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let columns = self.reader().cells(&sorted)?;
        let columns = in_order(columns, &sorted, rows).map_err(|e| DataError::read(self.name(), &e))?;
        Ok(RowCells { rows: rows.to_vec(), columns })
    }
}
