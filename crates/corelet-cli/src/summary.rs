//! The summary of a run: as JSON with stable keys, as a coreset file's metadata, and in words.

use std::collections::BTreeMap;
use std::path::Path;

use corelet::coreset::{BuildOptions, Coreset, Round, Start};
use corelet::embed::Description;
use corelet::evaluate::{Evaluation, FitStatus, ParameterShift};
use serde::Serialize;
use sparse_nnls::Status;

use crate::load::Fitted;
use crate::memory;
use crate::terminal::Terminal;
use crate::wording::{count, duration, judgement, number, optional};

/// Seconds that each part took.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Seconds {
    pub(crate) read: f64,
    pub(crate) laplace: f64,
    pub(crate) build: f64,
    pub(crate) evaluate: f64,
}

/// What the coreset does to one parameter, by its name.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NamedShift {
    name: String,
    #[serde(flatten)]
    shift: ParameterShift,
}

/// The keys of `--json`, documented in `docs/cli.md`. What is not known, or not finite, is null.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Summary {
    method: Option<String>,
    k: Option<usize>,
    points: usize,
    n: usize,
    features: usize,
    embedding: String,
    coordinates: usize,
    tail: f64,
    seed: u64,
    status: Option<Status>,
    passes: Option<f64>,
    iterations: Option<usize>,
    residual: f64,
    heldout_residual: Option<f64>,
    kl_forward: Option<f64>,
    kl_reverse: Option<f64>,
    map_distance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_bytes: Option<Option<u64>>,
    version: &'static str,
    data: String,
    model: &'static str,
    rows_dropped: usize,
    total_weight: f64,
    target_norm: Option<f64>,
    max_kl: Option<f64>,
    max_kl_reached: Option<bool>,
    heldout_nats: Option<f64>,
    heldout_draws: usize,
    kl_symmetrised: Option<f64>,
    coreset_fit: FitStatus,
    parameters: Vec<NamedShift>,
    path: Vec<(usize, f64)>,
    start: Option<String>,
    rounds: Vec<Round>,
    round_chosen: Option<usize>,
}

impl Summary {
    /// Of a coreset that was built here.
    pub(crate) fn of_build(
        fitted: &Fitted,
        options: &BuildOptions,
        coreset: &Coreset,
        evaluation: &Evaluation,
        seconds: Seconds,
    ) -> Self {
        let judged = Judged {
            embedding: &coreset.embedding,
            residual: coreset.residual,
            weights: &coreset.weights,
            seed: options.seed,
        };
        Self {
            method: Some(coreset.method.clone()),
            k: Some(options.k),
            status: Some(coreset.status),
            passes: Some(coreset.passes),
            iterations: Some(coreset.iterations),
            target_norm: Some(coreset.target_norm),
            max_kl: options.max_kl,
            max_kl_reached: coreset.reached,
            path: coreset.path.clone(),
            ..Self::of_file(fitted, &judged, evaluation, seconds)
        }
    }

    /// Of a coreset that came from a file.
    pub(crate) fn of_file(
        fitted: &Fitted,
        judged: &Judged<'_>,
        evaluation: &Evaluation,
        seconds: Seconds,
    ) -> Self {
        let parameters = fitted.names.iter().zip(&evaluation.parameters);
        Self {
            method: None,
            k: None,
            points: judged.weights.len(),
            n: fitted.len(),
            features: fitted.names.len(),
            embedding: judged.embedding.name.clone(),
            coordinates: judged.embedding.coordinates,
            tail: judged.embedding.tail,
            seed: judged.seed,
            status: None,
            passes: None,
            iterations: None,
            residual: judged.residual,
            heldout_residual: evaluation.heldout_residual,
            kl_forward: evaluation.kl_forward,
            kl_reverse: evaluation.kl_reverse,
            map_distance: evaluation.map_distance,
            seconds: Some(seconds),
            peak_memory_bytes: Some(memory::peak_bytes()),
            version: env!("CARGO_PKG_VERSION"),
            data: fitted.table.source.clone(),
            model: fitted.model.name(),
            rows_dropped: fitted.dropped,
            total_weight: judged.weights.iter().sum(),
            target_norm: None,
            max_kl: None,
            max_kl_reached: None,
            heldout_nats: evaluation.heldout_nats,
            heldout_draws: evaluation.heldout_draws,
            kl_symmetrised: evaluation.kl_symmetrised,
            coreset_fit: evaluation.fit,
            parameters: parameters.map(|(name, &shift)| NamedShift { name: name.clone(), shift }).collect(),
            path: Vec::new(),
            start: None,
            rounds: Vec::new(),
            round_chosen: None,
        }
    }

