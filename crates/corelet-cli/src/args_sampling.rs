//! The flags of `sample`, `fit` and `path`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use corelet::coreset::RestChoice;
use corelet::data::{Format, Unseen};
use corelet::embed::Choice;
use corelet::mixed::{MixedSpecification, RandomTerms, SdPrior};
use corelet::posterior::SampleSettings;
use corelet::study::{
    BuildSpecification, GroupPolicy, MixedPrediction, PredictedEffects, PredictedKind, PredictionSettings,
    Specification, UpdateSpecification,
};

use crate::args::{ChooseArgs, ModelArgs, RestArg, count, positive_count, positive_number};
use crate::args_data::DataArgs;
use crate::load::has_metadata;

/// Chains and their length.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct ChainArgs {
    /// Number of chains, run in parallel
    #[arg(long, default_value_t = 4, value_parser = count())]
    chains: usize,
    /// Warm-up steps of each chain, which are not kept
    #[arg(long, default_value_t = 500, value_parser = count())]
    warmup: usize,
    /// Draws of each chain
    #[arg(long, default_value_t = 1000, value_parser = count())]
    draws: usize,
    /// Target acceptance rate of the step-size adaptation
    #[arg(long, value_name = "RATE", default_value_t = 0.8, value_parser = positive_number)]
    target_accept: f64,
}

/// The files for draws.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct DrawFiles {
    /// Write the draws to this .parquet, .csv or .json file; - is CSV on standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write draws, sample statistics and warm-up for ArviZ; corelet.read_draws opens the file in Python
    #[arg(long, value_name = "FILE")]
    pub(crate) arviz: Option<PathBuf>,
    /// Write a summary to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  corelet sample data.csv --target y --coreset core.parquet -o draws.parquet --arviz draws.json
  corelet sample data.csv --target y --full -o full.parquet --chains 4 --draws 2000

The exit code is 3 if the coreset is not certified.")]
pub(crate) struct SampleArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// File with columns row and weight, as build writes it
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "full",
        conflicts_with = "full",
        help_heading = "Coreset"
    )]
    pub(crate) coreset: Option<PathBuf>,
    /// Sample the posterior of all rows instead, for comparison
    #[arg(long, help_heading = "Coreset")]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) chains: ChainArgs,
    #[command(flatten)]
    pub(crate) files: DrawFiles,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  corelet fit data.csv --target y
  corelet fit flights.parquet --target late --drop-missing --report report.html
  corelet fit data.csv --target y -k 500 -o draws.parquet --coreset core.parquet
  corelet fit visits.parquet --target bought --random customer --random-effects customers.parquet

The exit code is 3 if the coreset is not certified.")]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) choose: ChooseArgs,
    /// Limit up to which -k (300 by default) doubles while the coreset is not certified [default: four times -k]
    #[arg(long, value_name = "POINTS", value_parser = positive_count(), help_heading = "Coreset")]
    pub(crate) max_k: Option<usize>,
    #[command(flatten)]
    pub(crate) random: RandomArgs,
    #[command(flatten)]
    pub(crate) chains: ChainArgs,
    #[command(flatten)]
    pub(crate) files: DrawFiles,
    /// Write the chosen rows to this .csv, .parquet or .json file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) coreset: Option<PathBuf>,
    /// Write a report with tables and pictures, one self-contained HTML file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,
}

/// Random effects of groups. They are integrated out, and -k whole groups are chosen.
#[derive(Debug, Args)]
#[command(next_help_heading = "Random effects")]
pub(crate) struct RandomArgs {
    /// Random effects of groups: customer (an intercept for each customer), "1 + price | customer" or "customer: 1 + price" (slopes
    /// too), || for independent effects; -k then counts groups, 50 by default. For a second, crossed factor repeat the flag or
    /// write "(1 | customer) + (1 | product)"; for nested factors "1 | school/class"
    #[arg(long, value_name = "EFFECTS", action = clap::ArgAction::Append)]
    random: Vec<RandomTerms>,
    /// Prior of the standard deviations of random effects: half_normal(SCALE), half_student_t(DEGREES, SCALE) or
    /// exponential(RATE) [default: half_normal(2.5), times the sd of the target for linear and student]
    #[arg(long, value_name = "PRIOR")]
    sd_prior: Option<SdPrior>,
    /// Prior of the correlation of two random effects: its eta, 1 for uniform [default: 1]
    #[arg(long, value_name = "ETA", value_parser = positive_number)]
    lkj: Option<f64>,
    /// Number of quadrature nodes along each random effect [default: as many as keep the bias below a tenth of a posterior sd]
    #[arg(long, value_name = "NODES", value_parser = positive_count())]
    nodes: Option<usize>,
    /// Write the random effects of all groups to this file, one row for each: .parquet, .csv or .json
    #[arg(long, value_name = "FILE", requires = "random")]
    pub(crate) random_effects: Option<PathBuf>,
    /// Write the marginal model of the chosen groups as a Stan program, and its data beside it as .json
    #[arg(long, value_name = "FILE", requires = "random")]
    pub(crate) stan: Option<PathBuf>,
}

