//! Generated sets under priors that are not normal: kinks and tails that hold a coefficient, let one go, or are far off.

use std::sync::Arc;

use corelet::generate;
use corelet::model::{Link, Logistic, Model, Normal, Poisson};
use corelet::posterior::{Density, Prior};
use corelet::rows::Observations;

use super::calibrate::rare_events;
use super::common::Setting;

/// Six posteriors, of few rows for their priors to matter.
pub(crate) fn sets() -> Vec<Setting> {
    let poisson: Arc<dyn Model> =
        Arc::new(Poisson::model(generate::poisson_paper(300, 4), Link::Log).unwrap());
    vec![
        set("Laplace, logistic 300 × 5", logistic(generate::logistic(300, 5, 2)), &["laplace(0, 0.1)"]),
        set("Laplace, rare events 400 × 3", logistic(rare_events(400, 3, 10, 3)), &["laplace(0, 1)"]),
        set(
            "Student-t, logistic 300 × 5",
            logistic(generate::logistic(300, 5, 2)),
            &["student_t(3, 0, 0.1)"],
        ),
        set("Cauchy, rare events 400 × 3", logistic(rare_events(400, 3, 10, 3)), &["student_t(1, 0, 2.5)"]),
        set("Student-t far off, Poisson 300 × 2", poisson, &["student_t(4, -2, 0.3)", "laplace(3, 0.2)"]),
        set(
            "mixed, linear with σ 400 × 5",
            Arc::new(Normal::model(generate::logistic(400, 5, 7)).unwrap()),
            &["laplace(0, 0.05)", "student_t(3, 0, 0.2)", "normal(0, 1)"],
        ),
    ]
}

/// A model under these priors, again and again until each parameter has one.
fn set(name: &str, model: Arc<dyn Model>, priors: &[&str]) -> Setting {
    let densities: Vec<Density> =
        priors.iter().cycle().take(model.dim()).map(|text| text.parse().unwrap()).collect();
    Setting::under(name, model, Prior::of_densities(&densities).unwrap())
}

fn logistic(observations: Observations) -> Arc<dyn Model> {
    Arc::new(Logistic::model(observations).unwrap())
}
