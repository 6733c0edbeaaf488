//! The reports of a coreset, of a mixed model and of a review, one HTML page each, and their pictures.

mod coreset;
mod mixed;
mod pictures;
mod review;

pub(crate) use coreset::{Subject, to_html};
pub(crate) use mixed::{MixedSubject, to_html as mixed_to_html};
pub(crate) use pictures::path as path_figure;
pub(crate) use review::to_html as review_to_html;
