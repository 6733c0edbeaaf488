//! One run: the paper's experiments as cells, tables, figures and one report.
//!
//! settings → data → cells (resumable) → summary → figures, claims → report.

use std::path::PathBuf;

use anyhow::Context;
use corelet::words::count;
use corelet_cli::interrupt::Interrupt;
use corelet_cli::process::Outcome;
use corelet_cli::terminal::Terminal;

use crate::args::{Experiment, PaperArgs};
use crate::cell::Cell;
use crate::problem::Material;
use crate::series::{Series, Space};
use crate::sets::{Kind, Set};
use crate::settings::{Plan, Settings, settings};
use crate::store::{Found, Header, Store};
use crate::study::{Shown, Study};
use crate::work::{Ready, Work};
use crate::{document, work};

/// What every step below needs to know.
struct Run<'r> {
    args: &'r PaperArgs,
    seed: u64,
    terminal: &'r Terminal,
    interrupt: &'r Interrupt,
}

pub(crate) fn run(
    args: &PaperArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let run = Run { args, seed, terminal, interrupt };
    let folders = [args.out.clone(), run.cells_folder(), args.out.join("figures")];
    for folder in &folders {
        std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    }
    // Cells are kept as they come: from now on Ctrl-C has something to keep.
    interrupt.worth_writing();
    let asked = args.experiments();
    let mut studies = Vec::new();
    for experiment in Experiment::ALL {
        let study = if needs_cells(experiment, &asked)? {
            run.fill(experiment)?
        } else {
            run.recall(experiment, asked.contains(&experiment))?
        };
        match study {
            Filled::Done(study) => studies.push(*study),
            Filled::Absent => {}
            Filled::Interrupted => return Ok(Outcome::Interrupted),
        }
    }
    interrupt.writing();
    let written = document::write(&args.out, &studies, args.quick, seed)?;
    terminal.say(&written.summary);
    Ok(Outcome::Done)
}

/// How an experiment ended.
enum Filled {
    Done(Box<Study>),
    /// Nothing was asked of it, and nothing is there.
    Absent,
    Interrupted,
}

