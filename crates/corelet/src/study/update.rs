//! `update`: rows that arrive, joined to a coreset of rows that need no longer be there.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use sparse_nnls::Info;

use super::blocks::{Block, Blocks, Part};
use super::frame::Lineage;
use super::{BuildSpecification, Drawn, Frame, KeptCoreset, Listener, Progress, Study, StudyError, unheard};
use crate::coreset::{
    BuildError, BuildOptions, Multiples, RestChoice, RoundOptions, WrittenWeights, build_in_rounds,
};
use crate::data::{KeptRows, Standardisation};
use crate::embed::Description;
use crate::linalg::Cholesky;
use crate::model::TargetScale;
use crate::posterior::{Gaussian, Prior, SampleSettings};
use crate::random::Stream;
use crate::rows::{At, Beside, Counted, Memory, Observations, Problem, Rest, Rows};
use crate::trust::{Draws, Grade, TRUSTED_VARIANCE, Verdict, evaluate_with_rest};
use crate::words::{Judged, Seconds, Summary};

/// A coreset is rebuilt when it has this many times the points that it had when it was last built.
const MOST_GROWTH: usize = 2;

/// Points of a coreset that has hardly any, as one of a Gaussian, before it is built anew.
const FEWEST_POINTS: usize = 100;

/// The share of sd(Δ) that an A has left which one more block may take, so that ten more can follow.
const SHARE: f64 = 0.1;

/// The share of what an A allows that updates aim at: the rest is for Monte-Carlo error and for certificates that are carried far.
const AIM: f64 = 0.5;

/// The least V, in nats², that a block is built for: rounding is not to be chased.
const LEAST: f64 = 1e-8;

/// The settings of an update.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateSpecification {
    /// Whether a Gaussian may stand for new rows, beside weighted ones or in their place.
    pub rest: RestChoice,
    /// The chains.
    pub sample: SampleSettings,
    /// Whether rows may be added that look like some that are in already.
    pub allow_repeats: bool,
    /// Seed of everything random.
    pub seed: u64,
}

/// A coreset that represents earlier and new rows.
pub struct Updated {
    /// The rows that judged it: the weighted earlier rows and the new ones, or all rows if the earlier rows are available.
    pub study: Study,
    /// Its draws, with the verdict.
    pub drawn: Drawn,
    /// The places of its rows: of the coreset of before first, then of the new rows.
    pub rows: Vec<usize>,
    /// Weights of these rows.
    pub weights: WrittenWeights,
    /// The Gaussian part.
    pub rest: Option<Arc<Rest>>,
    /// The rows themselves, encoded.
    pub chosen: Observations,
    /// Its certificate.
    pub blocks: Blocks,
    /// Its summary.
    pub summary: Summary,
    /// Whether it was built anew from the weighted earlier rows and the new ones, since it had become too large.
    pub compressed: bool,
    /// The part of the bound on V that rests on earlier certificates: Σ sd(Δ) of the earlier blocks, squared, carried to this posterior. None if
    /// the earlier rows were available.
    pub carried: Option<f64>,
}

impl Updated {
    /// The coreset by itself.
    pub fn kept(&self) -> KeptCoreset {
        let Frame { encoding, levels, standardisation, .. } = self.study.frame();
        KeptCoreset {
            rows: Observations { weights: None, ..self.chosen.clone() },
            weights: self.weights.clone(),
            rest: self.rest.clone(),
            model: self.study.resolved().clone(),
            encoding: encoding.clone(),
            levels: levels.clone(),
            standardisation: standardisation.clone(),
            blocks: self.blocks.clone(),
        }
    }

    /// The metadata of its file.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn metadata(&self) -> serde_json::Result<BTreeMap<String, String>> {
        let (frame, model) = (self.study.frame(), self.study.resolved());
        let mut metadata = frame.metadata(&self.summary, model, self.rest.as_deref())?;
        metadata.extend([self.blocks.metadata()?]);
        Ok(metadata)
    }
}

impl Study {
    /// What certifies a coreset of so many points of these rows, by its draws where they were judged.
    pub fn blocks(&self, drawn: Option<&Drawn>, points: usize) -> Blocks {
        let draws = drawn.map(draws_of);
        let verdict = drawn.and_then(|drawn| drawn.verdict.as_ref());
        let Frame { fingerprint, marks, .. } = &self.frame;
        let part =
            Part { rows: self.all_rows(), fingerprint: Some(fingerprint.clone()), marks: marks.clone() };
        let file_rows = self.all_rows() + self.frame.lineage.dropped;
        Blocks::of_fit(part, file_rows, points, verdict.zip(draws.as_ref()))
    }
}

