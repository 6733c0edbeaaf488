//! `corelet review`: what all rows say of draws of their posterior.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use corelet::data::{Extra, Source, Values, ensure_writable, write_columns};
use corelet::posterior::SampleError;
use corelet::review::{Checked, Mover, Pointwise, Review};
use corelet::study::{Fold, KFold, Study, StudyError};
use corelet::trust::{Grade, Score};
use corelet::words::{k_folded, misfits, misfits_by_level, reviewed};
use serde::Serialize;

use crate::args_after::ReviewArgs;
use crate::certify::{columns_of, draws_of};
use crate::interrupt::Interrupt;
use crate::load::{self, Follower};
use crate::output;
use crate::terminal::Terminal;
use crate::words::count;
use crate::{Outcome, report};

/// Rows that `--json` names for each coefficient.
const NAMED: usize = 20;

/// The keys of `--json`.
#[derive(Serialize)]
struct Summary<'a> {
    n: usize,
    model: &'static str,
    data: &'a str,
    version: &'static str,
    draws: usize,
    elpd_loo: f64,
    se: f64,
    p_loo: f64,
    elpd_waic: f64,
    waic_se: f64,
    p_waic: f64,
    good_k: f64,
    rows_by_k: [usize; 3],
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<Difference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispersion: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zeros: Option<(usize, f64, f64)>,
    pit: Vec<usize>,
    misfits: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    by: Vec<Level<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_evidence: Option<(f64, f64)>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    log_evidence_doubtful: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    k_fold: Option<Folds>,
    parameters: Vec<Driven<'a>>,
}

/// K-fold cross-validation.
#[derive(Serialize)]
struct Folds {
    elpd: f64,
    se: f64,
    folds: Vec<OneFold>,
}

#[derive(Serialize)]
struct OneFold {
    rows: usize,
    points: usize,
    grade: Grade,
    variance: f64,
    elpd: f64,
}

impl Folds {
    fn of(found: &KFold) -> Self {
        let one = |&Fold { rows, points, grade, variance, elpd }: &Fold| OneFold {
            rows,
            points,
            grade,
            variance,
            elpd,
        };
        Self { elpd: found.elpd, se: found.se, folds: found.folds.iter().map(one).collect() }
    }
}

/// Outcomes of the rows with one level of a column; of means and zeros what there is, what is expected, and its standard deviation.
#[derive(Serialize)]
struct Level<'a> {
    level: &'a str,
    rows: usize,
    mean: Option<(f64, f64, f64)>,
    dispersion: Option<f64>,
    zeros: Option<(usize, f64, f64)>,
}

impl<'a> Level<'a> {
    fn of((level, checked): &'a (String, Checked)) -> Self {
        Self {
            level,
            rows: checked.rows,
            mean: checked.mean,
            dispersion: checked.dispersion.map(|(ratio, _)| ratio),
            zeros: checked.zeros,
        }
    }
}

/// elpd of this model less that of the other.
#[derive(Debug, Clone, Copy, Serialize)]
struct Difference {
    elpd: f64,
    se: f64,
}

#[derive(Serialize)]
struct Driven<'a> {
    name: &'a str,
    mean: f64,
    sd: f64,
    jackknife_se: f64,
    rows_to_turn_sign: Option<usize>,
    against: Vec<Named>,
}

#[derive(Serialize)]
struct Named {
    row: usize,
    change: f64,
}