    /// With what the rounds came to.
    pub(crate) fn with_rounds(self, start: Start, rounds: &[Round], chosen: usize) -> Self {
        let start = Some(start.to_string());
        Self { start, rounds: rounds.to_vec(), round_chosen: Some(chosen), ..self }
    }

    /// As JSON; serde writes null for what is not finite.
    pub(crate) fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// For the coreset file itself: without what differs from run to run, so that the same seed gives the same bytes.
    pub(crate) fn metadata(&self, fitted: &Fitted) -> anyhow::Result<BTreeMap<String, String>> {
        let lasting = Self { seconds: None, peak_memory_bytes: None, path: Vec::new(), ..self.clone() };
        Ok(BTreeMap::from([
            ("corelet".to_owned(), serde_json::to_string(&lasting)?),
            ("corelet.levels".to_owned(), serde_json::to_string(&fitted.levels)?),
            ("corelet.standardisation".to_owned(), serde_json::to_string(&fitted.standardisation)?),
        ]))
    }

    /// In words.
    pub(crate) fn show(&self, terminal: &Terminal, written: &[&Path]) {
        let (points, n) = (count(self.points), count(self.n));
        let by = self.method.as_ref().map_or_else(String::new, |method| format!("{method}, "));
        let Self { embedding, coordinates, .. } = self;
        terminal
            .say(&format!("{points} of {n} rows stand for all ({by}{embedding}, {coordinates} coordinates)"));
        self.show_divergence(terminal);
        if let Some(shift) = self.largest_shift() {
            let (sd, ratio) = (number(shift.shift.mean_shift), number(shift.shift.sd_ratio));
            terminal.say(&format!("  largest shift  {}: mean off by {sd} sd, sd times {ratio}", shift.name));
        }
        if let (Some(status), Some(passes)) = (self.status, self.passes) {
            let residual = number(self.residual);
            terminal.say(&format!(
                "  solver         {status}: residual {residual} after {} passes",
                number(passes)
            ));
        }
        if let (true, Some(chosen)) = (self.rounds.len() > 1, self.round_chosen) {
            let variances: Vec<String> = self.rounds.iter().map(|round| optional(round.variance)).collect();
            terminal.say(&format!(
                "  rounds         V {} nats² on draws of the coreset's own posterior; round {} is kept",
                variances.join(" → "),
                chosen + 1
            ));
        }
        if let Some(Seconds { read, laplace, build, evaluate }) = self.seconds {
            let [read, fit, build, evaluate] = [read, laplace, build, evaluate].map(duration);
            terminal
                .say(&format!("  time           read {read}, fit {fit}, build {build}, evaluate {evaluate}"));
        }
        for path in written {
            terminal.say(&format!("  written        {}", path.display()));
        }
    }

    fn show_divergence(&self, terminal: &Terminal) {
        let [forward, reverse, held_out] =
            [self.kl_forward, self.kl_reverse, self.heldout_nats].map(optional);
        if self.start.as_ref().is_some_and(|start| start != "full") {
            terminal.say(&format!(
                "  divergence     {held_out} nats estimated on fresh draws; no fit of all rows to compare with"
            ));
            return;
        }
        terminal.say(&format!(
            "  divergence     {forward} nats forward KL, {reverse} reverse; {held_out} estimated on fresh draws"
        ));
        if let Some(nats) = self.kl_forward {
            terminal.say(&format!("                 {}", judgement(nats)));
        }
    }

    /// What the user should not overlook.
    pub(crate) fn warn(&self, terminal: &Terminal) {
        if self.max_kl_reached == Some(false) {
            terminal.warn(&format!(
                "the held-out estimate is {} nats, above --max-kl {}; {} points were tried",
                optional(self.heldout_nats),
                optional(self.max_kl),
                self.k.unwrap_or_default()
            ));
        }
        match self.coreset_fit {
            FitStatus::Converged | FitStatus::Stalled => {}
            FitStatus::IterationLimit => terminal.warn("the coreset's own posterior fit has not converged"),
            FitStatus::Failed => {
                terminal.warn("the coreset's own posterior has no Laplace fit, so no KL is known");
            }
        }
        if let (Some(status), Some(method)) = (self.status, &self.method)
            && !status.is_natural()
        {
            terminal.warn(&format!("{method} had not come to rest when it stopped: {status}"));
        }
    }

    fn largest_shift(&self) -> Option<&NamedShift> {
        let size = |named: &NamedShift| named.shift.mean_shift.abs();
        self.parameters.iter().max_by(|a, b| size(a).total_cmp(&size(b)))
    }
}

/// What is judged, and in which embedding.
pub(crate) struct Judged<'a> {
    pub(crate) embedding: &'a Description,
    pub(crate) residual: f64,
    pub(crate) weights: &'a [f64],
    pub(crate) seed: u64,
}
