//! The summary of a run: as JSON with stable keys, as a coreset file's metadata, and in words. One for every front end.

use std::collections::BTreeMap;

use serde::Serialize;
use sparse_nnls::Status;

use super::numbers::{count, duration, judgement, number, optional, plural, points};
use super::priors::PriorGroup;
use crate::coreset::{BuildOptions, Coreset, Round, Start, TooFew, WrittenWeights};
use crate::data::{Standardisation, TextLevels};
use crate::embed::Description;
use crate::rows::Looks;
use crate::trust::{Evaluation, FitStatus, ParameterShift, Score, TestScores};

/// Seconds that each part took.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Seconds {
    /// Reading and designing.
    pub read: f64,
    /// The Laplace fit.
    pub laplace: f64,
    /// Embedding and choosing.
    pub build: f64,
    /// Evaluating the coreset.
    pub evaluate: f64,
}

/// What the coreset does to one parameter, by its name.
#[derive(Debug, Clone, Serialize)]
pub struct NamedShift {
    /// The parameter.
    pub name: String,
    /// Shift of its mean and ratio of its standard deviations.
    #[serde(flatten)]
    pub shift: ParameterShift,
}

/// The keys of `--json`, documented in `docs/cli.md`, in one flat object. What is not known, or not finite, is null.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    #[serde(flatten)]
    subject: OfData,
    #[serde(flatten)]
    points: OfPoints,
    #[serde(flatten)]
    build: OfBuild,
    #[serde(flatten)]
    rounds: OfRounds,
    #[serde(flatten)]
    quality: OfQuality,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<TestScores>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_bytes: Option<Option<u64>>,
}

/// The data and the model.
#[derive(Debug, Clone, Serialize)]
struct OfData {
    n: usize,
    distinct: Option<usize>,
    features: usize,
    data: String,
    fingerprint: Option<String>,
    model: &'static str,
    priors: Vec<PriorGroup>,
    rows_dropped: usize,
    groups: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes: Vec<String>,
    version: &'static str,
}

/// The chosen points, in their embedding.
#[derive(Debug, Clone, Serialize)]
struct OfPoints {
    points: usize,
    total_weight: f64,
    embedding: String,
    coordinates: usize,
    tail: f64,
    residual: f64,
    seed: u64,
    /// The kind of the Gaussian part, and how many directions it leaves to the prior.
    rest: Option<&'static str>,
    undetermined: usize,
}

/// How they were chosen; all null for a coreset that came from a file.
#[derive(Debug, Clone, Default, Serialize)]
struct OfBuild {
    method: Option<String>,
    k: Option<usize>,
    groups_chosen: Option<usize>,
    status: Option<Status>,
    passes: Option<f64>,
    looks: Option<Looks>,
    iterations: Option<usize>,
    target_norm: Option<f64>,
    max_kl: Option<f64>,
    max_kl_reached: Option<bool>,
    too_few: Option<TooFew>,
    path: Vec<(usize, f64)>,
}

/// What the rounds came to.
#[derive(Debug, Clone, Default, Serialize)]
struct OfRounds {
    start: Option<String>,
    rounds: Vec<Round>,
    round_chosen: Option<usize>,
}

/// How good the points are.
#[derive(Debug, Clone, Serialize)]
struct OfQuality {
    heldout_residual: Option<f64>,
    heldout_nats: Option<f64>,
    heldout_nats_se: Option<f64>,
    heldout_draws: usize,
    heldout_rows: Option<usize>,
    kl_forward: Option<f64>,
    kl_reverse: Option<f64>,
    kl_symmetrised: Option<f64>,
    map_distance: Option<f64>,
    coreset_fit: FitStatus,
    parameters: Vec<NamedShift>,
    /// Whether the draws are of the coreset's own posterior.
    #[serde(skip)]
    own: bool,
}

impl Summary {
    /// Of a coreset that was built here.
    pub fn of_build(
        subject: &Subject<'_>,
        options: &BuildOptions,
        (coreset, weights): (&Coreset, &WrittenWeights),
        evaluation: &Evaluation,
        seconds: Seconds,
    ) -> Self {
        let judged = Judged {
            embedding: &coreset.fit.embedding,
            residual: coreset.fit.residual,
            weights,
            seed: options.seed,
        };
        let build = OfBuild {
            method: Some(coreset.method.clone()),
            k: Some(options.k),
            groups_chosen: coreset.groups,
            status: Some(coreset.status),
            passes: Some(coreset.passes),
            looks: None,
            iterations: Some(coreset.iterations),
            target_norm: Some(coreset.fit.target_norm),
            max_kl: options.max_kl,
            max_kl_reached: coreset.reached,
            too_few: coreset.too_few,
            path: coreset.fit.path.clone(),
        };
        Self { build, ..Self::of_file(subject, &judged, evaluation, seconds) }
            .with_rest(coreset.rest.is_some(), coreset.undetermined)
    }