pub(crate) fn run(
    args: &ReviewArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let outputs = args.output.iter().chain(&args.json).chain(&args.report);
    let outputs: Vec<&Path> = outputs.map(PathBuf::as_path).collect();
    let beside = args.given.files().chain(args.against.clone());
    let inputs: Vec<PathBuf> = args.data.files()?.into_iter().chain(beside).collect();
    args.output.as_ref().map_or(Ok(()), |path| ensure_writable(path))?;
    output::check(&outputs, &inputs)?;
    let columns = columns_of(&args.given)?;
    let coreset = args.given.coreset.as_deref();
    let opened = load::open_like(&args.data, &args.specification(seed), coreset, terminal)?;
    let study = &opened.study;
    let given = draws_of(study, &columns, &args.given)?;
    let other = args.against.as_ref().map(|path| elpd_of(path, study)).transpose()?;
    let by = args.by.as_deref().map(|column| opened.by(column)).transpose()?;
    let mut follower = Follower::new(terminal, interrupt);
    // Folds that cannot be are refused before a pass is made.
    let folds = match args.folds(seed).map(|asked| study.k_fold(&asked, &mut |step| follower.heard(step))) {
        Some(Err(StudyError::Sample(SampleError::Stopped))) => return Ok(Outcome::Interrupted),
        found => found.transpose().with_context(|| study.frame().source.clone())?,
    };
    let settings = args.settings(seed, by);
    let review = match study.review(&given, None, &settings, &mut |progress| follower.heard(progress)) {
        Err(StudyError::Sample(SampleError::Stopped)) => return Ok(Outcome::Interrupted),
        review => review.with_context(|| study.frame().source.clone())?,
    };
    drop(follower);
    opened.warn(terminal);
    if let (Some(other), Some(own)) = (&other, &review.outcomes) {
        other.check(own, study)?;
    }
    let difference = other.zip(review.loo.pointwise.as_ref()).map(|(other, own)| difference(own, other.elpd));

    interrupt.writing();
    if let (Some(path), Some(pointwise)) = (&args.output, &review.loo.pointwise) {
        write_columns(&rows(study, (&review, pointwise), folds.as_ref()), &BTreeMap::new(), path)?;
    }
    if let Some(path) = &args.json {
        output::write_text(path, &to_json(study, &review, folds.as_ref(), difference)?)?;
    }
    if let Some(path) = &args.report {
        output::write_text(path, &report::review_to_html(study, &review, folds.as_ref())?)?;
    }
    show(study, &review, difference, terminal);
    folds.iter().flat_map(k_folded).for_each(|line| terminal.say(&line));
    outputs.iter().for_each(|path| terminal.say(&format!("  written        {}", path.display())));
    Ok(Outcome::Done)
}

fn show(study: &Study, review: &Review, difference: Option<Difference>, terminal: &Terminal) {
    let file_row = |row: usize| study.frame().rows.file_row(row);
    terminal.say(&format!(
        "{} rows under {}, reviewed at {} draws",
        count(study.all_rows()),
        study.model(),
        count(review.draws)
    ));
    if let Some(Difference { elpd, se }) = difference {
        terminal.say(&format!("  difference     elpd {elpd:.1} ± {se:.1} above the other model's"));
    }
    reviewed(review, &study.frame().names, &file_row).iter().for_each(|line| terminal.say(line));
}

/// The elpd of each row by another model, in the order of the rows.
fn elpd_of(path: &Path, study: &Study) -> anyhow::Result<OtherModel> {
    let table = Source::open(path, None)?.table()?;
    let numbers = |name: &str| -> anyhow::Result<Vec<f64>> {
        let column = table.columns.iter().find(|column| column.name == name);
        match column.map(|column| &column.values) {
            Some(Values::Number { values, .. }) => Ok(values.clone()),
            _ => {
                Err(anyhow::anyhow!("{}: there is no column {name}, as review -o writes it", path.display()))
            }
        }
    };
    let (rows, elpd, outcomes) = (numbers("row")?, numbers("elpd")?, numbers("y")?);
    ensure!(
        rows.len() == study.len(),
        "{}: it has {} rows, the data {}: they are not of the same rows",
        path.display(),
        count(rows.len()),
        count(study.len())
    );
    let differs = (0..rows.len()).find(|&at| rows[at] != study.frame().rows.file_row(at) as f64);
    if let Some(at) = differs {
        anyhow::bail!(
            "{}: entry {at} is of row {}, where the data have row {}: they are not of the same rows",
            path.display(),
            rows[at],
            study.frame().rows.file_row(at)
        );
    }
    Ok(OtherModel { file: path.display().to_string(), elpd, outcomes })
}

/// What another model's review wrote of each row.
struct OtherModel {
    file: String,
    elpd: Vec<f64>,
    outcomes: Vec<f64>,
}