/// Whether an experiment has cells of its own that what was asked for needs.
fn needs_cells(experiment: Experiment, asked: &[Experiment]) -> anyhow::Result<bool> {
    if settings(experiment)?.data.is_empty() {
        return Ok(false);
    }
    for &other in asked {
        if other == experiment || settings(other)?.shows.contains(&experiment) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Run<'_> {
    fn cells_folder(&self) -> PathBuf {
        self.args.out.join("cells")
    }

    fn store_path(&self, experiment: Experiment) -> PathBuf {
        self.cells_folder().join(format!("{}.jsonl", experiment.name()))
    }

    fn header(&self, experiment: Experiment, plan: &Plan) -> Header {
        Header {
            experiment: experiment.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: self.seed,
            settings: plan.cell.clone(),
        }
    }

    /// Runs the cells of an experiment that are missing.
    fn fill(&self, experiment: Experiment) -> anyhow::Result<Filled> {
        let settings = settings(experiment)?;
        let plan = self.plan(&settings);
        let progress = self.terminal.progress(format!("{}: reading the data", experiment.name()));
        let (ready, missing) = self.ready(&settings)?;
        missing.iter().for_each(|line| self.terminal.warn(line));
        let path = self.store_path(experiment);
        let (store, found) = Store::open(&path, &self.header(experiment, &plan))?;
        if found == Found::Other {
            let old = path.with_extension("old");
            self.terminal.warn(&format!(
                "{} held cells of other settings, which are now in {}",
                path.display(),
                old.display()
            ));
        }
        let work = Work {
            name: experiment.name(),
            plan: &plan,
            data: &ready,
            seed: self.seed,
            progress: &progress,
            interrupt: self.interrupt,
        };
        let (store, done) = work.run(store)?;
        drop(progress);
        let planned = work::planned(&plan, &ready);
        let cells = store.into_cells();
        if !done && self.interrupt.asked() {
            self.terminal.warn(&format!(
                "interrupted: {} finished cells of {} ({} planned) are kept in {}; the same command goes on from there",
                count(cells.len()),
                experiment.name(),
                count(planned),
                path.display()
            ));
            return Ok(Filled::Interrupted);
        }
        let data = ready.into_iter().filter_map(shown).collect();
        let study = Study { experiment, settings, plan, seed: self.seed, cells, data, missing };
        Ok(Filled::Done(Box::new(study)))
    }

    /// What an earlier run has left of an experiment, for the report to be whole.
    fn recall(&self, experiment: Experiment, asked: bool) -> anyhow::Result<Filled> {
        let settings = settings(experiment)?;
        let plan = self.plan(&settings);
        let cells = Store::peek(&self.store_path(experiment), &self.header(experiment, &plan));
        let known: Vec<&str> = settings.data.iter().map(String::as_str).collect();
        let data = known.iter().filter_map(|name| self.recall_set(name, &cells)).collect::<Result<_, _>>()?;
        if cells.is_empty() && !asked {
            return Ok(Filled::Absent);
        }
        let missing = Vec::new();
        let study = Study { experiment, settings, plan, seed: self.seed, cells, data, missing };
        Ok(Filled::Done(Box::new(study)))
    }

    /// A data set of an earlier run; its material only where pictures are drawn from it.
    fn recall_set(&self, name: &str, cells: &[Cell]) -> Option<anyhow::Result<Shown>> {
        let set = Set::named(name)?;
        let source = cells.iter().find(|cell| cell.key.data == name)?.key.source.clone();
        let pictured = matches!(set.kind, Kind::GaussianMean | Kind::RadialBasis);
        let material = match set.source(self.args.data().as_deref()) {
            Ok(found) if pictured && found.name() == source => {
                match Material::load(&set, &found, self.seed, &mut |_| {}) {
                    Ok(material) => Some(material),
                    Err(error) => return Some(Err(error)),
                }
            }
            _ => None,
        };
        Some(Ok(Shown { set, source, material }))
    }

    /// The plan with what the flags change about it.
    fn plan(&self, settings: &Settings) -> Plan {
        let mut plan = if self.args.quick { settings.quick.clone() } else { settings.full.clone() };
        if let Some(trials) = self.args.trials() {
            plan.trials = plan.trials.min(trials);
        }
        if let Some(methods) = &self.args.methods {
            let kinds: Vec<Kind> =
                settings.data.iter().filter_map(|name| Set::named(name)).map(|set| set.kind).collect();
            let can_descend = plan.cell.descent.is_some();
            let applies = |series: &&Series| {
                kinds.iter().all(|&kind| has_space(kind, series.space()))
                    && (can_descend || !series.descends())
            };
            plan.methods = methods.iter().filter(applies).cloned().collect();
        }
        plan
    }

    /// The data sets that can be run, and why others cannot.
    fn ready(&self, settings: &Settings) -> anyhow::Result<(Vec<Ready>, Vec<String>)> {
        let folder = self.args.data();
        let (mut ready, mut missing) = (Vec::new(), Vec::new());
        for name in &settings.data {
            let set = Set::named(name).with_context(|| format!("{name:?} is no data set"))?;
            match set.source(folder.as_deref()) {
                Ok(source) => {
                    let mut warn = |warning: &str| self.terminal.warn(warning);
                    let material = Material::load(&set, &source, self.seed, &mut warn)?;
                    ready.push(Ready { name: name.clone(), source: source.name(), material });
                }
                Err(line) => missing.push(line),
            }
        }
        Ok((ready, missing))
    }
}

/// Whether the models of a kind of data have this embedding.
fn has_space(kind: Kind, space: Space) -> bool {
    match space {
        Space::Paper => true,
        Space::Hermite => matches!(kind, Kind::Regression(_)),
        Space::Exact => !matches!(kind, Kind::Regression(_)),
    }
}

fn shown(ready: Ready) -> Option<Shown> {
    let set = Set::named(&ready.name)?;
    Some(Shown { set, source: ready.source, material: Some(ready.material) })
}