    /// Of a coreset that came from a file.
    pub fn of_file(
        subject: &Subject<'_>,
        judged: &Judged<'_>,
        evaluation: &Evaluation,
        seconds: Seconds,
    ) -> Self {
        let parameters = subject.names.iter().zip(&evaluation.parameters);
        Self {
            subject: OfData {
                n: subject.n,
                distinct: subject.distinct,
                features: subject.features,
                data: subject.data.to_owned(),
                fingerprint: subject.fingerprint.map(str::to_owned),
                model: subject.model,
                priors: subject.priors.to_vec(),
                rows_dropped: subject.dropped,
                groups: subject.groups,
                classes: subject.classes.to_vec(),
                version: env!("CARGO_PKG_VERSION"),
            },
            points: OfPoints {
                points: judged.weights.values().len(),
                total_weight: judged.weights.values().iter().sum(),
                embedding: judged.embedding.name.clone(),
                coordinates: judged.embedding.coordinates,
                tail: judged.embedding.tail,
                residual: judged.residual,
                seed: judged.seed,
                rest: None,
                undetermined: 0,
            },
            build: OfBuild::default(),
            rounds: OfRounds::default(),
            quality: OfQuality {
                heldout_residual: evaluation.heldout_residual,
                heldout_nats: evaluation.heldout_nats,
                heldout_nats_se: evaluation.heldout_nats_se,
                heldout_draws: evaluation.heldout_draws,
                heldout_rows: evaluation.heldout_rows,
                kl_forward: evaluation.kl_forward,
                kl_reverse: evaluation.kl_reverse,
                kl_symmetrised: evaluation.kl_symmetrised,
                map_distance: evaluation.map_distance,
                coreset_fit: evaluation.fit,
                parameters: parameters
                    .map(|(name, &shift)| NamedShift { name: name.clone(), shift })
                    .collect(),
                own: false,
            },
            test: None,
            seconds: Some(seconds),
            peak_memory_bytes: None,
        }
    }

    /// The same with a Gaussian part or without, which leaves so many directions to the prior.
    pub fn with_rest(mut self, is_there: bool, undetermined: usize) -> Self {
        (self.points.rest, self.points.undetermined) = (is_there.then_some("gaussian"), undetermined);
        self
    }

    /// The same with what the rounds came to.
    pub fn with_rounds(self, start: Start, rounds: &[Round], chosen: usize) -> Self {
        let start = Some(start.to_string());
        let rounds = OfRounds { start, rounds: rounds.to_vec(), round_chosen: Some(chosen) };
        Self { rounds, ..self }
    }

    /// The same with how often anybody looked at all rows since they were opened; `others` are passes of a method that keeps
    /// rows of its own.
    pub fn with_looks(self, looks: Looks, others: f64) -> Self {
        let passes = Some(looks.passes() as f64 + others);
        Self { build: OfBuild { passes, looks: Some(looks), ..self.build }, ..self }
    }

    /// Number of usable rows.
    pub fn rows(&self) -> usize {
        self.subject.n
    }

    /// The same of so many rows, of whose groups so many were chosen.
    pub fn of_groups(self, rows: usize, groups: usize, chosen: usize) -> Self {
        let subject = OfData { n: rows, groups: Some(groups), ..self.subject };
        Self { subject, build: OfBuild { groups_chosen: Some(chosen), ..self.build }, ..self }
    }

    /// The same of a coreset that stands for so many rows, earlier and new ones, known again by this fingerprint.
    pub fn of_update(self, rows: usize, fingerprint: Option<String>) -> Self {
        let subject = OfData { n: rows, distinct: None, fingerprint, ..self.subject };
        Self { subject, build: OfBuild { method: Some("update".to_owned()), ..self.build }, ..self }
    }

    /// The same with the divergence on so many draws of the coreset's own posterior, in place of what the build said.
    pub fn judged_on_own(self, nats: f64, draws: usize) -> Self {
        let (heldout_nats, heldout_residual) = (Some(nats), Some((2.0 * nats).sqrt()));
        let quality =
            OfQuality { heldout_nats, heldout_residual, heldout_draws: draws, own: true, ..self.quality };
        Self { quality, ..self }
    }

    /// The same with how test rows are predicted.
    pub fn with_test(self, test: Option<TestScores>) -> Self {
        Self { test, ..self }
    }

