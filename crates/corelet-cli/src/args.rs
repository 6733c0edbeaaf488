//! The command line: every flag, and the options of the library that they stand for.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use corelet::coreset::{RestChoice, RoundsBy, Selector, Start};
use corelet::embed::Choice;
use corelet::model::{BuiltIn, Degrees, Link};
use corelet::study::{BuildSpecification, ModelSpecification, Priors, Specification};
use corelet_cli::process::ProcessArgs;
use sparse_nnls::Method;

use crate::args_after::{CertifyArgs, ReviewArgs};
use crate::args_data::DataArgs;
use crate::args_sampling::{FitArgs, PathArgs, PredictArgs, SampleArgs, UpdateArgs};

/// Bayesian inference on large data: choose a few weighted rows whose posterior closely approximates that of all rows, and certify it.
#[derive(Debug, Parser)]
#[command(name = "corelet", bin_name = "corelet", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

const EXAMPLES: &str = "\
Examples:
  corelet fit flights.parquet --target late --drop-missing
  corelet fit claims.csv --model poisson --target claims --exposure years --report report.html
  corelet predict core.parquet new.csv -o predicted.csv
  corelet build flights.parquet --target late --drop-missing -o core.parquet
  corelet sample data.csv --target y --coreset core.parquet -o draws.parquet --arviz draws.json
  corelet evaluate data.csv --target y --coreset core.parquet
  corelet update core.parquet new.csv -o core2.parquet
  corelet certify draws.csv data.csv --target y
  corelet review draws.parquet data.csv --target y
  corelet path data.csv --target y -k 200
  corelet compare data.csv --target y -k 10,20,50 --methods pursuit,giga,uniform --seeds 5
  corelet demo";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build a coreset, sample its posterior by NUTS, and certify the estimates
    Fit(Box<FitArgs>),
    /// Predict new rows from the posterior of a coreset file, without the data
    Predict(PredictArgs),
    /// Choose weighted rows of a data file
    Build(BuildArgs),
    /// Sample the posterior of a coreset file, or of all rows, and certify the estimates
    Sample(SampleArgs),
    /// Estimate the divergence of a coreset file from the data it came from
    Evaluate(EvaluateArgs),
    /// Add new rows to a coreset file; the earlier rows are not needed
    Update(UpdateArgs),
    /// Certify draws of any origin (ADVI, Pathfinder, Laplace, an earlier fit) against all rows
    Certify(CertifyArgs),
    /// Leave-one-out predictive densities, predictive checks and influential rows, for draws of a posterior
    Review(ReviewArgs),
    /// Tabulate the divergence against the number of points
    Path(PathArgs),
    /// Run several methods at several sizes and tabulate them
    Compare(CompareArgs),
    /// Compare every method on the paper's synthetic data
    Demo(DemoArgs),
}

/// The likelihood and the prior.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// The likelihood
    #[arg(long, default_value = BuiltIn::default().name(), value_parser = models_parser())]
    model: BuiltIn,
    /// Link between the linear predictor and a Poisson rate [default: log]
    #[arg(long)]
    link: Option<LinkArg>,
    /// Noise standard deviation: of a linear target [default: a parameter, log_sigma], of Gaussian data [default: 1]
    #[arg(long, value_parser = positive_number)]
    sigma: Option<f64>,
    /// Degrees of freedom of Student-t noise; estimated makes them a parameter, log_nu [default: 4]
    #[arg(long, value_name = "NU")]
    degrees: Option<Degrees>,
    /// Replace the default priors by N(0, sd²) for the intercept and each coefficient of the standardised features; 1 is the paper's
    #[arg(long, value_parser = positive_number)]
    prior_sd: Option<f64>,
    /// Priors: auto (weakly informative, scaled to the data); paper (N(0, 1) on the standardised features); or a TOML file with
    /// priors of coefficients by name, of the intercept and of dispersion parameters [default: auto]
    #[arg(long, visible_alias = "prior", value_name = "auto|paper|FILE", value_parser = priors_of_file)]
    priors: Option<Priors>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  corelet build flights.parquet --target late -k 200 -o core.parquet --json summary.json
  corelet build trips.csv.gz --model poisson --target count --exposure hours -k 100 -o core.csv
  corelet build data.csv --target bought --positive yes --max-kl 0.01 -o core.csv
  corelet build big.parquet --target y -k 300 --start subsample:2000 -o core.parquet
  corelet build wide.parquet --target y -k 0 --rest gaussian -o core.parquet
  corelet build 'parts/*.parquet' --target y -o core.parquet
  corelet build visits.csv --target relapse --groups patient -k 100 -o core.csv
  cat data.csv | corelet build - --target y -o core.csv")]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) choose: ChooseArgs,
    /// Write the chosen rows to this .csv, .parquet or .json file; - is CSV on standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Write a summary to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report with tables and pictures, one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// Which points, how many, and how often to choose again.