impl OtherModel {
    /// The numbers of rows are the same; the rows must be so too.
    fn check(&self, own: &[f64], study: &Study) -> anyhow::Result<()> {
        if let Some(at) = own.iter().zip(&self.outcomes).position(|(a, b)| a != b) {
            anyhow::bail!(
                "{}: the outcome of row {} is {}, where the data have {}: they are not of the same rows, or in another order",
                self.file,
                study.frame().rows.file_row(at),
                self.outcomes[at],
                own[at]
            );
        }
        Ok(())
    }
}

/// By row, so that the standard error is that of the difference.
fn difference(own: &Pointwise, other: Vec<f64>) -> Difference {
    let rows = other.len() as f64;
    let less = Score::new(own.elpd.clone()).less(&Score::new(other));
    Difference { elpd: less.total, se: rows * less.mean_se }
}

fn rows(
    study: &Study,
    (review, pointwise): (&Review, &Pointwise),
    folds: Option<&KFold>,
) -> Vec<(String, Extra)> {
    let numbers = (0..pointwise.elpd.len()).map(|row| study.frame().rows.file_row(row) as i64);
    // Weights that hardly differ have no tail.
    let khat = pointwise.pareto_k.iter().map(|k| if k.is_finite() { *k } else { 0.0 }).collect();
    let mut columns = vec![
        ("row".to_owned(), Extra::Integer(numbers.collect())),
        ("elpd".to_owned(), Extra::Float(pointwise.elpd.clone())),
        ("pareto_k".to_owned(), Extra::Float(khat)),
        ("elpd_waic".to_owned(), Extra::Float(pointwise.waic.clone())),
    ];
    columns.extend(review.outcomes.as_ref().map(|outcomes| ("y".to_owned(), Extra::Float(outcomes.clone()))));
    if let Some(KFold { fold_of, pointwise, .. }) = folds {
        columns.push(("fold".to_owned(), Extra::Integer(fold_of.iter().map(|&fold| fold as i64).collect())));
        columns.push(("elpd_k_fold".to_owned(), Extra::Float(pointwise.clone())));
    }
    columns
}

fn to_json(
    study: &Study,
    review: &Review,
    folds: Option<&KFold>,
    difference: Option<Difference>,
) -> anyhow::Result<String> {
    let loo = &review.loo;
    let checks = review.checks.as_ref();
    let named = |mover: &Mover| Named { row: study.frame().rows.file_row(mover.row), change: mover.change };
    let each = study.frame().names.iter().zip(&review.influence.each);
    let parameters = each.map(|(name, moving)| Driven {
        name,
        mean: moving.mean,
        sd: moving.sd,
        jackknife_se: moving.jackknife,
        rows_to_turn_sign: moving.to_turn,
        against: moving.against.iter().take(NAMED).map(named).collect(),
    });
    let summary = Summary {
        n: study.all_rows(),
        model: study.model(),
        data: &study.frame().source,
        version: env!("CARGO_PKG_VERSION"),
        draws: review.draws,
        elpd_loo: loo.elpd,
        se: loo.se,
        p_loo: loo.p,
        elpd_waic: loo.waic,
        waic_se: loo.waic_se,
        p_waic: loo.p_waic,
        good_k: loo.good_k,
        rows_by_k: loo.by_k,
        difference,
        dispersion: checks.and_then(|checks| checks.dispersion).map(|(ratio, _)| ratio),
        zeros: checks.and_then(|checks| checks.zeros),
        pit: checks.map(|checks| checks.pit.clone()).unwrap_or_default(),
        misfits: checks
            .map(misfits)
            .unwrap_or_default()
            .into_iter()
            .chain(misfits_by_level(&review.by))
            .collect(),
        by: review.by.iter().map(Level::of).collect(),
        log_evidence: review.evidence.map(|evidence| (evidence.log, evidence.se)),
        log_evidence_doubtful: review.evidence.is_some_and(|evidence| evidence.is_doubtful()),
        k_fold: folds.map(Folds::of),
        parameters: parameters.collect(),
    };
    Ok(serde_json::to_string_pretty(&summary)? + "\n")
}