    /// The same with the most memory the process has held, null if that is not known.
    pub fn with_peak_memory(self, bytes: Option<u64>) -> Self {
        Self { peak_memory_bytes: Some(bytes), ..self }
    }

    /// As JSON; serde writes null for what is not finite.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// For the coreset file itself: without what differs from run to run, so that the same seed gives the same bytes.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn metadata(
        &self,
        levels: &[TextLevels],
        standardisation: &Standardisation,
    ) -> serde_json::Result<BTreeMap<String, String>> {
        let build = OfBuild { path: Vec::new(), ..self.build.clone() };
        let lasting = Self { build, seconds: None, peak_memory_bytes: None, ..self.clone() };
        Ok(BTreeMap::from([
            ("corelet".to_owned(), serde_json::to_string(&lasting)?),
            ("corelet.levels".to_owned(), serde_json::to_string(levels)?),
            ("corelet.standardisation".to_owned(), serde_json::to_string(standardisation)?),
        ]))
    }

    /// In words, a line each.
    pub fn lines(&self) -> Vec<String> {
        let (points, n) = (count(self.points.points), count(self.subject.n));
        let by = self.build.method.as_ref().map_or_else(String::new, |method| format!("{method}, "));
        let OfPoints { embedding, coordinates, .. } = &self.points;
        let coordinates =
            if *coordinates > 0 { format!(", {coordinates} coordinates") } else { String::new() };
        let groups = match (self.build.groups_chosen, self.subject.groups) {
            (Some(chosen), Some(groups)) => format!(", {} of {} groups,", count(chosen), count(groups)),
            _ => String::new(),
        };
        let distinct = self
            .subject
            .distinct
            .map_or_else(String::new, |distinct| format!(", {} distinct,", count(distinct)));
        let mut lines = vec![match (self.points.rest, self.points.points) {
            (Some(_), 0) => format!("a Gaussian factor stands for all {n} rows; no row is needed beside it"),
            (Some(_), _) => format!(
                "{points} of {n} rows and a Gaussian stand for all ({by}{embedding}{coordinates}); the rows are not to be used without it"
            ),
            (None, 1) => {
                format!("1 of {n} rows{distinct}{groups} stands for all ({by}{embedding}{coordinates})")
            }
            _ => {
                format!("{points} of {n} rows{distinct}{groups} stand for all ({by}{embedding}{coordinates})")
            }
        }];
        let priors = self.subject.priors.iter().enumerate();
        lines.extend(
            priors.map(|(i, prior)| format!("  {:<15}{}", if i == 0 { "prior" } else { "" }, prior.line())),
        );
        lines.extend(self.divergence_lines());
        if let Some(shift) = self.largest_shift() {
            let (sd, ratio) = (number(shift.shift.mean_shift), number(shift.shift.sd_ratio));
            lines.push(format!("  largest shift  {}: mean off by {sd} sd, sd times {ratio}", shift.name));
        }
        lines.extend(self.test.iter().map(test_line));
        if let (Some(status), Some(passes)) = (self.build.status, self.build.passes) {
            let (residual, passes) = (number(self.points.residual), number(passes));
            let looks = self.build.looks.map_or_else(String::new, |looks| {
                let Looks { moments, newton, gather, top, totals } = looks;
                format!(": {} to fit, {} to choose, {totals} to judge", moments + newton, gather + top)
            });
            lines.push(format!("  solver         {status}: residual {residual}; {passes} passes{looks}"));
        }
        if let (true, Some(chosen)) = (self.rounds.rounds.len() > 1, self.rounds.round_chosen) {
            let variances: Vec<String> =
                self.rounds.rounds.iter().map(|round| optional(round.variance)).collect();
            lines.push(format!(
                "  rounds         V {} nats² on draws of the coreset's own posterior; round {} is kept",
                variances.join(" → "),
                chosen + 1
            ));
        }
        if let Some(Seconds { read, laplace, build, evaluate }) = self.seconds {
            let [read, fit, build, evaluate] = [read, laplace, build, evaluate].map(duration);
            lines
                .push(format!("  time           read {read}, fit {fit}, build {build}, evaluate {evaluate}"));
        }
        lines
    }

    fn divergence_lines(&self) -> Vec<String> {
        let [forward, reverse, held_out] =
            [self.quality.kl_forward, self.quality.kl_reverse, self.quality.heldout_nats].map(optional);
        let mut draws = format!("{} fresh draws", count(self.quality.heldout_draws));
        if let Some(rows) = self.quality.heldout_rows {
            draws += &format!(" (above order 2 from {} rows)", count(rows));
        }
        let held_out = match self.quality.heldout_nats_se {
            Some(se) => format!("{held_out} ± {}", number(se)),
            None => held_out,
        };
        let alone = self.rounds.start.as_ref().is_some_and(|start| start != "full");
        let numbers = if self.points.rest.is_some() {
            format!("  divergence     {held_out} nats estimated on {draws}")
        } else if alone {
            format!(
                "  divergence     {held_out} nats estimated on {draws}; no fit of all rows to compare with"
            )
        } else if self.quality.own {
            format!(
                "  divergence     {held_out} nats on {} draws of its own posterior",
                count(self.quality.heldout_draws)
            )
        } else if self.quality.coreset_fit == FitStatus::NotFitted {
            let draws = count(self.quality.heldout_draws);
            format!("  divergence     {held_out} nats estimated on {draws} draws that were held out")
        } else {
            format!("  divergence     {forward} nats forward KL, {reverse} reverse; {held_out} on {draws}")
        };
        let judged = match self.quality.coreset_fit {
            FitStatus::NotFitted => self.quality.heldout_nats,
            _ if self.points.rest.is_some() => self.quality.heldout_nats,
            _ if alone => None,
            _ => self.quality.kl_forward,
        };
        let words = judged.map(|nats| format!("                 {}", judgement(nats)));
        std::iter::once(numbers).chain(words).collect()
    }

    /// What the user should not overlook.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.build.max_kl_reached == Some(false) {
            warnings.push(format!(
                "the held-out estimate is {} nats with {} points, above {}: try k = {}",
                optional(self.quality.heldout_nats),
                count(self.points.points),
                optional(self.build.max_kl),
                (2 * self.build.k.unwrap_or_default()).min(self.subject.n)
            ));
        }
        if let Some(TooFew { parameters, enough }) = self.build.too_few {
            let (k, parameters) = (points(self.build.k.unwrap_or_default()), plural(parameters, "parameter"));
            warnings.push(format!("{k} are too few for {parameters}: try k = {enough}"));
        }
        if self.points.undetermined > 0 {
            warnings.push(format!(
                "the data do not inform {} of the parameters: the Gaussian leaves them to the prior",
                plural(self.points.undetermined, "direction")
            ));
        }
        match self.quality.coreset_fit {
            FitStatus::Converged | FitStatus::Stalled | FitStatus::NotFitted => {}
            FitStatus::IterationLimit => {
                warnings.push("the coreset's own posterior fit has not converged".to_owned());
            }
            FitStatus::Failed => {
                warnings.push("the coreset's own posterior has no Laplace fit, so no KL is known".to_owned());
            }
        }
        if let (Some(status), Some(method)) = (self.build.status, &self.build.method)
            && !status.is_natural()
        {
            warnings.push(format!("{method} had not converged when it stopped: {status}"));
        }
        warnings
    }

    fn largest_shift(&self) -> Option<&NamedShift> {
        let size = |named: &NamedShift| named.shift.mean_shift.abs();
        self.quality.parameters.iter().max_by(|a, b| size(a).total_cmp(&size(b)))
    }
}