#[derive(Debug, Args)]
#[command(next_help_heading = "Coreset")]
pub(crate) struct ChooseArgs {
    /// Largest number of rows (points), or of groups with --groups; 0 is allowed with --rest gaussian [default: for fit 300, doubled
    /// until certified; otherwise as many as --max-kl needs, up to 1600; without such a search 7 per parameter, at least 100]
    #[arg(short, value_name = "POINTS", value_parser = count())]
    k: Option<usize>,
    /// Whether a Gaussian factor accompanies or replaces the weighted rows: none, gaussian, or auto, whichever has the
    /// smaller divergence [default: none; for fit auto]
    #[arg(long)]
    rest: Option<RestArg>,
    /// Choose the fewest points whose divergence is at most this, in nats, on held-out draws and on draws of the coreset's own
    /// posterior [default: 0.01 if -k is not given]
    #[arg(long, value_name = "NATS", value_parser = positive_number)]
    max_kl: Option<f64>,
    /// Algorithm that chooses the points; sparse-vi is slow: it takes 500 gradients per point, each a pass over the data unless
    /// the model is gaussian, or linear with --sigma
    #[arg(long, default_value = "pursuit", value_parser = method_parser())]
    pub(crate) method: Selector,
    #[command(flatten)]
    embed: EmbedArgs,
    /// Compute the optimal weights of the final points once more
    #[arg(long)]
    polish: bool,
    /// Number of builds, each under the posterior of the previous coreset [default: up to 4, while it helps]
    #[arg(long, value_name = "ROUNDS", value_parser = positive_count())]
    rounds: Option<usize>,
    /// How the posterior of the previous coreset is approximated
    #[arg(long, default_value = "laplace")]
    rounds_by: RoundsByArg,
    /// Rows of the first Laplace approximation of the posterior: full, or subsample:ROWS, which avoids a fit of all rows
    #[arg(long, default_value = "full")]
    pub(crate) start: Start,
}

