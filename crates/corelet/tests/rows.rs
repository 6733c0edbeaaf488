//! The six questions: rows that are held in parts answer with the bits of rows that are held whole.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use common::{count, observations, sign};
use corelet::coreset::{BuildOptions, select};
use corelet::data::{Bytes, Column, Columns, Dataset, DesignOptions, Source, Storage, Values};
use corelet::embed::{Choice, Recipe, embed};
use corelet::generate;
use corelet::model::{
    BuiltIn, Exponential, GaussianMean, Linear, Link, Logistic, Model, ModelError, Numbers, Poisson,
};
use corelet::posterior::{LaplaceSettings, Prior, laplace};
use corelet::random::Stream;
use corelet::rows::{
    All, At, Found, Gather, Gathered, Memory, Moments, Newton, Observations, Problem, Rows, RowsError, Top,
    Totals, Under, Weighted,
};
use corelet::trust::{Draws, evaluate, verdict};
use sparse_nnls::{Batch, Ranking, Score};

/// Rows of a block, which is what partial answers are merged by.
const BLOCK: usize = 1 << 16;

/// Rows held in parts, as the partitions of a cluster would hold them: each part answers, and answers are merged in order.
/// Every question and answer travels as text.
struct Parts(Vec<Memory>);

impl Parts {
    fn new(model: &dyn Model) -> Self {
        let ids: Vec<usize> = (0..model.len()).collect();
        let part =
            |ids: &[usize]| Memory::part(model.bind(model.observations().select(ids)).unwrap(), ids[0]);
        Self(ids.chunks(BLOCK).map(part).collect())
    }

    fn merged<A: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        ask: impl Fn(&Memory) -> Result<A, RowsError>,
        mut merge: impl FnMut(&mut A, A),
    ) -> Result<A, RowsError> {
        let mut answers = self.0.iter().map(|part| ask(part).map(|answer| travelled(&answer)));
        let mut first = answers.next().unwrap()?;
        for answer in answers {
            merge(&mut first, answer?);
        }
        Ok(first)
    }
}

/// What arrives on the other side of a wire.
fn travelled<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

impl Rows for Parts {
    fn len(&self) -> usize {
        self.0.iter().map(Memory::len).sum()
    }

    fn dim(&self) -> usize {
        self.0[0].dim()
    }

    fn name(&self) -> &'static str {
        self.0[0].name()
    }

    fn bind(&self, rows: Observations) -> Result<Arc<dyn Model>, ModelError> {
        self.0[0].bind(rows)
    }

    fn moments(&self) -> Result<Moments, RowsError> {
        self.merged(Memory::moments, |all, part| *all = all.merge(&part))
    }

    fn newton(&self, question: &At<'_>) -> Result<Newton, RowsError> {
        self.merged(|part| part.newton(question), |all, part| all.add(&part))
    }

    fn expect(&self, question: &Under<'_>) -> Result<Newton, RowsError> {
        self.merged(|part| part.expect(question), |all, part| all.add(&part))
    }

    fn gather(&self, question: &Gather) -> Result<Gathered, RowsError> {
        let question = travelled(question);
        self.merged(|part| part.gather(&question), |all, part| all.add(part, &question))
    }

    fn top(&self, question: &Top) -> Result<Found, RowsError> {
        let question = travelled(question);
        let counts: Vec<usize> = question.rankings.iter().map(|ranking| ranking.count).collect();
        self.merged(|part| part.top(&question), |all, part| all.merge(part, &counts))
    }

    fn totals(&self, question: &Totals<'_>) -> Result<Vec<f64>, RowsError> {
        self.merged(
            |part| part.totals(question),
            |all, part| all.iter_mut().zip(&part).for_each(|(all, part)| *all += part),
        )
    }

    fn fetch(&self, ids: &[usize]) -> Result<Observations, RowsError> {
        let mut rows = Observations::default();
        for &id in ids {
            let part = self.0.get(id / BLOCK).ok_or(RowsError::NoSuchRow { row: id, rows: self.len() })?;
            rows.append(&part.fetch(&[id])?);
        }
        Ok(rows)
    }
}

fn models(n: usize) -> Vec<Arc<dyn Model>> {
    let mut counts = observations(n, 3, 1, count);
    counts.exposure = Some((0..n).map(|i| 0.5 + (i % 5) as f64).collect());
    let number = |eta: f64, noise: f64| eta + noise;
    let weights: Vec<f64> = (0..n).map(|i| 0.5 + (i % 3) as f64).collect();
    let offset: Vec<f64> = (0..n).map(|i| 0.1 * (i % 4) as f64).collect();
    let beside = |rows: Observations| rows.with_weights(weights.clone()).with_offset(offset.clone());
    let identity: Vec<f64> = (0..9).map(|at| if at % 4 == 0 { 1.0 } else { 0.0 }).collect();
    vec![
        Arc::new(Logistic::model(observations(n, 3, 1, sign)).unwrap()),
        Arc::new(Poisson::model(counts, Link::Log).unwrap()),
        Arc::new(Linear::model(observations(n, 3, 2, number), 0.7).unwrap()),
        Arc::new(GaussianMean::new(observations(n, 3, 3, number), &identity).unwrap()),
        Arc::new(Logistic::model(beside(observations(n, 3, 1, sign))).unwrap()),
        Arc::new(
            Exponential::model(beside(observations(n, 3, 2, |eta, noise| (eta + noise).exp()))).unwrap(),
        ),
    ]
}