/// How test rows are predicted.
fn test_line(test: &TestScores) -> String {
    let said = |score: &Score| format!("{} ± {}", number(score.mean), number(score.mean_se));
    let rows = count(test.full.rows);
    match (&test.coreset, &test.difference) {
        (Some(coreset), Some(difference)) => format!(
            "  test           log predictive density of {rows} rows: {} nats a row, {} under all rows; difference {}",
            said(coreset),
            said(&test.full),
            said(difference)
        ),
        _ => format!(
            "  test           log predictive density of {rows} rows: {} nats a row under all rows",
            said(&test.full)
        ),
    }
}

/// The data and the model that a coreset was built on.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// How messages name the data.
    pub data: &'a str,
    /// Usable rows.
    pub n: usize,
    /// How many of them are distinct, where equal ones are taken as one.
    pub distinct: Option<usize>,
    /// The name of each parameter.
    pub names: &'a [String],
    /// Number of features.
    pub features: usize,
    /// The name of the likelihood.
    pub model: &'static str,
    /// The priors of its parameters, where they are known.
    pub priors: &'a [PriorGroup],
    /// Rows left out for missing values.
    pub dropped: usize,
    /// What tells these observations from others, where that is known.
    pub fingerprint: Option<&'a str>,
    /// Number of groups of rows, where groups are to be chosen.
    pub groups: Option<usize>,
    /// The classes of a target that has several, in the order of their numbers.
    pub classes: &'a [String],
}

/// What is judged, and in which embedding.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// The embedding.
    pub embedding: &'a Description,
    /// ‖y − Φw‖ in it.
    pub residual: f64,
    /// The weights, as they are written.
    pub weights: &'a WrittenWeights,
    /// The seed of the draws.
    pub seed: u64,
}