impl RandomArgs {
    /// All factors.
    pub(crate) fn terms(&self) -> Result<Option<RandomTerms>, String> {
        RandomTerms::joined(&self.random)
    }

    fn specification(&self) -> MixedSpecification {
        let Self { sd_prior, lkj, nodes, .. } = *self;
        // Conflicting terms have been refused already.
        MixedSpecification { random: self.terms().ok().flatten(), sd_prior, lkj, nodes }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  corelet path data.csv --target y -k 200
  corelet path flights.parquet --target late --drop-missing -o path.csv --figure path.svg")]
pub(crate) struct PathArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Largest number of points [default: 100]
    #[arg(short, value_name = "POINTS", value_parser = positive_count(), help_heading = "Coreset")]
    k: Option<usize>,
    /// Embedding of the log-likelihoods as vectors: auto, hermite:M, draws:S or hermite:2+draws:S
    #[arg(long, default_value = "auto", help_heading = "Coreset")]
    embedding: Choice,
    /// Write the divergence at every size, as CSV; - is standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Write a picture of it: .svg or .png
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) figure: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  corelet predict core.parquet new.csv -o predicted.csv
  corelet predict core.parquet new.csv -o predicted.csv --kind outcome --quantiles 0.025,0.975

A mixed model, for groups in the data and for new groups:
  corelet predict core.parquet new.csv --data visits.parquet --unseen-groups new -o out.csv")]
pub(crate) struct PredictArgs {
    /// Coreset file, .parquet or .json, as build, fit --coreset and update write it, with the model and the encoding of rows
    pub(crate) coreset: PathBuf,
    /// Rows to predict, with the columns that the coreset was built on
    pub(crate) new: PathBuf,
    /// Format of that file, if its extension does not tell it
    #[arg(long)]
    pub(crate) format: Option<Format>,
    /// Write the rows with their predictions to this .csv, .parquet or .json file; - is CSV on standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Which distribution to predict
    #[arg(long, default_value = "mean")]
    kind: KindArg,
    /// Quantiles to report, between 0 and 1
    #[arg(long, value_name = "Q,Q,...", value_delimiter = ',', default_value = "0.05,0.5,0.95")]
    quantiles: Vec<f64>,
    /// What to do with unseen levels, which the coreset's data did not have
    #[arg(long, default_value = "error")]
    unseen: UnseenArg,
    /// Random effects to use in predictions from a mixed model
    #[arg(long, default_value = "own", help_heading = "Random effects")]
    effects: EffectsArg,
    /// What to do with unseen groups, whose rows are in neither the coreset nor --data, with --effects own
    #[arg(long, default_value = "error", help_heading = "Random effects")]
    unseen_groups: UnseenGroupsArg,
    /// The data to which the model was fitted, for groups that are not in the coreset
    #[arg(long, value_name = "FILE", help_heading = "Random effects")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    chains: ChainArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  corelet update core.parquet october.csv -o core2.parquet
  corelet update core.parquet october.csv -o core2.parquet --posterior draws.parquet
  corelet update core2.parquet november.csv --old september.csv october.csv -o core3.parquet

Without --old, the verdict rests in part on the certificates of the earlier rows, and says how much. The exit code is 3 if the result is \
not certified.")]
pub(crate) struct UpdateArgs {
    /// Coreset file, .parquet or .json, as fit --coreset or update writes it
    pub(crate) coreset: PathBuf,
    /// New rows, with the columns that the coreset was built on
    pub(crate) new: PathBuf,
    /// Format of that file, if its extension does not tell it
    #[arg(long)]
    pub(crate) format: Option<Format>,
    /// All rows that the coreset represents, in the order in which they arrived; the verdict then covers all rows
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) old: Vec<PathBuf>,
    /// Leave out rows with missing values
    #[arg(long)]
    pub(crate) drop_missing: bool,
    /// Add rows even if they look like rows already included, because they are different rows with equal values
    #[arg(long)]
    allow_repeats: bool,
    /// Whether a Gaussian factor may represent new rows: auto, gaussian or none; if the coreset already has one, it always may
    #[arg(long, default_value = "auto")]
    rest: RestArg,
    /// Write the coreset of all rows to this .parquet or .json file
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: PathBuf,
    /// Write the draws to this .parquet, .csv or .json file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) posterior: Option<PathBuf>,
    /// Write a summary to this file, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    chains: ChainArgs,
}

impl UpdateArgs {
    /// The specification of these flags.
    pub(crate) fn specification(&self, seed: u64) -> UpdateSpecification {
        UpdateSpecification {
            rest: self.rest.choice(),
            sample: self.chains.settings(),
            allow_repeats: self.allow_repeats,
            seed,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UnseenArg {
    /// Refuse them
    Error,
    /// Treat them as the base level of their column, with a warning
    Baseline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EffectsArg {
    /// The effects of the row's group, given its rows in the coreset or in --data
    Own,
    /// The effects of a new group, drawn from their distribution
    New,
    /// Effects of 0
    Population,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UnseenGroupsArg {
    /// Refuse them
    Error,
    /// Predict them as new groups
    New,
    /// Predict them with random effects of 0
    Population,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindArg {
    /// The posterior of the mean outcome given the coefficients: a probability, a rate
    Mean,
    /// The posterior predictive distribution of the outcome itself
    Outcome,
}

impl PredictArgs {
    /// The settings of the prediction.
    pub(crate) fn prediction(&self, seed: u64) -> PredictionSettings {
        let kind = match self.kind {
            KindArg::Mean => PredictedKind::Mean,
            KindArg::Outcome => PredictedKind::Outcome,
        };
        PredictionSettings { kind, quantiles: self.quantiles.clone(), seed }
    }

    /// The settings of the prediction of a mixed model.
    pub(crate) fn mixed_prediction(&self, seed: u64) -> MixedPrediction {
        let effects = match self.effects {
            EffectsArg::Own => PredictedEffects::Own,
            EffectsArg::New => PredictedEffects::New,
            EffectsArg::Population => PredictedEffects::Population,
        };
        let unseen = match self.unseen_groups {
            UnseenGroupsArg::Error => GroupPolicy::Error,
            UnseenGroupsArg::New => GroupPolicy::New,
            UnseenGroupsArg::Population => GroupPolicy::Population,
        };
        MixedPrediction { settings: self.prediction(seed), effects, unseen }
    }

    /// The first given flag that is only for mixed models, if any.
    pub(crate) fn for_groups(&self) -> Option<&'static str> {
        let given = [
            ("--effects", self.effects != EffectsArg::Own),
            ("--unseen-groups", self.unseen_groups != UnseenGroupsArg::Error),
            ("--data", self.data.is_some()),
        ];
        given.into_iter().find(|&(_, given)| given).map(|(flag, _)| flag)
    }

    /// The policy for unseen levels.
    pub(crate) fn unseen(&self) -> Unseen {
        match self.unseen {
            UnseenArg::Error => Unseen::Error,
            UnseenArg::Baseline => Unseen::Baseline,
        }
    }

    /// The settings of the sampler for the coreset's posterior.
    pub(crate) fn sampling(&self) -> SampleSettings {
        self.chains.settings()
    }
}

impl ChainArgs {
    /// The settings of these flags.
    fn settings(&self) -> SampleSettings {
        let Self { chains, warmup, draws, target_accept } = *self;
        SampleSettings { chains, warmup, draws, target_accept, ..SampleSettings::default() }
    }
}

impl SampleArgs {
    /// The specification of these flags.
    pub(crate) fn specification(&self, seed: u64) -> Specification {
        let build = BuildSpecification { seed, ..BuildSpecification::default() };
        let sample = self.chains.settings();
        Specification { build, sample, ..self.data.specification(&self.model) }
    }
}

impl FitArgs {
    /// The specification of these flags.
    pub(crate) fn specification(&self, seed: u64) -> Specification {
        // CSV has no place for a Gaussian factor, so the default for CSV is rows alone.
        let in_csv = self.coreset.as_ref().is_some_and(|path| !has_metadata(path));
        let rest = if in_csv { RestChoice::None } else { RestChoice::Auto };
        let (build, sample) = (self.choose.specification_or(rest, seed), self.chains.settings());
        let mixed = self.random.specification();
        Specification { build, sample, mixed, ..self.data.specification(&self.model) }
    }
}

impl PathArgs {
    /// The specification of these flags.
    pub(crate) fn specification(&self, seed: u64) -> Specification {
        let Self { k, embedding, .. } = *self;
        let build = BuildSpecification { k, embedding, seed, ..BuildSpecification::default() };
        Specification { build, ..self.data.specification(&self.model) }
    }
}
