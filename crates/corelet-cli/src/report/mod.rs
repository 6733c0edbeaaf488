//! The reports of a coreset and of a mixed model, one HTML page each, and their pictures.

mod coreset;
mod mixed;
mod pictures;

pub(crate) use coreset::{Subject, to_html};
pub(crate) use mixed::{MixedSubject, to_html as mixed_to_html};
pub(crate) use pictures::path as path_figure;