#[derive(Debug, Args)]
pub(crate) struct EmbedArgs {
    /// Embedding of the log-likelihoods as vectors: auto, hermite:M, draws:S or hermite:2+draws:S
    #[arg(long, default_value = "auto")]
    pub(crate) embedding: Choice,
    /// Halve the step of iht, a-iht and a-iht-2, as the paper's code does
    #[arg(long)]
    reference: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  corelet compare phishing.npz --standardise whiten --embedding draws:500 -k 10,50 -o table.csv
  corelet compare data.csv --target y -k 50 --methods pursuit,a-iht-2,uniform --seeds 10")]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Numbers of points to try
    #[arg(short, value_name = "K,K,...", value_delimiter = ',', default_value = "100", value_parser = positive_count())]
    pub(crate) k: Vec<usize>,
    /// Methods to compare, or all, which leaves out the slow sparse-vi
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', default_value = "all", value_parser = methods_parser())]
    methods: Vec<MethodArg>,
    /// Number of seeds for each run, from --seed on
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    #[command(flatten)]
    pub(crate) embed: EmbedArgs,
    /// Write every run to this file, as CSV; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  corelet evaluate flights.parquet --target late --drop-missing --coreset core.parquet
  corelet evaluate data.csv --target y --coreset core.csv --json judgement.json
  corelet evaluate train.csv --target y --coreset core.csv --test test.csv")]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// File with columns row and weight: .csv, .parquet or .json
    #[arg(long, value_name = "FILE")]
    pub(crate) coreset: PathBuf,
    /// Test rows with their targets: their log predictive density under the coreset and under all rows
    #[arg(long, value_name = "FILE")]
    pub(crate) test: Option<PathBuf>,
    /// Embedding of the log-likelihoods as vectors: auto, hermite:M, draws:S or hermite:2+draws:S
    #[arg(long, default_value = "auto")]
    pub(crate) embedding: Choice,
    /// Write a summary to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  corelet demo
  corelet demo --out /tmp/demo --n 100000")]
pub(crate) struct DemoArgs {
    /// Folder to write to
    #[arg(long, value_name = "DIR", default_value = "./corelet-demo")]
    pub(crate) out: PathBuf,
    /// Rows to generate
    #[arg(long, default_value_t = 9000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub(crate) n: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LinkArg {
    /// Rate exp(η)
    Log,
    /// Rate log(1 + exp(η)), as in the paper
    Softplus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RoundsByArg {
    /// Laplace approximation
    Laplace,
    /// NUTS, for posteriors far from Gaussian
    Nuts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RestArg {
    /// Rows alone
    None,
    /// A Gaussian factor, and rows for what it cannot represent
    Gaussian,
    /// Whichever has the smaller divergence at this number of rows
    Auto,
}

impl RestArg {
    /// The library's value for this flag.
    pub(crate) fn choice(self) -> RestChoice {
        match self {
            Self::None => RestChoice::None,
            Self::Gaussian => RestChoice::Gaussian,
            Self::Auto => RestChoice::Auto,
        }
    }
}

/// One entry of `--methods`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum MethodArg {
    All,
    One(Selector),
}

impl ModelArgs {
    pub(crate) fn specification(&self) -> ModelSpecification {
        ModelSpecification {
            model: self.model,
            link: self.link.map(|link| match link {
                LinkArg::Log => Link::Log,
                LinkArg::Softplus => Link::Softplus,
            }),
            sigma: self.sigma,
            degrees: self.degrees,
            prior_sd: self.prior_sd,
            priors: self.priors.clone(),
        }
    }
}

impl ChooseArgs {
    /// The build specification of these flags.
    pub(crate) fn specification(&self, seed: u64) -> BuildSpecification {
        self.specification_or(RestChoice::None, seed)
    }