fn recipes(rows: &Memory, prior: &Prior) -> Vec<Recipe> {
    let posterior = laplace(&All(rows), prior, None, &LaplaceSettings::default()).unwrap().posterior;
    let shifts = posterior.shifts(20, 3, Stream::Build);
    let shared = Arc::new(posterior.clone());
    let draws = Recipe::Draws { anchor: posterior.mean, shifts: shifts.clone() };
    match rows.name() {
        "gaussian" => vec![draws, Recipe::GaussianMean { posterior: shared }],
        _ => vec![
            draws,
            Recipe::Hermite { posterior: Arc::clone(&shared), order: 2 },
            // A joint family has the orders 1 and 2.
            Recipe::Hermite {
                posterior: Arc::clone(&shared),
                order: if rows.model().joint().is_some() { 1 } else { 3 },
            },
            Recipe::HermiteDraws { posterior: shared, shifts },
        ],
    }
}

#[test]
fn every_question_has_the_same_answer_from_parts() {
    let n = 2 * BLOCK + 1234;
    let prior = Prior::isotropic(3, 1.0).unwrap();
    for model in models(n) {
        let (whole, parts) = (Memory::new(Arc::clone(&model)), Parts::new(&*model));
        assert_eq!((parts.0.len(), parts.len()), (3, n));
        assert_eq!(whole.moments(), parts.moments(), "{}", model.name());
        if model.name() != "gaussian" {
            for derivatives in 0..=2 {
                let at = At { theta: &[0.2, -0.1, 0.4], derivatives };
                assert_eq!(whole.newton(&at), parts.newton(&at), "{}", model.name());
            }
            if whole.dim() == 3 {
                let factor = [0.1, 0.0, 0.0, 0.02, 0.05, 0.0, -0.01, 0.03, 0.2];
                let under = Under { mean: &[0.2, -0.1, 0.4], factor: &factor };
                assert_eq!(whole.expect(&under), parts.expect(&under), "{}", model.name());
            }
        }
        let ids = [0, n - 1, 5, BLOCK, BLOCK - 1];
        assert_eq!(whole.fetch(&ids), parts.fetch(&ids));
        assert_eq!(whole.fetch(&[n]).unwrap_err(), RowsError::NoSuchRow { row: n, rows: n });
        for recipe in recipes(&whole, &prior) {
            let named = format!("{} {}", model.name(), recipe.name());
            let recipe = Arc::new(recipe);
            let gather = Gather { recipe: Arc::clone(&recipe), seed: 4, count: 50, apart: 70 };
            let gathered = whole.gather(&gather).unwrap();
            assert_eq!(gathered, parts.gather(&gather).unwrap(), "{named}");
            let rankings = [Score::Raw, Score::Absolute, Score::NormScaled, Score::Race { seed: 8 }];
            let rankings = rankings.map(|score| Ranking { score, count: 40 }).to_vec();
            let exclude: Vec<usize> = gathered.sample.ids.iter().copied().step_by(2).collect();
            for batch in [None, Some(Batch { seed: 2, fraction: 0.3 })] {
                let vectors = vec![gathered.sum.clone()];
                let top = Top {
                    recipe: Arc::clone(&recipe),
                    vectors,
                    rankings: rankings.clone(),
                    exclude: exclude.clone(),
                    batch,
                };
                assert_eq!(whole.top(&top).unwrap(), parts.top(&top).unwrap(), "{named}");
            }
        }
        let fit = laplace(&All(&whole), &prior, None, &LaplaceSettings::default()).unwrap().posterior;
        let shifts = fit.shifts(30, 1, Stream::HeldOut);
        for wide in [true, false] {
            let totals = Totals { anchor: &fit.mean, shifts: &shifts, wide };
            assert_eq!(whole.totals(&totals), parts.totals(&totals), "{}", model.name());
        }
    }
}

