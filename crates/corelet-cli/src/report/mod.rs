//! The report of a coreset, one HTML page, and its pictures.

mod coreset;
mod pictures;

pub(crate) use coreset::{Subject, to_html};
pub(crate) use pictures::path as path_figure;