/// Points, their weights as written, and a Gaussian.
struct Points {
    rows: Vec<usize>,
    weights: WrittenWeights,
    rest: Option<Arc<Rest>>,
}

impl KeptCoreset {
    /// Adds rows, encoded like its own, to those that it represents; `earlier` are all of those, if available.
    ///
    /// The new rows are built under the posterior of both, joined, and where the coreset has become too large it is built anew from its
    /// own weighted rows and the new ones. Draws are judged on these; what is known of the earlier rows is their certificate.
    ///
    /// # Errors
    /// Rows that are in already, that are none, or that are not the earlier ones; and see [`StudyError`].
    pub fn update(
        &self,
        (source, new, file_rows): (&str, Observations, usize),
        earlier: Option<Observations>,
        asked: &UpdateSpecification,
        listener: &mut Listener<'_>,
    ) -> Result<Updated, StudyError> {
        let part = self.check_new(&new, asked.allow_repeats)?;
        if let Some(earlier) = &earlier {
            self.check_earlier(earlier)?;
        }
        let update = Update { kept: self, source, new: &new, asked };
        let union = update.union()?;
        union.full(listener)?;
        let (points, drawn, compressed) = update.best(&union, listener)?;
        let (study, drawn) = match earlier {
            Some(earlier) => update.on_all(&union, earlier, &points, listener)?,
            None => (union, drawn),
        };
        let draws = draws_of(&drawn);
        let judged = drawn.verdict.as_ref().map(|verdict| (verdict, &draws));
        let all = study.stand_ins == 0;
        let carried = (!all).then(|| self.blocks.carried_to(&draws).0.powi(2));
        let blocks = update.blocks(part, judged, (all, compressed), points.rows.len(), file_rows);
        let chosen = update.rows().select(&points.rows);
        let summary = update.summary(&study, &points, &chosen, &drawn)?;
        let Points { rows, weights, rest } = points;
        Ok(Updated { study, drawn, rows, weights, rest, chosen, blocks, summary, compressed, carried })
    }

    /// The rows are some, of the same kind, and not in already.
    fn check_new(&self, new: &Observations, allow_repeats: bool) -> Result<Part, StudyError> {
        if new.is_empty() {
            return Err(StudyError::NoNewRow);
        }
        let (fingerprint, marks) = new.identity();
        if !allow_repeats && let Some(repeat) = self.blocks.repeated(new, &fingerprint) {
            return Err(StudyError::AlreadyIn { which: repeat.worded(new.len()) });
        }
        Ok(Part { rows: new.len(), fingerprint: Some(fingerprint), marks: Some(marks) })
    }

    /// The rows are those that it stands for, in their order.
    fn check_earlier(&self, earlier: &Observations) -> Result<(), StudyError> {
        let (got, expected) = (earlier.len(), self.blocks.rows());
        if got != expected {
            let reason = format!("they are {got} rows, and the coreset represents {expected}");
            return Err(StudyError::NotEarlier { reason });
        }
        let mut first = 0;
        for part in self.blocks.parts() {
            let ids: Vec<usize> = (first..first + part.rows).collect();
            let differs = |known: &String| *known != earlier.select(&ids).fingerprint();
            if part.fingerprint.as_ref().is_some_and(differs) {
                let reason = format!(
                    "rows {first} to {} are others than those that were added, or in another order",
                    first + part.rows - 1
                );
                return Err(StudyError::NotEarlier { reason });
            }
            first += part.rows;
        }
        Ok(())
    }
}

/// One update.
struct Update<'a> {
    kept: &'a KeptCoreset,
    source: &'a str,
    new: &'a Observations,
    asked: &'a UpdateSpecification,
}