#[test]
fn a_whole_build_cannot_tell_where_the_rows_are() {
    let models = models(BLOCK + 4321);
    let prior = Prior::isotropic(3, 1.0).unwrap();
    let run = |rows: &dyn Rows| {
        let full = laplace(&All(rows), &prior, None, &LaplaceSettings::default()).unwrap();
        let embedding = embed(rows, &full.posterior, Choice::Auto, 12, 1).unwrap();
        let options = BuildOptions { k: 12, ..BuildOptions::default() };
        let coreset = select(&embedding, &options, &mut |_| ControlFlow::Continue(())).unwrap();
        let weighted = Weighted::fetch(rows, &coreset.rows, &coreset.weights).unwrap();
        let problem = Problem { rows, prior: &prior };
        let evaluation = evaluate(problem, Some(&full), None, &coreset.rows, &coreset.weights).unwrap();
        let own = weighted.fit(&prior).unwrap().posterior;
        let draws = Draws::from_gaussian(&weighted, &prior, &own, 500, 2).unwrap();
        let judged = verdict(rows, &prior, &weighted, &draws, 0).unwrap();
        (coreset.rows, coreset.weights, evaluation, judged)
    };
    for model in [&models[0], &models[4]] {
        assert!(run(&Memory::new(Arc::clone(model))) == run(&Parts::new(&**model)));
    }
}

/// The table of a model's observations, designed with all rows in memory, or none.
fn designed(memory: u64) -> Dataset {
    let mut table = generate::to_table(&generate::logistic(BLOCK + 4321, 4, 5), "rows").unwrap();
    for (name, step) in [("f", 0.5), ("o", 0.25)] {
        let values = (0..table.rows).map(|i| step * (1 + i % 7) as f64).collect();
        table
            .columns
            .push(Column { name: name.to_owned(), values: Values::Number { values, integer: false } });
    }
    let (weights, offset) = (Some("f".to_owned()), Some("o".to_owned()));
    let columns = Columns { weights, offset, ..Columns::predicting("y") };
    let options = DesignOptions { columns, ..DesignOptions::default() };
    let storage = Storage { memory: Some(Bytes(memory)), scratch: None };
    Source::of_table(table).design_watched(&options, &storage, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn rows_in_scratch_files_have_the_bits_of_rows_in_memory() {
    let (held, scratch) = (designed(u64::MAX).observations, designed(0).observations);
    assert!(held.features.is_in_memory() && held.target.is_in_memory());
    assert!(!scratch.features.is_in_memory() && !scratch.target.is_in_memory());
    assert!(held == scratch);
    let is_in_memory = |rows: &Observations| rows.weights.as_ref().unwrap().is_in_memory();
    assert!(is_in_memory(&held) && !is_in_memory(&scratch) && held.weight(8) == 1.0 && held.offset(8) == 0.5);
    for model in [BuiltIn::Logistic, BuiltIn::Linear, BuiltIn::Gaussian] {
        let numbers = Numbers { sigma: model.default_sigma(), ..Numbers::default() };
        let bound = |rows: &Observations| {
            let weights = rows.weights.clone().filter(|_| model.takes("weights"));
            let offset = rows.offset.clone().filter(|_| model.takes("offset"));
            Memory::new(model.bind(Observations { weights, offset, ..rows.clone() }, numbers).unwrap())
        };
        same_answers(&bound(&held), &bound(&scratch));
    }
    // Whoever changes rows of a scratch file has them in memory from then on.
    let mut changed = scratch.clone();
    changed.features[0] = 7.0;
    assert!(changed.features.is_in_memory() && !scratch.features.is_in_memory());
    assert_eq!(changed.features[1..], scratch.features[1..]);
}

fn same_answers(held: &Memory, scratch: &Memory) {
    let prior = Prior::isotropic(held.dim(), 1.0).unwrap();
    for recipe in recipes(held, &prior) {
        let recipe = Arc::new(recipe);
        let gather = Gather { recipe: Arc::clone(&recipe), seed: 4, count: 50, apart: 70 };
        let gathered = held.gather(&gather).unwrap();
        assert_eq!(gathered, scratch.gather(&gather).unwrap(), "{} {}", held.name(), recipe.name());
        let (vectors, exclude, batch) = (vec![gathered.sum], vec![3, 8], None);
        let rankings = vec![Ranking { score: Score::NormScaled, count: 40 }];
        let top = Top { recipe, vectors, rankings, exclude, batch };
        assert_eq!(held.top(&top).unwrap(), scratch.top(&top).unwrap(), "{}", held.name());
    }
}

#[test]
fn an_embedding_that_rows_do_not_have_is_an_error() {
    let models = models(200);
    let prior = Prior::isotropic(3, 1.0).unwrap();
    let rows = Memory::new(Arc::clone(&models[3]));
    let posterior = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap().posterior;
    let recipe = Arc::new(Recipe::Hermite { posterior: Arc::new(posterior), order: 2 });
    let error = rows.gather(&Gather { recipe, seed: 0, count: 0, apart: 0 }).unwrap_err();
    assert_eq!(error.to_string(), "the gaussian model has no hermite:2 embedding");
}