    /// The same, with `rest` as the default of that flag.
    pub(crate) fn specification_or(&self, rest: RestChoice, seed: u64) -> BuildSpecification {
        BuildSpecification {
            rest: self.rest.map_or(rest, RestArg::choice),
            method: self.method,
            reference: self.embed.reference,
            k: self.k,
            max_kl: self.max_kl,
            embedding: self.embed.embedding,
            seed,
            polish: self.polish,
            start: self.start,
            rounds: self.rounds,
            rounds_by: match self.rounds_by {
                RoundsByArg::Laplace => RoundsBy::Laplace,
                RoundsByArg::Nuts => RoundsBy::Nuts,
            },
        }
    }
}

impl BuildArgs {
    /// The specification of these flags.
    pub(crate) fn specification(&self, seed: u64) -> Specification {
        Specification { build: self.choose.specification(seed), ..self.data.specification(&self.model) }
    }
}

impl EvaluateArgs {
    /// The specification of these flags.
    pub(crate) fn specification(&self, seed: u64) -> Specification {
        let build = BuildSpecification { embedding: self.embedding, seed, ..BuildSpecification::default() };
        Specification { build, ..self.data.specification(&self.model) }
    }
}

impl CompareArgs {
    /// The specification of these flags; the comparison itself lists its builds.
    pub(crate) fn specification(&self, seed: u64) -> Specification {
        let build = BuildSpecification { seed, ..BuildSpecification::default() };
        Specification { build, ..self.data.specification(&self.model) }
    }
}

impl CompareArgs {
    /// The methods to run, each once.
    pub(crate) fn methods(&self) -> Vec<Selector> {
        let mut methods: Vec<Selector> = Vec::new();
        for entry in &self.methods {
            let named = match entry {
                MethodArg::All => Method::all().into_iter().map(Selector::from).collect(),
                MethodArg::One(method) => vec![*method],
            };
            for method in named.into_iter().map(|method| method.with_step(self.embed.reference)) {
                if !methods.contains(&method) {
                    methods.push(method);
                }
            }
        }
        methods
    }
}

impl Cli {
    /// Refuses flags that do not go together, as clap refuses those it does not know.
    pub(crate) fn check_usage(&self) {
        let seed = self.process.seed;
        if let Command::Fit(args) = &self.command
            && let Err(reason) = args.random.terms()
        {
            Self::command().error(ErrorKind::ArgumentConflict, reason).exit();
        }
        let specification = match &self.command {
            Command::Build(args) => args.specification(seed),
            Command::Fit(args) => args.specification(seed),
            Command::Sample(args) => args.specification(seed),
            Command::Path(args) => args.specification(seed),
            Command::Compare(args) => args.specification(seed),
            Command::Evaluate(args) => args.specification(seed),
            Command::Certify(args) => args.specification(seed),
            Command::Review(args) => args.specification(seed),
            Command::Demo(_) | Command::Predict(_) | Command::Update(_) => Specification::default(),
        };
        if let Err(error) = specification.check() {
            let flag = |setting: &str| match setting {
                "k" => "-k".to_owned(),
                _ => format!("--{}", setting.replace('_', "-")),
            };
            Self::command().error(ErrorKind::ArgumentConflict, error.worded(flag)).exit();
        }
    }
}

fn method_parser() -> ValueParser {
    let parse = |name: String| Selector::from_name(&name).unwrap_or(Selector::Embedded(Method::default()));
    PossibleValuesParser::new(Selector::names().into_iter().map(named)).map(parse).into()
}

/// A value by its name, with hyphens or underscores.
fn named(name: &'static str) -> PossibleValue {
    PossibleValue::new(name).alias(name.replace('-', "_"))
}

fn models_parser() -> ValueParser {
    let values = BuiltIn::ALL.map(|model| named(model.name()).help(model.about()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<BuiltIn>()).into()
}

fn methods_parser() -> ValueParser {
    let values = [vec!["all"], Selector::names()].concat();
    let parse = |name: String| Selector::from_name(&name).map_or(MethodArg::All, MethodArg::One);
    PossibleValuesParser::new(values.into_iter().map(named)).map(parse).into()
}

/// The priors of a TOML file, or of a word that stands for one.
fn priors_of_file(path: &str) -> Result<Priors, String> {
    match path {
        "auto" => return Ok(Priors::auto()),
        "paper" => return Ok(Priors::paper()),
        _ => {}
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("it cannot be read: {error}"))?;
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
        let place = line.map_or_else(String::new, |line| format!("line {line}: "));
        format!("{place}{}", error.message())
    })
}

pub(crate) fn count() -> ValueParser {
    clap::value_parser!(u32).map(|count| count as usize).into()
}

pub(crate) fn positive_count() -> ValueParser {
    clap::value_parser!(u32).range(1..).map(|count| count as usize).into()
}

pub(crate) fn positive_number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("it must be a finite number above 0".to_owned()),
    }
}