impl Update<'_> {
    /// The coreset's rows with their weights, then the new ones.
    fn rows(&self) -> Observations {
        let own = self.new.weights.as_ref().map_or_else(|| vec![1.0; self.new.len()], |own| own.to_vec());
        let mut rows = self.kept.rows.clone().with_weights(self.kept.weights.values().to_vec());
        rows.append(&self.new.clone().with_weights(own));
        rows
    }

    /// Points of the coreset when it was last built.
    fn reference(&self) -> usize {
        self.kept.blocks.points.max(FEWEST_POINTS)
    }

    /// The weighted rows of the coreset, its Gaussian, and the new rows.
    fn union(&self) -> Result<Study, StudyError> {
        self.study(self.rows(), self.kept.rest.clone(), self.kept.rows.len())
    }

    /// These rows under the model of the coreset, of which the first `stand_ins` stand for others.
    fn study(
        &self,
        rows: Observations,
        rest: Option<Arc<Rest>>,
        stand_ins: usize,
    ) -> Result<Study, StudyError> {
        let KeptCoreset { model, encoding, levels, standardisation, blocks, .. } = self.kept;
        let classes = encoding.classes();
        let (target, each) = (TargetScale::of(&rows), rows.total_weight() / rows.len().max(1) as f64);
        let frame = Frame {
            source: self.source.to_owned(),
            names: model.names(&encoding.names, &classes),
            features: encoding.names.len(),
            rows: KeptRows::all(rows.len()),
            lineage: Lineage { collapsed: Some(blocks.rows() + self.new.len()), ..Lineage::default() },
            levels: levels.clone(),
            standardisation: Standardisation::clone(standardisation),
            target: None,
            fingerprint: rows.fingerprint(),
            marks: None,
            classes,
            encoding: encoding.clone(),
        };
        let memory: Box<dyn Rows> = Box::new(Memory::new(model.bind(rows)?));
        let held = match rest {
            Some(rest) => Box::new(Beside::new(memory, rest)?),
            None => memory,
        };
        Ok(Study {
            frame,
            prior: model.prior()?,
            model: model.clone(),
            rows: Counted::new(held),
            priors_given: true,
            target,
            weight: Some(each),
            known: Vec::new(),
            warnings: Vec::new(),
            read_seconds: 0.0,
            full: OnceLock::new(),
            stand_ins,
            elsewhere: None,
        })
    }

    /// V in nats² that the new block may have: a tenth of what is left to sd(Δ).
    fn aim(&self, union: &Study) -> Result<f64, StudyError> {
        let under = &union.full(&mut unheard)?.posterior;
        let shifts = under.shifts(1000, self.asked.seed, Stream::Verdict);
        let draw = |s: usize| under.mean.iter().zip(shifts.row(s)).map(|(mean, shift)| mean + shift);
        let theta = (0..1000).flat_map(draw).collect();
        let draws = Draws { theta, dim: under.dim(), chains: None, log_weights: None };
        let left = AIM * TRUSTED_VARIANCE.sqrt() - self.kept.blocks.carried_to(&draws).0;
        Ok((SHARE * left).max(0.0).powi(2).max(LEAST))
    }

    /// The coreset joined with the new block, or built anew where that has become too large and does as well; sampled and judged.
    fn best(&self, union: &Study, listener: &mut Listener<'_>) -> Result<(Points, Drawn, bool), StudyError> {
        let joined = self.joined(union, listener)?;
        if joined.rows.len() <= MOST_GROWTH * self.reference() {
            let drawn = self.judged(union, &joined, listener)?;
            return Ok((joined, drawn, false));
        }
        if let Some(anew) = self.anew(union, listener)? {
            let drawn = self.judged(union, &anew, listener)?;
            if drawn.grade() == Some(Grade::A) {
                return Ok((anew, drawn, true));
            }
        }
        let drawn = self.judged(union, &joined, listener)?;
        Ok((joined, drawn, false))
    }

    /// Draws, judged on the union, with the certificates of the earlier blocks carried there.
    fn judged(
        &self,
        union: &Study,
        points: &Points,
        listener: &mut Listener<'_>,
    ) -> Result<Drawn, StudyError> {
        let weighted = union.weighted_with_rest(&points.rows, &points.weights, points.rest.as_ref())?;
        let mut drawn = union.sample(Some(&weighted), &self.asked.sample, self.asked.seed, listener)?;
        let draws = draws_of(&drawn);
        drawn.verdict = drawn.verdict.map(|step| self.kept.blocks.certify(step, &draws));
        Ok(drawn)
    }

    /// The coreset and a block for the new rows: more and more points, until V is what it may be.
    fn joined(&self, union: &Study, listener: &mut Listener<'_>) -> Result<Points, StudyError> {
        let most = self.reference();
        let aim = self.aim(union)?;
        let mut k = (most / 4).max(1);
        loop {
            if self.new.len() <= k {
                let all: Vec<usize> = (0..self.new.len()).collect();
                return Ok(self.beside(&all, &vec![1.0; all.len()].into(), None));
            }
            let (rows, weights, rest, variance) = self.block(union, k, aim, listener)?;
            if variance.is_none_or(|variance| variance <= aim) || k >= most {
                return Ok(self.beside(&rows, &weights, rest.as_deref()));
            }
            k = most.min(2 * k);
        }
    }

    /// The coreset with some of the new rows, whose weights are multiples of their own, and a Gaussian for the others.
    fn beside(&self, rows: &[usize], multiples: &Multiples, rest: Option<&Rest>) -> Points {
        let first = self.kept.rows.len();
        let new =
            rows.iter().zip(multiples).map(|(&row, multiple)| (first + row, multiple * self.new.weight(row)));
        let old = self.kept.weights.values().iter().copied().enumerate();
        let (rows, weights): (_, Vec<f64>) = old.chain(new.filter(|(_, weight)| *weight > 0.0)).unzip();
        let rest = match (&self.kept.rest, rest) {
            (Some(old), Some(new)) => Some(Arc::new(old.plus(new))),
            (old, new) => old.clone().or_else(|| new.cloned().map(Arc::new)),
        };
        Points { rows, weights: weights.into(), rest }
    }

    /// Whether a Gaussian may stand beside rows: always, where one does already.
    fn rest(&self) -> RestChoice {
        match (&self.kept.rest, self.asked.rest) {
            (None, RestChoice::None) => RestChoice::None,
            _ => RestChoice::Gaussian,
        }
    }

    /// A coreset of the new rows alone, under the posterior of both: for the build, the coreset is a Gaussian prior.
    fn block(
        &self,
        union: &Study,
        k: usize,
        aim: f64,
        listener: &mut Listener<'_>,
    ) -> Result<BlockOf, StudyError> {
        let _ = listener(Progress::Embedding);
        let joint = union.full(&mut unheard)?.posterior.rounded();
        let rows = Counted::new(Box::new(Memory::new(self.kept.model.bind(self.new.clone())?)));
        let prior = self.without_new(&joint, &rows)?;
        let build = |rest: RestChoice, listener: &mut Listener<'_>| {
            let options =
                BuildOptions { k, seed: self.asked.seed, rest, enough: Some(aim), ..BuildOptions::default() };
            let problem = Problem { rows: &rows, prior: &prior };
            let mut callback =
                |info: &Info| listener(Progress::Choosing { info, run: (1, 1), method: &options.method });
            build_in_rounds(problem, &joint, &options, &RoundOptions::default(), &mut callback)
        };
        let built = match build(self.rest(), listener) {
            Err(BuildError::NoGaussian) => build(RestChoice::None, listener),
            built => built,
        }?;
        let variance = built.rounds.get(built.chosen).and_then(|round| round.variance);
        Ok((built.coreset.rows, built.coreset.weights, built.coreset.rest, variance))
    }

    /// The Gaussian that the curvature of the new rows makes the joint posterior of: what is left of its precision without them.
    fn without_new(&self, joint: &Gaussian, rows: &Counted) -> Result<Prior, StudyError> {
        let newton = rows.newton(&At { theta: &joint.mean, derivatives: 2 })?;
        let precision: Vec<f64> = joint.precision.iter().zip(&newton.hessian).map(|(p, h)| p + h).collect();
        let Ok(cholesky) = Cholesky::new(&precision, joint.dim()) else {
            // The new rows bend more than all together, as where a log-likelihood is not concave.
            return Ok(Prior::new(joint.mean.clone(), joint.precision.clone())?);
        };
        // At the joint mode the slopes of the two cancel.
        let mut step = newton.gradient;
        cholesky.solve(&mut step);
        let mean = joint.mean.iter().zip(&step).map(|(mean, step)| mean - step).collect();
        Ok(Prior::new(mean, precision)?)
    }

    /// A coreset of the coreset's weighted rows and the new ones, as large as it was when it was last built.
    fn anew(&self, union: &Study, listener: &mut Listener<'_>) -> Result<Option<Points>, StudyError> {
        let asked = BuildSpecification {
            k: Some(self.reference().min(union.len())),
            seed: self.asked.seed,
            rest: self.rest(),
            ..BuildSpecification::default()
        };
        let chosen = match union.build(&asked, listener) {
            Err(StudyError::Build(BuildError::NoGaussian)) => return Ok(None),
            chosen => chosen?,
        };
        Ok(chosen.map(|chosen| {
            let coreset = chosen.coreset();
            Points { rows: coreset.rows.clone(), weights: chosen.weights.clone(), rest: coreset.rest.clone() }
        }))
    }

    /// With the earlier rows at hand: judged on all rows, whatever was certified before.
    fn on_all(
        &self,
        union: &Study,
        mut all: Observations,
        points: &Points,
        listener: &mut Listener<'_>,
    ) -> Result<(Study, Drawn), StudyError> {
        all.append(self.new);
        let study = self.study(all, None, 0)?;
        study.full(listener)?;
        let weighted = union.weighted_with_rest(&points.rows, &points.weights, points.rest.as_ref())?;
        let drawn = study.sample(Some(&weighted), &self.asked.sample, self.asked.seed, listener)?;
        Ok((study, drawn))
    }

    /// What tells all rows from others: the earlier ones in the order in which they came, then the new ones.
    fn fingerprint(&self) -> Option<String> {
        let before = &self.kept.blocks;
        self.new.fingerprint_after(before.fingerprint()?, before.rows())
    }

    /// What certifies the coreset now.
    fn blocks(
        &self,
        part: Part,
        judged: Option<(&Verdict, &Draws)>,
        (all, compressed): (bool, bool),
        points: usize,
        file_rows: usize,
    ) -> Blocks {
        let before = &self.kept.blocks;
        let file_rows = before.file_rows + file_rows;
        let whole = self.fingerprint();
        if all {
            let parts = before.parts().cloned().chain([part]).collect();
            return Blocks { blocks: vec![Block::judged(parts, judged)], file_rows, points, whole };
        }
        let mut block = Block::judged(vec![part], judged);
        // The bound of the verdict is that of all blocks together; that of this one is what it has beyond those before.
        if let Some((_, draws)) = judged {
            block.sd = (block.sd - before.carried_to(draws).0).max(0.0);
        }
        let blocks = before.blocks.iter().cloned().chain([block]).collect();
        Blocks { blocks, file_rows, points: if compressed { points } else { before.points }, whole }
    }

    /// What is said of it, with the divergence by its own draws.
    fn summary(
        &self,
        study: &Study,
        points: &Points,
        chosen: &Observations,
        drawn: &Drawn,
    ) -> Result<Summary, StudyError> {
        let rest = points.rest.as_ref();
        // No likelihood is one of no rows: a Gaussian alone is looked at beside a row that has no weight.
        let known = if chosen.is_empty() { self.new.select(&[0]) } else { chosen.clone() };
        let rows = Memory::new(study.model.bind(known)?);
        let ids: Vec<usize> = (0..chosen.len()).collect();
        let weights = vec![1.0; chosen.len()];
        let problem = Problem { rows: &rows, prior: &study.prior };
        let evaluation = evaluate_with_rest(problem, None, None, (&ids, &weights), rest)?;
        let name = if points.rest.is_some() { "gaussian" } else { "rows" };
        let embedding = Description { name: name.to_owned(), coordinates: 0, tail: 0.0 };
        let variance = drawn.verdict.as_ref().map_or(f64::NAN, |verdict| verdict.divergence.variance);
        let judged = Judged {
            embedding: &embedding,
            residual: variance.max(0.0).sqrt(),
            weights: &points.weights,
            seed: self.asked.seed,
        };
        let summary = Summary::of_file(&study.subject(), &judged, &evaluation, Seconds::default());
        let count = drawn.verdict.as_ref().map_or(0, |verdict| verdict.draws);
        let total = self.kept.blocks.rows() + self.new.len();
        Ok(summary
            .with_rest(rest.is_some(), 0)
            .judged_on_own(0.5 * variance, count)
            .of_update(total, self.fingerprint()))
    }
}

/// The rows of a block, the multiples of their weights, a Gaussian, and V by draws of a Gaussian fit.
type BlockOf = (Vec<usize>, Multiples, Option<Arc<Rest>>, Option<f64>);

/// What was drawn, as the verdict has it.
fn draws_of(drawn: &Drawn) -> Draws {
    Draws::from_chains(&drawn.chains, 4000)
}
