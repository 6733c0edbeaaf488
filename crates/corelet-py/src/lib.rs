//! The native part of the Python package `corelet`: arrays in, the pipeline of the command, arrays out.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

mod build;
mod certify;
mod cluster;
mod columns;
mod data;
mod errors;
mod fit;
mod k_fold;
mod log_likelihood;
mod marginal;
mod mixed;
mod nnls;
mod outcomes;
mod predict;
mod review;
mod run;
mod sample;
mod specification;
mod target;
mod update;
mod write;

use pyo3::prelude::*;

/// A panic prints before it can be caught; one that a damaged file causes becomes an exception of its own.
fn keep_caught_panics_quiet() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !corelet::data::panic_is_caught() {
            print(info);
        }
    }));
}

/// The native part of `corelet`. Use the package instead.
#[pymodule]
mod _lib {
    use super::PyModule;
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::build::build;
    #[pymodule_export]
    use crate::certify::{certify, certify_claim, draws_looked_at};
    #[pymodule_export]
    use crate::cluster::{
        Shard, build_partitions, cells, certify_partitions, check_partitions, k_fold_partitions, look,
        review_partitions,
    };
    #[pymodule_export]
    use crate::errors::CoreletError;
    #[pymodule_export]
    use crate::k_fold::{k_fold, k_folded};
    #[pymodule_export]
    use crate::log_likelihood::{build_function, build_matrix, build_pool};
    #[pymodule_export]
    use crate::marginal::sample_function;
    #[pymodule_export]
    use crate::mixed::fit_mixed;
    #[pymodule_export]
    use crate::nnls::solve_dense;
    #[pymodule_export]
    use crate::outcomes::{OutcomeChecks, levels_of};
    #[pymodule_export]
    use crate::predict::{pointwise, predict, score_rows};

    #[pymodule_export]
    use crate::fit::{block_size, draws_of_pass, fit, fit_target, gather, gaussian_first, judge};
    #[pymodule_export]
    use crate::review::{review, review_target};
    #[pymodule_export]
    use crate::sample::{check, original_scale, sample_coreset};
    #[pymodule_export]
    use crate::update::{certified_blocks, update};
    #[pymodule_export]
    use crate::write::{diagnose, figures, judgement, write_coreset};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::keep_caught_panics_quiet();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
